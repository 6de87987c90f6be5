"""A queue for slots: nobody's many requests delay another's few."""

from __future__ import annotations

import asyncio
from collections import Counter

import pytest
from hypothesis import given
from hypothesis import strategies as st

from fusion.errors import Overloaded
from fusion.lib.fair_queue import FairQueue

OWNERS = "abc"


@given(
    st.lists(st.tuples(st.sampled_from(["join", "admit", "release", "leave"]), st.sampled_from(OWNERS)), max_size=60)
)
def test_a_slot_is_for_who_waits_and_has_the_fewest(steps: list[tuple[str, str]]) -> None:
    """Whatever happens before; the requests of one owner are admitted in their order."""

    async def play() -> None:
        queue = FairQueue()
        waiting: dict[str, list[asyncio.Future[None]]] = {owner: [] for owner in OWNERS}
        held: Counter[str] = Counter()
        for step, owner in steps:
            if step == "join":
                waiting[owner].append(queue.join(owner))
            elif step == "leave" and waiting[owner]:
                left = waiting[owner].pop()
                left.cancel()
                assert not queue.leave(owner, left)
            elif step == "release" and held[owner]:
                held[owner] -= 1
                queue.release(owner)
            elif step == "admit":
                fewest = min((held[one] for one in OWNERS if waiting[one]), default=None)
                assert queue.admit() == (fewest is not None)
                if fewest is not None:
                    (admitted,) = [one for one in OWNERS if waiting[one] and waiting[one][0].done()]
                    assert held[admitted] == fewest
                    held[admitted] += 1
                    waiting[admitted].pop(0)
            assert len(queue) == sum(map(len, waiting.values()))

    asyncio.run(play())


async def test_owners_with_equally_many_slots_get_the_next_one_by_turns() -> None:
    queue = FairQueue()
    slots = [(owner, queue.join(owner)) for owner in "aaabbb"]
    order = []
    while queue.admit():
        (owner,) = [one for one, slot in slots if slot.done()]
        order.append(owner)
        slots = [(one, slot) for one, slot in slots if not slot.done()]
        queue.release(owner)
    assert "".join(order) == "ababab"


async def test_of_two_without_a_slot_who_had_one_waits() -> None:
    queue = FairQueue()
    first, second = queue.join("a"), queue.join("a")
    queue.admit()
    other = queue.join("b")
    queue.release("a")
    assert queue.admit()
    assert [slot.done() for slot in (first, second, other)] == [True, False, True]


async def test_a_full_queue_has_room_for_who_has_less_in_it() -> None:
    queue = FairQueue()
    many = [queue.join("flood") for _ in range(3)]
    assert queue.make_room("quiet", Overloaded("full"))
    with pytest.raises(Overloaded):
        many[2].result()
    quiet = queue.join("quiet")
    assert not queue.make_room("flood", Overloaded("full"))
    assert not queue.make_room("quiet", Overloaded("full"))  # two to one: it would only change who floods
    assert queue.admit()
    assert queue.admit()
    assert quiet.done()


async def test_a_slot_that_came_too_late_is_given_back() -> None:
    queue = FairQueue()
    slot = queue.join("a")
    queue.admit()
    assert queue.leave("a", slot)
    queue.release("a")
    assert not queue.admit()
