"""A page of the inspector that is signed in, as its tests in a browser have it, and a server at a known port."""

from __future__ import annotations

import re
import subprocess
import sys
from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any
from urllib.parse import urlencode

from axe_playwright_python.sync_playwright import Axe
from playwright.sync_api import Browser, Page, expect

from fusion.client import Client, ensure_server

PATIENT_MS = 30_000
expect.set_options(timeout=PATIENT_MS)
UNSEEN = re.compile("[\u0000-\u0008\u000b-\u001f\u007f-\u009f\u061c\u200b-\u200f\u202a-\u202e\u2060-\u2069\ufeff]")
"""control characters, and marks that change the direction of writing or that nobody sees"""


@dataclass(frozen=True, slots=True)
class Inspector:
    """A signed-in page of the inspector, and the client of its home."""

    page: Page
    url: str
    memory: Client
    problems: list[str]
    """errors and warnings of the browser's console, and requests that were refused"""

    def show(self, view: str, **parameters: str) -> Page:
        self.page.goto(f"{self.url}/inspector/#/{view}" + (f"?{urlencode(parameters)}" if parameters else ""))
        expect(self.page.locator("main h1")).to_be_visible()
        return self.page


@dataclass(slots=True)
class Watched:
    """What a page has done that no text of a memory may make it do."""

    home: str
    dialogs: list[str] = field(default_factory=list)
    elsewhere: list[str] = field(default_factory=list)
    """requests to another place than the server of the page"""
    opened: list[str] = field(default_factory=list)
    """pages that it opened, and documents that it went to"""

    @classmethod
    def of(cls, page: Page, home: str) -> Watched:
        watched = cls(home)
        page.on("dialog", lambda dialog: (watched.dialogs.append(dialog.message), dialog.dismiss()))
        page.on("request", lambda request: watched._requested(request.url))
        page.on("popup", lambda popup: watched.opened.append(popup.url))
        page.on("framenavigated", lambda frame: watched._navigated(frame.url))
        return watched

    def _requested(self, url: str) -> None:
        if not url.startswith((f"{self.home}/", "data:,")):
            self.elsewhere.append(url)

    def _navigated(self, url: str) -> None:
        if not url.startswith(f"{self.home}/inspector/"):
            self.opened.append(url)

    @property
    def nothing(self) -> bool:
        return not (self.dialogs or self.elsewhere or self.opened)


@contextmanager
def opened(browser: Browser, home: Path, **context: Any) -> Iterator[Inspector]:
    """The page of a home, which is started, signed in by a link of its owner."""
    url = ensure_server(home).url
    with Client.of_home(home) as memory, signed_in(browser, url, memory, **context) as inspector:
        yield inspector


@contextmanager
def signed_in(browser: Browser, url: str, memory: Client, **context: Any) -> Iterator[Inspector]:
    """A page that is signed in by a link of this client; no problem may be left in its console at the end."""
    tab = browser.new_context(**{"viewport": {"width": 1380, "height": 900}, **context})
    tab.set_default_timeout(PATIENT_MS)
    tab.grant_permissions(["clipboard-read", "clipboard-write"])
    page = tab.new_page()
    problems: list[str] = []
    page.on("console", lambda said: problems.append(said.text) if said.type in ("error", "warning") else None)
    page.on("pageerror", lambda error: problems.append(str(error)))
    page.goto(url + memory.inspector_link()["path"])
    expect(page.get_by_role("heading", name="Ask", exact=True)).to_be_visible()
    try:
        yield Inspector(page, url, memory, problems)
        assert not problems, problems
    finally:
        tab.close()


@contextmanager
def served(home: Path, port: int = 0) -> Iterator[str]:
    """The address of a server of the home, at this port or a free one."""
    command = [sys.executable, "-m", "fusion", "serve", "--home", str(home), "--port", str(port)]
    with subprocess.Popen(command, stderr=subprocess.PIPE, text=True) as serving:
        assert serving.stderr is not None
        try:
            yield next(line for line in serving.stderr if line.startswith("memory-fusion serves")).split()[-1]
        finally:
            serving.terminate()


def block_of(page: Page) -> str:
    return page.get_by_role("region", name="What the agent gets").locator("pre").inner_text()


def without_nonce(block: str) -> str:
    return re.sub(r'nonce="\w+"', "", block)


def stored(inspector: Inspector, text: str, **fields: Any) -> str:
    """The ref of a new memory, once every backend has it."""
    [kept] = inspector.memory.remember([{"text": text, **fields}])["memories"]
    inspector.memory.settle(60)
    return str(kept["ref"])


def serious_findings(page: Page) -> list[str]:
    """What axe finds serious in a page, with the first place of each."""
    found = Axe().run(page).response["violations"]
    serious = [one for one in found if one["impact"] in ("serious", "critical")]
    return [f"{one['id']}: {one['nodes'][0]['html']}" for one in serious]


def assert_accessible(page: Page) -> None:
    """What is shown has no serious finding of axe in light and dark, and is no wider than a phone."""
    for scheme in ("dark", "light"):
        page.emulate_media(color_scheme=scheme)  # type: ignore[arg-type]
        assert serious_findings(page) == []
    before = page.viewport_size
    page.set_viewport_size({"width": 380, "height": 760})
    assert page.evaluate("document.documentElement.scrollWidth") <= 380
    assert before is not None
    page.set_viewport_size(before)
