"""Backs up a home while it is served, verifies backups, and restores them.

A backup has the journal, the receipts and the access log of each tenant, the settings and the recipes, and of the
workspace what protects the user's files: the shepherd's baseline and incidents, and the copies by which changes are
undone. The stores of the backends are not in it: they are derived from the journal, and a copy of another moment would
miss what the journal counts as delivered, or still have what was forgotten. The first start of a restored home fills
them again. Keys and tokens are not in it either; a restored home makes its own.
"""

from __future__ import annotations

import hashlib
import json
import logging
import os
import shutil
import sqlite3
import tarfile
import tempfile
from collections.abc import Iterator, Mapping, Sequence
from contextlib import closing, contextmanager, suppress
from dataclasses import asdict, dataclass, field
from datetime import UTC, datetime
from pathlib import Path, PurePosixPath
from typing import Any

from pydantic import TypeAdapter, ValidationError

from fusion.errors import BadInput, HomeLocked, NotFound, StoreDamaged
from fusion.gateway.accesses import entry
from fusion.gateway.shepherding import folder_of
from fusion.gateway.tenants import NAME
from fusion.gateway.transfer import disk_errors
from fusion.gateway.workspace import records_of
from fusion.home import TENANTS, explain_lock, owner
from fusion.journal import access_log, store_watermarks, watermark
from fusion.journal.schema import STEPS
from fusion.journal.state import BY_HAND
from fusion.journal.watermark import Watermark
from fusion.lib.caller import Caller
from fusion.settings_table import uses_database
from fusion.store.private_files import sync
from fusion.store.sqlite import copy_of
from fusion.trust import allow
from fusion.trust.fingerprint import read_settings
from fusion.trust.reach import reach_of
from fusion.upkeep.shepherd import locked
from fusion.version import VERSION as PROGRAM

FORMAT, VERSION = "memory-fusion.backup", 1
MANIFEST = "backup.json"
MAX_MANIFEST_BYTES = 16_000_000
JOURNAL = "journal.sqlite"
_DATABASES = (JOURNAL, "receipts.sqlite", access_log.NAME)
log = logging.getLogger(__name__)
_ARCHIVES = (".tar", ".tar.gz", ".tgz")


@dataclass(frozen=True, slots=True)
class File:
    """One file of a backup, by its path in the home."""

    path: str
    bytes: int
    sha256: str


@dataclass(frozen=True, slots=True)
class JournalCopy:
    """The journal of one tenant at the time of the backup: its path, its watermark, and what it remembers."""

    path: str
    id: str
    commits: int
    events: int
    seq: int
    memories: int
    forgotten: int

    @property
    def mark(self) -> Watermark:
        return Watermark(self.id, self.commits, self.events, self.seq)


@dataclass(frozen=True, slots=True)
class Backup:
    """The manifest of a backup."""

    format: str
    version: int
    program: str
    schema: int
    created_at: datetime
    home: str
    journals: tuple[JournalCopy, ...]
    files: tuple[File, ...]

    @property
    def memories(self) -> int:
        return sum(one.memories for one in self.journals)

    @property
    def bytes(self) -> int:
        return sum(one.bytes for one in self.files)


@dataclass(frozen=True, slots=True)
class Restored:
    """What a restore did. ``lost`` says what the replaced home had beyond the backup; it is kept as ``kept_as``."""

    home: str
    backup: Backup
    lost: Mapping[str, str] = field(default_factory=dict)
    kept_as: str | None = None


_MANIFEST: TypeAdapter[Backup] = TypeAdapter(Backup)


