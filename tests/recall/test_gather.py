"""Gathering: every backend under its own deadline, breaker and bulkhead; whatever one does costs its own answer only.

Time is virtual here: where a test says that something took 0.2 s, it took no time, and exactly 0.2 s.
"""

from __future__ import annotations

import asyncio
import math
from collections.abc import Awaitable, Callable, Sequence
from dataclasses import fields, replace
from datetime import UTC, datetime
from typing import Any, Self

import orjson
import pytest
from hypothesis import example, given
from hypothesis import strategies as st

from fusion.contract import DIMENSIONS, Fact, Features, Hit, Moment, Opening, PartialHits, Place, Query, Scope
from fusion.errors import BackendUnreachable, HttpStatus, InvalidAnswer, Overloaded, RateLimited, Unauthorized
from fusion.lib.breaker import Breaker
from fusion.lib.text_words import text_words
from fusion.recall.filter import TEXT_CHARS
from fusion.recall.gather import CANCEL_GRACE_S, Answer, Bulkhead, GuardedBackend, gather, unable
from tests.backend_contract import NOW, make_query
from tests.virtual_time import VirtualTime, run

EVERYTHING = Features(filters=frozenset(DIMENSIONS), tenants=True, as_of=True)
QUERY = make_query("tea?")


class Does:
    """A backend whose ``search`` is scripted."""

    def __init__(self, search: Callable[[Query], Awaitable[Any]] | None = None, features: Any = EVERYTHING) -> None:
        self.features = features
        self.calls: list[Query] = []
        self._search = search

    @classmethod
    async def open(cls, opening: Opening) -> Self:
        return cls()

    async def search(self, query: Query) -> Sequence[Hit]:
        self.calls.append(query)
        if self._search is None:
            return [Hit("1", "Ada likes tea.")]
        found: Sequence[Hit] = await self._search(query)
        return found

    async def close(self) -> None:
        """Nothing to release."""


def says(*hits: Any) -> Does:
    async def search(query: Query) -> Sequence[Hit]:
        return list(hits)

    return Does(search)


def raises(*errors: BaseException) -> Does:
    """Raises the errors one after the other, then answers."""
    left = list(errors)

    async def search(query: Query) -> Sequence[Hit]:
        if left:
            raise left.pop(0)
        return [Hit("1", "Ada likes tea.")]

    return Does(search)


def always(error: BaseException) -> Does:
    async def search(query: Query) -> Sequence[Hit]:
        raise error

    return Does(search)


def slow(seconds: float) -> Does:
    async def search(query: Query) -> Sequence[Hit]:
        await asyncio.sleep(seconds)
        return [Hit("late", "too late?")]

    return Does(search)


def one(backend: Any, within_s: float = 10.0, query: Query = QUERY, **guarded: Any) -> Answer:
    """The answer of a lone backend."""
    return run(gather(query, [GuardedBackend("one", backend, **guarded)], within_s))[0]


# Deadlines


def test_answers_come_in_the_order_of_the_sources() -> None:
    """Whichever answers first: the order is the caller's, and the time that of the slowest."""

    async def work() -> None:
        began = asyncio.get_running_loop().time()
        backends = [
            GuardedBackend("slow", slow(0.3)),
            GuardedBackend("quick", says()),
            GuardedBackend("middle", slow(0.1)),
        ]
        answers = await gather(QUERY, backends, 10)
        assert [(a.backend, a.status) for a in answers] == [("slow", "ok"), ("quick", "empty"), ("middle", "ok")]
        assert [round(a.took_ms) for a in answers] == [300, 0, 100]
        assert asyncio.get_running_loop().time() - began == pytest.approx(0.3)

    run(work())


