"""A CrewAI agent that recalls before each kickoff, and keeps each turn.

pip install crewai orjson && pip install --no-deps memory-fusion      # beside a server of another environment
"""

from typing import Any

from crewai import Agent, BaseLLM

from fusion.integrations.crewai import FusionMemory


class Echo(BaseLLM):
    """Stands in for a model with a key: it answers with the last message that it is shown."""

    def call(self, messages: Any, *args: Any, **options: Any) -> str:
        return messages if isinstance(messages, str) else str(messages[-1]["content"])


memory = FusionMemory.of(user_id="berit", session_id="t1", recall_s=2)
memory.fusion.client.remember({"text": "Staging moved to port 4410 on Friday", "user_id": "berit"})
memory.fusion.client.settle()

agent = Agent(role="helper", goal="help", backstory="You help.", llm=Echo(model="echo"), memory=memory)
print(agent.kickoff("which port is staging on since Friday?").raw)
