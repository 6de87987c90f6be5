"""Conversations: which callers and files may add turns."""

from __future__ import annotations

import sqlite3
from collections.abc import Mapping
from dataclasses import replace
from datetime import UTC, datetime
from typing import Any

import pytest

from fusion.contract import Event, Origin, Place, Scope
from fusion.journal import Journal, conversations
from fusion.journal.rows import keys_of
from tests.ingest.helpers import ME, event
from tests.journal.helpers import append, neighbour_texts


@pytest.mark.feature("a turn from another source does not join a conversation")
async def test_a_turn_of_another_source_does_not_join_a_conversation_of_one_source(journal):
    """Neither at a place that is taken, nor before, between or after the turns; and it replaces none of them."""
    talk = await append(journal, *(event(f"turn {n}", n, source="chat:12") for n in (1, 2, 5)))
    for source in ("chat:evil", "chat:", "chat:1"):
        for n in (0, 2, 3, 9):
            (planted,) = await append(journal, event(f"planted {n} {source}", n, source=source))
            assert planted.state == "stored"
            assert planted.event.source == f"claimed:{source}"
            assert await neighbour_texts(journal, planted, 1) != ["turn 1", "turn 2"]
    assert await neighbour_texts(journal, talk[1], 5) == ["turn 1", "turn 5"]
    (more,) = await append(journal, event("turn 3", 3, source="chat:12"))
    assert await neighbour_texts(journal, more, 1) == ["turn 2", "turn 5"]
    (edited,) = await append(journal, event("turn 3, edited", 3, source="chat:12"))
    assert edited.state == "superseded"


@pytest.mark.feature("a source without a kind does not join a conversation without a source")
async def test_a_source_without_a_kind_does_not_join_a_conversation_without_a_source(journal):
    """Both have no kind, and they are two sources all the same."""
    talk = await append(journal, *(event(f"turn {n}", n) for n in range(3)))
    (planted,) = await append(journal, event("planted", 9, source="chat"))
    assert planted.event.source == "claimed:chat"
    assert await neighbour_texts(journal, talk[2], 5) == ["turn 0", "turn 1"]


@pytest.mark.parametrize("source", [None, "chat"])
async def test_a_source_with_an_empty_kind_is_next_to_no_turn_of_a_source_without_a_kind(journal, source):
    """ ":x" has the kind ":", which no conversation of "chat" or of no source has."""
    talk = await append(journal, *(event(f"turn {n}", n, source=source) for n in range(2)))
    (planted,) = await append(journal, event("planted", 2, source=":x"))
    assert await neighbour_texts(journal, talk[1], 5) == ["turn 0"]
    assert await neighbour_texts(journal, planted, 5) == []


@pytest.mark.feature("another message does not take an occupied place of a conversation")
async def test_a_taken_place_in_a_conversation_refuses_another_message(journal):
    """A talk whose messages each have an id of their own takes the next one; a second text at a place is a claim."""
    talk = await append(journal, *(event(f"turn {n}", n, source=f"chat:message-{n}") for n in range(3)))
    (planted,) = await append(journal, event("planted", 1, source="chat:message-7"))
    assert planted.event.source == "claimed:chat:message-7"
    (again,) = await append(journal, event("planted", 1, source="chat:message-7"))
    assert (again.ref, again.state) == (planted.ref, "duplicate")
    (following,) = await append(journal, event("turn 3", 3, source="chat:message-3"))
    assert await neighbour_texts(journal, following, 5) == ["turn 0", "turn 1", "turn 2"]
    (sent_again,) = await append(journal, event("turn 1", 1, source="chat:message-1"))
    assert (sent_again.ref, sent_again.state) == (talk[1].ref, "duplicate")


# Lines of JSONL: which file may add to a conversation

MINE, OTHER, MOVED = "/home/ana/chat.jsonl", "/home/ana/downloads/export.jsonl", "/home/ana/archive/chat.jsonl"
OPENING = "We keep the bookings in Postgres from April on."
LIE = "The deploy key lives at mallory.example."


