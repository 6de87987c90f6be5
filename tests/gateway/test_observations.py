"""Observations in a whole home: captured, harvested, listed and searched, and never among the memories."""

from __future__ import annotations

from datetime import UTC, datetime, timedelta
from pathlib import Path

import pytest

from fusion.contract import Scope
from fusion.errors import BadInput, KeyReused, NotFound
from fusion.gateway.episodes import EpisodeQuery, EpisodeSearch
from fusion.gateway.gateway import Gateway
from fusion.ingest.observe import ReplayedObservations
from fusion.lib.observation import NewObservation
from tests.gateway.helpers import NADIA, OMAR, remember, small

SESSION = Scope(user_id="nadia", session_id="s1", project="bookings", audience="private")


def result(text: str, scope: Scope = SESSION, **fields: object) -> NewObservation:
    return NewObservation("tool.result", scope, tool="Bash", payload={"stdout": text}, **fields)  # type: ignore[arg-type]


@pytest.mark.row("A123", "a tool's result is a line of an append-only log, and at once an episode of its session")
async def test_a_captured_result_is_visible_at_once(home: Path) -> None:
    async with Gateway.open(small(home)) as gateway:
        (kept,) = await gateway.append_episodes([result("alembic: 3 migrations applied to the bookings")])
        assert (kept.ref, kept.status, kept.pointer) == ("ep:1", "stored", "000001#1")
        (listed,) = (await gateway.query_episodes(EpisodeQuery(NADIA)))["episodes"]
        assert [listed["ref"], listed["type"], listed["tool"]] == ["ep:1", "tool.result", "Bash"]
        assert [listed["origin"], listed["trust"]] == ["tool", "untrusted"]
        assert listed["summary"] == "stdout: alembic: 3 migrations applied to the bookings"
        (found,) = (await gateway.search_episodes(EpisodeSearch("which migration was applied?", NADIA)))["episodes"]
        assert found["ref"] == "ep:1"
        assert found["score"] == 1, "it has both words of the question"
        assert (await gateway.episode("ep:1", NADIA))["payload"] == {
            "stdout": "alembic: 3 migrations applied to the bookings"
        }
        log = (home / "observations" / "segment-000001.jsonl").read_bytes()
        assert log.count(b"\n") == 1


@pytest.mark.row("A139", "episodes are evidence only: no backend gets one, and no answer of /fuse has one")
async def test_observations_are_never_in_an_answer(home: Path) -> None:
    async with Gateway.open(small(home)) as gateway:
        await remember(gateway, "Nadia prefers tea in the morning")
        before = await gateway.fuse("which migrations were applied?", scope=NADIA)
        await gateway.append_episodes([result(f"migrations were applied: {n}") for n in range(20)])
        await gateway.settle()
        after = await gateway.fuse("which migrations were applied?", scope=NADIA)
        assert [one.ref for one in after.memories] == [one.ref for one in before.memories]
        for name in gateway.guarded:
            hits = (await gateway.search(name, "migrations were applied", NADIA)).hits
            assert not [hit for hit in hits if "migrations" in hit.text]


async def test_episodes_of_another_user_are_not_shown(home: Path) -> None:
    async with Gateway.open(small(home)) as gateway:
        await gateway.append_episodes([result("the deploy key was rotated")])
        assert (await gateway.query_episodes(EpisodeQuery(OMAR)))["episodes"] == []
        assert (await gateway.search_episodes(EpisodeSearch("deploy key", OMAR)))["episodes"] == []
        with pytest.raises(NotFound):
            await gateway.episode("ep:1", OMAR)
        group = Scope(user_id="nadia", audience="group")
        assert (await gateway.query_episodes(EpisodeQuery(group)))["episodes"] == [], "private, and asked in a group"


async def test_a_project_filters_episodes(home: Path) -> None:
    async with Gateway.open(small(home)) as gateway:
        await gateway.append_episodes([result("of the bookings"), result("of the shop", Scope(project="shop"))])
        shop = await gateway.query_episodes(EpisodeQuery(Scope(project="shop", audience="private")))
        assert [one["ref"] for one in shop["episodes"]] == ["ep:2"]