def back_up(home: Path, target: Path, now: datetime | None = None) -> Backup:
    """Back up a home into a new folder or archive, and verify it; the home may be served meanwhile.

    Raises NotFound, BadInput if the target is there already, StoreDamaged, StoreFull.
    """
    if uses_database(home):
        raise BadInput(
            "The memories are in PostgreSQL ([database] url): back them up by pg_dump as a superuser or as a role with "
            "BYPASSRLS, or by fusion export. As the gateways' role pg_dump fails, and with --enable-row-security it "
            "writes no memories."
        )
    if not (home / JOURNAL).exists():
        raise NotFound(f"{home} is no home with memories: it has no {JOURNAL}")
    if target.exists() and not (target.is_dir() and not any(target.iterdir())):
        raise BadInput(f"{target} is there already: name a new folder or file, or remove it")
    parent = target.absolute().parent
    if not parent.is_dir():
        raise NotFound(f"there is no folder {parent}")
    with (
        disk_errors(parent, "the backup"),
        _folder_in(parent, target.name) as work,
    ):
        folder = Path(work, "backup")
        folder.mkdir(mode=0o700)
        backup = _written(home, folder, now or datetime.now(UTC))
        (folder / MANIFEST).write_bytes(_MANIFEST.dump_json(backup, indent=1))
        verify_folder(folder)
        if _is_archive(target):
            packed = Path(work, "packed")
            _pack(folder, packed, compressed=target.suffix != ".tar")
            sync(packed)
            packed.replace(target)
        else:
            if target.exists():
                target.rmdir()
            folder.rename(target)
        sync(parent)
    return backup


def _folder_in(parent: Path, name: str) -> tempfile.TemporaryDirectory[str]:
    """A private temporary folder next to what it becomes, so that it can be renamed."""
    return tempfile.TemporaryDirectory(dir=parent, prefix=f".{name[:40]}-")


def _written(home: Path, folder: Path, now: datetime) -> Backup:
    """Copy a home's files into a folder; the journals first, so that receipts never name what no journal has."""
    tenants = sorted(path.parent.relative_to(home) for path in (home / TENANTS).glob(f"*/{JOURNAL}"))
    folders = [Path(), *tenants]
    journals = []
    for name in _DATABASES:
        for inside in folders:
            if (home / inside / name).exists():
                copy_of(home / inside / name, folder / inside / name)
                if name == JOURNAL:
                    journals.append(_described(folder, inside / name))
    for inside in tenants:
        shutil.copyfile(home / inside / NAME, folder / inside / NAME)
    settings = [home / "fusion.toml", *sorted((home / "recipes").glob("*"))]
    for path in settings:
        _copy_plain(path, folder / path.relative_to(home))
    _copy_protection(home, folder)
    files = []
    for path in sorted(folder.rglob("*")):
        if path.is_file():
            path.chmod(0o600)
            sync(path)
            files.append(File(path.relative_to(folder).as_posix(), path.stat().st_size, _sha256(path)))
    return Backup(FORMAT, VERSION, PROGRAM, len(STEPS), now, str(home), tuple(journals), tuple(files))


def _copy_protection(home: Path, folder: Path) -> None:
    """Copy what protects the files of the workspace: the shepherd's folder, and the log of changes with its copies.

    Of a change the record is copied first. What the file was before is stored before the record, so none lacks it.
    """
    records = records_of(home)
    for kind in ("json", "before", "after"):
        for path in sorted(records.glob(f"w*.{kind}")):
            _copy_plain(path, folder / path.relative_to(home))
    kept = folder_of(home)
    if kept.is_dir():
        with locked(kept):
            for path in (*kept.glob("*.*"), *(kept / "archive").glob("*.md")):
                _copy_plain(path, folder / path.relative_to(home))


def _copy_plain(path: Path, copy: Path) -> None:
    """Copy a regular file; other files, and one that has been deleted, are left out."""
    if path.is_file() and not path.is_symlink():
        _make_private(copy.parent)
        with suppress(FileNotFoundError):
            shutil.copyfile(path, copy)


def _make_private(folder: Path) -> None:
    """Make a folder, and those above it that are missing, for this user alone."""
    if not folder.is_dir():
        _make_private(folder.parent)
        folder.mkdir(mode=0o700)


def _described(folder: Path, inside: Path) -> JournalCopy:
    """What a copied journal holds."""
    with closing(sqlite3.connect(folder / inside, isolation_level=None)) as db:
        db.row_factory = sqlite3.Row
        mark = watermark.read(db)
        remembered = db.execute(
            "select coalesce(sum(not forgotten and superseded_by is null), 0), coalesce(sum(forgotten), 0) from event"
        ).fetchone()
    return JournalCopy(inside.as_posix(), mark.id, mark.commits, mark.events, mark.seq, *remembered)


