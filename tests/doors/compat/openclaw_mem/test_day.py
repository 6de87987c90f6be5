"""A day of a client that was written for openclaw-mem's gateway: store, search, pack, episodes, propose, approve."""

from __future__ import annotations

from collections.abc import AsyncIterator
from pathlib import Path
from typing import Any

import pytest

from fusion.contract import Scope
from fusion.gateway.proposing import Decider
from tests.doors.compat.openclaw_mem.client import Client, Port, keyed, open_port

AURORA = "Project Aurora uses PostgreSQL 16 in production."
QUESTION = "Which database does project Aurora use?"
EVENT = {
    "scope": "aurora",
    "session_id": "s1",
    "agent_id": "codex",
    "type": "tool.result",
    "summary": "psql says 16.2",
    "payload": {"rows": 1},
    "refs": {"obs": "obs:1"},
}
PROPOSAL = {"scope": "aurora", "agent_id": "codex", "text": "Aurora is deployed on Fridays.", "category": "decision"}


@pytest.fixture
async def port(home: Path) -> AsyncIterator[Port]:
    async with open_port(keyed(home, openclaw_mem={"direct_store": True})) as opened:
        await opened.client("writer").result("/v1/store", {"text": AURORA, "importance": 0.9})
        await opened.gateway.settle()
        yield opened


@pytest.fixture
def client(port: Port) -> Client:
    return port.client("proposer")


class TestPack:
    async def test_a_pack_has_the_fields_of_the_command(self, client: Client) -> None:
        sent = {"query": QUESTION, "limit": 8, "budget_tokens": 600, "query_en": "Aurora database", "graph_scope": "x"}
        reply = (await client.post("/v1/pack", sent)).json()
        pack = reply["receipt"]["result"]
        assert AURORA in pack["bundle_text"]
        [item] = pack["items"]
        assert (item["recordRef"], item["id"], item["summary"]) == ("obs:m1", 1, AURORA)
        assert pack["citations"] == [{"recordRef": "obs:m1", "url": None}]
        whole = pack["context_pack"]
        assert whole["schema"] == "openclaw-mem.context-pack.v1"
        assert whole.keys() == {"schema", "meta", "bundle_text", "items", "notes"}
        assert (whole["meta"]["budgetTokens"], whole["meta"]["maxItems"]) == (600, 8)
        assert whole["items"][0]["importance"] == "must_remember"
        assert pack["lifecycle_write"]["selection"]["refreshed_record_refs"] == ["obs:m1"]
        assert "trace" not in pack
        assert (reply["diagnostic"]["result_count"], reply["diagnostic"]["endpoint"]) == (1, "/v1/pack")

    async def test_an_empty_pack_says_so(self, client: Client) -> None:
        reply = (await client.post("/v1/pack", {"query": "zzqq"})).json()
        assert reply["receipt"]["result"]["items"] == []
        assert (reply["diagnostic"]["empty"], reply["receipt"]["result"]["bundle_text"]) == (True, "")

    @pytest.mark.parametrize("budget", [0, 1, -5, 10**12, "many", None])
    async def test_a_budget_out_of_range_is_the_nearest_that_is_in_it(self, client: Client, budget: object) -> None:
        pack = await client.result("/v1/pack", {"query": QUESTION, "budget_tokens": budget, "limit": 10**9})
        assert 1 <= pack["context_pack"]["meta"]["budgetTokens"] <= 20_000
        assert pack["context_pack"]["meta"]["maxItems"] == 50


class TestEpisodes:
    @pytest.mark.feature("a client that was written for openclaw-mem appends events, and queries them by scope")
    async def test_append_and_query(self, port: Port, client: Client) -> None:
        kept = await client.result("/v1/episodes/append", EVENT)
        assert kept["kind"] == "openclaw-mem.episodes.append.v0"
        event = kept["event"]
        assert {name: event[name] for name in ("scope", "session_id", "agent_id", "type", "summary")} == {
            name: EVENT[name] for name in ("scope", "session_id", "agent_id", "type", "summary")
        }
        assert event["event_id"]
        assert (event["payload_present"], event["refs_present"], event["redacted"]) == (True, True, False)
        asked = {"scope": "aurora", "types": ["tool.result"], "session_id": "s1", "include_payload": True, "limit": 5}
        found = await port.client("reader").result("/v1/episodes/query", asked)
        assert (found["kind"], found["count"]) == ("openclaw-mem.episodes.query.v0", 1)
        [item] = found["items"]
        assert item["event_id"] == event["event_id"]
        assert (item["scope"], item["summary"], item["payload"]) == ("aurora", "psql says 16.2", {"rows": 1})
        assert item["refs"] == {"obs": "obs:1"}
        assert isinstance(item["id"], int)
        assert abs(item["ts_ms"] - event["ts_ms"]) < 600_000

    async def test_another_scope_has_none_of_it(self, port: Port, client: Client) -> None:
        await client.result("/v1/episodes/append", EVENT)
        for asked in ({"scope": "boreas"}, {"global": True}):
            assert (await client.result("/v1/episodes/query", asked))["items"] == []

    async def test_an_episode_is_no_memory(self, port: Port, client: Client) -> None:
        await client.result("/v1/episodes/append", {**EVENT, "summary": "the zeppelin landed at noon"})
        await port.gateway.settle()
        assert await client.result("/v1/search", {"query": "zeppelin"}) == []

    @pytest.mark.parametrize(
        ("change", "error"),
        [
            ({"type": "gossip"}, "invalid type"),
            ({"scope": ""}, "missing required field: scope"),
            ({"session_id": None}, "missing required field: session_id"),
            ({"summary": "x" * 2001}, "field too large: summary"),
        ],
    )
    async def test_a_wrong_event_is_refused(self, client: Client, change: dict[str, Any], error: str) -> None:
        reply = await client.post("/v1/episodes/append", {**EVENT, **change})
        assert (reply.status_code, reply.json()["error"].startswith(error)) == (400, True), reply.text

    async def test_a_query_needs_a_scope(self, client: Client) -> None:
        reply = await client.post("/v1/episodes/query", {})
        assert (reply.status_code, reply.json()["error"]) == (400, "missing required field: scope")
        wrong = await client.post("/v1/episodes/query", {"scope": "aurora", "types": "tool.result"})
        assert wrong.json()["error"] == "types must be a list of strings"

    async def test_a_reader_appends_nothing(self, port: Port) -> None:
        reader = port.client("reader")
        reply = await reader.post("/v1/episodes/append", EVENT)
        assert reply.json() == {"ok": False, "error": "insufficient_capability", "required": "episodes.append"}
        assert (await reader.result("/v1/episodes/query", {"scope": "aurora"}))["count"] == 0