@pytest.mark.row("A140", "an episode needs a scope, to be written and to be read")
async def test_a_scope_is_required(home: Path) -> None:
    nobody = Scope(audience="private")
    async with Gateway.open(small(home)) as gateway:
        with pytest.raises(BadInput, match=r"episodes\[1\]: say whose it is: user_id, agent_id, session_id or project"):
            await gateway.append_episodes([result("one"), result("two", nobody)])
        with pytest.raises(BadInput, match="say whose it is"):
            await gateway.query_episodes(EpisodeQuery(nobody))
        with pytest.raises(BadInput, match="or all_users"):
            await gateway.search_episodes(EpisodeSearch("one", nobody))
        assert (await gateway.query_episodes(EpisodeQuery(nobody, all_users=True)))["episodes"] == [], "none was stored"


async def test_the_same_event_is_stored_once(home: Path) -> None:
    async with Gateway.open(small(home)) as gateway:
        one = result("twice", event_id="call_1")
        first, second = await gateway.append_episodes([one, one])
        (third,) = await gateway.append_episodes([one])
        assert [first.status, second.status, third.status] == ["stored", "duplicate", "duplicate"]
        assert {first.ref, second.ref, third.ref} == {"ep:1"}
        other = Scope(user_id="omar", session_id="s1", audience="private")
        (of_omar,) = await gateway.append_episodes([result("his own", other, event_id="call_1")])
        assert (of_omar.status, of_omar.ref) == ("stored", "ep:2"), "an id of one user blocks no other's"
        assert (home / "observations" / "segment-000001.jsonl").read_bytes().count(b"\n") == 2


async def test_a_repeated_idempotency_key_gets_the_first_reply(home: Path) -> None:
    async with Gateway.open(small(home)) as gateway:
        first = await gateway.append_episodes([result("one")], idempotency_key="k1")
        again = await gateway.append_episodes([result("one")], idempotency_key="k1")
        assert isinstance(again, ReplayedObservations)
        assert list(again) == list(first)
        with pytest.raises(KeyReused):
            await gateway.append_episodes([result("another")], idempotency_key="k1")
        assert len((await gateway.query_episodes(EpisodeQuery(NADIA)))["episodes"]) == 1


async def test_pages_of_episodes_are_in_the_order_of_time(home: Path) -> None:
    start = datetime(2026, 3, 1, tzinfo=UTC)
    async with Gateway.open(small(home)) as gateway:
        await gateway.append_episodes([result(f"step {n}", ts=start + timedelta(hours=n % 7)) for n in range(12)])
        seen, cursor = [], None
        while True:
            page = await gateway.query_episodes(EpisodeQuery(NADIA, limit=5, cursor=cursor))
            seen += page["episodes"]
            if (cursor := page["next_cursor"]) is None:
                break
        assert len(seen) == 12
        assert [one["ts"] for one in seen] == sorted(one["ts"] for one in seen)
        newest = await gateway.query_episodes(EpisodeQuery(NADIA, limit=12, newest_first=True))
        assert [one["ref"] for one in newest["episodes"]] == [one["ref"] for one in reversed(seen)]


@pytest.mark.row("A140", "a session's working set has its latest episodes, oldest first, and no other session's")
async def test_a_working_set_is_the_latest_of_one_session(home: Path) -> None:
    async with Gateway.open(small(home)) as gateway:
        other = Scope(user_id="nadia", session_id="s2", audience="private")
        await gateway.append_episodes([*(result(f"step {n}") for n in range(20)), result("elsewhere", other)])
        latest = await gateway.working_set(SESSION, 3)
        assert [one["summary"] for one in latest] == ["stdout: step 17", "stdout: step 18", "stdout: step 19"]
        with pytest.raises(BadInput, match="session_id"):
            await gateway.working_set(NADIA)


async def test_lanes_are_searched_only_if_they_are_named(home: Path) -> None:
    async with Gateway.open(small(home)) as gateway:
        read = NewObservation("tool.result", SESSION, tool="Read", payload="The harbour master's manual")
        await gateway.append_episodes([read, result("the harbour is open")])
        found = await gateway.search_episodes(EpisodeSearch("harbour", NADIA))
        assert [one["ref"] for one in found["episodes"]] == ["ep:2"]
        cold = await gateway.search_episodes(EpisodeSearch("harbour", NADIA, lanes=("documents",)))
        assert [(one["ref"], one["lane"]) for one in cold["episodes"]] == [("ep:1", "documents")]
