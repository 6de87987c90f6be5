"""Searches all backends at the same time; a failing backend costs only its own answer.

Each backend has its own deadline, breaker and bulkhead. A failure (it refuses, hangs, floods, raises, or sends invalid
hits) becomes the status of its `Answer`; only the caller's cancellation is raised. Answers are cut to the limit and
then sanitised, so that later stages can rely on every field.
"""

from __future__ import annotations

import asyncio
from collections import Counter
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, field, fields, replace
from datetime import datetime
from functools import lru_cache
from itertools import islice
from math import isfinite
from operator import attrgetter, is_
from typing import Any, Literal, SupportsFloat

from fusion.contract import KINDS, Backend, Features, Hit, Moment, PartialHits, Place, Query, Scope
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
from fusion.lib.bm25 import counted
from fusion.lib.breaker import Breaker, Permit
from fusion.lib.clean import clean
from fusion.lib.words import spoken
from fusion.recall.candidate_pairs import sketch
from fusion.recall.filter import TEXT_CHARS

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

_Sanitised = tuple[tuple[Hit, ...], Mapping[str, int]]  # the hits, and counts of dropped items by reason

NAME_CHARS = 256  # of a speaker or a step of a path
ID_CHARS = 1_024  # of an id or a document; ids may be paths
QUICK_REFUSAL_S = 0.1  # a connection refused within this is tried again once
BUSY_LOOP_LATE_S = (
    0.1  # a time-out that comes so much later than it was due says that this process is busy, not the backend
)
CANCEL_GRACE_S = 0.02  # what a cancelled search has for closing its sockets before nobody waits for it any more


class Bulkhead:
    """Limits the concurrent searches of one backend; a further search is refused, not queued."""

    __slots__ = ("limit", "under_way")

    def __init__(self, limit: int = 32) -> None:
        self.limit, self.under_way = limit, 0

    @property
    def full(self) -> bool:
        return self.under_way >= self.limit


_QUESTION_INDEPENDENT = attrgetter(
    *(one.name for one in fields(Hit) if one.name not in ("score", "path", "graph_score"))
)
"""the fields of a hit that do not depend on the query"""


class ValidatedHits:
    """The hits of one backend that were valid and clean, and whose words are counted.

    Queries return the same memories again and again, mostly as the same immutable objects, which need no second check.
    """

    __slots__ = ("_parts",)

    MAX_HITS = 16_384
    """hits that are kept; then the cache is emptied"""

    def __init__(self) -> None:
        self._parts: dict[str, tuple[object, ...]] = {}

    def has(self, hit: Hit) -> bool:
        parts = self._parts.get(hit.native_id)
        return parts is not None and all(map(is_, parts, _QUESTION_INDEPENDENT(hit)))

    def add(self, hit: Hit) -> None:
        if len(self._parts) >= self.MAX_HITS:
            self._parts.clear()
        self._parts[hit.native_id] = _QUESTION_INDEPENDENT(hit)


@dataclass(frozen=True, slots=True, eq=False)
class Source:
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
    """the sources that it replaces: if some of them are asked, it is asked only after all of these have failed"""


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


async def gather(query: Query, sources: Sequence[Source], deadline_s: float) -> tuple[Answer, ...]:
    """One answer for each of ``sources``, in their order, after at most ``deadline_s`` seconds.

    Cancelling it cancels every running search. A search that ignores its cancellation keeps its place in the bulkhead
    until it ends; its result is dropped.
    """
    if any(source.fallback_for for source in sources):
        return await _gather_with_fallbacks(query, sources, deadline_s)
    refusals = [_refusal(query, source) for source in sources]
    asked = [source for source, refusal in zip(sources, refusals, strict=True) if refusal is None]
    begun = [
        refusal or _begin(query, source, min(source.deadline_s, deadline_s), asked)
        for source, refusal in zip(sources, refusals, strict=True)
    ]
    searches = [one for one in begun if isinstance(one, _Search)]
    try:
        await asyncio.gather(*(search.answer for search in searches))
    except asyncio.CancelledError:
        await _call_off(searches)
        raise
    return tuple(one.answer.result() if isinstance(one, _Search) else one for one in begun)


