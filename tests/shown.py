"""Runs the commands that pages show, and compares what they print with what the page shows.

A page names where its commands run in a comment before a block: `<!-- shown: checkout -->` for a folder as `make fuse`
leaves it, `<!-- shown: ada -->` for the home directory of a user with notes and sessions, `<!-- shown: empty -->` for a
user who has nothing yet. Each kind of place is made once a page, and the blocks run in it in order. `numbers vary`
after it compares no number in the block. A line `…` in a block stands for any lines, and `…` at the end of a line for
the rest of it. A line `$ command` is run by a shell. A Python block that begins with `# name.py` is that file in the
place.

`python -m tests.shown [PAGE …]` prints where a page differs; `--write` puts what was printed into every block without
`…`, and shows the others.
"""

from __future__ import annotations

import argparse
import os
import re
import shutil
import subprocess
import sys
from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import dataclass
from datetime import UTC, datetime
from pathlib import Path
from tempfile import TemporaryDirectory

ROOT = Path(__file__).resolve().parent.parent
PAGES = (
    "README.md",
    "docs/concepts.md",
    "docs/getting-started.md",
    "docs/forgetting.md",
    "docs/evaluation.md",
    "docs/jobs.md",
    "docs/ledger.md",
    "docs/living.md",
    "docs/middleware.md",
    "docs/models.md",
    "docs/upkeep.md",
    "integrations/README.md",
)
SHOWN = re.compile(
    r"^<!-- shown: (?P<place>\w+)(?P<vary>, numbers vary)? -->\n```console\n(?P<text>.*?)^```$",
    re.MULTILINE | re.DOTALL,
)
FILE = re.compile(r"^```python\n(?P<text># (?P<name>\w+\.py)\b.*?)^```$", re.MULTILINE | re.DOTALL)
REST = "…"
WRITTEN = ("2026-11-22", "2026-11-23", "2026-11-24")
"""the days in the outputs on the pages: those on which a page was written"""
QUESTIONS = """\
{"query": "why did we leave SQLite?", "expected": ["projects/database.md", "writers block each other"]}
{"query": "what does Postgres cost us?", "expected": ["190 kr a month"]}
{"query": "how long is a slot held?", "expected": ["ten minutes"]}
{"query": "who keeps clogs for guests?", "expected": ["Berit keeps a pair of clogs"]}
"""


@dataclass(frozen=True, slots=True)
class Block:
    """One console block of a page: where it runs, and each command with the lines that the page shows for it."""

    place: str
    numbers_vary: bool
    commands: tuple[tuple[str, tuple[str, ...]], ...]
    span: tuple[int, int]


def blocks(page: str) -> Iterator[Block]:
    """The console blocks of a page's text that say where they run, in order."""
    for found in SHOWN.finditer(page):
        commands: list[tuple[str, list[str]]] = []
        for line in found["text"].splitlines():
            if line.startswith("$ "):
                commands.append((line[2:], []))
            else:
                commands[-1][1].append(line)
        shown = tuple((command, tuple(lines)) for command, lines in commands)
        yield Block(found["place"], found["vary"] is not None, shown, found.span("text"))


class Place:
    """A folder in which commands run as a user called ada runs them, with a server of its own for each home."""

    def __init__(self, kind: str, root: Path) -> None:
        self.user = root / "home" / "ada"
        self.user.mkdir(parents=True)
        self.folder = self.user
        tools = self.user / "checkout" / ".venv" / "bin"
        tools.mkdir(parents=True)
        for name, arguments in (("fusion", "-m fusion"), ("python", "")):
            command = tools / name
            command.write_text(f'#!/bin/sh\nexec "{sys.executable}" {arguments} "$@"\n', encoding="utf-8")
            command.chmod(0o700)
        self.environment = {
            "HOME": str(self.user),
            "PATH": f"{tools}{os.pathsep}{os.environ['PATH']}",
            "PYTHONPATH": str(ROOT),
            "PYTHONSAFEPATH": "1",
            "LANG": "C.UTF-8",
            "COLUMNS": "120",
            "FUSION_JOBS__START_AFTER_S": "3600",  # no job runs by itself while the page is shown
            "FUSION_HOOKS__RECALL_TIMEOUT_MS": "15000",  # what a hook prints does not depend on how busy the machine is
            "FUSION_HOOKS__HELLO_TIMEOUT_MS": "15000",
        }
        {"checkout": self._checkout, "ada": self._notes, "empty": lambda: None}[kind]()

    def _checkout(self) -> None:
        self.folder = self.user / "checkout"
        sample = ROOT / "config" / "sample"
        shutil.copytree(sample, self.folder / "config" / "sample")
        (self.folder / "questions.jsonl").write_text(QUESTIONS, encoding="utf-8")
        home = self.folder / ".fusion"
        home.mkdir(mode=0o700)
        shutil.copy(sample / "fusion.toml", home / "fusion.toml")
        files = " ".join(f"config/sample/{name}" for name in ("workspace", "sessions.jsonl", "facts.jsonl"))
        self.run(f"fusion ingest --home .fusion {files}")

    def _notes(self) -> None:
        shutil.copytree(ROOT / "config" / "sample" / "workspace", self.user / ".openclaw" / "workspace")
        talk = self.user / ".claude" / "projects" / "-home-ada-bikeshop" / "3f2a7c1e-58b4-4d0e-9a61-0c2d5e8f7b90.jsonl"
        talk.parent.mkdir(parents=True)
        turns = (
            ("user", "Which port does staging listen on?"),
            ("assistant", "Staging listens on port 4410 since Friday."),
            ("user", "Good. We deploy on Tuesdays from now on."),
            ("user", "<private>My locker code is 99.</private>"),
        )
        talk.write_text(
            "".join(
                f'{{"type": "{role}", "uuid": "u{n}", "sessionId": "3f2a7c1e", "timestamp": "2026-05-2{n}T09:00:00Z", '
                f'"cwd": "/home/ada/bikeshop", "message": {{"role": "{role}", "content": "{text}"}}}}\n'
                for n, (role, text) in enumerate(turns)
            ),
            encoding="utf-8",
        )

    def run(self, command: str) -> list[str]:
        """The lines that a command prints, on stdout and stderr, with the user's folder as `/home/ada`."""
        done = subprocess.run(
            ["sh", "-c", command],
            cwd=self.folder,
            env=self.environment,
            stdin=subprocess.DEVNULL,
            stdout=subprocess.PIPE,
            stderr=subprocess.STDOUT,
            text=True,
            timeout=110,
            check=False,
        )
        return done.stdout.replace(str(self.user), "/home/ada").rstrip("\n").splitlines()

    def close(self) -> None:
        """Stops the server of each home."""
        for home in (self.folder / ".fusion", self.user / ".local" / "share" / "memory-fusion"):
            if home.is_dir():
                self.run(f"fusion stop --home '{home}'")


