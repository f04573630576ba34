"""Make .venv and install what one task of the book needs: site, lab or test.

Called by the Makefile with the machine's own Python, so it uses the standard library
only, and no syntax newer than what an old Python can read: a reader whose Python is
too old or too new gets one line, not a traceback.

    python3 book/bootstrap.py site          # or lab, teach, test
    python3 book/bootstrap.py --check       # only: is this Python supported?

Idempotent: a stamp in .venv holds the hash of what was installed, and an unchanged
tree costs milliseconds. An install that was cut short is done again from scratch.
"""

from __future__ import print_function

import hashlib
import io
import json
import os
import re
import shutil
import subprocess
import sys
import time

OLDEST, NEWEST = (3, 11), (3, 13)
ROOT = os.path.dirname(os.path.dirname(os.path.abspath(__file__)))
VENV = os.path.join(ROOT, ".venv")
VENV_PYTHON = os.path.join(VENV, "bin", "python")
STAMP = os.path.join(VENV, "installed.json")
UNDERWAY = os.path.join(VENV, "installing")
LOG = os.path.join(VENV, "install.log")

# What each extra of pyproject.toml brings along.
COVERS = {
    "site": ["site"],
    "lab": ["lab"],
    "teach": ["site", "lab", "teach"],
    "test": ["site", "lab", "teach", "test"],
}

# A word in pip's output -> (what happened, what to do). The first that fits is told.
CAUSES = [
    (
        r"No space left on device",
        "the disk is full",
        "free 1 GB (site) or 6 GB (lab, test)",
    ),
    (
        r"name resolution|nodename nor servname|Name or service not known"
        r"|NewConnectionError|Network is unreachable|Connection refused"
        r"|ConnectTimeout|ReadTimeout|Read timed out|ProxyError|Max retries"
        r"|No route to host|ConnectionReset|IncompleteRead",
        "the package index cannot be reached",
        "check the network or the proxy (PIP_INDEX_URL names a mirror)",
    ),
    (
        r"CERTIFICATE_VERIFY_FAILED|SSLError",
        "the package index's certificate is not trusted here",
        "set PIP_CERT to your organisation's certificate file",
    ),
    (
        r"Permission denied",
        "a file in .venv cannot be written",
        "remove .venv or change its owner",
    ),
]


class SetupError(Exception):
    """One line for the reader: what went wrong, and what to do."""


def main(arguments):
    """Install the extra named; return the exit status."""
    try:
        if arguments == ["--check"]:
            check_python()
        elif len(arguments) == 1 and arguments[0] in COVERS:
            prepare(arguments[0])
        else:
            raise SetupError("usage: bootstrap.py site|lab|teach|test|--check")
    except SetupError as stop:
        print("aiinfra: %s" % stop, file=sys.stderr)
        return 2
    except KeyboardInterrupt:
        print("\naiinfra: stopped; the next run installs again", file=sys.stderr)
        return 130
    return 0


def prepare(extra):
    """Bring .venv to what ``extra`` needs, doing nothing if it is there already."""
    stamp = read_stamp()
    if is_fresh(stamp, extra):
        return
    check_python()
    began = time.time()
    with lock():
        stamp = read_stamp()  # another run may have done the work meanwhile
        if is_fresh(stamp, extra):
            return
        have = stamp.get("extras", [])
        if must_remake(stamp):
            have = []
            shutil.rmtree(VENV, ignore_errors=True)
        if not os.path.exists(VENV_PYTHON):
            make_venv()
        wanted = sorted(set(have) | set([extra]))
        install(wanted)
        write_stamp(sorted(set(one for name in wanted for one in COVERS[name])))
    say("installed in %.0f s" % (time.time() - began))


def check_python():
    """Stop unless this Python is one that every dependency supports."""
    if OLDEST <= sys.version_info[:2] <= NEWEST:
        return
    others = [
        name
        for name in ("python3.13", "python3.12", "python3.11")
        if find_program(name)
    ]
    remedy = (
        "say PYTHON=%s" % others[0]
        if others
        else "install one and say, for example, PYTHON=python3.12"
    )
    raise SetupError(
        "the book needs Python %d.%d to %d.%d, and this is %d.%d; %s"
        % (OLDEST + NEWEST + tuple(sys.version_info[:2]) + (remedy,))
    )


def find_program(name):
    """The path of ``name``, if it runs (a version manager's stub may not)."""
    try:
        with open(os.devnull, "w") as null:
            code = subprocess.call([name, "--version"], stdout=null, stderr=null)
    except (OSError, ValueError):
        return False
    return code == 0


def wanted_hash():
    """The hash of everything that decides what is installed."""
    digest = hashlib.sha256()
    with io.open(os.path.join(ROOT, "pyproject.toml"), encoding="utf-8") as file:
        # Settings of the linters change nothing that is installed.
        digest.update(file.read().split("[tool.ruff]")[0].encode("utf-8"))
    with open(os.path.join(ROOT, "constraints.txt"), "rb") as file:
        digest.update(file.read())
    digest.update(os.environ.get("TORCH_INDEX", "").encode("utf-8"))
    return digest.hexdigest()


def read_stamp():
    """What the last complete install left; empty if there was none."""
    try:
        with io.open(STAMP, encoding="utf-8") as file:
            return json.load(file)
    except (IOError, OSError, ValueError):
        return {}


def write_stamp(extras):
    """Record a complete install."""
    stamp = {
        "extras": extras,
        "folder": VENV,
        "hash": wanted_hash(),
        "python": "%d.%d" % sys.version_info[:2],
    }
    with open(STAMP, "w") as file:
        json.dump(stamp, file, indent=1, sort_keys=True)
    os.remove(UNDERWAY)


