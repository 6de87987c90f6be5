"""LongMemEval: questions about a user's chats with an assistant, each with a haystack of its own.

Wu et al., "LongMemEval: Benchmarking chat assistants on long-term interactive memory", ICLR 2025 (MIT). The gold turns
are those marked ``has_answer``; a question whose id ends in ``_abs`` has no answer.
"""

from __future__ import annotations

import re
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

_DATE = re.compile(r"(\d{4})/(\d{2})/(\d{2})\D*(?:(\d{2}):(\d{2}))?")


def load(path: Path) -> tuple[Corpus, ...]:
    """A corpus for each question, by its id. Raises DataError."""
    entries = read_json(path)
    if not isinstance(entries, list) or not entries:
        raise DataError(f"{path} is no LongMemEval file: a list of questions is expected")
    corpora = tuple(_haystack(entry, f"{path}, question {i}") for i, entry in enumerate(entries))
    distinct((c.id for c in corpora), str(path))
    return corpora


def _haystack(entry: Any, where: str) -> Corpus:
    name = field(entry, "question_id", str, where)
    where = f"{where} ({name})"
    sessions = field(entry, "haystack_sessions", list, where)
    ids = field(entry, "haystack_session_ids", list, where)
    dates = field(entry, "haystack_dates", list, where)
    if not len(sessions) == len(ids) == len(dates):
        raise DataError(f"{where}: {len(sessions)} sessions, {len(ids)} session ids and {len(dates)} dates")
    turns: list[Item] = []
    gold: list[str] = []
    for number, (session, date) in enumerate(zip(sessions, dates, strict=True)):
        start = _moment(str(date), f"{where}, session {number}")
        if not isinstance(session, list):
            raise DataError(f"{where}, session {number}: a list of turns is expected")
        for position, turn in enumerate(session):
            here = f"{where}, session {number}, turn {position}"
            text = field(turn, "content", str, here)
            if not text.strip():  # the published files have a few
                continue
            item = Item(
                id=f"S{number}:{position}",
                text=text,
                document=f"session_{number}",
                position=position,
                speaker=field(turn, "role", str, here),
                at=start + timedelta(seconds=position) if start else None,
            )
            turns.append(item)
            if turn.get("has_answer"):
                gold.append(item.id)
    category = UNANSWERABLE if name.endswith("_abs") else field(entry, "question_type", str, where)
    return Corpus(name, tuple(turns), (Question(0, nonempty_text(entry, "question", where), category, tuple(gold)),))


def _moment(text: str, where: str) -> datetime | None:
    """ "2023/05/20 (Sat) 02:21" as a time; None for what is no date at all. Raises DataError for one there is not."""
    match = _DATE.search(text)
    if match is None:
        return None
    year, month, day, hour, minute = (int(part or 0) for part in match.groups())
    return moment(year, month, day, hour, minute, where=where)
