"""An Agno agent that recalls before each run, and keeps each turn.

pip install "memory-fusion[agno]"
"""

from collections.abc import AsyncIterator, Iterator
from dataclasses import dataclass
from typing import Any

from agno.agent import Agent
from agno.db.in_memory import InMemoryDb
from agno.models.base import Model
from agno.models.response import ModelResponse

from fusion.integrations.agno import FusionLearning


@dataclass
class Echo(Model):
    """Stands in for a model with a key: it answers with the system message that it is shown."""

    id: str = "echo"

    def invoke(self, messages: Any, *args: Any, **options: Any) -> ModelResponse:
        return ModelResponse(role="assistant", content=str(messages[0].content))

    async def ainvoke(self, *args: Any, **options: Any) -> ModelResponse:
        raise NotImplementedError

    def invoke_stream(self, *args: Any, **options: Any) -> Iterator[ModelResponse]:
        raise NotImplementedError

    def ainvoke_stream(self, *args: Any, **options: Any) -> AsyncIterator[ModelResponse]:
        raise NotImplementedError

    def _parse_provider_response(self, response: Any, **options: Any) -> ModelResponse:
        return response

    def _parse_provider_response_delta(self, response: Any) -> ModelResponse:
        return response


fusion = FusionLearning(recall_s=2)
fusion.memory.client.remember({"text": "Staging moved to port 4410 on Friday", "user_id": "berit"})
fusion.memory.client.settle()

agent = Agent(
    model=Echo(), db=InMemoryDb(), learning=fusion.machine, post_hooks=[fusion.keep_turn], instructions="You help."
)
print(agent.run("which port is staging on since Friday?", user_id="berit", session_id="t1").content)
