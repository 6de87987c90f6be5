"""Files are the truth: exactly their current text is found, whatever happens to them."""

from __future__ import annotations

import asyncio
import os
import shutil
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from dataclasses import replace
from datetime import UTC, datetime, timedelta
from pathlib import Path
from typing import cast

import pytest

from adapters.index import Index
from adapters.markdown import Markdown, Timing
from fusion.contract import Backend, Embedder, Extracted, Hit, Moment, Opening, Place, Query, Scope
from fusion.errors import BadInput, SettingsError
from fusion.lib.chunk import tokens
from tests.adapters.markdown.test_own_notes import NASTY
from tests.backend_contract import (
    NOW,
    SAMPLES,
    BackendContract,
    event_id,
    make_event,
    make_extracted,
    make_query,
    make_samples,
    opening,
)
from tests.fakes import FakeEmbedder

PRIVATE = Scope(audience="private")


class Clock:
    """Monotonic seconds that move only when told to."""

    def __init__(self) -> None:
        self.now_s = 100.0

    def __call__(self) -> float:
        return self.now_s


async def forever(seconds: float) -> None:
    """A pause that does not end: nothing happens behind."""
    await asyncio.Event().wait()


@asynccontextmanager
async def opened(
    home: Path, *paths: Path, clock: Clock | None = None, embedder: Embedder | None = None, **options: object
) -> AsyncIterator[Markdown]:
    """A backend on ``home`` over the user's ``paths``; it looks at the files at every search unless told otherwise.

    By default it has no embedder, so that what shares no word with a question is not found.
    """
    given: dict[str, object] = {
        "scan_interval_s": 0,
        "watch": False,
        "interval_s": 0,
        "paths": [str(path) for path in paths],
        **options,
    }
    timing = Timing(clock=clock or Clock(), pause=forever)
    backend = await Markdown.open(Opening("markdown", home, given, embedder), timing=timing)
    try:
        await backend.settle()
        yield backend
    finally:
        await backend.close()


async def ask(backend: Markdown, text: str, scope: Scope = PRIVATE, limit: int = 100) -> list[Hit]:
    return list(await backend.search(make_query(text, scope, limit)))


async def first(backend: Markdown, text: str) -> Hit:
    return (await ask(backend, text))[0]


async def remarks(backend: Markdown) -> list[str]:
    """What it says of itself, but for the missing embedder."""
    return [note for note in (await backend.describe()).notes if "embedding model" not in note]


async def texts(backend: Markdown) -> set[str]:
    """Every text that a broad question finds."""
    return {hit.text for hit in await ask(backend, "Gateway Marta PostgreSQL note one two three")}


def captured(n: int, text: str, **fields: object) -> Extracted:
    return make_extracted(make_event(n, text, **fields))  # type: ignore[arg-type]


@pytest.fixture
def home(tmp_path: Path) -> Path:
    return tmp_path / "home" / "markdown"


@pytest.fixture
def vault(tmp_path: Path) -> Path:
    """A small workspace: long-term memory, a daily log, an evergreen topic."""
    folder = tmp_path / "workspace"
    (folder / "memory").mkdir(parents=True)
    (folder / "MEMORY.md").write_text("# Rules\n\nMarta's salary is never mentioned.\n")
    (folder / "memory" / "2026-02-03.md").write_text("# Tuesday\n\n## Database\n\nWe chose PostgreSQL for orders.\n")
    (folder / "memory" / "gateway.md").write_text("---\ndate: 2026-01-15\n---\nIt listens on port 8765.\n")
    return folder


class TestMarkdown(BackendContract):
    filters = True

    async def open_backend(self, folder: Path) -> Backend:
        return await Markdown.open(opening(folder, remember_turns=True, scan_interval_s=0, watch=False))


# The user's files


@pytest.mark.feature("Markdown: a chunk has its lines and headings")
async def test_a_chunk_says_where_it_stands(home: Path, vault: Path) -> None:
    """A hit has the file's own lines, with their document and line numbers."""
    async with opened(home, vault) as backend:
        hit = await first(backend, "chose PostgreSQL")
        assert hit.native_id == "workspace/memory/2026-02-03.md#L1-L5"
        assert hit.place == Place("workspace/memory/2026-02-03.md", 1, 5, "line")
        assert hit.text == "# Tuesday\n\n## Database\n\nWe chose PostgreSQL for orders."
        assert (hit.kind, hit.event_id) == ("note", None)


