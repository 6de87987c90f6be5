"""Views of answers: a block and its reasons, the hits of one backend, a receipt."""

from __future__ import annotations

import sys
from collections.abc import Mapping, Sequence
from typing import TYPE_CHECKING, Any

from rich.text import Text

from fusion.doors.cli.render.tables import FINE, new_console, one_line, say, status_text, table, warn

if TYPE_CHECKING:
    from fusion import wire

SIGNALS_SHOWN = 3


def fused(answer: wire.FuseReply, *, reasons: bool = False, left_out: bool = False) -> None:
    """Prints the block alone on stdout, as it goes into a prompt, and a line on stderr for each fault.

    With ``reasons`` also how each backend did and why each memory is in, with ``left_out`` why the others are not.
    """
    if answer["block"]:
        say(answer["block"])
    sys.stdout.flush()
    if reasons:
        _backends_asked(answer["backends"])
        _memories_shown(answer, left_out=left_out)
    _remark(answer)
    if reasons or sys.stderr.isatty():
        line = f"{answer['took_ms']:.0f} ms · recipe {answer['recipe']['name']} · receipt {answer['receipt_id']}"
        new_console(stderr=not reasons).print(Text(line, "dim"))


def _remark(answer: wire.FuseReply) -> None:
    """Says on stderr that nothing was found, that the question was cut, or that something failed."""
    if not answer["block"]:
        warn(f"nothing found: {answer['abstained'] or 'no memory fits well enough'}")
    if answer["query_truncated"]:
        warn("the question was long: its first and last 2,000 characters were asked")
    if answer["degraded"]:
        warn(_degraded(answer["backends"], answer["notes"]))


def _degraded(asked: Sequence[wire.BackendAnswer], notes: Sequence[str]) -> str:
    """One line with the backends that failed and what is wrong with the home."""
    named = {name: rest.strip() for name, _, rest in (note.partition(":") for note in notes)}
    failed = {row["name"]: row for row in asked if row["status"] not in FINE}
    why = {name: named.get(name) or row.get("detail", "") for name, row in failed.items()}
    said = [f"{name} {row['status']}" + (f" ({why[name]})" if why[name] else "") for name, row in failed.items()]
    said += [note for note in notes if note.partition(":")[0] not in failed]
    return f"degraded: {'; '.join(said) or 'a backend needs a look'} (fusion status shows more)"


def _backends_asked(asked: Sequence[wire.BackendAnswer]) -> None:
    say("")
    table(
        ("backend", "status", "found", "ms", ""),
        (
            (row["name"], status_text(row["status"]), row["count"], f"{row['took_ms']:.0f}", row.get("detail", ""))
            for row in asked
        ),
        right=(2, 3),
    )


def _memories_shown(answer: wire.FuseReply, *, left_out: bool) -> None:
    """Prints score, backends and signals of each memory in the block; with ``left_out`` of the others, too."""
    candidates = (answer["explain"] or {}).get("candidates", [])
    reasons = {row["ref"]: row for row in candidates}
    weights = (answer["explain"] or {}).get("weights", {})
    members = [member for excerpt in answer["memories"] for member in excerpt["members"]]
    if members:
        table(
            ("memory", "score", "helps", "found by", "why"),
            (
                (
                    m["ref"],
                    f"{m['score']:.2f}",
                    _percent(m["probability"]),
                    ", ".join(m["backends"]),
                    _why(reasons.get(m["ref"], {}), weights, m["path"]),
                )
                for m in members
            ),
            right=(1, 2),
        )
    if left_out:
        shown = {member["ref"] for member in members}
        table(
            ("left out", "score", "helps", "decision", "signals"),
            (
                (
                    row["ref"],
                    f"{row['local']:.2f}",
                    _percent(row.get("probability")),
                    row["reason"],
                    _why(row, weights, ()),
                )
                for row in candidates
                if row["ref"] not in shown
            ),
            right=(1, 2),
        )
    _contradictions((answer["explain"] or {}).get("contradictions", ()))
    if why := answer["rerank"].get("uncalibrated"):
        say(why)


