"""A Markdown file with one entry for each session and day, which a job rewrites at each run.

An entry begins with a heading that has its key, and a comment with a hash of its text and the home that wrote it. If
the hash does not match the text, a person edited the entry, and it is kept as it is. Entries of other homes are kept
as well. All functions are pure.
"""

from __future__ import annotations

import re
from collections.abc import Collection, Iterable, Mapping, Sequence
from dataclasses import dataclass, replace
from hashlib import blake2b

_HEADING = re.compile(r"## (?P<key>\d{4}-\d\d-\d\d (?P<begins>\d\d:\d\d)–\d\d:\d\d · \S.*)")
_MARK = re.compile(r"<!-- extract (?P<hash>[0-9a-f]{8}) (?P<home>[0-9a-f]{4,8}) -->")
_REF = re.compile(r"\[(m[0-9a-z]{1,12})\]$")

UNNAMED = "-"
"""the session of turns that have none"""


@dataclass(frozen=True, slots=True)
class Entry:
    """One entry: its heading without the marks, the lines below it, and the home that wrote it.

    ``home`` is "" for what a person wrote or edited.
    """

    heading: str
    lines: tuple[str, ...]
    home: str = ""

    @property
    def day(self) -> str:
        return self.heading[:10]

    @property
    def session(self) -> str:
        return self.heading.partition(" · ")[2]

    @property
    def key(self) -> str:
        """The day and the session; the times of an entry grow with its session."""
        return f"{self.day} {self.session}"

    @property
    def hash(self) -> str:
        said = "\n".join((self.heading, *self.lines))
        return blake2b(said.encode("utf-8", "replace"), digest_size=4).hexdigest()

    @property
    def text(self) -> str:
        mark = [f"<!-- extract {self.hash} {self.home} -->"] if self.home else []
        return "\n".join((f"## {self.heading}", *mark, *self.lines, ""))


@dataclass(frozen=True, slots=True)
class File:
    """A file of entries: the text before the first one, and the entries in their order."""

    preface: str
    entries: tuple[Entry, ...]

    @property
    def text(self) -> str:
        return self.preface + "\n".join(one.text for one in self.entries)


def parse(text: str) -> File:
    """The preface and the entries of a file; every line that a person wrote is in exactly one of them."""
    preface: list[str] = []
    blocks: list[list[str]] = []
    for line in text.splitlines():
        if _HEADING.fullmatch(line):
            blocks.append([line])
        elif blocks:
            blocks[-1].append(line)
        else:
            preface.append(line)
    before = "".join(f"{line}\n" for line in preface)
    return File(before, tuple(_entry(block) for block in blocks))


def _entry(block: Sequence[str]) -> Entry:
    heading, rest = block[0].removeprefix("## "), list(block[1:])
    while rest and not rest[-1].strip():
        rest.pop()
    mark = _MARK.fullmatch(rest[0]) if rest else None
    if mark is None:
        return Entry(heading, tuple(rest))
    entry = Entry(heading, tuple(rest[1:]))
    return replace(entry, home=mark["home"]) if entry.hash == mark["hash"] else entry


def refs_of(entries: Iterable[Entry], home: str) -> list[str]:
    """The refs in the entries of a home, each once."""
    lines = (line for entry in entries if entry.home == home for line in entry.lines)
    return list(dict.fromkeys(found[1] for line in lines if (found := _REF.search(line))))


def merged(
    file: File,
    new: Sequence[Entry],
    *,
    home: str,
    days: Collection[str],
    known: Collection[str],
    taken_out: Mapping[str, str],
) -> File:
    """The file with the home's entries of ``days`` replaced by the ``new`` ones, in the order of time.

    Entries of persons and of other homes are kept, and a session that another home has written is not written again;
    turns without a session are different ones in each home. Entries of this home for other days lose the lines whose
    ref is not ``known``, because these memories were forgotten. ``taken_out`` has the hashes of entries that a person
    deleted, by key: such an entry is not written again until its text changes.
    """
    others = [one for one in file.entries if one.home != home]
    taken = {one.key for one in others if not (one.home and one.session == UNNAMED)}
    fresh = [replace(one, home=home) for one in new if one.key not in taken and taken_out.get(one.key) != one.hash]
    older = [_current(one, known) for one in file.entries if one.home == home and one.day not in days]
    kept = [*others, *(one for one in older if one is not None), *fresh]
    return replace(file, entries=tuple(sorted(kept, key=lambda one: one.heading)))


def _current(entry: Entry, known: Collection[str]) -> Entry | None:
    """An entry without the lines of forgotten memories; None if nothing is left."""
    lines = tuple(line for line in entry.lines if (found := _REF.search(line)) is None or found[1] in known)
    return None if not any(map(_REF.search, lines)) else replace(entry, lines=lines)


def rolled(file: File, max_chars: int) -> File:
    """The file without its oldest entries, so that it has at most ``max_chars`` characters."""
    room = max_chars - len(file.preface)
    kept: list[Entry] = []
    for entry in reversed(file.entries):
        room -= len(entry.text) + bool(kept)
        if room < 0:
            break
        kept.insert(0, entry)
    return replace(file, entries=tuple(kept))
