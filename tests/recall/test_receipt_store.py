"""Receipts can be read at once, after a restart, and not for ever."""

from __future__ import annotations

import asyncio
import os
import secrets
import sqlite3
import threading
import time
from collections.abc import Callable, Mapping, Sequence
from contextlib import closing, suppress
from dataclasses import replace
from datetime import UTC, datetime
from pathlib import Path
from typing import TYPE_CHECKING

import orjson
import pytest
import zstandard

from fusion.errors import NotFound
from fusion.journal import Journal
from fusion.recall.receipt import Receipt
from fusion.recall.receipt_store import MAX_WAITING_RECEIPTS, ReceiptFile, ReceiptFilter, ReceiptStore, Stored
from fusion.recall.shared_receipts import SharedReceipts

if TYPE_CHECKING:
    from fusion.store.postgres import Server


def receipt(name: str, tenant: str = "default", at: float | None = None) -> Receipt:
    return Receipt(name, tenant, time.time() if at is None else at, {"receipt_id": name}, {})


OpenReceipts = Callable[[float], ReceiptStore]
"""opens the receipts of one tenant, kept for so many days; each time the same ones"""


@pytest.fixture(params=["sqlite", "postgres"])
async def open_receipts(request: pytest.FixtureRequest, tmp_path: Path) -> OpenReceipts:
    """Receipts in a file, and in PostgreSQL."""
    if request.param == "sqlite":
        return lambda days: ReceiptStore(ReceiptFile(tmp_path / "receipts.sqlite"), days)
    server, tenant = request.getfixturevalue("journal_server"), secrets.token_hex(6)
    await (await Journal.open_shared(server, tenant)).close()
    return lambda days: ReceiptStore(SharedReceipts(server, tenant), days)


async def test_a_receipt_is_there_as_soon_as_it_is_kept(open_receipts: OpenReceipts) -> None:
    """Before it is written it is read from memory, and after from the file."""
    receipts = open_receipts(7)
    receipts.keep(receipt("r1"))
    assert (await receipts.read("r1", "default"))["receipt_id"] == "r1"
    await receipts.flush()
    assert (await receipts.read("r1", "default"))["receipt_id"] == "r1"
    await receipts.close()


class WrittenWhileCounted(ReceiptStore):
    """Its write waits for `begin`, and its count for the end of the write."""

    def __init__(self, file: Path) -> None:
        super().__init__(ReceiptFile(file), keep_days=7)
        self.begin, self.written = threading.Event(), threading.Event()

    def _write(self, batch: Sequence[Stored]) -> None:
        assert self.begin.wait(60)
        super()._write(batch)
        self.written.set()

    def _count(self, tenant: str) -> int:
        assert self.written.wait(60)
        return super()._count(tenant)


async def test_receipt_that_is_being_written_is_counted_once(tmp_path: Path) -> None:
    """It was counted among those that wait, and then in the file: two of one."""
    receipts = WrittenWhileCounted(tmp_path / "receipts.sqlite")
    receipts.keep(receipt("r1"))
    writing = asyncio.create_task(receipts.flush())
    counting = asyncio.create_task(receipts.kept("default"))
    await asyncio.sleep(0)
    receipts.begin.set()
    assert await counting == 1
    await writing
    await receipts.close()


@pytest.mark.feature("… stored by column, and read as one row for each", of="a receipt has a reason for every")
async def test_a_receipt_is_read_with_a_row_for_each_candidate(open_receipts: OpenReceipts) -> None:
    """It is kept by column, with NaN where a memory lacks a signal; read from memory, from the file and as it was made
    each candidate has the signals that it has."""
    signals = {"bm25": [0.5, float("nan")], "similarity": [float("nan"), 0.25]}
    reasons = {"ref": ["m1", "m2"], "decision": ["packed", "under the floor"], "signals": signals}
    made = Receipt("r1", "default", time.time(), {"receipt_id": "r1"}, reasons)
    rows = [
        {"ref": "m1", "decision": "packed", "signals": {"bm25": 0.5}},
        {"ref": "m2", "decision": "under the floor", "signals": {"similarity": 0.25}},
    ]
    receipts = open_receipts(7)
    receipts.keep(made)
    waiting = await receipts.read("r1", "default")
    await receipts.flush()
    kept = await receipts.read("r1", "default")
    await receipts.close()
    assert made.body == waiting == kept == {"receipt_id": "r1", "candidates": rows}


