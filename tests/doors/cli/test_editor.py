"""A person at an editor, on a vault that a server watches: what is typed is found, whoever searches meanwhile.

For real: vim in a pseudo-terminal of its own, `fusion serve`, the system's own notices. `pytest -m editor -s` prints
how long each step took.
"""

from __future__ import annotations

import fcntl
import os
import pty
import shutil
import struct
import subprocess
import termios
import threading
import time
from collections.abc import Iterator
from contextlib import contextmanager, suppress
from datetime import date
from pathlib import Path

import pytest

from fusion.client import Client, ensure_server, stop_server

pytestmark = [
    pytest.mark.editor,
    pytest.mark.skipif(shutil.which("vim") is None, reason="vim is not installed: apt-get install vim"),
]

ESC, ENTER = "\x1b", "\r"
NOTE = """---
title: Orders service
tags: [databases, decisions]
aliases: [orders]
---
# Orders service

We chose PostgreSQL, see [[Decisions 2026]] and #databases.

| who | what |
|---|---|
| Marta | schema |
"""


class Vim:
    """A vim that somebody types into. Every key goes through a terminal, and what it draws is read."""

    def __init__(self, file: Path) -> None:
        self.terminal, end = pty.openpty()
        fcntl.ioctl(end, termios.TIOCSWINSZ, struct.pack("HHHH", 40, 120, 0, 0))
        self._process = subprocess.Popen(
            ["vim", "-u", "NONE", "-N", str(file)],
            stdin=end,
            stdout=end,
            stderr=end,
            start_new_session=True,
            env={**os.environ, "TERM": "xterm"},
        )
        os.close(end)
        self._drawn = bytearray()
        self._reading = threading.Thread(target=self._read, daemon=True)
        self._reading.start()

    def type(self, keys: str) -> None:
        os.write(self.terminal, keys.encode())

    def catch_up(self) -> None:
        """Returns when everything that was typed has been done: it says a word that was not typed in one piece."""
        self._drawn.clear()
        self.type(f"{ESC}:echo 'caught' . 'up'{ENTER}")
        while b"caughtup" not in self._drawn:
            time.sleep(0.01)

    def quit(self) -> int:
        """Returns its exit code."""
        self.type(f"{ESC}:wq{ENTER}")
        return self._process.wait(60)

    def close(self) -> None:
        self._process.kill()
        self._process.wait()
        self._reading.join(5)
        os.close(self.terminal)

    def _read(self) -> None:
        with suppress(OSError):  # it has closed its end
            while True:
                if not (drawn := os.read(self.terminal, 65536)):
                    return
                self._drawn += drawn


@contextmanager
def editing(file: Path) -> Iterator[Vim]:
    vim = Vim(file)
    try:
        yield vim
    finally:
        vim.close()


@pytest.fixture
def vault(tmp_path: Path) -> Path:
    """As Obsidian leaves one: its own folder, a trash, front matter, links, a daily note."""
    vault = tmp_path / "Vault"
    for name, text in {
        ".obsidian/workspace.json": '{"main": {}}',
        ".obsidian/app.json": "{}",
        ".trash/Old.md": "A zeppelin that was thrown away.\n",
        "Services/Orders.md": NOTE,
        "Decisions 2026.md": "# Decisions 2026\n\n- [[Orders|the orders service]]: PostgreSQL\n",
        f"Daily/{date(2026, 3, 5)}.md": "# Thursday\n\n- [ ] ask Marta about [[Orders]]\n",
        "Templates/Meeting.md": "---\ntags: []\n---\n## Who\n\n## What\n",
    }.items():
        (vault / name).parent.mkdir(parents=True, exist_ok=True)
        (vault / name).write_text(text)
    for number in range(200):
        (vault / "Notes" / f"{number:03}.md").parent.mkdir(exist_ok=True)
        (vault / "Notes" / f"{number:03}.md").write_text(f"# Note {number}\n\nThe lighthouse number {number}.\n")
    return vault


@pytest.fixture
def home(tmp_path: Path, vault: Path) -> Iterator[Path]:
    """A server that watches the vault, without a model; it is stopped at the end."""
    home = tmp_path / "home"
    home.mkdir(mode=0o700)
    (home / "fusion.toml").write_text(
        f'backends_only = true\n[embedder]\nadapter = ""\n'
        f'[backends.vault]\nadapter = "adapters.markdown:Markdown"\npaths = ["{vault}"]\n'
    )
    try:
        ensure_server(home)
        yield home
    finally:
        stop_server(home)


