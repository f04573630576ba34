"""The registry rule: what it refuses, what it lets pass, and how to be exempt."""

import json
import re

import pytest

from aiinfra.tools.check.numbers import check, check_code, check_prose


def said(text):
    return [str(problem) for problem in check_prose(text, "page.md")]


@pytest.mark.parametrize(
    ("text", "message"),
    [
        (
            "An H100 SXM does 1979 TFLOP/s.",
            r"page.md:1: 1979 TFLOP/s beside H100 SXM: the registry says 989.4 TFLOP/s",
        ),
        ("At 980 TFLOP/s an H100 SXM is fast.", "989.4 TFLOP/s"),
        ("NVLink 4 carries 900 GB/s.", r"450 GB/s \(NVLink 4, one_way_bytes_per_s\)"),
        ("InfiniBand NDR runs at 200 Gb/s.", "400 Gb/s"),
        ("An H100 SXM has 80 GB of HBM3.", "80 GiB"),
        ("The B200 (192 GiB)", "180 GiB"),
        ("NVLink 4 has a latency of 2 µs.", "3.4 µs"),
        ("| H100 SXM | 3.0 TB/s |", "3.35 TB/s"),
        ("A DGX H100 draws 6.5 kW.", "10.2 kW"),
        ("Llama 3 8B has 8.3 billion parameters.", "8.03 billion"),
        ("- a list\n- two H100s do 989.1 TFLOP/s", "page.md:2"),
        ("::::{note}\nAn H100 SXM\ndoes 1 PFLOP/s and 3.2 TB/s.\n::::", "page.md:3"),
        ("```{note}\nAn H100 SXM draws 300 W.\n```", "page.md:2: 300 W"),
        ("An H100 SXM does $1979$ TFLOP/s.", "989.4"),
        ("An H100 SXM does 989 TFLOP/s in FP8.", "1.979 PFLOP/s"),
        ("NVLink 4 carries 25 GB/s.", "450 GB/s"),
        ("A100 SXM 80GB: 312 TFLOP/s. H100 SXM: 312 TFLOP/s.", "beside H100 SXM"),
    ],
)
def test_prose_that_contradicts_the_registry_is_refused(text, message):
    (problem,) = said(text)

    assert re.search(message, problem), problem


@pytest.mark.parametrize(
    "text",
    [
        "An H100 SXM does 989 TFLOP/s, 989.4 TFLOP/s or 0.99 PFLOP/s.",
        "With sparsity an H100 SXM does 1,979 TFLOP/s.",
        "An H100 SXM does 989 TFLOP/s in bf16 and 1,979 TFLOP/s in FP8.",
        "An RTX 4090 does 165 TFLOP/s in FP16, an Ascend 910B 376 TFLOP/s in FP16.",
        "A DGX H100 does 989 TFLOP/s on each card.",
        "Each link of NVLink 4 carries 25 GB/s.",
        "NVLink 4 carries 450 GB/s one way, 900 GB/s both ways.",
        "InfiniBand NDR carries 50 GB/s, printed as 400 Gb/s.",
        "An A100 SXM 80GB and an H100 SXM (80 GiB of HBM3) hold 80 GiB each.",
        "An H100 SXM reads 3.35 TB/s, has 450 GB/s of NVLink and draws 700 W.",
        "Eight H100 SXM draw 5.6 kW; a DGX H100 draws 10.2 kW.",
        "2,048 H100 SXM do 2.026 EFLOP/s.",
        "312 TFLOP/s on an A100 SXM 80GB against 989 TFLOP/s on an H100 SXM.",
        # Another card, a property that isn't the card's, and what somebody got.
        "An H100 PCIe does 756 TFLOP/s.",
        "The 16 GB of Llama 3 8B fit on an H100 SXM.",
        "NVLink 4 moves 1 GB in 2.2 µs.",
        "An H100 SXM achieved 430 TFLOP/s. On H100 SXM, 380 TFLOP/s were measured.",
        "A job on H100 SXM nodes with 100 Gb/s links.",
        # Nothing beside it, or not prose.
        "At 1979 TFLOP/s the bound is 3.1 ms.",
        "An H100 SXM is a card with many good things about it that nobody here knows "
        "how to list, and 12 W.",
        "```python\n# an H100 SXM does 1979 TFLOP/s\n```",
        "`H100 SXM 1979 TFLOP/s` and {cite}`H100 SXM`: 7 TFLOP/s",
        "---\ntitle: H100 SXM 1979 TFLOP/s\n---\n",
        "<!-- H100 SXM 1979 TFLOP/s -->",
        # Said on purpose.
        "NVLink 4 is sold as 900 GB/s. <!-- registry: exempt, as printed -->",
        "<!-- registry: exempt, the printed figure -->\nNVLink 4: 900 GB/s.",
        "<!-- registry: exempt, parts -->\n\n| x |\n| --- |\n| NVLink 4, 25 GB/s |",
    ],
)
def test_prose_that_agrees_or_says_something_else_passes(text):
    assert said(text) == []


