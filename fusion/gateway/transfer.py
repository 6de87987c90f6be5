"""Exports and imports the memories of a whole home, tenant by tenant, while it is open.

An export from elsewhere is hostile until it is checked: its owner alone may say that it keeps its trust and its
sources. Otherwise every memory is checked as one that a caller sends: secrets are masked, what is trusted becomes
unknown, and a source that only the gateway's readers may name becomes a claim.
"""

from __future__ import annotations

import asyncio
import contextlib
import errno
import hashlib
import json
import shutil
import sqlite3
import tempfile
from collections import Counter
from collections.abc import AsyncIterator, Awaitable, Callable, Iterator, Mapping, Sequence
from contextlib import AbstractAsyncContextManager, AsyncExitStack, asynccontextmanager, closing
from dataclasses import dataclass, field, replace
from datetime import UTC, datetime
from pathlib import Path
from typing import Any, BinaryIO, Literal, TypeVar, cast

import orjson

from fusion.contract import UNSTATED_CONFIDENCE, Event, Provenance, State, Trust
from fusion.errors import BadInput, NotFound, StoreDamaged, StoreFull
from fusion.gateway.parts import DEFAULT, TenantParts
from fusion.gateway.tenants import NAME
from fusion.gateway.transfer_observations import restored, words_of
from fusion.home import TENANTS, tenant_folder
from fusion.ingest.claims import as_stated_by_caller
from fusion.ingest.intake import Intake, NewMemory, not_one_line
from fusion.journal import Journal, merge_ledger, observations, split_tenants
from fusion.journal.export import write_rows
from fusion.journal.export_format import (
    FORMAT,
    SHOWN_FAULTS,
    VERSION,
    Checked,
    EventLine,
    ExportFile,
    ForgottenObservationLine,
    HiddenLine,
    JournalPart,
    Numbered,
    TombstoneLine,
)
from fusion.journal.merge import BY, Arrival, Merge, has_tombstones
from fusion.journal.observations import Restored
from fusion.journal.schema import STEPS
from fusion.lib.ids import EPISODE
from fusion.lib.provenance import parse_provenance
from fusion.lib.redact import redact
from fusion.lib.temporal_facts import with_episodes
from fusion.settings_table import uses_database
from fusion.store import database
from fusion.store.rows import add_missing_columns
from fusion.store.sqlite import connect, copy_of, migrate
from fusion.version import VERSION as PROGRAM

T = TypeVar("T")

TrustChoice = Literal["auto", "keep", "unknown", "untrusted"]
"""the most that an import is believed: as it says itself ("keep"), or at most this; "auto" keeps an export of the same
journal, and is "unknown" for any other"""

STEP_ROWS = 500
"""rows of an import in one transaction: others can write between two of them"""
BLOCK_BYTES = 1 << 18
DRY_RUN = ".import-dry-run-"
"""prefix of the folders in a home with the copy of a journal that a dry run writes to"""

Progress = Callable[[int, int | None], None]
Moved = Callable[[str, str, str], Awaitable[None]]
Opened = Callable[[str], AbstractAsyncContextManager[TenantParts]]
"""opens a tenant of a home"""


# Exports ---------------------------------------------------------------------------------------------------------


@dataclass(slots=True)
class Export:
    """An export whose rows are in a temporary file without a name, so that a slow reader holds no snapshot."""

    rows: BinaryIO
    user_id: str | None = None
    parts: list[dict[str, Any]] = field(default_factory=list)

    def chunks(self) -> Iterator[bytes]:
        """The whole export: the header, the rows, the footer; then it is closed."""
        digest = hashlib.sha256()
        with self.rows:
            for chunk in self._before_footer():
                digest.update(chunk)
                yield chunk
        lines = 1 + sum(1 + sum(part["counts"].values()) for part in self.parts)
        yield orjson.dumps({"type": "footer", "lines": lines, "sha256": digest.hexdigest()}) + b"\n"

    def _before_footer(self) -> Iterator[bytes]:
        header = {
            "type": "header",
            "format": FORMAT,
            "version": VERSION,
            "program": PROGRAM,
            "created_at": datetime.now(UTC).isoformat().replace("+00:00", "Z"),
            **({} if self.user_id is None else {"user_id": self.user_id}),
            "journals": self.parts,
        }
        yield orjson.dumps(header) + b"\n"
        self.rows.seek(0)
        while block := self.rows.read(BLOCK_BYTES):
            yield block


