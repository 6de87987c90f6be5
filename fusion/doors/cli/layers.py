"""The table of `fusion status --layers`: the nine layers of an agent's memory, for each instance of it.

An instance is an agent on a host. The agents are those with memories, the one of the workspace, and those whose
sessions are followed; the hosts are this one and those on which a job of this home has run. What another host's
backends do is not known here. Where a layer's own system is not used, the backend that does its work is shown.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import asdict, dataclass
from itertools import islice
from pathlib import Path
from typing import TYPE_CHECKING, Any

from fusion.doors.cli.plural import counted

if TYPE_CHECKING:
    from fusion import wire

NOT_THERE = "-"
MAX_AGENTS = 50
"""agents of each folder of sessions"""


@dataclass(frozen=True, slots=True)
class Layer:
    """A layer's name, with the job or the backends' modules that implement it; neither for the gateway itself.

    ``fed_by`` is the job that brings the workspace's files into its backend.
    """

    name: str
    job: str = ""
    modules: Sequence[str] = ()
    fed_by: str = ""


LAYERS = (
    Layer("Extract", job="extract"),
    Layer("Distill", job="distill"),
    Layer("Shepherd", job="shepherd"),
    Layer("Reflections", job="reflect"),
    Layer("Vector SQLite", modules=("vector_sqlite",)),
    Layer("QMD", modules=("qmd", "markdown")),
    Layer("Mem0 + Qdrant", modules=("mem0",)),
    Layer("Cognee", modules=("cognee", "triples"), fed_by="feed"),
    Layer("Memory Fusion"),
)


@dataclass(frozen=True, slots=True)
class Instance:
    """An agent on a host; no agent: all of them."""

    agent: str
    host: str
    here: bool
    """whether it is this host"""
    memories: int
    maintained: bool
    """whether the jobs maintain this agent's workspace"""
    workspace: str
    """that folder; "" if there is none"""
    sessions: bool
    """whether its sessions are followed"""

    @property
    def name(self) -> str:
        return f"{self.agent}@{self.host}" if self.agent else self.host


@dataclass(frozen=True, slots=True)
class Known:
    """What the settings say about agents: that of the workspace ("": any), its folder, and those with sessions."""

    agent: str = ""
    workspace: str = ""
    with_sessions: Sequence[str] = ()


def agents_with_sessions(paths: Iterable[Path]) -> list[str]:
    """The agents in folders of sessions, as OpenClaw has them: ``agents/NAME/sessions``."""

    def names(folder: Path) -> Iterator[str]:
        if folder.name == "sessions":
            yield folder.parent.name
        elif (folder / "sessions").is_dir():
            yield folder.name
        elif folder.is_dir():
            yield from (one.name for one in sorted(folder.iterdir()) if (one / "sessions").is_dir())

    return sorted({name for path in paths for name in islice(names(path.expanduser()), MAX_AGENTS)})


def board(status: wire.Status, jobs: Sequence[wire.Job], host: str, known: Known = Known()) -> dict[str, Any]:  # frozen
    """The table as JSON, of a home that is served on ``host``."""
    instances = _instances(status, jobs, host, known)
    by_name = {job["name"]: job for job in jobs}
    layers = []
    for number, layer in enumerate(LAYERS, start=1):
        row = _row(layer, status, by_name)
        cells = {one.name: _cell(layer, row, by_name, one) for one in instances}
        layers.append(
            {
                "number": number,
                "layer": layer.name,
                "part": row["part"],
                "detail": row["detail"],
                "last": row["last"],
                "instances": {name: state for name, (state, _) in cells.items()},
                "runs": {name: run for name, (_, run) in cells.items()},
            }
        )
    return {
        "instances": [one.name for one in instances],
        "about": {one.name: asdict(one) for one in instances},
        "layers": layers,
    }


def _instances(status: wire.Status, jobs: Sequence[wire.Job], host: str, known: Known) -> list[Instance]:
    """Every agent on this host, and those whose workspace jobs maintain on each other host."""
    counts = status.get("agents", {})
    agents = sorted({*counts, *known.with_sessions, *([known.agent] if known.agent else [])}) or [""]
    others = sorted({name for job in jobs for name in job.get("hosts", {})} - {host})
    return [
        Instance(
            agent,
            where,
            where == host,
            counts.get(agent, 0) if agent else status["memories"]["current"],
            known.agent in ("", agent),
            known.workspace if known.agent in ("", agent) else "",
            agent in known.with_sessions,
        )
        for agent in agents
        for where in (host, *others)
        if where == host or known.agent in ("", agent)
    ]


def _cell(layer: Layer, row: Mapping[str, Any], jobs: Mapping[str, wire.Job], one: Instance) -> tuple[str, str | None]:
    """The state of a layer for an instance, and when its job last ran there."""
    if not layer.job:
        return (row["state"], row["last"]) if one.here else (NOT_THERE, None)  # other hosts' stores are not known
    if layer.job not in jobs or not one.maintained:
        return NOT_THERE, None
    job = jobs[layer.job]
    hosts = job.get("hosts", {})
    last = hosts.get(one.host) or (job["last"] if one.here and not hosts else None)
    if one.here:
        return _state(job, last), None if last is None else last["began"]
    return (NOT_THERE, None) if last is None else (last["status"], last["began"])


def _row(layer: Layer, status: wire.Status, jobs: Mapping[str, wire.Job]) -> dict[str, Any]:
    if layer.job:
        return _job(layer.job, jobs.get(layer.job), status)
    if layer.modules:
        return _backend(layer, status["backends"], jobs)
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
    began = None if last is None else last["began"]
    return {"part": f"job {name}", "state": _state(job, last), "detail": detail, "last": began}


def _state(job: wire.Job, last: wire.JobRun | None) -> str:
    """The state of a job whose last run is ``last``."""
    if job["progress"] is not None:
        return "running"
    if job["paused"]:
        return "paused"
    if last is not None:
        return last["status"]
    return "off" if job["schedule"] == "off" else "waiting"


def _backend(layer: Layer, rows: Sequence[wire.BackendStatus], jobs: Mapping[str, wire.Job]) -> dict[str, Any]:
    """The first of a layer's backends that is used, in the order of its modules."""
    for module in layer.modules:
        for row in rows:
            if row["adapter"].removeprefix("adapters.").partition(":")[0].partition(".")[0] == module:
                detail, fed = counted(row["items"], "memory"), jobs.get(layer.fed_by)
                last = None if fed is None or module != layer.modules[0] else fed["last"]
                if last is not None:
                    detail += f", fed: {last['status']}"
                began = None if last is None else last["began"]
                return {"part": f"backend {row['name']}", "state": row["status"], "detail": detail, "last": began}
    return {"part": NOT_THERE, "state": NOT_THERE, "detail": "not configured", "last": None}
