"""Folders of notes as memory while the server runs: what changed there is journalled, and nothing else is touched."""

from __future__ import annotations

import asyncio
import os
import sys
from collections.abc import AsyncIterator, Sequence
from contextlib import suppress
from pathlib import Path

import pytest

from fusion.contract import Query, Scope
from fusion.errors import BadInput, StoreBusy, StoreFull
from fusion.gateway.gateway import Gateway
from fusion.ingest.deliver import Deliverer
from fusion.ingest.forget import Forgetter
from fusion.ingest.intake import Acknowledged, Intake, NewMemory
from fusion.journal import Journal
from fusion.sources import note_watcher
from fusion.sources.ingest_lock import lock_for_command, lock_for_server
from fusion.sources.note_watcher import NoteWatcher
from tests.patience import load

ADA = Scope(user_id="ada", audience="private")


class Keeping(Intake):
    """A home's intake that counts what it gets, with scripted failures."""

    def __init__(self, journal: Journal) -> None:
        super().__init__(journal, Deliverer(journal, {}))
        self.journal = journal
        self.handed: list[str] = []
        self.full_after: int | None = None
        self.fault: Exception | None = None
        self.changed = asyncio.Event()

    async def remember(
        self, items: Sequence[NewMemory], *, tenant: str = "default", idempotency_key: str | None = None
    ) -> Sequence[Acknowledged]:
        if self.fault is not None:
            raise self.fault
        if self.full_after is not None and len(self.handed) + len(items) > self.full_after:
            raise StoreFull("no space left")
        self.handed += [item.text for item in items]
        return await super().remember(items, tenant=tenant, idempotency_key=idempotency_key)

    async def retire(self, scope, files, *, dry_run=False):
        retired = await super().retire(scope, files, dry_run=dry_run)
        self.changed.set()
        return retired

    async def texts(self) -> set[str]:
        """What is current."""
        return {record.event.text for record in (await self.journal.page(ADA, 1000)).records}

    async def until(self, *texts: str) -> None:
        """Waits until these are current and nothing else."""
        while await self.texts() != set(texts):
            self.changed.clear()
            if await self.texts() != set(texts):
                await self.changed.wait()


@pytest.fixture
def home(tmp_path: Path) -> Path:
    (tmp_path / "home").mkdir()
    return tmp_path / "home"


@pytest.fixture
async def keeps(home: Path) -> AsyncIterator[Keeping]:
    journal = await Journal.open(home / "journal.sqlite")
    yield Keeping(journal)
    await journal.close()


@pytest.fixture
def folder(tmp_path: Path) -> Path:
    """Two notes, one of them deeper."""
    (tmp_path / "notes" / "sub").mkdir(parents=True)
    (tmp_path / "notes" / "bike.md").write_text("The bike is blue.")
    (tmp_path / "notes" / "sub" / "shed.md").write_text("The shed is dry.")
    return tmp_path / "notes"


def follower(home: Path, keeps: Keeping, *paths: Path) -> NoteWatcher:
    return NoteWatcher(paths, Scope(user_id="ada"), home, keeps)


async def look(follow: NoteWatcher) -> int:
    """A round over everything, as one that comes by itself now and then."""
    follow._add_changes(None)
    return await follow.round()


@pytest.mark.feature(
    "… written, edited and deleted text is current, and no other file is read",
    of="`[notes]`: every backend answers",
)
async def test_note_watcher_keeps_memories_as_notes_are_edited_and_deleted(home, keeps, folder) -> None:
    """Each round reads what changed, and only that."""
    follow = follower(home, keeps, folder)
    assert await follow.round() == 2
    assert await keeps.texts() == {"The bike is blue.", "The shed is dry."}
    (folder / "bike.md").write_text("The bike is green.")
    (folder / "new.md").write_text("The key is under the pot.")
    assert await look(follow) == 2
    assert await keeps.texts() == {"The bike is green.", "The shed is dry.", "The key is under the pot."}
    (folder / "new.md").unlink()
    (folder / "sub" / "shed.md").write_text("")
    assert await look(follow) == 2
    assert await keeps.texts() == {"The bike is green."}
    assert keeps.handed[:2] == ["The bike is blue.", "The shed is dry."]
    assert sorted(keeps.handed[2:]) == ["The bike is green.", "The key is under the pot."]


