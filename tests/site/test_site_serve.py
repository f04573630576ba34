"""`aiinfra serve`: right answers, one clear line for bad input, a clean end."""

import re
import signal
import socket
import subprocess
import sys
import urllib.error
import urllib.request

import pytest

from aiinfra.tools.errors import UserError
from aiinfra.tools.serve import HOST, serving, start

COMMAND = [sys.executable, "-m", "aiinfra.tools.cli", "serve"]


@pytest.fixture
def folder(tmp_path):
    (tmp_path / "index.html").write_text("<h1>front</h1>", encoding="utf-8")
    (tmp_path / "404.html").write_text("<h1>none</h1>", encoding="utf-8")
    (tmp_path / "a.js").write_text("export default 1", encoding="utf-8")
    (tmp_path / "sub").mkdir()
    (tmp_path / "sub" / "b.txt").write_text("b", encoding="utf-8")
    return tmp_path


def ask(url: str, method: str = "GET") -> tuple[int, str, str]:
    """Status, content type and body."""
    request = urllib.request.Request(url, method=method)
    try:
        with urllib.request.urlopen(request, timeout=10) as reply:
            return reply.status, reply.headers["Content-Type"], reply.read().decode()
    except urllib.error.HTTPError as error:
        return error.code, error.headers["Content-Type"], error.read().decode()


def test_serves_pages_scripts_and_the_404_page(folder):
    with serving(folder) as base:
        assert ask(base) == (200, "text/html; charset=utf-8", "<h1>front</h1>")
        assert ask(base + "a.js")[:2] == (200, "text/javascript")
        for missing in ("gone.html", "deep/er/gone", "sub/", "../secret"):
            status, kind, body = ask(base + missing)
            assert (status, kind) == (404, "text/html; charset=utf-8"), missing
            assert body == "<h1>none</h1>"
        assert ask(base + "gone.html", "HEAD")[2] == ""


def test_the_server_is_gone_afterwards(folder):
    with serving(folder) as base:
        port = int(base.rsplit(":", 1)[1].strip("/"))
    with socket.socket() as free:
        free.bind((HOST, port))


def test_only_this_machine_can_ask(folder):
    with start(folder, 0) as server:
        assert server.server_address[0] == "127.0.0.1"


def test_port_in_use_is_one_clear_line(folder):
    with socket.socket() as taken:
        taken.bind((HOST, 0))
        taken.listen()
        port = taken.getsockname()[1]
        with pytest.raises(UserError, match=f"port {port} is in use; choose another"):
            start(folder, port)
        done = subprocess.run(
            [*COMMAND, "--site", str(folder), "--port", str(port)],
            capture_output=True,
            text=True,
            timeout=60,
        )
    assert done.returncode == 2
    assert done.stderr.startswith(f"aiinfra: port {port} is in use")
    assert done.stderr.count("\n") == 1


def test_without_a_port_the_next_free_one_is_taken(folder):
    with start(folder) as first, start(folder) as second:
        assert first.server_address[1] != second.server_address[1]


@pytest.mark.parametrize("port", [-1, 65536])
def test_a_port_that_is_none_is_refused(folder, port):
    with pytest.raises(UserError, match="expected a number from 1 to 65535"):
        start(folder, port)


def test_no_site_says_what_to_do(tmp_path):
    with pytest.raises(UserError, match="run `aiinfra build`"):
        start(tmp_path)


@pytest.mark.parametrize("end", [signal.SIGINT, signal.SIGTERM])
def test_ctrl_c_and_kill_end_it_cleanly(folder, end):
    process = subprocess.Popen(
        [*COMMAND, "--site", str(folder), "--port", "0"],
        stdout=subprocess.PIPE,
        stderr=subprocess.PIPE,
        text=True,
    )
    try:
        line = process.stdout.readline()
        address = re.search(r"http://127\.0\.0\.1:\d+/", line)[0]
        assert ask(address)[0] == 200
        process.send_signal(end)
        _, errors = process.communicate(timeout=60)
    finally:
        process.kill()
        process.wait()
    assert process.returncode == 0
    assert errors == ""
