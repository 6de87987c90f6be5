"""Watching a file or folder, with change events that a test sends."""

from __future__ import annotations

import asyncio
import shutil
from collections.abc import AsyncGenerator
from contextlib import aclosing
from pathlib import Path

import pytest

from fusion.lib.watch import Notice, SharedChanges, changes, watch


class Events:
    """`Changes` that a test sends; ``folders`` are those that were watched, recursively or not."""

    def __init__(self) -> None:
        self.folders: list[tuple[Path, bool]] = []
        self.ended = 0
        self.sent: asyncio.Queue[set[Path]] = asyncio.Queue()
        self.error: OSError | None = None

    async def __call__(self, folder: Path, recursive: bool) -> AsyncGenerator[set[Path], None]:
        if self.error is not None:
            raise self.error
        self.folders.append((folder, recursive))
        try:
            yield set()
            while True:
                yield await self.sent.get()
        finally:
            self.ended += 1


class Pauses:
    """Pauses that end at once, counted in seconds."""

    def __init__(self) -> None:
        self.total_s = 0.0

    async def __call__(self, seconds: float) -> None:
        self.total_s += seconds


async def test_watch_says_first_that_anything_may_have_changed(tmp_path: Path) -> None:
    events = Events()
    notices = watch(tmp_path, events, retry_s=1)
    assert await anext(notices) == Notice(None)
    events.sent.put_nowait({tmp_path / "a.md"})
    assert await anext(notices) == Notice(frozenset({tmp_path / "a.md"}))
    assert events.folders == [(tmp_path, True)]


async def test_watch_of_a_file_reports_that_file_alone(tmp_path: Path) -> None:
    """Through its folder, so that an editor's save by rename is seen."""
    (tmp_path / "todo.md").write_text("x")
    events = Events()
    notices = watch(tmp_path / "todo.md", events, retry_s=1)
    await anext(notices)
    events.sent.put_nowait({tmp_path / "todo.md", tmp_path / "todo.tmp"})
    assert await anext(notices) == Notice(frozenset({tmp_path / "todo.md"}))
    assert events.folders == [(tmp_path, False)]


async def test_watch_begins_anew_when_another_folder_takes_the_place(tmp_path: Path) -> None:
    (folder := tmp_path / "notes").mkdir()
    events = Events()
    notices = watch(folder, events, retry_s=1)
    await anext(notices)
    folder.rename(tmp_path / "away")
    folder.mkdir()
    events.sent.put_nowait(set())
    assert await anext(notices) == Notice(None, watching=False)
    assert await anext(notices) == Notice(None)
    assert events.folders == [(folder, True)] * 2


async def test_watch_sees_a_missing_folder_come(tmp_path: Path) -> None:
    events = Events()
    notices = watch(folder := tmp_path / "notes", events, retry_s=1)
    assert await anext(notices) == Notice(None)
    folder.mkdir()
    events.sent.put_nowait({folder})
    assert await anext(notices) == Notice(None, watching=False)
    await anext(notices)
    assert events.folders == [(tmp_path, False), (folder, True)]


async def test_watch_that_fails_is_tried_again(tmp_path: Path) -> None:
    events, pauses = Events(), Pauses()
    events.error = OSError("no more watches")
    notices = watch(tmp_path, events, retry_s=5, pause=pauses)
    assert await anext(notices) == Notice(watching=False, error="no more watches")
    events.error = None
    assert await anext(notices) == Notice(None)
    assert pauses.total_s == 5


async def test_followers_of_a_folder_share_one_watch_that_ends_with_the_last(tmp_path: Path) -> None:
    events = Events()
    shared = SharedChanges(events)
    first, second = shared.changes(tmp_path, True), shared.changes(tmp_path, True)
    assert [await anext(first), await anext(second)] == [set(), set()]
    events.sent.put_nowait({tmp_path / "a.md"})
    assert [await anext(first), await anext(second)] == [{tmp_path / "a.md"}] * 2
    await first.aclose()
    assert events.ended == 0
    events.sent.put_nowait({tmp_path / "b.md"})
    assert await anext(second) == {tmp_path / "b.md"}
    await second.aclose()
    assert (events.folders, events.ended) == ([(tmp_path, True)], 1)
    async with aclosing(shared.changes(tmp_path, True)) as third:
        await anext(third)
    assert (len(events.folders), events.ended) == (2, 2)


