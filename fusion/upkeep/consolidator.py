"""Compares new statements with earlier ones in the background, each once; `consolidate` decides.

The queue and the decisions are in the journal, and each decision is one transaction with the end of its place in the
queue. The worker is woken after deliveries, when the embedder's caches have the vectors already. While there is no
embedder, or it fails, statements wait in the queue.
"""

from __future__ import annotations

import asyncio
import logging
from collections import OrderedDict
from collections.abc import Awaitable, Callable, Iterator, Sequence
from typing import TYPE_CHECKING, Any

from fusion.contract import CosineScale, Embedder, Event, Extraction, LanguageModel, Scope, text_scale
from fusion.errors import BackendUnreachable
from fusion.journal import Journal, distil_queue, state, statements
from fusion.journal.leases import LEASE_S, OTHERS_S
from fusion.journal.statements import Queued, Settled
from fusion.lib.backoff import backoff_s
from fusion.lib.ids import parse_short_ref
from fusion.lib.queue_worker import QueueWorker
from fusion.lib.wakeup import wait_for_news
from fusion.lib.words import spoken
from fusion.upkeep.consolidate import ABOUT, REINFORCES, Known, Near, decide, is_statement

if TYPE_CHECKING:
    from fusion.contract import Floats

log = logging.getLogger(__name__)

WHO = "consolidate"
"""who makes these decisions, in the log"""
LEASE = "consolidate"
"""the name of the lease under which one of the gateways that share a journal compares"""
BATCH_EVENTS = 200
LINGER_S = 1.0
"""seconds between a wake-up and the comparison: what arrives together is compared together, which costs a third"""
MAX_STATEMENTS = 20_000
"""newest statements of one user that a new one is compared with: 31 MB of vectors"""
MAX_OWNERS = 8
"""users whose vectors are kept in memory"""
NEAR_LIMIT = 20
"""nearest statements that a new one is compared with word by word"""
CHUNK = 4096
"""statements of which the cosines are in memory at a time"""
HEAD = 128
"""numbers of a vector that are compared first"""
PRUNED = 0.7
"""cosine from which comparing heads first leaves few statements to compare in full"""
ROUNDING = 1e-4
"""more than single precision rounds a cosine by"""
FIRST_BACKOFF_S, MAX_BACKOFF_S = 1.0, 60.0
"""seconds between tries while the embedder fails"""


