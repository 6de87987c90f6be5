"""A language model with one budget and one breaker for all its callers."""

from __future__ import annotations

import asyncio
import threading

import pytest

from fusion.errors import (
    BackendTimeout,
    BackendUnreachable,
    HttpStatus,
    InvalidAnswer,
    RateLimited,
    StoreBusy,
    Unauthorized,
)
from fusion.gateway.llm_budget import MAX_WAIT_S, OPEN_S, BudgetedModel
from fusion.journal import Journal
from fusion.lib.breaker import FAILURES
from fusion.lib.budget import estimate_tokens
from tests.fakes import FakeModel
from tests.postgres.servers import Database


class Clock:
    """A clock that a test sets."""

    def __init__(self) -> None:
        self.now = 1000.0

    def __call__(self) -> float:
        return self.now


def metered(model: FakeModel, clock: Clock, calls: int = 100, tokens: int = 100_000) -> BudgetedModel:
    return BudgetedModel(model, calls_per_minute=calls, tokens_per_minute=tokens, clock=clock)


async def asks(model: BudgetedModel, max_tokens: int = 10) -> float | None:
    """None if the model was called, else the seconds to wait."""
    try:
        await model.complete("system", "user", max_tokens)
    except RateLimited as error:
        return error.retry_after_s
    return None


async def test_budget_limits_calls_per_minute():
    """Two calls per minute: the third waits until the first is a minute old, 60 - 10 = 50 s."""
    clock = Clock()
    model = metered(FakeModel("x"), clock, calls=2)
    assert await asks(model) is None
    clock.now += 10
    assert await asks(model) is None
    assert await asks(model) == 50
    clock.now += 50
    assert await asks(model) is None


async def test_budget_limits_tokens_per_minute():
    """A call counts its question and the allowance for the answer; afterwards, the tokens of the answer itself."""
    asked, answered = estimate_tokens("systemuser"), estimate_tokens("x")
    clock = Clock()
    model = metered(FakeModel("x"), clock, tokens=2 * asked + 1000 + answered)
    assert await asks(model, 1000) is None
    assert await asks(model, 1000) is None  # asked + answered + asked + 1000: just within
    assert await asks(model, 1000) == 60
    clock.now += 60
    assert await asks(model, 1000) is None


@pytest.mark.row(
    "A043",
    "… after five failures in a row it rests for thirty seconds; all callers share one budget a "
    "minute; no retries within a call: the work is queued",
    of="language models",
)
async def test_five_failures_in_a_row_open_the_breaker_for_thirty_seconds():
    """Then one call is a probe while the others wait; its answer closes the breaker."""
    clock = Clock()
    inner = FakeModel(*([BackendUnreachable("x"), BackendTimeout("x"), HttpStatus("x", 503)] * 2)[:FAILURES], "fine")
    model = metered(inner, clock)
    for _ in range(FAILURES):
        with pytest.raises((BackendUnreachable, BackendTimeout, HttpStatus)):
            await model.complete("s", "u", 1)
    assert await asks(model) == OPEN_S == 30
    assert len(inner.asked) == FAILURES == 5
    clock.now += OPEN_S
    inner.gate = asyncio.Event()
    inner.reached.clear()
    probe = asyncio.create_task(asks(model))
    await inner.reached.wait()
    assert await asks(model) == OPEN_S  # one goes, the others wait
    inner.gate.set()
    assert await probe is None
    assert await asks(model) is None


async def test_failed_probe_opens_the_breaker_again():
    """One failure is enough then."""
    clock = Clock()
    model = metered(FakeModel(BackendUnreachable("x")), clock)
    for _ in range(FAILURES):
        with pytest.raises(BackendUnreachable):
            await model.complete("s", "u", 1)
    clock.now += OPEN_S
    with pytest.raises(BackendUnreachable):
        await model.complete("s", "u", 1)
    assert await asks(model) == OPEN_S


async def test_invalid_answers_and_refusals_are_not_failures():
    """A server that answers is alive: neither prose nor a 400 opens the breaker, and it breaks a row of failures."""
    clock = Clock()
    model = metered(FakeModel(*[InvalidAnswer("x"), HttpStatus("x", 400)] * 4, "fine"), clock)
    for _ in range(8):
        with pytest.raises((InvalidAnswer, HttpStatus)):
            await model.complete("s", "u", 1)
    assert await asks(model) is None


@pytest.mark.parametrize(
    ("fault", "wait_s"),
    [
        (RateLimited("x", 7.0), 7.0),
        (RateLimited("x"), OPEN_S),
        (RateLimited("x", 86_400.0), MAX_WAIT_S),
        (Unauthorized("x"), MAX_WAIT_S),
        (HttpStatus("x", 503, 12.0), 12.0),
    ],
)
async def test_requested_pauses_are_honoured(fault: Exception, wait_s: float):
    """A Retry-After is honoured up to five minutes; a refused key is tried again after as long."""
    model = metered(FakeModel(fault, "fine"), Clock())
    with pytest.raises(type(fault)):
        await model.complete("s", "u", 1)
    assert await asks(model) == wait_s


