"""The port between the cortex and its store (SQLite, or a database over Bolt), and the values that cross it.

A store keeps memories, searches them and walks their graph. The cortex decides the rest: what is merged, what
contradicts, how hits are ranked, when a memory ends. So every store answers alike; each inherits the test suite
`tests/adapters/cortex/store_contract.py`.

A memory's id is its event's id. An event never changes; its ``State`` changes field by field. A stored text is found by
its words at once, and by its vector as soon as the store has filled that in (``settle`` waits for it).
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field, replace
from datetime import datetime
from typing import TYPE_CHECKING, Protocol, TypedDict, cast

from fusion.contract import (
    EVERYTHING,
    LIFETIMES,
    UNSTATED_CONFIDENCE,
    ConflictStatus,
    Embedder,
    Ending,
    Event,
    Extraction,
    Hit,
    Kind,
    Lifetime,
    Query,
    Scope,
    Where,
)
from fusion.contract import (
    State as JournalState,
)
from fusion.lib.words import spoken

if TYPE_CHECKING:
    from fusion.contract import Floats

__all__ = ["LIFETIMES", "UNSTATED", "Lifetime"]

UNSTATED = UNSTATED_CONFIDENCE


@dataclass(frozen=True, slots=True)
class State:
    """The part of a memory that changes; its text never does.

    ``merged_into`` is the id of a memory that says the same: this one is stored, but found only once that one is
    deleted. ``ended_at`` is when it expired, decayed, was retired or lost a conflict. Members of a conflict share
    ``conflict_group``; ``contradicts`` is the id of the opponent.
    """

    lifetime: Lifetime = "permanent"
    confidence: float = UNSTATED
    tags: tuple[str, ...] = ()
    access_count: int = 0
    last_accessed: datetime | None = None
    reinforced_count: int = 0
    reinforced_at: datetime | None = None
    conflict_group: str | None = None
    conflict_status: ConflictStatus | None = None
    contradicts: str | None = None
    merged_into: str | None = None
    ended_at: datetime | None = None


class Change(TypedDict, total=False):
    """The fields of a `State` to write; fields that are left out stay as they are."""

    lifetime: Lifetime
    confidence: float
    tags: tuple[str, ...]
    access_count: int
    last_accessed: datetime | None
    reinforced_count: int
    reinforced_at: datetime | None
    conflict_group: str | None
    conflict_status: ConflictStatus | None
    contradicts: str | None
    merged_into: str | None
    ended_at: datetime | None


def stored_fields(state: JournalState) -> Change:
    """The fields of the journal's state of a memory that a cortex stores."""
    return cast(Change, {name: getattr(state, name) for name in _SHARED})


_SHARED = Change.__annotations__.keys() & JournalState.__dataclass_fields__.keys()


# Not frozen, as `fusion.contract.Hit` is not, and for the same reason: a question makes a hundred.
@dataclass(slots=True, unsafe_hash=True)
class Memory:
    """One version of a memory: its event, what capture extracted from it, and its state."""

    event: Event
    extraction: Extraction = field(default_factory=Extraction)
    state: State = State()

    @property
    def id(self) -> str:
        return self.event.event_id

    @property
    def kind(self) -> Kind:
        """The kind that the caller chose; for a plain note, the one that capture found."""
        return self.extraction.kind if self.event.kind == "note" else self.event.kind

    @property
    def supersedes(self) -> str | None:
        """The id of what it replaces: an earlier version, or the earlier side of an open conflict (seed 000)."""
        state = self.state
        if self.event.supersedes is None and state.conflict_status == "active" and state.contradicts is not None:
            return state.contradicts if state.contradicts < self.id else None
        return self.event.supersedes

    @property
    def spoken(self) -> str:
        """The text with its speaker, as the store indexes and embeds it."""
        return spoken(self.event.text, self.event.speaker)


def journal_state(memory: Memory) -> JournalState:
    """The state of a memory as the journal has it, with why it ended."""
    return JournalState(**{name: getattr(memory.state, name) for name in _SHARED}, ended=_ended(memory))


def _ended(memory: Memory) -> Ending | None:
    """Why a memory ended; the store has the time only."""
    if memory.state.ended_at is None:
        return None
    if memory.state.conflict_status == "resolved":
        return "lost"
    reasons: Mapping[Lifetime, Ending] = {"ttl": "expired", "session": "decayed"}
    return reasons.get(memory.state.lifetime, "retired")


@dataclass(frozen=True, slots=True)
class View:
    """The memories that a query may see: those that ``scope`` admits, at a point in time.

    Without ``as_of`` those current at ``now``: valid, not ended, not merged and not superseded, except both sides of an
    active conflict. With ``as_of`` those current then; with ``known_at`` only what was recorded by then. With
    ``history`` also superseded and ended ones. ``where`` is the query's filter as far as a store knows it
    (`fusion.store.rows.fits`).
    """

    scope: Scope
    now: datetime
    as_of: datetime | None = None
    known_at: datetime | None = None
    history: bool = False
    where: Where = EVERYTHING

    @classmethod
    def of(cls, query: Query, *, history: bool = False) -> View:
        return cls(query.scope, query.now, query.as_of, query.known_at, history, query.where)

    @property
    def unfiltered(self) -> View:
        """The view without the filter: what fits may be linked by what does not."""
        return replace(self, where=EVERYTHING) if self.where else self


@dataclass(frozen=True, slots=True)
class Matches:
    """Search results as (id, score), best first: BM25 in ``words``, cosine in ``vectors``, each list on its own scale.

    ``memories`` are those that the store had to read anyway to check their visibility, as `Graph.visible` returns them;
    it may be all of them or none.
    """

    words: Sequence[tuple[str, float]] = ()
    vectors: Sequence[tuple[str, float]] = ()
    memories: Mapping[str, Memory] = field(default_factory=dict)


