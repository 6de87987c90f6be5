"""The contract between the gateway and everything outside it.

Values are frozen; ports are small protocols. A memory system joins by implementing
``Backend`` (two methods) and whichever of ``Remembers``, ``Forgets``, ``Expands``, ``Reads``,
``Used`` and ``Describes`` it can honour; `tests/backend_contract.py` is the suite that it
then inherits, and `adapters/inmemory.py` the reference. What it can do beyond that, its folder
exports: ``VERBS`` in a module ``cli``, drop-in ``ROUTES`` in a module ``routes``.

Times are timezone-aware UTC. Ranks start at 1. Scores are comparable only within one answer.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Mapping, Sequence
from dataclasses import dataclass, field, fields
from datetime import date, datetime
from operator import attrgetter
from pathlib import Path
from typing import TYPE_CHECKING, Any, Literal, Protocol, Self, runtime_checkable

if TYPE_CHECKING:
    import numpy as np
    from numpy.typing import NDArray

    Floats = NDArray[np.float32]

Kind = Literal["rule", "procedure", "fact", "episode", "preference", "decision", "plan", "note", "turn"]
Trust = Literal["trusted", "unknown", "untrusted", "quarantined"]
Origin = Literal["owner", "agent", "tool", "import", "system"]
Audience = Literal["private", "group"]
Precision = Literal["second", "minute", "hour", "day", "month", "year"]
Unit = Literal["turn", "line"]
Dimension = Literal["user_id", "agent_id", "run_id", "session_id"]

KINDS: tuple[Kind, ...] = (
    "rule",
    "procedure",
    "fact",
    "episode",
    "preference",
    "decision",
    "plan",
    "note",
    "turn",
)
DIMENSIONS: tuple[Dimension, ...] = ("user_id", "agent_id", "run_id", "session_id")


@dataclass(frozen=True, slots=True)
class Scope:
    """Whose memory: the tenant, and four dimensions that filter where a query names them.

    On a query, a dimension that is ``None`` does not filter. On an item, ``None`` says that
    the item belongs to nobody in particular, and a query that names the dimension does not
    get it: nothing crosses from one user to another by a default. ``project`` only boosts.
    ``audience`` of a query is where the answer will be read; of an item, the widest
    audience that may read it.
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
            and (self.user_id is None or self.user_id == item.user_id)
            and (self.agent_id is None or self.agent_id == item.agent_id)
            and (self.run_id is None or self.run_id == item.run_id)
            and (self.session_id is None or self.session_id == item.session_id)
            and (self.audience == "private" or item.audience == "group")
        )


@dataclass(frozen=True, slots=True)
class Moment:
    """A point in time as precisely as it is known; ``zone`` is the IANA name it was said in."""

    utc: datetime
    precision: Precision = "second"
    zone: str | None = None


@dataclass(frozen=True, slots=True)
class Place:
    """Where a memory stands in its document: ``start`` to ``end``, both included.

    Lines start at 1; turns are counted as the source counts them.
    """

    document: str
    start: int
    end: int
    unit: Unit = "turn"


class Timed(Protocol):
    """What has times: since when it holds, until when, and when it was recorded; None where that is not known."""

    @property
    def began(self) -> datetime | None: ...
    @property
    def valid_to(self) -> datetime | None: ...
    @property
    def recorded_at(self) -> datetime | None: ...


OutOfTime = Literal["no longer valid", "no longer valid then", "not yet true then", "not yet recorded then"]


