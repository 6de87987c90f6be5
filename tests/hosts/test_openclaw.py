"""OpenClaw itself with our plugin, in its gateway against a scripted model: `make test-hosts`."""

from __future__ import annotations

import json
import re
import shutil
import subprocess
import time
from collections.abc import Iterator
from pathlib import Path

import pytest

from fusion.client import Client
from tests import typescript
from tests.doors.fakes import server_stopped
from tests.hosts import hosts, openclaw_gateway
from tests.hosts.hosts import World
from tests.hosts.openclaw_gateway import Gateway
from tests.hosts.scripted_model import ScriptedModel, ToolCall, in_order

pytestmark = [
    pytest.mark.hosts,
    pytest.mark.timeout(900),
    pytest.mark.skipif(openclaw_gateway.TOOLS is None, reason="run by `make test-hosts`"),
]

PATIENT_MS = 14_000
"""for a prompt: OpenClaw gives the hook 15 s"""
KEPT_S = 120.0
MILL, ASKED = "The mill at the harbour is closed in March.", "When is the mill at the harbour closed?"
POSTER = "The poster says: the mill at the harbour opens at nine."
ANSWER = "Only in March."
BLOCK = re.compile(r"## Long-Term Memories\n.*?--- End of memories (\w+): [^\n]*---", re.DOTALL)


def plugin_of(world: World, **more: object) -> dict[str, object]:
    return {"home": str(world.home), "command": str(world.command), "recallTimeoutMs": PATIENT_MS, **more}


COMPANION, SLOT = "memory-fusion", "memory-fusion-slot"
FOLDERS = {COMPANION: openclaw_gateway.FOLDER, SLOT: openclaw_gateway.FOLDER / "slot"}
TOOLS = {COMPANION: "fusion", SLOT: "memory"}
"""what the names of its tools begin with"""
FLUSH_BYTES, FLUSH = 40_000, "Save now what Ada will need later."


@pytest.fixture(scope="module", params=FOLDERS)
def plugin(request: pytest.FixtureRequest) -> str:
    return str(request.param)


@pytest.fixture(scope="module")
def world(tmp_path_factory: pytest.TempPathFactory, plugin: str) -> Iterator[World]:
    """A home in which one memory is of a group, and two are of other users.

    With the companion the server also follows OpenClaw's sessions; with the slot only the plugin reads them.
    """
    folder = tmp_path_factory.mktemp("openclaw")
    follow = f'[sessions]\npaths = ["{folder / "ada" / ".openclaw" / "agents"}"]\n'
    flush = f'[flush]\nforce_transcript_bytes = {FLUSH_BYTES}\nprompt = "{FLUSH}"\n'
    found = hosts.world_in(folder, follow if plugin == COMPANION else flush)
    with server_stopped(found.home), Client.of_home(found.home) as client:
        sister = "{} closed the mill at the harbour for her sister."
        users = [{"text": sister.format(user), "user_id": user} for user in ("berit", "cilla")]
        client.remember([{"text": MILL, "audience": "private"}, {"text": POSTER, "audience": "group"}, *users])
        client.settle(60)
        yield found


@pytest.fixture(scope="module")
def model() -> Iterator[ScriptedModel]:
    with ScriptedModel(in_order(ANSWER)) as served:
        yield served


@pytest.fixture(scope="module")
def claw(world: World, model: ScriptedModel, plugin: str) -> Iterator[Gateway]:
    slot = plugin if plugin == SLOT else None
    with Gateway(world, model, {plugin: plugin_of(world)}, [FOLDERS[plugin]], slot) as running:
        yield running


def tool_result(claw: Gateway, model: ScriptedModel, session: str, tool: str, args: dict[str, object]) -> str:
    """What the model reads after it has called a tool, which OpenClaw offers by its `tool_call`."""
    before = len(model.shown)
    model.answer = in_order(ToolCall("tool_call", {"id": tool, "args": args}), ANSWER)
    try:
        claw.turn(f"Please call {tool} now.", session)
    finally:
        model.answer = in_order(ANSWER)
    return [part.text for part in model.shown_after(before, KEPT_S)[-1].parts if part.role == "tool"][-1]


def kept(world: World) -> list[str]:
    with Client.of_home(world.home) as client:
        client.settle(60)
        return [row["text"] for row in client.memories(limit=100)["memories"]]


