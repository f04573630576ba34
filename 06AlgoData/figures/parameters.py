"""Draw parameters.svg: a Llama-style block, and where the parameters are."""

from aiinfra.diagram import NORMAL, Diagram
from aiinfra.registry import model

MODEL = "Llama 3 8B"


def main() -> None:
    m = model(MODEL)
    embedding = m.vocabulary * m.d_model
    query_output = 2 * m.d_model * m.heads * m.d_head
    key_value = 2 * m.d_model * m.kv_heads * m.d_head
    attention = m.layers * (query_output + key_value)
    mlp = m.layers * 3 * m.d_model * m.d_ffn
    norms = (2 * m.layers + 1) * m.d_model
    total = 2 * embedding + attention + mlp + norms
    if total != m.parameters:
        raise ValueError(f"counted {total:,} parameters, registry {m.parameters:,.0f}")

    def share(part: float) -> str:
        return f"{part / 1e9:.2f} B, {100 * part / total:.1f} %"

    d = Diagram(
        "parameters",
        360,
        506,
        title=f"A Llama-style decoder, and where {MODEL} keeps its parameters",
        description=(
            "Data flow from tokens through the embedding, "
            f"{m.layers:.0f} equal blocks of "
            "attention and SwiGLU, a last norm and the output head. Parameters: "
            f"embedding {share(embedding)}; attention of all blocks "
            f"{share(attention)}; SwiGLU of all blocks {share(mlp)}; norms "
            f"{norms / 1e6:.2f} million; head {share(embedding)}; in all "
            f"{total / 1e9:.2f} B."
        ),
    )
    heading = f"{MODEL}: {total / 1e9:.2f} billion parameters"
    d.text(8, 18, heading, size=NORMAL, bold=True)
    d.text(8, 36, "areas of the bars to scale")
    left, width, middle = 20, 130, 85
    d.text(middle, 64, "next-token scores", anchor="middle")
    d.box(left, 78, width, 32, "output head", colour="blue")
    d.box(left, 126, width, 26, "RMSNorm")
    d.box(8, 166, 156, 242, dashed=True)
    d.text(16, 188, f"× {m.layers:.0f}")
    for branch, join in ((398, 298), (286, 185)):  # the stream runs past, and is added
        d.path(
            [(middle, branch), (156, branch), (156, join), (middle + 7, join)], width=1
        )
        d.box(middle - 7, join - 7, 14, 14, radius=7)
        d.line(middle - 4, join, middle + 4, join, width=1)
    d.box(left, 200, width, 34, "SwiGLU", colour="vermilion")
    d.box(left, 250, width, 26, "RMSNorm")
    d.box(left, 314, width, 34, "attention", colour="green")
    d.box(left, 364, width, 26, "RMSNorm")
    d.box(left, 424, width, 32, "embedding", colour="blue")
    d.text(middle, 488, "tokens", anchor="middle")
    for start, end in (
        (474, 457),
        (424, 391),
        (364, 349),
        (314, 277),
        (250, 235),
        (200, 153),
        (126, 111),
        (78, 69),
    ):
        d.arrow(middle, start, middle, end)

    bars = [
        ("output head", embedding, 78, "blue"),
        ("SwiGLU", mlp, 176, "vermilion"),
        ("attention", attention, 304, "green"),
        ("embedding", embedding, 414, "blue"),
    ]
    unit = 66 * 156 / mlp  # canvas area per parameter
    for name, part, top, colour in bars:
        height = 66 if part == mlp else 20
        d.text(190, top + 12, name, bold=True)
        d.text(190, top + 30, share(part))
        d.bar(190, top + 38, part * unit / height, height, colour)
    d.text(190, 498, f"norms: {norms / 1e6:.2f} million")
    d.save(__file__)


if __name__ == "__main__":
    main()