@dataclass(frozen=True, slots=True)
class Query:
    """What is asked of a backend. ``limit`` is how many hits it may return; ``deadline_s`` how long it has."""

    text: str
    scope: Scope
    now: datetime
    limit: int = 100
    deadline_s: float = 1.0
    as_of: datetime | None = None
    known_at: datetime | None = None

    def admits(self, hit: Hit) -> bool:
        """Whether an answer may have ``hit``, by its scope and its times. What is not admitted uses up no ``limit``."""
        return self.scope.admits(hit.scope) and self.out_of_time(hit) is None

    def out_of_time(self, item: Timed) -> OutOfTime | None:
        """Why an item does not hold at the time that is asked about, or None. A time that is not known hides nothing.

        Without ``as_of``, what has ended by ``now`` does not hold. With it, neither does what had ended by then, nor
        what began later. With ``known_at``, what was recorded later was not known.
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
    """One thing that happened and is to be remembered; never changed, only superseded or forgotten.

    ``event_id`` is a UUIDv7. ``source`` names where it came from and, with ``place`` and
    ``revision``, is its natural key: the same key is the same event. ``stated`` is what its caller said of it beyond
    these fields, name and value, for the backends that understand it: the cortex knows lifetime, confidence and tag.
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

    @property
    def began(self) -> datetime:
        """Since when it holds: as it says, else since it happened, else since it was recorded."""
        return self.valid_from or (self.at.utc if self.at else self.recorded_at)

    @property
    def stated_by(self) -> str | None:
        """Who states the place: the file that was read for lines of it, else the kind of source ("jsonl", "web").

        Places of one document belong together only where the same one states them. A tool, and an untrusted memory,
        never speaks for the others of its kind.
        """
        kind, colon, _ = (self.source or "").partition(":")
        if kind == "file" and colon and self.place is not None and self.place.unit == "line":
            return self.source
        doubtful = " (untrusted)" if self.trust == "untrusted" or self.origin == "tool" else ""
        return (kind if colon else "") + doubtful or None


@dataclass(frozen=True, slots=True)
class Entity:
    name: str
    type: str = "concept"
    """person, project, system, tool, decision, date or concept"""


@dataclass(frozen=True, slots=True)
class Fact:
    subject: str
    predicate: str
    object: str


@dataclass(frozen=True, slots=True)
class Episode:
    """Something that happens in time, from ``start`` until before ``end``; ``entities`` are the names in it."""

    start: datetime
    end: datetime
    entities: tuple[str, ...] = ()


@dataclass(frozen=True, slots=True)
class Extraction:
    """What capture learnt from one event, once, for every store.

    ``confidence``, 0 to 1, is how sure it is that the event's text holds: 1 for what was said, less for what a model
    made of it.
    """

    kind: Kind = "note"
    entities: tuple[Entity, ...] = ()
    facts: tuple[Fact, ...] = ()
    times: tuple[Moment, ...] = ()
    episodes: tuple[Episode, ...] = ()
    confidence: float = 1.0


@dataclass(frozen=True, slots=True)
class Captured:
    event: Event
    extraction: Extraction = Extraction()


FILE, BACKEND = "file:", "backend:"
"""what `Hit.stated_by` begins with where a file was read, and where only a backend says so"""
CLAIMED = "claimed:"
"""what a source begins with that a caller named who may not: it joins no file, no session and no talk of others"""
READERS = frozenset({"file", "jsonl", "claude-code", "openclaw"})
"""kinds of sources that only the gateway's own readers name: of notes, of JSONL, of sessions"""


# Not frozen, as every other value here is: a frozen one takes five times as long to make, and a question makes
# hundreds. Nobody changes one all the same, for they are shared and remembered: `dataclasses.replace` makes another.
@dataclass(slots=True, unsafe_hash=True)
class Hit:
    """One thing a backend found. Hits come best first; ``score`` is for the receipt only.

    ``event_id`` is set when the memory came through the gateway; otherwise
    ``(backend, native_id)`` is its identity. ``path`` justifies a hit that a graph found
    ("julien", "corrected_by", "bug gateway"). ``linked``, 0 to 1, is how strongly the graph leads there from what the
    query names and from what is like it, whatever words the hit shares with the query; `None` where there is no graph.

    ``stated_by`` says who states the place. An adapter that reads the user's files sets it to ``file:`` and the path of
    the file; every other adapter leaves it out, and the gateway sets it to ``backend:`` and the backend's name.
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
    linked: float | None = None
    stated_by: str | None = None

    @classmethod
    def of(
        cls, event: Event, native_id: str | None = None, score: float | None = None, path: tuple[str, ...] = ()
    ) -> Hit:
        """The hit that an event itself is; ``native_id`` is the event's id unless the backend has another."""
        values: tuple[Any, ...] = (native_id or event.event_id, *_SAID(event), score, *_TOLD(event), path)
        return cls(*values)

    def scored(self, score: float | None) -> Hit:
        """The same hit with this score: an eighth of what `dataclasses.replace` takes."""
        hit = Hit(*_VALUES(self))
        hit.score = score
        return hit

    def found_as(self, found: Hit) -> Hit:
        """This hit as a backend found it: under its native id, with its score and the way to it."""
        hit = Hit(*_VALUES(self))
        hit.native_id, hit.score, hit.path, hit.linked = found.native_id, found.score, found.path, found.linked
        return hit

    def external_to(self, backend: str) -> Hit:
        """This hit as the word of ``backend`` alone: it cannot raise its trust, nor say what its own graph is worth."""
        hit = Hit(*_VALUES(self))
        hit.linked = None
        if hit.trust == "trusted":
            hit.trust = "unknown"
        if hit.place is None or hit.place.unit != "line" or not (hit.stated_by or "").startswith(FILE):
            hit.stated_by = BACKEND + backend
        return hit

    @property
    def began(self) -> datetime | None:
        """Since when it holds: as it says, else since it happened, else since it was recorded."""
        return self.valid_from or (self.at.utc if self.at else self.recorded_at)

    @property
    def external(self) -> bool:
        """Whether a backend alone vouches for it: the journal has no such event, and no file of the user's has it."""
        return self.stated_by is not None and self.stated_by.startswith(BACKEND)