class Searcher:
    """Somebody who searches all the time, for one thing that never changes; what went wrong is kept."""

    def __init__(self, home: Path) -> None:
        self.searches = 0
        self.wrong: list[str] = []
        self._home = home
        self._over = threading.Event()
        self._thread = threading.Thread(target=self._search)

    def __enter__(self) -> Searcher:
        self._thread.start()
        return self

    def __exit__(self, *_: object) -> None:
        self._over.set()
        self._thread.join()

    def _search(self) -> None:
        with Client.of_home(self._home, start=False) as client:
            while not self._over.wait(0.02):
                hits = texts(client, "lighthouse 117")
                self.searches += 1
                if "The lighthouse number 117." not in hits[0]:
                    self.wrong.append(hits[0] if hits else "nothing")


def texts(client: Client, query: str) -> list[str]:
    return [hit["text"] for hit in client.search("vault", query)["hits"]]


def items(client: Client) -> int | None:
    """How many chunks the vault says that it has; to ask looks at no file."""
    [vault] = client.backends()["backends"]
    return vault["items"]


def found(client: Client, query: str, text: str, since: float) -> float:
    """Seconds until a search has it; the test's own time limit is the only one."""
    while not any(text in hit for hit in texts(client, query)):
        time.sleep(0.02)
    return time.monotonic() - since


@pytest.mark.feature(
    "… with vim in a terminal on a vault like Obsidian's, while `fusion serve` answers searches (`pytest -m editor`)",
    of="Markdown: a change is read 1.5",
)
@pytest.mark.timeout(180)
def test_what_is_typed_into_an_editor_is_found(home: Path, vault: Path) -> None:
    """Saved and left open, saved again, a new note, a title in the front matter, a word taken away: each is found
    after its `:w`, nothing before it, and whoever searched meanwhile always had the right answer."""
    told: list[str] = []
    with Client.of_home(home, start=False) as client, Searcher(home) as searcher:
        assert texts(client, "PostgreSQL orders")
        with editing(vault / "Services" / "Orders.md") as vim:
            vim.type(f"Go{ENTER}The [[Kestrel]] migration runs on Friday night. #migration{ESC}")
            vim.catch_up()  # typed and not saved: there is nothing to be seen of it but a swap file
            assert not any("Kestrel" in hit for hit in texts(client, "kestrel migration"))
            vim.type(f":w{ENTER}")
            told.append(f"saved: {found(client, 'kestrel migration', 'Friday night', time.monotonic()):.2f} s")
            vim.type(f":%s/Friday/Sunday/{ENTER}:w{ENTER}")
            told.append(f"again: {found(client, 'kestrel migration', 'Sunday night', time.monotonic()):.2f} s")
            assert not any("Friday night" in hit for hit in texts(client, "kestrel migration"))
            vim.type(f":%s/title: Orders service/title: Purchasing pelican/{ENTER}:w{ENTER}")
            told.append(f"title: {found(client, 'pelican', 'Sunday night', time.monotonic()):.2f} s")
            vim.type(f":e {vault}/Ideas.md{ENTER}iA periscope for the [[Orders]] team.{ESC}:w{ENTER}")
            told.append(f"new note: {found(client, 'periscope', 'periscope', time.monotonic()):.2f} s")
            assert vim.quit() == 0
        assert not texts(client, "zeppelin")  # neither the trash nor the editor's temporary files
        assert all(".swp" not in hit["native_id"] for hit in client.search("vault", "kestrel")["hits"])
    with Client.of_home(home, start=False) as client:
        # Nobody searches, so what follows is the server's own look, after the debounce.
        before = items(client)
        with editing(vault / "Daily" / "2026-03-06.md") as vim:
            vim.type("i# Friday")
            assert vim.quit() == 0
        since = time.monotonic()
        while items(client) == before:
            time.sleep(0.02)
        told.append(f"a daily note, with nobody searching: {time.monotonic() - since:.2f} s")
    assert searcher.wrong == []
    notes = len(list(vault.rglob("*.md")))
    told = [f"vim on {notes} notes", f"{searcher.searches} searches meanwhile, none of them wrong", *told]
    print("\n".join(told))  # noqa: T201 - for who asks for it, by -s
