"""The entry of the ledger of observations: each is a line of a log first, and then harvested into the journal.

A journal that several gateways share has no such log (`fusion.ingest.observe_shared`).

Acknowledged means that the line is on the disk. The ledger is filled right after that; if it cannot be, the line waits
for the next harvest. So neither a broken record nor a broken scorer nor a busy journal loses an observation.
"""

from __future__ import annotations

import asyncio
import logging
from collections.abc import Mapping, Sequence
from dataclasses import asdict, dataclass, replace
from functools import partial
from hashlib import blake2b, sha256
from itertools import islice
from pathlib import Path
from typing import Any, Literal, ParamSpec, TypeVar

import orjson

from fusion.contract import Scope
from fusion.errors import BadInput, FusionError, StoreDamaged
from fusion.ingest.harvest import BATCH, Batch, Harvested, Scorer
from fusion.journal import Journal, idempotency, observations
from fusion.journal.observations import Entered, Graded, Restored
from fusion.lib.clock import Clock
from fusion.lib.ids import EPISODE, UuidSource
from fusion.lib.observation import EpisodeType, NewObservation, Observation, Observed, line_of, observed
from fusion.lib.observation_lines import BLANK, own_observation
from fusion.lib.redact import redact
from fusion.store.database import Row
from fusion.store.dead_letters import DeadLetters
from fusion.store.segments import CutSegment, Place, SegmentLog

log = logging.getLogger(__name__)

P = ParamSpec("P")
T = TypeVar("T")

FOLDER = "observations"
"""the folder of a tenant's home with the log of its observations"""
DEAD_LETTERS = "dead-letters.jsonl"
INLINE = 4 * BATCH
"""lines that are harvested before an append returns; what is behind them waits for the job"""
OWN = "log"
"""the source of the log's own lines among those that were harvested"""
SCOPE_REQUIRED = "say whose it is: user_id, agent_id, session_id or project"

Status = Literal["stored", "duplicate", "blocked", "skipped"]


@dataclass(frozen=True, slots=True)
class KeptObservation:
    """The reply for one observation. ``ref`` is empty until it is in the ledger, or if it is not kept.

    ``skipped``: nothing was left to store. ``blocked``: it was forgotten before. ``redacted`` counts masked secrets.
    """

    ref: str
    event_id: str
    status: Status
    pointer: str = ""
    redacted: int = 0
    truncated: bool = False
    reason: str = ""


class ReplayedObservations(list[KeptObservation]):
    """The reply to the first request of an Idempotency-Key, repeated: this request stored nothing."""