_NAMES = tuple(one.name for one in fields(Hit))
_VALUES = attrgetter(*_NAMES)
# What an event and its hit have in common, before and behind the score: by place, which takes two thirds of the time
# that it takes by name.
_SAID = attrgetter(*_NAMES[_NAMES.index("text") : _NAMES.index("score")])
_TOLD = attrgetter(*_NAMES[_NAMES.index("kind") : _NAMES.index("path")])


class Partial(list[Hit]):
    """What `search` may return when ``dropped`` items of a reply made no sense: the others, and how many were lost."""

    def __init__(self, hits: Iterable[Hit], dropped: int) -> None:
        super().__init__(hits)
        self.dropped = dropped


@dataclass(frozen=True, slots=True)
class Features:
    """What a backend can honour. Where a query needs more, it is skipped with that reason.

    ``filters`` are the scope dimensions that its search filters by. ``bound`` gives fixed
    values to dimensions it cannot filter: it then answers only queries that name just that value.
    ``tenants`` says whether it keeps tenants apart; otherwise it serves ``tenant`` alone.
    """

    filters: frozenset[Dimension] = frozenset()
    bound: Mapping[Dimension, str] = field(default_factory=dict)
    tenants: bool = False
    tenant: str = "default"
    as_of: bool = False
    kinds: frozenset[Kind] = frozenset()
    """kinds that it remembers; empty when it is read only"""


@dataclass(frozen=True, slots=True)
class Description:
    """What a backend holds now: for `/v1/backends` and `coverage`."""

    items: int = 0
    vectors: int = 0
    vectors_pending: int = 0
    notes: tuple[str, ...] = ()
    """what is degraded, in words a user understands, with the fix"""
    degraded: bool = False
    """whether something fails that is configured to work; what was left out on purpose is only noted"""


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
    """What a backend is opened with. ``folder`` is its own and may not exist yet.

    ``tenant`` is the one whose memories it stores: each tenant opens each backend with a folder of its own. A backend
    that stores outside its folder keeps the tenants apart there, too, or serves one tenant alone (`Features.tenant`).
    ``model`` is there where the configuration names one; it is within its budget, or says so by an error.
    ``notes`` are the folders that the gateway follows for this tenant; a backend may search them where they are.
    """

    name: str
    folder: Path
    options: Mapping[str, object] = field(default_factory=dict)
    embedder: Embedder | None = None
    model: LanguageModel | None = None
    tenant: str = "default"
    notes: NoteFolders = field(default_factory=NoteFolders)


class Backend(Protocol):
    """A memory system. Built by ``open``; every method may be called from many tasks at once.

    ``search`` returns at most ``query.limit`` hits, best first, each of which `Query.admits` as far
    as the system knows whose it is and when it holds, and changes nothing; nothing found is ``[]``.
    It raises ``BackendUnreachable`` when nobody
    answers, ``InvalidAnswer`` when the answer makes no sense, and the other ``BackendError``s
    of `fusion.errors` where they fit. ``close`` may be called twice.
    """

    features: Features

    @classmethod
    async def open(cls, opening: Opening) -> Self: ...

    async def search(self, query: Query) -> Sequence[Hit]: ...

    async def close(self) -> None: ...


@runtime_checkable
class Remembers(Protocol):
    """A backend that stores events. Storing the same ``event_id`` again changes nothing."""

    def accepts(self, event: Event) -> bool: ...

    async def remember(self, batch: Sequence[Captured]) -> Sequence[tuple[str, ...]]:
        """Native ids for each of ``batch``, in its order; durable when it returns. All or an error."""
        ...


