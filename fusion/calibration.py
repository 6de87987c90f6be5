"""The values of a calibration: the weights by which a score becomes the probability that a memory helps.

`fusion.recall.calibration` applies them, and `fusion.compare.calibrate` fits them.
"""

from __future__ import annotations

import json
from collections.abc import Mapping
from dataclasses import asdict, dataclass, fields
from hashlib import blake2b
from typing import Any, ClassVar, Literal

Sort = Literal["turn", "long_turn", "note"]
"""the sorts of memories: turns of a conversation, long ones and their passages, and all else"""
SORTS: tuple[Sort, ...] = ("turn", "long_turn", "note")
UNABLE = "unable"
"""in the place of an embedder's identity, if there is one and it compared nothing: the words alone did"""


class _Table:
    """How pydantic reads a table: an unknown key is an error."""

    __pydantic_config__: ClassVar[dict[str, Any]] = {"extra": "forbid", "allow_inf_nan": False}


@dataclass(frozen=True, slots=True)
class SortWeights(_Table):
    """The weights of the probability for one sort of memory.

    ``share`` is the score's share of the best one, ``lead`` its difference to the second best.
    """

    bias: float
    score: float = 0.0
    share: float = 0.0
    log_rank: float = 0.0
    length: float = 0.0
    speaker: float = 0.0
    fusion: float = 0.0
    bm25: float = 0.0
    lead: float = 0.0


FEATURES: tuple[str, ...] = tuple(field.name for field in fields(SortWeights) if field.name != "bias")
"""what the probability is made of, in the order of `SortWeights`"""


@dataclass(frozen=True, slots=True)
class Calibration(_Table):
    """The probabilities for scores of one model and one set of a recipe's weights.

    ``model`` is the identity of the embedder, empty for what no model compared; ``second`` that of the second encoder,
    if the recipe compares by it; ``weights`` is the hash of the weights (`weights_hash`). A sort of memory without
    weights has no probability.
    """

    model: str
    weights: str
    second: str = ""
    fitted_on: str = ""
    """the labels that it was fitted on, in words"""
    of_home: bool = False
    """whether it is the user's own, which changes the hash of the recipes that it holds for"""
    turn: SortWeights | None = None
    long_turn: SortWeights | None = None
    note: SortWeights | None = None

    @property
    def sorts(self) -> dict[Sort, SortWeights]:
        """The weights of each sort that has some."""
        found = ((sort, getattr(self, sort)) for sort in SORTS)
        return {sort: weights for sort, weights in found if weights is not None}

    @property
    def of_scores_by(self) -> str:
        """What made the scores that it is for: the models' identities, or `words`."""
        return " with ".join(name for name in (self.model or "words", self.second) if name)

    @property
    def digest(self) -> str:
        """A hash over all that changes a probability."""
        return _digest({key: value for key, value in asdict(self).items() if key not in ("fitted_on", "of_home")})


def weights_hash(signals: Mapping[str, float]) -> str:
    """Twelve hex digits over a recipe's weights that are not 0."""
    return _digest({name: float(weight) for name, weight in signals.items() if weight})


def _digest(value: object) -> str:
    return blake2b(json.dumps(value, sort_keys=True).encode(), digest_size=6).hexdigest()


def scored_as(receipt: Mapping[str, Any], row: Mapping[str, Any]) -> dict[str, Any]:
    """What scored a memory of an answer, and what it was compared with: what a label needs to be fitted on.

    ``row`` is the memory's in the receipt. In receipts of earlier versions, ``sort`` is None.
    """
    best = sorted((float(one["local"]) for one in receipt["candidates"]), reverse=True)[:2]
    return {
        "sort": row.get("sort"),
        "best": [*best, *[0.0] * (2 - len(best))],
        "encoders": receipt.get("encoders", ["", ""]),
        "weights_hash": weights_hash(receipt.get("weights", {})),
    }
