"""`fusion ingest`: from files to the gateway."""

from __future__ import annotations

import json
import stat
from collections.abc import AsyncIterator, Sequence
from contextlib import asynccontextmanager, nullcontext
from datetime import UTC, datetime
from pathlib import Path
from typing import Any

import httpx
import pytest
from hypothesis import given
from hypothesis import strategies as st
from typer.testing import CliRunner

from fusion.client import AsyncClient
from fusion.contract import KINDS, Moment, Place, Scope
from fusion.doors.cli import app
from fusion.doors.cli.ingest import ingest
from fusion.doors.cli.ingest_retire import WholeFiles
from fusion.doors.http.encode import encode
from fusion.doors.memory_batches import BATCH, BATCH_BYTES, batches, wire_form
from fusion.doors.schemas import MemoryBody
from fusion.errors import Overloaded, ServerUnreachable, StoreBusy, StoreFull
from fusion.gateway.gateway import Gateway
from fusion.ingest.intake import NewMemory
from fusion.lib.words import content_hash
from fusion.settings import ServerSettings, Settings
from fusion.sources.bookmarks import Bookmarks
from fusion.sources.ingest_lock import lock_for_server
from tests.doors.contract import Checked
from tests.doors.fakes import SMALL, FakeFusion, app_over
from tests.patience import load

NOBODY = Scope()


@asynccontextmanager
async def gateway(fusion: FakeFusion, home: Path | None = None, **server: int) -> AsyncIterator[AsyncClient]:
    settings = Settings(server=ServerSettings.model_validate(server))
    if home is not None:
        settings = settings.model_copy(update={"home": home})
    async with AsyncClient.over(Checked(app_over(fusion, settings))) as client:
        yield client


def jsonl(folder: Path, *texts: str) -> Path:
    """A file with one memory a line."""
    file = folder / "memories.jsonl"
    file.write_text("".join(json.dumps({"text": text}) + "\n" for text in texts))
    return file


async def test_files_become_memories_in_their_order(tmp_path: Path) -> None:
    """Every line reaches the gateway, in the scope that was named; a bad line is skipped with its place and reason."""
    file = jsonl(tmp_path, *(f"memory {n}" for n in range(250)))
    with file.open("a") as more:
        more.write("{not json}\n")
    fusion = FakeFusion()
    summary = await ingest([file], Scope(user_id="u"), gateway(fusion), quiet=True)
    assert [item.text for item, _, _ in fusion.kept] == [f"memory {n}" for n in range(250)]
    assert {item.scope.user_id for item, _, _ in fusion.kept} == {"u"}
    assert (summary["read"], summary["stored"], summary["duplicates"]) == (250, 250, 0)
    assert summary["settled"] is True
    [skipped] = summary["skipped"]
    assert skipped == {"reason": "not a line of JSON", "count": 1, "first": f"{file}:251"}
    assert summary["rejected"] == 1


@pytest.mark.feature("`fusion ingest` ends with exit code 1 if lines were rejected, and stores the others")
def test_the_command_fails_if_lines_were_rejected(tmp_path: Path) -> None:
    home, file = tmp_path / "home", jsonl(tmp_path, "The mill is closed on Sundays.")
    home.mkdir(mode=0o700)
    (home / "fusion.toml").write_text(SMALL)
    given = ["ingest", str(file), "--home", str(home), "--direct"]
    assert CliRunner().invoke(app, given).exit_code == 0
    with file.open("a") as more:
        more.write("{not json}\n")
    done = CliRunner().invoke(app, given)
    assert (done.exit_code, "1 known already" in done.stdout, "not a line of JSON" in done.stdout) == (1, True, True)


@pytest.mark.row("A124", "`fusion ingest` reads files; a second run stores nothing new")
async def test_a_second_run_remembers_nothing_new(tmp_path: Path) -> None:
    """To resume is to run again."""
    file, fusion = jsonl(tmp_path, "a", "b"), FakeFusion()
    await ingest([file], NOBODY, gateway(fusion), quiet=True)
    summary = await ingest([file], NOBODY, gateway(fusion), quiet=True)
    assert (summary["stored"], summary["duplicates"]) == (0, 2)