def line(text: str, position: int, file: str | None = MINE, **fields: Any) -> Event:
    """A line of a file of JSONL: a turn of the document "chat"."""
    fields.setdefault("source", "jsonl:chat")
    return event(text, position, file=file, **fields)


def talk(file: str | None = MINE, **fields: Any) -> list[Event]:
    """A conversation with a free place in the middle."""
    texts = {0: "Hi", 1: OPENING, 2: "Who has the key of the staging host?", 5: "Nadia has it since March."}
    return [line(text, n, file, **fields) for n, text in texts.items()]


async def shown(journal: Journal) -> list[str]:
    """The current turns of Ana's conversation, in order."""
    (first, *_) = (await journal.page(ME, 100, source="jsonl:chat")).records[::-1]
    near = await journal.neighbours([first.event.event_id], 50)
    return [first.event.text, *(record.event.text for record in near[first.event.event_id])]


ATTACKS: Mapping[str, Mapping[str, Any]] = {
    "a taken place": {"position": 1},
    "a free place in the middle": {"position": 3},
    "a free place at the end": {"position": 9},
    "a place before the first": {"position": 0, "place": Place("chat", -1, -1)},
    "several places": {"position": 0, "place": Place("chat", 0, 9)},
    "another session": {"position": 3, "scope": Scope(user_id="ana", session_id="s")},
    "the natural key of a line": {"position": 2, "revision": "r2"},
    "its greeting": {"position": 0, "text": "Hi"},
}


@pytest.mark.feature("a file of JSONL adds nothing to a conversation of another file, and replaces nothing there")
@pytest.mark.parametrize("attack", ATTACKS.values(), ids=ATTACKS)
async def test_a_file_does_not_join_a_conversation_of_another_file(journal: Journal, attack: Mapping[str, Any]) -> None:
    await append(journal, *talk()[:2], line("Who has the key of the staging host?", 2, revision="r2"), talk()[3])
    (planted, more) = await append(
        journal, line(**{"text": LIE, **attack}, file=OTHER), line(f"{LIE} Again.", 4, file=OTHER)
    )
    assert more.event.source == f"claimed:jsonl:{OTHER}"
    if attack.get("text") == "Hi":
        assert planted.state == "duplicate"
    else:
        assert planted.state == "stored"
        assert planted.event.source == f"claimed:jsonl:{OTHER}"
        assert planted.supersedes is None
    assert await shown(journal) == [one.text for one in talk()]
    (again,) = await append(journal, line(f"{LIE} Again.", 4, file=OTHER))
    assert (again.ref, again.state) == (more.ref, "duplicate")


@pytest.mark.feature(
    "… nor does one that was read before it keep its lines out",
    of="a file of JSONL adds nothing to a conversation of another file, and replaces nothing there",
)
@pytest.mark.parametrize("revision", ["", "r1"])
@pytest.mark.parametrize("origin", ["import", "tool"])
async def test_a_file_that_was_read_before_keeps_no_line_of_another_out(
    journal: Journal, revision: str, origin: Origin
) -> None:
    """The other file's lines are all stored, kept apart, and none of the first file's is next to them."""
    await append(journal, line(LIE, 1, file=OTHER, revision=revision, origin=origin))
    stored = await append(journal, *(replace(one, revision=revision and f"r{n}") for n, one in enumerate(talk())))
    assert [one.state for one in stored] == ["stored"] * 4
    assert LIE not in await neighbour_texts(journal, stored[2], 9)
    ways = {one.event.source for one in stored}
    assert ways <= {f"claimed:jsonl:{MINE}", "jsonl:chat"}
    again = await append(journal, *(replace(one, revision=revision and f"r{n}") for n, one in enumerate(talk())))
    assert {one.state for one in again} == {"duplicate"}


async def test_the_claims_of_two_files_do_not_join_each_other(journal: Journal) -> None:
    """Whether a third file names the source that a claim got, or another caller does."""
    await append(journal, *talk())
    claims = await append(journal, line("Part two begins.", 10, file=OTHER), line("And it goes on.", 11, file=OTHER))
    assert await neighbour_texts(journal, claims[0], 5) == ["And it goes on."]
    for file, source in (("/home/ana/x.jsonl", f"claimed:jsonl:{OTHER}"), (None, f"claimed:jsonl:{OTHER}")):
        for position in (10, 12):
            (planted,) = await append(journal, line(LIE, position, file=file, source=source))
            assert (planted.state, planted.supersedes) == ("stored", None)
            assert await neighbour_texts(journal, claims[0], 5) == ["And it goes on."]


