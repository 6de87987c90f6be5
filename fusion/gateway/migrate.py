"""Moves the journals of a home between SQLite and PostgreSQL, with their receipts: all tenants, while it is served.

The tables are copied while gateways go on writing, until little differs. Then writers are kept out, what changed is
copied, every table's checksum is compared on both sides, and the setting is switched. A run that was killed is begun
again: it compares what is there, and goes on. Until the switch nothing of the source changes; then it is kept under
another name.
"""

from __future__ import annotations

import json
import logging
import shutil
import sqlite3
import time
from collections.abc import Callable, Iterator, Mapping, Sequence
from contextlib import ExitStack, closing, contextmanager, suppress
from dataclasses import asdict, dataclass, field, replace
from datetime import UTC, datetime
from hashlib import sha256
from pathlib import Path
from typing import TYPE_CHECKING, Any, Literal

from fusion.contract import Scope
from fusion.errors import BadInput, FusionError, HomeLocked, NotFound, SettingsError, StoreDamaged, StoreFull
from fusion.gateway.tenants import NAME, write_name
from fusion.gateway.transfer import disk_errors
from fusion.home import TENANTS, HomeLock, owner, tenant_folder
from fusion.ingest.observe import FOLDER
from fusion.ingest.returned_log import blank_forgotten
from fusion.journal import split_tenants
from fusion.journal.schema import OLDEST, STEPS
from fusion.new_settings import with_settings
from fusion.recall.receipt_store import SCHEMA as RECEIPT_SCHEMA
from fusion.recall.receipt_store import open_receipts
from fusion.settings import Settings
from fusion.store.copies import SqliteTables, Tables, equalise
from fusion.store.private_files import sync, write_atomically
from fusion.store.rows import EVENT_NAMES, add_missing_columns
from fusion.store.sqlite import connect, copy_of, migrate, read_only
from fusion.store.tables import Sum, Table, tables_of
from fusion.trust import allow, changing
from fusion.trust.homes import unapproved_names
from fusion.trust.reach import reach_of

if TYPE_CHECKING:
    from fusion.store.postgres import Server
    from fusion.store.postgres_move import Closed, Migration

log = logging.getLogger(__name__)

JOURNAL, RECEIPTS = "journal.sqlite", "receipts.sqlite"
WORK = "migration"
"""the folder of a home in which files are made"""
SIDES = ("", "-wal", "-shm")
DEFAULT = Scope().tenant
ROUNDS = 5
"""rounds before the fence, at most"""
FEW = 2_000
"""changed rows of a round after which the fence begins"""
_STOPS = 5
"""attempts to get the home: a client may start its server again"""

RECEIPT_TABLE = Table(
    "receipt",
    {
        "seq": "integer", "receipt_id": "text", "tenant": "text", "at": "real", "user_id": "text", "agent_id": "text",
        "session_id": "text", "row": "text", "body": "blob",
    },
    ("receipt_id",),
    blobs=frozenset({"row"}),
    # Two gateways may have answered in one millisecond under one number; in a file each receipt has its own.
    in_postgres=(
        'select seq + row_number() over (partition by seq order by receipt_id) - 1 as seq, receipt_id, tenant, at, '
        'user_id, agent_id, session_id, "row", body from receipt'
    ),
)  # fmt: skip
JOURNAL_TABLES = tables_of(STEPS)
Place = Literal["sqlite", "postgresql"]
Report = Callable[[str, int], None]
"""is called after each step with what is done, and how many rows were just copied"""


@dataclass(frozen=True, slots=True)
class TableCopy:
    """A table that is equal on both sides."""

    table: str
    rows: int
    checksum: str


@dataclass(frozen=True, slots=True)
class TenantCopy:
    """The tables of a tenant. ``bytes`` are those of the source, with its indexes."""

    tenant: str
    tables: tuple[TableCopy, ...]
    bytes: int

    @property
    def rows(self) -> int:
        return sum(one.rows for one in self.tables)


