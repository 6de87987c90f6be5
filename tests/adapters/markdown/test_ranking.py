"""The pipeline as a whole: merge, decay, sort, mentions, MMR, floor, top k."""

from __future__ import annotations

from datetime import UTC, datetime, timedelta
from itertools import islice

import pytest
from hypothesis import given
from hypothesis import strategies as st

from adapters.index.merge import Scored, SearchResult
from adapters.markdown.mentions import AMONG, Note
from adapters.markdown.ranking import MERGES, Ranking, lifted, merged, ranked

NOW = datetime(2026, 6, 1, tzinfo=UTC)
SEED = Ranking("weighted", min_score=0.35)


def keys(
    by_words: Scored, by_vectors: Scored, ranking: Ranking, days: dict[str, float] | None = None, k: int = 100
) -> list[str]:
    """``days``: how old what a key stands for is; what is not named does not age. A key is its own text."""
    found = ranked(
        merged(by_words, by_vectors, ranking),
        ranking,
        "what is asked",
        noted=lambda key: NOW - timedelta(days=days[key]) if days and key in days else None,
        note=lambda key: Note(f"{key}.md", "Alder and " + key.title()),
        text=lambda key: key,
        now=NOW,
    )
    return [one.key for one in islice(found, k)]


def never(key: str) -> None:
    raise AssertionError(f"asked for {key}")


def test_steps_that_are_off_ask_for_nothing() -> None:
    """Decay and MMR are off by default: neither dates nor texts are looked up; nor notes without mentions. First in
    both lists: 1."""
    ranking = Ranking(mention_lift=0)
    merge = merged([("a", 2.0)], [("a", 0.5)], ranking)
    found = list(ranked(merge, ranking, "what?", noted=never, note=never, text=never, now=NOW))  # type: ignore[arg-type]
    assert found == [SearchResult("a", 1.0, 2.0, 0.5)]
    assert (Ranking().looks, ranking.looks, Ranking(mmr_lambda=0.5).looks) == (AMONG, 0, None)


def test_decay_comes_before_the_order() -> None:
    """.7 × .9 = .63, a month old .315; .7 × .5 = .35 is evergreen and goes before it."""
    by_vectors = [("log", 0.9), ("topic", 0.5)]
    assert keys([], by_vectors, Ranking("weighted")) == ["log", "topic"]
    assert keys([], by_vectors, Ranking("weighted", half_life_days=30), {"log": 30}) == ["topic", "log"]


def test_decay_comes_before_the_floor() -> None:
    """A cosine of .8, alone .7 × .8 = .56; after 30 days .28 is below .35."""
    by_vectors = [("log", 0.8)]
    assert keys([], by_vectors, SEED) == ["log"]
    assert keys([], by_vectors, Ranking("weighted", half_life_days=30, min_score=0.35), {"log": 30}) == []


@pytest.mark.row(
    "A059",
    "Markdown: the pipeline is merge, decay, sort, mentions (ours; 0 leaves them out), MMR, floor, "
    "top k, in this order",
)
def test_mmr_comes_after_decay() -> None:
    """Two alike and one other: .63, .56 and .42. Relevances 1, (.56 - .42)/.21 = .667, 0; the twin shares 2 of 3 words:
    .7 × .667 - .3 × .667 = .267 goes before 0. Half a year old its relevance is 0 too (it is the least), and the other
    one, (.42 - .009)/.621 = .66, goes before it."""
    by_vectors = [("red cat", 0.9), ("red cat sleeps", 0.8), ("blue dog", 0.6)]
    ranking = Ranking("weighted", half_life_days=30, mmr_lambda=0.7)
    assert keys([], by_vectors, ranking) == ["red cat", "red cat sleeps", "blue dog"]
    assert keys([], by_vectors, ranking, {"red cat sleeps": 180}) == ["red cat", "blue dog", "red cat sleeps"]


@pytest.mark.row(
    "A062",
    "a floor (`min_score`, the seed's .35; none by default: `minScore` of the tool is the floor of an "
    "answer), and a lower one for hits of words alone, which fill the rest",
)
def test_hits_of_words_alone_pass_a_relaxed_floor() -> None:
    """.3 × 4/5 = .24 is below .35, but the words themselves, 4/5, are above min(.35, .3); 1/5 is not. They are last."""
    by_words, by_vectors = [("code", 4.0), ("weak", 0.25)], [("near", 0.6), ("far", 0.3)]
    assert keys(by_words, by_vectors, SEED) == ["near", "code"]
    assert keys(by_words, by_vectors, SEED, k=1) == ["near"]


