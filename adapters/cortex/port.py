"""What a cortex needs of the database behind it: memories in, memories out. SQLite and Bolt stand behind it.

A store keeps, finds and walks. It decides nothing: what is merged, what contradicts, how hits are ranked and when a
memory ends is the cortex's business, so that every store answers alike (`tests/adapters/cortex/store_contract.py` is
the suite that each inherits).

A memory's id is its event's. An event never changes; a ``State`` does, field by field. Texts are found by words at
once, by vectors as soon as those are filled in, which a store sees to by itself (``settle`` waits for it).
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from datetime import datetime
from typing import TYPE_CHECKING, Literal, Protocol, TypedDict

from fusion.contract import Embedder, Event, Extraction, Hit, Kind, Query, Scope

if TYPE_CHECKING:
    from fusion.contract import Floats

Lifetime = Literal["permanent", "project", "session", "ttl"]
"""seed 000's scopes: how long a memory lasts; whose it is says ``Event.scope``"""

LIFETIMES: tuple[Lifetime, ...] = ("permanent", "project", "session", "ttl")

UNSTATED = 0.7
"""the confidence of a memory for which nobody stated any: seed 000's value for the unknown"""


@dataclass(frozen=True, slots=True)
class State:
    """What changes about a memory while its text never does.

    ``merged_into`` names the memory that already says the same: this one is kept, and found only if that one goes.
    ``ended_at`` is when it expired, decayed, was retired or lost a conflict. Members of a conflict share its group;
    ``contradicts`` names the other one.
    """

    lifetime: Lifetime = "permanent"
    confidence: float = UNSTATED
    tags: tuple[str, ...] = ()
    access_count: int = 0
    last_accessed: datetime | None = None
    reinforced_count: int = 0
    reinforced_at: datetime | None = None
    conflict_group: str | None = None
    conflict_status: Literal["active", "resolved"] | None = None
    contradicts: str | None = None
    merged_into: str | None = None
    ended_at: datetime | None = None


class Change(TypedDict, total=False):
    """Fields of a `State` to write; those that are not named stay as they are."""

    lifetime: Lifetime
    confidence: float
    tags: tuple[str, ...]
    access_count: int
    last_accessed: datetime | None
    reinforced_count: int
    reinforced_at: datetime | None
    conflict_group: str | None
    conflict_status: Literal["active", "resolved"] | None
    contradicts: str | None
    merged_into: str | None
    ended_at: datetime | None


# Not frozen, as `fusion.contract.Hit` is not, and for the same reason: a question makes a hundred.
@dataclass(slots=True, unsafe_hash=True)
class Memory:
    """One version of a memory: what was said, what capture learnt from it, and how it stands."""

    event: Event
    extraction: Extraction = field(default_factory=Extraction)
    state: State = State()

    @property
    def id(self) -> str:
        return self.event.event_id

    @property
    def kind(self) -> Kind:
        """The kind that its caller chose; of a plain note, the one that capture found."""
        return self.extraction.kind if self.event.kind == "note" else self.event.kind


@dataclass(frozen=True, slots=True)
class Effect:
    """What a new memory does to others: it ``reinforces`` one, at a time, and makes ``changes``."""

    reinforces: str | None = None
    at: datetime | None = None
    changes: Mapping[str, Change] = field(default_factory=dict)


@dataclass(frozen=True, slots=True)
class View:
    """Which memories are looked at: those that ``scope`` admits, as they stood at a time.

    Without ``as_of``, what is current at ``now``: valid, not ended, not merged, and not superseded, unless it is one
    side of an active conflict. With it, what was so then; with ``known_at``, as far as it was recorded by then.
    """

    scope: Scope
    now: datetime
    as_of: datetime | None = None
    known_at: datetime | None = None
    history: bool = False

    @classmethod
    def of(cls, query: Query, *, history: bool = False) -> View:
        return cls(query.scope, query.now, query.as_of, query.known_at, history)


@dataclass(frozen=True, slots=True)
class Found:
    """Ids with their scores, best first: BM25 by words, cosine by meaning. Comparable within one list only.

    ``memories`` are those that the store had to read to see which of them the view sees, as `Graph.seen` gives them:
    perhaps all, perhaps none.
    """

    words: Sequence[tuple[str, float]] = ()
    vectors: Sequence[tuple[str, float]] = ()
    memories: Mapping[str, Memory] = field(default_factory=dict)


# Not frozen either.
@dataclass(slots=True, unsafe_hash=True)
class Link:
    """A memory that the graph leads to. ``hops``: 1, it mentions an entity of the query; 2, a neighbour of one.

    ``rank`` is how many links are at least as strong, so that equals share the last place of their group; ``share``,
    0 to 1, is its strength over that of the strongest link of as many hops; ``path`` is the chain that justifies it.
    """

    id: str
    hops: int
    rank: int
    share: float = 1.0
    path: tuple[str, ...] = ()


@dataclass(frozen=True, slots=True)
class Known:
    """An entity of the graph: ``mentions`` is how many memories name it."""

    name: str
    type: str
    mentions: int


