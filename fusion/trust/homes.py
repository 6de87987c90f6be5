"""Checks whether a home may be opened (`require`), and records which may (`allow`, `make_home`, `rerecord`, `revoke`).

A hook checks before each prompt, so settings are parsed, and the parser imported, only when a home is recorded.
"""

from __future__ import annotations

import os
import shlex
import stat
from collections.abc import Iterable, Iterator, Mapping
from contextlib import contextmanager
from hashlib import sha256
from pathlib import Path
from typing import TYPE_CHECKING

from fusion.errors import HomeNotAllowed, SettingsError
from fusion.store.private_files import NAME, xdg_folder
from fusion.trust import records
from fusion.trust.fingerprint import (
    ABSENT,
    FILE,
    RECIPES,
    SECRETS,
    References,
    hash_files,
    printable,
    read_settings,
    settings_hash,
)
from fusion.trust.records import Record, Snapshot

if TYPE_CHECKING:
    from fusion.trust.reach import Reach

_OF_RECIPES = (".toml", ".txt", ".calibration")
"""how the names of files in a folder of recipes end"""


def require(home: Path, *, named: bool = False, config: Path | None = None) -> Path:
    """Returns the home without links in its path, if it may be opened. Writes nothing into it.

    ``named`` says that the user named this home (an option, FUSION_HOME, an argument); otherwise it was found in the
    current folder or above. ``config`` is a settings file that the user named instead of the home's own; outside the
    home it is trusted, as the file of ``make -f`` is.
    Raises HomeNotAllowed with the reason and the fix, also for an empty folder that the user did not name: anybody may
    have put it there to collect memories.
    """
    folder, why = _examined(home, named=named, config=config)
    if not named and not why and _is_new_and_empty(folder):
        why = "it is empty, and you have not said that memories belong there"
    return _refuse_if(folder, why, config)


def _refuse_if(folder: Path, why: str, config: Path | None = None) -> Path:
    if why:
        raise HomeNotAllowed(f"The home {printable(folder)} is not opened: {why}. {_fix(folder, config)}")
    return folder


def why_refused(home: Path, *, named: bool = False, config: Path | None = None) -> str:
    """Why a home may not be opened; empty where it may."""
    try:
        require(home, named=named, config=config)
    except HomeNotAllowed as error:
        return str(error)
    return ""


def allow(
    home: Path,
    *,
    config: Path | None = None,
    variables: Iterable[str] = (),
    files: Iterable[str] = (),
    seen: Snapshot | None = None,
) -> Record:
    """Records a home, with the variables and key files that are allowed by name. Makes it if it is missing.

    ``config`` is its settings file where that is another file of the home. ``seen`` is the snapshot that the user was
    shown; without it, the file as it is now. Secrets that came with the home are removed: their author knows them.
    """
    folder = resolved(home)
    folder.mkdir(mode=0o700, parents=True, exist_ok=True)
    before = records.read(folder)
    about = folder.stat()
    record = Record.of(folder, about, "allowed")
    if before is not None and before.is_of(about):
        record = record._replace(seen=before.seen, variables=before.variables, files=before.files)
    else:
        for name in SECRETS:
            (folder / name).unlink(missing_ok=True)
    record = record._replace(
        variables=tuple(sorted({*record.variables, *variables})),
        files=tuple(sorted({*record.files, *files})),
    )
    file = settings_file(folder, config)
    return _write(record, {file: seen or take_snapshot(folder, file, read_settings(file))})


def settings_file(folder: Path, config: Path | None) -> Path:
    """The settings file of a home: ``config`` where that is in the home, else ``fusion.toml``."""
    file = folder / FILE if config is None else resolved(config)
    return file if file.is_relative_to(folder) else folder / FILE


def take_snapshot(folder: Path, file: Path, content: bytes | None) -> Snapshot:
    """A snapshot of a settings file with this content, and of the other deciding files as they are now."""
    from fusion.trust.reach import external_key_files, external_variables, reach_of

    reach = reach_of(content, file.parent, file.parent)
    return Snapshot(
        ABSENT if content is None else sha256(content).hexdigest(),
        reach.references.recipes_folder,
        reach.references.modules,
        hash_files(folder, reach.references),
        tuple(external_variables(reach)),
        tuple(external_key_files(reach, folder)),
    )


def unapproved_names(home: Path, reach: Reach) -> tuple[list[str], list[str]]:
    """The environment variables and key files that settings name, and that still have to be allowed by name.

    None in the user's own homes, whose settings nobody else wrote.
    """
    from fusion.trust.reach import external_key_files, external_variables

    folder = resolved(home)
    if _is_own(folder):
        return [], []
    record = _record(folder, folder.stat()) if folder.is_dir() else None
    variables, files = (record.variables, record.files) if record is not None else ((), ())
    return (
        [name for name in external_variables(reach) if name not in variables],
        [file for file in external_key_files(reach, folder) if file not in files],
    )