class Consolidator(QueueWorker):
    """Compares the statements of one home. Tests replace ``sleep``.

    ``extract`` applies the rules to an event; ``on_decision`` is called after changes of states.
    """

    def __init__(
        self,
        journal: Journal,
        embedder: Embedder,
        extract: Callable[[Event], Extraction],
        *,
        model: LanguageModel | None = None,
        on_decision: Callable[[], None] = lambda: None,
        linger_s: float = LINGER_S,
        sleep: Callable[[float], Awaitable[None]] = asyncio.sleep,
    ) -> None:
        super().__init__("consolidate")
        self._journal = journal
        self._embedder = embedder
        self._extract = extract
        self._model = model
        self._on_decision = on_decision
        self._linger_s = linger_s
        self._sleep = sleep
        self._owners: OrderedDict[tuple[str, str | None], _Vectors] = OrderedDict()
        self._hurry = asyncio.Event()
        self._token = 0
        """of the lease under which the vectors were last completed"""

    def start(self) -> None:
        self._news.set()
        super().start()

    async def settle(self) -> None:
        """Wait until everything queued is decided, or the embedder has failed."""
        self.wake()
        self._hurry.set()
        await self._idle.wait()

    async def catch_up(self) -> int:
        """Compare some of the statements that never were, oldest first; returns how many are left.

        Raises BackendUnreachable if the embedder fails.
        """
        await self._journal.write(statements.requeue, BATCH_EVENTS)
        await self.settle()
        if self.fault:
            raise BackendUnreachable(self.fault)
        return await self._journal.read(statements.uncompared)

    def forget_vectors(self) -> None:
        """Drop all vectors from memory: a text was forgotten."""
        self._owners.clear()

    async def _serve(self) -> None:
        failures = 0
        while True:
            # A gateway that died may have left some in a shared journal.
            await wait_for_news(self._news, LEASE_S if self._journal.shared else None, self._sleep)
            await self._linger()
            self._news.clear()
            self._hurry.clear()
            try:
                while await self._round():
                    pass
                self.fault, failures = "", 0
            except Exception as error:  # noqa: BLE001 — the statements stay queued after any fault
                failures += 1
                self.fault = str(error) or type(error).__name__
                log.warning("statements were not compared (try %d): %s", failures, type(error).__name__)
                self._owners.clear()
                self._idle.set()
                await self._wait(backoff_s(failures, FIRST_BACKOFF_S, MAX_BACKOFF_S))
                self._news.set()
                continue
            if not self._news.is_set():
                self._idle.set()

    async def _linger(self) -> None:
        if not self._hurry.is_set():
            await self._wait(self._linger_s)

    async def _wait(self, pause_s: float) -> None:
        """Wait for so long, or until somebody waits for the result."""
        pause, hurry = asyncio.ensure_future(self._sleep(pause_s)), asyncio.ensure_future(self._hurry.wait())
        try:
            await asyncio.wait((pause, hurry), return_when=asyncio.FIRST_COMPLETED)
        finally:
            pause.cancel()
            hurry.cancel()
            await asyncio.gather(pause, hurry, return_exceptions=True)

    async def _round(self) -> bool:
        """Decide on one batch; whether there was any.

        Gateways that share a journal do so one at a time: statements that are compared at once would not meet.
        """
        queued = await self._journal.read(statements.oldest, BATCH_EVENTS)
        if not queued:
            return False
        async with self._journal.leases.held(LEASE) as held:
            if held is not None:
                if self._journal.shared:  # another gateway may have decided on some since
                    queued = await self._journal.read(statements.oldest, BATCH_EVENTS)
                    if held.token != self._token + 1:
                        self.forget_vectors()  # another gateway has added statements
                    self._token = held.token
                return await self._decide_on_all(queued)
        await self._sleep(OTHERS_S)
        return True

    async def _decide_on_all(self, queued: Sequence[Queued]) -> bool:
        found = await self._known([one.event.event_id for one in queued])
        done: list[Settled] = []
        wanted: list[tuple[Queued, Known]] = []
        for one in queued:
            known = found.get(one.event.event_id)
            if known is not None and is_statement(known.event, known.extraction):
                wanted.append((one, known))
            else:
                done.append(Settled(one.seq))
        decided = len(await self._journal.settle_statements(done, WHO))
        for owner in dict.fromkeys(_owner(known.event.scope) for _, known in wanted):
            decided += await self._decide_on([pair for pair in wanted if _owner(pair[1].event.scope) == owner])
        # What came meanwhile waits for more to come. What was not decided, though asked for, is tried again.
        return decided > 0 and (len(queued) == BATCH_EVENTS or decided < len(queued))

    async def _decide_on(self, wanted: Sequence[tuple[Queued, Known]]) -> int:
        """Decide on statements of one owner, in their order, so that each sees the decisions on those before it.

        Returns the number that is decided. One is not, if what it repeats was forgotten meanwhile.
        """
        vectors = await self._embedder.embed([known.statement.spoken for _, known in wanted])
        index = await self._vectors_of(wanted[0][1].event.scope)
        ids, scale = [known.id for _, known in wanted], text_scale(self._embedder)
        smallest = [_cosine_for(scale, REINFORCES if known.is_turn else ABOUT) for _, known in wanted]
        stored = await asyncio.to_thread(index.nearest, vectors, smallest)
        before = _before(vectors)
        due: list[Settled] = []
        decided = 0
        for n, (one, known) in enumerate(wanted):
            settled = Settled(one.seq, True, compared=one.decides or one.event.supersedes is not None)
            if one.decides:
                least = REINFORCES if known.is_turn else ABOUT
                found = [(id_, cosine) for id_, cosine in stored[n] if id_ != known.id]
                found += [(ids[i], cosine) for i, cosine in before.get(n, ())]
                cosines = [(id_, scale.of(cosine)) for id_, cosine in found]
                settled = await self._decision(one, known, [pair for pair in cosines if pair[1] >= least])
            due.append(settled)
            if settled.changes:
                decided += len(await self._journal.settle_statements(due, WHO))
                self._on_decision()
                due = []
        decided += len(await self._journal.settle_statements(due, WHO))
        index.add(ids, vectors)
        return decided

    async def _decision(self, one: Queued, new: Known, cosines: Sequence[tuple[str, float]]) -> Settled:
        nearest = dict(sorted(cosines, key=lambda pair: -pair[1])[:NEAR_LIMIT])
        if not nearest:
            return Settled(one.seq, True)
        near = [
            Near(known, nearest[known.id])
            for known in (await self._known(list(nearest))).values()
            if (parse_short_ref(known.ref) or 0) < one.seq
        ]
        apart = await self._journal.read(state.kept_apart, [new.id, *nearest])
        verdict = await decide(new, near, apart, self._model)
        return Settled(one.seq, True, verdict.changes, verdict.why, tuple(verdict.changes))

    async def _known(self, event_ids: Sequence[str]) -> dict[str, Known]:
        """Those of these events that are current, by id, in their order."""
        records = await self._journal.records(event_ids)
        current = {
            id_: record
            for id_ in event_ids
            if (record := records.get(id_)) is not None
            and not record.forgotten
            and record.superseded_by is None
            and record.state.merged_into is None
            and record.state.ended_at is None
        }
        made = [id_ for id_, record in current.items() if record.event.derived_from]
        distilled = await self._journal.read(distil_queue.extractions, made) if made else {}
        return {
            id_: Known(record.event, distilled.get(id_) or self._extract(record.event), record.state, record.ref)
            for id_, record in current.items()
        }

    async def _vectors_of(self, scope: Scope) -> _Vectors:
        """The vectors of an owner's statements; those of the users asked for last stay in memory."""
        owner = _owner(scope)
        index = self._owners.get(owner)
        if index is None:
            rows = await self._journal.read(statements.texts, scope, MAX_STATEMENTS)
            index = _Vectors(self._embedder.dimensions)
            for first in range(0, len(rows), CHUNK):
                some = rows[first : first + CHUNK]
                vectors = await self._embedder.embed([spoken(text, speaker) for _, text, speaker in some])
                index.add([id_ for id_, _, _ in some], vectors)
            self._owners[owner] = index
        self._owners.move_to_end(owner)
        while len(self._owners) > MAX_OWNERS:
            self._owners.popitem(last=False)
        return index


