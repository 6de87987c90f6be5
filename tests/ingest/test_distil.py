"""Distillation: conversations become memories in the background, each turn once."""

from __future__ import annotations

import asyncio
import json
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from dataclasses import dataclass, replace
from pathlib import Path
from tempfile import TemporaryDirectory
from typing import Any

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from fusion.contract import Event, Extraction, Fact, Place, Scope
from fusion.errors import BackendUnreachable, HttpStatus, RateLimited
from fusion.ingest.deliver import Deliverer
from fusion.ingest.distil import (
    MAX_ATTEMPTS,
    MAX_EXCHANGE_TURNS,
    SOURCE,
    Distiller,
    exchanges,
    worth_it,
)
from fusion.ingest.forget import Forgetter
from fusion.ingest.intake import Intake, NewMemory
from fusion.journal import Journal, distil_queue
from fusion.journal.distil_queue import DistilJob
from tests.fakes import Asked, FakeModel
from tests.ingest.helpers import ME, FakeClock, FakeStore, event

QUIET_S = 30.0


def answer(*texts: str, **fields: object) -> str:
    memories = [{"text": text, "kind": "fact", "confidence": 0.8, "from": [1], **fields} for text in texts]
    return json.dumps({"memories": memories})


@dataclass
class Home:
    """A journal, a store, and a model that distils what is remembered."""

    journal: Journal
    store: FakeStore
    time: FakeClock
    deliverer: Deliverer
    distiller: Distiller
    intake: Intake
    model: FakeModel

    async def say(self, *texts: str, first: int = 0, **fields: Any) -> list[str]:
        """Ana and Tom, turn about; the event ids."""
        fields = {"scope": Scope(user_id="ana"), "kind": "turn", **fields}
        turns = [
            NewMemory(text, speaker=("Ana", "Tom")[n % 2], place=Place("chat", n, n), **fields)
            for n, text in enumerate(texts, start=first)
        ]
        return [one.event_id for one in await self.intake.remember(turns)]

    async def settle(self) -> None:
        """Everything that is ready by now is distilled and delivered."""
        await self.distiller.settle()
        await self.deliverer.settle()

    async def later(self, seconds: float = QUIET_S) -> None:
        self.time.pass_by(seconds)
        self.distiller.wake()
        await self.settle()

    @property
    def made(self) -> list[Event]:
        return [c.event for c in self.store.kept.values() if c.event.source == SOURCE]


@asynccontextmanager
async def home(folder: Path, model: FakeModel, time: FakeClock | None = None) -> AsyncIterator[Home]:
    time = time or FakeClock()
    journal = await Journal.open(folder / "journal.sqlite")
    store = FakeStore()
    deliverer = Deliverer(journal, {"store": store}, clock=time.now, sleep=time.sleep)
    distiller = Distiller(journal, deliverer, model, quiet_s=QUIET_S, clock=time.now, sleep=time.sleep)
    await deliverer.start()
    distiller.start()
    try:
        yield Home(journal, store, time, deliverer, distiller, Intake(journal, deliverer, time.now, distiller), model)
    finally:
        await distiller.close()
        await deliverer.close()
        await journal.close()


LONG = ("I moved to Lisbon last week, near the river.", "That is wonderful news, how is the new flat?")


@pytest.mark.row(
    "A167",
    "A028",
    "a model distils conversations into memories that name their turns; no caller waits for it",
)
async def test_a_conversation_becomes_memories(tmp_path: Path):
    """Asked once when it was quiet for 30 s; the memory names its turns, is its owner's, and goes to every backend."""
    model = FakeModel(answer("Ana lives in Lisbon.", facts=[["Ana", "lives in", "Lisbon"]], **{"from": [1, 2]}))
    async with home(tmp_path, model) as at:
        ids = await at.say(*LONG)
        await at.settle()
        assert at.store.texts == list(LONG)  # delivered at once
        assert model.asked == []
        await at.later(QUIET_S - 1)
        assert model.asked == []
        await at.later(1)
        assert [asked.max_tokens for asked in model.asked] == [2048]
        (made,) = at.made
        assert (made.text, made.kind, made.derived_from) == ("Ana lives in Lisbon.", "fact", tuple(ids))
        assert (made.scope, made.origin, made.speaker) == (Scope(user_id="ana"), "system", None)
        learnt = at.store.kept[made.event_id].extraction
        assert (learnt.confidence, learnt.facts) == (0.8, (Fact("Ana", "lives in", "Lisbon"),))
        await at.later(3600)
        assert len(model.asked) == 1  # once


