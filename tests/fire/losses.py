"""Accidents that can happen to a home while a server has it open, and damages of a journal that nobody has open."""

from __future__ import annotations

import shutil
from collections.abc import Callable
from dataclasses import dataclass
from pathlib import Path


@dataclass(frozen=True, slots=True)
class Accident:
    """Something that takes the home or its journal away; ``named`` is in the message of the server that notices."""

    happen: Callable[[Path], object]
    named: str


def _replace_home(home: Path) -> None:
    home.rename(home.with_name("elsewhere"))
    home.mkdir(mode=0o700)


def _replace_home_by_its_copy(home: Path) -> None:
    shutil.copytree(home, home.with_name("copy"))
    home.rename(home.with_name("elsewhere"))
    home.with_name("copy").rename(home)


def _empty(home: Path) -> None:
    """What ``git clean -fdx`` does within a folder that it keeps."""
    for path in home.iterdir():
        if path.is_dir():
            shutil.rmtree(path)
        else:
            path.unlink()


def _replace_journal(home: Path) -> None:
    file = home / "journal.sqlite"
    shutil.copy(file, home / "backup")
    (home / "backup").replace(file)


def _cut(path: Path, size: int = 0) -> None:
    with path.open("r+b") as file:
        file.truncate(size)


def _overwrite_journal(home: Path) -> None:
    """An empty database, written over the journal's bytes."""
    file = home / "journal.sqlite"
    size = file.stat().st_size
    with file.open("r+b") as there:
        there.write(bytes(size))


def _cut_log_in_the_middle(home: Path) -> None:
    log = home / "journal.sqlite-wal"
    _cut(log, log.stat().st_size // 2)


ACCIDENTS = {
    "home deleted": Accident(shutil.rmtree, "was deleted or moved away"),
    "home moved": Accident(lambda home: home.rename(home.with_name("elsewhere")), "was deleted or moved away"),
    "home replaced": Accident(_replace_home, "was replaced by another folder"),
    "home replaced by its copy": Accident(_replace_home_by_its_copy, "was replaced by another folder"),
    "home emptied": Accident(_empty, "journal.sqlite was deleted"),
    "journal deleted": Accident(lambda home: (home / "journal.sqlite").unlink(), "journal.sqlite was deleted"),
    "journal replaced": Accident(_replace_journal, "journal.sqlite was replaced by another file"),
    "journal truncated": Accident(lambda home: _cut(home / "journal.sqlite"), "was written to by another process"),
    "journal overwritten": Accident(_overwrite_journal, "was written to by another process"),
    "log deleted": Accident(lambda home: (home / "journal.sqlite-wal").unlink(), "journal.sqlite-wal was deleted"),
    "log truncated": Accident(lambda home: _cut(home / "journal.sqlite-wal"), "was written to by another process"),
    "log cut": Accident(_cut_log_in_the_middle, "was written to by another process"),
    "shared memory deleted": Accident(
        lambda home: (home / "journal.sqlite-shm").unlink(), "journal.sqlite-shm was deleted"
    ),
}
