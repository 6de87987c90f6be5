"""The shared index: found at once by words, later by vectors, and never across scopes."""

from __future__ import annotations

import asyncio
from collections.abc import Sequence
from dataclasses import replace
from math import log
from pathlib import Path
from threading import current_thread
from typing import TYPE_CHECKING

import numpy as np
import pytest
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st
from rank_bm25 import BM25Okapi

from adapters.index import Entry, Index
from adapters.index.lexical import Lexical, terms
from adapters.index.matrix import Matrix, quantised
from adapters.index.vectors import Record, Vectors
from fusion.contract import Scope
from fusion.errors import BadInput, StoreBusy, StoreFull
from tests.adapters.index.helpers import ANN, BOB, CATS, LONG, both_ways, entry_of, keys, opened
from tests.fakes import FakeEmbedder, word_vector

if TYPE_CHECKING:
    from adapters.index.files import Encoded
    from adapters.index.merge import Scored
    from fusion.contract import Floats


def both(words: Scored, vectors: Scored) -> tuple[Scored, Scored]:
    """The halves of a search as they are, for `Index.made_of`."""
    return words, vectors


@pytest.mark.feature("the index merges BM25 and vectors by rank")
@both_ways
async def test_both_lists_are_fused_by_rank(tmp_path: Path, kind: type[Index]) -> None:
    """First in both lists is 1/(60+1) + 1/(60+1); an entry in one list has its one part, and no other score."""
    async with opened(tmp_path, FakeEmbedder(), kind=kind) as index:
        await index.settle()
        found = await index.search("red cat", ANN, 10)
        assert keys(found)[:2] == ["cat", "car"]
        assert found[0].score == 1 / 61 + 1 / 61
        assert found[1].score == 1 / 62 + 1 / 62
        assert found[2].key == "dog"
        assert (found[2].score, found[2].lexical) == (1 / 63, None)
        assert found[0].lexical == (await index.lexical("red cat", ANN, 1))[0][1]
        assert found[0].cosine == (await index.similar("red cat", ANN, 1))[0][1]
        assert keys(await index.search("red cat", ANN, 1)) == ["cat"]


@pytest.mark.feature("the index: words are searched while vectors are computed")
async def test_words_are_found_while_vectors_fill_in(tmp_path: Path) -> None:
    """The embedder is held up: search answers by words; as soon as it works, by vectors too."""
    gate = asyncio.Event()
    embedder = FakeEmbedder(gate=gate, synonyms={"feline": "cat"})
    async with opened(tmp_path, embedder) as index:
        await embedder.waiting.wait()
        assert (index.size, index.vectors, index.pending) == (4, 0, 4)
        assert keys(await index.search("red cats", ANN, 10)) == ["cat", "car"]
        assert await index.search("feline", ANN, 10) == []
        gate.set()
        await index.settle()
        assert (index.size, index.vectors, index.pending) == (4, 4, 0)
        assert keys(await index.search("feline", ANN, 10))[0] == "cat"


class Noting(FakeEmbedder):
    """Keeps what it was asked for, call by call."""

    def __init__(self, gate: asyncio.Event) -> None:
        super().__init__(gate=gate)
        self.calls: list[list[str]] = []

    async def embed(self, texts: Sequence[str], *, keep: bool = True) -> Floats:
        self.calls.append(list(texts))
        return await super().embed(texts, keep=keep)


@pytest.mark.feature("… and get their vectors first", of="new statements are delivered")
async def test_what_was_just_put_gets_its_vector_before_what_waits(tmp_path: Path) -> None:
    """A thousand entries of a folder wait; the one that was put meanwhile is in the next call of the embedder."""
    gate = asyncio.Event()
    embedder = Noting(gate)
    async with opened(tmp_path, embedder, truth=()) as index:
        await index.put([Entry(f"section {n}", ANN, f"section number {n}") for n in range(1000)])
        await embedder.waiting.wait()
        await index.put([Entry("tea", ANN, "tea is at four")])
        gate.set()
        await index.settle()
        assert (index.vectors, index.pending) == (1001, 0)
    assert embedder.calls[1] == ["tea is at four"]


@both_ways
async def test_without_an_embedder_words_are_all_there_is(tmp_path: Path, kind: type[Index]) -> None:
    """It works, it says so, and settling does not wait for what cannot come."""
    async with opened(tmp_path, None, kind=kind) as index:
        await index.settle()
        assert keys(await index.search("red cats", ANN, 10)) == ["cat", "car"]
        assert await index.similar("red cats", ANN, 10) == []
        assert (index.vectors, index.pending) == (0, 0)
        assert index.faults == ()


