"""Backups of a home that is served, and their restoring."""

from __future__ import annotations

import io
import json
import sqlite3
import stat
import tarfile
from contextlib import closing
from datetime import UTC, datetime
from pathlib import Path

import pytest

from fusion.contract import Scope
from fusion.errors import BadInput, HomeLocked, NotFound, StoreDamaged
from fusion.gateway.backup import MANIFEST, back_up, restore, verify
from fusion.gateway.gateway import Gateway
from fusion.gateway.shepherding import required_shepherd
from fusion.gateway.transfer import ImportOptions, export_closed_home
from fusion.ingest.intake import NewMemory
from fusion.settings import Settings, WorkspaceSettings
from fusion.upkeep.job import no_progress
from fusion.upkeep.shepherd import Shepherd
from tests.gateway.helpers import NADIA, remember, small

TEXT = "The bookings database moves to Postgres in March"
NOW = datetime(2026, 3, 4, tzinfo=UTC)
LATER = "The harbour office opens at eight on every weekday"


@pytest.fixture(params=["folder", "archive.tar", "archive.tar.gz"])
def target(request: pytest.FixtureRequest, tmp_path: Path) -> Path:
    return tmp_path / "backups" / str(request.param)


@pytest.fixture(autouse=True)
def _backups(tmp_path: Path) -> None:
    (tmp_path / "backups").mkdir()


async def texts(home: Path) -> list[str]:
    async with Gateway.open(small(home)) as gateway:
        await gateway.settle()
        page = await gateway.memories(Scope(audience="private"))
        answer = await gateway.search("one", "bookings harbour", NADIA)
        assert {hit.text for hit in answer.hits} == {memory["text"] for memory in page["memories"]}
        return [memory["text"] for memory in page["memories"]]


@pytest.mark.row("A163", "a backup of a home that is served is verified, and restored with every memory and tenant")
async def test_backup_while_serving_is_restored(tmp_path: Path, target: Path) -> None:
    home = tmp_path / "home"
    async with Gateway.open(small(home)) as gateway:
        refs = await remember(gateway, TEXT, "Nadia drinks green tea in the mornings")
        await gateway.forget(refs[1], NADIA)
        await gateway.remember([NewMemory("Acme keeps bees", scope=Scope("acme"))], tenant="acme")
        made = back_up(home, target)
        assert (made.memories, len(made.journals)) == (2, 2)
        assert verify(target) == made
        await remember(gateway, LATER)
        done = restore(target, tmp_path / "new")
        assert (done.kept_as, dict(done.lost)) == (None, {})
    assert await texts(tmp_path / "new") == [TEXT]
    async with Gateway.open(small(tmp_path / "new")) as restored:
        assert (await restored.memory(refs[0], NADIA))["text"] == TEXT
        found = await restored.memories(Scope("acme", audience="private"))
        assert [memory["text"] for memory in found["memories"]] == ["Acme keeps bees"]
        assert restored.health.damaged == {}


async def test_backup_is_private_and_has_no_stores_and_secrets(tmp_path: Path) -> None:
    home, target = tmp_path / "home", tmp_path / "backups" / "b"
    async with Gateway.open(small(home)) as gateway:
        await remember(gateway, TEXT)
    (home / "token").write_text("secret")
    back_up(home, target)
    databases = ["access.sqlite", "journal.sqlite", "receipts.sqlite"]
    assert sorted(path.name for path in target.iterdir()) == sorted([MANIFEST, *databases])
    assert stat.S_IMODE(target.stat().st_mode) == 0o700
    assert {stat.S_IMODE(path.stat().st_mode) for path in target.glob("*.sqlite")} == {0o600}
    archive = tmp_path / "backups" / "b.tar.gz"
    back_up(home, archive)
    assert stat.S_IMODE(archive.stat().st_mode) == 0o600


@pytest.mark.feature("a restore over a home keeps that home, says what the backup lacks, and how to add it")
async def test_restore_over_a_home_keeps_it_and_says_what_is_lost(tmp_path: Path, target: Path) -> None:
    home = tmp_path / "home"
    async with Gateway.open(small(home)) as gateway:
        (ref,) = await remember(gateway, TEXT)
    back_up(home, target)
    async with Gateway.open(small(home)) as gateway:
        await remember(gateway, LATER)
        await gateway.forget(ref, NADIA)
        with pytest.raises(HomeLocked, match="is in use"):
            restore(target, home, force=True)
    with pytest.raises(BadInput, match="--force"):
        restore(target, home)
    done = restore(target, home, force=True, now=datetime(2026, 1, 31, tzinfo=UTC))
    assert done.kept_as == str(tmp_path / "home.replaced-20260131T000000")
    assert "the home, one and two knew of 2" in done.lost["journal.sqlite"]
    assert await texts(home) == [TEXT]
    file = io.BytesIO()
    export_closed_home(Path(done.kept_as), file)
    async with Gateway.open(small(home)) as gateway:

        async def moved(*refs: str) -> None: ...

        report = await gateway.import_export("default", file, ImportOptions(), moved, no_progress)
        assert (report.tenants[0].new, report.tenants[0].forgotten, report.tenants[0].trust) == (1, 1, "kept")
    assert await texts(home) == [LATER]


def changed(folder: Path, **fields: object) -> None:
    manifest = json.loads((folder / MANIFEST).read_text())
    (folder / MANIFEST).write_text(json.dumps({**manifest, **fields}))