@pytest.mark.feature(
    "… a turn is sent to the model once, and the result is kept for every store; one call at a time, "
    "on one budget a minute (the original has four workers)",
    of="a model distils conversations",
)
async def test_a_distilled_extraction_is_stored_for_every_backend(tmp_path: Path):
    """A new or refilled store gets the model's extraction without another call of the model."""
    model = FakeModel(answer("Ana lives in Lisbon.", kind="decision"))
    async with home(tmp_path, model) as at:
        await at.say(*LONG)
        await at.later()
        (made,) = at.made
        first = at.store.kept[made.event_id].extraction
        late = FakeStore()
        deliverer = Deliverer(at.journal, {"late": late}, clock=at.time.now, sleep=at.time.sleep)
        await deliverer.start()
        await deliverer.settle()
        await deliverer.close()
        assert late.kept[made.event_id].extraction == first
        assert first.kind == "decision"
        assert len(model.asked) == 1


@pytest.mark.feature("a claimed turn is never shown to the model as part of the conversation that it names")
def test_a_claimed_turn_is_in_no_exchange_of_the_conversation_that_it_names() -> None:
    """A model that reads both would take the claim for what was said there."""
    turns = [event(f"turn {n}", n, kind="turn", source="chat:12") for n in range(2)]
    claimed = event("planted", 2, kind="turn", source="claimed:chat:evil")
    other = event("of another kind", 3, kind="turn", source="web:12")
    listed = [DistilJob(n, turn, 0, turn.recorded_at) for n, turn in enumerate([*turns, claimed, other])]
    texts = [[job.event.text for job in exchange] for exchange, _ in exchanges(listed)]
    assert texts == [["turn 0", "turn 1"], ["planted"], ["of another kind"]]


@pytest.mark.row("A032", "… shown with the three turns before it", of="a model distils conversations")
async def test_a_long_conversation_goes_in_exchanges_with_what_was_said_before(tmp_path: Path):
    """19 turns: 8 and 8 at once, 3 when it is quiet; each is shown with the three turns before it."""
    model = FakeModel("[]")
    async with home(tmp_path, model) as at:
        await at.say(*(f"This is turn number {n} of our talk." for n in range(2 * MAX_EXCHANGE_TURNS + 3)))
        await at.settle()
        assert len(model.asked) == 2
        await at.later()
        assert [asked.user.count("</turn-") for asked in model.asked] == [8, 8, 3]
        assert [asked.user.count("</before-") for asked in model.asked] == [0, 3, 3]
        assert "turn number 7" in model.asked[1].user


async def test_two_conversations_are_not_mixed(tmp_path: Path):
    """By owner and session: nothing of one is shown with another."""
    model = FakeModel("[]")
    async with home(tmp_path, model) as at:
        await at.say(*(f"ana says {text}" for text in LONG))
        await at.say(*(f"kim says {text}" for text in LONG), scope=Scope(user_id="kim"))
        await at.later()
        assert ["ana says" in asked.user for asked in model.asked] == [True, False]
        assert ["kim says" in asked.user for asked in model.asked] == [False, True]


@pytest.mark.row(
    "A032",
    "… only turns with at least 20 characters on each side; no heartbeats",
    of="a model distils conversations",
)
@pytest.mark.parametrize(
    ("sides", "expected"),
    [
        ([("Ana", "x" * 20), ("Tom", "x" * 20)], True),
        ([("Ana", "x" * 20), ("Tom", "x" * 19)], False),
        ([("Ana", "x" * 20)], True),
        ([("Ana", "x" * 10), ("Ana", "y" * 10)], True),  # 10 + 10 of one side
        ([("Ana", " " * 50)], False),
    ],
)
def test_worth_it_wants_twenty_characters_of_each_speaker(sides: list[tuple[str, str]], expected: bool):
    """Twenty characters a side (seed 000), counted over the exchange."""
    assert worth_it([event(text, speaker=speaker) for speaker, text in sides]) is expected


