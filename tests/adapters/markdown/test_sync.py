"""Table and index follow the files: by notices, when one searches, now and then; whatever happens in between."""

from __future__ import annotations

import asyncio
import os
import shutil
import time
from collections.abc import AsyncGenerator, AsyncIterator, Callable, Iterable, Sequence
from contextlib import asynccontextmanager
from pathlib import Path
from typing import Literal, cast

import pytest

from adapters.index import Entry, Index
from adapters.markdown import Markdown, Timing
from adapters.markdown.catalogue import Document, Item, ItemTable, keyed
from adapters.markdown.files import Root, Unreadable, read
from adapters.markdown.sync import MAX_CHANGED_PATHS
from fusion.contract import Hit, Opening, Scope
from fusion.errors import BackendUnreachable, StoreFull
from tests.adapters.markdown.test_backend import Clock, ask, captured, forever, remarks, texts
from tests.fakes import FakeEmbedder


class Ears:
    """`Changes` that tell what a test says, folder by folder. ``unwatched`` is why nothing can be heard."""

    def __init__(self) -> None:
        self.reported: dict[Path, asyncio.Queue[set[Path]]] = {}
        self.listening = asyncio.Condition()
        self.unwatched: OSError | None = None

    async def __call__(self, folder: Path, recursive: bool) -> AsyncGenerator[set[Path], None]:
        if self.unwatched is not None:
            raise self.unwatched
        queue = self.reported[folder] = asyncio.Queue()
        yield set()
        while True:
            async with self.listening:
                self.listening.notify_all()
            yield await queue.get()

    async def hear(self, folder: Path, *paths: Path) -> None:
        """Returns when the notice has been taken in."""
        async with self.listening:
            await self.listening.wait_for(lambda: folder in self.reported)
            self.reported[folder].put_nowait(set(paths))
            await self.listening.wait()


class Pauses:
    """Pauses that last until they are ended, by how long they are."""

    def __init__(self) -> None:
        self.waiting: dict[float, asyncio.Event] = {}
        self.begun = asyncio.Condition()

    async def __call__(self, seconds: float) -> None:
        async with self.begun:
            event = self.waiting.setdefault(seconds, asyncio.Event())
            self.begun.notify_all()
        await event.wait()

    async def end(self, seconds: float) -> None:
        """Ends the pause of so many seconds that is under way, or the next one."""
        async with self.begun:
            await self.begun.wait_for(lambda: seconds in self.waiting)
            self.waiting.pop(seconds).set()


DEBOUNCE_S, INTERVAL_S = 1.5, 300.0


@asynccontextmanager
async def watching(
    home: Path,
    *paths: Path,
    ears: Ears | None = None,
    pauses: Pauses | None = None,
    clock: Clock | None = None,
    embedder: FakeEmbedder | None = None,
    **options: object,
) -> AsyncIterator[Markdown]:
    """A backend with scripted change events. Files are old enough for their times to be trusted."""
    for path in paths:
        settle(path)
    timing = Timing(clock or Clock(), pauses or forever, ears or Ears())
    given = {"paths": [str(path) for path in paths], **options}
    backend = await Markdown.open(Opening("markdown", home, given, embedder), timing=timing)
    try:
        yield backend
    finally:
        await backend.close()


def settle(folder: Path) -> None:
    """Waits until no file's last change is too young to be told from one that follows it: the file system's clock is
    the only one there."""
    while any(time.time_ns() - file.stat().st_ctime_ns < 60_000_000 for file in folder.rglob("*") if file.is_file()):
        time.sleep(0.01)


async def until_items(backend: Markdown, count: int) -> None:
    await until(lambda: len(backend._sync.table) == count)


async def texts_of(backend: Markdown, audience: Literal["private", "group"] = "group") -> set[str]:
    """Of all that the birds of these tests are found by."""
    scope = Scope(audience=audience)
    asked = "kestrel osprey heron stork wren finch"
    return {hit.text for hit in await ask(backend, asked, scope)}


async def until(true: Callable[[], bool]) -> None:
    """Lets the others work until something is so."""
    async with asyncio.timeout(60):
        while not true():  # noqa: ASYNC110 - nothing tells of it
            await asyncio.sleep(0.005)


