"""Reads files as memories: Markdown by section, JSONL by line, agents' sessions by turn.

A file or line that cannot be read is skipped, with its reason. Reading is lazy: one Markdown file, or one line of
JSONL, is in memory at a time. Every memory has a natural key (source, place, revision), so reading is idempotent.
"""

from __future__ import annotations

import os
from collections import Counter
from collections.abc import Callable, Collection, Iterator, Mapping, Sequence
from dataclasses import dataclass, field, replace
from datetime import datetime
from pathlib import Path
from typing import Any, cast

import orjson

from fusion.contract import DIMENSIONS, KINDS, REFLECTION, Kind, Moment, Place, Scope, Trust, Unit
from fusion.errors import BadInput
from fusion.ingest.claims import as_stated_by_line
from fusion.ingest.intake import NewMemory, not_one_line
from fusion.lib.chunk import chunks
from fusion.lib.dated_notes import noted_day
from fusion.lib.front_matter import front_matter
from fusion.lib.moment import moment
from fusion.lib.stated_fields import to_stated
from fusion.lib.words import content_hash
from fusion.sources.bookmarks import Bookmark, Bookmarks, at_end, is_untouched
from fusion.sources.files import (
    DEFAULT_LIMITS,
    EMPTY,
    MAX_REF_CHARS,
    NO_SUCH_FILE,
    Cutting,
    File,
    Limits,
    Lines,
    Progress,
    Skip,
    Unreadable,
    files,
    form_of,
    is_json,
    is_packed,
    no_report,
    opened,
    sized,
    unchanged,
)
from fusion.sources.openclaw_database import database
from fusion.sources.sessions import session_of, transcript
from fusion.sources.split import in_pieces
from fusion.sources.turns import Observe

__all__ = ["MAX_LINE_BYTES", "NO_SUCH_FILE", "Skip", "markdown", "moment", "read", "size"]

MAX_LINE_BYTES = 1 << 20
"""maximum bytes of a line of JSONL: twice the longest memory with each of its characters escaped"""
PRIVATE = frozenset({"memory.md"})
"""file names, in any case, whose memories no group may read (seed 001)"""

MAX_ID_CHARS = 256
MAX_POSITION = 2**53

OnComplete = Callable[[str, Sequence[str], Bookmark | None], None]
"""called with each file that was read to its end: its source, the revisions of its pieces, and a bookmark, if any"""


def _ignore_complete(source: str, revisions: Sequence[str], mark: Bookmark | None) -> None:
    """Ignores that a file was read to its end."""


def size(paths: Sequence[Path]) -> int:
    """How many bytes `read` will read, for a progress bar. A file whose size is unknown counts 0."""
    return sum(file.bytes for file in files(paths) if isinstance(file, File))


def read(
    paths: Sequence[Path],
    scope: Scope | None = None,
    *,
    limits: Limits = DEFAULT_LIMITS,
    progress: Progress = lambda count: None,
    cutting: Cutting = no_report,
    bookmarks: Bookmarks | None = None,
    only: Collection[Path] | None = None,
    on_complete: OnComplete = _ignore_complete,
    passed: Counter[str] | None = None,
    split_up: Callable[[NewMemory], None] = lambda memory: None,
    observe: Observe | None = None,
) -> Iterator[NewMemory | Skip]:
    """The memories in files and in folders of files, in a fixed order; ``scope`` is the default of each memory's scope.

    A file or line that cannot be read is a `Skip`, and the others are read. JSONL and sessions grow at their end: with
    ``bookmarks`` they are continued where the last reading stopped. ``only`` restricts ``paths`` to these files.
    ``on_complete`` is called for each Markdown file that was read to its end; ``passed`` counts the files of kinds that
    are not read. A memory that is too long is split, and ``split_up`` is called with the whole of it;
    ``observe`` with each call and result of a tool in a session.
    """
    owner = scope or Scope()

    def memories_of(file: File) -> Iterator[NewMemory | Skip]:
        if too_large := limits.too_large(file):
            yield Skip(sized(file), too_large)
            progress(file.bytes)
        elif file.form == "markdown":
            yield from markdown(file, owner, on_complete, limits=limits, progress=progress, cutting=cutting)
        elif file.form == "database":
            yield from database(file.path, owner, bookmarks, observe=observe)
            progress(file.bytes)
        elif session := session_of(file.path, owner):
            yield from transcript(file.path, replace(session, observe=observe), bookmarks, progress)
        else:
            yield from _jsonl(file, owner, progress, bookmarks)

    for found in files(paths, passed):
        if isinstance(found, File):
            if only is None or found.path in only:
                yield from in_pieces(memories_of(found), split_up)
        elif only is None:
            yield found


