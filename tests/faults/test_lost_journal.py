"""A journal that lost what its stores still hold: it is named, nothing is deleted, and it is made anew from them."""

from __future__ import annotations

import asyncio
import json
import shutil
import sqlite3
from contextlib import closing
from pathlib import Path

import pytest
from typer.testing import CliRunner

from fusion.contract import Scope
from fusion.doors.cli import app
from fusion.doors.cli.doctor import examine
from fusion.errors import StoreDamaged
from fusion.gateway.episodes import EpisodeQuery, EpisodeSearch
from fusion.gateway.gateway import Gateway
from fusion.gateway.repair import repair
from fusion.home import HomeLock
from fusion.ingest.intake import NewMemory
from fusion.ingest.proposals import Proposed
from fusion.journal.proposals import Decider
from fusion.lib.observation import NewObservation
from fusion.settings import Settings
from tests.faults.home import door, settings_of
from tests.faults.test_stores import QUESTION, body, ruin
from tests.fire.losses import DAMAGES

NADIA = Scope(user_id="nadia", audience="private")
BACKENDS = {
    "cortex": "adapters.cortex:Cortex",
    "triples": "adapters.triples:Triples",
    "mem0": "adapters.mem0:Mem0",
    "markdown": "adapters.markdown:Markdown",
}

CORTEX_ONLY = """
backends_only = true
[embedder]
adapter = ""
[backends.cortex]
adapter = "adapters.cortex:Cortex"
"""

UNREADABLE = (
    "truncated to half",
    "truncated to a tenth",
    "pages zeroed",
    "first pages zeroed, log deleted",
    "rubbish",
)
"""damages after which the journal cannot even say what was forgotten, so that nothing is shown of it"""


def text(n: int) -> str:
    return f"Harbour {n} is in Lyon, as {n} people say"


async def filled(home: Path, older: Path, **backends: str) -> tuple[Settings, set[str]]:
    """A home whose server was killed, a copy of its journal from before the second half; what it kept."""
    settings = settings_of(home, **(backends or BACKENDS))
    crashed = home.with_name("crashed")
    async with Gateway.open(settings) as gateway:
        for half in (0, 1):
            kept = await gateway.remember(
                [NewMemory(text(n), scope=NADIA, speaker="Ola", kind="note") for n in range(30 * half, 30 * half + 30)]
            )
            await gateway.settle()
            if half == 0:
                await gateway.forget(kept[3].ref, NADIA)
                await gateway.journal._database.checkpoint()
                older.mkdir()
                shutil.copy(home / "journal.sqlite", older)
        shutil.copytree(home, crashed)  # with the log, as kill -9 leaves it
    for path in home.iterdir():  # the folder stays the one that its owner allowed
        shutil.rmtree(path) if path.is_dir() else path.unlink()
    for path in crashed.iterdir():
        path.rename(home / path.name)
    return settings, {text(n) for n in range(60) if n != 3}


def current(home: Path) -> set[str]:
    with closing(sqlite3.connect(home / "journal.sqlite")) as db:
        return {said for (said,) in db.execute("select text from event where forgotten = 0 and superseded_by is null")}


@pytest.mark.feature(
    "a journal that lost what its stores hold is reported, degraded and read-only; `fusion repair` "
    "rebuilds it from them, with a preview"
)
@pytest.mark.parametrize("name", DAMAGES)
async def test_lost_memories_of_a_journal_are_named_and_recovered(home: Path, tmp_path: Path, name: str) -> None:
    """Degraded with the reason, nothing is written, the stores stay as they are; then every memory is back, once, and
    what was forgotten stays so. A second repair has nothing to do."""
    settings, kept = await filled(home, tmp_path / "older")
    DAMAGES[name].happen(home, tmp_path / "older")
    if name in UNREADABLE:
        with pytest.raises(StoreDamaged, match="fusion repair"):
            async with door(settings):
                raise AssertionError
    else:
        async with door(settings) as (gateway, client):
            ready = (await client.get("/readyz")).json()
            fused = (await client.post("/fuse", json={**QUESTION, "query": "which harbour is in Lyon?"})).json()
            refused = await client.post("/v1/memories", json=body("The lighthouse is in Brest"))
            assert "journal" in ready["notes"][-1]
            assert "fusion repair" in ready["notes"][-1]
            assert fused["degraded"]
            assert refused.status_code == 500
            assert "fusion repair" in refused.json()["detail"]
            assert set(await gateway.check()) == {"journal"}
            items = {state["name"]: state["items"] for state in await gateway.backends()}
            assert items == dict.fromkeys(BACKENDS, 59)
    (planned,) = await repair(settings, dry_run=True)
    assert planned.needed
    assert not list(home.glob("*.lost-*"))
    (done,) = await repair(settings, dry_run=False)
    assert (done.recovered, done.stores) == (planned.recovered, planned.stores)
    assert current(home) == kept
    (again,) = await repair(settings, dry_run=False)
    assert not again.needed
    async with door(settings) as (gateway, client):
        await gateway.settle()
        fused = (await client.post("/fuse", json={**QUESTION, "query": "which harbour is in Lyon?"})).json()
        assert not fused["degraded"], (await client.get("/readyz")).json()
        assert fused["memories"]
        assert {state["name"]: state["items"] for state in await gateway.backends()} == dict.fromkeys(BACKENDS, 59)
        assert (await client.post("/v1/memories", json=body("The lighthouse is in Brest"))).status_code == 201
    if name in ("restored from an older copy", "pages zeroed", "truncated to half"):
        assert done.kept_as is not None
        assert (home / done.kept_as).exists()


