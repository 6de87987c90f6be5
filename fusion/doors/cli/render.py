"""What the command line prints for people. Text of memories is printed as it is: no markup in it is obeyed."""

from __future__ import annotations

import sys
from collections import Counter
from collections.abc import Iterable, Mapping, Sequence
from datetime import timedelta
from typing import TYPE_CHECKING, Any

from rich import box
from rich.console import Console
from rich.table import Table
from rich.text import Text

from fusion.doors import terminal
from fusion.doors.cli.plural import counted, plural

if TYPE_CHECKING:
    from pathlib import Path

    from fusion import wire
    from fusion.discover import Discovery
    from fusion.doors.cli.doctor import Finding
    from fusion.doors.cli.ingest import Summary
    from fusion.gateway.repair import Repair

FEW_NAMES = 5
"""of refs, and of documents, on one line"""
FINE = {"ok", "empty", "ready", "closed", "deleted", "absent"}
SIGNALS_SHOWN = 3
OUTCOMES = ("deleted", "absent", "hidden", "pending", "still_there")
PENDING = "Where it is pending it will be deleted as soon as the backend answers; it is not shown any more."
HIDDEN = (
    "Where it is hidden it cannot be deleted: a file of yours says it still, or a store that only answers. "
    "No answer shows it; to be rid of it, change it there."
)
STILL_THERE = "Where it is still_there the backend returned it after deleting it; it is asked until it does not."
LINE_CHARS = 2000
"""of a text that becomes one line of a table: more than any terminal is wide"""
NAMED = 10
"""memories named one by one, where they were forgotten for the same words"""


def discovered(found: Discovery, user: Path) -> None:
    """What was found, numbered as it is asked about, and what will happen with it."""
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
        _table(_console(), ("", "what", "where", "files", "size", "what happens"), rows, right=(0, 3, 4))
    else:
        _say("Nothing was found that could become memory; --scan DIR looks in a folder of yours.")
    for answering in found.servers:
        server = " ".join(filter(None, (LABELS[answering.kind], answering.version, answering.url)))
        _say(f"found, not used yet: {server} (this version has no adapter for it)")
    if not found.complete:
        _say("There was no time to look everywhere; --scan DIR looks in a folder of yours.\n")


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


def _below(path: Path, user: Path) -> str:
    return f"~/{path.relative_to(user).as_posix()}" if path.is_relative_to(user) else str(path)


def fused(answer: wire.Fused, *, reasons: bool = False, left_out: bool = False) -> None:
    """The block as it goes into a prompt, and nothing else on stdout; on stderr a line where something failed.

    With ``reasons`` also how each backend did and why each memory is in, with ``left_out`` why the others are not.
    """
    if answer["block"]:
        _say(answer["block"])
    sys.stdout.flush()
    if reasons:
        _backends_asked(answer["backends"])
        _memories_shown(answer, left_out=left_out)
    _remark(answer)
    if reasons or sys.stderr.isatty():
        told = f"{answer['took_ms']:.0f} ms · recipe {answer['recipe']['name']} · receipt {answer['receipt_id']}"
        _console(stderr=not reasons).print(Text(told, "dim"))


def _remark(answer: wire.Fused) -> None:
    """On stderr, a line each: that nothing was found, that the question was cut, that something failed."""
    if not answer["block"]:
        _warn(f"nothing found: {answer['abstained'] or 'no memory was worth it'}")
    if answer["query_truncated"]:
        _warn("the question was long: its first and last 2,000 characters were asked")
    if answer["degraded"]:
        _warn(_degraded(answer["backends"], answer["notes"]))


def _degraded(asked: Sequence[wire.Asked], notes: Sequence[str]) -> str:
    """What failed, and what is wrong with the home as a whole, in one line."""
    named = {name: rest.strip() for name, _, rest in (note.partition(":") for note in notes)}
    failed = {row["name"]: row for row in asked if row["status"] not in FINE}
    why = {name: named.get(name) or row.get("detail", "") for name, row in failed.items()}
    said = [f"{name} {row['status']}" + (f" ({why[name]})" if why[name] else "") for name, row in failed.items()]
    said += [note for note in notes if note.partition(":")[0] not in failed]
    return f"degraded: {'; '.join(said) or 'a backend needs a look'} (fusion status shows more)"


