"""Memory for Haystack: hooks of an agent, and a retriever for pipelines.

agent = Agent(chat_generator=…, hooks=FusionMemory(user_id="ada", session_id="t1").hooks)
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any

from haystack import Document, component, default_from_dict, default_to_dict
from haystack.components.agents.state import State, replace_values
from haystack.dataclasses import ChatMessage, ChatRole

from fusion.integrations.agent_memory import RECALL_S, AgentMemory, Found, Turn

BEFORE = "memory_fusion_before"
"""the name in a system message's metadata of its text without the block; None if there was no such message"""


class FusionMemory:
    """The hooks of an agent of one user and session; an agent takes them as ``hooks``."""

    def __init__(self, memory: AgentMemory | None = None, **options: Any) -> None:
        """``options`` are those of `AgentMemory`."""
        self.memory = (memory or AgentMemory(**options)).of_framework("haystack")

    @property
    def hooks(self) -> dict[str, list[Any]]:
        return {"before_llm": [RecallHook(self.memory)], "after_run": [KeepHook(self.memory)]}


class _Hook:
    """A hook with a memory. A serialised one names the user and the session, and uses the client of the home."""

    def __init__(self, memory: AgentMemory | None = None, **options: Any) -> None:
        self._memory = (memory or AgentMemory(**options)).of_framework("haystack")

    def to_dict(self) -> dict[str, Any]:
        memory = self._memory
        return dict(default_to_dict(self, user_id=memory.user_id, session_id=memory.session_id))

    @classmethod
    def from_dict(cls, data: dict[str, Any]) -> Any:
        return default_from_dict(cls, data)


class RecallHook(_Hook):
    """Adds the block for the user's message to the system message, before each call of the model."""

    def run(self, state: State) -> None:
        self._set(state, self._memory.recall(_last_prompt(state.data["messages"])))

    async def run_async(self, state: State) -> None:
        self._set(state, await self._memory.arecall(_last_prompt(state.data["messages"])))

    def _set(self, state: State, block: str) -> None:
        messages = without_block(state.data["messages"])
        state.set("messages", _with_block(messages, block), handler_override=replace_values)


class KeepHook(_Hook):
    """Takes the block out of the messages of a run that is over, and keeps its turn."""

    def run(self, state: State) -> None:
        self._memory.keep(self._ended(state))

    async def run_async(self, state: State) -> None:
        await self._memory.akeep(self._ended(state))

    def _ended(self, state: State) -> list[Turn]:
        messages = without_block(state.data["messages"])
        state.set("messages", messages, handler_override=replace_values)
        return _last_exchange(messages)


@component
class FusionRetriever:
    """A text retriever: the best excerpts of all memories for a query; none, if nothing comes in time."""

    def __init__(
        self,
        user_id: str | None = None,
        top_k: int = 5,
        recall_s: float = RECALL_S,
        memory: AgentMemory | None = None,
    ) -> None:
        self._memory = memory or AgentMemory(user_id=user_id, recall_s=recall_s)
        self._top_k = top_k

    @component.output_types(documents=list[Document])
    def run(self, query: str, filters: dict[str, Any] | None = None, top_k: int | None = None) -> dict[str, Any]:
        """``filters`` are those of a question's ``where``, as {"kind": "decision"}, and not Haystack's."""
        return _documents(self._of(filters).search(query, top_k or self._top_k))

    @component.output_types(documents=list[Document])
    async def run_async(
        self, query: str, filters: dict[str, Any] | None = None, top_k: int | None = None
    ) -> dict[str, Any]:
        return _documents(await self._of(filters).asearch(query, top_k or self._top_k))

    def _of(self, filters: Mapping[str, Any] | None) -> AgentMemory:
        return self._memory.limited(where=filters) if filters else self._memory

    def to_dict(self) -> dict[str, Any]:
        memory = self._memory
        return dict(default_to_dict(self, user_id=memory.user_id, top_k=self._top_k, recall_s=memory.recall_s))


def _documents(found: Sequence[Found]) -> dict[str, Any]:
    return {"documents": list(map(_document, found))}


def _document(found: Found) -> Document:
    return Document(id=found.ref, content=found.text, score=found.score, meta=dict(found.metadata))


def _with_block(messages: list[ChatMessage], block: str) -> list[ChatMessage]:
    """The messages with a block at the end of their system message, which notes what it was before."""
    if not block:
        return messages
    first = messages[0] if messages and messages[0].is_from(ChatRole.SYSTEM) else None
    text = None if first is None else first.text or ""
    meta = {**({} if first is None else first.meta), BEFORE: text}
    added = ChatMessage.from_system("\n\n".join(filter(None, (text, block))), meta=meta)
    return [added, *(messages if first is None else messages[1:])]


def without_block(messages: Sequence[ChatMessage]) -> list[ChatMessage]:
    """The messages as they were without a block."""
    if not messages or BEFORE not in messages[0].meta:
        return list(messages)
    first, *others = messages
    meta = {name: value for name, value in first.meta.items() if name != BEFORE}
    text = first.meta[BEFORE]
    return others if text is None else [ChatMessage.from_system(text, meta=meta), *others]


def _last_prompt(messages: Sequence[ChatMessage]) -> str:
    return next((one.text or "" for one in reversed(messages) if one.is_from(ChatRole.USER)), "")


def _last_exchange(messages: Sequence[ChatMessage]) -> list[Turn]:
    """The last message of the user and the last answer after it."""
    answer = ""
    for message in reversed(messages):
        if message.is_from(ChatRole.ASSISTANT) and not answer:
            answer = message.text or ""
        if message.is_from(ChatRole.USER):
            turns = [Turn("user", message.text or "")]
            return [*turns, Turn("assistant", answer)] if answer else turns
    return []
