"""What `fusion ingest` is about to take in, how far it is, and how it is taken back."""

from __future__ import annotations

import asyncio
import json
import re
from collections.abc import AsyncIterator, Mapping, Sequence
from contextlib import asynccontextmanager
from pathlib import Path
from typing import Any

import pytest
import typer
from typer.testing import CliRunner

from fusion.client import AsyncClient
from fusion.contract import Scope
from fusion.doors.cli import app
from fusion.doors.cli.ingest import Reading, ingest
from fusion.doors.cli.ingest_preview import Bulk, ask, bulk_of
from fusion.doors.cli.progress import bars
from fusion.doors.cli.remember import say_interrupted
from fusion.errors import BadInput
from fusion.settings import IngestSettings, Settings
from fusion.sources.files import DEFAULT_LIMITS, File, Limits
from fusion.sources.readers import read
from tests.doors.contract import Checked
from tests.doors.fakes import SMALL, FakeFusion, app_over

NOBODY = Scope()


@asynccontextmanager
async def gateway(fusion: FakeFusion, settings: Settings | None = None) -> AsyncIterator[AsyncClient]:
    async with AsyncClient.over(Checked(app_over(fusion, settings))) as client:
        yield client


@pytest.fixture
def flood(tmp_path: Path) -> Path:
    """A file of 12,000 short sections."""
    file = tmp_path / "notes" / "flood.md"
    file.parent.mkdir()
    file.write_text("".join(f"# {n}\n\nline {n}\n\n" for n in range(12_000)))
    return file


def test_what_is_new_is_reckoned_before_anything_is_read(flood: Path, tmp_path: Path) -> None:
    """Headings count, and a long text by its size; what is too large or no kind that is read counts nothing."""
    (flood.parent / "long.md").write_text("word " * 3_200)
    (flood.parent / "picture.png").write_bytes(b"x" * 10_000)
    bulk = bulk_of([flood.parent], NOBODY, tmp_path, DEFAULT_LIMITS)
    assert (bulk.files, bulk.sections) == (2, 12_010)
    assert bulk_of([flood.parent], NOBODY, tmp_path, Limits(note_mb=0.1)).files == 1


async def test_what_an_earlier_run_read_is_not_asked_about(flood: Path, tmp_path: Path) -> None:
    """A second run of the same command continues without a question."""
    (tmp_path / "journal.sqlite").touch()  # bookmarks are of a journal
    await ingest([flood], NOBODY, gateway(FakeFusion(), Settings(home=tmp_path)), quiet=True, home=tmp_path)
    assert bulk_of([flood], NOBODY, tmp_path, DEFAULT_LIMITS) == Bulk()


def test_without_a_terminal_a_flood_is_refused_with_the_flag_that_lets_it_in() -> None:
    """And the sizes, for readers of the log."""
    bounds, much = IngestSettings(), Bulk(1, 8_000_000, 120_000)
    with pytest.raises(BadInput, match=r"1 new file with 8.0 MB, about 120,000 sections.*--yes"):
        ask(much, bounds, yes=False, as_json=True)
    ask(much, bounds, yes=True, as_json=True)
    ask(Bulk(10, 1_000_000, 900), bounds, yes=False, as_json=True)
    with pytest.raises((BadInput, typer.Exit)):
        ask(Bulk(1, 60_000_000, 10), bounds, yes=False, as_json=False)


@pytest.mark.parametrize("bounds", [IngestSettings(ask_sections=9), IngestSettings(ask_mb=0.9)])
def test_ask_sections_and_ask_mb_set_what_is_asked_about(bounds: IngestSettings) -> None:
    """Ten sections with one megabyte are not asked about by default, but above either bound they are."""
    ask(Bulk(1, 1_000_000, 10), IngestSettings(), yes=False, as_json=True)
    with pytest.raises(BadInput, match="--yes"):
        ask(Bulk(1, 1_000_000, 10), bounds, yes=False, as_json=True)
    ask(Bulk(1, 900_000, 9), bounds, yes=False, as_json=True)


@pytest.mark.feature("`fusion ingest` asks before it stores a very large number of sections")
def test_the_command_asks_before_it_opens_anything(flood: Path, tmp_path: Path) -> None:
    """Nothing is written for a flood that nobody agreed to."""
    home = tmp_path / "home"
    home.mkdir(mode=0o700)
    done = CliRunner().invoke(app, ["ingest", str(flood), "--home", str(home), "--direct"])
    assert done.exit_code == 2
    assert "12,000 sections" in done.stderr
    assert "--yes" in done.stderr
    assert list(home.iterdir()) == []