@pytest.mark.feature(
    "… written, edited and deleted text is current, and no other file is read",
    of="`[notes]`: every backend answers",
)
async def test_note_watcher_reads_no_unchanged_file(home, keeps, folder) -> None:
    """Nor by the next server: bookmarks are the home's, and an edit while none ran is seen by its first round."""
    await follower(home, keeps, folder).round()
    assert await follower(home, keeps, folder).round() == 0
    (folder / "bike.md").write_text("The bike is green.")
    assert await follower(home, keeps, folder).round() == 1
    assert await keeps.texts() == {"The bike is green.", "The shed is dry."}


@pytest.mark.feature("… also after an edit that keeps size and time", of="`[notes]`: every backend answers")
async def test_an_edit_is_seen_whose_time_was_put_back(home, keeps, folder) -> None:
    """And that left the size as it was, as `rsync --times --inplace` does."""
    follow = follower(home, keeps, folder)
    await follow.round()
    before = (folder / "bike.md").stat()
    (folder / "bike.md").write_text("The bike is pink.")
    while (folder / "bike.md").stat().st_ctime_ns == before.st_ctime_ns:  # the clock of a file system may be coarse
        os.utime(folder / "bike.md", ns=(before.st_atime_ns, before.st_mtime_ns))
    os.utime(folder / "bike.md", ns=(before.st_atime_ns, before.st_mtime_ns))
    assert (await look(follow), await look(follow)) == (1, 0)
    assert await keeps.texts() == {"The bike is pink.", "The shed is dry."}


@pytest.mark.feature(
    "… one changed note is read alone; links, hidden files and other kinds are skipped",
    of="`[notes]`: every backend answers",
)
async def test_note_watcher_checks_only_changed_paths(home, keeps, folder) -> None:
    """A note by its path; links, hidden files and files of other kinds are passed over as a walk passes over them; what
    is gone, and a folder, takes a look at everything, unless nothing is known of it."""
    follow = follower(home, keeps, folder)
    await follow.round()
    (folder / "bike.md").write_text("The bike is green.")
    (folder / "sub" / "shed.md").write_text("The shed is wet.")
    (folder / ".hidden.md").write_text("not meant")
    (folder / "picture.png").write_text("not meant")
    (folder / "link.md").symlink_to(folder / "sub" / "shed.md")
    (folder / "way").symlink_to(folder / "sub")
    names = ("bike.md", ".hidden.md", "picture.png", "link.md", "way/shed.md", "never-there.md")
    follow._add_changes({folder / name for name in names} | {folder.parent / "elsewhere.md"})
    assert await follow.round() == 1
    assert await keeps.texts() == {"The bike is green.", "The shed is dry."}
    follow._add_changes({folder / "sub"})
    assert await follow.round() == 1
    (folder / "sub").rename(folder.parent / "moved")
    follow._add_changes({folder / "sub"})
    assert await follow.round() == 1
    assert await keeps.texts() == {"The bike is green."}


@pytest.mark.feature(
    "… a missing disk, and a note that cannot be read, retire nothing and are reported",
    of="`[notes]`: every backend answers",
)
async def test_a_disk_that_is_away_retires_nothing(home, keeps, folder) -> None:
    """Neither if the folder is missing nor if it is empty; it is reported, and edits made meanwhile are read."""
    follow = follower(home, keeps, folder)
    await follow.round()
    for empty in (False, True):
        folder.rename(folder.parent / "away")
        if empty:
            folder.mkdir()
        assert await look(follow) == 0
        assert follow.faults == [f"{folder} is away or empty: what was read of it is kept"]
        assert len(await keeps.texts()) == 2
        (folder.parent / "away" / "bike.md").write_text(f"The bike is {'red' if empty else 'green'}.")
        if empty:
            folder.rmdir()
        (folder.parent / "away").rename(folder)
        assert (await look(follow), follow.faults) == (1, [])
    assert await keeps.texts() == {"The bike is red.", "The shed is dry."}


