"""Unit vectors in int8, one row a slot, in one memory-mapped file: rows that are not searched take no RAM.

Up to `MANY` rows a search looks at each, block by block, so it is exact up to the rounding to int8, and can be narrowed
to any set of scopes. Among more, it first counts the dimensions in which a row has another sign than the query, of
which there is one bit each in memory, and then looks at the likeliest rows; docs/scale.md has what that finds. There is
nothing to train or to rebuild, and it can be narrowed as well.

If numkong is installed, it scans rows in int8 in two thirds of the time, and the possible best rows are then computed
as without it. Rows are written with ``pwrite``, which raises an error if the disk is full; writing to mapped memory
would end the process.
"""

from __future__ import annotations

import os
from collections.abc import Callable, Iterator, Mapping, Sequence
from contextlib import suppress
from functools import lru_cache
from hashlib import shake_128
from math import inf
from pathlib import Path
from threading import Lock
from typing import TYPE_CHECKING, Any, ClassVar
from zipfile import BadZipFile

import numpy as np

from fusion.lib.accelerator import numkong
from fusion.store.read_ahead import read_ahead

if TYPE_CHECKING:
    from numpy.typing import NDArray

    Floats = NDArray[np.float32]
    Small = NDArray[np.int8]
    Numbers = NDArray[np.int64]

MANY = 65_536
# Rows above which the signs choose the rows that are looked at.
LIKELIEST = 32
# One row in so many is looked at then, and at least `_CHOSEN` for each name that is wanted.
_CHOSEN = 64
_SIGNS = 32_768
# Rows whose signs are compared at a time. With half as many, a thread waits for Python's lock so often that four
# searches next to a busy thread take half as long again.
_SAMPLED = 65_536
# Rows that are counted by their signs: a million take a tenth of the search.
_BLOCK = 2048
# Rows upcast from int8 at a time: 2048 × 384 floats are 3 MB, which stays in the cache.
_AT_ONCE = 65_536
_FEW = 4096
# Rows that an accelerator is given at a time, and fewer than are worth its while.
_READ = 16_384
# Rows read at a time when all are looked through: 6 MB.
_GROWTH = 1.5
_LEAST_ROOM = 1024
_DEEPER = 4
# Factor on the number of rows that are looked at where the best are of too few names.
_SAME = 1e-5
# Cosines this near are one: the same text in another block is summed in another order.


def quantised(vector: Floats) -> Small:
    """A vector's row: its largest component becomes ±127."""
    peak = float(np.abs(vector).max(initial=0.0)) or 1.0
    return np.asarray(np.rint(vector * (127 / peak)), np.int8)


def mean_direction(vectors: Sequence[Floats]) -> Floats:
    """The mean of unit vectors, at unit length; zeros if they cancel each other out. Of one vector it is the vector."""
    if len(vectors) == 1:
        return vectors[0]
    total = np.sum(vectors, axis=0, dtype=np.float32)
    return np.asarray(total / (float(np.linalg.norm(total)) or 1.0), np.float32)


@lru_cache(maxsize=8)
def _weights(dimensions: int) -> NDArray[np.float64]:
    return (np.frombuffer(shake_128(b"rows").digest(4 * dimensions), "<u4") | 1).astype(np.float64)


def checksums(rows: Small) -> Numbers:
    """A checksum of each row: the sum of its components, each times an odd number of its own below 2^32.

    Every step is a whole number below 2^53, so the sums are exact in any order, and one component
    that changed is never missed. A tenth of what a CRC-32 of each row costs from Python.
    """
    return (rows.astype(np.float64) @ _weights(rows.shape[1])).astype(np.int64)


