"""Long memories are ranked and shown by their passages."""

from __future__ import annotations

from collections.abc import AsyncIterator, Sequence
from dataclasses import replace
from pathlib import Path

import pytest
from hypothesis import given
from hypothesis import strategies as st

from adapters.inmemory import InMemory
from fusion.contract import Event, Extracted, Opening, Place
from fusion.lib.bm25 import Frequencies
from fusion.lib.passages import passage_texts, passages
from fusion.lib.words import spoken
from fusion.recall.block_format import GAP
from fusion.recall.decision import Decision
from fusion.recall.engine import FuseRequest, fuse
from fusion.recall.expand import Pooled
from fusion.recall.gather import GuardedBackend
from fusion.recall.io import JournalReads, Live
from fusion.recall.long_memories import MAX_COMPARED, best_of_each_first, best_parts, in_parts, parts_of
from fusion.recall.pack import pack
from fusion.recall.recording import Recorder, Replay
from fusion.recall.rerank import Scored
from fusion.recall.shown_before import InContext
from fusion.recall.signals import SignalTable, adjacent_positions
from fusion.recall.wants_memory import is_private
from fusion.recipe import ExpandSettings, PackSettings, Recipe, RerankSettings
from tests.fakes import FakeEmbedder
from tests.recall.helpers import NOW, found_by, pooled, query, record, turn
from tests.recall.test_engine import MemoryJournal

PLAIN = "The weather in the harbour was calm, and nobody had much to say about the boats that week. "
ANSWER = "The return pump of the reef tank is an Eheim 1262, bought in March."
LONG = "\n\n".join([PLAIN * 4, PLAIN * 4, ANSWER + " " + PLAIN * 3, PLAIN * 4])
RECIPE = Recipe(
    rerank=RerankSettings(signals={"similarity": 6, "window3": 6, "bm25": 2}, judge="never", passages=100),
    expand=ExpandSettings(span=2),
)


def pool_of(*texts: str) -> list[Pooled]:
    return [pooled(f"m{n}", turn(n, text, "Ada")) for n, text in enumerate(texts)]


def in_passages(pool: Sequence[Pooled], asked: str, most: int = 100) -> tuple[Pooled, ...]:
    parts = parts_of(pool, {})
    return in_parts(pool, best_parts(query(asked), parts, {}, Frequencies(1, 80, {}), most))


def test_a_long_memory_is_replaced_by_its_passages() -> None:
    """A short one stays; each passage has its memory's ref, speaker and place, and its own text and key."""
    found = in_passages(pool_of("Hello.", LONG), "which pump")
    assert found[0] == pool_of("Hello.")[0]
    assert [entry.candidate.hit.text for entry in found[1:]] == passage_texts(LONG, "Ada")
    assert {entry.ref for entry in found[1:]} == {"m1"}
    assert len({entry.key for entry in found}) == len(found) == 5
    assert {(e.candidate.hit.speaker, e.candidate.hit.place) for e in found[1:]} == {("Ada", Place("talk", 1, 1))}


def test_the_best_passages_are_chosen_and_one_of_each_memory() -> None:
    """Two memories of four passages: the answer is the best of all, and the other memory keeps one."""
    found = in_passages(pool_of(LONG, "\n\n".join([PLAIN * 4] * 4)), "Eheim reef pump", most=1)
    assert [entry.ref for entry in found] == ["m0", "m1"]
    assert found[0].candidate.hit.text.startswith(ANSWER)


def test_cosine_and_words_choose_together() -> None:
    """Without a common word, the passage with the highest cosine is chosen."""
    parts = parts_of(pool_of(LONG), {})
    like = parts[2]
    assert best_parts(query("unknown words"), parts, {like.said: 0.9}, Frequencies(1, 80, {}), 1) == [like]


def test_the_journals_text_counts_not_the_part_that_was_found() -> None:
    """A hit has at most 4,000 characters of a longer text; all of the text is searched for the answer."""
    hit = replace(turn(1, LONG[:300]), event_id="e1")
    parts = parts_of([pooled("m1", hit)], {"e1": record("e1", LONG)})
    assert [part.span for part in parts] == list(passages(LONG, "Ada"))
    foreign = replace(hit, stated_by="backend:x", event_id=None)
    assert parts_of([pooled("m1", foreign)], {"e1": record("e1", LONG)}) == []