async def test_damaged_backup_is_found_and_not_restored(tmp_path: Path) -> None:
    home, target = tmp_path / "home", tmp_path / "backups" / "b"
    async with Gateway.open(small(home)) as gateway:
        await remember(gateway, TEXT)
    made = back_up(home, target)
    journal = target / "journal.sqlite"
    content = journal.read_bytes()
    journal.write_bytes(content[:5000] + b"x" + content[5001:])
    with pytest.raises(StoreDamaged, match=r"journal\.sqlite is not what was written"):
        restore(target, tmp_path / "new")
    journal.unlink()
    with pytest.raises(StoreDamaged, match="missing"):
        verify(target)
    journal.write_bytes(content)
    with closing(sqlite3.connect(journal)) as db:
        db.execute("delete from tombstone")
    assert verify(target) == made
    changed(target, journals=[{**json.loads((target / MANIFEST).read_text())["journals"][0], "events": 9}])
    with pytest.raises(StoreDamaged, match="manifest"):
        verify(target)
    assert not (tmp_path / "new").exists()


async def test_another_backup_is_refused_with_the_fix(tmp_path: Path) -> None:
    home, target = tmp_path / "home", tmp_path / "backups" / "b"
    async with Gateway.open(small(home)) as gateway:
        await remember(gateway, TEXT)
    back_up(home, target)
    with pytest.raises(BadInput, match="is there already"):
        back_up(home, target)
    changed(target, version=2, program="9.1")
    with pytest.raises(BadInput, match=r"memory-fusion 9\.1 or later"):
        verify(target)
    changed(target, version=1, files=[{"path": "../outside", "bytes": 1, "sha256": "0"}])
    with pytest.raises(BadInput, match="outside of the backup"):
        verify(target)
    changed(target, format="other")
    with pytest.raises(BadInput, match="another's"):
        verify(target)
    with pytest.raises(NotFound, match="no backup"):
        verify(tmp_path / "none")
    with pytest.raises(NotFound, match="no home"):
        back_up(tmp_path / "backups", tmp_path / "c")


@pytest.mark.parametrize("kind", ["link", "outside"])
def test_hostile_archive_is_refused(tmp_path: Path, kind: str) -> None:
    archive = tmp_path / "a.tar"
    with tarfile.open(archive, "w") as packed:
        member = tarfile.TarInfo("../evil" if kind == "outside" else "journal.sqlite")
        if kind == "link":
            member.type, member.linkname = tarfile.SYMTYPE, "/etc/passwd"
        packed.addfile(member)
    with pytest.raises(BadInput, match="no file inside it"):
        verify(archive)
    (tmp_path / "text.tar.gz").write_text("no archive")
    with pytest.raises(BadInput, match="damaged"):
        verify(tmp_path / "text.tar.gz")


BASELINE = "# Identity\n- I am Max.\n\n# Facts\n- The harbour is in Brest.\n- Ada sails.\n- Tea is at four.\n"


@pytest.mark.feature("a backup has the shepherd's baseline and incidents, and the copies by which changes are undone")
async def test_what_protects_the_workspace_is_restored(tmp_path: Path, target: Path) -> None:
    """In the restored home the next drift is brought back, the incident is known, and a change is undone."""
    folder = (tmp_path / "agent").resolve()
    folder.mkdir()
    memory = folder / "MEMORY.md"
    memory.write_text(BASELINE)
    chosen = {"write": True, "root_folder": str(folder)}
    async with Gateway.open(with_workspace(tmp_path / "home", chosen)) as gateway:
        shepherd = required_shepherd(gateway.settings)
        shepherd.promote(NOW, shepherd.workspace.read("MEMORY.md").hash)
        shepherd.workspace.write(shepherd.workspace.read("notes.md"), b"new", by="extract", now=NOW, run="j90")
        twisted_by_a_job(shepherd)
        assert (await gateway.jobs().run("shepherd")).status == "done"
        back_up(tmp_path / "home", target)
        verify(target)
    restore(target, tmp_path / "new")
    for file in (tmp_path / "new").rglob("*"):
        assert stat.S_IMODE(file.stat().st_mode) == (0o700 if file.is_dir() else 0o600)
    async with Gateway.open(with_workspace(tmp_path / "new", chosen)) as gateway:
        restored = required_shepherd(gateway.settings)
        assert restored.baseline() == shepherd.baseline()
        (incident,) = restored.incidents()
        assert incident.outcome == "restored"
        assert Path(incident.archived).parent == tmp_path / "new" / "shepherd" / "archive"
        assert Path(incident.archived).read_text() == TWISTED
        twisted_by_a_job(restored)
        assert (await gateway.jobs().run("shepherd")).receipt["result"]["incident"].startswith("MEMORY.md was restored")
        assert memory.read_text() == BASELINE
        assert (await gateway.undo_run("j90", NADIA))["files"] == ["w1 notes.md"]
        assert not (folder / "notes.md").exists()


TWISTED = BASELINE.replace("I am Max", "I am Eva")


def twisted_by_a_job(shepherd: Shepherd) -> None:
    shepherd.workspace.write(shepherd.workspace.read("MEMORY.md"), TWISTED.encode(), by="distill", now=NOW, max_loss=1)


def with_workspace(home: Path, chosen: dict[str, object]) -> Settings:
    return small(home).model_copy(update={"workspace": WorkspaceSettings.model_validate(chosen)})
