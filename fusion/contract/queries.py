"""The values of a search: the query with its filters, and the hits that answer it."""

from __future__ import annotations

import re
from collections.abc import Iterable
from dataclasses import dataclass, fields
from datetime import datetime
from operator import attrgetter
from typing import Any, Literal, Protocol

from fusion.contract.memories import (
    BACKEND_PREFIX,
    FILE_PREFIX,
    Event,
    Fact,
    Kind,
    Moment,
    Origin,
    Place,
    Scope,
    Trust,
    Unit,
)


class Timed(Protocol):
    """A value with a period of validity and a time of recording; None where a time is not known."""

    @property
    def began(self) -> datetime | None: ...
    @property
    def valid_to(self) -> datetime | None: ...
    @property
    def recorded_at(self) -> datetime | None: ...


OutOfTime = Literal["no longer valid", "no longer valid then", "not yet true then", "not yet recorded then"]
Property = tuple[str, str]
"""a property of a note and a value of it: ("type", "customer")"""
TAG = "tag"
"""the property of a hit for each tag of its note"""
_INLINE_TAG = re.compile(r"#(?<![\w/#&]#)([^\W\d_][\w/-]*)")
# The "#" first: it is searched for as a literal, where a look-behind first is tried at every character of long texts.


@dataclass(frozen=True, slots=True)
class Where:
    """What a memory must be like to be in an answer.

    A field without values does not filter; of several values of one field, or of one property, any will do. A folder
    also has what is in its folders, and a tag its nested tags ("project/alpha" for "project"). A speaker is named by
    the whole name or by a part of it. ``after`` (included) and ``before`` (excluded) are about when a memory happened,
    else when it was recorded. Upper and lower case do not matter.
    """

    folder: tuple[str, ...] = ()
    tag: tuple[str, ...] = ()
    property: tuple[Property, ...] = ()
    kind: tuple[Kind, ...] = ()
    speaker: tuple[str, ...] = ()
    after: datetime | None = None
    before: datetime | None = None

    def __bool__(self) -> bool:
        return self is not EVERYTHING and self != EVERYTHING  # the comparison alone costs a question half a millisecond

    def admits(self, hit: Hit, tags: Iterable[str] = ()) -> bool:
        """Whether a hit is like that; ``tags`` are those of its state."""
        return (
            (not self.kind or hit.kind in self.kind)
            and (not self.folder or self._is_in_a_folder(hit))
            and (not self.tag or any(has_tag(hit, tags, tag) for tag in self.tag))
            and all(self._has_property(hit, name) for name, _ in self.property)
            and (not self.speaker or any(_is_named(hit.speaker or "", name) for name in self.speaker))
            and ((self.after is None and self.before is None) or self._is_in_time(hit))
        )

    def _is_in_a_folder(self, hit: Hit) -> bool:
        return hit.place is not None and any(is_in_folder(hit.place.document, folder) for folder in self.folder)

    def _has_property(self, hit: Hit, name: str) -> bool:
        wanted = {value.casefold() for key, value in self.property if key.casefold() == name.casefold()}
        return any(key == name.casefold() and value.casefold() in wanted for key, value in hit.properties)

    def _is_in_time(self, hit: Hit) -> bool:
        at = hit.at.utc if hit.at is not None else hit.recorded_at
        return at is not None and (self.after is None or at >= self.after) and (self.before is None or at < self.before)


EVERYTHING = Where()
"""the filter that admits all"""


def is_in_folder(document: str, folder: str) -> bool:
    """Whether a document is in a folder, which is named by one or more steps of its path: "customers", "2026/11"."""
    parts = [part for part in folder.casefold().split("/") if part]
    folders = document.casefold().split("/")[:-1]
    return any(folders[i : i + len(parts)] == parts for i in range(len(folders) - len(parts) + 1))


def inline_tags(text: str) -> list[str]:
    """The tags in a text: reefer of #reefer; no numbers, headings or links."""
    return _INLINE_TAG.findall(text) if "#" in text else []


def has_tag(hit: Hit, tags: Iterable[str], wanted: str) -> bool:
    """Whether a hit has a tag: in its note's front matter, in its own text (#tag), or by its state."""
    wanted = wanted.removeprefix("#").casefold()
    among = (*tags, *inline_tags(hit.text), *(value for name, value in hit.properties if name == TAG))
    return any((tag := one.casefold()) == wanted or tag.startswith(f"{wanted}/") for one in among)


