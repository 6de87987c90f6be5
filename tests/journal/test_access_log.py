"""The access log: batched, bounded, kept over restarts, and never in the way of what it notes."""

from __future__ import annotations

import asyncio
import sqlite3
import stat
import threading
from collections.abc import Sequence
from contextlib import closing
from pathlib import Path

import pytest
from hypothesis import example, given
from hypothesis import strategies as st

from fusion.journal.access_log import MAX_WAITING, NAME, Access, AccessFilter, AccessLog, append

ALL = AccessFilter()


def access(call: str = "memory", *, at: float = 1000.0, refs: Sequence[str] = ("m1",), **more: str | None) -> Access:
    return Access(
        at,
        more.get("action") or "read",
        call,
        "ok",
        more.get("key") or "laptop",
        "9f86d081",
        "reader",
        "http",
        more.get("user"),
        None,
        None,
        tuple(refs),
        len(refs),
        more.get("receipt"),
        None,
        "q1",
    )


class Clock:
    def __init__(self, now: float = 1000.0) -> None:
        self.now = now

    def __call__(self) -> float:
        return self.now


def opened(folder: Path, *, keep_days: float = 90, max_entries: int = 1000, now: float = 1000.0) -> AccessLog:
    return AccessLog(folder / NAME, keep_days, max_entries, Clock(now))


async def calls(log: AccessLog, chosen: AccessFilter = ALL, limit: int = 100) -> list[str]:
    return [one.call for _, one in await log.listed(chosen, limit)]


@pytest.mark.feature("an access log by tenant: who read, changed and forgot memories, with `fusion audit`")
async def test_entries_are_there_at_once_and_after_a_restart(tmp_path: Path) -> None:
    log = opened(tmp_path)
    log.note(access("memory", refs=["m1", "m2"], user="ana", key="ada's phone"))
    log.note(access("forget"))
    ((_, second), (_, first)) = await log.listed(ALL, 10)
    assert (second.call, first) == ("forget", access("memory", refs=["m1", "m2"], user="ana", key="ada's phone"))
    log.note(access("memories"))
    await log.close()
    again = opened(tmp_path)
    assert await calls(again) == ["memories", "forget", "memory"]
    assert stat.S_IMODE((tmp_path / NAME).stat().st_mode) == 0o600
    await again.close()


REFS = ["m1", "m12", "m2", "ep:1", "x0123456789", 'm"1', "m\\1", "m1\n\x1b[31m", "müll"]


@given(
    kept=st.lists(
        st.tuples(
            st.sampled_from(["read", "forget"]),
            st.integers(0, 9),
            st.none() | st.sampled_from(["ana", "bo", ""]),
            st.lists(st.sampled_from(REFS), max_size=3, unique=True),
            st.none() | st.sampled_from(["r1", "r2"]),
        ),
        max_size=12,
    ),
    action=st.none() | st.sampled_from(["read", "forget"]),
    since=st.none() | st.integers(0, 9),
    user=st.none() | st.sampled_from(["ana", ""]),
    ref=st.none() | st.sampled_from(REFS),
)
@example(kept=[("read", 1, None, ["m12"], None)], action=None, since=None, user=None, ref="m1")
def test_a_list_has_what_its_filter_says(
    tmp_path_factory: pytest.TempPathFactory,
    kept: list[tuple[str, int, str | None, list[str], str | None]],
    action: str | None,
    since: int | None,
    user: str | None,
    ref: str | None,
) -> None:
    """For any entries and filter: the same as by hand; pages of two have the same as one page."""

    async def run() -> None:
        log = opened(tmp_path_factory.mktemp("log"))
        for number, (does, at, whose, refs, receipt) in enumerate(kept):
            log.note(access(str(number), at=at, refs=refs, action=does, user=whose, receipt=receipt))
        chosen = AccessFilter(action, since, user, ref, ("r1",))
        wanted = [
            str(number)
            for number, (does, at, whose, refs, receipt) in enumerate(kept)
            if (action in (None, does) and (since is None or at >= since) and user in (None, whose))
            and (ref is None or ref in refs or receipt == "r1")
        ]
        assert await calls(log, chosen) == wanted[::-1]
        paged: list[str] = []
        before: int | None = None
        while page := await log.listed(AccessFilter(action, since, user, ref, ("r1",), before), 2):
            paged += [one.call for _, one in page]
            before = page[-1][0]
        assert paged == wanted[::-1]
        await log.close()

    asyncio.run(run())


