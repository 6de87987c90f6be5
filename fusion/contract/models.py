"""The ports of models: embedders, judges and language models."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, field
from typing import TYPE_CHECKING, Literal, NamedTuple, Protocol, runtime_checkable

if TYPE_CHECKING:
    import numpy as np
    from numpy.typing import NDArray

    Floats = NDArray[np.float32]

UNKNOWN_PIECE = "[UNK]"
"""the word piece of a word that the model's vocabulary cannot spell; all such words are one to the model"""


@dataclass(frozen=True, slots=True)
class TokenVectors:
    """The token embeddings of one text from a late-interaction model, quantised to int8.

    ``vectors`` has shape (tokens, dimensions); ``vectors * scale`` restores unit length. ``tokens`` are the word pieces
    without the model's special tokens; ``words`` has, for each piece, the lower-case word that it is part of.
    """

    vectors: NDArray[np.int8]
    scale: float
    tokens: tuple[str, ...] = ()
    words: tuple[str, ...] = ()


@dataclass(frozen=True, slots=True)
class Encoded:
    """One text: its dense vector, unit length, and a vector for each of its tokens."""

    dense: Floats
    tokens: TokenVectors


class TextEncoder(Protocol):
    """What runs a model: texts in, vectors out. Synchronous, stateless and thread-safe."""

    def encode(self, texts: Sequence[str], *, question: bool = False) -> list[Encoded]:
        """Encode the texts, in order, as memories or as questions; a question's tokens have their names."""
        ...

    def knows(self, word: str) -> bool:
        """Whether the vocabulary has a lower-case word as a whole."""
        ...

    def close(self) -> None:
        """Close what it holds open, such as a connection to the model's server."""
        ...


class Embedder(Protocol):
    """A model that turns texts into vectors. All backends share one, so that a text is encoded once.

    ``identity`` names model and version; vectors of different identities must not be in one index.
    """

    identity: str
    dimensions: int

    async def embed(self, texts: Sequence[str], *, keep: bool = True) -> Floats:
        """Dense vectors of unit length, shape (len(texts), dimensions); cached on disk by content.

        ``keep=False`` is for queries: they come before texts that are being stored, and are not cached on disk.
        """
        ...

    async def query_tokens(self, text: str) -> TokenVectors:
        """A query's token vectors, with ``tokens`` and ``words`` filled in."""
        ...

    async def tokens(self, texts: Sequence[str], deadline_s: float) -> Sequence[TokenVectors | None]:
        """Token vectors of texts; ``None`` for a text that is not cached and could not be encoded in time.

        With ``deadline_s`` 0 nothing is encoded.
        """
        ...

    async def forget(self, texts: Sequence[str]) -> None:
        """Remove these texts from every cache, in memory and on disk."""
        ...

    async def close(self) -> None: ...


@runtime_checkable
class HasVocabulary(Protocol):
    """An embedder whose vocabulary can be asked for words."""

    def knows(self, word: str) -> bool:
        """Whether the vocabulary has this lower-case word as one token; answers immediately."""
        ...


@runtime_checkable
class KnowsVectors(Protocol):
    """An embedder that says which texts it has encoded already."""

    async def known(self, texts: Sequence[str]) -> Mapping[str, Floats]:
        """The dense vectors of the texts that are cached, by text; encodes nothing."""
        ...


@runtime_checkable
class EncodesLater(Protocol):
    """An embedder that encodes in the background what a question found without vectors.

    ``put_off`` counts the texts that were accepted for that.
    """

    put_off: int

    def encode_later(self, texts: Sequence[str]) -> None:
        """Begin to encode these and to cache their vectors; returns at once.

        Only a bounded number of texts waits: the rest is left out, and the next question names it again.
        """
        ...

    async def settle(self) -> None:
        """Return once the texts that wait now are encoded, or have failed; later ones are not waited for."""
        ...


class CosineScale(NamedTuple):
    """Maps a model's cosines to those of the default model, for which our thresholds were chosen.

    Texts that have nothing in common have a cosine of about .1 by one model, and of .8 by another.
    """

    slope: float = 1.0
    intercept: float = 0.0

    def of(self, cosine: float) -> float:
        return cosine if self == NO_SCALE else min(1.0, cosine * self.slope + self.intercept)

    def of_all(self, cosines: Floats) -> Floats:
        return cosines if self == NO_SCALE else (cosines * self.slope + self.intercept).clip(max=1.0)


