"""Memory for Agno: a learning store of an agent, and a hook that keeps its turns.

memory = FusionLearning(user_id="ada")
agent = Agent(model=…, db=InMemoryDb(), learning=memory.machine, post_hooks=[memory.keep_turn])
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import Any

from agno.learn import LearningMachine

from fusion.integrations.agent_memory import AgentMemory, Turn

NAME = "memory_fusion"


class FusionLearning:
    """A learning store: recalls the block for the message of a run, which Agno adds to the system message.

    The user and the session are those of ``memory`` or of the arguments; else those of the run.
    """

    def __init__(self, memory: AgentMemory | None = None, **options: Any) -> None:
        """``options`` are those of `AgentMemory`."""
        self.memory = (memory or AgentMemory(**options)).of_framework("agno")
        self.machine = LearningMachine(custom_stores={NAME: self})

    def keep_turn(self, run_output: Any = None, session: Any = None, user_id: str | None = None) -> None:
        """As one of an agent's ``post_hooks``: keep the turn of a run that is over. It does not wait for the server."""
        messages = getattr(run_output, "messages", None) or ()
        self._of(user_id, getattr(session, "session_id", None)).keep_later(_last_exchange(messages))

    # What Agno asks of a learning store

    @property
    def learning_type(self) -> str:
        return NAME

    @property
    def schema(self) -> Any:
        return str

    def recall(self, message: str | None = None, user_id: str | None = None, session_id: str | None = None) -> str:
        return self._of(user_id, session_id).recall(message or "")

    async def arecall(
        self, message: str | None = None, user_id: str | None = None, session_id: str | None = None
    ) -> str:
        return await self._of(user_id, session_id).arecall(message or "")

    def process(self, messages: Sequence[Any]) -> None:
        """Nothing: Agno calls this while the model still answers. `keep_turn` keeps the whole turn."""

    async def aprocess(self, messages: Sequence[Any]) -> None:
        """As `process`."""

    def build_context(self, data: Any) -> str:
        return str(data or "")

    def instructions(self) -> str:
        return ""

    def get_tools(self) -> list[Callable[..., Any]]:
        return []

    async def aget_tools(self) -> list[Callable[..., Any]]:
        return []

    @property
    def was_updated(self) -> bool:
        return False

    def _of(self, user_id: str | None, session_id: str | None) -> AgentMemory:
        memory = self.memory
        return memory.bound(user_id=memory.user_id or user_id, session_id=memory.session_id or session_id)


def _last_exchange(messages: Sequence[Any]) -> list[Turn]:
    """The last message of the user and the last answer after it."""
    answer: Turn | None = None
    for message in reversed(messages):
        text = message.get_content_string()
        if message.role == "assistant" and text and answer is None:
            answer = Turn("assistant", text, message.id)
        if message.role == "user":
            turns = [Turn("user", text, message.id)]
            return turns if answer is None else [*turns, answer]
    return []
