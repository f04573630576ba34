"""Remake a recorded run and compare it with its record.

What takes too long for a page is recorded beside it: <part>/data/NAME.json tells how
it was made (command, seed, versions, machine, date), the record's hash, and how far
a new run may differ. A command writes its result to {record}, as JSON or CSV.
"""

import argparse
import csv
import datetime
import hashlib
import importlib.metadata
import json
import math
import os
import shlex
import signal
import subprocess
import sys
import tempfile
import time
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from aiinfra.tools import machine, notebook
from aiinfra.tools.errors import UserError
from aiinfra.tools.execute import kernel_environment
from aiinfra.tools.root import find_root, nearest, part_folders, relative

# What a manifest must say, and in which type.
FIELDS: dict[str, type | tuple[type, ...]] = {
    "what": str,  # one sentence
    "command": str,  # with {record}, and {seed} if it takes one
    "seed": int,
    "record": str,  # file name beside the manifest, .json or .csv
    "sha256": str,
    "versions": dict,  # of every package that decides the result
    "machine": dict,
    "date": str,
    "minutes": (int, float),  # that it took; a rerun may take four times as long
    "tolerance": dict,  # {"relative": …, "absolute": …}
}


@dataclass(frozen=True)
class Difference:
    """One place where a new run and the record disagree, or the worst that agrees."""

    where: str
    recorded: object
    remade: object
    excess: float  # how many tolerances apart; above 1 is too far


def add_arguments(parser: argparse.ArgumentParser) -> None:
    """Describe the command line."""
    parser.add_argument("names", nargs="*", metavar="NAME", help="recorded runs")
    parser.add_argument(
        "--save",
        action="store_true",
        help="replace the record, its hash, versions, machine and date",
    )


def run(args: argparse.Namespace) -> int:
    """Rerun the records named; without a name, list them. 1 if one is not met."""
    root = find_root()
    known = manifests(root)
    if not args.names:
        if args.save:
            raise UserError("--save needs the name of a recorded run")
        for name, path in known.items():
            about = load(path)
            print(f"{name}  {about['what']} ({about['minutes']:g} min)")
        if not known:
            print("no recorded runs yet")
        return 0
    for name in args.names:
        if name not in known:
            raise UserError(f"no recorded run {name!r}; {nearest(name, list(known))}")
    return max(rerun(root, name, known[name], args.save) for name in args.names)


def manifests(root: Path) -> dict[str, Path]:
    """Every manifest by name. Raises UserError when two have one name."""
    found: dict[str, Path] = {}
    for part in part_folders(root):
        for path in sorted((part / "data").glob("*.json")):
            if path.name.endswith(".record.json"):
                continue
            if path.stem in found:
                raise UserError(
                    f"{relative(root, found[path.stem])} and {relative(root, path)} "
                    "have one name; rename one"
                )
            found[path.stem] = path
    return found


def load(path: Path) -> dict[str, Any]:
    """The manifest at ``path``; UserError says which field is not as it should be."""
    try:
        about = json.loads(path.read_text("utf-8"))
    except ValueError as error:
        raise UserError(f"{path} is no JSON: {error}") from error
    for field, kind in FIELDS.items():
        if not isinstance(about, dict) or not isinstance(about.get(field), kind):
            kinds = kind if isinstance(kind, tuple) else (kind,)
            expected = " or ".join(one.__name__ for one in kinds)
            raise UserError(f"{path}: expected the field {field!r}, a {expected}")
    tolerance = about["tolerance"]
    if set(tolerance) != {"relative", "absolute"} or min(tolerance.values()) < 0:
        raise UserError(f"{path}: expected tolerance: relative and absolute, >= 0")
    if Path(about["record"]).suffix not in (".json", ".csv"):
        raise UserError(f"{path}: expected a record that ends in .json or .csv")
    if "{record}" not in about["command"]:
        raise UserError(f"{path}: expected {{record}} in the command")
    return about


def rerun(root: Path, name: str, path: Path, save: bool) -> int:
    """Remake one record; 1 if it is not met."""
    about = load(path)
    record = path.parent / about["record"]
    if not save:
        check_hash(root, about, record)
    with tempfile.TemporaryDirectory(prefix="aiinfra-") as folder:
        remade = Path(folder) / record.name
        began = time.perf_counter()
        print(f"{name}: running, about {about['minutes']:g} min …", flush=True)
        execute(root, about, remade)
        took_min = (time.perf_counter() - began) / 60
        if save:
            notebook.write_text(record, remade.read_text("utf-8"))
            stamp(path, about, record, took_min)
            print(f"{name}: recorded in {relative(root, record)}")
            return 0
        worst = compare(read(record), read(remade), about["tolerance"])
    if worst.excess > 1:
        print(
            f"{name}: differs at {worst.where or 'the top'}: recorded "
            f"{worst.recorded!r}, remade {worst.remade!r}, tolerance "
            f"{about['tolerance']['relative']:g} relative, "
            f"{about['tolerance']['absolute']:g} absolute"
        )
        return 1
    print(
        f"{name}: remade in {took_min:.1f} min; the largest difference is "
        f"{worst.excess:.2g} of the tolerance"
        + (f", at {worst.where}" if worst.excess else "")
    )
    return 0


