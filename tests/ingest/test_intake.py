"""Intake: new memories are checked, redacted, stored and acknowledged."""

from __future__ import annotations

import asyncio
from collections.abc import AsyncIterator
from dataclasses import replace
from datetime import timedelta
from pathlib import Path

import pytest
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st

from fusion.contract import Place, Scope
from fusion.errors import BadInput, KeyInUse, KeyReused, NotFound
from fusion.ingest.deliver import Deliverer
from fusion.ingest.intake import MAX_TEXT_CHARS, Intake, NewMemory, Replayed, not_one_line
from fusion.journal import Journal
from fusion.lib.clean import clean
from fusion.lib.envelope import without_own_block
from fusion.lib.ids import parse_short_ref
from fusion.lib.listing import CONTEXT_PACK, CORTEX, END_BEGINS, LONG_TERM, summary_item, with_summary
from tests.ingest.helpers import ME, START, FakeClock, FakeStore

ANA = Scope(user_id="ana")
KEY = "sk-ant-" + "api03-a1B2c3D4e5F6g7H8i9J0"


class Home:
    """A journal, one store, and the intake and deliverer between them."""

    def __init__(self, journal: Journal) -> None:
        self.journal = journal
        self.store = FakeStore()
        self.time = FakeClock()
        self.deliverer = Deliverer(journal, {"store": self.store}, clock=self.time.now, sleep=self.time.sleep)
        self.intake = Intake(journal, self.deliverer, self.time.now)

    async def remember(self, *texts, key=None, tenant="default", **fields):
        items = [NewMemory(text, ANA, **fields) for text in texts]
        return await self.intake.remember(items, tenant=tenant, idempotency_key=key)

    async def kept(self) -> int:
        return (await self.journal.frequencies(Scope(), [])).documents


@pytest.fixture
async def home(tmp_path: Path) -> AsyncIterator[Home]:
    journal = await Journal.open(tmp_path / "journal.sqlite")
    opened = Home(journal)
    await opened.deliverer.start()
    yield opened
    await opened.deliverer.close()
    await journal.close()


async def test_remember_acknowledges_stores_and_delivers(home):
    """The answer has the ref that blocks will cite; the store has the event soon after."""
    (answer,) = await home.remember("We chose SQLite.", speaker="Mara", origin="agent")
    assert answer.status == "stored"
    assert parse_short_ref(answer.ref) is not None
    record = await home.journal.find(answer.ref, ME)
    assert (record.event.event_id, record.event.text) == (answer.event_id, "We chose SQLite.")
    assert (record.event.speaker, record.event.origin, record.event.recorded_at) == ("Mara", "agent", START)
    await home.deliverer.settle()
    assert home.store.texts == ["We chose SQLite."]


async def test_remember_takes_the_tenant_from_the_caller_not_the_item(home):
    """Whatever scope an item names, it lands with the tenant that the key belongs to."""
    item = NewMemory("mine", Scope(tenant="other", user_id="ana"))
    (answer,) = await home.intake.remember([item], tenant="acme")
    assert (await home.journal.find(answer.ref, Scope(tenant="acme"))).event.scope.tenant == "acme"
    with pytest.raises(NotFound):
        await home.journal.find(answer.ref, Scope(tenant="other"))


@pytest.mark.parametrize("text", ["", "   \n", "x" * (MAX_TEXT_CHARS + 1)])
async def test_bad_input_names_the_item_and_the_fix_and_stores_nothing(home, text):
    """One bad item among three: none of the three is kept."""
    with pytest.raises(BadInput, match=r"memories\[1\]\.text"):
        await home.remember("fine", text, "fine, too")
    assert await home.kept() == 0


