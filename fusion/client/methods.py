"""The methods of both clients, one for each function of `calls`."""

from __future__ import annotations

from collections.abc import Callable, Coroutine
from functools import wraps
from typing import Any, Generic, ParamSpec, Protocol, TypeVar, overload

from fusion.client import calls
from fusion.client.calls import Call

P = ParamSpec("P")
T = TypeVar("T")


class Blocking(Protocol):
    """A client that returns the result of a request."""

    def send(self, call: Call[T]) -> T: ...


class Asynchronous(Protocol):
    """A client that returns a coroutine with the result of a request."""

    async def send(self, call: Call[T]) -> T: ...


class Method(Generic[P, T]):
    """A method that sends what a function of `calls` builds. An asynchronous client returns a coroutine."""

    def __init__(self, build: Callable[P, Call[T]]) -> None:
        self._build = build

    @overload
    def __get__(self, client: None, kind: type) -> Callable[P, Call[T]]: ...
    @overload
    def __get__(self, client: Blocking, kind: type) -> Callable[P, T]: ...
    @overload
    def __get__(self, client: Asynchronous, kind: type) -> Callable[P, Coroutine[Any, Any, T]]: ...
    def __get__(self, client: Blocking | Asynchronous | None, kind: type) -> Callable[P, Any]:
        if client is None:
            return self._build

        @wraps(self._build)
        def method(*args: P.args, **kwargs: P.kwargs) -> T | Coroutine[Any, Any, T]:
            return client.send(self._build(*args, **kwargs))

        return method


class Methods:
    """The requests that a client can send."""

    fuse = Method(calls.fuse)
    pack = Method(calls.pack)
    index = Method(calls.index)
    timeline = Method(calls.timeline)
    records = Method(calls.records)
    why = Method(calls.why)
    compare = Method(calls.compare)
    feedback = Method(calls.feedback)
    labels = Method(calls.labels)
    comparisons = Method(calls.comparisons)
    keep_comparison = Method(calls.keep_comparison)
    search = Method(calls.search)
    do = Method(calls.do)
    remember = Method(calls.remember)
    put_item = Method(calls.put_item)
    item = Method(calls.item)
    forget_item = Method(calls.forget_item)
    search_items = Method(calls.search_items)
    item_namespaces = Method(calls.item_namespaces)
    memory = Method(calls.memory)
    memories = Method(calls.memories)
    document = Method(calls.document)
    update = Method(calls.update)
    forget = Method(calls.forget)
    backends = Method(calls.backends)
    status = Method(calls.status)
    inspector_link = Method(calls.inspector_link)
    receipt = Method(calls.receipt)
    receipts = Method(calls.receipts)
    replay = Method(calls.replay)
    recipes = Method(calls.recipes)
    activity = Method(calls.activity)
    backend_history = Method(calls.backend_history)
    ready = Method(calls.ready)
    health = Method(calls.health)
    settle = Method(calls.settle)
    lifecycle = Method(calls.lifecycle)
    grade = Method(calls.grade)
    jobs = Method(calls.jobs)
    run_job = Method(calls.run_job)
    pause_job = Method(calls.pause_job)
    resume_job = Method(calls.resume_job)
    job_log = Method(calls.job_log)
    forget_many = Method(calls.forget_many)
    forgotten = Method(calls.forgotten)
    audit = Method(calls.audit)
    undo = Method(calls.undo)
    set_state = Method(calls.set_state)
    set_states = Method(calls.set_states)
    prefix = Method(calls.prefix)
    decisions = Method(calls.decisions)
    trust = Method(calls.trust)
    plans = Method(calls.plans)
    undo_decision = Method(calls.undo_decision)
    assert_fact = Method(calls.assert_fact)
    retract_fact = Method(calls.retract_fact)
    current_facts = Method(calls.current_facts)
    fact_timeline = Method(calls.fact_timeline)
    lint_facts = Method(calls.lint_facts)
    fact_pack = Method(calls.fact_pack)
    rebuild_facts = Method(calls.rebuild_facts)
    propose = Method(calls.propose)
    proposals = Method(calls.proposals)
    proposal = Method(calls.proposal)
    approve = Method(calls.approve)
    reject = Method(calls.reject)
    extract = Method(calls.extract)
    triage = Method(calls.triage)
    decide_triage = Method(calls.decide_triage)
    graph_neighbors = Method(calls.graph_neighbors)
    graph_impact = Method(calls.graph_impact)
    graph_path = Method(calls.graph_path)
    graph_match = Method(calls.graph_match)
    graph_overview = Method(calls.graph_overview)
    graph_pages = Method(calls.graph_pages)
    card = Method(calls.card)
    refresh_card = Method(calls.refresh_card)
    lint_cards = Method(calls.lint_cards)
    batches = Method(calls.batches)
    sources = Method(calls.sources)
    retire = Method(calls.retire)
    import_export = Method(calls.import_export)
    daily_logs = Method(calls.daily_logs)
    flush_plan = Method(calls.flush_plan)
    memory_search = Method(calls.memory_search)
    memory_get = Method(calls.memory_get)
    memory_append = Method(calls.memory_append)
    ingest_history = Method(calls.ingest_history)
    hybrid_search = Method(calls.hybrid_search)
    recall = Method(calls.recall)
    session_state = Method(calls.session_state)
    append_episodes = Method(calls.append_episodes)
    query_episodes = Method(calls.query_episodes)
    episode = Method(calls.episode)
    grade_episode = Method(calls.grade_episode)
    working_set = Method(calls.working_set)
    search_episodes = Method(calls.search_episodes)
    embed_episodes = Method(calls.embed_episodes)
    redact_episodes = Method(calls.redact_episodes)