@both_ways
async def test_an_embedder_that_fails_costs_vectors_only(tmp_path: Path, kind: type[Index]) -> None:
    """Words are searched on, the fault stands in ``faults``; once it works again nothing is missing."""
    embedder = FakeEmbedder(failing=True)
    async with opened(tmp_path, embedder, kind=kind) as index:
        await index.settle()
        assert index.pending == 4
        assert index.faults == ("vectors are not filled in: the fake embedder is set to fail",)
        assert keys(await index.search("red cats", ANN, 10)) == ["cat", "car"]
        embedder.failing = False
        await index.settle()
        assert (index.vectors, index.pending, index.faults) == (4, 0, ())
        embedder.failing = True
        assert keys(await index.search("red cats", ANN, 10)) == ["cat", "car"]
        assert index.faults == ("search by vectors does not work: the fake embedder is set to fail",)


class Poisoned(FakeEmbedder):
    """No numbers for what has "poison" in it, until it is cured: alone, or among others."""

    cured = False

    async def embed(self, texts: Sequence[str], *, keep: bool = True) -> Floats:
        vectors = (await super().embed(texts, keep=keep)).copy()
        vectors[["poison" in text and not self.cured for text in texts]] = np.nan
        return vectors


@pytest.mark.feature("the index: a text without a vector delays no other")
async def test_a_text_without_a_vector_holds_up_no_other(tmp_path: Path) -> None:
    """It alone waits for its own, and the note says why; what is put meanwhile gets its vector; nothing is lost."""
    embedder = Poisoned()
    truth = [Entry(str(n), ANN, "poison" if n in (0, 150) else f"room {n}") for n in range(300)]
    async with opened(tmp_path, embedder, truth) as index:
        await index.settle()
        assert (index.vectors, index.pending) == (298, 2)
        assert index.faults == ("vectors are not filled in: fake@1 gave vectors with NaN or infinity in them",)
        await index.put([Entry("new", ANN, "another room")])
        await index.settle()
        assert (index.vectors, index.pending) == (299, 2)
        await index.put([Entry("0", ANN, "an antidote")])
        await index.settle()
        assert (index.vectors, index.pending) == (300, 1)
        embedder.cured = True
        await index.settle()
        assert (index.vectors, index.pending, index.faults) == (301, 0, ())


async def test_put_replaces_and_drop_removes(tmp_path: Path) -> None:
    """By words when it returns, by vectors after settling; a key that is not there may be dropped."""
    embedder = FakeEmbedder()
    async with opened(tmp_path, embedder) as index:
        await index.put([Entry("cat", ANN, "a green parrot"), Entry("new", ANN, "the red bicycle")])
        assert keys(await index.lexical("cat", ANN, 10)) == []
        assert keys(await index.lexical("parrot", ANN, 10)) == ["cat"]
        await index.settle()
        assert keys(await index.similar("green parrot", ANN, 1)) == ["cat"]
        await index.drop(["cat", "nothing"])
        assert (index.size, index.vectors) == (4, 4)
        assert set(keys(await index.search("green parrot", ANN, 10))) == {"new", "car", "dog"}
        await index.put([])
        await index.drop([])


async def test_putting_what_is_there_changes_nothing(tmp_path: Path) -> None:
    """The same text under the same scope is not written again; under another scope its vector is kept."""
    embedder = FakeEmbedder()
    async with opened(tmp_path, embedder) as index:
        await index.settle()
        await index.put(CATS)
        assert index.pending == 0
        await index.put([replace(CATS[0], scope=BOB)])
        assert (index.pending, index.vectors) == (0, 4)
        assert keys(await index.similar("red cat sofa", BOB, 10)) == ["cat", "bob"]
        assert keys(await index.search("sofa", ANN, 1)) != ["cat"]
        assert embedder.encoded[CATS[0].text] == 1


async def test_many_writers_at_once(tmp_path: Path) -> None:
    """A hundred concurrent puts all arrive, and the last of several changes to one key stands."""
    async with opened(tmp_path, FakeEmbedder(), []) as index:
        await asyncio.gather(*(index.put([Entry(f"k{i}", ANN, f"memory number {i}")]) for i in range(100)))
        await asyncio.gather(
            index.put([Entry("k0", ANN, "first")]), index.drop(["k0"]), index.put([Entry("k0", ANN, "last")])
        )
        assert index.size == 100
        assert keys(await index.lexical("last", ANN, 10)) == ["k0"]


