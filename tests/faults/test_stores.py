"""The fault matrix of stores and ingest as a caller sees it: a whole home, its real files, a real server before it."""

from __future__ import annotations

import asyncio
import json
import os
import shutil
import sqlite3
import subprocess
import sys
from collections.abc import Iterator, Mapping
from contextlib import closing, contextmanager
from pathlib import Path
from typing import Self

import httpx
import pytest

from fusion.contract import Scope
from fusion.errors import ModelMissing, StoreDamaged
from fusion.ingest.intake import NewMemory
from fusion.settings import load
from fusion.sources.readers import Skip, read
from fusion.store.sqlite import BUSY_S
from fusion.trust.token import home_token
from tests.doors.fakes import until
from tests.fakes import FakeEmbedder
from tests.faults.home import door, logged, settings_of, statuses

ROOT = Path(__file__).resolve().parents[2]
NADIA = Scope(user_id="nadia", audience="private")
QUESTION = {"query": "which harbour is it?", "user_id": "nadia", "timeout_ms": 60_000}
CORTEX = "adapters.cortex:Cortex"


def body(text: str) -> dict[str, str]:
    return {"text": text, "user_id": "nadia", "audience": "private"}


# A full disk


def _namespace() -> list[str]:
    """How this machine lets a test mount something that only it sees; nothing where it does not."""
    for flags in (["-m"], ["-Urm"]):
        command = ["unshare", *flags, "mount", "-t", "tmpfs", "-o", "size=64k", "none", "/mnt"]
        if shutil.which("unshare") and subprocess.run(command, capture_output=True, check=False).returncode == 0:
            return ["unshare", *flags]
    return []


NAMESPACE = _namespace()
SMALL_DISK = 'mount -t tmpfs -o size=4m,mode=0700 none "$1" && cp "$2" "$1/fusion.toml" && head -c 600000 /dev/zero >"$1/ballast" && "$3" -m fusion allow --home "$1" --yes >/dev/null && exec "$3" -m fusion serve --home "$1" --port 0 --json'  # noqa: E501
"""its home is a disk of 4 MB that no other process sees"""


@contextmanager
def server_on_a_small_disk(home: Path, config: Path) -> Iterator[tuple[str, Path]]:
    """A server's URL, and its home as it is reached from outside its mount namespace."""
    home.mkdir()
    process = subprocess.Popen(
        [*NAMESPACE, "sh", "-c", SMALL_DISK, "sh", str(home), str(config), sys.executable],
        stdout=subprocess.PIPE,
        text=True,
        env={**os.environ, "PYTHONPATH": str(ROOT)},
    )
    with process:
        try:
            assert process.stdout is not None
            ready = process.stdout.readline()
            assert ready, "the server did not start"
            yield json.loads(ready)["url"], Path(f"/proc/{process.pid}/root{home}")
        finally:
            process.terminate()
            process.communicate(timeout=60)


@contextmanager
def copied(file: Path, folder: Path) -> Iterator[sqlite3.Connection]:
    """A copy of a database with its log: SQLite itself does not find its way into another mount namespace."""
    folder.mkdir(exist_ok=True)
    for part in (file, file.with_name(file.name + "-wal")):
        if part.exists():
            shutil.copy(part, folder)
    with closing(sqlite3.connect(folder / file.name)) as db:
        yield db


