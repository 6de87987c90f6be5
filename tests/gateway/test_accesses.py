"""Who read, changed and forgot memories, as the gate and the calls of an open home note it."""

from __future__ import annotations

import inspect
import json
import sqlite3
from collections.abc import AsyncIterator, Mapping
from contextlib import AsyncExitStack, asynccontextmanager
from dataclasses import dataclass
from hashlib import sha256
from pathlib import Path
from typing import Any

import httpx
import pytest

from fusion.contract import Scope
from fusion.doors.http.app import create_app
from fusion.gateway.accesses import ACTIONS, NOT_NOTED, canonical
from fusion.gateway.backup import back_up, note
from fusion.gateway.gateway import Gateway
from fusion.home import tenant_folder
from fusion.journal.access_log import NAME
from tests.patience import load

SECRET = "The mill at the harbour is closed in March."
KEYS = {
    "phone": {"role": "reader"},
    "laptop": {"role": "operator", "all_users": True},
    "narrow": {"role": "operator"},
    "acme": {"tenant": "acme", "role": "operator", "all_users": True},
}


@dataclass(frozen=True)
class Home:
    """An open home, and a client for each of its keys."""

    gateway: Gateway
    of: Mapping[str, httpx.AsyncClient]

    async def log(self, key: str = "laptop", **more: object) -> list[dict[str, Any]]:
        """The access log without the entries for looking at it, the oldest first."""
        reply = await self.of[key].get("/v1/audit", params={"limit": 100, **more})
        assert reply.status_code == 200, reply.text
        return [one for one in reply.json()["accesses"] if one["call"] != "accesses"][::-1]

    async def remembered(self, text: str = SECRET, key: str = "laptop", **more: str) -> str:
        reply = await self.of[key].post("/v1/memories", json={"text": text, **more})
        await self.gateway.settle("default" if key != "acme" else "acme")
        return str(reply.json()["memories"][0]["ref"])


@asynccontextmanager
async def served(home: Path, others: Mapping[str, Mapping[str, Any]] = {}) -> AsyncIterator[Home]:
    """A home with the keys `KEYS` and others, each the text of its own name."""
    named = {**KEYS, **others}
    keys = [{"name": name, "sha256": sha256(name.strip().encode()).hexdigest(), **more} for name, more in named.items()]
    backends = {"memory": {"adapter": "adapters.inmemory:InMemory", "deadline_ms": 60_000}}
    settings = load(home=home, backends_only=True, embedder={"adapter": ""}, backends=backends, server={"keys": keys})
    async with Gateway.open(settings) as gateway, AsyncExitStack() as stack:
        transport = httpx.ASGITransport(create_app(gateway, settings, local_token="t"))
        clients = {}
        for name in (*named, "t"):
            head = {"authorization": f"Bearer {name}"}
            one = httpx.AsyncClient(transport=transport, base_url="http://localhost", headers=head)
            clients[name] = await stack.enter_async_context(one)
        yield Home(gateway, clients)


def test_every_call_is_noted_or_listed_as_showing_no_memory() -> None:
    """A new call of the gateway must say what it is."""
    calls = {name for name, one in inspect.getmembers(Gateway, inspect.isfunction) if hasattr(one, "__wrapped__")}
    calls -= {name for name in calls if name.startswith("_")} | {"open"}
    elsewhere = {"export", "import_export", "backup", "restore", "memory_file"}
    elsewhere |= {"promote_memory_file", "undo_promotion_of_memory_file", "restore_memory_file"}
    assert set(ACTIONS) - elsewhere | NOT_NOTED == calls
    assert not NOT_NOTED & set(ACTIONS)


@pytest.mark.feature("… each with its key, door, user, memories, outcome and request id", of="an access log by tenant")
async def test_what_a_key_does_is_noted(home: Path) -> None:
    async with served(home) as one:
        ref = await one.remembered(user_id="ana")
        laptop, phone = one.of["laptop"], one.of["phone"]
        await phone.get(f"/v1/memories/{ref}", params={"user_id": "ana"}, headers={"x-request-id": "call-7"})
        await phone.get("/v1/memories", params={"user_id": "ana"})
        answer = await phone.post("/v1/fuse", json={"query": "when is the mill closed?", "user_id": "ana"})
        changed = await laptop.post("/v1/state", json={"ref": ref, "archived": True})
        await laptop.get("/v1/export")
        await phone.delete(f"/v1/memories/{ref}")  # its role refuses: nothing was read
        await laptop.post("/v1/forget", json={"refs": [ref], "dry_run": True})
        await laptop.delete(f"/v1/memories/{ref}")
        await phone.get(f"/v1/memories/{ref}")
        found = await one.log()
    shown = [(e["action"], e["call"], e["key"], e["outcome"], e["refs"]) for e in found]
    assert shown == [
        ("remember", "remember", "laptop", "ok", [ref]),
        ("read", "memory", "phone", "ok", [ref]),
        ("list", "memories", "phone", "ok", [ref]),
        ("ask", "fuse", "phone", "ok", []),
        ("state", "set_state", "laptop", "ok", [ref]),
        ("export", "export", "laptop", "ok", []),
        ("forget", "forget_many", "laptop", "preview", [ref]),
        ("forget", "forget", "laptop", "ok", [ref]),
        ("read", "memory", "phone", "NotFound", [ref]),
    ]
    read, asked, state = found[1], found[3], found[4]
    assert (read["user_id"], read["door"], read["role"], read["request_id"]) == ("ana", "http", "reader", "call-7")
    assert read["key_id"] == sha256(b"phone").hexdigest()[:8]
    assert asked["receipt_id"] == answer.json()["receipt_id"]
    assert state["decision"] == changed.json()["decision"]["id"]


