"""The ports of memory systems: `Backend`, and a small protocol for each further capability."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from datetime import date, datetime
from pathlib import Path
from typing import Literal, Protocol, Self, runtime_checkable

from fusion.contract.memories import Dimension, Event, Extracted, Kind, Place, Scope, State
from fusion.contract.models import Embedder, LanguageModel
from fusion.contract.queries import Hit, Query


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
    embedded: bool = False
    """whether it keeps what it is sent in this gateway's own folder or memory, where no other gateway sees it"""
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
        """At most ``query.limit`` memories that the query admits, apart from its text; ``[]`` if it has no look-up."""
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
    """A backend that can cheaply count the events in its own files or tables, so that losses are noticed.

    One that is not ``embedded`` in the gateway's folder is sent again what it lost.
    """

    async def count(self) -> int | None:
        """The number of events that it holds now; ``None`` if other programs also add and delete memories.

        Called once a minute, and less often where it takes long.
        """
        ...


@runtime_checkable
class FindsNeighbours(Protocol):
    """A backend that can return the neighbours of a hit in its document."""

    async def neighbours(self, hits: Sequence[Hit], span: int) -> Sequence[Sequence[Hit]]:
        """For each hit, up to ``span`` hits before it and ``span`` after it, in document order, without the hit."""
        ...


@dataclass(frozen=True, slots=True)
class GraphEdge:
    """An edge between two entities, as one memory asserts it.

    ``relation`` is its kind: USES, BLOCKED_BY, RELATES_TO, EVALUATES, DECIDES, MENTIONS, or "" for any other. With
    ``inverse`` it runs from the object to the subject, as "blocks" says BLOCKED_BY. The types are those of `Entity`.
    """

    subject: str
    predicate: str
    object: str
    event_id: str
    relation: str = ""
    inverse: bool = False
    subject_type: str = "concept"
    object_type: str = "concept"


@runtime_checkable
class Graphs(Protocol):
    """A backend with a graph of entities, whose edges can be read from one entity to the next."""

    async def entities_in(self, text: str, scope: Scope) -> Sequence[str]:
        """The names of the entities that a text names, of the owners in ``scope``, rarest first, some ten at most."""
        ...

    async def edges_at(self, names: Sequence[str], query: Query, limit: int) -> Sequence[GraphEdge]:
        """The edges at entities of these names that the query may see, newest first, at most ``limit`` an entity."""
        ...


@runtime_checkable
class EdgeList(Protocol):
    """A backend whose graph can be listed."""

    async def newest_edges(self, query: Query, limit: int) -> Sequence[GraphEdge]:
        """The newest edges of all entities that the query may see."""
        ...


@dataclass(frozen=True, slots=True)
class StoredDocument:
    """The current text of a document that hits name in their ``place``, with its scope. Lines start at 1."""

    name: str
    text: str
    scope: Scope = Scope()  # noqa: RUF009  # immutable


@runtime_checkable
class ReadsDocuments(Protocol):
    """A backend that can read the documents of its hits."""

    async def read(self, name: str) -> StoredDocument | None:
        """The document of that name as it is now; ``None`` if the backend has no such document.

        The name is untrusted input: it must not give access to anything but the backend's own documents.
        """
        ...


@dataclass(frozen=True, slots=True)
class DocumentVersion:
    """An earlier version of a document: its time, author, message and text."""

    at: datetime
    by: str
    why: str
    text: str


@runtime_checkable
class KeepsVersions(Protocol):
    """A backend that can read the earlier versions of its documents, as those of files in a git repository."""

    async def versions(self, name: str, limit: int) -> Sequence[DocumentVersion]:
        """At most ``limit`` versions before the present one, newest first; ``[]`` if it knows of none.

        The name is untrusted input, as that of `ReadsDocuments.read`.
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
