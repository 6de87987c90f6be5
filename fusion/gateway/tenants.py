"""The tenants of one home: each has a folder with a journal, receipts and stores of its own.

All that is stored, counted, numbered and ranked for a tenant is in its own folder, so no other tenant can affect its
scores, refs or totals. A tenant is opened by the first call for it; of the tenants without a call under way, only the
most recently used stay open.
"""

from __future__ import annotations

import asyncio
import hashlib
import json
import logging
from collections import OrderedDict
from collections.abc import AsyncIterator, Callable, Mapping, Sequence
from contextlib import AbstractAsyncContextManager, AsyncExitStack, asynccontextmanager, suppress
from contextvars import Context
from dataclasses import dataclass, field
from pathlib import Path
from typing import TYPE_CHECKING, Generic, Protocol, TypeVar

from fusion.contract import Scope
from fusion.errors import FusionError, StoreDamaged, StoreFull
from fusion.home import TENANTS, tenant_folder
from fusion.journal import Journal, split_tenants, store_watermarks
from fusion.journal.outbox import has_left, has_open_deliveries
from fusion.recall.receipt_store import move_receipts
from fusion.settings import Settings

if TYPE_CHECKING:
    from fusion.store.postgres import Server

log = logging.getLogger(__name__)

NAME = "tenant"
"""file in a tenant's folder with the tenant's name"""
OPENED = "opened.json"
"""file in a tenant's folder with a digest of each backend's settings at the last start"""
SETTLE_S = 30.0
"""seconds for open deliveries before a tenant's stores are closed; the rest is delivered at the next opening"""

AGAIN_S = 60.0
"""seconds between two looks for what other gateways have left"""
MOST_PAUSES = 64
"""the most looks that pass until a tenant is opened again whose deliveries are left, as its backend is away"""


class SupportsSettle(Protocol):
    """The opened parts of a tenant, as far as `Tenants` uses them."""

    async def settle(self) -> None: ...


T = TypeVar("T", bound=SupportsSettle)


@dataclass(slots=True, eq=False)
class _OpenTenant(Generic[T]):
    """A tenant that is open or being opened."""

    opening: asyncio.Task[T]
    stack: AsyncExitStack
    calls: int = 0
    """calls under way"""
    idle: asyncio.Event = field(default_factory=asyncio.Event)

    @property
    def failed(self) -> bool:
        """Whether opening it failed."""
        return self.opening.done() and (self.opening.cancelled() or self.opening.exception() is not None)


