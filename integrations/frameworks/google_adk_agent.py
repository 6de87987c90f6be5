"""An agent of Google's ADK that recalls before each call of its model, and keeps each turn.

pip install "memory-fusion[google-adk]"
"""

from collections.abc import AsyncGenerator

from google.adk.agents import Agent
from google.adk.models import BaseLlm, LlmRequest, LlmResponse
from google.adk.runners import Runner
from google.adk.sessions import InMemorySessionService
from google.adk.tools.preload_memory_tool import PreloadMemoryTool
from google.genai import types

from fusion.integrations.google_adk import FusionMemoryService, keep_session


class Echo(BaseLlm):
    """Stands in for a model with a key: it answers with the first content that it is shown."""

    model: str = "echo"

    async def generate_content_async(
        self, llm_request: LlmRequest, stream: bool = False
    ) -> AsyncGenerator[LlmResponse, None]:
        yield LlmResponse(content=types.Content(role="model", parts=llm_request.contents[0].parts))


service = FusionMemoryService(recall_s=2)
service.memory.client.remember({"text": "Staging moved to port 4410 on Friday", "user_id": "berit"})
service.memory.client.settle()

agent = Agent(name="helper", model=Echo(), tools=[PreloadMemoryTool()], after_agent_callback=keep_session)
runner = Runner(
    agent=agent,
    app_name="app",
    session_service=InMemorySessionService(),
    memory_service=service,
    auto_create_session=True,
)
asked = types.Content(role="user", parts=[types.Part.from_text(text="which port is staging on since Friday?")])
for event in runner.run(user_id="berit", session_id="t1", new_message=asked):
    print(event.content.parts[0].text)
