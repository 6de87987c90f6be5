"""A session gets each memory once while it is in its context: over whole homes, with real journals."""

from __future__ import annotations

import asyncio
from dataclasses import replace
from pathlib import Path
from tempfile import TemporaryDirectory
from typing import NamedTuple

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from fusion.contract import Asker, Place, Scope
from fusion.gateway.gateway import Gateway
from fusion.ingest.intake import NewMemory
from fusion.recall.engine import Fused, FuseRequest
from tests.gateway.helpers import ASKED, DECIDED, NADIA, OMAR, embedded, remember, small
from tests.patience import load

MARKDOWN: dict[str, object] = {"adapter": "adapters.markdown:Markdown"}
HOOK = {"recipe": "hook", "timeout_ms": 60_000}
ASKER = Asker("coder", "s1", "telegram")
NOTES = [f"The {name} gate sticks when it rains" for name in ("north", "south", "east", "west")]
QUESTIONS = [f"which gate sticks, the {name} one?" for name in ("north", "south", "east", "west")]
TURNS = 3
"""turns without a repetition in the recipe of these tests"""


class Turn(NamedTuple):
    """One question: who asks it, whose memories it reads, and whether the context begins anew."""

    user: str
    session: str
    question: str
    new_context: bool


TURN = st.builds(
    Turn, st.sampled_from(["nadia", "omar"]), st.sampled_from(["s1", "s2"]), st.sampled_from(QUESTIONS), st.booleans()
)


def refs(fused: Fused) -> list[str]:
    return [member.ref for excerpt in fused.memories for member in excerpt.members]


def own_recipe(home: Path) -> None:
    """A recipe that finds all notes, and repeats none within `TURNS` turns."""
    (home / "recipes").mkdir(parents=True, exist_ok=True)
    numbers = f"[pack]\nrepeat_after_turns = {TURNS}\n[rerank.signals]\nbm25 = 1\n"
    (home / "recipes" / "once.toml").write_text(numbers)


async def ask(gateway: Gateway, question: str = ASKED, asker: Asker | None = ASKER, scope: Scope = NADIA) -> Fused:
    return await gateway.fuse(FuseRequest(question, scope, asker=asker, **HOOK))  # type: ignore[arg-type]


@pytest.mark.feature("a session is not shown again what it was shown in its last turns")
async def test_session_is_shown_a_memory_once(home: Path) -> None:
    """The receipt says so, and why the block is empty; who asks without a session is answered as ever."""
    async with Gateway.open(embedded(home)) as gateway:
        [ref] = await remember(gateway, DECIDED)
        first, second, plain = await ask(gateway), await ask(gateway), await ask(gateway, asker=None)
        assert ref in refs(first)
        assert (second.block, second.abstained) == ("", "this session has all of it already")
        assert refs(plain) == refs(first)
        receipt = await gateway.receipt(second.receipt_id)
        [row] = [row for row in receipt["candidates"] if row["ref"] == ref]
        assert (row["decision"], row["reason"]) == ("shown_before", "said or shown in this session")
        whose = {"agent_id": "coder", "session_id": "s1", "channel": "telegram"}
        assert receipt["asker"] == {**whose, "keeps_blocks": True}
        assert "asker" not in await gateway.receipt(plain.receipt_id)


@pytest.mark.feature("a session is not told its own turns, which its context has until that begins anew")
async def test_session_is_not_told_its_own_turns(home: Path) -> None:
    """Another session is told them, but not a turn that only asks its question."""
    said = [("nadia", f"{ASKED.upper().rstrip('?')}!"), ("assistant", DECIDED)]
    async with Gateway.open(embedded(home)) as gateway:
        turns = [
            NewMemory(
                text,
                kind="turn",
                speaker=who,
                scope=replace(NADIA, session_id=ASKER.session_id),
                place=Place("talk", number, number, "turn"),
                source="talk",
            )
            for number, (who, text) in enumerate(said)
        ]
        await gateway.remember(turns)
        await gateway.settle()
        other = await ask(gateway, asker=replace(ASKER, session_id="s2"))
        assert (DECIDED in other.block, said[0][1] in other.block) == (True, False)
        assert (await ask(gateway)).abstained == "this session has all of it already"
        anew = await ask(gateway, asker=replace(ASKER, new_context=True))
        assert DECIDED in anew.block


@pytest.mark.feature(
    "… a session that has each block for one turn alone is shown it again, and none of its own turns",
    of="a session is not shown again what it was shown",
)
async def test_session_without_its_blocks_is_shown_them_again_and_no_own_turns(home: Path) -> None:
    """A framework puts the block into the instructions of one model call; the turns are in its messages."""
    own = NewMemory("The bookings database moves on Friday", scope=replace(NADIA, session_id="s1"), kind="turn")
    async with Gateway.open(embedded(home)) as gateway:
        [ref] = await remember(gateway, DECIDED)
        [said] = await gateway.remember([own])
        await gateway.settle()
        asker = replace(ASKER, keeps_blocks=False)
        for _ in range(2):
            assert refs(await ask(gateway, asker=asker)) == [ref]
        assert said.ref in refs(await ask(gateway, asker=replace(asker, session_id="s2")))