@pytest.mark.feature(
    "… a disk mounted below a followed folder is kept if it is followed itself", of="`[notes]`: every backend answers"
)
async def test_a_disk_below_a_followed_folder_is_kept_when_it_is_followed_itself(home, keeps, folder) -> None:
    """Its mount point is empty: the folder around it would have its notes retired, as it has those deleted there."""
    follow = follower(home, keeps, folder, folder / "sub")
    await follow.round()
    (folder / "sub" / "shed.md").unlink()
    assert await look(follow) == 0
    assert follow.faults == [f"{folder / 'sub'} is away or empty: what was read of it is kept"]
    assert len(await keeps.texts()) == 2
    assert await look(follower(home, keeps, folder)) == 1
    assert await keeps.texts() == {"The bike is blue."}


@pytest.mark.feature(
    "… a named file that is deleted and a note that became a link are retired; a name that never existed is reported",
    of="`[notes]`: every backend answers",
)
async def test_a_named_file_that_is_deleted_is_retired(home, keeps, folder) -> None:
    """While its folder is there with something else in it: a missing or an empty one may be a disk that is away."""
    single = folder / "sub" / "shed.md"
    follow = follower(home, keeps, single)
    await follow.round()
    (folder / "sub").rename(folder / "away")
    for empty in (False, True):
        if empty:
            (folder / "sub").mkdir()
        follow._add_changes({single})
        assert await follow.round() == 0
        assert follow.faults == [f"{single} is away or empty: what was read of it is kept"]
        assert await keeps.texts() == {"The shed is dry."}
    (folder / "sub" / "other.md").write_text("not meant")
    follow._add_changes({single})
    assert await follow.round() == 1
    assert await keeps.texts() == set()
    assert (await look(follow), follow.faults) == (0, [f"{single} is away or empty"])


@pytest.mark.feature(
    "… a named file that is deleted and a note that became a link are retired; a name that never existed is reported",
    of="`[notes]`: every backend answers",
)
async def test_a_note_that_became_a_link_is_retired(home, keeps, folder) -> None:
    """As one that is deleted, whether it is the file or a folder on the way, and wherever the link leads: none is
    followed. Told of alone or found by a look at everything."""
    follow = follower(home, keeps, folder)
    await follow.round()
    (folder / "bike.md").rename(folder.parent / "bike.md")
    (folder / "bike.md").symlink_to(folder.parent / "bike.md")
    (folder / "new.md").write_text("The key is under the pot.")
    follow._add_changes({folder / "bike.md"})
    assert await follow.round() == 2
    assert await keeps.texts() == {"The key is under the pot.", "The shed is dry."}
    (folder / "sub").rename(folder.parent / "sub")
    (folder / "sub").symlink_to(folder.parent / "sub")
    assert (await look(follow), follow.faults) == (1, [])
    assert await keeps.texts() == {"The key is under the pot."}


@pytest.mark.feature(
    "… a named file that is deleted and a note that became a link are retired; a name that never existed is reported",
    of="`[notes]`: every backend answers",
)
async def test_note_watcher_reports_a_note_that_the_walk_does_not_find(home, keeps, folder) -> None:
    """What stands in its place is no file, say: it is answered as it was until there is a note or nothing. Of what is
    left out, and of other kinds of files, nothing is said."""
    await keeps.remember(
        [NewMemory("A line.", Scope(user_id="ada"), source=f"file:{folder / 'log.jsonl'}", revision="r")]
    )
    (folder / "log.jsonl").write_text("{}")
    follow = follower(home, keeps, folder)
    await follow.round()
    (folder / "bike.md").unlink()
    (folder / "bike.md").mkdir()
    assert await look(follow) == 0
    assert follow.faults == [
        f"notes that cannot be read keep their earlier memories: {folder / 'bike.md'}: is a directory"
    ]
    ignoring = NoteWatcher([folder], Scope(user_id="ada"), home, keeps, ignore=("bike.md",))
    assert (await ignoring.round(), ignoring.faults) == (0, [])
    assert await keeps.texts() == {"The bike is blue.", "The shed is dry.", "A line."}
    (folder / "bike.md").rmdir()
    assert (await look(follow), follow.faults) == (1, [])
    assert await keeps.texts() == {"The shed is dry.", "A line."}


