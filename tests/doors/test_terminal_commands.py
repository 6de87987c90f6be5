"""Commands on a real terminal, in a home and with notes, settings, transcripts and stores that hold escape sequences.

Each command runs in a pseudo-terminal. What it shows may have Rich's own colours and bars, and nothing of others.
"""

from __future__ import annotations

import json
import os
import pty
import re
import select
import signal
import sqlite3
import subprocess
import sys
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from pathlib import Path

import pytest

from tests.doors.test_terminal import FORBIDDEN

EVIL = "\x1b[38;5;201mred\x1b[7A\x1b]0;owned\x07\x9b2J"
"""a colour, a cursor movement, a title and a C1 sequence: on a terminal that obeyed them each would show"""
pytestmark = [pytest.mark.slow, pytest.mark.timeout(400)]

RICH = re.compile(r"\x1b\[[0-9;]*m|\x1b\[\?25[lh]|\x1b\[\d*[AGK]|\r")
LONG_S = 120.0

SETTINGS = """
log_level = "debug"
[backends.memory]
adapter = "adapters.inmemory:InMemory"
[backends.markdown]
enabled = false
[backends.mem0]
enabled = false
[backends.cortex]
enabled = false
[embedder]
adapter = ""
[server]
port = 0
"""


@dataclass(frozen=True)
class Place:
    """A home and a folder of notes, both with hostile names, and the environment of the commands."""

    home: Path
    notes: Path
    environment: dict[str, str]

    def shows(
        self,
        arguments: Sequence[str],
        *,
        typed: str = "",
        until: str = "",
        piped: bytes | None = None,
        program: str = "from fusion.__main__ import main; main()",
        stdout: int | None = None,
    ) -> str:
        """What a command shows on its terminal, on which ``typed`` is entered; it is interrupted after ``until``."""
        ours, theirs = pty.openpty()
        os.write(ours, typed.encode())
        stdin = subprocess.PIPE if piped is not None else theirs
        command = [sys.executable, "-c", program, *arguments]
        with subprocess.Popen(
            command, stdin=stdin, stdout=stdout or theirs, stderr=theirs, env=self.environment, cwd=self.notes
        ) as process:
            os.close(theirs)
            if process.stdin is not None:
                process.stdin.write(piped or b"")
                process.stdin.close()
            shown = b""
            while select.select([ours], [], [], LONG_S)[0]:
                try:
                    piece = os.read(ours, 65_536)
                except OSError:  # Linux: the other side is closed
                    break
                shown += piece
                if not piece:
                    break
                if until and until.encode() in shown:
                    process.send_signal(signal.SIGINT)
                    until = ""
            process.kill()
        os.close(ours)
        text = shown.decode("utf-8", "surrogateescape")
        assert "Traceback" not in text, text
        return text


def is_harmless(shown: str) -> bool:
    """Whether there are no sequences but Rich's; `EVIL`'s colour and movement have the form of Rich's."""
    return not FORBIDDEN.search(RICH.sub("", shown)) and "\x1b[38;5;201" not in shown and "\x1b[7A" not in shown


@pytest.fixture
def place(tmp_path: Path) -> Place:
    home, notes = tmp_path / f"home{EVIL}", tmp_path / f"notes{EVIL}"
    home.mkdir(mode=0o700)
    (home / "fusion.toml").write_text(SETTINGS, "utf-8")
    notes.mkdir()
    for number in range(3):
        text = f"# Plan {EVIL} {number}\n\nWe chose {EVIL} Redis for the cache on 3 March 2026; Mara wrote it down.\n"
        (notes / f"{number}{EVIL}.md").write_text(text, "utf-8")
    (notes / f"broken{EVIL}.jsonl").write_text("{\x1b[31m not json\n", "utf-8")
    (notes / f"gone{EVIL}.md").symlink_to("/nowhere")
    environment = {**os.environ, "FUSION_HOME": str(home), "XDG_STATE_HOME": str(tmp_path / "state")}
    environment |= {"PYTHONPATH": str(Path(__file__).parents[2]), "TERM": "xterm-256color", "HOME": str(tmp_path)}
    place = Place(home, notes, environment)
    place.shows(["allow", "--yes"])
    return place


@pytest.mark.feature(
    "… in init, ingest, undo, doctor, repair, allow, serve and the hooks", of="no escape sequence of a name"
)
def test_ingest_and_undo_show_no_foreign_sequence(place: Place) -> None:
    """Bars, the summary, the preview, the question and what was taken back."""
    shown = place.shows(["ingest", "--yes", "--direct", str(place.notes)])
    assert "remembered" in shown
    assert is_harmless(shown), shown
    for arguments in (["undo"], ["undo", "--last"]):
        shown = place.shows([*arguments, "--direct"], typed="y\n")
        assert is_harmless(shown), shown


WITH_BAR = """
import logging, sys
from fusion.doors.terminal import guard
guard()
from fusion.doors.cli.progress import bars
with bars(False) as shown:
    task = shown.add_task("reading " + sys.argv[1], total=2)
    logging.warning("cannot read %s", sys.argv[1])
    print("a line for a file " + "x" * 200)
    for _ in range(2):
        shown.advance(task)
        shown.refresh()
"""