async def test_one_bad_entry_is_its_callers_fault_only(tmp_path: Path) -> None:
    """A key that is no Unicode is refused; those written in the same commit are there."""
    async with opened(tmp_path, None, []) as index:
        good, bad, fine = await asyncio.gather(
            index.put([Entry("good", ANN, "one")]),
            index.put([Entry("bad\ud800", ANN, "two")]),
            index.put([Entry("fine", ANN, "three")]),
            return_exceptions=True,
        )
        assert (good, fine) == (None, None)
        assert isinstance(bad, UnicodeError)
        assert keys(await index.lexical("one three", ANN, 10)) == ["fine", "good"]


@pytest.mark.row("A063", "the index: a query is text, never syntax")
@pytest.mark.parametrize(
    "query",
    ["*", "tag:1 OR red", 'key:"bob"', '"red', "(red", "a:b:c", "red AND", "[* TO *]", "\x00", "\ud800", "'; drop--"],
)
async def test_a_query_is_text_never_syntax(tmp_path: Path, query: str) -> None:
    """What another search engine would read as a wildcard, a field or a boolean finds words, and only in scope."""
    async with opened(tmp_path, None) as index:
        found = keys(await index.lexical(query, ANN, 10))
        assert set(found) <= ({"cat", "car"} if "red" in query else set())
        assert keys(await index.search(query, Scope(user_id="nobody"), 10)) == []


@pytest.mark.parametrize(
    ("query", "expected"),
    [
        ("猫", ["zh"]),
        ("可爱的猫", ["zh"]),
        ("タワー", ["ja"]),
        ("東京", ["ja"]),
        ("한국", ["ko"]),
        ("แมว", ["th"]),
        ("cafe", ["fr"]),
        ("CAFÉS", ["fr"]),
        ("identifier", ["code"]),
        ("user_identifiers", ["code"]),
        ("e3b0c44298fc1c149afbf4c8996fb92427ae41e4649b934ca495991b7852b855", ["code"]),
        ("the of and", []),
        ("", []),
        ("   ", []),
    ],
)
async def test_words_of_many_scripts(tmp_path: Path, query: str, expected: list[str]) -> None:
    """Unspaced scripts by pairs and by one character; no accents; stemmed; parts of names; stop words are nothing."""
    truth = [
        Entry("zh", ANN, "我的猫很可爱"),
        Entry("ja", ANN, "昨日は東京タワーに行きました"),
        Entry("ko", ANN, "저는 한국어를 공부해요"),
        Entry("th", ANN, "ฉันมีแมวสองตัว"),
        Entry("fr", ANN, "the café of the station"),
        Entry("code", ANN, "user_identifier e3b0c44298fc1c149afbf4c8996fb92427ae41e4649b934ca495991b7852b855"),
    ]
    async with opened(tmp_path, None, truth) as index:
        assert keys(await index.lexical(query, ANN, 10))[:1] == expected


async def test_the_ranking_is_bm25(tmp_path: Path) -> None:
    """The scores are those of rank-bm25 with k1 = 1.2, b = 0.75 and Lucene's idf, ln(1 + (N - df + 1/2)/(df + 1/2))."""
    draw = np.random.default_rng(5)
    texts = [" ".join(f"word{n}" for n in draw.zipf(1.5, draw.integers(3, 30)) % 50) for _ in range(200)]
    documents = [terms(text) for text in texts]
    oracle = BM25Okapi(documents, k1=1.2, b=0.75)
    for term in oracle.idf:
        df = sum(term in document for document in documents)
        oracle.idf[term] = log(1 + (200 - df + 0.5) / (df + 0.5))
    async with opened(tmp_path, None, [Entry(f"k{i:03}", ANN, text) for i, text in enumerate(texts)]) as index:
        for query in ("word3 word7", "word1", "word2 word40 word11 word5"):
            expected = {f"k{i:03}": score for i, score in enumerate(oracle.get_scores(terms(query))) if score > 0}
            found = await index.lexical(query, ANN, 200)
            assert dict(found) == pytest.approx(expected, rel=1e-3)


async def test_a_common_word_finds_only_where_no_other_does(tmp_path: Path) -> None:
    """Of five texts with "note", three are common: "red note" finds the red one, scored with both words as it always
    is; "note", and "blue note" where nothing is blue, find all five."""
    truth = [Entry(f"k{n}", ANN, f"a note of {colour}") for n, colour in enumerate("red tan tan tan tan".split())]

    class Large(Lexical):
        common = 3

    async with opened(tmp_path, None, truth) as index:
        every = await index.lexical("red note", ANN, 10)
        index._files.lexical.__class__ = Large
        assert await index.lexical("red note", ANN, 10) == every[:1]
        assert keys(await index.lexical("note", ANN, 10)) == keys(await index.lexical("blue note", ANN, 10))
        assert keys(await index.lexical("note", ANN, 10)) == ["k0", "k1", "k2", "k3", "k4"]