@dataclass(frozen=True, slots=True)
class Migrated:
    """What a migration did, or with ``dry_run`` would do."""

    home: str
    source: str
    target: str
    dry_run: bool
    tenants: tuple[TenantCopy, ...]
    fence_s: float | None = None
    """seconds in which nothing could be written"""
    took_s: float = 0.0
    setting: str = ""
    """what was written into the settings"""
    kept_as: tuple[str, ...] = ()
    """the new names of the source"""
    notes: tuple[str, ...] = ()
    """what its owner has to do or to know"""

    @property
    def rows(self) -> int:
        return sum(one.rows for one in self.tenants)

    @property
    def bytes(self) -> int:
        return sum(one.bytes for one in self.tenants)


@dataclass(frozen=True, slots=True)
class Move:
    """A migration that is wanted."""

    settings: Settings
    file: Path
    """the settings file that is changed"""
    setting: Mapping[str, str]
    """what is written into its table [database]; what is empty is taken away"""
    notes: tuple[str, ...] = ()
    """what its owner has to know of the setting"""
    stop: Callable[[], object] = lambda: None
    """stops the server of the home, if there is one, and returns when the home is free"""
    report: Report = lambda step, rows: None
    now: Callable[[], datetime] = lambda: datetime.now(UTC)
    clock: Callable[[], float] = time.monotonic
    rounds: int = ROUNDS

    @property
    def home(self) -> Path:
        return self.settings.home

    def with_report(self, report: Report) -> Move:
        return replace(self, report=report)


@dataclass(slots=True)
class _Verified:
    """By tenant, the mark of a journal when its tables were last compared, and what was found."""

    known: dict[str, tuple[tuple[Any, ...], tuple[TableCopy, ...]]] = field(default_factory=dict)

    def tables(self, tenant: str, mark: tuple[Any, ...]) -> tuple[TableCopy, ...] | None:
        """What was found while the journal was as it is now: each of its transactions is counted in its mark."""
        before = self.known.get(tenant)
        return before[1] if before is not None and before[0] == mark else None


# To PostgreSQL --------------------------------------------------------------------------------------------------------


def to_postgresql(move: Move, server: Server, *, dry_run: bool = False) -> Migrated:
    """Move the journals of a home into an empty database, or go on with that.

    Raises BadInput and NotFound if there is nothing to move, or if the target is another home's; SettingsError,
    Unauthorized, BackendUnreachable and StoreFull for the server; HomeLocked, StoreDamaged.
    """
    from fusion.store.postgres_move import Migration, require_room

    began = move.clock()
    with ExitStack() as stack:
        there = stack.enter_context(closing(Migration(server, STEPS, OLDEST)))
        there.lock()
        there.require_usable()
        work = stack.enter_context(_work(move.home, "older"))
        stack.enter_context(_sqlite_errors(move.home))
        closed = there.closed()
        sources = _sources(move.home, closed, work)
        require_room(there.tenants(), {_schema(name): one.id for name, one in sources.items()}, closed, server.place)
        found = Migrated(str(move.home), "SQLite", f"PostgreSQL at {server.place}", dry_run, (), notes=_notes(move))
        if dry_run:
            return _with_counts(found, [_counted(name, one) for name, one in sources.items()], move, began)
        verified, copies = _Verified(), list[TenantCopy]()
        for _ in range(move.rounds):
            changed = 0
            for name, one in _sources(move.home, closed, work).items():
                _, rows = _into_postgresql(name, one, there, verified, move.report)
                changed += rows
            if changed <= FEW:
                break
        with _fenced(move):
            fence = move.clock()
            sources = _sources(move.home, closed, work)
            for name, one in sources.items():
                copied, _ = _into_postgresql(name, one, there, verified, move.report)
                copies.append(copied)
            move.report("verified", 0)
            with there.opening(sources):
                setting, notes = _switch(move)
                move.report("switched", 0)
                kept = _keep_aside(sources, move)
                move.report("kept", 0)
            took = move.clock() - fence
        return _done(found, copies, took, move.clock() - began, setting, kept, notes)


