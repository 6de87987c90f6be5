"""Views of comparisons: two arms on one question, and on many."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import TYPE_CHECKING, Any

from fusion.doors.cli.plural import counted
from fusion.doors.cli.render.tables import one_line, say, table, warn

if TYPE_CHECKING:
    from rich.text import Text

    from fusion import wire


def compared(answer: wire.CompareReply) -> None:
    """Prints how two arms answered, what only one of them has, and why the other does not have it."""
    sides = (("a", answer["a"]), ("b", answer["b"]))
    table(
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
            table(
                (f"only {name}", "found by", f"in {other}", "text"),
                (
                    (
                        ref,
                        ", ".join(sorted(_reason(reasons[ref], name)["found_by"])) or "neighbour of a hit",
                        one_line(_reason(reasons[ref], other)["reason"]),
                        one_line(texts[ref]),
                    )
                    for ref in refs
                ),
            )
    if not answer["only_a"] and not answer["only_b"]:
        say("Both have the same memories.")
    say(f"{len(answer['both'])} in both, {len(answer['only_a'])} only in a, {len(answer['only_b'])} only in b.")
    say(f"Receipts: a {answer['a']['receipt_id']}, b {answer['b']['receipt_id']}")
    if answer["a"]["degraded"] or answer["b"]["degraded"]:
        _reasons(answer["notes"])


def _reason(why: wire.ComparedMemory, side: str) -> wire.ReceiptEntry:
    return why["a"] if side == "a" else why["b"]


def _reasons(notes: Sequence[str]) -> None:
    """Warns of what is wrong with the home as a whole, with the fix."""
    for note in notes:
        warn(f"degraded: {note}")


def verdict(report: Mapping[str, Any]) -> None:
    """Prints the paired verdict where answers were expected, and what the arms share and cost."""
    judged, alike = report["verdict"], report["agreement"]
    if judged is not None:
        say(
            f"b against a, over {counted(judged['n'], 'question')}: "
            f"{judged['win']} won, {judged['tie']} tied, {judged['loss']} lost."
        )
        say(
            f"Found of what was expected: a {judged['a']:.1%}, b {judged['b']:.1%}; difference "
            f"{100 * judged['difference']:+.1f} points, 95 % interval {100 * judged['low']:+.1f} to "
            f"{100 * judged['high']:+.1f}: {_winner(judged['better'])}."
        )
        say("")
    table(
        ("", "arm", "only here", "and found by", "chars", "waited ms", "ranked ms", "empty"),
        (
            (
                side,
                report[side],
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
    say(
        f"The same memories in both for {alike['same_memories']} of {counted(alike['questions'], 'question')}; "
        f"overlap {alike['overlap']:.0%}."
    )
    if report["tuned_on"]:
        say(f"An arm was tuned on {report['tuned_on']} of them: these do not count.")
    elif judged is None:
        say("The questions name no expected answers, so this does not say which arm is better.")
    if report["degraded"]:
        say(f"{report['degraded']} of them were degraded; `fusion backends` says why.")
    if report["unanswered"]:
        say(f"{report['unanswered']} more got no answer: {report['unanswered_why']}")
    if report.get("stored_why"):
        warn(f"not stored for `fusion compare --list`: {report['stored_why']}")


def stored_comparisons(page: wire.Comparisons) -> None:
    """Prints a page of stored comparisons."""
    if not page["comparisons"]:
        say("No comparison is stored yet: fusion compare --queries FILE --a default --b ARM")
        return
    table(
        ("when (UTC)", "a", "b", "questions", "found a", "found b", "b - a, 95 % interval", "better"),
        (
            (
                one["at"][:16].replace("T", " "),
                _arm(one["a"]),
                _arm(one["b"]),
                f"{one['questions']:,}",
                *_figures(one["verdict"]),
            )
            for one in page["comparisons"]
        ),
        right=(3, 4, 5),
    )
    if page["next_cursor"]:
        say(f"More: --cursor {page['next_cursor']}")


def _arm(arm: wire.ComparisonArm) -> Text:
    return one_line(f"{arm['arm']} ({arm['recipe']} {arm['hash'][:8]})")


def _figures(judged: wire.ComparisonVerdict | None) -> tuple[str, str, str, str]:
    if judged is None:
        return "", "", "", "no expected answers"
    spans = f"{100 * judged['difference']:+.1f} ({100 * judged['low']:+.1f} to {100 * judged['high']:+.1f})"
    return f"{judged['a']:.1%}", f"{judged['b']:.1%}", spans, judged["better"] or "not shown"


def _winner(better: str | None) -> str:
    return "no difference is shown" if better is None else f"{better} is better"