async def test_equal_scores_are_in_the_order_of_keys(tmp_path: Path) -> None:
    """Five hundred equal texts, put in a shuffled order: both lists give the first ten keys."""
    order = np.random.default_rng(7).permutation(500)
    truth = [Entry(f"k{i:03}", ANN, "the same memory") for i in order]
    async with opened(tmp_path, FakeEmbedder(), truth) as index:
        await index.settle()
        first = [f"k{i:03}" for i in range(10)]
        assert keys(await index.lexical("same memory", ANN, 10)) == first
        assert keys(await index.similar("same memory", ANN, 10)) == first
        assert keys(await index.search("same memory", ANN, 10)) == first


@pytest.mark.row("A081", "the index: vectors are in a memory-mapped file, searched exactly, within scopes")
async def test_the_vector_search_is_exact(tmp_path: Path) -> None:
    """Over several blocks, after rows were removed and replaced: the same keys as cosine by definition."""
    draw = np.random.default_rng(1)
    vectors = draw.standard_normal((5000, 32)).astype(np.float32)
    vectors /= np.linalg.norm(vectors, axis=1, keepdims=True)
    store = Vectors(tmp_path / "vectors.sqlite", "analysis", "model", 32)
    tags = [store.tag(Scope(user_id=f"u{i}")) for i in range(5)]
    store.change({f"k{i:04}": Record(tags[i % 5], "h") for i in range(5000)}, [])
    assert store.add([(f"k{i:04}", "h", [vectors[i]]) for i in range(5000)], "model")
    gone = {int(i) for i in draw.choice(5000, 700, replace=False)}
    store.change({}, [f"k{i:04}" for i in gone])
    assert (store.size, store.count) == (4300, 4300)
    for chosen in (None, [tags[2]], tags[1:3]):
        rows = [i for i in range(5000) if i not in gone and (chosen is None or tags[i % 5] in chosen)]
        for query in draw.standard_normal((5, 32)).astype(np.float32):
            query = query / np.linalg.norm(query)
            found = store.search(query, chosen, 20, "model") or []
            exact = sorted((float(vectors[i] @ query) for i in rows), reverse=True)[:20]
            # int8 leaves an error of up to half a step of 1/127 of the largest component, in each of 32.
            assert [cosine for _, cosine in found] == pytest.approx(exact, abs=0.02)
            assert len({key for key, _ in found}) == 20
    assert store.search(vectors[0], None, 20, "another model") is None
    assert not store.add([("k0000", "h", [vectors[0]])], "another model")
    store.close()
    again = Vectors(tmp_path / "vectors.sqlite", "analysis", "model", 32)
    assert (again.size, again.count, again.same_analysis) == (4300, 4300, True)
    again.close()


@pytest.mark.feature(
    "… a question with a vector of a model that was replaced meanwhile is embedded again",
    of="the index merges BM25 and vectors",
)
@both_ways
async def test_a_question_of_a_model_that_was_left_meanwhile_is_asked_again(tmp_path: Path, kind: type[Index]) -> None:
    """Its vector came from the old model, the search finds those of the new one: it is encoded anew, not compared;
    where the new one fails, words answer."""

    class Late(kind):  # type: ignore[valid-type,misc]
        late = True

        async def _asked(self, text: str, scope: Scope, vector: Floats | None) -> Encoded | None:
            if self.late:
                self.late = False
                return np.ones(1, np.float32), "the old model"
            asked: Encoded | None = await super()._asked(text, scope, vector)
            return asked

    async with opened(tmp_path, embedder := FakeEmbedder(), kind=Late) as index:
        await index.settle()
        words, cosines = await index.made_of("red cat", ANN, 10, both)
        assert (keys(words), keys(cosines)[0], index.faults) == (["cat", "car"], "cat", ())
        index.late = embedder.failing = True  # type: ignore[attr-defined]
        assert await index.made_of("red cat", ANN, 10, both) == (words, ())
        assert index.faults == ("search by vectors does not work: the fake embedder is set to fail",)


