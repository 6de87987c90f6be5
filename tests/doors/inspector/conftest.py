"""The sample's home and the browser, once for each module of tests, and a page for each test."""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path

import pytest
from playwright.sync_api import Browser

from tests.browser import chromium
from tests.doors.fakes import server_stopped
from tests.doors.inspector.pages import Inspector, opened
from tests.doors.inspector.sample import sample_home


@pytest.fixture(scope="module")
def home(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Path]:
    home = sample_home(tmp_path_factory.mktemp("sample"))
    with server_stopped(home):
        yield home


@pytest.fixture(scope="module")
def browser() -> Iterator[Browser]:
    with chromium() as one:
        yield one


@pytest.fixture
def inspector(browser: Browser, home: Path) -> Iterator[Inspector]:
    with opened(browser, home) as inspector:
        yield inspector
