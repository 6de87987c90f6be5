"""The lifecycle over a journal: each rule by itself, the phases together, undo, what a kill leaves, and memory."""

from __future__ import annotations

import asyncio
import resource
import sys
from collections.abc import AsyncIterator, Mapping, Sequence
from dataclasses import replace
from datetime import timedelta
from pathlib import Path
from random import Random
from typing import TYPE_CHECKING, Any, ClassVar

import pytest

from fusion.contract import NO_SCALE, Extraction, Place, Scope, State, StateChange
from fusion.errors import BackendUnreachable, BadInput
from fusion.journal import Journal, state, use
from fusion.journal.lifecycle import Memory
from fusion.journal.rows import Record
from fusion.journal.state import Planned
from fusion.journal.use import Use
from fusion.lib.conflict import best
from fusion.lib.merge_finder import MergeFinder
from fusion.upkeep.lifecycle import LifecycleRequest, Report, Rules, ending, settled
from tests.backend_contract import NOW, event_id, make_event
from tests.fakes import CrowdedEmbedder, FakeEmbedder
from tests.upkeep.lifecycle_helpers import (
    ADA,
    BEN,
    EVERYBODY,
    HOUR,
    Made,
    add,
    disputed,
    found,
    memory,
    over,
    said,
    states,
    tend,
)

if TYPE_CHECKING:
    from fusion.contract import Floats

JUST = timedelta(microseconds=1)


@pytest.fixture
async def journal(tmp_path: Path) -> AsyncIterator[Journal]:
    opened = await Journal.open(tmp_path / "journal.sqlite")
    yield opened
    await opened.close()


def seen(made: Made, *, used_ago: timedelta | None = None) -> Memory:
    """A memory as the lifecycle reads it."""
    record = Record("m1", made.event, state=State(**made.state))
    return Memory(record, None if used_ago is None else NOW - used_ago)


class TestEnding:
    @pytest.mark.row(
        "A045", "A048", "… a `ttl` memory expires 720 hours after it was said, used or not", of="the lifecycle runs in"
    )
    @pytest.mark.parametrize(("age", "expires"), [(720 * HOUR - JUST, False), (720 * HOUR, True)])
    def test_ttl_memory_expires_after_720_hours(self, age: timedelta, expires: bool) -> None:
        old = seen(said(1, age, lifetime="ttl", reinforced_at=NOW, reinforced_count=3), used_ago=HOUR)
        at = old.event.recorded_at + 720 * HOUR
        assert ending(old, NOW, Rules()) == (("expired", at) if expires else None)

    @pytest.mark.row("A049", "… or at the end that it states itself (`ttl_seconds`)", of="the lifecycle runs in")
    def test_ttl_memory_with_an_end_of_its_own_expires_then(self) -> None:
        """Sooner or later than after 720 hours."""
        for lasts in (HOUR, 1000 * HOUR):
            made = said(1, 999 * HOUR, lifetime="ttl")
            one = seen(Made(replace(made.event, valid_to=made.event.recorded_at + lasts), made.state))
            at = made.event.recorded_at + lasts
            assert ending(one, at - JUST, Rules()) is None
            assert ending(one, at, Rules()) == ("expired", at)

    def test_ttl_memory_that_was_remembered_again_lasts_720_hours_more(self) -> None:
        again = replace(seen(said(1, 800 * HOUR, lifetime="ttl")).record, said_at=NOW - HOUR)
        assert ending(Memory(again), NOW, Rules()) is None

    @pytest.mark.row(
        "A045", "A048", "… a `session` memory decays after 24 hours without use", of="the lifecycle runs in"
    )
    @pytest.mark.parametrize(("idle", "decays"), [(24 * HOUR - JUST, False), (24 * HOUR, True)])
    def test_session_memory_decays_after_24_hours_without_use(self, idle: timedelta, decays: bool) -> None:
        used = seen(said(1, 99 * HOUR, lifetime="session"), used_ago=idle)
        unused = seen(said(2, idle, lifetime="session"))
        for one in (used, unused):
            assert ending(one, NOW, Rules()) == (("decayed", NOW - idle + 24 * HOUR) if decays else None)

    def test_memory_is_retired_when_its_validity_ends(self) -> None:
        for lifetime in ("permanent", "project"):
            one = seen(said(1, 9999 * HOUR, lifetime=lifetime))
            assert ending(one, NOW, Rules()) is None
            until = seen(Made(replace(one.event, valid_to=NOW - HOUR), {}))
            assert ending(until, NOW, Rules()) == ("retired", NOW - HOUR)
            assert ending(until, NOW - HOUR - JUST, Rules()) is None

    def test_clock_that_jumps_back_ends_nothing(self) -> None:
        assert ending(seen(said(1, -100 * HOUR, lifetime="session")), NOW, Rules()) is None
        assert ending(seen(said(1, -100 * HOUR, lifetime="ttl")), NOW, Rules()) is None