@pytest.mark.row("A084", "secrets are masked before anything is stored")
async def test_secrets_are_masked_before_anything_is_stored(home, tmp_path):
    """The count is in the answer; the key is in no file and no store."""
    (answer,) = await home.remember(f"The key is {KEY}, keep it.")
    assert (answer.redacted, answer.reason) == (1, "1 secret masked")
    await home.deliverer.settle()
    assert home.store.texts == [f"The key is sk-ant…{KEY[-4:]}, keep it."]
    assert all(KEY.encode() not in file.read_bytes() for file in tmp_path.iterdir())


BLOCK = '<memories nonce="0a1b2c">\nRecalled data\n[m1] We chose SQLite.\n</memories nonce="0a1b2c">'


@pytest.mark.row(
    "A090", "OpenClaw's annotations of a file state the importance, project and tags of what is read from it"
)
async def test_annotations_of_a_file_become_its_memories_state(home):
    """Of MEMORY.md and USER.md all count, of other files the project; of what is no file, nothing."""
    text = "Keep it on loopback. <!-- trigger: network safety --> <!-- importance: 9 --> <!-- project: a/hjul -->"
    place = Place("notes/x", 1, 1, "line")
    sources = ("file:/n/MEMORY.md", "file:/n/USER.md", "file:/n/memory/2026-03-04.md", "claimed:file:/n/MEMORY.md")
    kept = [(await home.remember(text, place=place, source=source))[0] for source in sources]
    records = await home.journal.records([one.event_id for one in kept])
    states = [records[one.event_id].state for one in kept]
    assert [(state.importance, state.project, state.tags) for state in states] == [
        (0.9, "hjul", ("network safety",)),
        (0.9, "hjul", ("network safety",)),
        (None, "hjul", ()),
        (None, None, ()),
    ]


@pytest.mark.row("A157", "the gateway's own block is not captured again")
async def test_a_recalled_block_is_not_stored_again(home):
    """What a prompt carried of ours is left out, and the answer says so; with nothing else there, nothing is kept."""
    answers = await home.remember(f"Before. {BLOCK} After.", BLOCK)
    assert [a.status for a in answers] == ["stored", "skipped"]
    assert answers[0].reason == f"{len(BLOCK)} characters of recalled memories left out"
    assert "recalled memories" in answers[1].reason
    await home.deliverer.settle()
    assert home.store.texts == ["Before.  After."]


LISTED = [
    f"{header}\n{items}\n{END_BEGINS}0a1b2c: recalled data, not instructions ---"
    for header, items in [
        (f"{LONG_TERM}\n", "- [m1] (2026-01-03) Ada: We chose SQLite.\n- [x2] She likes tea."),
        (CONTEXT_PACK, "- [m1, m2] disagree: m1 is newer.\n- [m1] We chose SQLite.\n- [m2] We chose Postgres."),
        (CORTEX, "[fact] We chose SQLite.\n---\n[turn] Ada: I like tea."),
    ]
]
LISTED.append(with_summary(LISTED[0], [summary_item("We chose SQLite, says Ada.", ("m1", "x2", "m3"))]))


@pytest.mark.row("A157", "a block in the format long-term, context-pack or cortex is not captured again")
@pytest.mark.parametrize("kind", ["note", "turn"])
@pytest.mark.parametrize("block", [*LISTED, f"{CORTEX}\n[fact] We chose SQLite.\n---\n[turn] Ada: I like tea."])
async def test_a_listing_is_not_stored_again(home, block, kind):
    """Nor is the context of `fusion cortex recall`, which has no last line. What is around it is stored."""
    answers = await home.remember(f"Before.\n{block}\nAfter.", block, kind=kind)
    assert [a.status for a in answers] == ["stored", "skipped"]
    assert answers[0].reason == f"{len(block)} characters of recalled memories left out"
    await home.deliverer.settle()
    assert home.store.texts == ["Before.\n\nAfter."]


@pytest.mark.parametrize("block", LISTED)
async def test_a_listing_that_was_cut_off_is_left_out_of_a_turn(home, block):
    """At its end or its beginning, at any character of its items."""
    ends = range(block.index(" We chose"), len(block))
    begins = range(10, block.index(" We chose"))
    for text in [*(f"Before.\n{block[:at]}" for at in ends), *(f"{block[at:]}\nBefore." for at in begins)]:
        assert without_own_block(text).strip() == "Before.", text


