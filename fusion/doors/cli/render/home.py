"""Views of a home: what init found, its state, its faults, a repair."""

from __future__ import annotations

from collections import Counter
from collections.abc import Mapping, Sequence
from datetime import timedelta
from typing import TYPE_CHECKING

from rich.console import Console
from rich.text import Text

from fusion.doors.cli.plural import counted, plural
from fusion.doors.cli.render.tables import first_few, kinds, new_console, say, size, state_text, table

if TYPE_CHECKING:
    from pathlib import Path

    from fusion import wire
    from fusion.discover import Discovery
    from fusion.doors.cli.finding import Finding
    from fusion.gateway.repair import Repair

LABELS = {
    "workspace": "OpenClaw workspace",
    "vault": "Obsidian vault",
    "notes": "notes",
    "claude-code": "Claude Code sessions",
    "openclaw": "OpenClaw sessions",
    "memories": "JSONL memories",
    "memgraph": "Memgraph server",
    "neo4j": "Neo4j server",
    "bolt": "Bolt server",
    "qdrant": "Qdrant server",
    "cognee": "Cognee server",
    "qmd": "QMD server",
    "mem0": "Mem0 server",
}
USES = {
    "notes": "followed",
    "sessions": "remembered",
    "memories": "remembered",
}


def discovered(found: Discovery, user: Path) -> None:
    """Prints what init found, with the numbers that its questions use, and what happens to each."""
    rows = [
        (
            number,
            LABELS[one.kind],
            _below(one.where, user),
            f"{'' if one.complete else '≥ '}{one.files:,}",
            size(one.bytes),
            Text("large: if you choose", "yellow") if one.large else USES[one.group],
        )
        for number, one in enumerate(found.finds, start=1)
    ]
    if rows:
        table(("", "what", "where", "files", "size", "what happens"), rows, right=(0, 3, 4))
    else:
        say("Found nothing to remember; --scan DIR looks in a folder of yours.")
    for answering in found.servers:
        server = " ".join(filter(None, (LABELS[answering.kind], answering.version, answering.url)))
        say(f"found, not used yet: {server} (this version has no adapter for it)")
    if found.cortex is not None:
        taken = ", ".join(f"{table}.{name} = {value}" for (table, name), value in found.cortex.settings.items())
        say(f"found, settings of Memory Cortex in {_below(found.cortex.file, user)}: {taken or 'none that apply'}")
        for key, why in found.cortex.left_out.items():
            say(f"  left out: {key}: {why}")
    if not found.complete:
        say("There was no time to look everywhere; --scan DIR looks in a folder of yours.\n")


def _below(path: Path, user: Path) -> str:
    return f"~/{path.relative_to(user).as_posix()}" if path.is_relative_to(user) else str(path)


def backends(answer: wire.Backends) -> None:
    """Prints what each backend holds, then what is wrong with it."""
    rows = answer["backends"]
    console = new_console()
    table(
        ("backend", "status", "items", "vectors", "to do"),
        (
            (
                row["name"],
                state_text(row),
                row["items"],
                row["vectors"],
                row["backlog"] + row["vectors_pending"],
            )
            for row in rows
        ),
        right=(2, 3, 4),
    )
    _remarks(console, {row["name"]: [note for note in (row["detail"], *row["notes"]) if note] for row in rows})