async def test_short_exchanges_and_other_kinds_are_not_sent_to_the_model(tmp_path: Path):
    """Nor is a note, a quarantined turn, or what was there before the model was."""
    journal = await Journal.open(tmp_path / "journal.sqlite")
    await journal.append([event(LONG[0], 99, kind="turn")])
    await journal.close()
    model = FakeModel("[]")
    async with home(tmp_path, model) as at:
        await at.say("ok", "fine")
        await at.say(LONG[0], first=10, kind="note")
        await at.say(LONG[0], first=20, trust="quarantined")
        await at.later()
        assert model.asked == []
        assert await at.journal.read(distil_queue.oldest, 9) == []


@pytest.mark.feature(
    "a model that answers with prose or truncated JSON about memories is asked again in halves, then "
    "the rules' result is kept",
    part="faults/cortex",
)
async def test_an_invalid_answer_is_retried_with_half_as_many_turns(tmp_path: Path):
    """Prose about 8 turns: a minute later the first 4 are tried, then 2 and 2, then the other 4; all of them stay."""
    model = FakeModel("I am sorry.")
    async with home(tmp_path, model) as at:
        texts = [f"This is turn number {n} of our talk." for n in range(8)]
        await at.say(*texts)
        await at.settle()
        assert len(model.asked) == 1
        await at.later(59)
        assert len(model.asked) == 1
        for _ in range(5):
            await at.later(120)
        assert [asked.user.count("</turn-") for asked in model.asked] == [8, 4, 2, 2, 4, 2, 2]
        assert MAX_ATTEMPTS == 3  # 8, 4 and 2 about each turn: then it is given up
        assert await at.journal.read(distil_queue.oldest, 9) == []
        assert at.store.texts == texts


async def test_a_turn_does_not_wait_for_a_clock_that_went_back(tmp_path: Path):
    """It was captured while the machine believed that it was a year later."""
    model, year_s = FakeModel(answer("Ana lives in Lisbon.")), 366 * 86_400
    async with home(tmp_path, model) as at:
        at.time.pass_by(year_s)
        turns = [event(text, n, kind="turn") for n, text in enumerate(LONG)]
        await at.journal.append([replace(turn, recorded_at=at.time.now()) for turn in turns])
        at.time.pass_by(-year_s)
        at.distiller.wake()
        await at.settle()
        assert [made.text for made in at.made] == ["Ana lives in Lisbon."]


@pytest.mark.parametrize("fault", [BackendUnreachable("refused"), HttpStatus("busy", 503), OSError("x")])
async def test_a_failing_model_does_not_count_against_a_turn(tmp_path: Path, fault: Exception):
    """Tried after 1 s, 2 s, 4 s …, and distilled when it is back; its fault is reported meanwhile."""
    model = FakeModel(fault)
    async with home(tmp_path, model) as at:
        await at.say(*LONG)
        await at.later()
        for _ in range(MAX_ATTEMPTS + 2):
            assert at.distiller.fault
            slept = len(at.time.slept)
            at.time.pass_by(60)
            await at.time.asleep(slept + 1)
        model.script = [answer("Ana lives in Lisbon.")]
        at.distiller.wake()
        at.time.pass_by(60)
        await at.settle()
        assert [made.text for made in at.made] == ["Ana lives in Lisbon."]
        assert at.distiller.fault == ""


async def test_a_rate_limit_of_the_model_is_no_fault(tmp_path: Path):
    """The minute's budget is spent for 47 s: it sleeps 47 s, and nothing is degraded."""
    model = FakeModel(RateLimited("spent", 47.0), answer("Ana lives in Lisbon."))
    async with home(tmp_path, model) as at:
        await at.say(*LONG)
        await at.later()
        assert at.time.slept[-1] == 47
        assert at.distiller.fault == ""
        at.distiller.wake()
        at.time.pass_by(47)
        await at.settle()
        assert len(at.made) == 1


async def test_a_refused_prompt_counts_as_an_invalid_answer(tmp_path: Path):
    """HTTP 400 is about what was said, so it is not asked for ever."""
    model = FakeModel(HttpStatus("no", 400))
    async with home(tmp_path, model) as at:
        await at.say(*LONG)
        for _ in range(9):
            await at.later(3600)
        assert len(model.asked) == MAX_ATTEMPTS