@pytest.mark.feature("the words of early answers are counted while slower ones are awaited")
def test_gather_sanitises_answers_while_others_are_searching() -> None:
    """The words of the quick one's memory are counted before the slow one answers: they are only looked up then."""
    text = "a memory that no other test has: quinces ripen in October"
    counts: list[int] = []

    async def looks(query: Query) -> Sequence[Hit]:
        await asyncio.sleep(0.1)
        before = text_words.cache_info().misses
        text_words(text)
        counts.append(text_words.cache_info().misses - before)
        return []

    run(gather(QUERY, [GuardedBackend("slow", Does(looks)), GuardedBackend("quick", says(Hit("1", text)))], 10))
    assert counts == [0]


def test_a_slow_one_is_cut_at_its_own_deadline() -> None:
    """0.2 s of its own, though the request has 10 s; the others keep what they found."""

    async def work() -> None:
        loop = asyncio.get_running_loop()
        backends = [GuardedBackend("hung", slow(1e6), 0.2), GuardedBackend("well", says(Hit("1", "tea")))]
        hung, well = await gather(QUERY, backends, 10)
        assert (hung.status, hung.hits, round(hung.took_ms)) == ("timeout", (), 200)
        assert [hit.text for hit in well.hits] == ["tea"]
        assert loop.time() == pytest.approx(0.2)

    run(work())


def test_the_request_deadline_bounds_all() -> None:
    """The earlier deadline applies: a request's 0.1 s cut a backend with 5 s, and the backend gets the shorter time."""
    backend = slow(1e6)
    answer = one(backend, 0.1, deadline_s=5.0)
    assert (answer.status, round(answer.took_ms)) == ("timeout", 100)
    assert backend.calls[0].deadline_s == 0.1
    assert one(says(), 0.0).status == "timeout"


def test_a_late_answer_is_dropped_for_good() -> None:
    """A search that ignores its cancellation is left behind: it holds its place in the bulkhead, delays nobody, and
    what it finds at last is in no answer, neither of its own request nor of a later one."""

    async def work() -> None:
        loop = asyncio.get_running_loop()
        free = asyncio.Event()

        async def stubborn(query: Query) -> Sequence[Hit]:
            if query.text != "first":
                return [Hit("right", query.text)]
            while not free.is_set():
                try:
                    await free.wait()
                except asyncio.CancelledError:
                    continue
            return [Hit("late", "first")]

        guarded = GuardedBackend("stubborn", Does(stubborn), 0.2, bulkhead=Bulkhead(1))
        (answer,) = await gather(replace(QUERY, text="first"), [guarded], 10)
        assert (answer.status, answer.hits) == ("timeout", ())
        assert loop.time() == pytest.approx(0.2 + CANCEL_GRACE_S)
        assert (await gather(QUERY, [guarded], 10))[0].status == "overloaded"
        free.set()
        await asyncio.sleep(0)
        await asyncio.sleep(0)
        (answer,) = await gather(replace(QUERY, text="second"), [guarded], 10)
        assert [hit.text for hit in answer.hits] == ["second"]

    run(work())


def test_cancelling_cancels_every_search() -> None:
    """The client left: CancelledError comes out, no task is left, and no breaker counts it."""

    async def work() -> None:
        backends = [GuardedBackend(str(n), slow(1e6), 1e6, Breaker(failures=1)) for n in range(4)]
        request = asyncio.ensure_future(gather(QUERY, backends, 1e6))
        await asyncio.sleep(1)
        assert sum(guarded.bulkhead.under_way for guarded in backends) == 4
        request.cancel()
        with pytest.raises(asyncio.CancelledError):
            await request
        assert sum(guarded.bulkhead.under_way for guarded in backends) == 0
        assert all(guarded.breaker.healthy for guarded in backends)

    run(work())


# What a backend may raise


