"""Personalised PageRank cut short: how much arrives where, what bounds it, and whose it is."""

from __future__ import annotations

from collections.abc import AsyncIterator
from math import log2
from pathlib import Path

import pytest
from hypothesis import given
from hypothesis import strategies as st

from adapters.triples import Triples
from adapters.triples.pagerank import Edge, Mention, Walk, propagate
from fusion.contract import Fact, Opening, Scope
from tests.adapters.triples.test_triples import ADA, BEN, ask, wordy
from tests.backend_contract import event_id, make_event, make_extracted


@pytest.fixture
async def triples(tmp_path: Path) -> AsyncIterator[Triples]:
    async with wordy(tmp_path / "triples") as opened:
        yield opened


def told(n: int, subject: str, predicate: str, object_: str, text: str = "x", scope: Scope = ADA, **more: object):  # type: ignore[no-untyped-def]
    return make_extracted(make_event(n, text, scope, **more), Fact(subject, predicate, object_))


# The formulas


def test_nothing_comes_back_to_where_it_was() -> None:
    """From the question .6 to three passages of weight 4, 1 and 1: .4, .1, .1. From passage 2 .3 to the two others."""
    assert propagate({0: 0.6}, {1: 4.0, 2: 1.0, 3: 1.0}) == pytest.approx({1: 0.4, 2: 0.1, 3: 0.1})
    assert propagate({2: 0.3}, {1: 4.0, 2: 1.0, 3: 1.0}) == pytest.approx({1: 0.24, 3: 0.06})
    assert propagate({2: 0.3}, {2: 1.0}) == {}


def test_a_walk_begins_at_names_and_at_passages() -> None:
    """Half at what is named; half at the passages, 1 : ½ : ⅓ : ¼ : ⅕ of them; with nothing named only the passages'."""
    walk = Walk({7: ("Julien", 0.5), 8: ("gateway", 0.25)}, [1, 2, 3, 4, 5, 6])
    assert {e: r.activation for e, r in walk.reached.items()} == pytest.approx({7: 1 / 3, 8: 1 / 6})
    whole = 1 + 1 / 2 + 1 / 3 + 1 / 4 + 1 / 5
    assert walk.frontier == pytest.approx({n: 0.5 / n / whole for n in range(1, 6)})


def test_a_rare_name_is_followed() -> None:
    """Of a passage with names that have 2, 8 and 65 mentions: 1/log2(3) against 1/log2(9), and nothing to the hub."""
    walk = Walk({}, [1])
    at = walk.frontier[1]
    rare, common = 1 / log2(3), 1 / log2(9)
    mentions = [Mention(1, 10, "rare", 2), Mention(1, 11, "common", 8), Mention(1, 12, "hub", 65)]
    masses = walk.to_entities(mentions, [], cap=64)
    assert masses == {
        10: {1: pytest.approx(at * rare / (rare + common))},
        11: {1: pytest.approx(at * common / (rare + common))},
    }


def test_an_edge_leads_on_rather_than_a_common_mention() -> None:
    """Of two names as rare, the one that an edge joins to the name one came by gets 2/3, over a link 1.5/2.5."""
    for predicate, share in (("uses", 2 / 3), ("links_to", 1.5 / 2.5)):
        walk = Walk({7: ("Julien", 1.0)}, [])
        walk.to_memories(walk.to_entities([], [], cap=64), {7: {1: 1.0}})
        mentions = [Mention(1, 10, "a", 2), Mention(1, 11, "b", 2)]
        masses = walk.to_entities(mentions, [Edge(1, 7, predicate, 10)], cap=64)
        assert masses[10][1] / (masses[10][1] + masses[11][1]) == pytest.approx(share)


amounts = st.dictionaries(st.integers(0, 5), st.floats(0, 1), max_size=5)
weights = st.dictionaries(st.integers(1, 5), st.sampled_from([1.0, 4.0]), max_size=5)


@given(amounts, weights)
def test_no_chance_is_made(come: dict[int, float], memory_weights: dict[int, float]) -> None:
    """What arrives is never more than what came."""
    assert sum(propagate(come, memory_weights).values()) <= sum(come.values()) + 1e-9