@dataclass(frozen=True, slots=True)
class _Source:
    """The files of a tenant's journal and receipts. ``id`` is the journal's."""

    folder: Path
    journal: Path
    receipts: Path
    id: str

    @property
    def bytes(self) -> int:
        files = [Path(f"{file}{side}") for file in (self.journal, self.receipts) for side in SIDES[:2]]
        return sum(file.stat().st_size for file in files if file.is_file())


def _sources(home: Path, closed: Mapping[str, Closed], work: Path) -> dict[str, _Source]:
    """By tenant, the files that are to be copied; those that a killed run has put aside, too."""
    found = {}
    for tenant, folder in _tenants(home):
        one = closed.get(_schema(tenant))
        journal = _there_or_aside(folder, JOURNAL, expected=None if one is None or one.moved else one.journal)
        if journal is None:
            continue
        usable = _of_this_version(journal, work / f"{_schema(tenant)}.sqlite", tenant)
        receipts = _usable_receipts(journal, folder, work / f"{_schema(tenant)}.receipts.sqlite")
        found[tenant] = _Source(folder, usable, receipts, _id_of(usable))
    if DEFAULT not in found:
        raise NotFound(f"{home} has no {JOURNAL}: its memories are in a database already, or it has none")
    return found


def _tenants(home: Path) -> Iterator[tuple[str, Path]]:
    """The tenants of a home, with their folders."""
    yield DEFAULT, home
    for file in sorted((home / TENANTS).glob(f"*/{NAME}")):
        yield json.loads(file.read_text(encoding="utf-8")), file.parent


def _id_of(journal: Path) -> str:
    with closing(read_only(journal)) as db:
        return str(db.execute("select id from mark").fetchone()[0])


def _id_of_file(journal: Path) -> str:
    """An id for a journal that has none, the same in each run."""
    file = journal.stat()
    return sha256(f"{file.st_dev} {file.st_ino}".encode()).hexdigest()[:16]


def _there_or_aside(folder: Path, name: str, expected: str | None) -> Path | None:
    """A journal, or the one that a killed run has put aside: that with the id ``expected``."""
    if (folder / name).exists():
        return folder / name
    for aside in sorted(folder.glob(f"{name}.moved-*"), reverse=True) if expected else ():
        if not aside.name.endswith(SIDES[1:]):
            with suppress(sqlite3.Error):
                if _id_of(aside) == expected:
                    return aside
    return None


def _of_this_version(journal: Path, copy: Path, tenant: str) -> Path:
    """A journal, or a copy of one of an earlier version, migrated: the source itself does not change."""
    try:
        with closing(read_only(journal)) as db:
            version = db.execute("pragma user_version").fetchone()[0]
            has_id = db.execute("select 1 from sqlite_master where name = 'mark'").fetchone() is not None
            columns = {row[1] for row in db.execute("pragma table_info(event)")}
            if version > len(STEPS):
                raise StoreDamaged(
                    f"{journal} was written by a newer version of memory-fusion (schema {version}, ours is "
                    f"{len(STEPS)}): install that version again, or a newer one"
                )
            if version == len(STEPS) and columns.issuperset(EVENT_NAMES):
                _refuse_other_tenants(db, journal, tenant)
                return journal
        copy_of(journal, copy)
        with closing(connect(copy)) as db:
            migrate(db, STEPS)
            if not has_id:  # each copy drew another one, and a database that was begun is of one journal
                db.execute("update mark set id = ?", (_id_of_file(journal),))
            add_missing_columns(db, "event")
            _refuse_other_tenants(db, journal, tenant)
    except sqlite3.Error as error:
        raise StoreDamaged(f"{journal} is no sound journal ({error}): fusion repair --home {journal.parent}") from None
    return copy


def _refuse_other_tenants(db: sqlite3.Connection, journal: Path, tenant: str) -> None:
    if tenant == DEFAULT and split_tenants.others(db, DEFAULT):
        raise BadInput(
            f"{journal} has the memories of several tenants, as early versions kept them: start the gateway once, "
            "which gives each its own journal"
        )


