"""Draw roofline.svg: what an H100 SXM can attain, against FLOP per byte."""

from aiinfra.diagram import NORMAL, Diagram, LogScale
from aiinfra.registry import hardware

CHIP = "H100 SXM"
WIDTH = 4096  # of the square weight matrix in the worked points
BYTES = 2  # per bf16 number


def intensity(rows: int) -> float:
    """FLOP per byte of [rows, 4096] times [4096, 4096], each matrix moved once."""
    flops = 2 * rows * WIDTH * WIDTH
    moved = BYTES * (WIDTH * WIDTH + 2 * rows * WIDTH)
    return flops / moved


def main() -> None:
    chip = hardware(CHIP)
    peak, rate = chip.bf16_dense_flops, chip.memory_bytes_per_s
    ridge = peak / rate
    rows = {1: "1 row", 64: "64 rows", 1024: "1,024 rows"}
    attained = {r: min(peak, rate * intensity(r)) / 1e12 for r in rows}

    d = Diagram(
        "roofline",
        360,
        372,
        title=f"Roofline of one {CHIP} in bf16",
        description=(
            "Attainable TFLOP/s against FLOP per byte, both logarithmic. The line "
            f"rises with the memory bandwidth and turns flat at {ridge:.0f} FLOP/B, "
            f"at {peak / 1e12:.0f} TFLOP/s. A product of 1 row with a "
            f"{WIDTH} by {WIDTH} matrix attains {attained[1]:.1f} TFLOP/s, 64 rows "
            f"{attained[64]:.0f}, 1,024 rows {attained[1024]:.0f}."
        ),
    )
    x = LogScale(0.5, 4096, 46, 350)
    y = LogScale(1, 2000, 316, 50)

    d.text(8, 18, "TFLOP/s that one chip can attain", size=NORMAL, bold=True)
    d.text(8, 36, f"{CHIP}, bf16, dense")
    for tick in y.decades():
        d.line(46, y(tick), 350, y(tick), width=1, faint=True)
        d.text(40, y(tick) + 4, f"{tick:,.0f}", anchor="end")
    for tick in (1, 10, 100, 1000):
        d.line(x(tick), 316, x(tick), 321, width=1)
        d.text(x(tick), 336, f"{tick:,}", anchor="middle")
    d.line(46, 316, 350, 316, width=1)
    d.text(198, 360, "FLOP per byte moved from memory", anchor="middle")

    d.line(x(ridge), y(peak / 1e12), x(ridge), 316, dashed=True, width=1)
    d.text(x(ridge) - 6, 308, "waiting for bytes", anchor="end")
    d.text(x(ridge) + 6, 276, "busy with", anchor="start")
    d.text(x(ridge) + 6, 292, "arithmetic", anchor="start")
    d.text(x(ridge) + 6, 308, f"> {ridge:.0f}", anchor="start")
    d.path(
        [
            (x(0.5), y(0.5 * rate / 1e12)),
            (x(ridge), y(peak / 1e12)),
            (350, y(peak / 1e12)),
        ],
        colour="blue",
        width=3,
    )
    for r, name in rows.items():
        px, py = x(intensity(r)), y(attained[r])
        d.dot(px, py, "orange")
        label = f"{name}: {attained[r]:.3g}"
        if r == 1:
            d.text(px + 12, py + 9, label)
        elif r < 1024:
            d.text(px - 12, py - 1, label, anchor="end")
        else:
            d.text(px, py - 12, label, anchor="middle")
    d.save(__file__)


if __name__ == "__main__":
    main()
