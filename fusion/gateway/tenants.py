"""The tenants of one home: each has a folder with a journal, receipts and stores of its own.

What is stored, counted, numbered and ranked for one tenant is in its folder alone, so no other tenant can move a score,
a ref or a total of it. A tenant is opened when somebody first asks for it; of those that nobody is asking, only the
latest stay open.
"""

from __future__ import annotations

import asyncio
import hashlib
import json
import logging
from collections import OrderedDict
from collections.abc import AsyncIterator, Callable, Mapping
from contextlib import AbstractAsyncContextManager, AsyncExitStack, asynccontextmanager, suppress
from dataclasses import dataclass, field
from pathlib import Path
from typing import Generic, Protocol, TypeVar

from fusion.contract import Scope
from fusion.errors import StoreDamaged, StoreFull
from fusion.home import TENANTS, tenant_folder
from fusion.journal import Journal, store_watermarks
from fusion.journal.outbox import has_open_deliveries
from fusion.recall.receipt import move_receipts
from fusion.settings import Settings

log = logging.getLogger(__name__)

NAME = "tenant"
"""the file in a tenant's folder that has its name"""
SETTLE_S = 30.0
"""what a tenant's open deliveries get before its stores are closed; the rest follows when it is opened again"""


class Settling(Protocol):
    """What is opened for a tenant."""

    async def settle(self) -> None: ...


H = TypeVar("H", bound=Settling)


@dataclass(slots=True, eq=False)
class _One(Generic[H]):
    opening: asyncio.Task[H]
    stack: AsyncExitStack
    users: int = 0
    """calls that are under way"""
    idle: asyncio.Event = field(default_factory=asyncio.Event)

    @property
    def failed(self) -> bool:
        """Whether it could not be opened."""
        return self.opening.done() and (self.opening.cancelled() or self.opening.exception() is not None)


@dataclass(slots=True, eq=False)
class Tenants(Generic[H]):
    """Opens tenants by ``open`` and keeps at most ``most_open`` of them open while nobody uses them."""

    home: Path
    open: Callable[[str], AbstractAsyncContextManager[H]]
    most_open: int
    refusal: str = ""
    """why a tenant without a journal of its own cannot be opened: the one that may have its memories is damaged"""
    _open: OrderedDict[str, _One[H]] = field(default_factory=OrderedDict)
    _closing: dict[str, asyncio.Task[None]] = field(default_factory=dict)

    @asynccontextmanager
    async def at(self, tenant: str) -> AsyncIterator[H]:
        """The parts of a tenant, open until the end of the block at least. Raises what opening them raises."""
        one = self._open.get(tenant)
        if one is None:
            stack = AsyncExitStack()
            # In a task of its own: who asked first may hang up, and others wait for the same tenant by then.
            one = self._open[tenant] = _One(asyncio.create_task(self._begin(tenant, stack)), stack)
        self._open.move_to_end(tenant)
        one.users += 1
        one.idle.clear()
        try:
            yield await asyncio.shield(one.opening)
        finally:
            one.users -= 1
            if not one.users:
                one.idle.set()
            if one.failed and self._open.get(tenant) is one:
                del self._open[tenant]  # the next call tries again
            self._close_idle()

    async def deliver(self) -> None:
        """Opens each tenant that has deliveries left from before, until they are made."""
        for tenant in await asyncio.to_thread(self._late):
            try:
                async with self.at(tenant) as parts:
                    await parts.settle()
            except Exception as error:  # noqa: BLE001 — one tenant's fault is told when it is asked; others go on
                log.warning("a tenant's deliveries wait: %s", type(error).__name__)

    async def reopen(self) -> None:
        """Closes every tenant that is open, each when its last call ends: the next call opens it anew."""
        for tenant in list(self._open):
            self._begin_closing(tenant, self._open.pop(tenant), 0.0)

    async def close(self) -> None:
        """Closes all, each when its last call ends. What is not delivered then is delivered when it is opened again."""
        await self.reopen()
        await asyncio.gather(*self._closing.values(), return_exceptions=True)

    async def _begin(self, tenant: str, stack: AsyncExitStack) -> H:
        if (closing := self._closing.get(tenant)) is not None:
            await asyncio.wait([closing])
        folder = tenant_folder(self.home, tenant)
        if self.refusal and not (folder / "journal.sqlite").exists():
            raise StoreDamaged(self.refusal)
        try:
            await asyncio.to_thread(_name, folder, tenant)
        except OSError as error:
            if not (folder / "journal.sqlite").exists():
                raise StoreFull(
                    f"{folder} cannot be made ({error.strerror}): make room there, and ask again"
                ) from error
        return await stack.enter_async_context(self.open(tenant))

    def _late(self) -> list[str]:
        """The tenants that have deliveries left."""
        files = sorted((self.home / TENANTS).glob(f"*/{NAME}"))
        late = [file for file in files if has_open_deliveries(file.with_name("journal.sqlite"))]
        return [json.loads(file.read_text(encoding="utf-8")) for file in late]

    def _close_idle(self) -> None:
        idle = [tenant for tenant, one in self._open.items() if not one.users]
        for tenant in idle[: max(0, len(self._open) - self.most_open)]:
            self._begin_closing(tenant, self._open.pop(tenant), SETTLE_S)

    def _begin_closing(self, tenant: str, one: _One[H], settle_s: float) -> None:
        before = self._closing.get(tenant)
        task = self._closing[tenant] = asyncio.create_task(_close(one, before, settle_s), name="close a tenant")

        def forget(done: asyncio.Task[None]) -> None:
            if self._closing.get(tenant) is done:
                del self._closing[tenant]

        task.add_done_callback(forget)