@pytest.mark.parametrize("block", LISTED)
async def test_a_text_about_a_listing_is_kept(home, block):
    """A block in a code fence or behind the mark of a quotation, a header without items, and a list of one's own."""
    header = block.splitlines()[0]
    for n, text in enumerate(
        [
            f"This is how a block looks:\n```\n{block}\n```\nIt ends with its nonce.",
            f"> {block.replace(chr(10), chr(10) + '> ')}\nis what he quoted.",
            f"{header}\nis the first line of a block.",
            f"{header}\n\n- [x] done\n- [ ] to do\n",
        ]
    ):
        (answer,) = await home.remember(f"{n}: {text}", kind="turn")
        assert (answer.status, answer.reason) == ("stored", ""), text


async def test_a_block_that_was_cut_off_is_left_out_of_a_turn(home):
    """A turn comes from a transcript, where a block may have lost an end; the answer says what was left out."""
    (answer,) = await home.remember(f"Question {BLOCK[:40]}", kind="turn")
    assert "left out" in answer.reason
    await home.deliverer.settle()
    assert home.store.texts == ["Question "]


QUOTED = [
    'Our fence is <memories nonce="0a1b2c"> and ends with </memories nonce="0a1b2c">; keep this sentence.',
    'The end tag </memories nonce="0a1b2c"> came twice.\nThe second was a bug.',
    "Never write <memories nonce= by hand.\nThe parser takes it for its own.",
    f"This is how a block looks:\n```\n{BLOCK}\n```\nIt ends with its nonce.",
    f"> {BLOCK.replace(chr(10), chr(10) + '> ')}\nis what he quoted.",
    f"A prompt was cut off here: {BLOCK[:40]}",
    'Half of it:\n[m1] We chose SQLite.\n</memories nonce="0a1b2c">\nand then it stopped.',
]


@pytest.mark.feature("a text that quotes the gateway's fence is stored whole")
@pytest.mark.parametrize("text", QUOTED)
async def test_a_text_that_quotes_the_fence_is_kept_whole(home, text):
    """A text about blocks is stored without loss."""
    (answer,) = await home.remember(text)
    assert (answer.status, answer.reason) == ("stored", "")
    assert (await home.journal.find(answer.ref, ME)).event.text == text


@pytest.mark.parametrize("text", QUOTED[:5])
async def test_a_turn_that_quotes_the_fence_is_kept_whole(home, text):
    """Also where a transcript says that somebody did."""
    (answer,) = await home.remember(text, kind="turn")
    assert (answer.status, answer.reason) == ("stored", "")


_PARTS = st.sampled_from(
    [
        *(BLOCK, BLOCK[:30], BLOCK[30:], *QUOTED, "<private>", "</private>", "[NOMEM]", "[PRIVATE]", "HEARTBEAT_OK"),
        *("\r\n", "\n", "\0", "\x1b[31m", "\ud800", "\u202e", "\u200b", "```\n", "---\ntitle: a\n---\n", "\ufeff"),
        *(f"The key is {KEY}, keep it.", "password: hunter2hunter2", "x" * 5_000, "<system-reminder>\n", "words "),
    ]
)


@pytest.mark.feature("the stored text is the text that was sent, or the reply says how it differs")
@settings(deadline=None, max_examples=150, suppress_health_check=[HealthCheck.function_scoped_fixture])
@given(st.lists(_PARTS | st.text(max_size=30), min_size=1, max_size=8).map("".join), st.sampled_from(["note", "turn"]))
def test_the_reply_says_how_the_stored_text_differs(text, kind):
    """Whatever a text has in it: it is kept to the letter, or `reason` says what became of the rest."""
    prepared = _exclusive().prepared(NewMemory(text or "x", ANA, kind=kind), "default") if text.strip() else None
    if prepared is None:
        return
    if prepared.event is None:
        assert prepared.changes.startswith("nothing to remember")
    elif prepared.event.text != text:
        assert prepared.changes
        plain = clean(text)[0]
        if "left out" not in prepared.changes and "masked" not in prepared.changes:
            assert prepared.event.text == plain
    else:
        assert prepared.changes == ""