def test_the_floor_without_vectors_is_that_of_the_text_score() -> None:
    """BM25 1 is 1/2, .25 is 1/5; the floor is .35, relaxed .3."""
    assert keys([("good", 1.0), ("poor", 0.25)], [], SEED) == ["good"]


@pytest.mark.parametrize("merge", MERGES)
def test_the_same_order_however_it_came(merge: str) -> None:
    """What is best in both lists is first, whichever way they are merged."""
    assert keys([("a", 9.0), ("b", 3.0)], [("a", 0.9), ("c", 0.2)], Ranking(merge))[0] == "a"


@pytest.mark.feature(
    "Markdown: a note that the best three hits mention, by name, `[[link]]` or title, moves up: the "
    "second note of a question that needs two"
)
def test_what_the_best_lead_to_rises() -> None:
    """The best hit, .8, names Alder Weir, which of the others only the last one has: .8 sure, lifted by half of that to
    1 - (1 - .3)(1 - .5 × .8) = .58, over .5. That one, .3, leads back: 1 - (1 - .8)(1 - .5 × .3) = .83."""
    said = {"best": "It stands at Alder Weir.", "second": "It rains.", "last": "Alder Weir was built in 1911."}
    found = [SearchResult("best", 0.8), SearchResult("second", 0.5), SearchResult("last", 0.3)]
    risen = lifted(iter(found), "when was the weir built?", lambda key: Note(f"{key}.md", said[key]), 0.5)
    assert [(one.key, pytest.approx(one.score)) for one in risen] == [("best", 0.83), ("last", 0.58), ("second", 0.5)]


@pytest.mark.feature(
    "… equal scores keep the order of the merge: the nearer first", of="Markdown: a note that the best"
)
def test_equals_stay_as_they_were_merged() -> None:
    """Where nothing rises, and where something else does: of the same score the nearer is first, whatever it is
    called."""
    found = [SearchResult("z", 0.8), SearchResult("y", 0.5), SearchResult("b", 0.5), SearchResult("a", 0.5)]
    assert list(lifted(found, "what?", lambda key: None, 0.5)) == found
    said = {"z": "Alder Weir", "b": "by Alder Weir"}
    risen = lifted(found, "what?", lambda key: Note(f"{key}.md", said.get(key, "It rains.")), 0.5)
    assert [one.key for one in risen] == ["z", "b", "y", "a"]


@pytest.mark.feature("… conversations are not changed", of="Markdown: a note that the best")
def test_what_is_of_no_file_neither_leads_nor_rises() -> None:
    """Entries of the gateway's own, a conversation's turns, stay where they are."""
    found = [SearchResult("a", 0.8), SearchResult("b", 0.5), SearchResult("c", 0.3)]
    assert list(lifted(found, "what?", lambda key: None, 0.5)) == found


LISTS = st.dictionaries(st.sampled_from(["a b", "b c", "c d", "d e", "e f", "a b c"]), st.floats(0.01, 0.99))


def scored(found: dict[str, float]) -> Scored:
    return sorted(found.items(), key=lambda hit: (-hit[1], hit[0]))


@pytest.mark.row(
    "A059", "… the best k are the first k of the best k + 1, with every setting", of="Markdown: the pipeline is merge"
)
@given(
    LISTS,
    LISTS,
    st.builds(
        Ranking,
        merge=st.sampled_from(MERGES),
        half_life_days=st.sampled_from([0.0, 30.0]),
        mention_lift=st.sampled_from([0.0, 0.5]),
        mmr_lambda=st.floats(0, 1),
        min_score=st.floats(0, 1),
    ),
    st.integers(0, 8),
)
def test_top_k_is_monotonic(words: dict[str, float], vectors: dict[str, float], ranking: Ranking, k: int) -> None:
    """The best k are the first k of the best k + 1, whatever is switched on."""
    days = {key: 20.0 * n for n, key in enumerate(sorted({*words, *vectors}))}
    lists = scored(words), scored(vectors)
    assert keys(*lists, ranking, days, k) == keys(*lists, ranking, days, k + 1)[:k]
