"""The figures in JupyterLab: the reader's moves arrive in the kernel, and back."""

import json
import os
import signal
import socket
import subprocess
import sys
import time
import urllib.request
from pathlib import Path

import pytest
from nbformat import write
from nbformat.v4 import new_code_cell, new_notebook

START_S = 60  # JupyterLab's start takes about 5 s on an idle 2-core machine

# The kernel writes what it holds to a file whenever a trait changes.
CELL = """
import json, os, pathlib, sys
sys.path.insert(0, {samples!r})
from figure_samples import make_{name}
figure_{name} = make_{name}()
def write_{name}(change=None):
    state = {{name: getattr(figure_{name}, name) for name in figure_{name}.live}}
    state |= {{"summary": figure_{name}.summary(), "pid": os.getpid()}}
    path = pathlib.Path({folder!r}, "{name}.json")
    path.with_suffix(".new").write_text(json.dumps(state), encoding="utf-8")
    path.with_suffix(".new").replace(path)
figure_{name}.observe(write_{name}, names=list(figure_{name}.live))
write_{name}()
figure_{name}
"""
BACK = "figure_sweep.k = 0; figure_timeline.frame = 1; figure_holds.step = 6"


def free_port() -> int:
    with socket.socket() as probe:
        probe.bind(("127.0.0.1", 0))
        return probe.getsockname()[1]


def alive(pid: int) -> bool:
    try:
        os.kill(pid, 0)
    except ProcessLookupError:
        return False
    return True


def until(condition, what: str, limit_s: float = 30.0):
    """Waits until the condition holds; its value."""
    end = time.monotonic() + limit_s
    while time.monotonic() < end:
        if value := condition():
            return value
        time.sleep(0.1)
    raise AssertionError(f"{what}: not within {limit_s:g} s")


@pytest.fixture
def lab(tmp_path):
    """A JupyterLab with a notebook of three figures: its address and folder."""
    pytest.importorskip("jupyterlab", reason="JupyterLab is not installed")
    samples = str(Path(__file__).parent)
    cells = [
        new_code_cell(CELL.format(name=n, samples=samples, folder=str(tmp_path)))
        for n in ("sweep", "timeline", "holds")
    ]
    notebook = new_notebook(cells=[*cells, new_code_cell(BACK)])
    notebook.metadata["kernelspec"] = {
        "name": "python3",
        "display_name": "Python 3",
        "language": "python",
    }
    root = tmp_path / "root"
    root.mkdir()
    write(notebook, root / "figures.ipynb")
    port = free_port()
    log = (tmp_path / "lab.log").open("w")
    server = subprocess.Popen(
        [
            *(sys.executable, "-m", "jupyterlab", "--no-browser", "--allow-root"),
            f"--ServerApp.root_dir={root}",
            f"--ServerApp.port={port}",
            "--ServerApp.port_retries=0",
            "--ServerApp.ip=127.0.0.1",
            "--IdentityProvider.token=",
            "--LabApp.check_for_updates_class=jupyterlab.NeverCheckForUpdate",
            "--LabApp.news_url=None",
        ],
        env=os.environ
        | {
            "JUPYTER_CONFIG_DIR": str(tmp_path / "config"),
            "JUPYTER_RUNTIME_DIR": str(tmp_path / "runtime"),
            "JUPYTERLAB_SETTINGS_DIR": str(tmp_path / "settings"),
            "JUPYTERLAB_WORKSPACES_DIR": str(tmp_path / "workspaces"),
        },
        stdout=log,
        stderr=subprocess.STDOUT,
        start_new_session=True,
    )
    try:
        address = f"http://127.0.0.1:{port}"

        def answers() -> bool:
            assert server.poll() is None, (tmp_path / "lab.log").read_text()
            try:
                return urllib.request.urlopen(f"{address}/api", timeout=5).status == 200
            except OSError:
                return False

        until(answers, "JupyterLab answers", START_S)
        yield address, tmp_path
    finally:
        # On SIGTERM the server ends its kernels too; a kernel has its own session.
        server.send_signal(signal.SIGTERM)
        try:
            server.wait(20)
        except subprocess.TimeoutExpired:
            os.killpg(server.pid, signal.SIGKILL)
            server.wait()
        log.close()
        pids = {json.loads(path.read_text())["pid"] for path in tmp_path.glob("*.json")}
        until(lambda: not any(map(alive, pids)), "the kernel is gone", 20)