# In a store


@pytest.mark.feature("triples: passages over several hops are found by truncated personalised PageRank")
async def test_a_bridge_leads_to_the_passage_that_is_about_it(triples: Triples) -> None:
    """The question names the song; its passage names the singer; the singer's own article says what was asked for."""
    await triples.remember(
        [
            told(1, "Hello Love", "sung by", "Hank Snow", text="“Hello Love” was a single by Hank Snow"),
            told(2, "Hank Snow", "lived in", "Nashville", text="Hank Snow. He moved south in 1949"),
            told(3, "Hank Snow", "met", "Nobody", text="a list of people, among them Hank Snow"),
        ]
    )
    passages, _ = await ask(triples, "Where did the performer of Hello Love live?")
    assert [hit.event_id for hit in passages] == [event_id(1), event_id(2), event_id(3)]
    assert passages[1].path == ("Hello Love", "sung by", "Hank Snow", "lived in", "Nashville")
    assert (passages[1].graph_score or 0) > (passages[2].graph_score or 0) > 0


@pytest.mark.feature("triples: aliases are edges, visible and forgotten with their memory")
async def test_an_alias_leads_to_the_other_name(triples: Triples) -> None:
    """A question for one name finds statements about the other, and why; the alias is forgotten with its memory."""
    await triples.remember([told(1, "Ana Lima", "also called", "Nana", text="a nickname")])
    await triples.remember([told(2, "Ana Lima", "repairs", "clocks", text="clocks everywhere")])
    passages, _ = await ask(triples, "Nana")
    assert {hit.event_id for hit in passages} == {event_id(1), event_id(2)}
    assert passages[1].path == ("Nana", "also called", "Ana Lima", "repairs", "clocks")
    await triples.forget(event_id(1), [])
    assert await ask(triples, "Nana") == ([], [])


@pytest.mark.feature("… no walk passes through what the query may not see", of="triples: passages over several")
async def test_an_alias_of_another_session_joins_nothing(triples: Triples) -> None:
    """An alias that the query may not see is no edge of its walk."""
    other = Scope(user_id="ada", session_id="other")
    await triples.remember([told(1, "Ana Lima", "also called", "Nana", text="a nickname", scope=other)])
    await triples.remember([told(2, "Ana Lima", "repairs", "clocks", scope=Scope(user_id="ada", session_id="mine"))])
    assert await ask(triples, "Nana", Scope(user_id="ada", session_id="mine")) == ([], [])


@pytest.mark.feature(
    "… spellings that differ only in article and blanks are one entity", of="triples: aliases are edges, visible"
)
async def test_spellings_meet_in_one_node(triples: Triples) -> None:
    """A name that differs by article and blanks from one that is known is that one, told and asked; else a new one."""
    await triples.remember([told(1, "OpenAI", "uses", "Redis", text="first")])
    await triples.remember([told(2, "the Open AI", "uses", "Kafka", text="second")])
    passages, facts = await ask(triples, "what does OpenAI use?")
    assert {hit.event_id for hit in passages} == {event_id(1), event_id(2)}
    assert {fact.path for fact in facts} == {("OpenAI", "uses", "Redis"), ("OpenAI", "uses", "Kafka")}


@pytest.mark.row(
    "A141",
    "… an edge matches a question that names its relation in other words",
    of="triples: free predicates are",
)
async def test_a_question_asks_after_a_relation_in_other_words(triples: Triples) -> None:
    """ "depend on" and "uses" are one relation, so that the edge answers; "like" is another."""
    await triples.remember([told(1, "Gateway", "uses", "Redis cluster")])
    assert [f.path for f in (await ask(triples, "what does the gateway depend on?"))[1]] == [
        ("Gateway", "uses", "Redis cluster")
    ]
    assert (await ask(triples, "what does the gateway fear?"))[1] == []