def _owner(scope: Scope) -> tuple[str, str | None]:
    return scope.tenant, scope.user_id


def _before(vectors: Floats) -> dict[int, list[tuple[int, float]]]:
    """By row, the rows before it whose cosine with it is at least `ABOUT`; most have none and are left out."""
    import numpy as np

    cosines = vectors @ vectors.T
    found: dict[int, list[tuple[int, float]]] = {}
    for n, i in np.argwhere(np.tril(cosines >= ABOUT, -1)).tolist():
        found.setdefault(n, []).append((i, float(cosines[n, i])))
    return found


def _cosine_for(scale: CosineScale, wanted: float) -> float:
    """The smallest cosine of the embedder that is ``wanted`` on the common scale, and at least `ABOUT`."""
    return max(ABOUT, (wanted - scale.intercept) / scale.slope) if scale.slope > 0 else ABOUT


class _Vectors:
    """The vectors of one owner's statements, the newest `MAX_STATEMENTS` of them, at unit length."""

    def __init__(self, dimensions: int) -> None:
        self._dimensions = dimensions
        self._ids: list[str] = []
        self._chunks: list[tuple[Floats, Floats]] = []
        """arrays of vectors and of their heads, in the order of the ids"""

    def add(self, ids: Sequence[str], vectors: Floats) -> None:
        """Add statements; one that is there already is there twice, which changes nothing."""
        if not len(ids):
            return
        import numpy as np

        self._ids += ids
        rows = np.asarray(vectors, np.float32)
        self._chunks.append((rows, _heads(rows)))
        if len(self._chunks) > 64 or len(self._ids) > MAX_STATEMENTS + CHUNK:
            every, heads = (np.concatenate(some)[-MAX_STATEMENTS:] for some in zip(*self._chunks, strict=True))
            self._chunks = [(every, heads)]
            self._ids = self._ids[-MAX_STATEMENTS:]

    def nearest(self, vectors: Floats, least: Sequence[float]) -> list[list[tuple[str, float]]]:
        """For each of these vectors, the ids of the `NEAR_LIMIT` nearest with their cosines, if at least ``least``."""
        import numpy as np

        found: list[list[tuple[str, float]]] = [[] for _ in range(len(vectors))]
        asked, wanted = np.asarray(vectors, np.float32), np.asarray(least, np.float32)
        heads = _heads(asked)
        first = 0
        for rows, row_heads in self._chunks:
            for start in range(0, len(rows), CHUNK):
                part, part_heads = rows[start : start + CHUNK], row_heads[start : start + CHUNK]
                for n, row, cosines in _pairs(asked, heads, wanted, part, part_heads):
                    best = row
                    if len(row) > NEAR_LIMIT:
                        kept = np.argpartition(-cosines, NEAR_LIMIT - 1)[:NEAR_LIMIT]
                        best, cosines = row[kept], cosines[kept]
                    ids = (self._ids[first + start + i] for i in best.tolist())
                    found[n] += zip(ids, cosines.tolist(), strict=True)
            first += len(rows)
        return [sorted(near, key=lambda pair: -pair[1])[:NEAR_LIMIT] for near in found]


def _heads(rows: Floats) -> Floats:
    """The first `HEAD` numbers of each vector, and the length of the rest: the product of two heads is at least the
    cosine (Cauchy and Schwarz)."""
    import numpy as np

    rest = np.linalg.norm(rows[:, HEAD:], axis=1, keepdims=True)
    return np.ascontiguousarray(np.hstack([rows[:, :HEAD], rest]), np.float32)


def _pairs(
    asked: Floats, heads: Floats, least: Floats, rows: Floats, row_heads: Floats
) -> Iterator[tuple[int, Any, Floats]]:
    """For each asked vector that has any, the numbers of the rows whose cosine is at least ``least``, and the cosines.

    Where ``least`` is high, only rows are compared in full whose heads do not exclude it: a third of the work.
    """
    import numpy as np

    for chosen in (np.flatnonzero(least >= PRUNED), np.flatnonzero(least < PRUNED)):
        if not len(chosen):
            continue
        high = bool(least[chosen[0]] >= PRUNED)
        bounds = heads[chosen] @ row_heads.T if high else asked[chosen] @ rows.T
        margin = ROUNDING if high else 0.0
        for at in np.flatnonzero(bounds.max(axis=1) >= least[chosen] - margin).tolist():
            n = int(chosen[at])
            near = np.flatnonzero(bounds[at] >= least[n] - margin)  # most statements are like no other
            cosines = rows[near] @ asked[n] if high else bounds[at][near]
            if (there := cosines >= least[n]).any():
                yield n, near[there], cosines[there]
