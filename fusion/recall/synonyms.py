"""Finds texts that say the same in other words, by the token vectors and the vocabulary of the local model.

Each token must have a good match in the other text (`fusion.recall.maxsim`), in both directions; a word of another
meaning has none. Of two words that differ in a letter, the vocabulary says whether one is no word.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence

from fusion.contract import NO_SCALE, CosineScale, TokenVectors
from fusion.lib.paraphrase import difference
from fusion.lib.word_forms import misspelt, names, opposed, parts
from fusion.recall.maxsim import best_matches

MIN_TOKEN_COSINE = 0.82
"""lowest cosine of a token with its best match. In our test pairs opposites and related roles (landlord, tenant; buyer,
seller) reach .81, names and products .6, and synonyms (lawyer, attorney) .83 to .99"""


def reworded(
    pairs: Sequence[tuple[str, str]],
    tokens: Mapping[str, TokenVectors | None],
    knows: Callable[[str], bool] | None = None,
    scale: CosineScale = NO_SCALE,
) -> set[tuple[str, str]]:
    """The pairs that say the same in other words, as far as their ``tokens`` are there, on the ``scale`` of these."""
    return {(one, other) for one, other in pairs if _same(one, other, tokens.get(one), tokens.get(other), knows, scale)}


def _same(
    one: str,
    other: str,
    ones: TokenVectors | None,
    others: TokenVectors | None,
    knows: Callable[[str], bool] | None,
    scale: CosineScale,
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
    worst = min(best_matches(ones, [others]).min(), best_matches(others, [ones]).min())
    return bool(scale.of(worst) >= MIN_TOKEN_COSINE)


def _slip(one: str, other: str, knows: Callable[[str], bool]) -> bool:
    """Whether one of two words is a misspelling of the other: the vocabulary lacks it, with and without affixes."""
    return misspelt(one, other) and any(map(knows, parts(one))) != any(map(knows, parts(other)))
