"""Checks of `fusion doctor` on the stores of a home: databases, journal, deliveries, notes with forgotten text."""

from __future__ import annotations

import shlex
import sqlite3
import time
from collections.abc import Iterator
from contextlib import closing, suppress
from dataclasses import asdict
from pathlib import Path
from typing import TYPE_CHECKING

from fusion.contract import Scope
from fusion.doors.cli import render
from fusion.doors.cli.finding import Finding, command, ok
from fusion.doors.cli.plural import counted
from fusion.errors import FusionError
from fusion.gateway.open_journal import open_server
from fusion.journal import jobs, store_watermarks, watermark
from fusion.journal.outbox import deliveries
from fusion.journal.tombstones import withheld_documents

if TYPE_CHECKING:
    from fusion import wire
    from fusion.journal.outbox import Deliveries
    from fusion.settings import Settings

CHECK_S = 10.0
"""seconds for the check of one database; a large one is then reported as checked in part"""
_SQLITE = b"SQLite format 3\0"
_WAL = b"\2\2"
"""bytes 18 and 19 of a database in WAL mode, in which readers do not block writers"""


def databases(home: Path, *, owned: bool) -> Iterator[Finding]:
    """Runs SQLite's quick check on each database of the home.

    While a process has the home open (``owned``), databases that a reader would block are skipped: that process checked
    them when it opened them.
    """
    for file in sorted(path for path in home.rglob("*") if path.suffix in (".sqlite", ".db") and path.is_file()):
        name = file.relative_to(home).as_posix()
        try:
            with file.open("rb") as opened:
                head = opened.read(20)
        except OSError as error:
            yield Finding(name, "fail", str(error.strerror), f"chmod u+rw {shlex.quote(str(file))}")
            continue
        if not head or (owned and head.startswith(_SQLITE) and head[18:20] != _WAL):
            continue
        verdict = _quick_check(file) if head.startswith(_SQLITE) else "it is not a SQLite database"
        if verdict is None:
            yield Finding(name, "warn", f"intact as far as {CHECK_S:g} s went; it is large", "")
        elif verdict == "ok":
            yield ok(name, "intact")
        else:
            yield Finding(name, "fail", f"damaged: {verdict}", _repair(home, file))


def _quick_check(file: Path) -> str | None:
    """SQLite's verdict, "ok" for an intact database; None if it took too long."""
    until = time.monotonic() + CHECK_S
    try:
        with closing(_reader(file)) as db:
            db.set_progress_handler(lambda: time.monotonic() > until, 100_000)
            return str(db.execute("pragma quick_check(1)").fetchone()[0]).splitlines()[-1]
    except sqlite3.Error as error:
        return None if "interrupted" in str(error) else str(error)


def _reader(file: Path) -> sqlite3.Connection:
    """A connection that cannot write, and that waits at most a second for a lock."""
    db = sqlite3.connect(f"{file.absolute().as_uri()}?mode=ro", uri=True, timeout=1.0)
    db.row_factory = sqlite3.Row
    return db


def ask_journal(home: Path, query: str) -> object:
    """One value from the journal; None without a journal, or for one that cannot be read, whose own check says why."""
    if not (home / "journal.sqlite").is_file():
        return None
    try:
        with closing(_reader(home / "journal.sqlite")) as db:
            return db.execute(query).fetchone()[0]
    except sqlite3.Error:
        return None


def _repair(home: Path, file: Path) -> str:
    """The fix for a damaged file: restore the journal; everything else is rebuilt from it."""
    stop = command(home, "stop")
    inside = file.relative_to(home).parts
    if inside[0] == "backends" and len(inside) > 1:
        store = shlex.quote(str(home / "backends" / inside[1]))
        return f"{stop}; mv {store} {store}.damaged — the next start fills a new one from the journal"
    moved = f"{stop}; mv {shlex.quote(str(file))} {shlex.quote(f'{file}.damaged')}"
    if inside[0] == "journal.sqlite":
        return f"{stop}; restore it from a backup, or rebuild it from the stores: {command(home, 'repair')}"
    return f"{moved} — a new one is made; nothing in it is lost"


