"""openclaw-mem's gateway on a port of its own: a client that was written for it works unchanged."""

from __future__ import annotations

import hashlib
import json
from collections.abc import AsyncIterator
from hashlib import sha256
from pathlib import Path
from typing import Any

import pytest

from fusion.contract import ROLES, Role, Scope
from fusion.doors.compat.openclaw_mem.ids import record_id
from fusion.doors.http.serve import own_ports
from fusion.settings import ServerSettings
from tests.doors.compat.openclaw_mem.client import PORT, Client, Port, keyed, open_port

AURORA = "Project Aurora uses PostgreSQL 16 in production."
QUESTION = "Which database does project Aurora use?"
ROW = {"id", "ts", "kind", "tool_name", "summary", "summary_en", "lang", "snippet", "snippet_en", "score"} | {
    "lanes_used",
    "score_components",
    "final_score",
    "query_lang",
    "lane_hits",
    "fallback_triggered",
    "cross_lang_recovered",
}
"""the fields of a row of openclaw-mem 2.0.0"""


@pytest.fixture
async def port(home: Path) -> AsyncIterator[Port]:
    async with open_port(keyed(home, openclaw_mem={"direct_store": True})) as opened:
        yield opened


@pytest.fixture
def client(port: Port) -> Client:
    return port.client("operator")


async def stored(port: Port, text: str = AURORA, **more: Any) -> dict[str, Any]:
    result = await port.client("writer").result("/v1/store", {"text": text, **more})
    await port.gateway.settle()
    assert isinstance(result, dict)
    return result


async def test_health_needs_no_token(port: Port) -> None:
    reply = await port.http.get("/health")
    assert (reply.status_code, reply.json()) == (200, {"ok": True, "service": "openclaw-mem-gateway"})


@pytest.mark.parametrize(
    ("role", "called", "adds"),
    [
        ("reader", "read", set()),
        ("proposer", "write", {"episodes.append", "store.propose"}),
        ("writer", "write", {"episodes.append", "store.propose", "store.direct"}),
        ("operator", "owner", {"episodes.append", "store.propose", "store.direct", "archive.export"}),
    ],
)
async def test_status_says_what_a_key_may_do(port: Port, role: Role, called: str, adds: set[str]) -> None:
    status = (await port.client(role).get("/v1/status")).json()
    assert (status["ok"], status["service"], status["auth"]) == (True, "openclaw-mem-gateway", "enabled")
    assert status["role"] == called
    assert set(status["capabilities"]) == {"status.read", "memory.search", "memory.pack", "episodes.query"} | adds
    assert status["direct_store_enabled"] is True
    assert status["corpus_status"]["parity_state"] == "healthy"
    assert str(port.gateway.settings.home) not in str(status)


@pytest.mark.feature("a client that was written for openclaw-mem's gateway stores and searches in its own fields")
async def test_store_and_search(port: Port, client: Client) -> None:
    kept = await stored(port, category="fact", importance=0.9, text_en="in English", lang="xx")
    assert (kept["ok"], kept["kind"], kept["recordRef"]) == (True, "fact", "obs:m1")
    assert kept["id"] == record_id("m1")
    assert kept.keys() >= {"file", "markdownPath", "markdownWriteStatus", "embedded"}
    [row] = await client.result("/v1/search", {"query": QUESTION, "limit": 3})
    assert row.keys() >= ROW
    assert (row["id"], row["summary"], row["kind"], row["tool_name"]) == (kept["id"], AURORA, "fact", "memory_store")
    assert (row["summary_en"], row["lang"]) == ("in English", "xx")
    assert row["score_components"]["importance_label"] == "must_remember"
    assert row["score"] < 0 < row["final_score"]


async def test_a_search_that_finds_nothing_says_what_was_asked(client: Client) -> None:
    reply = (await client.post("/v1/search", {"query": "zzqq  nothing"})).json()
    assert reply["receipt"]["result"] == []
    found = reply["diagnostic"]
    assert (found["empty"], found["result_count"], found["normalized_query"]) == (True, 0, "zzqq nothing")
    assert (found["endpoint"], found["schema"]) == ("/v1/search", "openclaw-mem.gateway.query-diagnostic.v1")
    assert found["hint"]


async def test_the_category_of_a_memory_comes_back_as_its_kind(port: Port, client: Client) -> None:
    await stored(port, "Renew the certificate of Aurora in March.", category="task")
    [row] = await client.result("/v1/search", {"query": "certificate of Aurora"})
    assert row["kind"] == "task"
    memory = await port.gateway.memory("m1", Scope(audience="private"))
    assert memory["kind"] == "plan"


async def test_a_secret_is_masked_and_a_private_text_is_not_kept(port: Port, client: Client) -> None:
    kept = await stored(port, "The key of Aurora is sk-abcdefghijklmnopqrstuvwxyz012345.")
    assert kept["ok"]
    [row] = await client.result("/v1/search", {"query": "the key of Aurora"})
    assert "abcdefghijklmnopqrstuvwxyz" not in row["summary"]
    skipped = await stored(port, "[NOMEM] the cat is called Schrödinger")
    assert skipped == {"ok": False, "skipped": True, "reason": "private_marker"}


