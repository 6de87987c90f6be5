"""Updating a memory, by the gateway with all backends of the default home: each answers with the current version."""

from __future__ import annotations

import asyncio
from collections.abc import AsyncIterator
from datetime import UTC, datetime, timedelta
from pathlib import Path
from typing import Any

import pytest

from adapters.cortex.cli import Recall
from fusion.contract import Moment, Place, Scope, State, StateChange
from fusion.doors.http.streaming import no_lines
from fusion.errors import AlreadyReplaced, BadInput, KeyReused, NotFound
from fusion.gateway.decisions import StateRequest
from fusion.gateway.gateway import Gateway
from fusion.ingest.intake import MAX_TEXT_CHARS, NewMemory, Replayed
from fusion.ingest.update import Change
from fusion.upkeep.job import no_progress
from tests.gateway.helpers import EMBEDDED, NADIA, OMAR, embedded, small
from tests.ingest.helpers import ME, store_external

OLD, NEW = "The staging database listens on port 5433.", "The staging database listens on port 6543."
ASKED = "which port does the staging database listen on?"


@pytest.fixture
async def gateway(tmp_path: Path) -> AsyncIterator[Gateway]:
    async with Gateway.open(small(tmp_path / "home")) as gateway:
        yield gateway


async def remember(gateway: Gateway, item: NewMemory) -> str:
    (kept,) = await gateway.remember([item])
    return kept.ref


async def said_by(gateway: Gateway) -> dict[str, set[str]]:
    """By backend, which of the two versions an answer of it alone has; and the recall of the cortex."""
    await gateway.settle()
    found = {}
    for name in EMBEDDED:
        fused = await gateway.fuse(ASKED, scope=NADIA, backends=(name,))
        found[name] = {text for text in (OLD, NEW) if text in fused.block}
    recalled = str(await gateway.do("cortex", Recall(ASKED), NADIA, no_lines, no_progress))
    return found | {"cortex recall": {text for text in (OLD, NEW) if text in recalled}}


@pytest.mark.feature("`fusion update` replaces a memory in every backend, and its undo makes the earlier one current")
async def test_update_and_its_undo_show_in_the_answers_of_every_backend(tmp_path: Path) -> None:
    async with Gateway.open(embedded(tmp_path / "home")) as gateway:
        ref = await remember(gateway, NewMemory(OLD, NADIA, kind="fact"))
        names = {*EMBEDDED, "cortex recall"}
        assert await said_by(gateway) == {name: {OLD} for name in names}
        (done,) = await gateway.update(ref, Change(NEW), NADIA)
        assert (done.status, done.supersedes, done.ref != ref) == ("superseded", ref, True)
        assert await said_by(gateway) == {name: {NEW} for name in names}
        undone = await gateway.undo(NADIA, f"update-{done.ref}")
        assert (undone.undone, undone.left, undone.restored) == (1, 0, (ref,))
        assert await said_by(gateway) == {name: {OLD} for name in names}
        assert (await gateway.memory(ref, NADIA))["current"]


async def test_replaced_version_stays_hidden_when_the_new_one_is_merged(tmp_path: Path) -> None:
    """The cortex stores no version that is merged as a successor; the journal decides."""
    async with Gateway.open(embedded(tmp_path / "home")) as gateway:
        ref = await remember(gateway, NewMemory(OLD, NADIA, kind="fact"))
        kept = await remember(gateway, NewMemory("Omar drinks tea.", NADIA, kind="fact"))
        (done,) = await gateway.update(ref, Change(NEW), NADIA)
        into = (await gateway.journal.find(kept, NADIA)).event.event_id
        await gateway.journal.decide({done.event_id: {"merged_into": into}}, "test", "it says the same")
        gateway.deliverer.wake()
        assert await said_by(gateway) == {name: set() for name in (*EMBEDDED, "cortex recall")}


