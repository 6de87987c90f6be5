"""Memory for agents of OpenAI's Agents SDK: a filter of the model's input, and hooks of a run.

memory = FusionMemory(user_id="ada", session_id="t1")
await Runner.run(agent, prompt, hooks=memory.hooks, run_config=memory.run_config())
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import replace
from typing import Any

from agents import AgentHookContext, RunConfig, RunHooks
from agents.run import CallModelData, ModelInputData

from fusion.integrations.agent_memory import AgentMemory, Turn


class FusionMemory:
    """The memories of one user and one session. A session of the SDK keeps the history; this keeps what outlasts it."""

    def __init__(self, memory: AgentMemory | None = None, **options: Any) -> None:
        """``options`` are those of `AgentMemory`."""
        self.memory = (memory or AgentMemory(**options)).of_framework("openai-agents")
        self.hooks = FusionHooks(self.memory)

    def run_config(self, base: RunConfig | None = None) -> RunConfig:
        """A configuration of runs with the filter that adds the block to the instructions of each model call."""
        return replace(base or RunConfig(), call_model_input_filter=self.add_block)

    async def add_block(self, data: CallModelData[Any]) -> ModelInputData:
        """The input of a model call with the block for the user's last message at the end of its instructions."""
        block = await self.memory.arecall(_last_prompt(data.model_data.input))
        if not block:
            return data.model_data
        instructions = "\n\n".join(filter(None, (data.model_data.instructions, block)))
        return ModelInputData(data.model_data.input, instructions)


class FusionHooks(RunHooks[Any]):
    """Keeps the turn of a run once it has its final output."""

    def __init__(self, memory: AgentMemory) -> None:
        self._memory = memory

    async def on_agent_end(self, context: AgentHookContext[Any], agent: Any, output: Any) -> None:
        prompt = _last_prompt(context.turn_input)
        turns = [Turn("user", prompt)] if prompt else []
        if isinstance(output, str):
            turns.append(Turn("assistant", output))
        await self._memory.akeep(turns)


def _last_prompt(items: Sequence[Any]) -> str:
    """The text of the user's last message."""
    messages = (one for one in reversed(items) if isinstance(one, dict) and one.get("role") == "user")
    return _text(next(messages, {}).get("content"))


def _text(content: Any) -> str:
    if isinstance(content, str):
        return content
    return "\n".join(str(part["text"]) for part in content or () if isinstance(part, dict) and part.get("text"))