async def test_dates_come_from_names_and_front_matter(home: Path, vault: Path) -> None:
    """A daily log is of its day, a note of the day its front matter says; others are evergreen."""
    async with opened(home, vault) as backend:
        assert (await first(backend, "chose PostgreSQL")).at == Moment(datetime(2026, 2, 3, tzinfo=UTC), "day")
        assert (await first(backend, "listens on port")).at == Moment(datetime(2026, 1, 15, tzinfo=UTC), "day")
        assert (await first(backend, "salary")).at is None


async def test_found_by_title_and_headings(home: Path, vault: Path) -> None:
    """A chunk is found by its file's name and the headings above it, and given back without them."""
    (vault / "deploy.md").write_text("# Runbook\n\nintroduction\n\n## Rollback\n\n### Steps\n\nPress the red button.\n")
    async with opened(home, vault) as backend:
        assert (await first(backend, "gateway port")).text.endswith("It listens on port 8765.")
        assert (await first(backend, "runbook rollback")).text == "## Rollback\n\n### Steps\n\nPress the red button."


@pytest.mark.row("A076", "Markdown: files are searched in pieces of 400 tokens with 80 of overlap")
async def test_pieces_have_400_tokens_and_are_searched_with_80_more(home: Path, vault: Path) -> None:
    """As it comes: 40 paragraphs of 50 tokens, and what is between them, are searched in pieces of at most 400: seven
    paragraphs, then six with the one of the piece before that fits into 80, five times, and the last three so."""
    body = "\n\n".join(f"Paragraph {n:02} {'filler ' * 26}words" for n in range(40))
    (vault / "long.md").write_text(body)
    assert {tokens(paragraph) for paragraph in body.split("\n\n")} == {50}
    async with opened(home, vault) as backend:
        held = [entry.text.removeprefix("long\n") for entry in backend.entries() if "Paragraph" in entry.text]
        shown = [hit.text for hit in await ask(backend, "paragraph", limit=40)]
    assert [text.count("Paragraph") for text in held] == [7, 7, 7, 7, 7, 7, 4]
    assert all(tokens(text) <= 400 for text in held)
    leads = [text.removesuffix(next(one for one in shown if text.endswith(one))) for text in held]
    assert [lead.count("Paragraph") for lead in leads] == [0, 1, 1, 1, 1, 1, 1]
    assert all(tokens(lead) <= 80 for lead in leads)


@pytest.mark.row(
    "A076", "… the overlap is searched and never shown: no two pieces share a line", of="Markdown: files are searched"
)
async def test_pieces_of_a_long_section_share_no_line(home: Path, vault: Path) -> None:
    """…so that forgetting one leaves no twin; what was said across the cut is found in the piece after it all the
    same: "kestrel" stands in the paragraph that leads over to the one about the osprey."""
    paragraphs = [f"Paragraph {n} of the report. " + "filler " * 30 for n in range(6)]
    paragraphs[2] += "kestrel"
    paragraphs[3] += "osprey"
    (vault / "long.md").write_text("\n\n".join(paragraphs))
    async with opened(home, vault, chunk_tokens=130, chunk_overlap=80) as backend:
        places = [hit.place for hit in await ask(backend, "paragraph report") if hit.place]
        lines = [n for place in places for n in range(place.start, place.end + 1)]
        assert len(places) > 3
        assert len(lines) == len(set(lines))
        found = [hit.text for hit in await ask(backend, "kestrel osprey")]
        assert "osprey" in found[0]
        assert "kestrel" not in found[0]


@pytest.mark.row("A057", "Markdown: MEMORY.md is used in private answers only")
async def test_memory_md_is_private(home: Path, vault: Path) -> None:
    """MEMORY.md is for its owner's eyes: a question asked for a group does not get it."""
    async with opened(home, vault) as backend:
        assert [hit.scope.audience for hit in await ask(backend, "salary")] == ["private"]
        group = await ask(backend, "salary PostgreSQL", Scope(audience="group"))
        assert {hit.place.document for hit in group if hit.place} == {"workspace/memory/2026-02-03.md"}


async def test_files_are_bound_to_their_owner(home: Path, vault: Path) -> None:
    """``bind`` says whose the files are; another user and another tenant get nothing."""
    async with opened(home, vault, bind={"user_id": "julien"}) as backend:
        assert await ask(backend, "PostgreSQL", Scope(user_id="julien"))
        assert not await ask(backend, "PostgreSQL", Scope(user_id="marta"))
        assert not await ask(backend, "PostgreSQL", Scope(tenant="acme"))


