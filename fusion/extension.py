"""What an adapter's folder may export beside its backend: verbs, and routes of the system that it stands in for.

Module ``cli`` of the folder names the verbs, module ``routes`` the routes.
"""

from __future__ import annotations

from collections.abc import Awaitable, Callable, Collection, Mapping, Sequence
from dataclasses import dataclass
from datetime import datetime
from typing import Any, Literal, NewType, Protocol, runtime_checkable

from fusion.contract import Embedder, Event, Scope

Lines = NewType("Lines", tuple[str, ...])
"""Lines of a file, a batch of them at a time: a command line reads the file, however long it is, and calls the verb
once a batch; the numbers of the results are added up"""


class ScopedGateway(Protocol):
    """What a verb may ask of the gateway, all of it in the scope of who called: the way in for what is to be kept."""

    async def remember(self, events: Sequence[Event]) -> Sequence[tuple[str, str]]:
        """Journals drafts of events, all or none, and brings them to every backend behind.

        By draft, its event id and what became of it: stored, duplicate, superseded, blocked or skipped. Id, time of
        recording and tenant are the gateway's; ``supersedes`` may be a ref. Raises `BadInput` and what a full disk is.
        """
        ...

    async def forget(self, ref: str) -> Mapping[str, str]:
        """Deletes one memory everywhere, by its ref or event id: what became of it, by backend. Raises `NotFound`."""
        ...

    async def forgotten(self, event_ids: Collection[str]) -> frozenset[str]:
        """Those of these events that were forgotten, whoever's they were: a store may have them still, or again."""
        ...

    async def ids(self, ref: str) -> Sequence[str]:
        """This backend's own ids of the memory that a block cites by ``ref``, or that has this event id.

        Raises `NotFound`, also for a memory that the caller may not see, and for one that another backend found.
        """
        ...

    async def settle(self) -> None:
        """Returns when every backend has what was remembered so far."""
        ...

    async def embedder(self, changes: Mapping[str, object]) -> Embedder:
        """What the settings have for this ``provider``, ``model`` and ``dimensions``; it stays open with the home.

        Raises ``SettingsError`` and ``ModelMissing``, which say how to fix it.
        """
        ...

    async def use_embedder(self, changes: Mapping[str, object]) -> None:
        """From now on this backend is opened with that embedder, until `[embedder]` itself names another."""
        ...


@dataclass(frozen=True, slots=True)
class Call:
    """One call of a verb or route: on whose memories, when, and who listens.

    ``scope`` filters as a query's does. ``line`` sends one line of a long answer, and waits for a slow reader;
    ``progress`` says how many are done, of how many (``None``: nobody knows), and never waits.
    """

    scope: Scope
    now: datetime
    gateway: ScopedGateway
    line: Callable[[str], Awaitable[None]]
    progress: Callable[[int, int | None], None]


class Verb(Protocol):
    """Something that one kind of backend can be told to do: ``fusion <backend> <verb>``, POST /v1/backends/…/verb.

    A frozen dataclass. Its fields are the arguments, ``Annotated`` with a help text (without a default: positional; no
    user, agent, session, home, config, direct: every command has those); its docstring is the help. It is checked
    before it is called: types by the door, the rest in ``__post_init__`` (`BadInput`). ``VERBS`` of the module ``cli``
    in an adapter's folder names them; to import that must be quick.

    No argument is an address, a variable, a file or a module: those come from settings. ``in_settings``, if a class has
    it, names the setting of each that was an argument once.
    """

    def __call__(self, backend: Any, call: Call, /) -> Awaitable[object]:
        """The result, a JSON object: a mapping or a dataclass. May be cancelled anywhere, and called again."""
        ...


@runtime_checkable
class Operates(Protocol):
    """A verb that works on the whole store, whoever's memories they are: for keys of the tenant ``default`` alone."""

    operates: Literal[True]


@runtime_checkable
class RendersResult(Protocol):
    """A verb that can say its result to a person; others are printed field by field."""

    def render(self, result: Any) -> str: ...


@dataclass(frozen=True, slots=True)
class Route:
    """A route of another memory system that a backend stands in for, below /compat/<backend>.

    ``handle`` gets what came in the body, the query string and the path (``/v1/memories/{id}``), the path winning, as
    one mapping, not yet checked; what it returns is the JSON reply. ``probe``: it is answered when
    the queue is full.
    """

    method: Literal["GET", "POST", "PUT", "DELETE"]
    path: str
    handle: Callable[[Any, Call, Mapping[str, object]], Awaitable[object]]
    probe: bool = False
