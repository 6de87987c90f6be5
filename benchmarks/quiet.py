"""Measures the recipe of the hooks: whether prompts that need nothing get nothing, and how much of a block helps; and
how much of the blocks of `default` helps.

The homes and prompts are our own (`benchmarks.quiet_homes`). Home ``a`` with its half of the prompts was used for
fitting the gate; home ``b`` with the other half was held back.
"""

from __future__ import annotations

import asyncio
import tempfile
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass, replace
from pathlib import Path
from statistics import fmean
from typing import Any

from benchmarks.metrics import percentile
from benchmarks.quiet_homes import HOMES, Home, Prompt, opened, prompts
from benchmarks.scored_rows import write
from fusion.compare import reliability
from fusion.compare.calibrate import HEAD, rows_of_answer
from fusion.contract import Scope
from fusion.doors.hooks import question_of
from fusion.gateway.gateway import Gateway
from fusion.lib.budget import MAX_BUDGET_CHARS
from fusion.recall.engine import Fused, FuseRequest
from fusion.recall.pack import Member

SCOPE = Scope(audience="private")
TIMEOUT_MS = 60_000
"""long, because figures must not depend on how busy the machine is"""
QUESTIONS = ("question", "unanswerable")
"""the kinds of prompts that are asked of `default`, too"""
FITTED_ON: Mapping[Home, bool] = {"a": True, "b": False}


@dataclass(frozen=True, slots=True)
class Answered:
    """A prompt with the answer of the hook's recipe, and with the answer that it had without the gate.

    Both are None for a prompt that the hook does not send. A question also has the answer of `default`, and the one
    that fills the block.
    """

    prompt: Prompt
    gated: Fused | None
    ungated: Fused | None
    asked: Fused | None = None
    filled: Fused | None = None


def measure(limit: int | None = None, *, recipe: str = "default", labels: Path | None = None) -> dict[str, Any]:
    """All figures, by home; ``limit`` is the number of prompts of each home.

    ``recipe`` is asked in the place of `default`. Into the folder ``labels`` go those of its answers, a file for each
    home.
    """
    return {"command": "quiet", **{home: asyncio.run(_measure(home, limit, recipe, labels)) for home in HOMES}}


async def _measure(home: Home, limit: int | None, recipe: str, labels: Path | None) -> dict[str, Any]:
    with tempfile.TemporaryDirectory(prefix="fusion-quiet-") as folder:
        async with opened(home, Path(folder)) as gateway:
            asked = prompts(home)[:limit]
            answered = [await _ask(gateway, prompt, recipe) for prompt in asked]
            if labels is not None:
                labels.mkdir(parents=True, exist_ok=True)
                write(labels / f"{home}.jsonl", await _label_rows(gateway, asked, recipe))
    return {"fitted_on": FITTED_ON[home], **figures(answered)}


async def _label_rows(gateway: Gateway, asked: Sequence[Prompt], recipe: str) -> list[dict[str, Any]]:
    """The best memories for each question, with whether they have the answer."""
    everything = FuseRequest(
        "",
        SCOPE,
        budget_chars=MAX_BUDGET_CHARS,
        max_results=HEAD,
        recipe=recipe,
        timeout_ms=TIMEOUT_MS,
        explain=True,
        fill=True,
        gate=False,
    )
    rows: list[dict[str, Any]] = []
    for prompt in asked:
        if prompt.kind in QUESTIONS:
            found = await gateway.fuse(replace(everything, query=question_of(prompt.text)))
            helpful = {
                member.ref
                for excerpt in found.memories
                for member in excerpt.members
                if prompt.needs_memory and _helps(prompt, excerpt.document, [member])
            }
            rows += rows_of_answer(found.explain or {}, helpful.__contains__, prompt.text)
    return rows


async def _ask(gateway: Gateway, prompt: Prompt, recipe: str) -> Answered:
    question = question_of(prompt.text)
    if not question:
        return Answered(prompt, None, None)
    request = FuseRequest(question, SCOPE, recipe="hook", timeout_ms=TIMEOUT_MS, explain=True)
    ungated = await gateway.fuse(request, gate=False)  # first: the gate's time is then without that of cold caches
    gated = await gateway.fuse(request)
    if prompt.kind not in QUESTIONS:
        return Answered(prompt, gated, ungated)
    asked = FuseRequest(question, SCOPE, recipe=recipe, timeout_ms=TIMEOUT_MS)
    return Answered(prompt, gated, ungated, await gateway.fuse(asked), await gateway.fuse(asked, fill=True))


