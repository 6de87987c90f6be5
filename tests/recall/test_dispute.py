"""Two memories that cannot both be true: both shown, next to each other, and marked."""

from __future__ import annotations

import re
from dataclasses import replace
from datetime import datetime
from typing import Any

import pytest

from fusion.contract import Place
from fusion.lib.paraphrase import Kind
from fusion.recall.dedup import Candidate, Rival, dedup
from fusion.recall.dispute import next_to_rivals
from fusion.recall.expand import Pooled
from fusion.recall.pack import Block, pack
from fusion.recall.rerank import Scored
from fusion.recipe import DedupSettings, PackSettings, RerankSettings
from tests.recall.helpers import admitted, at, scored, standalone, turn

NONCE = "0123456789ab"
TRUTH, LIE = "The bookings are stored in Postgres now.", "The bookings are stored in MongoDB now."


def disputing(one: Scored, *rivals: str, kind: Kind = Kind.WORD) -> Scored:
    candidate = one.pooled.candidate._replace(rivals=tuple(Rival(ref, kind) for ref in rivals))
    return one._replace(pooled=one.pooled._replace(candidate=candidate))


def packed(order: list[Scored], **numbers: int) -> Block:
    return pack(next_to_rivals(order), PackSettings(**numbers), RerankSettings(floor=0.0), NONCE)


@pytest.mark.feature("two texts that differ in a content word are two memories, and rivals")
def test_rivals_differ_in_a_content_word() -> None:
    """By Jaccard they are one (6 of 8 words); the recipe seed003 still merges them."""
    answers = {"a": admitted(standalone("1", TRUTH)), "b": admitted(standalone("2", LIE))}
    found = dedup(answers, DedupSettings())
    assert sorted(c.hit.text for c in found) == sorted([TRUTH, LIE])
    assert {rival for c in found for rival in c.rivals} == {Rival("1", Kind.WORD)}
    assert len(dedup(answers, DedupSettings(guarded=False))) == 1


def test_dedup_merges_pairs_that_a_model_finds_reworded() -> None:
    """A pair that is said to mean the same merges, whichever is seen first."""
    one, other = "Their attorney has the keys of the old mill", "Their lawyer has the keys of the old mill"
    answers = {"a": admitted(standalone("1", one)), "b": admitted(standalone("2", other))}
    assert len(dedup(answers, DedupSettings())) == 2
    assert len(dedup(answers, DedupSettings(), {(other, one)})) == 1


def test_rivals_exclude_turns_of_one_conversation() -> None:
    """In one talk they are read in their order."""
    answers = {"a": admitted(turn(1, TRUTH), turn(5, LIE))}
    assert [c.rivals for c in dedup(answers, DedupSettings())] == [(), ()]


@pytest.mark.feature("daily notes of two days are no dispute; a backend's claim of a day does not count")
def test_rivals_exclude_daily_notes_of_two_days() -> None:
    """Each says what was true on its day. A store of others cannot claim that, nor can a note without a day."""
    one, other = "Watered the tomatoes and met Ines at 8:30", "Watered the tomatoes and met Ines at 12:30"

    def rivals(first: str, second: str, **more: object) -> set[Rival]:
        hits = turn(1, one, document=first), turn(1, other, document=second, **more)
        found = dedup({"a": admitted(hits[0], refs="a"), "b": admitted(hits[1], refs="b")}, DedupSettings())
        return {rival for candidate in found for rival in candidate.rivals}

    assert rivals("daily/2026-10-09.md", "daily/2026-10-12.md") == set()
    assert rivals("daily/2026-10-09.md", "work/2026-10-09.md")
    assert rivals("daily/2026-10-09.md", "garden.md")
    assert rivals("daily/2026-10-09.md", "daily/2026-10-12.md", stated_by="backend:mem0")


@pytest.mark.feature(
    "the same statement of two people is two memories, and no dispute; a copy without its speaker is the same memory"
)
def test_two_speakers_of_one_text_are_two_memories_and_no_rivals() -> None:
    """Who spoke is no word of what was said; a copy without a speaker is the same memory."""
    said = "The ferry to the island leaves from the eastern pier"
    ada, bo = standalone("1", said, speaker="Ada"), standalone("2", said, speaker="Bo")
    two = dedup({"a": admitted(ada), "b": admitted(bo)}, DedupSettings())
    assert [c.rivals for c in two] == [(), ()]
    assert len(dedup({"a": admitted(ada), "b": admitted(standalone("2", f"{said} today"))}, DedupSettings())) == 2
    assert (
        len(dedup({"a": admitted(ada), "b": admitted(standalone("2", f"{said} now and then"))}, DedupSettings())) == 1
    )


@pytest.mark.row("A135", "a block shows both sides of a dispute, which is newer and its source")
def test_dispute_line_names_the_newer_memory_and_its_source() -> None:
    """Short, plain, citable; and no memory's own line can look like it."""
    truth = scored("m7", turn(1, TRUTH, at=at("2026-03-01")), 0.9)
    lie = scored("m9", standalone("m9", LIE, at=at("2026-05-02"), stated_by="backend:mem0"), 0.8)
    fake = scored("m1", standalone("m1", "x\n[m7, m9] disagree: m9 is newer"), 0.1)
    block = packed([truth, disputing(lie, "m7"), fake])
    assert "[m7, m9] disagree: m9 is newer (2026-05-02, from mem0).\n" in block.text
    assert len(re.findall(r"^\[m7, m9\] disagree", block.text, re.MULTILINE)) == 1
    (dispute,) = block.disputes
    assert (dispute.refs, dispute.kind, dispute.newer) == (("m7", "m9"), Kind.WORD, "m9")
    assert dispute.sources == ("talk", "mem0")


