"""Triples: passages that the graph links, and facts with all their sources."""

from __future__ import annotations

from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from pathlib import Path
from tempfile import TemporaryDirectory

import pytest
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st

from adapters.triples import Triples
from fusion.contract import Backend, Extraction, Fact, Hit, Opening, Place, Scope
from fusion.contract import Extracted as Extracted_
from tests.backend_contract import BackendContract, event_id, make_event, make_extracted, make_query, opening

ADA, BEN = Scope(user_id="ada"), Scope(user_id="ben")
BUG = Fact("Julien", "corrected_by", "bug gateway")


class TestTriples(BackendContract):
    """Passages; facts, which the suite's samples hold too, have their own tests below."""

    filters = True

    async def open_backend(self, folder: Path) -> Backend:
        return await Triples.open(opening(folder, facts=0))


class TestTriplesWithFacts(BackendContract):
    """…and the suite again with facts among the hits, wherever it does not count hits by their event."""

    filters = True

    async def open_backend(self, folder: Path) -> Backend:
        return await Triples.open(opening(folder))

    test_scope_is_honoured = None  # type: ignore[assignment]  # it takes every hit for an event
    test_hits_echo_their_event = None  # type: ignore[assignment]
    test_private_items_stay_private = None  # type: ignore[assignment]
    test_same_text_twice_is_two_memories = None  # type: ignore[assignment]


@asynccontextmanager
async def wordy(folder: Path, **options: object) -> AsyncIterator[Triples]:
    """A store without an embedder, so that what is found by words is plain."""
    triples = await Triples.open(Opening("triples", folder, options))
    try:
        yield triples
    finally:
        await triples.close()


@pytest.fixture
async def triples(tmp_path: Path) -> AsyncIterator[Triples]:
    async with wordy(tmp_path / "triples") as opened:
        yield opened


def written(n: int, text: str, scope: Scope = ADA, document: str | None = None, **more: object) -> Extracted_:
    """An event from which capture extracted nothing: only its own text states triples."""
    place = Place(document, n, n, "line") if document else None
    return Extracted_(make_event(n, text, scope, place=place, **more), Extraction())


async def ask(triples: Triples, text: str, scope: Scope = ADA, limit: int = 100) -> tuple[list[Hit], list[Hit]]:
    """The passages and the facts among the hits."""
    hits = await triples.search(make_query(text, scope, limit))
    assert len(hits) <= limit
    return [h for h in hits if h.event_id], [h for h in hits if not h.event_id]


@pytest.mark.row("A141", "triples: a hit carries the path that justifies it")
async def test_a_passage_carries_its_chain(triples: Triples) -> None:
    """A line with arrows makes an edge; a question for one end gets the passage and the edge that led there."""
    await triples.remember([written(1, "stand-up\n- Julien -> corrected_by -> bug gateway\n- coffee is out")])
    passages, _ = await ask(triples, "what did Julien do?")
    assert [hit.event_id for hit in passages] == [event_id(1)]
    assert passages[0].text.startswith("stand-up")
    assert passages[0].path == ("Julien", "corrected_by", "bug gateway")


async def test_linked_passages_without_a_common_word(triples: Triples) -> None:
    """The note about the bug links the release, whose own note never names Julien; and that one leads on to another.

    Two steps, from the one passage that the query's words find: what it names, and what these name.
    """
    await triples.remember(
        [
            written(1, "---\ntitle: bug gateway\nfixed by: Julien\n---\nseen in [[Release 4]]", document="bug.md"),
            written(2, "---\nshipped: spring\n---\nmany changes", document="Release 4.md"),
            written(3, "---\ncity: Lisbon\n---\nwarm", document="spring.md"),
            written(4, "---\nriver: Tejo\n---\nsteep", document="Lisbon.md"),
        ]
    )
    passages, _ = await ask(triples, "Julien")
    assert [hit.event_id for hit in passages] == [event_id(1), event_id(2), event_id(3)]
    assert passages[0].path == ("bug gateway", "fixed by", "Julien")
    assert passages[1].path == ("Julien", "mentioned with", "Release 4", "shipped", "spring")
    assert passages[2].path == ("Julien", "mentioned with", "Release 4", "shipped", "spring", "city", "Lisbon")
    strengths = [hit.graph_score or 0.0 for hit in passages]
    assert 1 > strengths[0] > strengths[1] > strengths[2] > 0


@pytest.mark.feature("triples: it stores what capture extracted, too")
async def test_what_capture_found_is_kept_too(triples: Triples) -> None:
    """Capture's facts and the text's own are one graph."""
    await triples.remember([make_extracted(make_event(1, "A -> leads_to -> B", ADA), Fact("B", "ends_in", "Lisbon"))])
    passages, _ = await ask(triples, "Lisbon")
    assert passages[0].path == ("B", "ends_in", "Lisbon")


async def test_a_fact_answers_with_its_sources(triples: Triples) -> None:
    """An edge that says what is asked is a hit: its text, its path and each memory that asserts it in any spelling."""
    await triples.remember([make_extracted(make_event(1, "first telling", ADA), BUG)])
    await triples.remember([make_extracted(make_event(2, "again", ADA), Fact("julien", "Corrected by", "Bug Gateway"))])
    _, facts = await ask(triples, "who corrected the gateway bug?")
    (fact,) = facts
    assert (fact.text, fact.path) == ("Julien Corrected by bug gateway", ("Julien", "Corrected by", "bug gateway"))
    assert (fact.kind, fact.event_id, fact.derived_from) == ("fact", None, (event_id(1), event_id(2)))
    assert fact.native_id.startswith("fact:")
    assert fact.fact == Fact("Julien", "Corrected by", "bug gateway")