class TestBest:
    def test_confidence_first_and_within_a_hundredth_the_newest(self) -> None:
        """.95 beats .93; .94 is within .01 of .95, so the newer of the two wins, and .93 does not come into it."""
        sure, close, less = (seen(said(n, (9 - n) * HOUR, confidence=c)) for n, c in ((1, 0.95), (2, 0.94), (3, 0.93)))
        assert best([sure, less]) is sure
        assert best([sure, close, less]) is close

    def test_winner_of_a_conflict_is_not_marked(self) -> None:
        group = [seen(said(n, n * HOUR, confidence=n / 10)) for n in (1, 2, 3)]
        lost: StateChange = {"conflict_status": "resolved", "ended_at": NOW, "ended": "lost"}
        assert settled(group, NOW) == {event_id(1): lost, event_id(2): lost, event_id(3): {"conflict_status": None}}


@pytest.mark.parametrize("hours", [0.0, -1.0, float("nan"), float("inf"), 1e9])
@pytest.mark.parametrize("name", ["ttl_hours", "idle_hours"])
async def test_time_that_is_none_is_refused(journal: Journal, name: str, hours: float) -> None:
    with pytest.raises(BadInput, match="more than 0"):
        await over(journal).run(LifecycleRequest(EVERYBODY, **{name: hours}), NOW)