def _usable_receipts(journal: Path, folder: Path, copy: Path) -> Path:
    """The receipts next to a journal; a migrated copy of those of an earlier version; a new file if there are none."""
    receipts = folder / journal.name.replace(JOURNAL, RECEIPTS)
    if not receipts.exists():
        receipts = folder / RECEIPTS  # a killed run had put the journal aside, and not yet these
    try:
        if receipts.exists():
            with closing(read_only(receipts)) as db:
                if db.execute("pragma user_version").fetchone() == (RECEIPT_SCHEMA,):
                    return receipts
            copy_of(receipts, copy)
        open_receipts(copy).close()
    except (sqlite3.DatabaseError, StoreDamaged) as error:
        # As at a start: a gateway must not be kept by its old receipts.
        log.error("%s is damaged, and not copied: %s", receipts, error)
        copy.unlink(missing_ok=True)
        open_receipts(copy).close()
    return copy


def _schema(tenant: str) -> str:
    from fusion.store.postgres import schema_of

    return schema_of(tenant)


@contextmanager
def _snapshot(file: Path) -> Iterator[sqlite3.Connection]:
    """A connection that reads one moment of a file."""
    with closing(read_only(file)) as db:
        db.execute("begin")
        yield db


def _into_postgresql(
    tenant: str, source: _Source, there: Migration, verified: _Verified, report: Report
) -> tuple[TenantCopy, int]:
    """Make a tenant's tables in PostgreSQL equal to its files; also returns the number of changed rows."""
    target = there.fill(tenant, source.id)
    with _snapshot(source.journal) as db:
        mark = tuple(db.execute("select id, commits from mark").fetchone())
        tables, changed = _copied(tenant, mark, SqliteTables(db), target, verified, report)
    with _snapshot(source.receipts) as db:
        receipts, more = _equal(RECEIPT_TABLE, SqliteTables(db), target, tenant, report)
    return TenantCopy(tenant, (*tables, receipts), source.bytes), changed + more


def _copied(
    tenant: str, mark: tuple[Any, ...], source: Tables, target: Tables, verified: _Verified, report: Report
) -> tuple[tuple[TableCopy, ...], int]:
    """Make the tables of a journal equal, unless they were and its mark is the same."""
    known = verified.tables(tenant, mark)
    if known is not None:
        return known, 0
    made, changed = list[TableCopy](), 0
    for table in JOURNAL_TABLES:
        copied, rows = _equal(table, source, target, tenant, report)
        made.append(copied)
        changed += rows
    verified.known[tenant] = mark, tuple(made)
    return tuple(made), changed


def _equal(table: Table, source: Tables, target: Tables, tenant: str, report: Report) -> tuple[TableCopy, int]:
    what = f"{tenant}: {table.name}"
    made, changed = equalise(table, source, target, lambda rows: report(what, rows))
    return _table_copy(table, made), changed


def _table_copy(table: Table, made: Sum) -> TableCopy:
    return TableCopy(table.name, made.rows, made.checksum)


def _counted(tenant: str, source: _Source) -> TenantCopy:
    """The rows of a tenant's tables, without reading them."""
    tables = list[TableCopy]()
    for file, some in ((source.journal, JOURNAL_TABLES), (source.receipts, (RECEIPT_TABLE,))):
        with _snapshot(file) as db:
            tables += [TableCopy(table.name, SqliteTables(db).count(table), "") for table in some]
    return TenantCopy(tenant, tuple(tables), source.bytes)


def _keep_aside(sources: Mapping[str, _Source], move: Move) -> list[str]:
    """Rename the files of all tenants, that of the home's owner last: it says whether this is done."""
    ending, kept = f"moved-{move.now():%Y%m%dT%H%M%S}", list[str]()
    for _, one in sorted(sources.items(), key=lambda item: item[0] == DEFAULT):
        for name in (JOURNAL, RECEIPTS):
            if not (file := one.folder / name).exists():
                continue
            with closing(connect(file)) as db:  # what a server that was killed has left in the log
                db.execute("pragma wal_checkpoint(truncate)").fetchall()
            for side in SIDES:
                with suppress(FileNotFoundError):
                    Path(f"{file}{side}").rename(f"{file}.{ending}{side}")
            kept.append(f"{file}.{ending}")
        sync(one.folder)
    return kept


