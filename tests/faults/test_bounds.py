"""What grows by itself is bounded in bytes: receipts, write-ahead logs, the server's log."""

from __future__ import annotations

import os
import random
import time
from pathlib import Path

import pytest

from fusion.doors.serve import bound_log
from fusion.errors import NotFound
from fusion.ingest.journal import Journal
from fusion.recall.receipt import Receipt, Receipts
from tests.ingest.stores import event


def receipt(number: int) -> Receipt:
    draw = random.Random(number)
    noise = [draw.random() for _ in range(2000)]
    return Receipt(f"r{number}", "default", time.time() - 1000 + number, {"user_id": None, "noise": noise}, {})


@pytest.mark.feature("receipts keep to their bytes: the oldest go first and the file shrinks")
async def test_receipts_keep_to_their_bytes_and_the_oldest_go(tmp_path: Path) -> None:
    """The file shrinks, the newest stay, also in a file that was made without a bound."""
    file = tmp_path / "receipts.sqlite"
    free = Receipts(file, keep_days=7)
    for number in range(60):
        free.keep(receipt(number))
        await free.flush()
    await free.close()
    before = file.stat().st_size
    assert before > 600_000
    bound = Receipts(file, keep_days=7, max_bytes=300_000)
    for number in range(60, 70):
        bound.keep(receipt(number))
        await bound.flush()
    assert (await bound.read("r69", "default"))["noise"]
    with pytest.raises(NotFound):
        await bound.read("r0", "default")
    await bound.close()
    assert file.stat().st_size <= 320_000
    assert file.with_name("receipts.sqlite-wal").exists() is False


@pytest.mark.feature("the journal's write-ahead log is cut back to its bound")
async def test_the_journals_log_is_cut_back(tmp_path: Path) -> None:
    """A burst of writes lets it grow; once it is in the file, it has its bound again."""
    file = tmp_path / "journal.sqlite"
    journal = await Journal.open(file, wal_bytes=200_000)
    log = file.with_name("journal.sqlite-wal")
    await journal.append([event(f"turn {n} " + "word " * 500, n) for n in range(3000)])
    grown = log.stat().st_size
    assert grown > 5_000_000
    for n in range(3):
        await journal.append([event(f"late {n}", 10_000 + n)])
    assert log.stat().st_size <= 200_000
    await journal.close()


@pytest.mark.feature("a full server log is kept once and begun anew")
def test_a_full_log_is_kept_once_and_begun_anew(tmp_path: Path) -> None:
    """Only the file that the process writes to, and only when it is full."""
    log = tmp_path / "server.log"
    descriptor = os.open(log, os.O_WRONLY | os.O_CREAT | os.O_APPEND)
    try:
        os.write(descriptor, b"a" * 500)
        bound_log(log, 1000, descriptor)
        assert log.stat().st_size == 500
        os.write(descriptor, b"b" * 600)
        bound_log(tmp_path / "another.log", 1000, descriptor)
        assert log.stat().st_size == 1100
        bound_log(log, 1000, descriptor)
        os.write(descriptor, b"next")
        assert log.read_bytes() == b"next"
        assert (tmp_path / "server.log.1").read_bytes() == b"a" * 500 + b"b" * 600
    finally:
        os.close(descriptor)
