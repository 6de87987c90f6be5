"""Views of jobs and of their runs. Times are those of this machine."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from datetime import datetime
from typing import TYPE_CHECKING, Any

from fusion.doors.cli.plural import counted
from fusion.doors.cli.render.tables import say, table

if TYPE_CHECKING:
    from fusion import wire


WRITES = frozenset({"files_changed", "changes", "scratch_notes_archived"})
"""the results of jobs that changed files of the workspace"""


def minute(time: str) -> str:
    """A time of a reply as people of this machine read it."""
    return f"{datetime.fromisoformat(time).astimezone():%Y-%m-%d %H:%M}"


def jobs(found: wire.Jobs) -> None:
    """Prints each job with its next and last run."""
    rows = [(job["name"], job["schedule"], _next(job), _last(job["last"])) for job in found["jobs"]]
    table(("job", "schedule", "next run", "last run"), rows, whole=(1, 2, 3))
    for job in found["jobs"]:
        say(f"{job['name']}: {job['does']}")


def layers(found: Mapping[str, Any]) -> None:
    """Prints the board of layers: the state of each for each instance, its last run, and what each instance is."""
    several = len({one["host"] for one in found["about"].values()}) > 1
    rows = [
        (
            layer["number"],
            layer["layer"],
            layer["part"],
            *(_cell(layer, name, with_time=several) for name in found["instances"]),
            "-" if layer["last"] is None else minute(layer["last"]),
            layer["detail"],
        )
        for layer in found["layers"]
    ]
    titles = ("", "layer", "part", *found["instances"], "last run", "")
    table(titles, rows, whole=(1, 2, len(titles) - 2))
    for name, one in found["about"].items():
        parts = [counted(one["memories"], "memory")] if one["agent"] else []
        parts += [f"workspace {one['workspace']}"] if one["workspace"] else []
        parts += ["its sessions are followed"] if one["sessions"] else []
        parts += [] if one["here"] else ["another host: only its runs of jobs are known here"]
        if parts:
            say(f"{name}: {', '.join(parts)}")


def _cell(layer: Mapping[str, Any], name: str, *, with_time: bool) -> str:
    """The state of a layer for an instance; where there are several hosts, with the time of its last run there."""
    began = layer["runs"][name] if with_time else None
    return str(layer["instances"][name]) + ("" if began is None else f" {minute(began)}")


def _next(job: wire.Job) -> str:
    if job["progress"] is not None:
        done, total = job["progress"]["done"], job["progress"]["total"]
        return f"now: {done} of {total} {job['progress']['note']}".rstrip() if total else "now"
    if job["paused"]:
        return "paused"
    return "-" if job["next"] is None else minute(job["next"])


def _last(run: wire.JobRun | None) -> str:
    return "-" if run is None else f"{minute(run['began'])} {_status(run)}"


def _status(run: wire.JobRun) -> str:
    return run["status"] + (" (dry run)" if run["dry_run"] else "")


def outcome(run: wire.JobRun) -> str:
    """How a run ended, and what it did, on one line; the diff of a dry run is not shown."""
    receipt = run["receipt"]
    parts = [_status(run)]
    if stopped := receipt.get("stopped"):
        parts.append(f"{stopped} after {receipt['steps']['done']} of {receipt['steps']['total']} steps")
    parts += [f"{step}: {fault}" for step, fault in receipt.get("faults", {}).items()]
    result = {name: value for name, value in receipt.get("result", {}).items() if name != "diff"}
    parts += [line for name, value in result.items() for line in _worded(name, value)]
    return ", ".join(parts)


def _worded(name: str, value: object) -> list[str]:
    """A number of a job's result with its name, numbers of a group with theirs; of other values and lists the texts."""
    if isinstance(value, Mapping):
        return [
            line for key, one in value.items() for line in _worded(key if isinstance(one, int | float) else name, one)
        ]
    if isinstance(value, list):
        return [", ".join(map(str, value))]
    return [f"{name.replace('_', ' ')} {value:,}" if isinstance(value, int | float) else str(value)]


def ran(runs: Sequence[wire.JobRun]) -> None:
    """Prints the runs that a command began, and the diff of a dry run line by line."""
    for run in runs:
        say(f"{run['job']}: {outcome(run)}")
        result = run["receipt"].get("result", {})
        for line in result.get("diff", ()):
            say(line)
        if not run["dry_run"] and result.keys() & WRITES:
            say(f"To take its changes of files back: fusion undo --run j{run['id']}")
    if not runs:
        say("Nothing is due.")


def lifecycle(report: wire.LifecycleReport) -> None:
    """Prints what a run of the lifecycle changed, or would change."""
    found = {
        "expired": report["expired"],
        "decayed": report["decayed"],
        "retired": report["retired"],
        "consolidated": report["consolidated"],
        "conflicts resolved": report["conflicts_resolved"],
        "released": report["released"],
        "deleted": report["deleted"],
        "archived": report["archived"],
    }
    counts = [f"{count:,} {name}" for name, count in found.items() if count]
    changed = ", ".join(counts) or ("nothing to change" if report["dry_run"] else "nothing changed")
    say(f"{'Dry run: ' if report['dry_run'] else ''}{changed}, of {report['scanned']:,} memories.")
    for name, by in report["archived_by"].items():
        say(f"archived by {name}: " + ", ".join(f"{count:,} {key}" for key, count in by.items()))
    for note in report["notes"]:
        say(f"! {note}")
    if run := report["run"]:
        say("fusion decisions lists each decision; fusion undo ID takes it back.")
        say(f"To take all of them back: fusion undo --run {run}")


def job_log(page: wire.JobLog) -> None:
    """Prints a page of runs, and how to get the next page."""
    if not page["runs"]:
        say("No job has run here yet.")
        return
    rows = [
        (f"j{run['id']}", minute(run["began"]), run["job"], run["started_by"], outcome(run)) for run in page["runs"]
    ]
    table(("run", "began", "job", "started by", "outcome"), rows, whole=(1, 2, 3))
    if page["next_cursor"]:
        say(f"More: --cursor {page['next_cursor']}")
