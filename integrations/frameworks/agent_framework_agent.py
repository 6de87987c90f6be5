"""An agent of Microsoft's Agent Framework that recalls before each run, and keeps each turn.

pip install "memory-fusion[agent-framework]"
"""

import asyncio
from typing import Any

from agent_framework import Agent, BaseChatClient, ChatResponse, Message

from fusion.integrations.agent_framework import FusionContextProvider


class Echo(BaseChatClient[Any]):
    """Stands in for a client with a key: it answers with the instructions that it is shown."""

    async def _inner_get_response(self, *, messages: Any, stream: bool, options: Any, **more: Any) -> ChatResponse[Any]:
        return ChatResponse(messages=[Message("assistant", [str(options.get("instructions"))])])


async def main() -> None:
    provider = FusionContextProvider(user_id="berit", recall_s=2)
    provider.memory.client.remember({"text": "Staging moved to port 4410 on Friday", "user_id": "berit"})
    provider.memory.client.settle()
    agent = Agent(client=Echo(), instructions="You help.", context_providers=[provider])
    print((await agent.run("which port is staging on since Friday?", session=agent.create_session())).text)


asyncio.run(main())
