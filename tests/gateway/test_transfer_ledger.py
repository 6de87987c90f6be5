"""Exports and imports of what a home has beside its memories: observations, proposals, counts of use and inclusions."""

from __future__ import annotations

import asyncio
import json
from pathlib import Path
from tempfile import TemporaryDirectory
from typing import Any

import pytest
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st

from fusion.contract import Scope
from fusion.errors import NotFound
from fusion.gateway.episodes import EpisodeQuery
from fusion.gateway.gateway import Gateway
from fusion.gateway.temporal_facts import FactRequest
from fusion.ingest.intake import NewMemory
from fusion.ingest.proposals import Proposed
from fusion.journal.proposals import Decider
from fusion.lib.observation import NewObservation
from tests.gateway.helpers import NADIA, remember, small
from tests.gateway.test_transfer import EVERYBODY, altered, counts_of, export_of, homes, import_into, two

__all__ = ["two"]

SESSION = Scope(user_id="nadia", session_id="s1", audience="private")
OWNER = Decider("owner")
LEDGER = ("forgotten_observation", "observation", "proposal", "decision", "use", "inclusion")


def seen(text: str, scope: Scope = SESSION, **fields: Any) -> NewObservation:
    return NewObservation("tool.result", scope, tool="Bash", payload={"stdout": text}, **fields)


def ledger_of(export: bytes) -> list[dict[str, Any]]:
    """The lines of an export that are about the ledger."""
    lines = [json.loads(line) for line in export.splitlines()]
    return [line for line in lines if line["type"] in LEDGER]


async def busy(gateway: Gateway) -> list[str]:
    """A home with a bit of everything; the refs of its memories."""
    refs = await remember(gateway, "The bookings database moves to Postgres in March", "Nadia drinks green tea")
    await gateway.append_episodes([seen("3 migrations applied"), seen("a forgotten thing"), seen("all tests pass")])
    await gateway.forget("ep:2", NADIA)
    await gateway.grade_episode("ep:3", NADIA, 0.9, OWNER, "it matters")
    proposed = [
        Proposed(NewMemory(f"Nadia flies to {city} in April", scope=NADIA)) for city in ("Oslo", "Rome", "Bari")
    ]
    made = await gateway.propose(proposed, Decider("bot", "proposer"))
    await gateway.approve(made["proposals"][0]["id"], NADIA, OWNER, why="checked")
    await gateway.reject(made["proposals"][1]["id"], NADIA, OWNER, "last year")
    await gateway.settle()
    await gateway.fuse("where does the bookings database move", scope=NADIA)
    await gateway.settle()
    await gateway.use.flush()
    await gateway.inclusions.flush()
    return refs


@pytest.mark.feature("an export has observations, proposals with their decisions, counts of use and inclusions")
async def test_an_empty_home_has_the_whole_ledger_after_an_import(two: list[Gateway]) -> None:
    here, there = two
    refs = await busy(here)
    export = await export_of(here)
    kinds = {line["type"] for line in ledger_of(export)}
    assert kinds == set(LEDGER)
    report = await import_into(there, export, trust="keep")
    assert (report.tenants[0].observations, report.tenants[0].proposals) == (2, 3)
    assert ledger_of(await export_of(there)) == ledger_of(export)
    assert (await there.episode("ep:3", NADIA))["importance"] == (await here.episode("ep:3", NADIA))["importance"]
    assert (await there.why(refs[0], NADIA))["inclusions"] == (await here.why(refs[0], NADIA))["inclusions"]
    proposals = (await there.proposals(NADIA, None))["proposals"]
    assert proposals == (await here.proposals(NADIA, None))["proposals"]
    await there.undo_decision(proposals[1]["decision"], NADIA)
    assert (await there.proposal(proposals[1]["id"], NADIA))["state"] == "open"


async def test_a_second_import_adds_nothing(two: list[Gateway]) -> None:
    here, there = two
    await busy(here)
    export = await export_of(here)
    await import_into(there, export, trust="keep")
    before = ledger_of(await export_of(there))
    report = await import_into(there, export, trust="keep")
    assert (report.tenants[0].observations, report.tenants[0].proposals) == (0, 0)
    assert ledger_of(await export_of(there)) == before
    assert ledger_of(await export_of(here)) == ledger_of(export)


async def test_a_dry_run_counts_the_ledger_and_writes_nothing(two: list[Gateway]) -> None:
    here, there = two
    await busy(here)
    report = await import_into(there, await export_of(here), trust="keep", dry_run=True)
    assert (report.tenants[0].observations, report.tenants[0].proposals) == (2, 3)
    assert ledger_of(await export_of(there)) == []


async def test_what_either_home_forgot_does_not_come_back(two: list[Gateway]) -> None:
    here, there = two
    await busy(here)
    export = await export_of(here)
    await import_into(there, export, trust="keep")
    await there.forget("ep:1", NADIA)
    await there.forget("p3", NADIA)
    await import_into(there, export, trust="keep")
    with pytest.raises(NotFound):
        await there.episode("ep:1", NADIA)
    assert [one["text"] for one in (await there.proposals(NADIA, "open"))["proposals"]] == []
    report = await import_into(here, await export_of(there), trust="keep")
    assert report.tenants[0].forgotten == 1
    with pytest.raises(NotFound):
        await here.episode("ep:1", NADIA)