def _backends_asked(asked: Sequence[wire.Asked]) -> None:
    _say("")
    _table(
        _console(),
        ("backend", "status", "found", "ms", ""),
        (
            (row["name"], _status(row["status"]), row["count"], f"{row['took_ms']:.0f}", row.get("detail", ""))
            for row in asked
        ),
        right=(2, 3),
    )


def _memories_shown(answer: wire.Fused, *, left_out: bool) -> None:
    """Score, backends and signals of each memory in the block, and where wanted of those that are not in it."""
    candidates = (answer["explain"] or {}).get("candidates", [])
    reasons = {row["ref"]: row for row in candidates}
    weights = (answer["explain"] or {}).get("weights", {})
    members = [member for excerpt in answer["memories"] for member in excerpt["members"]]
    if members:
        _table(
            _console(),
            ("memory", "score", "found by", "why"),
            (
                (
                    m["ref"],
                    f"{m['score']:.2f}",
                    ", ".join(m["backends"]),
                    _why(reasons.get(m["ref"], {}), weights, m["path"]),
                )
                for m in members
            ),
            right=(1,),
        )
    if left_out:
        shown = {member["ref"] for member in members}
        _table(
            _console(),
            ("left out", "score", "decision", "signals"),
            (
                (row["ref"], f"{row['local']:.2f}", row["reason"], _why(row, weights, ()))
                for row in candidates
                if row["ref"] not in shown
            ),
            right=(1,),
        )


def _reasons(notes: Sequence[str]) -> None:
    """What is wrong with the home as a whole, with the fix: no other line says why all answers are degraded."""
    for note in notes:
        _warn(f"degraded: {note}")


def compared(answer: wire.Compared) -> None:
    """How two arms answered, then what only one of them has, and why the other one has not."""
    console = _console()
    sides = (("a", answer["a"]), ("b", answer["b"]))
    _table(
        console,
        ("", "arm", "recipe", "backends", "memories", "chars", "waited ms", "ranked ms"),
        (
            (
                name,
                side["arm"],
                side["recipe"]["name"],
                f"{side['coverage']['ok']} of {side['coverage']['total']}" + (", degraded" if side["degraded"] else ""),
                sum(len(memory["members"]) for memory in side["memories"]),
                f"{side['characters']:,}",
                f"{side['waited_ms']:.0f}",
                f"{side['took_ms']:.0f}",
            )
            for name, side in sides
        ),
        right=(4, 5, 6, 7),
    )
    texts = {m["ref"]: m["text"] for _, side in sides for memory in side["memories"] for m in memory["members"]}
    for name, other, refs in (("a", "b", answer["only_a"]), ("b", "a", answer["only_b"])):
        reasons = {why["ref"]: why for why in answer["why"]}
        if refs:
            _table(
                console,
                (f"only {name}", "found by", f"in {other}", "text"),
                (
                    (
                        ref,
                        ", ".join(sorted(_reason(reasons[ref], name)["found_by"])) or "neighbour of a hit",
                        _one_line(_reason(reasons[ref], other)["reason"]),
                        _one_line(texts[ref]),
                    )
                    for ref in refs
                ),
            )
    if not answer["only_a"] and not answer["only_b"]:
        _say("Both have the same memories.")
    _say(f"{len(answer['both'])} in both, {len(answer['only_a'])} only in a, {len(answer['only_b'])} only in b.")
    _say(f"Receipts: a {answer['a']['receipt_id']}, b {answer['b']['receipt_id']}")
    if answer["a"]["degraded"] or answer["b"]["degraded"]:
        _reasons(answer["notes"])


def _reason(why: wire.Why, side: str) -> wire.Reason:
    return why["a"] if side == "a" else why["b"]