@pytest.mark.feature("disk full: 507, nothing partial; reads continue, and writes when there is space again")
@pytest.mark.skipif(not NAMESPACE, reason="this machine lets nobody mount a tmpfs")
def test_disk_full(tmp_path: Path) -> None:
    """A real disk of 4 MB: 507 as problem+json, nothing half-written, reads go on; with space again, so do writes."""
    config = tmp_path / "fusion.toml"
    config.write_text(f'backends_only = true\n[embedder]\nadapter = ""\n[backends.cortex]\nadapter = "{CORTEX}"\n')
    kept: list[str] = []
    with server_on_a_small_disk(tmp_path / "home", config) as (url, home), httpx.Client(base_url=url) as client:
        client.headers["authorization"] = f"Bearer {home_token(home)}"

        def remember(n: int) -> httpx.Response:
            words = " ".join(f"word{n}x{i}" for i in range(3000))
            return client.post("/v1/memories", json=body(f"Harbour {n} {words}"), timeout=60)

        for n in range(200):
            reply = remember(n)
            if reply.status_code != 201:
                break
            kept.append(reply.json()["memories"][0]["ref"])
        assert reply.status_code == 507, reply.text
        assert reply.headers["content-type"] == "application/problem+json"
        assert "no space left" in reply.json()["detail"]
        assert kept

        assert client.get(f"/v1/memories/{kept[0]}", params={"user_id": "nadia"}).status_code == 200
        assert client.get("/healthz").status_code == 200
        with copied(home / "journal.sqlite", tmp_path / "full") as db:
            assert db.execute("select count(*) from event").fetchone() == (len(kept),)
        assert remember(n).status_code == 507

        (home / "ballast").unlink()
        again = remember(n)
        assert again.status_code == 201, again.text
        kept.append(again.json()["memories"][0]["ref"])
        assert client.post("/v1/settle", json={"timeout_s": 60}, timeout=60).json()["settled"]
        fused = client.post("/fuse", json=QUESTION, timeout=60).json()
        assert fused["backends"][0]["status"] == "ok"
        assert all(client.get(f"/v1/memories/{r}", params={"user_id": "nadia"}).status_code == 200 for r in kept)
        for file in ("journal.sqlite", "backends/cortex/graph.sqlite"):
            with copied(home / file, tmp_path / "after") as db:
                assert db.execute("pragma integrity_check").fetchone() == ("ok",)


# Another writer


@pytest.mark.feature("another writer: after 5 s of waiting 503 with Retry-After; readers never wait")
async def test_locked_by_another_writer(home: Path) -> None:
    """A writer waits up to 5 s and then gets 503 with Retry-After; questions are answered meanwhile."""
    assert BUSY_S == 5.0
    async with door(settings_of(home, cortex=CORTEX)) as (gateway, client):
        [first] = await gateway.remember([NewMemory("The harbour is in Lyon", scope=NADIA)])
        await gateway.settle()
        with closing(sqlite3.connect(home / "journal.sqlite", isolation_level=None)) as other:
            other.execute("begin immediate")
            waiting = asyncio.create_task(client.post("/v1/memories", json=body("The lighthouse is in Brest")))
            fused = await client.post("/fuse", json=QUESTION)
            memory = await client.get(f"/v1/memories/{first.ref}", params={"user_id": "nadia"})
            assert not waiting.done()
            assert (fused.status_code, memory.status_code) == (200, 200)
            assert "harbour is in Lyon" in fused.json()["block"]
            other.execute("rollback")
            assert (await waiting).status_code == 201

            writer = gateway.journal._database._writing
            assert writer is not None
            writer.execute("pragma busy_timeout = 10")
            other.execute("begin immediate")
            refused = await client.post("/v1/memories", json=body("The cranes are in Nantes"))
            other.execute("rollback")
        assert refused.status_code == 503
        assert refused.headers["content-type"] == "application/problem+json"
        assert int(refused.headers["retry-after"]) >= 1
        assert (await client.post("/v1/memories", json=body("The cranes are in Nantes"))).status_code == 201


# Files