class ObservationIntake:
    """Stores and harvests the observations of one tenant.

    ``home`` is the tenant's folder. ``score`` grades what has no importance. ``refusal`` says why nothing may be
    stored; it is empty if it may. ``kept_days`` has, by type, how long observations are kept; others are for ever.
    """

    def __init__(
        self,
        journal: Journal,
        tenant: str,
        home: Path,
        clock: Clock,
        ids: UuidSource,
        score: Scorer | None = None,
        refusal: str = "",
        kept_days: Mapping[EpisodeType, float] | None = None,
    ) -> None:
        self.folder = home / FOLDER
        self.dead_letters = DeadLetters(self.folder / DEAD_LETTERS)
        self._journal, self._tenant, self._clock, self._ids = journal, tenant, clock, ids
        self._score, self._refusal, self._kept_days = score, refusal, kept_days or {}
        self._opened: SegmentLog | None = None
        self._next: Place | None = None
        self._appending = asyncio.Lock()
        self._harvesting = asyncio.Lock()
        self._opening = asyncio.Lock()

    async def log(self) -> SegmentLog:
        """The log of the observations, opened with its first use.

        If it was cut behind what is in the ledger already, the places of these lines are held: the next observation
        would get one of their pointers, and would not be harvested.
        """
        async with self._opening:
            if self._opened is None:
                opened = await asyncio.to_thread(SegmentLog.open, self.folder)
                stored = None if self._refusal else await self._journal.read(observations.bookmark_of, OWN)
                if stored is not None and (lost := await asyncio.to_thread(opened.fill, Place.of(stored))):
                    log.warning("%d lines are missing at the end of the log in %s", lost, self.folder)
                self._opened = opened
            return self._opened

    async def append(
        self, items: Sequence[NewObservation], *, idempotency_key: str | None = None
    ) -> Sequence[KeptObservation]:
        """Store all ``items``, or raise and store none; what is acknowledged is on the disk.

        A repeated request of an ``idempotency_key`` gets the first one's reply, as `ReplayedObservations`. Raises
        BadInput that names the item, KeyReused, StoreFull, and StoreDamaged if the home cannot be written to.
        """
        self.require_writable()
        for number, item in enumerate(items):
            check(item, f"episodes[{number}]")
        self._journal.require_reachable()
        guard = None if idempotency_key is None else (self._tenant, idempotency_key, _digest(items))
        async with self._appending:
            if guard is not None and (before := await self._journal.read(idempotency.replayed, guard)) is not None:
                return ReplayedObservations(KeptObservation(**one) for one in orjson.loads(before))
            prepared = await asyncio.to_thread(self._prepared, items, idempotency_key)
            return await self._append(prepared, guard)

    async def restore(self, given: Sequence[Restored]) -> list[Entered]:
        """Store observations of an export, in the log and in the ledger; one entry for each."""
        self.require_writable()
        await self.harvest()
        async with self._appending, self._harvesting:
            known = await self._journal.read(observations.known, [one.graded.observation.key for one in given])
            fresh = {one.graded.observation.key: one for one in given if one.graded.observation.key not in known}
            pointers = await self._write([one.graded.observation for one in fresh.values()])
            restored = [
                one._replace(graded=one.graded._replace(pointer=pointer))
                for one, pointer in zip(fresh.values(), pointers, strict=True)
            ]
            entered = await self._journal.write(observations.restore, restored)
        known |= dict(zip(fresh, entered, strict=True))
        seen: set[bytes] = set()
        found = []
        for one in given:
            key = one.graded.observation.key
            found.append(known[key] if key not in seen else known[key]._replace(status="duplicate"))
            seen.add(key)
        return found

    async def grade_by_hand(self, ref: str, scope: Scope, importance: Mapping[str, Any]) -> Row:
        """Set the importance of an observation, in the ledger and in its line; returns its new row. Raises NotFound."""
        row = await self._journal.write(observations.grade_by_hand, ref, scope, importance)
        await self.write_line(row, observations.observation_of(row))
        return row

    def start(self) -> None:
        """Begin what is done in the background: nothing, where each gateway has its own journal."""

    async def close(self) -> None:
        """End what is done in the background."""

    async def write_line(self, row: Row, changed: Observation) -> None:
        """Write the line of an observation anew, so that a ledger that is made again from the log has the change.

        One that was read from another file gets a line here, which is harvested before that file.
        """
        opened = await self.log()
        async with self._harvesting:
            if (place := Place.parse(row["pointer"] or "")) is not None:
                await asyncio.to_thread(opened.rewrite, {place: line_of(changed)})
                return
            (pointer,) = await self._write([changed])
            await self._journal.write(observations.point_to, row["seq"], pointer)

    async def blank(self, rows: Sequence[Row]) -> None:
        """Overwrite the lines of these rows. A line of a user's own file stays: that is not edited."""
        places = [place for row in rows if (place := Place.parse(row["pointer"] or "")) is not None]
        if places:
            self.require_writable()
            opened = await self.log()
            async with self._harvesting:
                await asyncio.to_thread(opened.rewrite, dict.fromkeys(places, BLANK))

    def require_writable(self) -> None:
        """Raise StoreDamaged if nothing may be stored."""
        if self._refusal:
            raise StoreDamaged(self._refusal)

    def _prepared(self, items: Sequence[NewObservation], key: str | None) -> list[Observed]:
        now = self._clock()

        def new_id(number: int) -> str:
            if key is None:
                return self._ids(int(now.timestamp() * 1000))
            # The ids of a request that is sent again after a crash are the same, so its observations are, too.
            return blake2b(f"{key}\0{number}".encode(), digest_size=16).hexdigest()

        owned = (
            replace(item, scope=replace(item.scope, tenant=self._tenant, user_id=item.scope.user_id or None))
            for item in items
        )
        return [observed(item, now, partial(new_id, number)) for number, item in enumerate(owned)]

    async def _append(self, prepared: Sequence[Observed], guard: idempotency.Guard | None) -> Sequence[KeptObservation]:
        found = by_key(prepared)
        known = await self._journal.read(observations.known, list(found))
        new = {key: one for key, one in found.items() if key not in known}
        pointers = await self._write(list(new.values()))
        if new:
            known |= await self._entered(list(new))
        replies = replies_to(prepared, known, dict(zip(new, pointers, strict=True)))
        if guard is not None:
            now = int(self._clock().timestamp())
            await self._journal.write(idempotency.keep, guard, [asdict(one) for one in replies], now)
        return replies

    async def _write(self, new: Sequence[Observation]) -> list[str]:
        """Append observations to the log; the pointers of their lines. They are on the disk when it returns."""
        opened = await self.log()
        return [place.pointer for place in await asyncio.to_thread(opened.append, [line_of(one) for one in new])]

    async def _entered(self, keys: Sequence[bytes]) -> dict[bytes, Entered]:
        """Harvest what was appended; by key, its entry in the ledger. A fault of the journal only delays that."""
        try:
            await self.harvest(INLINE)
            return await self._journal.read(observations.known, keys)
        except FusionError as error:
            log.warning("observations wait for the next harvest: %s", error)
            return {}

    async def harvest(self, most: int | None = None) -> Harvested:
        """Store the lines of the log that are not in the ledger yet, up to ``most`` of them, in batches.

        A batch and the place where the next one begins are one transaction. Raises StoreFull and StoreBusy.
        """
        done = Harvested()
        async with self._harvesting:
            while most is None or done.read < most:
                batch = await self._harvest_batch()
                if not batch.read:
                    break
                done += batch
        return done

    async def catch_up(self) -> None:
        """Harvest what an earlier append could not, before a reading; a fault of the journal only delays that."""
        opened = await self.log()
        if self._refusal or (self._next is not None and self._next >= opened.end):
            return
        try:
            await self.harvest(INLINE)
        except FusionError as error:
            log.warning("observations wait for the next harvest: %s", error)

    async def _harvest_batch(self) -> Harvested:
        opened = await self.log()
        if self._next is None:
            stored = await self._journal.read(observations.bookmark_of, OWN)
            self._next = Place(1, 1) if stored is None else Place.of(stored)
        if self._next >= (end := opened.end):
            return Harvested()
        batch, following = await asyncio.to_thread(self._read, opened, self._next)
        if not batch.read:  # a segment was begun, and its first line was never acknowledged
            following = end
        done, entered = await self.enter(batch, OWN, following.pointer)
        self._next = following
        await self._blank_copies(opened, batch.found, entered)
        return done

    async def enter(self, batch: Batch, source: str, place: str) -> tuple[Harvested, Sequence[Entered]]:
        """Store a batch of a source, of which the next one begins at ``place``, in one transaction."""
        now = self._clock()
        await asyncio.to_thread(self.dead_letters.add, batch.letters, now)
        entered = await self._journal.write(observations.enter, batch.found, source, place, now)
        return batch.counted(entered), entered

    def batch(self) -> Batch:
        """A new batch, which this intake's scorer grades."""
        return Batch(self._score)

    def _read(self, opened: SegmentLog, start: Place) -> tuple[Batch, Place]:
        """The next lines of the log, and the place after them."""
        batch, following = self.batch(), start
        try:
            for place, line in islice(opened.lines_from(start), BATCH):
                batch.take(place.pointer, line, partial(own_observation, tenant=self._tenant))
                following = Place(place.segment, place.line + 1)
        except CutSegment as error:
            batch.refuse(f"segment-{error.number:06}", str(error))
            following = Place(error.number + 1, 1)
        return batch, following

    async def _blank_copies(self, opened: SegmentLog, found: Sequence[Graded], entered: Sequence[Entered]) -> None:
        """Blank the lines of observations that were forgotten, or that another line has already."""
        again = [(one, entry) for one, entry in zip(found, entered, strict=True) if entry.status != "stored"]
        if not again:
            return
        kept = await self._journal.read(observations.pointers_of, [entry.seq for _, entry in again])
        copies = [Place.of(one.pointer) for one, entry in again if kept.get(entry.seq) != one.pointer]
        await asyncio.to_thread(opened.rewrite, dict.fromkeys(copies, BLANK))