def verdict(told: Mapping[str, Any]) -> None:
    """The paired verdict where something was expected; what the arms share and cost in any case."""
    judged, alike = told["verdict"], told["agreement"]
    if judged is not None:
        _say(
            f"b against a, over {counted(judged['n'], 'question')}: "
            f"{judged['win']} won, {judged['tie']} tied, {judged['loss']} lost."
        )
        _say(
            f"Found of what was expected: a {judged['a']:.1%}, b {judged['b']:.1%}; difference "
            f"{100 * judged['difference']:+.1f} points, 95 % interval {100 * judged['low']:+.1f} to "
            f"{100 * judged['high']:+.1f}: {_winner(judged['better'])}."
        )
        _say("")
    _table(
        _console(),
        ("", "arm", "only here", "and found by", "chars", "waited ms", "ranked ms", "empty"),
        (
            (
                side,
                told[side],
                alike[side]["only"],
                ", ".join(f"{name} {count}" for name, count in alike[side]["alone"].items()),
                f"{alike[side]['characters']:,.0f}",
                f"{alike[side]['waited_ms']:.0f}",
                f"{alike[side]['took_ms']:.0f}",
                alike[side]["empty"],
            )
            for side in ("a", "b")
        ),
        right=(2, 4, 5, 6, 7),
    )
    _say(
        f"The same memories in both for {alike['same_memories']} of {counted(alike['questions'], 'question')}; "
        f"overlap {alike['overlap']:.0%}."
    )
    if told["tuned_on"]:
        _say(
            f"An arm was tuned on {told['tuned_on']} of them: "
            "what it finds there would flatter it, so they do not count."
        )
    elif judged is None:
        _say("Nothing was expected of the answers, so this is no judgement of quality: neither is the better one.")
    if told["degraded"]:
        _say(f"{told['degraded']} of them were degraded; `fusion backends` says why.")
    if told["unanswered"]:
        _say(f"{told['unanswered']} more got no answer: {told['unanswered_why']}")


def _winner(better: str | None) -> str:
    return "no difference is shown" if better is None else f"{better} is better"


def found(answer: wire.Found, *, native: bool = False) -> None:
    """One backend's hits, a line each; ``native`` shows its own ids, too."""
    titles = ("", "memory", "score", *(("its own id",) if native else ()), "text")
    rows = (
        (i, h["ref"], _score(h["score"]), *((h["native_id"],) if native else ()), _one_line(h["text"]))
        for i, h in enumerate(answer["hits"], start=1)
    )
    backend = answer["backend"]
    if answer["hits"]:
        _table(_console(), titles, rows, right=(0, 2), whole=(1,))
    else:
        _warn(f"{backend['name']}: nothing ({backend['status']}) {backend.get('detail', '')}".rstrip())


def memories(page: wire.Memories) -> None:
    """A page of memories, one a line, and how to get the next one."""
    found = page["memories"]
    rows = ((m["ref"], (m["at"] or m["recorded_at"] or "")[:10], m["kind"], _one_line(m["text"])) for m in found)
    if page["memories"]:
        _table(_console(), ("memory", "date", "kind", "text"), rows)
    else:
        _say("No memories here.")
    if page["next_cursor"]:
        _say(f"More: --cursor {page['next_cursor']}")


def memory(found: wire.Remembrance) -> None:
    """One memory whole, and below what is known of it."""
    _say(found["text"].rstrip("\n") + "\n")
    place = found["document"] and f"{found['document']}:{found['position']}"
    facts = {
        "ref": found["ref"],
        "kind": found["kind"],
        "speaker": found["speaker"],
        "happened": found["at"],
        "recorded": found["recorded_at"],
        "place": place,
        "source": found["source"],
        "of": ", ".join(f"{name} {value}" for name, value in found["scope"].items()),
        "trust": found["trust"],
        "current": None if found.get("current", True) else "no: it was replaced, or its file has it no more",
        "kept by": ", ".join(found.get("backends", ())) or ("no backend yet" if found.get("current", True) else None),
        "replaces": found.get("supersedes"),
        "said": said_again(found),
    }
    for name, value in facts.items():
        if value:
            _say(f"{name:<9} {value}")


def said_again(found: wire.Remembrance) -> str | None:
    """How often a memory was remembered, and when for the last time; None where that was once."""
    if found.get("said", 1) < 2:
        return None
    last = found.get("said_at")
    return f"{found['said']} times" + (f", the last time {last}" if last else "")