@pytest.mark.row("A077", "Markdown: edits are noticed, unchanged files are not read")
async def test_edits_are_seen(home: Path, vault: Path) -> None:
    """New, changed, replaced, renamed and deleted files are followed at the next search."""
    note = vault / "memory" / "gateway.md"
    async with opened(home, vault) as backend:
        note.write_text("It listens on port 9999.\n")
        assert (await first(backend, "listens port")).text == "It listens on port 9999."
        (vault / "swap").write_text("It listens on port 7777.\n")  # an editor's atomic save
        (vault / "swap").rename(note)
        assert (await first(backend, "listens port")).text == "It listens on port 7777."
        note.rename(vault / "memory" / "door.md")
        assert {h.native_id for h in await ask(backend, "listens port")} == {"workspace/memory/door.md#L1-L1"}
        (vault / "memory" / "door.md").unlink()
        assert not await ask(backend, "listens port")
        (vault / "new.md").write_text("It listens nowhere.\n")
        assert (await first(backend, "listens")).text == "It listens nowhere."


async def test_an_edit_of_same_size_within_the_same_tick_is_seen(home: Path, vault: Path) -> None:
    """A file that had just changed when it was read is read again, though its metadata may not differ."""
    note = vault / "memory" / "gateway.md"
    async with opened(home, vault) as backend:
        for port in range(1000, 1020):
            note.write_text(f"It listens on port {port}.\n")
            os.utime(note, ns=(10**18, 10**18))
            assert (await first(backend, "listens port")).text == f"It listens on port {port}."


async def test_between_two_looks_the_files_are_left_alone(home: Path, vault: Path) -> None:
    """``scan_interval_s`` is how long a search trusts the last look."""
    clock = Clock()
    async with opened(home, vault, clock=clock, scan_interval_s=2) as backend:
        (vault / "new.md").write_text("A brand new kestrel.\n")
        assert not await ask(backend, "kestrel")
        clock.now_s += 2
        assert await ask(backend, "kestrel")


@pytest.mark.row("A053", "Markdown: the files are the truth, the index can be deleted")
async def test_the_index_can_be_deleted(home: Path, vault: Path) -> None:
    """Without its index it comes back from the files with the same hits, scores included."""
    questions = ["Gateway PostgreSQL bug", "Marta", "salary rules", "port"]
    async with opened(home, vault, embedder=FakeEmbedder()) as backend:
        await backend.remember(make_samples())
        await backend.settle()
        before = [await ask(backend, question) for question in questions]
    shutil.rmtree(home / "index")
    async with opened(home, vault, embedder=FakeEmbedder()) as backend:
        assert [await ask(backend, question) for question in questions] == before
        assert any(before)


async def test_what_is_ignored(home: Path, vault: Path) -> None:
    """Hidden folders, dependencies and other patterns are left out; so are files that are no Markdown."""
    for name in (".git", ".obsidian", "node_modules", "sub/.trash"):
        (vault / name).mkdir(parents=True)
        (vault / name / "note.md").write_text("kestrel")
    (vault / "note.txt").write_text("kestrel")
    (vault / "draft.md").write_text("kestrel")
    async with opened(home, vault, ignore=[".*", "node_modules", "draft*"]) as backend:
        assert not await ask(backend, "kestrel")
        assert not await remarks(backend)


async def test_single_files_and_roots_of_one_name(home: Path, tmp_path: Path) -> None:
    """A path may be a file; two folders of one name, or one called like our own, are told apart; nested are one."""
    for name, text in (("a/notes", "kestrel one"), ("b/notes", "kestrel two")):
        (tmp_path / name).mkdir(parents=True)
        (tmp_path / name / "n.md").write_text(text)
    (tmp_path / "c").mkdir()
    (tmp_path / "c" / "README").write_text("kestrel three")
    (tmp_path / "c" / "other.md").write_text("kestrel four")
    inside = tmp_path / "a"
    async with opened(home, inside, inside / "notes", tmp_path / "b" / "notes", tmp_path / "c" / "README") as backend:
        hits = await ask(backend, "kestrel")
        documents = sorted(hit.place.document for hit in hits if hit.place)
        assert len(documents) == 3
        assert documents[:2] == ["a/notes/n.md", "c/README"]
        assert documents[2].startswith("notes-")
        assert documents[2].endswith("/n.md")