def read_session(
    path: Path,
    scope: Scope,
    *,
    bookmarks: Bookmarks | None = None,
    progress: Progress = lambda count: None,
    observe: Observe | None = None,
) -> Iterator[NewMemory | Skip]:
    """The turns of one transcript; with ``bookmarks``, those since the last time. Unreadable content becomes a `Skip`.

    A turn that is too long for one memory is split. The caller names the file, so its folder may be reached by a link.
    """
    path = path.parent.resolve() / path.name
    if form_of(path, named=True) == "database":
        yield from in_pieces(database(path, scope, bookmarks, observe=observe))
    elif session := session_of(path, scope):
        yield from in_pieces(transcript(path, replace(session, observe=observe), bookmarks, progress))
    else:
        yield Skip(str(path), "not a transcript of a known agent")


# Markdown --------------------------------------------------------------------------------------------------------


def markdown(
    file: File,
    owner: Scope,
    on_complete: OnComplete,
    *,
    limits: Limits = DEFAULT_LIMITS,
    progress: Progress = lambda count: None,
    cutting: Cutting = no_report,
) -> Iterator[NewMemory | Skip]:
    """The sections of one Markdown file; ``progress`` counts its bytes as they are yielded."""
    where = str(file.path)
    if too_large := limits.too_large(file):
        yield Skip(sized(file), too_large)
        return
    limit = int(limits.note_mb * 1_000_000)
    try:
        with opened(file.path) as stream, unchanged(stream):
            data, about = stream.read(limit + 1), os.fstat(stream.fileno())
            if len(data) > limit:
                raise Unreadable("it grew while it was read; run it again")
        if b"\0" in data:
            raise Unreadable("binary: it has NUL bytes")
        text = data.decode("utf-8-sig")
    except Unreadable as reason:
        progress(file.bytes)
        yield Skip(where, str(reason))
        if str(reason) == EMPTY:
            on_complete(f"file:{file.path}", (), None)
        return
    except UnicodeDecodeError:
        progress(file.bytes)
        yield Skip(where, "not UTF-8")
        return
    scope = replace(owner, audience="private") if file.path.name.lower() in PRIVATE else owner
    matter = front_matter(text)
    own_words = matter.get("memory-fusion") == REFLECTION
    # Chunked as in the Markdown backend, so that a chunk of the file and its event are the same span.
    found = [chunk for chunk in chunks(text, report=lambda share: cutting(file, share)) if chunk.text.strip()]
    if not found:
        progress(file.bytes)
        yield Skip(where, "nothing in it to remember")
    counted = 0
    for chunk in found:
        reached = file.bytes * chunk.end // found[-1].end
        progress(reached - counted)
        counted = reached
        yield NewMemory(
            text=chunk.text,
            scope=scope,
            at=noted_day(file.document, chunk.headings, matter),
            place=Place(file.document, chunk.start, chunk.end, "line"),
            source=f"file:{file.path}",
            revision=content_hash(chunk.text),
            raw_kind=REFLECTION if own_words else None,
            origin="agent" if own_words else "import",
        )
    revisions = [content_hash(chunk.text) for chunk in found]
    on_complete(f"file:{file.path}", revisions, at_end(about, len(set(revisions))))


# JSONL -----------------------------------------------------------------------------------------------------------