@pytest.mark.row(
    "A165",
    "… a memory is deleted with its source, in journal and backends, also while the model has it",
    of="a model distils conversations",
)
async def test_turns_forgotten_during_the_call_are_not_distilled(tmp_path: Path):
    """A turn is forgotten while the model has it: what was made of it is not kept; what was made of the other is."""

    def made(asked: Asked) -> str:
        memories = [
            {"text": text, "kind": "fact", "confidence": 1, "from": sources}
            for text, sources in (("Ana lives in Lisbon.", [1]), ("Tom is glad.", [2]), ("Both talk.", [1, 2]))
        ]
        return json.dumps(memories)

    model = FakeModel(made, gate=asyncio.Event())
    async with home(tmp_path, model) as at:
        ids = await at.say(*LONG)
        at.time.pass_by(QUIET_S)
        at.distiller.wake()
        await model.reached.wait()
        record = (await at.journal.records(ids))[ids[0]]
        await at.journal.forget([record.ref], ME)
        assert model.gate is not None
        model.gate.set()
        await at.settle()
        assert [one.text for one in at.made] == ["Tom is glad."]


async def test_a_distilled_memory_is_forgotten_with_its_source(tmp_path: Path):
    """Forgetting the turn deletes its memories and their extractions, in journal and backends."""
    model = FakeModel(answer("The canary is called Zerlina.", facts=[["canary", "is called", "Zerlina"]]))
    async with home(tmp_path, model) as at:
        ids = await at.say("My canary has such a funny name, guess.", LONG[1])
        await at.later()
        assert len(at.made) == 1
        record = (await at.journal.records(ids))[ids[0]]
        receipt = await Forgetter(at.journal, at.deliverer).forget(record.ref, ME)
        assert receipt is not None
        assert at.made == []
    for file in tmp_path.iterdir():
        assert b"Zerlina" not in file.read_bytes()


async def test_a_forgotten_distilled_memory_is_not_distilled_again(tmp_path: Path):
    """The same memory of the same turns is blocked by its tombstone; a long text also by its words."""
    text = "Ana lives in a small flat in Lisbon near the river."
    model = FakeModel(answer(text))
    async with home(tmp_path, model) as at:
        await at.say(*LONG)
        await at.later()
        (made,) = at.made
        record = (await at.journal.records([made.event_id]))[made.event_id]
        await Forgetter(at.journal, at.deliverer).forget(record.ref, ME)
        await at.say("Did I tell you about the flat by the river?", LONG[1], first=10)
        await at.later()
        assert len(model.asked) == 2
        assert at.made == []


BY_TEXT = {"Lisbon": "Ana lives in Lisbon.", "Porto": "Ana lives in Porto.", "flat": "Tom asked after the flat."}


def by_what_is_said(asked: Asked) -> str:
    """A memory of each turn that names a town or the flat; and one of both where both are shown."""
    turns = asked.user.split("<turn-")[1:]
    found = [{"text": BY_TEXT[w], "from": [n]} for n, turn in enumerate(turns, 1) for w in BY_TEXT if w in turn]
    if len(turns) == 2:
        town = next(w for w in ("Porto", "Lisbon") if w in asked.user)
        found.append({"text": f"Ana has a new flat in {town}.", "from": [1, 2]})
    return json.dumps([{"kind": "fact", "confidence": 1, **one} for one in found])


TOWN = ("I moved to {} last week, near the river.", "Wonderful, and how is the new flat?")


@pytest.mark.feature(
    "memories made from the old text of an edited turn are retired in the journal and deleted in "
    "every store, also if one was down or the process died; its other turns are distilled again with "
    "the new text",
)
async def test_a_distilled_memory_is_retired_when_its_turn_is_edited(tmp_path: Path):
    """Lisbon becomes Porto at its place: no store has a memory of Lisbon; the other turn is shown beside the new one.

    What was made of the other turn alone is made again in the same words, and is the same memory.
    """
    model = FakeModel(by_what_is_said)
    async with home(tmp_path, model) as at:
        await at.say(TOWN[0].format("Lisbon"), TOWN[1])
        await at.later()
        before = {one.text: one.event_id for one in at.made}
        assert list(before) == ["Ana lives in Lisbon.", "Tom asked after the flat.", "Ana has a new flat in Lisbon."]
        await at.say(TOWN[0].format("Porto"))
        await at.settle()
        assert [one.text for one in at.made] == ["Tom asked after the flat."]  # before any model is asked
        records = await at.journal.records(list(before.values()))
        assert [(r.superseded_by, r.live, r.forgotten) for r in records.values()] == [
            ("retired", False, False),
            (None, True, False),
            ("retired", False, False),
        ]
        await at.later()
        assert len(model.asked) == 2
        assert "Lisbon" not in model.asked[1].user
        assert {one.text for one in at.made} == {
            "Ana lives in Porto.",
            "Tom asked after the flat.",
            "Ana has a new flat in Porto.",
        }
        assert before["Tom asked after the flat."] in at.store.kept