Forgotten = Literal["deleted", "hidden", "absent"]


@runtime_checkable
class Forgets(Protocol):
    """A backend that can delete. ``hidden``: it is a user's own file, left as it is.

    Afterwards no search returns it: the gateway asks, and asks to forget again until that is so. An item that did not
    come through the gateway is named by its one native id, and by an ``event_id`` that the backend does not know.
    """

    async def forget(self, event_id: str, native_ids: Sequence[str]) -> Forgotten: ...


@runtime_checkable
class ForgetsMany(Protocol):
    """A backend that deletes many memories with a few commits. It also `Forgets`.

    ``has_files``: a search also finds a user's own files, which may say what was forgotten.
    """

    @property
    def has_files(self) -> bool: ...

    async def forget_all(self, items: Sequence[tuple[str, Sequence[str]]]) -> Sequence[Forgotten]:
        """As `Forgets.forget` of each (event id, native ids), in their order; durable when it returns.

        What was deleted when it fails halfway is absent when it is asked again.
        """
        ...


@runtime_checkable
class Holds(Protocol):
    """A backend that can say which events it keeps, so that a lost journal can be made anew."""

    async def held(self, after: str, limit: int) -> Sequence[tuple[Event, tuple[str, ...]]]:
        """Up to ``limit`` events with their native ids, as far as it keeps them, by event id, behind ``after``."""
        ...


@runtime_checkable
class CountsEvents(Protocol):
    """A backend that can say cheaply how many events its own files hold, so that a loss is noticed."""

    async def count(self) -> int | None:
        """How many events the files hold now; ``None`` where other programs add and delete memories, too."""
        ...


@runtime_checkable
class Expands(Protocol):
    """A backend that knows what stands beside a hit in its document."""

    async def neighbours(self, hits: Sequence[Hit], span: int) -> Sequence[Sequence[Hit]]:
        """For each hit, up to ``span`` hits before it and after it, in document order, without it."""
        ...


@dataclass(frozen=True, slots=True)
class Reading:
    """A document that hits name in their ``place``, as it is now; its lines count from 1. ``scope`` is whose it is."""

    name: str
    text: str
    scope: Scope = Scope()


@runtime_checkable
class Reads(Protocol):
    """A backend that can show the documents that its hits stand in."""

    async def read(self, name: str) -> Reading | None:
        """The document of that name as it is now; ``None`` for every other name, whatever it looks like.

        A name is the caller's text: nothing outside the backend's own documents may be reached by it.
        """
        ...


@runtime_checkable
class Logs(Protocol):
    """A backend that can keep a log of each day which people read as well."""

    async def append(self, text: str, scope: Scope, day: date) -> Place | None:
        """Appends lines to the log of ``day`` and changes nothing else: where they stand, once they are durable.

        ``None`` where it keeps no log that whoever is in ``scope`` would read: then the text is a memory like others.
        Raises ``StoreFull``; then nothing of it is left behind.
        """
        ...


@runtime_checkable
class Used(Protocol):
    """A backend that wants to know which of its memories reached a prompt. Called after the reply."""

    async def used(self, native_ids: Sequence[str], at: datetime) -> None: ...


@runtime_checkable
class Describes(Protocol):
    async def describe(self) -> Description: ...


@runtime_checkable
class Checks(Protocol):
    """A backend that can look for damage in what it keeps, without stopping."""

    async def check(self) -> str | None:
        """What was damaged, in words; it is written again when this returns. ``None`` when all is well.

        Searches go on meanwhile, on what is whole. Raises ``StoreDamaged`` where the damage is to the truth itself.
        """
        ...


@runtime_checkable
class Settles(Protocol):
    """A backend that works behind (vectors filling in) and can be waited for."""

    async def settle(self) -> None:
        """Returns when everything remembered so far is found in every way the backend knows."""
        ...


UNNAMED = "…"
"""what stands for a backend's name in an error of `Verifies.verify`, which is not told it"""


@runtime_checkable
class Verifies(Protocol):
    """An adapter's class that can say whether its options are right, as opening it would, and whether what it needs is
    installed. Nothing is opened, nothing loaded."""

    @classmethod
    def verify(cls, options: Mapping[str, object]) -> str | None:
        """Returns if all is well; what it is then, in words, where there is more to say than its name.

        Raises ``SettingsError`` or ``ModelMissing``, which say how to fix it.
        """
        ...


