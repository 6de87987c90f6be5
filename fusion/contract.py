"""The contract between the gateway and everything outside it: values, and the ports of backends and models.

A memory system becomes a backend by implementing ``Backend`` (``open``, ``search``, ``close``) and those capabilities
that it has: ``Remembers``, ``Forgets``, ``FindsNeighbours``, ``ReadsDocuments``, ``TracksUse``, ``Describes`` and the
others below. Each capability is a small protocol, recognised by its methods. An adapter inherits the tests of
`tests/backend_contract.py`; `adapters/inmemory.py` is the reference implementation. `fusion.extension` declares the
commands and routes that an adapter may add.

Values are immutable. Times are timezone-aware UTC. Ranks start at 1. Scores are comparable within one answer only.
"""

from __future__ import annotations

import re
from collections.abc import Callable, Iterable, Mapping, Sequence
from dataclasses import dataclass, field, fields
from datetime import date, datetime
from operator import attrgetter
from pathlib import Path
from typing import TYPE_CHECKING, Any, Literal, NamedTuple, Protocol, Self, TypedDict, get_args, runtime_checkable

if TYPE_CHECKING:
    import numpy as np
    from numpy.typing import NDArray

    Floats = NDArray[np.float32]

Kind = Literal["rule", "procedure", "fact", "episode", "preference", "decision", "plan", "note", "turn"]
Trust = Literal["trusted", "unknown", "untrusted", "quarantined"]
Origin = Literal["owner", "agent", "tool", "import", "system"]
REFLECTION = "reflection"
"""the raw kind of what an agent wrote about itself: it is searched, and no fact is made of it"""
Audience = Literal["private", "group"]
Precision = Literal["second", "minute", "hour", "day", "month", "year"]
Unit = Literal["turn", "line"]
BlockFormat = Literal["fence", "long-term", "context-pack", "cortex"]
Dimension = Literal["user_id", "agent_id", "run_id", "session_id"]
Lifetime = Literal["permanent", "project", "session", "ttl"]
Ending = Literal["expired", "decayed", "retired", "archived", "lost"]
ConflictStatus = Literal["active", "resolved"]

KINDS: tuple[Kind, ...] = get_args(Kind)
STATEMENT_KINDS: frozenset[Kind] = frozenset({"rule", "procedure", "fact", "preference", "decision", "plan"})
"""kinds of memories that hold on their own, independent of where and when they were said"""
BLOCK_FORMATS: tuple[BlockFormat, ...] = get_args(BlockFormat)
DIMENSIONS: tuple[Dimension, ...] = get_args(Dimension)
LIFETIMES: tuple[Lifetime, ...] = get_args(Lifetime)
UNSTATED_CONFIDENCE = 0.7
"""the confidence of a memory for which none was stated (seed 000)"""
NO_USER = ""
"""as ``user_id`` of a query: the items that belong to no user"""


@dataclass(frozen=True, slots=True)
class Scope:
    """The owner of a memory, or the owner that a query asks for: a tenant and four optional dimensions.

    On a query, a dimension that is ``None`` does not filter. On an item, ``None`` means that the item belongs to no
    particular user (agent, run, session), and a query that names the dimension does not return it: no default moves a
    memory from one user to another. A query with `NO_USER` returns the items that belong to no user. ``project`` only
    raises a score. ``audience`` of a query is where the answer will be read; of an item, the widest audience that may
    read it.
    """

    tenant: str = "default"
    user_id: str | None = None
    agent_id: str | None = None
    run_id: str | None = None
    session_id: str | None = None
    project: str | None = None
    audience: Audience = "group"

    def named(self) -> dict[Dimension, str]:
        """The dimensions that have a value."""
        return {d: value for d in DIMENSIONS if (value := getattr(self, d)) is not None}

    def admits(self, item: Scope) -> bool:
        """Whether a query in this scope may see ``item``."""
        return (
            self.tenant == item.tenant
            and (self.user_id is None or self.user_id == (item.user_id or NO_USER))
            and (self.agent_id is None or self.agent_id == item.agent_id)
            and (self.run_id is None or self.run_id == item.run_id)
            and (self.session_id is None or self.session_id == item.session_id)
            and (self.audience == "private" or item.audience == "group")
        )


