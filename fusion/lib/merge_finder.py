"""Finds memories that say the same among many, for a lifecycle to merge.

MinHash-LSH proposes pairs, which `fusion.lib.restatement` and a cosine then compare.
"""

from __future__ import annotations

from collections.abc import Awaitable, Callable, Mapping, Sequence
from hashlib import blake2b
from math import isfinite
from typing import TYPE_CHECKING, Generic, Protocol, TypeVar

from fusion.contract import Embedder, Extraction, text_scale
from fusion.errors import FusionError, InvalidAnswer
from fusion.lib.conflict import Member, best
from fusion.lib.jaccard import guard_words, jaccard
from fusion.lib.restatement import Statement, kept_apart_by
from fusion.lib.words import word_list, words

if TYPE_CHECKING:
    from datasketch import MinHash

WINDOW = 50_000
"""memories compared with each other; a larger store is processed in windows of this size, oldest first"""
BANDS, ROWS = 8, 4
"""of a sketch: two memories of Jaccard similarity s are compared with probability 1 - (1 - s**4)**8, which is .99 at
.8 and .4 at .5; each further band costs 400 bytes a memory"""
PERMUTATIONS = BANDS * ROWS


class Comparable(Member, Protocol):
    """A memory that may be merged; ``spoken`` is its text with its speaker."""

    @property
    def id(self) -> str: ...
    @property
    def spoken(self) -> str: ...


M = TypeVar("M", bound=Comparable)


class MergeFinder(Generic[M]):
    """Find near-duplicates among all memories passed so far: MinHash-LSH proposes pairs, which are then compared.

    Broder, "On the resemblance and containment of documents", 1997; Indyk and Motwani, "Approximate nearest
    neighbors", 1998. Memories that differ in what ``apart`` returns, or in a negation, number or date, are never
    proposed: each sketch is XORed with a hash of those, which moves it to separate buckets.

    ``get`` reads memories by id, ``extraction`` returns what was extracted from one.
    """

    def __init__(
        self,
        get: Callable[[Sequence[str]], Awaitable[Mapping[str, M]]],
        apart: Callable[[M], tuple[object, ...]],
        extraction: Callable[[M], Extraction],
        embedder: Embedder | None,
        same: float,
        window: int = WINDOW,
    ) -> None:
        self._get = get
        self._apart = apart
        self._extraction = extraction
        self._embedder = embedder
        self._same = same
        self._window = window
        self._windows = 0
        self._fault = ""
        self._begin()

    def _begin(self) -> None:
        from datasketch import MinHashLSH

        self._windows += 1
        self._index = MinHashLSH(num_perm=PERMUTATIONS, params=(BANDS, ROWS))
        self._size = 0

    def notes(self) -> tuple[str, ...]:
        """Caveats for the counts."""
        notes = []
        if self._windows > 1:
            notes.append(
                f"near-duplicates were searched among {self._window:,} memories at a time, oldest first: "
                "memories further apart were not compared"
            )
        if self._fault:
            notes.append(f"near-duplicates were found by words alone, as the embedder failed: {self._fault}")
        return tuple(notes)

    async def pairs(self, page: Sequence[M]) -> list[tuple[M, M]]:
        """What in a page, and among earlier memories, says what a better one says, each with that one.

        A memory that another one is merged into may be merged itself in a later pair.
        """
        found: list[tuple[M, M]] = []
        sketches = {memory.id: self._sketch(memory) for memory in page}
        met = {memory.id: memory for memory in page}
        for memory in page:
            if self._size >= self._window:
                self._begin()
            near = [str(id_) for id_ in self._index.query(sketches[memory.id])]
            met |= await self._get([id_ for id_ in near if id_ not in met])
            alike = await self._alike(memory, [met[id_] for id_ in near if id_ in met])
            keeps = best([memory, *alike])
            for one in alike:
                if one is not keeps:
                    found.append((one, keeps))
                    self._drop(one.id)
            if keeps is memory:
                self._add(memory.id, sketches[memory.id])
            else:
                found.append((memory, keeps))
        return found

    def _sketch(self, memory: M) -> MinHash:
        from datasketch import MinHash

        said = words(memory.spoken)
        sketch = MinHash(num_perm=PERMUTATIONS)
        sketch.update_batch([word.encode("utf-8", "replace") for word in said])
        apart = repr((self._apart(memory), sorted(guard_words(said)))).encode("utf-8", "replace")
        salt = int.from_bytes(blake2b(apart, digest_size=4).digest(), "big")
        sketch.hashvalues ^= salt
        return sketch

    def _add(self, id: str, sketch: MinHash) -> None:
        self._index.insert(id, sketch)
        self._size += 1

    def _drop(self, id: str) -> None:
        self._index.remove(id)
        self._size -= 1

    async def _alike(self, memory: M, others: Sequence[M]) -> list[M]:
        """The duplicates of ``memory`` among ``others``: their cosine, or else Jaccard similarity, is above ``same``.

        The same words in the same order need no model.
        """
        others = [one for one in others if self._may_be_one(memory, one)]
        mine = word_list(memory.spoken)
        if not mine:  # nothing to compare: "!!!" does not say what "???" says
            return []
        literal = [one for one in others if word_list(one.spoken) == mine]
        reworded = [one for one in others if one not in literal]
        if not reworded:
            return literal
        cosines = await self._cosines(memory, reworded)
        said = words(memory.spoken)
        return literal + [one for one in reworded if cosines.get(one.id, jaccard(said, words(one.spoken))) > self._same]

    async def _cosines(self, memory: M, others: Sequence[M]) -> Mapping[str, float]:
        """Cosines by id, empty without an embedder; one that failed is not asked again in this run."""
        if self._embedder is None:
            return {}
        try:
            vectors = await self._embedder.embed([memory.spoken, *(one.spoken for one in others)])
            if not isfinite(vectors.sum()):  # NaN and infinity stay so in a sum
                raise InvalidAnswer(f"{self._embedder.identity} gave vectors with NaN or infinity in them")
        except FusionError as error:
            self._embedder, self._fault = None, str(error)
            return {}
        scale = text_scale(self._embedder)
        return {one.id: scale.of(float(vector @ vectors[0])) for one, vector in zip(others, vectors[1:], strict=True)}

    def _may_be_one(self, a: M, b: M) -> bool:
        """Whether two memories may be merged; checked on the memories themselves, as buckets may collide."""
        if self._apart(a) != self._apart(b):
            return False
        mine, other = (Statement.of(one.event, self._extraction(one)) for one in (a, b))
        return kept_apart_by(mine, other) is None
