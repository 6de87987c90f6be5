"""Asks two arms many questions, with a bar, and exports feedback."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import asdict
from pathlib import Path
from typing import TYPE_CHECKING, Any

import orjson

from fusion.compare.queries import Asked
from fusion.compare.verdict import agreement, paired
from fusion.doors.cli.progress import bar
from fusion.errors import BadInput, FusionError, NobodyAnswered

if TYPE_CHECKING:
    from fusion import wire
    from fusion.client import AsyncClient


async def over_all(
    client: AsyncClient,
    questions: Sequence[Asked],
    a: str,
    b: str,
    given: Mapping[str, Any],
    *,
    seed: int = 0,
    quiet: bool = False,
) -> dict[str, Any]:
    """Asks one question after the other and sums up. ``given`` applies to each question that does not set it itself.

    A question to which an arm got no answer at all is counted as ``unanswered`` and compared no further; one on which
    an arm's recipe was tuned is compared, and has no say in the verdict. Raises NobodyAnswered when no question got an
    answer, and what any single question raises.
    """
    rows: list[dict[str, Any]] = []
    failed: list[NobodyAnswered] = []
    arms: dict[str, Any] = {}
    with bar("comparing", len(questions), quiet=quiet, transient=True) as advance:
        for question in questions:
            try:
                compared = await client.compare(question.query, a, b, **{**given, **question.given})
                rows.append(_row(question, compared))
                arms = {"a": _arm(compared["a"]), "b": _arm(compared["b"])}
            except NobodyAnswered as error:
                failed.append(error)
            advance(1)
    if not rows:
        raise failed[0]
    judged = [row for row in rows if "found" in row["a"]]
    verdict = None
    if judged:
        pair = paired([row["a"]["found"] for row in judged], [row["b"]["found"] for row in judged], seed=seed)
        verdict = {**asdict(pair), "better": pair.better, "seed": seed}
    return {
        "a": a,
        "b": b,
        "arms": arms,
        "unanswered": len(failed),
        "unanswered_why": str(failed[0]) if failed else None,
        "degraded": sum(row["degraded"] for row in rows),
        "tuned_on": sum(row["tuned_on"] for row in rows),
        "verdict": verdict,
        "agreement": agreement(rows),
        "rows": rows,
    }


async def keep(client: AsyncClient, report: Mapping[str, Any]) -> dict[str, Any]:
    """Store the figures of a report, for `fusion compare --list`: ``stored`` is its number, or null with the reason.

    The server may be of an earlier version, its disk full, or the key a reader's: the report itself holds.
    """
    alike, verdict = report["agreement"], report["verdict"]
    costs = ("only", "empty", "characters", "waited_ms", "took_ms")
    figures: dict[str, Any] = {
        side: {**report["arms"][side], **{name: alike[side][name] for name in costs}} for side in ("a", "b")
    }
    judged = None if verdict is None else {name: value for name, value in verdict.items() if name != "better"}
    figures |= {name: report[name] for name in ("unanswered", "degraded", "tuned_on")}
    figures |= {name: alike[name] for name in ("questions", "same_memories", "overlap")}
    try:
        kept = await client.keep_comparison(**figures, verdict=judged)
    except FusionError as error:
        return {"stored": None, "stored_why": str(error)}
    return {"stored": kept["id"], "stored_why": None}


def _arm(answer: wire.ComparedArm) -> dict[str, Any]:
    recipe = answer["recipe"]
    backends = [row["name"] for row in answer["backends"]]
    return {"arm": answer["arm"], "recipe": recipe["name"], "hash": recipe["hash"], "backends": backends}


def _row(question: Asked, compared: wire.CompareReply) -> dict[str, Any]:
    """The outcome of one question: refs and numbers, no text of a memory."""
    finders = {
        side: {why["ref"]: sorted(reason["found_by"]) for why in compared["why"] for reason in (why[side],)}
        for side in ("a", "b")
    }
    sides = {
        side: {name: answer[name] for name in ("receipt_id", "characters", "waited_ms", "took_ms")}
        for side, answer in (("a", compared["a"]), ("b", compared["b"]))
    }
    tuned_on = compared["a"]["tuned_on"] or compared["b"]["tuned_on"]
    if question.expected is not None and not tuned_on:
        sides["a"]["found"] = question.expected.found_in(compared["a"]["memories"])
        sides["b"]["found"] = question.expected.found_in(compared["b"]["memories"])
    return {
        "query": question.query,
        **sides,
        "only_a": {ref: finders["a"][ref] for ref in compared["only_a"]},
        "only_b": {ref: finders["b"][ref] for ref in compared["only_b"]},
        "both": compared["both"],
        "degraded": compared["a"]["degraded"] or compared["b"]["degraded"],
        "tuned_on": tuned_on,
    }


async def export_labels(client: AsyncClient, file: Path) -> int:
    """Writes all feedback to ``file``, a line of JSON each, oldest first; all or nothing. Returns the count.

    Raises BadInput for a file that cannot be written.
    """
    if file.is_dir():
        raise BadInput(f"{file} cannot be written: it is a folder")
    part = file.with_name(f"{file.name}.part")
    try:
        out = part.open("wb")
    except OSError as error:
        raise BadInput(f"{file} cannot be written: {error.strerror}") from None
    count, cursor = 0, None
    try:
        with out:
            while True:
                page = await client.labels(limit=1000, cursor=cursor)
                out.writelines(orjson.dumps(label) + b"\n" for label in page["labels"])
                count += len(page["labels"])
                cursor = page["next_cursor"]
                if cursor is None:
                    break
        part.replace(file)
    finally:
        part.unlink(missing_ok=True)
    return count