async def test_other_folders_and_depths_have_watches_of_their_own(tmp_path: Path) -> None:
    (folder := tmp_path / "notes").mkdir()
    events = Events()
    shared = SharedChanges(events)
    async with (
        aclosing(shared.changes(folder, True)) as notes,
        aclosing(shared.changes(tmp_path, True)) as deep,
        aclosing(shared.changes(tmp_path, False)) as flat,
    ):
        for followed in (notes, deep, flat):
            await anext(followed)
    assert events.folders == [(folder, True), (tmp_path, True), (tmp_path, False)]


async def test_the_error_of_a_shared_watch_reaches_each_follower_and_each_may_try_again(tmp_path: Path) -> None:
    events = Events()
    events.error = OSError("no more watches")
    shared = SharedChanges(events)
    followed = [shared.changes(tmp_path, True) for _ in range(2)]
    for outcome in await asyncio.gather(*map(anext, followed), return_exceptions=True):
        assert str(outcome) == "no more watches"
    events.error = None
    async with aclosing(shared.changes(tmp_path, True)) as again:
        assert await anext(again) == set()


async def test_a_follower_that_waits_for_quiet_gets_all_changes_at_once(tmp_path: Path) -> None:
    """Another one has each of them meanwhile."""
    events = Events()
    shared = SharedChanges(events)
    async with (
        aclosing(shared.changes(tmp_path, True)) as eager,
        aclosing(shared.changes(tmp_path, True, quiet_ms=3_600_000, most_ms=3_600_000)) as patient,
        aclosing(shared.changes(tmp_path, True, quiet_ms=3_600_000, most_ms=1)) as impatient,
    ):
        for followed in (eager, patient, impatient):
            assert await anext(followed) == set()
        waiting = asyncio.ensure_future(anext(patient))
        for name in ("a.md", "b.md"):
            events.sent.put_nowait({tmp_path / name})
            assert await anext(eager) == {tmp_path / name}
        assert await anext(impatient) == {tmp_path / "a.md", tmp_path / "b.md"}
        assert not waiting.done()
        waiting.cancel()
        await asyncio.wait([waiting])


async def test_a_shared_watch_ends_when_another_folder_takes_the_place(tmp_path: Path) -> None:
    """A follower that asks anew must not join the watch of the earlier folder, which another one still reads."""
    (folder := tmp_path / "notes").mkdir()
    events = Events()
    shared = SharedChanges(events)
    async with aclosing(shared.changes(folder, True)) as first, aclosing(shared.changes(folder, True)) as second:
        await anext(first)
        await anext(second)
        folder.rename(tmp_path / "away")
        folder.mkdir()
        events.sent.put_nowait(set())
        with pytest.raises(StopAsyncIteration):
            await anext(first)
        async with aclosing(shared.changes(folder, True)) as again:
            assert await anext(again) == set()
            assert len(events.folders) == 2


async def test_watch_follows_a_folder_that_is_deleted_and_made_again(tmp_path: Path) -> None:
    """By real change events: the new folder may have the inode of the earlier one."""
    (folder := tmp_path / "notes").mkdir()
    async with asyncio.timeout(60), aclosing(watch(folder, changes, retry_s=1)) as notices:
        assert await anext(notices) == Notice(None)
        shutil.rmtree(folder)
        folder.mkdir()
        async for notice in notices:
            if notice.paths is None and notice.watching:
                (folder / "new.md").write_text("x")
            if folder / "new.md" in (notice.paths or ()):
                break
        assert folder / "new.md" in (notice.paths or ())
