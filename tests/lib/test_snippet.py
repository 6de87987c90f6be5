"""What is shown of a long text: whole lines, those that the question is about."""

from __future__ import annotations

from hypothesis import given
from hypothesis import strategies as st

from fusion.lib.snippet import SNIPPET_CHARS, Snippet, snippet


def test_a_text_that_fits_is_given_as_it_is() -> None:
    """Line ends and all."""
    assert snippet("one\n\ntwo\n", "two") == Snippet("one\n\ntwo\n", 0, 3)


def test_the_lines_with_most_of_the_questions_words() -> None:
    """Ten characters a line and a line end, 25 for all: two lines. "red cat" is on line 3, "cats" alone on line 0."""
    lines = ["cats sleep", "a blue dog", "tall trees", "my red cat", "the end is"]
    assert snippet("\n".join(lines), "the red cats?", 25) == Snippet("tall trees\nmy red cat", 2, 3)


def test_a_long_line_is_cut_at_a_blank_and_says_so() -> None:
    """Never within a word where a blank is near."""
    shown = snippet("word " * 400, "word").text
    assert shown.endswith("word […]")
    assert len(shown) <= SNIPPET_CHARS


@given(
    st.lists(st.text("ab 猫\u0301é", max_size=30), max_size=12).map("\n".join), st.text(max_size=5), st.integers(8, 60)
)
def test_it_is_short_and_says_where_it_stands(text: str, question: str, limit: int) -> None:
    """At most the limit; unless it had to be cut, just the lines that it names."""
    shown = snippet(text, question, limit)
    assert len(shown.text) <= limit
    whole = "\n".join(text.split("\n")[shown.start : shown.end + 1])
    assert shown.text == whole or shown.start == shown.end