@dataclass(slots=True, eq=False)
class Tenants(Generic[T]):
    """Opens tenants with ``open`` and closes the least recently used while more than ``most_open`` are open.

    A tenant with a call under way stays open.
    """

    home: Path
    open: Callable[[str], AbstractAsyncContextManager[T]]
    most_open: int
    server: Server | None = None
    """the database of the journals; None if they are in the folders"""
    refusal: str = ""
    """why a tenant without its own journal cannot be opened: the home's journal, which may have its memories, is
    damaged"""
    _open: OrderedDict[str, _OpenTenant[T]] = field(default_factory=OrderedDict)
    _closing: dict[str, asyncio.Task[None]] = field(default_factory=dict)

    @asynccontextmanager
    async def at(self, tenant: str) -> AsyncIterator[T]:
        """The parts of a tenant, open at least until the end of the block. Raises the errors of ``open``."""
        one = self._open.get(tenant)
        if one is None:
            stack = AsyncExitStack()
            # A separate task: the first caller may be cancelled while others wait for the same tenant.
            # It has a context of its own as well: its tasks go on after the first caller's lease has ended.
            opening = asyncio.create_task(self._open_tenant(tenant, stack), context=Context())
            one = self._open[tenant] = _OpenTenant(opening, stack)
        self._open.move_to_end(tenant)
        one.calls += 1
        one.idle.clear()
        try:
            yield await asyncio.shield(one.opening)
        finally:
            one.calls -= 1
            if not one.calls:
                one.idle.set()
            if one.failed and self._open.get(tenant) is one:
                del self._open[tenant]  # the next call tries again
            self._close_idle()

    async def deliver(self) -> None:
        """Open each tenant that has deliveries left from an earlier run, until they are made.

        Where gateways share the journals, this goes on: one of them may die. It opens a tenant that had some at two
        looks, since a gateway that lives is about to make those of the first; and after ever longer pauses, as long as
        some are left.
        """
        left = await asyncio.to_thread(self._with_open_deliveries)
        await self._settle(left)
        pauses: dict[str, tuple[int, int]] = {}  # by tenant, how many looks pass, and how many of these are to come
        while self.server is not None:
            await asyncio.sleep(AGAIN_S)
            before, left = left, await asyncio.to_thread(self._with_open_deliveries)
            pauses = {tenant: pauses.get(tenant, (0, 0)) for tenant in left if tenant in before}
            due = [tenant for tenant, (_, to_come) in pauses.items() if not to_come]
            pauses = {tenant: (length, max(to_come - 1, 0)) for tenant, (length, to_come) in pauses.items()}
            for tenant in due:
                length = min(2 * pauses[tenant][0] or 1, MOST_PAUSES)
                pauses[tenant] = length, length
            await self._settle(due, SETTLE_S)

    async def _settle(self, tenants: Sequence[str], limit_s: float | None = None) -> None:
        for tenant in tenants:
            if tenant in self._open:
                continue  # it makes its own
            try:
                async with self.at(tenant) as parts, asyncio.timeout(limit_s):
                    await parts.settle()
            except Exception as error:  # noqa: BLE001 — the tenant's next call reports the fault; the others continue
                log.warning("a tenant's deliveries wait: %s", type(error).__name__)

    async def reopen(self) -> None:
        """Close every open tenant after its last call; the next call opens it again."""
        for tenant in list(self._open):
            self._begin_closing(tenant, self._open.pop(tenant), 0.0)

    async def close(self) -> None:
        """Close all tenants, each after its last call. Open deliveries are made when the tenant is opened again."""
        await self.reopen()
        await asyncio.gather(*self._closing.values(), return_exceptions=True)

    async def _open_tenant(self, tenant: str, stack: AsyncExitStack) -> T:
        if (closing := self._closing.get(tenant)) is not None:
            await asyncio.wait([closing])
        folder = tenant_folder(self.home, tenant)
        if self.refusal and not (folder / "journal.sqlite").exists():
            raise StoreDamaged(self.refusal)
        try:
            await asyncio.to_thread(write_name, folder, tenant)
        except OSError as error:
            if not (folder / "journal.sqlite").exists():
                raise StoreFull(
                    f"{folder} cannot be made ({error.strerror}): make room there, and ask again"
                ) from error
        return await stack.enter_async_context(self.open(tenant))

    async def names(self) -> list[str]:
        """Every tenant that has a folder, or a schema in the database, open or not."""
        return await asyncio.to_thread(self._names)

    def _names(self) -> list[str]:
        if self.server is not None:
            return [name for name in self.server.tenants() if name != Scope().tenant]
        return [json.loads(file.read_text(encoding="utf-8")) for file in self._files()]

    def _files(self) -> list[Path]:
        return sorted((self.home / TENANTS).glob(f"*/{NAME}"))

    def _with_open_deliveries(self) -> list[str]:
        if self.server is not None:
            return self._left_on(self.server)
        waiting = [file for file in self._files() if has_open_deliveries(file.with_name("journal.sqlite"))]
        return [json.loads(file.read_text(encoding="utf-8")) for file in waiting]

    def _left_on(self, server: Server) -> list[str]:
        left = []
        with suppress(FusionError):  # it is away: the next look finds them
            for tenant in self._names():
                try:
                    if server.run(tenant, has_left):
                        left.append(tenant)
                except Exception as error:  # noqa: BLE001 — its schema may be gone or be moved; the others continue
                    log.debug("a tenant's deliveries could not be read: %s", type(error).__name__)
        return left

    def _close_idle(self) -> None:
        idle = [tenant for tenant, one in self._open.items() if not one.calls]
        for tenant in idle[: max(0, len(self._open) - self.most_open)]:
            self._begin_closing(tenant, self._open.pop(tenant), SETTLE_S)

    def _begin_closing(self, tenant: str, one: _OpenTenant[T], settle_s: float) -> None:
        before = self._closing.get(tenant)
        task = self._closing[tenant] = asyncio.create_task(_close(one, before, settle_s), name="close a tenant")

        def forget(done: asyncio.Task[None]) -> None:
            if self._closing.get(tenant) is done:
                del self._closing[tenant]

        task.add_done_callback(forget)


