"""A LlamaIndex chat engine with a memory that recalls before each call of its model, and keeps each turn.

pip install "memory-fusion[llama-index]"
"""

from collections.abc import Sequence
from typing import Any

from llama_index.core.base.llms.types import ChatMessage, ChatResponse
from llama_index.core.chat_engine import SimpleChatEngine
from llama_index.core.llms.mock import MockLLM

from fusion.integrations.llama_index import FusionMemory


class Echo(MockLLM):
    """Stands in for a model with a key: it answers with the system message that it is shown."""

    def chat(self, messages: Sequence[ChatMessage], **options: Any) -> ChatResponse:
        return ChatResponse(message=ChatMessage(role="assistant", content=messages[0].content))


memory = FusionMemory.of(user_id="berit", session_id="t1", recall_s=2)
assert memory.fusion is not None
memory.fusion.client.remember({"text": "Staging moved to port 4410 on Friday", "user_id": "berit"})
memory.fusion.client.settle()

engine = SimpleChatEngine.from_defaults(llm=Echo(is_chat_model=True), memory=memory)
print(engine.chat("which port is staging on since Friday?"))