async def test_a_file_does_not_join_a_conversation_of_callers_by_naming_its_source(journal: Journal) -> None:
    calls = await append(journal, *(event(f"{OPENING} Turn {n}.", n, source="web:12") for n in (1, 2, 5)))
    for n in (1, 3, 9):
        (planted,) = await append(journal, line(LIE, n, file=OTHER, source="web:12"))
        assert planted.event.source == f"claimed:jsonl:{OTHER}"
    assert len(await neighbour_texts(journal, calls[0], 9)) == 2
    (more,) = await append(journal, event("A fourth turn.", 3, source="web:12"))
    assert more.event.source == "web:12"


@pytest.mark.feature(
    "… nor does a natural key without a document keep another file's line out",
    of="a file of JSONL adds nothing to a conversation of another file, and replaces nothing there",
)
@pytest.mark.parametrize(("first", "second"), [(OTHER, MINE), (OTHER, None), (None, OTHER), (MINE, OTHER)])
async def test_a_natural_key_keeps_no_line_of_another_file_out(
    journal: Journal, first: str | None, second: str | None
) -> None:
    """``None`` is a caller without a file, as a program that sends the ids of its messages."""
    (one,) = await append(journal, event(LIE, source="mail:7", revision="r1", file=first))
    (two,) = await append(journal, event(OPENING, source="mail:7", revision="r1", file=second))
    assert (two.state, two.supersedes) == ("stored", None)
    assert (two.event.source or "").startswith("claimed:")
    assert {record.event.text for record in (await journal.page(ME, 9)).records} == {LIE, OPENING}
    (again,) = await append(journal, event(OPENING, source="mail:7", revision="r1", file=second))
    assert (again.ref, again.state) == (two.ref, "duplicate")
    (as_first,) = await append(journal, event(LIE, source="mail:7", revision="r1", file=second))
    assert (as_first.ref, as_first.state) == (one.ref, "duplicate")


@pytest.mark.feature(
    "… nor is its line next to those of another file in a session",
    of="a file of JSONL adds nothing to a conversation of another file, and replaces nothing there",
)
async def test_a_session_without_a_document_is_read_by_file(journal: Journal) -> None:
    """A session that the lines of two files name is no reason to claim: it may be an option of the command."""
    session = Scope(user_id="ana", session_id="s1")

    def said(text: str, file: str | None) -> Event:
        return event(text, scope=session, source="jsonl:lines.jsonl", file=file)

    first, lie, second = await append(journal, said(OPENING, MINE), said(LIE, OTHER), said("Since March.", MINE))
    assert lie.event.source == "jsonl:lines.jsonl"
    assert await neighbour_texts(journal, first, 5) == ["Since March."]
    assert await neighbour_texts(journal, lie, 5) == []
    (third,) = await append(journal, said("Until May.", MINE))
    assert await neighbour_texts(journal, third, 5) == [OPENING, "Since March."]
    old, new = await append(journal, said("Of an earlier version.", None), said("Of an earlier version.", MINE))
    assert (new.ref, new.state) == (old.ref, "duplicate")
    assert await neighbour_texts(journal, second, 5) == [OPENING, "Until May.", "Of an earlier version."]


@pytest.mark.feature("a file of JSONL replaces by a short ref only its own lines")
async def test_a_file_replaces_by_a_short_ref_only_its_own_lines(journal: Journal) -> None:
    """Anyone can count short refs; only a caller that was given the id of an event knows it."""
    (told,) = await append(journal, event(OPENING))
    (planted,) = await append(journal, event(LIE, source="jsonl:x", file=OTHER, supersedes=told.ref))
    assert (planted.state, planted.event.source) == ("stored", f"claimed:jsonl:{OTHER}")
    assert (await journal.find(told.ref, ME)).superseded_by is None
    (own,) = await append(journal, event("A line.", source="jsonl:y", file=MINE))
    (newer,) = await append(journal, event("A newer line.", source="jsonl:y", file=MINE, supersedes=own.ref))
    assert newer.state == "superseded"
    by_id = event("By its id.", source="jsonl:z", file=MINE, supersedes=told.event.event_id)
    (known,) = await append(journal, by_id)
    assert known.supersedes == told.ref