def kept_after(world: World, *texts: str) -> list[str]:
    """All memories once these are present; those that are present if these do not come."""
    deadline = time.monotonic() + KEPT_S
    while not set(texts) <= set(found := kept(world)) and time.monotonic() < deadline:
        pass
    return found


@pytest.mark.feature("OpenClaw's gateway shows its model the block once, as it is, and nothing of another user")
def test_openclaw_shows_the_block_once(world: World, claw: Gateway, model: ScriptedModel) -> None:
    before = len(model.shown)
    assert ANSWER in claw.turn(ASKED)
    [shown] = model.shown_after(before, KEPT_S)
    [found] = BLOCK.finditer(shown.text)
    with Client.of_home(world.home) as client:
        block = client.fuse(ASKED, recipe="seed002", user_id="")["block"]
    [own] = BLOCK.finditer(block)
    assert found.group() == block.replace(own[1], found[1])
    assert MILL in block
    assert found.group() in shown.of_role("system")
    assert "sister" not in shown.text


@pytest.mark.feature("OpenClaw's turns are remembered once, also by a server that follows its sessions")
def test_openclaw_turns_are_remembered_once(world: World, claw: Gateway) -> None:
    """Read by the plugin's hook, by the server that follows the folder, and by hand; the block is not among them."""
    said = "Teo repairs the mill with Ines."
    claw.turn(said, "once")
    texts = kept_after(world, said)
    words = [str(world.command), "ingest", str(claw.state / "agents"), "--home", str(world.home)]
    subprocess.run(words, env=world.environment(), check=True, capture_output=True)
    assert sorted(kept(world)) == sorted(texts)
    assert texts.count(said) == 1
    assert not any("Long-Term Memories" in text for text in texts)


@pytest.mark.feature("OpenClaw: a group's session is shown what is for groups, and no private memory")
def test_openclaw_group_gets_no_private_memory(claw: Gateway, model: ScriptedModel) -> None:
    before = len(model.shown)
    claw.turn(ASKED, "telegram:group:42")
    [shown] = model.shown_after(before, KEPT_S)
    assert POSTER in shown.text
    assert MILL not in shown.text


@pytest.mark.feature("OpenClaw: `/new` and a compaction keep what was said")
def test_openclaw_keeps_what_was_said_before_new_and_compaction(world: World, claw: Gateway) -> None:
    first, second = "The baker at the quay is called Oda.", "Her oven came from Bergen in May."
    claw.turn(first, "new")
    claw.turn("/new", "new")
    claw.turn(second, "new")
    done = claw.run("sessions", "compact", "agent:main:new")
    assert done.returncode == 0, done.stderr
    texts = kept_after(world, first, second)
    assert [texts.count(one) for one in (first, second)] == [1, 1]


@pytest.mark.feature("OpenClaw: its model stores, recalls and forgets by tools, each in the audience of its session")
def test_openclaws_model_calls_the_tools(world: World, claw: Gateway, model: ScriptedModel, plugin: str) -> None:
    """A group may neither recall nor forget what a person's session has stored."""
    store, recall, forget = (f"{TOOLS[plugin]}_{name}" for name in ("store", "recall", "forget"))
    told = "The spare key of the mill hangs behind the barometer."
    asked = {"query": "where does the spare key of the mill hang?"}
    stored = tool_result(claw, model, "tools", store, {"text": told})
    [ref] = re.findall(r"Stored: (m\w+)", stored)
    assert told in tool_result(claw, model, "tools", recall, asked)
    assert told not in tool_result(claw, model, "telegram:group:43", recall, asked)
    tool_result(claw, model, "telegram:group:43", forget, {"ref": ref})
    assert told in kept(world)
    tool_result(claw, model, "tools", forget, {"ref": ref})
    assert told not in kept(world)


@pytest.mark.feature("OpenClaw's memory_search and memory_get reach our memories, from the slot or by corpus all")
def test_openclaws_memory_search_reaches_ours(claw: Gateway, model: ScriptedModel, plugin: str) -> None:
    """In a group those of the group alone; the prompt says how to ask."""
    corpus = {"corpus": "all"} if plugin == COMPANION else {}
    found = tool_result(claw, model, "search", "memory_search", {"query": ASKED, **corpus})
    assert MILL in found
    path = re.findall(r'"path\W+(m\w+)', found)[0]
    read = tool_result(claw, model, "search", "memory_get", {"path": path, **corpus})
    assert any(text in read for text in (MILL, POSTER))
    hint = 'corpus "all"' if plugin == COMPANION else "All memories are reached by memory_search"
    assert hint in model.main[-1].of_role("system")
    assert MILL not in tool_result(claw, model, "telegram:group:44", "memory_search", {"query": ASKED, **corpus})