@pytest.mark.feature("a receipt of an earlier version is read with the current names")
async def test_a_receipt_with_earlier_names_is_read_under_current_ones(open_receipts: OpenReceipts) -> None:
    """The keys `sightings` and `beside` of a candidate, and the signals `own`, `agreement` and `linked`."""
    hit = ["mem0", "m1", "n1", 1, "first seen"]
    reasons = {
        "ref": ["m1", "m2"],
        "beside": [None, "m1"],
        "sightings": [[hit], []],
        "signals": {"own": [0.5, None], "agreement": [1.0, 0.0], "linked": [None, 0.25]},
    }
    summary = {"receipt_id": "r1", "weights": {"own": 6, "agreement": 1, "bm25": 2}}
    receipts = open_receipts(7)
    receipts.keep(Receipt("r1", "default", time.time(), summary, reasons))
    await receipts.flush()
    body = await receipts.read("r1", "default")
    await receipts.close()
    assert body["weights"] == {"similarity": 6, "fusion": 1, "bm25": 2}
    assert body["candidates"] == [
        {"ref": "m1", "neighbour_of": None, "source_hits": [hit], "signals": {"similarity": 0.5, "fusion": 1.0}},
        {"ref": "m2", "neighbour_of": "m1", "source_hits": [], "signals": {"fusion": 0.0, "graph": 0.25}},
    ]


async def test_receipts_outlive_the_process(open_receipts: OpenReceipts) -> None:
    """Closing writes what waits."""
    receipts = open_receipts(7)
    receipts.keep(receipt("r1"))
    await receipts.close()
    again = open_receipts(7)
    assert (await again.read("r1", "default"))["receipt_id"] == "r1"
    await again.close()


async def test_another_tenants_receipt_does_not_exist(open_receipts: OpenReceipts) -> None:
    """Uniform: no receipt, in memory or in the file."""
    receipts = open_receipts(7)
    receipts.keep(receipt("r1", tenant="a"))
    with pytest.raises(NotFound):
        await receipts.read("r1", "b")
    await receipts.flush()
    with pytest.raises(NotFound):
        await receipts.read("r1", "b")
    await receipts.close()


@pytest.mark.feature("receipts are kept for a configured time, separately for each tenant")
async def test_a_receipt_past_its_time_is_gone(open_receipts: OpenReceipts) -> None:
    """Kept for a day, made two days ago."""
    receipts = open_receipts(1)
    receipts.keep(receipt("old", at=time.time() - 2 * 86_400))
    await receipts.flush()
    with pytest.raises(NotFound, match="kept for 1 days"):
        await receipts.read("old", "default")
    await receipts.close()


async def test_a_damaged_file_is_set_aside(tmp_path: Path) -> None:
    """Explanations are not worth a gateway that does not start."""
    file = tmp_path / "receipts.sqlite"
    file.write_bytes(b"no database at all" * 100)
    receipts = ReceiptStore(ReceiptFile(file), keep_days=7)
    receipts.keep(receipt("r1"))
    await receipts.close()
    assert (tmp_path / "receipts.damaged").read_bytes().startswith(b"no database")
    again = ReceiptStore(ReceiptFile(file), keep_days=7)
    assert (await again.read("r1", "default"))["receipt_id"] == "r1"
    await again.close()


async def test_receipts_are_read_while_others_are_written(tmp_path: Path, caplog: pytest.LogCaptureFixture) -> None:
    """Reading in several threads never makes a write fail, not even one that shrinks the file."""
    receipts = ReceiptStore(ReceiptFile(tmp_path / "receipts.sqlite", max_bytes=100_000), keep_days=7)

    async def read(turn: int) -> None:
        for number in range(40):
            with suppress(NotFound):  # an old one may have made room
                await receipts.read(f"r{turn}-{number}", "default")

    for turn in range(20):
        for number in range(40):
            receipts.keep(Receipt(f"r{turn}-{number}", "default", time.time(), {"noise": os.urandom(1000).hex()}, {}))
        await asyncio.gather(receipts.flush(), *(read(turn - 1) for _ in range(8)))
    await receipts.close()
    assert not caplog.messages