class TestErrors:
    """Errors have openclaw-mem's shape: ok false, a code or a sentence, and what was needed."""

    async def test_no_token_or_a_wrong_one(self, port: Port) -> None:
        for client in (Client(port.http, ""), Client(port.http, "a wrong token of 24 characters")):
            for reply in (await client.get("/v1/status"), await client.post("/v1/search", {"query": "x"})):
                assert reply.status_code == 401
                assert reply.json()["error"] == "missing_or_invalid_bearer_token"
                assert reply.headers["content-type"] == "application/json; charset=utf-8"

    @pytest.mark.row("A152", "openclaw-mem's gateway: a role that oversteps gets 403, and nothing is written")
    @pytest.mark.parametrize("role", ROLES)
    async def test_a_role_that_oversteps(self, port: Port, role: Role) -> None:
        reply = await port.client(role).post("/v1/store", {"text": AURORA})
        if role in ("writer", "operator"):
            assert reply.status_code == 200
            return
        assert reply.status_code == 403
        assert reply.json() == {"ok": False, "error": "insufficient_capability", "required": "store.direct"}
        assert (await port.gateway.status())["memories"]["current"] == 0

    async def test_direct_store_is_off_by_default(self, home: Path) -> None:
        async with open_port(keyed(home)) as port:
            reply = await port.client("operator").post("/v1/store", {"text": AURORA})
            assert (reply.status_code, reply.json()["error"]) == (403, "direct_store_disabled")
            assert "openclaw_mem" in reply.json()["hint"]
            assert (await port.gateway.status())["memories"]["current"] == 0

    async def test_unknown_paths_and_methods(self, client: Client) -> None:
        for reply in (
            await client.get("/nosuch"),
            await client.post("/v1/nosuch", {}),
            await client.get("/v1/search"),
            await client.post("/v1/memories", {"text": AURORA}),
        ):
            assert (reply.status_code, reply.json()["error"]) == (404, "not_found")

    @pytest.mark.parametrize(
        ("body", "error"),
        [
            ({}, "missing required field: query"),
            ({"query": "  "}, "missing required field: query"),
            ({"query": None}, "missing required field: query"),
            ({"query": "x" * 2001}, "field too large: query"),
            ([1], "JSON body must be an object"),
        ],
    )
    async def test_wrong_bodies(self, client: Client, body: object, error: str) -> None:
        reply = await client.post("/v1/search", body)
        assert reply.status_code == 400
        assert reply.json()["ok"] is False
        assert reply.json()["error"].startswith(error)

    @pytest.mark.parametrize(
        "body",
        [b"{bad", b'{"query": "a", "query": "b"}', b'{"query": NaN}', b"\xff\xfe", b'{"a":' * 3000, b'"' + b"x" * 9],
    )
    async def test_hostile_bodies(self, port: Port, client: Client, body: bytes) -> None:
        headers = {"Authorization": f"Bearer {client._token}", "Content-Type": "application/json"}
        reply = await port.http.post("/v1/search", content=body, headers=headers)
        assert reply.status_code == 400
        assert reply.json()["ok"] is False

    async def test_a_body_that_is_no_json_or_too_large(self, port: Port, client: Client) -> None:
        sent = {"Authorization": f"Bearer {client._token}"}
        plain = await port.http.post("/v1/search", content=b"query=x", headers=sent)
        assert (plain.status_code, plain.json()["error"]) == (400, "Content-Type must be application/json")
        json = sent | {"Content-Type": "application/json"}
        huge = await port.http.post("/v1/search", content=b'{"query": "' + b"x" * 300_000 + b'"}', headers=json)
        assert (huge.status_code, huge.json()["error"]) == (400, "request body too large")

    @pytest.mark.parametrize("limit", [None, "many", -3, 1e300, float("1e9"), True, [], {}])
    async def test_a_number_that_is_none_takes_its_default(self, client: Client, limit: object) -> None:
        assert await client.result("/v1/search", {"query": "x", "limit": limit, "unknown": 1}) == []

    async def test_an_unknown_category(self, client: Client) -> None:
        reply = await client.post("/v1/store", {"text": AURORA, "category": "gossip"})
        assert reply.status_code == 400
        assert reply.json()["error"].startswith("invalid category")


def test_the_port_is_opened_when_it_is_asked_for(home: Path) -> None:
    asked = keyed(home, openclaw_mem={"port": PORT})
    assert [*own_ports(asked)] == [("openclaw_mem.port", PORT, "/openclaw-mem")]
    assert [*own_ports(keyed(home))] == []