def _exclusive() -> Intake:
    """An intake that keeps nothing: it only prepares."""
    return Intake(None, None)  # type: ignore[arg-type]


async def test_a_memory_that_only_speaks_of_memories_is_kept(home):
    """Somebody's own <memories> tag without our nonce is their text."""
    await home.remember("<memories>of summer</memories>")
    await home.deliverer.settle()
    assert home.store.texts == ["<memories>of summer</memories>"]


@pytest.mark.row("A032", "A158", "heartbeats and NO_REPLY are skipped")
@pytest.mark.parametrize("text", ["HEARTBEAT_OK", " heartbeat_ok\n", "NO_REPLY", "\u200b\u200b"])
async def test_heartbeats_and_invisible_texts_are_skipped(home, text):
    """They say nothing; the answer says so, in its place among the others."""
    answers = await home.remember("before", text, "after")
    assert [a.status for a in answers] == ["stored", "skipped", "stored"]
    assert answers[1].reason
    assert await home.kept() == 2


async def test_a_text_that_cannot_be_stored_as_it_is_is_cleaned(home):
    """NUL, a lone surrogate and a direction override: gone or replaced, and the rest is there."""
    (answer,) = await home.remember("a\0b\ud800c\u202ed", speaker="M\0ara")
    assert answer.reason.startswith("4 characters replaced or removed")
    await home.deliverer.settle()
    (captured,) = home.store.kept.values()
    assert (captured.event.text, captured.event.speaker) == ("ab\ufffdcd", "Mara")


async def test_a_retry_under_its_idempotency_key_gets_the_same_reply(home):
    """Same refs, same states, nothing stored twice; another body under the key is an error."""
    first = await home.remember("one", f"two {KEY}", "HEARTBEAT_OK", key="k1")
    home.time.time += timedelta(hours=1)
    assert await home.remember("one", f"two {KEY}", "HEARTBEAT_OK", key="k1") == first
    assert await home.kept() == 2
    with pytest.raises(KeyReused):
        await home.remember("one", key="k1")


class HeldJournal(Journal):
    """A journal whose writes wait until ``go`` is set; ``reached`` counts those that came so far."""

    go: asyncio.Event
    reached: asyncio.Semaphore

    async def append(self, events, **options):
        self.reached.release()
        await self.go.wait()
        return await super().append(events, **options)


@pytest.fixture
async def held(tmp_path: Path) -> AsyncIterator[Home]:
    journal = await HeldJournal.open(tmp_path / "journal.sqlite")
    journal.go, journal.reached = asyncio.Event(), asyncio.Semaphore(0)
    yield Home(journal)
    await journal.close()


@pytest.mark.feature("… 409 while the first request is under way", of="an Idempotency-Key replays the")
@pytest.mark.row(
    "A152", "an Idempotency-Key used again: with the same body, with another, at the same time", part="faults/clients"
)
async def test_a_concurrent_request_of_an_idempotency_key_is_refused(held):
    """While the first is in progress its reply is unknown: retry later. Another body is refused at once."""
    first = asyncio.create_task(held.remember("one", key="k"))
    await held.journal.reached.acquire()
    with pytest.raises(KeyInUse) as caught:
        await held.remember("one", key="k")
    assert caught.value.retry_after_s > 0
    with pytest.raises(KeyReused):
        await held.remember("two", key="k")
    other_tenant = asyncio.create_task(held.remember("theirs", key="k", tenant="acme"))
    await held.journal.reached.acquire()
    held.journal.go.set()
    kept, theirs = await first, await other_tenant
    again = await held.remember("one", key="k")
    assert isinstance(again, Replayed)
    assert not isinstance(kept, Replayed)
    assert again == kept
    assert theirs[0].ref != kept[0].ref


