"""Tombstones: forgotten texts and statements of files stay hidden."""

from __future__ import annotations

from dataclasses import replace

import pytest

from fusion.contract import Event, Hit, Place, Scope
from fusion.errors import NotFound
from fusion.journal import Journal, tombstones
from fusion.journal.rows import words_key
from fusion.journal.tombstones import PER_MEMORY
from fusion.lib.words import content_hash
from fusion.store.sqlite import Database
from tests.ingest.helpers import ME, event
from tests.journal.helpers import append, hides


async def test_a_tombstone_blocks_source_and_words_but_not_an_explicit_memory(journal):
    """Re-ingestion at the same place, or of the same sentence elsewhere, is blocked until an explicit remember."""
    text = "My locker code is on the blue note."
    (stored,) = await append(journal, event(text, 1))
    await journal.forget([stored.ref], ME)
    assert [s.state for s in await append(journal, event(text, 1), event(text, 9))] == ["blocked", "blocked"]
    assert [s.state for s in await append(journal, event(text, 9, scope=Scope(user_id="ben")))] == ["stored"]
    assert [s.state for s in await append(journal, event(text))] == ["stored"]
    assert [s.state for s in await append(journal, event(text, 9))] == ["stored"]


async def test_a_tombstone_of_a_short_text_blocks_no_other_text(journal):
    """A text of fewer than five words is blocked at its place only."""
    (stored,) = await append(journal, event("yes", 1))
    await journal.forget([stored.ref], ME)
    assert [s.state for s in await append(journal, event("yes", 1), event("yes", 2))] == ["blocked", "stored"]


def left_of(journal: Journal, hit: Hit) -> str:
    """What of a backend's hit may be shown; empty where that is nothing."""
    return "".join(left.text for left in journal.without_forgotten("md", [hit]))


async def test_tombstones_hide_only_forgotten_statements_of_a_file(journal, journals):
    """By the words of its lines, wherever they are now, in that document of that tenant; also after a restart."""
    said = "## Ledger\n- the heron ledger is under the oak"
    (stored,) = await append(journal, event(said, place=Place("notes/a.md", 5, 6, "line")))
    await journal.forget([stored.ref], ME)
    moved = Hit("x", "* The heron ledger is under the oak\n- more", place=Place("notes/a.md", 45, 46, "line"))
    innocent = replace(moved, text="## Ledger\n- what stands here by now", place=Place("notes/a.md", 5, 6, "line"))
    elsewhere = replace(moved, place=Place("notes/b.md", 45, 46, "line"))
    for one in (journal, await journals.open()):
        (left,) = one.without_forgotten("md", [moved])
        assert (left.text, left.place) == ("- more", Place("notes/a.md", 46, 46, "line"))
        for kept in (innocent, elsewhere, replace(moved, scope=Scope(tenant="acme"))):
            assert left_of(one, kept) == kept.text
        assert hides(one, "md", replace(moved, text="* The heron ledger is under the oak"))


async def test_tombstones_match_a_file_under_the_names_of_all_readers(journal):
    """One reader was given its folder, another the folder above, and a hash distinguishes it from a namesake."""
    said = "## Ledger\n- the heron ledger is under the oak"
    (stored,) = await append(journal, event(said, place=Place("docs/a.md", 5, 6, "line")))
    await journal.forget([stored.ref], ME)
    for name in ("docs/a.md", "docs-0a1b2c3d/a.md", "project/docs/a.md"):
        assert hides(journal, "md", Hit("x", said, place=Place(name, 1, 2, "line"))), name
    for name in ("docs/b.md", "project/a.md", "docs/2026/a.md"):
        assert left_of(journal, Hit("x", said + "\n- more", place=Place(name, 1, 3, "line"))) == said + "\n- more", name


@pytest.mark.feature("what one user forgot in a file stays in another user's file of that name")
async def test_tombstones_of_one_user_do_not_hide_another_users_file(journal, journals):
    """Two users of a tenant have a file of one name; what names no user is everybody's. After a restart, too."""
    said, place = "- the heron ledger is under the oak", Place("docs/a.md", 5, 5, "line")
    ada, berit, carl = Scope(user_id="ada"), Scope(user_id="berit"), Scope(user_id="carl")
    for who in (ada, carl):
        (stored,) = await append(journal, event(said, place=place, scope=who))
        await journal.forget([stored.ref], who)
    for one in (journal, await journals.open()):
        hidden = [hides(one, "md", Hit("x", said, place=place, scope=who)) for who in (ada, berit, carl, Scope())]
        assert hidden == [True, False, True, True]