def _jsonl(file: File, owner: Scope, progress: Progress, bookmarks: Bookmarks | None) -> Iterator[NewMemory | Skip]:
    unknown: dict[str, None] = {}
    where = str(file.path)
    memories = skipped = 0
    try:
        with opened(file.path) as stream, unchanged(stream):
            if is_packed(stream):
                raise Unreadable("an archive, but not of a known agent's session")
            mark = bookmarks.find(where) if bookmarks is not None else None
            if bookmarks is not None and mark is not None and is_untouched(mark, os.fstat(stream.fileno())):
                bookmarks.resume(mark)
                progress(file.bytes)
                return
            lines = Lines(stream, MAX_LINE_BYTES, progress)
            for line in lines:
                cut = line is not None and not line.endswith(b"\n")
                number = lines.number + cut
                if line is None:
                    skipped += 1
                    yield Skip(f"{where}:{number}", f"longer than {MAX_LINE_BYTES:,} bytes", rejected=True)
                    continue
                if b"\0" in line:
                    raise Unreadable("binary: it has NUL bytes")
                if number == 1:
                    line = line.removeprefix(b"\xef\xbb\xbf")
                if not line.strip() or (
                    cut and not is_json(line)
                ):  # an incomplete last line is read when it is complete
                    continue
                try:
                    row = _Row.of(line)
                    memory = row.memory(file, number, owner)
                except Unreadable as reason:
                    skipped += 1
                    yield Skip(f"{where}:{number}", str(reason), rejected=True)
                    continue
                yield memory
                memories += 1
                unknown.update(dict.fromkeys(row.unknown()))
            if bookmarks is not None and not skipped:
                bookmarks.set(where, at_end(os.fstat(stream.fileno()), memories))
    except Unreadable as reason:
        yield Skip(where, str(reason))
    if unknown:
        names = ", ".join(sorted(unknown)[:10]) + (f" and {len(unknown) - 10} more" if len(unknown) > 10 else "")
        yield Skip(where, f"unknown fields were left out: {names}")


_STATED: Mapping[str, tuple[type, ...]] = {
    "lifetime": (str,),
    "ttl_seconds": (int, float),
    "confidence": (int, float),
    "importance": (int, float, str, dict),
    "provenance": (str, dict),
    "priority": (str,),
    "due": (str,),
    "tags": (list,),
    "metadata": (dict,),
}
"""the types of what a line may state besides; programs write other things under these names, too"""
_LESS_TRUST = ("unknown", "untrusted", "quarantined")
_FIELDS = frozenset(
    [
        *(*DIMENSIONS, "project", "audience", "text", "kind", "raw_kind", "speaker", "at", "valid_from", "valid_to"),
        *("document", "position", "end", "unit", "source", "revision", "origin", "supersedes"),
        *("trust", *_STATED),
    ]
)
_FREE = frozenset({"text", "revision"})
"""fields that are never cited, so they may have several lines"""
_MAX_UNKNOWN = 100
"""maximum names of unknown fields that are reported"""