@pytest.mark.row("A124", "files that are empty, binary, of 100 MB, linked outside, deleted or growing")
def test_files_of_every_wrong_kind(tmp_path: Path) -> None:
    """Empty, binary, 100 MB, a link out of the folder, gone, changed while read: each is named, the others are done."""
    notes = tmp_path / "notes"
    notes.mkdir()
    (notes / "a.md").write_text("The harbour is in Lyon")
    (notes / "empty.md").touch()
    (notes / "binary.md").write_bytes(b"\x7fELF\0\0")
    for name in ("huge.md", "huge.jsonl"):
        with (notes / name).open("wb") as sparse:
            sparse.truncate(100_000_000)
    (tmp_path / "outside.md").write_text("secret")
    (notes / "link.md").symlink_to(tmp_path / "outside.md")
    (notes / "vanishing.md").write_text("soon gone")
    growing = notes / "growing.jsonl"
    growing.write_text('{"text": "The lighthouse is in Brest"}\n')
    (notes / "z.md").write_text("The cranes are in Nantes")
    texts, skipped = [], {}
    for item in read([notes]):
        if isinstance(item, Skip):
            skipped[Path(item.where.partition(":")[0]).name] = item.reason
            continue
        texts.append(item.text)
        if "harbour" in item.text:
            (notes / "vanishing.md").unlink()
        if "lighthouse" in item.text:
            with growing.open("a") as file:
                file.write('{"text": "more"}\n')
    assert "The harbour is in Lyon" in texts
    assert "The cranes are in Nantes" in texts
    assert "The lighthouse is in Brest" in texts
    assert skipped == {
        "empty.md": "empty",
        "binary.md": "binary: it has NUL bytes",
        "huge.md (100.0 MB)": "larger than 16 MB ([ingest] max_file_mb)",
        "huge.jsonl": "longer than 1,048,576 bytes",
        "link.md": "a link that leads out of its folder",
        "vanishing.md": "gone before it could be read",
        "growing.jsonl": "changed while it was read; run it again",
    }


# The embedder


class Moody(FakeEmbedder):
    """An embedder whose model can be away."""

    away = True

    @classmethod
    async def open(cls, folder: Path, options: Mapping[str, object]) -> Self:
        return cls(synonyms={"seaport": "harbour"})

    async def _admit(self) -> None:
        if Moody.away:
            raise ModelMissing("the model is away")


@pytest.mark.row(
    "A088",
    "A100",
    "the embedder is down: search by words at once, vectors when it is back; the missing ones are counted",
)
async def test_embedder_down(home: Path) -> None:
    """Found by its words at once, degraded and with the missing vectors counted; by its meaning when it is back."""
    backends = {"cortex": {"adapter": CORTEX}}
    settings = load(home=home, backends_only=True, embedder={"adapter": f"{__name__}:Moody"}, backends=backends)
    Moody.away = True
    async with door(settings) as (gateway, client):
        await gateway.remember([NewMemory("The harbour is in Lyon", scope=NADIA)])
        await gateway.settle()
        await gateway.health.look()
        fused = (await client.post("/fuse", json=QUESTION)).json()
        [state] = (await client.get("/v1/backends")).json()["backends"]
        Moody.away = False
        await gateway.settle()
        await gateway.health.look()
        again = (await client.post("/fuse", json={**QUESTION, "query": "seaport"})).json()
    assert "harbour is in Lyon" in fused["block"]
    assert fused["degraded"]
    assert fused["coverage"]["vectors_pending"] == 1
    assert (state["vectors"], state["vectors_pending"], state["degraded"]) == (0, 1, True)
    assert any("the model is away" in note for note in state["notes"])
    assert "harbour is in Lyon" in again["block"]
    assert again["coverage"]["vectors_pending"] == 0
    assert not again["degraded"]


# Damage


