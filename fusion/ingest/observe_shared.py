"""The entry of the ledger of observations in a journal that several gateways share: it has no log of lines.

A log would be in the home of one gateway. Another one could not read on in it, nor blank a line that is forgotten. So
acknowledged means here that the database has the observation.
"""

from __future__ import annotations

import asyncio
import logging
from collections.abc import Sequence
from contextlib import suppress
from dataclasses import asdict
from datetime import datetime, timedelta
from functools import partial
from itertools import repeat

import orjson

from fusion.errors import FusionError, StoreDamaged
from fusion.ingest.harvest import Batch, Harvested
from fusion.ingest.observe import (
    OWN,
    KeptObservation,
    ObservationIntake,
    ReplayedObservations,
    by_key,
    replies_to,
)
from fusion.journal import idempotency, observations
from fusion.lib.observation import Observation, Observed, line_of
from fusion.lib.observation_lines import BLANK, own_observation
from fusion.store.database import Connection, Row
from fusion.store.segments import Place, SegmentLog

log = logging.getLogger(__name__)

NOWHERE = ""
"""the pointer of an observation that has no line"""


class SharedObservationIntake(ObservationIntake):
    """Stores the observations of one tenant in the database.

    A home may have a log from before its journal was shared. It is read once in the background, and before
    observations are forgotten; then it is put aside. What is past its days is not taken in.
    """

    _reading: asyncio.Task[None] | None = None

    async def log(self) -> SegmentLog:
        """The log of before."""
        async with self._opening:
            if self._opened is None:
                self._opened = await asyncio.to_thread(SegmentLog.open, self.folder)
            return self._opened

    def start(self) -> None:
        """Begin to read the log of before."""
        self._reading = asyncio.create_task(self._read_all())

    async def close(self) -> None:
        if self._reading is not None:
            self._reading.cancel()
            with suppress(asyncio.CancelledError):
                await self._reading

    async def _read_all(self) -> None:
        try:
            await self.harvest()
        except (FusionError, OSError) as error:
            log.warning("the log of observations in %s waits for the job episodes: %s", self.folder, error)

    async def catch_up(self) -> None:
        """Nothing: what was acknowledged is in the database."""

    async def write_line(self, row: Row, changed: Observation) -> None:
        """Nothing: an observation has no line."""

    async def blank(self, rows: Sequence[Row]) -> None:
        """Nothing: observations have no lines."""
        self.require_writable()

    async def _append(self, prepared: Sequence[Observed], guard: idempotency.Guard | None) -> Sequence[KeptObservation]:
        batch = await asyncio.to_thread(self._batch_of, list(by_key(prepared).values()))
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

    def _batch_of(self, new: Sequence[Observation]) -> Batch:
        """The observations as a harvest would read and grade them."""
        batch = self.batch()
        for one in new:
            batch.take(NOWHERE, line_of(one), partial(own_observation, tenant=self._tenant))
        if batch.letters:
            raise StoreDamaged(f"an observation cannot be written as a line: {batch.letters[0].reason}")
        return batch

    async def _write(self, new: Sequence[Observation]) -> list[str]:
        return [*repeat(NOWHERE, len(new))]

    # The log of before

    async def _harvest_batch(self) -> Harvested:
        opened = await self.log()
        if self._next is None:
            self._next = Place(1, 1)
        if self._refusal or self._next >= (end := opened.end):
            return Harvested()
        batch, following = await asyncio.to_thread(self._read, opened, self._next)
        now = self._clock()
        await asyncio.to_thread(self.dead_letters.add, batch.letters, now)
        found = [one for one in batch.found if not self._is_past(one.observation, now)]
        entered = await self._journal.write(observations.add, [one._replace(pointer=NOWHERE) for one in found], now)
        rows = await self._journal.read(observations.rows_of, [entry.seq for entry in entered])
        kept = {
            one.pointer
            for one, entry in zip(found, entered, strict=True)
            if entry.seq in rows and rows[entry.seq]["redacted"] <= one.observation.redacted
        }
        # What another gateway forgot, redacted or deleted as too old is still in this home's log.
        gone = [Place.of(one.pointer) for one in batch.found if one.pointer not in kept]
        await asyncio.to_thread(opened.rewrite, dict.fromkeys(gone, BLANK))
        self._next = following if batch.read else end
        if self._next >= end:
            await self._journal.write(observations.without_log, OWN)
            await asyncio.to_thread(self._put_aside)
        return batch.counted(entered)

    def _is_past(self, one: Observation, now: datetime) -> bool:
        kept = self._kept_days.get(one.type)
        return kept is not None and one.ts < now - timedelta(days=kept)

    def _put_aside(self) -> None:
        """Move the log of before. The dead letters stay, as they are still to be looked at."""
        aside = self.folder.with_name(f"{self.folder.name}.moved-{self._clock():%Y%m%dT%H%M%S}")
        files = [*self.folder.glob("index.json"), *self.folder.glob("segment-*")]  # an index can be made again
        if not files:
            return
        try:
            aside.mkdir(mode=0o700, exist_ok=True)
            for file in files:
                file.rename(aside / file.name)
        except OSError as error:
            log.warning("the log in %s cannot be put aside (%s); the next start reads it again", self.folder, error)
            return
        log.warning(
            "the database has the observations of this home's log now, which is kept as %s; delete it when you no "
            "longer want it, as it has what is forgotten later, too",
            aside,
        )