@pytest.mark.feature("a file of JSONL that was moved, copied or exported again goes on with its conversation")
@pytest.mark.parametrize("session", [None, "s2"])
async def test_a_file_that_has_the_first_turn_goes_on_with_the_conversation(
    journal: Journal, session: str | None
) -> None:
    """The first turn that is no greeting counts. Its file may be another time each time, and the first file stays one.

    Exported again, the same turns can have other natural keys, as by another session.
    """
    await append(journal, *talk())
    scope = Scope(user_id="ana", session_id=session)
    moved = await append(
        journal,
        *talk(MOVED, scope=scope)[1:],
        line("It moved to Berlin in May.", 6, file=MOVED, scope=scope),
        line("Since June it is in the blue safe.", 5, file=MOVED, scope=scope),
    )
    assert {one.event.source for one in moved} == {"jsonl:chat"}
    (by_first,) = await append(journal, line("And a turn more.", 7))
    assert by_first.event.source == f"claimed:jsonl:{MINE}", "it is the moved file's, until the first is read again"
    *_, again = await append(journal, *talk(), line("And a turn more in the end.", 8))
    assert again.event.source == "jsonl:chat"


@pytest.mark.feature(
    "… and a conversation without a long turn only by the same file",
    of="a file of JSONL that was moved, copied or exported again goes on with its conversation",
)
async def test_a_conversation_of_short_turns_is_not_taken_over_by_its_greeting(journal: Journal) -> None:
    """Anyone guesses "Hi". The file itself goes on."""
    await append(journal, line("Hi", 0), line("Hello!", 1))
    greeting, planted = await append(journal, line("Hi", 0, file=OTHER), line(LIE, 1, file=OTHER))
    assert greeting.state == "duplicate"
    assert planted.event.source == f"claimed:jsonl:{OTHER}"
    (more,) = await append(journal, line(OPENING, 2))
    assert more.event.source == "jsonl:chat"
    assert await shown(journal) == ["Hi", "Hello!", OPENING]


@pytest.mark.feature("a file of JSONL does not adopt a program's message by its words and key")
async def test_a_file_does_not_adopt_a_message_of_a_program(journal: Journal) -> None:
    """Else it could replace it by its short ref."""
    (mail,) = await append(journal, event(OPENING, source="mail:7", revision="r1"))
    same, planted = await append(
        journal,
        event(OPENING, source="mail:7", revision="r1", file=OTHER),
        event(LIE, source="jsonl:x", file=OTHER, supersedes=mail.ref),
    )
    assert (same.ref, same.state) == (mail.ref, "duplicate")
    assert (planted.state, planted.event.source) == ("stored", f"claimed:jsonl:{OTHER}")


@pytest.mark.feature(
    "… nor does its line in the same run keep a text of another file from coming back",
    of="a file of JSONL adds nothing to a conversation of another file, and replaces nothing there",
)
@pytest.mark.parametrize("hostile_first", [False, True])
async def test_a_text_comes_back_in_a_run_with_a_line_of_another_file(journal: Journal, hostile_first: bool) -> None:
    """Of several texts at one place in a run only the last is a return; a line that is kept apart is at no place."""
    await append(journal, *talk())
    await append(journal, line("The staging host is gone.", 2))
    run = [*talk(), line(LIE, 2, file=OTHER)]
    if hostile_first:
        run.reverse()
    await append(journal, *run)
    assert await shown(journal) == [one.text for one in talk()]
    assert {one.state for one in await append(journal, *run)} == {"duplicate"}


