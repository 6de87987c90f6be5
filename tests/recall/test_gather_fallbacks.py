"""A backend that is the fallback for others: asked once these failed, in what is left of the time, never needlessly.

Time is virtual, as in `test_gather`.
"""

from __future__ import annotations

import asyncio
from typing import Any

import pytest

from fusion.contract import Features, Scope
from fusion.errors import BackendUnreachable, HttpStatus
from fusion.lib.breaker import FAILURES, Breaker
from fusion.recall.gather import PRIMARY_SHARE, Answer, GuardedBackend, gather
from tests.backend_contract import make_query
from tests.recall.test_gather import QUERY, Does, always, raises, run, says, slow

DOWN = BackendUnreachable("connection refused")


def asked(*backends: GuardedBackend, within_s: float = 10.0, query: Any = QUERY) -> dict[str, Answer]:
    return {answer.backend: answer for answer in run(gather(query, backends, within_s))}


def statuses(found: dict[str, Answer]) -> dict[str, str]:
    return {name: answer.status for name, answer in found.items()}


@pytest.mark.parametrize("first", [Does(), says()], ids=["found something", "found nothing"])
def test_who_answers_needs_no_fallback(first: Does) -> None:
    """Nothing found is an answer, too: the fallback is not asked, and says why."""
    fallback = Does()
    found = asked(GuardedBackend("ours", fallback, fallback_for=("qmd",)), GuardedBackend("qmd", first))
    assert (found["ours"].status, fallback.calls) == ("skipped", [])
    assert found["ours"].detail == "it is the fallback for qmd, which answered"
    assert found["qmd"].status in ("ok", "empty")


@pytest.mark.row("A085", "A119", "`fallback_for`: a backend that is asked only if those it replaces have failed")
@pytest.mark.parametrize(
    ("broken", "status"),
    [
        (GuardedBackend("qmd", always(DOWN)), "unreachable"),
        (GuardedBackend("qmd", always(HttpStatus("500", 500))), "http_error"),
        (GuardedBackend("qmd", slow(100)), "timeout"),
        (GuardedBackend("qmd", says(1, 2)), "invalid"),
        (GuardedBackend("qmd", Does(), disabled="disabled in the configuration"), "disabled"),
        (GuardedBackend("qmd", Does(), disabled="no such file", broken=True), "unreachable"),
        (GuardedBackend("qmd", Does(features=Features())), "skipped"),
    ],
    ids=lambda value: value if isinstance(value, str) else "",
)
def test_whatever_ails_the_first_the_fallback_answers(broken: GuardedBackend, status: str) -> None:
    """Down, failing, hanging, lying, switched off, not opened, or unable to honour the question."""
    whose = make_query("tea?", Scope(user_id="ada"))
    found = asked(broken, GuardedBackend("ours", Does(), fallback_for=("qmd",)), query=whose)
    assert statuses(found) == {"qmd": status, "ours": "ok"}


def test_it_stands_in_for_several_when_all_have_failed() -> None:
    """Asked when the others fail: one that answers is enough to do without."""
    for second, status in ((always(DOWN), "ok"), (Does(), "skipped")):
        found = asked(
            GuardedBackend("a", always(DOWN)),
            GuardedBackend("b", second),
            GuardedBackend("last", Does(), fallback_for=("a", "b")),
        )
        assert found["last"].status == status


def test_a_fallback_of_a_fallback_comes_third() -> None:
    """Each waits for the one before it, and only as long as needed."""
    found = asked(
        GuardedBackend("third", Does(), fallback_for=("second",)),
        GuardedBackend("second", always(DOWN), fallback_for=("first",)),
        GuardedBackend("first", always(DOWN)),
    )
    assert statuses(found) == {"third": "ok", "second": "unreachable", "first": "unreachable"}


@pytest.mark.row(
    "A119", "… and always if that is not set: the diagram's parallel fallback", of="`fallback_for`: a backend that"
)
def test_asked_without_those_it_stands_in_for_it_is_as_any_other() -> None:
    """Who asks it by name gets it."""
    assert statuses(asked(GuardedBackend("ours", Does(), fallback_for=("qmd",)))) == {"ours": "ok"}


def test_half_of_the_time_is_the_fallbacks() -> None:
    """Of 2 s, one that hangs gets 1; the fallback, which takes 0.9, answers before the end. Others have all of it."""

    async def work() -> tuple[float, tuple[Answer, ...]]:
        backends = (
            GuardedBackend("qmd", slow(100), deadline_s=10),
            GuardedBackend("ours", slow(0.9), deadline_s=10, fallback_for=("qmd",)),
            GuardedBackend("beside", slow(1.5), deadline_s=10),
        )
        found = await gather(QUERY, backends, 2.0)
        return asyncio.get_running_loop().time(), found

    took, (qmd, ours, beside) = run(work())
    assert PRIMARY_SHARE == 0.5
    assert (qmd.status, ours.status, beside.status) == ("timeout", "ok", "ok")
    assert 1.9 <= took <= 2.0


def test_a_fallback_begins_as_soon_as_it_is_needed() -> None:
    """At once where the first refuses at once; another backend that is slow holds it up no more than ever."""
    calls: list[float] = []

    async def noted(query: Any) -> list[Any]:
        calls.append(asyncio.get_running_loop().time())
        return []

    asked(
        GuardedBackend("qmd", always(DOWN)),
        GuardedBackend("ours", Does(noted), fallback_for=("qmd",)),
        GuardedBackend("beside", slow(3)),
    )
    assert calls == [0.0]


def test_one_that_fails_is_left_alone_while_its_fallback_is_well() -> None:
    """The breaker opens as ever: that it is the last one who answers holds only where no fallback does."""
    breaker = Breaker(clock=lambda: 0.0)
    down = GuardedBackend("qmd", always(HttpStatus("500", 500)), breaker=breaker)
    fallback = GuardedBackend("ours", Does(), fallback_for=("qmd",))
    for _ in range(FAILURES):
        assert asked(down, fallback)["qmd"].status == "http_error"
    assert statuses(asked(down, fallback)) == {"qmd": "open", "ours": "ok"}


@pytest.mark.parametrize("first", [slow(100), raises(DOWN, DOWN)], ids=["while it waits", "while it is asked"])
def test_who_leaves_calls_all_of_them_off(first: Does) -> None:
    """No task and no place in a bulkhead is left."""

    async def work() -> None:
        backends = (GuardedBackend("qmd", first), GuardedBackend("ours", slow(100), fallback_for=("qmd",)))
        asking = asyncio.ensure_future(gather(QUERY, backends, 1000.0))
        await asyncio.sleep(0.1)
        asking.cancel()
        with pytest.raises(asyncio.CancelledError):
            await asking
        await asyncio.sleep(0.1)
        assert [guarded.bulkhead.under_way for guarded in backends] == [0, 0]

    run(work())