def is_scoped(scope: Scope) -> bool:
    """Whether a scope says whose an observation is."""
    return bool(scope.named() or scope.project)


def check(item: NewObservation, name: str) -> None:
    """Raise BadInput, which names the item, if it says nothing of whose it is, or has a secret in an id."""
    if not is_scoped(item.scope):
        raise BadInput(f"{name}: {SCOPE_REQUIRED}")
    others = {"project": item.scope.project, "event_id": item.event_id, "tool": item.tool, "source": item.source}
    for field, value in (*item.scope.named().items(), *others.items(), ("kind", item.raw_kind)):
        if value and redact(value)[1]:
            raise BadInput(f"{name}.{field} has a secret in it; take it out")


def _digest(items: Sequence[NewObservation]) -> str:
    """The hash of a request, before ids and times are added."""
    return sha256(orjson.dumps(list(items), default=str, option=orjson.OPT_NON_STR_KEYS)).hexdigest()


def by_key(prepared: Sequence[Observed]) -> dict[bytes, Observation]:
    """The observations of a request that are to be stored, each once."""
    found: dict[bytes, Observation] = {}
    for one in prepared:
        if one.observation is not None:
            found.setdefault(one.observation.key, one.observation)
    return found


def replies_to(
    prepared: Sequence[Observed], known: Mapping[bytes, Entered], pointers: Mapping[bytes, str]
) -> list[KeptObservation]:
    """The replies to a request, of which ``pointers`` has what is new; what it has twice is a duplicate the second
    time."""
    seen: set[bytes] = set()
    replies = []
    for one in prepared:
        key = one.observation.key if one.observation is not None else b""
        replies.append(_reply(one, known.get(key), None if key in seen else pointers.get(key)))
        seen.add(key)
    return replies


def _reply(prepared: Observed, entry: Entered | None, pointer: str | None) -> KeptObservation:
    """The reply for one observation; ``pointer`` is that of its new line, and empty where there is no log."""
    found = prepared.observation
    if found is None:
        return KeptObservation("", "", "skipped", reason=prepared.reason)
    blocked = entry is not None and entry.status == "blocked"
    status: Status = "stored" if pointer is not None else "blocked" if blocked else "duplicate"
    return KeptObservation(
        f"{EPISODE}{entry.seq}" if entry is not None and entry.seq else "",
        found.event_id,
        status,
        pointer or "",
        found.redacted,
        found.truncated,
        "it was forgotten before" if blocked else "",
    )
