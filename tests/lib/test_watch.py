"""Watching a file or folder, with change events that a test sends."""

from __future__ import annotations

import asyncio
from collections.abc import AsyncGenerator
from pathlib import Path

from fusion.lib.watch import Notice, watch


class Events:
    """`Changes` that a test sends; ``folders`` are those that were watched, recursively or not."""

    def __init__(self) -> None:
        self.folders: list[tuple[Path, bool]] = []
        self.sent: asyncio.Queue[set[Path]] = asyncio.Queue()
        self.error: OSError | None = None

    async def __call__(self, folder: Path, recursive: bool) -> AsyncGenerator[set[Path], None]:
        if self.error is not None:
            raise self.error
        self.folders.append((folder, recursive))
        yield set()
        while True:
            yield await self.sent.get()


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
