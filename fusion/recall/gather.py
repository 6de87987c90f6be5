"""Searches all backends at the same time; a failing backend costs only its own answer.

Each backend has its own deadline, breaker and bulkhead. A failure (it refuses, hangs, floods, raises, or sends invalid
hits) becomes the status of its `Answer`; only the caller's cancellation is raised. Answers are cut to the limit and
then sanitised, so that later stages can rely on every field.
"""

from __future__ import annotations

import asyncio
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, field, replace
from typing import Literal

from fusion.contract import NO_USER, Backend, Features, Hit, Query
from fusion.errors import (
    BackendTimeout,
    BackendUnreachable,
    FusionError,
    HttpStatus,
    InvalidAnswer,
    Overloaded,
    RateLimited,
    StoreBusy,
    Unauthorized,
)
from fusion.lib import trace
from fusion.lib.breaker import Breaker, Permit
from fusion.recall.sanitise import Sanitised, ValidatedHits, sanitised

Status = Literal[
    "ok",
    "empty",
    "skipped",  # it does not support the query: detail says which part
    "timeout",
    "unreachable",
    "http_error",
    "invalid",
    "unauthorized",
    "rate_limited",
    "open",  # its breaker is open, so it was not asked
    "overloaded",  # too many searches of it are running, so it was not asked
    "disabled",
]

DETAIL_CHARS = 256  # of an error's message
QUICK_REFUSAL_S = 0.1  # a connection refused within this is tried again once
BUSY_LOOP_LATE_S = 0.1  # a time-out that is so late says that this process is busy, not the backend
CANCEL_GRACE_S = 0.02  # time for a cancelled search to close its sockets


class Bulkhead:
    """Limits the concurrent searches of one backend; a further search is refused, not queued."""

    __slots__ = ("limit", "under_way")

    def __init__(self, limit: int = 32) -> None:
        self.limit, self.under_way = limit, 0

    @property
    def full(self) -> bool:
        return self.under_way >= self.limit


@dataclass(frozen=True, slots=True, eq=False)
class GuardedBackend:
    """A backend with its configured name and its guards. ``disabled`` is the reason why it is not asked."""

    name: str
    backend: Backend
    deadline_s: float = 1.0
    breaker: Breaker = field(default_factory=Breaker)
    bulkhead: Bulkhead = field(default_factory=Bulkhead)
    validated: ValidatedHits = field(default_factory=ValidatedHits)
    disabled: str | None = None
    broken: bool = False
    """it could not be opened, which is a failure, unlike a backend that is switched off"""
    fallback_for: tuple[str, ...] = ()
    """the backends that it replaces: if some of them are asked, it is asked only after all of these have failed"""

    @property
    def is_asked(self) -> bool:
        """Whether a search asks it, unless its breaker is open, and does not wait for others to fail."""
        return self.disabled is None and not self.broken and not self.fallback_for


@dataclass(frozen=True, slots=True)
class Answer:
    """One backend's answer: its status and its sanitised hits, best first, with distinct ids.

    ``dropped`` counts by reason: over_limit, malformed and duplicate items; bad_score; cut_text; and removed invisible
    characters. ``detail`` is for people and quotes no memory.
    """

    backend: str
    status: Status
    hits: tuple[Hit, ...] = ()
    took_ms: float = 0.0
    error_code: str | None = None
    detail: str = ""
    dropped: Mapping[str, int] = field(default_factory=dict)


Answered = Callable[[Answer], None]
"""is called with each answer as soon as it is there"""


def _nobody_waits(answer: Answer) -> None:
    """The `Answered` of a question whose answers nobody watches."""


