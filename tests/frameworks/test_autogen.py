"""The model context in AutoGen's own assistant, with a scripted client of its interface."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any

import pytest
from autogen_agentchat.agents import AssistantAgent
from autogen_core import FunctionCall
from autogen_core.models import ChatCompletionClient, CreateResult, LLMMessage, ModelInfo, RequestUsage

from fusion.integrations.agent_memory import AgentMemory
from fusion.integrations.autogen import FusionContext
from tests.frameworks.contract import ASKED, FACT, OPENING, REPLY, AgentContract, Host, spoken, tell, turns_of

pytestmark = pytest.mark.frameworks

NO_TOKENS = RequestUsage(prompt_tokens=0, completion_tokens=0)


class Scripted(ChatCompletionClient):
    """A client that answers the same, after as many calls of a tool as wanted, and notes what it is shown."""

    def __init__(self, shown: list[str], calls: int = 0) -> None:
        self._shown = shown
        self._calls = calls

    async def create(self, messages: Sequence[LLMMessage], **options: Any) -> CreateResult:
        self._shown.append("\n".join(str(one.content) for one in messages))
        calls = len(self._shown) <= self._calls
        content: Any = [FunctionCall(id="c1", name="clock", arguments="{}")] if calls else REPLY
        reason: Any = "function_calls" if calls else "stop"
        return CreateResult(finish_reason=reason, content=content, usage=NO_TOKENS, cached=False)

    def create_stream(self, *args: Any, **options: Any) -> Any:
        raise NotImplementedError

    async def close(self) -> None:
        return

    def actual_usage(self) -> RequestUsage:
        return NO_TOKENS

    def total_usage(self) -> RequestUsage:
        return NO_TOKENS

    def count_tokens(self, messages: Sequence[LLMMessage], **options: Any) -> int:
        return 0

    def remaining_tokens(self, messages: Sequence[LLMMessage], **options: Any) -> int:
        return 1000

    @property
    def capabilities(self) -> Any:
        return self.model_info

    @property
    def model_info(self) -> ModelInfo:
        return ModelInfo(
            vision=False,
            function_calling=True,
            json_output=False,
            family="unknown",
            structured_output=False,
            multiple_system_messages=True,
        )


def clock() -> str:
    """The time of day."""
    return "noon"


class AutoGenHost(Host):
    def __init__(self, memory: AgentMemory, calls: int = 0) -> None:
        super().__init__(memory)
        self.context = FusionContext(memory)
        self.agent = AssistantAgent(
            "helper",
            model_client=Scripted(self.shown, calls),
            tools=[clock],
            model_context=self.context,
            system_message="Help.",
            reflect_on_tool_use=True,
        )

    async def asay(self, prompt: str) -> str:
        return str((await self.agent.run(task=prompt)).messages[-1].content)  # type: ignore[union-attr]


class TestAutoGen(AgentContract):
    ways = ("async",)

    def host(self, memory: AgentMemory) -> Host:
        return AutoGenHost(memory)

    async def test_each_model_call_has_the_block_and_no_state_has(self, memory: AgentMemory) -> None:
        tell(memory.client, memory.user_id, FACT)
        host = AutoGenHost(memory, calls=1)
        assert await host.asay(ASKED) == REPLY
        assert [shown.count(OPENING) for shown in host.shown] == [1, 1]
        state: Mapping[str, Any] = await host.context.save_state()
        assert OPENING not in str(state)
        assert memory.flush()
        assert turns_of(memory) == spoken(ASKED)
