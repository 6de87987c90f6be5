"""Views of memories: lists, one in full, an ingest, what is forgotten or taken back."""

from __future__ import annotations

from collections import Counter
from collections.abc import Mapping, Sequence
from typing import TYPE_CHECKING, Any

from rich.text import Text

from fusion.doors.cli.plural import counted
from fusion.doors.cli.render.tables import first_few, kinds, one_line, say, table

if TYPE_CHECKING:
    from fusion import wire
    from fusion.doors.cli.ingest import Summary

OUTCOMES = ("deleted", "absent", "hidden", "pending", "still_there")
PENDING = "pending: it is deleted as soon as the backend answers. No answer shows it."
HIDDEN = (
    "hidden: the gateway cannot delete it, because it is in a file of yours or in a store that it only reads. "
    "No answer shows it; delete it there to get rid of it."
)
STILL_THERE = "still_there: the backend returned it after deleting it. The gateway asks again until it does not."
NAMED = 10
"""maximum refs in a line that names what was forgotten together, or is answered again"""


def memories(page: wire.Memories) -> None:
    """Prints a page of memories, one a line, and how to get the next page."""
    found = page["memories"]
    rows = ((m["ref"], (m["at"] or m["recorded_at"] or "")[:10], m["kind"], one_line(_shown(m))) for m in found)
    if page["memories"]:
        table(("memory", "date", "kind", "text"), rows)
    else:
        say("No memories here.")
    if page["next_cursor"]:
        say(f"More: --cursor {page['next_cursor']}")


def _shown(found: wire.StoredMemory) -> str:
    """A memory's text, or why it is not shown."""
    return f"({found['withheld']})" if "withheld" in found else found["text"]


def memory(found: wire.StoredMemory) -> None:
    """Prints one memory in full, then its fields."""
    say(_shown(found).rstrip("\n") + "\n")
    place = found["document"] and f"{found['document']}:{found['position']}"
    facts = {
        "ref": found["ref"],
        "kind": found["kind"],
        "speaker": found["speaker"],
        "happened": found["at"] and " to ".join(filter(None, (found["at"], found.get("until")))),
        "with": ", ".join(found.get("entities", ())),
        "recorded": found["recorded_at"],
        "place": place,
        "source": found["source"],
        "of": ", ".join(f"{name} {value}" for name, value in found["scope"].items()),
        "trust": found["trust"],
        "current": None if found.get("current", True) else "no: it was replaced, or is no longer in its file",
        "kept by": ", ".join(found.get("backends", ())) or ("no backend yet" if found.get("current", True) else None),
        "replaces": found.get("supersedes"),
        "said": said_again(found),
        "included": included(found),
        "state": ", ".join(f"{name} {value}" for name, value in found.get("state", {}).items()),
    }
    for name, value in facts.items():
        if value:
            say(f"{name:<9} {value}")


def with_versions(found: Any) -> None:
    """Prints one memory in full, then the earlier versions of its file, newest first."""
    memory(found)
    if not found["versions"]:
        say("\nno earlier versions: they are read from files in a git repository")
    for one in found["versions"]:
        say(f"\n{one['at']}  {one['by']}  {one['why']}\n{one['text'].rstrip()}")


def said_again(found: wire.StoredMemory) -> str | None:
    """How often a memory was remembered and when last; None for a single time."""
    if found.get("said", 1) < 2:
        return None
    last = found.get("said_at")
    return f"{found['said']} times" + (f", the last time {last}" if last else "")


def included(found: wire.StoredMemory) -> str | None:
    """How often a memory was part of a block and when last; None for never."""
    if not found.get("included"):
        return None
    return f"in {counted(found['included'], 'block')}, the last time {found['last_included_at']}"


def ingested(summary: Summary) -> None:
    """Prints what became of the files of an ingest."""
    if summary["dry_run"]:
        retired = f", {summary['retired']} retired: no longer in their files" if summary["retired"] else ""
        say(f"{counted(summary['read'], 'memory')} would be sent{retired}.")
    else:
        parts = [f"{summary['stored']} remembered", f"{summary['duplicates']} known already"]
        if summary["superseded"]:
            parts.insert(1, f"{summary['superseded']} in place of an earlier version")
        if summary["retired"]:
            parts.append(f"{summary['retired']} retired: no longer in their files")
        if summary["redacted"]:
            parts.append(f"{counted(summary['redacted'], 'secret')} masked")
        if summary["split"]:
            parts.append(f"{summary['split']} too long for one memory, kept in pieces")
        if summary["changed"]:
            parts.append(f"{summary['changed']} changed: something was masked or left out")
        say(", ".join(parts) + ".")
    for done, rows in (("skipped", summary["skipped"]), ("kept apart", summary["apart"])):
        for row in rows:
            more = f" and {row['count'] - 1} more" if row["count"] > 1 else ""
            say(f"{done}: {row['first']}{more}: {row['reason']}")
    if summary["not_read"]:
        say(f"Not read: {first_few(kinds(summary['not_read']))}.")
    if not summary["settled"] and not summary["dry_run"]:
        say("The backends take it in in the background; `fusion backends` shows their progress.")


def batches(reply: wire.Batches) -> None:
    """Prints the ingests that can be undone."""
    if not reply["batches"]:
        say("There is no ingest to undo.")
        return
    rows = (
        (one["id"], one["at"][:19].replace("T", " "), f"{one['memories']:,}", one_line(one["first"]))
        for one in reply["batches"]
    )
    table(("ingest", "began (UTC)", "memories", "first"), rows, right=(2,))
    say("To take one back: fusion undo ID")


def decision(reply: wire.StateReply) -> None:
    """Prints one decision that was made just now."""
    made = reply["decision"]
    if made is None:
        say("Nothing changed: it is so already.")
        return
    say(f"{made['id']}  {_changes(made)}")
    say(f"To take it back: fusion undo {made['id']}")


