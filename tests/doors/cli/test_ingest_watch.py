"""`fusion ingest --watch`: what is written while it runs is remembered, each thing once."""

from __future__ import annotations

import asyncio
import json
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from pathlib import Path

import pytest

from fusion.client import AsyncClient
from fusion.contract import Scope
from fusion.doors.cli.ingest import Summary
from fusion.doors.cli.ingest_watch import watch
from fusion.errors import FusionError, StoreFull
from fusion.settings import Settings
from fusion.sources.files import DEFAULT_LIMITS, Limits
from tests.doors.contract import Checked
from tests.doors.fakes import FakeFusion, app_over

SESSION = "11111111-2222-4333-8444-555555555555"


def line(number: int, text: str) -> str:
    """One line of a Claude Code transcript."""
    message = {"role": "user", "content": text}
    return json.dumps({"type": "user", "sessionId": SESSION, "uuid": f"u{number}", "message": message}) + "\n"


def append(path: Path, text: str) -> None:
    with path.open("a") as file:
        file.write(text)


class Watching:
    """A watch that runs; ``round`` is the next summary it tells."""

    def __init__(self, fusion: FakeFusion) -> None:
        self.fusion = fusion
        self.stop = asyncio.Event()
        self.rounds: asyncio.Queue[Summary] = asyncio.Queue()
        self.complaints: asyncio.Queue[FusionError] = asyncio.Queue()

    async def until_kept(self, *texts: str) -> None:
        """Waits for rounds until these were remembered, each once and in this order."""
        while [item.text for item, _, _ in self.fusion.kept] != list(texts):
            await self.rounds.get()


@asynccontextmanager
async def watching(
    home: Path, *paths: Path, fusion: FakeFusion | None = None, limits: Limits = DEFAULT_LIMITS
) -> AsyncIterator[Watching]:
    """Follows paths in the background; the first round is reported before the block begins."""
    fusion = fusion or FakeFusion()
    running = Watching(fusion)
    gateway = AsyncClient.over(Checked(app_over(fusion, Settings(home=home))))
    task = asyncio.create_task(
        watch(
            paths,
            Scope(user_id="ada"),
            gateway,
            running.stop,
            home=home,
            limits=limits,
            report=running.rounds.put_nowait,
            complain=running.complaints.put_nowait,
            quiet=True,
        )
    )
    try:
        yield running
    finally:
        running.stop.set()
        await task


@pytest.fixture
def home(tmp_path: Path) -> Path:
    (tmp_path / "home").mkdir()
    (tmp_path / "home" / "journal.sqlite").write_bytes(b"j")
    return tmp_path / "home"


@pytest.mark.feature("`fusion ingest --watch` stores what is written while it runs, each thing once")
async def test_what_is_written_while_it_runs_is_remembered_once(home: Path, tmp_path: Path) -> None:
    """A session that grows, a new file, a Markdown note, a new folder: each turn and note once, a round each."""
    folder = tmp_path / ".claude" / "projects"
    folder.mkdir(parents=True)
    session = folder / f"{SESSION}.jsonl"
    session.write_text(line(1, "one"))
    async with watching(home, folder) as running:
        first = await running.rounds.get()
        assert (first["read"], first["stored"]) == (1, 1)
        append(session, line(2, "two"))
        await running.until_kept("one", "two")
        (folder / "note.md").write_text("three")
        await running.until_kept("one", "two", "three")
        (folder / "sub").mkdir()
        (folder / "sub" / "lines.jsonl").write_text('{"text": "four"}\n')
        await running.until_kept("one", "two", "three", "four")


async def test_a_home_that_the_watch_makes_has_notes_as_read_from_their_files(tmp_path: Path) -> None:
    """The server makes a missing home only at the first request, which needs the key of the home's readers."""
    note = tmp_path / "note.md"
    note.write_text("one")
    async with watching(tmp_path / "new", note) as running:
        await running.until_kept("one")
        assert [item.source for item, _, _ in running.fusion.kept] == [f"file:{note}"]