async def exported(
    home: Path,
    others: Sequence[str],
    opened: Opened,
    caller: str,
    *,
    tenant: str | None = None,
    user_id: str | None = None,
) -> Export:
    """The export of a home while it is open, each journal from one snapshot; close it.

    ``others`` are its tenants besides the owner.
    The owner exports every tenant, or one; the caller of another tenant its own. Raises BadInput, NotFound, StoreFull.
    """
    names = _exported_tenants(others, caller, tenant)
    export = Export(spool(home), user_id)
    try:
        with disk_errors(home):
            for name in names:
                async with opened(name) as one:
                    export.parts.append(await one.journal.snapshot(write_rows, name, user_id, export.rows))
    except BaseException:
        export.rows.close()
        raise
    return export


def spool(folder: Path) -> BinaryIO:
    """A private temporary file on the disk of a home. Raises StoreFull."""
    with disk_errors(folder):
        return cast(BinaryIO, tempfile.TemporaryFile(dir=folder, prefix="transfer-"))


@contextlib.contextmanager
def disk_errors(folder: Path, what: str = "a copy of the export") -> Iterator[None]:
    """Raises StoreFull for the errors of a full or read-only disk."""
    try:
        yield
    except OSError as error:
        if error.errno not in (errno.ENOSPC, errno.EDQUOT, errno.EROFS):
            raise
        raise StoreFull(f"{folder} has no room for {what} ({error.strerror}): make room there") from error


def _exported_tenants(others: Sequence[str], caller: str, tenant: str | None) -> list[str]:
    if caller != DEFAULT:
        if tenant not in (None, caller):
            raise BadInput("this key opens another tenant: leave out tenant, or use the token of the home's owner")
        return [caller]
    names = [DEFAULT, *others]
    if tenant is None:
        return names
    if tenant not in names:
        raise NotFound(f"there is no tenant {tenant!r} here: there are {', '.join(names)}")
    return [tenant]


def tenants_of(home: Path) -> list[str]:
    """The tenants of a home besides its owner."""
    files = sorted((home / TENANTS).glob(f"*/{NAME}"))
    return [json.loads(file.read_text(encoding="utf-8")) for file in files if _has_journal(file.parent)]


def _has_journal(folder: Path) -> bool:
    return (folder / "journal.sqlite").exists()


def export_closed_home(home: Path, file: BinaryIO) -> None:
    """Write the export of a home that this process has not opened, which may be served, from copies of its journals.

    Nothing in the home changes; the journal of an earlier version is migrated in the copy. Raises NotFound.
    """
    if uses_database(home):
        raise BadInput("The memories are in PostgreSQL ([database] url): start the server, which exports them.")
    folders = [home, *(tenant_folder(home, tenant) for tenant in tenants_of(home))]
    if not any(map(_has_journal, folders)):
        raise NotFound(f"{home} is no home with memories: it has no journal.sqlite")
    with tempfile.TemporaryDirectory(prefix="memory-fusion-") as work, tempfile.TemporaryFile(dir=work) as rows:
        export = Export(rows)
        for number, folder in enumerate(filter(_has_journal, folders)):
            name = DEFAULT if folder == home else json.loads((folder / NAME).read_text(encoding="utf-8"))
            copy = Path(work, f"{number}.sqlite")
            copy_of(folder / "journal.sqlite", copy)
            try:
                export.parts += _rows_of_copy(copy, name, rows)
            except sqlite3.Error as error:
                raise StoreDamaged(f"{folder / 'journal.sqlite'} is no journal of memory-fusion: {error}") from None
            copy.unlink()
        file.writelines(export.chunks())


def _rows_of_copy(copy: Path, name: str, rows: BinaryIO) -> list[dict[str, Any]]:
    """Write the rows of a copied journal, and of the tenants that an early home kept in it."""
    with closing(connect(copy)) as db:
        if db.execute("pragma user_version").fetchone()[0] > len(STEPS):
            raise StoreDamaged("it was written by a newer version of memory-fusion: update this one first")
        migrate(db, STEPS)
        add_missing_columns(db, "event")
        others = split_tenants.others(db, DEFAULT) if name == DEFAULT else []
        return [write_rows(db, one, None, rows) for one in (name, *others)]


# Imports ---------------------------------------------------------------------------------------------------------


