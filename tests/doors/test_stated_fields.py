"""What a memory's caller may state besides its text, at each door: how long it lasts, how sure, important, trusted."""

from __future__ import annotations

import json
from collections.abc import AsyncIterator, Mapping
from datetime import datetime, timedelta
from hashlib import sha256
from pathlib import Path
from typing import Any

import httpx
import pytest
from mcp import Client
from typer.testing import CliRunner

from fusion.client import AsyncClient
from fusion.contract import Event, Scope
from fusion.doors.cli import app
from fusion.doors.http.app import create_app
from fusion.doors.mcp.server import tools_server
from fusion.doors.mcp.tools import Caller
from fusion.doors.memory_batches import wire_form
from fusion.errors import BadInput, NotFound
from fusion.gateway.gateway import Gateway
from fusion.ingest.intake import NewMemory
from fusion.lib.annotations import Annotations
from fusion.lib.stated_fields import annotated, from_stated, to_stated
from fusion.sources.readers import read
from fusion.trust import allow
from fusion.trust.token import reader_key
from tests.doors.contract import Checked
from tests.doors.fakes import SMALL
from tests.gateway.helpers import small
from tests.patience import load

TEXT = "The staging database listens on port 5433."
STATED: Mapping[str, Any] = {
    "lifetime": "ttl",
    "ttl_seconds": 7200.0,
    "confidence": 0.9,
    "importance": 0.8,
    "trust": "untrusted",
    "tags": ["ops", "on call"],
}
SHOWN = {"lifetime": "ttl", "confidence": 0.9, "importance": 0.8, "tags": ["ops", "on call"]}
"""the state of such a memory"""


BAD_TAGS = ("a\0b", "a\nb", "a\tb", "a\x1bb", "a\u2028b", "a\u200bb", "a\U0010ffffb")
"""tags that are no line of visible characters"""


@pytest.fixture
async def gateway(tmp_path: Path) -> AsyncIterator[Gateway]:
    async with Gateway.open(small(tmp_path / "home")) as gateway:
        yield gateway


@pytest.fixture
async def client(gateway: Gateway) -> AsyncIterator[AsyncClient]:
    transport = Checked(create_app(gateway, gateway.settings))
    async with AsyncClient.over(transport) as client:
        yield client


def check(memory: Mapping[str, Any]) -> None:
    """The memory has all that was stated, and ends two hours after it was stored."""
    assert (memory["text"], memory["trust"]) == (TEXT, "untrusted")
    assert {name: memory["state"][name] for name in SHOWN} == SHOWN
    ends, stored = (datetime.fromisoformat(memory[name]) for name in ("valid_to", "recorded_at"))
    assert ends - stored == timedelta(hours=2)


@pytest.mark.row(
    "A049", "lifetime, seconds to live, confidence, importance, trust, tags and metadata are stated over HTTP"
)
async def test_http_and_client_take_what_is_stated(client: AsyncClient) -> None:
    metadata = {"ticket": "OPS-7", "hosts": ["a", "b"], "n": 3}
    given = {"text": TEXT, "user_id": "ada", "project": "harbour", **STATED, "metadata": metadata}
    [kept] = (await client.remember(given))["memories"]
    memory = await client.memory(kept["ref"], user_id="ada")
    check(memory)
    assert memory["metadata"] == metadata
    [again] = (await client.remember({"text": TEXT, "user_id": "ada"}))["memories"]
    plain = await client.memory(again["ref"], user_id="ada")
    assert (plain["trust"], plain["state"]) == ("unknown", {})


@pytest.mark.row("A049", "… and with `memory_store`", of="lifetime, seconds to live")
async def test_mcp_takes_what_is_stated(client: AsyncClient) -> None:
    async def caller_of(context: Any) -> Caller:
        return Caller(client, {"user_id": "ada"})

    async with Client(tools_server(caller_of)) as tools:
        kept = await tools.call_tool("memory_store", {"text": TEXT, "project": "harbour", **STATED})
        assert kept.structured_content is not None
        raised = await tools.call_tool("memory_store", {"text": TEXT, "trust": "trusted"})
        assert raised.is_error
        ref = kept.structured_content["ref"]
        read = await tools.call_tool("memory_get", {"ref": ref})
        assert not read.is_error
    check(await client.memory(ref, user_id="ada"))


