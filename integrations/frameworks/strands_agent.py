"""A Strands agent that recalls before each call of its model, and keeps each turn.

pip install strands-agents orjson && pip install --no-deps memory-fusion      # beside a server of another environment
"""

from collections.abc import AsyncIterable
from typing import Any

from strands import Agent
from strands.models import Model

from fusion.integrations.agent_memory import AgentMemory
from fusion.integrations.strands import memory_manager


class Echo(Model):
    """Stands in for a model with a key: it answers with all that it is shown."""

    def update_config(self, **config: Any) -> None:
        return

    def get_config(self) -> dict[str, Any]:
        return {"model_id": "echo"}

    def structured_output(self, *args: Any, **options: Any) -> Any:
        raise NotImplementedError

    async def stream(self, messages: Any, *args: Any, **options: Any) -> AsyncIterable[Any]:
        texts = [part["text"] for message in messages for part in message["content"] if "text" in part]
        yield {"messageStart": {"role": "assistant"}}
        yield {"contentBlockStart": {"start": {}}}
        yield {"contentBlockDelta": {"delta": {"text": "\n".join(texts)}}}
        yield {"contentBlockStop": {}}
        yield {"messageStop": {"stopReason": "end_turn"}}


memory = AgentMemory(user_id="berit", session_id="t1", recall_s=2)
memory.client.remember({"text": "Staging moved to port 4410 on Friday", "user_id": "berit"})
memory.client.settle()

agent = Agent(model=Echo(), memory_manager=memory_manager(memory), callback_handler=None)
print(agent("which port is staging on since Friday?"))