def backends(answer: wire.Backends) -> None:
    """What each backend holds; below, what is wrong with it."""
    rows = answer["backends"]
    console = _console()
    _table(
        console,
        ("backend", "status", "items", "vectors", "to do"),
        (
            (
                row["name"],
                _state(row),
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
    """Backends with breakers and backlog and what they remark, then what the home holds and what it weighs."""
    console = _console()
    _table(
        console,
        ("backend", "status", "breaker", "items", "vectors", "to deliver", "to embed"),
        (
            (
                row["name"],
                _state(row),
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
        "judge": found["judge"] or "none: the local order stands",
        "server": f"{url or 'in this process'}, version {found['version']}, up {_time(found['uptime_s'])}; "
        f"{counted(requests['in_flight'], 'request')} under way, {requests['queued']} waiting",
    }
    if found.get("held_back"):
        lines["held"] = held_back(found["held_back"])
    if found.get("links"):
        lines["links"] = links(found["links"])
    for name, line in lines.items():
        console.print(Text.assemble((f"{name:9}", "dim"), line), soft_wrap=True)
    for note in found["notes"]:
        console.print(Text(note, "yellow"), soft_wrap=True)


def held_back(rows: Sequence[wire.HeldBack]) -> str:
    """What was forgotten and is kept out of notes that still may say it."""
    memories = sum(len(row["refs"]) for row in rows)
    named = [f"{row['document']} ({_some(row['refs'])})" for row in rows]
    kept = f"{counted(memories, 'forgotten memory')} {plural(memories, 'is')}"
    return f"{kept} kept out of {counted(len(rows), 'document')}: {_some(named)}"


def links(counts: Mapping[str, int]) -> str:
    """The links in folders of notes that are not followed."""
    return f"not read in the folders of [notes]: {_some(kinds(counts))}; links are not followed"


def kinds(counts: Mapping[str, int]) -> list[str]:
    """Files that are not read, each kind with its number."""
    return [f"{count:,} {kind}" for kind, count in counts.items()]


def _some(names: Sequence[str]) -> str:
    """The first few names, and how many more there are."""
    more = f" and {len(names) - FEW_NAMES:,} more" if len(names) > FEW_NAMES else ""
    return ", ".join(names[:FEW_NAMES]) + more


def findings(found: Sequence[Finding]) -> None:
    """What was looked at, what is wrong first; under each fault how to fix it."""
    colours = {"ok": "green", "warn": "yellow", "fail": "red"}
    console = _console()
    for status in ("fail", "warn", "ok"):
        for one in found:
            if one.status == status:
                line = Text.assemble((f"{status:4}", colours[status]), "  ", (one.check, "bold"), "  ", one.detail)
                console.print(line, soft_wrap=True)
                if one.fix:
                    console.print(Text.assemble("      → ", one.fix), soft_wrap=True)
    count = Counter(one.status for one in found)
    _say(f"\n{count['ok']} well, {count['warn']} to watch, {count['fail']} wrong.")


def repairs(found: Sequence[Repair], *, done: bool) -> None:
    """What making journals anew does, or did."""
    console = _console()
    for one in found:
        whose = "" if len(found) == 1 else f" of tenant {one.tenant}"
        if not one.needed:
            console.print(Text(f"The journal{whose} is whole: nothing to repair."))
            continue
        console.print(Text(f"The journal{whose}: {one.damage or one.lost}."), soft_wrap=True)
        console.print(Text(f"  {counted(one.readable, 'memory')} can be read of it"))
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
            console.print(Text(f"  not read to the end: {', '.join(one.cut)}", "yellow"), soft_wrap=True)
        if one.missing:
            console.print(Text(f"  {one.missing} are in no store, those that were forgotten among them", "yellow"))
        if one.kept_as:
            console.print(Text(f"  the old file is kept as {one.kept_as}"), soft_wrap=True)


def receipt(answer: Mapping[str, Any]) -> None:
    """Every candidate of one answer, in its order."""
    weights = answer.get("weights", {})
    _table(
        _console(),
        ("memory", "score", "decision", "found by", "why"),
        (
            (
                row["ref"],
                f"{row['local']:.2f}",
                row["reason"],
                ", ".join(f"{s['backend']} #{s['rank']}" for s in row["source_hits"]),
                _why(row, weights, ()),
            )
            for row in answer["candidates"]
        ),
        right=(1,),
    )


def to_forget(found: Sequence[wire.FoundToForget]) -> None:
    """What would be forgotten, before it is."""
    rows = (
        (
            one["ref"],
            (one["at"] or "")[:10],
            ", ".join(one["backends"]) if len(one["backends"]) < 3 else f"{len(one['backends'])} backends",
            f"(the same words as {one['same_as']})" if one.get("same_as") else _one_line(one["text"]),
        )
        for one in found
    )
    _table(_console(), ("memory", "date", "in", "text"), rows)


def forgettings(receipts: Sequence[wire.Forgotten], missing: Sequence[str]) -> None:
    """What became of many memories: how many, by backend and outcome."""
    counts: dict[str, Counter[str]] = {}
    for receipt in receipts:
        for name, what in receipt["backends"].items():
            counts.setdefault(name, Counter())[what] += 1
    same = [ref for receipt in receipts for ref in receipt.get("same", ())]
    also = sum(len(receipt.get("also", ())) for receipt in receipts) - len(same)
    gone = len(receipts) + len(same)
    told = f"{counted(gone, 'memory')} forgotten"
    if same and len(receipts) == 1 and gone <= NAMED:
        told += f": {', '.join([receipts[0]['ref'], *same])} (the same words)"
    elif same:
        told += f", {len(same)} of them for the same words as another"
    _say(told + (f", and {also} that went with them." if also else "."))
    if counts and not {what for counted in counts.values() for what in counted} - {"deleted", "absent"}:
        _say(f"Deleted in {', '.join(sorted(counts))}; each was asked again and does not return it.")
    elif counts:
        outcomes = [what for what in OUTCOMES if any(what in counted for counted in counts.values())]
        rows = ((name, *(counted[what] or "" for what in outcomes)) for name, counted in sorted(counts.items()))
        _table(_console(), ("backend", *outcomes), rows, right=tuple(range(1, len(outcomes) + 1)))
    for what, said in (("hidden", HIDDEN), ("pending", PENDING), ("still_there", STILL_THERE)):
        if any(what in counted for counted in counts.values()):
            _say(said)
    if missing:
        _say(f"Not here, or forgotten before: {', '.join(missing)}")


def audit(page: wire.ForgottenPage) -> None:
    """What was forgotten, and what became of it where by now."""
    if not page["forgotten"]:
        _say("Nothing was forgotten here.")
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
    _table(_console(), ("memory", "forgotten (UTC)", "by", "backends"), rows)
    if page["next_cursor"]:
        _say(f"More: --cursor {page['next_cursor']}")


def _outcomes(backends: Mapping[str, str]) -> Text:
    """What became of a memory in all backends, on one line: those that agree are counted."""
    kinds = Counter(backends.values())
    if len(backends) > 1 and len(kinds) == 1:
        return _one_line(f"{next(iter(kinds))} in all {len(backends)}")
    return _one_line(", ".join(f"{name} {what}" for name, what in backends.items()))


def batches(reply: wire.Batches) -> None:
    """The ingests that can be undone."""
    if not reply["batches"]:
        _say("There is no ingest to undo.")
        return
    rows = (
        (one["id"], one["at"][:19].replace("T", " "), f"{one['memories']:,}", _one_line(one["first"]))
        for one in reply["batches"]
    )
    _table(_console(), ("ingest", "began (UTC)", "memories", "first"), rows, right=(2,))
    _say("To take one back: fusion undo ID")


def ingested(summary: Summary) -> None:
    """What came of the files."""
    if summary["dry_run"]:
        retired = f", {summary['retired']} retired: their files do not have them" if summary["retired"] else ""
        _say(f"{counted(summary['read'], 'memory')} would be sent{retired}.")
    else:
        told = [f"{summary['stored']} remembered", f"{summary['duplicates']} known already"]
        if summary["superseded"]:
            told.insert(1, f"{summary['superseded']} in place of an earlier version")
        if summary["retired"]:
            told.append(f"{summary['retired']} retired: their files do not have them any more")
        if summary["redacted"]:
            told.append(f"{counted(summary['redacted'], 'secret')} taken out")
        if summary["split"]:
            told.append(f"{summary['split']} too long for one memory, kept in pieces")
        if summary["changed"]:
            told.append(f"{summary['changed']} kept without what was masked or left out")
        _say(", ".join(told) + ".")
    for row in summary["skipped"]:
        more = f" and {row['count'] - 1} more" if row["count"] > 1 else ""
        _say(f"skipped: {row['first']}{more}: {row['reason']}")
    if summary["not_read"]:
        _say(f"Not read: {_some(kinds(summary['not_read']))}.")
    if not summary["settled"] and not summary["dry_run"]:
        _say("The backends take it in behind; `fusion backends` shows how far they are.")


def size(count: int) -> str:
    """Bytes as people read them: 512 B, 4.1 kB, 18 MB."""
    number, unit = float(count), "B"
    for unit in ("B", "kB", "MB", "GB", "TB"):  # noqa: B007 — the last one reached is what is meant
        if number < 1000:
            break
        number /= 1000
    return f"{number:.0f} {unit}" if unit == "B" or number >= 10 else f"{number:.1f} {unit}"


def _breaker(row: wire.BackendStatus) -> Text:
    wait = f", {row['wait_s']:.0f} s" if row["wait_s"] else ""
    return Text(f"{row['breaker'].replace('_', '-')}{wait}", "green" if row["breaker"] == "closed" else "yellow")


def _state(row: wire.BackendState) -> Text:
    """One that answers, and of which something fails, is not called ready."""
    return _status("degraded" if row["degraded"] and row["status"] in FINE else row["status"])


def _remarks(console: Console, told: Mapping[str, Sequence[str]]) -> None:
    """A line for what each backend remarks, as long as it is: beside numbers it would have ten characters."""
    for name, remarks in told.items():
        for remark in remarks:
            console.print(Text.assemble((f"{name}: ", "bold"), (remark, "yellow")), soft_wrap=True)
    if any(told.values()):
        console.print()


def _backend_remarks(row: wire.BackendStatus) -> list[str]:
    told = [row["detail"], *row["notes"]]
    if row["refused"]:
        told.append(f"{row['refused']:,} refused so far: {row['reason']}")
    if row["failed"]:
        told.append(f"{row['failed']:,} never taken: {row['reason']}")
    return [one for one in told if one]


def _parts(parts: Mapping[str, int]) -> str:
    return ", ".join(f"{name.removeprefix('backends/')} {size(count)}" for name, count in parts.items()) or "empty"


def _time(seconds: float) -> str:
    return str(timedelta(seconds=round(seconds)))


def _why(reason: Mapping[str, Any], weights: Mapping[str, float], path: Sequence[str]) -> str:
    """The signals that weighed most, and the path on which a graph found it."""
    signals = reason.get("signals", {})
    parts = sorted(((weights.get(name, 0.0) * value, name) for name, value in signals.items()), reverse=True)
    told = [f"{name} {signals[name]:.2f}" for share, name in parts[:SIGNALS_SHOWN] if share > 0]
    if reason.get("judge") is not None:
        told.insert(0, f"judge {reason['judge']:g}")
    if reason.get("neighbour_of"):
        told.append("neighbour of a hit")
    if path:
        told.append(" → ".join(path))
    return ", ".join(told)


def _say(line: str) -> None:
    """Text as it is: neither wrapped nor marked up."""
    sys.stdout.write(line + "\n")


def _status(status: str) -> Text:
    return Text(status, "green" if status in FINE else "yellow" if status in ("skipped", "disabled") else "red")


def _score(score: float | None) -> str:
    return "" if score is None else f"{score:.3g}"


def _one_line(text: str) -> Text:
    """A text as one line, which a table clips where the terminal ends."""
    return Text(" ".join(text[:LINE_CHARS].split()), no_wrap=True, overflow="ellipsis")


def _warn(line: str) -> None:
    """A remark for people, on stderr: programs read stdout."""
    sys.stderr.write(f"fusion: {' '.join(line.split())}\n")


def _console(*, stderr: bool = False) -> Console:
    return terminal.console(highlight=False, markup=False, emoji=False, stderr=stderr)


LEAST_COLUMNS = 60
"""of a table: in fewer, columns are left out, and a date is broken into one character a line"""


def _table(
    console: Console,
    titles: Sequence[str],
    rows: Iterable[Sequence[object]],
    *,
    right: Sequence[int] = (),
    whole: Sequence[int] = (),
) -> None:
    """A table as wide as the terminal, from `LEAST_COLUMNS` on; a narrower terminal wraps the lines of the table.

    Its first column, and those that are ``whole``, are copied: they do not wrap.
    """
    console.width = max(console.width, LEAST_COLUMNS)
    table = Table(box=box.SIMPLE_HEAD, show_edge=False, pad_edge=False)
    for column, title in enumerate(titles):
        table.add_column(
            title,
            justify="right" if column in right else "left",
            overflow="fold",
            no_wrap=column == 0 or column in whole,
        )
    for row in rows:
        table.add_row(*(cell if isinstance(cell, Text) else Text(str(cell)) for cell in row))
    if console.is_terminal:
        console.print(table)
    else:  # what is piped is compared and pasted: no blanks at the ends of its lines
        with console.capture() as printed:
            console.print(table)
        _say("\n".join(line.rstrip() for line in printed.get().splitlines()))
    console.print()
