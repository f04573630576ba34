"""Draw decode.svg: lower bounds on one decode step against the batch size."""

from aiinfra.diagram import NORMAL, Diagram, LogScale
from aiinfra.registry import hardware, model

MODEL, CHIP = "Llama 3 8B", "H100 SXM"
CONTEXT = 8192  # tokens each sequence has already
BYTES = 2  # per bf16 number


def main() -> None:
    llama, chip = model(MODEL), hardware(CHIP)
    # A step multiplies by every matrix but the input embedding, which it looks up.
    multiplied = llama.parameters - llama.vocabulary * llama.d_model
    weights_s = BYTES * multiplied / chip.memory_bytes_per_s
    kv_per_token = 2 * llama.layers * llama.kv_heads * llama.d_head * BYTES
    kv_s = CONTEXT * kv_per_token / chip.memory_bytes_per_s  # per sequence
    attention = 4 * llama.layers * llama.d_model * CONTEXT
    compute_s = (2 * multiplied + attention) / chip.bf16_dense_flops
    free = chip.memory_bytes - BYTES * llama.parameters
    fits = int(free / (CONTEXT * kv_per_token))
    equal = weights_s / kv_s

    d = Diagram(
        "decode",
        360,
        404,
        title=f"One decode step of {MODEL} on one {CHIP}, by batch size",
        description=(
            "Lower bounds in milliseconds against sequences in the batch, both "
            f"logarithmic, each with {CONTEXT:,} tokens of context. Reading the "
            f"weights takes {weights_s * 1e3:.1f} ms at any batch; reading the "
            f"KV cache {kv_s * 1e3:.2f} ms per sequence, as much as the weights from "
            f"a batch of {equal:.0f}; arithmetic {compute_s * 1e3:.3f} ms per "
            f"sequence, always below. The memory is full at {fits} sequences."
        ),
    )
    x = LogScale(1, 256, 46, 340)
    y = LogScale(0.01, 100, 332, 50)
    d.text(8, 18, "Milliseconds per decode step, at least", size=NORMAL, bold=True)
    d.text(8, 36, f"{MODEL}, {CHIP}, bf16, {CONTEXT:,} tokens each")
    for tick in y.decades():
        d.line(46, y(tick), 340, y(tick), width=1, faint=True)
        d.text(40, y(tick) + 4, f"{tick:g}", anchor="end")
    for tick in (1, 4, 16, 64, 256):
        d.line(x(tick), 332, x(tick), 337, width=1)
        d.text(x(tick), 352, f"{tick}", anchor="middle")
    d.line(46, 332, 340, 332, width=1)
    d.text(193, 376, "sequences in the batch", anchor="middle")
    d.line(x(fits), 50, x(fits), 332, dashed=True, width=1)
    d.text(x(fits) + 6, 324, f"full at {fits}")

    for per_batch, colour in ((kv_s, "vermilion"), (compute_s, "green")):
        last = y(256 * per_batch * 1e3)
        d.line(46, y(per_batch * 1e3), 340, last, colour=colour, width=3)
    d.line(46, y(weights_s * 1e3), 340, y(weights_s * 1e3), colour="blue", width=3)
    d.text(52, y(weights_s * 1e3) - 8, "read the weights")
    d.text(x(48) - 8, y(48 * kv_s * 1e3) - 4, "read the KV cache", anchor="end")
    d.text(x(12) + 8, y(12 * compute_s * 1e3) + 12, "arithmetic")
    d.dot(x(equal), y(weights_s * 1e3), "orange")
    d.text(x(equal) + 8, y(weights_s * 1e3) + 18, f"equal: {equal:.0f}")
    d.save(__file__)


if __name__ == "__main__":
    main()
