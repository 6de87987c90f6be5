"""The provider in Hermes' own agent, which asks a scripted model, and with providers of Hermes behind it."""

from __future__ import annotations

import json
import logging
import re
import sqlite3
import sys
from collections.abc import Iterator, Mapping
from contextlib import closing
from pathlib import Path
from types import MappingProxyType
from typing import Any, ClassVar

import pytest
from run_agent import AIAgent

from fusion.integrations.agent_memory import AgentMemory
from fusion.integrations.hermes.__main__ import install, main
from fusion.integrations.hermes.provider import NAME, FusionProvider
from tests.frameworks.contract import ASKED, FACT, OPENING, REPLY, AgentContract, Host, spoken, tell, turns_of
from tests.hosts.scripted_model import Reply, ScriptedModel, ToolCall, in_order

pytestmark = pytest.mark.frameworks

PATIENT_MS = 7_000
"""the longest that the settings allow"""
BLOCK = re.compile(r'<memories nonce="(\w+)">.*?</memories nonce="\1">', re.DOTALL)
NOTING = """
import json
from pathlib import Path

from agent.memory_provider import MemoryProvider


class Noting(MemoryProvider):
    name = "{name}"

    def is_available(self):
        return True

    def initialize(self, session_id, **kwargs):
        self.path = Path(kwargs["hermes_home"], "{name}.log")
        self.note("initialize", kwargs.get("user_id"))

    def note(self, *what):
        with self.path.open("a") as file:
            file.write(json.dumps(what) + "\\n")

    def get_tool_schemas(self):
        parameters = {{"type": "object", "properties": {{}}}}
        return [{{"name": "{name}_ask", "description": "Asks {name}.", "parameters": parameters}}]

    def handle_tool_call(self, tool_name, args, **kwargs):
        return json.dumps("{name} says yes")

    def prefetch(self, query, *, session_id=""):
        {recall}

    def sync_turn(self, user_content, assistant_content, *, session_id=""):
        self.note("turn", user_content, assistant_content)

    def on_pre_compress(self, messages):
        return "keep what {name} knows"

    def on_session_end(self, messages):
        self.note("end", [one["content"] for one in messages], ["api_content" in one for one in messages])

    def shutdown(self):
        self.note("shutdown")


def register(context):
    context.register_memory_provider(Noting())
"""
"""a provider as users of Hermes write them: it notes what it is told in a file"""


@pytest.fixture
def model() -> Iterator[ScriptedModel]:
    with ScriptedModel(REPLY) as opened:
        yield opened