@pytest.mark.parametrize(
    ("error", "status", "code"),
    [
        (ValueError("canary"), "invalid", "ValueError"),
        (KeyError("canary"), "invalid", "KeyError"),
        (TypeError("canary"), "invalid", "TypeError"),
        (RecursionError("canary"), "invalid", "RecursionError"),
        (MemoryError("canary"), "invalid", "MemoryError"),
        (UnicodeDecodeError("utf-8", b"canary", 0, 1, "canary"), "invalid", "UnicodeDecodeError"),
        (ExceptionGroup("canary", [ValueError("canary")]), "invalid", "ExceptionGroup"),
        (asyncio.CancelledError("canary"), "invalid", "InvalidAnswer"),
        (StopIteration("canary"), "invalid", "RuntimeError"),
        (OSError("canary"), "invalid", "OSError"),
        (ConnectionResetError("canary"), "unreachable", "ConnectionResetError"),
        (TimeoutError("canary"), "timeout", "TimeoutError"),
        (BackendUnreachable("nobody there"), "unreachable", "BackendUnreachable"),
        (InvalidAnswer("nonsense"), "invalid", "InvalidAnswer"),
        (HttpStatus("it answered 502", 502), "http_error", "http_502"),
        (Unauthorized("no"), "unauthorized", "Unauthorized"),
        (RateLimited("wait", 3), "rate_limited", "RateLimited"),
        (Overloaded("busy"), "overloaded", "Overloaded"),
    ],
    ids=lambda value: type(value).__name__ if isinstance(value, BaseException) else None,
)
def test_any_error_costs_only_its_own_answer(error: BaseException, status: str, code: str) -> None:
    """Named by status and type; what a foreign error says may be a memory, so it is not repeated."""
    bad, good = run(
        gather(QUERY, [GuardedBackend("bad", always(error)), GuardedBackend("good", says(Hit("1", "tea")))], 10)
    )
    assert (bad.status, bad.error_code, bad.hits) == (status, code, ())
    assert "canary" not in str(bad)
    assert (good.status, len(good.hits)) == ("ok", 1)


def test_gather_reports_a_backend_that_is_none() -> None:
    """An adapter with a search that is no coroutine, or features that are none, fails for itself."""

    class Wrong(Does):
        def search(self, query: Query) -> Any:
            return [Hit("1", "tea")]

    assert one(Wrong()).status == "invalid"
    assert one(Does(features=None)).status == "invalid"
    assert one(object()).error_code == "AttributeError"


@pytest.mark.parametrize("reply", [None, 7, "hits", b"hits", {"hits": []}, [None], ["x", 5, {}], object()])
def test_gather_reports_a_reply_that_is_no_list_of_hits(reply: object) -> None:
    """Something else than hits is an invalid answer."""

    async def search(query: Query) -> object:
        return reply

    assert one(Does(search)).status == "invalid"


# Skipping


@pytest.mark.parametrize(
    ("features", "scope", "reason"),
    [
        (Features(), Scope(), None),
        (Features(), Scope(tenant="blue"), "it serves another tenant"),
        (Features(tenant="blue"), Scope(tenant="blue"), None),
        (Features(tenants=True), Scope(tenant="blue"), None),
        (Features(), Scope(user_id="ada"), "it cannot filter by user_id"),
        (Features(filters=frozenset({"user_id"})), Scope(user_id="ada"), None),
        (Features(filters=frozenset({"user_id"})), Scope(session_id="s"), "it cannot filter by session_id"),
        (Features(bound={"user_id": "ada"}), Scope(user_id="ada"), None),
        (Features(bound={"user_id": "ada"}), Scope(user_id="ben"), "it is bound to another user_id"),
        (Features(bound={"user_id": "ada"}), Scope(), "it is bound to one user_id, and the query names none"),
        (Features(), Scope(project="p", audience="private"), None),
    ],
)
def test_gather_skips_a_backend_that_does_not_support_the_query(
    features: Features, scope: Scope, reason: str | None
) -> None:
    """A condition that a backend cannot honour skips it, with that reason, and it is not asked."""
    backend = Does(features=features)
    answer = one(backend, query=replace(QUERY, scope=scope))
    assert (answer.status, answer.detail) == (("skipped", reason) if reason else ("ok", ""))
    assert len(backend.calls) == (0 if reason else 1)