@dataclass(frozen=True, slots=True)
class ImportOptions:
    """How to import. ``partial`` takes an export that is cut off or has broken lines; ``refs`` reports new refs."""

    dry_run: bool = False
    trust: TrustChoice = "auto"
    partial: bool = False
    refs: bool = False
    tenant: str | None = None


@dataclass(slots=True)
class TenantReport:
    """What an import did to the journal of one tenant.

    ``trust`` is "kept" or the most that its memories are believed. ``refused`` lines have a secret in an id, or nothing
    that may be stored. ``new_refs`` counts memories that have another ref here; the outcomes are explained at
    `fusion.journal.merge.Outcome`.
    """

    tenant: str
    journal: str
    trust: str
    new: int = 0
    known: int = 0
    blocked: int = 0
    forgotten: int = 0
    deleted: int = 0
    conflict: int = 0
    refused: int = 0
    new_refs: int = 0
    observations: int = 0
    """observations that are new here"""
    proposals: int = 0
    """proposals that are new here"""


@dataclass(slots=True)
class ImportReport:
    """The outcome of an import, or of its dry run. ``missing`` says what a partial export lacks."""

    dry_run: bool
    created_at: datetime
    program: str
    tenants: list[TenantReport] = field(default_factory=list)
    missing: tuple[str, ...] = ()
    broken: int = 0
    faults: list[str] = field(default_factory=list)
    """the first lines that were left out, each with its number and the reason"""


async def imported(
    home: TenantParts,
    opened: Opened,
    caller: str,
    file: BinaryIO,
    options: ImportOptions,
    moved: Moved,
    progress: Progress,
) -> ImportReport:
    """Import an export, or count what that would do. ``moved`` gets tenant, old and new ref of each memory.

    The whole file is checked before anything is written. An import that is interrupted is run again. Raises BadInput.
    """
    export = ExportFile(file, partial=options.partial)
    checked = await asyncio.to_thread(export.check)
    parts = _imported_parts(checked, caller, options)
    header = checked.header
    faults = list(checked.faults)
    report = ImportReport(options.dry_run, header.created_at, header.program, [], (), checked.broken, faults)
    report.missing = tuple(checked.missing)
    done, total = 0, sum(checked.counts[name].total() for name in parts if name in checked.counts)
    batches = _batches(export.rows(), parts.keys())
    batch = await asyncio.to_thread(next, batches, None)
    for part in parts.values():
        if part.tenant not in checked.counts and part.tenant != DEFAULT:
            continue  # it would only make an empty tenant
        async with _opened_for(home, opened, part.tenant, dry_run=options.dry_run) as (journal, one):
            work = await _TenantImport.begin(home, one, journal, part, caller, options, checked, report, moved)
            hashes: Sequence[Numbered] = ()
            if batch is not None and batch[0].tenant == part.tenant and _step_of(batch[0]) == "tombstone":
                hashes, batch = batch, await asyncio.to_thread(next, batches, None)
            await work.apply_tombstones(hashes, export)
            done += len(hashes)
            while batch is not None and batch[0].tenant == part.tenant:
                await work.step(batch)
                done += len(batch)
                progress(done, total)
                batch = await asyncio.to_thread(next, batches, None)
            await work.finish()
    if done != total:
        raise StoreDamaged(f"only {done} of {total} rows are in the order of the header: get the export again")
    return report


def _imported_parts(checked: Checked, caller: str, options: ImportOptions) -> dict[str, JournalPart]:
    """The parts of an export to import, by tenant. Raises BadInput for those that the caller may not write."""
    parts = {part.tenant: part for part in checked.header.journals}
    if options.trust == "keep" and caller != DEFAULT:
        raise BadInput("trust: keep is for the home's owner; with the key of a tenant leave it out")
    wanted = options.tenant if options.tenant is not None or caller == DEFAULT else caller
    if wanted is None:
        return parts
    if caller not in (DEFAULT, wanted):
        raise BadInput("this key opens another tenant: leave out tenant, or use the token of the home's owner")
    if wanted not in parts:
        raise BadInput(
            f"the export has no memories of the tenant {wanted!r}: it has those of {', '.join(sorted(parts))}. "
            "An import keeps the tenant of each memory"
        )
    return {wanted: parts[wanted]}