def note(home: Path, call: str, made: Backup) -> None:
    """Note in the access log of each tenant that all its memories were copied; a full disk is only a warning."""
    one = entry(Caller(BY_HAND, "", "operator", "cli", ""), call, {})
    for journal in made.journals:
        try:
            access_log.append((home / journal.path).with_name(access_log.NAME), [one])
        except sqlite3.Error as error:
            log.warning("the access log of %s does not have this: %s", home, error)


def verify(target: Path) -> Backup:
    """Open a backup and compare it with its manifest. Raises NotFound, BadInput, StoreDamaged."""
    with _unpacked(target) as folder:
        return verify_folder(folder)


def verify_folder(folder: Path) -> Backup:
    """Compare an unpacked backup with its manifest: checksums, soundness, watermarks and counts."""
    backup = _manifest(folder)
    for file in backup.files:
        path = folder / file.path
        if path.is_symlink() or not path.is_file():
            raise StoreDamaged(f"the backup is not complete: {file.path} is missing. Take another backup")
        if path.stat().st_size != file.bytes or _sha256(path) != file.sha256:
            raise StoreDamaged(f"the backup is damaged: {file.path} is not what was written. Take another backup")
    for journal in backup.journals:
        with closing(sqlite3.connect(folder / journal.path)) as db:
            verdict = str(db.execute("pragma integrity_check(1)").fetchone()[0])
        found = _described(folder, Path(journal.path)) if verdict == "ok" else None
        if found != journal:
            raise StoreDamaged(
                f"the backup is damaged: {journal.path} does not hold what the manifest says ({verdict})"
            )
    return backup


def _manifest(folder: Path) -> Backup:
    try:
        written = (folder / MANIFEST).read_bytes()[:MAX_MANIFEST_BYTES]
        about: Any = json.loads(written)
    except (OSError, ValueError):
        raise BadInput("it is no backup of memory-fusion: it has no readable backup.json") from None
    if not isinstance(about, dict) or about.get("format") != FORMAT:
        raise BadInput("it is no backup of memory-fusion: its backup.json is another's")
    if not isinstance(about.get("version"), int) or about["version"] > VERSION or about.get("schema", 0) > len(STEPS):
        raise BadInput(
            f"the backup was written by a newer version: restore it with memory-fusion {about.get('program')} or later"
        )
    try:
        backup = _MANIFEST.validate_json(written)
    except ValidationError as error:
        raise BadInput(f"its backup.json is damaged: {error.errors(include_url=False)[0]['msg'].lower()}") from None
    for path in [*(file.path for file in backup.files), *(journal.path for journal in backup.journals)]:
        inside = PurePosixPath(path)
        if inside.is_absolute() or ".." in inside.parts or "\\" in path:
            raise BadInput(f"its backup.json names a file outside of the backup: {path}")
    if not {journal.path for journal in backup.journals} <= {file.path for file in backup.files}:
        raise BadInput("its backup.json names a journal that is not among its files")
    return backup


def restore(source: Path, home: Path, *, force: bool = False, now: datetime | None = None) -> Restored:
    """Restore a verified backup into a new folder, or with ``force`` in the place of a home that is not served.

    The replaced home is kept next to it. Another home may be served meanwhile. Raises HomeLocked, BadInput, NotFound,
    StoreDamaged, StoreFull.
    """
    replaced = home.exists() and any(home.iterdir())
    if replaced and (holder := owner(home)) is not None:
        raise HomeLocked(explain_lock(home, holder, "Stop it first, or restore into a new folder"))
    if replaced and not force:
        raise BadInput(f"{home} is not empty: restore into a new folder, or add --force, which keeps {home} aside")
    parent = home.absolute().parent
    if not parent.is_dir():
        raise NotFound(f"there is no folder {parent}")
    with _unpacked(source) as folder:
        backup = verify_folder(folder)
        lost = _lost(backup, home)
        with (
            disk_errors(parent, "the backup"),
            _folder_in(parent, home.name) as work,
        ):
            new = Path(work, "home")
            settings = [file.path for file in backup.files if not file.path.endswith(_DATABASES)]
            _copy_files(folder, new, settings)
            harmless = reach_of(read_settings(new / "fusion.toml"), new, parent).harmless
            _copy_files(folder, new, [file.path for file in backup.files if file.path.endswith(_DATABASES)])
            kept_as = _exchange(home, new, now or datetime.now(UTC)) if replaced else None
            if not replaced:
                if home.exists():
                    home.rmdir()
                new.rename(home)
            sync(parent)
    if harmless:  # other settings are shown and allowed by `fusion allow`, as those of any home from elsewhere
        allow(home)
    return Restored(str(home), backup, lost, None if kept_as is None else str(kept_as))