async def test_a_fact_still_has_its_observation_where_the_number_is_taken(two: list[Gateway]) -> None:
    here, there = two
    await here.append_episodes([NewObservation("ops.decision", SESSION, "The gateway is in production")])
    await there.append_episodes([seen("another one"), seen("and another")])
    fact = FactRequest("gateway", "status", "in production", ("ep:1",), NADIA)
    await here.assert_fact(fact)
    await import_into(there, await export_of(here), trust="keep")
    (found,) = (await there.current_facts(NADIA, "gateway"))["facts"]
    (source,) = found["source_refs"]
    assert (source["ref"], source["status"]) == ("ep:3", "ok")
    assert "production" in (await there.episode("ep:3", NADIA))["summary"]


async def test_another_home_s_export_brings_observations_alone(two: list[Gateway]) -> None:
    """It cannot say what a person set, what was decided, or what was used."""
    here, there = two
    await busy(here)
    report = await import_into(there, await export_of(here))
    assert (report.tenants[0].observations, report.tenants[0].proposals) == (2, 0)
    assert {line["type"] for line in ledger_of(await export_of(there))} == {"observation", "forgotten_observation"}
    assert (await there.episode("ep:3", NADIA))["importance"] is None


@pytest.mark.parametrize(
    ("kind", "change", "reason"),
    [
        ("observation", {"summary": "[NOMEM] hidden", "payload": None}, "ep:1"),
        ("observation", {"project": "ghp_" + "a1B2" * 9}, "secret"),
        ("observation", {"user_id": None, "session_id": None}, "say whose it is"),
        ("observation", {"event_id": "a\nb"}, "event_id"),
        ("observation", {"by_hand": {"importance": {"score": 10**30}}}, "from 0 to 1"),
        ("observation", {"importance": {"score": None, "why": 2**70}}, "cannot be stored"),
        ("proposal", {"draft": {"text": 5}}, "no memory"),
        ("proposal", {"draft": {"text": "Nadia flies", "more": 2**70}}, "cannot be stored"),
        ("proposal", {"user_id": "omar"}, "another owner"),
    ],
)
async def test_hostile_lines_are_refused_one_at_a_time(
    two: list[Gateway], kind: str, change: dict[str, Any], reason: str
) -> None:
    here, there = two
    await busy(here)

    def changed(lines: list[dict[str, Any]]) -> list[dict[str, Any]]:
        first = next(line for line in lines if line["type"] == kind)
        merged = {**first, **change}
        new = {name: value for name, value in merged.items() if value is not None}
        return [new if line is first else line for line in lines]

    report = await import_into(there, altered(await export_of(here), changed), trust="keep", partial=True)
    (tenant,) = report.tenants
    assert tenant.refused == 1
    assert reason in report.faults[0]
    assert (tenant.observations, tenant.proposals) == ((1, 3) if kind == "observation" else (2, 2))


async def test_an_export_of_one_user_has_nothing_of_another(two: list[Gateway]) -> None:
    here, _ = two
    await busy(here)
    assert b"migrations" not in await export_of(here, user_id="omar")
    assert ledger_of(await export_of(here, user_id="omar")) == []


async def test_an_export_of_format_1_is_imported(two: list[Gateway]) -> None:
    here, there = two
    await remember(here, "The bookings database moves to Postgres in March")
    export = altered(await export_of(here), lambda lines: [x for x in lines if x["type"] not in LEDGER])
    old = export.replace(b'"version": 2', b'"version": 1')
    assert counts_of(await import_into(there, old, partial=True)) == {"new": 1}


texts = st.text(st.characters(codec="utf-8", exclude_categories=("Cs", "Cc")), min_size=1, max_size=60)
payloads = st.recursive(
    st.none() | st.booleans() | st.integers(-(2**63), 2**63) | st.floats(allow_nan=False, allow_infinity=False) | texts,
    lambda inner: st.lists(inner, max_size=3) | st.dictionaries(texts, inner, max_size=3),
    max_leaves=8,
)
kept = st.builds(
    NewObservation,
    type=st.sampled_from(["tool.result", "ops.decision", "conversation.user"]),
    scope=st.sampled_from([SESSION, Scope(user_id="omar", project="x", audience="group")]),
    summary=texts,
    payload=payloads,
    tool=st.sampled_from([None, "Bash"]),
)


@settings(max_examples=10, deadline=None, suppress_health_check=list(HealthCheck))
@given(st.lists(kept, min_size=1, max_size=5))
def test_observations_are_the_same_after_a_round_trip(given_: list[NewObservation]) -> None:
    async def there_and_back() -> None:
        async with homes(2) as (here, there):
            await here.append_episodes(given_)
            export = await export_of(here)
            await import_into(there, export, trust="keep")
            assert ledger_of(await export_of(there)) == ledger_of(export)

    asyncio.run(there_and_back())


async def test_imported_observations_are_in_the_log(tmp_path: Path) -> None:
    """So a ledger that is made again has them, and a home that is opened again does not harvest them twice."""
    with TemporaryDirectory() as folder:
        async with homes(1) as (here,):
            await busy(here)
            export = await export_of(here)
        for _ in range(2):
            async with Gateway.open(small(Path(folder, "home"))) as there:
                await import_into(there, export, trust="keep")
                assert (await there.harvest_episodes()).stored == 0
                episodes = (await there.query_episodes(EpisodeQuery(EVERYBODY, all_users=True)))["episodes"]
                assert [one["ref"] for one in episodes] == ["ep:1", "ep:3"]