class TestRun:
    @pytest.mark.row(
        "A045", "A047", "the lifecycle runs in the seed's order and counts: expire, decay, retire, consolidate, resolve"
    )
    async def test_all_phases_are_counted(self, journal: Journal) -> None:
        await add(
            journal,
            said(1, 800 * HOUR, "Lunch is at one.", lifetime="ttl"),
            said(2, 30 * HOUR, "We talk about ferries.", lifetime="session"),
            memory(3, "The stall is open.", valid_to=NOW - HOUR),
            memory(4, "Marta prefers peppermint infusions to espresso."),
            memory(5, "Marta prefers peppermint infusions to espresso"),
            memory(6, "The office is in Lisbon.", disputed(0.9, 7)),
            memory(7, "The office is in Porto.", disputed(0.6, 6)),
            memory(8, "Falcon forbids force pushes."),
        )
        assert await tend(journal, FakeEmbedder()) == Report(1, 1, 1, 1, 1, scanned=8)
        after = await states(journal)
        ended = {n: state.ended for n, state in after.items() if state.ended_at}
        assert ended == {1: "expired", 2: "decayed", 3: "retired", 7: "lost"}
        assert after[4].merged_into == event_id(5)
        assert await found(journal, range(1, 9)) == {5, 6, 8}
        assert await tend(journal, FakeEmbedder()) == Report(scanned=8)

    @pytest.mark.row("A047", "… `--dry-run` counts the same and changes nothing", of="the lifecycle runs in")
    async def test_dry_run_counts_and_changes_nothing(self, journal: Journal) -> None:
        await add(
            journal,
            said(1, 800 * HOUR, lifetime="ttl"),
            memory(2, "Tea is ready.", {"merged_into": event_id(1)}),
            memory(4, "Marta prefers peppermint."),
            memory(5, "Marta prefers peppermint!"),
            memory(6, "The office is in Lisbon.", disputed(0.9, 7)),
            memory(7, "The office is in Porto.", disputed(0.6, 6)),
        )
        before, log = await states(journal), await journal.read(state.log, Scope(), 100)
        dry = await tend(journal, FakeEmbedder(), dry_run=True)
        assert await states(journal) == before
        assert await journal.read(state.log, Scope(), 100) == log
        expected = Report(1, 0, 1, 0, 1, scanned=6, released=1)
        assert replace(dry, dry_run=False) == await tend(journal, FakeEmbedder()) == expected

    @pytest.mark.feature("… the lifecycle reverts nothing, and ends nothing twice", of="a clock that jumps back: the")
    async def test_clock_that_jumps_back_takes_nothing_back(self, journal: Journal) -> None:
        await add(
            journal,
            said(1, 30 * HOUR, "We talk about ferries.", lifetime="session"),
            said(2, 2 * HOUR, "We talk about trains.", lifetime="session"),
        )
        assert await tend(journal) == Report(decayed=1, scanned=2)
        before = await states(journal)
        for now in (NOW - 1000 * HOUR, NOW):
            assert await tend(journal, now=now) == Report(scanned=2)
            assert await states(journal) == before

    @pytest.mark.row(
        "A046",
        "… the winner of a conflict stays recallable; of two within .01 the newest wins",
        of="the lifecycle runs in",
    )
    async def test_winner_of_a_conflict_stays_recallable(self, journal: Journal) -> None:
        """The older, surer one wins; questions about the past have both."""
        await add(journal, memory(1, "The office is in Lisbon.", disputed(0.9, 2)))
        await add(journal, memory(2, "The office is in Porto.", disputed(0.6, 1)))
        assert (await tend(journal)).conflicts_resolved == 1
        assert await found(journal, [1, 2]) == {1}
        assert await found(journal, [1, 2], as_of=NOW - HOUR) == {1, 2}

    async def test_of_three_in_a_conflict_the_newest_of_the_equally_sure_goes_on(self, journal: Journal) -> None:
        await add(journal, *(memory(n, f"The office is in {c}.", disputed(0.9, 1)) for n, c in enumerate("XYZ", 1)))
        assert (await tend(journal)).conflicts_resolved == 2
        assert await found(journal, [1, 2, 3]) == {3}

    @pytest.mark.row(
        "A045",
        "… the more confident of two near-duplicates is kept; texts that differ in a number, "
        "negation, owner or version are no duplicates",
        of="the lifecycle runs in",
    )
    @pytest.mark.parametrize(
        "other",
        [
            memory(2, "Marta likes tea at 10 in the quiet kitchen upstairs"),
            memory(2, "Marta never likes tea at 9 in the quiet kitchen upstairs"),
            memory(2, "Marta likes tea at 9 in the quiet kitchen upstairs", scope=BEN),
            memory(2, "Marta likes tea at 9 in the quiet kitchen upstairs", scope=replace(ADA, project="house")),
            memory(2, "Marta likes tea at 9 in the quiet kitchen upstairs", {"project": "house"}),
            memory(2, "Marta likes tea at 9 in the quiet kitchen upstairs", speaker="Ben"),
            memory(2, "Marta likes tea at 9 in the quiet kitchen upstairs", {"lifetime": "session"}),
            memory(2, "Marta likes tea at 9 in the quiet kitchen upstairs", supersedes=event_id(1)),
            memory(2, "Marta likes tea at 9 in the quiet kitchen upstairs", trust="trusted"),
            memory(2, "Marta likes tea at 9 in the quiet kitchen upstairs", {"trust": "trusted"}),
            memory(2, "Marta likes tea at 9 in the quiet kitchen upstairs", trust="quarantined"),
            memory(2, "Marta likes tea at 9 in the quiet kitchen upstairs", valid_to=NOW + HOUR),
            memory(2, "Marta likes tea at 9 in the quiet kitchen upstairs", valid_from=NOW),
            memory(2, "Marta likes tea at 9 in the quiet kitchen upstairs", kind="turn"),
            memory(2, "Marta likes tea at 9 in the quiet kitchen upstairs", place=Place("tea.md", 1, 2, "line")),
        ],
        ids=[
            *("number", "negation", "user", "project", "project of its state", "speaker", "lifetime", "version"),
            *("trusted", "trusted by decision", "quarantined", "until", "from", "turn", "place"),
        ],
    )
    async def test_what_is_not_the_same_is_not_merged(self, journal: Journal, other: Made) -> None:
        recent = Made(replace(other.event, recorded_at=NOW), other.state)
        await add(journal, memory(1, "Marta likes tea at 9 in the quiet kitchen upstairs"), recent)
        assert (await tend(journal, FakeEmbedder())).consolidated == 0

    @pytest.mark.feature(
        "… near texts that differ in a name, an opposite, an order or one word are no duplicates",
        of="the lifecycle runs in",
    )
    @pytest.mark.parametrize(
        "other",
        [
            "Ben keeps the blue ledgers of the harbour office on the tall shelves near the quay",
            "Marta keeps the blue ledgers of the harbour office off the tall shelves near the quay",
            "Marta keeps the green ledgers of the harbour office on the tall shelves near the quay",
        ],
        ids=["name", "opposite", "word"],
    )
    async def test_near_statement_that_says_something_else_is_not_merged(self, journal: Journal, other: str) -> None:
        one = "Marta keeps the blue ledgers of the harbour office on the tall shelves near the quay"
        await add(journal, memory(1, one), memory(2, other))
        assert (await tend(journal, Alike())).consolidated == 0

    async def test_reworded_statement_is_merged(self, journal: Journal) -> None:
        one = "Marta keeps the blue ledgers of the harbour office on the tall shelves near the quay"
        await add(journal, memory(1, one), memory(2, f"{one}, always"))
        assert (await tend(journal, Alike())).consolidated == 1

    @pytest.mark.feature("… two turns of one text are two", of="the lifecycle runs in")
    async def test_two_turns_of_one_text_are_two(self, journal: Journal) -> None:
        await add(journal, *(memory(n, "See you at the harbour tomorrow then", kind="turn") for n in (1, 2)))
        assert (await tend(journal)).consolidated == 0

    async def test_surer_duplicate_is_kept_whichever_came_first(self, journal: Journal) -> None:
        await add(
            journal,
            memory(1, "Marta prefers peppermint infusions", {"confidence": 0.9}),
            memory(2, "Marta prefers peppermint infusions!", {"confidence": 0.7}),
            memory(3, "marta prefers Peppermint infusions", {"confidence": 0.8}),
        )
        assert (await tend(journal, FakeEmbedder())).consolidated == 2
        assert await found(journal, [1, 2, 3]) == {1}

    async def test_chain_of_ever_surer_duplicates_ends_in_one_run(self, journal: Journal) -> None:
        text = "Marta prefers peppermint infusions"
        await add(journal, *(memory(n, text + "!" * n, {"confidence": n / 10}) for n in range(1, 8)))
        assert (await tend(journal)).consolidated == 6
        assert await found(journal, range(1, 8)) == {7}
        assert await tend(journal) == Report(scanned=7)

    async def test_without_a_model_the_words_decide(self, journal: Journal) -> None:
        """The same words in another case are one memory; one word of twelve less is a Jaccard of 11/12 = .917 < .92."""
        text = "the old harbour office keeps its blue ledgers behind many tall shelves"
        await add(journal, memory(1, text), memory(2, text.upper()), memory(3, text.rpartition(" ")[0]))
        assert (await tend(journal)).consolidated == 1

    async def test_memories_without_words_are_not_the_same(self, journal: Journal) -> None:
        await add(journal, memory(1, "!!!"), memory(2, "???"))
        assert (await tend(journal)).consolidated == 0

    async def test_same_words_in_another_order_are_left_to_the_model(self, journal: Journal) -> None:
        """Jaccard similarity cannot tell who owes whom, so that without a model this is a known weakness."""
        embedder = Distinct()
        await add(journal, memory(1, "Marta owes Ben tea"), memory(2, "Ben owes Marta tea"))
        assert (await tend(journal, embedder)).consolidated == 0

    @pytest.mark.feature(
        "… without the embedder, the lifecycle compares by words only, and a note says so", of="the lifecycle runs in"
    )
    @pytest.mark.parametrize("fault", ["away", "nan"])
    async def test_embedder_that_fails_costs_the_cosines_alone(self, journal: Journal, fault: str) -> None:
        long = "the old harbour office keeps its blue ledgers behind many tall shelves near the northern quay of town"
        names = ("Marta", "Ola")
        pairs = [(f"{name} says that {long}", f"{name} often says that {long}") for name in names]
        texts = [text for pair in pairs for text in pair]
        await add(journal, said(9, 800 * HOUR, lifetime="ttl"), *(memory(n, t) for n, t in enumerate(texts, 1)))
        embedder = Away(fault)
        report = await tend(journal, embedder)
        assert (report.expired, embedder.calls, len(report.notes)) == (1, 1, 1)
        assert report.consolidated >= 2
        assert "the embedder failed" in report.notes[0]

    @pytest.mark.feature(
        "… above 50,000 memories, a note says that not all pairs were compared", of="the lifecycle runs in"
    )
    async def test_report_notes_near_duplicates_beyond_the_window(self, journal: Journal) -> None:
        texts = ["Tea is ready.", "Falcon forbids pushes.", "The stall is open.", "Tea is ready."]
        await add(journal, *(memory(n, text) for n, text in enumerate(texts, 1)))
        narrow = await over(journal, window=2).run(LifecycleRequest(EVERYBODY, dry_run=True), NOW)
        assert (narrow.consolidated, len(narrow.notes)) == (0, 1)
        assert "among 2 memories at a time" in narrow.notes[0]
        assert await tend(journal) == Report(consolidated=1, scanned=4)

    async def test_run_of_one_user_leaves_others_alone(self, journal: Journal) -> None:
        mine, his = said(1, 800 * HOUR, lifetime="ttl"), said(2, 800 * HOUR, lifetime="ttl")
        his = Made(replace(his.event, scope=BEN), his.state)
        await add(journal, mine, his)
        assert await tend(journal, scope=ADA) == Report(expired=1, scanned=1)
        assert (await states(journal))[2].ended_at is None

    async def test_memories_of_several_users_are_decisions_of_their_owners(self, journal: Journal) -> None:
        his = said(2, 800 * HOUR, lifetime="ttl")
        await add(journal, said(1, 800 * HOUR, lifetime="ttl"), Made(replace(his.event, scope=BEN), his.state))
        assert (await tend(journal)).expired == 2
        for scope in (ADA, BEN):
            (latest, *_) = await journal.read(state.log, scope, 1)
            assert (latest.who, len(latest.changes)) == ("lifecycle", 1)

    @pytest.mark.feature("… a memory that a block had within 24 hours does not decay", of="the lifecycle runs in")
    async def test_use_delays_decay(self, journal: Journal) -> None:
        await add(journal, *(said(n, 99 * HOUR, f"Ferry {n} leaves.", lifetime="session") for n in (1, 2)))
        await journal.write(use.add, {event_id(1): Use(2, NOW - HOUR)})
        assert (await tend(journal)).decayed == 1
        assert await found(journal, [1, 2]) == {1}

    @pytest.mark.feature("… what a memory that ended had absorbed is found again", of="the lifecycle runs in")
    async def test_memory_is_released_when_the_one_that_it_was_merged_into_ends(self, journal: Journal) -> None:
        """What is over by itself, or says the same as one that lost a conflict or was archived, does not come back."""
        into: StateChange = {"merged_into": event_id(1)}
        await add(
            journal,
            said(1, 30 * HOUR, "Ferries leave at nine.", lifetime="session"),
            said(2, 29 * HOUR, "Ferries leave at nine.", lifetime="session", **into),
            said(3, 8 * HOUR, "Ferries leave at nine.", lifetime="session", **into),
            said(4, 7 * HOUR, "Ferries leave at nine!", lifetime="project", merged_into=event_id(3)),
            memory(5, "Ferries leave at ten.", disputed(0.9, 6)),
            memory(6, "Ferries leave at eight.", disputed(0.6, 5)),
            memory(7, "Ferries leave at eight.", {"merged_into": event_id(6)}),
            memory(8, "Boats leave.", {"ended_at": NOW - HOUR, "ended": "archived"}),
            memory(9, "Boats leave.", {"merged_into": event_id(8)}),
        )
        assert (await tend(journal, dry_run=True)).released == 1
        assert await found(journal, range(1, 10)) == {1, 5, 6}
        for released in (1, 0):
            assert (await tend(journal)).released == released
            assert await found(journal, range(1, 10)) == {3, 5}
        assert (await states(journal))[4].merged_into == event_id(3)