async def test_what_cannot_be_written_waits_and_is_bounded(tmp_path: Path) -> None:
    """Another process holds the file: receipts stay readable from memory, at most a thousand, and are written later."""
    receipts = ReceiptStore(ReceiptFile(tmp_path / "receipts.sqlite"), keep_days=7)
    other = sqlite3.connect(tmp_path / "receipts.sqlite", isolation_level=None)
    receipts._table._database.execute("pragma busy_timeout = 0")
    other.execute("begin exclusive")
    for number in range(MAX_WAITING_RECEIPTS + 1):
        receipts.keep(receipt(f"r{number}"))
    await receipts.flush()
    assert (await receipts.read(f"r{MAX_WAITING_RECEIPTS}", "default"))["receipt_id"] == f"r{MAX_WAITING_RECEIPTS}"
    other.execute("rollback")
    other.close()
    with pytest.raises(NotFound):
        await receipts.read("r0", "default")
    await receipts.close()


# Lists -----------------------------------------------------------------------------------------------------------


def listed_receipt(name: str, tenant: str = "default", at: float | None = None, **owner: str) -> Receipt:
    return replace(receipt(name, tenant, at), row={"receipt_id": name, **owner})


async def names(receipts: ReceiptStore, chosen: ReceiptFilter | None = None, limit: int = 10) -> list[str]:
    found = await receipts.listed(chosen or ReceiptFilter("default"), limit)
    return [one.row["receipt_id"] for one in found]


@pytest.mark.feature("receipts are listed newest first, before and after they are written")
async def test_list_of_receipts_has_the_written_and_the_waiting_in_their_order(open_receipts: OpenReceipts) -> None:
    receipts = open_receipts(7)
    for name in ("r1", "r2"):
        receipts.keep(listed_receipt(name))
    await receipts.flush()
    for name in ("r3", "r4"):
        receipts.keep(listed_receipt(name))
    assert await names(receipts) == ["r4", "r3", "r2", "r1"]
    assert await names(receipts, limit=3) == ["r4", "r3", "r2"]
    place = await receipts.seq_of("r3", "default")
    assert await names(receipts, ReceiptFilter("default", before=place)) == ["r2", "r1"]
    assert await names(receipts, ReceiptFilter("default", after=place)) == ["r4"]
    await receipts.flush()
    assert await names(receipts) == ["r4", "r3", "r2", "r1"]
    assert await receipts.seq_of("r3", "default") == place
    await receipts.close()


async def test_list_of_receipts_has_only_those_of_its_filter(open_receipts: OpenReceipts) -> None:
    receipts = open_receipts(7)
    receipts.keep(listed_receipt("r0", at=time.time() - 8 * 86_400))  # too old, once it is written
    await receipts.flush()
    receipts.keep(listed_receipt("r1", user_id="ada", session_id="s1", agent_id="claude"))
    receipts.keep(listed_receipt("r2", user_id="bob", session_id="s1"))
    receipts.keep(listed_receipt("r3", user_id="ada", session_id="s2"))
    receipts.keep(listed_receipt("r4", tenant="acme", user_id="ada"))
    for _ in range(2):  # first those that wait, then those in the file
        assert await names(receipts, ReceiptFilter("default", user_id="ada")) == ["r3", "r1"]
        assert await names(receipts, ReceiptFilter("default", session_id="s1")) == ["r2", "r1"]
        assert await names(receipts, ReceiptFilter("default", "ada", "claude", "s1")) == ["r1"]
        assert await names(receipts, ReceiptFilter("acme")) == ["r4"]
        assert await names(receipts) == ["r3", "r2", "r1"]
        with pytest.raises(NotFound):
            await receipts.seq_of("r4", "default")
        await receipts.flush()
    await receipts.close()


async def test_list_of_receipts_goes_on_after_a_restart(tmp_path: Path) -> None:
    """A client that follows the list misses nothing: later receipts have later places, also where all were deleted."""
    receipts = ReceiptStore(ReceiptFile(tmp_path / "receipts.sqlite"), keep_days=7)
    receipts.keep(listed_receipt("r1"))
    place = receipts.last
    await receipts.close()
    with closing(sqlite3.connect(tmp_path / "receipts.sqlite")) as db, db:
        db.execute("delete from receipt")
    receipts = ReceiptStore(ReceiptFile(tmp_path / "receipts.sqlite"), keep_days=7)
    receipts.keep(listed_receipt("r2"))
    assert await names(receipts, ReceiptFilter("default", after=place)) == ["r2"]
    await receipts.close()


