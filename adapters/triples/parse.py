"""Parses triples that people write in their notes. A pure function of a text; no model, linear in its length.

    ---
    title: Bug gateway           the note's name: what its own lines and links are about
    owner: Julien                → (Bug gateway, owner, Julien)
    tags: [bug, backend]         → (Bug gateway, tags, bug), (Bug gateway, tags, backend)
    ---
    See [[Release 4|the release]].            → (Bug gateway, links_to, Release 4)
    - Julien -> corrected_by -> Bug gateway   → (Julien, corrected_by, Bug gateway)
    A → uses → B → runs_on → C                → (A, uses, B), (B, runs_on, C)

Front matter is the flat part of YAML that notes use: scalars and lists of scalars. Code is left out.

A text that opens with its title ("Green (album). It was …") is about that, and has the names that it gives:

    Green (album). …, also known as Verde    → (Green (album), also called, Green), (…, also called, Verde)
"""

from __future__ import annotations

import re
from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from pathlib import PurePosixPath

from adapters.graph.names import key
from adapters.graph.relations import ALSO_CALLED
from adapters.triples.names import aliases
from fusion.contract import Fact
from fusion.lib.front_matter import read
from fusion.lib.text_cache import text_cache
from fusion.lib.titles import bare, lead

LINKS_TO = "links_to"
"""the relation that a wiki link asserts"""

_TITLES = frozenset({"title", "name"})
_ALIASES = frozenset({"alias", "aliases", "aka", "also known as"})

READ = 4_000
"""leading characters of a text that are searched for aliases: texts introduce them early"""

MOST = 200
"""maximum facts, and names, of one text; longer texts are exports"""

LONGEST_PART = 120
"""maximum characters of a subject, relation or object; around longer ones the arrow is part of a sentence"""


_FENCE = re.compile(r"^\s{0,3}(`{3,}|~{3,})")
_CODE = re.compile(r"(`{1,8})[^`]*+\1")
_LINK = re.compile(r"\[\[([^\[\]|#\n]{1,120})(?:#[^\[\]|\n]{0,120})?(?:\|[^\[\]\n]{0,120})?\]\]")
_BULLET = re.compile(r"^\s*(?:[-*+]\s+|\d{1,9}[.)]\s+|>\s?|#{1,6}\s+)*")
# An ASCII arrow needs blanks on both sides: `p->next->value` is code.
_ARROW = re.compile(r"(?<!\s)(?:\s++-{1,2}>\s+|\s*+[→⟶]\s*)|[→⟶]\s*")  # begins a run of blanks, never in it
_TRIM = " \t*_`\"'“”‘’«».,;"


@dataclass(frozen=True, slots=True)
class Parsed:
    """The facts that a text states and the names in it, in their order, each once; ``subject`` is what it is about."""

    subject: str | None
    facts: tuple[Fact, ...]
    names: tuple[str, ...]


def parse(text: str, document: str | None = None) -> Parsed:
    """What ``text`` states. Its subject is the front matter's ``title`` (or ``name``), else the stem of ``document`` if
    that is a file, else the title that it opens with; without a subject, front matter and wiki links state no fact but
    still give names."""
    front, body = read(text)
    fields = _fields(front)
    title = _title(fields)
    subject = title or _stem(document) or lead(text)

    facts: dict[Fact, None] = {}
    names: dict[str, None] = {subject: None} if subject and subject != _stem(document) else {}
    for field, value in fields:
        if field.lower() not in _TITLES:
            _add(facts, names, subject, ALSO_CALLED if field.lower() in _ALIASES else field, value)
    if subject and (shorter := bare(subject)):
        _add(facts, names, subject, ALSO_CALLED, shorter)
    for alias in aliases(text[:READ]):
        _add(facts, names, alias.subject, alias.predicate, alias.object)
    for line in _prose("\n".join(body).splitlines()) if any(mark in text for mark in ("[[", "->", "→", "⟶")) else ():
        chain = _chain(line)
        for i in range(0, len(chain) - 2, 2):
            _add(facts, names, *chain[i : i + 3])
        for link in _LINK.finditer(line):
            if not chain:
                _add(facts, names, subject, LINKS_TO, link.group(1))
    return Parsed(subject, tuple(facts)[:MOST], tuple(names)[:MOST])


@text_cache(16_384)
def about(beginning: str, document: str | None) -> frozenset[str]:
    """The keys of what a text is about, by its beginning and its document."""
    front, _ = read(beginning) if beginning.startswith("---") else ([], [])
    subject = _title(_fields(front)) or _stem(document) or lead(beginning)
    return frozenset(filter(None, (key(subject), key(bare(subject) or "")))) if subject else frozenset()


def _title(fields: Sequence[tuple[str, str]]) -> str | None:
    return next((value for field, value in fields if field.lower() in _TITLES), None)


def _add(facts: dict[Fact, None], names: dict[str, None], subject: str | None, predicate: str, object_: str) -> None:
    object_ = _clean(object_)
    if not object_:
        return
    if subject is not None:
        subject = _clean(subject)
        facts[Fact(subject, _clean(predicate), object_)] = None
        names[subject] = None
    names[object_] = None


def _clean(part: str) -> str:
    """A name without quotes, emphasis, and the brackets of a wiki link."""
    part = part.strip(_TRIM)
    whole = _LINK.fullmatch(part)
    return (whole.group(1) if whole else part).strip(_TRIM)


def _stem(document: str | None) -> str | None:
    """A file's name without folder and suffix; None for a document that is not a file."""
    path = PurePosixPath(document or "")
    return path.stem if path.suffix.lower() in {".md", ".markdown", ".txt", ".org", ".rst"} else None


def _fields(front: Sequence[tuple[str, Sequence[str]]]) -> list[tuple[str, str]]:
    """Key and value of each scalar, and of each element of a list. Maps and block texts are left out."""
    return [
        (field, value)
        for field, values in front
        if _clean(field)
        for value in (_clean(one) for one in values if one[:1] not in {"{", "|", ">", "&", "*", "!"})
        if value and len(value) <= LONGEST_PART and value.lower() not in {"null", "~"}
    ]


def _prose(lines: list[str]) -> Iterator[str]:
    """Lines outside code, without their bullets, inline code blanked."""
    fence = ""
    for line in lines:
        mark = _FENCE.match(line)
        if mark and not fence:
            fence = mark.group(1)
        elif mark and fence and line.strip().startswith(fence) and not line.strip(" `~"):
            fence = ""
        elif not fence:
            yield _CODE.sub(" ", _BULLET.sub("", line, count=1))


def _chain(line: str) -> list[str]:
    """The parts of ``A -> relation -> B [-> relation -> C …]``, or nothing."""
    if len(line) > LONGEST_PART * 20:
        return []
    parts = [_clean(part) for part in _ARROW.split(line)]
    whole = len(parts) >= 3 and len(parts) % 2 == 1 and all(0 < len(part) <= LONGEST_PART for part in parts)
    return parts if whole else []
