"""Has a language model distil conversations into memories: each turn once, behind the acknowledgement.

Nothing waits for it. A turn is journalled and delivered with what the rules learnt of it; what a model makes of it
comes later, as events of their own that name the turns they are from, through the same journal to every backend. So
whatever the model does, the conversation is kept, and what it says is told apart from what was said, forgotten with it,
and never asked for twice: the list of turns and what was learnt stand in the journal, and change in one transaction.
"""

from __future__ import annotations

import asyncio
import logging
from collections.abc import Awaitable, Callable, Iterator, Sequence
from dataclasses import replace
from datetime import UTC, datetime, timedelta
from secrets import token_hex

from fusion.contract import CLAIMED_PREFIX, Event, Extraction, LanguageModel, Trust
from fusion.errors import HttpStatus, InvalidAnswer, RateLimited
from fusion.ingest.deliver import Deliverer
from fusion.ingest.distil_prompt import MAX_ANSWER_TOKENS, SYSTEM, Distilled, ask, read
from fusion.ingest.wakeup import wait_for_news
from fusion.journal import Journal
from fusion.journal.distil_queue import DistilJob
from fusion.lib.backoff import backoff_s
from fusion.lib.ids import UuidSource, uuid7
from fusion.lib.words import content_hash

log = logging.getLogger(__name__)

SOURCE = "distilled"
"""what `Event.source` says of a memory that a model made"""

MAX_EXCHANGE_TURNS, MAX_EXCHANGE_CHARS = 8, 12_000
"""of one exchange: so much is shown to a model at once, some 3,500 tokens at most"""
CONTEXT_TURNS = 3
"""turns before an exchange that are shown with it, to say who "she" is (seed 000)"""
MIN_SIDE_CHARS = 20
"""that each side of an exchange says: below, there is nothing to learn from it (seed 000)"""
MAX_JOBS_READ = 500
"""turns on the list, oldest first, among which an exchange is looked for"""

MAX_ATTEMPTS, FIRST_RETRY_S = 3, 60.0
"""answers about one turn that make no sense; a minute after the first, two after the second"""
FIRST_BACKOFF_S, MAX_BACKOFF_S = 0.5, 60.0
"""between tries while the model cannot be asked; doubled each time"""

_TRUST: tuple[Trust, ...] = ("quarantined", "untrusted", "unknown", "trusted")
"""worst first: a memory is as good as the worst of its sources"""


class Distiller:
    """The distilling of one home. ``model`` keeps to its budget and says when it is to be asked again.

    The last turns of a conversation wait ``quiet_s`` for more. ``sleep`` is asyncio's, or a test's own; so is
    ``clock``.
    """

    def __init__(
        self,
        journal: Journal,
        deliverer: Deliverer,
        model: LanguageModel,
        *,
        quiet_s: float = 30.0,
        clock: Callable[[], datetime] = lambda: datetime.now(UTC),
        sleep: Callable[[float], Awaitable[None]] = asyncio.sleep,
        ids: UuidSource = uuid7,
    ) -> None:
        self._ids = ids
        self._journal = journal
        self._deliverer = deliverer
        self._model = model
        self._quiet = timedelta(seconds=quiet_s)
        self._clock = clock
        self._sleep = sleep
        self._news = asyncio.Event()
        self._idle = asyncio.Event()
        self._task: asyncio.Task[None] | None = None
        self.fault = ""
        """why the last call failed; empty when it did not"""

    def start(self) -> None:
        """From now on turns are listed; those that were listed before are distilled first."""
        self._journal.enable_distillation()
        self._task = asyncio.create_task(self._serve(), name="distil")

    async def close(self) -> None:
        if self._task is not None:
            self._task.cancel()
            await asyncio.gather(self._task, return_exceptions=True)
            self._task = None

    def wake(self) -> None:
        """There may be something new."""
        self._idle.clear()
        self._news.set()

    async def settle(self) -> None:
        """Returns when nothing is to be done at this moment, or the model cannot be asked now."""
        await self._idle.wait()

    async def _serve(self) -> None:
        failures = 0
        while True:
            self._news.clear()
            try:
                pause_s = await self._round()
            except Exception as error:  # noqa: BLE001 — whatever is wrong with a model or a disk, turns wait on the list
                if not isinstance(error, RateLimited):  # to be asked to wait is no failure
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
        """Until there is news, or it is time for what was not ready."""
        if self._news.is_set():
            return
        self._idle.set()
        await wait_for_news(self._news, pause_s, self._sleep)

    async def _round(self) -> float | None:
        """Distils one exchange: 0 then, else the seconds until one may be ready, None when there is nothing at all."""
        now = self._clock()
        ready_at: list[datetime] = []
        for exchange, full in exchanges(await self._journal.distil_jobs(MAX_JOBS_READ)):
            at = self._ready_at(exchange, full)
            if at <= now:
                self._idle.clear()
                await self._distil(exchange)
                return 0.0
            ready_at.append(at)
        return max((min(ready_at) - now).total_seconds(), 0.001) if ready_at else None

    def _ready_at(self, exchange: Sequence[DistilJob], full: bool) -> datetime:
        """At once when it is as long as it may be; else when nothing was added for a while."""
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
        """What was said before an exchange, the latest few."""
        beside = (await self._journal.neighbours([first.event_id], CONTEXT_TURNS)).get(first.event_id, ())
        return [record.event for record in beside if _order(record.event) < _order(first)]

    async def _refused(self, exchange: Sequence[DistilJob], error: Exception) -> None:
        """An answer that makes no sense counts against the turns it was about; after three they are given up."""
        log.warning("a conversation was not distilled: %s", error)
        last = [job.seq for job in exchange if job.attempts + 1 >= MAX_ATTEMPTS]
        if last:
            await self._journal.give_up_distillation(last, f"{type(error).__name__}: {error}")
        pause_s = backoff_s(1 + max(job.attempts for job in exchange), FIRST_RETRY_S)
        rest = [job.seq for job in exchange if job.seq not in last]
        await self._journal.retry_distillation(rest, self._clock() + timedelta(seconds=pause_s))

    def _event(self, one: Distilled, sources: Sequence[Event]) -> tuple[Event, Extraction]:
        """The event that a memory is: of its sources' owner, and no more to be trusted or shown than they are."""
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
        )
        return event, one.extraction


def exchanges(listed: Sequence[DistilJob]) -> Iterator[tuple[list[DistilJob], bool]]:
    """The first exchange of each conversation on the list, and whether it is as long as it may be.

    Those are turns that follow one another. A turn about which an answer made no sense is tried in half as many at a
    time: the longer an exchange, the more there is to stumble over.
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
    """What turns of one conversation share: owner, who told it, document and session, and who may read it.

    A claim was not said in the conversation that it names.
    """
    document = event.place.document if event.place else None
    scope = event.scope
    owner = (scope.tenant, scope.user_id, scope.agent_id, scope.run_id, scope.session_id, scope.audience)
    return (*owner, document, (event.source or "").startswith(CLAIMED_PREFIX))


def _order(event: Event) -> tuple[int, str]:
    return (event.place.start if event.place else 0, event.event_id)


def worth_it(turns: Sequence[Event]) -> bool:
    """Whether each side says enough to learn from (seed 000)."""
    said: dict[str | None, int] = {}
    for turn in turns:
        said[turn.speaker] = said.get(turn.speaker, 0) + len(turn.text.strip())
    return min(said.values()) >= MIN_SIDE_CHARS