def is_fresh(stamp, extra):
    """Whether .venv already holds what ``extra`` needs."""
    return (
        extra in stamp.get("extras", [])
        and stamp.get("hash") == wanted_hash()
        and stamp.get("folder") == VENV
        and os.path.exists(VENV_PYTHON)
        and not os.path.exists(UNDERWAY)
        and (stamp.get("python") == this_python() or not supported())
    )


def must_remake(stamp):
    """Whether .venv is cut short, moved, or made by another Python."""
    if os.path.exists(UNDERWAY) or not os.path.exists(VENV_PYTHON):
        return True
    return bool(stamp) and (
        stamp.get("folder") != VENV or stamp.get("python") != this_python()
    )


def this_python():
    """The running Python as ``3.12``."""
    return "%d.%d" % sys.version_info[:2]


def supported():
    """Whether the running Python could make the environment anew."""
    return OLDEST <= sys.version_info[:2] <= NEWEST


class lock(object):  # noqa: N801 - reads as a statement
    """Let one run install at a time; a second waits for the first."""

    def __enter__(self):
        import fcntl

        self.file = open(os.path.join(ROOT, ".venv.lock"), "w")
        try:
            fcntl.flock(self.file, fcntl.LOCK_EX | fcntl.LOCK_NB)
        except (IOError, OSError):
            say("another run is installing; waiting for it")
            fcntl.flock(self.file, fcntl.LOCK_EX)

    def __exit__(self, *error):
        self.file.close()


def make_venv():
    """Create .venv."""
    say("creating .venv with Python %s" % this_python())
    done = subprocess.run(
        [sys.executable, "-m", "venv", VENV],
        stdout=subprocess.PIPE,
        stderr=subprocess.STDOUT,
        universal_newlines=True,
    )
    if done.returncode:
        shutil.rmtree(VENV, ignore_errors=True)
        if "ensurepip" in done.stdout:
            raise SetupError(
                "this Python cannot make virtual environments; install its venv "
                "package (Debian, Ubuntu: apt install python3-venv)"
            )
        detail = done.stdout.strip().splitlines() or ["no message"]
        raise SetupError("cannot create .venv: %s" % detail[-1])


def install(extras):
    """Install the package with ``extras`` at the pinned versions."""
    open(UNDERWAY, "w").close()
    constraints = os.path.join(ROOT, "constraints.txt")
    # The pip that comes with Python needs twice the time for what follows.
    pip(["--upgrade", "pip", "-c", constraints])
    torch_index = os.environ.get("TORCH_INDEX")
    if torch_index and set(extras) & set(["lab", "test"]):
        say("installing torch from %s" % torch_index)
        pip(["torch", "--index-url", torch_index, "-c", constraints])
    say("installing what %s needs" % " and ".join("'%s'" % name for name in extras))
    pip(["-e", "%s[%s]" % (ROOT, ",".join(extras)), "-c", constraints])


def pip(arguments):
    """Run pip install, showing where it is; SetupError tells the cause if it fails."""
    command = [VENV_PYTHON, "-m", "pip", "install", "--no-compile", "--retries", "2"]
    command += ["--disable-pip-version-check", "--progress-bar", "off"]
    process = subprocess.Popen(
        command + arguments,
        cwd=ROOT,
        stdout=subprocess.PIPE,
        stderr=subprocess.STDOUT,
        universal_newlines=True,
    )
    output = []
    shown = Shown()
    try:
        for line in process.stdout:
            output.append(line)
            shown.see(line)
        code = process.wait()
    except BaseException:
        process.kill()
        process.wait()
        raise
    finally:
        shown.end()
        with io.open(LOG, "w", encoding="utf-8") as file:
            file.write("".join(output))
    if code:
        # pip installs only after it has fetched everything: a failure leaves .venv
        # as it was, so the next run need not start over.
        os.remove(UNDERWAY)
        raise SetupError(explain("".join(output), code))


def explain(output, code):
    """One line from pip's output: what happened, and what to do."""
    for pattern, cause, remedy in CAUSES:
        if re.search(pattern, output):
            return "installing failed: %s; %s, then run again" % (cause, remedy)
    errors = [line for line in output.splitlines() if line.startswith("ERROR:")]
    last = errors[-1][6:].strip() if errors else "pip ended with status %d" % code
    return "installing failed: %s (all of pip's words are in .venv/install.log)" % last


class Shown(object):
    """pip's hundred lines as one that moves, or as one every ten seconds."""

    def __init__(self):
        self.live = sys.stdout.isatty()
        self.count = 0
        self.last = time.time()

    def see(self, line):
        """Show where pip is."""
        found = re.match(r"\s*(?:Collecting|Obtaining) (\S+)", line)
        self.count += bool(found)
        if line.startswith("Installing collected packages") and "," in line:
            text = "writing %d packages" % (line.count(",") + 1)
        elif found:
            text = "fetching %d: %s" % (self.count, os.path.basename(found.group(1)))
        else:
            return
        if self.live:
            print("\r\033[2K  %s" % text[:76], end="")
            sys.stdout.flush()
        elif time.time() - self.last > 10 or text.startswith("writing"):
            say("  %s" % text)
            self.last = time.time()

    def end(self):
        """Clear the moving line."""
        if self.live:
            print("\r\033[2K", end="")


def say(text):
    """One line of progress, at once."""
    print(text)
    sys.stdout.flush()


if __name__ == "__main__":
    sys.exit(main(sys.argv[1:]))