async def test_note_watcher_reads_the_rest_where_a_path_cannot_be_checked(home, keeps, folder) -> None:
    """A path that the system refuses to tell of (of 300 letters, which root is refused as well), told of in one round
    and followed beside the folder: the round goes on, and the second is told as away."""
    closed = folder.parent / ("x" * 300) / "notes"
    follow = follower(home, keeps, closed, folder)
    assert await follow.round() == 2
    assert follow.faults == [f"{closed} is away or empty"]
    (folder / "bike.md").write_text("The bike is green.")
    follow._add_changes({folder / "bike.md", folder / ("x" * 300) / "a.md", folder / ("x" * 300 + ".md")})
    assert await follow.round() == 1
    assert await keeps.texts() == {"The bike is green.", "The shed is dry."}
    hearing = asyncio.create_task(follow._follow(closed))
    await asyncio.wait([hearing], timeout=0.1)
    assert not hearing.done()
    hearing.cancel()


@pytest.mark.feature(
    "… a missing disk, and a note that cannot be read, retire nothing and are reported",
    of="`[notes]`: every backend answers",
)
async def test_a_note_that_cannot_be_read_is_answered_as_it_was(home, keeps, folder) -> None:
    """For example no longer UTF-8: nothing is retired, the fault is reported until fixed, and the others are read."""
    follow = follower(home, keeps, folder)
    await follow.round()
    (folder / "bike.md").write_bytes(b"The bike is gr\xfcn.")
    (folder / "sub" / "shed.md").write_text("The shed is wet.")
    await look(follow)
    assert await keeps.texts() == {"The bike is blue.", "The shed is wet."}
    assert follow.faults == [f"notes that cannot be read keep their earlier memories: {folder / 'bike.md'}: not UTF-8"]
    (folder / "bike.md").write_text("The bike is green.")
    await look(follow)
    assert (await keeps.texts(), follow.faults) == ({"The bike is green.", "The shed is wet."}, [])


@pytest.mark.feature("… an interrupted read continues", of="`[notes]`: every backend answers")
async def test_a_round_that_breaks_off_is_gone_on_with(home, keeps, tmp_path) -> None:
    """The disk is full in the middle of the second of two files: the first counts as read, the second is read again as
    a whole, and what it had before is not retired until it is."""
    folder = tmp_path / "long"
    folder.mkdir()
    for name in ("a", "b"):
        (folder / f"{name}.md").write_text("\n\n".join(f"# {name} {n}\n\n{'word ' * 300}" for n in range(40)))
    follow = follower(home, keeps, folder)
    await follow.round()
    before, each = await keeps.texts(), len(keeps.handed) // 2
    assert each > note_watcher.BATCH
    for name in ("a", "b"):
        text = (folder / f"{name}.md").read_text()
        (folder / f"{name}.md").write_text(text.replace("word", "ward"))
    keeps.handed.clear()
    keeps.full_after = each + note_watcher.BATCH
    with pytest.raises(StoreFull):
        await look(follow)
    assert {text for text in before if text.startswith("# b")} < await keeps.texts()
    keeps.handed.clear()
    keeps.full_after = None
    assert await follower(home, keeps, folder).round() == 1
    assert all(text.startswith("# b") for text in keeps.handed)
    assert not [text for text in await keeps.texts() if "word" in text]
    assert len(await keeps.texts()) == 2 * each


