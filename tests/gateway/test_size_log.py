"""The bytes of a home's parts, day by day: what is kept, what is shown, and what a damaged file does."""

from __future__ import annotations

import json
from datetime import UTC, date, datetime, timedelta
from pathlib import Path
from types import SimpleNamespace

import pytest

from fusion.contract import Scope
from fusion.gateway.gateway import Gateway
from fusion.gateway.size_log import MAX_DAYS, MAX_PARTS, NAME, OTHERS, SizeLog
from fusion.home import tenant_folder
from fusion.ingest.intake import NewMemory
from tests.patience import load

DAY = date(2026, 3, 14)


def test_last_look_of_a_day_stays_for_the_last_days(tmp_path: Path) -> None:
    sizes = SizeLog(tmp_path)
    assert sizes.days() == {}
    for n in range(MAX_DAYS + 3):
        sizes.note(DAY + timedelta(days=n), {"journal": n})
    sizes.note(DAY + timedelta(days=MAX_DAYS + 2), {"journal": 7})
    days = SizeLog(tmp_path).days()
    assert len(days) == MAX_DAYS
    assert next(iter(days)) == "2026-03-17"
    assert days[(DAY + timedelta(days=MAX_DAYS + 2)).isoformat()] == {"journal": 7}
    assert (tmp_path / NAME).stat().st_mode & 0o077 == 0


def test_smallest_of_many_parts_share_one(tmp_path: Path) -> None:
    sizes = SizeLog(tmp_path)
    sizes.note(DAY, {f"backends/{n:03}": 1000 - n for n in range(MAX_PARTS + 10)})
    noted = sizes.days()[DAY.isoformat()]
    assert len(noted) == MAX_PARTS + 1
    assert sum(noted.values()) == sum(1000 - n for n in range(MAX_PARTS + 10))
    assert noted[OTHERS] == sum(1000 - n for n in range(MAX_PARTS, MAX_PARTS + 10))


@pytest.mark.parametrize(
    "text",
    [
        "",
        "{",
        "[]",
        "\x00",
        "[" * 9999,
        '{"2026-03-13": [], "soon": {"a": 1}, "2026-03-12": {"a": -1, "b": "1"}}',
    ],
)
def test_damaged_file_is_as_none_and_is_written_anew(tmp_path: Path, text: str) -> None:
    (tmp_path / NAME).write_text(text)
    sizes = SizeLog(tmp_path)
    assert not any(sizes.days().values())
    sizes.note(DAY, {"journal": 5})
    assert sizes.days()[DAY.isoformat()] == {"journal": 5}


def test_home_that_cannot_be_written_to_is_left_as_it_is(tmp_path: Path) -> None:
    SizeLog(tmp_path, "it is read-only").note(DAY, {"journal": 5})
    assert list(tmp_path.iterdir()) == []


@pytest.mark.feature("the bytes of each store day by day: `/v1/activity`, `fusion status --growth` and the inspector")
async def test_activity_has_the_bytes_of_each_day_for_a_whole_tenant(home: Path) -> None:
    """One tenant's bytes are of its own folder; a user has none, since the stores are of all users."""
    clock = SimpleNamespace(now=datetime(2026, 3, 14, 9, tzinfo=UTC))
    tables = {"good": {"adapter": "adapters.inmemory:InMemory"}}
    settings = load(home=home, backends_only=True, embedder={"adapter": ""}, backends=tables)
    async with Gateway.open(settings, clock=lambda: clock.now) as gateway:
        await gateway.remember([NewMemory("the mill is closed")], tenant="acme")
        await gateway.note_sizes()
        clock.now += timedelta(days=2)
        await gateway.note_sizes()
        days = (await gateway.activity(Scope(), 4))["days"]
        assert [day["day"] for day in days if "bytes" in day] == ["2026-03-14", "2026-03-16"]
        assert days[-1]["bytes"]["journal"] > 0
        assert days[-1]["bytes"]["tenants"] > 0
        assert not any("bytes" in day for day in (await gateway.activity(Scope(user_id="ana"), 4))["days"])
        assert gateway.tenants is not None
        async with gateway.tenants.at("acme") as of_acme:
            await of_acme.note_sizes()
        [of_acme_day] = (await gateway.activity(Scope("acme"), 1))["days"]
        assert of_acme_day["bytes"]["journal"] > 0
        assert "tenants" not in of_acme_day["bytes"]
    assert json.loads((tenant_folder(home, "acme") / NAME).read_text()).keys() <= {"2026-03-14", "2026-03-16"}


async def test_the_first_questions_come_before_counts_and_sizes(home: Path) -> None:
    """A start looks at neither while it answers: in a large home that takes as long as a question may."""
    settings = load(
        home=home,
        backends_only=True,
        embedder={"adapter": ""},
        backends={"cortex": {"adapter": "adapters.cortex:Cortex"}},
    )
    async with Gateway.open(settings) as gateway:
        await gateway.remember([NewMemory("the mill is closed")])
        await gateway.settle()
        for _ in range(5):
            assert "mill" in (await gateway.fuse("is the mill closed?")).block
        assert not (home / NAME).exists()
        assert not (home / "backends/cortex/count.json").exists()
