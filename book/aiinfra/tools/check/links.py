"""Every link and every anchor of the built site leads somewhere."""

import json
import shutil
import subprocess
import sys
from pathlib import Path

from aiinfra.tools.check.problem import Problem
from aiinfra.tools.check.tree import Skip

SITE = Path("_build/html")


def check(root: Path) -> list[Problem]:
    """Broken links within the built site; links to other sites are not followed."""
    site = root / SITE
    if not (site / "index.html").is_file():
        raise Skip("no built site; `aiinfra build` makes it")
    beside = Path(sys.executable).with_name("lychee")
    lychee = str(beside) if beside.is_file() else shutil.which("lychee")
    if lychee is None:
        raise Skip("no lychee here; `make test` installs it")
    done = subprocess.run(
        [
            lychee,
            "--offline",
            "--include-fragments",
            "--no-progress",
            "--format=json",
            "--exclude-path=_static",
            f"--root-dir={site.resolve()}",
            f"{site}/**/*.html",
        ],
        cwd=root,
        capture_output=True,
        text=True,
        check=False,
    )
    try:
        report = json.loads(done.stdout)
    except ValueError:
        last = (done.stderr.strip().splitlines() or ["no output"])[-1]
        return [Problem(SITE.as_posix(), 1, f"lychee failed: {last}")]
    return [
        Problem(page, 1, f"link to {shorter(entry['url'], site)} leads nowhere")
        for page, entries in sorted(report.get("error_map", {}).items())
        for entry in entries
    ]


def shorter(url: str, site: Path) -> str:
    """``url`` without this machine's path."""
    return url.replace(f"file://{site.resolve()}", "")