async def _close(one: _OpenTenant[T], before: asyncio.Task[None] | None, settle_s: float) -> None:
    """Close a tenant after its last call; its open deliveries get ``settle_s`` seconds first.

    ``before`` is an earlier closing of the same tenant, which is waited for.
    """
    if before is not None:
        await asyncio.wait([before])
    try:
        parts = await one.opening
    except Exception:  # noqa: BLE001 — the callers that waited for it have the error
        return
    await one.idle.wait()
    try:
        async with asyncio.timeout(settle_s):
            await parts.settle()
    except Exception as error:  # noqa: BLE001 — the rest is delivered when it is opened again
        log.info("a tenant is closed with deliveries left: %s", type(error).__name__)
    await one.stack.aclose()


def write_name(folder: Path, tenant: str) -> None:
    """Make a tenant's folder, with its name in it."""
    folder.mkdir(mode=0o700, parents=True, exist_ok=True)
    if not (file := folder / NAME).exists():
        file.write_text(json.dumps(tenant), encoding="utf-8")


async def move_tenants(journal: Journal, home: Path, places: Mapping[str, Path]) -> None:
    """Give each tenant of a home from an early version, which had one journal for all, its own journal and receipts.

    ``places`` are the folders with marks of the journal. The marks are removed first, since the journal has fewer
    events afterwards.
    """
    tenants = await journal.read(split_tenants.others, Scope().tenant)
    if tenants:
        await asyncio.to_thread(store_watermarks.remove_marks, places)
    for tenant in tenants:
        folder = tenant_folder(home, tenant)
        await asyncio.to_thread(write_name, folder, tenant)
        await asyncio.to_thread(move_receipts, home / "receipts.sqlite", tenant, folder / "receipts.sqlite")
        if not await journal.move_tenant(tenant, folder / "journal.sqlite"):
            log.error("%s has not all that the home's journal has of its tenant, which stays there", folder)


def changed_backends(settings: Settings) -> list[str]:
    """The backends of a tenant whose settings differ from those of its last start.

    Such a backend may store its memories elsewhere now, so it must get every memory again.
    """
    before = _last_opened(settings)
    return [name for name, digest in _digests(settings).items() if before.get(name) != digest]


def write_opened(settings: Settings) -> None:
    """Record the settings of a tenant's backends for `changed_backends` at the next start."""
    now = _digests(settings)
    if _last_opened(settings) != now:
        with suppress(OSError):  # on a full disk the next start repeats the deliveries
            (settings.home / OPENED).write_text(json.dumps(now, indent=1), encoding="utf-8")


def _last_opened(settings: Settings) -> dict[str, str]:
    try:
        last: dict[str, str] = json.loads((settings.home / OPENED).read_text(encoding="utf-8"))
    except (OSError, ValueError):
        return {}
    return last


def _digests(settings: Settings) -> dict[str, str]:
    return {name: _digest([chosen.adapter, chosen.options]) for name, chosen in settings.backends.items()}


def _digest(value: object) -> str:
    return hashlib.sha256(json.dumps(value, sort_keys=True, default=str).encode()).hexdigest()
