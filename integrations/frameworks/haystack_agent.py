"""A Haystack agent that recalls before each call of its model, and keeps each turn.

pip install "memory-fusion[haystack]"
"""

from typing import Any

from haystack import component
from haystack.components.agents import Agent
from haystack.dataclasses import ChatMessage

from fusion.integrations.haystack import FusionMemory


@component
class Echo:
    """Stands in for a chat generator with a key: it answers with the system message that it is shown."""

    @component.output_types(replies=list[ChatMessage])
    def run(self, messages: list[ChatMessage], tools: Any = None) -> dict[str, Any]:
        return {"replies": [ChatMessage.from_assistant(messages[0].text)]}


fusion = FusionMemory(user_id="berit", session_id="t1", recall_s=2)
fusion.memory.client.remember({"text": "Staging moved to port 4410 on Friday", "user_id": "berit"})
fusion.memory.client.settle()

agent = Agent(chat_generator=Echo(), system_prompt="You help.", hooks=fusion.hooks)
asked = ChatMessage.from_user("which port is staging on since Friday?")
print(agent.run([asked])["messages"][-1].text)