async def test_a_single_file_need_not_exist_yet(home: Path, tmp_path: Path) -> None:
    """A file that is named before it is written is missed until it is there."""
    async with opened(home, tmp_path / "MEMORY.md") as backend:
        assert await remarks(backend) == [f"{tmp_path.name}/MEMORY.md: not there: create it or take it out of `paths`"]
        (tmp_path / "MEMORY.md").write_text("kestrel")
        assert await ask(backend, "kestrel")
        assert not await remarks(backend)


async def test_its_own_folder_is_not_a_users_file(home: Path, tmp_path: Path) -> None:
    """A path that contains the gateway's home does not make its notes public: their scopes hold."""
    home.mkdir(parents=True)
    async with opened(home, tmp_path) as backend:
        await backend.remember([captured(1, "kestrel", scope=Scope(tenant="acme"))])
        await backend.refresh()
        assert not await ask(backend, "kestrel")
        assert len(await ask(backend, "kestrel", Scope(tenant="acme"))) == 1


async def test_a_marker_in_a_users_file_claims_nothing(home: Path, vault: Path) -> None:
    """Entries count in the gateway's own folder only; elsewhere they are text."""
    (vault / "clip.md").write_text(
        '<!-- memory {"event_id":"x","recorded_at":"2026-01-01T00:00:00+00:00"} -->\nkestrel\n'
    )
    async with opened(home, vault) as backend:
        assert (await first(backend, "kestrel")).event_id is None


# Files that are not as they should be


@pytest.mark.feature(
    "Markdown: a file that is too large, binary, broken UTF-8, linked outside, unreadable or not "
    "regular is reported, and the others are found"
)
async def test_what_cannot_be_read_is_named(home: Path, vault: Path, tmp_path: Path) -> None:
    """Binary, oversized and special files and links that lead out are skipped with their reasons; the rest is found."""
    (tmp_path / "secret.md").write_text("kestrel")
    (tmp_path / "outside").mkdir()
    (tmp_path / "outside" / "secret.md").write_text("kestrel")
    (vault / "link.md").symlink_to(tmp_path / "secret.md")
    (vault / "folder").symlink_to(tmp_path / "outside")
    (vault / "alias.md").symlink_to(vault / "memory" / "gateway.md")
    (vault / "loop").symlink_to(vault)
    (vault / "binary.md").write_bytes(b"kestrel\0\1")
    (vault / "huge.md").write_text("kestrel " * 200_000)
    os.mkfifo(vault / "pipe.md")
    (vault / "latin.md").write_bytes("café au lait".encode("latin-1"))
    (vault / "empty.md").touch()
    async with opened(home, vault, max_file_mb=1) as backend:
        assert not await ask(backend, "kestrel")
        assert (await first(backend, "lait")).text == "caf\ufffd au lait"
        assert len(await ask(backend, "listens port")) == 1
        assert sorted(await remarks(backend)) == [
            "workspace/binary.md: skipped: binary, or not UTF-8",
            "workspace/folder: skipped: a link that leads out of its folder",
            "workspace/huge.md: skipped: larger than 1 MB (`max_file_mb`)",
            "workspace/latin.md: 1 characters were not UTF-8 and are shown as \ufffd",
            "workspace/link.md: skipped: a link that leads out of its folder",
            "workspace/pipe.md: skipped: not a regular file",
        ]
        (vault / "binary.md").write_text("a kestrel after all")
        assert (await first(backend, "kestrel")).text == "a kestrel after all"


async def test_a_folder_that_disappears(home: Path, vault: Path, tmp_path: Path) -> None:
    """Its memories are gone while it is gone, that is said, and they come back with it."""
    async with opened(home, vault, tmp_path / "never") as backend:
        vault.rename(tmp_path / "away")
        assert not await ask(backend, "PostgreSQL")
        assert len([note for note in await remarks(backend) if "not there" in note]) == 2
        (tmp_path / "away").rename(vault)
        assert await ask(backend, "PostgreSQL")


async def test_a_folder_swapped_for_a_link_leads_nowhere(home: Path, vault: Path, tmp_path: Path) -> None:
    """A folder that becomes a link after it was listed is not followed."""
    from adapters.markdown.files import Unreadable, read, roots

    root = roots(home, [vault])[1]
    (vault / "memory").rename(tmp_path / "memory")
    (vault / "memory").symlink_to(tmp_path / "memory")
    with pytest.raises(Unreadable):
        read(root, "memory/gateway.md", 2**20)
    with pytest.raises(Unreadable):
        read(root, "../memory/gateway.md", 2**20)


