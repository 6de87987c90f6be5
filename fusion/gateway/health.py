"""The state of an open home's stores: availability, missing vectors, damage, losses, and leaks between scopes."""

from __future__ import annotations

import asyncio
import logging
import time
from collections import Counter
from collections.abc import Awaitable, Callable, Mapping
from pathlib import Path
from typing import Any

from fusion import wire
from fusion.contract import Checks, CountsEvents, Describes, Description
from fusion.errors import FusionError
from fusion.gateway.import_class import why
from fusion.gateway.losses import Losses
from fusion.ingest.deliver import Deliverer
from fusion.journal import Journal
from fusion.lib.breaker import Breaker
from fusion.recall.gather import GuardedBackend
from fusion.settings import Settings

log = logging.getLogger(__name__)
security = logging.getLogger("fusion.security")
"""log for security incidents: a memory system that returns one user's memories to another"""

MAX_AGE_S = 1.0
"""maximum age in seconds of the backends' state that an answer reports, while looking takes 20 ms or less"""
REST = 50
"""a look is as old as this many of its own durations before the next one: looking takes 2 % of the time at most"""
LEAST_OFTEN = 10
"""pauses that one between two comparisons of counts may be as long as"""
LONGEST_AGE_S = 60.0


class Health:
    """The state of one home's stores. ``damaged`` has, by store, the faults found at opening."""

    def __init__(
        self,
        settings: Settings,
        backends: Mapping[str, GuardedBackend],
        journal: Journal,
        deliverer: Deliverer,
        damaged: Mapping[str, str],
        now: Callable[[], float] = time.monotonic,
    ) -> None:
        """``now`` is a clock in seconds."""
        self._settings = settings
        self._guarded = backends
        self._journal = journal
        self._deliverer = deliverer
        usable = {name: guarded.backend for name, guarded in backends.items() if guarded.disabled is None}
        self._describing = {name: backend for name, backend in usable.items() if isinstance(backend, Describes)}
        """found once, since the check of a protocol is slow"""
        self._checking = {name: backend for name, backend in usable.items() if isinstance(backend, Checks)}
        self._opened = now()
        self._now = now
        self._age_s = MAX_AGE_S
        """seconds for which a look counts"""
        self._looked_at = -MAX_AGE_S
        self.has_looked = False
        """whether the backends have been asked for their state at all"""
        self._vectors_pending = 0
        self.items: int | None = None
        """total of the memories in all backends at the last look; None if a backend does not report it"""
        self._failing: Mapping[str, str] = {}
        """by backend, the fault that it reported at the last look"""
        self._leaked: Counter[str] = Counter()
        self.judged: Counter[str] = Counter()
        """answers since the start by what became of the judge: ok, not_needed (the gate was closed), timeout, …"""
        self.silent: Counter[str] = Counter()
        """empty answers since the start because a prompt did not want memory, by the reason"""
        self.damaged = dict(damaged)
        """by store, the damage that the last check could not repair"""
        counting = {name: backend for name, backend in usable.items() if isinstance(backend, CountsEvents)}
        folders = {name: settings.home / "backends" / name for name in counting}
        servers = {name for name in counting if not usable[name].features.embedded}
        self.losses = Losses(journal, {} if damaged else counting, folders, servers, deliverer.wake)

    @property
    def uptime_s(self) -> float:
        return round(self._now() - self._opened, 1)

    @property
    def degraded(self) -> bool:
        """Whether a store is damaged, has lost memories, or reported a fault at the last look."""
        return bool(self._failing or self.damaged or self.losses.found)

    @property
    def failing(self) -> tuple[str, ...]:
        """The faults that backends reported at the last look, without those of damaged stores."""
        return tuple(text for name, text in self._failing.items() if name not in self.damaged)

    @property
    def broken(self) -> tuple[str, ...]:
        """Descriptions of damage and losses, each with its fix."""
        return (*self.damaged.values(), *self.losses.found.values())

    def coverage(self, found: Mapping[str, Any]) -> Mapping[str, Any]:
        """An answer's coverage, with the number of missing vectors at the last look."""
        return {**found, "vectors_pending": self._vectors_pending} if self._describing else found

    def is_due(self) -> bool:
        """Whether the state is older than it may be; if so, the caller must call `look`."""
        now = self._now()
        if not self._describing or now - self._looked_at < self._age_s:
            return False
        self._looked_at = now
        return True

    async def look(self) -> None:
        """Ask every backend for its state."""
        began = self._now()
        states = await self.backends()
        sound = not any(state["degraded"] or (state["detail"] and state["status"] != "disabled") for state in states)
        self._age_s = lasts_s(self._now() - began, sound=sound)
        self._vectors_pending = sum(state["vectors_pending"] for state in states)
        self.has_looked = True
        incomplete = any(s.disabled is None and s.name not in self._describing for s in self._guarded.values())
        self.items = None if incomplete else sum(state["items"] for state in states)
        # Damage is reported separately, until a check finds none.
        failing = [state for state in states if state["degraded"] and state["name"] not in self.damaged]
        self._failing = {
            s["name"]: f"{s['name']}: {'; '.join(s['notes']) or s['detail'] or 'it says no more'}" for s in failing
        }

    async def backends(self) -> list[wire.BackendState]:
        """The state of every configured backend."""
        backlog = await self._deliverer.backlog()
        return list(await asyncio.gather(*(self._state(s, backlog.get(s.name, 0)) for s in self._guarded.values())))

    async def _state(self, guarded: GuardedBackend, backlog: int) -> wire.BackendState:
        adapter = self._settings.backends[guarded.name].adapter
        described = Description()
        detail = guarded.disabled or self._deliverer.faults.get(guarded.name, "")
        if guarded.name in self._describing:
            try:
                async with asyncio.timeout(guarded.deadline_s):
                    described = await self._describing[guarded.name].describe()
            except Exception as error:  # noqa: BLE001 — the fault is shown for this backend only
                detail = f"{type(error).__name__}: {error}"
        return {
            "name": guarded.name,
            "adapter": adapter,
            "status": status_of(guarded),
            "detail": detail,
            "items": described.items,
            "vectors": described.vectors,
            "vectors_pending": described.vectors_pending,
            "backlog": backlog,
            "leaked": self._leaked[guarded.name],
            "notes": list(described.notes),
            "degraded": described.degraded or guarded.name in self.damaged or guarded.name in self.losses.found,
        }

    async def check(self) -> Mapping[str, str]:
        """Look for damage in the journal and in every backend that can check itself; returns the faults by store.

        Derived data is repaired; other damage is kept in `damaged`, and answers are degraded.
        """
        looks: dict[str, Callable[[], Awaitable[str | None]]] = {"journal": self._journal.check}
        looks.update({name: backend.check for name, backend in self._checking.items()})
        found = dict(await self.compare())
        for name, look in looks.items():  # one after the other, since nothing waits for it and the disk is shared
            try:
                fault = await look()
            except Exception as error:  # noqa: BLE001 — a fault of one store must not end the check
                fault = self.damaged[name] = f"{name}: {why(error)}"
                log.error("%s is damaged: %s", name, why(error))
            else:  # not earlier: the known damage applies until the check is done
                self.damaged.pop(name, None)
            if fault is not None:
                found[name] = fault
        return found

    async def compare(self) -> Mapping[str, str]:
        """Compare the numbers of events in journal and stores with the last counts; returns the losses by store.

        The stores count in their own threads, or have kept count. A journal that lost events becomes read-only.
        """
        try:
            deleted = 0 if self.damaged else await self._journal.deleted_externally()
        except FusionError as error:  # another check reports the fault
            log.debug("the journal could not be counted: %s", type(error).__name__)
            deleted = 0
        if deleted > 0:
            events = "an event" if deleted == 1 else f"{deleted} events"
            self.damaged |= only_read(self._journal, f"another program deleted {events} from it", self._settings.home)
        lost = await self.losses.compare()
        return {"journal": self.damaged["journal"], **lost} if deleted > 0 else lost

    def count_leaks(self, backend: str, refused: Mapping[str, int]) -> None:
        """Count and log the hits of an answer that were refused because they are out of scope."""
        if leaked := refused.get("scope", 0):
            self._leaked[backend] += leaked
            security.warning(
                "backend %s answered with %d memories of another scope; they were dropped (%d so far)",
                backend,
                leaked,
                self._leaked[backend],
            )


