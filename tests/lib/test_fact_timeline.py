"""The view of temporal facts: succession, ends, trust, and sources that are gone."""

from __future__ import annotations

from datetime import UTC, datetime, timedelta
from itertools import permutations

import pytest
from hypothesis import given
from hypothesis import strategies as st

from fusion.contract import Trust
from fusion.lib.fact_lint import issues_of
from fusion.lib.fact_timeline import Asserted, view
from fusion.lib.temporal_facts import Assertion, Ending, FactObject, Predicate, Source, TemporalFact

DAY = timedelta(days=1)
START = datetime(2026, 3, 1, tzinfo=UTC)
NOW = START + 100 * DAY
GOOD = (Source("obs:m1", "ok", "unknown", START),)


def said(
    name: str,
    day: int,
    value: str = "live",
    *,
    predicate: Predicate = "status",
    trust: Trust = "unknown",
    sources: tuple[Source, ...] = GOOD,
    until: int | None = None,
    **more: object,
) -> Asserted:
    what = Assertion(
        "shop",
        predicate,
        FactObject("literal", value),
        START + day * DAY,
        None if until is None else START + until * DAY,
    )
    return Asserted(f"fact:{name}", f"m{name}", "", what, START + day * DAY, trust, sources, **more)


def ended(name: str, fact: str, day: int, how: str = "invalidated", trust: Trust = "unknown") -> Asserted:
    at = START + day * DAY
    return Asserted(f"fact:{name}", f"m{name}", "", Ending(f"fact:{fact}", "shop", how, at), at, trust)


def by_id(*asserted: Asserted, max_age: timedelta | None = None) -> dict[str, TemporalFact]:
    return {fact.id: fact for fact in view(asserted, NOW, max_age)}


def test_a_new_status_supersedes_the_earlier_one() -> None:
    facts = by_id(said("a", 0, "beta"), said("b", 10))
    assert (facts["fact:a"].status, facts["fact:a"].superseded_by) == ("superseded", ("fact:b",))
    assert facts["fact:a"].valid_to == START + 10 * DAY == facts["fact:b"].valid_from
    assert facts["fact:b"].status == "active"
    assert facts["fact:a"].holds_at(START + 5 * DAY)


def test_what_is_asserted_late_takes_its_place_in_time() -> None:
    facts = by_id(said("a", 0, "beta"), said("c", 20), said("b", 10, "frozen"))
    assert [facts[f"fact:{name}"].valid_to for name in "abc"] == [START + 10 * DAY, START + 20 * DAY, None]


def test_facts_of_other_predicates_coexist() -> None:
    facts = by_id(said("a", 0, "Redis", predicate="uses"), said("b", 10, "Postgres", predicate="uses"))
    assert {fact.status for fact in facts.values()} == {"active"}


def test_a_less_trusted_memory_neither_supersedes_nor_ends_a_more_trusted_one() -> None:
    facts = by_id(said("a", 0, trust="trusted"), said("b", 10, "off"), ended("c", "a", 20))
    assert (facts["fact:a"].status, facts["fact:a"].authoritative) == ("active", True)
    assert facts["fact:b"].status == "stale"
    assert {issue.code for issue in issues_of(list(facts.values()))} == {"contradictory_active", "stale"}


def test_what_only_a_tool_says_ends_nothing() -> None:
    tool = (Source("ep:1", "ok", "untrusted"),)
    facts = by_id(said("a", 0, "live"), said("b", 10, "retired", sources=tool))
    assert (facts["fact:a"].status, facts["fact:b"].status) == ("active", "stale")
    facts = by_id(said("a", 0, "live", sources=tool), said("b", 10, "retired", sources=tool))
    assert facts["fact:a"].status == "superseded"


def test_an_end_says_when_and_a_retraction_that_it_never_held() -> None:
    facts = by_id(said("a", 0, "Redis", predicate="uses"), ended("e", "a", 5))
    assert (facts["fact:a"].status, facts["fact:a"].holds_at(START + 4 * DAY)) == ("invalidated", True)
    facts = by_id(said("a", 0, "Redis", predicate="uses"), ended("e", "a", 5, "retracted"))
    assert (facts["fact:a"].status, facts["fact:a"].holds_at(START + 4 * DAY)) == ("retracted", False)


@pytest.mark.parametrize("status", ["missing", "forgotten", "quarantined", "replaced"])
def test_a_fact_without_a_source_that_is_there_is_stale_and_says_why(status: str) -> None:
    fact = by_id(said("a", 0, sources=(Source("obs:m1", status, "untrusted"),)))["fact:a"]
    assert (fact.status, fact.authoritative, fact.tier) == ("stale", False, "low")
    assert fact.reasons == (f"its source obs:m1 is {status}",)
    assert [issue.code for issue in issues_of([fact])] == ["sourceless"]


def test_a_fact_that_lost_one_of_two_sources_still_holds() -> None:
    fact = by_id(said("a", 0, sources=(*GOOD, Source("obs:m2", "forgotten", "untrusted"))))["fact:a"]
    assert (fact.status, fact.tier, fact.authoritative) == ("active", "source_capped", True)
    assert [issue.code for issue in issues_of([fact])] == ["dangling_source_ref"]


def test_sources_cap_the_confidence() -> None:
    trusted = Source("obs:m2", "ok", "trusted", START)
    tiers = {
        name: by_id(said("a", 0, sources=sources))["fact:a"].tier
        for name, sources in (("one", GOOD), ("two", (*GOOD, trusted)))
    }
    assert tiers == {"one": "source_capped", "two": "corroborated"}
    assert by_id(said("a", 0, trust="untrusted"))["fact:a"].tier == "low"


def test_a_fact_that_nothing_confirmed_for_long_is_stale() -> None:
    assert by_id(said("a", 0), max_age=200 * DAY)["fact:a"].status == "active"
    fact = by_id(said("a", 0), max_age=50 * DAY)["fact:a"]
    assert (fact.status, fact.reasons) == ("stale", ("nothing has confirmed it for more than 50 days",))


def test_lint_finds_cycles_of_what_replaces_what() -> None:
    def replaces(name: str, subject: str, other: str) -> Asserted:
        what = Assertion(subject, "replaces", FactObject("literal", other), START)
        return Asserted(f"fact:{name}", f"m{name}", "", what, START, sources=GOOD)

    facts = view([replaces("a", "x", "y"), replaces("b", "y", "z"), replaces("c", "z", "x")], NOW)
    assert [issue.code for issue in issues_of(facts)] == ["replaces_cycle"]
    assert issues_of(view([replaces("a", "x", "y"), replaces("b", "y", "z")], NOW)) == []


_DAYS = st.integers(0, 30)
_TRUST = st.sampled_from(["untrusted", "unknown", "trusted"])


@given(st.lists(st.tuples(_DAYS, st.sampled_from(["live", "off", "beta"]), _TRUST), max_size=6))
def test_a_subject_has_one_status_at_a_time_for_each_trust(given_facts: list[tuple[int, str, Trust]]) -> None:
    """Of equally trusted assertions one holds; and the order in which they arrive changes nothing."""
    asserted = [said(str(n), day, value, trust=trust) for n, (day, value, trust) in enumerate(given_facts)]
    facts = view(asserted, NOW)
    for day in range(32):
        held = [fact.trust for fact in facts if fact.holds_at(START + day * DAY)]
        assert len(held) == len(set(held))
    for order in list(permutations(asserted))[:6]:
        assert view(order, NOW) == facts
