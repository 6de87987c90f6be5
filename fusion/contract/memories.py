"""The values of memories: whose they are, when and where they were said, what they state, and their state."""

from __future__ import annotations

from dataclasses import dataclass
from datetime import datetime
from typing import Literal, TypedDict, get_args

Kind = Literal["rule", "procedure", "fact", "episode", "preference", "decision", "plan", "note", "turn"]
Trust = Literal["trusted", "unknown", "untrusted", "quarantined"]
Origin = Literal["owner", "agent", "tool", "import", "system"]
REFLECTION = "reflection"
"""the raw kind of what an agent wrote about itself: it is searched, and no fact is made of it"""
Audience = Literal["private", "group"]
Role = Literal["reader", "proposer", "writer", "operator"]
"""what a key may do; each has all that the ones before it have"""
ROLES: tuple[Role, ...] = ("reader", "proposer", "writer", "operator")
Precision = Literal["second", "minute", "hour", "day", "month", "year"]
Unit = Literal["turn", "line"]
BlockFormat = Literal["fence", "long-term", "context-pack", "cortex"]
Dimension = Literal["user_id", "agent_id", "run_id", "session_id"]
Lifetime = Literal["permanent", "project", "session", "ttl"]
Ending = Literal["expired", "decayed", "retired", "archived", "lost"]
Priority = Literal["P0", "P1", "P2"]
"""how long a memory is kept that no block needs: always, some months, some weeks"""
ProvenanceKind = Literal["none", "url", "file_line", "file_anchor", "receipt", "opaque"]
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
    session's context begins anew, so that nothing which was shown to it before is still in it. Without ``keeps_blocks``
    a block is in its context for one turn alone: then it may be shown again, and the session's own turns still are not.
    """

    agent_id: str | None = None
    session_id: str | None = None
    channel: str | None = None
    new_context: bool = False
    keeps_blocks: bool = True


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


FILE_PREFIX, BACKEND_PREFIX = "file:", "backend:"
"""prefixes of `Hit.stated_by`: a file that was read, or a backend without further evidence"""
CLAIMED_PREFIX = "claimed:"
"""prefix of a source name that the caller was not entitled to use: such an event joins no file and no conversation"""
SESSION_KINDS = frozenset({"claude-code", "openclaw"})
"""kinds of sources of the sessions that the gateway's own readers read"""
READER_KINDS = SESSION_KINDS | {"file", "jsonl"}
"""kinds of sources that are reserved for the gateway's own readers of notes, JSONL and sessions"""


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
        return is_doubtful(self.trust, self.origin)

    @property
    def stated_by(self) -> str | None:
        """The source that vouches for ``place``: the file for lines of it, else the kind of source ("jsonl", "web").

        Places of one document are combined only if the same source vouches for them. Each claimed source counts as one
        of its own, and so do output of tools and untrusted memories.
        """
        unit = None if self.place is None else self.place.unit
        return voucher(self.source, unit, doubtful=self.doubtful)


def is_doubtful(trust: Trust, origin: Origin) -> bool:
    """See `Event.doubtful`."""
    return trust == "untrusted" or origin == "tool"


def voucher(source: str | None, unit: str | None, *, doubtful: bool) -> str | None:
    """See `Event.stated_by`; ``unit`` is that of its place, None without one."""
    named = source or ""
    kind, colon, _ = named.partition(":")
    if kind == "file" and colon and unit == "line":
        return source
    mark = " (untrusted)" if doubtful else ""
    if named.startswith(CLAIMED_PREFIX):
        return named + mark
    # ":x" has the kind ":", as in the journal's conversations; a source without a colon has none.
    return ((kind or colon) if colon else "") + mark or None


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
class ImportanceGrade:
    """How an importance came about: the method (`heuristic-v1`, or `manual` if it was given), when, and why."""

    method: str
    graded_at: datetime
    rationale: str = ""
    version: int = 1


@dataclass(frozen=True, slots=True)
class Provenance:
    """Where a memory comes from: a reference of a kind, as `fusion.lib.provenance` describes them."""

    kind: ProvenanceKind
    ref: str = ""


@dataclass(frozen=True, slots=True)
class State:
    """What may change about a memory. Its event stays as it is; the journal keeps the state and logs each change.

    ``lifetime`` says how long it lasts (openclaw-cortex calls that its scope). ``ended_at`` is when it stopped being
    current, and ``ended`` why: its time was up (expired), its session did not use it (decayed), its validity ended
    (retired), somebody archived it, or it lost a conflict. ``merged_into`` is the id of a memory that says the same:
    this one is hidden while that one is current. Members of a conflict share ``conflict_group``; ``contradicts`` is the
    id of the opponent. ``confidence`` and ``importance`` are from 0 to 1; ``grade`` says how the importance came about,
    if it was not stated with the memory. ``trust`` and ``project`` replace those of the event; None leaves them.
    ``provenance`` is what somebody stated, instead of what source and place say. ``priority`` says how long it is kept
    unused; None: its importance decides. ``due`` is when what it announces is to be done.
    """

    lifetime: Lifetime = "permanent"
    confidence: float = UNSTATED_CONFIDENCE
    importance: float | None = None
    grade: ImportanceGrade | None = None
    trust: Trust | None = None
    provenance: Provenance | None = None
    priority: Priority | None = None
    due: Moment | None = None
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
    grade: ImportanceGrade | None
    trust: Trust | None
    provenance: Provenance | None
    priority: Priority | None
    due: Moment | None
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