class TestUndo:
    @pytest.mark.feature("what the lifecycle decided can be undone, alone or by run, and is not decided again")
    async def test_undone_run_is_not_repeated(self, journal: Journal) -> None:
        await add(
            journal,
            said(1, 800 * HOUR, "Lunch is at one.", lifetime="ttl"),
            memory(4, "Marta prefers peppermint infusions to espresso."),
            memory(5, "Marta prefers peppermint infusions to espresso"),
            memory(6, "The office is in Lisbon.", disputed(0.9, 7)),
            memory(7, "The office is in Porto.", disputed(0.6, 6)),
        )
        before = await states(journal)
        report = await over(journal).run(LifecycleRequest(EVERYBODY), NOW)
        undone = await journal.undo_run(report.run, ADA, "ada")
        assert len(undone) == 3, "an ending, a merge and a conflict are decisions of their own"
        assert await states(journal) == before
        assert await tend(journal) == Report(scanned=5)
        assert await states(journal) == before

    async def test_undone_merge_is_not_repeated_in_the_other_direction(self, journal: Journal) -> None:
        await add(journal, memory(1, "Marta prefers tea."), memory(2, "Marta prefers tea!"))
        report = await over(journal).run(LifecycleRequest(EVERYBODY), NOW)
        (row,) = await journal.read(state.of_run, report.run, Scope())
        await journal.undo_decision(f"d{row['id']}", ADA, "ada")
        await journal.decide({event_id(1): {"confidence": 0.95}}, "test", "now it is the surer one")
        assert (await tend(journal)).consolidated == 0

    async def test_memory_that_its_owner_restored_is_not_ended_again(self, journal: Journal) -> None:
        await add(journal, said(1, 800 * HOUR, lifetime="ttl"))
        await tend(journal)
        await journal.decide({event_id(1): {"ended_at": None, "ended": None}}, "owner", "restored by hand")
        assert await tend(journal) == Report(scanned=1)

    async def test_undo_of_an_undo_has_the_ending_again(self, journal: Journal) -> None:
        await add(journal, said(1, 800 * HOUR, lifetime="ttl"))
        report = await over(journal).run(LifecycleRequest(EVERYBODY), NOW)
        (row,) = await journal.read(state.of_run, report.run, Scope())
        undone = await journal.undo_decision(f"d{row['id']}", ADA, "ada")
        await journal.undo_decision(undone.name, ADA, "ada")
        assert await found(journal, [1]) == set()