def status(found: wire.Status, home: Path, url: str | None) -> None:
    """Prints the backends with breakers, backlogs and notes, then what the home holds and its size."""
    console = new_console()
    table(
        ("backend", "status", "breaker", "items", "vectors", "to deliver", "to embed"),
        (
            (
                row["name"],
                state_text(row),
                _breaker(row),
                f"{row['items']:,}",
                f"{row['vectors']:,}",
                f"{row['backlog']:,}",
                f"{row['vectors_pending']:,}",
            )
            for row in found["backends"]
        ),
        right=(3, 4, 5, 6),
    )
    _remarks(console, {row["name"]: _backend_remarks(row) for row in found["backends"]})
    memories, receipts, requests = found["memories"], found["receipts"], found["requests"]
    lines = {
        "home": f"{home}, {size(sum(found['bytes'].values()))}: {_parts(found['bytes'])}",
        "memories": f"{memories['current']:,}; {counted(memories['superseded'], 'earlier version')}; "
        f"{memories['forgotten']:,} forgotten",
        "receipts": f"{receipts['kept']:,}, kept for {receipts['keep_days']:g} days",
        "embedder": found["embedder"] or "none: everything is found by its words only",
        "judge": _judge(found),
        "server": f"{url or 'in this process'}, version {found['version']}, up {_time(found['uptime_s'])}; "
        f"{counted(requests['in_flight'], 'request')} under way, {requests['queued']} waiting",
    }
    if (caller := found.get("caller")) is not None and caller["name"] != "owner":
        lines["key"] = f"{caller['name']}, a {caller['role']} of the tenant {caller['tenant']}"
    if waiting := found.get("proposals", {}).get("open", 0):
        lines["proposals"] = f"{waiting:,} open: fusion triage decides on them"
    if silent := sum(found.get("silent", {}).values()):
        lines["silent"] = f"{counted(silent, 'prompt')} that wanted no memory"
    if waiting := found.get("histories", {}).get("waiting", 0):
        fault = found["histories"]["fault"]
        last = f"; the last try failed: {fault}" if fault else ""
        lines["histories"] = f"{waiting:,} {'waits' if waiting == 1 else 'wait'} to be taken in{last}"
    if (prefixes := found.get("prefixes")) and prefixes["prefix_hit_rate"] is not None:
        lines["prefix"] = (
            f"prefix_hit_rate {prefixes['prefix_hit_rate']:.3f} over {counted(prefixes['turns'], 'turn')}, "
            f"{counted(prefixes['rewrites'], 'rewrite')}"
        )
    if found.get("held_back"):
        lines["held"] = held_back(found["held_back"])
    if found.get("links"):
        lines["links"] = links(found["links"])
    for name, line in lines.items():
        console.print(Text.assemble((f"{name:9}", "dim"), line), soft_wrap=True)
    for failed in found.get("failed_jobs", ()):
        told = f"the job {failed['job']} failed at {failed['began'][:16].replace('T', ' ')} UTC: {failed['why']}"
        console.print(Text(told, "yellow"), soft_wrap=True)
    for incident in found.get("incidents", ()):
        console.print(Text(f"{incident}; fusion shepherd diff shows it", "yellow"), soft_wrap=True)
    for note in found["notes"]:
        console.print(Text(note, "yellow"), soft_wrap=True)


def _judge(found: wire.Status) -> str:
    """The judge, and for how many answers it was asked, since the server started."""
    if found["judge"] is None:
        return "none: the local order is kept"
    judged = {status: n for status, n in found.get("judged", {}).items() if status != "off"}
    asked = sum(n for status, n in judged.items() if status != "not_needed")
    total = sum(judged.values())
    return found["judge"] + (f"; asked for {asked:,} of {counted(total, 'answer')}" if total else "")


def held_back(rows: Sequence[wire.HeldBack]) -> str:
    """Names forgotten memories that are kept out of notes which may still have them."""
    memories = sum(len(row["refs"]) for row in rows)
    named = [f"{row['document']} ({first_few(row['refs'])})" for row in rows]
    kept = f"{counted(memories, 'forgotten memory')} {plural(memories, 'is')}"
    return f"{kept} kept out of {counted(len(rows), 'document')}: {first_few(named)}"


def links(counts: Mapping[str, int]) -> str:
    """Counts the links in folders of notes, which are not followed."""
    return f"not read in the folders of [notes]: {first_few(kinds(counts))}; links are not followed"


def findings(found: Sequence[Finding]) -> None:
    """Prints the findings, failures first, each fault with its fix."""
    colours = {"ok": "green", "warn": "yellow", "fail": "red"}
    console = new_console()
    for status in ("fail", "warn", "ok"):
        for one in found:
            if one.status == status:
                line = Text.assemble((f"{status:4}", colours[status]), "  ", (one.check, "bold"), "  ", one.detail)
                console.print(line, soft_wrap=True)
                if one.fix:
                    console.print(Text.assemble("      → ", one.fix), soft_wrap=True)
    count = Counter(one.status for one in found)
    say(f"\n{count['ok']} ok, {counted(count['warn'], 'warning')}, {counted(count['fail'], 'failure')}.")


