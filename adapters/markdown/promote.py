"""``fusion markdown promote``: durable facts into the MEMORY.md of a writable workspace, and back out of it."""

from __future__ import annotations

import asyncio
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from datetime import datetime
from typing import TYPE_CHECKING, Annotated, Any

from fusion.contract import Event
from fusion.errors import BadInput
from fusion.extension import Call
from fusion.store.workspace import Change, Snapshot, Workspace

if TYPE_CHECKING:
    from adapters.markdown.backend import Markdown

DURABLE = frozenset({"rule", "procedure", "fact", "preference", "decision"})
MEMORY = "MEMORY.md"
"""the file of a workspace for what is durable"""
MAX_CHARS = 20_000
"""characters that an agent's host loads of one file (OpenClaw); no line is added beyond that"""
MAX_LINE_CHARS = 500
"""a longer text is no fact for a file that is loaded into every session"""
HEADING = "## Remembered"


@dataclass(frozen=True)
class Promote:
    """Append the durable facts that were remembered to MEMORY.md of your workspace, once each.

    These are rules, procedures, facts, preferences and decisions of yours that somebody remembered explicitly and that
    hold without an end. Only with \\[workspace] write = true. `fusion markdown promote-undo` takes a run back.
    """

    dry_run: Annotated[bool, "Only show the lines that would be added."] = False

    async def __call__(self, markdown: Markdown, call: Call) -> Mapping[str, object]:
        workspace = _workspace_of(markdown)
        events = await markdown.own_events(call.scope)
        hidden = await call.gateway.hidden([event.event_id for event in events])
        hidden |= {event.supersedes for event in events if event.supersedes}
        durable = [event for event in events if event.event_id not in hidden and is_durable(event)]
        done, read = await asyncio.to_thread(lambda: (workspace.changes(MEMORY), workspace.read(MEMORY)))
        text = read.text
        before = {event_id for change in done if change.state != "planned" for event_id in change.events}
        new = {event.event_id: line for event in durable if (line := _line(event)) not in text.splitlines()}
        chosen = _fitting({key: line for key, line in new.items() if key not in before}, MAX_CHARS - len(text))
        left = len(new.keys() - before) - len(chosen)
        result = {"id": None, "path": str(workspace.root / MEMORY), "lines": [*chosen.values()], "left": left}
        if self.dry_run or not chosen:
            return result
        change = await markdown.change_workspace(
            lambda: _append(workspace, read, chosen, call.now),
        )
        return {**result, "id": change.name}

    def render(self, result: Any) -> str:
        more = f" {result['left']} more do not fit into {MAX_CHARS:,} characters." if result["left"] else ""
        if not result["lines"]:
            return f"Nothing new for {result['path']}.{more}"
        what = "Would be added to" if result["id"] is None else "Added to"
        undo = "" if result["id"] is None else f"\nTo take it back: fusion markdown promote-undo {result['id']}"
        return "\n".join([f"{what} {result['path']}:{more}", *result["lines"]]) + undo


@dataclass(frozen=True)
class PromoteUndo:
    """Take a run of `fusion markdown promote` back: MEMORY.md is as it was before, unless it was edited since.

    What it had added is not promoted again.
    """

    id: Annotated[str, "As `promote` printed it: w1."]

    async def __call__(self, markdown: Markdown, call: Call) -> Mapping[str, object]:
        workspace = _workspace_of(markdown)
        change = await markdown.change_workspace(lambda: workspace.undo(self.id))
        return {"id": change.name, "path": str(workspace.root / change.path), "lines": list(change.lines)}

    def render(self, result: Any) -> str:
        return "\n".join([f"Taken out of {result['path']}:", *result["lines"]])


def is_durable(event: Event) -> bool:
    """Whether somebody stated an event as something that holds without an end."""
    stated = dict(event.stated)
    return (
        event.kind in DURABLE
        and event.origin in ("owner", "agent")
        and event.trust in ("trusted", "unknown")
        and not event.derived_from
        and event.valid_to is None
        and stated.get("lifetime", "permanent") == "permanent"
        and len(event.text) <= MAX_LINE_CHARS
    )


def appended(old: bytes, heading: str, lines: Sequence[str]) -> bytes:
    """``old`` with lines below ``heading``, which is added unless it is the last one."""
    added = "".join(f"{line}\n" for line in lines)
    kept = old if not old or old.endswith(b"\n") else old + b"\n"
    headings = [line for line in kept.decode("utf-8", "replace").splitlines() if line.startswith("#")]
    if headings[-1:] != [heading]:
        added = f"{heading}\n\n{added}" if not kept else f"\n{heading}\n\n{added}"
    return kept + added.encode("utf-8", "replace")


def _append(workspace: Workspace, read: Snapshot, lines: Mapping[str, str], now: datetime) -> Change:
    new = appended(read.data or b"", HEADING, [*lines.values()])
    return workspace.write(read, new, by="promote", now=now, max_loss=0, lines=[*lines.values()], events=[*lines])


def _workspace_of(markdown: Markdown) -> Workspace:
    if markdown.workspace is None:
        raise BadInput(
            "no workspace may be written to. To allow it, write in fusion.toml: [workspace] write = true, and "
            "root_folder, the folder of MEMORY.md"
        )
    return markdown.workspace


def _line(event: Event) -> str:
    """The text as an entry of a list, in one line; it begins no comment and so states no annotation."""
    return "- " + " ".join(event.text.split()).replace("<!--", "&lt;!--")


def _fitting(lines: Mapping[str, str], room: int) -> dict[str, str]:
    """The first of the lines that fit into ``room`` characters, with the heading; equal ones once."""
    room -= len(HEADING) + 3
    chosen: dict[str, str] = {}
    for key, line in lines.items():
        if line in chosen.values():
            continue
        room -= len(line) + 1
        if room < 0:
            break
        chosen[key] = line
    return chosen