@pytest.mark.feature("progress bars are drawn in place on a terminal, and redirected output still goes to its file")
def test_bars_are_drawn_in_place_and_show_no_foreign_sequence(place: Place, tmp_path: Path) -> None:
    """A warning while a bar is drawn has no colours of others; stdout is a file and gets its line whole."""
    with (tmp_path / "out").open("wb") as out:
        shown = place.shows([EVIL], program=WITH_BAR, stdout=out.fileno())
    assert is_harmless(shown), shown
    assert "\x1b[2K" in shown
    assert "cannot read red" in shown
    assert (tmp_path / "out").read_text() == "a line for a file " + "x" * 200 + "\n"


def test_init_shows_no_foreign_sequence(place: Place, tmp_path: Path) -> None:
    """What was found, the questions, the settings that were written and the first answer."""
    fresh = tmp_path / f"fresh{EVIL}"
    shown = place.shows(["init", "--home", str(fresh), "--scan", str(place.notes)], typed="a\na\na\n")
    assert "Wrote" in shown
    assert is_harmless(shown), shown
    place.shows(["stop", "--home", str(fresh)])


def test_doctor_repair_and_status_show_no_foreign_sequence(place: Place) -> None:
    """Names of files, a damaged journal, the last words of a server's log."""
    place.shows(["remember", "--direct", "Tea at four."])
    (place.home / "server.log").write_text(f"fusion: the store {EVIL} is broken\n", "utf-8")
    (place.home / f"x{EVIL}.sqlite").write_bytes(b"no database")
    for arguments in (["doctor"], ["repair", "--dry-run"], ["status", "--direct"], ["backends", "--direct"]):
        assert is_harmless(shown := place.shows(arguments)), shown
    (place.home / "journal.sqlite").write_bytes(b"SQLite format 3\0" + EVIL.encode() * 400)
    for arguments in (["doctor"], ["repair"]):
        assert is_harmless(shown := place.shows(arguments, typed="y\n")), shown


def test_allow_and_errors_of_settings_show_no_foreign_sequence(place: Place) -> None:
    """Settings that name backends, adapters, addresses, keys and folders with sequences."""
    evil = json.dumps(EVIL)
    settings = f"""
    recipe = {evil}
    [notes]
    paths = [{evil}]
    [backends.{evil}]
    adapter = "adapters.cortex:Cortex"
    [embedder]
    provider = {evil}
    url = {json.dumps("http://" + EVIL)}
    api_key_env = {evil}
    api_key_file = {evil}
    """
    (place.home / "fusion.toml").write_text(settings, "utf-8")
    for arguments in (["allow"], ["allow", "--dry-run"], ["--help"], ["status"], ["doctor"], ["allow", "--yes"]):
        assert is_harmless(shown := place.shows(arguments, typed="yes\nyes\nyes\nyes\n")), (arguments, shown)
    for arguments in (["--help"], ["help"], ["status", "--direct"], ["doctor"], [EVIL, "--help"], ["serve"]):
        assert is_harmless(shown := place.shows(arguments)), (arguments, shown)


def test_serve_logs_no_foreign_sequence(place: Place) -> None:
    """Log lines of a server on its terminal: the home, the notes that it follows, what it cannot read."""
    notes = json.dumps(str(place.notes))
    settings = f"{SETTINGS}\n[notes]\npaths = [{notes}]\n"
    (place.home / "fusion.toml").write_text(settings, "utf-8")
    place.shows(["allow", "--yes"])
    shown = place.shows(["serve", "--port", "0"], until="serves")
    assert "memory-fusion serves" in shown
    assert is_harmless(shown), shown


HOOKED: dict[str, Callable[[Place], dict[str, object]]] = {
    "user-prompt-submit": lambda place: {"prompt": f"what did we choose {EVIL}?", "cwd": str(place.notes)},
    "session-start": lambda place: {"cwd": str(place.notes / ".." / "cloned")},
    "stop": lambda place: {"transcript_path": str(place.notes / f"no{EVIL}.jsonl"), "last_assistant_message": "x"},
    EVIL: lambda place: {},
}


@pytest.mark.parametrize("hook", HOOKED)
def test_hooks_show_no_foreign_sequence(place: Place, hook: str) -> None:
    """Notices on stderr, and the message of a session's start that Claude Code shows on its terminal."""
    cloned = place.notes / ".." / "cloned" / ".fusion"
    cloned.mkdir(parents=True)
    (cloned / "fusion.toml").write_text(f"recipe = {json.dumps(EVIL)}\n")
    (place.home / "fusion.toml").write_text(f"recipe = {json.dumps(EVIL)}\n{SETTINGS}")
    payload = json.dumps(HOOKED[hook](place)).encode()
    shown = place.shows(["hook", hook], piped=payload)
    assert is_harmless(shown), shown
    for line in shown.splitlines():
        if line.startswith("{"):
            assert is_harmless(json.loads(line).get("systemMessage", "")), line


def test_verbs_and_recorded_texts_show_no_foreign_sequence(place: Place) -> None:
    """Texts that a store holds, whatever wrote them: here the journal itself was written to."""
    place.shows(["remember", "--direct", "Tea at four."])
    with sqlite3.connect(place.home / "journal.sqlite") as db:
        (columns,) = db.execute("select group_concat(name) from pragma_table_info('event')").fetchone()
        assert "text" in columns
        db.execute("update event set text = ?", (f"Tea at four. {EVIL}",))
    for arguments in (["memories"], ["fuse", "-v", "tea"], ["search", "memory", "tea"], ["forget", "--query", "tea"]):
        shown = place.shows([*arguments, "--direct"], typed="y\n")
        assert is_harmless(shown), (arguments, shown)
