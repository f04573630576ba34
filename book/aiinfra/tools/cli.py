"""The command ``aiinfra``: one door to everything that makes and checks the book."""

import argparse
import importlib
import sys

from aiinfra import __version__
from aiinfra.tools.errors import UserError
from aiinfra.tools.root import nearest

# Command: (module, one-line help). Modules are imported when called, so that
# `aiinfra doctor` works where torch, Jupyter or the site's builder are missing.
# Each has add_arguments(parser) and run(args) -> exit status.
COMMANDS = {
    "doctor": ("doctor", "what this machine can run, and why not the rest"),
    "build": ("build", "build the site into _build/html"),
    "serve": ("serve", "serve the built site on a free port of this machine"),
    "lab": ("lab", "open JupyterLab on the book"),
    "plan": ("plan", "plan a training run or a service: fit, speed, cost"),
    "slides": ("slides", "build the decks of slides; --pdf prints them"),
    "pdf": ("pdf", "print the whole book into _build/book.pdf"),
    "epub": ("epub", "pack the whole book into _build/book.epub"),
    "exercises": ("exercises", "make a part's assignments, or check their tests"),
    "grade": ("grade", "grade a class: each one's own code, behind walls"),
    "new-lesson": ("new_lesson", "begin a lesson: notebook, mistakes, picture"),
    "execute": ("execute", "run notebooks in order and save their outputs"),
    "export": ("export", "write aiinfra.lessons from the cells tagged export"),
    "registry-pages": ("registry_pages", "write the tables drawn from the registry"),
    "status": ("status_page", "run notebooks and record it for the status page"),
    "check": ("gates", "run the gates: everything that can be checked by reading"),
    "test": ("testing", "run every check, by stage"),
    "mutants": ("mutants", "plant each lesson's mistakes; its checks must see them"),
    "rerun": ("rerun", "remake a recorded run and compare it with the record"),
    "bench": ("bench", "measure what the book claims about its own speed"),
    "release": ("release", "make the files of a release in dist"),
}


def usage() -> str:
    """What ``aiinfra --help`` prints."""
    width = max(map(len, COMMANDS))
    lines = [f"  {name:<{width}}  {text}" for name, (_, text) in COMMANDS.items()]
    return "\n".join(
        [
            "usage: aiinfra COMMAND [ARGUMENT ...]",
            "",
            *lines,
            "",
            "aiinfra COMMAND --help tells more of one.",
        ]
    )


def load(command: str):
    """Import the module behind ``command``; UserError says what to install."""
    module = f"aiinfra.tools.{COMMANDS[command][0]}"
    try:
        return importlib.import_module(module)
    except ModuleNotFoundError as error:
        raise missing(command, error) from error


def missing(command: str, error: ModuleNotFoundError) -> Exception:
    """The same failure in a reader's words, unless it is a bug of ours."""
    if error.name is None or error.name.split(".")[0] == "aiinfra":
        return error
    return UserError(
        f"`aiinfra {command}` needs the package {error.name}, which is not installed "
        "here; `make lab` installs what runs notebooks, `python3 book/bootstrap.py "
        "teach` what grades and prints, `make test` everything"
    )


def dispatch(argv: list[str]) -> int:
    """Run one command line and return its exit status."""
    if not argv or argv[0] in ("-h", "--help", "help"):
        print(usage())
        return 0
    if argv[0] == "--version":
        print(f"aiinfra {__version__}")
        return 0
    command, *rest = argv
    if command not in COMMANDS:
        raise UserError(
            f"unknown command {command!r}; {nearest(command, list(COMMANDS))}"
        )
    module = load(command)
    parser = argparse.ArgumentParser(
        prog=f"aiinfra {command}", description=module.__doc__
    )
    module.add_arguments(parser)
    try:
        return module.run(parser.parse_args(rest)) or 0
    except ModuleNotFoundError as error:
        raise missing(command, error) from error


def main(argv: list[str] | None = None) -> int:
    """Entry point of ``aiinfra``: 0 done, 1 a check failed, 2 wrong use."""
    try:
        return dispatch(sys.argv[1:] if argv is None else argv)
    except UserError as error:
        print(f"aiinfra: {error}", file=sys.stderr)
        return 2
    except KeyboardInterrupt:
        print("aiinfra: stopped", file=sys.stderr)
        return 130
    except BrokenPipeError:  # `aiinfra … | head`
        sys.stderr.close()
        return 1


if __name__ == "__main__":
    sys.exit(main())