@pytest.fixture
def home(tmp_path: Path) -> Path:
    return tmp_path / "home" / "markdown"


@pytest.fixture
def vault(tmp_path: Path) -> Path:
    folder = tmp_path / "vault"
    folder.mkdir()
    (folder / "one.md").write_text("A kestrel on the roof.\n")
    (folder / "two.md").write_text("An osprey by the lake.\n")
    return folder


# When


@pytest.mark.row("A077", "Markdown: a change is read 1.5 s after its first event")
async def test_what_is_noticed_is_followed_after_the_debounce(home: Path, vault: Path) -> None:
    """1.5 s after the first notice the new file is in the table and the index, though nobody searched."""
    ears, pauses = Ears(), Pauses()
    async with watching(home, vault, ears=ears, pauses=pauses) as backend:
        await ears.hear(vault)
        await pauses.end(DEBOUNCE_S)  # of the look that follows the first hearing
        (vault / "three.md").write_text("A heron in the reeds.\n")
        await ears.hear(vault, vault / "three.md")
        assert (await backend.describe()).items == 2
        await pauses.end(DEBOUNCE_S)
        await until_items(backend, 3)
        assert [hit.text for hit in await ask(backend, "heron")] == ["A heron in the reeds."]


async def test_debounce_s_sets_how_long_a_change_rests_before_it_is_read(home: Path, vault: Path) -> None:
    """The pause between a reported change and its reading has the option's length."""
    ears, pauses = Ears(), Pauses()
    async with watching(home, vault, ears=ears, pauses=pauses, debounce_s=0.25) as backend:
        (vault / "three.md").write_text("A heron in the reeds.\n")
        await ears.hear(vault, vault / "three.md")
        await pauses.end(0.25)
        await until_items(backend, 3)
        assert [hit.text for hit in await ask(backend, "heron")] == ["A heron in the reeds."]


@pytest.mark.row("A077", "… a search reads a reported change at once", of="Markdown: a change is read 1.5")
async def test_a_search_does_not_wait_for_the_debounce(home: Path, vault: Path) -> None:
    """Something was noticed: the next search looks at once."""
    ears = Ears()
    async with watching(home, vault, ears=ears) as backend:
        (vault / "one.md").write_text("A kestrel on the barn.\n")
        await ears.hear(vault, vault / "one.md")
        assert [hit.text for hit in await ask(backend, "kestrel")] == ["A kestrel on the barn."]
        (vault / "one.md").unlink()
        await ears.hear(vault, vault / "one.md")
        assert not await ask(backend, "kestrel")


@pytest.mark.row(
    "A077",
    "… a periodic scan needs no event; with events, a search scans no files",
    of="Markdown: a change is read 1.5",
)
async def test_a_search_reads_no_file_while_change_events_arrive(home: Path, vault: Path) -> None:
    """However long ago the last look was; a change that was not told is found by the look that comes now and then."""
    ears, pauses, clock = Ears(), Pauses(), Clock()
    async with watching(home, vault, ears=ears, pauses=pauses, clock=clock) as backend:
        for root in backend._roots:
            await ears.hear(root.folder)
        assert await ask(backend, "kestrel")
        (vault / "three.md").write_text("A heron in the reeds.\n")
        clock.now_s += 1000
        assert not await ask(backend, "heron")
        await pauses.end(INTERVAL_S)
        await until(lambda: bool(backend._sync._dirty))
        assert await ask(backend, "heron")


@pytest.mark.row("A077", "… a session's start scans all files, if so set", of="Markdown: a change is read 1.5")
@pytest.mark.parametrize("switch", [True, False])
async def test_a_sessions_start_scans_all_files(home: Path, vault: Path, switch: bool) -> None:
    """A change without an event is found by the first search after the start, and not before."""
    ears = Ears()
    async with watching(home, vault, ears=ears, sync_on_session_start=switch) as backend:
        for root in backend._roots:
            await ears.hear(root.folder)
        assert await ask(backend, "kestrel")
        (vault / "three.md").write_text("A heron in the reeds.\n")
        assert not await ask(backend, "heron")
        backend.session_started()
        assert [hit.text for hit in await ask(backend, "heron")] == ["A heron in the reeds."] * switch