def repairs(found: Sequence[Repair], *, done: bool) -> None:
    """Prints what a repair of journals would do, or did."""
    console = new_console()
    for one in found:
        whose = "" if len(found) == 1 else f" of tenant {one.tenant}"
        if not one.needed:
            console.print(Text(f"The journal{whose} is intact: nothing to repair."))
            continue
        console.print(Text(f"The journal{whose}: {one.damage or one.lost}."), soft_wrap=True)
        console.print(Text(f"  {counted(one.readable, 'memory')} can be read from it"))
        for name, store in one.stores.items():
            says = store.reason or f"holds {store.holds}, {store.beyond} of them beyond the journal"
            console.print(Text(f"  {name} {says}"), soft_wrap=True)
        console.print(Text(f"  {one.recovered} {'were' if done else 'would be'} recovered from the stores"))
        if one.new_refs:
            verb = "have" if done else "would get"
            why = "the stores do not know the old ones, which no other memory gets"
            console.print(Text(f"  {one.new_refs} of them {verb} new refs: {why}"), soft_wrap=True)
        if one.forgotten:
            console.print(Text(f"  {one.forgotten} stay forgotten"))
        if one.cut:
            console.print(Text(f"  read only in part: {', '.join(one.cut)}", "yellow"), soft_wrap=True)
        if one.missing:
            console.print(Text(f"  {one.missing} are in no store; forgotten ones are counted here", "yellow"))
        if one.kept_as:
            console.print(Text(f"  the old file is kept as {one.kept_as}"), soft_wrap=True)


def _breaker(row: wire.BackendStatus) -> Text:
    wait = f", {row['wait_s']:.0f} s" if row["wait_s"] else ""
    return Text(f"{row['breaker'].replace('_', '-')}{wait}", "green" if row["breaker"] == "closed" else "yellow")


def _remarks(console: Console, notes: Mapping[str, Sequence[str]]) -> None:
    """Prints the notes of each backend on lines of their own: in a table they would get ten characters."""
    for name, remarks in notes.items():
        for remark in remarks:
            console.print(Text.assemble((f"{name}: ", "bold"), (remark, "yellow")), soft_wrap=True)
    if any(notes.values()):
        console.print()


def _backend_remarks(row: wire.BackendStatus) -> list[str]:
    notes = [row["detail"], *row["notes"]]
    if row["refused"]:
        notes.append(f"{row['refused']:,} refused so far: {row['reason']}")
    if row["failed"]:
        notes.append(f"{row['failed']:,} never taken: {row['reason']}")
    return [one for one in notes if one]


def _parts(parts: Mapping[str, int]) -> str:
    return ", ".join(f"{name.removeprefix('backends/')} {size(count)}" for name, count in parts.items()) or "empty"


def _time(seconds: float) -> str:
    return str(timedelta(seconds=round(seconds)))


def growth(found: wire.Activity) -> None:
    """Prints what came in on each day, and the bytes of the stores; days without either are left out."""
    days = [day for day in found["days"] if day["remembered"] or day["forgotten"] or "bytes" in day]
    if not days:
        say("Nothing came in, and no sizes were noted: a server notes them each hour.")
        return
    table(
        ("day (UTC)", "came in", "forgotten", "questions", "bytes", "largest parts"),
        (
            (
                day["day"],
                f"{day['remembered']:,}",
                f"{day['forgotten']:,}",
                f"{day['questions']:,}",
                size(sum(day["bytes"].values())) if "bytes" in day else "",
                first_few([f"{part} {size(count)}" for part, count in _largest(day.get("bytes", {}))]),
            )
            for day in days
        ),
        right=(1, 2, 3, 4),
    )


def _largest(parts: Mapping[str, int]) -> list[tuple[str, int]]:
    return sorted(parts.items(), key=lambda one: -one[1])
