"""Draw all_reduce.svg: time of a ring all-reduce against message size, three links."""

from aiinfra.comm import ring_all_reduce_s
from aiinfra.diagram import NORMAL, Diagram, LogScale
from aiinfra.registry import link

RANKS = 8
LINKS = {
    "Ethernet 1G": "vermilion",
    "InfiniBand NDR": "green",
    "NVLink 4": "blue",
}


def main() -> None:
    x = LogScale(1e3, 1e10, 62, 350)
    y = LogScale(1e-5, 1e3, 340, 50)
    sizes = [10 ** (3 + 7 * i / 28) for i in range(29)]
    knees = {}
    d_points = {}
    for name in LINKS:
        alpha_s, rate = link(name).latency_s, link(name).one_way_bytes_per_s
        # 2(N-1)*alpha = 2(N-1)/N * n_bytes / rate at the knee
        knees[name] = RANKS * alpha_s * rate
        d_points[name] = [
            (n, ring_all_reduce_s(n, RANKS, alpha_s, rate)) for n in sizes
        ]
    listed = ", ".join(f"{name} {size / 1e3:,.0f} kB" for name, size in knees.items())
    d = Diagram(
        "all_reduce",
        360,
        396,
        title=f"Time of one ring all-reduce over {RANKS} ranks",
        description=(
            "Seconds against message size, both logarithmic, for three links. Each "
            "curve is flat while latency dominates and rises in proportion to the "
            f"size once bandwidth does. The two costs are equal at: {listed}."
        ),
    )
    d.text(8, 18, f"Time of one all-reduce, ring of {RANKS}", size=NORMAL, bold=True)
    d.text(8, 36, "dot: latency and bandwidth cost the same")
    ticks = ("10 µs", "1 ms", "0.1 s", "10 s", "1,000 s")
    for tick, name in zip(y.decades(2), ticks, strict=True):
        d.line(62, y(tick), 350, y(tick), width=1, faint=True)
        d.text(56, y(tick) + 4, name, anchor="end")
    for tick, name in ((1e3, "1 kB"), (1e6, "1 MB"), (1e9, "1 GB")):
        d.line(x(tick), 340, x(tick), 345, width=1)
        d.text(x(tick), 361, name, anchor="middle")
    d.line(62, 340, 350, 340, width=1)
    d.text(206, 386, "bytes to be summed, per rank", anchor="middle")
    for name, colour in LINKS.items():
        d.path([(x(n), y(t)) for n, t in d_points[name]], colour=colour, width=3)
        alpha_s, rate = link(name).latency_s, link(name).one_way_bytes_per_s
        knee = knees[name]
        d.dot(x(knee), y(ring_all_reduce_s(knee, RANKS, alpha_s, rate)), colour)
    n, t = d_points["Ethernet 1G"][18]
    d.text(x(n) - 10, y(t), "Ethernet 1G", anchor="end")
    n, t = d_points["InfiniBand NDR"][0]
    d.text(x(n) + 6, y(t) - 6, "InfiniBand NDR")
    n, t = d_points["NVLink 4"][0]
    d.text(x(n) + 6, y(t) + 20, "NVLink 4")
    d.save(__file__)


if __name__ == "__main__":
    main()