@pytest.mark.row("A077", "… a search reads nothing with `sync_on_search` off", of="Markdown: a change is read 1.5")
async def test_a_search_can_leave_changes_to_the_debounce(home: Path, vault: Path) -> None:
    """A reported change, and the scan at a session's start, wait for the debounce; reading a document does not."""
    ears, pauses = Ears(), Pauses()
    async with watching(home, vault, ears=ears, pauses=pauses, sync_on_search=False) as backend:
        (vault / "three.md").write_text("A heron in the reeds.\n")
        await ears.hear(vault, vault / "three.md")
        assert not await ask(backend, "heron")
        await pauses.end(DEBOUNCE_S)
        await until_items(backend, 3)
        assert await ask(backend, "heron")
        (vault / "four.md").write_text("A stork on the chimney.\n")
        backend.session_started()
        assert not await ask(backend, "stork")
        await pauses.end(DEBOUNCE_S)
        await until_items(backend, 4)


@pytest.mark.parametrize("name", [".obsidian/workspace.json", ".git/index", "picture.png", "node_modules/x/readme.md"])
async def test_what_a_look_would_not_come_by_is_no_notice(home: Path, vault: Path, name: str) -> None:
    """An editor's own files change all the time: they make nobody look."""
    ears = Ears()
    (vault / name).parent.mkdir(parents=True, exist_ok=True)
    (vault / name).write_text("x")
    async with watching(home, vault, ears=ears) as backend:
        await ears.hear(vault)
        await ask(backend, "kestrel")
        await ears.hear(vault, vault / name)
        assert not backend._sync._dirty
        assert not backend._sync._changed_paths
        await ears.hear(vault, vault / "a folder that is gone")
        assert backend._sync._changed_paths == {"vault": {"a folder that is gone"}}


@pytest.mark.feature(
    "… only the changed file is read, one among 10,000; all files if the event does not name one",
    of="Markdown: a change is read 1.5",
)
async def test_a_search_reads_only_reported_files(home: Path, vault: Path) -> None:
    """Of three files that changed, came or went the one that was told of is followed: among 10,000 the others are not
    looked at. The look at all files, which comes now and then, finds the rest."""
    ears, pauses = Ears(), Pauses()
    async with watching(home, vault, ears=ears, pauses=pauses) as backend:
        await ears.hear(vault)
        await ask(backend, "kestrel")
        (vault / "one.md").write_text("A kestrel on the barn.\n")
        (vault / "two.md").unlink()
        (vault / "three.md").write_text("A heron in the reeds.\n")
        await ears.hear(vault, vault / "one.md")
        assert await texts_of(backend) == {"A kestrel on the barn.", "An osprey by the lake."}
        await ears.hear(vault, vault / "two.md", vault / "three.md")
        assert await texts_of(backend) == {"A kestrel on the barn.", "A heron in the reeds."}
        (vault / "four.md").write_text("A stork on the chimney.\n")
        await pauses.end(INTERVAL_S)
        await until(lambda: bool(backend._sync._dirty))
        assert "A stork on the chimney." in await texts_of(backend)


@pytest.mark.feature("… an editor's save by rename counts as one file", of="Markdown: a change is read 1.5")
async def test_a_vim_that_saves_is_followed_without_a_look_at_all_files(home: Path, vault: Path) -> None:
    """It moves the file away, writes it anew and deletes what it moved, and tries before whether it may write there."""
    ears = Ears()
    async with watching(home, vault, ears=ears) as backend:
        await ears.hear(vault)
        await ask(backend, "kestrel")
        (vault / "three.md").write_text("A heron in the reeds.\n")  # nobody told of it
        (vault / "one.md").rename(vault / "one.md~")
        (vault / "one.md").write_text("A kestrel on the barn.\n")
        (vault / "one.md~").unlink()
        await ears.hear(vault, *(vault / name for name in ("4913", ".one.md.swp", "one.md", "one.md~")))
        assert await texts_of(backend) == {"A kestrel on the barn.", "An osprey by the lake."}


