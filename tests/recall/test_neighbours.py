"""Neighbours are read as far as the pool has room, and the pool is the same as if all were read."""

from __future__ import annotations

import asyncio
from collections.abc import Mapping, Sequence
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from fusion.contract import Hit, Place
from fusion.journal.use import Use
from fusion.recall.expand import Pooled
from fusion.recall.filter import Record
from fusion.recall.gather import Answer
from fusion.recall.neighbours import LEAST, Neighbours, expanded
from fusion.recall.recording import Recorder, Recording
from fusion.recall.rrf import Ranked
from fusion.recipe import DedupSettings, ExpandSettings
from tests.recall.helpers import NOW, StoredRecord, found_by, query, record

WORDS = "heron lantern copper meadow violin harbour saddle thimble quartz barley".split()


class Talk:
    """The turns of one conversation, which remembers whose neighbours were asked for. Some say what others did."""

    def __init__(self, turns: int, said: int, forgotten: int) -> None:
        self.records: dict[str, StoredRecord] = {}
        for n in range(turns):
            words = " ".join(WORDS[(n % said + step) % len(WORDS)] for step in range(3))
            self.records[f"e{n}"] = record(
                f"e{n}",
                f"turn {n % said} has {words}",
                kind="turn",
                speaker="Ada",
                place=Place("talk", n, n),
                forgotten=n % forgotten == forgotten - 1,
            )
        self.asked: list[str] = []

    async def _records(self, event_ids: Sequence[str]) -> Mapping[str, Record]:
        return {i: self.records[i] for i in event_ids}

    async def neighbours(
        self, finds: Sequence[tuple[str, str, Hit]], span: int, deadline_s: float
    ) -> Mapping[str, Sequence[Hit]]:
        self.asked += [ref for ref, _, _ in finds]
        near = {}
        for ref, _, hit in finds:
            assert hit.place is not None
            at = hit.place.start
            beside = [*range(at - span, at), *range(at + 1, at + 1 + span)]
            near[ref] = [self.records[f"e{n}"].hit for n in beside if f"e{n}" in self.records]
        return near

    def ranked(self, order: Sequence[int]) -> list[Ranked]:
        hits = [self.records[f"e{n}"].hit for n in order]
        return [Ranked(found_by(f"m{hit.event_id}", hit, x=1), 1 / (61 + i), {}) for i, hit in enumerate(hits)]


class Reads:
    """What the stage reads."""

    def __init__(self, talk: Talk) -> None:
        self.records, self.neighbours = talk._records, talk.neighbours


def pool_of(talk: Talk, order: Sequence[int], numbers: ExpandSettings, *, at_once: bool) -> tuple[Pooled, ...]:
    async def work() -> tuple[Pooled, ...]:
        ranked = talk.ranked(order)
        neighbours = Neighbours(ranked, query(), Reads(talk), lambda: 1.0, numbers.span)
        if at_once:
            await neighbours.read()
        return await expanded(ranked, neighbours, numbers, DedupSettings())

    return asyncio.run(work())


@pytest.mark.feature("neighbours are read of the best candidates first, as many as the pool has room for")
def test_neighbours_without_room_are_not_read() -> None:
    """100 candidates, five turns apart, have four neighbours each. With room for 56 of them, and 7 more that may say
    the same as others, 16 candidates are asked: they have 64."""
    talk = Talk(500, 500, 1000)
    pool = pool_of(talk, range(2, 500, 5), ExpandSettings(span=2, max_pool=156), at_once=False)
    assert len(pool) == 156
    assert talk.asked == [f"me{n}" for n in range(2, 80, 5)]
    assert len(talk.asked) == LEAST == 16


def test_neighbours_that_say_the_same_leave_room_for_others() -> None:
    """All neighbours together say four things, so those of every candidate are read."""
    talk = Talk(500, 5, 1000)
    pool = pool_of(talk, range(2, 500, 5), ExpandSettings(span=2, max_pool=160), at_once=False)
    assert len(pool) == 100 + 4
    assert len(talk.asked) == 100


def test_all_portions_together_get_half_of_the_time_left() -> None:
    """A backend that answers with nothing takes .1 s for each portion, of the 1 s that is left."""
    now = 0.0
    given: list[float] = []

    class Slow(Reads):
        async def find(self, finds: Sequence[tuple[str, str, Hit]], span: int, deadline_s: float) -> dict[str, Any]:
            nonlocal now
            given.append(round(deadline_s, 3))
            now += 0.1
            return {}

    talk = Talk(500, 500, 1000)
    reads = Slow(talk)
    reads.neighbours = reads.find
    ranked = talk.ranked(range(100))
    neighbours = Neighbours(ranked, query(), reads, lambda: 1.0 - now, 2)
    asyncio.run(neighbours.read(1))
    assert neighbours.are_read
    assert given == [0.5, 0.4, 0.3, 0.2, 0.1, 0.0, 0.0]


def test_a_recording_has_the_uses_of_neighbours_that_this_pool_has_no_room_for() -> None:
    """Another recipe, or fewer backends, may have it."""

    class Everything(Reads):
        async def uses(self, event_ids: Sequence[str]) -> dict[str, Use]:
            return {i: Use(1, NOW) for i in event_ids}

    talk = Talk(500, 500, 1000)
    hits = tuple(talk.records[f"e{n}"].hit for n in range(2, 500, 5))
    recorder = Recorder(Everything(talk), Recording(NOW))  # type: ignore[arg-type] – what this stage reads
    recorder.recording.answers["x"] = Answer("x", "ok", hits)
    asyncio.run(recorder.neighbours([("me2", "x", hits[0])], 2, 1.0))
    assert recorder.recording.uses.keys() == {f"e{n}" for n in range(500) if n % 5 != 2}


@given(
    turns=st.integers(1, 150),
    said=st.integers(1, 150),
    forgotten=st.integers(2, 9),
    span=st.integers(0, 3),
    max_pool=st.integers(1, 120),
    data=st.data(),
)
def test_the_pool_is_the_same_as_if_all_neighbours_were_read(turns, said, forgotten, span, max_pool, data) -> None:
    """Also where neighbours are forgotten, or say the same as others."""
    talk = Talk(turns, said, forgotten)
    order = data.draw(st.lists(st.integers(0, turns - 1), unique=True, max_size=60))
    numbers = ExpandSettings(span=span, max_pool=max_pool)
    some = pool_of(talk, order, numbers, at_once=False)
    assert talk.asked == [f"me{n}" for n in order[: len(talk.asked)]]
    every = pool_of(talk, order, numbers, at_once=True)
    assert [(one.ref, one.neighbour_of) for one in some] == [(one.ref, one.neighbour_of) for one in every]