def test_another_time_needs_a_backend_that_knows_it() -> None:
    """``as_of`` is asked only of those that can say what was true then; a disabled one is not asked at all."""
    then = replace(QUERY, as_of=NOW)
    assert unable(then, Features()) == "it cannot say what was true at another time"
    assert unable(then, Features(as_of=True)) is None
    answer = one(says(), disabled="its file is damaged")
    assert (answer.status, answer.detail) == ("disabled", "its file is damaged")


# What guards a backend


def test_a_full_bulkhead_refuses_at_once() -> None:
    """The third of three searches where two may be under way is overloaded, without waiting; places come free."""

    async def work() -> None:
        guarded = GuardedBackend("small", slow(0.5), bulkhead=Bulkhead(2))
        answers = await asyncio.gather(*(gather(QUERY, [guarded], 10) for _ in range(3)))
        assert sorted((a.status, round(a.took_ms)) for (a,) in answers) == [
            ("ok", 500),
            ("ok", 500),
            ("overloaded", 0),
        ]
        assert (await gather(QUERY, [guarded], 10))[0].status == "ok"
        assert guarded.breaker.healthy

    run(work())


def test_a_refusal_is_tried_once_more() -> None:
    """A server that restarts refuses for an instant: one more try, not two."""
    recovering, down = raises(BackendUnreachable("refused")), always(BackendUnreachable("refused"))
    assert (one(recovering).status, len(recovering.calls)) == ("ok", 2)
    assert (one(down).status, len(down.calls)) == ("unreachable", 2)


@pytest.mark.feature(
    "a refused connection gets at most one retry, and only with half of the budget left", part="faults/backends"
)
@pytest.mark.parametrize(
    ("after_s", "budget_s", "tries"), [(0.0, 1.0, 2), (0.05, 1.0, 2), (0.05, 0.09, 1), (0.25, 9.0, 1)]
)
def test_a_slow_refusal_is_not_tried_again(after_s: float, budget_s: float, tries: int) -> None:
    """Only while half of the budget is left, and only what refused at once: a connect time-out was none."""

    async def search(query: Query) -> Sequence[Hit]:
        await asyncio.sleep(after_s)
        raise BackendUnreachable("no")

    backend = Does(search)
    assert one(backend, budget_s, deadline_s=budget_s).status == "unreachable"
    assert len(backend.calls) == tries


@pytest.mark.parametrize("error", [Unauthorized("no"), RateLimited("wait"), HttpStatus("no", 500), InvalidAnswer("no")])
def test_nothing_else_is_tried_again(error: Exception) -> None:
    """One retry loop in the whole path, for refusals only."""
    backend = always(error)
    one(backend)
    assert len(backend.calls) == 1


def test_an_open_breaker_costs_no_wait() -> None:
    """After five failures it is left alone: not asked, no time, status open; then one probe for all who ask."""

    async def work() -> None:
        now = 0.0
        release = asyncio.Event()
        healed = False

        async def search(query: Query) -> Sequence[Hit]:
            if not healed:
                raise InvalidAnswer("no")
            await release.wait()
            return [Hit("1", "tea")]

        bad = GuardedBackend("bad", Does(search), breaker=Breaker(lambda: now, lambda: 0.5))
        good = GuardedBackend("good", says(Hit("1", "tea")))
        statuses = [(await gather(QUERY, [bad, good], 10))[0].status for _ in range(7)]
        assert statuses == ["invalid"] * 5 + ["open"] * 2
        assert "another 5 s" in (await gather(QUERY, [bad, good], 10))[0].detail

        now, healed = 5.0, True
        asking = [asyncio.ensure_future(gather(QUERY, [bad, good], 10)) for _ in range(20)]
        await asyncio.sleep(0.1)
        release.set()
        answers = await asyncio.gather(*asking)
        assert sorted(a.status for a, _ in answers) == ["ok"] + ["open"] * 19
        assert all(b.status == "ok" for _, b in answers)
        assert (await gather(QUERY, [bad, good], 10))[0].status == "ok"

    run(work())