def undone(reply: wire.DecisionUndone, *, dry_run: bool = False) -> None:
    """Prints the decision that took another one back, or what of a run was taken back, or with ``dry_run`` would be."""
    if (files := reply.get("files")) is not None:
        say(f"{'Would be taken back' if dry_run else 'Taken back'}: {', '.join(files)}.")
    elif reply["decision"] is None:
        say(f"{counted(reply['undone'], 'decision')} taken back. fusion decisions lists what took them back.")
    else:
        decision(reply)


def decisions(page: wire.Decisions) -> None:
    """Prints a page of the log of decisions, one a line, the runs that made them, and how to get the next page."""
    if not page["decisions"]:
        say("No decisions here.")
    else:
        rows = (
            (one["id"], one["at"][:19].replace("T", " "), one["who"], one_line(_changes(one)), one_line(_why(one)))
            for one in page["decisions"]
        )
        table(("decision", "at (UTC)", "by", "changed", "why"), rows)
        say("To take one back: fusion undo ID")
        for run in dict.fromkeys(one["run"] for one in page["decisions"] if one["run"]):
            mine = [one["id"] for one in page["decisions"] if one["run"] == run]
            ids = mine[0] if len(mine) == 1 else f"{mine[-1]} to {mine[0]}"
            say(f"All of the run of {ids}: fusion undo --run {run}")
    if page["next_cursor"]:
        say(f"More: --cursor {page['next_cursor']}")


def _changes(made: wire.Decision) -> str:
    if not made["changes"] and "proposal" in made:
        return made["proposal"]
    return "; ".join(
        f"{one['ref']} " + ", ".join(f"{name} {_value(value)}" for name, value in one["after"].items())
        for one in made["changes"]
    )


def _value(value: object) -> str:
    return "none" if value is None else f"{value}"


def _why(made: wire.Decision) -> str:
    return made["why"] + (f" (undone by {made['undone_by']})" if made["undone_by"] else "")


def to_forget(found: Sequence[wire.FoundToForget]) -> None:
    """Prints what would be forgotten."""
    rows = (
        (
            one["ref"],
            (one["at"] or "")[:10],
            ", ".join(one["backends"]) if len(one["backends"]) < 3 else f"{len(one['backends'])} backends",
            f"(the same words as {one['same_as']})" if one.get("same_as") else one_line(one["text"]),
        )
        for one in found
    )
    table(("memory", "date", "in", "text"), rows)


def forgettings(receipts: Sequence[wire.Forgotten], missing: Sequence[str]) -> None:
    """Prints what became of forgotten memories, counted by backend and outcome."""
    counts: dict[str, Counter[str]] = {}
    for receipt in receipts:
        for name, what in receipt["backends"].items():
            counts.setdefault(name, Counter())[what] += 1
    same = [ref for receipt in receipts for ref in receipt.get("same", ())]
    also = sum(len(receipt.get("also", ())) for receipt in receipts) - len(same)
    gone = len(receipts) + len(same)
    parts = f"{counted(gone, 'memory')} forgotten"
    if same and len(receipts) == 1 and gone <= NAMED:
        parts += f": {', '.join([receipts[0]['ref'], *same])} (the same words)"
    elif same:
        parts += f", {len(same)} of them for the same words as another"
    say(parts + (f", and {also} that went with them." if also else "."))
    if counts and not {what for counted in counts.values() for what in counted} - {"deleted", "absent"}:
        say(f"Deleted in {', '.join(sorted(counts))}; each was asked again and does not return it.")
    elif counts:
        outcomes = [what for what in OUTCOMES if any(what in counted for counted in counts.values())]
        rows = ((name, *(counted[what] or "" for what in outcomes)) for name, counted in sorted(counts.items()))
        table(("backend", *outcomes), rows, right=tuple(range(1, len(outcomes) + 1)))
    for what, said in (("hidden", HIDDEN), ("pending", PENDING), ("still_there", STILL_THERE)):
        if any(what in counted for counted in counts.values()):
            say(said)
    if missing:
        say(f"Not here, or forgotten before: {', '.join(missing)}")


def released(refs: Sequence[str], *, dry_run: bool) -> None:
    """Prints which memories say nearly the same as forgotten ones, and how to forget them."""
    if not refs:
        return
    says, them, are = ("says", "it", "is") if len(refs) == 1 else ("say", "them", "are")
    who = ", ".join(refs) if len(refs) <= NAMED else counted(len(refs), "memory")
    forget = f"forget {them} too: fusion forget {' '.join(refs)}"
    hint = forget if len(refs) <= NAMED else "fusion decisions lists them"
    answered = "would be" if dry_run else are
    say(f"{who} {says} nearly the same and {answered} answered again; {hint}")


def audit(page: wire.ForgottenPage) -> None:
    """Prints what was forgotten, and its state in each backend."""
    if not page["forgotten"]:
        say("Nothing was forgotten here.")
        return
    rows = (
        (
            one["ref"],
            one["at"][:19].replace("T", " "),
            one["by"],
            _outcomes(one["backends"]),
        )
        for one in page["forgotten"]
    )
    table(("memory", "forgotten (UTC)", "by", "backends"), rows)
    if page["next_cursor"]:
        say(f"More: --cursor {page['next_cursor']}")


def _outcomes(backends: Mapping[str, str]) -> Text:
    """The state of a forgotten memory in all backends, on one line; equal states are counted."""
    kinds = Counter(backends.values())
    if len(backends) > 1 and len(kinds) == 1:
        return one_line(f"{next(iter(kinds))} in all {len(backends)}")
    return one_line(", ".join(f"{name} {what}" for name, what in backends.items()))