def _copy_files(folder: Path, new: Path, paths: Sequence[str]) -> None:
    """Copy files of a backup, as private and durable ones."""
    new.mkdir(mode=0o700, exist_ok=True)
    for path in paths:
        copy = new / path
        _make_private(copy.parent)
        shutil.copyfile(folder / path, copy)
        copy.chmod(0o600)
        sync(copy)


def _exchange(home: Path, new: Path, now: datetime) -> Path:
    """Put a new home in the place of another, which is kept; returns its path."""
    aside = home.with_name(f"{home.name}.replaced-{now:%Y%m%dT%H%M%S}")
    home.rename(aside)
    try:
        new.rename(home)
    except OSError:
        aside.rename(home)
        raise
    return aside


def _lost(backup: Backup, home: Path) -> dict[str, str]:
    """By journal, what the watermarks in a home show that the backup does not have."""
    found = {}
    for journal in backup.journals:
        folder = (home / journal.path).parent
        names = [path.name for path in (folder / "backends").glob("*")] if folder.is_dir() else []
        if lost := store_watermarks.lost(journal.mark, store_watermarks.places_of(folder, dict.fromkeys(names))):
            found[journal.path] = lost
    return found


# Archives --------------------------------------------------------------------------------------------------------


def _is_archive(path: Path) -> bool:
    return path.name.endswith(_ARCHIVES)


def _pack(folder: Path, archive: Path, *, compressed: bool) -> None:
    """Write a private archive of a backup, the manifest first."""
    descriptor = os.open(archive, os.O_WRONLY | os.O_CREAT | os.O_EXCL, 0o600)
    with os.fdopen(descriptor, "wb") as file, tarfile.open(fileobj=file, mode="w:gz" if compressed else "w") as packed:
        for path in [folder / MANIFEST, *sorted(folder.rglob("*"))]:
            if path.is_file() and (path.name != MANIFEST or path == folder / MANIFEST):
                packed.add(path, path.relative_to(folder).as_posix(), recursive=False)


@contextmanager
def _unpacked(source: Path) -> Iterator[Path]:
    """The folder of a backup; an archive is unpacked: regular files inside it, nothing else."""
    if source.is_dir():
        yield source
        return
    if not source.is_file():
        raise NotFound(f"there is no backup {source}")
    with tempfile.TemporaryDirectory(prefix="memory-fusion-") as work, disk_errors(Path(work), "the backup"):
        try:
            with tarfile.open(source) as packed:
                for member in packed:
                    inside = PurePosixPath(member.name)
                    if not member.isfile() or inside.is_absolute() or ".." in inside.parts:
                        raise BadInput(f"{source} is no backup: it has {member.name!r}, which is no file inside it")
                    target = Path(work, member.name)
                    target.parent.mkdir(mode=0o700, parents=True, exist_ok=True)
                    content = packed.extractfile(member)
                    assert content is not None  # noqa: S101 — a regular file
                    with target.open("wb") as file:
                        shutil.copyfileobj(content, file)
        except (tarfile.TarError, EOFError) as error:
            raise BadInput(f"{source} is no backup, or is damaged ({error}): take another one") from None
        yield Path(work)


def _sha256(path: Path) -> str:
    with path.open("rb") as file:
        return hashlib.file_digest(file, "sha256").hexdigest()


def as_json(backup: Backup) -> dict[str, Any]:
    """The manifest without its files, for a command."""
    return {**{name: value for name, value in asdict(backup).items() if name != "files"}, "bytes": backup.bytes}