@pytest.mark.row("A049", "… and with `fusion remember`", of="lifetime, seconds to live")
def test_command_takes_what_is_stated(tmp_path: Path) -> None:
    (tmp_path / "fusion.toml").write_text(SMALL)
    allow(tmp_path)
    home = ["--home", str(tmp_path), "--direct", "--json", "--user", "ada"]
    options = [
        *("--lifetime", "ttl", "--ttl-seconds", "7200", "--confidence", "0.9", "--importance", "0.8"),
        *("--trust", "untrusted", "--tag", "ops", "--tag", "on call", "--project", "harbour"),
    ]
    kept = CliRunner().invoke(app, ["remember", TEXT, *options, *home])
    assert kept.exit_code == 0, kept.output
    [memory] = json.loads(kept.stdout)["memories"]
    check(json.loads(CliRunner().invoke(app, ["get", memory["ref"], *home]).stdout))


@pytest.mark.row(
    "A049", "… and in a line of JSONL, which may lower its trust and never raise it", of="lifetime, seconds"
)
async def test_line_of_jsonl_takes_what_is_stated(client: AsyncClient, tmp_path: Path) -> None:
    """What other programs write under these names, in another form, is left out and reported."""
    rows = [
        {"text": TEXT, **STATED, "metadata": {"n": 1}},
        {"text": "Ana is on call.", "trust": "trusted", "tags": "ops", "confidence": "high", "importance": True},
        {"text": "Bob is off.", "ttl_seconds": 60, "lifetime": "session", "metadata": []},
        {"text": "Eve is away.", "ttl_seconds": 60, "valid_to": "2099-01-31"},
    ]
    path = tmp_path / "rows.jsonl"
    path.write_text("".join(json.dumps(row) + "\n" for row in rows))
    found = [*read([path], Scope(user_id="ada"))]
    memories = [one for one in found if isinstance(one, NewMemory)]
    [skip] = [one for one in found if not isinstance(one, NewMemory)]
    assert skip.reason == "unknown fields were left out: confidence, importance, metadata, tags, trust"
    kept = await client.remember([wire_form(one) for one in memories])
    refs = [one["ref"] for one in kept["memories"]]
    first, second, third, fourth = [await client.memory(ref, user_id="ada") for ref in refs]
    check(first)
    assert first["metadata"] == {"n": 1}
    assert (second["trust"], second["state"]) == ("unknown", {})
    assert (third["state"], "valid_to" in third) == ({"lifetime": "session"}, False)
    assert fourth["valid_to"].startswith("2099-01-31")


@pytest.mark.feature(
    "only the owner states that a memory is trusted: no agent, no tool, no import and no reader of files"
)
async def test_trust_is_raised_by_the_owner_alone(client: AsyncClient, gateway: Gateway, tmp_path: Path) -> None:
    owner = {"text": TEXT, "trust": "trusted", "user_id": "ada"}
    [kept] = (await client.remember(owner))["memories"]
    assert (await client.memory(kept["ref"], user_id="ada"))["trust"] == "trusted"
    for origin in ("agent", "tool", "import", "system"):
        with pytest.raises(BadInput, match="only the owner can say trusted"):
            await client.remember({**owner, "origin": origin})
        lowered = {**owner, "trust": "quarantined", "origin": origin, "text": f"{TEXT} {origin}"}
        assert (await client.remember(lowered))["memories"][0]["status"] == "stored"
    with pytest.raises(BadInput, match="only the owner can say trusted"):
        await client.remember({**owner, "read_from": str(tmp_path / "a.jsonl")})
    with pytest.raises(BadInput, match="a reader of files"):
        await client.remember(owner, reader=reader_key(gateway.settings.home))
    await gateway.settle()
    block = (await client.fuse("which port does the staging database listen on?", user_id="ada"))["block"]
    assert (TEXT in block, "tool" in block) == (True, False)


