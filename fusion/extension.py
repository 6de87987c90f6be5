"""The types of commands (verbs) and HTTP routes that an adapter may add to the gateway.

An adapter's package exports ``VERBS`` in its module ``cli``, and ``ROUTES`` in its module ``routes``.
"""

from __future__ import annotations

from collections.abc import Awaitable, Callable, Collection, Mapping, Sequence
from dataclasses import dataclass
from datetime import datetime
from typing import Any, Literal, NewType, Protocol, TypedDict, Unpack, runtime_checkable

from fusion.contract import Asker, Audience, BlockFormat, Embedder, Event, Scope

Lines = NewType("Lines", tuple[str, ...])
"""a batch of lines of a file, as a verb's argument: the command line reads the file and calls the verb once for each
batch; the numbers in the results are added up"""


class Owner(TypedDict, total=False):
    """Whose memories to ask for, where the caller names nobody: a dimension that the caller named cannot be changed.

    What is missing or None is as the caller has it.
    """

    user_id: str | None
    agent_id: str | None
    run_id: str | None
    session_id: str | None
    project: str | None
    audience: Audience


class FuseOptions(Owner, total=False):
    """The options of a question to all memories, as ``POST /v1/fuse`` takes them; what is missing has the recipe's."""

    as_of: datetime | None
    known_at: datetime | None
    budget_chars: int | None
    budget_tokens: int | None
    max_results: int | None
    max_items: int | None
    format: BlockFormat | None
    backends: tuple[str, ...] | None
    recipe: str | None
    timeout_ms: int | None
    explain: bool
    asker: Asker | None


class ScopedGateway(Protocol):
    """The calls that a verb or route may make on the gateway, limited to its caller's scope."""

    async def fuse(self, query: str, **options: Unpack[FuseOptions]) -> Mapping[str, Any]:
        """Ask all backends and pack one block, as ``POST /v1/fuse``; returns `fusion.wire.FuseReply`.

        Raises `BadInput`, `NobodyNamed` where several users or agents have memories and nobody is named,
        `NobodyAnswered` and `Overloaded`.
        """
        ...

    async def search(
        self, query: str, *, backend: str | None = None, limit: int = 10, **owner: Unpack[Owner]
    ) -> Mapping[str, Any]:
        """Ask one backend, this one by default, in its own order; returns `fusion.wire.SearchReply`.

        ``backend.status`` of the reply says whether it answered. Raises as `fuse`.
        """
        ...

    async def complete(self, system: str, user: str, max_tokens: int) -> str:
        """The answer of the language model of ``[model]``, within its budget; see `fusion.contract.LanguageModel`.

        ``user`` holds untrusted text only as `fusion.lib.prompt` quotes it. Raises `ModelMissing` without a model, and
        the `BackendError` that fits.
        """
        ...

    async def remember(self, events: Sequence[Event]) -> Sequence[tuple[str, str]]:
        """Store drafts of events in the journal, all or none; they are delivered to the backends in the background.

        Returns each draft's event id and outcome: stored, duplicate, superseded, blocked or skipped. The gateway sets
        id, time of recording and tenant; ``supersedes`` may be a ref. Raises `BadInput` and `StoreFull`.
        """
        ...

    async def forget(self, ref: str) -> Mapping[str, str]:
        """Delete one memory everywhere, by ref or event id; returns the outcome by backend. Raises `NotFound`."""
        ...

    async def forgotten(self, event_ids: Collection[str]) -> frozenset[str]:
        """Those of these events that were forgotten, in any scope: a store may still have them."""
        ...

    async def hidden(self, event_ids: Collection[str]) -> frozenset[str]:
        """Those of these events that no question about now gets: forgotten, replaced, ended, merged or quarantined.

        A store is sent that later.
        """
        ...

    async def withheld(self, stated: Mapping[str, str]) -> frozenset[str]:
        """Those of these events that the caller may not read: forgotten ones, and quarantined ones but for an operator.

        ``stated`` has by event id the trust that the store knows: it holds for what the journal does not have.
        """
        ...

    async def journalled(self, event_ids: Collection[str]) -> frozenset[str]:
        """Those of these events that the journal has, forgotten ones included; the others only their store has."""
        ...

    async def lines(self, document: str) -> Mapping[int, str] | None:
        """The lines of a user's file by number, without secrets and forgotten text; None if this caller sees none."""
        ...

    async def used(self, event_ids: Collection[str]) -> None:
        """Count that these memories are in a prompt."""
        ...

    async def lifecycle(
        self, *, dry_run: bool, ttl_hours: float | None, idle_hours: float | None, delete_expired: bool | None
    ) -> Mapping[str, Any]:
        """Run the lifecycle over the caller's memories in the journal; returns `fusion.wire.LifecycleReport`.

        Raises `BadInput`.
        """
        ...

    async def ids(self, ref: str) -> Sequence[str]:
        """This backend's native ids of a memory, by ref or event id.

        Raises `NotFound`, also for a memory out of scope, and for an external memory of another backend.
        """
        ...

    async def settle(self) -> None:
        """Return once every backend has all memories stored so far."""
        ...

    async def embedder(self, changes: Mapping[str, object]) -> Embedder:
        """The embedder that the settings have for a ``provider``, ``model`` and ``dimensions``; do not close it.

        Raises ``SettingsError`` and ``ModelMissing``, which say how to fix it.
        """
        ...

    async def use_embedder(self, changes: Mapping[str, object]) -> None:
        """Open this backend with that embedder from now on, until `[embedder]` itself names another model."""
        ...


