"""LoCoMo: conversations of many sessions, questions, and which turns hold the answer.

Maharana et al., "Evaluating very long-term conversational memory of LLM agents", ACL 2024 (CC BY-NC 4.0).
"""

from __future__ import annotations

import re
from collections.abc import Iterable, Iterator, Sequence
from datetime import UTC, datetime, timedelta
from pathlib import Path
from typing import Any

from benchmarks.datasets import UNANSWERABLE, Corpus, DataError, Item, Question, distinct, field, read_json

CATEGORIES = {1: "multi-evidence", 2: "temporal", 3: "inference", 4: "single", 5: UNANSWERABLE}

_EVIDENCE = re.compile(r"D:?(\d+):(\d+)")
_DATE = re.compile(r"(\d{1,2}):(\d{2})\s*([ap]m)\s+on\s+(\d{1,2})\s+([A-Z][a-z]+),?\s+(\d{4})", re.IGNORECASE)
_MONTHS = "january february march april may june july august september october november december".split()


def load(path: Path) -> tuple[Corpus, ...]:
    """Every conversation of a file, in its order. Raises DataError for what is no LoCoMo file."""
    samples = read_json(path)
    if not isinstance(samples, list) or not samples:
        raise DataError(f"{path} is no LoCoMo file: a list of conversations is expected")
    corpora = tuple(_conversation(sample, f"{path}, conversation {i}") for i, sample in enumerate(samples))
    distinct((c.id for c in corpora), str(path))
    return corpora


def _conversation(sample: Any, where: str) -> Corpus:
    name = field(sample, "sample_id", str, where)
    where = f"{where} ({name})"
    talk = field(sample, "conversation", dict, where)
    numbers = sorted(int(key[len("session_") :]) for key in talk if re.fullmatch(r"session_\d+", key))
    turns = [
        turn
        for n in numbers
        for turn in _session(
            n, field(talk, f"session_{n}", list, where), talk.get(f"session_{n}_date_time"), f"{where}, session_{n}"
        )
    ]
    ids = distinct((turn.id for turn in turns), where)
    questions = (
        _question(i, entry, ids, f"{where}, question {i}") for i, entry in enumerate(field(sample, "qa", list, where))
    )
    return Corpus(name, tuple(turns), tuple(questions))


def _question(index: int, entry: Any, ids: Iterable[str], where: str) -> Question:
    category = field(entry, "category", int, where)
    if category not in CATEGORIES:
        raise DataError(f"{where}: category {category} is not 1 to 5")
    text = field(entry, "question", str, where)
    return Question(index, text, CATEGORIES[category], evidence(entry.get("evidence"), ids))


def _session(number: int, entries: Sequence[Any], date: str | None, where: str) -> Iterator[Item]:
    """The data set dates sessions, not turns: later turns get later seconds, so that their order survives."""
    start = session_date(date)
    for position, entry in enumerate(entries):
        here = f"{where}, turn {position}"
        yield Item(
            id=field(entry, "dia_id", str, here),
            text=field(entry, "text", str, here),
            document=f"session_{number}",
            position=position,
            speaker=field(entry, "speaker", str, here),
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

    What names no turn of the conversation is dropped: the published key has such, and everybody counts without them.
    """
    known = set(ids)
    found = (f"D{int(s)}:{int(t)}" for entry in entries or () for s, t in _EVIDENCE.findall(str(entry)))
    return tuple(dict.fromkeys(ref for ref in found if ref in known))
