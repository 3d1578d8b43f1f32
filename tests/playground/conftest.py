"""The playground: its Python as it is, and the page in headless Chromium, which only `make playground-test` runs."""

from __future__ import annotations

import functools
import os
import shutil
import sys
import threading
from collections.abc import Callable, Iterator
from http.server import SimpleHTTPRequestHandler, ThreadingHTTPServer
from pathlib import Path
from types import ModuleType
from typing import Any

import pytest

ROOT = Path(__file__).parents[2]
SITE = ROOT / "build" / "playground"
SECONDS = 60  # for an answer, on a machine that does much else


def pytest_configure(config: pytest.Config) -> None:
    config.addinivalue_line("markers", "browser: runs in Chromium; deselected unless asked for by -m browser")


def pytest_collection_modifyitems(config: pytest.Config, items: list[pytest.Item]) -> None:
    if "browser" in config.getoption("markexpr"):
        return
    dropped = [item for item in items if item.get_closest_marker("browser")]
    if dropped:
        config.hook.pytest_deselected(items=dropped)
        items[:] = [item for item in items if not item.get_closest_marker("browser")]


@pytest.fixture
def answers(monkeypatch: pytest.MonkeyPatch) -> Iterator[ModuleType]:
    """The page's Python, on this one."""
    monkeypatch.syspath_prepend(ROOT / "docs" / "playground")
    import answers

    yield answers
    for name in ("answers", "made_up_calls"):
        sys.modules.pop(name, None)


class Handler(SimpleHTTPRequestHandler):
    """A plain file server, which keeps in mind how many bytes of files it gave."""

    server: FileServer

    def log_message(self, *args: object) -> None:
        pass

    def copyfile(self, source: Any, outputfile: Any) -> None:
        data = source.read()
        self.server.sent += len(data)
        outputfile.write(data)


class FileServer(ThreadingHTTPServer):
    daemon_threads = True
    sent = 0

    def handle_error(self, request: object, client_address: object) -> None:
        """Say nothing of a page that was closed while it loaded."""

    @property
    def url(self) -> str:
        return f"http://127.0.0.1:{self.server_address[1]}/"


@pytest.fixture(scope="session")
def server() -> Iterator[FileServer]:
    assert (SITE / "site.js").is_file(), "the site isn't there: make playground"
    server = FileServer(("127.0.0.1", 0), functools.partial(Handler, directory=SITE))
    threading.Thread(target=server.serve_forever, args=(0.05,), daemon=True).start()
    yield server
    server.shutdown()
    server.server_close()


@pytest.fixture(scope="session")
def browser() -> Iterator[Any]:
    from playwright.sync_api import sync_playwright

    chromium = shutil.which("chromium")
    assert chromium, "there is no chromium: apt-get install chromium"
    # nothing but the file server can be reached
    options = ["--host-resolver-rules=MAP * ~NOTFOUND, EXCLUDE 127.0.0.1"]
    if os.geteuid() == 0:
        options.append("--no-sandbox")
    with sync_playwright() as playwright:
        started = playwright.chromium.launch(executable_path=chromium, args=options)
        yield started
        started.close()


class Page:
    """A page of the playground, as a user has it; `complaints` is what the browser says is wrong."""

    def __init__(self, browser: Any, url: str, **options: Any) -> None:
        self.url = url
        self.context = browser.new_context(**options)
        self.context.grant_permissions(["clipboard-read", "clipboard-write"])
        self.complaints: list[str] = []
        self.elsewhere: list[str] = []
        self.context.on("request", self._requested)
        self.tab = self.context.new_page()
        self.tab.set_default_timeout(SECONDS * 1000)
        self.tab.on("console", self._said)
        self.tab.on("pageerror", lambda error: self.complaints.append(str(error)))

    def _requested(self, request: Any) -> None:
        if not request.url.startswith((self.url, "blob:", "data:")):
            self.elsewhere.append(request.url)

    def _said(self, message: Any) -> None:
        if message.type in ("error", "warning"):
            self.complaints.append(message.text)

    def open(self, fragment: str = "") -> Page:
        """Open the address, and wait for all answers."""
        self.tab.goto(f"{self.url}{fragment}")
        return self.wait(0)

    def wait(self, before: int) -> Page:
        """Wait until a later question than that is asked, and has all its answers."""
        self.tab.wait_for_function(
            "before => { const { asked, answered } = document.documentElement.dataset;"
            " return Number(asked) > before && asked === answered; }",
            arg=before,
        )
        return self

    def asking(self, action: Callable[[], object]) -> Page:
        """Do what asks something, and wait for all answers."""
        before = int(self.tab.evaluate("Number(document.documentElement.dataset.asked)"))
        action()
        return self.wait(before)

    def ask(self, definition: str, event_filter: str = "", kernels: str = "5.10,7.3") -> Page:
        """Fill in the form and send it."""
        self.tab.fill("#definition", definition)
        self.tab.fill("#filter", event_filter)
        wanted = kernels.split(",")
        for box in self.tab.locator("#kernels input").all():
            if box.is_checked() != (box.get_attribute("value") in wanted):
                box.dispatch_event("click")
        return self.asking(lambda: self.tab.click("#ask"))

    def text(self, kernel: str, name: str, number: int = 0) -> str:
        """Return the text of a block of a kernel's answer: error_log, kprobe_events, filter, format, trace."""
        card = self.tab.locator("article").filter(has=self.tab.locator("h3", has_text=kernel))
        text: str = card.locator(f"pre[aria-label='{name}']").nth(number).text_content()
        return text

    def sane(self) -> None:
        """Fail if the browser complained, or anything but the file server was asked."""
        assert self.complaints == []
        assert self.elsewhere == []


@pytest.fixture(scope="session")
def shared(browser: Any, server: FileServer) -> Iterator[Page]:
    """One page for all that a page can be asked one after the other."""
    page = Page(browser, server.url).open()
    yield page
    page.context.close()


@pytest.fixture
def page(shared: Page) -> Iterator[Page]:
    yield shared
    shared.sane()


@pytest.fixture
def opened(browser: Any, server: FileServer) -> Iterator[Callable[..., Page]]:
    """Return a function that makes a page of its own."""
    pages: list[Page] = []

    def make(**options: Any) -> Page:
        pages.append(Page(browser, server.url, **options))
        return pages[-1]

    yield make
    for page in pages:
        page.context.close()