async def test_a_second_run_sends_nothing_that_a_bookmark_knows(tmp_path: Path) -> None:
    """A large unchanged file is not sent again, and is reported as known; a dry run has no bookmarks."""
    file, fusion = jsonl(tmp_path, *(f"memory {n}" for n in range(250))), FakeFusion()
    (tmp_path / "journal.sqlite").write_bytes(b"j")
    await ingest([file], NOBODY, gateway(fusion), quiet=True, home=tmp_path)
    summary = await ingest([file], NOBODY, gateway(fusion), quiet=True, home=tmp_path)
    assert (summary["read"], summary["stored"], summary["duplicates"]) == (250, 0, 250)
    assert len(fusion.kept) == 250
    assert (await ingest([file], NOBODY, None, quiet=True))["read"] == 250


async def test_what_was_refused_is_sent_again_by_the_next_run(tmp_path: Path) -> None:
    """A bookmark behind it would keep it out for good, though the gateway may take it then."""
    file, fusion = jsonl(tmp_path, *(f"memory {n}" for n in range(250))), FakeFusion()
    (tmp_path / "journal.sqlite").write_bytes(b"j")
    fusion.refuses = "memory 42"
    await ingest([file], NOBODY, gateway(fusion), quiet=True, home=tmp_path)
    fusion.refuses = None
    summary = await ingest([file], NOBODY, gateway(fusion), quiet=True, home=tmp_path)
    assert (summary["stored"], summary["duplicates"]) == (1, 249)


async def test_a_run_that_fails_leaves_no_bookmark_behind_what_was_not_acknowledged(tmp_path: Path) -> None:
    """What the gateway had not said is kept is sent again, and nothing is missing in the end."""
    file, fusion = jsonl(tmp_path, "a", "b"), FakeFusion(error=StoreFull("no space"))
    (tmp_path / "journal.sqlite").write_bytes(b"j")
    with pytest.raises(StoreFull):
        await ingest([file], NOBODY, gateway(fusion), quiet=True, home=tmp_path)
    fusion.error = None
    summary = await ingest([file], NOBODY, gateway(fusion), quiet=True, home=tmp_path)
    assert (summary["stored"], summary["duplicates"]) == (2, 0)


@pytest.mark.feature(
    "… it waits for `fusion ingest`, and does not read the same files again", of="`[notes]`: every backend answers"
)
async def test_a_note_is_marked_when_what_it_has_no_more_is_retired(tmp_path: Path) -> None:
    """Not before, and not where a piece was refused: a server that follows the note would not read it again."""
    note, fusion = tmp_path / "note.md", FakeFusion(error=StoreFull("no space"))
    note.write_text("one")
    (tmp_path / "journal.sqlite").write_bytes(b"j")

    def marked() -> bool:
        return Bookmarks(tmp_path, NOBODY).find(str(note)) is not None

    with pytest.raises(StoreFull):
        await ingest([note], NOBODY, gateway(fusion, tmp_path), quiet=True, home=tmp_path)
    fusion.error, fusion.refuses = None, "one"
    await ingest([note], NOBODY, gateway(fusion, tmp_path), quiet=True, home=tmp_path)
    assert not marked()
    fusion.refuses = None
    await ingest([note], NOBODY, gateway(fusion, tmp_path), quiet=True, home=tmp_path)
    assert marked()
    assert (await ingest([note], NOBODY, gateway(fusion, tmp_path), quiet=True, home=tmp_path))["read"] == 1


@pytest.mark.feature("the first `fusion ingest`, which makes the home, stores notes as read from their files")
async def test_the_first_ingest_of_all_reads_with_the_key_of_a_home_that_it_makes(tmp_path: Path) -> None:
    """The server makes a missing home only at the first request; the key and the lock are needed before."""
    home, note, fusion = tmp_path / "home", tmp_path / "note.md", FakeFusion()
    note.write_text("one")
    await ingest([note], NOBODY, gateway(fusion, home), quiet=True, home=home)
    assert [item.source for item, _, _ in fusion.kept] == [f"file:{note}"]
    assert stat.S_IMODE(home.stat().st_mode) == 0o700


