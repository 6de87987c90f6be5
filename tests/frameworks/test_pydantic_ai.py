"""The capability in Pydantic AI's own agent, with its own function model."""

from __future__ import annotations

from dataclasses import dataclass

import pytest
from pydantic_ai import Agent, RunContext
from pydantic_ai.messages import ModelMessage, ModelRequest, ModelResponse, TextPart, ToolCallPart, UserPromptPart
from pydantic_ai.models.function import AgentInfo, FunctionModel

from fusion.client import Client
from fusion.integrations.agent_memory import AgentMemory
from fusion.integrations.pydantic_ai import FusionMemory
from tests.frameworks.contract import (
    ASKED,
    FACT,
    OPENING,
    PATIENT_S,
    REPLY,
    AgentContract,
    Host,
    spoken,
    tell,
    turns_of,
)

pytestmark = pytest.mark.frameworks


@dataclass
class Deps:
    user_id: str


class PydanticHost(Host):
    def __init__(self, memory: AgentMemory, *, calls: int = 0) -> None:
        super().__init__(memory)
        self.calls = calls
        self.agent = Agent(FunctionModel(self.answer), instructions="Help.", capabilities=[FusionMemory(memory=memory)])
        self.agent.tool_plain(self.clock)
        self.history: list[ModelMessage] = []

    def clock(self) -> str:
        """The time of day."""
        return "noon"

    def answer(self, messages: list[ModelMessage], info: AgentInfo) -> ModelResponse:
        said = [
            str(part.content)
            for message in messages
            if isinstance(message, ModelRequest)
            for part in message.parts
            if isinstance(part, UserPromptPart)
        ]
        self.shown.append("\n".join([info.instructions or "", *said]))
        if len(self.shown) <= self.calls:
            return ModelResponse(parts=[ToolCallPart("clock", {})])
        return ModelResponse(parts=[TextPart(REPLY)])

    def say(self, prompt: str) -> str:
        done = self.agent.run_sync(prompt, message_history=self.history)
        self.history = done.all_messages()
        return done.output

    async def asay(self, prompt: str) -> str:
        done = await self.agent.run(prompt, message_history=self.history)
        self.history = done.all_messages()
        return done.output


class TestPydanticAI(AgentContract):
    def host(self, memory: AgentMemory) -> Host:
        return PydanticHost(memory)

    async def test_each_model_request_of_a_run_has_the_same_block(self, memory: AgentMemory) -> None:
        tell(memory.client, memory.user_id, FACT)
        host = PydanticHost(memory, calls=1)
        await host.asay(ASKED)
        assert [shown.count(OPENING) for shown in host.shown] == [1, 1]
        assert memory.flush()
        assert turns_of(memory) == spoken(ASKED)


async def test_the_run_names_the_user(client: Client, user: str) -> None:
    shared = AgentMemory(client, session_id="s1", recall_s=PATIENT_S)

    def of(context: RunContext[Deps]) -> AgentMemory:
        return shared.bound(user_id=context.deps.user_id)

    model = FunctionModel(lambda messages, info: ModelResponse(parts=[TextPart(REPLY)]))
    agent = Agent(model, deps_type=Deps, capabilities=[FusionMemory(memory=of)])
    await agent.run(ASKED, deps=Deps(user))
    assert shared.flush()
    assert turns_of(shared.bound(user_id=user)) == spoken(ASKED)
