"""The entry of the ledger of observations in a journal that several gateways share: it has no log of lines.

A log would be in the home of one gateway. Another one could not read on in it, nor blank a line that is forgotten. So
acknowledged means here that the database has the observation.
"""

from __future__ import annotations

import asyncio
import logging
from collections.abc import Sequence
from dataclasses import asdict
from functools import partial
from itertools import repeat

import orjson

from fusion.ingest.harvest import Harvested
from fusion.ingest.observe import (
    DEAD_LETTERS,
    KeptObservation,
    ObservationIntake,
    ReplayedObservations,
    by_key,
    replies_to,
)
from fusion.journal import idempotency, observations
from fusion.lib.observation import Observation, Observed, line_of
from fusion.lib.observation_lines import own_observation
from fusion.store.database import Connection, Row
from fusion.store.segments import Place, SegmentLog

log = logging.getLogger(__name__)

NOWHERE = ""
"""the pointer of an observation that has no line"""


class SharedObservationIntake(ObservationIntake):
    """Stores the observations of one tenant in the database.

    A home may have a log from before its journal was shared. A harvest reads all of it once, and puts it aside.
    """

    async def log(self) -> SegmentLog:
        """The log of before."""
        async with self._opening:
            if self._opened is None:
                self._opened = await asyncio.to_thread(SegmentLog.open, self.folder)
            return self._opened

    async def write_line(self, row: Row, changed: Observation) -> None:
        """Nothing: an observation has no line."""

    async def blank(self, rows: Sequence[Row]) -> None:
        """Nothing: observations have no lines."""
        self.require_writable()

    async def _append(self, prepared: Sequence[Observed], guard: idempotency.Guard | None) -> Sequence[KeptObservation]:
        batch = self.batch()
        for one in by_key(prepared).values():
            batch.take(NOWHERE, line_of(one), partial(own_observation, tenant=self._tenant))
        now = self._clock()

        def stored(db: Connection) -> Sequence[KeptObservation]:
            # Another gateway may have answered the same request since it was looked up.
            if guard is not None and (before := idempotency.replayed(db, guard)) is not None:
                return ReplayedObservations(KeptObservation(**one) for one in orjson.loads(before))
            entered = observations.add(db, batch.found, now)
            known = {one.observation.key: entry for one, entry in zip(batch.found, entered, strict=True)}
            new = {key: NOWHERE for key, entry in known.items() if entry.status == "stored"}
            replies = replies_to(prepared, known, new)
            if guard is not None:
                idempotency.keep(db, guard, [asdict(one) for one in replies], int(now.timestamp()))
            return replies

        return await self._journal.write(stored)

    async def _write(self, new: Sequence[Observation]) -> list[str]:
        return [*repeat(NOWHERE, len(new))]

    async def _harvest_batch(self) -> Harvested:
        opened = await self.log()
        if self._next is None:
            self._next = Place(1, 1)
        if self._next >= opened.end:
            return Harvested()
        batch, following = await asyncio.to_thread(self._read, opened, self._next)
        now = self._clock()
        await asyncio.to_thread(self.dead_letters.add, batch.letters, now)
        found = [one._replace(pointer=NOWHERE) for one in batch.found]
        entered = await self._journal.write(observations.add, found, now)
        self._next = following
        if following >= opened.end:
            await asyncio.to_thread(self._put_aside)
        return batch.counted(entered)

    def _put_aside(self) -> None:
        """Give the log of before another name. Its dead letters stay, as they are still to be looked at."""
        aside = self.folder.with_name(f"{self.folder.name}.moved-{self._clock():%Y%m%dT%H%M%S}")
        self.folder.rename(aside)
        if (letters := aside / DEAD_LETTERS).exists():
            self.folder.mkdir(mode=0o700)
            letters.replace(self.folder / DEAD_LETTERS)
        log.warning(
            "the database has the observations of this home's log now, which is kept as %s; delete it when you no "
            "longer want it, as it has what is forgotten later, too",
            aside,
        )