@pytest.mark.parametrize("how", ["a folder that came", "a folder that went", "a link"])
async def test_a_reported_folder_is_read_with_all_its_files(home: Path, vault: Path, how: str) -> None:
    """Moved in, moved away, replaced: the event names only the folder, not the files in it."""
    sub, away = vault / "sub", vault.parent / "away"
    sub.mkdir()
    (sub / "three.md").write_text("A heron in the reeds.\n")
    if how == "a folder that came":
        sub.rename(away)
    both = {"A kestrel on the roof.", "An osprey by the lake."}
    ears = Ears()
    async with watching(home, vault, ears=ears) as backend:
        await ears.hear(vault)
        await ask(backend, "kestrel")
        if how == "a folder that came":
            away.rename(sub)
        else:
            sub.rename(away)
        if how == "a link":
            sub.symlink_to(away)
        await ears.hear(vault, sub)
        assert await texts_of(backend) == (both | {"A heron in the reeds."} if how == "a folder that came" else both)


@pytest.mark.parametrize("reported", ["MEMORY.md", "memory.md", "many"])
async def test_ambiguous_reports_cause_a_full_scan(home: Path, vault: Path, reported: str) -> None:
    """One of two files that stand for each other; so many paths at once that the system may have lost some."""
    (vault / "memory.md").write_text("A finch.\n")
    ears = Ears()
    async with watching(home, vault, ears=ears) as backend:
        await ears.hear(vault)
        await ask(backend, "kestrel")
        (vault / "three.md").write_text("A heron in the reeds.\n")
        if reported == "many":
            await ears.hear(vault, *(vault / f"gone {number}.md" for number in range(MAX_CHANGED_PATHS + 1)))
        else:
            (vault / "MEMORY.md").write_text("A wren.\n")
            await ears.hear(vault, vault / reported)
        found = await texts_of(backend, "private")
        assert "A heron in the reeds." in found
        assert ("A wren." in found, "A finch." in found) == ((False, True) if reported == "many" else (True, False))


async def test_a_file_that_was_refused_is_repaired(home: Path, vault: Path) -> None:
    """Binary, it is skipped with its reason; told of as text, it is found and the reason is gone. And back."""
    ears = Ears()
    reason = "vault/one.md: skipped: binary, or not UTF-8"
    async with watching(home, vault, ears=ears) as backend:
        await ears.hear(vault)
        await ask(backend, "kestrel")
        for text, skipped in (("\0", True), ("A kestrel again.\n", False), ("\0", True)):
            (vault / "one.md").write_text(text)
            await ears.hear(vault, vault / "one.md")
            assert ("A kestrel again." in await texts_of(backend)) == (not skipped)
            assert (reason in await remarks(backend)) == skipped


@pytest.mark.feature(
    "… each search scans where the system reports no changes, and the status says so",
    of="Markdown: a change is read 1.5",
)
async def test_each_search_scans_where_no_change_events_arrive(home: Path, vault: Path) -> None:
    """The system has no more watches: it is said, and the look is as old as ``scan_interval_s`` at most."""
    ears, clock = Ears(), Clock()
    ears.unwatched = OSError("no more watches")
    async with watching(home, vault, ears=ears, clock=clock, scan_interval_s=2) as backend:
        await until(lambda: bool(backend._sync.remarks))
        assert "vault: change events do not arrive, so each search scans: no more watches" in await remarks(backend)
        (vault / "three.md").write_text("A heron in the reeds.\n")
        assert not await ask(backend, "heron")
        clock.now_s += 2
        assert await ask(backend, "heron")


