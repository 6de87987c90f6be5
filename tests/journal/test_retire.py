"""Retiring: memories that their file no longer contains, and that return with their text."""

from __future__ import annotations

from fusion.contract import Place, Scope
from fusion.ingest.deliver import Deliverer
from fusion.journal import retire
from fusion.journal.retire import CompleteFile, SourceCount
from fusion.lib.bm25 import terms
from tests.ingest.helpers import ME, START, FakeStore, event

ANA = Scope(user_id="ana")
FILE = "file:/notes/a.md"


def section(text: str, line: int, *, source: str = FILE, **fields):
    return event(text, place=Place("notes/a.md", line, line, "line"), source=source, revision=text, **fields)


async def test_retire_retires_pieces_that_a_complete_reading_lacks(journal):
    """The others of the file stay, and so does what came from elsewhere, or from the same file for another user."""
    kept, gone, elsewhere, theirs, turn = await journal.append(
        [
            section("old heading", 1),
            section("old text of the harbour", 2),
            section("other", 1, source="file:/notes/b.md"),
            section("old text of the harbour", 2, scope=Scope(user_id="ben")),
            event("a turn", 3, source=FILE),
        ]
    )
    file = CompleteFile(FILE, ("old heading", "new text"))
    assert await journal.retire(ANA, [file], dry_run=True) == {FILE: 1}
    assert await journal.retire(ANA, [file]) == {FILE: 1}
    assert await journal.retire(ANA, [file]) == {}
    records = await journal.records([one.event.event_id for one in (kept, gone, elsewhere, theirs, turn)])
    by_text = {(r.event.text, r.event.scope.user_id): r.superseded_by for r in records.values()}
    assert [what for what, by in by_text.items() if by is not None] == [("old text of the harbour", "ana")]
    assert [r.event.text for r in (await journal.page(ME, 9)).records] == ["a turn", "other", "old heading"]
    assert (await journal.frequencies(ANA, terms("harbour"))).counts == {}


async def test_retired_pieces_are_deleted_in_backends_and_delivered_again_when_they_return(journal):
    """No tombstone: the same text in its file later is stored, under the ref that it had."""
    shelf = FakeStore()
    (stored,) = await journal.append([section("the harbour office", 1)])
    deliverer = Deliverer(journal, {"shelf": shelf})
    await deliverer.start()
    await deliverer.settle()
    assert shelf.texts == ["the harbour office"]
    await journal.retire(ANA, [CompleteFile(FILE)])
    deliverer.wake()
    await deliverer.settle()
    assert shelf.kept == {}
    (again,) = await journal.append([section("the harbour office", 7)])
    deliverer.wake()
    await deliverer.settle()
    assert (again.state, again.ref) == ("stored", stored.ref)
    assert shelf.texts == ["the harbour office"]
    assert list((await journal.frequencies(ANA, terms("harbour"))).counts.values()) == [1]
    assert [s.state for s in await journal.append([section("the harbour office", 7)])] == ["duplicate"]
    await deliverer.close()


async def test_a_piece_retired_before_its_delivery_is_not_delivered(journal):
    """Nor to a store that joins later, or was emptied; a piece that comes back is delivered to all of them."""
    await journal.outbox.register(["first"])
    await journal.append([section("gone", 1), section("kept", 2)])
    [gone, kept] = await journal.outbox.due("first", START, 9)
    await journal.retire(ANA, [CompleteFile(FILE, ("kept",))])
    await journal.outbox.mark_delivered("first", [(gone.seq, ["n1"]), (kept.seq, ["n2"])])
    assert [d.seq for d in await journal.outbox.due_deletions("first", START, 9)] == [gone.seq]
    await journal.outbox.register(["first", "later"])
    await journal.outbox.redeliver(["first"])
    for name in ("first", "later"):
        assert [d.event.text for d in await journal.outbox.due(name, START, 9)] == ["kept"]
    await journal.append([section("gone", 1)])
    for name in ("first", "later"):
        assert {d.event.text for d in await journal.outbox.due(name, START, 9)} == {"gone", "kept"}
        assert await journal.outbox.due_deletions(name, START, 9) == []


async def test_retire_takes_a_file_of_many_pieces_in_parts(journal):
    """Each part speaks for the revisions that begin with it, and for no others."""
    await journal.append([section(text, n) for n, text in enumerate(("a1", "a2", "b1", "b2"), start=1)])
    assert await journal.retire(ANA, [CompleteFile(FILE, ("a1",), "a")]) == {FILE: 1}
    assert await journal.retire(ANA, [CompleteFile(FILE, (), "b")]) == {FILE: 2}
    assert [r.event.text for r in (await journal.page(ME, 9)).records] == ["a1"]


async def test_a_retired_piece_can_be_forgotten_and_stays_forgotten(journal):
    """Retired is kept, as earlier versions are; a tombstone outlives every reading."""
    one, two = await journal.append([section("one of the old sections", 1), section("another old section of it", 2)])
    await journal.retire(ANA, [CompleteFile(FILE, ("another old section of it",))])
    await journal.forget([one.ref], ME)
    await journal.forget([two.ref], ME)
    assert await journal.retire(ANA, [CompleteFile(FILE)]) == {}
    again = await journal.append([section("one of the old sections", 1), section("another old section of it", 2)])
    assert [s.state for s in again] == ["blocked", "blocked"]


async def test_sources_are_listed_by_name_in_pages(journal):
    """With how much of each is current; only a scope's own, only below a prefix."""
    await journal.append(
        [
            section("1", 1),
            section("2", 2),
            section("3", 1, source="file:/notes/b.md"),
            section("4", 1, source="file:/other/c.md", scope=Scope(user_id="ben")),
            event("no source"),
        ]
    )
    await journal.retire(ANA, [CompleteFile(FILE, ("1",))])
    a, b, c = (SourceCount(f"file:/{name}.md", 1) for name in ("notes/a", "notes/b", "other/c"))
    assert await journal.read(retire.sources, Scope(), "", "", 9) == [a, b, c]
    assert await journal.read(retire.sources, Scope(), "", "", 1) == [a]
    assert await journal.read(retire.sources, Scope(), "", a.source, 9) == [b, c]
    assert await journal.read(retire.sources, Scope(), "file:/notes/", "", 9) == [a, b]
    assert await journal.read(retire.sources, Scope(user_id="ben"), "", "", 9) == [c]
    assert await journal.read(retire.sources, Scope(tenant="acme"), "", "", 9) == []