@pytest.mark.feature("OpenClaw runs the flush before a compaction by our plan, from the slot")
def test_openclaw_flushes_by_our_plan(claw: Gateway, model: ScriptedModel, plugin: str) -> None:
    """Once the session's transcript has the size that the home's settings name."""
    if plugin == COMPANION:
        pytest.skip("the flush belongs to the slot")
    claw.turn("A long letter: " + "the mill by the sea, " * (FLUSH_BYTES // 10), "flush")
    sent = {"sessionKey": "agent:main:flush", "message": "And who wrote it?", "idempotencyKey": "flush-1"}
    done = claw.run("gateway", "call", "chat.send", "--params", json.dumps(sent))
    assert done.returncode == 0, done.stderr
    flush = model.shown_with(FLUSH, KEPT_S)
    assert "Store durable memories only in memory/" in flush.text
    assert model.shown_with(sent["message"], KEPT_S)  # the next test begins after this turn


@pytest.mark.feature("OpenClaw's heartbeat is shown no memories, and is not remembered")
def test_openclaws_heartbeat_is_skipped(world: World, claw: Gateway, model: ScriptedModel) -> None:
    event = "When is the mill at the harbour closed? Look at it in this heartbeat."
    done = claw.run("system", "event", "--mode", "now", "--text", event)
    assert done.returncode == 0, done.stderr
    assert not BLOCK.search(model.shown_with(event, KEPT_S).text)
    claw.turn("The heartbeat of the mill is over.", "after")
    assert not any(event in text for text in kept_after(world, "The heartbeat of the mill is over."))


@pytest.mark.feature("OpenClaw, connected by `fusion connect openclaw`, recalls with `--local`, and is given back")
def test_openclaw_is_connected_by_our_command(tmp_path: Path, model: ScriptedModel) -> None:
    """The undo leaves the very same settings. In between, a home that is gone costs the turn an empty context."""
    user = hosts.world_in(tmp_path)
    claw = Gateway(user, model, {}, [])
    claw.prepare()
    before = claw.settings.read_text()
    with server_stopped(user.home):
        with Client.of_home(user.home) as client:
            client.remember([{"text": MILL}])
            client.settle(60)
        connect(user)
        connected = claw.settings.read_text()
        patient = connected.replace('"config": {', f'"config": {{"recallTimeoutMs": {PATIENT_MS},')
        claw.settings.write_text(patient)
        assert MILL in shown_locally(claw, model)
        claw.settings.write_text(connected.replace(str(user.home), f"{user.home}-gone"))
        assert MILL not in shown_locally(claw, model)
        claw.settings.write_text(connected)
        connect(user, "--undo")
        assert claw.settings.read_text() == before


def connect(world: World, *options: str) -> None:
    words = [str(world.command), "connect", "openclaw", "--home", str(world.home), *options]
    done = subprocess.run(words, env=world.environment(), check=False, capture_output=True, text=True)
    assert done.returncode == 0, done.stderr


def shown_locally(claw: Gateway, model: ScriptedModel) -> str:
    """What the model is shown in a turn without a gateway."""
    before = len(model.shown)
    done = claw.run("agent", "--local", "--agent", "main", "--message", ASKED)
    assert ANSWER in done.stdout, done.stderr
    [shown] = model.shown_after(before, KEPT_S)
    return shown.text


@pytest.mark.feature("OpenClaw: tsc accepts both plugins as strict JavaScript against OpenClaw's own types")
def test_openclaw_plugins_are_checked_against_its_types(tmp_path: Path) -> None:
    assert openclaw_gateway.TOOLS is not None
    tsc, folder = typescript.tools() / "tsc", tmp_path / "openclaw"
    shutil.copytree(openclaw_gateway.FOLDER, folder)
    shutil.copytree(typescript.FOLDER, tmp_path / "typescript")
    modules = tmp_path / "node_modules"
    modules.mkdir()
    (modules / "openclaw").symlink_to(openclaw_gateway.TOOLS.parent / "openclaw")
    (modules / "@types").symlink_to(typescript.TOOLS / "node_modules" / "@types")
    done = subprocess.run([tsc, "-p", folder], check=False, capture_output=True, text=True)
    assert (done.returncode, done.stdout) == (0, "")