async def test_a_server_that_follows_the_files_waits_until_all_is_acknowledged(tmp_path: Path) -> None:
    """From before it is started to the end of the sending; not for the backends, which may take long."""
    file = jsonl(tmp_path, "a")
    waited: list[bool] = []

    def waits() -> bool:
        try:
            with lock_for_server(tmp_path):
                return False
        except StoreBusy:
            return True

    class Looking(FakeFusion):
        async def remember(self, *args: Any, **fields: Any) -> Any:
            waited.append(waits())
            return await super().remember(*args, **fields)

        async def settle(self, tenant: str = "default") -> None:
            waited.append(waits())

    @asynccontextmanager
    async def started() -> AsyncIterator[AsyncClient]:
        waited.append(waits())
        async with gateway(Looking()) as client:
            yield client

    await ingest([file], NOBODY, started(), quiet=True, home=tmp_path)
    assert waited == [True, True, False]


@pytest.mark.row("A163", "`fusion ingest --dry-run` only counts")
async def test_a_dry_run_only_counts(tmp_path: Path) -> None:
    """No gateway is opened for it."""
    summary = await ingest([jsonl(tmp_path, "a", "b"), tmp_path / "nope"], NOBODY, None, quiet=True)
    assert (summary["read"], summary["stored"], summary["settled"], summary["dry_run"]) == (2, 0, None, True)
    assert summary["skipped"][0]["reason"] == "there is no such file or folder"


@pytest.mark.row("A124", "a memory of an ingest that the gateway refuses is skipped alone, with its reason")
async def test_what_the_gateway_refuses_is_skipped_alone(tmp_path: Path) -> None:
    """One bad memory among a hundred is skipped alone, and its reason is reported."""
    file, fusion = jsonl(tmp_path, *(f"memory {n}" for n in range(BATCH))), FakeFusion()
    fusion.refuses = "memory 42"
    summary = await ingest([file], NOBODY, gateway(fusion), quiet=True)
    assert summary["stored"] == BATCH - 1
    assert [row["reason"] for row in summary["skipped"]] == ["refused: there is a 'memory 42' in it"]
    assert [item.text for item, _, _ in fusion.kept] == [f"memory {n}" for n in range(BATCH) if n != 42]


class Earlier(httpx.ASGITransport):
    """A server of a version that does not know the field ``read_from``."""

    async def handle_async_request(self, request: httpx.Request) -> httpx.Response:
        body = (await request.aread()).replace(b'"read_from"', b'"not_known"')
        again = httpx.Request(request.method, request.url, headers=request.headers, content=body)
        return await super().handle_async_request(again)


@pytest.mark.feature("after an upgrade, `fusion ingest` names a server of the earlier version, and skips nothing")
async def test_a_server_of_another_version_ends_the_run(tmp_path: Path) -> None:
    """One line says what to do; the next run sends all, because no bookmark was set."""
    file, fusion = jsonl(tmp_path, "a", "b"), FakeFusion()
    (tmp_path / "journal.sqlite").write_bytes(b"j")
    earlier = AsyncClient.over(Earlier(app_over(fusion, Settings(home=tmp_path))))  # type: ignore[arg-type]
    with pytest.raises(ServerUnreachable, match=r"another version .*not_known: there is no such field\).*fusion stop"):
        await ingest([file], NOBODY, earlier, quiet=True, home=tmp_path)
    assert fusion.kept == []
    assert (await ingest([file], NOBODY, gateway(fusion, tmp_path), quiet=True, home=tmp_path))["stored"] == 2


async def test_a_server_with_a_small_limit_gets_small_batches(tmp_path: Path) -> None:
    """Halved until they fit; what never fits is skipped."""
    file, fusion = jsonl(tmp_path, *("x" * 300 for _ in range(10)), "y" * 3000), FakeFusion()
    summary = await ingest([file], NOBODY, gateway(fusion, max_body_bytes=2000), quiet=True)
    assert len(fusion.kept) == 10
    assert [row["count"] for row in summary["skipped"]] == [1]
    assert "2000 bytes" in summary["skipped"][0]["reason"]