# Not frozen either.
@dataclass(slots=True, unsafe_hash=True)
class Link:
    """A memory that the graph leads to. ``hops`` is 1 if it mentions an entity of the query, 2 for a neighbour's.

    ``rank`` is the number of links at least as strong: equals share the last rank of their group. ``share``, 0 to 1, is
    its strength relative to the strongest link with as many hops. ``path`` is the chain of names and predicates.
    """

    id: str
    hops: int
    rank: int
    share: float = 1.0
    path: tuple[str, ...] = ()


@dataclass(frozen=True, slots=True)
class EntitySummary:
    """An entity of the graph and the number of memories that mention it."""

    name: str
    type: str
    mentions: int


@dataclass(frozen=True, slots=True)
class StoreStats:
    """Counts of a store; ``items`` includes superseded, ended and merged memories."""

    items: int = 0
    vectors: int = 0
    vectors_pending: int = 0
    faults: tuple[str, ...] = ()


class Graph(Protocol):
    """A store of memories and their graph. Every method may be called from many tasks at once.

    A write is durable and visible when its call returns, completely or, with an error, not at all. Unknown ids are
    skipped, never an error. Raises errors of `fusion.errors`: ``StoreBusy``, ``StoreFull``, ``StoreDamaged``,
    ``BackendUnreachable``.
    """

    @property
    def embedder(self) -> Embedder | None:
        """The embedder that made the stored vectors and encodes queries; ``None`` if there are no vectors."""
        ...

    @property
    def generation(self) -> str | None:
        """A token that changes with each change of what may be found. ``None`` while a change is under way, and where
        other programs write to the store as well."""
        ...

    async def add(self, memories: Sequence[Memory]) -> None:
        """Store memories with what they mention: entities, ends of facts, the speaker, and the text's `key_phrases`.

        A stored id stays as it is.
        """
        ...

    async def alter(self, changes: Mapping[str, Change]) -> None:
        """Write these state fields by id, in one transaction."""
        ...

    async def use(self, ids: Sequence[str], at: datetime) -> None:
        """Count one access of each memory, atomically; the latest time wins, regardless of the order of calls."""
        ...

    async def delete(self, ids: Sequence[str]) -> frozenset[str]:
        """Remove memories, their mentions and relations that only they assert. Returns the ids that existed.

        Memories merged into them can be found again; active conflicts with them end. If only losers of a resolved
        conflict are left, the best of them is reinstated.
        """
        ...

    async def get(self, ids: Sequence[str]) -> Mapping[str, Memory]:
        """Memories by id, of every owner and in every state."""
        ...

    async def visible(self, view: View, ids: Sequence[str]) -> Mapping[str, Memory]:
        """Those of these memories that ``view`` sees. A store may return of each extraction only the kind: recall reads
        a hundred memories."""
        ...

    async def versions(self, id: str) -> Sequence[Memory]:
        """All versions of a memory by ``supersedes``, oldest first, itself included."""
        ...

    async def page(self, after: str = "", limit: int = 500, scope: Scope | None = None) -> Sequence[Memory]:
        """The next memories by id after ``after``, in every state, of all owners or of those that ``scope`` admits."""
        ...

    async def named(self, part: str, scope: Scope, limit: int) -> Sequence[Memory]:
        """Memories that ``scope`` admits whose id begins or ends with ``part``, taken literally, by id."""
        ...

    async def find(self, text: str, vector: Floats | None, view: View, limit: int) -> Matches:
        """The best ``limit`` memories by words, and by meaning if there is a vector; only those that ``view`` sees.

        While one of the two searches fails, only the other list is filled and ``stats`` reports the fault.
        """
        ...

    async def cosines(self, vector: Floats, ids: Sequence[str]) -> Mapping[str, float]:
        """Cosines of these memories with ``vector``, -1 to 1; memories without a vector are left out."""
        ...

    async def complete(
        self, ids: Sequence[str], vector: Floats | None, bare: Sequence[str]
    ) -> tuple[Mapping[str, Memory], Mapping[str, float]]:
        """What recall still needs: the memories ``ids`` in every state, as briefly as in ``visible``, and the cosines
        of ``bare`` if there is a vector."""
        ...

    async def link(self, text: str, view: View, similar: Sequence[str], limit: int) -> Sequence[Link]:
        """The memories linked to the entities and concepts that ``text`` names, strongest first.

        Walks only through memories that ``view`` sees. A concept leads to the memories whose text has it, and no
        further. Returns at most ``limit``, plus every linked memory of ``similar``, the ids that ``find`` returned for
        this view. Equals are ordered as in ``similar``, then newest first. Of a hub only ``similar`` and its newest
        memories are considered.
        """
        ...

    async def neighbours(self, hits: Sequence[Hit], span: int) -> Sequence[Sequence[Memory]]:
        """For each hit, up to ``span`` memories before and after it in its document and scope, in order, without the
        hit itself and without superseded memories."""
        ...

    async def entities(self, scope: Scope, limit: int = 100) -> Sequence[EntitySummary]:
        """The entities of a user, the most mentioned first, without key phrases."""
        ...

    async def stats(self) -> StoreStats: ...

    async def count(self) -> int | None:
        """See `fusion.contract.CountsEvents`."""
        ...

    async def check(self) -> str | None:
        """See `fusion.contract.Checks`."""
        ...

    async def settle(self) -> None:
        """Wait until every text has its vector, or the embedder has failed again."""
        ...

    async def close(self) -> None:
        """May be called twice."""
        ...