async def test_a_file_that_is_replaced_is_still_followed(home: Path, tmp_path: Path) -> None:
    """As editors save: under another name, then renamed. Other files in the folder of a named file are not read."""
    note = tmp_path / "note.md"
    note.write_text("one")
    async with watching(home, note) as running:
        await running.rounds.get()
        (tmp_path / "other.md").write_text("not meant")
        for texts in (("one", "two"), ("one", "two", "three")):
            (tmp_path / "note.tmp").write_text(texts[-1])
            (tmp_path / "note.tmp").rename(note)
            await running.until_kept(*texts)
    assert [item.text for item, _, _ in running.fusion.kept] == ["one", "two", "three"]


@pytest.mark.feature("… it retires deleted text at once", of="`fusion ingest --watch` stores")
async def test_what_is_deleted_is_retired_at_once(home: Path, tmp_path: Path) -> None:
    """A file, then a folder: the next round is over everything, though nothing was written since."""
    folder = tmp_path / "notes"
    (folder / "sub").mkdir(parents=True)
    for name in ("kept", "one", "sub/two"):
        (folder / f"{name}.md").write_text(name)
    async with watching(home, folder) as running:
        first = await running.rounds.get()
        assert (first["read"], first["retired"]) == (3, 0)
        (folder / "one.md").unlink()
        assert (await running.rounds.get())["read"] == 2
        (folder / "sub").rename(tmp_path / "elsewhere")
        while (await running.rounds.get())["read"] != 1:
            pass


async def test_ingest_watch_follows_a_folder_that_replaces_another(home: Path, tmp_path: Path) -> None:
    (folder := tmp_path / "notes").mkdir()
    (folder / "one.md").write_text("one")
    async with watching(home, folder) as running:
        await running.until_kept("one")
        folder.rename(tmp_path / "earlier")
        folder.mkdir()
        while (await running.rounds.get())["read"]:
            pass
        (folder / "two.md").write_text("two")
        await running.until_kept("one", "two")
    assert [item.text for item, _, _ in running.fusion.kept] == ["one", "two"]


async def test_half_a_line_waits_for_its_end(home: Path, tmp_path: Path) -> None:
    """A round in the middle of a line remembers nothing of it, and reports no error."""
    session = tmp_path / f"{SESSION}.jsonl"
    session.write_text(line(1, "one"))
    async with watching(home, tmp_path) as running:
        await running.rounds.get()
        append(session, line(2, "two")[:30])
        half = await running.rounds.get()
        assert (half["stored"], half["skipped"]) == (0, [])
        append(session, line(2, "two")[30:])
        await running.until_kept("one", "two")


async def test_a_round_that_fails_is_told_and_made_up_for(home: Path, tmp_path: Path) -> None:
    """Nothing that changed meanwhile is lost: the next round looks at everything."""
    session = tmp_path / f"{SESSION}.jsonl"
    session.write_text(line(1, "one"))
    fusion = FakeFusion()
    fusion.busy = [StoreFull("no space left")]
    async with watching(home, tmp_path, fusion=fusion) as running:
        assert "no space left" in str(await running.complaints.get())
        append(session, line(2, "two"))
        await running.until_kept("one", "two")


async def test_it_ends_in_the_middle_of_a_round(home: Path, tmp_path: Path) -> None:
    """Told to stop while the gateway takes its time, it leaves; what was not acknowledged is for the next run."""
    session = tmp_path / f"{SESSION}.jsonl"
    session.write_text(line(1, "one"))
    fusion = FakeFusion(hold=asyncio.Event())
    async with watching(home, tmp_path, fusion=fusion):
        await fusion.asked.wait()
    assert fusion.kept == []
    async with watching(home, tmp_path) as running:
        await running.until_kept("one")


@pytest.mark.feature("… `fusion ingest --watch` obeys `max_file_mb`", of="`fusion ingest --watch` stores")
async def test_watch_skips_files_above_the_limits_of_the_settings(home: Path, tmp_path: Path) -> None:
    """A note of 2 kB where one of 1 kB is the most."""
    (tmp_path / "large.md").write_text("word " * 400)
    async with watching(home, tmp_path / "large.md", limits=Limits(note_mb=0.001)) as running:
        summary = await running.rounds.get()
    assert [row["reason"] for row in summary["skipped"]] == ["larger than 0.001 MB ([ingest] max_file_mb)"]
