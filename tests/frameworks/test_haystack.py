"""The hooks and the retriever in Haystack's own agent and pipeline, with a scripted chat generator."""

from __future__ import annotations

from typing import Any

import pytest
from haystack import Pipeline, component
from haystack.components.agents import Agent
from haystack.components.retrievers import MultiQueryTextRetriever
from haystack.dataclasses import ChatMessage

from fusion.client import Client
from fusion.integrations.agent_memory import AgentMemory
from fusion.integrations.haystack import FusionMemory, FusionRetriever, RecallHook
from tests.frameworks.contract import ASKED, FACT, OPENING, PATIENT_S, REPLY, AgentContract, Host, tell

pytestmark = pytest.mark.frameworks


@component
class Scripted:
    """A chat generator that answers the same, and notes what it is shown."""

    def __init__(self) -> None:
        self.shown: list[str] = []

    @component.output_types(replies=list[ChatMessage])
    def run(self, messages: list[ChatMessage], tools: Any = None) -> dict[str, Any]:
        self.shown.append("\n".join(one.text or "" for one in messages))
        return {"replies": [ChatMessage.from_assistant(REPLY)]}

    def to_dict(self) -> dict[str, Any]:
        return {}


class HaystackHost(Host):
    def __init__(self, memory: AgentMemory, system_prompt: str | None = "Help.") -> None:
        super().__init__(memory)
        model = Scripted()
        self.shown = model.shown
        self.agent = Agent(chat_generator=model, system_prompt=system_prompt, hooks=FusionMemory(memory).hooks)
        self.history: list[ChatMessage] = []

    def say(self, prompt: str) -> str:
        return self._ended(self.agent.run([*self.history, ChatMessage.from_user(prompt)]))

    async def asay(self, prompt: str) -> str:
        return self._ended(await self.agent.run_async([*self.history, ChatMessage.from_user(prompt)]))

    def _ended(self, result: dict[str, Any]) -> str:
        self.history = [one for one in result["messages"] if not one.is_from("system")]
        self.last = result["messages"]
        return str(result["messages"][-1].text)


class TestHaystack(AgentContract):
    def host(self, memory: AgentMemory) -> Host:
        return HaystackHost(memory)

    @pytest.mark.parametrize("system_prompt", ["Help.", None])
    def test_no_message_of_a_run_has_the_block_at_its_end(self, memory: AgentMemory, system_prompt: str | None) -> None:
        tell(memory.client, memory.user_id, FACT)
        host = HaystackHost(memory, system_prompt)
        host.say(ASKED)
        assert host.shown[0].count(OPENING) == 1
        roles = [one.role.value for one in host.last]
        assert roles == [*(["system"] if system_prompt else []), "user", "assistant"]
        assert OPENING not in str(host.last)


def test_the_retriever_returns_documents_in_a_pipeline(client: Client, user: str) -> None:
    tell(client, user, FACT)
    retriever = FusionRetriever(memory=AgentMemory(client, user_id=user, recall_s=PATIENT_S), top_k=3)
    pipeline = Pipeline()
    pipeline.add_component("memory", retriever)
    (document,) = pipeline.run({"memory": {"query": ASKED}})["memory"]["documents"]
    assert (document.content, document.meta["ref"]) == (FACT, document.id)
    assert retriever.run(ASKED, {"kind": "decision"})["documents"] == []
    several = MultiQueryTextRetriever(retriever=retriever)
    assert [one.content for one in several.run([ASKED, "staging"])["documents"]] == [FACT]
    assert FusionRetriever(memory=AgentMemory(Client("http://127.0.0.1:9"))).run(ASKED)["documents"] == []


def test_what_is_serialised_names_the_user(client: Client) -> None:
    hook = RecallHook(AgentMemory(client, user_id="ada", session_id="s1"))
    again = RecallHook.from_dict(hook.to_dict())
    assert (again._memory.user_id, again._memory.session_id) == ("ada", "s1")
    assert FusionRetriever(user_id="ada").to_dict()["init_parameters"]["user_id"] == "ada"