@pytest.mark.row(
    "A077", "… with real events: atomic saves, new folders, renames, deletions", of="Markdown: a change is read 1.5"
)
async def test_the_systems_own_notices(home: Path, vault: Path) -> None:
    """For real: a new file, an editor's atomic save, a new folder, a rename, a deletion; nobody searches meanwhile."""

    async def at_once(seconds: float) -> None:
        await asyncio.sleep(0 if seconds == DEBOUNCE_S else 3600)

    backend = await Markdown.open(
        Opening("markdown", home, {"paths": [str(vault)]}, None), timing=Timing(pause=at_once)
    )

    async def found(*expected: str) -> None:
        await until(lambda: {entry.text.splitlines()[-1] for entry in backend._sync.table} == set(expected))

    one, two = "A kestrel on the roof.", "An osprey by the lake."
    try:
        await found(one, two)
        (vault / "three.md").write_text("three")
        await found(one, two, "three")
        (vault / "three.md~").write_text("three again")
        (vault / "three.md~").rename(vault / "three.md")
        await found(one, two, "three again")
        (vault / "sub" / "deep").mkdir(parents=True)
        (vault / "sub" / "deep" / "four.md").write_text("four")
        await found(one, two, "three again", "four")
        (vault / "sub").rename(vault.parent / "elsewhere")
        await found(one, two, "three again")
        (vault / "one.md").unlink()
        await found(two, "three again")
        assert {entry.text.splitlines()[-1] for entry in backend._sync.table} == {two, "three again"}
    finally:
        await backend.close()


# What


@pytest.mark.row("A078", "Markdown: unchanged text is not embedded again: touched, saved, moved, gone and back")
async def test_what_is_the_same_is_not_embedded_again(home: Path, vault: Path) -> None:
    """Touched, saved again, checked out again, moved, gone and back, at the next start: each text once."""
    embedder = FakeEmbedder()
    (vault / "two.md").write_text("---\ntitle: Birds\n---\nAn osprey by the lake.\n")
    async with watching(home, vault, embedder=embedder) as backend:
        await backend.settle()
        assert set(embedder.encoded.values()) == {1}
        encoded = embedder.encoded.copy()
        os.utime(vault / "one.md", ns=(1, 1))
        await backend.settle()
        shutil.copy(vault / "one.md", vault / "swap")
        (vault / "swap").rename(vault / "one.md")
        await backend.settle()
        (vault / "two.md").rename(vault / "moved.md")
        await backend.settle()
        text = (vault / "one.md").read_text()
        (vault / "one.md").unlink()
        await backend.settle()
        assert (await backend.describe()).items == 1
        (vault / "one.md").write_text(text)
        await backend.settle()
        assert embedder.encoded == encoded  # by another name a text has another key, and the same vector
    again = FakeEmbedder()
    async with watching(home, vault, embedder=again) as backend:
        await backend.settle()
        assert (await backend.describe()).vectors == 2
        assert not again.encoded


@pytest.mark.row(
    "A075", "Markdown: files, chunks and vectors are in a folder of derived data; a start reads only changed files"
)
async def test_a_start_reads_only_what_changed(home: Path, vault: Path) -> None:
    """What was read before is known by its metadata; what changed, came and went meanwhile is followed."""
    async with watching(home, vault):
        pass
    opened: list[str] = []

    class Watched(ItemTable):
        async def change(self, put: Sequence[Document], drop: Iterable[str], stamp: str | None = None) -> None:
            drop = list(drop)
            opened.extend([*(document.name for document in put), *(f"-{name}" for name in drop)])
            await super().change(put, drop, stamp)

    settle(vault)
    async with watching(home, vault) as backend:
        backend._sync.table.__class__ = Watched
        await backend.refresh()
        assert opened == []
    (vault / "two.md").unlink()
    (vault / "three.md").write_text("A heron in the reeds.\n")
    async with watching(home, vault) as backend:
        assert {hit.text for hit in await ask(backend, "kestrel heron osprey")} == {
            "A kestrel on the roof.",
            "A heron in the reeds.",
        }


@pytest.mark.feature("Markdown: between two commits, a search sees the whole old state of a file")
async def test_between_two_commits_a_search_sees_the_old_state(home: Path, vault: Path) -> None:
    """The index has the new words already, the table not yet: the old words find the old text, the new ones nothing."""
    seen: list[list[str]] = []

    class Between:
        def __init__(self, index: Index) -> None:
            self.index = index

        async def put(self, entries: Sequence[Entry]) -> None:
            await self.index.put(entries)
            seen.extend([[hit.text for hit in await ask(backend, question)] for question in ("roof", "barn")])

        def __getattr__(self, name: str) -> object:
            return getattr(self.index, name)

    async with watching(home, vault, watch=False, scan_interval_s=1e9) as backend:
        backend._sync.index = cast(Index, Between(backend._index))
        (vault / "one.md").write_text("A kestrel on the barn.\n")
        await backend.refresh()
        assert seen == [["A kestrel on the roof."], []]
        assert not await ask(backend, "roof")
        assert [hit.text for hit in await ask(backend, "barn")] == ["A kestrel on the barn."]


