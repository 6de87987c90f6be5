"""Memory for CrewAI: a memory of agents and crews over the fused recall.

agent = Agent(role=…, goal=…, backstory=…, llm=…, memory=FusionMemory.of(user_id="ada", session_id="t1"))
"""

from __future__ import annotations

from datetime import datetime
from typing import Any, Self

from crewai import Memory
from crewai.memory.types import MemoryMatch, MemoryRecord, ScopeInfo
from pydantic import Field

from fusion.errors import NotFound
from fusion.integrations.agent_memory import AgentMemory, Found, Turn

REASON = "memory-fusion"
_BEGINNINGS = ("Task: ", "Input: ")
_AGENT, _RESULT = "\nAgent: ", "\nResult: "
"""how CrewAI writes what it hands over after a task, or after a kickoff of an agent"""


class FusionMemory(Memory):
    """The memories of one user. A crew or an agent recalls before a task and keeps prompt and answer after it.

    CrewAI's scopes, categories and analysis by a model are not used: the server ranks, and extracts what was said.
    """

    fusion: AgentMemory = Field(exclude=True)
    k: int = 5
    """memories of one recall"""

    @classmethod
    def of(cls, memory: AgentMemory | None = None, *, k: int = 5, **options: Any) -> Self:
        """A memory whose ``options`` are those of `AgentMemory`."""
        fusion = (memory or AgentMemory(**options)).of_framework("crewai")
        return cls(storage=_Records(fusion), fusion=fusion, k=k)

    def recall(self, query: str, *args: Any, limit: int = 10, **options: Any) -> list[MemoryMatch]:
        return [_match(found) for found in self.fusion.search(query, min(limit, self.k))]

    async def arecall(self, query: str, *args: Any, limit: int = 10, **options: Any) -> list[MemoryMatch]:
        return [_match(found) for found in await self.fusion.asearch(query, min(limit, self.k))]

    def extract_memories(self, content: str) -> list[str]:
        """What was handed over, as it is."""
        return [content]

    async def aextract_memories(self, content: str) -> list[str]:
        return [content]

    def remember(self, content: str, *args: Any, **options: Any) -> MemoryRecord | None:
        """Remember a text. Raises what the server raises: who remembers explicitly wants to know."""
        if self.read_only:
            return None
        user = self.fusion.user_id
        told = {"text": content, "user_id": user, "origin": "agent", "audience": "private"}
        (kept,) = self.fusion.client.remember(told)["memories"]
        return MemoryRecord(id=kept["ref"], content=content)

    def remember_many(self, contents: list[str], *args: Any, **options: Any) -> list[MemoryRecord]:
        """Keep the turn that CrewAI hands over after a task, once and without waiting; remember any other text."""
        for content in () if self.read_only else contents:
            turns = _turns(content)
            if turns:
                self.fusion.keep_later(turns)
            else:
                self.remember(content)
        return []

    def update(self, record_id: str, content: str | None = None, *args: Any, **options: Any) -> MemoryRecord:
        """Replace the text of a memory; the record has the ref of its new version."""
        if content is not None and not self.read_only:
            kept = self.fusion.client.update(record_id, content, origin="agent", user_id=self.fusion.user_id)
            record_id = kept["ref"]
        record = self._storage.get_record(record_id)
        if record is None:
            raise ValueError(f"there is no memory {record_id!r}")
        return record

    def drain_writes(self) -> None:
        self.fusion.flush()


class _Records:
    """What CrewAI asks of a storage beside recall: reading and forgetting records by their refs."""

    def __init__(self, memory: AgentMemory) -> None:
        self._memory = memory

    def get_record(self, record_id: str) -> MemoryRecord | None:
        try:
            found = self._memory.client.memory(record_id, user_id=self._memory.user_id)
        except NotFound:
            return None
        return MemoryRecord(id=found["ref"], content=found["text"])

    def list_records(self, scope_prefix: str | None = None, limit: int = 200, offset: int = 0) -> list[MemoryRecord]:
        """The newest memories of the user, of all scopes."""
        wanted = min(100, limit + offset)
        page = self._memory.client.memories(user_id=self._memory.user_id, limit=wanted)["memories"]
        return [MemoryRecord(id=one["ref"], content=one["text"]) for one in page[offset : offset + limit]]

    def delete(
        self,
        scope_prefix: str | None = None,
        categories: list[str] | None = None,
        record_ids: list[str] | None = None,
        older_than: datetime | None = None,
        metadata_filter: dict[str, Any] | None = None,
    ) -> int:
        """Forget records by their ids. Other criteria are refused: they would forget what they do not name."""
        if record_ids is None or categories or older_than or metadata_filter:
            raise NotImplementedError("memory-fusion forgets by record_ids; for the rest there is `fusion forget`")
        forgotten = self._memory.client.forget_many(refs=record_ids, user_id=self._memory.user_id)
        return len(forgotten["receipts"])

    def count(self, scope_prefix: str | None = None) -> int:
        return int(self._memory.client.status(user_id=self._memory.user_id)["memories"]["current"])

    def get_scope_info(self, scope: str) -> ScopeInfo:
        return ScopeInfo(path=scope, record_count=self.count())

    def list_scopes(self, parent: str = "/") -> list[str]:
        return []

    def list_categories(self, scope_prefix: str | None = None) -> dict[str, int]:
        return {}

    def reset(self, scope_prefix: str | None = None) -> None:
        raise NotImplementedError("a crew does not reset all memories of a user: `fusion forget` does")


def _turns(content: str) -> list[Turn]:
    """The prompt and the answer that CrewAI hands over; [] for another text."""
    prompt, agent, rest = content.partition(_AGENT)
    _, result, answer = rest.partition(_RESULT)
    beginning = next((one for one in _BEGINNINGS if prompt.startswith(one)), None)
    if beginning is None or not (agent and result):
        return []
    return [Turn("user", prompt.removeprefix(beginning)), Turn("assistant", answer)]


def _match(found: Found) -> MemoryMatch:
    return MemoryMatch(record=MemoryRecord(id=found.ref, content=found.text), score=found.score, match_reasons=[REASON])
