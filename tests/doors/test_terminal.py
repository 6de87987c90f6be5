"""What reaches a terminal has no control characters, whoever wrote it."""

from __future__ import annotations

import io
import json
import os
import pty
import re
import subprocess
import sys
from collections.abc import Callable
from pathlib import Path

import pytest
from hypothesis import given
from hypothesis import strategies as st
from rich.table import Table
from rich.text import Text

from fusion.doors import terminal

ESC = "\x1b"
HOSTILE = (
    f"{ESC}[2J{ESC}[31mred{ESC}[0m",
    f"{ESC}]0;title\x07",
    f"{ESC}]52;c;ZXZpbA==\x07",
    f"{ESC}]8;;http://evil.example{ESC}\\link{ESC}]8;;{ESC}\\",
    "\x9b2J\x9d0;title\x9c",
    "\x07\x08\x0b\x0c\x7f\x85",
    "abc\u202etxt.exe\u2066x\u2069\u200e",
    f"{ESC}P0;0|x{ESC}\\",
    f"{ESC}c{ESC}(0{ESC}7",
    "\u2028\u2029\ufeff\U000e0041",
    "\udc1b\udcff",
)
FORBIDDEN = re.compile("[\x00-\x08\x0b-\x1f\x7f-\x9f\u061c\u200e\u200f\u2028-\u202e\u2066-\u2069\ufeff\ud800-\udfff]")
WORDS = st.lists(st.one_of(st.sampled_from(HOSTILE), st.text(max_size=6)), max_size=6).map("".join)


@pytest.mark.feature("no escape sequence of a name, a text or an error reaches a terminal")
@given(WORDS)
def test_plain_text_has_no_control_characters(text: str) -> None:
    """Neither C0, C1, direction nor lone surrogates; line ends and tabs stay, and what is plain stays as it is."""
    plain = terminal.plain(text)
    assert not FORBIDDEN.search(plain.replace("\r", ""))
    assert terminal.plain(plain) == plain


@pytest.mark.feature("… `--json` escapes them and keeps the content", of="no escape sequence")
@given(WORDS)
def test_json_is_escaped_and_says_the_same(text: str) -> None:
    """A program reads every character; a terminal gets none that it obeys."""
    text = text.encode("utf-16", "surrogatepass").decode("utf-16", "replace")
    line = terminal.json_line({"text": text})
    assert not FORBIDDEN.search(line)
    assert terminal.plain(line) == line
    assert json.loads(line) == {"text": text}


@given(WORDS)
def test_a_console_takes_sequences_out_of_texts_and_keeps_its_colours(text: str) -> None:
    """Tables, titles and remarks alike; what is left of escapes are Rich's colours."""
    out = io.StringIO()
    console = terminal.console(file=out, force_terminal=True, color_system="standard", width=60)
    table = Table("name", title=text)
    table.add_row(Text(text, "red"))
    console.print(table)
    console.print(Text(text, "yellow"), soft_wrap=True)
    shown = re.sub(r"\x1b\[[0-9;]*m", "", out.getvalue())
    assert not FORBIDDEN.search(shown)
    assert f"{ESC}[" in out.getvalue()


def test_streams_are_guarded_once() -> None:
    """A stream that is guarded already stays; each line of several is plain."""
    out = io.StringIO()
    stream = terminal._guarded(out)
    assert terminal._guarded(stream) is stream
    stream.writelines([f"a{text}\n" for text in HOSTILE])
    assert not FORBIDDEN.search(out.getvalue())
    assert out.getvalue().count("\n") >= len(HOSTILE)


def hostile_folder(at: Path) -> Path:
    """Notes and sessions whose names and texts hold escape sequences."""
    folder = at / f"notes{ESC}]0;owned\x07{ESC}[31m"
    folder.mkdir()
    for number, text in enumerate(HOSTILE[:9]):
        name = text.replace("/", "_")
        (folder / f"{number}{name}.md").write_text(f"# Plan {text}\n\nWe chose {text} Redis for the cache.\n", "utf-8")
    (folder / f"broken{ESC}[2J.jsonl").write_text("{\x1b[31m not json\n", "utf-8")
    (folder / f"huge{ESC}[2J.pdf").write_bytes(b"%PDF")
    (folder / f"gone{ESC}[2J.md").symlink_to("/nowhere")
    return folder


