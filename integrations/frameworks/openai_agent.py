"""An agent of OpenAI's Agents SDK that recalls before each call of its model, and keeps each turn.

pip install "memory-fusion[openai-agents]"
"""

import asyncio
from typing import Any

from agents import Agent, Model, ModelResponse, Runner, Usage
from openai.types.responses import ResponseOutputMessage, ResponseOutputText

from fusion.integrations.openai_agents import FusionMemory


class Echo(Model):
    """Stands in for a model with a key: it answers with the instructions that it is shown."""

    async def get_response(self, system_instructions: Any, input: Any, *args: Any, **options: Any) -> ModelResponse:
        text = ResponseOutputText(text=system_instructions, type="output_text", annotations=[])
        said = ResponseOutputMessage(id="m1", content=[text], role="assistant", status="completed", type="message")
        return ModelResponse(output=[said], usage=Usage(), response_id=None)

    def stream_response(self, *args: Any, **options: Any) -> Any:
        raise NotImplementedError


async def main() -> None:
    fusion = FusionMemory(user_id="berit", session_id="t1", recall_s=2)
    fusion.memory.client.remember({"text": "Staging moved to port 4410 on Friday", "user_id": "berit"})
    fusion.memory.client.settle()
    agent = Agent[Any](name="helper", instructions="You help.", model=Echo())
    prompt = "which port is staging on since Friday?"
    done = await Runner.run(agent, prompt, hooks=fusion.hooks, run_config=fusion.run_config())
    print(done.final_output)


asyncio.run(main())