class TestDeletion:
    @pytest.mark.row(
        "A045",
        "… expiry deletes on request, without tombstones; by default nothing is deleted",
        of="the lifecycle runs in",
    )
    async def test_expired_memories_are_deleted_on_request(self, journal: Journal) -> None:
        """Also those of earlier runs. What decayed stays, and the same words can be remembered again."""
        await add(
            journal,
            said(1, 800 * HOUR, "Lunch is at one o'clock in the canteen.", lifetime="ttl"),
            said(2, 800 * HOUR, "We talk about ferries.", lifetime="session"),
        )
        assert (await tend(journal)).deleted == 0
        assert (await tend(journal, delete_expired=True, dry_run=True)).deleted == 1
        assert len(await states(journal)) == 2
        assert (await tend(journal, delete_expired=True)).deleted == 1
        assert await states(journal) == {2: (await states(journal))[2]}
        assert b"canteen" not in journal.file.read_bytes()
        again = make_event(3, "Lunch is at one o'clock in the canteen.", ADA, kind="fact")
        (stored,) = await journal.append([again])
        assert stored.state == "stored"

    async def test_a_memory_merged_into_a_deleted_one_is_found_again(self, journal: Journal) -> None:
        same = memory(2, "Tea is ready.", {"merged_into": event_id(1)})
        await add(journal, said(1, 800 * HOUR, lifetime="ttl"), same)
        await tend(journal, delete_expired=True)
        assert await found(journal, [2]) == {2}