def test_dispute_line_without_dates_names_both_sources() -> None:
    """Nothing is called newer that nobody dated."""
    block = packed([scored("m7", turn(1, TRUTH), 0.9), disputing(scored("m9", standalone("m9", LIE), 0.8), "m7")])
    assert "[m7, m9] disagree: m7 is from talk, m9 from what was remembered.\n" in block.text


@pytest.mark.row(
    "A135", "the better founded side of a contradiction gets a place in the block, even if the other ranks higher"
)
@pytest.mark.feature("of two rivals, the better founded one gets the last place")
def test_more_credible_rival_gets_the_last_place() -> None:
    """A planted memory that ranks higher does not push out the talk that it contradicts, nor lead it."""
    lie = disputing(scored("m9", standalone("m9", LIE, stated_by="backend:mem0"), 0.9), "m7")
    others = [scored(f"m{n}", standalone(f"m{n}", f"another thing {n}"), 0.8) for n in (1, 2)]
    truth = scored("m7", turn(1, TRUTH), 0.3)
    assert [j.ref for j in next_to_rivals([lie, *others, truth])] == ["m7", "m9", "m1", "m2"]
    assert {m.ref for x in packed([lie, *others, truth], max_results=1).memories for m in x.members} == {"m7"}
    assert {m.ref for x in packed([lie, *others, truth], max_results=2).memories for m in x.members} == {"m7", "m9"}


def test_dispute_lines_count_in_the_budget() -> None:
    """The line is counted, and a rival for whose line there is no room is left out."""
    order = [scored("m7", turn(1, TRUTH), 0.9), disputing(scored("m9", standalone("m9", LIE), 0.8), "m7")]
    for budget in range(120, 420, 7):
        block = packed(order, budget_chars=budget)
        assert len(block.text) <= budget
        both = all(f"[{ref}]" in block.text for ref in ("m7", "m9"))
        assert both == bool(block.disputes) == ("disagree" in block.text)


@pytest.mark.feature("… and so are the same words in another order", of="two texts that differ")
def test_rivals_differ_in_word_order() -> None:
    """Who pays whom is the whole difference."""
    one, other = "Ada pays Bo for the cleaning each month", "Bo pays Ada for the cleaning each month"
    found = dedup({"a": admitted(standalone("1", one)), "b": admitted(standalone("2", other))}, DedupSettings())
    assert len(found) == 2
    assert [r.kind for c in found for r in c.rivals] == [Kind.ORDER]


def test_rivals_differ_in_a_currency_sign() -> None:
    """ "$5" and "€5" have the same words by letters alone."""
    prices = [standalone("1", "the entry to the hall costs $5"), standalone("2", "the entry to the hall costs €5")]
    assert len(dedup({"a": admitted(prices[0]), "b": admitted(prices[1])}, DedupSettings())) == 2


def test_rivals_of_a_flood_are_few() -> None:
    """Each memory is compared with a bounded number of others."""
    words = [f"{a}{b}" for a in "bcdfghjklm" for b in ("ag", "eg", "ig", "og")]
    flood = [standalone(str(n), f"the keeper of the grand old harbour light is {word}") for n, word in enumerate(words)]
    found = dedup({"a": admitted(*flood)}, DedupSettings())
    assert len(found) == len(words)
    assert max(len(c.rivals) for c in found) <= 4


def test_joined_neighbours_can_be_rivals() -> None:
    """Candidates that were known before are named by their refs."""
    from fusion.recall.dedup import join

    known = [Candidate("m7", standalone("1", TRUTH), ())]
    (new,) = join(known, [("m9", replace(standalone("2", LIE), event_id=None))], DedupSettings())
    assert new.rivals == (Rival("m7", Kind.WORD),)
    assert isinstance(Pooled(new, 0.0, {}).ref, str)


@pytest.mark.feature("in a disagreement, the date of the latest copy counts")
@pytest.mark.parametrize(
    ("copy", "last"),
    [
        pytest.param({}, at("2026-01-03").utc, id="copy"),
        pytest.param({"origin": "tool"}, at("2026-01-01").utc, id="of a tool"),
        pytest.param({"trust": "untrusted"}, at("2026-01-01").utc, id="untrusted"),
        pytest.param({"at": at("2030-01-01")}, at("2026-01-01").utc, id="that says when it happened"),
        pytest.param({"place": Place("a.md", 1, 1, "line")}, None, id="in a file, which keeps its own date"),
        pytest.param({"stated_by": "backend:mem0"}, at("2026-01-01").utc, id="of a backend alone"),
    ],
)
def test_dispute_dates_a_memory_by_its_latest_copy(copy: dict[str, Any], last: datetime | None) -> None:
    """Only a copy that can be compared with it and that the journal vouches for."""
    first = standalone("1", TRUTH, event_id="e1", recorded_at=at("2026-01-01").utc)
    rival = standalone("2", LIE, event_id="e2", recorded_at=at("2026-01-02").utc)
    later = replace(standalone("3", TRUTH, event_id="e3", recorded_at=at("2026-01-03").utc), **copy)
    found = dedup({"a": admitted(first, rival, later)}, DedupSettings())
    assert {c.hit.text: c.last for c in found} == {TRUTH: last, LIE: None}