async def test_a_new_statement_in_a_forgotten_part_of_a_file_is_stored(journal):
    """The forgotten line is left out; other text that is now in its piece is stored, with its place."""
    place = Place("notes/a.md", 5, 6, "line")
    (stored,) = await append(journal, event("## Ledger\n- the heron ledger is under the oak", place=place))
    await journal.forget([stored.ref], ME)
    edited, bare = await append(
        journal,
        event("## Ledgers\n- The heron ledger is under the oak.\n- more", place=Place("notes/a.md", 5, 7, "line")),
        event("## Ledger\n- the heron ledger is under the oak", place=Place("notes/a.md", 9, 10, "line")),
    )
    assert (edited.state, edited.withheld, bare.state) == ("stored", 1, "blocked")
    kept = (await journal.find(edited.ref, ME)).event
    assert (kept.text, kept.place) == ("## Ledgers\n\n- more", Place("notes/a.md", 5, 7, "line"))


@pytest.mark.feature("a forgotten sentence is recognised when its paragraph is edited or wrapped differently")
async def test_a_forgotten_sentence_stays_hidden_when_its_neighbour_is_edited(journal):
    """And when the paragraph is wrapped at other places: it is known by its words, not by its line."""
    said = "The code of the door\nis 4711. Call Mara on Monday."
    (stored,) = await append(journal, event(said, place=Place("notes/a.md", 5, 6, "line")))
    await journal.forget([stored.ref], ME)
    for edited in (
        "The code of the door is 4711. Call Mara on Tuesday.",
        "The\ncode of the door is\n4711. Call Mara on\nTuesday.",
    ):
        left = left_of(journal, Hit("x", edited, place=Place("notes/a.md", 5, 5 + edited.count("\n"), "line")))
        assert left.split() == ["Call", "Mara", "on", "Tuesday."]


async def test_a_private_key_does_not_outlive_its_first_line(journal):
    """With the line gone that makes a key one, the rest is masked all the same."""
    (stored,) = await append(journal, event("-----BEGIN PRIVATE KEY-----", place=Place("notes/a.md", 5, 5, "line")))
    await journal.forget([stored.ref], ME)
    key = "our key:\n-----BEGIN PRIVATE KEY-----\nMIIEabcd\n-----END PRIVATE KEY-----\nthe end"
    assert left_of(journal, Hit("x", key, place=Place("notes/a.md", 4, 8, "line"))).split() == [
        "our",
        "key:",
        "the",
        "end",
    ]


@pytest.mark.row(
    "A165",
    "… a line that two pieces of a file share does not bring it back next to another memory",
    of="a tombstone keeps a forgotten",
)
async def test_a_line_is_shown_without_its_forgotten_part(journal):
    """Two pieces of a section say the same line: with the first one forgotten, the second is shown without that."""
    shared = "- the heron ledger is under the oak"
    one, two, three, four = await append(
        journal,
        event(f"- first of all\n{shared}", place=Place("notes/a.md", 1, 2, "line")),
        event(f"{shared}\n- after that", place=Place("notes/a.md", 2, 3, "line")),
        event("- and the last one", place=Place("notes/a.md", 4, 4, "line")),
        event(shared, place=Place("notes/a.md", 5, 5, "line"), revision="5"),
    )
    await journal.forget([one.ref], ME)
    beside = await journal.neighbours([three.event.event_id], 2)
    assert [record.event.text for record in beside[three.event.event_id]] == ["- after that"]
    shown = [(r.ref, r.event.text) for r in await journal.document("notes/a.md", ME, 1, 10)]
    assert shown == [(two.ref, "- after that"), (three.ref, "- and the last one")]
    assert (await journal.find(two.ref, ME)).event.text == "- after that"
    assert [r.event.text for r in (await journal.page(ME, 10)).records] == ["- and the last one", "- after that"]
    records = await journal.records([two.event.event_id, four.event.event_id])
    assert [(r.event.text, r.forgotten) for r in records.values()] == [("- after that", False), ("", True)]
    with pytest.raises(NotFound, match="forgotten in its file"):
        await journal.find(four.ref, ME)


async def test_short_lines_of_a_forgotten_part_of_a_file_are_hidden(journal):
    """Each by its words, but for the name of a section: what a heading of one word is about may come again."""
    said, place = "## PIN\n- 4711\n- 4712", Place("notes/a.md", 5, 7, "line")
    (stored,) = await append(journal, event(said, place=place))
    await journal.forget([stored.ref], ME)
    assert hides(journal, "md", Hit("x", said + "\n", place=Place("notes/a.md", 9, 12, "line")))
    assert left_of(journal, Hit("x", "## PIN\n- none\n- 4711", place=place)) == "## PIN\n- none"
    assert journal.visible_lines(Scope(), "notes/a.md", said.split("\n")) == {1: "", 2: "", 3: ""}


