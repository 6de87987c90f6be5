"""Memory for Strands Agents: a store of its memory manager.

agent = Agent(model=…, memory_manager=memory_manager(user_id="ada", session_id="t1"))
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

from strands.memory import (
    AddMessagesContext,
    ExtractionConfig,
    InvocationTrigger,
    MemoryEntry,
    MemoryManager,
    MemoryStore,
    SearchOptions,
)
from strands.types.content import Message

from fusion.integrations.agent_memory import AgentMemory, Role, Turn

NAME = "memory_fusion"
ROLES: dict[str, Role] = {"user": "user", "assistant": "assistant"}


class FusionStore(MemoryStore):
    """The memories of one user. The manager injects what a search finds into each call of the model, and hands over
    what was said after each invocation."""

    def __init__(self, memory: AgentMemory | None = None, *, k: int = 5, **options: Any) -> None:
        """``k`` is the number of memories of one search; ``options`` are those of `AgentMemory`."""
        self.memory = (memory or AgentMemory(**options)).of_framework("strands")
        self.name = NAME
        self.description = "what the user and agents said before, and notes of the user"
        self.max_search_results = k
        self.writable = True
        self.extraction = ExtractionConfig(trigger=[InvocationTrigger()])

    async def search(self, query: str, options: SearchOptions | None = None) -> list[MemoryEntry]:
        limit = (options or {}).get("max_search_results") or self.max_search_results
        found = await self.memory.asearch(query, limit)
        return [MemoryEntry(one.text, self.name, dict(one.metadata)) for one in found]

    async def add(self, content: str, metadata: dict[str, Any] | None = None) -> None:
        """Remember a text. Raises what the server raises: who adds a memory explicitly wants to know."""
        told = {"text": content, "user_id": self.memory.user_id, "origin": "agent", "audience": "private"}
        await self.memory.run(lambda client: client.remember(told))

    async def add_messages(self, messages: Sequence[Message], context: AddMessagesContext | None = None) -> None:
        """Keep what was said, once, also if a batch is handed over again."""
        texts = [(ROLES[one["role"]], _text(one)) for one in messages]
        await self.memory.akeep([Turn(role, text) for role, text in texts if text])


def memory_manager(memory: AgentMemory | None = None, *, k: int = 5, **options: Any) -> MemoryManager:
    """A manager with a `FusionStore` that recalls before each call of the model; its tools are off."""
    return MemoryManager([FusionStore(memory, k=k, **options)], search_tool_config=False)


def _text(message: Message) -> str:
    return "\n".join(part["text"] for part in message["content"] if part.get("text"))