async def test_a_busy_server_is_asked_again(tmp_path: Path) -> None:
    """Overload and a busy store pass; the memories arrive once."""
    fusion = FakeFusion()
    fusion.busy = [Overloaded("busy", 0.001), StoreBusy("locked", 0.001)]
    summary = await ingest([jsonl(tmp_path, "a")], NOBODY, gateway(fusion), quiet=True)
    assert summary["stored"] == 1
    assert fusion.busy == []


async def test_a_full_disk_ends_the_run(tmp_path: Path) -> None:
    """Nothing to be gained by going on: the error is the caller's."""
    with pytest.raises(StoreFull):
        await ingest([jsonl(tmp_path, "a")], NOBODY, gateway(FakeFusion(error=StoreFull("no space"))), quiet=True)


@given(st.lists(st.integers(1, BATCH_BYTES * 2), max_size=12))
def test_batches_are_small_and_complete(sizes: Sequence[int]) -> None:
    """Nothing lost, nothing reordered, at most 100 and at most 200,000 bytes unless one alone is larger."""
    memories = [NewMemory("x" * size) for size in sizes]
    found = list(batches(memories))
    assert [memory for batch in found for memory in batch] == memories
    for batch in found:
        assert 1 <= len(batch) <= BATCH
        assert len(batch) == 1 or len(encode([wire_form(memory) for memory in batch])) <= BATCH_BYTES + 2


names = st.none() | st.text("abcäöü/:._-", min_size=1, max_size=20)
moments = st.builds(
    Moment,
    st.integers(0, 4_000_000_000).map(lambda second: datetime.fromtimestamp(second, UTC)),
    st.sampled_from(("second", "minute", "hour", "day", "month", "year")),
    st.sampled_from((None, "Europe/Stockholm")),
)
numbers = st.integers(0, 9)
places = st.builds(lambda name, at, more: Place(name, at, at + more), st.text("abc", min_size=1), numbers, numbers)
audiences = st.sampled_from(("private", "group"))


@given(
    st.builds(
        NewMemory,
        text=st.text(min_size=1).filter(lambda text: text.strip() and "\0" not in text),
        scope=st.builds(Scope, user_id=names, session_id=names, project=names, audience=audiences),
        kind=st.sampled_from(KINDS),
        raw_kind=names,
        speaker=names,
        at=st.none() | moments,
        place=st.none() | places,
        source=names,
        revision=st.text("abc0", max_size=9),
        origin=st.sampled_from(("owner", "agent", "tool", "import", "system")),
        supersedes=names,
        file=names,
    )
)
def test_a_memory_survives_the_wire(memory: NewMemory) -> None:
    """What a file says is what the intake gets: nothing is lost between the command line and the server."""
    sent = json.loads(encode(wire_form(memory)))
    assert MemoryBody.model_validate(sent).memory() == memory


# What files do not have any more


def sections(file: Path, *texts: str) -> Path:
    """A Markdown file of one section a text; each is long enough to be a piece of its own."""
    file.parent.mkdir(parents=True, exist_ok=True)
    file.write_text("\n".join(f"# {text}\n\n" + f"{text} is told at length. " * 50 + "\n" for text in texts))
    return file


@asynccontextmanager
async def whole_home(home: Path) -> AsyncIterator[AsyncClient]:
    """A real home with one backend."""
    one = {"one": {"adapter": "adapters.inmemory:InMemory"}}
    settings = load(home=home, backends_only=True, embedder={"adapter": ""}, backends=one)
    async with (
        Gateway.open(settings) as fusion,
        AsyncClient.over(Checked(app_over(fusion, settings))) as client,  # type: ignore[arg-type]
    ):
        yield client


async def current(client: AsyncClient) -> list[str]:
    """The headings of what is current, and what the backend has must be the same."""
    kept = [memory["text"] for memory in (await client.memories(limit=100))["memories"]]
    await client.settle()
    found = (await client.search("one", "told at length", limit=100))["hits"]
    assert sorted(hit["text"] for hit in found) == sorted(kept)
    return sorted(text.split("\n")[0][2:] for text in kept)


