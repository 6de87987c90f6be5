"""The memory, its block and the retriever in LlamaIndex's own chat engine and agent, with its own mock models."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

import pytest
from llama_index.core.agent.workflow import FunctionAgent
from llama_index.core.base.llms.types import ChatMessage, ChatResponse, MessageRole
from llama_index.core.chat_engine import SimpleChatEngine
from llama_index.core.llms.mock import MockFunctionCallingLLM, MockLLM
from pydantic import PrivateAttr

from fusion.client import Client
from fusion.integrations.agent_memory import AgentMemory
from fusion.integrations.llama_index import FusionMemory, FusionMemoryBlock, FusionRetriever
from tests.frameworks.contract import (
    ASKED,
    FACT,
    OPENING,
    PATIENT_S,
    REPLY,
    AgentContract,
    Host,
    spoken,
    tell,
    turns_of,
)

pytestmark = pytest.mark.frameworks


class Scripted(MockLLM):
    """LlamaIndex's mock, which answers the same and notes what it is shown."""

    _shown: list[str] = PrivateAttr(default_factory=list)

    def chat(self, messages: Sequence[ChatMessage], **options: Any) -> ChatResponse:
        self._shown.append("\n".join(one.content or "" for one in messages))
        return ChatResponse(message=ChatMessage(role=MessageRole.ASSISTANT, content=REPLY))

    async def achat(self, messages: Sequence[ChatMessage], **options: Any) -> ChatResponse:
        return self.chat(messages, **options)


class LlamaIndexHost(Host):
    def __init__(self, memory: AgentMemory) -> None:
        super().__init__(memory)
        model = Scripted(is_chat_model=True)
        self.shown = model._shown
        self.engine = SimpleChatEngine.from_defaults(llm=model, memory=FusionMemory.of(memory), system_prompt="Help.")

    def say(self, prompt: str) -> str:
        return str(self.engine.chat(prompt))

    async def asay(self, prompt: str) -> str:
        return str(await self.engine.achat(prompt))


class TestLlamaIndex(AgentContract):
    def host(self, memory: AgentMemory) -> Host:
        return LlamaIndexHost(memory)

    async def test_an_agent_of_a_workflow_has_it_too(self, memory: AgentMemory) -> None:
        tell(memory.client, memory.user_id, FACT)
        shown: list[str] = []

        def answer(messages: Sequence[ChatMessage], **options: Any) -> ChatMessage:
            shown.append("\n".join(one.content or "" for one in messages))
            return ChatMessage(role=MessageRole.ASSISTANT, content=REPLY)

        model = MockFunctionCallingLLM(response_generator=answer, is_chat_model=True)
        agent = FunctionAgent(tools=[], llm=model, system_prompt="Help.", streaming=False)
        assert str(await agent.run(ASKED, memory=FusionMemory.of(memory))) == REPLY
        assert shown[0].count(OPENING) == 1
        assert memory.flush()
        assert turns_of(memory) == spoken(ASKED)

    async def test_what_a_memory_ejects_is_kept_once(self, memory: AgentMemory) -> None:
        """The block alone, in a memory of LlamaIndex, keeps what leaves the short term."""
        block = FusionMemoryBlock(memory=memory)
        said = [ChatMessage(role="user", content=ASKED), ChatMessage(role="assistant", content=REPLY)]
        for _ in range(2):
            await block.aput([*said, ChatMessage(role="tool", content="a result")])
        assert memory.flush()
        assert turns_of(memory) == spoken(ASKED)


async def test_the_retriever_returns_nodes(client: Client, user: str) -> None:
    tell(client, user, FACT)
    retriever = FusionRetriever(AgentMemory(client, user_id=user, recall_s=PATIENT_S), k=3)
    for found in (retriever.retrieve(ASKED), await retriever.aretrieve(ASKED)):
        assert [one.text for one in found] == [FACT]
        assert found[0].score == found[0].metadata["score"]
    assert FusionRetriever(client=Client("http://127.0.0.1:9"), user_id=user).retrieve(ASKED) == []