class Distinct(FakeEmbedder):
    """Gives every text a vector of its own."""

    async def embed(self, texts: Sequence[str], *, keep: bool = True) -> Floats:
        vectors = (await super().embed(texts, keep=keep)).copy()
        vectors[:] = 0
        for n, row in enumerate(vectors):
            row[n] = 1
        return vectors


class Away(FakeEmbedder):
    """Cannot be reached, or answers what is no vector; counts how often it is asked."""

    def __init__(self, fault: str) -> None:
        super().__init__()
        self._fault = fault
        self.calls = 0

    async def embed(self, texts: Sequence[str], *, keep: bool = True) -> Floats:
        self.calls += 1
        if self._fault == "away":
            raise BackendUnreachable("the model is away")
        vectors = (await super().embed(texts, keep=keep)).copy()
        vectors[:] = float("nan")
        return vectors


class Racing(Journal):
    """Somebody forgets one memory just before something is decided, or just after."""

    before = after = ""

    async def decide_all(self, planned: Sequence[Planned], who: str, **how: Any) -> Any:
        before, self.before = self.before, ""
        await self.forget([before] if before else [], ADA)
        made = await super().decide_all(planned, who, **how)
        after, self.after = self.after, ""
        await self.forget([after] if after else [], ADA)
        return made


