"""The Chromium of this computer, without a window, driven by Playwright.

Playwright brings no browser: `make browser` installs Debian's. Tests are left out where there is none.
"""

from __future__ import annotations

import shutil
from collections.abc import Iterator
from contextlib import contextmanager

import pytest
from playwright.sync_api import Browser, BrowserType, CDPSession, Page, sync_playwright

__all__ = ["CHROMIUM", "Browser", "CDPSession", "Page", "chromium", "launched", "needs_chromium"]

CHROMIUM = next(filter(None, map(shutil.which, ("chromium", "chromium-browser", "google-chrome"))), None)
needs_chromium = pytest.mark.skipif(CHROMIUM is None, reason="Chromium is not installed; `make browser` tries to")
LOOPBACK_ONLY = "MAP * ~NOTFOUND, EXCLUDE localhost, EXCLUDE 127.0.0.1"


@contextmanager
def chromium() -> Iterator[Browser]:
    """A browser that reaches this computer only."""
    with sync_playwright() as playwright, launched(playwright.chromium) as browser:
        yield browser


@contextmanager
def launched(chromium: BrowserType, *, names: str = "") -> Iterator[Browser]:
    """A browser that reaches this computer only, by those ``names`` ("MAP name address, ") as well."""
    rules = f"--host-resolver-rules={names}{LOOPBACK_ONLY}"
    browser = chromium.launch(executable_path=CHROMIUM, args=[rules])
    try:
        yield browser
    finally:
        browser.close()