# To SQLite ------------------------------------------------------------------------------------------------------------


def to_sqlite(move: Move, server: Server, *, dry_run: bool = False) -> Migrated:
    """Move the journals of a database into the files of a home, or go on with that. Raises as `to_postgresql`."""
    from fusion.store.postgres_move import Migration

    began = move.clock()
    with closing(Migration(server, STEPS, OLDEST)) as there:
        there.lock()
        notes = (*move.notes, *NOTES_BACK)
        found = Migrated(str(move.home), f"PostgreSQL at {server.place}", "SQLite", dry_run, (), notes=notes)
        tenants = there.tenants()
        if DEFAULT not in tenants:
            return _finish_back(move, there, found, began, dry_run=dry_run)
        for pattern in (JOURNAL, RECEIPTS, f"{TENANTS}/*/{JOURNAL}", f"{TENANTS}/*/{RECEIPTS}"):
            _require_no_file(move.home, pattern)
        there.require_usable()
        if dry_run:
            return _with_counts(found, [_counted_there(name, there) for name in tenants], move, began)
        verified, copies = _Verified(), list[TenantCopy]()
        with disk_errors(move.home, "the journals"), _sqlite_errors(move.home), ExitStack() as stack:
            files = _Files(move.home / WORK, stack)
            for _ in range(move.rounds):
                with there.snapshot():
                    changed = 0
                    for tenant in there.tenants():
                        _, rows = _into_files(tenant, there, files, verified, move.report)
                        changed += rows
                if changed <= FEW:
                    break
            with _fenced(move):
                fence = move.clock()
                with there.fence() as tenants:
                    for tenant in tenants:
                        copied, _ = _into_files(tenant, there, files, verified, move.report)
                        copies.append(copied)
                    move.report("verified", 0)
                    stack.close()
                    files.finish(tenants)
                    kept = there.move_away({name: files.ids[name] for name in tenants}, move.now())
                move.report("moved", 0)
                _place(move)
                move.report("placed", 0)
                cleaned = _clean_logs(move)
                setting, more = _switch(move)
                took = move.clock() - fence
        shutil.rmtree(move.home / WORK, ignore_errors=True)
        return _done(found, copies, took, move.clock() - began, setting, kept, [*more, *cleaned])


class _Files:
    """The new files of a home's tenants, below a folder of their own until they are complete."""

    def __init__(self, folder: Path, stack: ExitStack) -> None:
        self._folder, self._stack = folder, stack
        self._open: dict[str, tuple[SqliteTables, SqliteTables]] = {}
        self.ids: dict[str, str] = {}
        """by tenant, the id of its journal"""

    def of(self, tenant: str) -> tuple[SqliteTables, SqliteTables]:
        """The journal and the receipts of a tenant."""
        if tenant not in self._open:
            folder = self._folder if tenant == DEFAULT else tenant_folder(self._folder, tenant)
            write_name(folder, tenant)
            journal = self._stack.enter_context(closing(connect(folder / JOURNAL)))
            journal.execute("pragma foreign_keys = off")  # the rows come table by table
            journal.execute("pragma synchronous = normal")
            new = journal.execute("pragma user_version").fetchone()[0] == 0
            migrate(journal, STEPS)
            if new:
                journal.execute("delete from mark")
            receipts = self._stack.enter_context(closing(open_receipts(folder / RECEIPTS)))
            self._open[tenant] = SqliteTables(journal), SqliteTables(receipts)
        return self._open[tenant]

    def finish(self, tenants: Sequence[str]) -> None:
        """Check the closed files, and make them durable. Raises StoreDamaged."""
        for tenant in tenants:
            folder = self._folder if tenant == DEFAULT else tenant_folder(self._folder, tenant)
            with closing(connect(folder / JOURNAL)) as db:
                if db.execute("pragma foreign_key_check").fetchone() is not None:
                    raise StoreDamaged(f"the journal of the tenant {tenant!r} has rows whose parents are missing")
                self.ids[tenant] = db.execute("select id from mark").fetchone()[0]
                db.execute("pragma wal_checkpoint(truncate)").fetchall()
            for name in (JOURNAL, RECEIPTS):
                sync(folder / name)
            sync(folder)