async def gather(
    query: Query, backends: Sequence[GuardedBackend], deadline_s: float, answered: Answered = _nobody_waits
) -> tuple[Answer, ...]:
    """One answer for each of ``backends``, in their order, after at most ``deadline_s`` seconds.

    Cancelling it cancels every running search. A search that ignores its cancellation keeps its place in the bulkhead
    until it ends; its result is dropped.
    """
    if any(guarded.fallback_for for guarded in backends):
        return await _gather_with_fallbacks(query, backends, deadline_s, answered)
    refusals = [_refusal(query, guarded) for guarded in backends]
    asked = [guarded for guarded, refusal in zip(backends, refusals, strict=True) if refusal is None]
    begun = [
        refusal or _begin(query, guarded, min(guarded.deadline_s, deadline_s), asked)
        for guarded, refusal in zip(backends, refusals, strict=True)
    ]
    searches = [one for one in begun if isinstance(one, _Search)]
    for one in begun:
        if isinstance(one, _Search):
            one.answer.add_done_callback(lambda ended: None if ended.cancelled() else answered(ended.result()))
        else:
            answered(one)
    try:
        await asyncio.gather(*(search.answer for search in searches))
    except asyncio.CancelledError:
        await _call_off(searches)
        raise
    return tuple(one.answer.result() if isinstance(one, _Search) else one for one in begun)


PRIMARY_SHARE = 0.5
"""share of the time for a backend that has a fallback; the fallback gets the rest"""


async def _gather_with_fallbacks(
    query: Query, backends: Sequence[GuardedBackend], deadline_s: float, answered: Answered
) -> tuple[Answer, ...]:
    """As `gather`, but fallbacks wait for the backends that they replace. These must not form a cycle."""
    named = {guarded.name for guarded in backends}
    replaced = {name for guarded in backends for name in guarded.fallback_for}
    asked = [guarded for guarded in backends if _refusal(query, guarded) is None]
    until = asyncio.get_running_loop().time() + deadline_s
    answers: dict[str, asyncio.Task[Answer]] = {}

    async def answer(guarded: GuardedBackend) -> Answer:
        answered(found := await answer_of(guarded))
        return found

    async def answer_of(guarded: GuardedBackend) -> Answer:
        primaries = await asyncio.gather(*(answers[name] for name in guarded.fallback_for if name in named))
        if successful := [one.backend for one in primaries if one.status in ("ok", "empty")]:
            detail = f"it is the fallback for {', '.join(successful)}, which answered"
            return Answer(guarded.name, "skipped", detail=detail)
        left_s = until - asyncio.get_running_loop().time()
        budget_s = left_s * PRIMARY_SHARE if guarded.name in replaced else left_s
        return await _one(query, guarded, min(guarded.deadline_s, budget_s), asked)

    for guarded in backends:  # tasks start when this one waits: by then all exist
        answers[guarded.name] = asyncio.ensure_future(answer(guarded))
    try:
        return tuple(await asyncio.gather(*answers.values()))
    except asyncio.CancelledError:
        # They are cancelled as well, and call their searches off.
        await asyncio.wait(answers.values(), timeout=CANCEL_GRACE_S)
        raise


async def _one(query: Query, guarded: GuardedBackend, budget_s: float, asked: Sequence[GuardedBackend]) -> Answer:
    begun = _refusal(query, guarded) or _begin(query, guarded, budget_s, asked)
    if isinstance(begun, Answer):
        return begun
    try:
        return await begun.answer
    except asyncio.CancelledError:
        await _call_off([begun])
        raise


def _is_last(guarded: GuardedBackend, asked: Sequence[GuardedBackend]) -> bool:
    """Whether no other asked backend is healthy; then its breaker stays closed: any answer is better than none."""
    return not any(other.breaker.healthy for other in asked if other is not guarded)


def _refusal(query: Query, guarded: GuardedBackend) -> Answer | None:
    """The answer of a backend that is not asked; ``None`` for one that is."""
    if guarded.broken:
        return Answer(guarded.name, "unreachable", error_code="not_opened", detail=guarded.disabled or "")
    if guarded.disabled is not None:
        return Answer(guarded.name, "disabled", detail=guarded.disabled)
    try:
        reason = unable(query, guarded.backend.features)
    except Exception as error:  # noqa: BLE001  # a faulty adapter must not affect the others
        return Answer(guarded.name, "invalid", error_code=type(error).__name__, detail=_where(error))
    return Answer(guarded.name, "skipped", detail=reason) if reason else None