@dataclass(frozen=True, slots=True)
class _Row:
    """The JSON object of one line. Its methods raise Unreadable, which names the field."""

    values: Mapping[str, Any] = field(default_factory=dict)

    @classmethod
    def of(cls, line: bytes) -> _Row:
        try:
            values = orjson.loads(line)
        except orjson.JSONDecodeError:
            raise Unreadable("not a line of JSON") from None
        if not isinstance(values, dict):
            raise Unreadable("not a JSON object")
        return cls({name: value for name, value in values.items() if value is not None})

    def unknown(self) -> list[str]:
        names = [name for name in self.values if name not in _FIELDS]
        names += [name for name in _STATED if name in self.values and not _is_stated(name, self.values[name])]
        names += ["trust"] if self.values.get("trust", "unknown") not in _LESS_TRUST else []
        return [repr(name)[1:-1][:40] for name in names][:_MAX_UNKNOWN]

    def memory(self, file: File, number: int, owner: Scope) -> NewMemory:
        """The memory of a line. Without a position, the line's number is used, in the place or in the revision."""
        text = self.string("text", MAX_LINE_BYTES)
        if text is None or not text.strip():
            raise Unreadable("text is missing or empty")
        document = self.string("document", MAX_REF_CHARS)
        position = self.integer("position")
        revision = self.string("revision", MAX_ID_CHARS)
        place = None
        if document is not None:
            start = number if position is None else position
            end = self.integer("end")
            unit: Unit = self.choice("unit", ("turn", "line")) or "turn"
            if end is not None and end < start:
                raise Unreadable("end is before position")
            place = Place(document, start, start if end is None else end, unit)
        elif revision is None:
            # Two lines with the text "yes" are two memories.
            revision = f"{number if position is None else position}:{content_hash(text)}"
        kind = self.string("kind", MAX_ID_CHARS)
        known: Kind = kind if kind in KINDS else "note"
        if kind is None and document is not None and position is not None and place and place.unit == "turn":
            known = "turn"
        memory = NewMemory(
            text=text,
            scope=self.scope(owner),
            kind=known,
            raw_kind=self.string("raw_kind", MAX_ID_CHARS) or (kind if kind not in KINDS else None),
            speaker=self.string("speaker", MAX_ID_CHARS),
            at=self.moment("at"),
            place=place,
            source=self.string("source", MAX_REF_CHARS) or f"jsonl:{document or file.path.name}"[:MAX_REF_CHARS],
            revision=revision or "",
            origin=self.choice("origin", ("owner", "agent", "tool", "import", "system")) or "import",
            valid_from=_utc(self.moment("valid_from")),
            valid_to=_utc(self.moment("valid_to")),
            supersedes=self.string("supersedes", MAX_REF_CHARS),
            trust=self.trust(),
            stated=self.stated(),
            file=str(file.path),
        )
        return as_stated_by_line(memory)

    def trust(self) -> Trust:
        """The trust that a line states; at most "unknown", since a file cannot vouch for itself."""
        return cast("Trust", self.values["trust"]) if self.values.get("trust") in _LESS_TRUST else "unknown"

    def stated(self) -> tuple[tuple[str, str], ...]:
        """What the line states in the form of `POST /v1/memories`; what has another form is left out."""
        given = {name: value for name, value in self.values.items() if name in _STATED and _is_stated(name, value)}
        if "valid_to" in self.values or given.get("lifetime", "ttl") != "ttl":
            given.pop("ttl_seconds", None)
        return to_stated(**given)

    def scope(self, owner: Scope) -> Scope:
        """The scope of a line; what it leaves out, and the tenant, are those of ``owner``."""
        given: dict[str, Any] = {name: self.string(name, MAX_ID_CHARS) for name in (*DIMENSIONS, "project")}
        given["audience"] = self.choice("audience", ("private", "group"))
        return replace(owner, **{name: value for name, value in given.items() if value is not None})

    def string(self, name: str, longest: int) -> str | None:
        """The text of a field; None when it is missing or empty."""
        value = self.values.get(name, "")
        if not isinstance(value, str):
            raise Unreadable(f"{name} is not a text")
        if len(value) > longest:
            raise Unreadable(f"{name} is longer than {longest:,} characters")
        if "\0" in value:
            raise Unreadable(f"{name} has a NUL character")
        if name not in _FREE and (wrong := not_one_line(value)):
            raise Unreadable(f"{name} {wrong}")
        return value or None

    def integer(self, name: str) -> int | None:
        value = self.values.get(name)
        if value is None:
            return None
        if not isinstance(value, int) or isinstance(value, bool) or not 0 <= value <= MAX_POSITION:
            raise Unreadable(f"{name} is not a whole number from 0")
        return value

    def choice(self, name: str, choices: Sequence[str]) -> Any:
        value = self.values.get(name)
        if value is not None and value not in choices:
            raise Unreadable(f"{name} is not one of {', '.join(choices)}")
        return value

    def moment(self, name: str) -> Moment | None:
        written = self.string(name, MAX_ID_CHARS)
        if written is None:
            return None
        try:
            return moment(written)
        except ValueError:
            raise Unreadable(f'{name} is not a time; write ISO 8601: "2026-01-31" or "2026-01-31T09:30:00Z"') from None


def _is_stated(name: str, value: Any) -> bool:
    """Whether a value has the form that `POST /v1/memories` takes for this field."""
    if not isinstance(value, _STATED[name]) or isinstance(value, bool):
        return False
    given: dict[str, Any] = {name: value}
    if not all(isinstance(tag, str) and not not_one_line(tag) for tag in given.get("tags", ())):
        return False
    try:
        to_stated(**given)
    except BadInput:
        return False
    return True


def _utc(found: Moment | None) -> datetime | None:
    return found.utc if found else None