@pytest.fixture
def hermes(monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> Iterator[Path]:
    """A folder of Hermes with our plugin, which is the active provider."""
    folder = tmp_path / "hermes"
    folder.mkdir()
    monkeypatch.setenv("HERMES_HOME", str(folder))
    (folder / "config.yaml").write_text(f"memory:\n  provider: {NAME}\n", encoding="utf-8")
    install(folder)
    yield folder
    for name in [name for name in sys.modules if name.startswith("_hermes_user_memory.")]:
        del sys.modules[name]  # Hermes keeps the modules of the plugins that it loaded


def noting(folder: Path, name: str, recalls: str | None = None) -> None:
    """Install a provider that recalls a text, or fails to."""
    plugin = folder / "plugins" / name
    plugin.mkdir(parents=True)
    recall = 'raise RuntimeError("it is down")' if recalls is None else f"return {recalls!r}"
    (plugin / "__init__.py").write_text(NOTING.format(name=name, recall=recall), encoding="utf-8")


def noted(folder: Path, name: str) -> list[list[Any]]:
    path = folder / f"{name}.log"
    return [json.loads(line) for line in path.read_text(encoding="utf-8").splitlines()] if path.exists() else []


class HermesHost(Host):
    def __init__(
        self,
        memory: AgentMemory,
        folder: Path,
        model: ScriptedModel,
        chat: Mapping[str, Any] = MappingProxyType({}),
        **settings: Any,
    ) -> None:
        super().__init__(memory)
        address = memory.client._address
        where = {"home": str(address.home)} if address.home else {"url": address.url}
        patient = memory.recall_s > 1
        limits = {"recall_ms": PATIENT_MS, "provider_ms": PATIENT_MS} if patient else {}
        given = {**where, "user_id": memory.user_id, **limits, **settings}
        (folder / "memory-fusion.json").write_text(json.dumps(given), encoding="utf-8")
        self.model = model
        self.agent = AIAgent(
            base_url=f"{model.url}/v1",
            api_key="no key",
            model="scripted",
            session_id=memory.session_id,
            enabled_toolsets=["memory"],
            quiet_mode=True,
            skip_context_files=True,
            **chat,
        )
        self.history: list[dict[str, Any]] = []

    @property
    def manager(self) -> Any:
        return self.agent._memory_manager

    @property
    def provider(self) -> FusionProvider:
        return self.manager.get_provider(NAME)

    def say(self, prompt: str) -> str:
        before = len(self.model.main)
        done = self.agent.run_conversation(prompt, conversation_history=self.history)
        self.history = done["messages"]
        assert self.manager.flush_pending(60)
        assert self.provider.flush()
        assert self.provider._others.flush()
        self.shown += [shown.text for shown in self.model.main[before:]]
        return done["final_response"]

    async def asay(self, prompt: str) -> str:
        raise NotImplementedError


class TestHermes(AgentContract):
    ways: ClassVar[tuple[str, ...]] = ("sync",)

    @pytest.fixture(autouse=True)
    def _world(self, hermes: Path, model: ScriptedModel) -> None:
        self.folder, self.model = hermes, model

    def host(self, memory: AgentMemory) -> Host:
        return HermesHost(memory, self.folder, self.model)

    @pytest.mark.feature("Hermes' model sees the block of all its memory providers once, byte for byte")
    def test_the_block_is_what_the_model_sees(self, memory: AgentMemory) -> None:
        tell(memory.client, memory.user_id, FACT)
        noting(
            self.folder,
            "honcho2",
            "## Honcho\n- Ada likes short answers.\n- [0.9] Staging moved to port 4410 on Friday",
        )
        noting(self.folder, "broken")
        host = HermesHost(memory, self.folder, self.model, providers=["honcho2", "broken", "unknown"])
        recalled: list[str] = []
        prefetch = host.provider.prefetch
        host.provider.prefetch = lambda *args, **more: recalled.append(prefetch(*args, **more)) or recalled[-1]  # type: ignore[method-assign]
        host.say(ASKED)
        [block] = recalled
        assert self.model.main[0].text.count(block) == 1
        assert self.model.main[0].text.count(OPENING) == 1
        assert block.count(FACT) == 1
        assert "\n# honcho2\n- Ada likes short answers.\n</memories" in block

    def test_each_provider_gets_a_turn_once_without_what_was_recalled(self, memory: AgentMemory) -> None:
        tell(memory.client, memory.user_id, FACT)
        for name in ("one", "two", "three"):
            noting(self.folder, name, f"{name} knows")
        policy = {"turn": ["one", "three"], "session": "first"}
        host = HermesHost(memory, self.folder, self.model, providers=["one", "two", "three"], policy=policy)
        host.say(ASKED)
        host.agent.shutdown_memory_provider(host.history)
        turn = ["turn", ASKED, REPLY]
        assert noted(self.folder, "one")[1:] == [turn, ["end", [ASKED, REPLY], [False, False]], ["shutdown"]]
        assert noted(self.folder, "two")[1:] == [["shutdown"]]
        assert noted(self.folder, "three")[1:] == [turn, ["shutdown"]]
        assert turns_of(memory) == spoken(ASKED)

    def test_private_turns_and_blocks_go_to_nobody(self, memory: AgentMemory) -> None:
        noting(self.folder, "one", "one knows")
        host = HermesHost(memory, self.folder, self.model, providers=["one"])
        host.say(f"{ASKED} [NOMEM]")
        host.say(f"{ASKED} <private>it is 4410</private>")
        host.manager.on_session_end(host.history)
        assert host.provider._others.flush()
        assert noted(self.folder, "one")[1:] == [["turn", ASKED, REPLY], ["end", [REPLY, REPLY], [False, False]]]
        assert turns_of(memory) == spoken(ASKED)

    def test_tools_of_all_providers_work(self, memory: AgentMemory) -> None:
        tell(memory.client, memory.user_id, FACT)
        noting(self.folder, "one", "")
        calls: list[Reply] = [
            ToolCall("memory_fusion_search", {"query": ASKED}),
            ToolCall("memory_fusion_remember", {"text": "Production has port 80"}),
            ToolCall("one_ask", {}),
            REPLY,
        ]
        self.model.answer = in_order(*calls)
        host = HermesHost(memory, self.folder, self.model, providers=["one"])
        assert host.say(ASKED) == REPLY
        results = self.model.main[-1].of_role("tool")
        assert FACT in results
        assert "one says yes" in results
        found = memory.client.memories(user_id=memory.user_id)["memories"]
        [kept] = [one for one in found if one["text"] == "Production has port 80"]
        self.model.answer = in_order(ToolCall("memory_fusion_forget", {"ref": kept["ref"]}), REPLY)
        host.say("forget the port of production")
        assert kept["ref"] not in [one["ref"] for one in memory.client.memories(user_id=memory.user_id)["memories"]]

    def test_entries_of_memory_files_are_mirrored(self, memory: AgentMemory) -> None:
        """Also to Hermes' own holographic provider, whose method has no metadata."""
        changes = [
            {"action": "add", "target": "user", "content": "Ada likes tea"},
            {"action": "add", "target": "user", "content": "Ada lives in Lund"},
            {"action": "replace", "target": "user", "old_text": "likes tea", "content": "Ada likes coffee"},
            {"action": "remove", "target": "user", "old_text": "Lund"},
        ]
        self.model.answer = in_order(*(ToolCall("memory", one) for one in changes), REPLY)
        host = HermesHost(memory, self.folder, self.model, providers=["holographic"])
        host.say("I like tea")
        items = memory.client.search_items(["hermes"], user_id=memory.user_id)["items"]
        assert [one["value"] for one in items] == [{"about the user": "Ada likes coffee"}]
        with closing(sqlite3.connect(self.folder / "memory_store.db")) as store:
            facts = {fact for (fact,) in store.execute("SELECT content FROM facts")}
        assert facts == {"Ada likes tea", "Ada lives in Lund"}, "it mirrors what is added"

    def test_a_group_chat_has_memories_of_its_own(self, memory: AgentMemory) -> None:
        tell(memory.client, memory.user_id, FACT)
        chat = {"platform": "telegram", "chat_type": "group", "chat_id": f"-{memory.user_id}", "user_id": "7"}
        users = {"telegram:7": memory.user_id}
        host = HermesHost(memory, self.folder, self.model, chat, users=users)
        host.say(ASKED)
        assert OPENING not in host.shown[-1]
        assert turns_of(memory) == []
        assert turns_of(memory.bound(user_id=f"telegram:chat:-{memory.user_id}")) == spoken(ASKED)

    def test_a_compression_lets_the_others_speak_and_blocks_be_shown_again(self, memory: AgentMemory) -> None:
        tell(memory.client, memory.user_id, FACT)
        noting(self.folder, "one", "")
        host = HermesHost(memory, self.folder, self.model, providers=["one"])
        host.say(ASKED)
        again = f"{ASKED} please"
        assert host.provider.prefetch(again) == "", "it is in the context"
        assert host.manager.on_pre_compress(host.history) == "keep what one knows"
        host.manager.on_session_switch("s1", parent_session_id="s1", reason="compression")
        assert FACT in host.provider.prefetch(f"{again} again")

    def test_the_others_work_without_memory_fusion(self, memory: AgentMemory) -> None:
        noting(self.folder, "one", "one knows")
        host = HermesHost(memory, self.folder, self.model, providers=["one"], home="\0")
        assert host.say(ASKED) == REPLY
        assert "\n# one\none knows\n</memories" in host.shown[-1]
        assert noted(self.folder, "one")[1:] == [["turn", ASKED, REPLY]]

    def test_settings_with_a_mistake_switch_it_off(self, memory: AgentMemory, caplog: pytest.LogCaptureFixture) -> None:
        (self.folder / "memory-fusion.json").write_text('{"provider": ["honcho"]}')
        with caplog.at_level(logging.ERROR):
            assert not FusionProvider().is_available()
        assert "provider: " in caplog.text


def test_uninstall_leaves_nothing_behind(hermes: Path, capsys: pytest.CaptureFixture[str]) -> None:
    (hermes / "config.yaml").unlink()
    FusionProvider().save_config({"providers": "honcho"}, str(hermes))
    assert sorted(one.name for one in hermes.rglob("*") if one.is_file()) == [
        "__init__.py",
        "memory-fusion.json",
        "plugin.yaml",
    ]
    assert main(["uninstall"]) == 0
    assert [one for one in hermes.rglob("*") if one.name != "plugins"] == []
    assert main(["uninstall"]) == 0
    assert "Nothing of memory-fusion" in capsys.readouterr().out
