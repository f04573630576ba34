"""Draw split.svg: what one GPU must hold, and which split divides which part."""

from aiinfra.diagram import NORMAL, Diagram
from aiinfra.registry import hardware, model

MODEL, CHIP, RANKS = "Llama 3 8B", "H100 SXM", 64
# Mixed-precision Adam, bytes per parameter (ZeRO, arXiv:1910.02054, section 3.1).
WEIGHTS, GRADIENTS, OPTIMIZER = 2, 2, 12
GB = 1e9


def main() -> None:
    parameters = model(MODEL).parameters
    memory = hardware(CHIP).memory_bytes  # spec: 80 GiB
    stages = {
        "DP": (WEIGHTS, GRADIENTS, OPTIMIZER),
        "ZeRO-1": (WEIGHTS, GRADIENTS, OPTIMIZER / RANKS),
        "ZeRO-2": (WEIGHTS, GRADIENTS / RANKS, OPTIMIZER / RANKS),
        "ZeRO-3": (WEIGHTS / RANKS, GRADIENTS / RANKS, OPTIMIZER / RANKS),
    }
    totals = {name: sum(parts) * parameters / GB for name, parts in stages.items()}
    listed = ", ".join(f"{name} {total:.1f} GB" for name, total in totals.items())
    colours = ("blue", "orange", "green")
    d = Diagram(
        "split",
        360,
        480,
        title=f"What each GPU holds to train {MODEL}, and what each split divides",
        description=(
            f"Stacked bars of weights, gradients and optimizer state per GPU on "
            f"{RANKS} GPUs: {listed}; one {CHIP} holds {memory / GB:.1f} GB. Below, a "
            "grid: ZeRO divides optimizer state (stage 1), gradients (2), weights "
            "(3); tensor and pipeline parallelism divide all three; tensor "
            "parallelism divides part of the activations, context parallelism "
            "only the activations; plain data parallelism divides nothing."
        ),
    )
    d.text(8, 18, f"GB held by each of {RANKS} GPUs: {MODEL}", size=NORMAL, bold=True)
    x = 8
    names = ("weights", "gradients", "optimizer")
    for name, colour, step in zip(names, colours, (94, 104, 0), strict=True):
        d.bar(x, 30, 12, 12, colour)
        d.text(x + 17, 41, name)
        x += step
    scale = 250 / (totals["DP"] * 1.02)
    for i, (name, parts) in enumerate(stages.items()):
        top = 56 + 34 * i
        d.text(8, top + 16, name)
        left = 66.0
        for part, colour in zip(parts, colours, strict=True):
            length = part * parameters / GB * scale
            d.bar(left, top, length, 22, colour)
            left += length
        if name != "DP":
            d.text(left + 6, top + 16, f"{totals[name]:.1f}")
    right = 66 + totals["DP"] * scale
    d.text(right + 4, 72, f"{totals['DP']:.0f}")
    limit = 66 + memory / GB * scale
    d.line(limit, 50, limit, 192, dashed=True, width=1.5)
    d.text(
        limit,
        208,
        f"one {CHIP}: {memory / 2**30:.0f} GiB = {memory / GB:.1f} GB",
        anchor="middle",
    )

    d.text(8, 246, "What does each split divide?", size=NORMAL, bold=True)
    heads = ("DP", "ZeRO", "TP", "PP", "CP")
    rows = {
        "weights": ("", "stage 3", "÷ N", "÷ N", ""),
        "gradients": ("", "stage 2", "÷ N", "÷ N", ""),
        "optimizer": ("", "stage 1", "÷ N", "÷ N", ""),
        "activations": ("", "", "part", "", "÷ N"),
    }
    left, width, gap = 91, 51, 2.5
    for j, head in enumerate(heads):
        middle = left + j * (width + gap) + width / 2
        d.text(middle, 270, head, anchor="middle", bold=True)
    for i, (row, cells) in enumerate(rows.items()):
        top = 280 + 33 * i
        d.text(8, top + 19, row)
        for j, cell in enumerate(cells):
            d.box(
                left + j * (width + gap),
                top,
                width,
                28,
                cell or "whole",
                colour="blue" if cell else None,
                dashed=not cell,
            )
    d.text(8, 434, "DP data, TP tensor, PP pipeline, CP context parallel.")
    d.text(8, 452, "whole: each GPU holds all of it.")
    d.text(8, 470, "part: ÷ N with sequence parallelism too.")
    d.save(__file__)


if __name__ == "__main__":
    main()