def _batches(rows: Iterator[Numbered], tenants: Any) -> Iterator[list[Numbered]]:
    """Consecutive rows of one tenant and type; all tombstones of a tenant together, since they apply at once."""
    batch: list[Numbered] = []
    for one in rows:
        if one.tenant not in tenants:
            continue
        if batch and (
            one.tenant != batch[0].tenant
            or _step_of(one) != _step_of(batch[0])
            or (len(batch) >= STEP_ROWS and _step_of(one) != "tombstone")
        ):
            yield batch
            batch = []
        batch.append(one)
    if batch:
        yield batch


def _step_of(one: Numbered) -> str:
    return "tombstone" if one.row.type == "hidden" else one.row.type


@asynccontextmanager
async def _opened_for(
    home: TenantParts, opened: Opened, tenant: str, *, dry_run: bool
) -> AsyncIterator[tuple[Journal, TenantParts | None]]:
    """The journal to import into, with its tenant's parts; for a dry run a copy, or an empty one for a new tenant."""
    if not dry_run:
        async with opened(tenant) as one:
            yield one.journal, one
        return
    folder = home.settings.home
    async with AsyncExitStack() as stack:
        work = Path(stack.enter_context(tempfile.TemporaryDirectory(dir=folder, prefix=DRY_RUN)))
        file = work / "journal.sqlite"
        if tenant == DEFAULT or await _has_tenant(home, tenant):
            async with opened(tenant) as one:
                await one.journal.snapshot(_copy, file)
        journal = await Journal.open(file)
        stack.push_async_callback(journal.close)
        yield journal, None


async def _has_tenant(home: TenantParts, tenant: str) -> bool:
    """Whether a tenant has a journal, so that opening it makes none."""
    if not home.journal.shared:
        return _has_journal(tenant_folder(home.settings.home, tenant))
    from fusion.store.postgres_copy import has_tenant

    return await home.journal.read(has_tenant, tenant)


def remove_dry_runs(home: Path) -> None:
    """Remove the copies of dry runs that were interrupted by the end of their process."""
    for folder in home.glob(f"{DRY_RUN}*"):
        shutil.rmtree(folder, ignore_errors=True)


def _copy(db: database.Connection, file: Path) -> None:
    """Copy a journal into a file."""
    if isinstance(db, sqlite3.Connection):
        file.touch(mode=0o600)
        with closing(sqlite3.connect(file)) as copy:
            db.backup(copy)
        return
    from fusion.store.postgres import Connection as OfServer
    from fusion.store.postgres_copy import copy_into
    from fusion.store.tables import tables_of

    assert isinstance(db, OfServer)  # noqa: S101 — there are two kinds
    with closing(connect(file)) as copy:
        migrate(copy, STEPS)
        add_missing_columns(copy, "event")
        copy_into(db, copy, tables_of(STEPS))