def database_server(settings: Settings) -> Iterator[Finding]:
    """Checks that the database of the journals lets us in, may be written, and keeps tenants apart."""
    try:
        server = open_server(settings)
        assert server is not None  # noqa: S101 — the caller knows that the settings name one
    except FusionError as error:
        yield Finding("database", "fail", str(error), "correct FUSION_DATABASE__URL or [database] url")
        return
    server.close()
    if server.bypasses_row_security:
        fix = "name an ordinary role that owns the database in [database] url"
        yield Finding("database", "warn", "its role is a superuser or has BYPASSRLS: tenants have one lock less", fix)
    else:
        yield ok("database", f"PostgreSQL at {server.place}")


def journal_lost(home: Path) -> Iterator[Finding]:
    """Checks that an intact journal has all that the home and its stores have seen."""
    places = store_watermarks.places_of(home, {path.name: None for path in (home / "backends").glob("*")})
    file = home / "journal.sqlite"
    try:
        if file.is_file():
            with closing(_reader(file)) as db:
                found = watermark.read(db)
        else:
            found = None
    except sqlite3.Error:  # it is damaged, which its own check reports, or of an earlier version
        return
    if (what := store_watermarks.lost(found, places)) is not None:
        fix = f"{command(home, 'stop')}; restore it from a backup, or rebuild it: {command(home, 'repair')}"
        yield Finding("journal", "fail", what, fix)


def backlog(home: Path) -> Iterator[Finding]:
    """Reports deliveries from the journal, while no server works on them."""
    if not (home / "journal.sqlite").is_file():
        return
    try:
        with closing(_reader(home / "journal.sqlite")) as db:
            found = deliveries(db)
    except sqlite3.Error:
        return  # the journal's own check says what is wrong with it
    for name, late in found.items():
        yield from late_deliveries(f"backend {name}", late.waiting, late)
    if not any(late.waiting or late.failed for late in found.values()):
        yield ok("backlog", "every backend has everything")


def documents_held_back(home: Path, status: wire.Status | None) -> Iterator[Finding]:
    """Reports notes with forgotten text, which stays out of answers although the note may still have it."""
    rows: list[wire.HeldBack] = []
    if status is not None:
        rows = status.get("held_back", [])
    elif (home / "journal.sqlite").is_file():
        with suppress(sqlite3.Error), closing(_reader(home / "journal.sqlite")) as db:
            rows = withheld_documents(db, Scope().tenant)
    if rows:
        yield ok("held back", render.held_back(rows))


def failed_jobs(home: Path, status: wire.Status | None) -> Iterator[Finding]:
    """Reports jobs whose latest run failed."""
    rows: list[wire.FailedJob] = []
    if status is not None:
        rows = status.get("failed_jobs", [])
    elif (home / "journal.sqlite").is_file():
        with suppress(sqlite3.Error), closing(_reader(home / "journal.sqlite")) as db:
            rows = jobs.failed(db)
    for row in rows:
        detail = f"its run of {row['began'][:16].replace('T', ' ')} UTC failed: {row['why']}"
        yield Finding(f"job {row['job']}", "warn", detail, command(home, f"jobs run {row['job']}"))


def links_not_read(status: wire.Status | None) -> Iterator[Finding]:
    """Reports links in followed folders, which are not read."""
    if status is not None and status.get("links"):
        yield ok("links", render.links(status["links"]))


def late_deliveries(name: str, waiting: int, trouble: Deliveries | wire.BackendStatus) -> Iterator[Finding]:
    """Reports what waits for delivery to a backend, and what it never accepted."""
    late = asdict(trouble) if not isinstance(trouble, dict) else trouble
    if late["failed"]:
        detail = f"{counted(late['failed'], 'memory was')} never accepted: {late['reason']}"
        yield Finding(name, "fail", detail, "they are in the journal and in the other backends; the log says which")
    if late["refused"]:
        yield Finding(
            name,
            "warn",
            f"{counted(late['refused'], 'memory was')} refused so far: {late['reason']}",
            "it is tried again",
        )
    elif waiting:
        yield Finding(name, "warn", f"{waiting:,} deliveries wait", "a running server delivers them: fusion status")