@dataclass(frozen=True, slots=True)
class Asker:
    """Who asks: an agent, its session, and the channel that the answer goes to.

    It is not the scope, which says whose memories are searched: an asker never filters. ``new_context`` says that the
    session's context begins anew, so that nothing which was shown to it before is still in it.
    """

    agent_id: str | None = None
    session_id: str | None = None
    channel: str | None = None
    new_context: bool = False


@dataclass(frozen=True, slots=True)
class Moment:
    """A point in time with its precision; ``zone`` is the IANA name of the speaker's time zone.

    ``until`` is the end (excluded) of something that lasted longer than the precision says: of an episode.
    """

    utc: datetime
    precision: Precision = "second"
    zone: str | None = None
    until: datetime | None = None


@dataclass(frozen=True, slots=True)
class Place:
    """The position of a memory in its document: lines or turns ``start`` to ``end``, both included.

    Lines start at 1; turns have the numbers that the source gives them.
    """

    document: str
    start: int
    end: int
    unit: Unit = "turn"


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


@dataclass(frozen=True, slots=True)
class Event:
    """One memory as the journal stores it: immutable; it can be superseded or forgotten.

    ``event_id`` is a UUIDv7. ``source`` names the origin; ``source``, ``place`` and ``revision`` together are the
    natural key: the same key is the same event. ``stated`` has further fields (name, value) from the caller: lifetime,
    confidence and tag begin the memory's state, and entity names what its episode involves. ``file`` is the file of
    JSONL that it was read from; only the journal stores it, and backends are not sent it.
    """

    event_id: str
    text: str
    recorded_at: datetime
    scope: Scope = Scope()
    kind: Kind = "note"
    raw_kind: str | None = None
    speaker: str | None = None
    at: Moment | None = None
    place: Place | None = None
    source: str | None = None
    revision: str = ""
    trust: Trust = "unknown"
    origin: Origin = "owner"
    valid_from: datetime | None = None
    valid_to: datetime | None = None
    supersedes: str | None = None
    derived_from: tuple[str, ...] = ()
    stated: tuple[tuple[str, str], ...] = ()
    file: str | None = None

    @property
    def began(self) -> datetime:
        """The beginning of validity: ``valid_from``, else the time of the event, else the time of recording."""
        return self.valid_from or (self.at.utc if self.at else self.recorded_at)

    @property
    def doubtful(self) -> bool:
        """Whether it is untrusted or output of a tool, and so never part of what others say."""
        return self.trust == "untrusted" or self.origin == "tool"

    @property
    def stated_by(self) -> str | None:
        """The source that vouches for ``place``: the file for lines of it, else the kind of source ("jsonl", "web").

        Places of one document are combined only if the same source vouches for them. Each claimed source counts as one
        of its own, and so do output of tools and untrusted memories.
        """
        source = self.source or ""
        kind, colon, _ = source.partition(":")
        if kind == "file" and colon and self.place is not None and self.place.unit == "line":
            return self.source
        doubtful = " (untrusted)" if self.doubtful else ""
        if source.startswith(CLAIMED_PREFIX):
            return source + doubtful
        # ":x" has the kind ":", as in the journal's conversations; a source without a colon has none.
        return ((kind or colon) if colon else "") + doubtful or None


@dataclass(frozen=True, slots=True)
class Entity:
    """A named thing that a memory mentions."""

    name: str
    type: str = "concept"
    """person, project, system, tool, decision, date or concept"""


@dataclass(frozen=True, slots=True)
class Fact:
    """A subject–predicate–object triple that a memory states."""

    subject: str
    predicate: str
    object: str


@dataclass(frozen=True, slots=True)
class Episode:
    """Something that happens from ``start`` (included) to ``end`` (excluded); ``entities`` are the names in it."""

    start: datetime
    end: datetime
    entities: tuple[str, ...] = ()


@dataclass(frozen=True, slots=True)
class Extraction:
    """The structure that the rules or a model extracted from one event; it is made once and sent to every backend.

    ``confidence``, 0 to 1, is the probability that the event's text is true: 1 for a quoted text, less for a text that
    a model wrote.
    """

    kind: Kind = "note"
    entities: tuple[Entity, ...] = ()
    facts: tuple[Fact, ...] = ()
    times: tuple[Moment, ...] = ()
    episodes: tuple[Episode, ...] = ()
    confidence: float = 1.0


