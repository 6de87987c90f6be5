"""Which texts that differ in a word or two say the same: by the token vectors of the local model, and its vocabulary.

For each token the best match in the other text (`fusion.recall.maxsim`): a word in whose place stands another meaning
has none, in either direction. Where a letter differs, the vocabulary says which of two words is no word.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence

from fusion.contract import TokenVectors
from fusion.recall.maxsim import best_matches
from fusion.recall.paraphrase import difference, misspelt, names, opposed, parts

ALIKE = 0.82
"""cosine of a token with its best match, at least. Of pairs of our own, opposites and members of one kind (landlord,
tenant; buyer, seller) reach .81, names and products .6; what can stand for each other (lawyer, attorney) .83 to .99"""


def reworded(
    pairs: Sequence[tuple[str, str]],
    tokens: Mapping[str, TokenVectors | None],
    knows: Callable[[str], bool] | None = None,
) -> set[tuple[str, str]]:
    """The pairs that say the same in other words, as far as their ``tokens`` are there."""
    return {(one, other) for one, other in pairs if _same(one, other, tokens.get(one), tokens.get(other), knows)}


def _same(
    one: str,
    other: str,
    ones: TokenVectors | None,
    others: TokenVectors | None,
    knows: Callable[[str], bool] | None,
) -> bool:
    differs = difference(one, other)
    named = names(one) | names(other)
    words = [*differs.mine, *differs.theirs]
    if not differs.doubtful or any(word in named or not word.isascii() for word in words):
        return False
    if any(opposed(a, b) for a in differs.mine for b in differs.theirs):
        return False
    if knows is not None and all(_slip(a, b, knows) for a, b in zip(differs.mine, differs.theirs, strict=True)):
        return True
    if ones is None or others is None or not len(ones.vectors) or not len(others.vectors):
        return False
    return bool(min(best_matches(ones, [others]).min(), best_matches(others, [ones]).min()) >= ALIKE)


def _slip(one: str, other: str, knows: Callable[[str], bool]) -> bool:
    """Whether one of two words is the other misspelt: it is in no vocabulary, with or without a prefix or an ending."""
    return misspelt(one, other) and any(map(knows, parts(one))) != any(map(knows, parts(other)))