@pytest.fixture
async def racing(tmp_path: Path) -> AsyncIterator[Racing]:
    opened = await Racing.open(tmp_path / "racing.sqlite")
    yield opened
    await opened.close()


class TestRaces:
    @pytest.mark.feature(
        "… also if the winner is forgotten during a merge or a resolution: its duplicate or the next best is found",
        of="the lifecycle runs in",
    )
    @pytest.mark.parametrize("when", ["before", "after"])
    async def test_merged_memory_is_found_if_the_other_one_is_forgotten(self, racing: Racing, when: str) -> None:
        text = "Marta prefers peppermint"
        await add(racing, memory(1, text, {"confidence": 0.9}), memory(2, f"{text} tea"))
        setattr(racing, when, event_id(1))
        await tend(racing, Alike())
        assert await found(racing, [1, 2]) == {2}

    @pytest.mark.parametrize("when", ["before", "after"])
    async def test_forgotten_winner_leaves_the_next_best(self, racing: Racing, when: str) -> None:
        await add(racing, *(memory(n, f"Tea is at {n} sharp.", disputed(1 - n / 10, 1)) for n in (1, 2, 3)))
        setattr(racing, when, event_id(1))
        await tend(racing)
        await tend(racing)
        assert await found(racing, [1, 2, 3]) == {2}

    async def test_what_its_owner_changed_meanwhile_is_left_alone(self, journal: Journal) -> None:
        """A memory that becomes permanent after its page was read does not expire."""
        await add(journal, said(1, 800 * HOUR, lifetime="ttl"), said(2, 800 * HOUR, "Tea.", lifetime="ttl"))
        both: dict[str, StateChange] = {event_id(n): {"ended_at": NOW, "ended": "expired"} for n in (1, 2)}
        planned = [Planned(both, "why", await seen_of(journal), False)]
        await journal.decide({event_id(1): {"lifetime": "permanent"}}, "ada", "keep it")
        await journal.decide_all(planned, "lifecycle")
        assert {n: s.ended for n, s in (await states(journal)).items()} == {1: None, 2: "expired"}

    async def test_two_runs_at_once_decide_once(self, journal: Journal) -> None:
        await add(journal, *(said(n, 800 * HOUR, f"Ferry {n} leaves.", lifetime="ttl") for n in range(1, 30)))
        tending = over(journal, page=5)
        one, other = await asyncio.gather(*(tending.run(LifecycleRequest(EVERYBODY), NOW) for _ in range(2)))
        assert (one.expired, other.expired) == (29, 0)
        assert other.run == ""


class Alike(FakeEmbedder):
    """Gives every text the same vector."""

    async def embed(self, texts: Sequence[str], *, keep: bool = True) -> Floats:
        vectors = (await super().embed(texts, keep=keep)).copy()
        vectors[:] = vectors[0]
        return vectors


async def seen_of(journal: Journal) -> Mapping[str, State]:
    return {event_id(n): one for n, one in (await states(journal)).items()}


class Killed(BaseException):
    """Simulates the end of the process."""


class Mortal(Journal):
    """A journal whose process dies at the n-th decision, before it or after it."""

    left = 10**6
    dies_after = False

    async def decide_all(self, planned: Sequence[Planned], who: str, **how: Any) -> Any:
        self.left -= 1
        if self.left < 0 and not self.dies_after:
            raise Killed
        made = await super().decide_all(planned, who, **how)
        if self.left < 0:
            raise Killed
        return made


def various(random: Random) -> list[Made]:
    """Thirty memories, of which many end, are said twice or contradict one another."""
    made = []
    for n in range(1, 31):
        change: StateChange = random.choice(
            [
                {"lifetime": "ttl"},
                {"lifetime": "session"},
                {"confidence": random.random()},
                disputed(random.random(), 1, f"g{n % 3}"),
            ]
        )
        text = random.choice(["Marta prefers tea.", "The office is in Lisbon.", f"Thing {n} is here."])
        made.append(memory(n, text, change))
    return made