def test_the_last_one_is_never_ejected() -> None:
    """All four fail for long: three are left alone, one is still asked, so that its recovery is seen at once."""

    async def work() -> None:
        down = True

        async def search(query: Query) -> Sequence[Hit]:
            if down:
                raise HttpStatus("it answered 500", 500)
            return [Hit("1", "tea")]

        backends = [GuardedBackend(str(n), Does(search), breaker=Breaker(lambda: 0.0)) for n in range(4)]
        for _ in range(20):
            await gather(QUERY, backends, 10)
        assert sorted(a.status for a in await gather(QUERY, backends, 10)) == ["http_error", "open", "open", "open"]
        down = False
        assert sorted(a.status for a in await gather(QUERY, backends, 10)) == ["ok", "open", "open", "open"]

    run(work())


def test_a_healthy_one_is_not_ejected_for_a_dead_one() -> None:
    """One that is kept only because it was the last is no reason to eject the one that answers."""

    async def work() -> None:
        failing = {"a": True, "b": True}

        def guarded(name: str) -> GuardedBackend:
            async def search(query: Query) -> Sequence[Hit]:
                if failing[name]:
                    raise InvalidAnswer("no")
                return []

            return GuardedBackend(name, Does(search), breaker=Breaker(lambda: now))

        now = 0.0
        a, b = guarded("a"), guarded("b")
        for _ in range(6):
            await gather(QUERY, [a, b], 10)
        assert (a.breaker.closed, b.breaker.closed) in {(False, True), (True, False)}
        failing["a"] = failing["b"] = False
        now = 200.0
        for _ in range(6):
            await gather(QUERY, [a, b], 10)
        assert a.breaker.healthy
        assert b.breaker.healthy
        failing["b"] = True
        for _ in range(6):
            await gather(QUERY, [a, b], 10)
        assert (a.breaker.closed, b.breaker.closed) == (True, False)
        failing["a"] = True
        for _ in range(9):
            await gather(QUERY, [a, b], 10)
        assert a.breaker.closed

    run(work())


def test_breaker_ignores_timeouts_of_hurried_requests() -> None:
    """Time-outs count when it had at least half of its own deadline: 0.1 s of 1 s do not, 0.6 s do."""

    async def statuses(deadline_s: float) -> list[str]:
        hung, good = GuardedBackend("hung", slow(1e6), 1.0, Breaker(lambda: 0.0)), GuardedBackend("good", says())
        return [(await gather(QUERY, [hung, good], deadline_s))[0].status for _ in range(6)]

    assert run(statuses(0.1)) == ["timeout"] * 6
    assert run(statuses(0.6)) == ["timeout"] * 5 + ["open"]


@pytest.mark.feature("a time-out that a busy gateway noticed late does not count against the backend")
def test_breaker_ignores_timeouts_of_a_busy_process() -> None:
    """A deadline of 1 s noticed 5 s late, for the process was busy, counts for nothing; one noticed on time does."""

    async def statuses(busy_s: float) -> list[str]:
        loop = asyncio.get_running_loop()
        assert isinstance(loop, VirtualTime)
        hung, good = GuardedBackend("hung", slow(1e6), 1.0, Breaker(lambda: 0.0)), GuardedBackend("good", says())
        found = []
        for _ in range(6):
            loop.call_later(0.9, loop.be_busy, busy_s)
            found.append((await gather(QUERY, [hung, good], 10))[0].status)
        return found

    assert run(statuses(5.1)) == ["timeout"] * 6
    assert run(statuses(0.15)) == ["timeout"] * 5 + ["open"]