@dataclass(frozen=True, slots=True)
class State:
    """What may change about a memory. Its event stays as it is; the journal keeps the state and logs each change.

    ``lifetime`` says how long it lasts (openclaw-cortex calls that its scope). ``ended_at`` is when it stopped being
    current, and ``ended`` why: its time was up (expired), its session did not use it (decayed), its validity ended
    (retired), somebody archived it, or it lost a conflict. ``merged_into`` is the id of a memory that says the same:
    this one is hidden while that one is current. Members of a conflict share ``conflict_group``; ``contradicts`` is the
    id of the opponent. ``confidence`` and ``importance`` are from 0 to 1. ``trust`` and ``project`` replace those of
    the event; None leaves them.
    """

    lifetime: Lifetime = "permanent"
    confidence: float = UNSTATED_CONFIDENCE
    importance: float | None = None
    trust: Trust | None = None
    project: str | None = None
    tags: tuple[str, ...] = ()
    reinforced_count: int = 0
    reinforced_at: datetime | None = None
    conflict_group: str | None = None
    conflict_status: ConflictStatus | None = None
    contradicts: str | None = None
    merged_into: str | None = None
    ended_at: datetime | None = None
    ended: Ending | None = None


NEW = State()
"""the state of a memory for which nothing was stated or decided"""


class StateChange(TypedDict, total=False):
    """The fields of a `State` to change; fields that are left out stay as they are."""

    lifetime: Lifetime
    confidence: float
    importance: float | None
    trust: Trust | None
    project: str | None
    tags: tuple[str, ...]
    reinforced_count: int
    reinforced_at: datetime | None
    conflict_group: str | None
    conflict_status: ConflictStatus | None
    contradicts: str | None
    merged_into: str | None
    ended_at: datetime | None
    ended: Ending | None


@dataclass(frozen=True, slots=True)
class Extracted:
    """An event with its extraction and its state, as backends store it."""

    event: Event
    extraction: Extraction = Extraction()
    state: State = NEW


Captured = Extracted  # its name in earlier versions, which adapters outside of this repository import