@pytest.mark.feature("Markdown: a missing folder is hidden, kept and reported")
async def test_a_folder_that_is_away_is_kept(home: Path, vault: Path, tmp_path: Path) -> None:
    """It is hidden while it is away, which is reported. Its parent is watched meanwhile; when the folder is back it is
    watched again, and nothing is read or embedded anew."""
    ears, embedder = Ears(), FakeEmbedder()
    async with watching(home, vault, ears=ears, embedder=embedder) as backend:
        await backend.settle()
        await ears.hear(vault)
        vault.rename(tmp_path / "elsewhere")
        await ears.hear(vault, vault)
        await ears.hear(tmp_path)
        assert not await ask(backend, "kestrel")
        description = await backend.describe()
        assert description.degraded
        assert f"{vault} is away: what it held is kept, and shown again when it is back" in description.notes
        assert description.items == 2
        ears.reported.pop(vault)
        (tmp_path / "elsewhere").rename(vault)
        await ears.hear(tmp_path, vault)
        await ears.hear(vault)
        assert await ask(backend, "kestrel")
        assert not (await backend.describe()).degraded
        await backend.settle()
        assert {count for text, count in embedder.encoded.items() if text != "kestrel"} == {1}


async def test_a_folder_that_is_away_at_the_start(home: Path, vault: Path, tmp_path: Path) -> None:
    """A disk that is mounted late: nothing is lost by a start without it."""
    embedder = FakeEmbedder()
    async with watching(home, vault, embedder=embedder) as backend:
        await backend.settle()
    vault.rename(tmp_path / "elsewhere")
    async with watching(home, vault, embedder=(without := FakeEmbedder())) as backend:
        assert not await ask(backend, "kestrel")
        (tmp_path / "elsewhere").rename(vault)
        await backend.refresh()
        assert await ask(backend, "kestrel")
        await backend.settle()
        assert not any("osprey" in text for text in without.encoded if text != "kestrel")


@pytest.mark.feature("Markdown: a file that keeps changing is read later")
def test_a_file_that_never_rests_is_read_later() -> None:
    """Its size is not what was announced, three times over: it is left for the next look, and nothing half is kept."""
    with pytest.raises(Unreadable, match="being written") as caught:
        read(Root("proc", Path("/proc/self")), "status", 2**20)
    assert caught.value.passing


@pytest.mark.feature("Markdown: two gateways on one workspace and two processes on one folder work")
async def test_two_gateways_on_one_workspace(tmp_path: Path, vault: Path) -> None:
    """Each with a home of its own: both follow, and neither writes to it."""
    before = {path: path.read_bytes() for path in vault.rglob("*")}
    async with watching(tmp_path / "a", vault) as a, watching(tmp_path / "b", vault) as b:
        assert {path: path.read_bytes() for path in vault.rglob("*")} == before
        (vault / "three.md").write_text("A heron in the reeds.\n")
        for backend in (a, b):
            await backend.refresh()
            assert await ask(backend, "heron")


@pytest.mark.feature("Markdown: two gateways on one workspace and two processes on one folder work")
async def test_two_processes_on_one_folder(home: Path, vault: Path) -> None:
    """A home's lock forbids it. If it happens all the same, the second says that another writes, and both answer."""
    async with watching(home, vault, watch=False) as first, watching(home, vault, watch=False) as second:
        (vault / "three.md").write_text("A heron in the reeds.\n")
        await first.refresh()
        (vault / "four.md").write_text("A stork on the chimney.\n")
        second._sync._dirty.add("vault")
        await second._sync.follow()
        assert "another process" in (await second.describe()).notes[1]
        for backend in (first, second):
            assert await ask(backend, "kestrel")
        await first.remember([captured(1, "note one")])
        assert await ask(first, "heron")


# Damage


def page(*texts: str) -> Document:
    """A document of a line for each text."""
    names = [f"notes/a.md#L{line}-L{line}" for line in range(1, len(texts) + 1)]
    return Document(
        "notes/a.md",
        [Item(Hit(name, text), (keyed(name, Scope(), text),)) for name, text in zip(names, texts, strict=True)],
    )