COMMANDS: dict[str, Callable[[Path], list[str]]] = {
    "ingest": lambda notes: ["ingest", str(notes)],
    "ingest a file that is not there": lambda notes: ["ingest", f"/nowhere/{ESC}[2J\x07.md"],
    "fuse": lambda notes: ["fuse", "what did we choose for the cache?"],
    "fuse --explain": lambda notes: ["fuse", "--explain", f"cache {ESC}[2J"],
    "search": lambda notes: ["search", "Redis cache"],
    "memories": lambda notes: ["memories"],
    "get": lambda notes: ["get", f"no{ESC}[2Jref"],
    "forget": lambda notes: ["forget", f"x{ESC}]0;t\x07"],
    "remember": lambda notes: ["remember", f"Tea {ESC}[2J at four \x07"],
    "status": lambda notes: ["status"],
    "doctor": lambda notes: ["doctor"],
    "an unknown option": lambda notes: ["fuse", f"--x{ESC}[2J\x9b31m", "q"],
    "an unknown command": lambda notes: [f"fu{ESC}]0;t\x07se", "q"],
    "a wrong value": lambda notes: ["fuse", "--budget", f"{ESC}[2J", "q"],
    "a home with a hostile name": lambda notes: ["status", "--home", str(notes / f"x{ESC}[2J")],
    "memories --json": lambda notes: ["memories", "--json"],
    "help": lambda notes: ["--help"],
}


@pytest.fixture(scope="module")
def home(tmp_path_factory: pytest.TempPathFactory) -> tuple[Path, Path]:
    root = tmp_path_factory.mktemp("terminal")
    place = root / "home"
    place.mkdir(mode=0o700)
    (place / "fusion.toml").write_text(
        '[backends.memory]\nadapter = "adapters.inmemory:InMemory"\n[embedder]\nadapter = ""\n', "utf-8"
    )
    return place, hostile_folder(root)


def in_terminal(arguments: list[str], environment: dict[str, str]) -> str:
    """What a command shows on a terminal of its own, stdout and stderr together."""
    ours, theirs = pty.openpty()
    command = [sys.executable, "-m", "fusion", *arguments]
    process = subprocess.Popen(command, stdin=subprocess.DEVNULL, stdout=theirs, stderr=theirs, env=environment)
    os.close(theirs)
    shown = b""
    while True:
        try:
            piece = os.read(ours, 65_536)
        except OSError:  # Linux: the other side is closed
            break
        if not piece:
            break
        shown += piece
    os.close(ours)
    process.wait(60)
    return shown.decode("utf-8", "surrogateescape")


@pytest.mark.feature("no escape sequence of a name, a text or an error reaches a terminal")
@pytest.mark.slow
@pytest.mark.timeout(400)
def test_commands_write_no_escape_sequences_of_memories(home: tuple[Path, Path], tmp_path: Path) -> None:
    """Real files with hostile names, hostile arguments and texts: on a terminal are Rich's colours and bars alone."""
    place, notes = home
    environment = {**os.environ, "FUSION_HOME": str(place), "XDG_STATE_HOME": str(tmp_path), "TERM": "xterm-256color"}
    environment |= {"PYTHONPATH": str(Path(__file__).parents[2]), "HOME": str(tmp_path)}
    seen = 0
    for name in ("allow", *COMMANDS, "stop"):
        arguments = COMMANDS[name](notes) if name in COMMANDS else [name, *(["--yes"] if name == "allow" else [])]
        shown = in_terminal(arguments, environment)
        seen += len(shown)
        rest = re.sub(r"\x1b\[[0-9;]*m|\x1b\[\?25[lh]|\x1b\[\d*[AK]|\r", "", shown)
        assert not FORBIDDEN.search(rest), (name, rest)
        assert "\x1b[31mred" not in shown, name
        assert "\x1b[2J" not in shown, name
        assert "Traceback" not in shown, (name, shown)
    assert seen > 2_000