@pytest.mark.feature("… a hub is bounded, and reported", of="triples: passages over several")
async def test_a_hub_is_bounded_and_reported(tmp_path: Path) -> None:
    """With a cap of 4, a name of 30 mentions leads to its newest 4 memories, and is no way from one to another."""
    async with wordy(tmp_path / "triples", fan_out=4, facts=0) as triples:
        await triples.remember(
            [told(n, "Hub", "was joined long ago by", f"Spoke{n}", text=f"note {n}") for n in range(1, 31)]
        )
        passages, _ = await ask(triples, "Hub")
        assert [hit.event_id for hit in passages if hit.graph_score] == [event_id(n) for n in (30, 29, 28, 27)]
        linked = [hit.event_id for hit in (await ask(triples, "Spoke3"))[0] if hit.graph_score]
        assert linked == [event_id(3)]
        notes = (await triples.describe()).notes
    assert "hubs (names of more than 4 mentions): 1; of each the newest 4 are walked" in notes


async def test_a_memory_read_before_is_not_shown_when_forgotten(triples: Triples) -> None:
    """Everything stored of it is deleted with it, and a new memory at its place is returned as itself."""
    await triples.remember([told(1, "Julien", "likes", "tea", text="one")])
    assert [hit.text for hit in (await ask(triples, "Julien"))[0]] == ["one"]
    await triples.forget(event_id(1), [])
    await triples.remember([told(2, "Julien", "likes", "milk", text="two")])
    assert [hit.text for hit in (await ask(triples, "Julien"))[0]] == ["two"]


async def test_another_users_names_lead_nowhere(triples: Triples) -> None:
    """Ben's bridge is not in Ada's graph."""
    await triples.remember([told(1, "Julien", "owns", "Kiln"), told(2, "Kiln", "stands in", "Faro", scope=BEN)])
    assert [hit.event_id for hit in (await ask(triples, "Julien"))[0]] == [event_id(1)]


async def test_an_older_file_is_brought_forward(tmp_path: Path) -> None:
    """A store of the first schema opens, keeps what it had, and gets what the walk goes by."""
    import sqlite3

    from adapters.graph.store import SCHEMA

    folder = tmp_path / "triples"
    folder.mkdir()
    old = sqlite3.connect(folder / "graph.sqlite")
    old.executescript(f"{SCHEMA}; pragma user_version = 1")
    old.close()
    triples = await Triples.open(Opening("triples", folder))
    try:
        await triples.remember([told(1, "Julien", "likes", "tea")])
        assert len((await ask(triples, "Julien"))[0]) == 1
    finally:
        await triples.close()


@pytest.mark.feature(
    "… a passage's topics are stored with it, and added to older files",
    of="triples: passages over several",
)
async def test_an_older_files_titles_are_found_out(tmp_path: Path) -> None:
    """What remembering notes today of a passage about Hank Snow is made up for in a file that never had it: it comes
    before the list that names him, whose words are as near; and nothing is left to be looked at again."""
    import sqlite3

    folder = tmp_path / "triples"
    about = told(2, "Hank Snow", "lived in", "Nashville", text="Hank Snow. He moved south in 1949")
    names = told(3, "Hank Snow", "met", "Nobody", text="a list of people, among them Hank Snow")
    song = told(1, "Hello Love", "sung by", "Hank Snow", text="“Hello Love” was a single")
    async with wordy(folder) as triples:
        await triples.remember([song, about, names])
        new = await ask(triples, "Hello Love")
    old = sqlite3.connect(folder / "graph.sqlite")
    assert old.execute("select count(*) from mention where about").fetchone() == (1,)
    later = "select name from sqlite_schema where sql like '%from in_step%' or sql like '%update tally%'"
    for (trigger,) in old.execute(later).fetchall():
        old.execute(f"drop trigger {trigger}")
    old.executescript(
        "drop table tally; drop table in_step; drop index relation_memory; alter table mention drop column about; "
        "drop table untitled; "
        "pragma user_version = 2"
    )
    old.close()
    async with wordy(folder) as triples:
        assert await ask(triples, "Hello Love") == new
    file = sqlite3.connect(folder / "graph.sqlite")
    assert file.execute("select count(*) from mention where about").fetchone() == (1,)
    assert file.execute("select count(*) from untitled").fetchone() == (0,)
    file.close()
