"""How the stores of an open home are: which answer, how far their vectors are, what was found damaged, who leaked."""

from __future__ import annotations

import asyncio
import logging
import time
from collections import Counter
from collections.abc import Awaitable, Callable, Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from fusion.contract import Checks, CountsEvents, Describes, Description
from fusion.errors import FusionError
from fusion.gateway.import_class import why
from fusion.gateway.losses import Losses
from fusion.ingest.deliver import Deliverer
from fusion.journal import Journal
from fusion.lib.breaker import Breaker
from fusion.recall.gather import Source
from fusion.settings import Settings

log = logging.getLogger(__name__)
security = logging.getLogger("fusion.security")
"""what somebody should look into: a memory system that shows one user's memories to another"""

LOOK_S = 1.0
"""how old the count of missing vectors in an answer's coverage may be"""


@dataclass(frozen=True, slots=True)
class BackendState:
    """One backend as it is now, for `/v1/backends`."""

    name: str
    adapter: str
    status: str
    """ready, disabled, half_open (it will be asked once), closed (it fails, but is the last), or why it is left alone:
    open, rate_limited, unauthorized"""
    detail: str = ""
    items: int = 0
    vectors: int = 0
    vectors_pending: int = 0
    backlog: int = 0
    """deliveries that it has not acknowledged yet"""
    leaked: int = 0
    """memories of somebody else's that it answered with, and that were dropped, since the start"""
    notes: tuple[str, ...] = ()
    degraded: bool = False
    """whether something fails that is configured to work; ``notes`` say what"""


