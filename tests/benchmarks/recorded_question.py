"""Recorded questions with two memories each, one of which is the evidence."""

from __future__ import annotations

from collections import defaultdict
from dataclasses import replace
from datetime import UTC, datetime

from benchmarks.tuning import Case
from fusion.contract import Hit, Scope
from fusion.lib.ids import external_ref
from fusion.recall.engine import FuseRequest, Outcome
from fusion.recall.gather import Answer
from fusion.recall.recording import Recording, Replay
from fusion.recipe import ExpandSettings, FuseSettings, PackSettings, Recipe, RerankSettings

SCOPE = Scope(user_id="per", audience="private")
FIRST_COME = Recipe(
    name="first come",
    fuse=FuseSettings(k=60),
    expand=ExpandSettings(span=0),
    rerank=RerankSettings(signals={"fusion": 1}, judge="never"),
    pack=PackSettings(max_results=1),
)
"""shows one memory: the first of the backend"""


def question(fold: str, n: int, *, evidence_has_the_words: bool = True, answerable: bool = True) -> Case:
    """A question whose words are in the backend's second memory, which is the evidence or the other one."""
    words, others = f"The oven number {n} broke on Sunday.", f"Nobody watered tomato {n} in May."
    evidence = words if evidence_has_the_words else others
    hits = tuple(Hit(f"{fold}-{n}-{i}", text, SCOPE) for i, text in enumerate((others, words)))
    recording = Recording(now=datetime(2026, 1, 1, tzinfo=UTC), nonce="n", receipt_id=f"r{n}", lexical=True)
    recording.answers["notes"] = Answer("notes", "ok", hits, 1.0)
    recording.neighbours.update({("notes", hit.native_id): () for hit in hits})
    recording.counts = defaultdict(int)

    def found(outcome: Outcome) -> float:
        return float(evidence in outcome.fused.block)

    request = FuseRequest(f"when did oven {n} break?", SCOPE, backends=("notes",))
    evidence_ref = external_ref("notes", next(hit.native_id for hit in hits if hit.text == evidence))
    case = Case(fold, request, Replay(recording), answerable, found, lambda ref: answerable and ref == evidence_ref)
    return case if answerable else replace(case, found=lambda outcome: 0.0)