async def test_a_distilled_memory_is_replaced_by_a_new_one_of_the_same_turns(tmp_path: Path):
    """Asked again about an edited turn's neighbour, the model uses other words: there is still one memory of it."""
    words = iter(("Tom asked after the flat.", "Tom wonders how the flat is."))

    def otherwise(asked: Asked) -> str:
        both = {"text": "Both talk of the flat.", "kind": "fact", "confidence": 1, "from": [1, 2]}
        return json.dumps([both, {"text": next(words), "kind": "fact", "confidence": 1, "from": [2]}])

    async with home(tmp_path, FakeModel(otherwise)) as at:
        await at.say(TOWN[0].format("Lisbon"), TOWN[1])
        await at.later()
        await at.say(TOWN[0].format("Porto"))
        await at.later()
        assert {one.text for one in at.made} == {"Both talk of the flat.", "Tom wonders how the flat is."}


async def test_turns_edited_during_the_call_are_not_distilled(tmp_path: Path):
    """A turn is edited while the model has it: the answer about the old text is not kept, the new one is asked about.

    Nor is the old text asked about when it was edited before its time came.
    """
    model = FakeModel(by_what_is_said, gate=asyncio.Event())
    async with home(tmp_path, model) as at:
        await at.say(TOWN[0].format("Lisbon"), TOWN[1])
        at.time.pass_by(QUIET_S)
        at.distiller.wake()
        await model.reached.wait()
        await at.say(TOWN[0].format("Porto"))
        assert model.gate is not None
        model.gate.set()
        await at.settle()
        assert [one.text for one in at.made] == ["Tom asked after the flat."]
        await at.later()
        assert {one.text for one in at.made} == {
            "Ana lives in Porto.",
            "Tom asked after the flat.",
            "Ana has a new flat in Porto.",
        }
        await at.say(TOWN[0].format("Lisbon"))
        await at.say(TOWN[0].format("Porto"))
        await at.later()
        assert "Lisbon" not in model.asked[-1].user


async def test_an_edit_reaches_a_store_that_was_down(tmp_path: Path):
    """Killed between the edit and the stores: what was made of the old text is due to be forgotten, and it is."""
    time = FakeClock()
    async with home(tmp_path, FakeModel(by_what_is_said), time) as at:
        await at.say(TOWN[0].format("Lisbon"), TOWN[1])
        await at.later()
        store = at.store
        store.fault = BackendUnreachable("down")
        await at.say(TOWN[0].format("Porto"))
        await at.settle()
        assert len([c for c in store.kept.values() if "Lisbon" in c.event.text and c.event.source == SOURCE]) == 2
    store.fault = None
    journal = await Journal.open(tmp_path / "journal.sqlite")
    deliverer = Deliverer(journal, {"store": store}, clock=time.now, sleep=time.sleep)
    await deliverer.start()
    await deliverer.settle()
    assert [c.event.text for c in store.kept.values() if c.event.source == SOURCE] == ["Tom asked after the flat."]
    late = FakeStore()
    another = Deliverer(journal, {"late": late}, clock=time.now, sleep=time.sleep)
    await another.start()
    await another.settle()
    assert not [text for text in late.texts if text.startswith("Ana")]  # nor does a store that is new get it
    for one in (deliverer, another):
        await one.close()
    await journal.close()


async def test_forgetting_an_edited_turn_erases_memories_of_its_old_text(tmp_path: Path):
    """Retired memories keep their link to their sources: nothing of them is left in any file."""
    model = FakeModel(answer("The canary is called Zerlina."), "[]")
    async with home(tmp_path, model) as at:
        await at.say("My canary has such a funny name, guess.", LONG[1])
        await at.later()
        (edited,) = await at.say("My canary has no name at all so far.")
        await at.settle()
        assert at.made == []
        record = (await at.journal.records([edited]))[edited]
        await Forgetter(at.journal, at.deliverer).forget(record.ref, ME)
    for file in tmp_path.iterdir():
        assert b"Zerlina" not in file.read_bytes()


