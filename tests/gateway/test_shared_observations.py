"""Observations of several gateways with homes of their own, in one PostgreSQL: the ledger is the only place of them."""

from __future__ import annotations

import asyncio
from collections import Counter
from contextlib import closing
from datetime import UTC, datetime, timedelta
from functools import partial
from pathlib import Path

import pytest

from fusion.contract import Scope
from fusion.gateway.episodes import EpisodeQuery
from fusion.gateway.gateway import Gateway
from fusion.gateway.migrate import Move, to_postgresql, to_sqlite
from fusion.gateway.tenants import write_name
from fusion.home import tenant_folder
from fusion.ingest.forget import ForgetRequest
from fusion.ingest.observe import ReplayedObservations
from fusion.journal import observations
from fusion.journal.listing import Criteria
from fusion.lib.observation import NewObservation, Observation, line_of, observed
from fusion.store.dead_letters import DeadLetter
from fusion.store.postgres import Server
from fusion.store.segments import SegmentLog
from tests.gateway.helpers import NADIA, OMAR, small
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
async def test_a_log_of_before_is_taken_in_and_put_aside(cluster: Cluster, caplog: pytest.LogCaptureFixture) -> None:
    """Two homes have such logs, with equal pointers. Of the first the database has four lines, of which it has
    forgotten one and redacted another. The bookmark of a third home that moved is behind all of them."""
    a, b = cluster.folder / "a", cluster.folder / "b"
    async with cluster.gateway("a"), cluster.gateway("b"):
        pass
    texts = ["moved with the journal", "forgotten since", "redacted since", "not harvested"]
    of_a = lines_before(a, texts) + lines_before(a, ["past its days"], ts=datetime.now(UTC) - timedelta(days=40))
    lines_before(b, ["of another home"], scope=OF_OMAR)
    async with cluster.gateway("c") as moved:
        graded = [observations.Graded(one, f"000001#{n}") for n, one in enumerate(of_a[:3], start=1)]
        await moved.journal.write(observations.enter, graded, "log", "000007#9", datetime.now(UTC))
        await moved.forget("ep:2", NADIA)
        await moved.redact_episodes(NADIA, ["ep:3"])
    async with cluster.gateway("a") as first, cluster.gateway("b") as second:
        first.observations.dead_letters.add([DeadLetter("000001#9", "a reason", b"{")], datetime.now(UTC))
        await first.harvest_episodes()
        await second.harvest_episodes()
        assert await listed(first) == ["[REDACTED]", "moved with the journal", "not harvested"]
        assert await listed(second, OMAR) == ["of another home"]
        page = await first.query_episodes(EpisodeQuery(NADIA))
        assert {one["pointer"] for one in page["episodes"]} == {""}
        assert await first.journal.read(observations.bookmark_of, "log") is None
        assert [one.where for one in first.observations.dead_letters.listed()] == ["000001#9"]
    for home in (a, b):
        (aside,) = home.glob("observations.moved-*")
        assert str(aside) in caplog.text
        assert not [*(home / "observations").glob("segment-*")]
    (aside,) = a.glob("observations.moved-*")
    left = (aside / "segment-000001.jsonl").read_text()
    assert [text for text in (*texts, "past its days") if text in left] == ["moved with the journal", "not harvested"]
    async with cluster.gateway("a") as first:
        await first.append_episodes([result("later")])
        assert await listed(first) == ["[REDACTED]", "later", "moved with the journal", "not harvested"]


async def test_a_log_of_before_is_read_before_a_user_is_forgotten(cluster: Cluster) -> None:
    """It is read in the background, and a forget may come first."""
    async with cluster.gateway("a"):
        pass
    lines_before(cluster.folder / "a", ["the boathouse key"])
    async with cluster.gateway("a") as a:
        await a.forget_many(ForgetRequest(NADIA, criteria=Criteria(after=datetime(1970, 1, 1, tzinfo=UTC))))
        assert await listed(a) == []
    (aside,) = (cluster.folder / "a").glob("observations.moved-*")
    assert aside.is_dir()


@pytest.mark.parametrize("shared", [True, False], ids=["shared", "with a log of its own"])
async def test_a_segment_without_a_line_ends_the_harvest(cluster: Cluster, home: Path, *, shared: bool) -> None:
    """A disk that was full at its first line leaves an empty one behind those that are read."""
    folder = cluster.folder / "a" if shared else home
    opened = partial(cluster.gateway, "a") if shared else partial(Gateway.open, small(home))
    async with opened():
        pass
    log = SegmentLog.open(folder / "observations", segment_bytes=10)
    for text in ("one", "two"):
        one = observed(result(text), datetime.now(UTC), lambda text=text: text).observation  # type: ignore[misc]
        assert one is not None
        log.append([line_of(one)])
    file = folder / "observations" / "segment-000002.jsonl"
    file.write_bytes(b"")
    async with opened() as gateway:
        await gateway.harvest_episodes()
        assert (await gateway.harvest_episodes()).read == 0
        assert await listed(gateway) == ["one"]
        await gateway.append_episodes([result("three")])
        assert await listed(gateway) == ["one", "three"]
    assert len([*folder.glob("observations.moved-*")]) == int(shared)


async def test_what_is_past_its_days_does_not_come_back(cluster: Cluster) -> None:
    long_ago = datetime.now(UTC) - timedelta(days=40)
    async with cluster.gateway("a") as a, cluster.gateway("b") as b:
        await a.append_episodes([result("old", ts=long_ago), result("new")])
        assert await b.expire_episodes() == {"tool.result": 1}
        await b.append_episodes([result("of b")])
    async with cluster.gateway("a") as a:
        assert await listed(a) == ["new", "of b"]


@pytest.mark.feature(
    "… and what other gateways forgot is gone from it, if the home comes back before it was opened",
    of="the log of observations of a home that moves",
)
async def test_what_was_forgotten_elsewhere_is_gone_after_the_way_back(cluster: Cluster, home: Path) -> None:
    """The bookmark of the log goes along there and back, so nothing would read its lines again; with the journal lost,
    `fusion repair` would store them anew. The last line was not harvested when the home moved."""
    async with Gateway.open(small(home)) as gateway:
        texts = ["kept", "forgotten since", "redacted since", "past its days"]
        old = {3: {"ts": datetime.now(UTC) - timedelta(days=40)}}
        await gateway.append_episodes([result(text, **old.get(n, {})) for n, text in enumerate(texts)])
        assert len(await listed(gateway)) == 4
    lines_before(home, ["not harvested"])
    no_journal = tenant_folder(home, "gone")  # its schema was dropped, or its journal put aside
    write_name(no_journal, "gone")
    lines_before(no_journal, ["of a tenant without a journal"])
    with closing(Server(cluster.database.url)) as server:
        server.open()
        to_postgresql(Move(small(home), home / "fusion.toml", {"url": "postgresql://db/x"}), server)
        async with cluster.gateway("b") as b:
            await b.forget("ep:2", NADIA)
            await b.redact_episodes(NADIA, ["ep:3"])
            assert await b.expire_episodes() == {"tool.result": 1}
        to_sqlite(Move(small(home), home / "fusion.toml", {"url": ""}), server)
    left = (home / "observations" / "segment-000001.jsonl").read_text()
    assert [text for text in (*texts, "not harvested") if text in left] == ["kept", "not harvested"]
    async with Gateway.open(small(home)) as gateway:
        await gateway.harvest_episodes()
        assert await listed(gateway) == ["[REDACTED]", "kept", "not harvested"]
    assert left.splitlines()[0] in (home / "observations" / "segment-000001.jsonl").read_text()
