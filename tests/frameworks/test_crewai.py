"""The memory in CrewAI's own agents and crews, with a scripted model of its interface."""

from __future__ import annotations

from typing import Any

import pytest
from crewai import Agent, BaseLLM, Crew, Task
from pydantic import PrivateAttr

from fusion.client import Client
from fusion.integrations.agent_memory import AgentMemory
from fusion.integrations.crewai import FusionMemory
from tests.frameworks.contract import ASKED, FACT, PATIENT_S, REPLY, AgentContract, Host, spoken, tell, turns_of

pytestmark = pytest.mark.frameworks


class Scripted(BaseLLM):
    """A model that answers the same, and notes what it is shown."""

    _shown: list[str] = PrivateAttr(default_factory=list)

    def call(self, messages: Any, *args: Any, **options: Any) -> str:
        said = [{"content": messages}] if isinstance(messages, str) else messages
        self._shown.append("\n".join(str(one["content"]) for one in said))
        return REPLY

    async def acall(self, messages: Any, *args: Any, **options: Any) -> str:
        return self.call(messages)

    def supports_function_calling(self) -> bool:
        return False


def agent_with(memory: AgentMemory | None) -> tuple[Agent, list[str]]:
    model = Scripted(model="scripted")
    remembers = None if memory is None else FusionMemory.of(memory)
    agent = Agent(role="helper", goal="help", backstory="You help.", llm=model, memory=remembers, cache=False)
    return agent, model._shown


class CrewHost(Host):
    """An agent that has a task of a crew for each prompt."""

    def __init__(self, memory: AgentMemory) -> None:
        super().__init__(memory)
        self.agent, self.shown = agent_with(memory)

    def _crew(self, prompt: str) -> Crew:
        return Crew(agents=[self.agent], tasks=[Task(description=prompt, expected_output="a text", agent=self.agent)])

    def say(self, prompt: str) -> str:
        return str(self._crew(prompt).kickoff().raw)

    async def asay(self, prompt: str) -> str:
        return str((await self._crew(prompt).kickoff_async()).raw)


class TestCrewAI(AgentContract):
    opening = "Relevant memories:"
    """the block of its own prompt, with the memories that were recalled"""

    def host(self, memory: AgentMemory) -> Host:
        return CrewHost(memory)

    def test_an_agent_alone_recalls_and_keeps_too(self, memory: AgentMemory) -> None:
        tell(memory.client, memory.user_id, FACT)
        agent, shown = agent_with(memory)
        assert agent.kickoff(ASKED).raw == REPLY
        assert shown[-1].count(self.opening) == 1
        assert memory.flush()
        assert turns_of(memory) == spoken(ASKED)


def test_records_are_remembered_read_and_forgotten(client: Client, user: str) -> None:
    memory = FusionMemory.of(AgentMemory(client, user_id=user, recall_s=PATIENT_S))
    record = memory.remember(FACT)
    assert record is not None
    client.settle()
    (match,) = memory.recall(ASKED)
    assert (match.record.id, match.record.content) == (record.id, FACT)
    assert [one.content for one in memory.list_records()] == [FACT]
    assert memory.info("/").record_count == 1
    changed = memory.update(record.id, "Staging moved to port 4411 on Friday")
    assert (changed.content, changed.id == record.id) == ("Staging moved to port 4411 on Friday", False)
    assert memory.forget(record_ids=[changed.id]) == 1
    assert memory.recall(ASKED) == []
    with pytest.raises(NotImplementedError, match="fusion forget"):
        memory.reset()
    dead = FusionMemory.of(AgentMemory(Client("http://127.0.0.1:9"), user_id=user))
    assert dead.recall(ASKED) == []
