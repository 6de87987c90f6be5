"""Memory for Microsoft's Agent Framework: a context provider of an agent.

agent = Agent(client=…, context_providers=[FusionContextProvider(user_id="ada")])
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

from agent_framework import AgentSession, ContextProvider, Message, SessionContext

from fusion.integrations.agent_memory import AgentMemory, Role, Turn

SOURCE = "memory_fusion"
ROLES: dict[str, Role] = {"user": "user", "assistant": "assistant"}


class FusionContextProvider(ContextProvider):
    """Adds the block for a run's messages to its instructions, and keeps the turn after it.

    The session is that of ``memory`` or of the arguments, else the agent's.
    """

    def __init__(self, memory: AgentMemory | None = None, **options: Any) -> None:
        """``options`` are those of `AgentMemory`."""
        super().__init__(SOURCE)
        self.memory = (memory or AgentMemory(**options)).of_framework("agent-framework")

    async def before_run(
        self, *, agent: Any, session: AgentSession, context: SessionContext, state: dict[str, Any]
    ) -> None:
        prompt = "\n".join(turn.text for turn in _turns(context.input_messages) if turn.role == "user")
        block = await self._of(session).arecall(prompt)
        if block:
            context.extend_instructions(self.source_id, block)

    async def after_run(
        self, *, agent: Any, session: AgentSession, context: SessionContext, state: dict[str, Any]
    ) -> None:
        answers = _turns(context.response.messages if context.response is not None else ())
        await self._of(session).akeep([*_turns(context.input_messages), *answers[-1:]])

    def _of(self, session: AgentSession) -> AgentMemory:
        return self.memory.bound(session_id=self.memory.session_id or session.session_id)


def _turns(messages: Sequence[Message]) -> list[Turn]:
    """What was said in messages; those of tools and without a text are left out."""
    return [Turn(ROLES[one.role], one.text) for one in messages if one.role in ROLES and one.text]