@pytest.mark.feature(
    "… also after a restart, and when the memory is forgotten, without its text",
    of="an access log by tenant",
)
async def test_entries_outlive_the_memory_and_have_no_text(home: Path) -> None:
    async with served(home) as one:
        ref = await one.remembered()
        await one.of["phone"].post("/v1/fuse", json={"query": "when is the mill closed?", "all_users": False})
        await one.of["phone"].get("/v1/memories/the mill is closed")  # no ref, so it may be any text
        await one.of["phone"].get("/v1/receipts/the mill is closed")
        await one.of["laptop"].delete(f"/v1/memories/{ref}")
    async with served(home) as one:
        assert [e["call"] for e in await one.log()] == ["remember", "fuse", "memory", "receipt", "forget"]
        assert [e["call"] for e in await one.log(ref=ref)] == ["remember", "fuse", "forget"]
        assert [e["call"] for e in await one.log(ref=ref.upper(), action="forget")] == ["forget"]
        assert (await one.log())[2]["refs"] == []
        assert (await one.log())[3]["receipt_id"] is None
    for file in home.glob(f"{NAME}*"):
        for word in (b"mill", b"closed", b"harbour"):
            assert word not in file.read_bytes(), (file, word)


async def test_a_tail_of_answers_is_noted_when_it_shows_some(home: Path) -> None:
    async with served(home) as one:
        phone = one.of["phone"]
        await phone.get("/v1/receipts")
        await phone.post("/v1/fuse", json={"query": "when is the mill closed?"})
        first = (await phone.get("/v1/receipts")).json()
        for _ in range(3):
            assert (await phone.get("/v1/receipts", params={"after": first["latest"]})).json()["receipts"] == []
        assert (await phone.get("/v1/receipts", params={"after": "c1", "limit": 0})).status_code == 422
        assert [e["call"] for e in await one.log()] == ["fuse", "receipts_page"]


@pytest.mark.feature("… of one's own tenant alone, for the role operator", of="an access log by tenant")
async def test_a_tenant_sees_its_own_accesses(home: Path) -> None:
    async with served(home) as one:
        mine = await one.remembered()
        theirs = await one.remembered("Acme keeps bees.", key="acme", user_id="bo")
        assert [(e["key"], e["refs"]) for e in await one.log("acme")] == [("acme", [theirs])]
        assert [(e["key"], e["refs"]) for e in await one.log()] == [("laptop", [mine])]
        await one.of["t"].get("/v1/export")
        assert [(e["action"], e["key"]) for e in await one.log("acme")][1:] == [("export", "owner")]
        refused = await one.of["phone"].get("/v1/audit", params={"user_id": "ana"})
        assert (refused.status_code, "needs the role operator" in refused.text) == (403, True)
        narrow = await one.of["narrow"].get("/v1/audit")
        assert (narrow.status_code, "all_users" in narrow.text) == (422, True)
        assert await one.log("narrow", user_id="bo") == []


async def test_what_no_request_asks_is_not_noted(home: Path) -> None:
    """Nor is what follows a request in the same task: its caller ends with it."""
    async with served(home) as one:
        ref = await one.remembered()
        await one.gateway.memory(ref, Scope())
        assert [e["call"] for e in await one.log()] == ["remember"]


async def test_an_audit_can_be_limited_to_a_time(home: Path) -> None:
    async with served(home) as one:
        await one.remembered()
        assert len(await one.log(since="2020-01-01")) == 1
        assert await one.log(since="2999-01-01") == []
        wrong = await one.of["laptop"].get("/v1/audit", params={"action": "steal"})
        assert wrong.status_code == 422


async def test_what_a_call_does_inside_is_a_part_of_it(home: Path) -> None:
    async with served(home) as one:
        refs = [await one.remembered(), await one.remembered("The lighthouse is painted red.")]
        await one.of["phone"].post("/v1/records", json={"refs": refs})
        (entry,) = (await one.log())[2:]
        assert (entry["call"], sorted(entry["refs"]), entry["count"]) == ("records", sorted(refs), 2)