@dataclass(frozen=True, slots=True)
class TokenVectors:
    """One text as a late-interaction model sees it: a unit vector a token, quantised to int8.

    ``vectors`` has shape (tokens, dimensions); ``vectors * scale`` restores unit length.
    ``tokens`` are the word pieces, without the model's special ones; ``words`` gives, for each
    piece, the lower-case word of the text it is part of.
    """

    vectors: NDArray[np.int8]
    scale: float
    tokens: tuple[str, ...] = ()
    words: tuple[str, ...] = ()


class Embedder(Protocol):
    """Turns texts into vectors. One for all backends, so that a text is encoded once.

    ``identity`` names model and version; an index that was built under another identity
    must not be mixed with it.
    """

    identity: str
    dimensions: int

    async def embed(self, texts: Sequence[str], *, keep: bool = True) -> Floats:
        """Dense vectors of unit length, shape (len(texts), dimensions); cached by content on disk.

        ``keep=False`` is for queries: they go before what is being stored, and leave no trace on disk.
        """
        ...

    async def query_tokens(self, text: str) -> TokenVectors:
        """A query's token vectors, with ``tokens`` and ``words`` filled in."""
        ...

    async def tokens(self, texts: Sequence[str], deadline_s: float) -> Sequence[TokenVectors | None]:
        """Token vectors of texts; ``None`` where none were cached and time did not allow to encode them."""
        ...

    async def forget(self, texts: Sequence[str]) -> None:
        """Removes these texts from every cache, in memory and on disk."""
        ...

    async def close(self) -> None: ...


@runtime_checkable
class Knows(Protocol):
    """An embedder that has a vocabulary."""

    def knows(self, word: str) -> bool:
        """Whether the vocabulary has this lower-case word as a whole; at once."""
        ...


@runtime_checkable
class Delegates(Protocol):
    """An embedder whose dense vectors come from elsewhere.

    ``local`` is the model at hand, which compares a question with its candidates: at once, and with nothing sent.
    ``None``: there is none, and they are compared by their words.
    """

    local: Embedder | None


@dataclass(frozen=True, slots=True)
class Media:
    """A picture or a recording. ``key`` stands for its content; ``read`` gives it, and is called only if need be."""

    key: str
    mime: str
    read: Callable[[], bytes]


@runtime_checkable
class Sees(Protocol):
    """An embedder whose model may put pictures and recordings among its texts; ``sees`` says whether it does."""

    sees: bool

    async def embed_media(self, media: Sequence[Media]) -> Floats:
        """A vector each, near to texts that say what they show; zero for what the model does not take.

        Cached by key, as texts are. Raises what ``embed`` raises, and what ``read`` does.
        """
        ...


@dataclass(frozen=True, slots=True)
class Passage:
    """One text that a judge scores; ``id`` is opaque and new for each call."""

    id: str
    text: str


@dataclass(frozen=True, slots=True)
class Verdict:
    """A judge's scores, 0 to 10, by passage id; a passage without one was not scored.

    ``status`` is ok, timeout, skipped_budget, cooldown, disabled, invalid or error; ``fault`` says
    in words what went wrong; ``input_tokens`` and ``output_tokens`` are what the call cost.
    """

    status: Literal["ok", "timeout", "skipped_budget", "cooldown", "disabled", "invalid", "error"]
    scores: Mapping[str, float] = field(default_factory=dict)
    fault: str | None = None
    model: str | None = None
    input_tokens: int = 0
    output_tokens: int = 0
    ignored: int = 0
    """scores that named no passage, named one twice, or were not a number from 0 to 10"""


class Judge(Protocol):
    """Scores passages for a query. Never raises (but for cancellation): a fault is a ``Verdict``."""

    name: str

    async def judge(self, query: str, passages: Sequence[Passage], deadline_s: float) -> Verdict: ...

    async def close(self) -> None: ...


class LanguageModel(Protocol):
    """A text model behind one call, for capture and upkeep. ``name`` is the model's, as its server knows it.

    ``complete`` gives the whole answer as text. It raises the `fusion.errors.BackendError` that fits, also where the
    answer was cut at ``max_tokens`` or refused: `InvalidAnswer`.
    """

    name: str

    async def complete(self, system: str, user: str, max_tokens: int) -> str: ...

    async def close(self) -> None: ...