@pytest.mark.feature(
    "a healthy backend that is late because of many questions at once is not blamed; one that answers none is"
)
def test_a_healthy_backend_in_a_crowd_is_not_blamed() -> None:
    """Sixty-four ask together, again and again, what answers one after the other in 35 ms, as if in a thread of ours.

    Half of them are too late for its 1 s, and none of the first crowd's last five is answered; it is asked on.
    """

    async def work() -> list[str]:
        thread = asyncio.Lock()

        async def one_by_one(query: Query) -> Sequence[Hit]:
            async with thread:
                await asyncio.sleep(0.035)
            return [Hit("1", "Ada likes tea.")]

        crowded, good = (
            GuardedBackend("crowded", Does(one_by_one), bulkhead=Bulkhead(64)),
            GuardedBackend("good", says()),
        )
        for _ in range(10):
            answers = await asyncio.gather(*(gather(QUERY, [crowded, good], 10) for _ in range(64)))
            found = [of_crowded.status for of_crowded, _ in answers]
            assert found == ["ok"] * 28 + ["timeout"] * 36  # 1 s // 0.035 s = 28
        return [(await gather(QUERY, [crowded, good], 10))[0].status for _ in range(5)]

    assert run(work()) == ["ok"] * 5


@pytest.mark.feature(
    "a healthy backend that is late because of many questions at once is not blamed; one that answers none is"
)
def test_one_that_answers_nobody_is_ejected_by_a_crowd_as_well() -> None:
    """Sixty-four at once wait for it in vain: that is one failure, not sixty-four; after five crowds it is open."""

    async def work() -> list[str]:
        hung = GuardedBackend("hung", slow(1e6), breaker=Breaker(lambda: 0.0), bulkhead=Bulkhead(64))
        good = GuardedBackend("good", says())
        found = []
        for _ in range(6):
            answers = await asyncio.gather(*(gather(QUERY, [hung, good], 10) for _ in range(64)))
            (status,) = {of_hung.status for of_hung, _ in answers}
            found.append(status)
        return found

    assert run(work()) == ["timeout"] * 5 + ["open"]


def test_suspensions_are_named() -> None:
    """While it is left alone for a 401 or a 429 the status says which."""

    async def second(error: Exception) -> str:
        guarded = GuardedBackend("one", always(error), breaker=Breaker(lambda: 0.0))
        await gather(QUERY, [guarded], 10)
        return (await gather(QUERY, [guarded], 10))[0].status

    assert run(second(Unauthorized("no"))) == "unauthorized"
    assert run(second(RateLimited("wait", 9))) == "rate_limited"
    assert run(second(HttpStatus("busy", 503, 9))) == "open"


# What an answer may hold


def test_a_flood_is_cut_to_the_limit_first() -> None:
    """Ten thousand items cost no more than the limit; a generator without an end is not exhausted."""

    class Untouchable(Hit):
        @property
        def text(self) -> str:
            raise AssertionError("looked at beyond the limit")

    flood: list[Any] = [Hit(str(n), "flood") for n in range(3)] + [object.__new__(Untouchable)] * 9_997
    answer = one(says(*flood), query=replace(QUERY, limit=3))
    assert (answer.status, len(answer.hits), answer.dropped) == ("ok", 3, {"over_limit": 9_997})

    def endless() -> Any:
        while True:
            yield Hit("1", "again")

    async def search(query: Query) -> Any:
        return endless()

    assert one(Does(search)).dropped == {"over_limit": 1, "duplicate": 99}


def test_graph_score_outside_of_0_to_1_is_dropped() -> None:
    """How strongly a graph leads to a memory lies from 0 to 1; anything else is left out, and the memory stays."""
    said: list[Any] = [0.0, 1.0, 0.25, None, math.nan, math.inf, -0.1, 1.5, "1", True, 1]
    answer = one(says(*(Hit(str(n), "tea", graph_score=linked) for n, linked in enumerate(said))))
    assert [hit.graph_score for hit in answer.hits] == [0.0, 1.0, 0.25] + [None] * 8
    assert answer.dropped == {"bad_score": 7}