@pytest.mark.feature(
    "… in two threads above 20,000 entries; in one below that, which is faster",
    of="the index merges BM25 and vectors",
)
@both_ways
async def test_what_is_made_of_both_halves(tmp_path: Path, kind: type[Index]) -> None:
    """In a thread, so that it may read files; of what is left where a half fails; its own error is who asks's."""
    here = current_thread()

    def make(words: Scored, vectors: Scored) -> tuple[list[str], list[str], bool]:
        return keys(words), keys(vectors)[:1], current_thread() is here

    def fail(words: Scored, vectors: Scored) -> None:
        raise BadInput("set to fail")

    async with opened(tmp_path, embedder := FakeEmbedder(), kind=kind) as index:
        await index.settle()
        assert await index.made_of("red cat", ANN, 10, make) == (["cat", "car"], ["cat"], False)
        with pytest.raises(BadInput, match="set to fail"):
            await index.made_of("red cat", ANN, 10, fail)
        embedder.failing = True
        assert await index.made_of("red cat", ANN, 10, make) == (["cat", "car"], [], False)
        assert index.faults == ("search by vectors does not work: the fake embedder is set to fail",)


@pytest.mark.row(
    "A059",
    "… in two threads above 20,000 entries; in one below that, which is faster",
    of="the index merges BM25 and vectors",
)
@both_ways
async def test_both_halves_and_the_cosines_of_keys(tmp_path: Path, kind: type[Index]) -> None:
    """What is fused can be had apart; a known vector is not made again; keys without one are left out."""
    async with opened(tmp_path, embedder := FakeEmbedder(), kind=kind) as index:
        await index.settle()
        vector = (await embedder.embed(["red cat"], keep=False))[0]
        encoded = embedder.encoded.total()
        words, cosines = await index.made_of("red cat", ANN, 10, both, vector)
        assert words == await index.lexical("red cat", ANN, 10)
        assert embedder.encoded.total() == encoded
        assert cosines == await index.similar("red cat", ANN, 10)
        assert await index.cosines(vector, ["car", "cat", "none"]) == {k: c for k, c in cosines if k in {"car", "cat"}}


@pytest.mark.feature("… free rows are reused, and none is used twice", of="the index: vectors are in a memory-mapped")
@settings(max_examples=20, deadline=None)
@given(
    steps=st.lists(
        st.tuples(st.sampled_from(["put", "drop", "give"]), st.integers(0, 12), st.integers(1, 4)), max_size=40
    )
)
def test_slots_are_taken_again_and_never_twice(
    tmp_path_factory: pytest.TempPathFactory, steps: list[tuple[str, int, int]]
) -> None:
    """Whatever is put with one vector or with several, dropped and given to another scope, and however often it was
    found before: each key is found by its own vectors, in its own scope alone, in a file no longer than at its
    fullest."""
    folder = tmp_path_factory.mktemp("vectors")
    store = Vectors(folder / "vectors.sqlite", "analysis", "model", 8)
    ann, bob = store.tag(ANN), store.tag(BOB)
    held: dict[int, int] = {}
    parts_of: dict[int, int] = {}
    most = 0
    for what, number, parts in steps:
        key = f"k{number:02}"
        if what == "drop":
            held.pop(number, None)
            store.change({}, [key])
        else:
            held[number], parts_of[number] = (ann if what == "put" else bob), parts
            store.change({key: Record(held[number], f"h{parts}", parts)}, [])
            store.add([(key, f"h{parts}", [word_vector(f"{key} {part}", 8) for part in range(parts)])], "model")
        most = max(most, sum(parts_of[number] for number in held))
        for tag in (ann, bob):
            found = store.search(word_vector(key, 8), [tag], 20, "model") or []
            assert {key for key, _ in found} == {f"k{number:02}" for number, whose in held.items() if whose == tag}
    try:
        assert (store.size, store.count) == (len(held), len(held))
        assert store._end <= most + 4  # what was dropped rests for one change
        for number, tag in held.items():
            key = f"k{number:02}"
            for part in range(parts_of[number]):
                vector = word_vector(f"{key} {part}", 8)
                assert (store.search(vector, [tag], 1, "model") or [])[0][0] == key
                assert store.cosines(vector, [key]) == {key: pytest.approx(1, abs=0.02)}
    finally:
        store.close()


SCOPES = st.builds(
    Scope,
    tenant=st.sampled_from(["default", "other"]),
    user_id=st.sampled_from([None, "ann", "bob"]),
    agent_id=st.sampled_from([None, "helper"]),
    run_id=st.none(),
    session_id=st.sampled_from([None, "s1"]),
    project=st.sampled_from([None, "p"]),
    audience=st.sampled_from(["private", "group"]),
)


