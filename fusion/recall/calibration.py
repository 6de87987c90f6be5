"""Turns the score of a memory into the probability that it helps to answer the question.

A score compares the memories of one question and has no scale of its own: .5 is much for a turn of a conversation and
little for a note, and another model's scores all lie elsewhere. A calibration is a logistic regression for each sort of
memory (J. Platt, "Probabilistic outputs for support vector machines", 1999), for one model and one set of weights,
fitted on recorded answers of which it is known what helps (`fusion.compare.calibrate`). Its file comes with the project
or is in the home. What no model compared has a calibration of its own, of scores by words alone. Without a calibration
there are no probabilities, and the raw scores decide.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import TYPE_CHECKING

from fusion.calibration import FEATURES, Calibration, Sort, SortWeights
from fusion.lib.passages import SAID_CHARS
from fusion.recall.rerank import Scored, signals_of
from fusion.recall.signals import SignalTable
from fusion.recipe import RerankSettings

if TYPE_CHECKING:
    import numpy as np
    from numpy.typing import NDArray

UNKNOWN = 0.5
"""the value of a signal that is absent"""
SIGNALS = ("length", "speaker", "fusion", "bm25")
"""the signals that the probability is made of, besides the score"""


def calibration_of(numbers: RerankSettings, model: str, second: str = "") -> Calibration | None:
    """The calibration for scores of a recipe that these models made; None if there is none. The home's own is first."""
    if numbers.model is not None:
        return None
    key = (model, second, numbers.weights_hash)
    return next((one for one in reversed(numbers.calibrations) if (one.model, one.second, one.weights) == key), None)


def missing(numbers: RerankSettings, model: str, second: str = "") -> str:
    """Why there are no probabilities, in words."""
    if not model:
        return "no model compared the question with the memories, so the raw scores decide"
    known = any((one.model, one.second) == (model, second) for one in numbers.calibrations)
    what = "these weights" if known or numbers.model is not None else f"{model} with {second}" if second else model
    return f"there is no calibration for {what}, so the raw scores decide"


def with_probabilities(order: Sequence[Scored], calibration: Calibration) -> tuple[Scored, ...]:
    """The memories, best first, with their probabilities.

    A memory has none if a signal of the recipe is missing, but where no model compared anything: there those of the
    model are missing for all.
    """
    if not order:
        return ()
    columns = features(signals_of(order, SIGNALS), [scored.local for scored in order])
    sorts = [sort_of(scored) for scored in order]
    weights = calibration.sorts
    found = {sort: probabilities(weights[sort], columns).tolist() for sort in set(sorts) & weights.keys()}
    return tuple(
        scored.with_probability(found[sort][i])
        if sort in found and (scored.complete or not calibration.model)
        else scored
        for i, (scored, sort) in enumerate(zip(order, sorts, strict=True))
    )


def features(table: SignalTable, local: Sequence[float]) -> tuple[NDArray[np.float64], ...]:
    """What the probability of each memory is made of, in the order of `fusion.calibration.FEATURES`.

    ``local`` are the scores of the memories of one answer, best first, and ``table`` has their signals.
    """
    import numpy as np

    scores = np.asarray(local, dtype=np.float64)
    return (
        scores,
        scores / (scores.max() or 1.0),
        np.log1p(np.arange(len(scores))),
        *(np.nan_to_num(table.column(name), nan=UNKNOWN) for name in SIGNALS),
        scores - (scores[1] if len(scores) > 1 else 0.0),
    )


def probabilities(
    weights: SortWeights, columns: Sequence[NDArray[np.float64]] | NDArray[np.float64]
) -> NDArray[np.float64]:
    """The probabilities of memories of one sort; ``columns`` are as of `features`."""
    import numpy as np

    total = weights.bias + sum(getattr(weights, name) * column for name, column in zip(FEATURES, columns, strict=True))
    return np.asarray(1 / (1 + np.exp(-total)))


def sort_of(scored: Scored) -> Sort:
    """The sort of memory that it is."""
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
