"""Observations of several gateways with homes of their own, in one PostgreSQL: the ledger is the only place of them."""

from __future__ import annotations

import asyncio
from collections import Counter
from datetime import UTC, datetime, timedelta
from pathlib import Path

import pytest

from fusion.contract import Scope
from fusion.gateway.episodes import EpisodeQuery
from fusion.gateway.gateway import Gateway
from fusion.ingest.observe import ReplayedObservations
from fusion.journal import observations
from fusion.lib.observation import NewObservation, Observation, line_of, observed
from fusion.store.dead_letters import DeadLetter
from fusion.store.segments import SegmentLog
from tests.gateway.helpers import NADIA, OMAR
from tests.gateway.test_database import Cluster, cluster

__all__ = ["cluster"]

SESSION = Scope(user_id="nadia", session_id="s1", audience="private")
OF_OMAR = Scope(user_id="omar", session_id="s2", audience="private")


def result(text: str, scope: Scope = SESSION, **fields: object) -> NewObservation:
    return NewObservation("tool.result", scope, tool="Bash", payload={"stdout": text}, **fields)  # type: ignore[arg-type]


async def listed(gateway: Gateway, scope: Scope = NADIA) -> list[str]:
    """What the ledger has of a user, without the field's name."""
    page = await gateway.query_episodes(EpisodeQuery(scope, limit=50))
    return sorted(one["summary"].removeprefix("stdout: ") for one in page["episodes"])


def lines_before(home: Path, texts: list[str], **fields: object) -> list[Observation]:
    """A log that a home has from before its journal was shared, and the observations in it."""
    found = []
    for number, text in enumerate(texts):
        one = observed(result(text, **fields), datetime.now(UTC), lambda n=number: f"before-{n}").observation  # type: ignore[misc]
        assert one is not None
        found.append(one)
    SegmentLog.open(home / "observations").append([line_of(one) for one in found])
    return found


@pytest.mark.feature("gateways on one database share observations: captured, forgotten and redacted at any of them")
async def test_what_one_gateway_captures_is_forgotten_and_redacted_at_another(cluster: Cluster) -> None:
    """A line in the home of one gateway would stay there, and the same line of another home would be blanked."""
    async with cluster.gateway("a") as a, cluster.gateway("b") as b:
        (first,) = await a.append_episodes([result("the boathouse key")])
        assert (first.ref, first.status, first.pointer) == ("ep:1", "stored", "")
        await b.append_episodes([result("what omar keeps", OF_OMAR), result("what nadia keeps")])
        assert (await b.forget("ep:1", NADIA)).backends == {"observations": "deleted"}
        assert await listed(a) == await listed(b) == ["what nadia keeps"]
        (again,) = await a.append_episodes([result("the boathouse key")])
        assert again.status == "stored", "another call with the same result is another observation"
        await b.redact_episodes(NADIA, [again.ref])
        assert await listed(a) == ["[REDACTED]", "what nadia keeps"]
        assert await listed(a, OMAR) == ["what omar keeps"]
    assert not [*cluster.folder.glob("*/observations/segment-*")]
    async with cluster.gateway("a") as a:
        assert await listed(a) == ["[REDACTED]", "what nadia keeps"]


async def test_one_key_at_several_gateways_stores_once(cluster: Cluster) -> None:
    """Each gateway looks the key up before it stores, so several may find nothing."""
    async with cluster.gateway("a") as a, cluster.gateway("b") as b, cluster.gateway("c") as c:
        asked = [result("three migrations applied")]
        replies = await asyncio.gather(*(one.append_episodes(asked, idempotency_key="k") for one in (a, b, c) * 3))
        assert {tuple(one.ref for one in reply) for reply in replies} == {("ep:1",)}
        assert Counter(isinstance(reply, ReplayedObservations) for reply in replies) == {True: 8, False: 1}
        assert await listed(a) == ["three migrations applied"]


async def test_what_is_forgotten_stays_forgotten_at_every_gateway(cluster: Cluster) -> None:
    async with cluster.gateway("a") as a, cluster.gateway("b") as b:
        one = result("the boathouse key", event_id="call_1")
        await a.append_episodes([one])
        await b.forget("ep:1", NADIA)
        (again,) = await a.append_episodes([one])
        assert (again.ref, again.status) == ("", "blocked")
        assert await listed(a) == []


@pytest.mark.feature("the log of observations of a home that moves to PostgreSQL is taken in whole, and put aside")
async def test_a_log_of_before_is_taken_in_once_and_put_aside(
    cluster: Cluster, caplog: pytest.LogCaptureFixture
) -> None:
    """Two homes have such logs, with equal pointers. The database has one line of the first, and has forgotten
    another; the bookmark of the third home that moved is behind all of them."""
    a, b = cluster.folder / "a", cluster.folder / "b"
    async with cluster.gateway("a"), cluster.gateway("b"):
        pass
    of_a = lines_before(a, ["moved with the journal", "forgotten since", "not harvested"])
    lines_before(b, ["of another home"], scope=OF_OMAR)
    async with cluster.gateway("c") as moved:
        graded = [observations.Graded(one, f"000001#{n}") for n, one in enumerate(of_a[:2], start=1)]
        await moved.journal.write(observations.enter, graded, "log", "000007#9", datetime.now(UTC))
        await moved.forget("ep:2", NADIA)
    async with cluster.gateway("a") as first, cluster.gateway("b") as second:
        first.observations.dead_letters.add([DeadLetter("000001#4", "a reason", b"{")], datetime.now(UTC))
        assert await listed(first) == ["moved with the journal", "not harvested"]
        assert await listed(second, OMAR) == ["of another home"]
        assert [one.where for one in first.observations.dead_letters.listed()] == ["000001#4"]
    for home in (a, b):
        (aside,) = home.glob("observations.moved-*")
        assert str(aside) in caplog.text
        assert (aside / "segment-000001.jsonl").exists()
        assert not [*(home / "observations").glob("segment-*")]
    async with cluster.gateway("a") as first:
        await first.append_episodes([result("later")])
        assert await listed(first) == ["later", "moved with the journal", "not harvested"]


async def test_what_is_past_its_days_does_not_come_back(cluster: Cluster) -> None:
    long_ago = datetime.now(UTC) - timedelta(days=40)
    async with cluster.gateway("a") as a, cluster.gateway("b") as b:
        await a.append_episodes([result("old", ts=long_ago), result("new")])
        assert await b.expire_episodes() == {"tool.result": 1}
        await b.append_episodes([result("of b")])
    async with cluster.gateway("a") as a:
        assert await listed(a) == ["new", "of b"]
