"""Draw distance.svg: one-way bandwidth per chip at three distances."""

from aiinfra.diagram import NORMAL, Diagram
from aiinfra.registry import hardware, link

CHIP, SERVER, FABRIC = "H100 SXM", "NVLink 4", "InfiniBand NDR"
PORTS = 64  # of one switch; three tiers of them join PORTS**3 / 4 hosts
GB = 1e9


def main() -> None:
    rates = [
        hardware(CHIP).memory_bytes_per_s,
        link(SERVER).one_way_bytes_per_s,
        link(FABRIC).one_way_bytes_per_s,
    ]
    hosts = PORTS**3 // 4
    d = Diagram(
        "distance",
        360,
        446,
        title="What one chip can move per second, one way, by distance",
        description=(
            f"Three steps away from an {CHIP}. Its own memory: {rates[0] / GB:,.0f} "
            f"GB/s. The other chips of its server over {SERVER}: {rates[1] / GB:.0f} "
            f"GB/s. Up to {hosts:,} network ports through three tiers of {PORTS}-port "
            f"switches over {FABRIC}: {rates[2] / GB:.0f} GB/s. Bars drawn to scale."
        ),
    )
    d.text(8, 18, "GB/s that one chip can move, one way", size=NORMAL, bold=True)
    names = [
        ("Its own memory", f"HBM of one {CHIP}"),
        ("Its server: 8 chips", SERVER),
        (f"The hall: {hosts:,} ports", FABRIC),
    ]
    tops = [34, 152, 270]
    for (name, medium), rate, top, colour in zip(
        names, rates, tops, ("blue", "green", "vermilion"), strict=True
    ):
        digits = ".2" if rate > 1e12 else ".1"
        d.text(144, top + 18, name, size=NORMAL, bold=True)
        d.text(144, top + 36, medium)
        d.bar(144, top + 46, 206 * rate / rates[0], 14, colour)
        d.text(144, top + 79, f"{rate / GB:,.0f} GB/s")
        d.text(350, top + 79, f"1 GB in {GB / rate * 1e3:{digits}f} ms", anchor="end")

    d.box(30, 50, 76, 60, "chip", colour="blue")
    d.box(40, 90, 56, 14, colour="sky", radius=2)
    for i in range(8):
        d.box(12 + 29 * (i % 4), 170 + 52 * (i // 4), 22, 22, colour="blue")
    d.box(12, 200, 109, 14, colour="green", radius=2)
    for i in range(8):
        px = 23 + 29 * (i % 4)
        (y1, y2) = (192, 200) if i < 4 else (214, 222)
        d.line(px, y1, px, y2, width=1.5)
    spines, leaves = (42, 91), (20, 51, 82, 113)
    for spine in spines:
        for leaf in leaves:
            d.line(spine, 306, leaf, 326, width=1)
    for leaf in leaves:
        d.line(leaf, 338, leaf - 7, 352, width=1)
        d.line(leaf, 338, leaf + 7, 352, width=1)
        d.box(leaf - 11, 326, 22, 12, colour="orange", radius=2)
        d.box(leaf - 12, 352, 10, 10, colour="blue", radius=1)
        d.box(leaf + 2, 352, 10, 10, colour="blue", radius=1)
    for spine in spines:
        d.box(spine - 15, 294, 30, 12, colour="orange", radius=2)

    d.line(8, 376, 352, 376, width=1, faint=True)
    d.text(8, 398, f"Memory to server: {rates[0] / rates[1]:.1f}× less.")
    d.text(8, 417, f"Server to hall: {rates[1] / rates[2]:.0f}× less.")
    d.text(8, 436, "Every figure per chip and one way.")
    d.save(__file__)


if __name__ == "__main__":
    main()
