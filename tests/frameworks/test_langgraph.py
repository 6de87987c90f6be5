"""The store in LangGraph's own graph, through every operation of its interface."""

from __future__ import annotations

from typing import Any, TypedDict

import pytest
from langgraph.graph import END, START, StateGraph
from langgraph.runtime import Runtime
from langgraph.store.base import (
    BaseStore,
    GetOp,
    InvalidNamespaceError,
    ListNamespacesOp,
    MatchCondition,
    PutOp,
    SearchOp,
)

from fusion.client import Client
from fusion.errors import ServerUnreachable
from fusion.integrations.langgraph import FusionStore
from tests.frameworks.contract import closed_port

pytestmark = pytest.mark.frameworks

ADA = ("memories", "ada")


@pytest.fixture
def store(client: Client, user: str) -> BaseStore:
    return FusionStore(client, user_id=user)


@pytest.mark.feature("LangGraph has a store: exact get and put by namespace and key, search, batches in order")
def test_a_put_is_got_exactly_and_at_once(store: BaseStore) -> None:
    value = {"food": "pizza", "nested": {"n": [1, 2.5, None, True]}}
    store.put(ADA, "k/1", value)
    item = store.get(ADA, "k/1")
    assert item is not None
    assert (item.value, item.key, item.namespace) == (value, "k/1", ADA)
    store.put(ADA, "k/1", {"food": "pasta"})
    again = store.get(ADA, "k/1")
    assert again is not None
    assert (again.value, again.created_at) == ({"food": "pasta"}, item.created_at)
    assert again.updated_at > item.updated_at
    store.delete(ADA, "k/1")
    store.delete(ADA, "k/1")
    assert store.get(ADA, "k/1") is None
    store.put(ADA, "k/1", value)
    assert store.get(ADA, "k/1") is not None


async def test_the_asynchronous_way_is_the_same(store: BaseStore) -> None:
    await store.aput(ADA, "k", {"food": "pizza"})
    item = await store.aget(ADA, "k")
    assert item is not None
    assert item.value == {"food": "pizza"}
    assert [one.key for one in await store.asearch(ADA)] == ["k"]
    assert await store.alist_namespaces() == [ADA]
    await store.adelete(ADA, "k")
    assert await store.aget(ADA, "k") is None


def test_a_search_goes_by_prefix_filter_and_query(store: BaseStore, client: Client) -> None:
    store.put(ADA, "food", {"text": "Ada eats no fish", "n": 1})
    store.put((*ADA, "work"), "boat", {"text": "the boathouse key hangs behind the door", "n": 2})
    store.put(("memories", "bob"), "food", {"text": "Bob eats fish", "n": 3})
    client.settle()
    assert {one.key for one in store.search(ADA)} == {"food", "boat"}
    assert [one.key for one in store.search(("memories",), filter={"n": {"$gte": 2}})] == ["food", "boat"]
    assert [one.namespace for one in store.search(("memories",), limit=1, offset=1)] == [(*ADA, "work")]
    found = store.search(ADA, query="where is the key of the boathouse?")
    assert [one.key for one in found] == ["boat", "food"]
    assert found[0].score is not None


def test_namespaces_are_listed(store: BaseStore) -> None:
    for namespace in (("a", "b", "c"), ("a", "b", "d"), ("x", "b", "c")):
        store.put(namespace, "k", {"n": 1})
    assert store.list_namespaces(prefix=("a",)) == [("a", "b", "c"), ("a", "b", "d")]
    assert store.list_namespaces(suffix=("*", "c")) == [("a", "b", "c"), ("x", "b", "c")]
    assert store.list_namespaces(max_depth=2) == [("a", "b"), ("x", "b")]
    two = (MatchCondition("prefix", ("a",)), MatchCondition("prefix", ("a", "b")))
    with pytest.raises(ValueError, match="one prefix"):
        store.batch([ListNamespacesOp(two)])


def test_a_batch_is_executed_in_order(store: BaseStore) -> None:
    done = store.batch(
        [PutOp(ADA, "k", {"n": 1}), GetOp(ADA, "k"), PutOp(ADA, "k", None), GetOp(ADA, "k"), SearchOp(ADA)]
    )
    assert done[0] is done[2] is done[3] is None
    assert done[1].value == {"n": 1}  # type: ignore[union-attr]
    assert done[4] == []


def test_another_user_has_another_store(store: BaseStore, client: Client, user: str) -> None:
    store.put(ADA, "k", {"n": 1})
    other = FusionStore(client, user_id=f"{user}-other")
    assert other.get(ADA, "k") is None
    assert other.search(ADA) == []
    assert other.list_namespaces() == []


def test_a_wrong_namespace_and_a_dead_server_are_errors(store: BaseStore) -> None:
    """A store promises to keep, so it does not fail open."""
    with pytest.raises(InvalidNamespaceError):
        store.put((), "k", {})
    with pytest.raises(ServerUnreachable):
        FusionStore(Client(f"http://127.0.0.1:{closed_port()}")).put(ADA, "k", {})


class State(TypedDict):
    seen: list[Any]


async def test_a_graph_keeps_across_threads(store: BaseStore) -> None:
    def visit(state: State, runtime: Runtime[None]) -> State:
        assert runtime.store is not None
        before = runtime.store.get(ADA, "visits")
        visits = (before.value["n"] if before else 0) + 1
        runtime.store.put(ADA, "visits", {"n": visits})
        return {"seen": [visits]}

    builder = StateGraph(State)
    builder.add_node("visit", visit)
    builder.add_edge(START, "visit")
    builder.add_edge("visit", END)
    graph = builder.compile(store=store)
    assert graph.invoke({"seen": []})["seen"] == [1]
    assert (await graph.ainvoke({"seen": []}))["seen"] == [2]
