"""Every number that changes a result, in one frozen value; its hash stands in each receipt.

A recipe has one part a stage, and a stage is given its own part only, so that each number has one room.
The defaults are the `default` recipe's; `config/recipes/*.toml` say where another recipe departs, and why.
"""

from __future__ import annotations

import json
from collections.abc import Mapping
from dataclasses import asdict, dataclass, field
from functools import cached_property
from hashlib import blake2b
from typing import Any, ClassVar, Literal

from fusion.lib.gbdt import Trees


class _Part:
    """How a part is read from a file: a misspelt number is an error, for it would silently keep its default."""

    __pydantic_config__: ClassVar[dict[str, Any]] = {
        "extra": "forbid",
        "allow_inf_nan": False,
        "arbitrary_types_allowed": True,
    }


class Learned:
    """A model that scores in place of the weighted mean: the user's own, in ``file`` beside the recipe's.

    Where ``trees`` is None ``fault`` says why, and the weights do it. ``hash`` is that of the file's text.
    """

    __slots__ = ("fault", "file", "hash", "trees")

    def __init__(self, file: str, hash: str, trees: Trees | None, fault: str = "") -> None:
        self.file, self.hash, self.trees, self.fault = file, hash, trees, fault

    def __deepcopy__(self, memo: dict[int, Any]) -> Learned:
        return self  # it never changes


@dataclass(frozen=True)
class GatherSettings(_Part):
    """How the backends are asked."""

    timeout_ms: int = 1500
    """end to end, from request to reply; the backends get four fifths of it"""
    depth: int = 100
    """hits asked of each backend: a deep pool, because it decides the ceiling and cheap scoring can cut"""


@dataclass(frozen=True)
class DedupSettings(_Part):
    """What counts as the same memory."""

    jaccard: float = 0.6
    """word-set similarity from which two texts are one memory (seed 003)"""
    guarded: bool = True
    """a content word, name, number, date or negation that differs, and another order, keep two texts apart"""
    max_candidates: int = 200
    """distinct memories kept for ranking: bounds what a flood can cost"""


@dataclass(frozen=True)
class FuseSettings(_Part):
    """Reciprocal rank fusion: Cormack, Clarke and Büttcher, SIGIR 2009."""

    k: int = 60
    weights: Mapping[str, float] = field(default_factory=dict)
    """votes by backend name; 1 where none is given"""


@dataclass(frozen=True)
class ExpandSettings(_Part):
    """Which neighbours join the pool."""

    span: int = 2
    """turns or chunks before and after each candidate"""
    max_pool: int = 600
    """memories in the pool at most, candidates first"""


@dataclass(frozen=True)
class RerankSettings(_Part):
    """How the pool is scored. The local score is the weighted mean of the signals, each 0 to 1."""

    signals: Mapping[str, float] = field(default_factory=dict)
    """weight by signal name (`fusion/recall/signals.py` lists them); absent is 0"""
    parts: int = 1
    """questions in a query that are ranked for by themselves, at most; 1 asks it as one"""
    lift: float = 0.0
    """of what a local score lacks to 1, the share that a memory gains to which a graph leads with certainty"""
    judge: Literal["never", "gate", "always"] = "gate"
    """gate: only when the best local scores lie close together"""
    gate_top: int = 4
    gate_spread: float = 0.15
    """asked when max - min over the top `gate_top` local scores is within this (seed 000)"""
    head: int = 16
    """excerpts that the judge sees; it can only reorder these"""
    judge_weight: float = 0.5
    """the judge's share in the head's order; the rest is the local one: it bounds what a fooled judge can do"""
    floor: float = 0.0
    """local score under which a memory is not worth its place"""
    abstain: float = 0.0
    """local score that the best memory must reach; otherwise the block is empty, for all of it would be noise"""
    judge_floor: float = 2.0
    """judge's score (0 to 10) under which a memory that it scored is left out"""
    model: Learned | None = None
    """what `fusion tune --learner` made; in a file, `model = "name.txt"` and `model_hash`"""


@dataclass(frozen=True)
class PackSettings(_Part):
    """What fits the prompt."""

    budget_chars: int = 6000
    max_results: int = 8
    excerpts: bool = True
    """grow results into excerpts of their documents; without it each memory stands alone"""
    source_share: float = 1.0
    """share of the block that one document may fill while another has something to say; 1 is no cap"""


@dataclass(frozen=True)
class Recipe(_Part):
    """A profile: `hook`, `default`, `deep`, `seed003`, or a user's own."""

    name: str = "default"
    gather: GatherSettings = field(default_factory=GatherSettings)
    dedup: DedupSettings = field(default_factory=DedupSettings)
    fuse: FuseSettings = field(default_factory=FuseSettings)
    expand: ExpandSettings = field(default_factory=ExpandSettings)
    rerank: RerankSettings = field(default_factory=RerankSettings)
    pack: PackSettings = field(default_factory=PackSettings)
    tuned_on: tuple[str, ...] = ()
    """the `mark` of each question that chose its numbers: what it finds for these would flatter it"""

    @cached_property
    def hash(self) -> str:
        """Twelve hex digits over every number; two recipes with one hash give one result."""
        numbers = {key: value for key, value in asdict(self).items() if key not in ("name", "tuned_on")}
        model: Learned | None = numbers["rerank"].pop("model")
        if model is not None and model.trees is not None:
            numbers["rerank"]["model"] = model.hash
        return blake2b(json.dumps(numbers, sort_keys=True).encode(), digest_size=6).hexdigest()


def mark(question: str) -> str:
    """What a recipe remembers of a question that it was tuned on: eight hex digits, whatever its case and blanks."""
    return blake2b(" ".join(question.casefold().split()).encode(), digest_size=4).hexdigest()