@dataclass(frozen=True, slots=True)
class Call:
    """The context of one call of a verb or route.

    ``scope`` filters as a query's does. ``line`` sends one line of a long answer and waits for a slow reader;
    ``progress`` reports how many items are done, of how many (``None``: unknown), and never waits.
    """

    scope: Scope
    now: datetime
    gateway: ScopedGateway
    line: Callable[[str], Awaitable[None]]
    progress: Callable[[int, int | None], None]


class Verb(Protocol):
    """A command that one kind of backend adds: ``fusion <backend> <verb>``, POST /v1/backends/…/verb.

    A verb is a frozen dataclass whose docstring is its help. Its fields are the arguments, ``Annotated`` with a help
    text; a field without a default is positional. Every command has user, agent, session, home, config and direct
    already. Types are checked by the door, everything else in ``__post_init__`` (`BadInput`). Importing the module
    ``cli`` must be fast.

    Arguments must not be addresses, environment variables, files or modules: those belong in the settings. A class
    attribute ``in_settings`` may name the settings of earlier arguments of that kind.
    """

    def __call__(self, backend: Any, call: Call, /) -> Awaitable[object]:
        """Run the verb and return a JSON object (mapping or dataclass). May be cancelled at any point and repeated."""
        ...


@runtime_checkable
class Operates(Protocol):
    """A verb that works on the memories of all scopes in a store: only keys of the tenant ``default`` may call it."""

    operates: Literal[True]


@runtime_checkable
class Asks(Protocol):
    """A verb that ranks memories by a question: it is refused where it names nobody and several have memories."""

    asks: Literal[True]


@runtime_checkable
class RendersResult(Protocol):
    """A verb that renders its result as text; the results of other verbs are printed field by field."""

    def render(self, result: Any) -> str: ...


@dataclass(frozen=True, slots=True)
class Route:
    """An HTTP route of another memory system that a backend replaces, below /compat/<backend>.

    ``handle`` gets the values of the body, the query string and the path (``/v1/memories/{id}``) as one unchecked
    mapping, in which the path takes precedence, and returns the JSON reply. A ``probe`` is answered even if the queue
    of requests is full. A route that ``asks`` is as a verb that `Asks`; its address may name a user (``?user_id=ada``).
    """

    method: Literal["GET", "POST", "PUT", "DELETE"]
    path: str
    handle: Callable[[Any, Call, Mapping[str, object]], Awaitable[object]]
    probe: bool = False
    asks: bool = False