@pytest.mark.feature(
    "text that an edited, emptied or deleted file no longer has is retired, and is current again when it returns",
)
async def test_what_a_file_does_not_have_any_more_is_retired(tmp_path: Path) -> None:
    """An edited section, an emptied file and a file that is gone: counted beforehand, then retired in every backend.

    What comes back is current again, and a second run has nothing to do.
    """
    folder = tmp_path / "notes"
    edited, emptied, gone = folder / "a.md", folder / "b.md", folder / "deep" / "c.md"
    sections(edited, "alpha", "beta")
    sections(emptied, "gamma")
    sections(gone, "delta")
    async with whole_home(tmp_path / "home") as client:

        async def run(dry_run: bool = False) -> int | None:
            there = None if dry_run else nullcontext(client)
            looking = nullcontext(client) if dry_run else None
            home = None if dry_run else tmp_path / "home"
            return (await ingest([folder], NOBODY, there, quiet=True, home=home, looking=looking))["retired"]

        assert await run() == 0
        assert await current(client) == ["alpha", "beta", "delta", "gamma"]
        sections(edited, "alpha", "new beta")
        emptied.write_text("")
        gone.unlink()
        assert await run(dry_run=True) == 3
        assert await current(client) == ["alpha", "beta", "delta", "gamma"]
        assert await run() == 3
        assert await current(client) == ["alpha", "new beta"]
        assert await run() == 0
        sections(edited, "alpha", "beta")
        sections(gone, "delta")
        assert await run() == 1
        assert await current(client) == ["alpha", "beta", "delta"]


@pytest.mark.feature("… a file that could not be read retires nothing", of="`[notes]`: every backend answers")
async def test_what_could_not_be_read_retires_nothing(tmp_path: Path) -> None:
    """A file that is no text any more, a folder that looks empty for its disk is gone, one that was not named."""
    folder, other = tmp_path / "notes", tmp_path / "other"
    note = sections(folder / "a.md", "alpha")
    sections(other / "b.md", "beta")
    async with whole_home(tmp_path / "home") as client:

        async def run(*paths: Path) -> int | None:
            return (await ingest(paths, NOBODY, nullcontext(client), quiet=True, home=tmp_path / "home"))["retired"]

        assert await run(folder, other) == 0
        note.write_bytes(b"\xff\xfe not UTF-8")
        assert await run(folder, other) == 0
        note.unlink()
        assert await run(folder) == 0
        assert await run(note) == 0
        assert await run(other) == 0
        assert await current(client) == ["alpha", "beta"]
        # Another file there, and the folder is known to be there: what it lacks is gone.
        sections(folder / "new.md", "new")
        assert await run(folder) == 1
        assert await current(client) == ["beta", "new"]


async def test_a_file_is_one_persons_own(tmp_path: Path) -> None:
    """What another user took in from the same file stays theirs until they read it again."""
    note = sections(tmp_path / "a.md", "alpha", "beta")
    home = tmp_path / "home"
    async with whole_home(home) as client:
        for user in ("nadia", "omar"):
            await ingest([note], Scope(user_id=user), nullcontext(client), quiet=True, home=home)
        sections(note, "alpha")
        summary = await ingest([note], Scope(user_id="nadia"), nullcontext(client), quiet=True, home=home)
        assert summary["retired"] == 1
        for user, count in (("nadia", 1), ("omar", 2)):
            assert len((await client.memories(user_id=user))["memories"]) == count


async def test_a_file_of_ten_thousand_pieces_is_told_in_parts(tmp_path: Path) -> None:
    """No request is larger than a server takes, and all pieces are named once."""
    fusion = FakeFusion()
    whole = WholeFiles()
    revisions = [content_hash(str(n)) for n in range(12_000)]
    whole("file:/a.md", revisions, None)
    async with gateway(fusion) as client:
        await whole.retire(client, [], NOBODY, dry_run=True)
    assert sorted(one for file, _ in fusion.retired for one in file.keep) == sorted(revisions)
    assert all(one.startswith(file.part) for file, _ in fusion.retired for one in file.keep)
    assert {file.part for file, _ in fusion.retired} == set("0123456789abcdef")