@pytest.mark.feature("`fusion doctor` reports a lost journal")
async def test_doctor_names_a_lost_journal(home: Path, tmp_path: Path) -> None:
    await filled(home, tmp_path / "older", cortex=BACKENDS["cortex"])
    assert not [one for one in examine(home) if one.check == "journal"]
    DAMAGES["restored from an older copy"].happen(home, tmp_path / "older")
    (finding,) = [one for one in examine(home) if one.check == "journal"]
    assert finding.status == "fail"
    assert "it was truncated, or is an older copy of itself" in finding.detail
    assert "fusion repair" in finding.fix


async def test_a_home_without_marks_names_an_empty_journal(home: Path, tmp_path: Path) -> None:
    """A home of an earlier version whose journal was deleted before its first start with this one."""
    settings, kept = await filled(home, tmp_path / "older", cortex=BACKENDS["cortex"])
    DAMAGES["deleted"].happen(home, tmp_path / "older")
    for mark in home.rglob("journal.json"):
        mark.unlink()
    async with door(settings) as (_, client):
        assert "cortex keeps memories" in (await client.get("/readyz")).json()["notes"][-1]
    (done,) = await repair(settings, dry_run=False)
    assert done.recovered == len(kept)
    assert current(home) == kept


@pytest.mark.feature("repair restores nothing that a surviving tombstone covers")
async def test_recovered_tombstones_hide_what_a_store_still_has(home: Path, tmp_path: Path) -> None:
    """Forgotten while a store could not be asked, then the journal is damaged: repair does not bring it back."""
    settings, kept = await filled(home, tmp_path / "older", cortex=BACKENDS["cortex"])
    async with Gateway.open(settings) as gateway:
        await gateway.deliverer.close()
        page = await gateway.memories(NADIA, 100)
        (ref,) = [one["ref"] for one in page["memories"] if one["text"] == text(7)]
        await gateway.journal.forget([ref], NADIA)
        await gateway.journal._database.checkpoint()
    ruin(home / "journal.sqlite", "event")
    (done,) = await repair(settings, dry_run=False)
    assert done.damage
    assert current(home) == kept - {text(7)}
    async with Gateway.open(settings) as gateway:
        await gateway.settle()
        assert text(7) not in {hit.text for hit in (await gateway.search("cortex", text(7), NADIA, 50)).hits}


@pytest.mark.feature("repair brings observations and proposals back that can be read, and the others from their log")
@pytest.mark.parametrize("table", ["event", "observation"])
async def test_repair_brings_the_ledger_back(home: Path, table: str) -> None:
    """A damaged table costs its own rows alone; those of observations are read from their log again."""
    settings = settings_of(home, cortex=BACKENDS["cortex"])
    session = Scope(user_id="nadia", session_id="s1", audience="private")
    async with Gateway.open(settings) as gateway:
        await gateway.remember([NewMemory(text(n), scope=NADIA, kind="note") for n in range(20)])
        await gateway.append_episodes(
            [NewObservation("ops.decision", session, f"Decision {n} of the harbour " + "x" * 150) for n in range(300)]
        )
        await gateway.grade_episode("ep:7", NADIA, 0.9, Decider("owner"), "it matters")
        await gateway.propose([Proposed(NewMemory("Nadia flies to Oslo in April", scope=NADIA))], Decider("bot"))
        await gateway.settle()
    ruin(home / "journal.sqlite", table)
    (done,) = await repair(settings, dry_run=False)
    assert table in done.cut
    async with Gateway.open(settings) as gateway:
        await gateway.harvest_episodes()
        assert len((await gateway.query_episodes(EpisodeQuery(NADIA, limit=500)))["episodes"]) == 300
        found = (await gateway.search_episodes(EpisodeSearch("decision 299 of the harbour", NADIA)))["episodes"]
        assert found[0]["summary"].startswith("Decision 299")
        graded = (await gateway.search_episodes(EpisodeSearch("decision 6 of the harbour", NADIA)))["episodes"][0]
        assert (graded["importance"] or {}).get("by") == "owner"
        assert [one["text"] for one in (await gateway.proposals(NADIA))["proposals"]] == [
            "Nadia flies to Oslo in April"
        ]


