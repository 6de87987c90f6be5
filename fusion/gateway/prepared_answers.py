"""Prepares a session's next answer after each turn, so that a similar question is answered at once (seed 000).

Seed 000 writes an answer into a file that is named by the session, and returns it to any next question. Here an answer
is used once, within five minutes, for a question of the same session that is like the one it was prepared for, and only
if since then nothing was stored, decided or forgotten in the home, and no memory in it has ended.
"""

from __future__ import annotations

import asyncio
import logging
import time
from collections import OrderedDict
from collections.abc import Awaitable, Callable, Collection
from dataclasses import dataclass, replace
from datetime import datetime

from fusion.contract import Embedder, text_scale
from fusion.errors import FusionError
from fusion.journal.sessions import SessionKey
from fusion.lib.same_question import asks_the_same
from fusion.recall.engine import FuseRequest, Outcome

log = logging.getLogger(__name__)

KEPT_S = 300.0
"""seconds for which an answer may be used (seed 000)"""
MAX_SESSIONS = 64
"""sessions whose last question is kept; an answer with its hits takes some 200 kB at most"""
MAX_WAITING = 4
"""sessions that wait for their answer to be prepared; beyond it the one that waits longest goes without"""
MIN_COSINE = 0.85
"""least cosine of two questions that are alike, if they have the same content words in another order"""


@dataclass(frozen=True, slots=True)
class Basis:
    """What an answer depends on besides its question: the journal's changes so far, and the session's turn."""

    changes: int
    turn: int


@dataclass(frozen=True, slots=True)
class PreparedAnswer:
    """An answer, the question that it was prepared for, and the first time at which a hit of it has ended."""

    request: FuseRequest
    outcome: Outcome
    basis: Basis
    ends: datetime | None


@dataclass(slots=True)
class _LastQuestion:
    request: FuseRequest
    at: float
    answer: PreparedAnswer | None = None


Prepare = Callable[[SessionKey, FuseRequest], Awaitable[PreparedAnswer | None]]


class PreparedAnswers:
    """The last question of each session, and the answer prepared for the next one. ``clock`` is in seconds."""

    def __init__(self, clock: Callable[[], float] = time.monotonic) -> None:
        self.clock = clock
        self._last: OrderedDict[SessionKey, _LastQuestion] = OrderedDict()
        self._waiting: OrderedDict[SessionKey, None] = OrderedDict()
        self._worker: asyncio.Task[None] | None = None

    def asked(self, key: SessionKey, request: FuseRequest) -> None:
        """Note the last question of a session; an answer that was prepared before it is out of date."""
        asker = None if request.asker is None else replace(request.asker, new_context=False)
        self._last[key] = _LastQuestion(replace(request, asker=asker), self.clock())
        self._last.move_to_end(key)
        while len(self._last) > MAX_SESSIONS or self._is_over(next(iter(self._last.values()))):
            self._last.popitem(last=False)

    def _is_over(self, last: _LastQuestion) -> bool:
        return self.clock() - last.at > KEPT_S

    def prepare(self, captured: Collection[tuple[str, str, str]], prepare: Prepare) -> None:
        """Prepare the next answers of sessions whose turns were captured, of those that asked lately; returns at once.

        ``captured`` has the tenant, user and session of each turn.
        """
        for key, last in self._last.items():
            if (key.tenant, key.user_id, key.session_id) in captured and not self._is_over(last):
                self._waiting[key] = None
                self._waiting.move_to_end(key)
        while len(self._waiting) > MAX_WAITING:
            self._waiting.popitem(last=False)
        if self._waiting and self._worker is None:
            self._worker = asyncio.create_task(self._work(prepare))

    async def _work(self, prepare: Prepare) -> None:
        try:
            while self._waiting:
                key, _ = self._waiting.popitem(last=False)
                last = self._last.get(key)
                if last is None:
                    continue
                try:
                    last.answer = await prepare(key, last.request)
                    last.at = self.clock()
                except (FusionError, TimeoutError) as error:
                    log.info("the next answer of a session was not prepared: %s", type(error).__name__)
        finally:
            self._worker = None

    async def take(
        self,
        key: SessionKey,
        request: FuseRequest,
        basis: Callable[[], Basis],
        now: datetime,
        embedder: Embedder | None,
    ) -> Outcome | None:
        """The prepared answer to a question of a session, if there is one that holds; it is used once."""
        last = self._last.get(key)
        if last is None or last.answer is None or self._is_over(last):
            return None
        answer = last.answer
        if replace(request, query=answer.request.query) != answer.request or (answer.ends and answer.ends <= now):
            return None
        if answer.basis != basis() or not await alike(answer.request.query, request.query, embedder):
            return None
        if answer.basis != basis():  # something changed while the questions were compared
            return None
        last.answer = None
        return answer.outcome

    async def settle(self) -> None:
        """Return once no answer is being prepared."""
        if self._worker is not None:
            await asyncio.wait({self._worker})

    async def close(self) -> None:
        """Stop; what is captured later prepares nothing."""
        self._last.clear()
        if self._worker is not None:
            self._worker.cancel()
            await asyncio.gather(self._worker, return_exceptions=True)


async def alike(one: str, other: str, embedder: Embedder | None) -> bool:
    """Whether two questions ask for the same: in the same content words, and if these moved, with close vectors."""
    same = asks_the_same(one, other)
    if same is not None or embedder is None:
        return bool(same)
    try:
        # One text a call: the embedder looks for several texts on the disk first, where questions never are.
        vectors = [(await embedder.embed([text], keep=False))[0] for text in (one, other)]
    except (FusionError, OSError, RuntimeError) as error:
        log.warning("two questions could not be compared: %s", type(error).__name__)
        return False
    return text_scale(embedder).of(float(vectors[0] @ vectors[1])) >= MIN_COSINE