@dataclass(slots=True)
class _TenantImport:
    """The import of one tenant's rows."""

    intake: Intake
    parts: TenantParts | None
    """None in a dry run"""
    journal: Journal
    merge: Merge
    report: TenantReport
    faults: list[str]
    owns: bool
    batch: str
    """the ingest run of memories that are not the owner's own, so that `fusion undo` takes them back"""
    moved: Moved | None
    """called for each memory that gets another ref"""
    _moves: list[tuple[str, str]] = field(default_factory=list)
    _episodes: dict[str, str] = field(default_factory=dict)
    """by ref in the export, the ref here of each observation that has another one"""

    @classmethod
    async def begin(
        cls,
        home: TenantParts,
        parts: TenantParts | None,
        journal: Journal,
        part: JournalPart,
        caller: str,
        options: ImportOptions,
        checked: Checked,
        report: ImportReport,
        moved: Moved,
    ) -> _TenantImport:
        mark = await journal.watermark()
        same = mark.id == part.journal
        owns = caller == DEFAULT and (options.trust == "keep" or (options.trust == "auto" and same))
        most = "untrusted" if options.trust == "untrusted" else "unknown"
        of_tenant = TenantReport(part.tenant, part.journal, "kept" if owns else most)
        report.tenants.append(of_tenant)
        merge = journal.begin_merge(owns=owns, older=same and part.commits <= mark.commits)

        batch = f"import-{checked.sha256[:16]}"
        one = cls(
            home.intake, parts, journal, merge, of_tenant, report.faults, owns, batch, moved if options.refs else None
        )
        merge.moved = lambda old, new: one._moves.append((old, new))
        return one

    async def apply_tombstones(self, hashes: Sequence[Numbered], export: ExportFile) -> None:
        """Merge what both homes forgot; first of all, since it applies to everything else."""
        merge = self.merge
        lines = [one.row for one in hashes if isinstance(one.row, TombstoneLine)]
        hidden = [one.row for one in hashes if isinstance(one.row, HiddenLine)]
        forgot_here = await self.journal.snapshot(has_tombstones)
        if hashes or forgot_here:
            await asyncio.to_thread(lambda: merge.note(self._remembered(export)))
        affected = await self.journal.snapshot(merge.find_affected, lines)
        await self._purge(await self.journal.snapshot(merge.events_to_forget, affected[0]))
        await self._run(merge.apply_tombstones, lines, hidden, self.report.tenant, affected)

    def _remembered(self, export: ExportFile) -> Iterator[Event]:
        """What the export remembers, as this home may store it."""
        for one in export.rows():
            if one.tenant == self.report.tenant and isinstance(one.row, EventLine) and not one.row.forgotten:
                with contextlib.suppress(BadInput):
                    yield self._arrival(one.row).event

    async def step(self, batch: Sequence[Numbered]) -> None:
        """Merge rows of one type."""
        rows: list[Any] = [one.row for one in batch]
        merge, tenant = self.merge, self.report.tenant
        match _step_of(batch[0]):
            case "forgotten_observation":
                await self._forget_observations(rows)
            case "observation":
                await self._restore_observations(batch)
            case "event":
                await self._merge_events(batch)
            case "extraction":
                await self._run(merge.merge_extractions, rows)
            case "distil":
                await self._run(merge.merge_distil_jobs, rows)
            case "external_state":
                await self._run(merge.merge_external_states, rows, tenant)
            case "proposal":
                given = self._checked(batch, lambda row: (row, words_of(row, tenant)))
                self.report.proposals += await self._run(merge.merge_proposals, given, tenant)
            case "decision":
                await self._run(merge.merge_decisions, rows, tenant)
            case "audit":
                await self._run(merge.merge_audit, rows, tenant)
            case "label":
                await self._run(merge.merge_labels, rows, tenant)
            case "use":
                await self._run(merge.merge_use, rows)
            case "inclusion":
                await self._run(merge.merge_inclusions, rows)

    async def _forget_observations(self, rows: Sequence[ForgottenObservationLine]) -> None:
        """Forget the observations that the other home forgot."""
        gone = await self.journal.write(merge_ledger.forgotten_observations, rows)
        self.report.forgotten += len(gone)
        if self.parts is not None and gone:
            await self.parts.observation_forgetter.forget(gone, BY)

    async def _restore_observations(self, batch: Sequence[Numbered]) -> None:
        """Store observations; a dry run only counts them."""
        now = self.merge.now
        if self.parts is None:
            keys = list(
                dict.fromkeys(self._checked(batch, lambda row: self._restored(row, now).graded.observation.key))
            )
            known = await self.journal.read(observations.known, keys)
            self.report.observations += sum(key not in known for key in keys)
            return
        given = self._checked(batch, lambda row: self._restored(row, now))
        entered = await self.parts.observations.restore(given)
        self.report.observations += sum(one.status == "stored" for one in entered)
        for one, entry in zip(given, entered, strict=True):
            if one.seq != entry.seq:
                self._episodes[f"{EPISODE}{one.seq}"] = f"{EPISODE}{entry.seq}"

    def _restored(self, row: Any, now: datetime) -> Restored:
        return restored(row, self.report.tenant, now, owns=self.owns)

    def _checked(self, batch: Sequence[Numbered], work: Callable[[Any], T]) -> list[T]:
        """What ``work`` makes of each row; those for which it raises BadInput are reported as refused."""
        made = []
        for one in batch:
            try:
                made.append(work(one.row))
            except BadInput as error:
                self.report.refused += 1
                if len(self.faults) < SHOWN_FAULTS:
                    self.faults.append(f"line {one.number}: {error}")
        return made

    async def _merge_events(self, batch: Sequence[Numbered]) -> None:
        arrivals = await asyncio.to_thread(self._arrivals, batch)
        doomed = [arrival.event.event_id for arrival in arrivals if arrival.line.forgotten]
        if doomed:
            await self._purge(await self.journal.snapshot(self.merge.events_to_forget, doomed))
        outcomes = Counter(await self._run(self.merge.merge_events, arrivals))
        del outcomes["forgotten"]  # `_run` counts them, with what goes with them
        for outcome, count in outcomes.items():
            setattr(self.report, outcome, getattr(self.report, outcome) + count)

    def _arrivals(self, batch: Sequence[Numbered]) -> list[Arrival]:
        """The memories of these lines as they may be stored; the others are reported."""
        return self._checked(batch, self._arrival)

    def _arrival(self, line: EventLine) -> Arrival:
        event = line.event(self.report.tenant)
        if self._episodes:
            event = replace(event, stated=with_episodes(event.stated, self._episodes))
        if self.owns:
            return Arrival(line, _redacted(event), event.text, line.batch, line.state)
        checked = event if line.forgotten else _as_sent(self.intake, event)
        checked = replace(checked, trust=_lowered(event.trust, self.report.trust))
        return Arrival(line, checked, event.text, self.batch, _lowered_state(line.state, self.report.trust))

    async def _run(self, step: Callable[..., Any], *args: Any) -> Any:
        """Run a step of the merge, and what follows from it outside the journal."""
        done, deletions = await self.journal.merge(self.merge, step, *args)
        self.report.forgotten += len(deletions)
        self.report.new_refs += len(self._moves)
        moves, self._moves = self._moves, []
        if self.moved is not None:
            for old, new in moves:
                await self.moved(self.report.tenant, old, new)
        if self.parts is not None:
            for deleted in deletions:
                self.parts.deliverer.keep_text(deleted.record.event, deleted.due)
            await self._purge([deleted.record.event for deleted in deletions])
            self.parts.deliverer.wake()
        return done

    async def _purge(self, events: Sequence[Event]) -> None:
        if self.parts is not None:
            await self.parts.forgetter.purge_caches(events)

    async def finish(self) -> None:
        """End the import of this tenant."""
        await self._run(self.merge.finish)
        self.merge.close()
        if self.parts is not None and self.parts.distiller is not None:
            self.parts.distiller.wake()


