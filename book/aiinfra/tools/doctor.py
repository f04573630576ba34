"""Say what this machine can run, and why not the rest. Changes nothing."""

import argparse
import importlib.metadata
import os
import shutil
import subprocess
import sys
from dataclasses import dataclass

from aiinfra.tools import machine
from aiinfra.tools.errors import UserError
from aiinfra.tools.root import find_root

OLDEST, NEWEST = (3, 11), (3, 13)
# torch is asked in a process of its own, with a limit: a broken driver may hang it.
ASK_TORCH = """
import torch
names = []
if hasattr(torch, "accelerator") and torch.accelerator.is_available():
    kind = torch.accelerator.current_accelerator().type
    for index in range(torch.accelerator.device_count()):
        module = getattr(torch, kind, None)
        name = getattr(module, "get_device_name", lambda index: kind)(index)
        names.append(f"{kind}: {name}")
print("|".join([torch.__version__, *names]))
"""


@dataclass(frozen=True)
class Finding:
    """One thing looked for: whether it is there, and what follows."""

    name: str
    found: bool
    detail: str


def add_arguments(parser: argparse.ArgumentParser) -> None:
    """Describe the command line: there is nothing to say."""


def run(args: argparse.Namespace) -> int:
    """Print what is here and what it is good for; 1 if not even reading is."""
    here = {finding.name: finding for finding in findings()}
    width = max(map(len, here))
    print("This machine")
    for finding in here.values():
        print(f"  {mark(finding.found)} {finding.name:<{width}}  {finding.detail}")
    able = abilities(here)
    width = max(len(name) for name, _, _ in able)
    print("\nWhat it can run")
    for name, yes, detail in able:
        print(f"  {mark(yes)} {name:<{width}}  {detail}")
    return 0 if here["Python"].found else 1


def mark(yes: bool) -> str:
    """A word that a screen reader says and a terminal without Unicode shows."""
    return "yes" if yes else "no "


def findings() -> list[Finding]:
    """Everything that some page of the book makes use of."""
    memory = machine.memory_bytes()
    memory_gib = memory / machine.GIB if memory else None
    free_gib = machine.disk_free_bytes(find_root()) / machine.GIB
    return [
        python(),
        Finding("cores", True, f"{machine.cores()} ({machine.processor()})"),
        Finding(
            "memory",
            memory_gib is None or memory_gib >= 3.5,
            "unknown" if memory_gib is None else f"{memory_gib:.1f} GiB",
        ),
        Finding("disk", free_gib >= 2, f"{free_gib:.0f} GiB free"),
        *torch(),
        jupyter(),
        chromium(),
        program("Node", "node", "--version"),
        program("Slurm", "sbatch", "--version"),
        namespaces(),
    ]


def python() -> Finding:
    """The Python in use."""
    version = ".".join(map(str, sys.version_info[:3]))
    good = OLDEST <= sys.version_info[:2] <= NEWEST
    return Finding(
        "Python", good, version if good else f"{version}; expected 3.11 to 3.13"
    )


def torch() -> list[Finding]:
    """torch, and the accelerators that it can use."""
    none = Finding("accelerators", False, "none that torch can use")
    try:
        version, devices = ask_torch()
    except UserError as error:
        return [Finding("torch", False, str(error)), none]
    found = Finding("torch", True, version)
    if not devices:
        return [found, none]
    listed = ", ".join(sorted(set(devices)))
    return [found, Finding("accelerators", True, f"{len(devices)} ({listed})")]


def ask_torch() -> tuple[str, list[str]]:
    """torch's version, and the names of the accelerators that it can use.

    Raises UserError when torch is not installed or cannot be imported.
    """
    try:
        importlib.metadata.version("torch")
    except importlib.metadata.PackageNotFoundError as error:
        raise UserError("not installed; `make lab` installs it") from error
    try:
        done = subprocess.run(
            [sys.executable, "-c", ASK_TORCH],
            capture_output=True,
            text=True,
            timeout=120,
            check=False,
        )
    except subprocess.TimeoutExpired as error:
        raise UserError("importing torch took over 120 s") from error
    if done.returncode:
        last = (done.stderr.strip().splitlines() or ["no message"])[-1]
        raise UserError(f"torch cannot be imported: {last}")
    version, *devices = done.stdout.strip().split("|")
    return version, devices


def jupyter() -> Finding:
    """JupyterLab."""
    try:
        return Finding("JupyterLab", True, importlib.metadata.version("jupyterlab"))
    except importlib.metadata.PackageNotFoundError:
        return Finding("JupyterLab", False, "not installed; `make lab` installs it")


def chromium() -> Finding:
    """A browser for the site's tests."""
    from aiinfra.tools.browser import find_chromium

    path = find_chromium()
    if path:
        return Finding("Chromium", True, str(path))
    return Finding(
        "Chromium",
        False,
        "not found; install your system's chromium, or after `make test` "
        "`.venv/bin/playwright install chromium`",
    )


def program(name: str, command: str, *arguments: str) -> Finding:
    """A program on PATH, by what it says of its version."""
    if not shutil.which(command):
        return Finding(name, False, f"no {command} on PATH")
    try:
        done = subprocess.run(
            [command, *arguments],
            capture_output=True,
            text=True,
            timeout=20,
            check=False,
        )
    except (OSError, subprocess.TimeoutExpired) as error:
        return Finding(name, False, f"{command} does not answer: {error}")
    said = (done.stdout or done.stderr).strip().splitlines() or [command]
    return Finding(name, done.returncode == 0, said[0])


def namespaces() -> Finding:
    """Whether two hosts can be laid out on this one."""
    name = "namespaces"
    if sys.platform != "linux":
        return Finding(name, False, "network namespaces are Linux's")
    if not shutil.which("ip") or not shutil.which("tc"):
        return Finding(name, False, "no ip and tc on PATH (package iproute2)")
    if os.geteuid() != 0:
        return Finding(name, False, "making them needs root")
    return Finding(name, True, "root, ip and tc are here")


def abilities(here: dict[str, Finding]) -> list[tuple[str, bool, str]]:
    """What the findings add up to: (task, possible, how or why not)."""

    def need(*names: str) -> tuple[bool, str]:
        missing = [name for name in names if not here[name].found]
        return not missing, "needs " + ", ".join(missing) if missing else ""

    rows = []
    for task, names, how in [
        ("read the book", ["Python", "disk"], "make book"),
        (
            "run the lessons",
            ["Python", "memory", "disk", "torch", "JupyterLab"],
            "make lab; ranks are processes on the CPU",
        ),
        (
            "run them on accelerators",
            ["torch", "accelerators"],
            "the same notebooks; make test-gpu checks them",
        ),
        ("test the site", ["Chromium"], "make test"),
        ("test what figures compute", ["Node"], "make test"),
        (
            "test virtual time between two hosts",
            ["namespaces"],
            "make test, with a rate-limited link",
        ),
        ("scale out with Slurm", ["Slurm"], "sbatch, as each lesson's At scale shows"),
    ]:
        yes, why_not = need(*names)
        rows.append((task, yes, how if yes else why_not))
    return rows