async def test_what_was_made_of_a_document_goes_with_it(tmp_path: Path) -> None:
    """Items that were found are kept as they were made; one that is replaced or taken away is not found again."""
    table = await ItemTable.open(tmp_path, "a reading")
    one, two = (item.entries[0].key for item in page("Tea.", "Cups.").items)

    async def said(*keys: str) -> list[str | None]:
        held = table.held(keys)
        return [item.hit.text if (item := held.get(key)) else None for key in keys]

    await table.change([page("Tea.", "Cups.")], ())
    assert await said(one, two) == ["Tea.", "Cups."]
    before = table.held([one])
    assert before.get(one) is table.held([one]).get(one)
    await table.change([page("Coffee.")], ())
    (now,) = (item.entries[0].key for item in page("Coffee.").items)
    assert await said(one, now, two) == [None, "Coffee.", None]
    await table.change((), ["notes/a.md"])
    assert await said(one, now, two) == [None, None, None]
    await table.close()


async def test_reading_all_entries_ends_when_the_table_is_closed(tmp_path: Path) -> None:
    """A thread that reads them page by page gets the error of a closed store, and closing waits for its page."""
    table = await ItemTable.open(tmp_path, "a reading")
    await table.change([page(*(f"Cup {number}." for number in range(600)))], ())
    entries = iter(table)
    assert next(entries).text == "Cup 0."
    await table.close()
    with pytest.raises(BackendUnreachable, match="closed"):
        list(entries)


@pytest.mark.feature("Markdown: after a deletion only the files that it changed are looked at, not the whole folder")
async def test_some_files_are_followed_without_a_scan(home: Path, vault: Path) -> None:
    """Of two changed files and a deleted one, those that are named."""
    (vault / "two.md").write_text("A heron in the reeds.")
    async with watching(home, vault, watch=False) as backend:
        sync, root = backend._sync, backend._roots[1]
        (vault / "one.md").write_text("A kestrel on the barn.")
        (vault / "more.md").write_text("A wren in the hedge.")
        (vault / "two.md").unlink()
        async with sync.writing:
            await sync.sync_paths(root, ["one.md", "two.md"])
        assert [item.hit.text for item in await sync.table.items(root.document("one.md"))] == ["A kestrel on the barn."]
        assert root.document("two.md") not in sync.table.documents
        assert root.document("more.md") not in sync.table.documents


def full(table: ItemTable, pages: int) -> None:
    """SQLite's page limit simulates a full disk."""
    writing = table._database._writing
    assert writing is not None
    writing.execute(f"pragma max_page_count = {pages}")


@pytest.mark.feature("Markdown: a full disk during indexing: known text is still served, nothing is partial")
async def test_a_full_disk_while_indexing(home: Path, vault: Path) -> None:
    """What was known is served, the description says why, no file is half there; with space again all is found."""
    async with watching(home, vault, watch=False, scan_interval_s=0) as backend:
        full(backend._sync.table, 1)
        (vault / "one.md").write_text("A kestrel on the barn. " + "and more " * 20_000)
        (vault / "three.md").write_text("A heron in the reeds. " + "and more " * 20_000)
        assert {hit.text for hit in await ask(backend, "kestrel osprey heron")} == {
            "A kestrel on the roof.",
            "An osprey by the lake.",
        }
        description = await backend.describe()
        assert description.degraded
        assert any("no space left" in note for note in description.notes)
        full(backend._sync.table, 1_000_000)
        assert any("barn" in hit.text for hit in await ask(backend, "barn"))
        assert await ask(backend, "heron")
        assert not await ask(backend, "roof")
        assert not (await backend.describe()).degraded


async def test_a_full_disk_at_the_start(home: Path, vault: Path) -> None:
    """The table opens with what it had; what cannot be written is followed later."""

    class Full(ItemTable):
        async def change(self, put: Sequence[Document], drop: Iterable[str], stamp: str | None = None) -> None:
            raise StoreFull("no space left")

    async with watching(home, vault, watch=False):
        pass
    (vault / "three.md").write_text("A heron in the reeds.\n")
    async with watching(home, vault, watch=False, scan_interval_s=0) as backend:
        assert await ask(backend, "heron")
        table = backend._sync.table
        table.__class__ = Full
        (vault / "four.md").write_text("A stork on the chimney.\n")
        assert not await ask(backend, "stork")
        assert await ask(backend, "heron")
        table.__class__ = ItemTable
        assert await ask(backend, "stork")