def _into_files(
    tenant: str, there: Migration, files: _Files, verified: _Verified, report: Report
) -> tuple[TenantCopy, int]:
    """Make a tenant's files equal to its tables in PostgreSQL; also returns the number of changed rows."""
    source = there.read(tenant)
    journal, receipts = files.of(tenant)
    mark = next(iter(source.rows(next(table for table in JOURNAL_TABLES if table.name == "mark"))))
    tables, changed = _copied(tenant, mark, source, journal, verified, report)
    copied, more = _equal(RECEIPT_TABLE, source, receipts, tenant, report)
    return TenantCopy(tenant, (*tables, copied), there.bytes(tenant)), changed + more


def _counted_there(tenant: str, there: Migration) -> TenantCopy:
    source = there.read(tenant)
    tables = (*JOURNAL_TABLES, RECEIPT_TABLE)
    return TenantCopy(tenant, tuple(TableCopy(one.name, source.count(one), "") for one in tables), there.bytes(tenant))


def _place(move: Move) -> None:
    """Put complete files into the home, that of the home's owner last."""
    work = move.home / WORK
    files = sorted((work / TENANTS).glob(f"*/{NAME}"))
    for folder in [*(file.parent for file in files), work]:
        target = move.home / folder.relative_to(work)
        if folder != work:
            write_name(target, json.loads((folder / NAME).read_text(encoding="utf-8")))
        for name in (RECEIPTS, JOURNAL):
            with suppress(FileNotFoundError):
                (folder / name).replace(target / name)
        sync(target)


def _clean_logs(move: Move) -> list[str]:
    """Blank what other gateways forgot in the logs of observations; returns those that could not be read or written.

    The database is closed by now, so nothing may keep the home from its journals.
    """
    notes = []
    for tenant, folder in _tenants(move.home):
        try:
            blank_forgotten(folder, folder / JOURNAL, tenant, move.settings.episodes.kept_days, move.now())
        except (OSError, sqlite3.Error, FusionError) as error:
            notes.append(
                f"The log {folder / FOLDER} may have lines that other gateways forgot, as it could not be cleaned "
                f"({error}). Its observations are in the journal: put it aside before the next start"
            )
    return notes


def _require_no_file(home: Path, pattern: str) -> None:
    for there in home.glob(pattern):
        raise BadInput(f"{there} is there already: move it aside, or name another home")


def _finish_back(move: Move, there: Migration, found: Migrated, began: float, *, dry_run: bool) -> Migrated:
    """Finish a run that was killed after the database had been closed and before the setting was switched."""
    one = there.closed().get(_schema(DEFAULT))
    file = next((file for file in (move.home / WORK / JOURNAL, move.home / JOURNAL) if file.exists()), None)
    if one is None or not one.moved or file is None or _id_of(file) != one.journal:
        raise NotFound(f"PostgreSQL at {there.server.place} has no journals to move")
    if dry_run:
        return found
    with disk_errors(move.home, "the journals"), _sqlite_errors(move.home), _fenced(move):
        fence = move.clock()
        _place(move)
        cleaned = _clean_logs(move)
        setting, notes = _switch(move)
        took = move.clock() - fence
    shutil.rmtree(move.home / WORK, ignore_errors=True)
    return _done(found, [], took, move.clock() - began, setting, [], [*notes, *cleaned])


# Both -----------------------------------------------------------------------------------------------------------------


@contextmanager
def _work(home: Path, name: str) -> Iterator[Path]:
    """An empty folder for the time of a run."""
    folder = home / WORK / name
    shutil.rmtree(folder, ignore_errors=True)
    folder.mkdir(mode=0o700, parents=True)
    try:
        yield folder
    finally:
        shutil.rmtree(folder, ignore_errors=True)
        with suppress(OSError):
            folder.parent.rmdir()