async def test_update_keeps_what_it_does_not_name(gateway: Gateway) -> None:
    """Scope, kind, place, speaker, times, source and stated fields are those of the earlier version."""
    scope = Scope(user_id="nadia", agent_id="main", session_id="s1", project="hjul", audience="private")
    at, until = Moment(datetime(2026, 3, 14, tzinfo=UTC), "day"), datetime(2030, 1, 1, tzinfo=UTC)
    given = {"kind": "decision", "speaker": "Nadia", "at": at, "valid_to": until, "source": "chat:1"}
    item = NewMemory(OLD, scope, place=Place("standup", 3, 3), stated=(("tag", "infra"),), **given)  # type: ignore[arg-type]
    ref = await remember(gateway, item)
    (done,) = await gateway.update(ref, Change(NEW, kind="fact", origin="agent"), NADIA)
    new = (await gateway.journal.find(done.ref, scope)).event
    assert (new.text, new.kind, new.origin) == (NEW, "fact", "agent")
    assert (new.scope, new.at, new.place, new.valid_to) == (scope, at, item.place, until)
    assert (new.speaker, new.source) == ("Nadia", "chat:1")
    (again,) = await gateway.update(done.ref, Change(valid_to=datetime(2026, 12, 1, tzinfo=UTC)), NADIA)
    newest = (await gateway.journal.find(again.ref, scope)).event
    assert (newest.text, newest.kind, newest.valid_to) == (NEW, "fact", datetime(2026, 12, 1, tzinfo=UTC))


SETTINGS: dict[str, Any] = {
    "trust": "trusted",
    "lifetime": "ttl",
    "confidence": 0.9,
    "importance": 0.8,
    "project": "hjul",
    "tags": ("infra",),
}


@pytest.mark.feature("an update keeps what was set by hand: trust, importance, confidence, lifetime, project, tags")
async def test_update_keeps_what_was_set_by_hand(gateway: Gateway) -> None:
    """Also over a second update; its undo has the earlier version as it was; a setting can be undone alone."""
    ref = await remember(gateway, NewMemory(OLD, NADIA))
    await gateway.set_state(StateRequest(ref, NADIA, **SETTINGS))
    for text in (NEW, "It listens on port 7000."):
        (done,) = await gateway.update(ref, Change(text), NADIA)
        (before, ref) = (ref, done.ref)
        new = (await gateway.journal.find(ref, NADIA)).state
        assert {name: getattr(new, name) for name in SETTINGS} == SETTINGS
        (entry,) = (await gateway.decisions(NADIA, ref=ref))["decisions"]
        assert (entry["who"], entry["why"]) == ("owner", f"as set on {before}")
    await gateway.undo(NADIA, f"update-{ref}")
    old = (await gateway.journal.find(before, NADIA)).state
    assert {name: getattr(old, name) for name in SETTINGS} == SETTINGS
    (entry,) = (await gateway.decisions(NADIA, ref=before))["decisions"]
    await gateway.undo_decision(entry["id"], NADIA)
    assert (await gateway.journal.find(before, NADIA)).state == State()


@pytest.mark.feature("an update of an archived or quarantined memory does not bring it back into the answers")
@pytest.mark.parametrize("hidden", [{"archived": True}, {"trust": "quarantined"}])
async def test_update_of_a_hidden_memory_stays_hidden(gateway: Gateway, hidden: dict[str, Any]) -> None:
    ref = await remember(gateway, NewMemory(OLD, NADIA))
    await gateway.set_state(StateRequest(ref, NADIA, **hidden))
    (done,) = await gateway.update(ref, Change(NEW, origin="agent"), NADIA)
    await gateway.settle()
    assert (await gateway.fuse(ASKED, scope=NADIA)).block == ""
    shown = {"archived": False} if "archived" in hidden else {"trust": "trusted"}
    await gateway.set_state(StateRequest(done.ref, NADIA, **shown))  # type: ignore[arg-type]
    assert NEW in (await gateway.fuse(ASKED, scope=NADIA)).block