@pytest.mark.feature("… bounded by days and by number", of="an access log by tenant")
async def test_the_log_is_bounded(tmp_path: Path) -> None:
    day = 86_400.0
    log = opened(tmp_path, keep_days=2, max_entries=3, now=10 * day)
    for number, at in enumerate((1, 7.9, 9, 9.5, 9.9, 10)):
        log.note(access(str(number), at=at * day))
    await log.flush()
    assert await log.prune(dry_run=True) == 3
    assert len(await calls(log)) == 6
    assert await log.prune() == 3
    assert await calls(log) == ["5", "4", "3"]
    await log.close()


async def test_no_reader_pushes_out_what_was_changed(tmp_path: Path) -> None:
    """What was read and what was changed are bounded each by itself."""
    log = opened(tmp_path, max_entries=2)
    for number in range(3):
        log.note(access(f"forget {number}", action="forget"))
    for number in range(50):
        log.note(access(f"memory {number}"))
    await log.flush()
    assert await log.prune() == 1 + 48
    assert await calls(log) == ["memory 49", "memory 48", "forget 2", "forget 1"]
    await log.close()


async def test_the_log_is_pruned_as_it_is_written(tmp_path: Path) -> None:
    log = AccessLog(tmp_path / NAME, 90, 2, clock := Clock())
    for number in range(5):
        clock.now += 100
        log.note(access(str(number), at=clock.now))
        await log.flush()
    assert len(await calls(log)) == 3  # what is written last is pruned with the next
    await log.close()


async def test_without_days_nothing_is_kept(tmp_path: Path) -> None:
    log = opened(tmp_path, keep_days=0)
    log.note(access())
    assert await calls(log) == []
    await log.close()


class Full(AccessLog):
    """Its disk is full until there is room."""

    room = False
    writes = 0

    def _write(self, batch: Sequence[Access]) -> None:
        self.writes += 1
        if not self.room:
            raise sqlite3.OperationalError("database or disk is full")
        super()._write(batch)


@pytest.mark.feature(
    "… a full disk blocks nothing, is said, and leaves an entry for what was lost", of="an access log by tenant"
)
async def test_a_full_disk_loses_the_oldest_and_says_so(tmp_path: Path, caplog: pytest.LogCaptureFixture) -> None:
    log = Full(tmp_path / NAME, 90, 100_000, Clock())
    for number in range(MAX_WAITING + 3):
        log.note(access(str(number)))
    await log.flush()
    await log.flush()
    assert "disk is full" in log.fault
    assert log.waiting == MAX_WAITING
    assert await calls(log) == []
    assert len([one for one in caplog.records if "cannot be written" in one.message]) == 1
    log.room = True
    await log.flush()
    found = await log.listed(ALL, MAX_WAITING + 9)
    assert (log.fault, log.waiting, len(found)) == ("", 0, MAX_WAITING + 1)
    gap = found[-1][1]
    assert (gap.action, gap.total, found[-2][1].call) == ("gap", 3, "3")
    log.note(access("later"))
    assert (await calls(log))[0] == "later"
    assert len(await calls(log, AccessFilter("gap"))) == 1
    await log.close()


class Slow(AccessLog):
    """Its writes wait until they may go on."""

    def __init__(self, file: Path) -> None:
        super().__init__(file, 90, 100_000, Clock())
        self.begun, self.go_on = threading.Event(), threading.Event()

    def _write(self, batch: Sequence[Access]) -> None:
        self.begun.set()
        assert self.go_on.wait(60)
        super()._write(batch)


