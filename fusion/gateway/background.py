"""What an open home does by itself: it compares counts, notes sizes and states, follows files and other gateways."""

from __future__ import annotations

import asyncio
import logging
from collections.abc import AsyncIterator, Callable, Coroutine, Sequence
from contextlib import AsyncExitStack, asynccontextmanager, suppress
from dataclasses import dataclass
from datetime import UTC
from functools import partial
from pathlib import Path
from typing import Any

from fusion.errors import FusionError
from fusion.gateway.backend_log import SAMPLE_S, SAVE_EVERY
from fusion.gateway.health import apart_s, status_of
from fusion.gateway.parts import TenantParts
from fusion.gateway.size_log import EVERY_S
from fusion.home import sizes
from fusion.journal.outbox import POLL_S

log = logging.getLogger(__name__)

NOTES_WAIT_S = 1.0
"""maximum seconds at opening for the first scan of the notes, so that the first answer has the latest edits"""

FIRST_LOOK_S = 10.0
"""seconds after opening until counts are compared and sizes noted: in a large home that takes as long as a question"""

FOLLOW_APART_S = 0.05
"""least seconds between two looks at what other gateways announce"""


async def cancelled(task: asyncio.Task[None]) -> None:
    """Cancel a task and wait for its end."""
    task.cancel()
    await asyncio.gather(task, return_exceptions=True)


@dataclass(frozen=True, slots=True, eq=False)
class Background(TenantParts):
    """The background tasks of an open home, for one tenant."""

    @asynccontextmanager
    async def _running_tasks(self) -> AsyncIterator[None]:
        """Run the tasks until the end of the block."""
        async with AsyncExitStack() as stack:

            def start(work: Coroutine[Any, Any, None]) -> None:
                stack.push_async_callback(cancelled, asyncio.create_task(work))

            start(self._compare_regularly())
            stack.push_async_callback(self._save_backends)
            start(self._note_backends_regularly())
            if self.journal.shared:
                start(self._follow_other_gateways())
            start(self._note_sizes_regularly())
            if (sessions := self.session_watcher) is not None:
                run = partial(sessions.run, self.settings.sessions.every_s)
                start(self._watch("sessions", sessions.paths, run))
            if (notes := self.note_watcher) is not None:
                start(self._watch("notes", notes.paths, notes.run))
                with suppress(TimeoutError):
                    async with asyncio.timeout(NOTES_WAIT_S):
                        await notes.first_round_done.wait()
            yield

    async def _compare_regularly(self) -> None:
        """Compare the counts of journal and stores regularly; the first comparison finds losses since the last run."""
        pause_s, time = self.settings.checks.compare_s, asyncio.get_running_loop().time
        await asyncio.sleep(min(pause_s, FIRST_LOOK_S))
        while pause_s > 0:
            began = time()
            await self.health.compare()
            await asyncio.sleep(apart_s(pause_s, time() - began))

    async def _watch(self, what: str, paths: Sequence[Path], run: Callable[[], Coroutine[Any, Any, None]]) -> None:
        """Follow files with ``run``; of the gateways that share the journal and one of these paths, one at a time."""
        if not self.journal.shared:
            await run()
            return
        await self.journal.leases.alone(sorted({f"{what} {path.expanduser().resolve()}" for path in paths}), run)

    async def _follow_other_gateways(self) -> None:
        """Bring in what other gateways announce, and make the deliveries that none of them makes.

        The first look is for what they have left before: it takes as long as the journal is large.
        """
        while True:
            try:
                await self.journal.refresh()
                await self.deliverer.wake_for_unclaimed()
            except Exception as error:  # noqa: BLE001 — the next question looks by itself, and so does this, soon
                log.debug("a change by another gateway waits: %s", type(error).__name__)
                await asyncio.sleep(POLL_S)
                continue
            await asyncio.sleep(FOLLOW_APART_S)
            await self.journal.news()

    async def _note_backends_regularly(self) -> None:
        """Note what each backend's breaker and backlog are, as long as the home is open."""
        while True:
            for _ in range(SAVE_EVERY):
                try:
                    await self.note_backends()
                except Exception as error:  # noqa: BLE001 — a journal that cannot be read now must not end the log
                    log.debug("the backends were not noted: %s", type(error).__name__)
                await asyncio.sleep(SAMPLE_S)
            await self._save_backends()

    async def _save_backends(self) -> None:
        try:
            self.journal.require_reachable()  # nothing is written into another home that took its place
            await self.backend_log.save()
        except (OSError, FusionError) as error:  # a full disk must neither end the log nor the closing of the home
            log.debug("the states of the backends were not saved: %s", type(error).__name__)

    async def _note_sizes_regularly(self) -> None:
        """Note the bytes of the home's parts, as long as it is open."""
        await asyncio.sleep(FIRST_LOOK_S)
        while True:
            try:
                await self.note_sizes()
            except OSError as error:  # a full disk must not end the log
                log.debug("the sizes were not noted: %s", type(error).__name__)
            await asyncio.sleep(EVERY_S)

    async def note_sizes(self) -> None:
        """Note today's bytes of the home's parts. Raises OSError."""
        today = self.live.now().astimezone(UTC).date()
        await asyncio.to_thread(lambda: self.size_log.note(today, sizes(self.settings.home)))

    async def note_backends(self) -> None:
        """Note what each backend's breaker and backlog are now."""
        backlog = await self.deliverer.backlog()
        states = {name: (status_of(one), backlog.get(name, 0)) for name, one in self.guarded.items()}
        self.backend_log.note(self.live.now(), states)
