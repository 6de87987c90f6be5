"""Reads LoCoMo: conversations of many sessions, questions, and which turns hold the answer.

Maharana et al., "Evaluating very long-term conversational memory of LLM agents", ACL 2024. The data set is not part of
this project (CC BY-NC 4.0): ``--data`` names a copy of yours.
"""

from __future__ import annotations

import json
import re
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass
from datetime import UTC, datetime, timedelta
from pathlib import Path
from typing import Any

CATEGORIES = {1: "multi-evidence", 2: "temporal", 3: "inference", 4: "single", 5: "unanswerable"}
UNANSWERABLE = 5

_EVIDENCE = re.compile(r"D:?(\d+):(\d+)")
_DATE = re.compile(r"(\d{1,2}):(\d{2})\s*([ap]m)\s+on\s+(\d{1,2})\s+([A-Z][a-z]+),?\s+(\d{4})", re.IGNORECASE)
_MONTHS = "january february march april may june july august september october november december".split()


@dataclass(frozen=True, slots=True)
class Turn:
    """``id`` is the data set's, ``D1:3``; ``position`` counts within the session from 0; ``at`` is UTC."""

    id: str
    session: str
    position: int
    speaker: str
    text: str
    at: datetime | None = None
    caption: str = ""

    @property
    def spoken(self) -> str:
        return f"{self.speaker}: {self.text}"


@dataclass(frozen=True, slots=True)
class Question:
    """``index`` is its place in the conversation's list; ``gold`` the turns that hold the answer."""

    index: int
    text: str
    category: int
    gold: tuple[str, ...]

    @property
    def answerable(self) -> bool:
        """Whether it counts for recall: it has an answer, and the key says where."""
        return self.category != UNANSWERABLE and bool(self.gold)


@dataclass(frozen=True, slots=True)
class Conversation:
    id: str
    turns: tuple[Turn, ...]
    questions: tuple[Question, ...]


def load(path: Path) -> tuple[Conversation, ...]:
    """Every conversation of a file, in its order. Raises ValueError for what is no LoCoMo file."""
    samples = json.loads(path.read_text(encoding="utf-8"))
    if not isinstance(samples, list):
        raise ValueError(f"{path} is no LoCoMo file: a list of conversations is expected")
    return tuple(map(_conversation, samples))


def _conversation(sample: Mapping[str, Any]) -> Conversation:
    talk = sample["conversation"]
    numbers = sorted(int(key[len("session_") :]) for key in talk if re.fullmatch(r"session_\d+", key))
    turns = tuple(t for n in numbers for t in _session(n, talk[f"session_{n}"], talk.get(f"session_{n}_date_time")))
    ids = {turn.id for turn in turns}
    questions = (
        Question(index, entry["question"], entry["category"], evidence(entry.get("evidence"), ids))
        for index, entry in enumerate(sample["qa"])
    )
    return Conversation(sample["sample_id"], turns, tuple(questions))


def _session(number: int, entries: Sequence[Mapping[str, Any]], date: str | None) -> Iterable[Turn]:
    """The data set dates sessions, not turns: later turns get later seconds, so that their order survives."""
    start = session_date(date)
    for position, entry in enumerate(entries):
        yield Turn(
            id=entry["dia_id"],
            session=f"session_{number}",
            position=position,
            speaker=entry["speaker"],
            text=entry["text"],
            at=start + timedelta(seconds=position) if start else None,
            caption=entry.get("blip_caption") or "",
        )


def session_date(text: str | None) -> datetime | None:
    """ "1:56 pm on 8 May, 2023" as a time, taken as UTC because the data set names no zone."""
    match = _DATE.search(text or "")
    if match is None:
        return None
    hour, minute, half, day, month, year = match.groups()
    hour_of_day = int(hour) % 12 + (12 if half.lower() == "pm" else 0)
    return datetime(int(year), _MONTHS.index(month.lower()) + 1, int(day), hour_of_day, int(minute), tzinfo=UTC)


def evidence(entries: Iterable[object] | None, ids: Iterable[str]) -> tuple[str, ...]:
    """The key's turn ids, mended: ``D30:05`` is D30:5, ``D:11:26`` is D11:26, several may share a string.

    What names no turn of the conversation is dropped.
    """
    known = set(ids)
    found = (f"D{int(s)}:{int(t)}" for entry in entries or () for s, t in _EVIDENCE.findall(str(entry)))
    return tuple(dict.fromkeys(ref for ref in found if ref in known))