def unable(query: Query, features: Features) -> str | None:
    """The reason why a backend with these features does not support the query; ``None`` if it does."""
    if not features.tenants and query.scope.tenant != features.tenant:
        return "it serves another tenant"
    named = query.scope.named()
    for dimension, value in named.items():
        if dimension in features.bound:
            if features.bound[dimension] != value:
                return f"it is bound to another {dimension}"
        elif dimension not in features.filters:
            return f"it cannot filter by {dimension}"
        elif value == NO_USER and not features.no_user:
            return "it cannot search the memories without a user alone"
    for dimension in features.bound:
        if dimension not in named:
            return f"it is bound to one {dimension}, and the query names none"
    if query.as_of is not None and not features.as_of:
        return "it cannot say what was true at another time"
    return None


def _begin(query: Query, guarded: GuardedBackend, budget_s: float, asked: Sequence[GuardedBackend]) -> Answer | _Search:
    """A running search, or the answer of a backend that cannot be asked now."""
    if budget_s <= 0:
        return Answer(guarded.name, "timeout", detail="no time was left to ask it")
    if guarded.bulkhead.full:
        return Answer(guarded.name, "overloaded", detail=f"{guarded.bulkhead.limit} searches of it are under way")
    permit = guarded.breaker.admit()
    if permit is None:
        wait_s = guarded.breaker.wait_s
        return Answer(guarded.name, guarded.breaker.reason, detail=f"it is left alone for another {wait_s:.0f} s")
    return _Search(query, guarded, budget_s, permit, asked)


class _Search:
    """One running search: a task that asks the backend, and a timer that cancels it at the end of its budget.

    ``answer`` is always set: by the task, or `CANCEL_GRACE_S` after its cancellation if the task ignores that.
    """

    def __init__(
        self, query: Query, guarded: GuardedBackend, budget_s: float, permit: Permit, asked: Sequence[GuardedBackend]
    ) -> None:
        self._loop = asyncio.get_running_loop()
        self._query, self._guarded, self._budget_s = query, guarded, budget_s
        self._permit, self._asked = permit, asked
        self._began = self._loop.time()
        self._late = self._busy = False
        self.answer: asyncio.Future[Answer] = self._loop.create_future()
        guarded.bulkhead.under_way += 1
        self.task = self._loop.create_task(self._ask())
        self.task.add_done_callback(self._ended)
        self._timer = self._loop.call_later(budget_s, self._cut)

    async def _ask(self) -> Sanitised:
        name = self._guarded.name
        with trace.span(f"search {name}", "client", {"fusion.backend": name}) as span:
            found = await self._searched()
            span.set_attribute("fusion.hits", len(found[0]))
            return found

    async def _searched(self) -> Sanitised:
        # Called inside the task, so that a search that raises before its first await, or is no coroutine, fails there.
        query, backend, permit = self._query, self._guarded.backend, self._permit
        if query.deadline_s != self._budget_s:
            query = replace(query, deadline_s=self._budget_s)
        try:
            return sanitised(await backend.search(query), query.limit, self._guarded.validated)
        except BackendUnreachable:
            # A refused connection is tried once more: reading is idempotent.
            spent_s = self._loop.time() - self._began
            if self._late or permit.probe or spent_s > QUICK_REFUSAL_S or spent_s > self._budget_s / 2:
                raise
        query = replace(query, deadline_s=self._budget_s - spent_s)
        return sanitised(await backend.search(query), query.limit, self._guarded.validated)

    def _cut(self) -> None:
        """Cancels the search at the end of its budget, and fails it after a short grace."""
        self._late = True
        self._busy = self._overdue_s() > BUSY_LOOP_LATE_S
        self._timer = self._loop.call_later(CANCEL_GRACE_S, self._fail, self._too_late())
        self.task.cancel()

    def _overdue_s(self) -> float:
        return self._loop.time() - self._began - self._budget_s

    def _too_late(self) -> BackendTimeout:
        return BackendTimeout(f"no answer within {_ms(self._budget_s):.0f} ms")

    def _ended(self, task: asyncio.Task[Sanitised]) -> None:
        """Sets the answer when the task ends, in time or later; always retrieves its exception."""
        self._timer.cancel()
        self._guarded.bulkhead.under_way -= 1
        error = None if task.cancelled() else task.exception()
        if error is not None and not isinstance(error, Exception):
            self.answer.cancel()  # the interpreter is stopping
        elif self._late:
            self._fail(self._too_late())
        elif error is not None:
            self._fail(error)
        elif task.cancelled():
            self._fail(InvalidAnswer("it cancelled its own search"))
        elif not self.answer.done():
            hits, dropped = task.result()
            self._permit.succeeded()
            took_ms = _ms(self._loop.time() - self._began)
            self.answer.set_result(
                Answer(self._guarded.name, "ok" if hits else "empty", hits, took_ms, dropped=dropped)
            )

    def _fail(self, error: Exception) -> None:
        if self.answer.done():
            return
        status, code, detail = _fault(error)
        busy = self._busy or (not self._late and self._overdue_s() > BUSY_LOOP_LATE_S)
        fair = self._budget_s >= self._guarded.deadline_s / 2 and not busy
        _report(self._permit, error, status, fair=fair, is_last=lambda: _is_last(self._guarded, self._asked))
        took_ms = _ms(self._loop.time() - self._began)
        self.answer.set_result(Answer(self._guarded.name, status, (), took_ms, code, detail))

    def call_off(self) -> None:
        """Cancels the search because its request was cancelled, which says nothing about the backend."""
        self.answer.cancel()
        self._permit.abandoned()
        self._timer.cancel()
        self.task.cancel()


