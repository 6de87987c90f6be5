"""Two homes and the prompts that are asked in them, all written for this project: `benchmarks/data/quiet`.

Home ``a`` is one person's vault: people, kitchen, house, trips, and ninety days of a generated diary. Home ``b`` is a
firm's engineering notes with the sessions of its agents. Each has questions in five languages that its notes answer,
and questions that nothing answers. The prompts that need no memory are dealt to both homes in turns.
"""

from __future__ import annotations

import json
import re
from collections.abc import AsyncIterator, Iterator, Sequence
from contextlib import asynccontextmanager
from dataclasses import dataclass
from datetime import date, timedelta
from pathlib import Path
from random import Random
from typing import Literal

from benchmarks.fill_stores import BACKENDS, TIMEOUT_MS
from fusion.gateway.gateway import Gateway
from fusion.settings import load
from fusion.sources.files import Skip
from fusion.sources.readers import read

DATA = Path(__file__).parent / "data" / "quiet"
DIARY_DAYS = 90
DIARY_BEGINS = date(2026, 2, 1)
SENTENCES_A_DAY = 4

Home = Literal["a", "b"]
HOMES: tuple[Home, Home] = ("a", "b")
NOTHING = "-"
"""the file of a question that nothing answers"""


@dataclass(frozen=True, slots=True)
class Prompt:
    """A prompt; ``kind`` is question, unanswerable, or what a prompt that needs no memory is (command, trivia …).

    A question has the ``file`` or session with its answer, and a part of the text of the ``answer``.
    """

    text: str
    kind: str
    language: str
    file: str = ""
    answer: str = ""

    @property
    def needs_memory(self) -> bool:
        return self.kind == "question"


def prompts(home: Home) -> list[Prompt]:
    """The questions of a home, and its half of the prompts that need no memory."""
    found = []
    for language, file, answer, text in _rows(f"questions_{home}.tsv"):
        kind = "unanswerable" if file == NOTHING else "question"
        found.append(Prompt(text, kind, language, file, answer))
    for number, (kind, language, text) in enumerate(_rows("nothing.tsv")):
        if number % 2 == HOMES.index(home):
            found.append(Prompt(text.replace("\\n", "\n"), kind, language))
    return found


@asynccontextmanager
async def opened(home: Home, folder: Path) -> AsyncIterator[Gateway]:
    """A gateway over a new home in ``folder`` that has read everything, as `fusion ingest` reads it."""
    paths = write(home, folder)
    # On a busy machine a backend may take seconds; what it finds is measured here, not how fast.
    backends = {name: {"deadline_ms": TIMEOUT_MS} for name in BACKENDS}
    async with Gateway.open(load(home=folder / "home", backends=backends)) as gateway:
        for path in paths:
            memories = [one for one in read([path]) if not isinstance(one, Skip)]
            await gateway.remember(memories)
        await gateway.settle()
        yield gateway


def write(home: Home, folder: Path) -> Sequence[Path]:
    """Write a home's notes and its agents' transcripts below ``folder``; returns the folders that were written."""
    vault, sessions = folder / "vault", folder / "sessions"
    for name, text in _documents(home):
        file = (sessions if name.startswith("session ") else vault) / file_of(name)
        file.parent.mkdir(parents=True, exist_ok=True)
        file.write_text(_transcript(name, text) if file.suffix == ".jsonl" else text, encoding="utf-8")
    return [path for path in (vault, sessions) if path.is_dir()]


def file_of(name: str) -> str:
    """The name of a document's file; a session is a transcript of Claude Code."""
    return f"{_session_id(name)}.jsonl" if name.startswith("session ") else name


def _documents(home: Home) -> Iterator[tuple[str, str]]:
    parts = re.split(r"^@@ (.+)$", (DATA / f"vault_{home}.txt").read_text(encoding="utf-8"), flags=re.MULTILINE)
    for name, text in zip(parts[1::2], parts[2::2], strict=True):
        yield name, text.lstrip("\n")
    if home == "a":
        yield from _diary()


def _diary() -> Iterator[tuple[str, str]]:
    """Ninety days of some sentences each, drawn with a fixed seed."""
    lines = (DATA / "diary_a.txt").read_text(encoding="utf-8").splitlines()
    templates = [line.split("|") for line in lines if not line.startswith("#")]
    draw = Random("diary")
    for day in range(DIARY_DAYS):
        when = DIARY_BEGINS + timedelta(days=day)
        chosen = draw.sample(templates, SENTENCES_A_DAY)
        said = (template.format(*(draw.choice(words.split(";")) for words in lists)) for template, *lists in chosen)
        yield f"Diary/{when}.md", f"# {when:%A}\n" + "\n".join(said) + "\n"


def _transcript(name: str, text: str) -> str:
    """The transcript of a session: a line of JSON for each turn."""
    _, began, project = name.split(" ")
    lines = []
    for number, line in enumerate(text.strip().splitlines()):
        role, _, words = line.partition(": ")
        lines.append(
            json.dumps(
                {
                    "type": role,
                    "uuid": f"{_session_id(name)}-{number}",
                    "sessionId": _session_id(name),
                    "timestamp": f"{began}:{number:02}Z",
                    "cwd": f"/home/kelp/{project}",
                    "message": {"role": role, "content": words},
                },
                ensure_ascii=False,
            )
        )
    return "\n".join(lines) + "\n"


def _session_id(name: str) -> str:
    return re.sub(r"\W+", "-", name)


def _rows(name: str) -> Iterator[list[str]]:
    for line in (DATA / name).read_text(encoding="utf-8").splitlines():
        yield line.split("\t")