def lasts_s(took_s: float, *, sound: bool) -> float:
    """Seconds for which a look at the stores counts that took ``took_s``.

    If not all stores answered that they are ``sound``, the next look is soon: it may be over.
    """
    return min(LONGEST_AGE_S, max(MAX_AGE_S, REST * took_s)) if sound else MAX_AGE_S


def apart_s(pause_s: float, took_s: float) -> float:
    """Seconds from a comparison of counts that took ``took_s`` to the next one, which is wanted after ``pause_s``.

    In a large home comparing takes seconds, so it is done less often there, down to a tenth.
    """
    return min(LEAST_OFTEN * pause_s, max(pause_s, REST * took_s))


def status_of(guarded: GuardedBackend) -> str:
    """A backend's status, as in `wire.BackendState`."""
    if guarded.disabled is not None:
        return "disabled"
    breaker = guarded.breaker
    if breaker.healthy:
        return "ready"
    return breaker.reason if breaker.state == "open" else breaker.state


def breaker_of(breaker: Breaker) -> dict[str, Any]:
    """A breaker's state for `/v1/status`, and the seconds until it lets a question through."""
    return {"breaker": breaker.state, "wait_s": round(breaker.wait_s, 1)}


def only_read(journal: Journal, what: str, home: Path | None = None) -> dict[str, str]:
    """Make a journal that lost events read-only; returns, by store, the fault and its fix.

    One in a ``home`` can be rebuilt, one in a database has to be restored.
    """
    until = (
        "the former database is named in [database] url, or restored from its backup"
        if home is None
        else f"the journal is rebuilt from them: stop the server and run fusion repair --home {home}; with --dry-run "
        "it only says what that would do"
    )
    text = (
        f"{journal.place} is intact, but {what}. Nothing is deleted from the stores, and nothing is remembered or "
        f"forgotten until {until}"
    )
    journal.refuse_writes(text)
    log.error("the journal is only read, nothing is remembered or forgotten: %s", text)
    return {"journal": f"journal: {text}"}