@pytest.mark.feature("an interrupted repair is finished by the next start")
async def test_an_interrupted_exchange_is_finished_by_the_next_start(home: Path, tmp_path: Path) -> None:
    """Killed when the new journal was whole and the old one's log already moved: the next start has the new one."""
    settings, kept = await filled(home, tmp_path / "older", cortex=BACKENDS["cortex"])
    DAMAGES["restored from an older copy"].happen(home, tmp_path / "older")
    shutil.copytree(home / "backends", tmp_path / "backends")
    await repair(settings, dry_run=False)
    work = home / "journal.repair"
    work.mkdir()
    (home / "journal.sqlite").rename(work / "journal.sqlite")
    shutil.copy(tmp_path / "older" / "journal.sqlite", home)
    (work / "ready").write_text("journal.sqlite.lost-again")
    async with door(settings) as (_, client):
        assert not any("journal" in note for note in (await client.get("/readyz")).json()["notes"])
    assert current(home) == kept
    assert (home / "journal.sqlite.lost-again").exists()
    assert not work.exists()


@pytest.mark.feature("repair restores refs if the old journal still lists the deliveries")
@pytest.mark.parametrize("backend", BACKENDS)
async def test_refs_come_back_where_the_old_journal_lists_their_deliveries(home: Path, backend: str) -> None:
    """Rows of events are gone and those of deliveries are left: every memory has its ref again, in every store."""
    settings = settings_of(home, **{backend: BACKENDS[backend]})
    async with Gateway.open(settings) as gateway:
        await gateway.remember([NewMemory(text(n), scope=NADIA, kind="note") for n in range(20)])
        await gateway.settle()
        before = {one["ref"]: one["text"] for one in (await gateway.memories(NADIA, 100))["memories"]}
    with closing(sqlite3.connect(home / "journal.sqlite")) as db, db:
        db.execute("delete from event where seq between 4 and 12")
    (done,) = await repair(settings, dry_run=False)
    assert (done.recovered, done.new_refs) == (9, 0)
    async with Gateway.open(settings) as gateway:
        await gateway.settle()
        after = {one["ref"]: one["text"] for one in (await gateway.memories(NADIA, 100))["memories"]}
        assert after == before
        ref = next(ref for ref, said in before.items() if said == text(5))
        assert (await gateway.forget(ref, NADIA)).backends == {backend: "deleted"}


async def test_refs_of_lost_memories_name_no_other_one(home: Path, tmp_path: Path) -> None:
    settings, _ = await filled(home, tmp_path / "older", cortex=BACKENDS["cortex"])
    async with Gateway.open(settings) as gateway:
        before = {one["ref"] for one in (await gateway.memories(NADIA, 100))["memories"]}
    DAMAGES["deleted"].happen(home, tmp_path / "older")
    await repair(settings, dry_run=False)
    async with Gateway.open(settings) as gateway:
        assert before.isdisjoint(one["ref"] for one in (await gateway.memories(NADIA, 100))["memories"])


@pytest.mark.feature("`repair` of a home in use says to stop the server first")
def test_repair_shows_a_preview_and_asks(home: Path) -> None:
    """`fusion repair`: nothing to do is said; a lost journal is shown, and exchanged with --yes."""
    settings = home.parent / "fusion.toml"
    settings.write_text(CORTEX_ONLY)
    arguments = ["--home", str(home), "--config", str(settings)]
    runner = CliRunner()

    async def remember() -> None:
        async with Gateway.open(settings, home=home) as gateway:
            await gateway.remember([NewMemory("The harbour is in Lyon", scope=NADIA)])
            await gateway.settle()

    asyncio.run(remember())
    whole = runner.invoke(app, ["repair", *arguments])
    assert "nothing to repair" in whole.output
    with HomeLock.take(home, "fusion serve"):
        in_use = runner.invoke(app, ["repair", *arguments])
    assert (in_use.exit_code, in_use.stdout) == (1, "")
    assert "in use by this process (fusion serve)" in in_use.stderr
    assert "Stop it first, then repair again: fusion stop --home" in in_use.stderr
    (home / "journal.sqlite").unlink()
    shown = runner.invoke(app, ["repair", "--dry-run", *arguments])
    assert "1 would be recovered from the stores" in shown.output
    assert "cortex holds 1, 1 of them beyond the journal" in shown.output
    assert "1 of them would get new refs: the stores do not know the old ones" in " ".join(shown.output.split())
    refused = runner.invoke(app, ["repair", *arguments], input="n\n")
    assert refused.exit_code == 1
    assert not (home / "journal.sqlite").exists()
    done = json.loads(runner.invoke(app, ["repair", "--yes", "--json", *arguments]).stdout)
    assert done["needed"]
    assert done["tenants"][0]["recovered"] == 1
    assert done["tenants"][0]["new_refs"] == 1
    assert current(home) == {"The harbour is in Lyon"}