async def test_of_several_texts_of_one_file_for_a_place_only_the_last_comes_back(journal: Journal) -> None:
    """So a file, or its copy, that has two texts at one place gives nothing new when it is read again."""
    for file in (MINE, MOVED):
        run = [*talk(), line("The staging host is gone.", 2, file=file), line("Bye", 6, file=file)]
        await append(journal, *talk(file), *run)
        assert {one.state for one in await append(journal, *run)} == {"duplicate"}


async def test_a_file_edits_and_adds_to_its_own_conversation(journal: Journal) -> None:
    """In any order of lines, and when its first turn was edited or forgotten."""
    await append(journal, *reversed(talk()))
    edited = await append(
        journal, line("Hello", 0), line(f"{OPENING} Really.", 1), line("At last.", 9), line("Early.", 0, revision="e")
    )
    assert [one.state for one in edited] == ["superseded", "superseded", "stored", "superseded"]
    await journal.forget([edited[1].ref, edited[3].ref], ME)
    (more,) = await append(journal, line("Later still.", 12))
    assert more.event.source == "jsonl:chat"
    (planted,) = await append(journal, line(LIE, 13, file=OTHER))
    assert planted.event.source == f"claimed:jsonl:{OTHER}"


@pytest.mark.feature("lines of a home of an earlier version are adopted by the file that has them")
async def test_a_file_adopts_its_lines_of_an_earlier_version(journal: Journal) -> None:
    """Events of an earlier version have no file. The same file is a no-op again, goes on, and keeps others out."""
    old = await append(journal, *talk(file=None), event(OPENING, source="jsonl:notes.jsonl", revision="3:a"))
    (planted,) = await append(journal, line(LIE, 3, file=OTHER))
    assert planted.event.source == f"claimed:jsonl:{OTHER}"
    lines = [*talk(), event(OPENING, source="jsonl:notes.jsonl", revision="3:a", file=MINE)]
    again = await append(journal, *lines)
    assert [(one.ref, one.state) for one in again] == [(one.ref, "duplicate") for one in old]
    assert await files_of(journal) == {MINE: 5, OTHER: 1}
    (more,) = await append(journal, line("A turn more.", 6))
    assert more.event.source == "jsonl:chat"


@pytest.mark.feature(
    "… also if its first turn was edited since",
    of="lines of a home of an earlier version are adopted by the file that has them",
)
async def test_a_file_whose_first_turn_was_edited_adopts_its_lines_of_an_earlier_version(journal: Journal) -> None:
    old = await append(journal, *talk(file=None))
    (planted,) = await append(journal, line(LIE, 3, file=OTHER))
    assert planted.event.source == f"claimed:jsonl:{OTHER}"
    hi, first, *rest, more = await append(
        journal, line("Hi", 0), line(f"{OPENING} Really.", 1), *talk()[2:], line("A turn more.", 6)
    )
    assert [one.state for one in (hi, *rest)] == ["duplicate"] * 3
    assert (first.state, first.supersedes, first.event.source) == ("superseded", old[1].ref, "jsonl:chat")
    assert more.event.source == "jsonl:chat"


@pytest.mark.feature(
    "… and it is erased with the memory",
    of="lines of a home of an earlier version are adopted by the file that has them",
)
async def test_the_file_of_a_memory_is_erased_with_it(journal: Journal) -> None:
    one, two = await append(journal, line(OPENING, 1), line("A second turn.", 2))
    assert await files_of(journal) == {MINE: 2}
    await journal.forget([one.ref], ME)
    assert await files_of(journal) == {MINE: 1, None: 1}
    assert (await journal.find(two.ref, ME)).event.file is None, "the journal alone knows it"


async def test_a_line_that_was_forgotten_does_not_come_back_as_a_claim(journal: Journal) -> None:
    (hi, *_) = await append(journal, *talk())
    await journal.forget([hi.ref], ME)
    (back,) = await append(journal, line("Hi", 0, file=MOVED))
    assert back.state == "blocked"