async def test_what_the_scan_cannot_do_is_said(home: Path, vault: Path) -> None:
    """When the files cannot be followed, a search answers from what was known, and the description says why."""
    async with opened(home, vault) as backend:
        index, backend._sync.index = backend._index, cast(Index, BrokenIndex(backend._index))
        (vault / "new.md").write_text("kestrel")
        assert (await first(backend, "chose PostgreSQL")).text
        assert "no index today" in (await remarks(backend))[0]
        backend._sync.index = index
        assert await ask(backend, "kestrel")
        assert not await remarks(backend)


# What the gateway was told


@pytest.mark.parametrize("text", [text for text in NASTY if text.strip()])
async def test_texts_come_back_to_the_letter(home: Path, text: str) -> None:
    """Whatever a note contains, the files alone restore it and all that is known of it."""
    event = make_event(
        1,
        text,
        Scope(user_id="julien", session_id="s1"),
        kind="decision",
        raw_kind="adr",
        speaker="Kestrel --> Marta",
        at=Moment(NOW, "minute", "Europe/Paris"),
        place=Place("talk", 3, 3),
        trust="trusted",
        origin="agent",
        valid_from=NOW,
        derived_from=("e0",),
    )
    async with opened(home) as backend:
        await backend.remember([make_extracted(event)])
        reported = await first(backend, "kestrel")
    shutil.rmtree(home / "index")
    async with opened(home) as backend:
        read = await first(backend, "kestrel")
    expected = Hit.of(event, reported.native_id)
    assert replace(reported, score=None) == replace(read, score=None) == expected


async def test_remembering_twice_is_once(home: Path) -> None:
    """The same event again, in one batch, in two, or after reopening, is one entry under one id."""
    one, two = captured(1, "note one"), captured(2, "note two")
    async with opened(home) as backend:
        ids = await backend.remember([one, two, one])
        assert ids[0] == ids[2] != ids[1]
        assert await backend.remember([one]) == [ids[0]]
    async with opened(home) as backend:
        assert await backend.remember([two, one]) == [ids[1], ids[0]]
        assert await texts(backend) == {"note one", "note two"}
    assert sum(file.read_text().count("<!-- /memory -->") for file in home.rglob("*.md")) == 2


async def test_turns_only_by_setting(home: Path) -> None:
    """Turns are not written down unless the user wants it."""
    turn = make_event(1, "note one", kind="turn")
    async with opened(home) as backend:
        assert not backend.accepts(turn)
        assert backend.accepts(replace(turn, kind="fact"))
        assert "turn" not in backend.features.kinds
    async with opened(home, remember_turns=True) as backend:
        assert backend.accepts(turn)
        assert "turn" in backend.features.kinds


async def test_turns_stand_in_order_in_their_session(home: Path) -> None:
    """Neighbours of a turn are the turns before and after it, though they came in another order, in two batches."""
    turns = [captured(n, f"note {n} of Marta", kind="turn", place=Place("s1", n, n)) for n in (3, 1, 5, 2, 4)]
    other = captured(9, "note elsewhere", kind="turn", place=Place("s1", 3, 3), scope=Scope(user_id="marta"))
    async with opened(home, remember_turns=True) as backend:
        await backend.remember(turns[:2])
        await backend.remember([*turns[2:], other])
        hits = {hit.event_id: hit for hit in await ask(backend, "note Marta")}
        (around,) = await backend.neighbours([hits[event_id(3)]], 1)
        assert [hit.event_id for hit in around] == [event_id(2), event_id(4)]
        assert [[h.event_id for h in a] for a in await backend.neighbours([hits[event_id(9)]], 2)] == [[]]
        assert len(list((home / "notes" / "sessions").glob("*.md"))) == 2


async def test_neighbours_in_a_file(home: Path, vault: Path) -> None:
    """Chunks of a user's file are neighbours in the order of their lines."""
    (vault / "long.md").write_text("\n\n".join(f"# Part {n}\n\nkestrel {n}" for n in range(5)))
    async with opened(home, vault) as backend:
        hit = await first(backend, "kestrel 2")
        (around,) = await backend.neighbours([hit], 1)
        assert [near.text.split()[-1] for near in around] == ["1", "3"]


async def test_notes_of_a_day_are_no_neighbours(home: Path) -> None:
    """Two notes are not each other's context because they were made on one day."""
    async with opened(home) as backend:
        await backend.remember(make_samples())
        assert await backend.neighbours([await first(backend, SAMPLES[0][0])], 2) == [[]]