FILE_PREFIX, BACKEND_PREFIX = "file:", "backend:"
"""prefixes of `Hit.stated_by`: a file that was read, or a backend without further evidence"""
CLAIMED_PREFIX = "claimed:"
"""prefix of a source name that the caller was not entitled to use: such an event joins no file and no conversation"""
SESSION_KINDS = frozenset({"claude-code", "openclaw"})
"""kinds of sources of the sessions that the gateway's own readers read"""
READER_KINDS = SESSION_KINDS | {"file", "jsonl"}
"""kinds of sources that are reserved for the gateway's own readers of notes, JSONL and sessions"""


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
    """

    native_id: str
    text: str
    scope: Scope = Scope()
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


@dataclass(frozen=True, slots=True)
class Features:
    """The kinds of queries and events that a backend supports; it is skipped, with the reason, if a query needs more.

    ``filters`` are the scope dimensions that its search filters by. ``bound`` has fixed values of dimensions that it
    cannot filter by: such a backend answers only queries that name exactly these values. ``tenants`` says whether it
    separates tenants; otherwise it serves ``tenant`` alone. ``as_of`` says whether it answers for a time in the past,
    ``no_user`` whether it can search what belongs to no user (`NO_USER`).
    """

    filters: frozenset[Dimension] = frozenset()
    bound: Mapping[Dimension, str] = field(default_factory=dict)
    tenants: bool = False
    tenant: str = "default"
    as_of: bool = False
    no_user: bool = False
    kinds: frozenset[Kind] = frozenset()
    """kinds of events that it stores; empty if it is read-only"""


@dataclass(frozen=True, slots=True)
class Description:
    """The contents and the state of a backend now, for `/v1/backends` and `coverage`."""

    items: int = 0
    vectors: int = 0
    vectors_pending: int = 0
    notes: tuple[str, ...] = ()
    """limitations and faults, in words for users, each with its fix"""
    degraded: bool = False
    """whether something fails that is configured to work; a part that was left out on purpose is only noted"""


@dataclass(frozen=True, slots=True)
class NoteFolders:
    """The user's folders and files of notes, and whose they are: the table [notes] of the settings.

    ``ignore`` has patterns as in .gitignore. All files are looked at again every ``every_s`` seconds.
    """

    paths: tuple[Path, ...] = ()
    ignore: tuple[str, ...] = ()
    scope: Scope = field(default_factory=Scope)
    every_s: float = 300.0


@dataclass(frozen=True, slots=True)
class Opening:
    """The arguments of `Backend.open`. ``folder`` belongs to this backend alone and may not exist yet.

    Each tenant opens each backend separately, with a folder of its own. A backend that stores outside its folder must
    separate the tenants there as well, or serve one tenant alone (`Features.tenant`). ``model`` is the configured
    language model or None; its calls raise an error once its budget is spent. ``notes`` are the folders that the
    gateway follows for this tenant; a backend may search them in place. ``workspace`` is the only folder of the user's
    that a backend may write to, by `fusion.store.workspace.Workspace` alone; None, the default, allows none.
    ``workspace_records`` is the folder of the gateway for the copies and the log of changes that this writer makes.
    """

    name: str
    folder: Path
    options: Mapping[str, object] = field(default_factory=dict)
    embedder: Embedder | None = None
    model: LanguageModel | None = None
    tenant: str = "default"
    notes: NoteFolders = field(default_factory=NoteFolders)
    workspace: Path | None = None
    workspace_records: Path | None = None


class Backend(Protocol):
    """A memory system, built by ``open``. Every method may be called from many tasks at once.

    ``search`` changes nothing and returns at most ``query.limit`` hits, best first, or ``[]``. `Query.admits` must hold
    for each of them, as far as the system knows its scope and times. It raises ``BackendUnreachable`` if the system
    does not answer, ``InvalidAnswer`` if the answer cannot be read, and the other ``BackendError``s of `fusion.errors`
    where they fit. ``close`` may be called twice.
    """

    features: Features

    @classmethod
    async def open(cls, opening: Opening) -> Self: ...

    async def search(self, query: Query) -> Sequence[Hit]: ...

    async def close(self) -> None: ...


@runtime_checkable
class Remembers(Protocol):
    """A backend that stores events. Storing the same ``event_id`` again changes nothing."""

    def accepts(self, event: Event) -> bool:
        """Whether it stores events like this one."""
        ...

    async def remember(self, batch: Sequence[Extracted]) -> Sequence[tuple[str, ...]]:
        """Store all of ``batch`` durably, or raise. Returns the native ids for each event, in the same order."""
        ...


@runtime_checkable
class StoresState(Protocol):
    """A backend that stores the states of its memories, because its own search or ranking depends on them.

    The gateway hides what a state hides in the answers of every backend; a backend that does not store states only
    spends hits of its limit on hidden memories.
    """

    async def set_states(self, states: Mapping[str, State]) -> None:
        """Store the state of each event id durably, or raise; unknown ids are skipped. Idempotent."""
        ...


@runtime_checkable
class LooksUp(Protocol):
    """A backend that can return what fits a filter without comparing texts, as a catalogue of notes can."""

    async def fitting(self, query: Query) -> Sequence[Hit]:
        """At most ``query.limit`` memories that the query admits, whatever its text; ``[]`` without such a look-up."""
        ...


@runtime_checkable
class Reindexes(Protocol):
    """A backend that searches files of the user's, and can be asked to read those that changed."""

    async def reindex(self) -> str:
        """Read what changed since the last time, or begin to; returns what was done, in a few words.

        Raises a `fusion.errors.BackendError`.
        """
        ...


@runtime_checkable
class TakesFiles(Protocol):
    """A backend that can be sent the memory files of the owner's workspace, section by section, by the job `feed`.

    The sections are no memories of the journal: the backend stores them under the names that the job gives them, and
    whatever it returns is for the owner alone.
    """

    @property
    def takes_files(self) -> bool:
        """Whether its settings allow that they are sent; if not, the job takes back what was sent before."""
        ...

    async def sections(self, prefix: str) -> Sequence[str]:
        """The names of the sections that it has, of those that begin with ``prefix``. Raises a `BackendError`."""
        ...

    async def add_sections(self, texts: Mapping[str, str]) -> None:
        """Store sections by name, durably; a name is letters, digits and hyphens. Idempotent."""
        ...

    async def delete_sections(self, names: Sequence[str]) -> None:
        """Delete sections, and what was made of them; unknown names are skipped."""
        ...