async def test_update_leaves_what_was_decided_about_the_earlier_text(gateway: Gateway) -> None:
    """A merge, an expiry, and what was set by hand and undone."""
    ref, other = [
        await remember(gateway, NewMemory(text, NADIA)) for text in (OLD, "The staging database is Postgres.")
    ]
    ids = [(await gateway.journal.find(one, NADIA)).event.event_id for one in (ref, other)]
    made = (await gateway.set_state(StateRequest(ref, NADIA, importance=0.9)))["decision"]
    assert made is not None
    await gateway.undo_decision(made["id"], NADIA)
    decided: StateChange = {"merged_into": ids[1], "ended_at": datetime.now(UTC), "ended": "expired", "confidence": 0.9}
    await gateway.journal.decide({ids[0]: decided}, "lifecycle", "as the test has it")
    (done,) = await gateway.update(ref, Change(NEW), NADIA)
    assert (await gateway.journal.find(done.ref, NADIA)).state == State()


async def test_only_one_of_two_updates_at_once_replaces_a_memory(gateway: Gateway) -> None:
    """The other is refused, and says which version to read and update instead."""
    ref = await remember(gateway, NewMemory(OLD, NADIA))
    both = (gateway.update(ref, Change(text), NADIA) for text in (NEW, "It listens on no port."))
    outcomes = await asyncio.gather(*both, return_exceptions=True)
    (done,) = (one[0] for one in outcomes if isinstance(one, list))
    (refused,) = (one for one in outcomes if isinstance(one, AlreadyReplaced))
    assert refused.details == {"current": done.ref}
    (last,) = await gateway.update(done.ref, Change("It listens on port 1."), NADIA)
    with pytest.raises(AlreadyReplaced, match=f"{ref} was replaced by {last.ref} since"):
        await gateway.update(ref, Change("It listens on port 2."), NADIA)


async def test_undo_of_an_update_that_was_updated_since_takes_nothing_back(gateway: Gateway) -> None:
    """The newest version is undone first; then each one before it can be."""
    ref = await remember(gateway, NewMemory(OLD, NADIA))
    (second,) = await gateway.update(ref, Change(NEW), NADIA)
    (third,) = await gateway.update(second.ref, Change("It listens on port 7000."), NADIA)
    with pytest.raises(NotFound):
        await gateway.undo(NADIA, f"update-{second.ref}")
    assert (await gateway.undo(NADIA, f"update-{third.ref}")).restored == (second.ref,)
    assert (await gateway.undo(NADIA, f"update-{second.ref}")).restored == (ref,)


async def test_forgetting_an_updated_memory_forgets_its_earlier_versions(gateway: Gateway) -> None:
    """They say nearly the same; an undo is what makes the earlier one current."""
    ref = await remember(gateway, NewMemory(OLD, NADIA))
    (done,) = await gateway.update(ref, Change(NEW), NADIA)
    assert ref in (await gateway.forget(done.ref, NADIA)).also
    for gone in (ref, done.ref):
        with pytest.raises(NotFound):
            await gateway.update(gone, Change("It listens."), NADIA)


async def test_update_of_what_a_scope_may_not_see_is_not_found(gateway: Gateway) -> None:
    ref = await remember(gateway, NewMemory(OLD, NADIA))
    for scope in (OMAR, Scope(user_id="nadia")):  # the second is read by a group, and the memory is private
        with pytest.raises(NotFound, match="there is no memory"):
            await gateway.update(ref, Change(NEW), scope)


async def test_update_that_changes_nothing_is_a_duplicate(gateway: Gateway) -> None:
    ref = await remember(gateway, NewMemory(OLD, NADIA, kind="fact"))
    (done,) = await gateway.update(ref, Change(OLD, kind="fact"), NADIA)
    assert (done.ref, done.status, done.supersedes) == (ref, "duplicate", None)


