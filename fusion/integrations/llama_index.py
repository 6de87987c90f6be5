"""Memory for LlamaIndex: a memory of agents and chat engines with a block of recalled memories, and a retriever.

memory = FusionMemory.of(user_id="ada", session_id="t1")
await agent.run("…", memory=memory)
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any, Self

from llama_index.core.base.llms.types import ChatMessage, MessageRole
from llama_index.core.bridge.pydantic import Field, PrivateAttr
from llama_index.core.memory import BaseMemoryBlock, Memory
from llama_index.core.retrievers import BaseRetriever
from llama_index.core.schema import NodeWithScore, QueryBundle, TextNode

from fusion.integrations.agent_memory import AgentMemory, Found, Role, Turn

NAME = "fusion"
FRAMEWORK = "llama-index"


class FusionMemoryBlock(BaseMemoryBlock[str]):
    """The block for the user's last message. What a memory ejects is kept, if `FusionMemory` has not kept it yet."""

    name: str = NAME
    memory: AgentMemory = Field(exclude=True)

    async def _aget(self, messages: list[ChatMessage] | None = None, **block_kwargs: Any) -> str:
        prompt = next((one for one in reversed(messages or ()) if one.role == MessageRole.USER), None)
        return "" if prompt is None else await self.memory.arecall(_text(prompt))

    async def _aput(self, messages: list[ChatMessage]) -> None:
        await self.memory.akeep(_turns(messages))


class FusionMemory(Memory):
    """LlamaIndex's memory with a `FusionMemoryBlock`. A turn is kept when its answer is put, not when it is ejected."""

    fusion: AgentMemory | None = Field(default=None, exclude=True)
    _prompt: ChatMessage | None = PrivateAttr(default=None)

    @classmethod
    def of(
        cls,
        memory: AgentMemory | None = None,
        *,
        memory_blocks: Sequence[BaseMemoryBlock[Any]] = (),
        memory_options: dict[str, Any] | None = None,
        **options: Any,
    ) -> Self:
        """A memory whose ``options`` are those of `AgentMemory`, and ``memory_options`` those of `from_defaults`."""
        fusion = (memory or AgentMemory(**options)).of_framework(FRAMEWORK)
        made: Self = cls.from_defaults(
            memory_blocks=[*memory_blocks, FusionMemoryBlock(memory=fusion, accept_short_term_memory=False)],
            **{"session_id": fusion.session_id, **(memory_options or {})},
        )
        made.fusion = fusion
        return made

    async def aput(self, message: ChatMessage) -> None:
        await super().aput(message)
        await self._note([message])

    async def aput_messages(self, messages: list[ChatMessage]) -> None:
        await super().aput_messages(messages)
        await self._note(messages)

    async def _note(self, messages: Sequence[ChatMessage]) -> None:
        """Keep a turn once its answer is there; messages without a text are steps on the way to it."""
        prompts = [one for one in messages if one.role == MessageRole.USER]
        self._prompt = prompts[-1] if prompts else self._prompt
        answers = [one for one in messages if one.role == MessageRole.ASSISTANT and _text(one)]
        if self.fusion is not None and self._prompt is not None and answers:
            turns, self._prompt = _turns([self._prompt, answers[-1]]), None
            await self.fusion.akeep(turns)


class FusionRetriever(BaseRetriever):
    """The ``k`` best excerpts of all memories for a query; none, if nothing comes in time."""

    def __init__(self, memory: AgentMemory | None = None, *, k: int = 5, **options: Any) -> None:
        """``options`` are those of `AgentMemory`."""
        super().__init__()
        self._memory = memory or AgentMemory(**options)
        self._k = k

    def _retrieve(self, query_bundle: QueryBundle) -> list[NodeWithScore]:
        return list(map(_node, self._memory.search(query_bundle.query_str, self._k)))

    async def _aretrieve(self, query_bundle: QueryBundle) -> list[NodeWithScore]:
        return list(map(_node, await self._memory.asearch(query_bundle.query_str, self._k)))


def _node(found: Found) -> NodeWithScore:
    node = TextNode(id_=found.ref, text=found.text, metadata=dict(found.metadata))
    return NodeWithScore(node=node, score=found.score)


def _turns(messages: Sequence[ChatMessage]) -> list[Turn]:
    """What was said in messages; those of tools and without a text are left out."""
    roles: dict[str, Role] = {MessageRole.USER: "user", MessageRole.ASSISTANT: "assistant"}
    return [Turn(roles[one.role], _text(one)) for one in messages if one.role in roles and _text(one)]


def _text(message: ChatMessage) -> str:
    return message.content or ""