async def _close(one: _One[H], before: asyncio.Task[None] | None, settle_s: float) -> None:
    """Closes what was opened, once nobody uses it; its open deliveries get ``settle_s`` first."""
    if before is not None:
        await asyncio.wait([before])
    try:
        parts = await one.opening
    except Exception:  # noqa: BLE001 — the callers who waited for it have the reason
        return
    await one.idle.wait()
    try:
        async with asyncio.timeout(settle_s):
            await parts.settle()
    except Exception as error:  # noqa: BLE001 — what is left is delivered when it is opened again
        log.info("a tenant is closed with deliveries left: %s", type(error).__name__)
    await one.stack.aclose()


def _name(folder: Path, tenant: str) -> None:
    """Makes a tenant's folder, with its name in it."""
    folder.mkdir(mode=0o700, parents=True, exist_ok=True)
    if not (file := folder / NAME).exists():
        file.write_text(json.dumps(tenant), encoding="utf-8")


async def move_tenants(journal: Journal, home: Path, places: Mapping[str, Path]) -> None:
    """Gives each tenant of a home from before they were kept apart a journal of its own, with its receipts.

    ``places`` have marks of the journal, which are removed first: it holds fewer events afterwards.
    """
    tenants = await journal.other_tenants(Scope().tenant)
    if tenants:
        await asyncio.to_thread(store_watermarks.remove_marks, places)
    for tenant in tenants:
        folder = tenant_folder(home, tenant)
        await asyncio.to_thread(_name, folder, tenant)
        await asyncio.to_thread(move_receipts, home / "receipts.sqlite", tenant, folder / "receipts.sqlite")
        if not await journal.move_tenant(tenant, folder / "journal.sqlite"):
            log.error("%s has not all that the home's journal has of its tenant, which stays there", folder)


def moved(settings: Settings, folder: Path) -> tuple[list[str], Callable[[], None]]:
    """The backends of a tenant whose settings are not those of its last start: they may store elsewhere by now, so
    they get every memory again. With what notes that this was done."""
    file = folder / "opened.json"
    now = {name: _digest([chosen.adapter, chosen.options]) for name, chosen in settings.backends.items()}
    try:
        before = json.loads(file.read_text(encoding="utf-8"))
    except (OSError, ValueError):
        before = {}

    def note() -> None:
        if before != now:
            with suppress(OSError):  # on a full disk it is done once more at the next start
                file.write_text(json.dumps(now, indent=1), encoding="utf-8")

    return [name for name, digest in now.items() if before.get(name) != digest], note


def _digest(value: object) -> str:
    return hashlib.sha256(json.dumps(value, sort_keys=True, default=str).encode()).hexdigest()