async def test_a_long_note_is_found_by_any_part(home: Path) -> None:
    """…and comes back whole, once."""
    text = "\n\n".join(
        f"Paragraph {n}: {word} " + "filler " * 40 for n, word in enumerate(["kestrel", "osprey", "heron"])
    )
    async with opened(home, chunk_tokens=80, chunk_overlap=10) as backend:
        (ids,) = await backend.remember([captured(1, text)])
        for word in ("kestrel", "osprey", "heron"):
            (hit,) = await ask(backend, word)
            assert (hit.text, hit.native_id) == (text, ids[0])


async def test_a_crash_in_the_middle_of_a_write(home: Path) -> None:
    """What was acknowledged is there; the torn entry is gone, and remembering it again makes it whole."""
    one, two = captured(1, "note one"), captured(2, "note two, which was cut")
    async with opened(home) as backend:
        await backend.remember([one])
        await backend.remember([two])
    (file,) = (home / "notes").glob("*.md")
    file.write_bytes(file.read_bytes()[:-40])
    async with opened(home) as backend:
        assert await texts(backend) == {"note one"}
        await backend.remember([two])
        assert await texts(backend) == {"note one", "note two, which was cut"}
        assert not await remarks(backend)


@pytest.mark.row(
    "A058",
    "\"remember this\" is written at once (`memory_store`) to the gateway's own folder; the user's "
    "MEMORY.md is never written",
)
@pytest.mark.row(
    "A058",
    "Markdown: a new memory is on disk at once, in the gateway's own folder; the user's MEMORY.md is never written",
)
async def test_what_is_remembered_is_on_disk_at_once_and_nothing_of_the_users_is_written(
    home: Path, vault: Path
) -> None:
    """A preference, a decision, a fact: each stands in the gateway's own folder when it is acknowledged, and MEMORY.md
    and every other file of the user's are to the byte and the nanosecond what they were."""

    def users() -> list[tuple[str, int, bytes]]:
        files = sorted(path for path in vault.rglob("*") if path.is_file())
        return [(path.name, path.stat().st_mtime_ns, path.read_bytes()) for path in files]

    before = users()
    assert "MEMORY.md" in [name for name, _, _ in before]
    async with opened(home, vault) as backend:
        for number, kind in enumerate(("preference", "decision", "fact"), start=1):
            await backend.remember([captured(number, f"Remember this: the {kind} of the kestrel", kind=kind)])
            kept = "".join(path.read_text(encoding="utf-8") for path in (home / "notes").rglob("*.md"))
            assert f"the {kind} of the kestrel" in kept
        assert len(await ask(backend, "kestrel")) == 3
    assert users() == before


@pytest.mark.feature("… a batch is one write for each file, and reads no file again", of="Markdown: a new memory is on")
async def test_a_batch_is_one_write_a_file(home: Path) -> None:
    """Many turns of one session grow one file by its end, and it is not read again: its table is in step."""
    async with opened(home, remember_turns=True) as backend:
        for start in range(0, 600, 200):
            batch = [captured(n, f"note {n}", kind="turn", place=Place("s1", n, n)) for n in range(start, start + 200)]
            await backend.remember(batch)
            await backend.refresh()
            (document,) = backend._sync.table.documents.values()
            assert document.digest is None
            assert document.signature is not None
        assert (await backend.describe()).items == 600


async def test_a_failed_write_leaves_no_partial_entry(home: Path) -> None:
    """When the index fails after the file was written, the next try brings all into step, with one entry."""
    async with opened(home) as backend:
        index, backend._index = backend._index, cast(Index, BrokenIndex(backend._index))
        with pytest.raises(OSError, match="no index today"):
            await backend.remember([captured(1, "note one")])
        backend._index = index
        await backend.remember([captured(1, "note one"), captured(2, "note two")])
        assert await texts(backend) == {"note one", "note two"}
    assert sum(file.read_text().count("<!-- /memory -->") for file in home.rglob("*.md")) == 2


class BrokenIndex:
    """An index that takes nothing, and answers from what it has."""

    def __init__(self, index: Index) -> None:
        self.index = index

    async def put(self, entries: object) -> None:
        raise OSError("no index today")

    def __getattr__(self, name: str) -> object:
        return getattr(self.index, name)


