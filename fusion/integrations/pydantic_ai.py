"""Memory for Pydantic AI: a capability of an agent.

agent = Agent(model, capabilities=[FusionMemory(memory=AgentMemory(user_id="ada", session_id="t1"))])
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass, field, replace
from typing import Any

from pydantic_ai import RunContext
from pydantic_ai.capabilities import AbstractCapability
from pydantic_ai.messages import InstructionPart
from pydantic_ai.models import ModelRequestContext
from pydantic_ai.run import AgentRunResult

from fusion.integrations.agent_memory import AgentMemory, Turn


@dataclass
class FusionMemory(AbstractCapability[Any]):
    """Adds the block for the prompt of a run to the instructions of each model request, and keeps the turn at its end.

    ``memory`` may be a function of the run's context, for an agent that serves several users:
    ``lambda context: shared.bound(user_id=context.deps.user_id)``.
    """

    memory: AgentMemory | Callable[[RunContext[Any]], AgentMemory] = field(default_factory=AgentMemory)

    async def before_model_request(
        self, ctx: RunContext[Any], request_context: ModelRequestContext
    ) -> ModelRequestContext:
        block = await self._of(ctx).arecall(_text(ctx.prompt))
        if not block:
            return request_context
        parameters = request_context.model_request_parameters
        parts = [*(parameters.instruction_parts or ()), InstructionPart(content=block, dynamic=True)]
        return replace(request_context, model_request_parameters=replace(parameters, instruction_parts=parts))

    async def after_run(self, ctx: RunContext[Any], *, result: AgentRunResult[Any]) -> AgentRunResult[Any]:
        answer = result.output
        turns = [Turn("user", _text(ctx.prompt))]
        await self._of(ctx).akeep([*turns, Turn("assistant", answer)] if isinstance(answer, str) else turns)
        return result

    def _of(self, ctx: RunContext[Any]) -> AgentMemory:
        memory = self.memory if isinstance(self.memory, AgentMemory) else self.memory(ctx)
        return memory.of_framework("pydantic-ai")


def _text(prompt: Any) -> str:
    """The texts of a prompt, which may also have images and files."""
    if isinstance(prompt, str):
        return prompt
    texts = (part if isinstance(part, str) else getattr(part, "content", None) for part in prompt or ())
    return "\n".join(text for text in texts if isinstance(text, str))
