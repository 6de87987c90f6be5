"""The filter and the hooks in runs of OpenAI's Agents SDK, with a scripted model of its interface."""

from __future__ import annotations

from typing import Any

import pytest
from agents import Agent, ModelResponse, Runner, SQLiteSession, Usage
from agents.models.interface import Model
from openai.types.responses import ResponseOutputMessage, ResponseOutputText

from fusion.integrations.agent_memory import AgentMemory
from fusion.integrations.openai_agents import FusionMemory
from tests.frameworks.contract import REPLY, AgentContract, Host

pytestmark = pytest.mark.frameworks


class Scripted(Model):
    """A model that always answers the same, and notes what it is shown."""

    def __init__(self, shown: list[str]) -> None:
        self._shown = shown

    async def get_response(self, system_instructions: Any, input: Any, *args: Any, **options: Any) -> ModelResponse:
        self._shown.append("\n".join([system_instructions or "", *(str(one.get("content", one)) for one in input)]))
        text = ResponseOutputText(text=REPLY, type="output_text", annotations=[])
        message = ResponseOutputMessage(id="m", content=[text], role="assistant", status="completed", type="message")
        return ModelResponse(output=[message], usage=Usage(), response_id=None)

    def stream_response(self, *args: Any, **options: Any) -> Any:
        raise NotImplementedError


class OpenAIHost(Host):
    def __init__(self, memory: AgentMemory) -> None:
        super().__init__(memory)
        self.agent = Agent[Any](name="helper", instructions="Help.", model=Scripted(self.shown))
        self.fusion = FusionMemory(memory)
        self.session = SQLiteSession("s1")

    def say(self, prompt: str) -> str:
        fusion = self.fusion
        done = Runner.run_sync(
            self.agent, prompt, session=self.session, hooks=fusion.hooks, run_config=fusion.run_config()
        )
        return str(done.final_output)

    async def asay(self, prompt: str) -> str:
        fusion = self.fusion
        done = await Runner.run(
            self.agent, prompt, session=self.session, hooks=fusion.hooks, run_config=fusion.run_config()
        )
        return str(done.final_output)


class TestOpenAIAgents(AgentContract):
    def host(self, memory: AgentMemory) -> Host:
        return OpenAIHost(memory)
