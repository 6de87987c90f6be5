"""A block leaves out what the asking session has already."""

from __future__ import annotations

from hypothesis import given
from hypothesis import strategies as st

from fusion.recall.decision import Decision
from fusion.recall.dedup import Candidate, Rival, SourceHit
from fusion.recall.filter import TEXT_CHARS
from fusion.recall.pack import pack
from fusion.recall.shown_before import shown_keys, was_shown
from fusion.recipe import PackSettings, RerankSettings
from tests.recall.helpers import found_by, scored, standalone, turn

NONCE = "0123456789ab"
FREE = RerankSettings(floor=0.0)
ORDER = [scored(f"m{n}", turn(n, f"Statement number {n} of the talk."), 1 - n / 20) for n in range(1, 8)]


def test_memory_is_recognised_by_its_ref_its_copies_and_its_text() -> None:
    """A copy under another ref of ours is the same memory; so is the same text of another system."""
    copies = tuple(SourceHit(name, ref, ref, 1, None, "") for name, ref in (("one", "m1"), ("two", "m2")))
    shown = frozenset(shown_keys(Candidate("m1", standalone("m1", "The gate sticks."), copies)))
    assert was_shown(found_by("m2", standalone("m2", "The gate is stuck."), one=1), shown)
    assert was_shown(found_by("xaaaaaaaaaa", standalone("x", "The gate sticks."), one=1), shown)
    assert not was_shown(found_by("m3", standalone("m3", "The gate is green."), one=1), shown)


def test_memory_that_changed_is_shown_again() -> None:
    """What another system has may change under its ref, and of a long text another part may be asked for."""
    external = {"stated_by": "backend:mem0"}
    one = found_by("xaaaaaaaaaa", standalone("x", "Ada works at Kedjan.", **external), mem0=1)
    two = found_by("xaaaaaaaaaa", standalone("x", "Ada works at Hjul.", **external), mem0=1)
    assert not was_shown(two, frozenset(shown_keys(one)))
    begins, ends = (found_by("m1", standalone("m1", letter * TEXT_CHARS), one=1) for letter in "ab")
    assert not was_shown(ends, frozenset(shown_keys(begins)))
    assert was_shown(ends, frozenset(shown_keys(ends)))


@given(st.sets(st.sampled_from([scored.ref for scored in ORDER])), st.integers(150, 600))
def test_block_is_the_same_without_what_was_shown(refs: set[str], budget: int) -> None:
    """Nothing weaker takes the place, nothing that was shown is in it, and the receipt gives the reason."""
    numbers = PackSettings(budget_chars=budget)
    shown = frozenset(key for one in ORDER if one.ref in refs for key in shown_keys(one.pooled.candidate))
    whole, rest = pack(ORDER, numbers, FREE, NONCE), pack(ORDER, numbers, FREE, NONCE, shown)
    packed = {ref for ref, decision in whole.decisions.items() if decision is Decision.PACKED}
    in_rest = {member.ref for excerpt in rest.memories for member in excerpt.members}
    assert in_rest == packed - refs
    assert {ref for ref, decision in rest.decisions.items() if decision is Decision.SHOWN_BEFORE} == packed & refs
    assert bool(rest.text) == bool(in_rest)
    assert len(rest.text) <= budget
    assert all(f"[{ref}]" not in rest.text for ref in refs)


def test_contradiction_is_named_while_one_side_is_new() -> None:
    """The line on two memories that contradict each other goes only when both were shown."""
    one, two = (scored(f"m{n}", standalone(f"m{n}", f"The plate is AB {n}."), 0.9) for n in (1, 2))
    order = [
        scored._replace(
            pooled=scored.pooled._replace(
                candidate=scored.pooled.candidate._replace(rivals=(Rival(other.ref, "number"),))
            )
        )
        for scored, other in ((one, two), (two, one))
    ]
    keys = [frozenset(shown_keys(scored.pooled.candidate)) for scored in order]
    assert len(pack(order, PackSettings(), FREE, NONCE, keys[0]).disputes) == 1
    assert pack(order, PackSettings(), FREE, NONCE, keys[0] | keys[1]).disputes == ()
