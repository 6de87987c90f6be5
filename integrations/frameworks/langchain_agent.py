"""A LangChain agent that recalls before each call of its model, and keeps each turn.

pip install "memory-fusion[langchain]"
"""

from typing import Any

from langchain.agents import create_agent
from langchain_core.language_models import BaseChatModel
from langchain_core.messages import AIMessage
from langchain_core.outputs import ChatGeneration, ChatResult

from fusion.integrations.agent_memory import AgentMemory
from fusion.integrations.langchain import FusionMiddleware, FusionRetriever


class Echo(BaseChatModel):
    """Stands in for a model with a key: it answers with the system message that it is shown."""

    @property
    def _llm_type(self) -> str:
        return "echo"

    def _generate(self, messages: Any, stop: Any = None, run_manager: Any = None, **options: Any) -> ChatResult:
        return ChatResult(generations=[ChatGeneration(message=AIMessage(str(messages[0].text)))])


memory = AgentMemory(user_id="berit", recall_s=2)
memory.client.remember({"text": "Staging moved to port 4410 on Friday", "user_id": "berit"})
memory.client.settle()

agent = create_agent(Echo(), system_prompt="You help.", middleware=[FusionMiddleware(memory)])
asked = {"messages": [{"role": "user", "content": "which port is staging on since Friday?"}]}
print(agent.invoke(asked, {"configurable": {"thread_id": "t1"}})["messages"][-1].text)

for document in FusionRetriever(memory=memory, k=1).invoke("staging port"):
    print(document.id, document.page_content)
