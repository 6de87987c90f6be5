"""The values that every data set yields: memories to store, questions to ask. A module of this package reads each.

None is part of this project: ``--data`` names a copy of yours.
"""

from __future__ import annotations

import json
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass
from datetime import UTC, datetime
from pathlib import Path
from typing import Any, Literal

from fusion.contract import Kind, Unit
from fusion.lib.words import spoken

MONTHS = "january february march april may june july august september october november december".split()
UNANSWERABLE = "unanswerable"
"""the category of questions that have no answer in the corpus: the best block for them is an empty one"""


class DataError(ValueError):
    """Input that cannot be measured; the message names the file, and the line or the entry."""


@dataclass(frozen=True, slots=True)
class Item:
    """One memory to store. ``id`` is the data set's; ``position`` counts in ``document``; ``at`` is UTC.

    ``caption`` says what a photo shared with it shows.
    """

    id: str
    text: str
    document: str = ""
    position: int = 0
    end: int | None = None
    """the last position it covers, where it is more than one"""
    speaker: str | None = None
    at: datetime | None = None
    kind: Kind = "turn"
    unit: Unit = "turn"
    caption: str = ""

    @property
    def spoken(self) -> str:
        return spoken(self.text, self.speaker)


@dataclass(frozen=True, slots=True)
class Question:
    """``index`` is its place in the corpus's list; ``gold`` names what holds the answer.

    ``unresolved`` is what the key names and the corpus lacks.
    """

    index: int
    text: str
    category: str
    gold: tuple[str, ...] = ()
    unresolved: tuple[str, ...] = ()

    @property
    def answerable(self) -> bool:
        """Whether it counts for recall: it has an answer, and the key says where."""
        return self.category != UNANSWERABLE and bool(self.gold)


Match = Literal["words", "item", "document"]


@dataclass(frozen=True, slots=True)
class Corpus:
    """One store's worth of memories, and what is asked of it.

    ``match`` says when a gold id is found in a block: its item's ``words`` stand there; the ``item`` is a member,
    edited or not; or any member is of that ``document``.
    """

    id: str
    memories: tuple[Item, ...]
    questions: tuple[Question, ...]
    match: Match = "words"

    def asked(self, limit: int | None = None) -> Sequence[Question]:
        """The questions to ask: those with a resolvable answer, and the unanswerable."""
        return [q for q in self.questions if q.answerable or q.category == UNANSWERABLE][:limit]


def read_text(path: Path) -> str:
    """A file's text. Raises DataError where it cannot be read."""
    try:
        return path.read_text(encoding="utf-8-sig")
    except (OSError, UnicodeDecodeError) as error:
        reason = "is not UTF-8" if isinstance(error, UnicodeDecodeError) else f"cannot be read: {error.strerror}"
        raise DataError(f"{path} {reason}") from None


def read_json(path: Path) -> Any:
    """A file's JSON. Raises DataError, which names the line that is none."""
    try:
        return json.loads(read_text(path))
    except json.JSONDecodeError as error:
        raise DataError(f"{path}, line {error.lineno}: not JSON: {error.msg}") from None
    except RecursionError:
        raise DataError(f"{path}: nested too deep") from None


def read_lines(path: Path) -> Iterable[tuple[int, Mapping[str, Any]]]:
    """The objects of a JSONL file, by line from 1; blank lines are passed over. Raises DataError, naming the line."""
    # Not splitlines: it also splits at U+2028 and U+0085, which a JSON string may hold.
    for number, line in enumerate(read_text(path).split("\n"), start=1):
        if not line.strip():
            continue
        try:
            entry = json.loads(line)
        except json.JSONDecodeError as error:
            raise DataError(f"{path}, line {number}: not JSON: {error.msg}") from None
        except RecursionError:
            raise DataError(f"{path}, line {number}: nested too deep") from None
        if not isinstance(entry, dict):
            raise DataError(f"{path}, line {number}: an object is expected")
        yield number, entry


def field(entry: Any, name: str, kind: type | tuple[type, ...], where: str) -> Any:
    """A required field of an entry. Raises DataError, which says ``where`` it is missing or of another type."""
    value = entry.get(name) if isinstance(entry, Mapping) else None
    if not isinstance(value, kind) or isinstance(value, bool) != (kind is bool):
        kinds = kind if isinstance(kind, tuple) else (kind,)
        raise DataError(f"{where}: {name!r} must be {' or '.join(k.__name__ for k in kinds)}")
    return value


def nonempty_text(entry: Any, name: str, where: str) -> str:
    """A required text that says something. Raises DataError, as `field` does."""
    text: str = field(entry, name, str, where)
    if not text.strip():
        raise DataError(f"{where}: {name!r} is empty")
    return text


def moment(
    year: int | str, month: int | str, day: int | str, hour: int = 0, minute: int = 0, *, where: str
) -> datetime:
    """A time, taken as UTC because no data set names a zone; a month may be its English name. Raises DataError."""
    try:
        number = MONTHS.index(month.lower()) + 1 if isinstance(month, str) else month
        return datetime(int(year), number, int(day), hour, minute, tzinfo=UTC)
    except ValueError:
        raise DataError(f"{where}: there is no day {day} of month {month} in {year} at {hour}:{minute:02}") from None


def distinct(ids: Iterable[str], where: str) -> set[str]:
    """The ids, which must differ. Raises DataError, which names the one that occurs twice."""
    seen: set[str] = set()
    for one in ids:
        if one in seen:
            raise DataError(f"{where}: the id {one!r} occurs twice")
        seen.add(one)
    return seen
