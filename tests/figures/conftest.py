"""A local server with pages that hold figures, and visits to them."""

import functools
import http.server
import shutil
import threading

import pytest

from aiinfra.figures._base import JS

PAGE = """<!doctype html><html lang="en" {attributes}><head><meta charset="utf-8">
<meta name="viewport" content="width=device-width, initial-scale=1">
<link rel="icon" href="data:,"><title>Figures</title><style>
body {{ margin: 16px; font: 16px system-ui; --pst-color-background: #fff; }}
html[data-theme=dark] body {{ background: #14181e; color: #ced6dd;
  --pst-color-background: #14181e; --pst-color-primary: #3fb1c5; }}
</style></head><body><main><h1>Figures</h1>{body}</main>
{host}</body></html>"""
HOST = '<script type="module" src="figures/host.js"></script>'


class _Quiet(http.server.SimpleHTTPRequestHandler):
    def log_message(self, *args) -> None:
        pass


@pytest.fixture(scope="session")
def site(tmp_path_factory):
    """site(name, *figures, attributes="") writes a page and returns its address."""
    root = tmp_path_factory.mktemp("site")
    shutil.copytree(JS, root / "figures")
    handler = functools.partial(_Quiet, directory=str(root))
    server = http.server.ThreadingHTTPServer(("127.0.0.1", 0), handler)
    thread = threading.Thread(target=server.serve_forever, daemon=True)
    thread.start()

    def write(name: str, *figures, attributes: str = "", host: bool = True) -> str:
        # As Jupyter Book does: the output of the cell, as it is in the notebook.
        body = "".join(f"<p>Text.</p>{f._html()}" for f in figures)
        html = PAGE.format(attributes=attributes, body=body, host=HOST if host else "")
        (root / f"{name}.html").write_text(html, encoding="utf-8")
        return f"http://127.0.0.1:{server.server_port}/{name}.html"

    yield write
    server.shutdown()
    server.server_close()
    thread.join()


@pytest.fixture
def visit(chromium, site):
    """visit(*figures, ...) opens a page with the figures and waits until they live."""
    contexts = []

    def open_page(*figures, attributes="", live=True, host=True, width=800, **options):
        context = chromium.new_context(
            viewport={"width": width, "height": 800}, **options
        )
        contexts.append(context)
        page = context.new_page()
        page.set_default_timeout(15_000)
        page.errors = []
        page.on("pageerror", lambda error: page.errors.append(str(error)))
        address = site(
            f"page{len(contexts)}", *figures, attributes=attributes, host=host
        )
        page.goto(address)
        if live:
            for i in range(len(figures)):
                figure = page.locator(".bookfig").nth(i)
                figure.scroll_into_view_if_needed()
                figure.locator(".aifig").wait_for()
            page.mouse.move(1, 1)
        return page

    yield open_page
    for context in contexts:
        errors = [e for page in context.pages for e in getattr(page, "errors", [])]
        context.close()
        assert errors == []


@pytest.fixture(scope="session")
def module_page(chromium, site):
    """An empty page from which the modules can be imported and called."""
    page = chromium.new_page()
    page.goto(site("modules"))
    yield page
    page.close()