Forgotten = Literal["deleted", "hidden", "absent"]


@runtime_checkable
class Forgets(Protocol):
    """A backend that can delete a memory. ``hidden`` means that the text is in a user's own file, which stays as it is.

    Afterwards no search returns the memory: the gateway verifies that and repeats the deletion if necessary. A memory
    that did not come through the gateway is identified by its native id, with an ``event_id`` unknown to the backend.
    """

    async def forget(self, event_id: str, native_ids: Sequence[str]) -> Forgotten: ...


@runtime_checkable
class ForgetsMany(Protocol):
    """A backend that deletes many memories in a few commits. It also `Forgets`.

    ``has_files``: its search also returns text from a user's own files, which may repeat a forgotten memory.
    """

    @property
    def has_files(self) -> bool: ...

    async def forget_all(self, items: Sequence[tuple[str, Sequence[str]]]) -> Sequence[Forgotten]:
        """Do `Forgets.forget` for each (event id, native ids), durably. Returns the outcomes in the same order.

        It may be called again after an error: what was deleted by then is reported as absent.
        """
        ...


@runtime_checkable
class ListsEvents(Protocol):
    """A backend that can list the events it stores, so that a lost journal can be rebuilt."""

    async def events(self, after: str, limit: int) -> Sequence[tuple[Event, tuple[str, ...]]]:
        """The next ``limit`` events after the event id ``after``, ordered by event id, with their native ids."""
        ...


@runtime_checkable
class ListsStates(Protocol):
    """A backend that decided on the states of its memories alone in earlier versions, and can list them."""

    async def states(self, after: str, limit: int) -> Sequence[tuple[str, State]]:
        """The next ``limit`` event ids after the event id ``after``, ordered by event id, with their states."""
        ...


@runtime_checkable
class CountsEvents(Protocol):
    """A backend that can cheaply count the events in its own files, so that losses are noticed."""

    async def count(self) -> int | None:
        """The number of events in its files now; ``None`` if other programs also add and delete memories."""
        ...


@runtime_checkable
class FindsNeighbours(Protocol):
    """A backend that can return the neighbours of a hit in its document."""

    async def neighbours(self, hits: Sequence[Hit], span: int) -> Sequence[Sequence[Hit]]:
        """For each hit, up to ``span`` hits before it and ``span`` after it, in document order, without the hit."""
        ...


@dataclass(frozen=True, slots=True)
class StoredDocument:
    """The current text of a document that hits name in their ``place``, with its scope. Lines start at 1."""

    name: str
    text: str
    scope: Scope = Scope()


@runtime_checkable
class ReadsDocuments(Protocol):
    """A backend that can read the documents of its hits."""

    async def read(self, name: str) -> StoredDocument | None:
        """The document of that name as it is now; ``None`` if the backend has no such document.

        The name is untrusted input: it must not give access to anything but the backend's own documents.
        """
        ...


@runtime_checkable
class KeepsDailyLog(Protocol):
    """A backend that can keep a log file for each day, which people read as well."""

    async def append(self, text: str, scope: Scope, day: date) -> Place | None:
        """Append lines durably to the log of ``day``, change nothing else, and return their place.

        ``None`` if it keeps no log for ``scope``: the gateway then stores the text as a memory. Raises ``StoreFull``
        without having written a part of the text.
        """
        ...


@runtime_checkable
class FindsDailyLogs(Protocol):
    """A backend that knows which of its documents are the log of a day."""

    async def daily_logs(self, day: date) -> Sequence[str]:
        """The documents that are a log of ``day``, by the names that `ReadsDocuments.read` takes."""
        ...


@runtime_checkable
class SyncsWithSessions(Protocol):
    """A backend that can look for changes of its sources when a session starts."""

    def session_started(self) -> None:
        """Look for changes soon; a search that waits for changes waits for this. Returns at once."""
        ...


@runtime_checkable
class TracksUse(Protocol):
    """A backend that records which of its memories reached a prompt. Called after the reply."""

    async def used(self, native_ids: Sequence[str], at: datetime) -> None: ...


@runtime_checkable
class Describes(Protocol):
    """A backend that can report its contents and state."""

    async def describe(self) -> Description: ...