def _contradictions(rows: Sequence[Mapping[str, Any]]) -> None:
    """Prints what stores contradict each other in, and what decided."""
    for row in rows:
        say(contradiction(row))


def contradiction(row: Mapping[str, Any]) -> str:
    """A line on a contradiction: both memories with their stores and times, and the decision."""
    named = (
        f"{ref} ({store}, {at[:16].replace('T', ' ') + ' UTC' if at else 'time unknown'})"
        for ref, store, at in zip(row["refs"], row["stores"], row["at"], strict=True)
    )
    return f"{row['on']}: {' against '.join(named)}: {row['why']}"


def _percent(probability: float | None) -> str:
    """The probability that a memory helps; empty where the scores are not calibrated."""
    return "" if probability is None else f"{probability:.0%}"


def _why(reason: Mapping[str, Any], weights: Mapping[str, float], path: Sequence[str]) -> str:
    """The signals that weighed most, and the path by which a graph found the memory."""
    signals = reason.get("signals", {})
    parts = sorted(((weights.get(name, 0.0) * value, name) for name, value in signals.items()), reverse=True)
    words = [f"{name} {signals[name]:.2f}" for share, name in parts[:SIGNALS_SHOWN] if share > 0]
    if reason.get("judge") is not None:
        words.insert(0, f"judge {reason['judge']:g}")
    if reason.get("neighbour_of"):
        words.append("neighbour of a hit")
    if path:
        words.append(" → ".join(path))
    return ", ".join(words)


def found(answer: wire.SearchReply, *, native: bool = False) -> None:
    """Prints the hits of one backend, a line each; with ``native`` its own ids, too."""
    titles = ("", "memory", "score", *(("its own id",) if native else ()), "text")
    rows = (
        (i, h["ref"], _score(h["score"]), *((h["native_id"],) if native else ()), one_line(h["text"]))
        for i, h in enumerate(answer["hits"], start=1)
    )
    backend = answer["backend"]
    if answer["hits"]:
        table(titles, rows, right=(0, 2), whole=(1,))
    else:
        warn(f"{backend['name']}: nothing ({backend['status']}) {backend.get('detail', '')}".rstrip())


def _score(score: float | None) -> str:
    return "" if score is None else f"{score:.3g}"


def receipts(page: wire.Receipts) -> None:
    """Prints a page of what was answered; the server remembers the texts of the latest questions alone."""
    if not page["receipts"]:
        say("No receipt fits.")
        return
    table(
        ("receipt", "when (UTC)", "user", "session", "recipe", "memories", "chars", "ms", "question"),
        (
            (
                one["receipt_id"],
                one["at"][:19].replace("T", " "),
                one_line(one["user_id"] or ""),
                one_line(one["session_id"] or ""),
                one["recipe"]["name"] + (", degraded" if one["degraded"] else ""),
                one["memories"],
                f"{one['characters']:,}",
                f"{one['took_ms']:.0f}",
                one_line(one["query"] or ""),
            )
            for one in page["receipts"]
        ),
        right=(5, 6, 7),
    )
    if page["next_cursor"]:
        say(f"More: --cursor {page['next_cursor']}")


def receipt(answer: Mapping[str, Any]) -> None:
    """Prints every candidate of an answer, in its order."""
    weights = answer.get("weights", {})
    table(
        ("memory", "score", "helps", "decision", "found by", "why"),
        (
            (
                row["ref"],
                f"{row['local']:.2f}",
                _percent(row.get("probability")),
                row["reason"],
                ", ".join(f"{s['backend']} #{s['rank']}" for s in row["source_hits"]),
                _why(row, weights, ()),
            )
            for row in answer["candidates"]
        ),
        right=(1, 2),
    )
    _contradictions(answer.get("contradictions", ()))
