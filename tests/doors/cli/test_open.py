"""`fusion open`: the page of a home's server in a browser, or its address."""

from __future__ import annotations

import json
import os
import subprocess
import sys
import urllib.request
from collections.abc import Iterator
from pathlib import Path

import pytest

from fusion.home import read_record
from fusion.trust import allow
from tests.doors.fakes import SMALL, server_stopped


@pytest.fixture
def place(home: Path) -> Iterator[Path]:
    home.mkdir(mode=0o700)
    (home / "fusion.toml").write_text(SMALL)
    allow(home)
    with server_stopped(home):
        yield home


def fusion(*arguments: object, browser: Path | str) -> subprocess.CompletedProcess[str]:
    command = [sys.executable, "-m", "fusion", *map(str, arguments)]
    environment = {**os.environ, "BROWSER": str(browser)}
    return subprocess.run(command, env=environment, capture_output=True, text=True, check=False)


@pytest.mark.feature(
    "`fusion open` opens the API's page of a home's server, which it starts; --print prints the address"
)
def test_open_shows_the_page_of_the_server(place: Path, tmp_path: Path) -> None:
    seen = tmp_path / "seen"
    browser = tmp_path / "browser"
    browser.write_text(f'#!/bin/sh\nprintf %s "$1" >{seen}\n')
    browser.chmod(0o700)
    printed = fusion("open", "--home", place, "--print", browser=browser)
    assert not seen.exists()
    record = read_record(place)
    assert record is not None
    assert (printed.returncode, printed.stdout) == (0, f"{record.url}/docs\n")
    with urllib.request.urlopen(printed.stdout.strip()) as page:  # noqa: S310 — our server's
        assert b"<h2>Routes</h2>" in page.read()
    as_json = fusion("open", "--home", place, "--json", browser=browser)
    assert json.loads(as_json.stdout) == {"url": f"{record.url}/docs", "home": str(place)}
    assert not seen.exists()
    assert fusion("open", "--home", place, browser=browser).stdout == f"Opened {record.url}/docs\n"
    assert seen.read_text() == f"{record.url}/docs"


def test_open_prints_the_address_without_a_browser(place: Path) -> None:
    opened = fusion("open", "--home", place, browser="/bin/false")
    assert (opened.returncode, opened.stdout.endswith("/docs\n")) == (0, True)
    assert not opened.stdout.startswith("Opened")


def test_open_makes_no_home(tmp_path: Path) -> None:
    opened = fusion("open", "--home", tmp_path / "nowhere", "--print", browser="/bin/false")
    assert opened.returncode != 0
    assert "there is no home" in opened.stderr
    assert not (tmp_path / "nowhere").exists()