class Health:
    """What is known of the stores of one home. ``damaged``: by store, what is wrong with it already."""

    def __init__(
        self,
        settings: Settings,
        sources: Mapping[str, Source],
        journal: Journal,
        deliverer: Deliverer,
        damaged: Mapping[str, str],
    ) -> None:
        self._settings = settings
        self._sources = sources
        self._journal = journal
        self._deliverer = deliverer
        usable = {name: source.backend for name, source in sources.items() if source.disabled is None}
        self._describing = {name: backend for name, backend in usable.items() if isinstance(backend, Describes)}
        """looked for once, for to look is slow"""
        self._checking = {name: backend for name, backend in usable.items() if isinstance(backend, Checks)}
        self._opened = time.monotonic()
        self._looked_at = -LOOK_S
        self.has_looked = False
        """whether what the backends say of themselves is known at all"""
        self._vectors_pending = 0
        self.items: int | None = None
        """what all backends hold, as of the last look; None where not all of them say"""
        self._failing: Mapping[str, str] = {}
        """by backend, what it says that fails, as of the last look"""
        self._leaked: Counter[str] = Counter()
        self.damaged = dict(damaged)
        """by store, what the last check found and could not fix"""
        counting = {name: backend for name, backend in usable.items() if isinstance(backend, CountsEvents)}
        folders = {name: settings.home / "backends" / name for name in counting}
        self.losses = Losses(journal, {} if damaged else counting, folders)

    @property
    def uptime_s(self) -> float:
        return round(time.monotonic() - self._opened, 1)

    @property
    def degraded(self) -> bool:
        """Whether a store is damaged, or failed as of the last look."""
        return bool(self._failing or self.damaged or self.losses.found)

    @property
    def failing(self) -> tuple[str, ...]:
        """Of each backend that is not damaged and fails, what it said at the last look, with its name."""
        return tuple(text for name, text in self._failing.items() if name not in self.damaged)

    @property
    def broken(self) -> tuple[str, ...]:
        """What is damaged or was lost, each in words with what to do."""
        return (*self.damaged.values(), *self.losses.found.values())

    def coverage(self, found: Mapping[str, Any]) -> Mapping[str, Any]:
        """The coverage of an answer with how many vectors are still missing, as of the last look."""
        return {**found, "vectors_pending": self._vectors_pending} if self._describing else found

    def is_due(self) -> bool:
        """Whether it is time for another look; then it counts as begun."""
        now = time.monotonic()
        if not self._describing or now - self._looked_at < LOOK_S:
            return False
        self._looked_at = now
        return True

    async def look(self) -> None:
        """Asks every backend how far it is."""
        states = await self.backends()
        self._vectors_pending = sum(state.vectors_pending for state in states)
        self.has_looked = True
        silent = any(s.disabled is None and s.name not in self._describing for s in self._sources.values())
        self.items = None if silent else sum(state.items for state in states)
        # What is damaged is told as that, and is well as soon as a check says so.
        failing = [state for state in states if state.degraded and state.name not in self.damaged]
        self._failing = {s.name: f"{s.name}: {'; '.join(s.notes) or s.detail or 'it says no more'}" for s in failing}

    async def backends(self) -> list[BackendState]:
        """Every configured backend as it is now."""
        backlog = await self._deliverer.backlog()
        return list(await asyncio.gather(*(self._state(s, backlog.get(s.name, 0)) for s in self._sources.values())))

    async def _state(self, source: Source, backlog: int) -> BackendState:
        adapter = self._settings.backends[source.name].adapter
        described = Description()
        detail = source.disabled or self._deliverer.faults.get(source.name, "")
        if source.name in self._describing:
            try:
                async with asyncio.timeout(source.deadline_s):
                    described = await self._describing[source.name].describe()
            except Exception as error:  # noqa: BLE001 — one that cannot describe itself costs its own line only
                detail = f"{type(error).__name__}: {error}"
        return BackendState(
            name=source.name,
            adapter=adapter,
            status=status_of(source),
            detail=detail,
            items=described.items,
            vectors=described.vectors,
            vectors_pending=described.vectors_pending,
            backlog=backlog,
            leaked=self._leaked[source.name],
            notes=described.notes,
            degraded=described.degraded or source.name in self.damaged or source.name in self.losses.found,
        )

    async def check(self) -> Mapping[str, str]:
        """Looks for damage in the journal and in every backend that can be looked through. By store, what was found.

        What is derived is written again by then; what is not stands in the notes, and answers are degraded.
        """
        looks: dict[str, Callable[[], Awaitable[str | None]]] = {"journal": self._journal.check}
        looks.update({name: backend.check for name, backend in self._checking.items()})
        found = dict(await self.compare())
        for name, look in looks.items():  # one after the other: nobody waits for it, and others want the disk
            try:
                fault = await look()
            except Exception as error:  # noqa: BLE001 — whatever ails one store, the others are looked at
                fault = self.damaged[name] = f"{name}: {why(error)}"
                log.error("%s is damaged: %s", name, why(error))
            else:  # not before: while one is looked through, what is known of it holds
                self.damaged.pop(name, None)
            if fault is not None:
                found[name] = fault
        return found

    async def compare(self) -> Mapping[str, str]:
        """Compares how many events journal and stores hold with what they held before. By store, what was lost.

        It costs a count of rows in threads of the stores' own. A journal that lost events is only read from then on.
        """
        try:
            deleted = 0 if self.damaged else await self._journal.deleted_externally()
        except FusionError as error:  # another check says what is wrong with it
            log.debug("the journal could not be counted: %s", type(error).__name__)
            deleted = 0
        if deleted > 0:
            events = "an event" if deleted == 1 else f"{deleted} events"
            self.damaged |= only_read(self._journal, f"another program deleted {events} from it", self._settings.home)
        lost = await self.losses.compare()
        return {"journal": self.damaged["journal"], **lost} if deleted > 0 else lost

    def count_leaks(self, backend: str, refused: Mapping[str, int]) -> None:
        """A backend was asked for one scope and answered with another's: not shown, but somebody must fix it."""
        if leaked := refused.get("scope", 0):
            self._leaked[backend] += leaked
            security.warning(
                "backend %s answered with %d memories of another scope; they were dropped (%d so far)",
                backend,
                leaked,
                self._leaked[backend],
            )


def status_of(source: Source) -> str:
    """As `BackendState.status`."""
    if source.disabled is not None:
        return "disabled"
    breaker = source.breaker
    if breaker.healthy:
        return "ready"
    return breaker.reason if breaker.state == "open" else breaker.state


def breaker_of(breaker: Breaker) -> dict[str, Any]:
    """A breaker for `/v1/status`: its state, and in how many seconds it lets a question through."""
    return {"breaker": breaker.state, "wait_s": round(breaker.wait_s, 1)}


def only_read(journal: Journal, what: str, home: Path) -> dict[str, str]:
    """Has a journal that lost something only be read; by store, what is wrong with it, and what to do."""
    text = (
        f"{journal.file} is sound, but {what}. Nothing is deleted from the stores, and nothing is remembered or "
        f"forgotten until the journal is made anew from them: stop the server and run fusion repair --home "
        f"{home}; with --dry-run it only says what that would do"
    )
    journal.refuse_writes(text)
    log.error("the journal is only read, nothing is remembered or forgotten: %s", text)
    return {"journal": f"journal: {text}"}
