"""The home at a glance: what is there, what is late, what it weighs."""

from __future__ import annotations

import json
from datetime import timedelta
from pathlib import Path
from typing import Any, Self

import pytest
from typer.testing import CliRunner

from adapters.inmemory import InMemory
from fusion.contract import Extracted, Opening, Scope
from fusion.doors.cli import app, render
from fusion.doors.cli.render import size
from fusion.doors.http.openapi import examples
from fusion.errors import InvalidAnswer
from fusion.gateway.gateway import Gateway
from fusion.home import sizes
from fusion.ingest.intake import NewMemory
from fusion.journal import Journal
from fusion.journal.outbox import Deliveries
from fusion.settings import Settings
from tests.doors.fakes import SMALL
from tests.ingest.helpers import START, event
from tests.patience import load

OMAR = Scope(user_id="omar")


class Picky(InMemory):
    """Takes nothing that has the word "poison"."""

    @classmethod
    async def open(cls, opening: Opening) -> Self:
        return await super().open(opening)

    async def remember(self, batch: list[Extracted]) -> list[tuple[str, ...]]:  # type: ignore[override]
        if any("poison" in extracted.event.text for extracted in batch):
            raise InvalidAnswer("cannot read this")
        return list(await super().remember(batch))


def small(home: Path) -> Settings:
    tables = {"good": {"adapter": "adapters.inmemory:InMemory"}, "picky": {"adapter": f"{__name__}:Picky"}}
    return load(home=home, backends_only=True, embedder={"adapter": ""}, backends=tables)


async def test_status_counts_memories_by_tenant(home: Path) -> None:
    """Two memories of one tenant, one of another; a receipt for each question; what stores hold is counted alike."""
    async with Gateway.open(small(home)) as gateway:
        await gateway.remember([NewMemory("the bookings moved"), NewMemory("the notes did not")], tenant="a")
        await gateway.remember([NewMemory("something else")], tenant="b")
        for tenant in ("a", "b"):
            await gateway.settle(tenant)
        await gateway.fuse("where are the bookings?", scope=Scope(tenant="a"))
        of_a, of_b = await gateway.status("a"), await gateway.status("b")
        assert (of_a["memories"]["current"], of_b["memories"]["current"]) == (2, 1)
        assert (of_a["receipts"]["kept"], of_b["receipts"]["kept"]) == (1, 0)
        assert [row["items"] for row in of_a["backends"]] == [2, 2]
        assert [row["items"] for row in of_b["backends"]] == [1, 1]
        assert of_a["embedder"] is None
        assert of_a["notes"] == list(gateway.notes)


@pytest.mark.feature(
    "`/v1/status` and `fusion status` show breakers, backlog with its reason, and sizes; each "
    "tenant's counts are its own"
)
async def test_status_shows_refusals_with_reason(home: Path) -> None:
    """One of two memories is poison to one of two backends: that one has a backlog of 1, refused once or more."""
    async with Gateway.open(small(home)) as gateway:
        await gateway.remember([NewMemory("good bread"), NewMemory("poison")])
        await gateway.settle()
        good, picky = (await gateway.status())["backends"]
        assert (good["backlog"], good["refused"], good["breaker"], good["wait_s"]) == (0, 0, "closed", 0.0)
        assert (picky["backlog"], picky["refused"], picky["failed"]) == (1, 1, 0)
        assert picky["reason"] == "InvalidAnswer: cannot read this"


async def test_status_shows_the_breakers_wait(home: Path) -> None:
    """Asked to wait for 40 s, it is open for at most that long, and for more than 30 s in a test that is quick."""
    async with Gateway.open(small(home)) as gateway:
        permit = gateway.guarded["good"].breaker.admit()
        assert permit is not None
        permit.rate_limited(40.0)
        row = (await gateway.status())["backends"][0]
        assert row["breaker"] == "open"
        assert 0 < row["wait_s"] <= 40.0


@pytest.mark.row("A023", "how often the gate asked the judge is counted, in `/v1/status` and `fusion status`")
async def test_status_counts_how_often_the_judge_was_asked(home: Path) -> None:
    """Without a judge each answer is "off"; the line for people names asked and all answers."""
    async with Gateway.open(small(home)) as gateway:
        await gateway.remember([NewMemory("good bread")])
        await gateway.settle()
        for _ in range(2):
            await gateway.fuse("bread?")
        assert (await gateway.status())["judged"] == {"off": 2}


@pytest.mark.parametrize(
    ("judged", "line"),
    [({}, "haiku"), ({"ok": 2, "timeout": 1, "not_needed": 6, "off": 4}, "haiku; asked for 3 of 9 answers")],
)
def test_status_shows_the_share_of_answers_that_were_judged(
    capsys: pytest.CaptureFixture[str], judged: dict[str, int], line: str
) -> None:
    render.status({**examples()["status"]["reply"], "judge": "haiku", "judged": judged}, Path("/home"), None)
    assert f"judge    {line}\n" in capsys.readouterr().out


