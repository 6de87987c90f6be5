"""Proposals through the doors: who may propose, see and decide, over HTTP and MCP."""

from __future__ import annotations

import sqlite3
from collections.abc import AsyncIterator
from contextlib import closing
from hashlib import sha256
from pathlib import Path
from typing import Any

import httpx
import pytest

from fusion.contract import ROLES, Role
from fusion.doors.http.app import create_app
from fusion.gateway.gateway import Gateway
from tests.doors.contract import Checked
from tests.doors.test_roles import contents, key_of
from tests.patience import load

TEXT = "Nadia flies to Lisbon on 3 April"


@pytest.fixture(params=["operator"])
async def client(home: Path, request: pytest.FixtureRequest) -> AsyncIterator[httpx.AsyncClient]:
    """A server with a key of each role, and a second proposer of the tenant; the parameter decides on proposals."""
    named: list[tuple[str, Role, str]] = [(role, role, "default") for role in ROLES]
    named += [("other", "proposer", "default"), ("acme", "operator", "acme")]
    keys = [
        {"name": name, "sha256": sha256(key_of(name).encode()).hexdigest(), "role": role, "tenant": tenant}  # type: ignore[arg-type]
        for name, role, tenant in named
    ]
    settings = load(
        home=home,
        backends_only=True,
        embedder={"adapter": ""},
        server={"keys": keys},
        proposals={"decided_by": request.param},
        backends={"one": {"adapter": "adapters.inmemory:InMemory"}},
    )
    async with Gateway.open(settings) as fusion:
        await fusion.settle()
        transport = Checked(create_app(fusion, settings))
        async with httpx.AsyncClient(transport=transport, base_url="http://127.0.0.1:8765") as http:
            yield http


async def sent(
    client: httpx.AsyncClient, who: str, method: str, path: str, body: Any = None, **headers: str
) -> httpx.Response:
    named = {"authorization": f"Bearer {key_of(who)}", **headers}  # type: ignore[arg-type]
    return await client.request(method, path, headers=named, json=body)


async def proposed(client: httpx.AsyncClient, who: str = "proposer", **more: Any) -> str:
    reply = await sent(client, who, "POST", "/v1/store/propose", {"text": TEXT, "user_id": "nadia", **more})
    assert reply.status_code == 200, reply.text
    assert reply.json()["writes_performed"] is False
    return str(reply.json()["proposal"]["id"])


@pytest.mark.row("A152", "a proposer may only propose: storing, deciding and undoing are 403, and nothing is written")
async def test_a_proposer_that_oversteps_writes_nothing(client: httpx.AsyncClient, home: Path) -> None:
    name = await proposed(client)
    before = contents(home)
    overstepping = [
        ("POST", "/v1/memories", {"text": TEXT}),
        ("PATCH", "/v1/memories/m1", {"text": TEXT}),
        ("DELETE", "/v1/memories/m1", None),
        ("POST", "/v1/forget", {"after": "1970-01-01"}),
        ("POST", f"/v1/proposals/{name}/approve", {}),
        ("POST", f"/v1/proposals/{name}/reject", {}),
        ("POST", "/v1/triage", {"item": name, "choice": "approve"}),
        ("GET", "/v1/triage", None),
        ("POST", "/v1/decisions/undo", {"decision": "d1"}),
        ("POST", "/v1/tools/memory_append", {"text": TEXT}),
        ("POST", "/v1/state", {"ref": "m1", "archived": True}),
    ]
    for method, path, body in overstepping:
        reply = await sent(client, "proposer", method, path, body)
        assert reply.status_code == 403, (method, path, reply.text)
        assert reply.json()["type"] == "urn:memory-fusion:error:RoleTooLow"
    assert contents(home) == before


@pytest.mark.parametrize("method", ["HEAD", "OPTIONS", "PUT", "TRACE"])
async def test_other_methods_are_no_way_around_a_role(client: httpx.AsyncClient, home: Path, method: str) -> None:
    name = await proposed(client)
    before = contents(home)
    for path in ("/v1/store/propose", "/v1/memories", f"/v1/proposals/{name}/approve", "/v1/triage"):
        reply = await sent(client, "reader", method, path, {"text": TEXT})
        assert reply.status_code in (403, 404, 405, 415), (method, path)
    assert contents(home) == before


async def test_a_reader_may_not_propose(client: httpx.AsyncClient, home: Path) -> None:
    before = contents(home)
    bodies = [
        ("/v1/store/propose", {"text": TEXT}),
        ("/v1/store/extract", {"text": f"We decided that {TEXT}.", "propose": True}),
    ]
    for path, body in bodies:
        reply = await sent(client, "reader", "POST", path, body)
        assert (reply.status_code, "needs the role proposer" in reply.text) == (403, True)
    shown = await sent(client, "reader", "POST", "/v1/store/extract", {"text": f"We decided that {TEXT}."})
    assert shown.json()["writes_performed"] is False
    assert contents(home) == before


