"""Draw ladder.svg: bytes per second per GPU, from memory to shared storage."""

from aiinfra.diagram import NORMAL, Diagram, LogScale
from aiinfra.registry import hardware, link, model

# Llama 3 herd (arXiv:2407.21783), sections 3.3.1 and table 4.
STORAGE_BYTES_PER_S = 2e12  # whole file system; registry: exempt, not a memory's
GPUS = 16_384
FLOPS_PER_GPU = 400e12  # achieved, BF16
BYTES_PER_TOKEN = 4  # a 128,256-word vocabulary does not fit two bytes


def rate_name(rate: float) -> str:
    """A rate in the largest decimal unit that leaves a number >= 1."""
    for unit, size in (("GB/s", 1e9), ("MB/s", 1e6), ("kB/s", 1e3)):
        if rate >= size:
            return f"{rate / size:,.0f} {unit}"
    return f"{rate:,.0f} B/s"


def main() -> None:
    llama = model("Llama 3 405B")
    tokens_per_s = GPUS * FLOPS_PER_GPU / (6 * llama.parameters)
    steps = [
        ("its own memory (H100 SXM)", hardware("H100 SXM").memory_bytes_per_s, "blue"),
        ("its neighbours (NVLink 4)", link("NVLink 4").one_way_bytes_per_s, "blue"),
        ("its host (PCIe 5 x16)", link("PCIe 5 x16").one_way_bytes_per_s, "blue"),
        ("its network card (NDR)", link("InfiniBand NDR").one_way_bytes_per_s, "blue"),
        ("its share of shared storage", STORAGE_BYTES_PER_S / GPUS, "vermilion"),
        ("the text it trains on", tokens_per_s * BYTES_PER_TOKEN / GPUS, "green"),
    ]
    checkpoint = 12 * llama.parameters
    d = Diagram(
        "ladder",
        360,
        402,
        title="Bytes per second of one GPU, from its memory to shared storage",
        description=(
            "Horizontal bars on a logarithmic scale: "
            + "; ".join(f"{name}, {rate_name(rate)}" for name, rate, _ in steps)
            + f". A checkpoint of {checkpoint / 1e12:.2f} TB at the whole file "
            f"system's rate takes at least {checkpoint / STORAGE_BYTES_PER_S:.1f} s."
        ),
    )
    d.text(8, 18, "Bytes per second of one GPU, one way", size=NORMAL, bold=True)
    d.text(8, 36, "each step of the scale is ×10")
    x = LogScale(100, 1e13, 8, 350)
    for i, (name, rate, colour) in enumerate(steps):
        top = 52 + 47 * i
        d.text(8, top + 13, name)
        d.text(350, top + 13, rate_name(rate), anchor="end", bold=True)
        for tick in x.decades():
            d.line(x(tick), top + 19, x(tick), top + 33, width=1, faint=True)
        d.bar(8, top + 19, x(rate) - 8, 14, colour)
    d.text(8, 358, f"Llama 3 405B on {GPUS:,} GPUs saves {checkpoint / 1e12:.2f} TB")
    seconds = checkpoint / STORAGE_BYTES_PER_S
    hours = checkpoint / link("Ethernet 1G").one_way_bytes_per_s / 3600
    d.text(8, 376, f"(12 B a parameter): at least {seconds:.1f} s at 2 TB/s,")
    d.text(8, 394, f"{hours:.1f} hours over one Ethernet 1G cable.")
    d.save(__file__)


if __name__ == "__main__":
    main()
