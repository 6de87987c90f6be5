"""`fusion open`: the inspector of a home's server in a browser, or its address."""

from __future__ import annotations

import json
import os
import re
import subprocess
import sys
import urllib.error
import urllib.parse
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


SESSIONS = "/v1/inspector/sessions"


def signs_in(url: str, address: str) -> bool:
    """Whether the code in an address opens a session."""
    body = json.dumps({"code": address.partition("#code=")[2]}).encode()
    request = urllib.request.Request(url + SESSIONS, body, {"content-type": "application/json"})  # noqa: S310 — our server's
    try:
        with urllib.request.urlopen(request) as reply:  # noqa: S310
            return bool(json.load(reply)["token"])
    except urllib.error.HTTPError as error:
        if error.code != 401:
            raise
        return False


@pytest.mark.feature(
    "`fusion open` opens the inspector of a home's server, which it starts, by a link that works once; --print shows it"
)
def test_open_signs_a_browser_in_once(place: Path, tmp_path: Path) -> None:
    seen = tmp_path / "seen"
    browser = tmp_path / "browser"
    browser.write_text(f'#!/bin/sh\nprintf %s "$1" >{seen}\n')
    browser.chmod(0o700)
    printed = fusion("open", "--home", place, "--print", browser=browser)
    record = read_record(place)
    assert record is not None
    address = printed.stdout.strip()
    assert (printed.returncode, address.partition("#")[0]) == (0, f"{record.url}/inspector/")
    assert [signs_in(record.url, address) for _ in range(2)] == [True, False]
    as_json = json.loads(fusion("open", "--home", place, "--json", browser=browser).stdout)
    assert (as_json["home"], signs_in(record.url, as_json["url"])) == (str(place), True)
    assert not seen.exists()


def test_a_browser_is_given_a_private_file_and_not_the_code(place: Path, tmp_path: Path) -> None:
    """Every user of the computer can read the arguments of a process."""
    seen = tmp_path / "seen"
    browser = tmp_path / "browser"
    browser.write_text(f'#!/bin/sh\nprintf %s "$1" >{seen}\n')
    browser.chmod(0o700)
    opened = fusion("open", "--home", place, browser=browser)
    record = read_record(place)
    assert record is not None
    assert opened.stdout == f"Opened {record.url}/inspector/\n"
    file = Path(urllib.parse.urlparse(seen.read_text()).path)
    assert (file.parent, file.stat().st_mode & 0o777) == (place.resolve(), 0o600)
    found = re.search(r'url=([^"]+)"', file.read_text())
    assert found is not None
    assert signs_in(record.url, found[1])


def test_open_shows_the_page_of_the_api(place: Path) -> None:
    printed = fusion("open", "--home", place, "--api", "--print", browser="/bin/false")
    with urllib.request.urlopen(printed.stdout.strip()) as page:  # noqa: S310 — our server's
        assert b"<h2>Routes</h2>" in page.read()


def test_open_prints_the_address_without_a_browser(place: Path) -> None:
    opened = fusion("open", "--home", place, browser="/bin/false")
    assert (opened.returncode, "/inspector/#code=" in opened.stdout) == (0, True)
    assert not opened.stdout.startswith("Opened")


def test_open_makes_no_home(tmp_path: Path) -> None:
    opened = fusion("open", "--home", tmp_path / "nowhere", "--print", browser="/bin/false")
    assert opened.returncode != 0
    assert "there is no home" in opened.stderr
    assert not (tmp_path / "nowhere").exists()