def _is_named(speaker: str, name: str) -> bool:
    speaker, name = speaker.casefold(), name.casefold()
    return speaker == name or name in speaker.split()


@dataclass(frozen=True, slots=True)
class TimeRange:
    """A time that a question names: from ``start`` (included) to ``end`` (excluded), UTC."""

    start: datetime
    end: datetime


@dataclass(frozen=True, slots=True)
class Query:
    """A search request to a backend.

    ``limit`` is the largest number of hits to return, ``deadline_s`` the time to answer in seconds. ``as_of`` asks for
    what held at that time, ``known_at`` for what was recorded by then.

    ``times`` are the days and longer times that the text names, in the caller's time zone ``zone`` (an IANA name; UTC
    if None). They do not filter: a backend of dated documents also returns those of these days
    (`fusion.lib.moment.days_of`) that share no word with the text, within ``limit``; others ignore them.

    ``where`` filters. The gateway enforces it; a backend that applies it itself (`admits` does) does not spend its
    limit on what will be left out, and one that knows folders, tags or properties also returns what shares no word.
    """

    text: str
    scope: Scope
    now: datetime
    limit: int = 100
    deadline_s: float = 1.0
    as_of: datetime | None = None
    known_at: datetime | None = None
    times: tuple[TimeRange, ...] = ()
    zone: str | None = None
    where: Where = EVERYTHING
    archived: bool = False
    """whether the filter admits memories that were archived"""

    def admits(self, hit: Hit) -> bool:
        """Whether ``hit`` may be in the answer, by scope, time and ``where``. A hit that is not admitted does not count
        for ``limit``."""
        return (
            self.scope.admits(hit.scope)
            and self.out_of_time(hit) is None
            and (self.where is EVERYTHING or self.where.admits(hit))
        )

    def out_of_time(self, item: Timed) -> OutOfTime | None:
        """The reason why an item is outside the query's time, or None. An unknown time excludes nothing.

        Without ``as_of``, an item that has ended by ``now`` is excluded. With ``as_of``, an item that had ended by then
        or began later is excluded. With ``known_at``, an item that was recorded later is excluded.
        """
        ended = item.valid_to
        if self.as_of is None:
            if ended is not None and ended <= self.now:
                return "no longer valid"
        elif ended is not None and ended <= self.as_of:
            return "no longer valid then"
        elif (began := item.began) is not None and began > self.as_of:
            return "not yet true then"
        if self.known_at is not None and (recorded := item.recorded_at) is not None and recorded > self.known_at:
            return "not yet recorded then"
        return None