def check_hash(root: Path, about: dict[str, Any], record: Path) -> None:
    """Raise UserError unless the record is the one that the manifest tells of."""
    if not record.is_file():
        raise UserError(f"{relative(root, record)} is missing")
    if sha256(record) != about["sha256"]:
        raise UserError(
            f"{relative(root, record)} is not the file that was recorded (its hash "
            "differs); restore it, or record anew with --save"
        )


def sha256(path: Path) -> str:
    """The hash of a file, in hex."""
    return hashlib.sha256(path.read_bytes()).hexdigest()


def execute(root: Path, about: dict[str, Any], remade: Path) -> None:
    """Run the manifest's command so that it writes ``remade``.

    Raises UserError when it fails, writes nothing, or takes four times its minutes.
    """
    words = [
        word.replace("{record}", str(remade)).replace("{seed}", str(about["seed"]))
        for word in shlex.split(about["command"])
    ]
    if words[0] in ("python", "python3"):
        words[0] = sys.executable
    limit_s = max(60.0, 240.0 * about["minutes"])
    try:
        # A session of its own, so that all it started can be stopped with it.
        process = subprocess.Popen(
            words, cwd=root, env=kernel_environment(), start_new_session=True
        )
    except OSError as error:
        raise UserError(f"cannot run {words[0]}: {error.strerror}") from error
    try:
        code = process.wait(timeout=limit_s)
    except subprocess.TimeoutExpired as error:
        raise UserError(
            f"still running after {limit_s / 60:.0f} min; stopped"
        ) from error
    finally:
        if process.poll() is None:
            os.killpg(process.pid, signal.SIGKILL)
            process.wait()
    if code:
        raise UserError(f"the command ended with status {code}: {shlex.join(words)}")
    if not remade.is_file():
        raise UserError(f"the command wrote no {{record}}: {shlex.join(words)}")


def stamp(path: Path, about: dict[str, Any], record: Path, took_min: float) -> None:
    """Write what was run, where and when into the manifest."""
    about |= {
        "sha256": sha256(record),
        "versions": {
            name: importlib.metadata.version(name) for name in sorted(about["versions"])
        },
        "machine": machine.described(),
        "date": datetime.date.today().isoformat(),
        "minutes": round(took_min, 1),
    }
    notebook.write_text(path, json.dumps(about, indent=2, ensure_ascii=False) + "\n")


def read(path: Path) -> Any:
    """A record: JSON as it is, CSV as a list of rows with numbers as numbers."""
    try:
        if path.suffix == ".json":
            return json.loads(path.read_text("utf-8"))
        with path.open(newline="", encoding="utf-8") as file:
            return [
                {column: number(text) for column, text in row.items()}
                for row in csv.DictReader(file)
            ]
    except ValueError as error:
        raise UserError(f"{path.name} cannot be read: {error}") from error


def number(text: str) -> float | str:
    """``text`` as a number if it is one."""
    try:
        return float(text)
    except (TypeError, ValueError):
        return text


def compare(recorded: Any, remade: Any, tolerance: dict[str, float]) -> Difference:
    """The largest difference, in tolerances; anything but numbers must be equal.

    Two numbers agree when ``|a − b| <= absolute + relative · |a|``, a the recorded.
    """

    def differences(a: Any, b: Any, where: str):
        if isinstance(a, dict) and isinstance(b, dict) and set(a) == set(b):
            for key in a:
                yield from differences(a[key], b[key], f"{where}.{key}".lstrip("."))
        elif isinstance(a, list) and isinstance(b, list) and len(a) == len(b):
            for index, (x, y) in enumerate(zip(a, b, strict=True)):
                yield from differences(x, y, f"{where}[{index}]")
        elif is_number(a) and is_number(b):
            yield Difference(where, a, b, excess(a, b))
        else:
            yield Difference(where, a, b, 0.0 if a == b else math.inf)

    def excess(a: float, b: float) -> float:
        if a == b or (math.isnan(a) and math.isnan(b)):
            return 0.0
        allowed = tolerance["absolute"] + tolerance["relative"] * abs(a)
        return abs(a - b) / allowed if allowed and math.isfinite(a - b) else math.inf

    nothing = Difference("", None, None, 0.0)
    return max(
        differences(recorded, remade, ""), key=lambda d: d.excess, default=nothing
    )


def is_number(value: object) -> bool:
    """Whether ``value`` is a number; True and False are not."""
    return isinstance(value, int | float) and not isinstance(value, bool)
