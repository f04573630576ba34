"""Open JupyterLab on the book, in this window, until Ctrl-C."""

import argparse
import importlib.util
import os
import socket
import sys

from aiinfra.tools.errors import UserError
from aiinfra.tools.execute import kernel_environment
from aiinfra.tools.root import find_notebook, find_root, part_folders, relative

FIRST_PAGE = "04Train"  # or, in one part unpacked alone, that part


def add_arguments(parser: argparse.ArgumentParser) -> None:
    """Describe the command line."""
    parser.add_argument(
        "notebook",
        nargs="?",
        help=f"open on this one (default: the folder {FIRST_PAGE})",
    )
    parser.add_argument(
        "--port", type=int, help="port to listen on (default: the first free from 8888)"
    )
    parser.add_argument(
        "--no-browser", action="store_true", help="print the address, open no browser"
    )


def run(args: argparse.Namespace) -> int:
    """Become JupyterLab; returns only if it cannot start."""
    if importlib.util.find_spec("jupyterlab") is None:
        raise UserError("JupyterLab is not installed here; run `make lab`")
    os.execve(sys.executable, command(args), kernel_environment())
    return 1  # pragma: no cover - execve does not return


def command(args: argparse.Namespace) -> list[str]:
    """The command line of JupyterLab.

    Raises UserError for an unknown notebook or a port that is taken.
    """
    root = find_root()
    parts = [folder.name for folder in part_folders(root)]
    page = FIRST_PAGE if FIRST_PAGE in parts else "".join(parts[:1])
    if args.notebook:
        page = relative(root, find_notebook(root, args.notebook))
    words = [
        sys.executable,
        "-m",
        "jupyterlab",
        f"--ServerApp.root_dir={root}",
        f"--LabApp.default_url=/lab/tree/{page}",
        "--ServerApp.ip=127.0.0.1",
        # The book asks nothing of any other machine.
        "--LabApp.check_for_updates_class=jupyterlab.NeverCheckForUpdate",
        "--LabApp.news_url=None",
    ]
    if args.port is not None:
        check_port(args.port)
        words += [f"--ServerApp.port={args.port}", "--ServerApp.port_retries=0"]
    if args.no_browser:
        words.append("--no-browser")
    if os.geteuid() == 0:  # as in a container
        words.append("--allow-root")
    return words


def check_port(port: int) -> None:
    """Raise UserError unless ``port`` is a free port of this machine."""
    if not 1 <= port <= 65535:
        raise UserError(f"--port {port}: expected a number from 1 to 65535")
    with socket.socket() as probe:
        probe.setsockopt(socket.SOL_SOCKET, socket.SO_REUSEADDR, 1)
        try:
            probe.bind(("127.0.0.1", port))
        except OSError as error:
            raise UserError(
                f"port {port} cannot be used ({error.strerror}); name another or leave "
                "--port out"
            ) from error