def test_an_exemption_ends_with_its_paragraph():
    text = "<!-- registry: exempt, parts -->\nNVLink 4: 9 GB/s.\n\nNVLink 4: 8 GB/s."
    (problem,) = said(text)
    assert problem.startswith("page.md:4: 8 GB/s")


def test_an_exemption_needs_a_reason():
    assert said("NVLink 4: 900 GB/s. <!-- registry: exempt -->")


@pytest.mark.parametrize(
    ("code", "message"),
    [
        ("flops = 989.4e12", "x.py:1: 989.4e12 is H100 SXM's bf16_dense_flops"),
        ("tflops = 989.4", r'write hardware("H100 SXM").bf16_dense_flops'),
        ("x = 1\nbytes_per_s = 450e9", "x.py:2: 450e9 is NVLink 4's"),
        ("b = 450_000_000_000", "NVLink 4"),
        ("b = 3.35e12", "memory_bytes_per_s"),
        ("gbps = 400e9", "x.py:1: 400e9 is"),
        ("b = 300e9", "NVLink 3"),
        ("n = 8_030_261_248", "Llama 3 8B"),
        ("n = 8030.261248", "Llama 3 8B"),
        ("v = 128256", "vocabulary"),
        ("%%ranks\nx = 450e9", "x.py:2"),
        ("!pip list\nx = 450e9", "x.py:2"),
    ],
)  # fmt: skip
def test_code_that_repeats_the_registry_is_refused(code, message):
    (problem,) = check_code(code, "x.py")
    assert message in str(problem)


@pytest.mark.parametrize(
    "code",
    [
        "x = 312",  # three digits, and small: may be anything
        "x = 3.35",
        "x = 1e9; y = 1e11; z = 2**36",  # units, not constants
        "x = 4096 + 8192 + 16384",  # powers of two are everywhere
        "x = 3072",  # a small count, equal by chance
        "x = 1.4e12",  # tokens that some model was trained on are round numbers
        "x = 3e9",  # a hundredth of NVLink 3's
        "x = 989.5",
        'x = "989.4e12"',
        "# 989.4e12",
        "x = 0x1FBD0 + 8j",
        "x = 450e9  # registry: exempt, the example's own link",
        "this is not python 450e9 (",
    ],
)
def test_code_that_says_something_else_passes(code):
    assert check_code(code, "x.py") == []


def test_a_tree_is_read_whole(tmp_path):
    def write(name, text):
        path = tmp_path / name
        path.parent.mkdir(parents=True, exist_ok=True)
        path.write_text(text, encoding="utf-8")

    cells = [
        {"cell_type": "code", "id": "link", "source": ["x = 1\n", "b = 450e9\n"]},
        {"cell_type": "markdown", "id": "text", "source": "NVLink 4: 900 GB/s."},
        {"cell_type": "raw", "id": "raw", "source": "NVLink 4: 900 GB/s."},
    ]
    write("04Train/02-ddp.ipynb", json.dumps({"cells": cells}))
    write("04Train/index.md", "\nNVLink 4: 900 GB/s.")
    write("04Train/slides/deck.md", "# NVLink 4: 900 GB/s")
    write("book/aiinfra/comm.py", "b = 450e9")
    for skipped in (
        "book/aiinfra/registry/x.py",
        "book/aiinfra/lessons/ddp.py",
        ".venv/lib/x.py",
        "_build/html/x.md",
        "tests/test_x.py",
    ):
        write(skipped, "b = 450e9\n\nNVLink 4: 900 GB/s.")
    assert [str(p).partition(": ")[0] for p in check(tmp_path)] == [
        "04Train/02-ddp.ipynb[link]:2",
        "04Train/02-ddp.ipynb[text]:1",
        "04Train/index.md:2",
        "04Train/slides/deck.md:1",
        "book/aiinfra/comm.py:1",
    ]