def _redacted(event: Event) -> Event:
    """An own memory with the secrets masked that earlier versions did not know."""
    text, speaker, raw_kind = (value and redact(value)[0] for value in (event.text, event.speaker, event.raw_kind))
    if (text, speaker, raw_kind) == (event.text, event.speaker, event.raw_kind):
        return event
    return replace(event, text=text or "", speaker=speaker, raw_kind=raw_kind)


_RANK: Mapping[str, int] = {"quarantined": 0, "untrusted": 1, "unknown": 2, "trusted": 3}


def _lowered(trust: Trust, most: str) -> Trust:
    """The trust of a memory, at most ``most``."""
    return min(trust, "untrusted" if most == "untrusted" else "unknown", key=_RANK.__getitem__)


def _lowered_state(state: State | None, most: str) -> State | None:
    """The state of another home's memory, which is not more important or trusted here than a new one."""
    if state is None:
        return None
    trust = None if state.trust is None else _lowered(state.trust, most)
    confidence = min(max(state.confidence, 0.0), UNSTATED_CONFIDENCE)
    as_new: dict[str, Any] = {"importance": None, "grade": None, "priority": None}
    as_new |= {"provenance": _checked_provenance(state), "reinforced_count": 0, "reinforced_at": None}
    return replace(state, trust=trust, confidence=confidence, **as_new)


def _checked_provenance(state: State) -> Provenance | None:
    """The provenance of another home's memory, unless a door would refuse it."""
    try:
        found = None if state.provenance is None else parse_provenance(state.provenance)
    except BadInput:
        return None
    return None if found is None or redact(found.ref)[1] else found


def _as_sent(intake: Intake, event: Event) -> Event:
    """A memory of another home, checked as if a caller sent it. Raises BadInput."""
    identities = (
        *event.scope.named().items(),
        ("project", event.scope.project),
        ("source", event.source),
        ("document", None if event.place is None else event.place.document),
        ("supersedes", event.supersedes),
        ("event_id", event.event_id),
    )
    for name, value in identities:
        if value and (wrong := "has a NUL character" if "\0" in value else not_one_line(value)):
            raise BadInput(f"{name} {wrong}")
    shared = {name: getattr(event, name) for name in NewMemory.__dataclass_fields__}
    prepared = intake.prepared(as_stated_by_caller(NewMemory(**shared)), event.scope.tenant)
    if prepared.event is None:
        raise BadInput(prepared.changes)
    return replace(
        prepared.event, event_id=event.event_id, recorded_at=event.recorded_at, derived_from=event.derived_from
    )
