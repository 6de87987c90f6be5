"""Fakes of an embedder, a language model and a clock: small, deterministic, with the behaviour of the real ones."""

from __future__ import annotations

import asyncio
import re
from collections import Counter
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from datetime import UTC, datetime, timedelta
from hashlib import blake2b
from typing import TYPE_CHECKING

import numpy as np

from fusion.contract import CosineScale, TokenVectors
from fusion.errors import ModelMissing
from fusion.lib.words import content_hash

if TYPE_CHECKING:
    from numpy.typing import NDArray

_WORD = re.compile(r"\w+")


def word_vector(word: str, dimensions: int) -> NDArray[np.float32]:
    """A unit vector from a random generator that is seeded with the word's hash."""
    seed = int.from_bytes(blake2b(word.encode("utf-8", "replace"), digest_size=8).digest(), "big")
    vector = np.random.default_rng(seed).standard_normal(dimensions).astype(np.float32)
    return np.asarray(vector / np.linalg.norm(vector), np.float32)


class FakeEmbedder:
    """The complete `Embedder` port without a model; the same text has the same vector in every process.

    A text's vector is the normalised sum of its words' vectors, so the cosine of two texts grows with the number of
    common words. ``encoded`` counts how often each text was encoded (cached texts are not encoded again). ``synonyms``
    maps a word to its meaning, for tests in which a dense search must find what a lexical one cannot.

    With ``failing`` every call raises ``ModelMissing``. The event ``gate`` holds back every call that encodes;
    ``waiting`` is set once a call waits for it.
    """

    def __init__(
        self,
        *,
        dimensions: int = 32,
        identity: str = "fake@1",
        synonyms: Mapping[str, str] | None = None,
        gate: asyncio.Event | None = None,
        failing: bool = False,
    ) -> None:
        self.identity = identity
        self.dimensions = dimensions
        self.synonyms = dict(synonyms or {})
        self.gate = gate
        self.failing = failing
        self.waiting = asyncio.Event()
        self.encoded: Counter[str] = Counter()
        self.forgotten: list[str] = []
        self.closed = False
        self.put_off = 0
        self._kept: dict[str, NDArray[np.float32]] = {}

    async def embed(self, texts: Sequence[str], *, keep: bool = True) -> NDArray[np.float32]:
        missing = [text for text in dict.fromkeys(texts) if content_hash(text) not in self._kept]
        fresh: dict[str, NDArray[np.float32]] = {}
        if missing:
            await self._admit()
            self.encoded.update(missing)
            fresh = {content_hash(text): self._dense(text) for text in missing}
        vectors = self._kept | fresh
        if keep:
            self._kept |= fresh
        if not texts:
            return np.empty((0, self.dimensions), np.float32)
        return np.stack([vectors[content_hash(text)] for text in texts])

    async def known(self, texts: Sequence[str]) -> dict[str, NDArray[np.float32]]:
        if self.failing:
            await self._admit()
        return {text: vector for text in texts if (vector := self._kept.get(content_hash(text))) is not None}

    async def query_tokens(self, text: str) -> TokenVectors:
        await self._admit()
        return self._tokens(text)

    async def tokens(self, texts: Sequence[str], deadline_s: float) -> Sequence[TokenVectors | None]:
        """As in the port; without any time, texts that were never embedded are ``None``."""
        known = [content_hash(text) in self._kept for text in texts]
        if deadline_s > 0 and not all(known):
            await self._admit()
        return [self._tokens(t) if seen or deadline_s > 0 else None for t, seen in zip(texts, known, strict=True)]

    def encode_later(self, texts: Sequence[str]) -> None:
        """Encodes them at once: the next question has their vectors, the one that asks for this had not."""
        self.put_off += len(texts)
        self.encoded.update(text for text in texts if content_hash(text) not in self._kept)
        self._kept |= {content_hash(text): self._dense(text) for text in texts}

    async def settle(self) -> None: ...

    async def forget(self, texts: Sequence[str]) -> None:
        self.forgotten.extend(texts)
        for text in texts:
            self._kept.pop(content_hash(text), None)

    async def close(self) -> None:
        self.closed = True

    async def _admit(self) -> None:
        if self.failing:
            raise ModelMissing("the fake embedder is set to fail")
        if self.gate is not None and not self.gate.is_set():
            self.waiting.set()
            await self.gate.wait()

    def _words(self, text: str) -> list[str]:
        return [self.synonyms.get(word, word) for word in _WORD.findall(text.lower())]

    def _dense(self, text: str) -> NDArray[np.float32]:
        total = np.zeros(self.dimensions, np.float32)
        for word in self._words(text) or [""]:
            total += word_vector(word, self.dimensions)
        return np.asarray(total / np.linalg.norm(total), np.float32)

    def _tokens(self, text: str) -> TokenVectors:
        pieces = tuple(self._words(text))
        vectors = np.zeros((len(pieces), self.dimensions), np.float32)
        for i, piece in enumerate(pieces):
            vectors[i] = word_vector(piece, self.dimensions)
        return TokenVectors(np.rint(vectors * 127).astype(np.int8), 1 / 127, pieces, tuple(_WORD.findall(text.lower())))


CROWDED = CosineScale(5.0, -4.0)
"""maps .8 to 0 and 1 to 1"""


class CrowdedEmbedder(FakeEmbedder):
    """Its cosines lie between .8 and 1, as those of some models do: .8 for texts with no word in common."""

    def __init__(self, scale: CosineScale = CROWDED) -> None:
        super().__init__(dimensions=2048, identity="crowded@1")
        self.text_scale = self.token_scale = scale

    def _dense(self, text: str) -> NDArray[np.float32]:
        crowded = super()._dense(text) * np.float32(0.2**0.5)
        # One dimension that all texts share; what it replaces is a two-thousandth of a vector.
        crowded[0] = 0.8**0.5
        return np.asarray(crowded / np.linalg.norm(crowded), np.float32)


@dataclass(frozen=True, slots=True)
class Asked:
    """One call of a model."""

    system: str
    user: str
    max_tokens: int


class FakeModel:
    """The `LanguageModel` port with a script: each call takes the next answer; the last answer is repeated.

    An answer is a text, an exception to raise, or a function of the call. The event ``gate`` holds calls back, and
    ``reached`` is set by the first one; ``asked`` has all calls.
    """

    name = "fake"

    def __init__(self, *script: str | Exception | Callable[[Asked], str], gate: asyncio.Event | None = None) -> None:
        self.script = list(script)
        self.asked: list[Asked] = []
        self.gate = gate
        self.reached = asyncio.Event()
        self.closed = False

    async def complete(self, system: str, user: str, max_tokens: int) -> str:
        self.asked.append(Asked(system, user, max_tokens))
        self.reached.set()
        if self.gate is not None:
            await self.gate.wait()
        answer = self.script.pop(0) if len(self.script) > 1 else self.script[0]
        if isinstance(answer, Exception):
            raise answer
        return answer if isinstance(answer, str) else answer(self.asked[-1])

    async def close(self) -> None:
        self.closed = True


class Off:
    """The clock of a machine that differs from the true time."""

    def __init__(self, minutes: float) -> None:
        self._off = timedelta(minutes=minutes)

    def __call__(self) -> datetime:
        return datetime.now(UTC) + self._off
