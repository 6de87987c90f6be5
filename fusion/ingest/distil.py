"""Distillation: a language model turns exchanges of a conversation into memories, in the background, each turn once.

A turn is stored and delivered with the rules' extraction at once. The model's memories come later as events of their
own, which name their source turns in ``derived_from`` and are forgotten with them. The queue of turns and the model's
extractions are in the journal and change in one transaction, so no turn is sent to the model twice.
"""

from __future__ import annotations

import asyncio
import logging
from collections.abc import Awaitable, Callable, Iterator, Sequence
from dataclasses import replace
from datetime import datetime, timedelta
from secrets import token_hex

from fusion.contract import Event, Extraction, LanguageModel, Trust
from fusion.errors import HttpStatus, InvalidAnswer, RateLimited
from fusion.ingest.deliver import Deliverer
from fusion.ingest.distil_prompt import MAX_ANSWER_TOKENS, SYSTEM, Distilled, ask, read
from fusion.journal import Journal, distil_queue
from fusion.journal.distil_queue import DistilJob
from fusion.journal.leases import LEASE_S, OTHERS_S
from fusion.lib.backoff import backoff_s
from fusion.lib.clock import Clock, utc_now
from fusion.lib.grading import MAX_IMPORTANCE
from fusion.lib.ids import UuidSource, uuid7
from fusion.lib.queue_worker import QueueWorker
from fusion.lib.stated_fields import to_stated
from fusion.lib.wakeup import wait_for_news
from fusion.lib.words import content_hash

log = logging.getLogger(__name__)

SOURCE = "distilled"
"""the `Event.source` of a distilled memory"""

LEASE = "distil"
"""the name of the lease under which one of the gateways that share a journal distils"""
MAX_EXCHANGE_TURNS, MAX_EXCHANGE_CHARS = 8, 12_000
"""maximum turns and characters of one exchange, which one call sends to the model: some 3,500 tokens"""
CONTEXT_TURNS = 3
"""turns before an exchange that are sent with it as context (seed 000)"""
MIN_SIDE_CHARS = 20
"""minimum characters of each speaker in an exchange (seed 000)"""
MAX_JOBS_READ = 500
"""oldest queued turns among which an exchange is looked for"""

MAX_ATTEMPTS, FIRST_RETRY_S = 3, 60.0
"""invalid answers about one turn until it is given up; seconds before the second try, doubled before the third"""
LONGEST_RETRY = timedelta(hours=1)
"""more than any turn waits for its next try: a later time is of a clock that went back since, and is due now"""
FIRST_BACKOFF_S, MAX_BACKOFF_S = 0.5, 60.0
"""seconds between tries while the model fails, doubled each time up to the maximum"""

_TRUST: tuple[Trust, ...] = ("quarantined", "untrusted", "unknown", "trusted")
"""worst first: a distilled memory has the trust of its worst source"""