@pytest.mark.feature(
    "only the owner raises the trust of a memory or changes a trusted text: an API key without all_users may lower "
    "trust, and undo nothing that did"
)
async def test_an_ordinary_key_raises_no_trust(tmp_path: Path) -> None:
    keys = [
        {"name": name, "sha256": sha256(name.encode()).hexdigest(), "all_users": name == "owner"}
        for name in ("owner", "agent")
    ]
    settings = load(
        home=tmp_path / "home",
        backends_only=True,
        embedder={"adapter": ""},
        backends={"one": {"adapter": "adapters.inmemory:InMemory"}},
        server={"keys": keys},
    )
    async with Gateway.open(settings) as gateway:
        transport = Checked(create_app(gateway, gateway.settings))
        async with (
            AsyncClient.over(transport, api_key="owner") as owner,
            AsyncClient.over(transport, api_key="agent") as agent,
        ):
            ref = (await agent.remember({"text": TEXT}))["memories"][0]["ref"]
            with pytest.raises(BadInput, match="only the owner can say trusted"):
                await agent.remember({"text": TEXT + " Always.", "trust": "trusted"})
            with pytest.raises(BadInput, match=f"raise that of {ref} from unknown to trusted"):
                await agent.set_state(ref, trust="trusted", importance=0.9)
            assert (await owner.memory(ref))["state"] == {}, "nothing of a refused request holds"
            lowered = (await agent.set_state(ref, trust="quarantined"))["decision"]
            assert lowered is not None
            for trust in ("untrusted", "unknown", "trusted"):
                with pytest.raises(BadInput, match=f"raise that of {ref} from quarantined"):
                    await agent.set_state(ref, trust=trust)
            with pytest.raises(BadInput, match=f"raise that of {ref} from quarantined"):
                await agent.undo_decision(lowered["id"])
            await owner.undo_decision(lowered["id"])
            await owner.set_state(ref, trust="trusted")
            assert (await owner.memory(ref))["state"]["trust"] == "trusted"
            for key, origin in ((agent, "owner"), (agent, "agent"), (owner, "agent")):
                with pytest.raises(BadInput, match=f"{ref} is trusted, so only the owner can change what it says"):
                    await key.update(ref, TEXT + " Or so.", origin=origin)
            said = await owner.update(ref, TEXT + " Always.")
            assert (await owner.memory(said["ref"]))["state"]["trust"] == "trusted"
            await agent.set_state(ref, trust="unknown")
            kept = await owner.remember({"text": TEXT + " Always.", "trust": "trusted"})
            assert kept["memories"][0]["status"] == "stored"


@pytest.mark.parametrize(
    ("given", "said"),
    [
        ({"ttl_seconds": 0}, "ttl_seconds"),
        ({"ttl_seconds": 60, "lifetime": "session"}, "ttl_seconds: it is for lifetime ttl, not session"),
        ({"ttl_seconds": 60, "valid_to": "2030-01-01"}, "both say when it ends"),
        ({"confidence": 1.1}, "confidence"),
        ({"importance": "huge"}, "importance: give a number from 0 to 1"),
        ({"importance": 7}, "importance: give a number from 0 to 1"),
        ({"importance": True}, "importance: give a number from 0 to 1"),
        ({"provenance": {"kind": "url", "ref": "notes/db.md#L3"}}, "provenance: give a reference"),
        ({"provenance": "two\nlines"}, "provenance: give a reference"),
        ({"provenance": "https://example.org/?api_key=AKIAIOSFODNN7EXAMPLE"}, "provenance has a secret in it"),
        ({"priority": "P9"}, "priority"),
        ({"due": "soon"}, "due: write ISO 8601"),
        ({"trust": "holy"}, "trust"),
        ({"tags": [""]}, "tags"),
        ({"tags": ["x"] * 65}, "tags"),
        *(({"tags": ["x", tag]}, r"tags\[1\]: has a line break, a tab or an invisible") for tag in BAD_TAGS),
        ({"metadata": []}, "metadata"),
        ({"metadata": {"a": "x" * 5000}}, "metadata: at most 4096 characters"),
        ({"metadata": {"key": "AKIAIOSFODNN7EXAMPLE"}}, "metadata has a secret in it"),
    ],
)
async def test_wrong_values_are_refused(client: AsyncClient, given: dict[str, Any], said: str) -> None:
    with pytest.raises(BadInput, match=said):
        await client.remember({"text": TEXT, "user_id": "ada", **given})


@pytest.mark.feature("a tag is one line of visible characters at every door; one that is not is refused or left out")
@pytest.mark.parametrize("tag", BAD_TAGS)
async def test_every_door_refuses_a_tag_that_is_no_line(client: AsyncClient, tag: str) -> None:
    """A NUL in a tag of one memory broke lists and a job of all with PostgreSQL."""
    said = "has a line break, a tab or an invisible character"
    [kept] = (await client.remember({"text": TEXT, "tags": ["ops"]}))["memories"]
    with pytest.raises(BadInput, match=rf"tags\[0\]: {said}"):
        await client.set_state(kept["ref"], tags=[tag])
    with pytest.raises(BadInput, match=rf"tags\[0\]: {said}"):
        await client.propose({"text": TEXT, "tags": [tag]})

    async def caller_of(context: Any) -> Caller:
        return Caller(client, {})

    async with Client(tools_server(caller_of)) as tools:
        for tool in ("memory_store", "memory_propose"):
            sent = await tools.call_tool(tool, {"text": TEXT, "tags": [tag]})
            assert sent.is_error
            assert said in str(sent.content)
    assert (await client.memory(kept["ref"]))["state"]["tags"] == ["ops"]


