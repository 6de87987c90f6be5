"""Memory for Google's Agent Development Kit: a memory service of a runner.

    runner = Runner(agent=agent, app_name="app", session_service=…, memory_service=FusionMemoryService())

With `PreloadMemoryTool` in its tools an agent recalls before each model call, and with `keep_session` as its
``after_agent_callback`` it keeps each turn.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any

from google.adk.agents.callback_context import CallbackContext
from google.adk.events import Event
from google.adk.memory import BaseMemoryService
from google.adk.memory.base_memory_service import SearchMemoryResponse
from google.adk.memory.memory_entry import MemoryEntry
from google.adk.sessions import Session
from google.genai import types

from fusion.errors import NotFound
from fusion.integrations.agent_memory import AgentMemory, Found, Turn

USER = "user"
"""the author of what a person said"""


class FusionMemoryService(BaseMemoryService):
    """The memories of each user of a runner, of all its apps and sessions. An event is kept once, by its id."""

    def __init__(self, memory: AgentMemory | None = None, *, k: int = 5, **options: Any) -> None:
        """``k`` is the number of memories of one search; ``options`` are those of `AgentMemory`."""
        self.memory = (memory or AgentMemory(**options)).of_framework("google-adk")
        self._k = k

    async def add_session_to_memory(self, session: Session) -> None:
        await self.add_events_to_memory(
            app_name=session.app_name, user_id=session.user_id, events=session.events, session_id=session.id
        )

    async def add_events_to_memory(
        self,
        *,
        app_name: str,
        user_id: str,
        events: Sequence[Event],
        session_id: str | None = None,
        custom_metadata: Mapping[str, object] | None = None,
    ) -> None:
        memory = self.memory.bound(user_id=user_id, session_id=session_id)
        await memory.akeep([turn for event in events if (turn := _turn(event)) is not None])

    async def add_memory(
        self,
        *,
        app_name: str,
        user_id: str,
        memories: Sequence[MemoryEntry],
        custom_metadata: Mapping[str, object] | None = None,
    ) -> None:
        """Remember texts. Raises what the server raises: who adds a memory explicitly wants to know."""
        texts = [text for entry in memories if (text := _text(entry.content))]
        told = [{"text": text, "user_id": user_id, "origin": "agent", "audience": "private"} for text in texts]
        if told:
            await self.memory.run(lambda client: client.remember(told))

    async def search_memory(self, *, app_name: str, user_id: str, query: str) -> SearchMemoryResponse:
        found = await self.memory.bound(user_id=user_id).asearch(query, self._k)
        return SearchMemoryResponse(memories=list(map(_entry, found)))

    async def delete_memory(self, *, app_name: str, user_id: str, memory_id: str | None = None) -> None:
        """Forget a memory everywhere, by the id of its entry. One that is not there is deleted already."""
        if memory_id is None:
            raise ValueError("memory_id: give the id of an entry that search_memory returned")
        try:
            await self.memory.run(lambda client: client.forget(memory_id, user_id=user_id))
        except NotFound:
            return


async def keep_session(callback_context: CallbackContext) -> None:
    """As the ``after_agent_callback`` of an agent: keep what was said in the session."""
    await callback_context.add_session_to_memory()


def _turn(event: Event) -> Turn | None:
    """What an event says; None for a call or a result of a tool, a thought, or a part of a stream."""
    text = _text(event.content)
    if not text or event.partial or event.get_function_calls():
        return None
    return Turn("user" if event.author == USER else "assistant", text, event.id)


def _text(content: types.Content | None) -> str:
    parts = content.parts or () if content is not None else ()
    return "\n".join(part.text for part in parts if part.text and not part.thought)


def _entry(found: Found) -> MemoryEntry:
    content = types.Content(parts=[types.Part.from_text(text=found.text)])
    return MemoryEntry(
        content=content, id=found.ref, timestamp=found.metadata.get("at"), custom_metadata=dict(found.metadata)
    )