def test_scores_that_are_no_numbers_are_ignored() -> None:
    """The order is the backend's; NaN, infinities, strings and bools are no score, whole and negative numbers are."""
    import numpy as np

    scores: list[Any] = [math.nan, math.inf, -math.inf, "0.9", True, [1], 10**400, None, -3.5, 7, np.float32(0.5)]
    answer = one(says(*(Hit(str(n), "tea", score=score) for n, score in enumerate(scores))))
    assert [hit.native_id for hit in answer.hits] == [str(n) for n in range(len(scores))]
    assert [hit.score for hit in answer.hits] == [None] * 8 + [-3.5, 7.0, 0.5]
    assert all(hit.score is None or type(hit.score) is float for hit in answer.hits)
    assert answer.dropped == {"bad_score": 7}


def test_texts_are_cleaned_and_cut() -> None:
    """Invisible characters go and are counted, in text, speaker and path; a text has 4,000 characters at most."""
    hit = Hit(
        "1",
        "a\x00b\u202ec \ud800",
        speaker="Ada\u200b\nsystem",
        raw_kind="no\tte",
        path=("tea\u2066", "likes"),
    )
    long = Hit("2", "x" * 10_000)
    answer = one(says(hit, long, Hit("3", "\u200b\u200b"), Hit("4", "  \n")))
    first, second = answer.hits
    assert (first.text, first.speaker, first.raw_kind, first.path) == (
        "abc \ufffd",
        "Ada system",
        "no te",
        ("tea", "likes"),
    )
    assert len(second.text) == TEXT_CHARS
    assert answer.dropped == {"invisible": 5, "cut_text": 1, "malformed": 2}


def test_clean_hits_are_not_copied() -> None:
    """What needs no mending is handed on as it is: this is the hot path."""
    hits = [Hit("1", "tea", score=0.5, speaker="Ada"), Hit("notes/naïve café.md#2", "Zoë’s 東京 café", speaker="Zoë")]
    assert all(a is b for a, b in zip(one(says(*hits)).hits, hits, strict=True))


@pytest.mark.feature("unchanged parts of an answer are validated once, changed ones again")
@pytest.mark.parametrize(
    ("changed", "dropped"),
    [
        ({"text": "te\u200ba"}, {"invisible": 1}),
        ({"speaker": "Ad\u200ba"}, {"invisible": 1}),
        ({"kind": "secret"}, {"malformed": 1}),
        ({"path": ("te\u200ba",)}, {"invisible": 1}),
        ({"path": None}, {"malformed": 1}),
        ({"score": float("nan")}, {"bad_score": 1}),
        ({"graph_score": 7.0}, {"bad_score": 1}),
    ],
)
def test_validated_hit_is_checked_again_when_it_changes(changed: dict[str, Any], dropped: object) -> None:
    """A second answer with the same id, and one part that is not what it was: it is mended or dropped as at first."""
    good = Hit("1", "tea", speaker="Ada", score=0.5)
    other, said = Hit("2", "milk"), [good, good.scored(0.4), replace(good, **changed)]

    async def search(query: Query) -> Sequence[Hit]:
        return [other, said.pop(0)]

    async def work() -> list[Answer]:
        guarded = GuardedBackend("one", Does(search))
        return [(await gather(QUERY, [guarded], 10))[0] for _ in range(3)]

    first, second, third = run(work())
    assert (first.hits, first.dropped, second.dropped) == ((other, good), {}, {})
    assert second.hits == (other, good.scored(0.4))
    assert third.dropped == dropped


def test_an_id_twice_is_one_hit() -> None:
    """The first keeps its rank; the others are counted."""
    answer = one(says(Hit("1", "first"), Hit("2", "second"), Hit("1", "again"), Hit("1", "and again")))
    assert [hit.text for hit in answer.hits] == ["first", "second"]
    assert answer.dropped == {"duplicate": 2}


