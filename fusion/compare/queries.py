"""Reads a file of questions with expected answers: text lines, JSON lines, or a JSON list.

    {"query": "why did we leave SQLite?", "expected": ["m1k", "projects/database.md", "writers block each other"]}
    {"query": "…", "expected": {"refs": ["m1k"], "texts": ["…"], "files": ["database.md"]}, "user_id": "ada"}

Items of a plain list may be any of the three. Files are matched by their end, texts by their words in order.
The lists of ``{"query", "files", "category"}`` of the benchmarks are read here, too.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import orjson

from fusion.errors import BadInput
from fusion.lib.words import word_list

_KINDS = {"refs", "texts", "files", "any"}
_FIELDS = frozenset({"query", "expected", "files", "category", "user_id", "agent_id", "session_id", "as_of"})


@dataclass(frozen=True, slots=True)
class Expected:
    """What a block should contain: memories by ref, passages by their words, documents by their end, or any."""

    refs: tuple[str, ...] = ()
    texts: tuple[str, ...] = ()
    files: tuple[str, ...] = ()
    any: tuple[str, ...] = ()

    def found_in(self, memories: Sequence[Mapping[str, Any]]) -> float:
        """The share of the expected items that these excerpts contain, 0 to 1."""
        members = [member for memory in memories for member in memory["members"]]
        refs = {member["ref"] for member in members}
        texts = [_words(f"{member['speaker'] or ''} {member['text']}") for member in members]
        files = [f"/{memory['document']}" for memory in memories if memory["document"]]

        def has_text(wanted: str) -> bool:
            words = _words(wanted)
            # Scripts without blanks have no word boundaries.
            return any(words in text or (not wanted.isascii() and words.strip() in text) for text in texts)

        def has_file(wanted: str) -> bool:
            return any(file.endswith(f"/{wanted.lstrip('/')}") for file in files)

        found = [ref in refs for ref in self.refs]
        found += [has_text(wanted) for wanted in self.texts]
        found += [has_file(wanted) for wanted in self.files]
        found += [one in refs or has_file(one) or has_text(one) for one in self.any]
        return sum(found) / len(found)

    def fits(self, member: Mapping[str, Any], document: str | None) -> bool:
        """Whether one memory of an answer is, or has, one of the expected items."""
        return self.found_in([{"document": document, "members": [member]}]) > 0


@dataclass(frozen=True, slots=True)
class Asked:
    """One question of a file; ``given`` has its other fields; ``expected`` is None if the file has none."""

    query: str
    expected: Expected | None
    given: Mapping[str, str]


def read_queries(file: Path) -> tuple[Asked, ...]:
    """The questions of a file, in its order. Raises BadInput, which names the file and the line or the entry."""
    try:
        text = file.read_text(encoding="utf-8-sig")
    except UnicodeDecodeError as error:
        raise BadInput(f"{file}: is not UTF-8, at byte {error.start}") from None
    except OSError as error:
        raise BadInput(f"{file}: {error.strerror}") from None
    asked = tuple(_listed(text, file) if text.lstrip().startswith("[") else _lines(text, file))
    if not asked:
        raise BadInput(f"{file}: there is no question in it; write one a line")
    return asked


def _lines(text: str, file: Path) -> Iterator[Asked]:
    for number, line in enumerate(map(str.strip, text.splitlines()), start=1):
        if line.startswith("{"):
            yield _asked(_json(line, f"{file}:{number}: is not JSON"), f"{file}:{number}")
        elif line:
            yield Asked(line, None, {})


def _listed(text: str, file: Path) -> Iterator[Asked]:
    for number, row in enumerate(_json(text, f"{file}: begins as a JSON list, but is none"), start=1):
        if not isinstance(row, dict):
            raise BadInput(f"{file}, entry {number}: is no object with a query")
        yield _asked(row, f"{file}, entry {number}")


def _json(text: str, otherwise: str) -> Any:
    try:
        return orjson.loads(text)
    except orjson.JSONDecodeError as error:
        raise BadInput(f"{otherwise}: {error}") from None


def _asked(row: dict[str, Any], where: str) -> Asked:
    if unknown := sorted(row.keys() - _FIELDS):
        raise BadInput(f"{where}: there is no field {unknown[0]!r}; there are {', '.join(sorted(_FIELDS))}")
    query = row.pop("query", None)
    expected, files = row.pop("expected", None), row.pop("files", None)
    row.pop("category", None)
    if files is not None:
        if expected is not None:
            raise BadInput(f"{where}: expected has files of its own; give one of them")
        expected = {"files": files}
    if not isinstance(query, str) or not query.strip():
        raise BadInput(f"{where}: query is missing or empty")
    if wrong := [name for name, value in row.items() if not isinstance(value, str)]:
        raise BadInput(f"{where}: {wrong[0]} is a text")
    return Asked(query, None if expected is None else _expected(expected, where), row)


def _expected(value: object, where: str) -> Expected | None:
    """The expected items; None for an empty list, which does not mean that the answer should be empty."""
    if isinstance(value, str):
        value = [value]
    if isinstance(value, list):
        value = {"any": value}
    elif isinstance(value, dict) and "any" in value:
        value = None
    if not isinstance(value, dict) or not value.keys() <= _KINDS:
        raise BadInput(f"{where}: expected is a list of refs, texts and files, or an object of refs, texts, files")
    for kind, wanted in value.items():
        if not isinstance(wanted, list) or not all(isinstance(one, str) and _words(one).strip() for one in wanted):
            name = "" if kind == "any" else f".{kind}"
            raise BadInput(f"{where}: expected{name} is a list of texts, none of them empty")
    found = Expected(**{kind: tuple(dict.fromkeys(wanted)) for kind, wanted in value.items()})
    return found if found != Expected() else None


def _words(text: str) -> str:
    """The words between blanks, so that case, punctuation and line breaks do not matter."""
    return f" {' '.join(word_list(text))} "