class Matrix:
    """Slots count from 0. A slot is either taken, with a tag from 1 on, or it is free and never found.

    Reads and writes may come from several threads at once. A slot that was freed is not to be taken again while a
    search is under way that may have seen its old row: ``reusable`` says which may.
    """

    many: ClassVar[int] = MANY

    def __init__(self, path: Path, dimensions: int, identity: str = "", *, fast: bool = True) -> None:
        self._fast = numkong() if fast else None
        self.identity = identity
        """the model that the rows are of"""
        self._path = path
        self._dimensions = dimensions
        self._file = os.open(path, os.O_RDWR | os.O_CREAT | os.O_CLOEXEC, 0o600)
        self._lock = Lock()
        self._rows: Small = np.empty((0, dimensions), np.int8)
        self._tags = np.zeros(0, np.int32)
        self._scales = np.zeros(0, np.float32)
        self._signs = np.zeros((-(-dimensions // 64), 0), np.uint64)
        self._end = 0
        self._searches = 0
        self._resting: list[int] = []
        self.count = 0

    def load(self, slots: Numbers, tags: Numbers, sums: Numbers) -> list[int]:
        """Take slots, in ascending order, with their rows in the file. Returns those with a wrong checksum, which stay
        free."""
        self._make_room(int(slots.max(initial=-1)) + 1)
        sound = np.zeros(len(slots), np.bool_)
        for low, high, rows in self._on_disk(slots):
            sound[low:high] = good = checksums(rows) == sums[low:high]
            self._take(slots[low:high][good], tags[low:high][good].astype(np.int32), rows[good])
        return slots[~sound].tolist()  # type: ignore[no-any-return]

    def save(self, path: Path, more: Mapping[str, Numbers]) -> None:
        """Write what `restore` reads instead of the rows, and some arrays of the caller."""
        path.unlink(missing_ok=True)
        end = self._end
        arrays: dict[str, Any] = {
            "tags": self._tags[:end],
            "scales": self._scales[:end],
            "signs": self._signs[:, :end],
            **more,
        }
        with os.fdopen(os.open(path, os.O_WRONLY | os.O_CREAT | os.O_EXCL | os.O_CLOEXEC, 0o600), "wb") as file:
            np.savez(file, allow_pickle=False, **arrays)

    def restore(self, path: Path) -> dict[str, Numbers]:
        """Take the slots that were saved, whose rows are in the file, and return the caller's arrays. Raises OSError,
        and ValueError for a file that was not saved here."""
        try:
            with np.load(path, allow_pickle=False) as saved:
                arrays = dict(saved)
            tags, scales, signs = (arrays.pop(name) for name in ("tags", "scales", "signs"))
        except (KeyError, BadZipFile) as error:
            raise ValueError(f"{path} is not what was saved: {error}") from error
        self._make_room(len(tags))
        with self._lock:
            self._tags[: len(tags)] = tags
            self._scales[: len(tags)] = scales
            self._signs[:, : len(tags)] = signs
            self._end, self.count = len(tags), int(np.count_nonzero(tags))
        self._warm_up()
        return arrays

    def _warm_up(self) -> None:
        """Read what a search looks at here and there: the first one after a boot would take longer than it may."""
        read_ahead(self._file)
        if self.count > self.many:
            self.search(np.ones(self._dimensions, np.float32) / self._dimensions**0.5, None, 1, lambda slots: ())

    def damaged(self, slots: Numbers, sums: Numbers) -> list[int]:
        """The slots of damaged rows, whose bytes differ from what was written, in ascending order."""
        sound = np.zeros(len(slots), np.bool_)
        for low, high, rows in self._on_disk(slots):
            sound[low:high] = checksums(rows) == sums[low:high]
        return slots[~sound].tolist()  # type: ignore[no-any-return]

    def write(self, slots: Sequence[int], tags: Sequence[int], vectors: Sequence[Small]) -> list[int]:
        """Write rows to disk, then make all of them searchable, or none on ``OSError``. Returns their checksums."""
        self.free(slots)
        self._make_room(max(slots, default=-1) + 1)
        for start, end in _runs(slots):
            data = b"".join(row.tobytes() for row in vectors[start:end])
            at = slots[start] * self._dimensions
            while data:
                written = os.pwrite(self._file, data, at)
                data, at = data[written:], at + written
        os.fdatasync(self._file)
        rows = np.stack(vectors)
        self._take(np.array(slots, np.int64), np.array(tags, np.int32), rows)
        return checksums(rows).tolist()  # type: ignore[no-any-return]

    def free(self, slots: Sequence[int]) -> None:
        """Free these slots: they are not found any more."""
        with self._lock:
            taken = [slot for slot in slots if slot < self._end and self._tags[slot]]
            self._tags[taken] = 0
            self._scales[taken] = 0.0
            self.count -= len(taken)

    def rest(self, slots: Sequence[int]) -> None:
        """Free these slots and overwrite their rows; they are reused once no running search can have seen them."""
        self.free(slots)
        with suppress(OSError):  # a full disk: the next vectors overwrite them
            for start, end in _runs(slots := sorted(slots)):
                os.pwrite(self._file, bytes(self._dimensions * (end - start)), slots[start] * self._dimensions)
        with self._lock:
            self._resting.extend(slots)

    def reusable(self) -> list[int]:
        """The freed slots that may be reused; each is returned once."""
        with self._lock:
            if self._searches:
                return []
            rested, self._resting = self._resting, []
            return rested

    def retag(self, slot: int, tag: int) -> None:
        with self._lock:
            if slot < self._end and self._tags[slot]:
                self._tags[slot] = tag

    def search(
        self,
        query: Floats,
        tags: Sequence[int] | None,
        limit: int,
        name: Callable[[Sequence[int]], Sequence[tuple[int, str]]],
    ) -> list[tuple[str, float]]:
        """The best ``limit`` names with their cosines, among these tags (``None``: all). Equal cosines: by name.

        ``name`` gives the names of slots that are still in use. A name of several slots has the best of their cosines.
        """
        with self._lock:
            rows, scales, taken, end, count = self._rows, self._scales, self._tags, self._end, self.count
            signs = self._signs
            self._searches += 1
        try:
            if limit < 1 or not count:
                return []
            chosen = None if tags is None else _having(taken[:end], tags)
            if (among := count if chosen is None else len(chosen)) > self.many:
                chosen = _likeliest(signs[:, :end], query, chosen, max(among // LIKELIEST, limit * _CHOSEN))
                chosen = chosen[taken[chosen] != 0]
            cosines, error = self._near(rows[:end], query, chosen)
            cosines *= scales[:end] if chosen is None else scales[chosen]
            if chosen is None and count < end:
                cosines[taken[:end] == 0] = -2.0  # free
            wanted = limit
            while True:
                best = best_of(cosines, wanted, 2 * error + _SAME)
                slots = best if chosen is None else chosen[best]
                if error:
                    slots = slots[cosines[best] > -2.0 + error]
                    exact = _products(rows, query, slots) * scales[slots]
                else:
                    exact = cosines[best]
                found, named = _by_name(slots, np.round(exact, 5), wanted, name)
                if len(found) >= limit or len(found) == named or wanted >= len(cosines):
                    return sorted(found.items(), key=lambda hit: (-hit[1], hit[0]))[:limit]
                wanted *= _DEEPER  # the best rows belong to fewer names than are wanted
        finally:
            with self._lock:
                self._searches -= 1

    def cosines(self, query: Floats, slots: Sequence[int]) -> list[float]:
        """The cosine of each slot; 0 for one that has been freed."""
        with self._lock:
            rows, scales = self._rows, self._scales
        chosen = np.array(slots, np.intp)
        return np.round(_products(rows, query, chosen) * scales[chosen], 5).tolist()  # type: ignore[no-any-return]

    def vectors(self, slots: Sequence[int]) -> Floats:
        """The vectors of slots, at unit length; a slot that has been freed is all zeros or another's."""
        with self._lock:
            rows, scales = self._rows, self._scales
        chosen = np.array(slots, np.intp)
        return rows[chosen].astype(np.float32) * scales[chosen, None]

    def close(self) -> None:
        if self._file >= 0:
            os.close(self._file)
            self._file = -1

    def _near(self, rows: Small, query: Floats, chosen: NDArray[np.intp] | None) -> tuple[Floats, float]:
        """Approximate inner products with a query (before normalisation), and the error bound of their cosines.

        A cosine with the rounded query q' differs from that with q by at most |q - q'|: Cauchy and Schwarz.
        """
        count = len(rows) if chosen is None else len(chosen)
        if self._fast is None or count < _FEW:
            return _products(rows, query, chosen), 0.0
        small = quantised(query)
        unit = float(np.abs(query).max(initial=0.0)) / 127
        packed = self._fast.dots_pack(small[None, :])
        products = np.empty(count, np.float32)
        for low in range(0, count, _AT_ONCE):
            block = rows[low : low + _AT_ONCE] if chosen is None else rows.take(chosen[low : low + _AT_ONCE], axis=0)
            products[low : low + _AT_ONCE] = np.asarray(self._fast.dots_packed(block, packed))[:, 0]
        products *= unit
        return products, float(np.linalg.norm(query - small.astype(np.float32) * unit)) + _SAME

    def _take(self, slots: NDArray[np.int64], tags: NDArray[np.int32], rows: Small) -> None:
        # The scale that restores unit length, exactly: rounding to int8 has changed it a little.
        lengths = np.sqrt(np.einsum("ij,ij->i", rows, rows, dtype=np.float32))
        signs = _signs(rows)
        with self._lock:
            self._signs[:, slots] = signs
            self._scales[slots] = 1.0 / np.maximum(lengths, 1.0)
            self._tags[slots] = tags
            self._end = max(self._end, int(slots.max(initial=-1)) + 1)
            self.count += len(slots)

    def _make_room(self, slots: int) -> None:
        """Grow the file without allocating space: ``write`` does that, and can report a full disk."""
        room = len(self._rows)
        if slots <= room and room:
            return
        room = max(int(slots * _GROWTH), _LEAST_ROOM)
        os.ftruncate(self._file, max(room * self._dimensions, os.fstat(self._file).st_size))
        rows: Small = np.asarray(np.memmap(self._path, np.int8, "r", shape=(room, self._dimensions)))
        with self._lock:
            more = room - len(self._tags)
            self._rows = rows
            self._tags = np.concatenate([self._tags, np.zeros(more, np.int32)])
            self._scales = np.concatenate([self._scales, np.zeros(more, np.float32)])
            self._signs = np.concatenate([self._signs, np.zeros((len(self._signs), more), np.uint64)], axis=1)

    def _on_disk(self, slots: Numbers) -> Iterator[tuple[int, int, Small]]:
        """Portions of the list of slots (from, to) with their rows in the file; none for slots beyond its end."""
        size = self._dimensions
        with self._path.open("rb") as file:
            low = 0
            while low < len(slots):
                first = int(slots[low])
                file.seek(first * size)
                data = file.read(_READ * size)
                rows = np.frombuffer(data, np.int8, len(data) // size * size).reshape(-1, size)
                if not len(rows):
                    return
                high = int(np.searchsorted(slots, first + len(rows)))
                yield low, high, rows[slots[low:high] - first]
                low = high


def _products(rows: Small, query: Floats, chosen: NDArray[np.intp] | None) -> Floats:
    """Inner products of rows (or of the chosen ones) with a query, not yet of unit length."""
    count = len(rows) if chosen is None else len(chosen)
    products = np.empty(count, np.float32)
    for low in range(0, count, _BLOCK):
        block = rows[low : low + _BLOCK] if chosen is None else rows[chosen[low : low + _BLOCK]]
        np.dot(block.astype(np.float32), query, out=products[low : low + _BLOCK])
    return products


def _signs(rows: Small) -> NDArray[np.uint64]:
    """One bit for each component that is positive, 64 of them in a number; a column for each row."""
    count, dimensions = rows.shape
    words = -(-dimensions // 64)
    packed = np.zeros((count, words * 8), np.uint8)
    for low in range(0, count, _BLOCK):
        packed[low : low + _BLOCK, : -(-dimensions // 8)] = np.packbits(rows[low : low + _BLOCK] > 0, axis=1)
    return packed.view(np.uint64).T


def _likeliest(
    signs: NDArray[np.uint64], query: Floats, chosen: NDArray[np.intp] | None, wanted: int
) -> NDArray[np.intp]:
    """The slots, of all or of the chosen, with the most signs of the query: ``wanted`` and all equal to the last.

    Among more than `_SAMPLED` a sample says how many have how many signs, so there are about as many.
    """
    asked = _signs(quantised(query)[None, :])[:, 0]
    count = signs.shape[1] if chosen is None else len(chosen)
    unlike = np.zeros(count, np.uint16)
    for low in range(0, count, _SIGNS):
        block = unlike[low : low + _SIGNS]
        part = slice(low, low + _SIGNS) if chosen is None else chosen[low : low + _SIGNS]
        for word, sign in zip(signs, asked, strict=True):
            block += np.bitwise_count(word[part] ^ sign)
    sample = unlike[:: -(-count // _SAMPLED)]
    within = int(np.searchsorted(np.cumsum(np.bincount(sample)), wanted * len(sample) / count))
    best = np.flatnonzero(unlike <= within)
    return best if chosen is None else chosen[best]


def _by_name(
    slots: NDArray[np.intp], cosines: Floats, wanted: int, name: Callable[[Sequence[int]], Sequence[tuple[int, str]]]
) -> tuple[dict[str, float], int]:
    """The best cosine by name of the ``wanted`` best slots, or of the next where too few are in use; and how many of
    the slots are named."""
    among = cosines >= _edge(cosines, wanted)
    scores = dict(zip(slots.tolist(), cosines.tolist(), strict=True))
    found: dict[str, float] = {}
    named = 0
    for some in (slots[among], slots[~among]):  # the others replace rows that have no owner any more
        if named < wanted:
            for slot, key in name(some.tolist()):
                if scores[slot] >= -1.5:
                    named += 1
                    found[key] = max(scores[slot], found.get(key, scores[slot]))
    return found, named


def _having(taken: NDArray[np.int32], tags: Sequence[int]) -> NDArray[np.intp]:
    """The slots of these tags, by a table: ten times as fast as ``np.isin``."""
    wanted = np.zeros(int(max(taken.max(initial=0), max(tags, default=0))) + 1, np.bool_)
    wanted[list(tags)] = True
    return np.flatnonzero(wanted[taken])


def best_of(cosines: Floats, limit: int, margin: float = 0.0) -> NDArray[np.intp]:
    """The indices of the best ``limit``, and of all within ``margin`` below the last of them."""
    return np.flatnonzero(cosines >= _edge(cosines, limit) - margin)


def _edge(cosines: Floats, limit: int) -> float:
    """The lowest of the best ``limit``."""
    if len(cosines) <= limit:
        return -inf
    return float(np.partition(cosines, len(cosines) - limit)[len(cosines) - limit])


def _runs(slots: Sequence[int]) -> Iterator[tuple[int, int]]:
    """The first and last index of each run of adjacent slots in a list."""
    start = 0
    for i in range(1, len(slots) + 1):
        if i == len(slots) or slots[i] != slots[i - 1] + 1:
            yield start, i
            start = i