@runtime_checkable
class Checks(Protocol):
    """A backend that can look for damage in its files while it runs."""

    async def check(self) -> str | None:
        """Repair derived data and return a description of the damage; ``None`` if there was none.

        Searches continue meanwhile on the undamaged data. Raises ``StoreDamaged`` if the damaged data cannot be derived
        from other data.
        """
        ...


@runtime_checkable
class Settles(Protocol):
    """A backend that works in the background (it computes vectors, for example) and can wait for the end of that."""

    async def settle(self) -> None:
        """Return once everything remembered so far can be found in every way that the backend supports."""
        ...


NAME_PLACEHOLDER = "…"
"""replaces the backend's name in errors of `VerifiesOptions.verify`, which does not know the name"""


@runtime_checkable
class VerifiesOptions(Protocol):
    """An adapter class that can check its options and installed packages without opening or loading anything."""

    @classmethod
    def verify(cls, options: Mapping[str, object]) -> str | None:
        """Return a short description of what the options select, or None.

        Raises ``SettingsError`` or ``ModelMissing``, which name the fix.
        """
        ...


UNKNOWN_PIECE = "[UNK]"
"""the word piece of a word that the model's vocabulary cannot spell; all such words are one to the model"""


@dataclass(frozen=True, slots=True)
class TokenVectors:
    """The token embeddings of one text from a late-interaction model, quantised to int8.

    ``vectors`` has shape (tokens, dimensions); ``vectors * scale`` restores unit length. ``tokens`` are the word pieces
    without the model's special tokens; ``words`` has, for each piece, the lower-case word that it is part of.
    """

    vectors: NDArray[np.int8]
    scale: float
    tokens: tuple[str, ...] = ()
    words: tuple[str, ...] = ()


class Embedder(Protocol):
    """A model that turns texts into vectors. All backends share one, so that a text is encoded once.

    ``identity`` names model and version; vectors of different identities must not be in one index.
    """

    identity: str
    dimensions: int

    async def embed(self, texts: Sequence[str], *, keep: bool = True) -> Floats:
        """Dense vectors of unit length, shape (len(texts), dimensions); cached on disk by content.

        ``keep=False`` is for queries: they come before texts that are being stored, and are not cached on disk.
        """
        ...

    async def query_tokens(self, text: str) -> TokenVectors:
        """A query's token vectors, with ``tokens`` and ``words`` filled in."""
        ...

    async def tokens(self, texts: Sequence[str], deadline_s: float) -> Sequence[TokenVectors | None]:
        """Token vectors of texts; ``None`` for a text that is not cached and could not be encoded in time.

        With ``deadline_s`` 0 nothing is encoded.
        """
        ...

    async def forget(self, texts: Sequence[str]) -> None:
        """Remove these texts from every cache, in memory and on disk."""
        ...

    async def close(self) -> None: ...


@runtime_checkable
class HasVocabulary(Protocol):
    """An embedder whose vocabulary can be asked for words."""

    def knows(self, word: str) -> bool:
        """Whether the vocabulary has this lower-case word as one token; answers immediately."""
        ...


@runtime_checkable
class KnowsVectors(Protocol):
    """An embedder that says which texts it has encoded already."""

    async def known(self, texts: Sequence[str]) -> Mapping[str, Floats]:
        """The dense vectors of the texts that are cached, by text; encodes nothing."""
        ...


@runtime_checkable
class EncodesLater(Protocol):
    """An embedder that encodes in the background what a question found without vectors.

    ``put_off`` counts the texts that were accepted for that.
    """

    put_off: int

    def encode_later(self, texts: Sequence[str]) -> None:
        """Begin to encode these and to cache their vectors; returns at once.

        Only a bounded number of texts waits: the rest is left out, and the next question names it again.
        """
        ...

    async def settle(self) -> None:
        """Return once the texts that wait now are encoded, or have failed; later ones are not waited for."""
        ...


class CosineScale(NamedTuple):
    """Maps a model's cosines to those of the default model, for which our thresholds were chosen.

    Texts that have nothing in common have a cosine of about .1 by one model, and of .8 by another.
    """

    slope: float = 1.0
    intercept: float = 0.0

    def of(self, cosine: float) -> float:
        return cosine if self == NO_SCALE else min(1.0, cosine * self.slope + self.intercept)

    def of_all(self, cosines: Floats) -> Floats:
        return cosines if self == NO_SCALE else (cosines * self.slope + self.intercept).clip(max=1.0)