def make_home(home: Path) -> Path:
    """Makes a home, and records one that is new; an allowed one stays as it is. Raises HomeNotAllowed."""
    folder = _refuse_if(*_examined(home, named=False, config=None))
    folder.mkdir(mode=0o700, parents=True, exist_ok=True)
    if not _is_own(folder) and _is_empty(folder):
        about = folder.stat()
        if _record(folder, about) is None:
            _write_with_own(Record.of(folder, about, "made"), folder)
    return folder


@contextmanager
def changing(home: Path) -> Iterator[None]:
    """Keeps a home allowed while one of the gateway's commands writes recipes into it, which may make the home."""
    folder = resolved(home)
    is_new = not folder.exists()
    try:
        yield
    finally:
        if is_new and folder.is_dir() and not _is_own(folder):
            _write_with_own(Record.of(folder, folder.stat(), "made"), folder)
        elif folder.is_dir():
            rerecord(folder)


def rerecord(home: Path) -> None:
    """Records an allowed home again after one of the gateway's commands changed its settings or recipes."""
    folder = resolved(home)
    record = records.read(folder)
    if record is not None and record.is_of(folder.stat()):
        _write_with_own(record, folder)


def revoke(home: Path) -> bool:
    """Removes the record of a home; False where it had none."""
    return records.remove(resolved(home))


def data_home() -> Path:
    """The home in the user's own data folder."""
    return xdg_folder("XDG_DATA_HOME", ".local/share") / NAME


def checkout_home() -> Path:
    """The home of the checkout that this code runs from."""
    return Path(__file__).resolve().parents[2] / ".fusion"


def resolved(home: Path) -> Path:
    """A home's path without links. Raises HomeNotAllowed for a loop of links."""
    try:
        return home.expanduser().resolve()
    except (OSError, RuntimeError) as error:
        raise HomeNotAllowed(f"The home {printable(home)} cannot be found: {error}") from None


# Checks ----------------------------------------------------------------------------------------------------------


def _examined(home: Path, *, named: bool, config: Path | None) -> tuple[Path, str]:
    """The resolved folder, and why it may not be opened (empty: it may). Raises HomeNotAllowed for another user's."""
    folder = resolved(home)
    if not named and home.is_symlink():
        return folder, f"{printable(home)} is a link, which makes another folder's memories those of this one"
    try:
        about = folder.stat()
    except (FileNotFoundError, NotADirectoryError):
        return folder, _why_not_named(folder, config)
    except OSError as error:
        return folder, error.strerror or str(error)
    if not stat.S_ISDIR(about.st_mode):
        raise SettingsError(f"The home {printable(folder)} is not a folder. Name another with --home or FUSION_HOME")
    if about.st_uid != os.geteuid():
        raise HomeNotAllowed(
            f"The home {printable(folder)} is not opened: it belongs to user {about.st_uid}. "
            "Name one of your own with --home or FUSION_HOME"
        )
    if (folder / FILE).is_symlink():
        return folder, f"{FILE} is not read: it is a link. Put the file itself there, or name it by --config"
    if why := _why_not_named(folder, config):
        return folder, why
    if _is_own(folder):
        return folder, ""
    record = _record(folder, about)
    if record is None and not _is_empty(folder):
        record = _record(folder, about)  # another process may just have made it and written into it
        if record is None:
            if not (named and _is_as_good_as_new(folder)):
                return folder, _why_not_known(folder)
            record = _write_with_own(Record.of(folder, about, "named"), folder)
    if record is None:
        return folder, ""
    if config is not None and not resolved(config).is_relative_to(folder):
        return folder, _why_not_recipes(record, folder)
    return folder, _why_not_settings(record, folder, settings_file(folder, config))


def _record(folder: Path, about: os.stat_result) -> Record | None:
    """The record of a folder, unless it is of another folder at the same path."""
    record = records.read(folder)
    return record if record is not None and record.is_of(about) else None


def _is_own(folder: Path) -> bool:
    """Whether a home is that of the user's own data folder or of the running checkout."""
    return folder in (resolved(data_home()), checkout_home())


def _is_empty(folder: Path) -> bool:
    with os.scandir(folder) as entries:
        return next(entries, None) is None


def _is_new_and_empty(folder: Path) -> bool:
    """Whether a folder exists, is empty, and is not recorded."""
    return folder.is_dir() and not _is_own(folder) and _is_empty(folder) and _record(folder, folder.stat()) is None


