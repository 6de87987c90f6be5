"""A home that is deleted, moved, emptied or replaced under a running server: nothing is acknowledged and lost."""

from __future__ import annotations

import json
import os
import shutil
import sqlite3
import subprocess
import sys
from collections.abc import Iterator
from contextlib import closing, contextmanager, suppress
from pathlib import Path

import httpx
import pytest

from fusion.client import Client, stop_server
from fusion.errors import HomeGone
from fusion.gateway.open_journal import write_marks
from fusion.home import read_record
from fusion.ingest.intake import NewMemory
from fusion.journal.store_watermarks import FILE as MARK
from fusion.journal.store_watermarks import HOME
from fusion.store.reachable import Reachable
from fusion.trust.token import home_token
from tests.doors.fakes import SMALL
from tests.faults.home import door, settings_of
from tests.faults.test_stores import NADIA, NAMESPACE, QUESTION, body
from tests.fire.losses import ACCIDENTS

ROOT = Path(__file__).resolve().parents[2]
CORTEX = "adapters.cortex:Cortex"


@pytest.mark.feature(
    "when a home or journal is deleted, moved, emptied, replaced, cut or overwritten under a running "
    "server, nothing is acknowledged and lost, and `/readyz` says so"
)
@pytest.mark.parametrize("name", ACCIDENTS)
async def test_a_moved_home_acknowledges_nothing(home: Path, name: str) -> None:
    """Every write and question is answered 503 with what happened and what to do, and `/readyz` is false.

    What was acknowledged before stays where the accident left it, and nothing is written into what is there now.
    """
    accident = ACCIDENTS[name]
    async with door(settings_of(home, cortex=CORTEX)) as (gateway, client):
        kept = (await client.post("/v1/memories", json=body("The harbour is in Lyon"))).json()["memories"][0]["ref"]
        await gateway.settle()
        await gateway.journal._database.checkpoint()  # so that the file and its log both hold something
        await client.post("/v1/memories", json=body("The cranes are in Nantes"))
        await gateway.settle()
        assert (await client.get("/readyz")).json()["ready"]
        accident.happen(home)
        before = listing(home)
        replies = [
            await client.post("/v1/memories", json=body("The lighthouse is in Brest")),
            await client.delete(f"/v1/memories/{kept}", params={"user_id": "nadia"}),
            await client.post("/v1/retire", json={"files": [{"source": "file:/a.md", "texts": []}]}),
            await client.post("/fuse", json=QUESTION),
        ]
        ready = await client.get("/readyz")
        health = await client.get("/healthz")
        assert listing(home) == before
    for reply in replies:
        assert reply.status_code == 503, reply.text
        assert reply.headers["content-type"] == "application/problem+json"
        assert reply.json()["type"].endswith("HomeGone")
        assert accident.named in reply.json()["detail"]
        assert "backup" in reply.json()["detail"]
    assert ready.status_code == 503
    assert accident.named in ready.json()["reason"]
    assert health.status_code == 200


def listing(home: Path) -> list[str]:
    """What is in a home; below that, an index merges its files when it likes."""
    return sorted(path.name for path in home.iterdir()) if home.is_dir() else []


async def test_a_touched_journal_is_compared_and_kept(home: Path) -> None:
    """Another process may read, touch or write the journal as SQLite does: that loses nothing."""
    async with door(settings_of(home, cortex=CORTEX)) as (gateway, client):
        await gateway.remember([NewMemory("The harbour is in Lyon", scope=NADIA)])
        await gateway.settle()
        os.utime(home / "journal.sqlite")
        os.utime(home / "journal.sqlite-wal")
        with closing(sqlite3.connect(home / "journal.sqlite")) as other, other:
            other.execute("update mark set commits = commits + 1")
        reply = await client.post("/v1/memories", json=body("The lighthouse is in Brest"))
        assert reply.status_code == 201, reply.text
        assert (await client.get("/readyz")).json()["ready"]


class Lagging(Reachable):
    """Files that are deleted between a look and the commit behind it."""

    looks = 0

    def require(self) -> None:
        super().require()
        self.looks += 1
        if self.looks == 1:
            shutil.rmtree(self._file.parent)


async def test_a_home_deleted_before_the_commit_acknowledges_nothing(home: Path) -> None:
    """What was committed into a deleted file is not acknowledged."""
    async with door(settings_of(home, cortex=CORTEX)) as (gateway, _):
        await gateway.remember([NewMemory("The harbour is in Lyon", scope=NADIA)])
        await gateway.settle()
        database = gateway.journal._database
        assert database._guard is not None
        lagging = Lagging(home / "journal.sqlite")
        lagging.hold()
        held = database._guard.reachable
        object.__setattr__(database._guard, "reachable", lagging)
        with pytest.raises(HomeGone, match="was deleted or moved away"):
            await gateway.remember([NewMemory("The lighthouse is in Brest", scope=NADIA)])
        held.close()
    assert not home.exists()


@contextmanager
def served(home: Path, config: Path) -> Iterator[subprocess.Popen[str]]:
    process = subprocess.Popen(
        [
            sys.executable,
            "-m",
            "fusion",
            "serve",
            "--home",
            str(home),
            "--config",
            str(config),
            "--port",
            "0",
            "--json",
        ],
        stdout=subprocess.PIPE,
        stderr=subprocess.PIPE,
        text=True,
        env={**os.environ, "PYTHONPATH": str(ROOT)},
    )
    try:
        assert process.stdout is not None
        assert json.loads(process.stdout.readline())["url"]
        yield process
    finally:
        process.kill()
        process.communicate(timeout=60)