NO_SCALE = CosineScale()
"""of the default model, and of models whose scale is not known"""


@runtime_checkable
class ScalesCosines(Protocol):
    """An embedder that knows the scale of its cosines: those of two texts, and those of two tokens."""

    text_scale: CosineScale
    token_scale: CosineScale


def text_scale(embedder: Embedder) -> CosineScale:
    """The scale of the cosines of this embedder's texts."""
    return embedder.text_scale if isinstance(embedder, ScalesCosines) else NO_SCALE


def token_scale(embedder: Embedder) -> CosineScale:
    """The scale of the cosines of this embedder's tokens."""
    return embedder.token_scale if isinstance(embedder, ScalesCosines) else NO_SCALE


class ReadsInContext(Embedder, KnowsVectors, EncodesLater, Protocol):
    """A second encoder, which compares questions with what was found; it also takes texts of `fusion.lib.in_context`.

    Forgetting a text also forgets each text in context of which it is a part.
    """


@runtime_checkable
class HasLocalModel(Protocol):
    """An embedder whose dense vectors come from a remote provider.

    ``local`` is the model in this process that compares a question with its candidates without sending them anywhere.
    ``None``: there is no such model, and words alone are compared.
    """

    local: Embedder | None


@dataclass(frozen=True, slots=True)
class Media:
    """An image or audio file. ``key`` identifies its content; ``read`` loads it and is called only if necessary."""

    key: str
    mime: str
    read: Callable[[], bytes]


@runtime_checkable
class EmbedsMedia(Protocol):
    """An embedder that may embed images and audio in the same space as texts; ``sees`` says whether its model can."""

    sees: bool

    async def embed_media(self, media: Sequence[Media]) -> Floats:
        """One vector each, close to texts that describe the content; zeros for a type that the model does not support.

        Cached by key. Raises the errors of ``embed`` and of ``Media.read``.
        """
        ...


@dataclass(frozen=True, slots=True)
class Passage:
    """One text for a judge to score; ``id`` is opaque and new for each call."""

    id: str
    text: str


@dataclass(frozen=True, slots=True)
class Verdict:
    """A judge's scores, 0 to 10, by passage id; a passage that is not listed was not scored.

    ``fault`` describes an error in words; ``input_tokens`` and ``output_tokens`` are the tokens that the call used.
    """

    status: Literal["ok", "timeout", "skipped_budget", "cooldown", "disabled", "invalid", "error"]
    scores: Mapping[str, float] = field(default_factory=dict)
    fault: str | None = None
    model: str | None = None
    input_tokens: int = 0
    output_tokens: int = 0
    ignored: int = 0
    """number of scores that were discarded: unknown or repeated passage, or not a number from 0 to 10"""
    orders_only: bool = False
    """whether the scores only compare the passages with each other: a low one is no reason to leave a memory out"""


class Judge(Protocol):
    """A model that scores passages for a query. It never raises except when cancelled: a fault is a ``Verdict``."""

    name: str

    async def judge(self, query: str, passages: Sequence[Passage], deadline_s: float) -> Verdict: ...

    async def close(self) -> None: ...


@runtime_checkable
class MayBeDisabled(Protocol):
    """A judge that may be unable to judge. ``disabled`` says why, and how to fix it; None while it judges."""

    disabled: str | None


class LanguageModel(Protocol):
    """A text model with one call, for capture and upkeep. ``name`` is the model's name on its server.

    ``complete`` returns the whole answer as text. It raises the `fusion.errors.BackendError` that fits; `InvalidAnswer`
    if the answer was cut at ``max_tokens`` or refused.
    """

    name: str

    async def complete(self, system: str, user: str, max_tokens: int) -> str: ...

    async def close(self) -> None: ...


@runtime_checkable
class JudgesWithModel(Protocol):
    """A judge's class that asks the language model of the settings' ``[model]``, instead of a client of its own."""

    @classmethod
    def open_over(cls, model: LanguageModel | None, options: Mapping[str, object]) -> Judge:
        """The judge over this model, which its owner closes; None if a configured one is missing."""
        ...