def flip(folder: Path, pattern: str) -> None:
    """One byte of each file is another."""
    files = sorted(folder.rglob(pattern))
    assert files
    for file in files:
        content = bytearray(file.read_bytes())
        content[len(content) // 4] ^= 0xFF
        # Renamed into place, so that what the running server has mapped into memory stays as it was.
        other = file.with_name("flipped")
        other.write_bytes(content)
        other.replace(file)


@pytest.mark.feature(
    "… and while the server runs: found by a periodic check, rebuilt from its source",
    of="a corrupt index at the start",
)
async def test_damaged_index_is_found_and_written_again(home: Path) -> None:
    """Found by the periodic look while the server runs, written again from its source; nothing is left to fix."""
    settings = settings_of(home, cortex=CORTEX, markdown="adapters.markdown:Markdown")
    async with door(settings) as (gateway, client):
        await gateway.remember([NewMemory(f"The harbour {n} is in Lyon", scope=NADIA) for n in range(30)])
        await gateway.settle()
        before = (await client.post("/fuse", json=QUESTION)).json()
        assert await gateway.check() == {}
        for name in ("cortex", "markdown"):
            flip(home / "backends" / name / "index" / "lexical", "*.term")
        with logged() as lines:
            found = await gateway.check()
        assert set(found) == {"cortex", "markdown"}
        assert all("is not what was written" in fault for fault in found.values())
        assert "rebuilding" in "".join(lines)
        assert await gateway.check() == {}
        after = (await client.post("/fuse", json=QUESTION)).json()
        assert after["memories"] == before["memories"]
        assert not after["degraded"]
        await gateway.remember([NewMemory("The lighthouse is in Brest", scope=NADIA)])
        await gateway.settle()
        lighthouse = {**QUESTION, "query": "where is the lighthouse?"}
        assert "Brest" in (await client.post("/fuse", json=lighthouse)).json()["block"]
    async with door(settings) as (_, client):
        assert (await client.post("/fuse", json=QUESTION)).json()["coverage"]["ratio"] == 1.0


@pytest.mark.feature(
    "… meanwhile vectors replace words, and other backends replace this one", of="a corrupt index at the start"
)
async def test_the_others_answer_while_an_index_is_written_again(home: Path) -> None:
    """By its words a rebuilding backend cannot be searched: the other one answers, and the answer is degraded."""
    settings = settings_of(home, cortex=CORTEX, triples="adapters.triples:Triples")
    async with door(settings) as (gateway, client):
        await gateway.remember([NewMemory("The harbour is in Lyon", scope=NADIA)])
        await gateway.settle()
        index = gateway.guarded["cortex"].backend.graph._index  # type: ignore[attr-defined]
        index._files.rebuilding = "a byte that is another"
        fused = (await client.post("/fuse", json=QUESTION)).json()
        index._files.rebuilding = None
        again = (await client.post("/fuse", json=QUESTION)).json()
    assert statuses(fused) == {"cortex": "invalid", "triples": "ok"}
    assert "being rebuilt" in fused["backends"][0]["detail"]
    assert fused["degraded"]
    assert "harbour is in Lyon" in fused["block"]
    assert statuses(again) == {"cortex": "ok", "triples": "ok"}


@pytest.mark.feature("a backend's damaged source data is reported in /readyz and in each answer, while the server runs")
async def test_a_damaged_source_of_truth_is_reported_and_never_replaced(home: Path) -> None:
    """A store that is not derived: the look says which and how to fix it, /readyz and every answer say degraded."""
    async with door(settings_of(home, cortex=CORTEX, triples="adapters.triples:Triples")) as (gateway, client):
        await gateway.remember([NewMemory(f"The harbour {n} is in Lyon", scope=NADIA) for n in range(100)])
        await gateway.settle()
        store = gateway.guarded["cortex"].backend.graph._database  # type: ignore[attr-defined]
        await store.checkpoint()
        content = bytearray(store.path.read_bytes())
        content[8192:16384] = b"\xff" * 8192
        store.path.write_bytes(content)
        found = await gateway.check()
        assert set(found) == {"cortex"}
        assert "restore its folder from a backup or move that away" in found["cortex"]
        ready = (await client.get("/readyz")).json()
        assert ready["notes"][-1] == found["cortex"]
        fused = (await client.post("/fuse", json=QUESTION)).json()
        assert fused["degraded"]
        assert "Lyon" in fused["block"]
        states = {s["name"]: s["degraded"] for s in (await client.get("/v1/backends")).json()["backends"]}
        assert states == {"cortex": True, "triples": False}


async def test_the_integrity_check_runs_periodically(home: Path) -> None:
    """Every so many hours by the settings; here every few milliseconds."""
    settings = settings_of(home, cortex=CORTEX)
    checks = settings.checks.model_copy(update={"every_hours": 1e-6})
    jobs = settings.jobs.model_copy(update={"start_after_s": 0.0})
    async with door(settings.model_copy(update={"checks": checks, "jobs": jobs})) as (gateway, _):
        await gateway.remember([NewMemory("The harbour is in Lyon", scope=NADIA)])
        await gateway.settle()
        index = home / "backends" / "cortex" / "index"
        with logged() as lines:
            flip(index / "lexical", "*.term")
            await until(lambda: any("rebuilding" in line for line in lines))
        assert await gateway.check() == {}


DAMAGED = {
    "an index": ("event_place", "sqlite_autoindex_event_1"),
    "the events": ("event",),
    "the deliveries": ("delivery",),
    "the words": ("term",),
}


def ruin(file: Path, *names: str) -> None:
    """The last page of each of these tables or indexes is overwritten."""
    with closing(sqlite3.connect(file)) as db:
        db.execute("pragma wal_checkpoint(truncate)")
        size = db.execute("pragma page_size").fetchone()[0]
        pages = [
            db.execute("select max(pageno) from dbstat where name = ? and pagetype = 'leaf'", (name,)).fetchone()[0]
            for name in names
        ]
    content = bytearray(file.read_bytes())
    for page in pages:
        content[(page - 1) * size : page * size] = b"\xff" * size
    file.write_bytes(content)


@pytest.mark.feature("a corrupt journal is read-only, degraded, and never replaced; what was forgotten stays so")
@pytest.mark.parametrize("part", DAMAGED)
async def test_damaged_journal_starts_read_only(home: Path, part: str) -> None:
    """Never replaced, never silently empty: questions are answered and say what is wrong; writing is refused with the
    fix; what was forgotten stays so, though a backend still has it; the file is as it was."""
    settings = settings_of(home, cortex=CORTEX)
    async with door(settings) as (gateway, client):
        kept = await gateway.remember(
            [NewMemory(f"Harbour {n} is in Lyon, as {n} people say", scope=NADIA, source=f"s{n}") for n in range(300)]
        )
        await gateway.settle()
        await gateway.deliverer.close()
        for one in kept[::2]:  # the backend is never told
            await gateway.journal.forget([one.ref], NADIA)
    journal = home / "journal.sqlite"
    ruin(journal, *DAMAGED[part])
    before = journal.read_bytes()
    async with door(settings) as (gateway, client):
        fused = (await client.post("/fuse", json={**QUESTION, "query": "which harbour is in Lyon?"})).json()
        ready = await client.get("/readyz")
        refused = await client.post("/v1/memories", json=body("The lighthouse is in Brest"))
        forgotten = await client.delete(f"/v1/memories/{kept[1].ref}", params={"user_id": "nadia"})
        states = await client.get("/v1/backends")
        status = await client.get("/v1/status")
        assert (await client.post("/v1/settle", json={"timeout_s": 60})).json()["settled"]
        assert set(await gateway.check()) == {"journal"}
    assert fused["degraded"]
    assert fused["backends"][0]["status"] == "ok"
    shown = {member["text"] for memory in fused["memories"] for member in memory["members"]}
    assert shown.isdisjoint(f"Harbour {n} is in Lyon, as {n} people say" for n in range(0, 300, 2))
    assert shown
    assert ready.status_code == 200
    assert "journal.sqlite is damaged" in ready.json()["notes"][-1]
    for reply in (refused, forgotten):
        assert reply.status_code == 500
        assert reply.json()["type"].endswith("StoreDamaged")
        assert "restore it from a backup" in reply.json()["detail"]
    assert (states.status_code, status.status_code) == (200, 200)
    assert journal.read_bytes() == before


@pytest.mark.feature("… also if nothing of it can be read", of="a corrupt journal is read-only")
async def test_an_unreadable_journal_is_kept_and_refused(home: Path) -> None:
    """No database at all: the home does not open, and the file is left as it is with its fix named."""
    async with door(settings_of(home, cortex=CORTEX)) as (gateway, _):
        await gateway.remember([NewMemory("The harbour is in Lyon", scope=NADIA)])
    (home / "journal.sqlite").write_bytes(b"rubbish " * 4096)
    with pytest.raises(StoreDamaged, match=r"journal\.sqlite is damaged.*fusion repair"):
        async with door(settings_of(home, cortex=CORTEX)):
            raise AssertionError
    assert (home / "journal.sqlite").read_bytes() == b"rubbish " * 4096