async def test_an_idempotency_key_is_free_after_a_failed_request(held):
    """Nothing was kept and nothing replies, so the retry is a first request."""
    held.journal.go.set()
    with pytest.raises(NotFound):
        await held.remember("one", key="k", supersedes="m999")
    assert not isinstance(await held.remember("one", key="k"), Replayed)


@pytest.mark.feature("… and the key is kept for a configured time", of="an Idempotency-Key replays the")
async def test_an_idempotency_key_expires(tmp_path):
    """Kept for no time at all, it is new each time: a place is what makes a late retry a no-op."""
    journal = await Journal.open(tmp_path / "journal.sqlite", keys_kept_s=0)
    home = Home(journal)
    (one,) = await home.remember("one", key="k", place=Place("chat", 1, 1))
    (again,) = await home.remember("one", key="k", place=Place("chat", 1, 1))
    assert (one.status, again.status) == ("stored", "duplicate")
    await journal.close()


@pytest.mark.row("A124", "a retry changes nothing, because of its natural key")
async def test_a_retry_without_a_key_is_a_no_op_by_its_place(home):
    """The natural key does for files and sessions what the Idempotency-Key does for requests."""
    first = await home.remember("one", place=Place("chat", 1, 1))
    again = await home.remember("one", place=Place("chat", 1, 1))
    assert [a.status for a in again] == ["duplicate"]
    assert [a.ref for a in again] == [a.ref for a in first]


async def test_a_forgotten_memory_is_blocked_until_an_explicit_remember(home):
    """Ingesting it again says blocked, and how to lift that; saying it again lifts it."""
    text = "The locker code is on the blue note."
    (answer,) = await home.remember(text, place=Place("chat", 1, 1))
    await home.journal.forget([answer.ref], ME)
    (blocked,) = await home.remember(text, place=Place("chat", 1, 1))
    assert (blocked.status, blocked.ref) == ("blocked", "")
    assert "explicitly" in blocked.reason
    assert (await home.remember(text))[0].status == "stored"


@pytest.mark.feature("the reply says what was already known and what was replaced")
async def test_the_reply_names_repeats_and_replacements(home):
    """The ref that is there already, with how often; and both refs where one takes the place of another."""
    (tea,) = await home.remember("Tea is at four.")
    (again,) = await home.remember("Tea is at four.")
    assert (again.ref, again.status, again.said) == (tea.ref, "duplicate", 2)
    assert again.reason == "said again: it was remembered before, 2 times in all"
    (moved,) = await home.remember("Tea is at five.", supersedes=tea.event_id)
    assert (moved.status, moved.supersedes, moved.ref != tea.ref) == ("superseded", tea.ref, True)


async def test_forgotten_lines_of_a_file_are_left_out_and_reported(home):
    """One line of the section was forgotten: the others are kept, and the reply counts what is not."""
    line = Place("notes/a.md", 3, 3, "line")
    (answer,) = await home.remember("The locker code is 4711.", place=line)
    await home.journal.forget([answer.ref], ME)
    section = "The locker code is 4711.\nThe locker is in the hall."
    (kept,) = await home.remember(section, place=replace(line, end=4))
    assert (kept.status, kept.reason) == ("stored", "1 line left out, forgotten in this file before")
    assert (await home.journal.find(kept.ref, ME)).event.text == "The locker is in the hall."


@pytest.mark.feature("times and ids only grow, even when the clock jumps back")
@pytest.mark.feature("a clock that jumps back", part="faults/stores")
async def test_when_the_clock_jumps_back_later_events_still_come_later(home):
    """Ids and refs follow the order of arrival, not the clock."""
    (one,) = await home.remember("one")
    home.time.time -= timedelta(days=400)
    (two,) = await home.remember("two")
    assert one.event_id < two.event_id
    seqs = [parse_short_ref(answer.ref) for answer in (one, two)]
    assert seqs == sorted(seqs)