@pytest.mark.feature(
    "… after a kill at any write, the next run ends as if nothing had happened", of="the lifecycle runs in"
)
@pytest.mark.parametrize("seed", range(3))
async def test_run_that_was_killed_is_finished_by_the_next(tmp_path: Path, seed: int) -> None:
    """Before and after each of its writes."""
    memories = various(Random(seed))

    async def tended(name: str, left: int, *, after: bool = False) -> Mortal:
        journal = await Mortal.open(tmp_path / f"{name}.sqlite")
        await add(journal, *memories)
        journal.left, journal.dies_after = left, after
        return journal

    once = await tended("once", 10**6)
    await over(once, page=5).run(LifecycleRequest(EVERYBODY), NOW)
    expected = await states(once)
    assert await tend(once) == Report(scanned=30)
    writes = 10**6 - once.left
    await once.close()
    assert writes >= 5
    for point in range(writes):
        for after in (False, True):
            journal = await tended(f"{point}{after}", point, after=after)
            with pytest.raises(Killed):
                await over(journal, page=5).run(LifecycleRequest(EVERYBODY), NOW)
            journal.left = 10**6
            await over(journal, page=5).run(LifecycleRequest(EVERYBODY), NOW)
            assert await states(journal) == expected
            await journal.close()


@pytest.mark.row("A047", "… it reads pages of 500", of="the lifecycle runs in")
async def test_run_reads_500_memories_at_a_time(journal: Journal) -> None:
    await journal.append([make_event(n, f"Thing {n} is here", ADA) for n in range(1, 1201)])
    done: list[tuple[int, int | None]] = []
    await over(journal).run(LifecycleRequest(EVERYBODY), NOW, lambda scanned, total: done.append((scanned, total)))
    assert done == [(500, 1200), (1000, 1200), (1200, 1200)]


class Two:
    """Two memories of the same words and some more."""

    every: ClassVar[list[Memory]] = [
        Memory(Record(f"m{i}", make_event(i, text, kind="fact")))
        for i, text in enumerate(
            (
                "The ferry to the island leaves the old harbour at noon on every working day",
                "And so the ferry to the island leaves from the old harbour at noon on every working day of ours",
            ),
            start=1,
        )
    ]

    async def get(self, ids: Sequence[str]) -> Mapping[str, Memory]:
        return {one.id: one for one in self.every if one.id in ids}


@pytest.mark.parametrize(
    ("embedder", "pairs"),
    [(FakeEmbedder(dimensions=2048), 0), (CrowdedEmbedder(), 0), (CrowdedEmbedder(NO_SCALE), 1)],
)
async def test_near_duplicates_are_compared_on_the_scale_of_the_model(embedder: FakeEmbedder, pairs: int) -> None:
    """A cosine of .97 that means .86 is no duplicate from .92 on."""
    two = Two()
    finder = MergeFinder(two.get, lambda one: (one.event.scope,), lambda one: Extraction(), embedder, 0.92)
    assert len(await finder.pairs(two.every)) == pairs


class Many:
    """So many memories that take no room: each is made when it is read. Of a hundred one is a twin."""

    def __init__(self) -> None:
        self._words = [f"{a}{b}" for a in "bcdfghjklmnpqrstvwxz" for b in "aeiou"]

    def memory(self, i: int) -> Memory:
        random = Random(i - i % 2 if i % 100 < 2 else i)
        text = " ".join("".join(random.choices(self._words, k=3)) for _ in range(12))
        return Memory(Record(f"m{i}", make_event(i + 1, text, kind="fact")))

    async def get(self, ids: Sequence[str]) -> Mapping[str, Memory]:
        return {id_: self.memory(int(id_[-12:], 16) - 1) for id_ in ids}


@pytest.mark.row(
    "A047", "… near-duplicates among 50,000 memories fit in bounded memory, by MinHash-LSH", of="the lifecycle runs in"
)
@pytest.mark.slow
async def test_50_000_memories_in_bounded_memory() -> None:
    """Each of 500 pairs is found among 50,000, in less than 250 MB more than before."""
    unit = 1024 if sys.platform != "darwin" else 1
    before = resource.getrusage(resource.RUSAGE_SELF).ru_maxrss * unit
    many = Many()
    finder = MergeFinder(many.get, lambda one: (one.event.scope,), lambda one: Extraction(), None, 0.92)
    pairs = 0
    for first in range(0, 50_000, 500):
        pairs += len(await finder.pairs([many.memory(i) for i in range(first, first + 500)]))
    assert pairs == 500
    assert resource.getrusage(resource.RUSAGE_SELF).ru_maxrss * unit - before < 250_000_000
