"""Turns the score of a memory into the probability that it helps to answer the question.

A score compares the memories of one question and has no scale of its own: .5 is much for a turn of a conversation and
little for a note, and another model's scores all lie elsewhere. A calibration is a logistic regression for each sort of
memory (J. Platt, "Probabilistic outputs for support vector machines", 1999), for one model and one set of weights,
fitted on recorded answers of which it is known what helps. Without a calibration there are no probabilities, and the
raw scores decide.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import TYPE_CHECKING, NamedTuple

from fusion.lib.passages import SAID_CHARS
from fusion.recall.rerank import Scored, signals_of
from fusion.recipe import RerankSettings

if TYPE_CHECKING:
    import numpy as np
    from numpy.typing import NDArray

UNKNOWN = 0.5
"""the value of a signal that is absent"""


class Weights(NamedTuple):
    """The weights of the probability for one sort of memory.

    ``share`` is the score's share of the best one, ``lead`` its difference to the second best.
    """

    bias: float
    score: float
    share: float
    log_rank: float = 0.0
    length: float = 0.0
    speaker: float = 0.0
    fusion: float = 0.0
    bm25: float = 0.0
    lead: float = 0.0


class Calibration(NamedTuple):
    """The probabilities for scores made with ``model`` and the weights ``signals`` of a recipe."""

    model: str
    signals: Mapping[str, float]
    turn: Weights
    long_turn: Weights
    note: Weights


CALIBRATIONS = (
    Calibration(
        model="all-MiniLM-L6-v2-int8@8199be6f",
        signals={
            "window3": 3,
            "window5": 3,
            "similarity": 6,
            "bm25": 2,
            "fusion": 1,
            "speaker": 1,
            "date": 1,
            "length": 1,
            "role": 1,
        },
        # Two development conversations of LoCoMo; three others were held back.
        turn=Weights(-11.13, 10.17, 6.68, -0.59, -1.05, 0.61, -0.98, -4.06),
        # Passages of assistants' answers: three conversations of BEAM; three others were held back.
        long_turn=Weights(-7.30, -0.87, 6.67, -0.39),
        # Notes, facts and all else: home ``a`` of `benchmarks quiet`; home ``b`` and MuSiQue were held back.
        note=Weights(-9.34, 8.52, 3.90, lead=13.52),
    ),
)
"""all that were fitted, each for one model and one set of weights"""


def calibration_of(model: str, numbers: RerankSettings) -> Calibration | None:
    """The calibration for scores of this model and recipe; None if there is none."""
    if numbers.model is not None:
        return None
    weights = {name: weight for name, weight in numbers.signals.items() if weight}
    return next((one for one in CALIBRATIONS if one.model == model and one.signals == weights), None)


def missing(model: str, numbers: RerankSettings) -> str:
    """Why there are no probabilities, in words."""
    if not model:
        return "no model compared the question with the memories, so the raw scores decide"
    known = any(one.model == model for one in CALIBRATIONS)
    what = "these weights" if known or numbers.model is not None else model
    return f"there is no calibration for {what}, so the raw scores decide"


def with_probabilities(order: Sequence[Scored], calibration: Calibration) -> tuple[Scored, ...]:
    """The memories, best first, with their probabilities; without one where a signal of the recipe is missing."""
    if not order:
        return ()
    import numpy as np

    table = signals_of(order)
    scores = np.array([scored.local for scored in order])
    columns = (
        scores,
        scores / (scores.max() or 1.0),
        np.log1p(np.arange(len(order))),
        *(np.nan_to_num(table.column(name), nan=UNKNOWN) for name in ("length", "speaker", "fusion", "bm25")),
        scores - (scores[1] if len(order) > 1 else 0.0),
    )
    sorts = [_sort(scored) for scored in order]
    found = {sort: _probabilities(getattr(calibration, sort), columns).tolist() for sort in set(sorts)}
    return tuple(
        scored._replace(probability=found[sort][i]) if scored.complete else scored
        for i, (scored, sort) in enumerate(zip(order, sorts, strict=True))
    )


def _probabilities(weights: Weights, columns: Sequence[NDArray[np.float64]]) -> NDArray[np.float64]:
    import numpy as np

    total = weights.bias + sum(weight * column for weight, column in zip(weights[1:], columns, strict=True))
    return np.asarray(1 / (1 + np.exp(-total)))


def _sort(scored: Scored) -> str:
    if not is_turn(scored):
        return "note"
    return "long_turn" if is_long(scored) else "turn"


def is_turn(scored: Scored) -> bool:
    """Whether it is a turn of a conversation, or a passage of one."""
    place = scored.pooled.candidate.hit.place
    return place is not None and place.unit == "turn"


def is_long(scored: Scored) -> bool:
    """Whether it is as long as an assistant's answer, or a passage of such a memory."""
    return scored.pooled.passage is not None or len(scored.pooled.candidate.hit.text) > SAID_CHARS