class TestPropose:
    @pytest.mark.row("A152", "openclaw-mem's gateway: what is proposed is remembered once somebody approves it")
    async def test_a_proposal_is_remembered_when_it_is_approved(self, port: Port, client: Client) -> None:
        reply = (await client.post("/v1/store/propose", {**PROPOSAL, "importance": 0.8})).json()
        assert (reply["ok"], reply["mode"]) == (True, "proposal")
        result = reply["receipt"]["result"]
        assert (result["inserted"], result["ids"], result["writes_performed"]) == (1, [1], False)
        assert result["label_counts"]["must_remember"] == 1
        await port.gateway.settle()
        assert await client.result("/v1/search", {"query": "when is Aurora deployed?"}) != []
        rows = await client.result("/v1/search", {"query": "deployed on Fridays"})
        assert PROPOSAL["text"] not in [row["summary"] for row in rows]
        everything = Scope(audience="private")
        await port.gateway.approve(result["proposal"]["id"], everything, Decider("nadia", "operator"))
        await port.gateway.settle()
        rows = await client.result("/v1/search", {"query": "deployed on Fridays"})
        assert rows[0]["summary"] == PROPOSAL["text"]
        assert rows[0]["kind"] == "decision"

    async def test_a_reader_proposes_nothing(self, port: Port) -> None:
        reply = await port.client("reader").post("/v1/store/propose", PROPOSAL)
        assert reply.json() == {"ok": False, "error": "insufficient_capability", "required": "store.propose"}
        assert (await port.gateway.proposals(Scope(audience="private")))["proposals"] == []

    @pytest.mark.parametrize(
        ("change", "error"),
        [
            ({"category": "gossip"}, "invalid category"),
            ({"text": " "}, "missing required field: text"),
            ({"text": "x" * 8001}, "field too large: text"),
            ({"agent_id": None}, "missing required field: agent_id"),
        ],
    )
    async def test_a_wrong_proposal_is_refused(self, client: Client, change: dict[str, Any], error: str) -> None:
        reply = await client.post("/v1/store/propose", {**PROPOSAL, **change})
        assert (reply.status_code, reply.json()["error"].startswith(error)) == (400, True), reply.text


@pytest.mark.parametrize(("path", "body"), [("/v1/episodes/append", EVENT), ("/v1/store/propose", PROPOSAL)])
class TestIdempotencyKey:
    """The same key with the same body gets the first reply, another body 400; the key holds for one route."""

    @pytest.mark.row("A152", "openclaw-mem's gateway: the same Idempotency-Key gets the first reply, another body 400")
    async def test_a_repeated_write_stores_once(self, port: Port, client: Client, path: str, body: Any) -> None:
        first = await client.result(path, body, key="k1")
        again = await client.result(path, body, key="k1")
        assert {**first, "ts": 0, "event": _steady(first)} == {**again, "ts": 0, "event": _steady(again)}
        reply = await client.post(path, {**body, "agent_id": "another"}, key="k1")
        assert (reply.status_code, reply.json()["error"]) == (400, "Idempotency-Key reused with different payload")
        stored = (await client.result("/v1/episodes/query", {"scope": "aurora"}))["count"]
        proposed = len((await port.gateway.proposals(Scope(audience="private")))["proposals"])
        assert stored + proposed == 1

    async def test_a_key_that_is_too_long(self, client: Client, path: str, body: Any) -> None:
        reply = await client.post(path, body, key="k" * 201)
        assert (reply.status_code, reply.json()["error"]) == (400, "Idempotency-Key too large")


def _steady(result: dict[str, Any]) -> dict[str, Any]:
    """An event without its time, which is that of the reply."""
    return {name: value for name, value in result.get("event", {}).items() if name != "ts_ms"}
