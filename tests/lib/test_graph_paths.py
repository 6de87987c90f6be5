"""Paths through a graph: how they read, what depends on what, and which edges say the same."""

from __future__ import annotations

from hypothesis import given
from hypothesis import strategies as st

from fusion.lib.graph_paths import Edge, Reached, affected, asks_for_relations, merged, step


def edge(subject: str, predicate: str, object_: str, relation: str = "USES", ref: str = "obs:m1") -> Edge:
    return Edge(subject, predicate, object_, relation, relation == "BLOCKS", (ref,))


def test_a_path_shows_the_direction_of_each_edge() -> None:
    way = (edge("Hjul", "uses", "Postgres 16"), edge("Loket", "uses", "postgres 16"))
    assert Reached("Loket", "project", "Hjul", way).path == "Hjul → uses → Postgres 16 ← uses ← Loket"


def test_what_depends_on_an_entity_is_affected_by_it() -> None:
    edges = [edge("shop", "uses", "db"), edge("db", "uses", "disk"), edge("shop", "likes", "db", "")]
    assert affected(edges, ["DB"]) == [edges[0]]


def test_edges_that_say_the_same_are_one_with_all_refs() -> None:
    (one,) = merged([edge("Shop", "depends_on", "db", ref="obs:m1"), edge("shop", "depends on", "DB", ref="obs:m2")])
    assert (one.subject, one.refs) == ("Shop", ("obs:m1", "obs:m2"))


def test_a_question_for_relations_is_known_by_its_words() -> None:
    assert asks_for_relations("What depends on Redis?")
    assert not asks_for_relations("When is the dentist?")


_NAMES = st.sampled_from("abcdef")


@given(st.lists(st.tuples(_NAMES, _NAMES), max_size=20), st.integers(0, 5))
def test_a_step_reaches_each_entity_once_and_no_more_than_its_limit(pairs: list[tuple[str, str]], limit: int) -> None:
    edges = merged(edge(one, "uses", other) for one, other in pairs)
    seen = {"a"}
    found = step([Reached("a", "concept", "a")], edges, seen, limit)
    names = [one.name for one in found]
    assert len(names) == len(set(names)) <= limit
    assert "a" not in names
    assert all({"a", one.name} == {one.way[0].subject, one.way[0].object} for one in found)
