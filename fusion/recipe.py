"""A recipe: every number that changes a result, in one frozen value. Each receipt has its hash.

A recipe has one part per stage, and each stage gets its own part only.
`config/recipes/*.toml` list the numbers in which the shipped recipes differ from these defaults, and why.
"""

from __future__ import annotations

import json
from collections.abc import Mapping
from dataclasses import asdict, dataclass, field, replace
from functools import cached_property
from hashlib import blake2b
from typing import Annotated, Any, ClassVar, Literal, TypeVar

from pydantic import Field

from fusion.calibration import Calibration, weights_hash
from fusion.contract import BlockFormat
from fusion.lib.budget import MAX_BUDGET_CHARS, MAX_BUDGET_TOKENS, Budget
from fusion.lib.gbdt import Trees

EARLIER_SIGNALS = {"own": "similarity", "agreement": "fusion", "linked": "graph"}
"""signals by their names in earlier versions, which recipes, receipts, labels and models may still have"""
EARLIER_RERANK_KEYS = {"lift": "graph_boost", "parts": "sub_questions"}

ADDED: Mapping[str, Mapping[str, Any]] = {
    "gather": {"max_depth": 0},
    "pack": {
        "budget_tokens": 0,
        "max_items": 0,
        "snippet_chars": 0,
        "format": "fence",
        "repeat_after_turns": 0,
        "fill": True,
        "cut_probability": 0.06,
        "cut_share": 0.5,
        "cut_price": 0.0165,
    },
    "rerank": {
        "project_boost": 0.0,
        "episode_boost": 0.0,
        "named_boost": 0.0,
        "speaker_of_several": 0.0,
        "penalties": {},
        "factors": (),
        "judge_timeout_ms": 0,
        "passages": 0,
        "second_encoder": False,
        "floor_probability": 0.0,
        "abstain_probability": 0.0,
        "signals_without_model": {},
        "abstain_without_model": 0.0,
    },
    "gate": {"wants_memory": 0.0, "private": 0.0},
    "contradictions": {"outdated": "mark", "single_valued": ()},
}
"""numbers that the hash leaves out at these values, by part, so that recipes of before keep their hashes; a part that
has no others is left out with them"""

MANY = 4
"""backends that together find enough, each at a recipe's ``depth``"""

T = TypeVar("T")

# The greatest values of numbers; none is negative (`fusion.recipe_files`).
Share = Annotated[float, Field(le=1)]
Weight = Annotated[float, Field(le=1000)]
Milliseconds = Annotated[int, Field(le=60_000)]
Hundreds = Annotated[int, Field(le=1000)]
Thousands = Annotated[int, Field(le=10_000)]


def renamed(table: Mapping[str, T], names: Mapping[str, str]) -> dict[str, T]:
    """The table under current keys; ``names`` has the current one of each earlier key."""
    return {names.get(key, key): value for key, value in table.items()}


def with_current_names(table: Mapping[str, Any]) -> dict[str, Any]:
    """A recipe file's table under current keys and signal names. Raises ValueError for one that is given twice."""
    rerank = table.get("rerank")
    if not isinstance(rerank, dict):
        return dict(table)
    rerank = _renamed_once(rerank, EARLIER_RERANK_KEYS)
    if isinstance(rerank.get("signals"), dict):
        rerank["signals"] = _renamed_once(rerank["signals"], EARLIER_SIGNALS)
    return {**table, "rerank": rerank}


def _renamed_once(table: Mapping[str, T], names: Mapping[str, str]) -> dict[str, T]:
    for earlier, current in names.items():
        if earlier in table and current in table:
            raise ValueError(f"{earlier} is called {current} now, and both are given: remove {earlier}")
    return renamed(table, names)


class _Part:
    """How pydantic reads a part: an unknown key is an error, since a misspelt number would keep its default."""

    __pydantic_config__: ClassVar[dict[str, Any]] = {
        "extra": "forbid",
        "allow_inf_nan": False,
        "arbitrary_types_allowed": True,
    }


class Learned:
    """A trained model that scores instead of the weighted mean; ``file`` is in the recipe's folder.

    Where ``trees`` is None, ``fault`` is the reason and the weights score. ``hash`` is that of the file's text.
    """

    __slots__ = ("fault", "file", "hash", "trees")

    def __init__(self, file: str, hash: str, trees: Trees | None, fault: str = "") -> None:
        self.file, self.hash, self.trees, self.fault = file, hash, trees, fault

    def __deepcopy__(self, memo: dict[int, Any]) -> Learned:
        return self  # immutable