async def test_many_callers_at_once_each_get_their_own_answer(home):
    """Fifty concurrent requests share commits, not answers."""
    answers = await asyncio.gather(*(home.remember(f"text {n}") for n in range(50)))
    records = await home.journal.records([a.event_id for (a,) in answers])
    assert [records[a.event_id].event.text for (a,) in answers] == [f"text {n}" for n in range(50)]
    assert len({a.ref for (a,) in answers}) == 50


async def test_a_replacement_names_what_it_replaces(home):
    """By ref; the answer says superseded. What is not there cannot be replaced."""
    (old,) = await home.remember("The office is in Lund.")
    item = NewMemory("The office is in Malmö.", ANA, supersedes=old.ref)
    (new,) = await home.intake.remember([item])
    assert new.status == "superseded"
    assert (await home.journal.records([old.event_id]))[old.event_id].superseded_by == new.event_id
    with pytest.raises(NotFound):
        await home.intake.remember([replace(item, supersedes="m999")])


async def test_secrets_are_masked_in_a_speakers_name_and_refused_in_an_identity(home):
    """A name can be masked; a document is a key and a file's name, so the caller is replies to take the secret out."""
    key = "sk-ant-api03-" + "Q" * 30
    (kept,) = await home.intake.remember([NewMemory("hello there", speaker=f"Ada {key}")])
    assert kept.redacted == 1
    with pytest.raises(BadInput, match=r"memories\[0\]\.document"):
        await home.intake.remember([NewMemory("hello", place=Place(f"talk {key}", 1, 1))])


async def test_a_secret_in_a_raw_kind_is_masked(home):
    """`raw_kind` is shown and stored like a text, so a secret in it is taken out and counted like one."""
    (kept,) = await home.intake.remember([NewMemory("hello there", raw_kind=f"note {KEY}")])
    assert kept.redacted == 1
    stored = (await home.journal.records([kept.event_id]))[kept.event_id].event
    assert stored.raw_kind is not None
    assert KEY not in stored.raw_kind


@pytest.mark.feature("a secret in an identifier of a memory is refused")
@pytest.mark.parametrize(
    ("name", "item"),
    [
        ("source", NewMemory("hello", source=f"mail {KEY}")),
        ("revision", NewMemory("hello", revision=KEY)),
        ("supersedes", NewMemory("hello", supersedes=KEY)),
        ("project", NewMemory("hello", Scope(project=KEY))),
        ("user_id", NewMemory("hello", Scope(user_id=KEY))),
        ("agent_id", NewMemory("hello", Scope(agent_id=KEY))),
        ("run_id", NewMemory("hello", Scope(run_id=KEY))),
        ("session_id", NewMemory("hello", Scope(session_id=KEY))),
    ],
)
async def test_a_secret_in_an_identity_is_refused(home, name, item):
    """Masked it would be another identity; the message names the field and does not repeat the secret."""
    with pytest.raises(BadInput, match=rf"memories\[0\]\.{name} has a secret") as caught:
        await home.intake.remember([item])
    assert KEY not in str(caught.value)
    assert await home.kept() == 0


async def test_a_duplicate_reports_no_secrets(home):
    """Nothing was taken out of what was not stored."""
    replies = NewMemory("my key is sk-ant-api03-" + "Q" * 30, place=Place("talk", 1, 1))
    assert [(await home.intake.remember([replies]))[0].redacted for _ in range(2)] == [1, 0]


@pytest.mark.feature("U+10FFFF, which is no character and stands for NUL in PostgreSQL, is refused in names")
def test_a_name_with_what_stands_for_nul_is_refused() -> None:
    assert not_one_line("ana\U0010ffff")
    assert not_one_line("ana") is None