@dataclass(frozen=True, slots=True)
class Holding:
    """What a store holds. Everything is counted in ``items``, superseded and merged ones too."""

    items: int = 0
    vectors: int = 0
    vectors_pending: int = 0
    faults: tuple[str, ...] = ()
    by_kind: Mapping[str, int] = field(default_factory=dict)
    by_lifetime: Mapping[str, int] = field(default_factory=dict)


class Graph(Protocol):
    """Where a cortex keeps its memories; built by its own ``open``. Every method may be called from many tasks at once.

    What is written is durable and visible when the call returns: all of it or, with an error, nothing. Unknown ids are
    left out, never an error. Errors are those of `fusion.errors`: ``StoreBusy``, ``StoreFull``, ``StoreDamaged``,
    ``BackendUnreachable``.
    """

    @property
    def embedder(self) -> Embedder | None:
        """Whose vectors it has now: who asks by a vector encodes with this. ``None``: it has none."""
        ...

    @property
    def generation(self) -> str | None:
        """Names what may be found: another one after each change of it. ``None`` while that is going on, and where
        others may write as well."""
        ...

    async def add(self, memories: Sequence[Memory], effects: Mapping[str, Effect] | None = None) -> None:
        """Keeps memories with what they mention: entities, ends of facts, who said it, and the text's `concepts`.

        An id that is there already stays as it is. ``effects``, by the id of a new memory, are done in the same
        transaction, and only if that memory is new indeed: told twice, it reinforces once.
        """
        ...

    async def alter(self, changes: Mapping[str, Change]) -> None:
        """Writes these fields of these memories, in one transaction."""
        ...

    async def reinforce(self, id: str, at: datetime) -> None:
        """Confidence + .05, at most 1, and one more reinforcement; atomic, however many call at once."""
        ...

    async def use(self, ids: Sequence[str], at: datetime) -> None:
        """One more access of each, atomic; the latest time stays, even if it is told late."""
        ...

    async def delete(self, ids: Sequence[str]) -> frozenset[str]:
        """Removes memories, their mentions and what only they assert. Returns the ids that were there.

        What was merged into them is free again, and who was in an active conflict with one of them is so no more. Of a
        settled conflict that has only losers left, the best goes on as if it had won.
        """
        ...

    async def get(self, ids: Sequence[str]) -> Mapping[str, Memory]:
        """Memories by id, whoever's they are and however they stand."""
        ...

    async def seen(self, view: View, ids: Sequence[str]) -> Mapping[str, Memory]:
        """Those of these memories that ``view`` sees. Of each extraction a store may leave out everything but its kind:
        recall reads a hundred."""
        ...

    async def versions(self, id: str) -> Sequence[Memory]:
        """All versions of a memory by ``supersedes``, oldest first; just itself if it has no other."""
        ...

    async def page(self, after: str = "", limit: int = 500, scope: Scope | None = None) -> Sequence[Memory]:
        """The next memories in the order of their ids, of everyone or of those that ``scope`` admits. For upkeep,
        lists and export: whatever their state."""
        ...

    async def named(self, part: str, scope: Scope, limit: int) -> Sequence[Memory]:
        """Those that ``scope`` admits whose id begins or ends with ``part`` as it is, in the order of their ids."""
        ...

    async def find(self, text: str, vector: Floats | None, view: View, limit: int) -> Found:
        """The best ``limit`` by words, and the best by meaning where there is a vector; only what ``view`` sees.

        Either list stands in for the other while that does not work; ``holding`` says so then.
        """
        ...

    async def cosines(self, vector: Floats, ids: Sequence[str]) -> Mapping[str, float]:
        """Cosines of these memories, -1 to 1; those without a vector are left out."""
        ...

    async def lacking(
        self, ids: Sequence[str], vector: Floats | None, bare: Sequence[str]
    ) -> tuple[Mapping[str, Memory], Mapping[str, float]]:
        """What is still to be known of what was found and linked: these memories, however they stand and as briefly as
        in ``seen``, and the cosines of ``bare`` where there is a vector."""
        ...

    async def link(self, text: str, view: View, similar: Sequence[str], limit: int) -> Sequence[Link]:
        """What the entities and concepts that ``text`` names lead to, strongest first; only through what ``view`` sees.

        A concept leads to the memories whose text has it, and no further.

        At most ``limit``, and besides whatever of ``similar``, which ``find`` found for this view, is linked too.
        Equals are ordered as in ``similar``, then newest first; of a hub these ``similar`` are taken, and its newest.
        """
        ...

    async def beside(self, hits: Sequence[Hit], span: int) -> Sequence[Sequence[Memory]]:
        """For each hit, up to ``span`` memories before and after it in its document and scope, in order, without it;
        superseded ones are left out."""
        ...

    async def entities(self, scope: Scope, limit: int = 100) -> Sequence[Known]:
        """The entities of a user, the most mentioned first; not the concepts that nobody named."""
        ...

    async def holding(self) -> Holding: ...

    async def count(self) -> int | None:
        """As `fusion.contract.CountsEvents`."""
        ...

    async def check(self) -> str | None:
        """As `fusion.contract.Checks`."""
        ...

    async def settle(self) -> None:
        """Returns when every text has its vector, or the embedder has failed once more."""
        ...

    async def close(self) -> None:
        """May be called twice."""
        ...
