"""Views of proposals: what was proposed, and what became of it."""

from __future__ import annotations

from typing import TYPE_CHECKING

from fusion.doors.cli.plural import counted
from fusion.doors.cli.render.tables import one_line, say, table

if TYPE_CHECKING:
    from fusion import wire


def proposed(reply: wire.ProposeReply) -> None:
    """Prints what became of each proposal that was sent."""
    for one in reply["proposals"]:
        remark = f": {one['reason']}" if one["reason"] else ""
        became = f", {one['state']}" if one["state"] not in (None, "open") else ""
        ref = f" as {one['ref']}" if one["ref"] else ""
        say(f"{one['id'] or '-'}  {one['status']}{became}{ref}{remark}")
    if not reply["writes_performed"] and any(one["status"] == "proposed" for one in reply["proposals"]):
        say("Nothing is stored yet: fusion proposals lists what waits for a decision.")


def proposals(page: wire.Proposals) -> None:
    """Prints a page of proposals, one a line, and how to get the next page."""
    if not page["proposals"]:
        others = ", ".join(f"{n} {state}" for state, n in page["counts"].items() if n)
        say(f"No such proposals here{f'; there are {others}' if others else ''}.")
    else:
        rows = (
            (one["id"], one["at"][:16].replace("T", " "), one["proposed_by"], one["state"], one_line(one["text"]))
            for one in page["proposals"]
        )
        table(("proposal", "at (UTC)", "by", "state", "text"), rows)
        say("To decide: fusion approve ID, or fusion reject ID")
    if page["next_cursor"]:
        say(f"More: --cursor {page['next_cursor']}")


def proposal(one: wire.Proposal) -> None:
    """Prints one proposal in full, with its reasons."""
    lines = {
        "proposal": f"{one['id']}, {one['state']}, by {one['proposed_by']} ({one['role']}) at {one['at'][:16]} UTC",
        "text": one["text"],
        "kind": one["kind"] + (f" ({one['raw_kind']})" if one["raw_kind"] else ""),
        "trust": one["trust"],
        "importance": "" if one["importance"] is None else f"{one['importance']:g}",
        "whose": ", ".join(f"{name} {value}" for name, value in one["scope"].items()),
        "source": one["source"] or "",
        "provenance": ", ".join(f"{name} {value}" for name, value in one["provenance"].items()),
        "evidence": ", ".join(one["evidence"]),
        "replaces": one["supersedes"] or "",
        "tags": ", ".join(one["tags"]),
        "reason": one["reason"],
        "decided": ""
        if one["decided_by"] is None
        else f"by {one['decided_by']} at {(one['decided_at'] or '')[:16]} UTC",
        "why": one["why"],
        "memory": one["ref"] or "",
        "decision": one["decision"] or "",
    }
    for name, line in lines.items():
        if line:
            say(f"{name:10}  {' '.join(line.split())}")
    if one["forgotten_before"]:
        say("Somebody forgot these words earlier; to approve this stores them again.")


def decided(reply: wire.ProposalDecided) -> None:
    """Prints a decision on a proposal, and what takes it back."""
    name = reply["proposal"]["id"]
    if reply["status"] == "rejected":
        say(f"{name}  rejected; nothing is stored")
    elif reply["writes_performed"]:
        say(f"{name}  approved: {reply['ref']} {reply['status']}")
    else:
        say(f"{name}  approved: {reply['ref']} says that already; nothing new is stored")
    say(f"To take it back: fusion undo {reply['decision']}")


def extracted(reply: wire.Extracted) -> None:
    """Prints the candidates of an extraction with their evidence, and what was queued."""
    for one in reply["candidates"]:
        cites = f" [{', '.join(one['evidence'])}]" if one["evidence"] else ""
        say(f"{one['kind']:10}  {one['importance']:.1f}  {' '.join(one['text'].split())}{cites}")
    left_out = ", ".join(f"{n} {reason}" for reason, n in reply["left_out"].items())
    read = f"{counted(len(reply['candidates']), 'candidate')} in {reply['read']} read"
    say(f"{read}; left out: {left_out}." if left_out else f"{read}.")
    if reply["proposals"]:
        new = [one["id"] for one in reply["proposals"] if one["status"] == "proposed"]
        say(f"{len(new)} proposed: {', '.join(new)}. Nothing is stored until they are approved.")
    else:
        say("Nothing is stored; --propose queues them as proposals.")
