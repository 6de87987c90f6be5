"""The folder of an exported graph: written as a whole, and never over anything else."""

from __future__ import annotations

import os
from collections.abc import Mapping
from pathlib import Path
from typing import TypedDict

from fusion.errors import BadInput

MARK = ".memory-fusion-graph"
"""the file that names the pages of the last export, one a line"""


class Written(TypedDict):
    """What an export wrote and deleted, by file name."""

    folder: str
    written: list[str]
    deleted: list[str]
    dry_run: bool


def write_pages(folder: Path, pages: Mapping[str, str], *, dry_run: bool = False) -> Written:
    """Write pages to a folder that is new, empty or of an earlier export, and delete that one's other pages.

    Raises BadInput for any other folder, for a link, and for a page that somebody else put there.
    """
    own = _pages_of_before(folder)
    foreign = sorted(set(_names(folder)) - {*own, MARK})
    if foreign:
        raise BadInput(f"{folder} has other files, {foreign[0]!r} for example: name an empty or a new folder")
    deleted = sorted(set(own) - set(pages))
    if not dry_run:
        folder.mkdir(parents=True, exist_ok=True)
        _write(folder / MARK, "\n".join([*sorted({*own, *pages}), ""]))
        for name, text in pages.items():
            _write(folder / name, text)
        for name in deleted:
            (folder / name).unlink(missing_ok=True)
        _write(folder / MARK, "\n".join([*sorted(pages), ""]))
    return {"folder": str(folder), "written": sorted(pages), "deleted": deleted, "dry_run": dry_run}


def _pages_of_before(folder: Path) -> list[str]:
    """The pages of the last export to a folder. Raises BadInput for a link."""
    mark = folder / MARK
    if folder.is_symlink() or mark.is_symlink():
        raise BadInput(f"{folder} is a link, or has one: name the folder itself")
    if not mark.is_file():
        return []
    return [name for name in mark.read_text(encoding="utf-8").splitlines() if name.endswith(".md") and "/" not in name]


def _names(folder: Path) -> list[str]:
    return [one.name for one in folder.iterdir()] if folder.is_dir() else []


def _write(file: Path, text: str) -> None:
    """Write a file through no link, readable by its owner alone."""
    flags = os.O_WRONLY | os.O_CREAT | os.O_TRUNC | os.O_NOFOLLOW
    with os.fdopen(os.open(file, flags, 0o600), "w", encoding="utf-8") as stream:
        stream.write(text)
