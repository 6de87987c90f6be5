"""The states of backends over time: what is kept over a restart, for which tenant, and what a damaged file does."""

from __future__ import annotations

import json
from datetime import UTC, datetime, timedelta
from pathlib import Path

import pytest

from fusion.contract import Scope
from fusion.gateway.backend_log import MAX_BACKENDS, MAX_MOMENTS, NAME, BackendLog
from fusion.gateway.gateway import Gateway
from fusion.home import tenant_folder
from fusion.ingest.intake import NewMemory
from fusion.recall.engine import FuseRequest
from fusion.settings import Settings
from tests.patience import load

NOW = datetime(2026, 3, 14, tzinfo=UTC)


def test_log_of_backends_keeps_changes_alone_and_few(tmp_path: Path) -> None:
    log = BackendLog(tmp_path)
    for n in range(3):
        log.note(NOW + timedelta(seconds=n), {"memory": ("ready", 0)})
    assert [one.at for one in log.of("memory")] == [NOW]
    for n in range(MAX_MOMENTS + 5):
        log.note(NOW + timedelta(minutes=n), {"memory": ("ready", n)})
    assert len(log.of("memory")) == MAX_MOMENTS
    assert log.of("memory")[-1].backlog == MAX_MOMENTS + 4
    assert log.of("nobody") == ()


async def test_log_is_read_again_and_continued(tmp_path: Path) -> None:
    log = BackendLog(tmp_path)
    log.note(NOW, {"memory": ("ready", 0), "far": ("open", 3)})
    await log.save()
    assert (tmp_path / NAME).stat().st_mode & 0o077 == 0
    again = BackendLog(tmp_path)
    assert (again.of("memory"), again.of("far")) == (log.of("memory"), log.of("far"))
    again.note(NOW + timedelta(days=1), {"memory": ("ready", 0), "far": ("ready", 3)})  # only one has changed
    await again.save()
    kept = BackendLog(tmp_path)
    assert [one.status for one in kept.of("far")] == ["open", "ready"]
    assert [one.at for one in kept.of("memory")] == [NOW]


async def test_file_of_the_log_is_bounded(tmp_path: Path) -> None:
    log = BackendLog(tmp_path)
    for n in range(MAX_BACKENDS + 5):
        log.note(NOW + timedelta(hours=n), {f"backend{n}": ("ready", 0)})
    for n in range(MAX_MOMENTS + 5):
        log.note(NOW + timedelta(days=9, minutes=n), {"busy": ("open", n)})
    await log.save()
    again = BackendLog(tmp_path)
    assert len(json.loads((tmp_path / NAME).read_bytes())) == MAX_BACKENDS
    assert len(again.of("busy")) == MAX_MOMENTS
    assert not again.of("backend0")
    assert again.of(f"backend{MAX_BACKENDS + 4}")


SOUND = '["2026-03-14T00:00:00+00:00", "open", 7]'


@pytest.mark.parametrize(
    ("text", "kept"),
    [
        ("", 0),
        ("{", 0),
        ("[]", 0),
        ("\x00", 0),
        ("[" * 9999, 0),
        ('{"far": 1}', 0),
        ('{"far": [["soon", "open", 7]]}', 0),
        ('{"far": [["2026-03-14T00:00:00", "open", 7]]}', 0),
        ('{"far": [["2026-03-14T00:00:00+00:00", "<b>", 7], ["2026-03-14T00:00:00+00:00", "open", -1]]}', 0),
        (f'{{"far": [null, [], {{}}, {SOUND}], "near": "x"}}', 1),
    ],
)
async def test_damaged_file_keeps_nobody_from_noting(tmp_path: Path, text: str, kept: int) -> None:
    (tmp_path / NAME).write_text(text)
    log = BackendLog(tmp_path)
    assert len(log.of("far")) == kept
    log.note(NOW, {"far": ("ready", 0)})
    await log.save()
    assert [one.status for one in BackendLog(tmp_path).of("far")][-1] == "ready"


async def test_home_that_cannot_be_written_to_has_no_file(tmp_path: Path) -> None:
    log = BackendLog(tmp_path, "it is read-only")
    log.note(NOW, {"far": ("ready", 0)})
    await log.save()
    assert list(tmp_path.iterdir()) == []


async def test_what_could_not_be_written_is_written_later(tmp_path: Path) -> None:
    log = BackendLog(tmp_path / "gone")
    log.note(NOW, {"far": ("ready", 0)})
    with pytest.raises(OSError, match="gone"):
        await log.save()
    (tmp_path / "gone").mkdir()
    await log.save()
    assert BackendLog(tmp_path / "gone").of("far")


def settings_of(home: Path) -> Settings:
    tables = {"memory": {"adapter": "adapters.inmemory:InMemory"}}
    return load(home=home, backends_only=True, embedder={"adapter": ""}, backends=tables)


async def states(gateway: Gateway, tenant: str) -> list[tuple[str, int]]:
    """The states of the backend that the history shows, once it was asked something."""
    await gateway.fuse(FuseRequest("is the mill closed?", Scope(tenant)))
    [worth] = (await gateway.backend_history(Scope(tenant), 10))["backends"]
    return [(one["status"], one["backlog"]) for one in worth["moments"]]


@pytest.mark.feature("what the breakers and backlogs of a tenant's backends were is kept over a restart")
async def test_history_of_a_tenant_is_kept_over_a_restart(home: Path) -> None:
    async with Gateway.open(settings_of(home)) as gateway:
        await gateway.remember([NewMemory("the mill is closed")], tenant="acme")
        await gateway.settle()
        await gateway.note_backends()
        gateway.backend_log.note(datetime.now(UTC), {"memory": ("open", 7)})
        assert gateway.tenants is not None
        async with gateway.tenants.at("acme") as of_acme:
            await of_acme.note_backends()
            of_acme.backend_log.note(datetime.now(UTC), {"memory": ("half_open", 2)})
    async with Gateway.open(settings_of(home)) as gateway:
        assert ("open", 7) in await states(gateway, "default")
        assert ("half_open", 2) in (of_acme_now := await states(gateway, "acme"))
        assert ("open", 7) not in of_acme_now
    for folder in (home, tenant_folder(home, "acme")):
        assert "mill" not in (folder / NAME).read_text()


async def test_full_disk_lets_the_home_close(home: Path) -> None:
    async with Gateway.open(settings_of(home)) as gateway:
        gateway.backend_log.note(datetime.now(UTC), {"memory": ("open", 7)})
        (home / NAME).mkdir()  # nothing replaces a folder
    assert (home / NAME).is_dir()
    async with Gateway.open(settings_of(home)) as gateway:
        assert ("open", 7) not in await states(gateway, "default")


async def test_home_that_took_the_place_of_another_gets_nothing(home: Path) -> None:
    async with Gateway.open(settings_of(home)) as gateway:
        gateway.backend_log.note(datetime.now(UTC), {"memory": ("open", 7)})
        home.rename(home.parent / "elsewhere")
        home.mkdir(mode=0o700)
    assert not (home / NAME).exists()