PRIMARY_SHARE = 0.5
"""share of the time for a source that has a fallback; the fallback gets the rest"""


async def _gather_with_fallbacks(query: Query, sources: Sequence[Source], deadline_s: float) -> tuple[Answer, ...]:
    """As `gather`, but fallbacks wait for the sources they replace. These must not form a cycle."""
    named = {source.name for source in sources}
    stood_in_for = {name for source in sources for name in source.fallback_for}
    asked = [source for source in sources if _refusal(query, source) is None]
    until = asyncio.get_running_loop().time() + deadline_s
    answers: dict[str, asyncio.Task[Answer]] = {}

    async def answer(source: Source) -> Answer:
        found = await asyncio.gather(*(answers[name] for name in source.fallback_for if name in named))
        if answered := [one.backend for one in found if one.status in ("ok", "empty")]:
            return Answer(source.name, "skipped", detail=f"it stands in for {', '.join(answered)}, which answered")
        left_s = until - asyncio.get_running_loop().time()
        budget_s = left_s * PRIMARY_SHARE if source.name in stood_in_for else left_s
        return await _one(query, source, min(source.deadline_s, budget_s), asked)

    for source in sources:  # tasks start when this one waits: by then all exist
        answers[source.name] = asyncio.ensure_future(answer(source))
    try:
        return tuple(await asyncio.gather(*answers.values()))
    except asyncio.CancelledError:
        await asyncio.wait(
            answers.values(), timeout=CANCEL_GRACE_S
        )  # they are cancelled as well, and call their searches off
        raise


async def _one(query: Query, source: Source, budget_s: float, asked: Sequence[Source]) -> Answer:
    begun = _refusal(query, source) or _begin(query, source, budget_s, asked)
    if isinstance(begun, Answer):
        return begun
    try:
        return await begun.answer
    except asyncio.CancelledError:
        await _call_off([begun])
        raise


def _is_last(source: Source, asked: Sequence[Source]) -> bool:
    """Whether no other asked source is healthy: then its breaker stays closed, since any answer is better than none."""
    return not any(other.breaker.healthy for other in asked if other is not source)


def _refusal(query: Query, source: Source) -> Answer | None:
    """The answer of a source that is not asked; ``None`` for one that is."""
    if source.broken:
        return Answer(source.name, "unreachable", error_code="not_opened", detail=source.disabled or "")
    if source.disabled is not None:
        return Answer(source.name, "disabled", detail=source.disabled)
    try:
        reason = unable(query, source.backend.features)
    except Exception as error:  # noqa: BLE001  # a faulty adapter must not affect the others
        return Answer(source.name, "invalid", error_code=type(error).__name__, detail=_where(error))
    return Answer(source.name, "skipped", detail=reason) if reason else None


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
    for dimension in features.bound:
        if dimension not in named:
            return f"it is bound to one {dimension}, and the query names none"
    if query.as_of is not None and not features.as_of:
        return "it cannot say what was true at another time"
    return None


def _begin(query: Query, source: Source, budget_s: float, asked: Sequence[Source]) -> Answer | _Search:
    """A running search, or the answer of a source that cannot be asked now."""
    if budget_s <= 0:
        return Answer(source.name, "timeout", detail="no time was left to ask it")
    if source.bulkhead.full:
        return Answer(source.name, "overloaded", detail=f"{source.bulkhead.limit} searches of it are under way")
    permit = source.breaker.admit()
    if permit is None:
        wait_s = source.breaker.wait_s
        return Answer(source.name, source.breaker.reason, detail=f"it is left alone for another {wait_s:.0f} s")
    return _Search(query, source, budget_s, permit, asked)