@pytest.mark.parametrize("fault", [StoreFull("no space left"), ValueError("a slip of ours")])
async def test_note_watcher_reports_a_failed_round_and_tries_again(home, keeps, folder, fault) -> None:
    """Whatever failed; changes reported by then are not lost."""
    follow = follower(home, keeps, folder)
    assert await follow._attempt() == follow.every_s
    (folder / "bike.md").write_text("The bike is green.")
    follow._add_changes({folder / "bike.md"})
    keeps.fault = fault
    assert await follow._attempt() == note_watcher.RETRY_S
    [told] = follow.faults
    assert told.startswith("notes are not followed now, which is tried again: ")
    assert str(fault) in told
    keeps.fault = None
    assert (await follow._attempt(), follow.faults) == (follow.every_s, [])
    assert await keeps.texts() == {"The bike is green.", "The shed is dry."}


@pytest.mark.feature(
    "… it waits for `fusion ingest`, and does not read the same files again", of="`[notes]`: every backend answers"
)
async def test_the_server_waits_for_a_command_that_reads(home, keeps, folder) -> None:
    """Else the one that read a file first would retire, at its end, what the other has remembered since. Commands read
    beside each other; what the command was done with is not waited for."""
    follow = follower(home, keeps, folder)
    async with lock_for_command(home), lock_for_command(home) as done:
        with pytest.raises(StoreBusy):
            await follow.round()
        done()
        with pytest.raises(StoreBusy):
            await follow.round()
    assert keeps.handed == []
    assert await follow.round() == 2
    with lock_for_server(home):
        waiting = asyncio.create_task(lock_for_command(home).__aenter__())
        with pytest.raises(TimeoutError):
            await asyncio.wait_for(asyncio.shield(waiting), 0)
    await waiting


async def test_lock_of_a_missing_home_is_not_awaited(tmp_path) -> None:
    """And is not made."""
    async with lock_for_command(tmp_path / "none"), lock_for_command(None):
        assert not (tmp_path / "none").exists()


@pytest.mark.feature(
    "… a lock that is a link is not followed; a read-only home keeps no command waiting",
    of="`[notes]`: every backend answers",
)
async def test_a_lock_that_is_a_link_is_not_followed(home, keeps, folder, tmp_path) -> None:
    """Nothing is created at its target; the message says to delete it."""
    (home / "ingest.lock").symlink_to(tmp_path / "elsewhere")
    with pytest.raises(BadInput, match=r"ingest\.lock is a link, which is not followed: delete it"):
        await follower(home, keeps, folder).round()
    with pytest.raises(BadInput, match="is a link"):
        await lock_for_command(home).__aenter__()
    assert not (tmp_path / "elsewhere").exists()


@pytest.mark.feature(
    "… a lock that is a link is not followed; a read-only home keeps no command waiting",
    of="`[notes]`: every backend answers",
)
async def test_lock_of_a_read_only_home_is_not_awaited(tmp_path) -> None:
    """A command sends what it reads to the server, and needs no more than the server's address of the home."""
    (tmp_path / "closed").mkdir(mode=0o500)
    if os.access(tmp_path / "closed", os.W_OK):
        pytest.skip("root may write everywhere")
    async with lock_for_command(tmp_path / "closed"):
        assert list((tmp_path / "closed").iterdir()) == []


async def test_note_watcher_restores_memories_that_were_retired_elsewhere(home, keeps, folder) -> None:
    """A bookmark is believed while the journal has as many memories of the file as then: what was retired by another
    hand comes back, and what was forgotten does not."""
    follow = follower(home, keeps, folder)
    await follow.round()
    await keeps.journal.retire(Scope(user_id="ada"), [note_watcher.CompleteFile(f"file:{folder / 'bike.md'}")])
    assert await keeps.texts() == {"The shed is dry."}
    assert (await look(follow), await look(follow)) == (1, 0)
    assert await keeps.texts() == {"The bike is blue.", "The shed is dry."}
    [shed] = [r for r in (await keeps.journal.page(ADA, 9)).records if "shed" in r.event.text]
    await Forgetter(keeps.journal, Deliverer(keeps.journal, {})).forget(shed.ref, ADA)
    assert (await look(follow), await look(follow)) == (1, 0)
    assert await keeps.texts() == {"The bike is blue."}


