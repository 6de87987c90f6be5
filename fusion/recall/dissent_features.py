"""What two memories have to do with a question and with each other: the features by which dissent is recognised.

The vectors are those of the local model that ranking uses. They say how far both memories answer the question. What
they cannot say, that two values exclude each other, is compared by values and polarity.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from datetime import datetime
from functools import cached_property
from typing import TYPE_CHECKING, NamedTuple

from fusion.contract import NO_SCALE, CosineScale, TokenVectors
from fusion.lib.answer_type import AnswerType, answer_type
from fusion.lib.polarity import polarity
from fusion.lib.same_subject import kept_apart_by
from fusion.lib.stated_values import Relation, relation
from fusion.lib.words import STOP_WORDS, normalise, stems

if TYPE_CHECKING:
    import numpy as np
    from numpy.typing import NDArray

    Floats = NDArray[np.float32]

NOT_ASKED = 0.62
"""cosine with the question's words below which a token of a memory says something that the question does not"""
MAX_LEAD = 0.4
"""by how much more than a third memory two can answer the question, and the same for less"""
MAX_CHARS = 2_000
"""characters of a memory whose words are compared"""
MAX_TOKENS = 96
"""tokens of a memory that are compared"""


class Scales(NamedTuple):
    """What maps the cosines of a model's texts, and of its tokens, to those of the default model."""

    texts: CosineScale = NO_SCALE
    tokens: CosineScale = NO_SCALE


UNSCALED = Scales()


class Asked:
    """A question with its vectors: those of the words that say what it is about, and that of the whole."""

    def __init__(self, text: str, tokens: TokenVectors, dense: Floats, scales: Scales = UNSCALED) -> None:
        self.text, self.dense, self.scales = text, dense, scales
        self.kind = answer_type(text)
        content = [i for i, (t, w) in enumerate(zip(tokens.tokens, tokens.words, strict=True)) if _says(t, w)]
        rows = _unit(tokens)
        self.vectors = rows[content] if content else rows


@dataclass(frozen=True, eq=False)
class Stated:
    """A memory that may answer the question. ``dense`` and ``tokens`` are of the text with its speaker."""

    ref: str
    text: str
    speaker: str | None
    at: datetime | None
    tokens: TokenVectors
    dense: Floats
    asked: Asked

    @cached_property
    def said(self) -> str:
        """The text as far as it is compared."""
        return self.text[:MAX_CHARS]

    @cached_property
    def vectors(self) -> Floats:
        return _unit(self.tokens)[:MAX_TOKENS]

    @cached_property
    def _with_question(self) -> Floats:
        """The cosines of its tokens (rows) with the question's words."""
        return self.asked.scales.tokens.of_all(self.vectors @ self.asked.vectors.T)

    @cached_property
    def coverage(self) -> Floats:
        """For each of the question's words, its best match in the memory."""
        found: Floats = self._with_question.max(axis=0)
        return found

    @cached_property
    def more(self) -> Floats:
        """Which of its tokens say something that the question does not."""
        found: Floats = self._with_question.max(axis=1) < NOT_ASKED
        return found

    @cached_property
    def similarity(self) -> float:
        """The cosine with the question."""
        return self.asked.scales.texts.of(float(self.dense @ self.asked.dense))

    @cached_property
    def answers(self) -> float:
        """How far it answers the question, at most 2."""
        return self.similarity + float(self.coverage.mean())


@dataclass(frozen=True, slots=True)
class Features:
    """The features of two memories."""

    likeness: float
    """the cosine of the two"""
    similarity: float
    """of the one that resembles the question less"""
    coverage: float
    """of the question's word that is found least in them"""
    lead: float
    """by how much they answer the question more than the best of the others"""
    best_two: float
    """1 if no other memory answers the question more, else 0"""
    added: float
    """how far what each adds to the question is about the same"""


def features(one: Stated, other: Stated, third: float | None, best_two: bool) -> Features | None:
    """The features of two memories; None where a rule says that they do not contradict each other.

    ``third`` is how far the best of the others answers the question, None if there are no others.
    """
    asked = one.asked
    early, late = in_order(one, other)
    if early.speaker and late.speaker and normalise(early.speaker) != normalise(late.speaker):
        return None
    if not _exclude(asked, early.said, late.said) or kept_apart_by(asked.text, early.said, late.said) is not None:
        return None
    return Features(
        likeness=asked.scales.texts.of(float(one.dense @ other.dense)),
        similarity=min(one.similarity, other.similarity),
        coverage=float(min(one.coverage.min(), other.coverage.min())),
        lead=0.0 if third is None else max(-MAX_LEAD, min(MAX_LEAD, min(one.answers, other.answers) - third)),
        best_two=float(best_two),
        added=_added(one, other),
    )


def _exclude(asked: Asked, early: str, late: str) -> bool:
    """Whether two statements give other values, or one affirms what the other denies, if the question asks for that."""
    if asked.kind is AnswerType.TRUTH:
        poles = polarity(early), polarity(late)
        return poles[0] != poles[1] and min(poles) < 0
    times = asked.kind is AnswerType.TIME
    return not _repeats(early, late) and relation(early, late, asked.text, times=times) is Relation.DIFFERENT


def in_order(one: Stated, other: Stated) -> tuple[Stated, Stated]:
    """The earlier and the later of two memories, in the given order if that is not known."""
    later = one.at is not None and other.at is not None and one.at > other.at
    return (other, one) if later else (one, other)


def _added(one: Stated, other: Stated) -> float:
    """How well the tokens by which each goes beyond the question match in the other, the lower of the two means."""
    cosines = one.asked.scales.tokens.of_all(one.vectors @ other.vectors.T)
    mine, theirs = cosines.max(axis=1)[one.more], cosines.max(axis=0)[other.more]
    return min((float(matches.mean()) for matches in (mine, theirs) if len(matches)), default=1.0)


def _repeats(early: str, late: str) -> bool:
    """Whether the later statement says all that the earlier one says: it adds to it."""
    return {*stems(early)} <= {*stems(late)}


def _says(token: str, word: str) -> bool:
    """Whether a token of a question says what it is about."""
    return word not in STOP_WORDS and any(c.isalnum() for c in token)


def _unit(tokens: TokenVectors) -> Floats:
    import numpy as np

    rows = tokens.vectors.astype(np.float32)
    found: Floats = rows / np.maximum(np.linalg.norm(rows, axis=1, keepdims=True), 1e-6)
    return found


def best_first(answers: Sequence[Stated]) -> list[Stated]:
    """The memories, those that answer the question most first."""
    return sorted(answers, key=lambda one: -one.answers)