def test_a_flood_of_text_is_bounded() -> None:
    """Memories beyond the bound are ranked as they were found."""
    pool = pool_of(*[PLAIN * 1_000] * 30)
    parts = parts_of(pool, {})
    assert 3_500 < len(parts) <= MAX_COMPARED
    left = in_parts(pool, parts)[-1]
    assert left.passage is None
    assert left.ref == "m29"


def test_passages_have_no_neighbours_and_are_none() -> None:
    """Three short turns in a row are neighbours; the long one between them is not."""
    found = in_passages(pool_of("One.", LONG, "Two.", "Three."), "pump")
    adjacent = adjacent_positions(found)
    assert adjacent[1] == [None, *[None] * 4, 6, None]
    assert adjacent[-1] == [None, *[None] * 4, None, 5]


def scored_parts(text: str, order: Sequence[int], ref: str = "m1") -> list[Scored]:
    """The passages of one memory in this order of scores."""
    spans = passages(text, "Ada")
    hit = turn(1, text, "Ada")
    return [
        Scored(
            Pooled(found_by(ref, hit.cut(text[spans[i].start : spans[i].end])), 0.0, {}, passage=spans[i]),
            SignalTable.of([{}]),
            0,
            0.9 - n / 100,
        )
        for n, i in enumerate(order)
    ]


def test_a_block_shows_passages_in_reading_order_with_gaps_marked() -> None:
    """The third and the first, with what is between them marked; then the second closes the gap."""
    block = pack(scored_parts(LONG, [2, 0]), PackSettings(), RerankSettings(), "0")
    texts = passage_texts(LONG, "Ada")
    assert f"[m1] Ada: {texts[0]}\n{GAP}\n{texts[2]}\n" in block.text
    (member,) = block.memories[0].members
    assert member.passages == (passages(LONG, "Ada")[0], passages(LONG, "Ada")[2])
    assert member.score == 0.9
    assert block.decisions == {"m1": Decision.PACKED}
    whole = pack(scored_parts(LONG, [2, 0, 1]), PackSettings(), RerankSettings(), "0")
    assert f"{texts[0]}\n{texts[1]}\n{texts[2]}\n" in whole.text


def test_a_memory_of_which_one_passage_fits_is_packed() -> None:
    """A small block takes what fits of it; max_items counts memories, not passages."""
    order = scored_parts(LONG, [2, 0, 1, 3])
    small = pack(order, PackSettings(budget_chars=700), RerankSettings(), "0")
    assert ANSWER in small.text
    assert small.decisions == {"m1": Decision.PACKED}
    assert len(small.packed) == 1
    one = pack([*order, *scored_parts(LONG, [0], "m2")], PackSettings(max_items=1), RerankSettings(), "0")
    assert len(one.packed) == 4
    assert one.decisions["m2"] is Decision.ITEMS_FULL


@pytest.mark.feature("two passages of each long turn are packed before any third one")
def test_the_third_passage_of_a_turn_is_packed_after_the_other_turns() -> None:
    """All four passages of a turn are better than the one of another, which comes after two of them."""
    order = [*scored_parts(LONG, [2, 0, 1, 3]), *scored_parts(LONG, [2], "m2")]
    spread = best_of_each_first(order)
    assert [one.ref for one in spread] == ["m1", "m1", "m2", "m1", "m1"]
    assert [one.pooled.passage for one in spread if one.ref == "m1"] == [one.pooled.passage for one in order[:4]]
    assert best_of_each_first(order[:2]) == order[:2]


def test_passages_of_a_note_stay_together() -> None:
    order = scored_parts(LONG, [2, 0, 1, 3])
    place = Place("note.md", 1, 9, "line")
    notes = [one._replace(pooled=_at(one.pooled, place)) for one in order]
    assert best_of_each_first(notes) is notes


def _at(entry: Pooled, place: Place) -> Pooled:
    candidate = entry.candidate
    return entry._replace(candidate=candidate._replace(hit=replace(candidate.hit, place=place)))