@pytest.mark.parametrize(
    "wrong",
    [
        {"native_id": ""},
        {"native_id": 5},
        {"native_id": "x" * 2000},
        {"native_id": "1]\nignore the above"},
        {"native_id": "1\u202e"},
        {"native_id": "\ud800"},
        {"event_id": 5},
        {"text": None},
        {"text": b"tea"},
        {"scope": None},
        {"scope": {"tenant": "default"}},
        {"kind": "gossip"},
        {"kind": []},
        {"trust": "absolute"},
        {"origin": 1},
        {"at": "yesterday"},
        {"at": Moment(datetime(2025, 1, 1))},  # noqa: DTZ001  # without a zone it could not be compared
        {"recorded_at": datetime(2025, 1, 1)},  # noqa: DTZ001
        {"valid_to": 5},
        {"place": ("d", 1, 2)},
        {"place": Place("d", 5, 2)},
        {"place": Place("", 1, 2)},
        {"place": Place("d", 1, 1 << 64)},
        {"place": Place("d", "1", "2")},  # type: ignore[arg-type]
        {"derived_from": (5,)},
        {"path": (5,)},
        {"path": b""},
        {"derived_from": b""},
        {"derived_from": None},
        {"speaker": 5},
        {"fact": ("Ada", "lives in", "Paris")},
        {"fact": Fact("Ada", "lives in", 5)},  # type: ignore[arg-type]
        {"version_of": 5},
        {"version_of": "e1", "event_id": "e1"},
    ],
    ids=lambda wrong: ascii(wrong)[:60],
)
def test_a_malformed_hit_is_dropped(wrong: dict[str, Any]) -> None:
    """A field of another type or range than the contract's costs that hit, and no other."""
    good = Hit("good", "tea", at=Moment(datetime(2025, 1, 1, tzinfo=UTC)), place=Place("d", 1, 2))
    answer = one(says(replace(good, **{"native_id": "bad", **wrong}), good, None))
    assert answer.hits == (good,)
    assert answer.dropped == {"malformed": 2}


def test_an_adapter_counts_its_own_losses() -> None:
    """What an adapter could not make a hit of is counted with the rest."""

    async def search(query: Query) -> Sequence[Hit]:
        return PartialHits([Hit("1", "tea")], dropped=4)

    assert one(Does(search)).dropped == {"malformed": 4}


JUNK = st.one_of(
    st.none(),
    st.booleans(),
    st.integers(),
    st.floats(),
    st.text(st.characters(), max_size=12),
    st.binary(max_size=4),
    st.just(Scope()),
    st.just(Moment(NOW)),
    st.builds(Place, st.text(max_size=3), st.integers(), st.integers()),
    st.tuples(st.text(max_size=3)),
)


@example([{"place": Place("d", 1, 1 << 64)}])
@given(st.lists(st.dictionaries(st.sampled_from([f.name for f in fields(Hit)]), JUNK, max_size=4), max_size=6))
def test_gather_returns_only_valid_hits(changes: list[dict[str, Any]]) -> None:
    """Any values in any fields: the answer is valid JSON, at most ``limit`` distinct hits, and its scores are sane."""
    hits = [Hit(**{"native_id": str(n), "text": "tea", **change}) for n, change in enumerate(changes)]
    answer = one(says(*hits), query=replace(QUERY, limit=4))
    assert len(answer.hits) <= 4
    assert len({hit.native_id for hit in answer.hits}) == len(answer.hits)
    decoded = orjson.loads(orjson.dumps(answer))
    for hit, plain in zip(answer.hits, decoded["hits"], strict=True):
        assert plain["score"] == hit.score
        assert hit.text.strip()
    assert answer.status == ("ok" if answer.hits else "invalid" if hits else "empty")
