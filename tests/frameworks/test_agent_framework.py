"""The context provider in an agent of Microsoft's Agent Framework, with a scripted client of its interface."""

from __future__ import annotations

from typing import Any

import pytest
from agent_framework import Agent, BaseChatClient, ChatResponse, Message

from fusion.integrations.agent_framework import FusionContextProvider
from fusion.integrations.agent_memory import AgentMemory
from tests.frameworks.contract import ASKED, REPLY, AgentContract, Host, spoken, turns_of

pytestmark = pytest.mark.frameworks


class Scripted(BaseChatClient[Any]):
    """A client of a model that answers the same, and notes what it is shown."""

    def __init__(self, shown: list[str]) -> None:
        super().__init__()
        self._shown = shown

    async def _inner_get_response(self, *, messages: Any, stream: bool, options: Any, **more: Any) -> ChatResponse[Any]:
        said = [one.text for one in messages]
        self._shown.append("\n".join([str(options.get("instructions") or ""), *said]))
        return ChatResponse(messages=[Message("assistant", [REPLY])])


class AgentFrameworkHost(Host):
    def __init__(self, memory: AgentMemory) -> None:
        super().__init__(memory)
        self.agent = Agent(
            client=Scripted(self.shown),
            instructions="Help.",
            context_providers=[FusionContextProvider(memory)],
        )
        self.session = self.agent.create_session()

    async def asay(self, prompt: str) -> str:
        return str((await self.agent.run(prompt, session=self.session)).text)


class TestAgentFramework(AgentContract):
    ways = ("async",)

    def host(self, memory: AgentMemory) -> Host:
        return AgentFrameworkHost(memory)

    async def test_the_session_is_that_of_the_agent(self, memory: AgentMemory) -> None:
        shared = AgentMemory(memory.client, user_id=memory.user_id)
        host = AgentFrameworkHost(shared)
        await host.asay(ASKED)
        assert shared.flush()
        assert turns_of(memory) == spoken(ASKED)
        (source,) = {one["source"] for one in memory.client.memories(user_id=memory.user_id)["memories"]}
        assert source == f"agent-framework:{host.session.session_id}"
