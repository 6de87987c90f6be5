"""The estimate of tokens, and budgets of characters and tokens."""

from __future__ import annotations

from math import ceil

import pytest
from hypothesis import given
from hypothesis import strategies as st

from fusion.lib.budget import Budget, Size, clip, estimate_tokens


@pytest.mark.row("A006", "a request's budget may be in tokens, which are estimated as in the seed")
@pytest.mark.parametrize(
    ("text", "tokens"),
    [
        ("", 0),
        ("one two three four", ceil(max(4 * 1.25, 18 / 3.5) * 1.1)),
        ("a b c d", ceil(4 * 1.25 * 1.1)),
        ("x" * 35, 11),  # 35 / 3.5 × 1.1 is 11.000000000000002 in floating point
        ("x" * 175, 55),
        ("\n---\n", 2),
    ],
)
def test_estimate_tokens_is_the_seeds_formula(text: str, tokens: int) -> None:
    """max(words × 1.25, characters / 3.5) × 1.1, rounded up; two for the seed's separator."""
    assert estimate_tokens(text) == tokens


@given(st.lists(st.text(max_size=30).map(lambda text: text + "\n"), max_size=6))
def test_sizes_of_lines_add_up(lines: list[str]) -> None:
    """So a block can be measured line by line; the estimates of the lines are together never less than the block's."""
    total = Size()
    for line in lines:
        total = total.plus(Size.of(line))
    assert total == Size.of("".join(lines))
    assert estimate_tokens("".join(lines)) <= sum(map(estimate_tokens, lines))


def test_a_budget_names_the_limit_that_is_exceeded() -> None:
    """Both hold; without tokens, only characters count."""
    size = Size.of("one two three four")  # 18 characters, 6 tokens
    assert Budget(17, 6).exceeded_by(size) == "chars"
    assert Budget(18, 5).exceeded_by(size) == "tokens"
    assert Budget(18, 6).exceeded_by(size) is None
    assert Budget(18).exceeded_by(size) is None
    assert Budget(100, 10).share(0.5) == Budget(50, 5)
    assert Budget(100).share(0.5) == Budget(50)


def test_clip_cuts_at_a_space_with_a_mark() -> None:
    assert clip("a few words here", 100) == "a few words here"
    assert clip("a few words here", 15) == "a few words […]"
    assert clip("abcdefgh", 3) == "abc"