@contextmanager
def places() -> Iterator[dict[str, Place]]:
    """The places of one page, each made when it is first asked for."""
    with TemporaryDirectory(prefix="shown-", ignore_cleanup_errors=True) as folder:

        class Made(dict[str, Place]):
            def __missing__(self, kind: str) -> Place:
                root = Path(folder) / kind
                root.mkdir()
                self[kind] = Place(kind, root)
                return self[kind]

        made = Made()
        try:
            yield made
        finally:
            for place in made.values():
                place.close()


VARYING = (
    (re.compile(r'nonce=(\\?)"[0-9a-f]{12}'), r"nonce=\1NONCE"),
    (re.compile(r"--- End of memories [0-9a-f]{12}"), "--- End of memories NONCE"),
    (re.compile(r"\br[0-9a-f]{24}\b"), "RECEIPT"),
    (re.compile(r"\b20\d{6}-\d{6}-[0-9a-f]{4}\b"), "BATCH"),
    (re.compile(r"\b20\d\d-\d\d-\d\d \d\d:\d\d(:\d\d)?"), "TIME"),
    (re.compile(r"─+"), "─"),
    (re.compile(r"  +"), " "),
)


def comparable(line: str, numbers_vary: bool = False) -> str:
    """The line without what differs from run to run: nonces, ids, times of day, widths of columns."""
    for pattern, name in VARYING:
        line = pattern.sub(name, line)
    # A page keeps the day on which it was written; what a command prints has today's.
    line = re.sub(rf"\b({'|'.join(WRITTEN)}|{datetime.now(UTC).date()})\b", "TODAY", line)
    if numbers_vary:
        line = re.sub(r"\d+([.,]\d+)*", "N", line)
    return line.strip()


def matches(shown: list[str], printed: list[str]) -> bool:
    """Whether what was printed is what is shown, `…` standing for any lines or for the rest of one."""
    if not shown:
        return not printed
    first, rest = shown[0], shown[1:]
    if first == REST:
        return any(matches(rest, printed[n:]) for n in range(len(printed) + 1))
    if not printed:
        return False
    same = printed[0].startswith(first.removesuffix(REST).rstrip()) if first.endswith(REST) else printed[0] == first
    return (same or first == printed[0]) and matches(rest, printed[1:])


def check(page: str) -> Iterator[tuple[Block, str, list[str], list[str], bool]]:
    """By command of a page's text: its block, the command, what is shown, what it prints, and whether they agree."""
    with places() as made:
        for block in blocks(page):
            for file in FILE.finditer(page):
                (made[block.place].folder / file["name"]).write_text(file["text"], encoding="utf-8")
            for command, shown in block.commands:
                printed = made[block.place].run(command)
                want = [comparable(line, block.numbers_vary) for line in shown]
                have = [comparable(line, block.numbers_vary) for line in printed]
                yield block, command, list(shown), printed, matches(want, have)


def main() -> int:
    parser = argparse.ArgumentParser(prog="python -m tests.shown", description=(__doc__ or "").split("\n")[0])
    parser.add_argument("pages", nargs="*", default=PAGES)
    parser.add_argument("--write", action="store_true", help="put what was printed into blocks that leave nothing out")
    asked = parser.parse_args()
    wrong = 0
    for name in asked.pages:
        text = (ROOT / name).read_text(encoding="utf-8")
        written: dict[tuple[int, int], list[str]] = {}
        for block, command, shown, printed, same in check(text):
            left_out = any(REST in line for line in shown) and not same
            written.setdefault(block.span, []).extend([f"$ {command}", *(shown if same or left_out else printed)])
            if not same:
                wrong += 1
                sys.stdout.write(f"{name}: $ {command}\n" + "".join(f"    {line}\n" for line in printed))
        if asked.write:
            for (start, end), lines in sorted(written.items(), reverse=True):
                text = text[:start] + "".join(f"{line}\n" for line in lines) + text[end:]
            (ROOT / name).write_text(text, encoding="utf-8")
    return 1 if wrong else 0


if __name__ == "__main__":
    raise SystemExit(main())
