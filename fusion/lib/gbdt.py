"""Evaluates gradient-boosted regression trees in LightGBM's text format, without the LightGBM library.

The text is untrusted data: it is never executed, and an inconsistent model is rejected when it is read. Ke et al.,
"LightGBM: a highly efficient gradient boosting decision tree", NeurIPS 2017.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from hashlib import blake2b
from math import exp, isfinite
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    import numpy as np
    from numpy.typing import NDArray

MAX_BYTES = 4_000_000
"""maximum bytes of a model's text; 300 trees of 31 leaves take half a million"""
_CATEGORICAL, _DEFAULT_LEFT, _MISSING = 1, 2, 12
_MISSING_IS_NAN = 8


def digest(text: str) -> str:
    """A hash of a model's text, in twelve hexadecimal digits."""
    return blake2b(text.encode(), digest_size=6).hexdigest()


@dataclass(frozen=True, eq=False)
class Trees:
    """A model: the sum of trees over named values. Nodes are in flat arrays; a leaf's children are the leaf itself."""

    names: tuple[str, ...]
    slope: float
    intercept: float
    """with ``slope``, maps sums to shares by the logistic function (Platt scaling)"""
    depth: int
    roots: NDArray[np.intp]
    feature: NDArray[np.intp]
    threshold: NDArray[np.float64]
    """a value at most this goes left"""
    nan_left: NDArray[np.bool_]
    left: NDArray[np.intp]
    right: NDArray[np.intp]
    value: NDArray[np.float64]

    @classmethod
    def parse(cls, text: str) -> Trees:
        """Parse a model. Raises ValueError, which names the fault."""
        head, *parts = text.partition("end of trees")[0].split("\nTree=")
        header = _fields(head)
        names = tuple(header.get("feature_names", "").split())
        if not head.startswith("tree\n") or not names or not parts:
            raise ValueError("it is no text of a LightGBM model")
        try:
            slope, intercept = map(_finite, header.get("calibration", "1 0").split())
            return cls._joined(names, slope, intercept, [_tree(_fields(part), len(names)) for part in parts])
        except KeyError as error:
            raise ValueError(f"a tree lacks {error}") from None

    @classmethod
    def _joined(cls, names: tuple[str, ...], slope: float, intercept: float, trees: Sequence[_Tree]) -> Trees:
        import numpy as np

        starts = np.cumsum([0, *(len(tree.value) for tree in trees)])[:-1]
        placed = list(zip(trees, starts.tolist(), strict=True))
        return cls(
            names,
            slope,
            intercept,
            max(tree.depth for tree in trees),
            starts.astype(np.intp),
            feature=np.array([f for tree in trees for f in tree.feature], dtype=np.intp),
            threshold=np.array([t for tree in trees for t in tree.threshold]),
            nan_left=np.array([n for tree in trees for n in tree.nan_left], dtype=np.bool_),
            left=np.array([start + n for tree, start in placed for n in tree.left], dtype=np.intp),
            right=np.array([start + n for tree, start in placed for n in tree.right], dtype=np.intp),
            value=np.array([v for tree in trees for v in tree.value]),
        )

    def shares(self, rows: Sequence[Mapping[str, float]]) -> list[float]:
        """The sums mapped to 0 to 1, in the same order: the probability that each row is relevant."""
        scaled = (self.slope * self.sums(rows) + self.intercept).clip(-60.0, 60.0).tolist()
        return [1 / (1 + exp(-x)) for x in scaled]

    def sums(self, rows: Sequence[Mapping[str, float]]) -> NDArray[np.float64]:
        """The sum of the trees for each row; a missing value takes the branch that each node has for missing values."""
        import numpy as np

        nan = float("nan")
        values = np.array([[row.get(name, nan) for name in self.names] for row in rows], dtype=np.float64)
        values = values.reshape(len(rows), len(self.names))
        flat, base = values.ravel(), (np.arange(len(rows)) * len(self.names))[:, None]
        missing = np.isnan(flat)
        some_missing = bool(missing.any())
        node = np.broadcast_to(self.roots, (len(rows), len(self.roots)))
        for _ in range(self.depth):
            at = base + self.feature[node]
            goes_left = flat[at] <= self.threshold[node]
            if some_missing:
                goes_left = np.where(missing[at], self.nan_left[node], goes_left)
            node = np.where(goes_left, self.left[node], self.right[node])
        total: NDArray[np.float64] = self.value[node].sum(axis=1)
        return total


