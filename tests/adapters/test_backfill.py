"""The loop that fills in vectors, and its queue."""

from __future__ import annotations

import asyncio

import pytest

from adapters.index import Backfill, Waiting
from fusion.errors import BackendUnreachable, InvalidAnswer

WHY = InvalidAnswer("NaN")


class Store:
    """Gives one of its ``missing`` a vector at each step, and fails while it is ``down``."""

    def __init__(self, missing: int, down: bool = False) -> None:
        self.missing, self.down, self.attempts = missing, down, 0
        self.backfill = Backfill("store", self.step)

    async def step(self) -> bool:
        self.attempts += 1
        if self.down:
            raise BackendUnreachable("nobody answers")
        self.missing -= self.missing > 0
        return self.missing > 0


async def test_a_backfill_goes_on_while_there_is_more() -> None:
    """`settle` returns when nothing is missing, also where nothing was."""
    store = Store(3)
    await store.backfill.settle()
    assert (store.missing, store.attempts, store.backfill.error) == (0, 3, None)
    await store.backfill.settle()
    assert (store.missing, store.attempts) == (0, 4)
    await store.backfill.close()


async def test_a_backfill_that_failed_is_tried_again() -> None:
    """`settle` returns after one more failure, says which, and the next one fills in what is missing."""
    store = Store(2, down=True)
    await store.backfill.settle()
    assert isinstance(store.backfill.error, BackendUnreachable)
    await store.backfill.settle()
    assert (store.missing, store.attempts) == (2, 2)
    store.down = False
    await store.backfill.settle()
    assert (store.missing, store.backfill.error) == (0, None)
    await store.backfill.close()


class Impatient(Backfill):
    retry_s = longest_retry_s = 0.0


@pytest.mark.feature("missing vectors are requested again automatically, in every store")
async def test_a_backfill_that_failed_goes_on_by_itself() -> None:
    """After a pause, without a new memory and without `settle`; what was refused is asked for again, too."""
    attempts, again, filled = 0, 0, asyncio.Event()

    async def step() -> bool:
        nonlocal attempts
        attempts += 1
        if attempts < 4:
            raise BackendUnreachable("nobody answers")
        filled.set()
        return False

    def count() -> None:
        nonlocal again
        again += 1

    backfill = Impatient("store", step, count)
    backfill.start()
    await filled.wait()
    await backfill.close()
    assert (attempts, again) == (4, 3)


async def test_a_closed_backfill_starts_nothing() -> None:
    """Neither by `start` nor by `settle`, and closing twice is no error."""
    store = Store(1)
    await store.backfill.close()
    store.backfill.start()
    await store.backfill.settle()
    await store.backfill.close()
    assert (store.missing, store.attempts) == (1, 0)


def test_waiting_gives_fresh_ones_first() -> None:
    """What was said just now does not wait for a folder of files that was read in."""
    waiting: Waiting[str] = Waiting()
    waiting.add({"a": "1", "b": "1", "c": "1"}, fresh=False)
    waiting.add({"d": "1"}, fresh=True)
    assert [list(waiting.some(2)) for _ in range(2)] == [["d"], ["a", "b"]]
    waiting.drop(["a", "d"])
    assert list(waiting.some(5)) == ["b", "c"]


def test_waiting_gives_refused_ones_last() -> None:
    """One that is refused holds nothing up; it is tried again when asked for, or when its text has changed."""
    waiting: Waiting[str] = Waiting()
    waiting.add({"a": "1", "b": "1"}, fresh=False)
    waiting.done(waiting.some(2), {"a": WHY})
    assert (list(waiting), waiting.why) == (["a"], WHY)
    with pytest.raises(InvalidAnswer, match="NaN"):
        waiting.some(2)
    waiting.add({"a": "2"}, fresh=False)
    assert waiting.some(2) == {"a": "2"}
    with pytest.raises(InvalidAnswer, match="NaN"):
        waiting.done({"a": "2"}, {"a": WHY})
    waiting.try_refused()
    assert waiting.some(2) == {"a": "2"}


def test_waiting_keeps_what_changed_while_its_vector_was_made() -> None:
    """The vector of the text before is not that of the text now."""
    waiting: Waiting[str] = Waiting()
    waiting.add({"a": "1", "b": "1"}, fresh=False)
    some = waiting.some(2)
    waiting.add({"a": "2"}, fresh=True)
    waiting.done(some, {})
    assert waiting == {"a": "2"}
