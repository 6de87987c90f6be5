"""An AutoGen assistant that recalls before each call of its model, and keeps each turn.

pip install "memory-fusion[autogen]"
"""

import asyncio
from typing import Any

from autogen_agentchat.agents import AssistantAgent
from autogen_core.models import ChatCompletionClient, CreateResult, ModelInfo, RequestUsage

from fusion.integrations.autogen import FusionContext

NO_TOKENS = RequestUsage(prompt_tokens=0, completion_tokens=0)


class Echo(ChatCompletionClient):
    """Stands in for a client with a key: it answers with all that it is shown."""

    async def create(self, messages: Any, **options: Any) -> CreateResult:
        text = "\n".join(str(one.content) for one in messages)
        return CreateResult(finish_reason="stop", content=text, usage=NO_TOKENS, cached=False)

    def create_stream(self, *args: Any, **options: Any) -> Any:
        raise NotImplementedError

    async def close(self) -> None:
        return

    def actual_usage(self) -> RequestUsage:
        return NO_TOKENS

    def total_usage(self) -> RequestUsage:
        return NO_TOKENS

    def count_tokens(self, *args: Any, **options: Any) -> int:
        return 0

    def remaining_tokens(self, *args: Any, **options: Any) -> int:
        return 1000

    @property
    def capabilities(self) -> Any:
        return self.model_info

    @property
    def model_info(self) -> ModelInfo:
        return ModelInfo(
            vision=False, function_calling=False, json_output=False, family="unknown", structured_output=False
        )


async def main() -> None:
    context = FusionContext(user_id="berit", session_id="t1", recall_s=2)
    context.memory.client.remember({"text": "Staging moved to port 4410 on Friday", "user_id": "berit"})
    context.memory.client.settle()
    agent = AssistantAgent("helper", model_client=Echo(), model_context=context)
    print((await agent.run(task="which port is staging on since Friday?")).messages[-1].content)


asyncio.run(main())