@pytest.mark.feature(
    "a server without its home ends by itself and writes nothing into a new one; clients start another server"
)
def test_the_server_ends_and_the_client_starts_another(tmp_path: Path) -> None:
    """The home is deleted: a client that still knows the server's address gets its answer from a new one."""
    home, config = tmp_path / "home", tmp_path / "fusion.toml"
    home.mkdir(mode=0o700)
    config.write_text(SMALL)
    with served(home, config) as process:
        with Client.of_home(home, config=config, start=True) as client:
            client.remember([{"text": "The harbour is in Lyon"}])
            shutil.rmtree(home)
            client.remember([{"text": "The lighthouse is in Brest"}])
            record = read_record(home)
            assert record is not None
            assert record.pid != process.pid
            assert [one["text"] for one in client.memories()["memories"]] == ["The lighthouse is in Brest"]
        _, errors = process.communicate(timeout=60)
        assert process.returncode == 3
        assert "while a server had it open" in errors
        stop_server(home)


def test_the_server_of_a_replaced_home_ends_and_leaves_the_new_one_alone(tmp_path: Path) -> None:
    """Nobody asks it anything: it ends by itself and says why. What it had acknowledged is where it was moved to."""
    home, config = tmp_path / "home", tmp_path / "fusion.toml"
    home.mkdir(mode=0o700)
    config.write_text(SMALL)
    with served(home, config) as process:
        with Client.of_home(home, config=config, start=True) as client:
            client.remember([{"text": "The harbour is in Lyon"}])
            home.rename(tmp_path / "elsewhere")
            home.mkdir(mode=0o700)
            _, errors = process.communicate(timeout=60)
        assert process.returncode == 3
        # The server may look between the two calls above, when there is no folder at all.
        found = ("was replaced by another folder", "was deleted or moved away")
        assert any(f"{what} while a server had it open" in errors for what in found)
    assert list(home.iterdir()) == []
    with closing(sqlite3.connect(tmp_path / "elsewhere" / "journal.sqlite")) as db:
        assert db.execute("select text from event").fetchall() == [("The harbour is in Lyon",)]


OVERMOUNTED = """
"$1" -m fusion serve --home "$2" --config "$3" --port 0 --json &
read go && mount -t tmpfs none "$2" && echo mounted
wait $!
code=$?
ls -A "$2"
exit $code
"""


@pytest.mark.feature("a server whose home is hidden by a mount acknowledges nothing more, and ends")
@pytest.mark.skipif(not NAMESPACE, reason="this machine lets nobody mount a tmpfs")
def test_a_disk_that_is_mounted_over_the_home_ends_the_server(tmp_path: Path) -> None:
    """Nothing is acknowledged or written there, and what was kept before is beneath it."""
    home, config = tmp_path / "home", tmp_path / "fusion.toml"
    home.mkdir(mode=0o700)
    config.write_text(SMALL)
    process = subprocess.Popen(
        [*NAMESPACE, "sh", "-c", OVERMOUNTED, "sh", sys.executable, str(home), str(config)],
        stdin=subprocess.PIPE,
        stdout=subprocess.PIPE,
        stderr=subprocess.PIPE,
        text=True,
        env={**os.environ, "PYTHONPATH": str(ROOT)},
    )
    try:
        assert process.stdin is not None
        assert process.stdout is not None
        url = json.loads(process.stdout.readline())["url"]
        key = {"authorization": f"Bearer {home_token(home)}"}
        with httpx.Client(base_url=url, timeout=60, headers=key) as client:
            assert client.post("/v1/memories", json=body("The harbour is in Lyon")).status_code == 201
            process.stdin.write("go\n")
            process.stdin.flush()
            assert process.stdout.readline() == "mounted\n"
            with suppress(httpx.TransportError):  # it may have ended by itself by then
                refused = client.post("/v1/memories", json=body("The lighthouse is in Brest"))
                assert refused.status_code == 503
        left, errors = process.communicate(timeout=60)
    finally:
        process.kill()
        process.communicate(timeout=60)
    assert process.returncode == 3
    assert "while a server had it open" in errors
    assert left == ""
    with closing(sqlite3.connect(home / "journal.sqlite")) as db:
        assert db.execute("select text from event").fetchall() == [("The harbour is in Lyon",)]


async def test_no_mark_is_written_where_the_journal_is_not(home: Path, tmp_path: Path) -> None:
    """Of a disk that was mounted over the home the mark finds an empty folder; in the home it is written."""
    (hidden := tmp_path / "hidden").mkdir()
    async with door(settings_of(home, cortex=CORTEX)) as (gateway, _):
        await gateway.remember([NewMemory("The harbour is in Lyon", scope=NADIA)])
        await write_marks(gateway.journal, {HOME: hidden})
        assert not list(hidden.iterdir())
        (home / MARK).unlink(missing_ok=True)
        await write_marks(gateway.journal, {HOME: home})
    assert (home / MARK).exists()


async def test_files_that_could_not_be_compared_are_compared_again(home: Path) -> None:
    """Another process holds the journal while its files have changed: the caller is asked to wait, then all is well."""
    async with door(settings_of(home, cortex=CORTEX)) as (gateway, client):
        await gateway.remember([NewMemory("The harbour is in Lyon", scope=NADIA)])
        await gateway.settle()
        writer = gateway.journal._database._writing
        assert writer is not None
        writer.execute("pragma busy_timeout = 10")
        with closing(sqlite3.connect(home / "journal.sqlite", isolation_level=None)) as other:
            other.execute("begin immediate")
            os.utime(home / "journal.sqlite")
            for _ in range(2):
                refused = await client.post("/v1/memories", json=body("The lighthouse is in Brest"))
                assert refused.status_code == 503
                assert refused.json()["type"].endswith("StoreBusy")
            other.execute("rollback")
        assert (await client.post("/v1/memories", json=body("The lighthouse is in Brest"))).status_code == 201