@pytest.mark.row(
    "A053", "A075", "… the answers are the same whichever part of it is lost", of="Markdown: files, chunks and vectors"
)
@pytest.mark.parametrize("what", ["files.sqlite", "vectors.sqlite", "vectors.i8", "lexical", ""])
async def test_a_part_of_the_index_that_is_lost(home: Path, vault: Path, what: str) -> None:
    """Whichever of its files is deleted, the next start has the same answers."""
    questions = ["kestrel roof", "osprey", "lake"]
    async with watching(home, vault, embedder=FakeEmbedder()) as backend:
        await backend.remember([captured(1, "note one")])
        await backend.settle()
        before = [await ask(backend, question) for question in questions]
    lost = home / "index" / what
    if lost.is_dir():
        shutil.rmtree(lost)
    else:
        lost.unlink()
    async with watching(home, vault, embedder=FakeEmbedder()) as backend:
        await backend.settle()
        assert [await ask(backend, question) for question in questions] == before
        assert "note one" in await texts(backend)


def ruin(file: Path) -> None:
    content = bytearray(file.read_bytes())
    content[8192:] = b"\xff" * (len(content) - 8192)
    file.write_bytes(content)


@pytest.mark.feature("Markdown: a damaged table is rebuilt from the files, at the start and by the periodic check")
async def test_a_damaged_table_is_read_anew_from_the_files(home: Path, vault: Path) -> None:
    """Found by the periodic look; at the end all is as before, also after a second time and a new start. At a start it
    is found, too."""
    async with watching(home, vault, embedder=FakeEmbedder()) as backend:
        await backend.settle()
        before = await ask(backend, "kestrel")
        assert await backend.check() is None
        for folder in ("index", "index/anew"):
            await backend._sync.table._database.checkpoint()
            ruin(home / folder / "files.sqlite")
            assert "is damaged" in (await backend.check() or "")
            await backend.settle()
            assert await ask(backend, "kestrel") == before
            assert await backend.check() is None
    for _ in range(2):
        async with watching(home, vault, embedder=FakeEmbedder()) as backend:
            await backend.settle()
            assert await ask(backend, "kestrel") == before
        ruin(home / "index" / "files.sqlite")


@pytest.mark.feature(
    "… a table made by another version of the parser is not used", of="Markdown: files, chunks and vectors"
)
async def test_a_table_of_another_reading_is_not_trusted(home: Path, vault: Path) -> None:
    """Other chunks, another owner, other paths: the files are read again, though none has changed."""
    async with watching(home, vault):
        pass
    async with watching(home, vault, bind={"user_id": "julien"}) as backend:
        assert {entry.scope.user_id for entry in backend._sync.table} == {"julien"}
    async with watching(home) as backend:
        assert (await backend.describe()).items == 0


@pytest.mark.feature("Markdown: a kill while it follows changes loses nothing")
@pytest.mark.parametrize("moment", ["before", "after"])
async def test_killed_in_the_middle_of_following(home: Path, vault: Path, moment: str) -> None:
    """Between the index's commit and the table's, or after it: the next start has the files' state, and no other."""

    class Dies(ItemTable):
        async def change(self, put: Sequence[Document], drop: Iterable[str], stamp: str | None = None) -> None:
            if moment == "after":
                await super().change(put, drop, stamp)
            raise KeyError("killed")

    async with watching(home, vault) as backend:
        (vault / "one.md").write_text("A kestrel on the barn.\n")
        (vault / "two.md").unlink()
        backend._sync.table.__class__ = Dies
        with pytest.raises(KeyError):
            await backend.refresh()
    async with watching(home, vault) as backend:
        assert [hit.text for hit in await ask(backend, "kestrel roof barn osprey")] == ["A kestrel on the barn."]
        assert backend._index.size == 1