@pytest.mark.feature(
    "… nor does a line of it that was forgotten keep out what another file or a program says",
    of="a file of JSONL adds nothing to a conversation of another file, and replaces nothing there",
)
@pytest.mark.parametrize("second", [MINE, None])
@pytest.mark.parametrize("fields", [{"position": 1}, {"source": "mail:7"}], ids=["place", "key"])
@pytest.mark.parametrize("lie", [LIE, "Ask Mallory."])
async def test_a_forgotten_line_keeps_out_no_text_of_another(
    journal: Journal, second: str | None, fields: Mapping[str, Any], lie: str
) -> None:
    """Only its own file says nothing under its natural key again, and no file says the same."""
    given = {"source": "jsonl:chat", "revision": "r1", **fields}
    (planted,) = await append(journal, event(lie, file=OTHER, **given))
    await journal.forget([planted.ref], ME)
    (true,) = await append(journal, event(OPENING, file=second, **given))
    assert (true.state, true.event.source) == ("stored", given["source"])
    again = await append(
        journal,
        *(event(lie, file=file, **given) for file in (OTHER, "/home/ana/copy.jsonl")),
        event(f"{lie} Really.", file=OTHER, **given),
    )
    assert [one.state for one in again] == ["blocked"] * 3
    assert [record.event.text for record in (await journal.page(ME, 9)).records] == [OPENING]


@pytest.mark.feature(
    "… nor do the same words with other fields keep out what another file or a program says",
    of="a file of JSONL adds nothing to a conversation of another file, and replaces nothing there",
)
@pytest.mark.parametrize("second", [MINE, None])
@pytest.mark.parametrize(
    "fields",
    [
        {"valid_to": datetime(2001, 1, 1, tzinfo=UTC)},
        {"origin": "tool"},
        {"trust": "untrusted"},
        {"scope": Scope(user_id="ana", audience="private")},
        {"speaker": "Mallory"},
    ],
    ids=lambda fields: next(iter(fields)),
)
async def test_the_same_words_with_other_fields_keep_out_no_line(
    journal: Journal, second: str | None, fields: Mapping[str, Any]
) -> None:
    """The file itself, or a copy with the same fields, gives nothing new."""
    given = {"source": "mail:7", "revision": "r1"}
    (planted,) = await append(journal, event(OPENING, file=OTHER, **given, **fields))
    (true,) = await append(journal, event(OPENING, file=second, **given))
    assert true.state == "stored"
    assert (true.event.source or "").startswith("claimed:")
    again = await append(
        journal,
        event(OPENING, file=OTHER, **given, **fields),
        event(OPENING, file="/home/ana/copy.jsonl", **given, **fields),
        event(OPENING, file=second, **given),
    )
    assert [(one.ref, one.state) for one in again] == [
        (ref, "duplicate") for ref in (planted.ref, planted.ref, true.ref)
    ]


@pytest.mark.feature(
    "… and comparing its line reads no turns of others, however many there are",
    of="a file of JSONL adds nothing to a conversation of another file, and replaces nothing there",
)
@pytest.mark.parametrize("source", ["jsonl:chat", "web:12", "web", None])
@pytest.mark.parametrize("file", [OTHER, None])
async def test_a_line_is_compared_without_reading_the_turns_of_others(
    file_journal: Journal, source: str | None, file: str | None
) -> None:
    """Steps of SQLite's virtual machine, which do not depend on speed: as many after 300 turns of others as after 30.

    Otherwise each line of a long file would read all lines before it.
    """
    steps: list[int] = []

    def count(db: sqlite3.Connection) -> None:
        def step() -> int:
            steps[-1] += 1
            return 0

        steps.append(0)
        db.set_progress_handler(step, 1)
        claimed = line(LIE, 9000, file=file, source=source)
        conversations.claim_if_uninvited(db, claimed, keys_of(claimed))
        db.set_progress_handler(None, 1)

    for turns in (30, 300):
        others = [{}, {"origin": "tool"}, {"source": "web:1", "file": None}, {"source": "crm:2"}]
        many = (line(f"Turn {n} of many.", n, **one) for n in range(turns) for one in others)
        await append(file_journal, *talk(), *many)
        await file_journal.read(count)
    assert steps[1] <= steps[0] + 50


async def files_of(journal: Journal) -> dict[str | None, int]:
    """How many events of each file the journal has."""
    found = await journal.read(lambda db: db.execute("select file, count(*) from event group by file").fetchall())
    return {row[0]: row[1] for row in found}