@settings(max_examples=15, deadline=None, suppress_health_check=[HealthCheck.function_scoped_fixture])
@given(items=st.lists(SCOPES, min_size=1, max_size=12), asked=st.lists(SCOPES, min_size=1, max_size=6))
async def test_only_what_the_scope_admits_is_found(
    tmp_path_factory: pytest.TempPathFactory, items: list[Scope], asked: list[Scope]
) -> None:
    """Whatever the scopes: both lists have exactly the entries that ``Scope.admits`` allows, in one order."""
    truth = [Entry(f"k{i:02}", scope, "the same memory") for i, scope in enumerate(items)]
    async with opened(tmp_path_factory.mktemp("index"), FakeEmbedder(), truth) as index:
        await index.settle()
        for scope in asked:
            admitted = [entry.key for entry in truth if scope.admits(entry.scope)]
            assert keys(await index.lexical("memory", scope, 50)) == admitted
            assert keys(await index.similar("memory", scope, 50)) == admitted
            assert keys(await index.search("memory", scope, 50)) == admitted


CHANGES = st.lists(
    st.one_of(
        st.tuples(st.just("put"), st.integers(0, 7), st.sampled_from(["red cat", "blue dog", "green parrot", LONG])),
        st.tuples(st.just("drop"), st.integers(0, 7), st.just("")),
        st.tuples(st.just("open"), st.integers(0, 7), st.sampled_from(["red cat", "blue dog", LONG])),
    ),
    max_size=12,
)


@settings(max_examples=15, deadline=None, suppress_health_check=[HealthCheck.function_scoped_fixture])
@given(changes=CHANGES)
async def test_whatever_happened_before_the_index_holds_the_truth(
    tmp_path_factory: pytest.TempPathFactory, changes: list[tuple[str, int, str]]
) -> None:
    """Puts, drops and openings with another truth, in any order: words and vectors find what a dictionary holds, a long
    text by its best passage."""
    folder = tmp_path_factory.mktemp("index")
    held: dict[str, Entry] = {}
    index = await Index.open(folder, FakeEmbedder())
    try:
        for what, number, text in changes:
            entry = entry_of(number, text)
            if what == "put":
                held[entry.key] = entry
                await index.put([entry])
            elif what == "drop":
                held.pop(entry.key, None)
                await index.drop([entry.key])
            else:
                await index.close()
                held = {key: e for key, e in held.items() if int(key[1:]) < number} | {entry.key: entry}
                index = await Index.open(folder, FakeEmbedder(), held.values())
            for word in ("cat", "dog", "parrot"):
                having = sorted(key for key, e in held.items() if word in e.text)
                assert sorted(keys(await index.lexical(word, ANN, 50))) == having
        await index.settle()
        assert (index.size, index.vectors, index.pending) == (len(held), len(held), 0)
        for words in ("red cat", "blue dog", "green parrot"):
            best = {key: max(cosine(words, part) for part in entry.embedded) for key, entry in held.items()}
            assert dict(await index.similar(words, ANN, 50)) == pytest.approx(best, abs=0.02)
            assert await index.cosines(vector_of(words), list(held)) == pytest.approx(best, abs=0.02)
        assert rows_on_disk(folder) == sum(len(entry.embedded) for entry in held.values())
    finally:
        await index.close()


def vector_of(text: str) -> Floats:
    return FakeEmbedder()._dense(text)


def cosine(one: str, other: str) -> float:
    return float(vector_of(one) @ vector_of(other))


def rows_on_disk(folder: Path) -> int:
    """The number of vectors in the file, whether or not they are found."""
    (file,) = folder.glob("vectors*.i8")
    rows = np.frombuffer(file.read_bytes(), np.int8).reshape(-1, 32)
    return int(rows.any(axis=1).sum())


@pytest.mark.feature("the index: a long text has a vector for each passage, and is found by the best")
@both_ways
async def test_a_long_text_is_found_by_its_best_passage(tmp_path: Path, kind: type[Index]) -> None:
    """With the passage's cosine, once, however many of its passages are nearer than the next text."""
    long = Entry("long", ANN, "a long text", tuple(f"red cat number{n}" for n in range(60)))
    others = [Entry(f"k{n}", ANN, f"cat story{n} of many other words") for n in range(3)]
    async with opened(tmp_path, embedder := FakeEmbedder(), [*others, long], kind) as index:
        await index.settle()
        assert (index.size, index.vectors, index.pending) == (4, 4, 0)
        found = await index.similar("red cat number7", ANN, 4)
        assert keys(found)[0] == "long"
        assert found[0][1] == pytest.approx(1, abs=0.02)
        assert sorted(keys(found)) == ["k0", "k1", "k2", "long"]
        assert keys(await index.similar("red cat number7", ANN, 2))[0] == "long"
        assert len(await index.similar("red cat number7", ANN, 2)) == 2
        assert "a long text" not in embedder.encoded
    async with opened(tmp_path, again := FakeEmbedder(), [*others, long], kind) as index:
        assert (index.size, index.vectors, index.pending) == (4, 4, 0)
        assert not again.encoded
        await index.put([replace(long, passages=long.passages[:2])])
        await index.settle()
        assert (index.size, index.vectors) == (4, 4)
        assert rows_on_disk(tmp_path) == 5
        await index.drop(["long"])
        assert rows_on_disk(tmp_path) == 3


