"""Signals of what a memory is: the arithmetic of each, the penalties, and open conflicts as rivals."""

from __future__ import annotations

from dataclasses import replace
from datetime import timedelta

import numpy as np
import pytest

from fusion.contract import Moment, Scope, State
from fusion.lib.bm25 import Frequencies
from fusion.recall.dedup import Candidate
from fusion.recall.expand import Pooled
from fusion.recall.rerank import by_local_score
from fusion.recall.signals import Likeness, SignalTable, boosted, local_signals, penalised
from fusion.recall.standing import STANDING, Standing, standing_signals, standings_of, with_conflicts
from fusion.recipe import RerankSettings
from tests.recall.helpers import NOW, query, record, standalone


def entry(ref: str, text: str = "tea", **fields: object) -> Pooled:
    return Pooled(Candidate(ref, standalone(ref, text, **fields), ()), 0.0, {})


def of(standing: Standing, name: str, **fields: object) -> float:
    """One signal of one memory of the project alpha, asked about Rust in that project."""
    asked = query("what about Rust?", scope=Scope(project="alpha"))
    (value,) = standing_signals(asked, [entry("m", **fields)], {"m": standing}, {name})[name].tolist()
    return float(value)


@pytest.mark.row(
    "A009",
    "A010",
    "A011",
    "A013",
    "A014",
    "A015",
    "the factors of seed 000 that depend on a memory alone are signals of the fused pool",
)
def test_each_standing_signal_has_its_seeds_arithmetic() -> None:
    """A week ago → .5; 1,023 uses → 1; a rule 1.5/1.5, a preference .7/1.5; the project's own 1, a permanent one
    1/1.5; 31 repeats → log2(32)/5 = 1; one of two tags in the question → .5."""
    used = Standing(included=1023, last_included_at=NOW - timedelta(hours=168))
    assert (of(used, "recency"), of(used, "use")) == (pytest.approx(0.5), pytest.approx(1.0))
    assert (of(Standing(), "recency"), of(Standing(), "use")) == (pytest.approx(0.1), 0.0)
    assert of(Standing(), "type", kind="rule") == 1.0
    assert of(Standing(), "type", kind="preference") == pytest.approx(0.7 / 1.5)
    mine = Standing(state=State("project"))
    assert of(mine, "ownership", scope=Scope(project="alpha")) == 1.0
    assert of(mine, "ownership", scope=Scope(project="beta")) == pytest.approx(0.8 / 1.5)
    assert of(Standing(), "ownership") == pytest.approx(1 / 1.5)
    assert of(Standing(state=State(confidence=0.9)), "confidence") == 0.9
    assert of(Standing(state=State(confidence=0.001)), "confidence") == 0.7
    assert of(Standing(state=State(reinforced_count=31)), "reinforcement") == 1.0
    assert of(Standing(state=State(tags=("rust", "go"))), "tags") == 0.5


def test_importance_is_absent_until_somebody_grades_it() -> None:
    assert np.isnan(of(Standing(), "importance"))
    assert of(Standing(state=State(importance=0.8)), "importance") == 0.8


@pytest.mark.row("A147", "a score is multiplied by the factors of a recipe, and the receipt has each of them")
def test_score_is_multiplied_by_its_factors() -> None:
    """1 · 1 · 1 · .77 · 1 for what must be remembered; a week-old episode of no importance .67 · .71 · .77."""
    factors = ("importance_weight", "recency_decay", "use_boost", "state_gate")
    standings = {"m1": Standing("e1", State(importance=0.9)), "m2": Standing("e2", State(importance=0.1))}
    pool = [entry("m1", kind="rule", at=Moment(NOW)), entry("m2", kind="episode", at=Moment(NOW - timedelta(days=7)))]
    columns = standing_signals(query("tea"), pool, standings, factors)
    table = SignalTable(2, {"fusion": np.ones(2), **columns})
    numbers = RerankSettings(signals={"fusion": 1.0}, factors=factors)
    one, other = by_local_score(pool, table, numbers)
    assert one.local == pytest.approx(1 / 1.3)
    assert other.local == pytest.approx(0.8 / 1.2 * 0.5**0.5 / 1.3)
    assert numbers.weighed == {"fusion", *factors}
    assert by_local_score(pool, table, RerankSettings(signals={"fusion": 1.0}))[1].local == 1.0, "others are as before"