class _Search:
    """One running search: a task that asks the backend, and a timer that cancels it at the end of its budget.

    ``answer`` is always set: by the task, or `CANCEL_GRACE_S` after its cancellation if the task ignores that.
    """

    def __init__(self, query: Query, source: Source, budget_s: float, permit: Permit, asked: Sequence[Source]) -> None:
        self._loop = asyncio.get_running_loop()
        self._query, self._source, self._budget_s = query, source, budget_s
        self._permit, self._asked = permit, asked
        self._began = self._loop.time()
        self._late = self._busy = False
        self.answer: asyncio.Future[Answer] = self._loop.create_future()
        source.bulkhead.under_way += 1
        self.task = self._loop.create_task(self._ask())
        self.task.add_done_callback(self._ended)
        self._timer = self._loop.call_later(budget_s, self._cut)

    async def _ask(self) -> _Sanitised:
        # Called inside the task, so that a search that raises before its first await, or is no coroutine, fails there.
        query, backend, permit = self._query, self._source.backend, self._permit
        if query.deadline_s != self._budget_s:
            query = replace(query, deadline_s=self._budget_s)
        try:
            return _sanitised(await backend.search(query), query.limit, self._source.validated)
        except BackendUnreachable:
            # A refused connection is tried once more: reading is idempotent.
            spent_s = self._loop.time() - self._began
            if self._late or permit.probe or spent_s > QUICK_REFUSAL_S or spent_s > self._budget_s / 2:
                raise
        query = replace(query, deadline_s=self._budget_s - spent_s)
        return _sanitised(await backend.search(query), query.limit, self._source.validated)

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

    def _ended(self, task: asyncio.Task[_Sanitised]) -> None:
        """Sets the answer when the task ends, in time or later; always retrieves its exception."""
        self._timer.cancel()
        self._source.bulkhead.under_way -= 1
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
            self.answer.set_result(Answer(self._source.name, "ok" if hits else "empty", hits, took_ms, dropped=dropped))

    def _fail(self, error: Exception) -> None:
        if self.answer.done():
            return
        status, code, detail = _fault(error)
        busy = self._busy or (not self._late and self._overdue_s() > BUSY_LOOP_LATE_S)
        fair = self._budget_s >= self._source.deadline_s / 2 and not busy
        _report(self._permit, error, status, fair=fair, is_last=lambda: _is_last(self._source, self._asked))
        took_ms = _ms(self._loop.time() - self._began)
        self.answer.set_result(Answer(self._source.name, status, (), took_ms, code, detail))

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
    return status, code, str(error)[:NAME_CHARS] if isinstance(error, FusionError) else _where(error)


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


def _sanitised(found: Sequence[Hit], limit: int, validated: ValidatedHits) -> _Sanitised:
    """At most ``limit`` hits that conform to the contract, and the counts of dropped items by reason."""
    if not isinstance(found, (list, tuple)):
        if isinstance(found, (str, bytes, Mapping)) or not hasattr(found, "__iter__"):
            raise InvalidAnswer("it answered with something else than hits")
        found = list(islice(found, limit + 1))
    counts: Counter[str] = Counter()
    if isinstance(found, PartialHits):
        counts["malformed"] = found.dropped
    if len(found) > limit:
        counts["over_limit"] = len(found) - limit
    kept: dict[str, Hit] = {}
    for hit in found[:limit]:
        sanitised = _sanitised_hit(hit, counts, validated)
        if sanitised is None:
            counts["malformed"] += 1
        elif sanitised.native_id in kept:
            counts["duplicate"] += 1
        else:
            kept[sanitised.native_id] = sanitised
    if found and not kept:
        raise InvalidAnswer(f"none of its {len(found)} items was a hit")
    return tuple(kept.values()), {reason: n for reason, n in counts.items() if n}


_KINDS = frozenset(KINDS)
_TRUST = frozenset({"trusted", "unknown", "untrusted", "quarantined"})
_ORIGINS = frozenset({"owner", "agent", "tool", "import", "system"})


_cleaned = lru_cache(maxsize=8192)(clean)
"""cached: queries return the same memories again and again"""