async def test_a_passage_that_the_model_refuses_leaves_the_text_without_vectors(tmp_path: Path) -> None:
    """It is found by its words, and gets all its vectors when the model takes the passage."""
    async with opened(tmp_path, embedder := Picky("dog"), [entry_of(1, "red cat"), entry_of(2, LONG)]) as index:
        await index.settle()
        assert (index.size, index.vectors, index.pending) == (2, 1, 1)
        assert keys(await index.similar("red cat", ANN, 5)) == ["k1"]
        assert keys(await index.lexical("parrot", ANN, 5)) == ["k2"]
        embedder.refused = "nothing"
        await index.settle()
        assert (index.vectors, index.pending) == (2, 0)
        assert keys(await index.similar("blue dog", ANN, 1)) == ["k2"]


class Picky(FakeEmbedder):
    """Gives no numbers for texts with one word."""

    def __init__(self, refused: str) -> None:
        super().__init__()
        self.refused = refused

    async def embed(self, texts: Sequence[str], *, keep: bool = True) -> Floats:
        vectors = (await super().embed(texts, keep=keep)).copy()
        vectors[[self.refused in text for text in texts]] = np.nan
        return vectors


async def test_no_space_for_vectors_is_named_and_nothing_is_half_written(tmp_path: Path) -> None:
    """SQLite's own page limit stands in for a full disk: ``StoreFull``; with space again the same put succeeds."""
    async with opened(tmp_path, None) as index:
        database = index._files.vectors._database
        (pages,) = database.execute("pragma page_count").fetchone()
        database.execute(f"pragma max_page_count = {pages}")
        many = [Entry(f"{i:03}" + "k" * 200, ANN, f"memory number {i}") for i in range(500)]
        with pytest.raises(StoreFull):
            await index.put(many)
        assert index.size == 4
        assert keys(await index.lexical("sofa number", ANN, 10)) == ["cat"]
        database.execute("pragma max_page_count = 1000000")
        await index.put(many)
        assert index.size == 504


async def test_a_second_writer_is_refused(tmp_path: Path) -> None:
    """Two indexes over one folder: the second that writes gets a named error, and the first goes on."""
    async with opened(tmp_path, None) as first, opened(tmp_path, None) as second:
        await first.put([Entry("new", ANN, "one")])
        with pytest.raises(StoreBusy, match="another process"):
            await second.put([Entry("other", ANN, "two")])
        await first.put([Entry("newer", ANN, "three")])
        assert keys(await first.lexical("three", ANN, 10)) == ["newer"]


async def test_closing_twice_is_fine_and_later_calls_are_refused(tmp_path: Path) -> None:
    """What was being written when it closed is there at the next open."""
    index = await Index.open(tmp_path, FakeEmbedder(), CATS)
    writing = asyncio.create_task(index.put([Entry("new", ANN, "a yellow boat")]))
    await asyncio.sleep(0)
    await index.close()
    await index.close()
    await writing
    with pytest.raises(StoreBusy, match="closed"):
        await index.search("red cat", ANN, 10)
    with pytest.raises(StoreBusy, match="closed"):
        await index.put(CATS)
    async with opened(tmp_path, None, [*CATS, Entry("new", ANN, "a yellow boat")]) as again:
        assert keys(await again.lexical("yellow", ANN, 10)) == ["new"]


async def test_its_folder_is_private(tmp_path: Path) -> None:
    """0700, and the record 0600."""
    async with opened(tmp_path / "new" / "index", None):
        assert (tmp_path / "new" / "index").stat().st_mode & 0o777 == 0o700
        assert (tmp_path / "new" / "index" / "vectors.sqlite").stat().st_mode & 0o777 == 0o600


