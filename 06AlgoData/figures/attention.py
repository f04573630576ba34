"""Which query heads read which cached keys and values, in four kinds of attention.

``06AlgoData/03-attention`` shows it.
"""

from aiinfra.diagram import Diagram

HEADS = 8  # query heads of a row
LEFT, STEP = 124, 29


def sharing() -> Diagram:
    """Multi-head, grouped, multi-query and latent attention, one below the other."""
    d = Diagram(
        "attention-sharing",
        360,
        350,
        title="Who shares keys and values",
        description="Eight query heads. In multi-head attention each has a key-value "
        "head of its own, in grouped-query attention four share one, in multi-query "
        "attention all eight share one. In latent attention all eight read one "
        "compressed vector, through matrices of their own.",
    )
    d.text(LEFT, 16, "query heads", bold=True)
    rows = (
        ("multi-head", "8 keys, 8 values", 8),
        ("grouped, 2", "2 keys, 2 values", 2),
        ("multi-query", "1 key, 1 value", 1),
        ("latent", "1 short vector", 0),
    )
    for i, (name, cached, kv_heads) in enumerate(rows):
        y = 26 + 82 * i
        d.text(4, y + 17, name, bold=True)
        d.text(4, y + 51, cached)
        for h in range(HEADS):
            d.box(LEFT + STEP * h, y, 23, 23, colour="blue")
        n = kv_heads or 1
        width = (STEP * HEADS // n - 6) if kv_heads else 72
        for g in range(n):
            x = LEFT + STEP * HEADS / n * g if kv_heads else LEFT + 77
            colour = "orange" if kv_heads else "green"
            d.box(x, y + 39, width, 18, colour=colour, dashed=not kv_heads)
        for h in range(HEADS):
            top = LEFT + STEP * h + 11.5
            group = h * n // HEADS
            low = LEFT + STEP * HEADS / n * group
            share = (h - group * HEADS / n + 0.5) * n / HEADS
            foot = low + width * share if kv_heads else LEFT + 77 + 72 * (h + 0.5) / 8
            d.line(top, y + 23, foot, y + 39, width=1, faint=True)
    return d


if __name__ == "__main__":
    print(sharing().svg())