@pytest.mark.parametrize("command", [["remember", TEXT], ["state", "m1"], ["propose", TEXT]])
def test_commands_refuse_a_tag_that_is_no_line(tmp_path: Path, command: list[str]) -> None:
    (tmp_path / "fusion.toml").write_text(SMALL)
    allow(tmp_path)
    run = CliRunner().invoke(app, [*command, "--tag", "a\nb", "--home", str(tmp_path), "--direct"])
    assert run.exit_code == 2, run.output
    assert "has a line break, a tab or an invisible character" in run.output


@pytest.mark.parametrize("tag", BAD_TAGS)
def test_stated_tags_that_are_no_line_do_not_count(tag: str) -> None:
    """An event of a version before, or of an export, may have one; a program that states one is refused."""
    with pytest.raises(BadInput, match="tags: one has a line break, a tab or an invisible character"):
        to_stated(tags=["ops", tag])
    now = datetime.now().astimezone()
    event = Event("e1", TEXT, now, stated=(("tag", "ops"), ("tag", tag)))
    assert from_stated(event) == {"tags": ("ops",)}
    assert from_stated(Event("e1", TEXT, now, stated=(("tag", tag),))) == {}


async def test_a_tag_is_taken_without_the_spaces_around_it(client: AsyncClient) -> None:
    [kept] = (await client.remember({"text": TEXT, "tags": [" on call\n"]}))["memories"]
    assert (await client.memory(kept["ref"]))["state"]["tags"] == ["on call"]
    assert to_stated(tags=["on call\n"]) == (("tag", "on call"),)


def test_a_tab_in_a_trigger_is_a_space_in_its_tag() -> None:
    assert annotated(Annotations(triggers=("gateway\tsetup", "gateway setup"))) == (("tag", "gateway setup"),)


async def test_memory_with_seconds_to_live_is_answered_until_then(gateway: Gateway) -> None:
    """The filter hides it at its end, before the nightly lifecycle has run."""
    ada = Scope(user_id="ada", audience="private")
    await gateway.remember([NewMemory(TEXT, scope=ada, stated=to_stated(ttl_seconds=3600))])
    await gateway.settle()
    asked = "which port does the staging database listen on?"
    [record] = (await gateway.fuse(asked, scope=ada)).memories
    assert record.members[0].text == TEXT
    later = datetime.now().astimezone() + timedelta(hours=2)
    assert not (await gateway.fuse(asked, scope=ada, as_of=later)).block


async def test_drop_in_route_of_the_cortex_takes_its_fields(tmp_path: Path) -> None:
    """`ttl_seconds`, `visibility` and `metadata` of openclaw-cortex's client."""
    async with Gateway.open(small(tmp_path / "home", cortex="adapters.cortex:Cortex")) as gateway:
        transport = httpx.ASGITransport(create_app(gateway, gateway.settings))
        async with httpx.AsyncClient(transport=transport, base_url="http://localhost") as http:
            sent = {"content": TEXT, "scope": "ttl", "ttl_seconds": 60, "visibility": "private", "metadata": {"n": 1}}
            stored = (await http.post("/compat/cortex/v1/remember", json=sent)).json()
            await gateway.settle()
            shown = (await http.get(f"/compat/cortex/v1/memories/{stored['id']}")).json()
            assert (shown["ttl_seconds"], shown["visibility"], shown["scope"]) == (60.0, "private", "ttl")
            wrong = await http.post("/compat/cortex/v1/remember", json={**sent, "visibility": "secret"})
            assert (wrong.status_code, wrong.json()["detail"]) == (422, "visibility: give private, shared or sensitive")
            hidden = {"content": "The vault is behind the boiler.", "visibility": "sensitive"}
            secret = (await http.post("/compat/cortex/v1/remember", json=hidden)).json()
            kept = await gateway.memory(secret["id"], Scope(audience="private"))
            assert kept["text"] == hidden["content"]
            with pytest.raises(NotFound):
                await gateway.memory(secret["id"], Scope(audience="group"))
        assert (await gateway.memory(stored["id"], Scope(audience="private")))["metadata"] == {"n": 1}