async def test_journal_counts_refused_and_failed_deliveries(tmp_path: Path) -> None:
    """Of three deliveries one waits, one was refused once, one was given up: 2 wait, 1 of them refused, 1 failed."""
    journal = await Journal.open(tmp_path / "journal.sqlite")
    stored = await journal.append([event(f"note {n}", n) for n in range(3)])
    assert not isinstance(stored, str)
    await journal.outbox.register(["shelf"])
    first, second, _ = await journal.outbox.due("shelf", START, 10)
    await journal.outbox.postpone("shelf", first.seq, "InvalidAnswer: no", START + timedelta(hours=1))
    await journal.outbox.give_up("shelf", [second.seq], "failed", "InvalidAnswer: no")
    assert await journal.deliveries() == {"shelf": Deliveries(2, 1, 1, "InvalidAnswer: no")}
    assert await journal.counts("default") == {"current": 3, "superseded": 0, "forgotten": 0}
    await journal.forget([stored[0].ref], Scope(user_id="ana", audience="private"))
    await journal.append([event("another text", 1)])
    assert await journal.counts("default") == {"current": 2, "superseded": 1, "forgotten": 1}
    assert await journal.counts("nobody") == {"current": 0, "superseded": 0, "forgotten": 0}
    await journal.close()


def test_status_bytes_add_up(tmp_path: Path) -> None:
    """Each file counts once, in its part: a store with its write-ahead log, each backend's folder, all the rest."""
    assert sizes(tmp_path / "nowhere") == {}
    (tmp_path / "backends" / "cortex" / "index").mkdir(parents=True)
    for name, count in {
        "journal.sqlite": 100,
        "journal.sqlite-wal": 11,
        "receipts.sqlite": 7,
        "server.log": 3,
        "server.json": 2,
        "lock": 1,
        "backends/cortex/index/a": 50,
        "backends/cortex/b": 5,
    }.items():
        (tmp_path / name).write_bytes(b"x" * count)
    (tmp_path / "linked").symlink_to("/etc")
    found = sizes(tmp_path)
    assert found == {"journal": 111, "backends/cortex": 55, "receipts": 7, "log": 3, "other": 2 + 1}


def test_status_command_prints_the_state(home: Path) -> None:
    """Backends with their breakers, memories, receipts, sizes; with --json one line."""
    home.mkdir()
    (home / "fusion.toml").write_text(SMALL)
    told = CliRunner().invoke(app, ["status", "--home", str(home), "--direct"])
    assert told.exit_code == 0, told.stderr
    for words in ("memory", "closed", "kept for 7 days", "none: everything is found by its words only", "journal"):
        assert words in told.stdout
    [line] = CliRunner().invoke(app, ["status", "--home", str(home), "--direct", "--json"]).stdout.splitlines()
    assert json.loads(line)["requests"] == {"in_flight": 0, "queued": 0}


@pytest.mark.feature(
    "remarks of backends are listed below the tables of `fusion status` and `fusion backends`, one "
    "line each; a backend with a partial failure is degraded, not ready"
)
@pytest.mark.parametrize("columns", ["80", "200"])
def test_status_notes_are_below_the_table(
    monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str], columns: str
) -> None:
    """One line each, however wide the terminal is; a backend of which something fails is called degraded, not ready."""
    monkeypatch.setenv("COLUMNS", columns)
    note = (
        "vectors are not filled in: http://127.0.0.1:11434: connection refused: ollama serve; it is asked again in 2 s"
    )
    found: Any = {**examples()["status"]["reply"], "notes": []}
    row: Any = {**found["backends"][0], "name": "markdown", "status": "ready", "refused": 0, "failed": 0}
    row |= {"detail": "", "notes": [note], "degraded": True}
    render.status({**found, "backends": [row]}, Path("/home"), None)
    printed = capsys.readouterr().out.splitlines()
    assert f"markdown: {note}" in printed
    assert [line.split()[:2] for line in printed[2:3]] == [["markdown", "degraded"]]
    assert "held     1 forgotten memory is kept out of 1 document: notes/garden.md (m1z)" in printed
    assert "links    not read in the folders of [notes]: 2 linked .md; links are not followed" in printed
    render.backends({"backends": [row]})
    assert f"markdown: {note}" in capsys.readouterr().out.splitlines()


def test_sizes_are_rounded() -> None:
    """Two digits at least, and no more than it takes."""
    counts = (0, 999, 4_100, 18_432_000, 2_000_000_000_000)
    assert [size(n) for n in counts] == ["0 B", "999 B", "4.1 kB", "18 MB", "2.0 TB"]