@pytest.mark.feature("… by `fusion undo`, with a preview and a question", of="undoing an ingest removes only")
def test_an_ingest_says_how_it_is_undone_and_what_it_did_not_read(tmp_path: Path) -> None:
    """Three commands: take in, look, take back; and the same files can be taken in again."""
    home, notes = tmp_path / "home", tmp_path / "notes"
    home.mkdir(mode=0o700)
    notes.mkdir()
    (home / "fusion.toml").write_text(SMALL)
    (notes / "b.jsonl").write_text('{"text": "The hose leaks."}\n')
    (notes / "a.md").write_text("# Rake\n\nIt is behind the shed.\n\n# Spade\n\nIt is lost.\n")
    for name in ("1.pdf", "2.pdf", "3.png", "LICENSE", ".hidden.pdf"):
        (notes / name).write_bytes(b"x")

    def run(*arguments: str) -> str:
        done = CliRunner().invoke(app, [*arguments, "--home", str(home), "--direct"])
        assert done.exit_code == 0, done.stderr
        return done.stdout

    said = run("ingest", str(notes))
    assert "3 remembered, 0 known already." in said
    assert "Not read: 2 .pdf, 1 .png, 1 without an ending." in said or "Not read: 2 .pdf" in said
    batch = said.rpartition("fusion undo ")[2].split()[0]
    assert f"--home {home}" in said
    assert "nothing" not in run("undo")
    assert batch in run("undo")
    assert f"Would be taken back: {batch} of 20" in (preview := run("undo", batch, "--dry-run"))
    assert "UTC: 3 memories from file:" in preview
    assert f"3 memories of {batch} taken back" in (undone := run("undo", "--last", "--yes"))
    assert "next start of the server, for a folder that is in `paths` of [notes]" in undone
    assert "There is no ingest to undo." in run("undo")
    assert "3 remembered, 0 known already." in run("ingest", str(notes))
    reply = json.loads(run("undo", "--last", "--yes", "--json"))
    assert (reply["undone"], reply["left"], reply["dry_run"]) == (3, 0, False)


@pytest.mark.feature(
    "… `--last` twice undoes only one ingest, and names the one before it", of="undoing an ingest removes only"
)
def test_undo_of_the_last_ingest_twice_takes_back_one(tmp_path: Path) -> None:
    """It says which, when and how many; the one before wants its id, or somebody who agrees."""
    home = tmp_path / "home"
    home.mkdir(mode=0o700)
    (home / "fusion.toml").write_text(SMALL)
    where = ["--home", str(home), "--direct"]
    for name in ("first", "second"):
        (tmp_path / f"{name}.md").write_text(f"The {name} rake is behind the shed.")
        assert CliRunner().invoke(app, ["ingest", str(tmp_path / f"{name}.md"), *where]).exit_code == 0
    done = CliRunner().invoke(app, ["undo", "--last", "--yes", *where])
    assert f"UTC: 1 memory from file:{tmp_path}/second.md." in done.stdout.replace("\n", "")
    again = CliRunner().invoke(app, ["undo", "--last", "--yes", *where])
    assert again.exit_code == 2
    said = " ".join(again.stderr.split())
    assert "the last ingest was taken back before. The one before it is 20" in said
    assert "1 memory from file:" in said
    assert "first.md" in said
    asked = CliRunner().invoke(app, ["undo", "--last", *where], input="n\n")
    assert asked.exit_code == 1
    assert "A later ingest was taken back before. This one is 20" in asked.stdout
    batch = said.rpartition("fusion undo ")[2].split()[0]
    assert CliRunner().invoke(app, ["undo", batch, "--yes", *where]).exit_code == 0
    assert "There is no ingest to undo." in CliRunner().invoke(app, ["undo", *where]).stdout


def test_an_undo_without_a_question_wants_a_yes(tmp_path: Path) -> None:
    """With --json nobody can be asked; an ID and --last are two answers."""
    home = tmp_path / "home"
    home.mkdir(mode=0o700)
    (home / "fusion.toml").write_text(SMALL)
    (tmp_path / "a.md").write_text("The rake is behind the shed.")
    where = ["--home", str(home), "--direct"]
    assert CliRunner().invoke(app, ["ingest", str(tmp_path / "a.md"), *where]).exit_code == 0
    refused = CliRunner().invoke(app, ["undo", "--last", "--json", *where])
    assert (refused.exit_code, "--yes" in refused.stderr) == (2, True)
    assert CliRunner().invoke(app, ["undo", "x", "--last", *where]).exit_code == 2
    assert CliRunner().invoke(app, ["undo", "--last", *where], input="n\n").exit_code == 1
    assert CliRunner().invoke(app, ["undo", "nope", *where]).exit_code == 2