async def test_what_a_user_edits_in_our_folder_counts(home: Path) -> None:
    """An entry corrected or deleted by hand is corrected or gone; lines added by hand are found, as a user's."""
    async with opened(home) as backend:
        await backend.remember([captured(1, "note one"), captured(2, "note two")])
        (file,) = (home / "notes").glob("*.md")
        text = file.read_text().replace("note one", "note one, corrected") + "\nBy hand: three.\n"
        file.write_text(text)
        assert await texts(backend) == {"note one, corrected", "note two", "By hand: three."}
        assert (await first(backend, "corrected")).event_id == event_id(1)
        hand = await first(backend, "by hand three")
        assert await backend.forget(event_id(9), [hand.native_id]) == "hidden"
        file.write_text(text[text.index("By hand") :])
        assert await texts(backend) == {"By hand: three."}


async def test_a_day_file_may_be_edited_between_two_notes(home: Path) -> None:
    """An edit that no scan has seen yet is not lost when the gateway adds to the same file."""
    async with opened(home) as backend:
        await backend.remember([captured(1, "note one")])
        (file,) = (home / "notes").glob("*.md")
        file.write_text(file.read_text() + "By hand: three.\n")
        await backend.remember([captured(2, "note two")])
        assert await texts(backend) == {"note one", "note two", "By hand: three."}


async def test_forgetting(home: Path, vault: Path) -> None:
    """Our own entries are deleted from file and index; a user's file is left as it is; the unknown is absent."""
    async with opened(home, vault) as backend:
        ids = await backend.remember([captured(1, "note one"), captured(2, "note two")])
        assert await backend.forget(event_id(1), ids[0]) == "deleted"
        assert await texts(backend) >= {"note two"}
        assert "note one" not in await texts(backend)
        assert not any("note one" in file.read_text() for file in home.rglob("*.md"))
        assert await backend.forget(event_id(1), ids[0]) == "absent"
        chunk = await first(backend, "chose PostgreSQL")
        assert await backend.forget(event_id(7), [chunk.native_id]) == "hidden"
        assert (await first(backend, "chose PostgreSQL")).native_id == chunk.native_id
        assert await backend.forget(event_id(2), []) == "deleted"
        assert not list((home / "notes").glob("*.md"))


async def test_forgetting_takes_every_copy(home: Path) -> None:
    """A copy of a day's file, or of an entry within it, keeps nothing back."""
    async with opened(home) as backend:
        await backend.remember([captured(1, "note one"), captured(2, "note two")])
        (file,) = (home / "notes").glob("*.md")
        (home / "notes" / "copy.md").write_text(file.read_text() * 2)
        assert len(await ask(backend, "note one")) == 2
        assert await backend.forget(event_id(1), []) == "deleted"
        assert not any("note one" in file.read_text() for file in home.rglob("*.md"))
        assert await texts(backend) == {"note two"}


async def test_an_imported_file_is_not_copied(home: Path, vault: Path) -> None:
    """Lines of a file that is under a root already are acknowledged with the chunks they are in."""
    path = vault / "memory" / "2026-02-03.md"
    place = Place("memory/2026-02-03.md", 5, 5, "line")
    imported = captured(1, "We chose PostgreSQL for orders.", place=place, source=f"file:{path}")
    stranger = captured(2, "note two", place=place, source=f"file:{vault.parent / 'elsewhere.md'}")
    other = captured(3, "note three", place=place, source=f"file:{path}", scope=Scope(user_id="julien"))
    async with opened(home, vault) as backend:
        ids = await backend.remember([imported, stranger, other])
        assert ids[0] == ("workspace/memory/2026-02-03.md#L1-L5",)
        assert [hit.text for hit in await ask(backend, "PostgreSQL")] == [(await first(backend, "PostgreSQL")).text]
        assert await backend.forget(event_id(1), ids[0]) == "hidden"
        assert (await first(backend, "note two")).event_id == event_id(2)
        # The files are nobody's in particular: who asks as julien would not find them, so he has his own entry.
        assert [h.event_id for h in await ask(backend, "note three", Scope(user_id="julien"))] == [event_id(3)]


async def test_as_of_and_known_at(home: Path) -> None:
    """What had not happened, was no longer so, or was not yet recorded is left out. What has no other time holds since
    it was recorded; what has ended is found where the past is asked about."""
    day = timedelta(days=1)
    async with opened(home) as backend:
        await backend.remember(
            [
                captured(1, "note one", at=Moment(NOW - 5 * day)),
                captured(2, "note two", valid_from=NOW - 3 * day, valid_to=NOW - day),
                captured(3, "note three", recorded_at=NOW - 2 * day),
            ]
        )

        async def found(**when: datetime) -> set[str | None]:
            query = Query("note one two three", PRIVATE, NOW, **when)  # type: ignore[arg-type]
            return {hit.event_id for hit in await backend.search(query)}

        one, two, three = event_id(1), event_id(2), event_id(3)
        assert await found() == {one, three}
        assert await found(as_of=NOW - 6 * day) == set()
        assert await found(as_of=NOW - 2 * day) == {one, two, three}
        assert await found(as_of=NOW) == {one, three}
        assert await found(known_at=NOW - 4 * day) == {one}
        assert await found(known_at=NOW - 4 * day, as_of=NOW - 2 * day) == {one, two}