@pytest.mark.parametrize(
    ("source", "file", "said"),
    [
        ("file:/n/db.md", None, "is read from /n/db.md, lines 3 to 4: edit it there"),
        ("chat:1", "/n/talk.jsonl", r"is read from /n/talk.jsonl \(standup, position 3\): change that line there"),
        ("claude-code:s1", None, "is a turn of the session claude-code:s1.*fusion remember … --supersedes"),
    ],
)
@pytest.mark.feature("an update of a memory that was read from a file is refused, with the file and its lines")
async def test_update_of_a_memory_of_a_file_names_the_file(
    gateway: Gateway, source: str, file: str | None, said: str
) -> None:
    unit = "line" if source.startswith("file:") else "turn"
    place = Place("standup", 3, 4, unit) if unit == "line" else Place("standup", 3, 3)
    ref = await remember(gateway, NewMemory(OLD, NADIA, place=place, source=source, file=file))
    with pytest.raises(BadInput, match=said):
        await gateway.update(ref, Change(NEW), NADIA)


async def test_update_stays_when_its_source_sends_the_earlier_text_again(gateway: Gateway) -> None:
    """A nightly import must not undo it; a text that is new there replaces it."""
    turn = NewMemory(OLD, NADIA, kind="turn", place=Place("standup", 3, 3), source="chat:1")
    ref = await remember(gateway, turn)
    (done,) = await gateway.update(ref, Change(NEW), NADIA)
    (again,) = await gateway.remember([turn])
    assert again.status == "duplicate"
    assert (await gateway.memory(done.ref, NADIA))["current"]
    edited = NewMemory("It listens on port 8000.", NADIA, kind="turn", place=turn.place, source="chat:1")
    (newer,) = await gateway.remember([edited])
    assert (newer.status, newer.supersedes) == ("superseded", done.ref)


async def test_update_masks_secrets_and_refuses_what_remember_refuses(gateway: Gateway) -> None:
    ref = await remember(gateway, NewMemory(OLD, NADIA))
    with pytest.raises(BadInput, match="at most 100000 are one memory"):
        await gateway.update(ref, Change("x" * (MAX_TEXT_CHARS + 1)), NADIA)
    (empty,) = await gateway.update(ref, Change("HEARTBEAT_OK"), NADIA)
    assert (empty.status, empty.ref) == ("skipped", "")
    now = datetime.now(UTC)
    with pytest.raises(BadInput, match="valid_to is not after valid_from"):
        await gateway.update(ref, Change(NEW, valid_from=now, valid_to=now - timedelta(days=1)), NADIA)
    (masked,) = await gateway.update(ref, Change("The token is ghp_" + "a1B2" * 9), NADIA)
    assert masked.redacted == 1
    assert "ghp_" + "a1B2" * 9 not in (await gateway.memory(masked.ref, NADIA))["text"]


async def test_update_in_words_that_were_forgotten_brings_them_back(gateway: Gateway) -> None:
    """It is as explicit as to remember them."""
    await gateway.forget(await remember(gateway, NewMemory(NEW, NADIA)), NADIA)
    place = {"place": Place("standup", 3, 3), "source": "chat:1"}
    ref = await remember(gateway, NewMemory(OLD, NADIA, kind="turn", **place))  # type: ignore[arg-type]
    (done,) = await gateway.update(ref, Change(NEW), NADIA)
    assert done.status == "superseded"
    await gateway.settle()
    assert NEW in (await gateway.fuse(ASKED, scope=NADIA)).block


async def test_repeated_update_with_its_idempotency_key_gets_the_first_reply(gateway: Gateway) -> None:
    ref = await remember(gateway, NewMemory(OLD, NADIA))
    (done,) = await gateway.update(ref, Change(NEW), NADIA, idempotency_key="k1")
    replayed = await gateway.update(ref, Change(NEW), NADIA, idempotency_key="k1")
    assert isinstance(replayed, Replayed)
    assert replayed == [done]
    with pytest.raises(KeyReused):
        await gateway.update(ref, Change("It listens."), NADIA, idempotency_key="k1")


async def test_update_of_a_memory_of_a_backend_alone_says_what_to_do(gateway: Gateway) -> None:
    """Only its backend could change it; one that was never shown here is not found."""
    ref = await store_external(gateway.journal)
    with pytest.raises(BadInput, match=f"only store has.*Remember what holds now, and forget {ref}"):
        await gateway.update(ref, Change(NEW), ME)
    with pytest.raises(NotFound):
        await gateway.update("x" + "a" * 10, Change(NEW), ME)
