"""A Pydantic AI agent that recalls before each request to its model, and keeps each turn.

pip install "memory-fusion[pydantic-ai]"
"""

from pydantic_ai import Agent
from pydantic_ai.messages import ModelMessage, ModelResponse, TextPart
from pydantic_ai.models.function import AgentInfo, FunctionModel

from fusion.integrations.agent_memory import AgentMemory
from fusion.integrations.pydantic_ai import FusionMemory


def echo(messages: list[ModelMessage], info: AgentInfo) -> ModelResponse:
    """Stands in for a model with a key: it answers with the instructions that it is shown."""
    return ModelResponse(parts=[TextPart(info.instructions or "")])


memory = AgentMemory(user_id="berit", session_id="t1", recall_s=2)
memory.client.remember({"text": "Staging moved to port 4410 on Friday", "user_id": "berit"})
memory.client.settle()

agent = Agent(FunctionModel(echo), instructions="You help.", capabilities=[FusionMemory(memory=memory)])
print(agent.run_sync("which port is staging on since Friday?").output)