async def test_tombstones_of_an_earlier_version_still_hide(tmp_path):
    """It has lines of three words or more; a shorter line next to such a line is hidden with it."""
    file = tmp_path / "journal.sqlite"
    database = await Database.open(file, Journal.schema[: Journal.schema.index(PER_MEMORY)], fix="")
    hashed = content_hash("- the heron ledger is under the oak")
    words = words_key("PIN 4711\n- the heron ledger is under the oak", None, Scope())

    def forget(db):
        db.execute("insert into hidden values('default', 'notes/a.md', ?, ?)", (hashed, words))

    await database.write(forget)
    await database.close()
    journal = await Journal.open(file)
    text = "PIN 4711\n- the heron ledger is under the oak\n- the oak was felled"
    hit = Hit("x", text, place=Place("notes/a.md", 5, 7, "line"))
    assert left_of(journal, hit) == "- the oak was felled"
    lines = ["# First", "a b", "", "# Second", *text.split("\n")]
    assert journal.visible_lines(Scope(), "notes/a.md", lines) == {4: "", 5: "", 6: ""}
    await journal.close()


async def test_withheld_statements_are_listed_by_document(journal):
    """With the refs that the audit has; a wish that lifts one takes it off the list, and others' it never has."""

    def in_garden(what: str) -> Event:
        return event(f"The {what} is behind the shed.", place=Place("notes/garden.md", 1, 1, "line"), revision=what)

    rake, spade = await append(journal, in_garden("rake"), in_garden("spade"))
    (theirs,) = await append(journal, event("mine", scope=Scope(tenant="acme"), place=Place("a.md", 1, 1, "line")))
    for one in (rake, spade):
        await journal.forget([one.ref], ME)
    await journal.forget([theirs.ref], Scope(tenant="acme"))
    assert await journal.read(tombstones.withheld_documents, "default") == [
        {"document": "notes/garden.md", "refs": [rake.ref, spade.ref]}
    ]
    await append(journal, event("The rake is behind the shed."))
    assert await journal.read(tombstones.withheld_documents, "default") == [
        {"document": "notes/garden.md", "refs": [spade.ref]}
    ]
    (again,) = await append(journal, in_garden("rake"))
    assert again.state == "stored"


async def test_a_partly_withheld_piece_is_complete_again_after_a_lift(journal):
    """A later ingest of the same file finds what was held back wanted: the whole piece takes the part's place."""
    place = Place("notes/a.md", 1, 2, "line")
    (rake,) = await append(journal, event("The rake is behind the shed.", place=place))
    await journal.forget([rake.ref], ME)
    both = "The rake is behind the shed.\nThe spade is lost."
    (part,) = await append(journal, event(both, place=place))
    assert part.event.text == "The spade is lost."
    assert [one.state for one in await append(journal, event(both, place=place))] == ["duplicate"]
    await append(journal, event("The rake is behind the shed."))
    (again,) = await append(journal, event(both, place=place))
    assert (again.state, again.event.text) == ("stored", both)
    assert part.ref not in [record.ref for record in (await journal.page(ME, 10)).records]


async def test_a_short_forgotten_part_of_a_file_is_shown_again_after_an_explicit_memory(journal):
    """Though no text of five words or more was ever forgotten."""
    said, place = "- the heron ledger", Place("notes/a.md", 5, 5, "line")
    (stored,) = await append(journal, event(said, place=place))
    await journal.forget([stored.ref], ME)
    assert hides(journal, "md", Hit("x", said, place=place))
    await append(journal, event(said))
    assert not hides(journal, "md", Hit("x", said, place=place))


async def test_remembering_reads_the_tombstones_again_only_where_some_may_go(journal, journals):
    """What is in memory is what the file has, whether a text was forgotten at a place or not, and is long or short."""
    place = Place("notes/a.md", 5, 5, "line")
    said = ["the heron ledger is under the oak", "the key is in the blue jar", "yes"]
    for number, text in enumerate(said):
        (stored,) = await append(journal, event(text, place=replace(place, start=5 + number, end=5 + number)))
        await journal.forget([stored.ref], ME)
    before = journal._visibility.forgotten
    await append(journal, event("we deploy on Tuesdays and on Fridays"))
    assert journal._visibility.forgotten is before
    for text in said:
        await append(journal, event(text))
        assert journal._visibility.forgotten == (await journals.open())._visibility.forgotten, text
    assert not journal._visibility.forgotten.lines
