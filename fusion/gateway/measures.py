"""What an open home counts for operators: stages and answers of questions, and the use of models.

Labels are few and known: stages, names of backends and models from the settings, statuses. Nothing of a question, a
memory or a user is here.
"""

from __future__ import annotations

from collections import Counter, defaultdict
from collections.abc import Iterable, Mapping
from dataclasses import dataclass, field
from typing import Any

from fusion.lib.histogram import Histogram
from fusion.recall.engine import Outcome

TOKENS_A_PRICE = 1_000_000


@dataclass(slots=True)
class ModelUse:
    """Calls of one model by what became of them, and tokens that it read and wrote."""

    calls: Counter[str] = field(default_factory=Counter)
    read: int = 0
    written: int = 0

    def note(self, status: str, read: int = 0, written: int = 0) -> None:
        self.calls[status] += 1
        self.read += read
        self.written += written

    @classmethod
    def sum(cls, uses: Iterable[ModelUse]) -> ModelUse:
        """All these uses together."""
        whole = cls()
        for one in uses:
            whole.calls.update(one.calls)
            whole.read += one.read
            whole.written += one.written
        return whole

    def cost(self, price: tuple[float, float]) -> float:
        """What the tokens cost, by the price of a million that are read and of a million that are written."""
        read, written = price
        return (self.read * read + self.written * written) / TOKENS_A_PRICE


@dataclass(slots=True)
class Measures:
    """Counts since the start, of all tenants of a home. There are as many tenants as the settings have keys for."""

    stages: defaultdict[str, Histogram] = field(default_factory=lambda: defaultdict(Histogram))
    questions: Counter[str] = field(default_factory=Counter)
    """by what became of them: answered, empty, failed"""
    answers: Counter[tuple[str, str]] = field(default_factory=Counter)
    """answers of backends, by backend and status"""
    backends: defaultdict[str, Histogram] = field(default_factory=lambda: defaultdict(Histogram))
    """how long they took, by backend; of those that were asked"""
    judge: defaultdict[str, ModelUse] = field(default_factory=lambda: defaultdict(ModelUse))
    """the use of the judge, by tenant"""
    model: defaultdict[str, ModelUse] = field(default_factory=lambda: defaultdict(ModelUse))
    """the use of ``[model]`` by everything but the judge, by tenant"""

    def answered(self, outcome: Outcome, tenant: str) -> None:
        """Count an answer that was made now for a tenant."""
        fused = outcome.fused
        self.questions["answered" if outcome.included else "empty"] += 1
        for stage in outcome.stages:
            self.stages[stage.name].observe(stage.ended_s - stage.began_s)
        self._answers_of(fused.backends)
        if "shown" in fused.rerank:  # the judge was asked
            rerank = fused.rerank
            self.judge[tenant].note(rerank["status"], rerank.get("input_tokens") or 0, rerank.get("output_tokens") or 0)

    def failed(self, backends: Iterable[Mapping[str, Any]]) -> None:
        """Count a question that no backend answered."""
        self.questions["failed"] += 1
        self._answers_of(backends)

    def _answers_of(self, rows: Iterable[Mapping[str, Any]]) -> None:
        for row in rows:
            self.answers[row["name"], row["status"]] += 1
            if row["took_ms"]:
                self.backends[row["name"]].observe(row["took_ms"] / 1000)
