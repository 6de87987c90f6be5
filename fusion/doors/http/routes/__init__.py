"""The routes of the gateway, one module for each group: each checks its request and calls one method of `Gateway`."""

from fusion.doors.http.routes import (
    ask,
    episodes,
    facts,
    feedback,
    graph,
    jobs,
    memories,
    memory_cortex,
    operate,
    packs,
    prefix,
    proposals,
    recall_steps,
    standing,
    tools,
    transfer,
    triage,
)
from fusion.doors.http.routing import router

__all__ = [
    "ask",
    "episodes",
    "facts",
    "feedback",
    "graph",
    "jobs",
    "memories",
    "memory_cortex",
    "operate",
    "packs",
    "prefix",
    "proposals",
    "recall_steps",
    "router",
    "standing",
    "tools",
    "transfer",
    "triage",
]