@pytest.mark.feature("… by the first question of a session that names itself", of="Markdown: a change is read 1.5")
async def test_sessions_first_question_finds_what_changed(home: Path, tmp_path: Path) -> None:
    """The later ones of that session wait for no scan, until its context begins anew; an anonymous one never does."""
    notes = tmp_path / "notes"
    notes.mkdir()
    never = {"watch": False, "scan_interval_s": 10**6, "interval_s": 0}
    files = {"paths": [str(notes)], "bind": {"user_id": "nadia"}, **never}
    config = load(home=home, embedder={"adapter": ""}, backends_only=True, backends={"markdown": MARKDOWN | files})
    async with Gateway.open(config) as gateway:
        for asker, named, found in (
            (None, "heron", False),
            (ASKER, "osprey", True),
            (ASKER, "kestrel", False),
            (replace(ASKER, session_id="s2"), "stork", True),
            (replace(ASKER, new_context=True), "finch", True),
        ):
            (notes / f"{named}.md").write_text(f"A {named} nests on the roof of the mill.\n")
            question = f"where does the {named} nest?"
            fused = await gateway.fuse(FuseRequest(question, NADIA, asker=asker, timeout_ms=60_000))
            assert (f"A {named} nests" in fused.block) == found


async def test_new_memory_is_shown_alone(home: Path) -> None:
    """What was remembered since the last turn."""
    async with Gateway.open(embedded(home)) as gateway:
        await remember(gateway, DECIDED)
        await ask(gateway)
        [ref] = await remember(gateway, "The bookings database moves to Postgres in May, decided Omar")
        assert refs(await ask(gateway)) == [ref]


async def test_other_sessions_and_users_are_shown_it_too(home: Path) -> None:
    """A session belongs to a user and an agent."""
    async with Gateway.open(embedded(home)) as gateway:
        await remember(gateway, DECIDED)
        await remember(gateway, DECIDED, scope=OMAR)
        await ask(gateway)
        for asker, scope in (
            (Asker("coder", "s2"), NADIA),
            (Asker(None, "s1"), NADIA),
            (ASKER, OMAR),
        ):
            assert DECIDED in (await ask(gateway, asker=asker, scope=scope)).block


async def test_session_is_shown_everything_again_in_a_new_context(home: Path) -> None:
    """After a compaction; from then on, again once."""
    async with Gateway.open(embedded(home)) as gateway:
        await remember(gateway, DECIDED)
        await ask(gateway)
        anew = await ask(gateway, asker=Asker("coder", "s1", new_context=True))
        assert DECIDED in anew.block
        assert (await ask(gateway)).block == ""


async def test_session_is_remembered_over_a_restart(home: Path) -> None:
    """It is stored when the home is closed."""
    async with Gateway.open(embedded(home)) as gateway:
        await remember(gateway, DECIDED)
        assert DECIDED in (await ask(gateway)).block
    async with Gateway.open(embedded(home)) as gateway:
        assert (await ask(gateway)).block == ""


async def test_explicit_question_is_answered_in_full(home: Path) -> None:
    """The recipe of plain questions repeats; what it shows is not injected afterwards. A measurement counts for
    nothing."""
    async with Gateway.open(embedded(home)) as gateway:
        await remember(gateway, DECIDED)
        request = FuseRequest(ASKED, NADIA, asker=ASKER, recipe="hook", timeout_ms=60_000)
        await gateway.record(request)
        await gateway.compare(request, "hook", "seed003")
        assert DECIDED in (await ask(gateway)).block
        for _ in range(2):
            assert DECIDED in (await gateway.fuse(FuseRequest(ASKED, NADIA, asker=ASKER, timeout_ms=60_000))).block
        assert (await ask(gateway)).block == ""


@pytest.mark.feature("over any sequence of turns, a session is shown no memory twice within the recipe's window")
@given(st.lists(TURN, min_size=2, max_size=12))
@settings(max_examples=12, deadline=None)
def test_nothing_is_shown_twice_within_the_window(turns: list[Turn]) -> None:
    """And nothing else is left out: each block is that of the same question without a session, less what the session
    was shown in its last turns. No other session or user has a say."""

    async def play(home: Path) -> None:
        own_recipe(home)
        async with Gateway.open(small(home)) as gateway:
            for user in ("nadia", "omar"):
                await remember(gateway, *NOTES, scope=Scope(user_id=user, audience="private"))
            shown: dict[tuple[str, str], list[set[str]]] = {}
            for turn in turns:
                scope = Scope(user_id=turn.user, audience="private")
                asker = Asker(session_id=turn.session, new_context=turn.new_context)
                request = FuseRequest(turn.question, scope, recipe="once", max_results=2, timeout_ms=60_000)
                whole = set(refs(await gateway.fuse(request)))
                got = set(refs(await gateway.fuse(request, asker=asker)))
                before = shown.setdefault((turn.user, turn.session), [])
                if turn.new_context:
                    before.clear()
                assert got == whole - set().union(*before[-TURNS:])
                before.append(got)

    with TemporaryDirectory() as folder:
        asyncio.run(play(Path(folder) / "home"))