@pytest.mark.feature("an ingest without a terminal reports its progress")
def test_off_a_terminal_progress_is_a_line_now_and_then() -> None:
    """How many, how fast, how much of it, and where it is; nothing at all where it is to be quiet."""
    said: list[str] = []
    clock = iter(range(100))
    reading = Reading(bars(False), 8_000_000, lambda: 70, say=said.append, clock=lambda: float(next(clock)))
    reading(4_000_000)
    for _ in range(12):
        reading.say(1_000, "notes/a\x1b[31m.md:3")
    assert said[0] == "ingest: 1,000 memories read, 70 new, 500 a second, 50 % of 8.0 MB, at notes/a[31m.md:3"
    assert len(said) == 3
    quiet = Reading(bars(True), 1, lambda: 0, say=said.append, clock=lambda: 1e9)
    quiet.say(1, "x")
    quiet.cutting(File(Path("a.md"), "notes/a.md", 9, "markdown"), 0.5)
    assert len(said) == 3


@pytest.mark.feature("without a terminal, `fusion ingest` prints progress lines while a huge note is split")
def test_a_huge_note_is_cut_with_a_line_now_and_then(flood: Path) -> None:
    """The first within 3 s, the others every few seconds; each block takes a hundredth of a second here."""
    said: list[str] = []
    now = 0.0

    def clock() -> float:
        nonlocal now
        now += 0.001
        return now

    reading = Reading(bars(False), flood.stat().st_size, lambda: 0, say=said.append, clock=clock)
    found = read([flood], progress=reading, cutting=reading.cutting)
    next(found)
    assert now > 20
    assert len(said) == 1 + int((now - 2) / 5)
    assert re.fullmatch(r"ingest: cutting notes/flood\.md, [1-9]\d?% of its 0\.2 MB", said[0])
    shares = [int(line.split(", ")[1].split("%")[0]) for line in said]
    assert shares == sorted(set(shares))


def test_bytes_of_a_note_count_as_its_sections_are_handed_out(flood: Path) -> None:
    """They were all counted before the first section was sent, so that a bar stood at 100 % for minutes."""
    counted: list[int] = []
    found = read([flood], progress=counted.append)
    next(found)
    assert sum(counted) < 100
    list(found)
    assert sum(counted) == flood.stat().st_size


class Stopping(FakeFusion):
    """A gateway that interrupts its second caller, as Ctrl-C does."""

    async def remember(self, items: Sequence[Any], **options: Any) -> Any:
        if self.kept:
            raise asyncio.CancelledError
        return await super().remember(items, **options)


@pytest.mark.feature("an interrupted ingest says what is stored and how to continue")
async def test_a_ctrl_c_says_what_is_kept_and_how_to_go_on(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    """And how to take it back; the interruption is raised again to the caller."""
    file = tmp_path / "memories.jsonl"
    file.write_text("".join(json.dumps({"text": f"memory {n}"}) + "\n" for n in range(250)))
    with pytest.raises(asyncio.CancelledError):
        await ingest([file], NOBODY, gateway(Stopping()), quiet=True, interrupted=say_interrupted)
    said = capsys.readouterr().err
    assert said.startswith("fusion: Stopped: 100 memories are new and kept. To go on, run the same command again")
    assert "fusion undo 2" in said


async def test_a_run_has_one_id_and_names_it_only_where_it_added_something(tmp_path: Path) -> None:
    """Every request of a run carries it."""
    file, fusion = tmp_path / "memories.jsonl", FakeFusion()
    file.write_text("".join(json.dumps({"text": f"memory {n}"}) + "\n" for n in range(250)))
    first: Mapping[str, Any] = await ingest([file], NOBODY, gateway(fusion), quiet=True)
    assert fusion.batches_kept == [first["batch"]] * 3
    second: Mapping[str, Any] = await ingest([file], NOBODY, gateway(fusion), quiet=True)
    assert (second["stored"], second["batch"]) == (0, None)