async def test_entries_that_are_dropped_while_they_are_written_are_not_lost(tmp_path: Path) -> None:
    """Each entry is in the log once or counted as lost, however many come during a write."""
    log = Slow(tmp_path / NAME)
    for number in range(5):
        log.note(access(str(number)))
    writing = asyncio.create_task(log.flush())
    await asyncio.to_thread(log.begun.wait, 60)
    for number in range(5, MAX_WAITING + 7):
        log.note(access(str(number)))
    log.go_on.set()
    await writing
    await log.flush()
    found = [one for _, one in await log.listed(ALL, 2 * MAX_WAITING)]
    written = [int(one.call) for one in found if one.action != "gap"]
    lost = sum(one.total for one in found if one.action == "gap")
    assert len(written) == len(set(written))
    assert len(written) + lost == MAX_WAITING + 7
    assert lost == 2
    await log.close()


async def test_a_damaged_log_is_set_aside_and_the_new_one_says_so(tmp_path: Path) -> None:
    log = opened(tmp_path)
    log.note(access())
    await log.close()
    (tmp_path / NAME).write_bytes(b"no database" * 100)
    again = opened(tmp_path)
    ((_, only),) = await again.listed(ALL, 10)
    assert (only.action, only.outcome) == ("gap", "damaged")
    assert [path.name for path in tmp_path.glob("*.damaged-*")] == ["access.damaged-1000"]
    await again.close()


async def test_a_log_of_a_newer_version_is_kept(tmp_path: Path) -> None:
    with closing(sqlite3.connect(tmp_path / NAME)) as db:
        db.execute("pragma user_version = 99")
    log = opened(tmp_path)
    assert [one.outcome for _, one in await log.listed(ALL, 10)] == ["damaged"]
    with closing(sqlite3.connect(tmp_path / "access.damaged-1000")) as db:
        assert db.execute("pragma user_version").fetchone() == (99,)
    await log.close()


async def test_another_process_may_add_to_an_open_log(tmp_path: Path) -> None:
    log = opened(tmp_path)
    log.note(access("one"))
    await log.flush()
    await asyncio.to_thread(append, tmp_path / NAME, [access("backup")])
    log.note(access("two"))
    assert await calls(log) == ["two", "backup", "one"]
    await log.close()


async def test_no_entry_is_ever_changed(tmp_path: Path) -> None:
    log = opened(tmp_path)
    log.note(access())
    await log.close()
    with closing(sqlite3.connect(tmp_path / NAME)) as db, pytest.raises(sqlite3.DatabaseError, match="never changed"):
        db.execute("update access set key = 'another'")


@given(texts=st.lists(st.text(st.characters(), max_size=20), min_size=4, max_size=4))
def test_any_text_is_stored_as_text(tmp_path_factory: pytest.TempPathFactory, texts: list[str]) -> None:
    """Also half of a surrogate pair, a NUL, quotes and controls; no value is read as SQL."""

    async def run() -> None:
        log = opened(tmp_path_factory.mktemp("log"))
        log.note(access(texts[0], refs=[texts[1]], key=texts[2], user=texts[3]))
        ((_, one),) = await log.listed(AccessFilter(ref=texts[1]), 10)
        assert one.refs == (texts[1].encode("utf-8", "replace").decode(),)
        assert one.user_id == texts[3].encode("utf-8", "replace").decode()
        await log.close()

    asyncio.run(run())


async def test_a_log_that_cannot_be_opened_is_opened_later(tmp_path: Path) -> None:
    """It is not taken for damaged, and what was noted meanwhile is in it."""
    (tmp_path / NAME).mkdir()
    log = opened(tmp_path)
    assert "cannot be written" in log.fault
    log.note(access("one"))
    assert await calls(log) == []
    (tmp_path / NAME).rmdir()
    log.note(access("two"))
    assert await calls(log) == ["two", "one"]
    assert log.fault == ""
    assert [path.name for path in tmp_path.glob("*damaged*")] == []
    await log.close()