@pytest.mark.feature(
    "… the settings name the owner of notes; what another user ingested stays theirs",
    of="`[notes]`: every backend answers",
)
async def test_notes_are_whose_the_settings_say(home, keeps, folder) -> None:
    """What another user ingested of the same file is theirs, and MEMORY.md is for no group."""
    await keeps.remember(
        [NewMemory("The bike was red.", Scope(user_id="ben"), source=f"file:{folder / 'bike.md'}", revision="r")]
    )
    (folder / "MEMORY.md").write_text("The alarm is off.")
    await follower(home, keeps, folder).round()
    assert await keeps.texts() == {"The bike is blue.", "The shed is dry.", "The alarm is off."}
    ben = (await keeps.journal.page(Scope(user_id="ben"), 9)).records
    assert [record.event.text for record in ben] == ["The bike was red."]
    group = (await keeps.journal.page(Scope(user_id="ada", audience="group"), 9)).records
    assert {record.event.text for record in group} == {"The bike is blue.", "The shed is dry."}


@pytest.mark.feature("… files matched by `ignore` are not read", of="`[notes]`: every backend answers")
async def test_note_watcher_reads_no_ignored_file(home, keeps, folder) -> None:
    """By a folder's name or a file's, however it is found; what was read of it before stays until it is forgotten."""
    await follower(home, keeps, folder).round()
    (folder / "sub" / "shed.md").write_text("The shed is wet.")
    (folder / "bike.tmp.md").write_text("The bike is")
    (folder / "new.md").write_text("The key is under the pot.")
    follow = NoteWatcher([folder], Scope(user_id="ada"), home, keeps, ignore=("sub/", "*.tmp.md"))
    assert await follow.round() == 1
    follow._add_changes({folder / "sub" / "shed.md", folder / "bike.tmp.md"})
    assert await follow.round() == 0
    assert await keeps.texts() == {"The bike is blue.", "The shed is dry.", "The key is under the pot."}
    named = NoteWatcher([folder / "bike.tmp.md"], Scope(user_id="ada"), home, keeps, ignore=("*.tmp.md",))
    assert await named.round() == 1


@pytest.mark.feature(
    "… by change events of folders and files, also after another folder has taken its place",
    of="`[notes]`: every backend answers",
)
async def test_it_hears_of_changes_in_a_folder_and_of_a_file(home, keeps, folder, tmp_path) -> None:
    """Files that are edited, replaced and deleted, and another folder in the followed one's place: all by notices, for
    by itself it would look again in five minutes only."""
    single = tmp_path / "single" / "todo.md"
    single.parent.mkdir()
    single.write_text("Buy tyres.")
    follow = follower(home, keeps, folder, single)
    running = asyncio.create_task(follow.run())
    try:
        await keeps.until("The bike is blue.", "The shed is dry.", "Buy tyres.")
        (folder / "bike.md").write_text("The bike is green.")
        await keeps.until("The bike is green.", "The shed is dry.", "Buy tyres.")
        (tmp_path / "single" / "todo.tmp").write_text("Buy brakes.")
        (tmp_path / "single" / "todo.tmp").rename(single)
        await keeps.until("The bike is green.", "The shed is dry.", "Buy brakes.")
        (folder / "sub" / "shed.md").unlink()
        await keeps.until("The bike is green.", "Buy brakes.")
        folder.rename(tmp_path / "earlier")
        folder.mkdir()
        (folder / "bike.md").write_text("The bike is red.")
        await keeps.until("The bike is red.", "Buy brakes.")
        (folder / "bike.md").write_text("The bike is black.")
        await keeps.until("The bike is black.", "Buy brakes.")
        assert await keeps.texts() == {"The bike is black.", "Buy brakes."}
    finally:
        running.cancel()
        with suppress(asyncio.CancelledError):
            await running