@pytest.mark.feature(
    "… through every door: MCP, the routes of other systems, the inspector", of="an access log by tenant"
)
async def test_the_door_is_noted(home: Path) -> None:
    async with served(home) as one:
        ref = await one.remembered()
        call = {"name": "memory_get", "arguments": {"ref": ref}}
        body = {"jsonrpc": "2.0", "id": 1, "method": "tools/call", "params": call}
        head = {"accept": "application/json, text/event-stream"}
        await one.of["phone"].post("/mcp", json=body, headers=head)
        await one.of["phone"].get("/mem0/v1/memories/", params={"user_id": "ana"})
        entries = (await one.log())[1:]
        assert ("mcp", "phone") in {(e["door"], e["key"]) for e in entries}
        assert "mem0" in {e["door"] for e in entries}


@pytest.mark.feature("an API key called owner is no owner: logs, decisions and `/v1/status` show it as an API key")
@pytest.mark.parametrize("name", ["owner", "Owner ", "anyone"])
async def test_a_key_of_a_reserved_name_is_shown_as_an_api_key(home: Path, name: str) -> None:
    shown = f"API key {name} ({sha256(name.strip().encode()).hexdigest()[:8]})"
    async with served(home, {name: {"all_users": True}}) as one:
        ref = await one.remembered()
        named = one.of[name]
        await named.get(f"/v1/memories/{ref}")
        await named.post("/v1/state", json={"ref": ref, "archived": True})
        await one.of["t"].get(f"/v1/memories/{ref}")
        entries = (await one.log())[1:]
        decided = (await one.of["t"].get("/v1/decisions")).json()["decisions"][0]
        caller = (await named.get("/v1/status")).json()["caller"]
        link = (await named.post("/v1/inspector/links", json={})).json()["path"]
        session = (await named.post("/v1/inspector/sessions", json={"code": link.partition("=")[2]})).json()["token"]
        page = {"authorization": f"Bearer {session}"}
        memory_file = await named.get("/v1/inspector/memory-file", headers=page)
    assert [(e["call"], e["key"]) for e in entries[:3]] == [
        ("memory", shown),
        ("set_state", shown),
        ("memory", "owner"),
    ]
    assert (decided["who"], caller["name"]) == (f"key {shown}", shown)
    assert memory_file.status_code == 403  # it is for the home's owner alone


async def test_a_client_cannot_say_who_it_is(home: Path) -> None:
    """Neither a header nor a name with controls gets into an entry."""
    forged = {"user-agent": "owner\x1b[31m", "x-key-name": "owner", "x-forwarded-for": "1.2.3.4", "x-request-id": "a b"}
    async with served(home) as one:
        ref = await one.remembered()
        await one.of["phone"].get(f"/v1/memories/{ref}", headers=forged)
        refused = await one.of["phone"].get("/v1/memories", params={"user_id": "ana\n2026 owner\x1b[31m"})
        assert refused.status_code == 422
        await one.of["phone"].get("/v1/memories/m1%1b[31m%0a")
        entries = (await one.log())[1:]
    assert {e["key"] for e in entries} == {"phone"}
    assert "\\u001b" not in json.dumps(entries)
    assert "1.2.3.4" not in json.dumps(entries)
    assert all(e["request_id"].isalnum() for e in entries)


async def test_a_log_that_cannot_be_written_keeps_nobody_from_reading(home: Path) -> None:
    """The reply about the accesses says what is wrong."""
    home.mkdir(mode=0o700)
    async with served(home) as one:
        ref = await one.remembered()
        assert len(await one.log()) == 1
        blocked = sqlite3.connect(home / NAME, isolation_level=None)
        blocked.execute("create trigger full before insert on access begin select raise(abort, 'disk is full'); end")
        for _ in range(3):
            assert (await one.of["phone"].get(f"/v1/memories/{ref}")).status_code == 200
        about = (await one.of["laptop"].get("/v1/audit")).json()
        assert "disk is full" in about["fault"]
        assert about["waiting"] >= 3
        blocked.execute("drop trigger full")
        blocked.close()
        assert [e["call"] for e in await one.log()].count("memory") == 3
        assert (await one.of["laptop"].get("/v1/audit")).json()["fault"] == ""


@pytest.mark.feature("… with backups of the home, which have the log", of="an access log by tenant")
async def test_a_backup_is_noted_for_each_tenant_and_has_the_log(home: Path, tmp_path: Path) -> None:
    async with served(home) as one:
        await one.remembered()
        await one.remembered("Acme keeps bees.", key="acme")
        await one.log()
        await one.log("acme")
        made = back_up(home, tmp_path / "backup")
        note(home, "backup", made)
        for key in ("laptop", "acme"):
            last = (await one.log(key))[-1]
            assert (last["action"], last["call"], last["key"], last["door"]) == ("export", "backup", "owner", "cli")
    inside = tenant_folder(tmp_path / "backup", "acme")
    assert {file.path for file in made.files} >= {NAME, (inside / NAME).relative_to(tmp_path / "backup").as_posix()}


def test_only_what_has_the_form_of_a_ref_is_one() -> None:
    assert [canonical(one) for one in ("M1Z", "mlo", "ep:3", "XABCDEFGHIJ")] == ["m1z", "m10", "ep:3", "xabcdefghij"]
    for text in ("", "m", "the mill", "m" * 40, "ep:x", "x\x1b[31m------", "xärger12345", "x0123 56789"):
        assert canonical(text) is None, text
