"""A LangGraph graph whose nodes keep items that outlast threads and programs.

pip install "memory-fusion[langgraph]"
"""

from typing import TypedDict

from langgraph.graph import END, START, StateGraph
from langgraph.runtime import Runtime

from fusion.integrations.langgraph import FusionStore


class State(TypedDict):
    answer: str


def visit(state: State, runtime: Runtime[None]) -> State:
    assert runtime.store is not None
    seen = runtime.store.get(("profiles",), "berit")
    visits = (seen.value["visits"] if seen else 0) + 1
    runtime.store.put(("profiles",), "berit", {"visits": visits, "likes": "windows on the north side"})
    best, *_ = runtime.store.search(("profiles",), query="which windows does Berit like?")
    return {"answer": f"visit {visits}: {best.value['likes']}"}


builder = StateGraph(State)
builder.add_node("visit", visit)
builder.add_edge(START, "visit")
builder.add_edge("visit", END)
graph = builder.compile(store=FusionStore(user_id="berit"))
print(graph.invoke({"answer": ""})["answer"])