EDITS = st.lists(
    st.one_of(
        st.tuples(st.just("say"), st.integers(0, 3), st.sampled_from(("Lisbon", "Porto", "Faro"))),
        st.tuples(st.just("forget"), st.integers(0, 3), st.just("")),
        st.tuples(st.just("distil"), st.just(0), st.just("")),
    ),
    max_size=14,
)


@pytest.mark.feature(
    "… in any order of stating, editing, forgetting and distilling, no memory outlives its source "
    "text and no set of turns yields two",
    of="a model distils conversations",
)
@given(steps=EDITS)
@settings(max_examples=40, deadline=None)
def test_a_distilled_memory_never_outlives_its_source_text(steps: list[tuple[str, int, str]]):
    """Saying, editing, forgetting and distilling in any order: what a store has of a model's is from current turns.

    Of two turns of which one was forgotten the other still bears it out; of which one was edited, it does not.
    """

    def pairs(asked: Asked) -> str:
        shown = asked.user.count("</turn-")
        found = [[n] for n in range(1, shown + 1)] + [[n, n + 1] for n in range(1, shown)]
        called = len(model.asked)
        return json.dumps(
            [{"text": f"Ana moved to town {n} of {called}.", "kind": "fact", "confidence": 1, "from": n} for n in found]
        )

    model = FakeModel(pairs)

    async def live(folder: Path) -> None:
        async with home(folder, model) as at:
            standing: dict[int, str] = {}
            for what, place, town in steps:
                if what == "say":
                    (said,) = await at.say(f"{TOWN[0].format(town)} ({place})", first=place)
                    standing.update({place: said} if said else {})  # what was forgotten is blocked
                elif what == "distil":
                    await at.later()
                elif place in standing:
                    gone = standing.pop(place)
                    record = (await at.journal.records([gone]))[gone]
                    await Forgetter(at.journal, at.deliverer).forget(record.ref, ME)
                await at.settle()
                for one in at.made:
                    sources = (await at.journal.records(one.derived_from)).values()
                    assert all(source.superseded_by is None for source in sources)
                    assert not all(source.forgotten for source in sources)
                learnt = [one.derived_from for one in at.made]
                assert len(learnt) == len(set(learnt))  # nothing of the same turns twice
            await at.later()
            current = {i for i, r in (await at.journal.records(list(standing.values()))).items() if not r.forgotten}
            assert current <= {i for one in at.made for i in one.derived_from}  # and each is learnt from

    with TemporaryDirectory() as folder:
        asyncio.run(live(Path(folder)))


async def test_a_distilled_memory_has_the_trust_of_its_worst_source(tmp_path: Path):
    """Trusted and untrusted make untrusted."""
    model = FakeModel(answer("Ana lives in Lisbon.", **{"from": [1, 2]}))
    async with home(tmp_path, model) as at:
        await at.say(LONG[0], trust="trusted")
        await at.say(LONG[1], first=1, trust="untrusted")
        await at.later()
        assert [made.trust for made in at.made] == ["untrusted"]


async def test_after_a_crash_the_rest_is_distilled(tmp_path: Path):
    """The list is in the journal: what the first process asked about without an answer, the next one does."""
    hanging = FakeModel("[]", gate=asyncio.Event())
    time = FakeClock()
    async with home(tmp_path, hanging, time) as at:
        await at.say(*LONG)
        at.time.pass_by(QUIET_S)
        at.distiller.wake()
        await hanging.reached.wait()
    async with home(tmp_path, FakeModel(answer("Ana lives in Lisbon.")), time) as at:
        await at.settle()
        assert [made.text for made in at.made] == ["Ana lives in Lisbon."]


async def test_a_job_that_left_the_queue_is_stored_once(tmp_path: Path):
    """Two that distil the same turns: the second finds them off the list, and keeps nothing."""
    async with home(tmp_path, FakeModel("[]")) as at:
        ids = await at.say(*LONG)
        seqs = [job.seq for job in await at.journal.read(distil_queue.oldest, 9)]
        made = [(event("Ana lives in Lisbon.", source=SOURCE, derived_from=tuple(ids)), Extraction())]
        assert len(await at.journal.keep_distilled(seqs, made)) == 1
        assert await at.journal.keep_distilled(seqs, made) == []