async def test_filters_do_not_eat_the_limit(home: Path) -> None:
    """Hits that another time hides make room for those behind them."""
    async with opened(home) as backend:
        late = [captured(n, "note kestrel", at=Moment(NOW)) for n in range(1, 9)]
        await backend.remember(
            [*late, captured(20, "an old note, long ago, of some kestrel", at=Moment(NOW - timedelta(9)))]
        )
        hits = await backend.search(Query("note kestrel", PRIVATE, NOW, limit=2, as_of=NOW - timedelta(1)))
        assert [hit.event_id for hit in hits] == [event_id(20)]


@pytest.mark.feature("Markdown: a search during changes sees each file's old or new state")
async def test_a_search_sees_the_old_or_the_new_state(home: Path, vault: Path) -> None:
    """While a file is rewritten over and over with its lines moving, every search finds it once, never not."""
    file = vault / "moving.md"
    file.write_text("kestrel 0\n")
    async with opened(home, vault) as backend:

        async def rewrite() -> None:
            for n in range(1, 40):
                (vault / "swap").write_text("\n" * n + f"kestrel {n}\n")
                (vault / "swap").rename(file)
                await backend.refresh()

        writer = asyncio.create_task(rewrite())
        while not writer.done():
            hits = await ask(backend, "kestrel")
            assert len(hits) == 1
            place = hits[0].place
            assert place is not None
            assert hits[0].text == f"kestrel {place.start - 1}"
        await writer


async def test_a_caller_who_leaves_breaks_nothing(home: Path) -> None:
    """A cancelled ``remember`` is still brought to its end."""
    async with opened(home) as backend:
        task = asyncio.create_task(backend.remember([captured(1, "note one")]))
        await asyncio.sleep(0)
        task.cancel()
        with pytest.raises(asyncio.CancelledError):
            await task
        await backend.settle()
        await backend.remember([captured(1, "note one")])
        assert [hit.text for hit in await ask(backend, "note one")] == ["note one"]


async def test_a_note_that_cannot_be_restored_is_refused(home: Path) -> None:
    """What its file could not say again is not written: the whole batch is refused, and nothing is stored."""
    naive = captured(1, "note one", valid_from=datetime(2026, 1, 1))  # noqa: DTZ001 the fault under test
    async with opened(home) as backend:
        with pytest.raises(BadInput, match="zone"):
            await backend.remember([naive, captured(2, "note two")])
        assert await texts(backend) == set()


# Settings


@pytest.mark.parametrize(
    "options",
    [
        {"path": ["x"]},
        {"paths": "x"},
        {"paths": [""]},
        {"bind": {"user": "x"}},
        {"bind": {"user_id": ""}},
        {"private": "MEMORY.md"},
        {"remember_turns": "yes"},
        {"chunk_tokens": 3},
        {"chunk_tokens": True},
        {"chunk_tokens": 100, "chunk_overlap": 100},
        {"max_file_mb": float("nan")},
        {"scan_interval_s": -1},
    ],
)
async def test_settings_that_make_no_sense(home: Path, options: dict[str, object]) -> None:
    """A wrong setting is named, with what it may be."""
    with pytest.raises(SettingsError, match=r"\[backends\.markdown\]"):
        await Markdown.open(opening(home, "markdown", **options))


async def test_a_path_in_our_own_folder_is_refused(home: Path) -> None:
    """The gateway's notes keep their scopes: they cannot be read a second time as a user's files."""
    with pytest.raises(SettingsError, match="own folder"):
        await Markdown.open(opening(home, "markdown", paths=[str(home / "notes")]))


async def test_says_when_there_is_no_model(home: Path, vault: Path) -> None:
    """Without an embedder it finds by words, and says so."""
    async with opened(home, vault) as backend:
        assert (await first(backend, "chose PostgreSQL")).text
        assert (await backend.describe()).notes[0].startswith("found by words only")
    async with opened(home, vault, embedder=FakeEmbedder()) as backend:
        description = await backend.describe()
        assert not description.notes
        assert description.vectors == description.items