def earlier_file(file: Path, bodies: Mapping[str, object]) -> None:
    """A file of version 3, whose receipts have no row."""
    with closing(sqlite3.connect(file)) as db, db:
        db.execute(
            "create table receipt"
            "(receipt_id text not null unique, tenant text not null, at real not null, body blob not null)"
        )
        db.execute("create index receipt_at on receipt(at)")
        db.execute("pragma user_version = 3")
        for name, body in bodies.items():
            packed = zstandard.compress(orjson.dumps(body))
            db.execute("insert into receipt values(?, 'default', ?, ?)", (name, time.time(), packed))


@pytest.mark.feature("receipts of the version before are listed, too")
async def test_receipts_of_the_version_before_are_listed(tmp_path: Path) -> None:
    """What their rows need is in their bodies; one that is too early for that is still read by its id."""
    hits = [["markdown", "m1", "n1", 1, "first"], ["mem0", "m1", "n2", 3, "same"]]
    body = {
        "receipt_id": "r1",
        "at": "2026-03-14T09:30:00+00:00",
        "took_ms": 12.5,
        "characters": 300,
        "budget": {"used_tokens": 70},
        "recipe": {"name": "default", "hash": "5b1f"},
        "backends": [{"name": name, "status": "ok", "took_ms": 1.0, "count": 2} for name in ("markdown", "mem0")],
        "user_id": "ada",
        "asker": {"session_id": "s1"},
        "candidates": {
            "ref": ["m1", "m2", "m3"],
            "decision": ["packed", "below_floor", "packed"],
            "source_hits": [hits, hits, hits[:1]],
        },
    }
    earlier_file(tmp_path / "receipts.sqlite", {"r0": {"receipt_id": "r0", "candidates": {}}, "r1": body})
    receipts = ReceiptStore(ReceiptFile(tmp_path / "receipts.sqlite"), keep_days=7)
    (found,) = await receipts.listed(ReceiptFilter("default", user_id="ada", session_id="s1"), 10)
    assert found.row["refs"] == ["m1", "m3"]
    assert [(row["in_block"], row["alone"]) for row in found.row["backends"]] == [(2, 1), (1, 0)]
    assert (await receipts.read("r0", "default"))["receipt_id"] == "r0"
    receipts.keep(listed_receipt("r2"))
    await receipts.flush()
    assert await names(receipts) == ["r2", "r1"]
    await receipts.close()


async def test_receipts_that_name_a_memory_are_found(open_receipts: OpenReceipts) -> None:
    """By the whole ref, in the rows of this tenant."""
    receipts = open_receipts(7)
    for name, tenant, refs in (("r1", "default", ["m1", "m12"]), ("r2", "default", ["m12"]), ("r3", "acme", ["m1"])):
        receipts.keep(Receipt(name, tenant, time.time(), {"receipt_id": name}, {}, {"refs": refs}))
    assert await receipts.naming("m1", "default") == ("r1",)
    assert sorted(await receipts.naming("m12", "default")) == ["r1", "r2"]
    await receipts.close()


async def test_shared_receipts_are_bounded_in_bytes(journal_server: Server) -> None:
    """The oldest go first, until four fifths of the bound are left."""
    tenant = secrets.token_hex(6)
    await (await Journal.open_shared(journal_server, tenant)).close()
    receipts = ReceiptStore(SharedReceipts(journal_server, tenant, max_bytes=20_000), 7)
    for n in range(40):
        receipts.keep(Receipt(f"r{n}", "default", time.time(), {"text": secrets.token_hex(500)}, {}))
    await receipts.flush()
    await receipts.prune()
    kept = await receipts.kept("default")
    assert 15 < kept < 40
    assert {row["receipt_id"] for row in await rows_of(journal_server, tenant)} == {
        f"r{n}" for n in range(40 - kept, 40)
    }
    await receipts.close()


async def rows_of(server: Server, tenant: str) -> Sequence[Mapping[str, str]]:
    return await asyncio.to_thread(
        server.run, tenant, lambda db: db.execute("select receipt_id from receipt").fetchall()
    )


@pytest.mark.feature("receipts are numbered by the time of their home, which is the database's where gateways share it")
@pytest.mark.parametrize("year", [2020, 2040])
async def test_receipts_are_numbered_by_the_clock_they_are_given(tmp_path: Path, year: int) -> None:
    """Not by the machine's: the number is the milliseconds since 1970."""
    at = datetime(year, 1, 1, tzinfo=UTC)
    receipts = ReceiptStore(ReceiptFile(tmp_path / "receipts.sqlite"), 7, lambda: at)
    receipts.keep(receipt("first", at=at.timestamp()))
    assert receipts.last == at.timestamp() * 1000
    await receipts.close()