async def test_one_fact_though_asserted_in_two_sessions(triples: Triples) -> None:
    """The same triple in two sessions of one user is one hit with both sources; asked in one session, with one."""
    one, two = Scope(user_id="ada", session_id="one"), Scope(user_id="ada", session_id="two")
    await triples.remember([make_extracted(make_event(n, "x", s), BUG) for n, s in ((1, one), (2, two))])
    _, both = await ask(triples, "Julien corrected the gateway bug", ADA)
    assert [set(fact.derived_from) for fact in both] == [{event_id(1), event_id(2)}]
    _, first = await ask(triples, "Julien corrected the gateway bug", one)
    assert [fact.derived_from for fact in first] == [(event_id(1),)]


async def test_an_edge_that_does_not_answer_is_no_hit(triples: Triples) -> None:
    """One term of four in the query is a coincidence, not an answer: the passage comes, the fact does not."""
    await triples.remember([make_extracted(make_event(1, "x", ADA), BUG)])
    passages, facts = await ask(triples, "what does Julien like?")
    assert (len(passages), facts) == (1, [])


async def test_a_fact_is_as_good_as_its_best_source(triples: Triples) -> None:
    """Trusted by one memory and untrusted by another is trusted; by an untrusted one alone it is not."""
    await triples.remember([make_extracted(make_event(1, "x", ADA, trust="trusted"), BUG)])
    await triples.remember([make_extracted(make_event(2, "y", ADA, trust="untrusted"), BUG)])
    _, facts = await ask(triples, "Julien corrected the gateway bug")
    assert [fact.trust for fact in facts] == ["trusted"]
    await triples.forget(event_id(1), [])
    _, facts = await ask(triples, "Julien corrected the gateway bug")
    assert [fact.trust for fact in facts] == ["untrusted"]


async def test_few_facts(triples: Triples) -> None:
    """At most 20 of 100 hits are facts, 1 of 5, none of 4: they repeat what passages say in full."""
    await triples.remember(
        [
            make_extracted(make_event(n, f"note {n} about tea", ADA), Fact("Julien", "likes tea", f"T{n}"))
            for n in range(1, 41)
        ]
    )
    assert [len((await ask(triples, "Julien likes tea", limit=limit))[1]) for limit in (100, 5, 4)] == [20, 1, 0]


async def test_a_fact_survives_while_one_memory_asserts_it(triples: Triples) -> None:
    """Forgetting one of two sources leaves the edge with the other; forgetting both takes it, and its index entry."""
    await triples.remember([make_extracted(make_event(n, f"telling {n}", ADA), BUG) for n in (1, 2)])
    await triples.forget(event_id(1), [])
    passages, facts = await ask(triples, "who corrected the gateway bug?")
    assert [fact.derived_from for fact in facts] == [(event_id(2),)]
    assert [hit.event_id for hit in passages] == [event_id(2)]
    assert triples._index.size == 2
    await triples.forget(event_id(2), [])
    assert await ask(triples, "who corrected the gateway bug?") == ([], [])
    assert triples._index.size == 0


async def test_superseded_sources_assert_nothing(triples: Triples) -> None:
    """A correction takes the old memory's edges with it."""
    await triples.remember([make_extracted(make_event(1, "old", ADA), BUG)])
    await triples.remember([make_extracted(make_event(2, "Marta did it", ADA, supersedes=event_id(1)))])
    assert await ask(triples, "who corrected the gateway bug?") == ([], [])


async def test_one_store_is_enough(triples: Triples) -> None:
    """What has no triple at all is still found by its words."""
    await triples.remember([written(1, "the heron stood in the reeds")])
    passages, _ = await ask(triples, "where was the heron")
    assert [hit.event_id for hit in passages] == [event_id(1)]
    assert passages[0].path == ()


who = st.sampled_from([None, "ada", "ben"])
scopes = st.builds(
    Scope, st.just("default"), who, session_id=st.sampled_from([None, "s"]),
    audience=st.sampled_from(["private", "group"]),
)  # fmt: skip
names = st.sampled_from(["Alpha", "Beta", "Gamma"])


@settings(max_examples=25, deadline=None, suppress_health_check=[HealthCheck.too_slow])
@given(st.lists(st.tuples(scopes, names, names), min_size=1, max_size=7), scopes, names)
async def test_nothing_crosses_a_scope(stored: list[tuple[Scope, str, str]], asking: Scope, name: str) -> None:
    """Passages and facts are admitted; a fact names as sources exactly admitted memories that assert it."""
    batch = [
        make_extracted(make_event(n, f"note {n}", scope), Fact(one, "knows", other))
        for n, (scope, one, other) in enumerate(stored, start=1)
    ]
    with TemporaryDirectory() as folder:
        async with wordy(Path(folder)) as triples:
            await triples.remember(batch)
            passages, facts = await ask(triples, f"{name} knows Alpha Beta Gamma", asking)
    assert all(asking.admits(hit.scope) for hit in (*passages, *facts))
    asserted: dict[tuple[str, str, str], set[str]] = {}
    for n, (scope, one, other) in enumerate(stored, start=1):
        if asking.admits(scope) and one != other:
            asserted.setdefault((one, "knows", other), set()).add(event_id(n))
    assert {fact.path: set(fact.derived_from) for fact in facts} == asserted
