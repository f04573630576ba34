"""Make mixed.txt, the tokenizer lesson's text of many kinds, and say what is in it.

    python 06AlgoData/data/mixed.py RECORD.json [--save]

Prose and code are the book's own, as they were at one commit, so that the text stays
the same when the book changes: a clone with its history is needed. The sentences of
sentences.csv were written for it, each in four languages. RECORD.json receives the
bytes of each kind and the hash of the whole; --save also writes mixed.txt.
"""

import argparse
import csv
import hashlib
import json
import re
import subprocess
from pathlib import Path

COMMIT = "429a6eb8"
PROSE = (
    "book/index.md",
    "book/start/how-to-read.md",
    "book/start/notation.md",
    "00Hardware/index.md",
    "01Cluster/index.md",
    "02Comm/index.md",
    "03Storage/index.md",
    "04Train/index.md",
    "05Infer/index.md",
    "06AlgoData/index.md",
    "07Ops/index.md",
    "CONTRIBUTING.md",
    "book/reference/failures.md",
)
CODE = ("pipeline", "reliability", "memory", "trace", "arch")
LIMIT = 60_000  # bytes of prose, and of code
LANGUAGES = {"German": "de", "Japanese": "ja", "Chinese": "zh"}
HERE = Path(__file__).parent


def at_commit(path: str) -> str:
    """The text of a file of the book at COMMIT."""
    command = ["git", "show", f"{COMMIT}:{path}"]
    done = subprocess.run(command, cwd=HERE.parents[1], capture_output=True, check=True)
    return done.stdout.decode("utf-8")


def cut(text: str) -> str:
    """The first LIMIT bytes, up to the end of a line."""
    raw = text.encode("utf-8")[:LIMIT]
    return raw[: raw.rindex(b"\n") + 1].decode("utf-8")


def sections() -> dict[str, str]:
    """Each kind of text by name."""
    glossary = at_commit("book/reference/glossary.md")
    terms = {
        name: re.findall(rf'<span lang="{code}">(.*?)</span>', glossary)
        for name, code in LANGUAGES.items()
    }
    with (HERE / "sentences.csv").open(newline="", encoding="utf-8") as file:
        names, *rows = csv.reader(file)
    columns = zip(*rows, strict=True)
    return {
        "prose": cut("\n".join(map(at_commit, PROSE))),
        "code": cut("\n".join(at_commit(f"book/aiinfra/{m}.py") for m in CODE)),
        "terms": "\n".join(term for found in terms.values() for term in found) + "\n",
        **{n: "\n".join(c) + "\n" for n, c in zip(names, columns, strict=True)},
    }


def main() -> None:
    """Write the record, and mixed.txt if asked."""
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("record", type=Path)
    parser.add_argument("--save", action="store_true", help="write mixed.txt, too")
    args = parser.parse_args()
    kinds = sections()
    text = "".join(f"=== {name} ===\n{body}" for name, body in kinds.items())
    if args.save:
        (HERE / "mixed.txt").write_bytes(text.encode("utf-8"))
    about = {
        "sha256": hashlib.sha256(text.encode("utf-8")).hexdigest(),
        "bytes": {name: len(body.encode("utf-8")) for name, body in kinds.items()},
    }
    args.record.write_text(json.dumps(about, indent=2) + "\n", encoding="utf-8")


if __name__ == "__main__":
    main()
