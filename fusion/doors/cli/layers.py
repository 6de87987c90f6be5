"""The table of `fusion status --layers`: the nine layers of an agent's memory, for each instance of it.

An instance is an agent on a host. Where a layer's own system is not used, the backend that does its work is shown.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any

from fusion.doors.cli.plural import counted

if TYPE_CHECKING:
    from fusion import wire

NOT_THERE = "-"


@dataclass(frozen=True, slots=True)
class Layer:
    """A layer's name, with the job or the backends' modules that implement it; neither for the gateway itself."""

    name: str
    job: str = ""
    modules: Sequence[str] = ()


LAYERS = (
    Layer("Extract", job="extract"),
    Layer("Distill", job="distill"),
    Layer("Shepherd", job="shepherd"),
    Layer("Reflections", job="reflect"),
    Layer("Vector SQLite", modules=("vector_sqlite",)),
    Layer("QMD", modules=("qmd", "markdown")),
    Layer("Mem0 + Qdrant", modules=("mem0",)),
    Layer("Cognee", modules=("cognee", "triples")),
    Layer("Memory Fusion"),
)


def board(status: wire.Status, jobs: Sequence[wire.Job], host: str, agent: str = "") -> dict[str, Any]:
    """The table as JSON; ``agent`` is the agent whose workspace the jobs maintain, "" for any."""
    agents = {*status.get("agents", {}), *([agent] if agent else [])}
    instances = {f"{name}@{host}": name for name in sorted(agents)} or {host: ""}
    rows = [_row(layer, status, {job["name"]: job for job in jobs}) for layer in LAYERS]
    layers = [
        {
            "number": number,
            "layer": layer.name,
            "part": row["part"],
            "detail": row["detail"],
            "last": row["last"],
            "instances": {
                instance: row["state"] if not layer.job or agent in ("", name) else NOT_THERE
                for instance, name in instances.items()
            },
        }
        for number, (layer, row) in enumerate(zip(LAYERS, rows, strict=True), start=1)
    ]
    return {"instances": list(instances), "layers": layers}


def _row(layer: Layer, status: wire.Status, jobs: Mapping[str, wire.Job]) -> dict[str, Any]:
    if layer.job:
        return _job(layer.job, jobs.get(layer.job), status)
    if layer.modules:
        return _backend(layer.modules, status["backends"])
    return {
        "part": "this gateway",
        "state": "degraded" if status["notes"] else "ok",
        "detail": counted(status["memories"]["current"], "memory"),
        "last": None,
    }


def _job(name: str, job: wire.Job | None, status: wire.Status) -> dict[str, Any]:
    if job is None:
        return {"part": f"job {name}", "state": NOT_THERE, "detail": "", "last": None}
    last = job["last"]
    detail = job["schedule"]
    if name == "shepherd" and (incidents := status.get("incidents")):
        detail += f", {counted(len(incidents), 'incident')}"
    if job["progress"] is not None:
        state = "running"
    elif job["paused"]:
        state = "paused"
    elif last is not None:
        state = last["status"]
    else:
        state = "off" if job["schedule"] == "off" else "waiting"
    return {"part": f"job {name}", "state": state, "detail": detail, "last": None if last is None else last["began"]}


def _backend(modules: Sequence[str], rows: Sequence[wire.BackendStatus]) -> dict[str, Any]:
    """The first backend of a layer that is in use, in the order of ``modules``."""
    for module in modules:
        for row in rows:
            if row["adapter"].removeprefix("adapters.").partition(":")[0].partition(".")[0] == module:
                detail = counted(row["items"], "memory")
                return {"part": f"backend {row['name']}", "state": row["status"], "detail": detail, "last": None}
    return {"part": NOT_THERE, "state": NOT_THERE, "detail": "not configured", "last": None}