def _sanitised_hit(hit: object, counts: Counter[str], validated: ValidatedHits) -> Hit | None:
    """The hit with clean texts and a finite score or none; ``None`` if it does not conform to the contract."""
    try:
        if not isinstance(hit, Hit) or not isinstance(hit.path, (tuple, list)):
            return None
        changes: dict[str, Any] = {}
        taken = 0
        if not validated.has(hit):
            if not _well_formed(hit):
                return None
            taken = _clean_words(hit, counts, changes)
            text = changes.get("text", hit.text)
            if not text or text.isspace():
                return None
            if not changes:
                validated.add(hit)
            # Counted now, while other backends are still searching; later stages find the result in the cache.
            said = spoken(text, changes.get("speaker", hit.speaker))
            sketch(said)
            counted(said)
        score = hit.score
        if score is not None and not (type(score) is float and isfinite(score)):
            changes["score"] = _number(score)
            if changes["score"] is None:
                counts["bad_score"] += 1
        if hit.graph_score is not None and not (type(hit.graph_score) is float and 0.0 <= hit.graph_score <= 1.0):
            changes["graph_score"] = None
            counts["bad_score"] += 1
        if hit.path:
            steps = [_cleaned(step[:NAME_CHARS]) for step in hit.path]
            if any(step != old for (step, _), old in zip(steps, hit.path, strict=True)):
                taken += sum(n for _, n in steps)
                changes["path"] = tuple(step for step, _ in steps)
        if taken:
            counts["invisible"] += taken
        return replace(hit, **changes) if changes else hit
    except (TypeError, ValueError, AttributeError, OverflowError):
        return None


def _clean_words(hit: Hit, counts: Counter[str], changes: dict[str, Any]) -> int:
    """Puts the cleaned text and names of a hit into ``changes``; returns the number of removed characters."""
    if len(hit.text) > TEXT_CHARS:
        counts["cut_text"] += 1
    text, taken = _cleaned(hit.text[:TEXT_CHARS])
    if text != hit.text:
        changes["text"] = text
    for name in ("speaker", "raw_kind"):
        if (value := getattr(hit, name)) is not None:
            taken += _name(name, value, changes)
    return taken


def _name(name: str, value: str, changes: dict[str, Any]) -> int:
    """Puts one cleaned short field, on one line, into ``changes``; returns the number of removed characters."""
    if value.isprintable() and value.isascii() and len(value) <= NAME_CHARS:
        return 0
    cleaned, taken = clean(value[:NAME_CHARS])
    cleaned = " ".join(cleaned.split())
    if cleaned != value:
        changes[name] = cleaned or None
    return taken


def _number(score: object) -> float | None:
    if isinstance(score, (str, bytes, bool)) or not isinstance(score, SupportsFloat):
        return None
    try:
        number = float(score)  # an int, or numpy's
    except OverflowError:
        return None
    return number if isfinite(number) else None


def _well_formed(hit: Any) -> bool:
    """Whether every field has the type and range of the contract. Ids are never cleaned: they identify."""
    return (
        isinstance(hit.text, str)
        and _is_id(hit.native_id)
        and (hit.event_id is None or _is_id(hit.event_id))
        and isinstance(hit.scope, Scope)
        and hit.kind in _KINDS
        and hit.trust in _TRUST
        and hit.origin in _ORIGINS
        and (hit.at is None or (isinstance(hit.at, Moment) and _is_time(hit.at.utc)))
        and (hit.recorded_at is None or _is_time(hit.recorded_at))
        and (hit.valid_from is None or _is_time(hit.valid_from))
        and (hit.valid_to is None or _is_time(hit.valid_to))
        and (hit.place is None or _is_place(hit.place))
        and (hit.stated_by is None or _is_id(hit.stated_by))
        and isinstance(hit.derived_from, (tuple, list))
        and all(map(_is_id, hit.derived_from))
    )


def _is_id(value: object) -> bool:
    """Whether a value is a string of one line without invisible characters, so that it can be cited."""
    if not isinstance(value, str) or not 0 < len(value) <= ID_CHARS:
        return False
    return (value.isascii() and value.isprintable()) or (
        "\n" not in value and "\t" not in value and not clean(value)[1]
    )


def _is_time(value: object) -> bool:
    """Whether a value is a time with a zone; others cannot be compared with it."""
    return isinstance(value, datetime) and value.tzinfo is not None


def _is_place(place: Any) -> bool:
    return (
        isinstance(place, Place)
        and _is_id(place.document)
        and type(place.start) is int
        and type(place.end) is int
        and 0 <= place.start <= place.end
    )