@dataclass(frozen=True, slots=True)
class _Tree:
    """One tree: its inner nodes, then its leaves."""

    depth: int
    feature: list[int]
    threshold: list[float]
    nan_left: list[bool]
    left: list[int]
    right: list[int]
    value: list[float]


def _fields(text: str) -> dict[str, str]:
    return dict(line.split("=", 1) for line in text.splitlines() if "=" in line)


def _finite(text: str) -> float:
    number = float(text)
    if not isfinite(number):
        raise ValueError(f"{text} is not a finite number")
    return number


def _threshold(text: str) -> float:
    """A finite or infinite number: an infinite threshold separates present values from missing ones."""
    return float(text) if text in ("inf", "-inf") else _finite(text)


def _tree(fields: Mapping[str, str], features: int) -> _Tree:
    leaves = [_finite(v) for v in fields["leaf_value"].split()]
    inner = len(leaves) - 1
    if inner and int(fields.get("num_cat", "0")):
        raise ValueError("it splits by category, which no signal is")

    def numbers(name: str) -> list[str]:
        found = fields[name].split() if inner else []
        if len(found) != inner:
            raise ValueError(f"a tree of {len(leaves)} leaves has {len(found)} entries of {name}")
        return found

    feature = [int(f) for f in numbers("split_feature")]
    threshold = [_threshold(t) for t in numbers("threshold")]
    kinds = [int(k) for k in numbers("decision_type")]
    if not all(0 <= f < features for f in feature) or any(k & _CATEGORICAL for k in kinds):
        raise ValueError("it splits by what it does not name")
    # A leaf is written as the complement of its number; here it comes after the inner nodes and leads to itself.
    ends = list(range(inner, inner + len(leaves)))
    left, right = (
        [inner + ~int(n) if int(n) < 0 else int(n) for n in numbers(side)] for side in ("left_child", "right_child")
    )
    reached = _depths(left, right, len(leaves))
    return _Tree(
        max(reached),
        feature + [0] * len(leaves),
        threshold + [0.0] * len(leaves),
        [_nan_left(k, t) for k, t in zip(kinds, threshold, strict=True)] + [True] * len(leaves),
        left + ends,
        right + ends,
        [0.0] * inner + leaves,
    )


def _nan_left(kind: int, threshold: float) -> bool:
    """Whether a missing value goes left: by the node's default, or as 0 would if training had no missing values."""
    if kind & _MISSING == _MISSING_IS_NAN:
        return bool(kind & _DEFAULT_LEFT)
    if kind & _MISSING:
        raise ValueError("it takes zero for missing, which no signal does")
    return threshold >= 0


def _depths(left: Sequence[int], right: Sequence[int], leaves: int) -> list[int]:
    """The depth of each node. Raises ValueError unless every node but the root has exactly one parent."""
    inner = len(left)
    depths = [0] * (inner + leaves)
    seen = {0}
    waiting = [0] if inner else []
    while waiting:
        node = waiting.pop()
        for child in (left[node], right[node]):
            if child in seen or not 0 <= child < inner + leaves:
                raise ValueError("its nodes are no tree")
            seen.add(child)
            depths[child] = depths[node] + 1
            if child < inner:
                waiting.append(child)
    if len(seen) != inner + leaves:
        raise ValueError("its nodes are no tree")
    return depths