def settings_of(home: Path, *folders: Path):
    plain = {"backends_only": True, "embedder": {"adapter": ""}}
    plain["backends"] = {"memory": {"adapter": "adapters.inmemory:InMemory"}}
    return load(home=home, notes={"paths": [str(folder) for folder in folders], "user_id": "ada"}, **plain)


@pytest.mark.feature(
    "… a home's first answer includes edits made while it was closed", of="`[notes]`: every backend answers"
)
async def test_a_home_answers_with_edits_made_while_it_was_closed(home, folder) -> None:
    """Its first answer does, and faults are in its status; without paths nothing is followed."""
    async with Gateway.open(settings_of(home, folder)):
        pass
    (folder / "bike.md").write_text("The bike is green.")
    async with Gateway.open(settings_of(home, folder)) as fusion:
        await fusion.note_watcher.first_round_done.wait()  # an open home waits a second for it, no longer
        kept = (await fusion.memories(ADA))["memories"]
        assert {memory["text"] for memory in kept} == {"The bike is green.", "The shed is dry."}
        assert (await fusion.status())["notes"] == list(fusion.notes)
    folder.rename(folder.parent / "away")
    async with Gateway.open(settings_of(home, folder)) as fusion:
        await fusion.note_watcher.first_round_done.wait()
        assert (await fusion.status())["notes"][-1] == f"{folder} is away or empty: what was read of it is kept"
        assert len((await fusion.memories(ADA))["memories"]) == 2
    async with Gateway.open(settings_of(home)) as fusion:
        assert fusion.note_watcher is None


def watches_of(folder: Path) -> int:
    """How often this process watches a folder, by the watches that the system counts."""
    inode = f" ino:{folder.stat().st_ino:x} "
    count = 0
    for descriptor in Path("/proc/self/fdinfo").iterdir():
        with suppress(FileNotFoundError):  # closed meanwhile
            count += descriptor.read_text().count(inode)
    return count


@pytest.mark.feature(
    "… with one watch for each folder, which the Markdown backend shares", of="`[notes]`: every backend answers"
)
@pytest.mark.skipif(sys.platform != "linux", reason="only Linux counts watches in /proc")
async def test_a_followed_folder_is_watched_once_in_a_process(home, folder) -> None:
    """By the note watcher and by Markdown memory, both of which get its change events."""
    settings = load(home=home, notes={"paths": [str(folder)], "user_id": "ada"}, embedder={"adapter": ""})
    async with Gateway.open(settings) as gateway, asyncio.timeout(60):
        (folder / "bike.md").write_text("The bike is green.")
        markdown = gateway.guarded["markdown"].backend
        while not any(  # noqa: ASYNC110 - there is no event to wait for
            row["text"] == "The bike is green." for row in (await gateway.memories(ADA))["memories"]
        ):
            await asyncio.sleep(0.01)
        while not await markdown.search(Query("green", ADA, 5)):  # noqa: ASYNC110 - nor here
            await asyncio.sleep(0.01)
        assert [watches_of(path) for path in (folder, folder / "sub")] == [1, 1]
    async with asyncio.timeout(60):
        while watches_of(folder):  # noqa: ASYNC110 - a thread of watchfiles ends it
            await asyncio.sleep(0.01)


@pytest.mark.feature("… links in its folders are counted for status and doctor", of="`[notes]`: every backend answers")
async def test_a_look_counts_links_by_kind(home, keeps, folder) -> None:
    """None is followed; nothing of it is a fault."""
    (folder / "link.md").symlink_to(folder / "bike.md")
    (folder / "out.md").symlink_to(folder.parent / "out.md")
    (folder / "way").symlink_to(folder / "sub")
    follow = follower(home, keeps, folder)
    await look(follow)
    assert (follow.linked, follow.faults) == ({"linked .md": 2, "linked folder": 1}, [])
