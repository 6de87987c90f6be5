"""The store in a memory manager of Strands' own agent, with a scripted model of its interface."""

from __future__ import annotations

from collections.abc import AsyncIterable
from typing import Any

import pytest
from strands import Agent
from strands.models import Model

from fusion.client import Client
from fusion.integrations.agent_memory import AgentMemory
from fusion.integrations.strands import FusionStore, memory_manager
from tests.frameworks.contract import ASKED, FACT, PATIENT_S, REPLY, AgentContract, Host, spoken, turns_of

pytestmark = pytest.mark.frameworks


class Scripted(Model):
    """A model that answers the same, and notes what it is shown."""

    def __init__(self, shown: list[str]) -> None:
        self._shown = shown

    def update_config(self, **config: Any) -> None:
        return

    def get_config(self) -> dict[str, Any]:
        return {"model_id": "scripted"}

    def structured_output(self, *args: Any, **options: Any) -> Any:
        raise NotImplementedError

    async def stream(
        self, messages: Any, tool_specs: Any = None, system_prompt: str | None = None, **options: Any
    ) -> AsyncIterable[Any]:
        said = [part["text"] for message in messages for part in message["content"] if "text" in part]
        self._shown.append("\n".join([system_prompt or "", *said]))
        yield {"messageStart": {"role": "assistant"}}
        yield {"contentBlockStart": {"start": {}}}
        yield {"contentBlockDelta": {"delta": {"text": REPLY}}}
        yield {"contentBlockStop": {}}
        yield {"messageStop": {"stopReason": "end_turn"}}


class StrandsHost(Host):
    def __init__(self, memory: AgentMemory) -> None:
        super().__init__(memory)
        self.manager = memory_manager(memory)
        self.agent = Agent(
            model=Scripted(self.shown), system_prompt="Help.", memory_manager=self.manager, callback_handler=None
        )

    def say(self, prompt: str) -> str:
        return str(self.agent(prompt)).strip()

    async def asay(self, prompt: str) -> str:
        answer = str(await self.agent.invoke_async(prompt)).strip()
        await self.manager.flush()
        return answer


class TestStrands(AgentContract):
    opening = "<memory>"
    """the block of its own manager, with the memories that the store found"""

    def host(self, memory: AgentMemory) -> Host:
        return StrandsHost(memory)


async def test_a_store_adds_and_keeps_once(client: Client, user: str) -> None:
    memory = AgentMemory(client, user_id=user, recall_s=PATIENT_S)
    store = FusionStore(memory, k=2)
    await store.add(FACT)
    client.settle()
    (entry,) = await store.search(ASKED)
    assert (entry.content, entry.store_name) == (FACT, "memory_fusion")
    said: Any = [
        {"role": "user", "content": [{"text": ASKED}]},
        {"role": "assistant", "content": [{"text": REPLY}]},
    ]
    for _ in range(2):
        await store.add_messages(said)
    assert memory.flush()
    assert turns_of(memory) == spoken(ASKED)
    assert await FusionStore(client=Client("http://127.0.0.1:9")).search(ASKED) == []