async def test_cancelled_probe_lets_the_next_call_through():
    """A cancelled call says nothing about the model; the next call is the probe."""
    clock = Clock()
    inner = FakeModel(*[BackendUnreachable("x")] * FAILURES, "fine")
    model = metered(inner, clock)
    for _ in range(FAILURES):
        with pytest.raises(BackendUnreachable):
            await model.complete("s", "u", 1)
    clock.now += OPEN_S
    inner.gate = asyncio.Event()
    inner.reached.clear()
    probe = asyncio.create_task(asks(model))
    await inner.reached.wait()
    probe.cancel()
    await asyncio.gather(probe, return_exceptions=True)
    inner.gate.set()
    assert await asks(model) is None


async def test_open_breaker_spends_no_budget():
    """A refused call is not sent, and so not counted."""
    clock = Clock()
    model = metered(FakeModel(*[BackendUnreachable("x")] * FAILURES, "fine"), clock, calls=FAILURES + 1)
    for _ in range(FAILURES):
        with pytest.raises(BackendUnreachable):
            await model.complete("s", "u", 1)
    assert [await asks(model) for _ in range(3)] == [OPEN_S] * 3
    clock.now += OPEN_S
    assert await asks(model) is None


async def test_close_closes_the_model():
    """The wrapper owns the model."""
    inner = FakeModel("x")
    await metered(inner, Clock()).close()
    assert inner.closed


@pytest.mark.feature("gateways on one PostgreSQL keep to one budget of the language model together")
async def test_gateways_share_one_budget(postgres_database: Database) -> None:
    """Three gateways ask at once: they make no more calls than one minute allows, also after a gateway ended."""
    store = pytest.importorskip("fusion.store.postgres")
    shared_budget = pytest.importorskip("fusion.store.shared_budget")
    servers = [store.Server(postgres_database.url) for _ in range(3)]
    for server in servers:
        await asyncio.to_thread(server.open)
    journal = await Journal.open_shared(servers[0], "default")
    asked, answered = estimate_tokens("systemuser"), estimate_tokens("x")

    def models(calls: int, tokens: int) -> list[BudgetedModel]:
        return [
            BudgetedModel(
                FakeModel("x"),
                calls_per_minute=calls,
                tokens_per_minute=tokens,
                budget=shared_budget.SharedBudget(server, "default", calls, tokens),
            )
            for server in servers
        ]

    outcomes = await asyncio.gather(*(asks(model) for model in models(7, 100_000) for _ in range(6)))
    assert outcomes.count(None) == 7
    assert all(0 < wait_s <= 60 for wait_s in outcomes if wait_s is not None)
    assert await asks(models(7, 100_000)[0]) is not None
    await journal.write(lambda db: db.execute("update model_call set at = at - 60000000").rowcount)
    one, two, three = models(100, 2 * asked + 1000 + answered)
    assert await asks(one, 1000) is None
    assert await asks(two, 1000) is None  # the first has been corrected to what its answer had
    assert await asks(three, 1000) is not None
    await journal.close()
    for server in servers:
        await asyncio.to_thread(server.close)


async def test_a_call_that_the_breaker_refuses_is_not_counted_for_the_others(postgres_database: Database) -> None:
    store = pytest.importorskip("fusion.store.postgres")
    shared_budget = pytest.importorskip("fusion.store.shared_budget")
    server = store.Server(postgres_database.url)
    await asyncio.to_thread(server.open)
    journal = await Journal.open_shared(server, "default")
    budget = shared_budget.SharedBudget(server, "default", 100, 100_000)
    failing = BudgetedModel(
        FakeModel(BackendUnreachable("away")), calls_per_minute=1, tokens_per_minute=1, budget=budget
    )
    for _ in range(FAILURES):
        with pytest.raises(BackendUnreachable):
            await failing.complete("system", "user", 10)
    assert await asks(failing) is not None
    (row,) = await journal.read(lambda db: db.execute("select count(*) as n from model_call").fetchall())
    assert row["n"] == FAILURES
    await journal.close()
    await asyncio.to_thread(server.close)


async def test_a_gateway_that_hangs_while_it_counts_a_call_does_not_stop_the_others(
    postgres_database: Database, monkeypatch: pytest.MonkeyPatch
) -> None:
    """It holds the table and sends nothing more: the server ends its session, and others count their calls."""
    store = pytest.importorskip("fusion.store.postgres")
    shared_budget = pytest.importorskip("fusion.store.shared_budget")
    monkeypatch.setattr(store, "STALLED_S", 1)
    server = store.Server(postgres_database.url)
    await asyncio.to_thread(server.open)
    journal = await Journal.open_shared(server, "default")
    held, go_on = threading.Event(), threading.Event()

    def hang(db: store.Connection) -> None:
        db.execute("lock table model_call in share row exclusive mode")
        held.set()
        go_on.wait()

    hanging = asyncio.create_task(asyncio.to_thread(server.run, "default", hang))
    await asyncio.to_thread(held.wait)
    assert await shared_budget.SharedBudget(server, "default", 100, 100_000).take(1) is not None
    go_on.set()
    with pytest.raises(StoreBusy, match="ended a transaction of this gateway"):
        await hanging
    await journal.close()
    await asyncio.to_thread(server.close)