@dataclass(frozen=True)
class GatherSettings(_Part):
    """How the backends are searched."""

    timeout_ms: Milliseconds = 1500
    """from request to reply; the backends get four fifths of it"""
    depth: Thousands = 100
    """hits requested from each backend: recall cannot exceed this pool's, and later stages cut it cheaply"""
    max_depth: Thousands = 0
    """the same of a backend that is asked with fewer than three others, at most: see `depth_for`; 0 is never more than
    ``depth``"""

    def depth_for(self, backends: int) -> int:
        """Hits requested from each of so many backends.

        Fewer than ``MANY`` are each asked for more, so that as many memories are ranked as where there are ``MANY``.
        """
        return max(self.depth, min(self.max_depth, MANY * self.depth // max(1, backends)))


@dataclass(frozen=True)
class DedupSettings(_Part):
    """Which hits count as the same memory."""

    jaccard: Share = 0.6
    """word-set similarity from which two texts are one memory (seed 003)"""
    guarded: bool = True
    """keep two texts apart when a content word, name, number, date, negation or the word order differs"""
    max_candidates: Thousands = 200
    """distinct memories kept for ranking; bounds the cost of a flood"""


@dataclass(frozen=True)
class FuseSettings(_Part):
    """Reciprocal rank fusion: Cormack, Clarke and Büttcher, SIGIR 2009."""

    k: Thousands = 60
    weights: Mapping[str, Weight] = field(default_factory=dict)
    """weight of a backend's votes, by its name; 1 by default"""


@dataclass(frozen=True)
class ExpandSettings(_Part):
    """Which neighbours of the candidates join the pool."""

    span: Annotated[int, Field(le=100)] = 2
    """turns or chunks before and after each candidate"""
    max_pool: Thousands = 600
    """most memories in the pool; candidates come first"""


@dataclass(frozen=True)
class RerankSettings(_Part):
    """How the pool is scored. The local score is the weighted mean of the signals, all from 0 to 1."""

    signals: Mapping[str, Weight] = field(default_factory=dict)
    """weight by signal name (`fusion/recall/signals.py` lists them); 0 by default"""
    signals_without_model: Mapping[str, Weight] = field(default_factory=dict)
    """weights that replace those of ``signals`` where no model compared the question with the memories"""
    sub_questions: Annotated[int, Field(le=100)] = 1
    """most sub-questions of a query that are ranked separately; 1 ranks the query as a whole"""
    graph_boost: Share = 0.0
    """share of its distance to 1 that a score gains when a graph leads to the memory with full strength"""
    project_boost: Share = 0.0
    """the same for a memory of the project that the question names"""
    episode_boost: Share = 0.0
    """the same for an episode in a time that the question names; with 0 the journal is not asked for such episodes"""
    named_boost: Share = 0.0
    """the same for a memory whose title one of the best memories names (`fusion.recall.second_hop`)"""
    speaker_of_several: Weight = 0.0
    """added to the weight of ``speaker`` if a question that names a speaker asks for several things"""
    passages: Thousands = 0
    """passages of long memories that are compared token by token; 0 ranks and shows long memories as a whole"""
    second_encoder: bool = False
    """compare the question with the pool by the second encoder of the settings, which reads turns in their context"""
    penalties: Mapping[str, Weight] = field(default_factory=dict)
    """by signal name, the factor on the score of a memory that has it in full"""
    factors: tuple[str, ...] = ()
    """signals that the score is multiplied by (seed 004)"""
    judge: Literal["never", "gate", "always"] = "gate"
    """gate: only when the best local scores are close together"""
    gate_top: Hundreds = 4
    gate_spread: Share = 0.15
    """the judge is asked when max - min of the best `gate_top` local scores is at most this (seed 000)"""
    judge_timeout_ms: Milliseconds = 0
    """most time of the judge; 0 leaves what is left of the request, up to the judge's own limit"""
    head: Hundreds = 16
    """memories that the judge sees; it can reorder only these"""
    judge_weight: Share = 0.5
    """the judge's share in the score of the head; the local score has the rest, which limits a fooled judge"""
    floor: Share = 0.0
    """lowest local score of a memory in the block that has no probability, or if there is no ``floor_probability``"""
    abstain: Share = 0.0
    """lowest local score of the best memory, likewise; below it the block stays empty"""
    floor_probability: Share = 0.0
    """lowest probability that a memory in the block helps, for scores that are calibrated; 0 leaves it to ``floor``"""
    abstain_probability: Share = 0.0
    """lowest probability that one of the best two memories helps, likewise; 0 leaves it to ``abstain``"""
    abstain_without_model: Share = 0.0
    """``abstain_probability`` where no model compared the question with the memories"""
    judge_floor: Annotated[float, Field(le=10)] = 2.0
    """lowest judge score (0 to 10) of a memory that the judge scored"""
    model: Learned | None = None
    """made by `fusion tune --learner`; a recipe file has `model = "name.txt"` and `model_hash`"""
    calibrations: tuple[Calibration, ...] = field(default=(), repr=False)
    """what is known of probabilities, from files of their own (`fusion.recipe_files`); of two for one model the last"""

    @cached_property
    def weights_hash(self) -> str:
        """The hash of the weights of the signals, for which a calibration holds."""
        return weights_hash(self.signals)

    @cached_property
    def by_words(self) -> RerankSettings:
        """The numbers for an answer whose memories no model compared with the question."""
        signals = {**self.signals, **self.signals_without_model}
        return replace(self, signals=signals, abstain_probability=self.abstain_without_model)

    @cached_property
    def weighed(self) -> frozenset[str]:
        """The signals that have a weight or a penalty or are factors, with a model or without."""
        weights = (*self.signals.items(), *self.signals_without_model.items())
        return frozenset(name for name, weight in weights if weight) | self.penalties.keys() | {*self.factors}


@dataclass(frozen=True)
class ContradictionSettings(_Part):
    """What becomes of a memory of which another store has a newer version or value (`fusion.recall.contradictions`)."""

    outdated: Literal["mark", "leave_out"] = "mark"
    """show it after the newer one, marked as superseded; or leave it out of the block"""
    single_valued: tuple[str, ...] = ()
    """more predicates that have one object at a time for a subject, such as "main sponsor" """


@dataclass(frozen=True)
class GateSettings(_Part):
    """Which prompts get a block at all: `fusion.recall.wants_memory`. For recipes that recall without being asked."""

    wants_memory: Share = 0.0
    """lowest probability that a prompt wants memory; below it the block stays empty; 0 searches for every prompt"""
    private: Share = 0.0
    """the same for each memory of a diary, and for each one that is marked as private"""


@dataclass(frozen=True)
class PackSettings(_Part):
    """How the block is filled, and its format. A number that is 0 is no limit, but for ``max_results``."""

    budget_chars: Annotated[int, Field(le=MAX_BUDGET_CHARS)] = 6000
    """characters of the block, with its frame; 0 for the largest block, of 200,000"""
    budget_tokens: Annotated[int, Field(le=MAX_BUDGET_TOKENS)] = 0
    """estimated tokens of the block (`fusion.lib.budget`); with ``budget_chars``, both hold"""
    max_results: Hundreds = 8
    """excerpts"""
    max_items: Thousands = 0
    """single memories, of which an excerpt may have several"""
    snippet_chars: Annotated[int, Field(le=MAX_BUDGET_CHARS)] = 0
    """characters of one memory; with 0, a memory is shown whole, up to 4,000"""
    excerpts: bool = True
    """merge memories of one document into an excerpt; otherwise each memory is an excerpt"""
    source_share: Share = 1.0
    """share of the block that one document may fill while others have memories to show; 1 is no cap"""
    repeat_after_turns: Thousands = 0
    """turns of the asking session in which a memory is not shown again; 0 shows it each time"""
    format: BlockFormat = "fence"
    """what the block looks like: `fusion.recall.block_format`"""
    fill: bool = True
    """fill the block up to its limits; otherwise leave out what adds too little to the best (`fusion.recall.cut`)"""
    cut_probability: Share = 0.06
    """without ``fill``, the lowest probability of a note that is shown"""
    cut_share: Share = 0.5
    """without ``fill``, the lowest share of the best score of what is shown, where the scores are not calibrated"""
    cut_price: Share = 0.0165
    """without ``fill``, the probability that a thousand characters of turns must bring"""

    @property
    def budget(self) -> Budget:
        return Budget(self.budget_chars or MAX_BUDGET_CHARS, self.budget_tokens or None)


@dataclass(frozen=True)
class Recipe(_Part):
    """A profile: `hook`, `default`, `deep`, `local-plus`, one of the seeds', or a user's own."""

    name: str = "default"
    gather: GatherSettings = field(default_factory=GatherSettings)
    dedup: DedupSettings = field(default_factory=DedupSettings)
    fuse: FuseSettings = field(default_factory=FuseSettings)
    expand: ExpandSettings = field(default_factory=ExpandSettings)
    rerank: RerankSettings = field(default_factory=RerankSettings)
    contradictions: ContradictionSettings = field(default_factory=ContradictionSettings)
    gate: GateSettings = field(default_factory=GateSettings)
    pack: PackSettings = field(default_factory=PackSettings)
    tuned_on: tuple[str, ...] = ()
    """the `mark` of each question it was tuned on: results for these overstate the recipe"""

    @cached_property
    def hash(self) -> str:
        """Twelve hex digits over every number: recipes with the same hash give the same result."""
        numbers = {key: value for key, value in asdict(self).items() if key not in ("name", "tuned_on")}
        model: Learned | None = numbers["rerank"].pop("model")
        del numbers["rerank"]["calibrations"]
        weights = {self.rerank.weights_hash, self.rerank.by_words.weights_hash}
        own = [one.digest for one in self.rerank.calibrations if one.of_home and one.weights in weights]
        if own:
            numbers["rerank"]["calibrations"] = own
        if model is not None and model.trees is not None:
            numbers["rerank"]["model"] = model.hash
        for part, added in ADDED.items():
            for name, value in added.items():
                if numbers[part][name] == value:
                    del numbers[part][name]
            if not numbers[part]:
                del numbers[part]
        return blake2b(json.dumps(numbers, sort_keys=True).encode(), digest_size=6).hexdigest()


def mark(question: str) -> str:
    """A question's fingerprint in a recipe that was tuned on it: eight hex digits, ignoring case and blanks."""
    return blake2b(" ".join(question.casefold().split()).encode(), digest_size=4).hexdigest()