@pytest.mark.parametrize(("trust", "value"), [("trusted", 1.0), ("unknown", 0.67), ("untrusted", 0.33)])
def test_trust_is_a_signal(trust: str, value: float) -> None:
    assert of(Standing(), "trust", trust=trust) == value


def test_a_recipe_without_standing_signals_computes_none() -> None:
    assert standing_signals(query("tea"), [entry("m")], {}, {"bm25", "dense"}) == {}
    records = {"e1": record("e1", "tea"), "e2": record("e2", "milk", state=State(conflict_status="active"))}
    assert list(standings_of(records, (), {})) == ["me2"], "an open conflict is shown by every recipe"
    assert list(standings_of(records, STANDING, {})) == ["me1", "me2"]


def conflict(event_id: str, other: str) -> Standing:
    state = State(conflict_group="g", conflict_status="active", contradicts=other)
    return Standing(event_id, state)


@pytest.mark.row("A017", "A018", "the seed's penalties: the earlier side of a conflict .3 · .8, the later side .8")
def test_penalties_of_a_superseded_memory_and_of_a_conflict() -> None:
    """.5 · .3 · .8 = .12 for the earlier side, .5 · .8 = .4 for the later one, and .5 for a third."""
    standings = {"m1": conflict("e1", "e2"), "m2": conflict("e2", "e1"), "m3": Standing("e3")}
    pool = [entry(ref) for ref in standings]
    columns = standing_signals(query("tea"), pool, standings, {"superseded", "conflict"})
    table = SignalTable(3, columns)
    means = penalised(np.full(3, 0.5), table, {"superseded": 0.3, "conflict": 0.8})
    assert means.tolist() == [pytest.approx(0.12), pytest.approx(0.4), 0.5]


def test_a_newer_version_in_the_pool_penalises_the_older_one() -> None:
    standings = {"m1": Standing("e1"), "m2": Standing("e2", supersedes="e1")}
    columns = standing_signals(query("tea"), [entry(ref) for ref in standings], standings, {"superseded"})
    assert columns["superseded"].tolist() == [1.0, 0.0]


def test_the_sides_of_an_open_conflict_are_rivals_once() -> None:
    standings = {"m1": conflict("e1", "e2"), "m2": conflict("e2", "e1")}
    pool = with_conflicts([entry("m1"), entry("m2"), entry("m3")], standings)
    again = with_conflicts(pool, standings)
    assert [[rival.ref for rival in one.candidate.rivals] for one in again] == [["m2"], ["m1"], []]
    alone = with_conflicts([entry("m1")], standings)
    assert alone[0].candidate.rivals == ()


@pytest.mark.feature("a memory of the question's project is first among equals (`project_boost`)")
def test_the_project_of_the_question_raises_its_memories() -> None:
    """1 - (1 - .5)(1 - .2) = .6 for a memory of the project; nothing changes where the question names none."""
    means = boosted(np.array([0.5, 0.5]), SignalTable.of([{"project": 1.0}, {"project": 0.0}]), "project", 0.2)
    assert means.tolist() == [pytest.approx(0.6), 0.5]
    pool = [entry("m1", scope=Scope(project="alpha")), entry("m2", scope=Scope(project="beta"))]
    numbers = RerankSettings(signals={"bm25": 1.0}, project_boost=0.2)
    for project, expected in (("beta", ["m2", "m1"]), ("alpha", ["m1", "m2"])):
        asked = replace(query("tea"), scope=Scope(project=project))
        table = local_signals(asked, pool, 1.0, Frequencies(), Likeness())
        assert [scored.ref for scored in by_local_score(pool, table, numbers)] == expected
    assert "project" not in local_signals(query("tea"), pool, 1.0, Frequencies(), Likeness()).columns