# Not frozen, unlike the other values: a frozen dataclass takes five times as long to make, and a question makes
# hundreds of hits.
@dataclass(slots=True, unsafe_hash=True)
class Hit:
    """One search result of a backend. Treat as immutable: instances are cached and shared.

    An answer lists its hits best first; ``score`` is shown in the receipt and not used for ranking. ``event_id`` is set
    if the memory came through the gateway; otherwise ``(backend, native_id)`` is its identity. ``path`` is the way
    through a graph that led to the hit
    ("julien", "corrected_by", "bug gateway"). ``graph_score``, 0 to 1, is how strongly a graph connects the hit with
    what the query names and with memories that are similar to it; `None` if the backend has no graph.

    ``stated_by`` is the source that vouches for ``place``. An adapter that reads the user's files sets it to ``file:``
    and the file's path; other adapters leave it out, and the gateway sets it to ``backend:`` and the backend's name.
    ``properties`` are those of the note that it is part of, with names in lower case, and its tags (`TAG`).

    ``fact`` is set by a backend that stores the memory as a triple of its own: an edge of a graph. ``version_of`` is
    the id of the event of which the backend holds another text, that was changed in the backend at ``recorded_at``;
    such a hit has no ``event_id``. `fusion.recall.contradictions` compares both with what other stores say.
    """

    native_id: str
    text: str
    scope: Scope = Scope()  # noqa: RUF009  # immutable
    event_id: str | None = None
    score: float | None = None
    kind: Kind = "note"
    raw_kind: str | None = None
    speaker: str | None = None
    at: Moment | None = None
    recorded_at: datetime | None = None
    valid_from: datetime | None = None
    valid_to: datetime | None = None
    place: Place | None = None
    trust: Trust = "unknown"
    origin: Origin = "owner"
    derived_from: tuple[str, ...] = ()
    path: tuple[str, ...] = ()
    graph_score: float | None = None
    stated_by: str | None = None
    properties: tuple[Property, ...] = ()
    fact: Fact | None = None
    version_of: str | None = None

    @classmethod
    def of(
        cls, event: Event, native_id: str | None = None, score: float | None = None, path: tuple[str, ...] = ()
    ) -> Hit:
        """Make the hit for an event; ``native_id`` is the event's id unless the backend has another."""
        before, after = _shared_before_score(event), _shared_after_score(event)
        values: tuple[Any, ...] = (native_id or event.event_id, *before, score, *after, path)
        return cls(*values)

    def scored(self, score: float | None) -> Hit:
        """A copy with this score, made eight times as fast as by `dataclasses.replace`."""
        hit = Hit(*_all_fields(self))
        hit.score = score
        return hit

    def found_as(self, found: Hit) -> Hit:
        """A copy with the native id, score, path and graph score of ``found``, the backend's own hit."""
        hit = Hit(*_all_fields(self))
        hit.native_id, hit.score = found.native_id, found.score
        hit.path, hit.graph_score = found.path, found.graph_score
        return hit

    def cut(self, text: str) -> Hit:
        """A copy with a part of the text."""
        hit = Hit(*_all_fields(self))
        hit.text = text
        return hit

    def with_own_tags(self) -> Hit:
        """A copy whose properties have the tags of its text, for its parts; the hit itself if the text has no tag."""
        if not (tags := inline_tags(self.text)):
            return self
        hit = Hit(*_all_fields(self))
        hit.properties = (*self.properties, *((TAG, tag) for tag in dict.fromkeys(tags)))
        return hit

    def external_to(self, backend: str) -> Hit:
        """A copy for a memory that ``backend`` alone vouches for: never trusted, and without a graph score."""
        hit = Hit(*_all_fields(self))
        hit.graph_score = None
        if hit.trust == "trusted":
            hit.trust = "unknown"
        if hit.place is None or hit.place.unit != "line" or not (hit.stated_by or "").startswith(FILE_PREFIX):
            hit.stated_by = BACKEND_PREFIX + backend
        return hit

    @property
    def began(self) -> datetime | None:
        """The beginning of validity: ``valid_from``, else the time of the event, else the time of recording."""
        return self.valid_from or (self.at.utc if self.at else self.recorded_at)

    @property
    def event_ids(self) -> tuple[str, ...]:
        """The events that it is, is a version of, or was derived from."""
        own = self.event_id or self.version_of
        return self.derived_from if own is None else (own, *self.derived_from)

    @property
    def external(self) -> bool:
        """Whether a backend alone vouches for it: neither the journal nor a file of the user has it."""
        return self.stated_by is not None and self.stated_by.startswith(BACKEND_PREFIX)


_names = tuple(one.name for one in fields(Hit))
_all_fields = attrgetter(*_names)
# The fields that an event shares with its hit. Positional arguments take two thirds of the time of keywords.
_shared_before_score = attrgetter(*_names[_names.index("text") : _names.index("score")])
_shared_after_score = attrgetter(*_names[_names.index("kind") : _names.index("path")])
DocumentKey = tuple[str, str | None, str | None, str | None, str, Unit, str | None]
"""tenant, user, agent, run, name of the document, unit and sender: turns or lines with the same key are next to each
other. Two agents' records of one conversation are two documents, and so are what two sources say of one"""


def document_key(item: Event | Hit) -> DocumentKey:
    """The key of the document of an event or hit that has a place."""
    scope, place = item.scope, item.place
    assert place is not None  # noqa: S101 — the caller checks it
    return scope.tenant, scope.user_id, scope.agent_id, scope.run_id, place.document, place.unit, item.stated_by


def document_of(item: Event | Hit) -> DocumentKey | None:
    """The key of the document that an event or hit is part of, or None. Hits with the same key can be neighbours.

    All that is read from one file has the same key: a backend that reads it may know no agent and no run.
    """
    scope, place = item.scope, item.place
    if place is None:
        return None
    agent_id, run_id, stated_by = scope.agent_id, scope.run_id, item.stated_by
    named = agent_id is not None or run_id is not None
    if named and place.unit == "line" and (stated_by or "").startswith(FILE_PREFIX):
        agent_id = run_id = None
    return scope.tenant, scope.user_id, agent_id, run_id, place.document, place.unit, stated_by


class PartialHits(list[Hit]):
    """The valid hits of a reply of which ``dropped`` items could not be read."""

    def __init__(self, hits: Iterable[Hit], dropped: int) -> None:
        super().__init__(hits)
        self.dropped = dropped
