"""Serve the built site on this machine's loopback address."""

from __future__ import annotations

import argparse
import errno
import signal
from contextlib import contextmanager, suppress
from functools import partial
from http.server import SimpleHTTPRequestHandler, ThreadingHTTPServer
from pathlib import Path

from aiinfra.tools.errors import UserError
from aiinfra.tools.root import find_root

HOST = "127.0.0.1"
FIRST_PORT, PORTS_TRIED = 8000, 20


def add_arguments(parser: argparse.ArgumentParser) -> None:
    """Arguments of ``aiinfra serve``."""
    parser.add_argument(
        "--port",
        type=int,
        metavar="N",
        help=f"port to serve on (default: the first free one from {FIRST_PORT})",
    )
    parser.add_argument(
        "--site",
        type=Path,
        metavar="FOLDER",
        help="folder to serve (default: _build/html)",
    )


def run(args: argparse.Namespace) -> int:
    """Serve until Ctrl-C or SIGTERM."""
    site = args.site or find_root() / "_build" / "html"
    server = start(site, args.port)
    signal.signal(signal.SIGTERM, lambda *_: signal.raise_signal(signal.SIGINT))
    print(f"Serving the book at {address(server)} (Ctrl-C stops)", flush=True)
    with server, suppress(KeyboardInterrupt):
        server.serve_forever()
    print("\nstopped")
    return 0


def start(site: Path, port: int | None = None) -> ThreadingHTTPServer:
    """A server for the folder ``site``, bound to ``port`` or the first free one.

    UserError if there is no site, the port is no port, or somebody has it.
    """
    if not (site / "index.html").is_file():
        raise UserError(
            f"no site in {site}; run `aiinfra build` (or `make book`) first"
        )
    if port is not None and not 0 <= port <= 65535:
        raise UserError(f"--port {port}: expected a number from 1 to 65535")
    candidates = (
        [port]
        if port is not None
        else [*range(FIRST_PORT, FIRST_PORT + PORTS_TRIED), 0]
    )
    for candidate in candidates:
        try:
            return Server((HOST, candidate), partial(Handler, directory=str(site)))
        except OSError as error:
            if error.errno not in (errno.EADDRINUSE, errno.EACCES):
                raise
            reason = (
                "is in use"
                if error.errno == errno.EADDRINUSE
                else "needs rights that this user lacks"
            )
    raise UserError(f"port {port} {reason}; choose another one or leave out --port")


def address(server: ThreadingHTTPServer) -> str:
    """The URL of the front page."""
    return f"http://{HOST}:{server.server_address[1]}/"


@contextmanager
def serving(site: Path):
    """Serve ``site`` on a free port in the background; yields the front page's URL."""
    from threading import Thread

    server = start(site, 0)
    thread = Thread(target=server.serve_forever, daemon=True)
    thread.start()
    try:
        yield address(server)
    finally:
        server.shutdown()
        server.server_close()
        thread.join()


class Server(ThreadingHTTPServer):
    """Answers several requests at a time; none outlives the server."""

    daemon_threads = True
    # Another server's port must count as taken, also where the system would share it.
    allow_reuse_port = False


class Handler(SimpleHTTPRequestHandler):
    """Static files as a site host gives them: right types, own 404 page, no listing."""

    protocol_version = "HTTP/1.1"
    extensions_map = SimpleHTTPRequestHandler.extensions_map | {
        ".js": "text/javascript",
        ".svg": "image/svg+xml",
        ".woff": "font/woff",
        ".woff2": "font/woff2",
        ".ipynb": "application/x-ipynb+json",
        ".md": "text/markdown; charset=utf-8",
        ".html": "text/html; charset=utf-8",
    }

    def end_headers(self) -> None:
        """A rebuilt page must show at once."""
        self.send_header("Cache-Control", "no-cache")
        super().end_headers()

    def list_directory(self, path) -> None:
        """A folder without a page is no page."""
        self.send_error(404)

    def send_error(self, code, message=None, explain=None) -> None:
        """Missing pages get the book's own 404 page."""
        page = Path(self.directory, "404.html")
        if code != 404 or not page.is_file():
            super().send_error(code, message, explain)
            return
        body = page.read_bytes()
        self.send_response(404)
        self.send_header("Content-Type", "text/html; charset=utf-8")
        self.send_header("Content-Length", str(len(body)))
        self.end_headers()
        if self.command != "HEAD":
            self.wfile.write(body)

    def log_message(self, *_) -> None:
        """Stay quiet: the terminal is the reader's."""
