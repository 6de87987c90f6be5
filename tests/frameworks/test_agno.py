"""The learning store and the hook in Agno's own agent, with a scripted model of its interface."""

from __future__ import annotations

from collections.abc import AsyncIterator, Iterator
from dataclasses import dataclass, field
from typing import Any

import pytest
from agno.agent import Agent
from agno.db.in_memory import InMemoryDb
from agno.learn.stores.protocol import LearningStore
from agno.models.base import Model
from agno.models.response import ModelResponse

from fusion.client import Client
from fusion.integrations.agent_memory import AgentMemory
from fusion.integrations.agno import FusionLearning
from tests.frameworks.contract import ASKED, PATIENT_S, REPLY, AgentContract, Host, spoken, turns_of

pytestmark = pytest.mark.frameworks


@dataclass
class Scripted(Model):
    """A model that answers the same, and notes what it is shown."""

    id: str = "scripted"
    shown: list[str] = field(default_factory=list)

    def invoke(self, messages: Any, *args: Any, **options: Any) -> ModelResponse:
        self.shown.append("\n".join(str(one.content) for one in messages))
        return ModelResponse(role="assistant", content=REPLY)

    async def ainvoke(self, messages: Any, *args: Any, **options: Any) -> ModelResponse:
        return self.invoke(messages)

    def invoke_stream(self, *args: Any, **options: Any) -> Iterator[ModelResponse]:
        raise NotImplementedError

    def ainvoke_stream(self, *args: Any, **options: Any) -> AsyncIterator[ModelResponse]:
        raise NotImplementedError

    def _parse_provider_response(self, response: Any, **options: Any) -> ModelResponse:
        return response

    def _parse_provider_response_delta(self, response: Any) -> ModelResponse:
        return response


class AgnoHost(Host):
    def __init__(self, memory: AgentMemory) -> None:
        super().__init__(memory)
        model = Scripted(shown=self.shown)
        learning = FusionLearning(memory)
        self.agent = Agent(
            model=model,
            db=InMemoryDb(),
            learning=learning.machine,
            post_hooks=[learning.keep_turn],
            add_history_to_context=True,
            telemetry=False,
        )

    def say(self, prompt: str) -> str:
        return str(self.agent.run(prompt, session_id="s1", user_id=self.memory.user_id).content)

    async def asay(self, prompt: str) -> str:
        return str((await self.agent.arun(prompt, session_id="s1", user_id=self.memory.user_id)).content)


class TestAgno(AgentContract):
    def host(self, memory: AgentMemory) -> Host:
        return AgnoHost(memory)

    def test_it_is_a_learning_store_of_agno(self, memory: AgentMemory) -> None:
        assert isinstance(FusionLearning(memory), LearningStore)

    def test_the_run_names_the_user_and_the_session(self, client: Client, user: str) -> None:
        shared = AgentMemory(client, recall_s=PATIENT_S)
        learning = FusionLearning(shared)
        agent = Agent(
            model=Scripted(),
            db=InMemoryDb(),
            learning=learning.machine,
            post_hooks=[learning.keep_turn],
            telemetry=False,
        )
        agent.run(ASKED, session_id="session-7", user_id=user)
        assert shared.flush()
        assert turns_of(shared.bound(user_id=user)) == spoken(ASKED)
        kept = client.memories(user_id=user)["memories"]
        assert {one["source"] for one in kept} == {"agno:session-7"}