async def _call_off(searches: Sequence[_Search]) -> None:
    """Cancels running searches and waits a little for them to close their sockets."""
    for search in searches:
        search.call_off()
    if running := [search.task for search in searches if not search.task.done()]:
        await asyncio.wait(running, timeout=CANCEL_GRACE_S)


def _ms(seconds: float) -> float:
    return seconds * 1000


def _fault(error: Exception) -> tuple[Status, str, str]:
    """The status, code and detail of a failure; the detail quotes no memory."""
    code = type(error).__name__
    status: Status
    match error:
        case BackendTimeout() | TimeoutError():
            status = "timeout"
        case BackendUnreachable() | ConnectionError():
            status = "unreachable"
        case HttpStatus():
            status, code = "http_error", f"http_{error.status}"
        case Unauthorized():
            status = "unauthorized"
        case RateLimited():
            status = "rate_limited"
        case Overloaded() | StoreBusy():
            status = "overloaded"
        case _:
            status = "invalid"
    # The gateway's own errors are written for users; messages of other exceptions may quote a memory.
    return status, code, str(error)[:DETAIL_CHARS] if isinstance(error, FusionError) else _where(error)


def _where(error: Exception) -> str:
    """The module and line where an adapter failed, for its author."""
    trace = error.__traceback__
    while trace is not None and trace.tb_next is not None:
        trace = trace.tb_next
    if trace is None:
        return "the adapter failed"
    module = trace.tb_frame.f_globals.get("__name__", "?")
    return f"the adapter failed in {module}, line {trace.tb_lineno}"


def _report(permit: Permit, error: Exception, status: Status, *, fair: bool, is_last: Callable[[], bool]) -> None:
    """Reports a failure to the breaker.

    A timeout counts only if it was ``fair``: the backend had at least half of its own deadline, and this process was
    not too busy to receive the answer.
    """
    if isinstance(error, Unauthorized):
        permit.unauthorized()
    elif isinstance(error, RateLimited):
        permit.rate_limited(error.retry_after_s)
    elif status == "overloaded" or (status == "timeout" and not fair):
        permit.abandoned()
    elif status == "timeout":
        permit.late(last=is_last())
    else:
        retry_after_s = error.retry_after_s if isinstance(error, HttpStatus) else None
        permit.failed(retry_after_s=retry_after_s, last=is_last())
