"""LoCoMo: conversations of many sessions, questions, and which turns hold the answer.

Maharana et al., "Evaluating very long-term conversational memory of LLM agents", ACL 2024 (CC BY-NC 4.0).
"""

from __future__ import annotations

import re
from collections.abc import Iterable, Iterator, Sequence
from datetime import datetime, timedelta
from pathlib import Path
from typing import Any

from benchmarks.datasets import (
    UNANSWERABLE,
    Corpus,
    DataError,
    Item,
    Question,
    distinct,
    field,
    moment,
    nonempty_text,
    read_json,
)

CATEGORIES = {1: "multi-evidence", 2: "temporal", 3: "inference", 4: "single", 5: UNANSWERABLE}

_EVIDENCE = re.compile(r"D:?(\d+):(\d+)")
_DATE = re.compile(r"(\d{1,2}):(\d{2})\s*([ap]m)\s+on\s+(\d{1,2})\s+([A-Z][a-z]+),?\s+(\d{4})", re.IGNORECASE)


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
    named = field(entry, "evidence", list, where) if entry.get("evidence") is not None else []
    return Question(index, nonempty_text(entry, "question", where), CATEGORIES[category], *evidence(named, ids))


def _session(number: int, entries: Sequence[Any], date: object, where: str) -> Iterator[Item]:
    """The data set dates sessions, not turns: later turns get later seconds, so that their order survives."""
    start = session_date(date, where)
    for position, entry in enumerate(entries):
        here = f"{where}, turn {position}"
        yield Item(
            id=field(entry, "dia_id", str, here),
            text=nonempty_text(entry, "text", here),
            document=f"session_{number}",
            position=position,
            speaker=field(entry, "speaker", str, here),
            at=start + timedelta(seconds=position) if start else None,
            caption=entry.get("blip_caption") or "",
        )


def session_date(text: object, where: str) -> datetime | None:
    """ "1:56 pm on 8 May, 2023" as a time; None for what is no date at all. Raises DataError for a day there is not."""
    if text is not None and not isinstance(text, str):
        raise DataError(f"{where}: its date must be a text, such as '1:56 pm on 8 May, 2023'")
    match = _DATE.search(text or "")
    if match is None:
        return None
    hour, minute, half, day, month, year = match.groups()
    hour_of_day = int(hour) % 12 + (12 if half.lower() == "pm" else 0)
    return moment(year, month, day, hour_of_day, int(minute), where=where)


def evidence(entries: Iterable[object], ids: Iterable[str]) -> tuple[tuple[str, ...], tuple[str, ...]]:
    """The key's turn ids, mended: ``D30:05`` is D30:5, ``D:11:26`` is D11:26, several may share a string.

    And what names no turn of the conversation: the published key has such, and everybody counts without them.
    """
    known = set(ids)
    found: dict[str, None] = {}
    for entry in entries:
        named = [f"D{int(s)}:{int(t)}" for s, t in _EVIDENCE.findall(str(entry))]
        found |= dict.fromkeys(named or [str(entry)])
    return tuple(ref for ref in found if ref in known), tuple(ref for ref in found if ref not in known)
