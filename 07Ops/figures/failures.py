"""Draw failures.svg: mean time between failures against the number of GPUs."""

from aiinfra.diagram import NORMAL, Diagram, LogScale

# Llama 3 herd (arXiv:2407.21783), section 3.3.4: one job on 16,384 H100s.
LLAMA3_FAILURES, LLAMA3_DAYS, LLAMA3_GPUS = 419, 54, 16_384
# Kokolis et al. (arXiv:2410.21680): RSC-1, A100 nodes of 8.
RSC1_PER_NODE_DAY, GPUS_PER_NODE = 6.50e-3, 8


def main() -> None:
    hours = LLAMA3_DAYS * 24 / LLAMA3_FAILURES
    gpu_hours = hours * LLAMA3_GPUS
    rsc1_gpu_hours = 24 * GPUS_PER_NODE / RSC1_PER_NODE_DAY
    d = Diagram(
        "failures",
        360,
        388,
        title="Mean time between failures of a job, against its GPUs",
        description=(
            "Hours against the number of GPUs, both logarithmic: two straight lines, "
            "falling tenfold for ten times the GPUs. "
            f"Llama 3: {LLAMA3_FAILURES} unexpected interruptions in {LLAMA3_DAYS} "
            f"days on {LLAMA3_GPUS:,} GPUs, one every {hours:.2f} hours; at "
            f"100,000 GPUs that is {gpu_hours / 1e5 * 60:.0f} minutes, and "
            f"{gpu_hours / 8760:.1f} years for one GPU. RSC-1's published rate gives "
            f"{rsc1_gpu_hours / LLAMA3_GPUS:.1f} hours at {LLAMA3_GPUS:,} GPUs."
        ),
    )
    x = LogScale(8, 2e5, 62, 350)
    y = LogScale(0.1, 1e4, 330, 50)
    d.text(8, 18, "Mean time between failures of a job", size=NORMAL, bold=True)
    d.text(8, 36, "if each GPU fails independently of the others")
    ticks = (
        (0.1, "6 min"),
        (1, "1 h"),
        (10, "10 h"),
        (24 * 7, "1 week"),
        (8760, "1 year"),
    )
    for tick, name in ticks:
        d.line(62, y(tick), 350, y(tick), width=1, faint=True)
        d.text(56, y(tick) + 4, name, anchor="end")
    sizes = {8: "8", 128: "128", 1024: "1,024", LLAMA3_GPUS: "16,384", 1e5: "100k"}
    for tick, name in sizes.items():
        d.line(x(tick), 330, x(tick), 335, width=1)
        d.text(x(tick), 350, name, anchor="middle")
    d.line(62, 330, 350, 330, width=1)
    d.text(206, 376, "GPUs in the job", anchor="middle")
    for life, colour in ((gpu_hours, "blue"), (rsc1_gpu_hours, "vermilion")):
        d.line(62, y(life / 8), 350, y(life / 2e5), colour=colour, width=3)
    d.dot(x(LLAMA3_GPUS), y(hours), "orange")
    d.text(x(LLAMA3_GPUS) + 8, y(hours) - 10, f"{hours:.1f} h", anchor="start")
    d.dot(x(1e5), y(gpu_hours / 1e5), "blue")
    minutes = f"{gpu_hours / 1e5 * 60:.0f} min"
    d.text(352, y(gpu_hours / 1e5) - 24, minutes, anchor="end")
    d.text(x(300), y(gpu_hours / 300) - 12, "Llama 3's rate")
    d.text(x(150), y(rsc1_gpu_hours / 150) + 26, "RSC-1's rate", anchor="end")
    d.save(__file__)


if __name__ == "__main__":
    main()