@pytest.mark.row(
    "A081", "… an accelerator, if installed, finds the same", of="the index: vectors are in a memory-mapped"
)
@pytest.mark.parametrize("chosen", [None, [2], [1, 3]])
def test_an_accelerator_finds_what_is_found_without_it(tmp_path: Path, chosen: list[int] | None) -> None:
    """The same slots with the same cosines, to the last digit, among 20,000 rows of which some were freed; ties too."""
    pytest.importorskip("numkong")
    draw = np.random.default_rng(3)
    vectors = draw.standard_normal((20_000, 48)).astype(np.float32)
    vectors[10_000:10_040] = vectors[0]
    vectors /= np.linalg.norm(vectors, axis=1, keepdims=True)
    fast, plain = (Matrix(tmp_path / name, 48, fast=name == "fast") for name in ("fast", "plain"))
    for matrix in (fast, plain):
        matrix.write(range(20_000), [1 + slot % 3 for slot in range(20_000)], [quantised(vector) for vector in vectors])
        matrix.free(range(500, 900))
    names = lambda slots: [(slot, f"k{slot:05}") for slot in slots]  # noqa: E731 - a name for a callback
    try:
        for query in [vectors[0], vectors[600], *draw.standard_normal((10, 48)).astype(np.float32)]:
            query = query / np.linalg.norm(query)
            for limit in (1, 20, 19_700):
                found = fast.search(query, chosen, limit, names)
                assert found == plain.search(query, chosen, limit, names)
                assert not any("k00500" <= key < "k00900" for key, _ in found)
    finally:
        fast.close()
        plain.close()


class Chosen(Matrix):
    """One in which the signs choose the rows, however few it has."""

    many = 100


@pytest.mark.feature(
    "… among more than 65,536 the signs of the numbers choose the rows that are compared",
    of="the index: vectors are in a memory-mapped",
)
@pytest.mark.parametrize("fast", [False, True])
@pytest.mark.parametrize("chosen", [None, [2], [1, 3]])
def test_the_signs_choose_the_nearest(tmp_path: Path, chosen: list[int] | None, fast: bool) -> None:
    """Of 20,000 rows around 200 centres in 96 and 100 dimensions, one in eight is looked at: nearly all of the nearest
    twenty are found, with their cosines to four places, and none that was freed or has another tag."""
    if fast:
        pytest.importorskip("numkong")
    for dimensions in (96, 100):
        draw = np.random.default_rng(3)
        centres = draw.standard_normal((200, dimensions), np.float32)
        rows = centres[draw.integers(0, 200, 20_000)] + 0.7 * draw.standard_normal((20_000, dimensions), np.float32)
        rows /= np.linalg.norm(rows, axis=1, keepdims=True)
        exact, by_signs = (
            kind(tmp_path / f"{kind.__name__}{dimensions}", dimensions, fast=fast) for kind in (Matrix, Chosen)
        )
        for matrix in (exact, by_signs):
            matrix.write(range(20_000), [1 + slot % 3 for slot in range(20_000)], [quantised(row) for row in rows])
            matrix.free(range(500, 900))
        names = lambda slots: [(slot, f"k{slot:05}") for slot in slots]  # noqa: E731 - a name for a callback
        found = 0
        for query in rows[::200]:
            wanted = dict(exact.search(query, chosen, 20, names))
            got = dict(by_signs.search(query, chosen, 20, names))
            assert len(got) == 20
            assert all(abs(wanted[key] - got[key]) < 2e-5 for key in wanted.keys() & got.keys())
            assert not any("k00500" <= key < "k00900" for key in got)
            assert chosen is None or {1 + int(key[1:]) % 3 for key in got} <= set(chosen)
            found += len(wanted.keys() & got.keys())
        assert found / (20 * 100) > 0.97
        exact.close()
        by_signs.close()


@pytest.mark.feature("… and only the ids of the best are looked up", of="the index: vectors are in a memory-mapped")
@pytest.mark.parametrize("fast", [False, True])
def test_only_the_best_are_named_and_the_next_stand_in(tmp_path: Path, fast: bool) -> None:
    """Of 6,000 rows the best ten are asked after; where two of them are nobody's any more, what an accelerator could
    not tell from the tenth takes their places."""
    if fast:
        pytest.importorskip("numkong")
    draw = np.random.default_rng(3)
    vectors = draw.standard_normal((6000, 32), np.float32)
    vectors /= np.linalg.norm(vectors, axis=1, keepdims=True)
    matrix = Matrix(tmp_path / "rows", 32, fast=fast)
    matrix.write(range(6000), [1] * 6000, [quantised(vector) for vector in vectors])
    asked: list[int] = []
    gone: set[int] = set()

    def name(slots: Sequence[int]) -> list[tuple[int, str]]:
        asked.extend(slots)
        return [(slot, f"{slot:04}") for slot in slots if slot not in gone]

    best = matrix.search(vectors[7], None, 12, name)
    asked.clear()
    assert matrix.search(vectors[7], None, 10, name) == best[:10]
    assert sorted(asked) == sorted(int(key) for key, _ in best[:10])
    gone = {int(key) for key, _ in best[3:5]}
    found = matrix.search(vectors[7], None, 10, name)
    assert found == [*best[:3], *best[5 : 12 if fast else 10]]
    matrix.close()