@contextmanager
def _fenced(move: Move) -> Iterator[None]:
    """Stop the home's server, and hold the home: nobody writes to it. Raises HomeLocked."""
    with _taken(move, _STOPS):
        yield


def _taken(move: Move, attempts: int) -> HomeLock:
    move.stop()
    try:
        return HomeLock.take(move.home, f"fusion migrate --home {move.home}")
    except HomeLocked:
        holder = owner(move.home)
        if attempts == 1 or (holder is not None and not holder.serves):
            raise
    return _taken(move, attempts - 1)


@contextmanager
def _sqlite_errors(home: Path) -> Iterator[None]:
    """Raises StoreFull and StoreDamaged for errors of SQLite."""
    try:
        yield
    except sqlite3.Error as error:
        if getattr(error, "sqlite_errorcode", 0) & 0xFF == sqlite3.SQLITE_FULL:
            raise StoreFull(f"{home} has no space left; nothing was switched: make room, run it again") from None
        raise StoreDamaged(f"a file of {home} cannot be read or written: {error}. Check the disk") from None


def _switch(move: Move) -> tuple[str, list[str]]:
    """Write the setting; returns what was written, and what its owner has to do."""
    wanted = "\n".join(f'{name} = "{value}"' for name, value in move.setting.items() if value)
    if not move.setting:
        return "", []
    try:
        before = move.file.read_text(encoding="utf-8") if move.file.exists() else ""
        changed = with_settings(before, "database", move.setting)
        if not wanted and "[home]" in changed:
            changed = with_settings(changed, "home", {"database": ""})
        if changed != before:
            with changing(move.home):
                write_atomically(move.file, changed.encode())
        named, _ = unapproved_names(move.home, reach_of(changed.encode(), move.file.parent, move.file.parent))
        if move.setting.get("url_env") in named:  # its owner has just named it
            allow(move.home, variables=(move.setting["url_env"],))
    except (OSError, ValueError, SettingsError) as error:
        action = f"write into it: [database] {wanted}" if wanted else "take url and url_env out of its [database]"
        return "", [f"{move.file} could not be changed ({error}). Before the next start, {action}"]
    return wanted or "[database] url is taken away", []


def _notes(move: Move) -> tuple[str, ...]:
    embedded = [
        name
        for name, one in move.settings.backends.items()
        if one.enabled and not {"url", "url_env"} & one.options.keys() and _has_files(move.home / "backends" / name)
    ]
    kept = "The access log stays in this home. Its log of observations is read once more, and then put aside."
    notes = [kept]
    if embedded:
        notes.append(
            f"Not moved: what {', '.join(embedded)} has here. Gateways on PostgreSQL leave embedded stores out: "
            "add a store that is a server, such as adapters.postgres; it is filled from the journal."
        )
    return (*move.notes, *notes)


def _has_files(folder: Path) -> bool:
    return folder.is_dir() and any(one.suffix != ".json" for one in folder.iterdir())


NOTES_BACK = (
    "Other gateways of this database answer no more: stop them.",
    "Embedded stores of this home are used again, and get what they lack from the journal.",
)


def _with_counts(found: Migrated, tenants: Sequence[TenantCopy], move: Move, began: float) -> Migrated:
    return replace(found, tenants=tuple(tenants), took_s=move.clock() - began)


def _done(
    found: Migrated,
    tenants: Sequence[TenantCopy],
    fence_s: float,
    took_s: float,
    setting: str,
    kept: Sequence[str],
    notes: Sequence[str],
) -> Migrated:
    return replace(
        found,
        tenants=tuple(tenants),
        fence_s=fence_s,
        took_s=took_s,
        setting=setting,
        kept_as=tuple(kept),
        notes=(*notes, *found.notes),
    )


def as_json(found: Migrated) -> dict[str, Any]:
    """A result for a command."""
    return {**asdict(found), "rows": found.rows, "bytes": found.bytes}