@pytest.mark.timeout(300)
def test_the_kernel_follows_the_reader(chromium, lab):
    address, folder = lab

    def kernel(name: str) -> dict:
        path = folder / f"{name}.json"
        return json.loads(path.read_text()) if path.exists() else {}

    context = chromium.new_context(viewport={"width": 1200, "height": 1000})
    try:
        page = context.new_page()
        page.set_default_timeout(60_000)
        page.goto(f"{address}/lab/tree/figures.ipynb")
        page.get_by_text("Python 3 | Idle").or_(
            page.get_by_text("Python 3 (ipykernel) | Idle")
        ).first.wait_for()
        for i, name in enumerate(("sweep", "timeline", "holds")):
            page.locator(".jp-Notebook .jp-CodeCell .cm-content").nth(i).click()
            page.keyboard.press("Shift+Enter")
            until(lambda n=name: kernel(n), f"{name} runs", 60)
        figures = page.locator(".jp-OutputArea-output .aifig")
        figures.nth(2).wait_for()
        assert figures.count() == 3

        def shown(i: int) -> str:
            return figures.nth(i).locator("svg[role=img] > title").text_content()

        # The mouse drags the sweep's slider to its end: the kernel's k is the last.
        slider = figures.nth(0).get_by_role("slider", name="bandwidth")
        slider.scroll_into_view_if_needed()
        box = slider.bounding_box()
        y = box["y"] + box["height"] / 2
        page.mouse.move(box["x"] + box["width"] / 2, y)
        page.mouse.down()
        page.mouse.move(box["x"] + 0.8 * box["width"], y)
        page.mouse.move(box["x"] + box["width"] - 2, y)
        page.mouse.up()
        until(lambda: kernel("sweep")["k"] == 4, "the kernel's k follows the mouse")

        # The arrow keys move the figure, not the notebook's selected cell.
        page.keyboard.press("ArrowLeft")
        until(lambda: kernel("sweep")["k"] == 3, "the kernel's k follows the keys")
        until(lambda: shown(0) == kernel("sweep")["summary"], "picture = kernel")
        assert slider.evaluate("(e) => e === document.activeElement")
        figures.nth(0).get_by_role("slider", name="Read the curves").focus()
        page.keyboard.press("End")
        until(lambda: kernel("sweep")["at"] == 40, "the kernel's reading line follows")

        figures.nth(1).get_by_role("button", name="Next version").click()
        until(lambda: kernel("timeline")["frame"] == 1, "the kernel's frame follows")
        figures.nth(1).get_by_role("slider", name="Read the events").focus()
        page.keyboard.press("ArrowRight")
        until(lambda: kernel("timeline")["event"] == 0, "the kernel's event follows")
        page.keyboard.press("ArrowDown")  # the event below that begins with it
        until(lambda: kernel("timeline")["event"] == 2, "the kernel's event follows")
        until(lambda: shown(1) == kernel("timeline")["summary"], "picture = kernel")

        figures.nth(2).get_by_role("button", name="Next step").click()
        until(lambda: kernel("holds")["step"] == 1, "the kernel's step follows")
        figures.nth(2).get_by_role("slider", name="Read the cells").focus()
        page.keyboard.press("ArrowRight")
        until(lambda: kernel("holds")["cell"] == 0, "the kernel's cell follows")

        # The other way: a value set in the kernel moves the picture.
        page.locator(".jp-Notebook .jp-CodeCell .cm-content").last.click()
        page.keyboard.press("Shift+Enter")
        until(lambda: shown(0).startswith("bandwidth 1 GB/s"), "the picture follows k")
        until(lambda: shown(1).startswith("two buckets"), "the picture follows frame")
        until(lambda: shown(2).startswith("Step 6 of 6"), "the picture follows step")
    finally:
        context.close()
