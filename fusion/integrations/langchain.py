"""Memory for LangChain agents: a middleware, and a retriever.

agent = create_agent(model, tools, middleware=[FusionMiddleware(user_id="ada")])
agent.invoke({"messages": [...]}, {"configurable": {"thread_id": "t1"}})
"""

from __future__ import annotations

from collections.abc import Awaitable, Callable, Sequence
from typing import Any

from langchain.agents.middleware import AgentMiddleware, AgentState, ModelRequest, ModelResponse
from langchain_core.callbacks import AsyncCallbackManagerForRetrieverRun, CallbackManagerForRetrieverRun
from langchain_core.documents import Document
from langchain_core.messages import AIMessage, BaseMessage, HumanMessage, SystemMessage
from langchain_core.retrievers import BaseRetriever
from langgraph.config import get_config
from langgraph.runtime import Runtime
from pydantic import ConfigDict

from fusion.integrations.agent_memory import AgentMemory, Found, Turn


class FusionMiddleware(AgentMiddleware[AgentState[Any], Any, Any]):
    """Adds the block for the user's message to the system message of each model call, and keeps the turn at its end.

    The user and the session are those of ``memory`` or of the arguments; else ``configurable`` of a run names them, as
    ``user_id`` and ``thread_id``. The block is not part of the state, so it is neither stored nor repeated.
    """

    def __init__(self, memory: AgentMemory | None = None, **options: Any) -> None:
        """``options`` are those of `AgentMemory`."""
        super().__init__()
        self.memory = (memory or AgentMemory(**options)).of_framework("langchain")

    def wrap_model_call(
        self, request: ModelRequest[Any], handler: Callable[[ModelRequest[Any]], ModelResponse[Any]]
    ) -> ModelResponse[Any]:
        prompt = _last_prompt(request.messages)
        return handler(_with_block(request, self._memory().recall(_text(prompt))))

    async def awrap_model_call(
        self, request: ModelRequest[Any], handler: Callable[[ModelRequest[Any]], Awaitable[ModelResponse[Any]]]
    ) -> ModelResponse[Any]:
        prompt = _last_prompt(request.messages)
        block = await self._memory().arecall(_text(prompt))
        return await handler(_with_block(request, block))

    def after_agent(self, state: AgentState[Any], runtime: Runtime[Any]) -> None:
        self._memory().keep(_last_exchange(state["messages"]))

    async def aafter_agent(self, state: AgentState[Any], runtime: Runtime[Any]) -> None:
        await self._memory().akeep(_last_exchange(state["messages"]))

    def _memory(self) -> AgentMemory:
        """The memory for the user and the thread of this run."""
        given = get_config().get("configurable", {})
        named = {name: None if given.get(name) is None else str(given[name]) for name in ("user_id", "thread_id")}
        return self.memory.bound(
            user_id=self.memory.user_id or named["user_id"], session_id=self.memory.session_id or named["thread_id"]
        )


class FusionRetriever(BaseRetriever):
    """The ``k`` best excerpts of all memories for a query; none, if nothing comes in time."""

    model_config = ConfigDict(arbitrary_types_allowed=True)

    memory: AgentMemory
    k: int = 5

    def _get_relevant_documents(self, query: str, *, run_manager: CallbackManagerForRetrieverRun) -> list[Document]:
        return list(map(_document, self.memory.search(query, self.k)))

    async def _aget_relevant_documents(
        self, query: str, *, run_manager: AsyncCallbackManagerForRetrieverRun
    ) -> list[Document]:
        return list(map(_document, await self.memory.asearch(query, self.k)))


def _document(found: Found) -> Document:
    return Document(page_content=found.text, metadata=dict(found.metadata), id=found.ref)


def _with_block(request: ModelRequest[Any], block: str) -> ModelRequest[Any]:
    """The request with a block at the end of its system message; its own text stays first, for the prompt's cache."""
    if not block:
        return request
    before = request.system_message
    parts = [] if before is None else [*before.content_blocks, {"type": "text", "text": "\n\n"}]
    return request.override(system_message=SystemMessage(content=[*parts, {"type": "text", "text": block}]))


def _last_prompt(messages: Sequence[BaseMessage]) -> BaseMessage | None:
    return next((one for one in reversed(messages) if isinstance(one, HumanMessage)), None)


def _last_exchange(messages: Sequence[BaseMessage]) -> list[Turn]:
    """The last message of the user and the last answer after it."""
    prompt = _last_prompt(messages)
    if prompt is None:
        return []
    answers = messages[messages.index(prompt) + 1 :]
    answer = next((one for one in reversed(answers) if isinstance(one, AIMessage) and _text(one)), None)
    turns = [Turn("user", _text(prompt), _id(prompt))]
    return turns if answer is None else [*turns, Turn("assistant", _text(answer), _id(answer))]


def _text(message: BaseMessage | None) -> str:
    return "" if message is None else str(message.text)


def _id(message: BaseMessage | None) -> str | None:
    return None if message is None else message.id