class Distiller(QueueWorker):
    """Distils the conversations of one home. ``model`` keeps to its budget and says when to ask again.

    The last turns of a conversation wait ``quiet_s`` seconds for more. Tests replace ``sleep`` and ``clock``.
    """

    def __init__(
        self,
        journal: Journal,
        deliverer: Deliverer,
        model: LanguageModel,
        *,
        quiet_s: float = 30.0,
        clock: Clock = utc_now,
        sleep: Callable[[float], Awaitable[None]] = asyncio.sleep,
        ids: UuidSource = uuid7,
    ) -> None:
        super().__init__("distil")
        self._ids = ids
        self._journal = journal
        self._deliverer = deliverer
        self._model = model
        self._quiet = timedelta(seconds=quiet_s)
        self._clock = clock
        self._sleep = sleep

    def start(self) -> None:
        """Queue new turns from now on, and start with those that are queued already."""
        self._journal.enable_distillation()
        super().start()

    async def settle(self) -> None:
        """Wait until nothing is due, or the model has failed."""
        await self._idle.wait()

    async def _serve(self) -> None:
        failures = 0
        while True:
            self._news.clear()
            try:
                pause_s = await self._round()
            except Exception as error:  # noqa: BLE001 — the turns stay queued after any fault
                if not isinstance(error, RateLimited):  # a request to wait is not a failure
                    failures += 1
                    self.fault = str(error) or type(error).__name__
                    log.warning("the model did not distil a conversation (try %d): %s", failures, type(error).__name__)
                self._idle.set()
                asked_s = getattr(error, "retry_after_s", None) or 0.0
                await self._sleep(max(backoff_s(failures + 1, FIRST_BACKOFF_S, MAX_BACKOFF_S), asked_s))
                continue
            self.fault, failures = "", 0
            if pause_s != 0:
                await self._wait(pause_s)

    async def _wait(self, pause_s: float | None) -> None:
        """Wait for a wake-up, or until an exchange is ready."""
        if self._news.is_set():
            return
        self._idle.set()
        if self._journal.shared:  # a gateway that died may have left some
            pause_s = LEASE_S if pause_s is None else min(pause_s, LEASE_S)
        await wait_for_news(self._news, pause_s, self._sleep)

    async def _round(self) -> float | None:
        """Distil one exchange and return 0; else the seconds until one is ready, None without any."""
        ready, pause_s = await self._ready()
        if not ready:
            return pause_s
        self._idle.clear()
        async with self._journal.leases.held(LEASE) as held:
            if held is not None:
                if self._journal.shared:  # another gateway may have distilled it since
                    ready, _ = await self._ready()
                if ready:
                    await self._distil(ready)
        if held is None:
            await self._sleep(OTHERS_S)
        return 0.0

    async def _ready(self) -> tuple[Sequence[DistilJob], float | None]:
        """An exchange that is ready; without one, the seconds until one is, None without any."""
        now = self._clock()
        ready_at: list[datetime] = []
        for exchange, full in exchanges(await self._journal.read(distil_queue.oldest, MAX_JOBS_READ)):
            at = self._ready_at(exchange, full)
            if at <= now or at > now + self._quiet + LONGEST_RETRY:
                return exchange, 0.0
            ready_at.append(at)
        return (), max((min(ready_at) - now).total_seconds(), 0.001) if ready_at else None

    def _ready_at(self, exchange: Sequence[DistilJob], full: bool) -> datetime:
        """When an exchange is ready: at once if it is full, else after a quiet time."""
        newest = max(job.event.recorded_at for job in exchange)
        return max(*(job.next_at for job in exchange), newest if full else newest + self._quiet)

    async def _distil(self, exchange: Sequence[DistilJob]) -> None:
        seqs, turns = [job.seq for job in exchange], [job.event for job in exchange]
        if not worth_it(turns):
            await self._journal.keep_distilled(seqs, [])
            return
        before = await self._before(turns[0])
        try:
            answer = await self._model.complete(SYSTEM, ask(turns, before, token_hex(8)), MAX_ANSWER_TOKENS)
            found = read(answer, turns)
        except (InvalidAnswer, HttpStatus) as error:
            if isinstance(error, HttpStatus) and not 400 <= error.status < 500:
                raise
            await self._refused(exchange, error)
            return
        made = [self._event(one, [turns[n] for n in one.sources]) for one in found]
        if any(one.state == "stored" for one in await self._journal.keep_distilled(seqs, made)):
            self._deliverer.wake()

    async def _before(self, first: Event) -> list[Event]:
        """The last turns before an exchange."""
        near = (await self._journal.neighbours([first.event_id], CONTEXT_TURNS)).get(first.event_id, ())
        return [record.event for record in near if _order(record.event) < _order(first)]

    async def _refused(self, exchange: Sequence[DistilJob], error: Exception) -> None:
        """Count an invalid answer against its turns, and give up those that have reached the maximum."""
        log.warning("a conversation was not distilled: %s", error)
        last = [job.seq for job in exchange if job.attempts + 1 >= MAX_ATTEMPTS]
        if last:
            await self._journal.write(distil_queue.give_up, last, f"{type(error).__name__}: {error}")
        pause_s = backoff_s(1 + max(job.attempts for job in exchange), FIRST_RETRY_S)
        rest = [job.seq for job in exchange if job.seq not in last]
        await self._journal.write(distil_queue.postpone, rest, self._clock() + timedelta(seconds=pause_s))

    def _event(self, one: Distilled, sources: Sequence[Event]) -> tuple[Event, Extraction]:
        """The event of a distilled memory: with its sources' owner, worst trust and narrowest audience."""
        latest = sources[-1]
        now = self._clock()
        private = any(source.scope.audience == "private" for source in sources)
        ids = tuple(source.event_id for source in sources)
        event = Event(
            event_id=str(self._ids(int(now.timestamp() * 1000))),
            text=one.text,
            recorded_at=now,
            scope=replace(latest.scope, audience="private" if private else latest.scope.audience),
            kind=one.extraction.kind,
            at=latest.at,
            source=SOURCE,
            revision=content_hash("\0".join((*ids, one.text))),
            trust=min((source.trust for source in sources), key=_TRUST.index),
            origin="system",
            derived_from=ids,
            stated=to_stated(tags=[one.grade.topic], importance=one.grade.importance / MAX_IMPORTANCE),
        )
        return event, one.extraction


def exchanges(listed: Sequence[DistilJob]) -> Iterator[tuple[list[DistilJob], bool]]:
    """The first exchange of each queued conversation, and whether it is full.

    An exchange is consecutive turns. After each invalid answer its maximum length is halved, since a short exchange is
    easier for the model.
    """
    by_conversation: dict[tuple[object, ...], list[DistilJob]] = {}
    for job in listed:
        by_conversation.setdefault(_conversation(job.event), []).append(job)
    for turns in by_conversation.values():
        turns.sort(key=lambda job: _order(job.event))
        attempts, chars = turns[0].attempts, 0
        most = max(1, MAX_EXCHANGE_TURNS >> attempts)
        exchange: list[DistilJob] = []
        for job in turns[:most]:
            chars += len(job.event.text)
            if exchange and (job.attempts != attempts or chars > MAX_EXCHANGE_CHARS):
                break
            exchange.append(job)
        yield exchange, len(exchange) == most or len(exchange) < len(turns)


def _conversation(event: Event) -> tuple[object, ...]:
    """The key of a conversation: owner, agent, run, session, audience, document, and who stated it.

    Untrusted turns and output of tools stay with the others: a distilled memory has the worst trust of its sources.
    """
    document = event.place.document if event.place else None
    scope = event.scope
    owner = (scope.tenant, scope.user_id, scope.agent_id, scope.run_id, scope.session_id, scope.audience)
    return (*owner, document, replace(event, trust="unknown", origin="owner").stated_by)


def _order(event: Event) -> tuple[int, str]:
    return (event.place.start if event.place else 0, event.event_id)


def worth_it(turns: Sequence[Event]) -> bool:
    """Whether each speaker says at least `MIN_SIDE_CHARS` characters (seed 000)."""
    said: dict[str | None, int] = {}
    for turn in turns:
        said[turn.speaker] = said.get(turn.speaker, 0) + len(turn.text.strip())
    return min(said.values()) >= MIN_SIDE_CHARS
