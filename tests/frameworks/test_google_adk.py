"""The memory service in Google ADK's own runner, with its own preload tool and a scripted model of its interface."""

from __future__ import annotations

from collections.abc import AsyncGenerator
from typing import Any

import pytest
from google.adk.agents import Agent
from google.adk.memory.memory_entry import MemoryEntry
from google.adk.models import BaseLlm, LlmRequest, LlmResponse
from google.adk.runners import Runner
from google.adk.sessions import InMemorySessionService
from google.adk.tools.preload_memory_tool import PreloadMemoryTool
from google.genai import types
from pydantic import PrivateAttr

from fusion.client import Client
from fusion.integrations.agent_memory import AgentMemory
from fusion.integrations.google_adk import FusionMemoryService, keep_session
from tests.frameworks.contract import ASKED, FACT, PATIENT_S, REPLY, AgentContract, Host, tell

pytestmark = pytest.mark.frameworks


class Scripted(BaseLlm):
    """A model that answers the same, and notes what it is shown."""

    model: str = "scripted"
    _shown: list[str] = PrivateAttr(default_factory=list)

    async def generate_content_async(
        self, llm_request: LlmRequest, stream: bool = False
    ) -> AsyncGenerator[LlmResponse, None]:
        parts = [part.text or "" for content in llm_request.contents for part in content.parts or ()]
        self._shown.append("\n".join([str(llm_request.config.system_instruction), *parts]))
        yield LlmResponse(content=said("model", REPLY))


def said(role: str, text: str) -> types.Content:
    return types.Content(role=role, parts=[types.Part.from_text(text=text)])


class ADKHost(Host):
    def __init__(self, memory: AgentMemory) -> None:
        super().__init__(memory)
        model = Scripted()
        self.shown = model._shown
        agent = Agent(
            name="helper",
            model=model,
            instruction="Help.",
            tools=[PreloadMemoryTool()],
            after_agent_callback=keep_session,
        )
        self.runner = Runner(
            agent=agent,
            app_name="app",
            session_service=InMemorySessionService(),
            memory_service=FusionMemoryService(memory),
            auto_create_session=True,
        )

    def _run(self, prompt: str) -> dict[str, Any]:
        return {"user_id": self.memory.user_id, "session_id": "s1", "new_message": said("user", prompt)}

    def say(self, prompt: str) -> str:
        return "".join(text_of(event) for event in self.runner.run(**self._run(prompt)))

    async def asay(self, prompt: str) -> str:
        return "".join([text_of(event) async for event in self.runner.run_async(**self._run(prompt))])


def text_of(event: Any) -> str:
    return "".join(part.text or "" for part in event.content.parts) if event.content else ""


class TestGoogleADK(AgentContract):
    opening = "<PAST_CONVERSATIONS>"
    """the block of its own tool, with the memories that the service found"""

    def host(self, memory: AgentMemory) -> Host:
        return ADKHost(memory)


async def test_memories_are_added_found_and_deleted(client: Client, user: str) -> None:
    service = FusionMemoryService(AgentMemory(client, recall_s=PATIENT_S))
    whose: Any = {"app_name": "app", "user_id": user}
    await service.add_memory(**whose, memories=[MemoryEntry(content=said("user", FACT))])
    client.settle()
    (found,) = (await service.search_memory(**whose, query=ASKED)).memories
    assert text_of(found) == FACT
    assert (await service.search_memory(app_name="app", user_id=f"{user}-other", query=ASKED)).memories == []
    for _ in range(2):
        await service.delete_memory(**whose, memory_id=found.id)
    assert (await service.search_memory(**whose, query=ASKED)).memories == []


async def test_a_dead_server_finds_nothing(user: str) -> None:
    service = FusionMemoryService(client=Client("http://127.0.0.1:9"))
    assert (await service.search_memory(app_name="app", user_id=user, query=ASKED)).memories == []


async def test_a_user_has_one_memory_in_all_apps(client: Client, user: str) -> None:
    tell(client, user, FACT)
    service = FusionMemoryService(AgentMemory(client, recall_s=PATIENT_S))
    for app in ("one", "two"):
        assert len((await service.search_memory(app_name=app, user_id=user, query=ASKED)).memories) == 1