NO_SCALE = CosineScale()
"""of the default model, and of models whose scale is not known"""


@runtime_checkable
class ScalesCosines(Protocol):
    """An embedder that knows the scale of its cosines: those of two texts, and those of two tokens."""

    text_scale: CosineScale
    token_scale: CosineScale


def text_scale(embedder: Embedder) -> CosineScale:
    """The scale of the cosines of this embedder's texts."""
    return embedder.text_scale if isinstance(embedder, ScalesCosines) else NO_SCALE


def token_scale(embedder: Embedder) -> CosineScale:
    """The scale of the cosines of this embedder's tokens."""
    return embedder.token_scale if isinstance(embedder, ScalesCosines) else NO_SCALE


class ReadsInContext(Embedder, KnowsVectors, EncodesLater, Protocol):
    """A second encoder, which compares questions with what was found; it also takes texts of `fusion.lib.in_context`.

    Forgetting a text also forgets each text in context of which it is a part.
    """


@runtime_checkable
class HasLocalModel(Protocol):
    """An embedder whose dense vectors come from a remote provider.

    ``local`` is the model in this process that compares a question with its candidates without sending them anywhere.
    ``None``: there is no such model, and words alone are compared.
    """

    local: Embedder | None


@dataclass(frozen=True, slots=True)
class Media:
    """An image or audio file. ``key`` identifies its content; ``read`` loads it and is called only if necessary."""

    key: str
    mime: str
    read: Callable[[], bytes]


@runtime_checkable
class EmbedsMedia(Protocol):
    """An embedder that may embed images and audio in the same space as texts; ``sees`` says whether its model can."""

    sees: bool

    async def embed_media(self, media: Sequence[Media]) -> Floats:
        """One vector each, close to texts that describe the content; zeros for a type that the model does not support.

        Cached by key. Raises the errors of ``embed`` and of ``Media.read``.
        """
        ...


@dataclass(frozen=True, slots=True)
class Passage:
    """One text for a judge to score; ``id`` is opaque and new for each call."""

    id: str
    text: str


@dataclass(frozen=True, slots=True)
class Verdict:
    """A judge's scores, 0 to 10, by passage id; a passage that is not listed was not scored.

    ``fault`` describes an error in words; ``input_tokens`` and ``output_tokens`` are the tokens that the call used.
    """

    status: Literal["ok", "timeout", "skipped_budget", "cooldown", "disabled", "invalid", "error"]
    scores: Mapping[str, float] = field(default_factory=dict)
    fault: str | None = None
    model: str | None = None
    input_tokens: int = 0
    output_tokens: int = 0
    ignored: int = 0
    """number of scores that were discarded: unknown or repeated passage, or not a number from 0 to 10"""
    orders_only: bool = False
    """whether the scores only compare the passages with each other: a low one is no reason to leave a memory out"""


class Judge(Protocol):
    """A model that scores passages for a query. It never raises except when cancelled: a fault is a ``Verdict``."""

    name: str

    async def judge(self, query: str, passages: Sequence[Passage], deadline_s: float) -> Verdict: ...

    async def close(self) -> None: ...


@runtime_checkable
class MayBeDisabled(Protocol):
    """A judge that may be unable to judge. ``disabled`` says why, and how to fix it; None while it judges."""

    disabled: str | None


class LanguageModel(Protocol):
    """A text model with one call, for capture and upkeep. ``name`` is the model's name on its server.

    ``complete`` returns the whole answer as text. It raises the `fusion.errors.BackendError` that fits; `InvalidAnswer`
    if the answer was cut at ``max_tokens`` or refused.
    """

    name: str

    async def complete(self, system: str, user: str, max_tokens: int) -> str: ...

    async def close(self) -> None: ...


@runtime_checkable
class JudgesWithModel(Protocol):
    """A judge's class that asks the language model of the settings' ``[model]``, instead of a client of its own."""

    @classmethod
    def open_over(cls, model: LanguageModel | None, options: Mapping[str, object]) -> Judge:
        """The judge over this model, which its owner closes; None if a configured one is missing."""
        ...