def _is_as_good_as_new(folder: Path) -> bool:
    """Whether a folder holds only harmless settings and recipes."""
    with os.scandir(folder) as entries:
        for number, entry in enumerate(entries):
            if number > 1 or entry.name not in (FILE, RECIPES):
                return False
            if not (entry.is_file(follow_symlinks=False) if entry.name == FILE else _only_recipes(Path(entry.path))):
                return False
    from fusion.trust.reach import reach_of

    return reach_of(read_settings(folder / FILE), folder, folder.parent).harmless


def _only_recipes(folder: Path) -> bool:
    if folder.is_symlink() or not folder.is_dir():
        return False
    with os.scandir(folder) as entries:
        return all(one.is_file(follow_symlinks=False) and one.name.endswith(_OF_RECIPES) for one in entries)


def _why_not_named(folder: Path, config: Path | None) -> str:
    """Why a settings file outside the home, named by the user, may be another user's; empty where it is safe.

    A group with the same number as the file's owner is that user's private group.
    """
    file = folder if config is None else resolved(config)
    if file.is_relative_to(folder) or not file.exists():
        return ""  # one that is not there is an error of its own
    about = file.stat()
    if not stat.S_ISREG(about.st_mode):
        return f"{printable(file)} is not a regular file"
    if about.st_uid not in (os.geteuid(), 0):
        return f"{printable(file)} belongs to user {about.st_uid}, and settings decide about your memories"
    if about.st_mode & stat.S_IWOTH or (about.st_mode & stat.S_IWGRP and about.st_gid != about.st_uid):
        return f"other users can write {printable(file)}, and settings decide about your memories"
    return ""


def _why_not_recipes(record: Record, folder: Path) -> str:
    """Why the recipes of a home may not take effect. They are checked also where the settings are another file."""
    seen = record.seen.get(str(folder / FILE), Snapshot(ABSENT))
    inside = {name: digest for name, digest in seen.files.items() if name.startswith(f"{RECIPES}/")}
    return _first_change(inside, hash_files(folder, References()))


def _why_not_settings(record: Record, folder: Path, file: Path) -> str:
    """Why the settings of a recorded home may not take effect: they changed, or name keys that are not allowed."""
    seen = record.seen.get(str(file))
    now = settings_hash(file)
    if seen is None:
        return f"{_short(folder, file)} is new" if now != ABSENT else ""
    if now != seen.settings:
        change = "is gone" if now == ABSENT else "is new" if seen.settings == ABSENT else "has changed"
        return f"{_short(folder, file)} {change}"
    changed = _first_change(seen.files, hash_files(folder, seen.references))
    return changed or _why_not_keys(record, seen, folder, file)


def _first_change(before: Mapping[str, str], now: Mapping[str, str]) -> str:
    """The first file that differs from its record; empty where none does."""
    for name in sorted({*now, *before}):
        if now.get(name) != before.get(name):
            change = "is gone" if name not in now else "has changed" if name in before else "is new"
            return f"{printable(name)} {change}"
    return ""


def _why_not_keys(record: Record, seen: Snapshot, folder: Path, file: Path) -> str:
    """Why settings may not use the keys that they name: a file in a home must not choose which secrets are sent."""
    variables = [f"--variable {shlex.quote(printable(one))}" for one in seen.variables if one not in record.variables]
    files = [f"--file {shlex.quote(printable(one))}" for one in seen.key_files if one not in record.files]
    if not variables and not files:
        return ""
    what = "environment variables that are not the gateway's own" if variables else "a key file that is not in the home"
    return f"{_short(folder, file)} names {what}, which you allow by name ({' '.join([*variables, *files])})"


def _why_not_known(folder: Path) -> str:
    if records.read(folder) is not None:
        return "another folder is in the place of the one that you allowed"
    return "you have not allowed it, and a home can load code, and send memories and keys elsewhere"


def _fix(folder: Path, config: Path | None) -> str:
    """The fix: allow the home, or protect a settings file that is outside of it."""
    if config is not None and _why_not_named(folder, config):
        return f"Name one that is yours alone, or make it so: chmod go-w {shlex.quote(printable(resolved(config)))}"
    inside = config is not None and resolved(config).is_relative_to(folder)
    more = f" --config {shlex.quote(printable(config))}" if config is not None and inside else ""
    return f"To see what is in it, and allow it: fusion allow --home {shlex.quote(printable(folder))}{more}"


def _short(folder: Path, file: Path) -> str:
    return printable(file.name if file.parent == folder else file)


def _write_with_own(record: Record, folder: Path) -> Record:
    """Writes a record with the home's own settings file as it is now."""
    return _write(record, {folder / FILE: take_snapshot(folder, folder / FILE, read_settings(folder / FILE))})


def _write(record: Record, seen: Mapping[Path, Snapshot]) -> Record:
    record = record._replace(seen={**record.seen, **{str(file): one for file, one in seen.items()}})
    records.write(record)
    return record