def figures(answered: Sequence[Answered]) -> dict[str, Any]:
    """The figures of one home."""
    questions = [one for one in answered if one.prompt.kind == "question"]
    unanswerable = [one for one in answered if one.prompt.kind == "unanswerable"]
    nothing = [one for one in answered if one.prompt.kind not in ("question", "unanswerable")]
    kinds, languages = ({getattr(one.prompt, name) for one in nothing} for name in ("kind", "language"))
    reports = (one.gated.explain.get("gate", {}) for one in answered if one.gated and one.gated.explain)
    cpu_ms = [report["cpu_ms"] for report in reports if "cpu_ms" in report]
    return {
        "prompts": len(answered),
        "silent": share(is_silent(one.gated) for one in nothing),
        "silent_without_gate": share(is_silent(one.ungated) for one in nothing),
        "silent_by_kind": {
            kind: share(is_silent(one.gated) for one in nothing if one.prompt.kind == kind) for kind in sorted(kinds)
        },
        "silent_by_language": {
            name: share(is_silent(one.gated) for one in nothing if one.prompt.language == name)
            for name in sorted(languages)
        },
        "lost_by_gate": share(is_found(one.prompt, one.ungated) > is_found(one.prompt, one.gated) for one in questions),
        "found": share(is_found(one.prompt, one.gated) for one in questions),
        "answer_first": share(any(helpful(one.prompt, one.gated)[:1]) for one in questions),
        "noise": share(not helps for one in questions for helps in helpful(one.prompt, one.gated)),
        "characters": _characters(one.gated for one in questions),
        "unanswerable_empty": share(is_silent(one.gated) for one in unanswerable),
        "default": of_default([one for one in answered if one.asked is not None]),
        "gate_cpu_ms_p50": percentile(0.5, cpu_ms) if cpu_ms else None,
        "gate_cpu_ms_p95": percentile(0.95, cpu_ms) if cpu_ms else None,
    }


def of_default(answered: Sequence[Answered]) -> dict[str, Any]:
    """The figures of `default`, those of its filled blocks, and how well its probabilities hold."""
    questions = [one for one in answered if one.prompt.kind == "question"]
    judged = [pair for one in questions for pair in _judged(one.prompt, one.filled)]
    return {
        "found": share(is_found(one.prompt, one.asked) for one in questions),
        "answer_first": share(any(helpful(one.prompt, one.asked)[:1]) for one in questions),
        "noise": share(not helps for one in questions for helps in helpful(one.prompt, one.asked)),
        "noise_filled": share(not helps for one in questions for helps in helpful(one.prompt, one.filled)),
        "characters": _characters(one.asked for one in questions),
        "characters_filled": _characters(one.filled for one in questions),
        "unanswerable_empty": share(is_silent(one.asked) for one in answered if one.prompt.kind == "unanswerable"),
        **reliability.figures(judged),
    }


def _judged(prompt: Prompt, fused: Fused | None) -> list[reliability.Judged]:
    """Of each excerpt, the probability that its best memory helps, and whether it does."""
    if fused is None:
        return []
    best = (max(excerpt.members, key=lambda member: member.score).probability for excerpt in fused.memories)
    return [(p, helps) for p, helps in zip(best, helpful(prompt, fused), strict=True) if p is not None]


def _characters(answers: Iterable[Fused | None]) -> int:
    return round(fmean([len(one.block) if one else 0 for one in answers] or [0]))


def share(each: Any) -> float:
    """The share of what is true; 0 of nothing."""
    found = list(each)
    return round(sum(map(bool, found)) / len(found), 4) if found else 0.0


def is_silent(fused: Fused | None) -> bool:
    return fused is None or not fused.block


def is_found(prompt: Prompt, fused: Fused | None) -> bool:
    """Whether an excerpt of the block has the answer."""
    return any(helpful(prompt, fused))


def helpful(prompt: Prompt, fused: Fused | None) -> list[bool]:
    """Of each excerpt in the block, whether it has the answer: its words, or, without any, the right document."""
    if fused is None:
        return []
    return [_helps(prompt, excerpt.document, excerpt.members) for excerpt in fused.memories]


def _helps(prompt: Prompt, document: str | None, members: Sequence[Member]) -> bool:
    """Whether one of these memories of a document has the answer."""
    if not prompt.answer:
        return (document or "").endswith(prompt.file)
    return any(prompt.answer in member.text for member in members)


def show(found: Mapping[str, Any]) -> None:
    """Print the figures."""
    for home in HOMES:
        print(f"home {home}{' (fitted on)' if found[home]['fitted_on'] else ''}")
        for name, value in found[home].items():
            print(f"  {name:22} {value}")
