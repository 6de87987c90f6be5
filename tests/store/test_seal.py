"""Seals: a large file that was closed in order and not touched since is opened without reading all of it."""

from __future__ import annotations

import os
import shutil
import sqlite3
from collections.abc import Callable
from contextlib import closing
from pathlib import Path
from typing import ClassVar

import pytest

from fusion.store.seal import Seal
from fusion.store.sqlite import Connection, Database

SCHEMA = "create table note (text text not null);"


class Counted(Database):
    """Counts the checks of whole files."""

    checks: ClassVar[int] = 0

    def _require_sound(self, db: Connection) -> None:
        type(self).checks += 1
        super()._require_sound(db)


@pytest.fixture(autouse=True)
def _every_size(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(Seal, "least_bytes", 0)
    monkeypatch.setattr(Counted, "checks", 0)


async def noted(path: Path) -> int:
    """The notes, after one more."""
    database = await Counted.open(path, [SCHEMA])
    await database.write(lambda db: db.execute("insert into note values ('x')"))
    (count,) = await database.read(lambda db: tuple(db.execute("select count(*) from note").fetchone()))
    await database.close()
    return int(count)


def append(path: Path) -> None:
    with closing(sqlite3.connect(path)) as db, db:
        db.execute("insert into note values ('y')")


def touch(path: Path) -> None:
    os.utime(path, ns=(path.stat().st_mtime_ns, path.stat().st_mtime_ns))


def copy(path: Path) -> None:
    shutil.copy2(path, path.with_name("copy"))
    path.with_name("copy").replace(path)


def lose(path: Path) -> None:
    path.with_name(f"{path.name}.seal").unlink()


def garble(path: Path) -> None:
    path.with_name(f"{path.name}.seal").write_bytes(b"\xff[")


@pytest.mark.feature("a large store that was closed in order opens without a check of the whole file")
async def test_a_file_that_is_as_it_was_closed_is_not_checked(tmp_path: Path) -> None:
    path = tmp_path / "notes.sqlite"
    for number in (1, 2, 3):
        assert await noted(path) == number
    assert Counted.checks == 0


@pytest.mark.feature(
    "… one that was touched since, or whose process was killed, is checked", of="a large store that was closed in order"
)
@pytest.mark.parametrize("change", [append, touch, copy, lose, garble])
async def test_a_file_that_was_touched_is_checked(tmp_path: Path, change: Callable[[Path], None]) -> None:
    """Another program wrote to it, or changed its times only; it was copied; there is no seal, as after a kill."""
    path = tmp_path / "notes.sqlite"
    await noted(path)
    change(path)
    await noted(path)
    assert Counted.checks == 1


async def test_no_seal_is_left_while_a_file_is_open(tmp_path: Path) -> None:
    """So a killed process leaves none."""
    path = tmp_path / "notes.sqlite"
    await noted(path)
    database = await Counted.open(path, [SCHEMA])
    assert list(tmp_path.glob("*.seal*")) == []
    await database.close()
    assert [one.name for one in tmp_path.glob("*.seal*")] == ["notes.sqlite.seal"]


async def test_a_file_that_another_has_open_is_not_sealed(tmp_path: Path) -> None:
    """Its log is still there, and will be written into the file."""
    path = tmp_path / "notes.sqlite"
    await noted(path)
    with closing(sqlite3.connect(path)) as other:
        other.execute("select * from note").fetchall()
        await noted(path)
        assert list(tmp_path.glob("*.seal*")) == []


def test_a_small_file_gets_no_seal(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(Seal, "least_bytes", 100)
    (file := tmp_path / "file").write_bytes(bytes(99))
    Seal(tmp_path / "seal").put([file])
    assert not (tmp_path / "seal").exists()
    file.write_bytes(bytes(100))
    Seal(tmp_path / "seal").put([file])
    assert Seal(tmp_path / "seal").take([file])
    assert not Seal(tmp_path / "seal").take([file])


def test_a_seal_follows_no_link(tmp_path: Path) -> None:
    (file := tmp_path / "file").write_bytes(b"x")
    (tmp_path / "seal.new").symlink_to(outside := tmp_path / "outside")
    (tmp_path / "seal").symlink_to(outside)
    Seal(tmp_path / "seal").put([file])
    assert not outside.exists()
    assert not (tmp_path / "seal").is_symlink()
    assert Seal(tmp_path / "seal").take([file])