class TestExport:
    """`POST /v1/archive/export-canonical`: a dry run unless the body says otherwise, below the export folder alone."""

    async def test_a_dry_run_writes_nothing(self, port: Port, client: Client) -> None:
        await stored(port)
        result = await client.result("/v1/archive/export-canonical", {})
        assert (result["schema"], result["dry_run"]) == ("openclaw-mem.pack-capsule.export-canonical.v1", True)
        assert result["manifest"]["source"]["observations_count"] == 1
        assert result["manifest"]["planned_output"]["layout"][0] == "manifest.json"
        assert not (port.gateway.settings.home / "exports").exists()

    async def test_an_export_has_the_current_records_and_their_hashes(self, port: Port, client: Client) -> None:
        for n in range(120):
            await port.client("writer").result("/v1/store", {"text": f"Fact {n} of Aurora."})
        await port.gateway.forget("m1", Scope(audience="private"))
        result = await client.result("/v1/archive/export-canonical", {"dry_run": False, "to": "aurora"})
        assert (result["dry_run"], result["verify"]["ok"]) == (False, True)
        folder = port.gateway.settings.home / "exports" / "aurora" / result["artifact_dir"]
        manifest = json.loads((folder / "manifest.json").read_bytes())
        assert manifest == result["manifest"]
        for one in manifest["files"]:
            assert hashlib.sha256((folder / one["name"]).read_bytes()).hexdigest() == one["sha256"]
        rows = [json.loads(line) for line in (folder / "observations.jsonl").read_text().splitlines()]
        assert [row["id"] for row in rows] == [*range(120, 1, -1)]
        assert list(rows[0]) == manifest["source"]["columns"]
        assert manifest["source"]["id_range"] == {"min": 2, "max": 120}

    @pytest.mark.parametrize("to", ["../out", "/etc/fusion", "a/../../b", "~/x/../../..", "a\0b", "a" * 2001])
    async def test_a_path_outside_of_the_folder_is_refused(self, port: Port, client: Client, to: str) -> None:
        reply = await client.post("/v1/archive/export-canonical", {"dry_run": False, "to": to})
        assert reply.status_code == 400, reply.text
        assert reply.json()["ok"] is False

    async def test_a_link_out_of_the_folder_is_refused(self, port: Port, client: Client, tmp_path: Path) -> None:
        exports = port.gateway.settings.home / "exports"
        exports.mkdir()
        (exports / "away").symlink_to(tmp_path)
        reply = await client.post("/v1/archive/export-canonical", {"dry_run": False, "to": "away"})
        assert (reply.status_code, reply.json()["error"]) == (400, "export path outside configured export root")
        assert [*tmp_path.glob("*canonical*")] == []

    @pytest.mark.parametrize("role", ["reader", "proposer", "writer"])
    async def test_only_an_operator_may_export(self, port: Port, role: Role) -> None:
        reply = await port.client(role).post("/v1/archive/export-canonical", {"dry_run": False})
        assert reply.json() == {"ok": False, "error": "insufficient_capability", "required": "archive.export"}
        assert not (port.gateway.settings.home / "exports").exists()


class TestWhoseMemories:
    """A request has the tenant of its key, and the user that its address names."""

    async def test_a_key_of_another_tenant_sees_none_of_it(self, home: Path) -> None:
        other = {"name": "acme", "sha256": sha256(b"the key of another tenant").hexdigest(), "tenant": "acme"}
        settings = keyed(home, openclaw_mem={"direct_store": True})
        settings = settings.model_copy(update={"server": ServerSettings(keys=[*settings.server.keys, other])})
        async with open_port(settings) as port:
            await stored(port)
            acme = Client(port.http, "the key of another tenant")
            assert await acme.result("/v1/search", {"query": QUESTION}) == []
            assert (await acme.result("/v1/archive/export-canonical", {}))["manifest"]["source"][
                "observations_count"
            ] == 0
            kept = await acme.result("/v1/store", {"text": "Acme uses Oracle."})
            assert kept["ok"]
            await port.gateway.settle("acme")
            [row] = await acme.result("/v1/search", {"query": "Oracle"})
            assert row["summary"] == "Acme uses Oracle."
            assert await port.client("reader").result("/v1/search", {"query": "Oracle at Acme"}) != [row]

    async def test_the_address_may_name_a_user(self, port: Port, client: Client) -> None:
        for user, text in (("ana", "Ana uses Aurora."), ("ben", "Ben uses Aurora.")):
            await client.result(f"/v1/store?user_id={user}", {"text": text})
        await port.gateway.settle()
        rows = await client.result("/v1/search?user_id=ana", {"query": "who uses Aurora?"})
        assert [row["summary"] for row in rows] == ["Ana uses Aurora."]
        unnamed = await client.post("/v1/search", {"query": "who uses Aurora?"})
        assert unnamed.status_code == 400
        assert "user_id" in unnamed.json()["error"]
        every = await client.post("/v1/search?all_users=true", {"query": "who uses Aurora?"})
        assert every.status_code == 400, "this key may not ask for the memories of all users"

    async def test_an_unknown_parameter_of_the_address_is_refused(self, client: Client) -> None:
        reply = await client.post("/v1/search?userid=ana", {"query": QUESTION})
        assert (reply.status_code, reply.json()["ok"]) == (400, False)
