"""Common misspellings, in prose, code and figures' words."""

import re
import subprocess
import sys
import tempfile
from pathlib import Path

from aiinfra.tools.check.problem import Problem
from aiinfra.tools.check.tree import cells_of, ours
from aiinfra.tools.root import assignments, notebooks, relative

WORDS = Path("tests/check/words.txt")
SUFFIXES = (".md", ".py", ".js", ".css", ".yaml", ".yml", ".bib", ".toml", ".sh")
FOUND = re.compile(r"(?P<path>.+?):(?P<line>\d+): (?P<what>.+ ==> .+)")


def check(root: Path) -> list[Problem]:
    """Words that codespell knows to be wrong.

    A word that is right here and wrong elsewhere goes into tests/check/words.txt.
    """
    command = [sys.executable, "-m", "codespell_lib", "--config=/dev/null"]
    if (root / WORDS).is_file():
        command.append(f"--ignore-words={root / WORDS}")
    with tempfile.TemporaryDirectory(prefix="aiinfra-") as folder:
        # Of notebooks only what people wrote: outputs hold base64.
        places: dict[str, tuple[str, int]] = {}
        for path in [*notebooks(root), *assignments(root)]:
            for cell in cells_of(root, path):
                copy = Path(folder) / f"{len(places)}.md"
                copy.write_text(cell.source, encoding="utf-8")
                places[str(copy)] = (cell.path, cell.line)
        written = [str(path) for path in ours(root, *SUFFIXES) if path != root / WORDS]
        done = subprocess.run(
            [*command, *written, *places],
            capture_output=True,
            text=True,
            check=False,
        )
    problems = []
    for line in done.stdout.splitlines():
        if found := FOUND.match(line):
            path, number = found["path"], int(found["line"])
            where = places.get(path) or (relative(root, Path(path)), number)
            problems.append(Problem(*where, found["what"]))
    if done.returncode and not problems:
        last = (done.stderr.strip().splitlines() or ["no output"])[-1]
        problems.append(Problem(WORDS.as_posix(), 1, f"codespell failed: {last}"))
    return problems
