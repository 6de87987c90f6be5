"""Memory for AutoGen: a model context of an assistant.

agent = AssistantAgent("helper", model_client=…, model_context=FusionContext(user_id="ada", session_id="t1"))
"""

from __future__ import annotations

from typing import Any

from autogen_core.model_context import UnboundedChatCompletionContext
from autogen_core.models import AssistantMessage, LLMMessage, SystemMessage, UserMessage

from fusion.integrations.agent_memory import AgentMemory, Turn


class FusionContext(UnboundedChatCompletionContext):
    """The whole conversation, with the block for its last prompt in front of that; the block is not stored in it.

    A turn is kept when the assistant's answer is added.
    """

    def __init__(self, memory: AgentMemory | None = None, **options: Any) -> None:
        """``options`` are those of `AgentMemory`."""
        super().__init__()
        self.memory = (memory or AgentMemory(**options)).of_framework("autogen")

    async def get_messages(self) -> list[LLMMessage]:
        messages = list(await super().get_messages())
        position = _last_prompt(messages)
        block = "" if position is None else await self.memory.arecall(_text(messages[position]))
        if block and position is not None:
            messages.insert(position, SystemMessage(content=block))
        return messages

    async def add_message(self, message: LLMMessage) -> None:
        await super().add_message(message)
        if isinstance(message, AssistantMessage) and isinstance(message.content, str):
            messages = await super().get_messages()
            position = _last_prompt(messages)
            said = [] if position is None else [Turn("user", _text(messages[position]))]
            await self.memory.akeep([*said, Turn("assistant", message.content)])


def _last_prompt(messages: list[LLMMessage]) -> int | None:
    """The position of the last message of the user."""
    return next((i for i in range(len(messages) - 1, -1, -1) if isinstance(messages[i], UserMessage)), None)


def _text(message: LLMMessage) -> str:
    """The texts of a message, which may also have images."""
    parts = message.content if isinstance(message.content, list) else [message.content]
    return "\n".join(part for part in parts if isinstance(part, str))