def test_a_memory_shows_at_most_four_thousand_characters() -> None:
    """A text of 20 passages of 363 characters: ten are shown with nine line ends, none of them cut."""
    text = "\n\n".join([PLAIN * 4] * 20)
    block = pack(scored_parts(text, range(20)), PackSettings(budget_chars=20_000), RerankSettings(), "0")
    (member,) = block.memories[0].members
    assert len(member.passages) == len(block.packed) == 10
    assert block.text.count("nobody had much to say about the boats that week.") == 40


@given(st.permutations(range(4)), st.integers(200, 2500))
def test_a_block_of_passages_stays_within_its_budget(order: list[int], budget: int) -> None:
    block = pack(scored_parts(LONG, order), PackSettings(budget_chars=budget), RerankSettings(), "0")
    assert len(block.text) <= budget
    spans = [span for excerpt in block.memories for member in excerpt.members for span in member.passages]
    assert spans == sorted(spans)


@pytest.fixture
async def live(tmp_path: Path) -> AsyncIterator[Live]:
    """One store with a short question, a long reply with the answer, and a short thank you."""
    journal = MemoryJournal()
    store = await InMemory.open(Opening("one", tmp_path))
    embedder = FakeEmbedder()
    for n, (speaker, text) in enumerate([("Ada", "Which pump do we have?"), ("Bo", LONG), ("Ada", "Thank you.")]):
        event = Event(f"e{n}", text, NOW, kind="turn", speaker=speaker, place=Place("talk", n, n))
        journal.kept[event.event_id] = replace(record(event.event_id), ref=f"m{n}", event=event)
        await store.remember([Extracted(event)])
        await embedder.embed([spoken(part, speaker) for part in passage_texts(text, speaker)])
    reads = JournalReads(journal.records, journal.neighbours, journal.frequencies, lambda backend, hits: hits)
    yield Live({"one": GuardedBackend("one", store)}, reads, embedder)
    await store.close()


ASKED = FuseRequest("Which return pump is in the reef tank?", budget_chars=700)


@pytest.mark.feature("a long memory is found, ranked and shown by its passages, under its own ref")
async def test_fuse_shows_the_passage_that_answers(live: Live) -> None:
    """The block of 700 characters has the answer from the middle of a text of 1,500, and not its other paragraphs."""
    outcome = await fuse(ASKED, RECIPE, live)
    assert ANSWER in outcome.fused.block
    (row,) = [row for row in outcome.receipt.body["candidates"] if row["ref"] == "m1"]
    assert row["decision"] == Decision.PACKED
    assert outcome.included.count("e1") == 1
    member = next(m for x in outcome.fused.memories for m in x.members if m.ref == "m1")
    assert LONG[member.passages[0].start : member.passages[0].end] in outcome.fused.block
    whole = await fuse(ASKED, replace(RECIPE, rerank=replace(RECIPE.rerank, passages=0)), live)
    assert ANSWER not in whole.fused.block


async def test_a_passage_is_shown_once_and_another_one_of_its_memory_later(live: Live) -> None:
    first = await fuse(ASKED, RECIPE, live)
    in_context = InContext(frozenset(first.shown))
    again = await fuse(ASKED, RECIPE, live, in_context)
    assert ANSWER not in again.fused.block
    other = await fuse(FuseRequest("Who spoke of boats in the harbour?"), RECIPE, live, in_context)
    assert "harbour" in other.fused.block
    assert ANSWER not in other.fused.block


async def test_a_question_replays_from_its_recording(live: Live) -> None:
    recorder = Recorder.of(live)
    outcome = await fuse(ASKED, RECIPE, recorder)
    again = await fuse(ASKED, RECIPE, Replay(recorder.recording))
    assert again.fused.block == outcome.fused.block


async def test_without_a_model_passages_are_ranked_by_words(live: Live) -> None:
    outcome = await fuse(ASKED, RECIPE, replace(live, embedder=None, lexical=True))
    assert ANSWER in outcome.fused.block


def test_each_passage_has_the_tags_of_its_memory() -> None:
    """The tag is in the first passage; the answer in the third is as private as the whole note."""
    note = replace(turn(1, f"#private\n{LONG}"), place=Place("salary.md", 1, 9, "line"))
    found = in_passages([pooled("m1", note)], "reef pump")
    assert len(found) > 2
    assert all(is_private(entry.candidate.hit) for entry in found)