@pytest.mark.feature("a key that may not decide on proposals sees its own alone")
async def test_a_proposer_sees_its_own_proposals(client: httpx.AsyncClient) -> None:
    mine, other = await proposed(client), await proposed(client, "other", user_id="omar")
    page = (await sent(client, "proposer", "GET", "/v1/proposals")).json()
    assert [one["id"] for one in page["proposals"]] == [mine]
    assert page["counts"] == {"open": 1}
    assert (await sent(client, "proposer", "GET", f"/v1/proposals/{other}")).status_code == 404
    assert (await sent(client, "reader", "GET", "/v1/proposals")).status_code == 403
    page = (await sent(client, "operator", "GET", "/v1/proposals")).json()
    assert {(one["id"], one["proposed_by"]) for one in page["proposals"]} == {(mine, "proposer"), (other, "other")}


async def test_a_proposal_is_of_the_tenant_of_its_key(client: httpx.AsyncClient) -> None:
    """No field of a request names another one, and another tenant's operator does not find it."""
    name = await proposed(client)
    body = {"text": TEXT, "tenant": "acme"}
    assert (await sent(client, "proposer", "POST", "/v1/store/propose", body)).status_code == 422
    assert (await sent(client, "acme", "GET", "/v1/proposals")).json()["proposals"] == []
    assert (await sent(client, "acme", "POST", f"/v1/proposals/{name}/approve", {})).status_code == 404


@pytest.mark.row("A152", "propose and commit over HTTP: the approval stores it and names its ref, and can be undone")
async def test_propose_approve_and_undo(client: httpx.AsyncClient) -> None:
    name = await proposed(client, category="task", importance=0.8, reason="she booked it")
    reply = await sent(client, "operator", "POST", f"/v1/proposals/{name}/approve", {"why": "checked"})
    done = reply.json()
    assert (done["writes_performed"], done["status"], done["proposal"]["state"]) == (True, "stored", "approved")
    memory = (await sent(client, "reader", "GET", f"/v1/memories/{done['ref']}")).json()
    assert (memory["text"], memory["kind"], memory["origin"]) == (TEXT, "plan", "agent")
    again = await sent(client, "operator", "POST", f"/v1/proposals/{name}/reject", {})
    assert (again.status_code, again.json()["type"]) == (409, "urn:memory-fusion:error:AlreadyDecided")
    undone = await sent(client, "operator", "POST", "/v1/decisions/undo", {"decision": done["decision"]})
    assert undone.json()["decision"]["proposal"] == name
    assert (await sent(client, "proposer", "GET", f"/v1/proposals/{name}")).json()["state"] == "open"


@pytest.mark.parametrize("client", ["writer"], indirect=True)
async def test_the_settings_let_a_writer_decide(client: httpx.AsyncClient) -> None:
    name = await proposed(client)
    assert (await sent(client, "proposer", "POST", f"/v1/proposals/{name}/approve", {})).status_code == 403
    assert (await sent(client, "writer", "POST", f"/v1/proposals/{name}/approve", {})).json()["writes_performed"]


async def test_an_idempotency_key_proposes_once_over_http(client: httpx.AsyncClient) -> None:
    headers = {"Idempotency-Key": "once"}
    replies = [await sent(client, "proposer", "POST", "/v1/store/propose", {"text": TEXT}, **headers) for _ in range(2)]
    assert replies[0].json() == replies[1].json()
    other = await sent(client, "proposer", "POST", "/v1/store/propose", {"text": "Something else"}, **headers)
    assert other.status_code == 422


@pytest.mark.feature("an agent with a proposer's key is told by MCP's memory_store to use memory_propose, and can")
async def test_an_agent_with_a_proposers_key_proposes(client: httpx.AsyncClient) -> None:
    async def called(tool: str, **arguments: Any) -> dict[str, Any]:
        call = {"name": tool, "arguments": arguments}
        body = {"jsonrpc": "2.0", "id": 1, "method": "tools/call", "params": call}
        accept = {"accept": "application/json, text/event-stream"}
        found: dict[str, Any] = (await sent(client, "proposer", "POST", "/mcp", body, **accept)).json()["result"]
        return found

    for tool in ("memory_store", "memory_append"):
        refused = await called(tool, text=TEXT, user_id="nadia")
        assert refused["isError"]
        assert "needs the role writer" in refused["content"][0]["text"]
        assert "propose it: memory_propose" in refused["content"][0]["text"]
    done = await called("memory_propose", text=TEXT, user_id="nadia", reason="she said so")
    assert done["structuredContent"]["writes_performed"] is False
    assert "nothing is remembered yet" in done["content"][0]["text"]
    (one,) = (await sent(client, "operator", "GET", "/v1/proposals")).json()["proposals"]
    assert (one["proposed_by"], one["scope"]["user_id"], one["reason"]) == ("proposer", "nadia", "she said so")


async def test_the_text_of_a_proposal_is_in_its_table_alone(client: httpx.AsyncClient, home: Path) -> None:
    await proposed(client)
    with closing(sqlite3.connect(home / "journal.sqlite")) as db:
        tables = {line.split('"')[1] for line in db.iterdump() if TEXT in line and line.startswith("INSERT")}
    assert tables == {"proposal"}
