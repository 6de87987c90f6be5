"""Pages of a document: each line once, under its number, and nothing that must not be shown."""

from __future__ import annotations

from collections.abc import Mapping, Sequence

import pytest
from hypothesis import given
from hypothesis import strategies as st

from fusion.contract import Place
from fusion.recall.document import MAX_CHARS, lines_of_file, lines_of_memories, page

KEY = "-----BEGIN PRIVATE KEY-----\nMIIE\nabcd\n-----END PRIVATE KEY-----"


def nothing(lines: Sequence[str]) -> Mapping[int, str]:
    return {}


def about_kedjan(lines: Sequence[str]) -> Mapping[int, str]:
    return {number: "" for number, line in enumerate(lines, start=1) if "Kedjan" in line}


@given(
    st.lists(st.text(st.characters(codec="utf-8", exclude_characters="\r\n"), max_size=30), min_size=1, max_size=40),
    st.integers(1, 12),
)
def test_pages_together_are_the_document(lines: list[str], count: int) -> None:
    """From page to page by `next_from`: every line once, in order, at most ``count`` at a time."""
    known = dict(enumerate(lines, start=1))
    read: list[str] = []
    start: int | None = 1
    while start is not None:
        found = page("d", "line", known, start, count)
        assert found["from"] == start == len(read) + 1
        assert 1 <= found["lines"] <= count
        assert found["truncated"] == (found["next_from"] is not None)
        read += found["text"].split("\n")
        start = found["next_from"]
    assert read == lines


def test_a_page_has_a_bound_in_characters() -> None:
    """Lines of half a page: 10,000 + 1 + 10,000 is over 20,000, so one a page; a longer line is cut, and marked."""
    half = "x" * (MAX_CHARS // 2)
    found = page("d", "line", {1: half, 2: half + "x", 3: "end"}, 1, 100)
    assert (found["lines"], found["next_from"]) == (1, 2)
    long = page("d", "line", {1: "y" * 3 * MAX_CHARS, 2: "end"}, 1, 100)
    assert (len(long["text"]), long["text"][-3:], long["next_from"]) == (MAX_CHARS, "[…]", 2)


def test_page_after_the_end_is_empty() -> None:
    """Nothing is left, and nothing follows."""
    found = page("d", "line", {1: "only"}, 7, 10)
    assert (found["text"], found["from"], found["lines"], found["next_from"]) == ("", 7, 0, None)


def test_turns_are_counted_as_they_are_numbered() -> None:
    """Turns 3, 5 and 9: two from 4 on are 5 and 9, with nothing between them; blank lines are only between lines."""
    known = {3: "a", 5: "b\nc", 9: "d"}
    found = page("s", "turn", known, 4, 2)
    assert (found["text"], found["from"], found["lines"], found["next_from"]) == ("b\nc\nd", 5, 2, None)
    assert page("s", "turn", known, 1, 1)["next_from"] == 5
    assert page("s", "line", {3: "a", 5: "b"}, 3, 3)["text"] == "a\n\nb"


def test_the_first_page_has_the_turn_at_position_0() -> None:
    """Sources count from 0 or from 1; a page that starts at 1, as the first one does, has both."""
    found = page("s", "turn", {0: "zero", 1: "one", 2: "two"}, 1, 2)
    assert (found["text"], found["from"], found["next_from"]) == ("zero\none", 0, 2)
    assert page("s", "turn", {1: "one", 2: "two"}, 1, 1)["text"] == "one"
    assert page("s", "turn", {0: "zero", 2: "two"}, 2, 1)["text"] == "two"


def test_a_far_line_costs_nothing() -> None:
    """A memory may have the line 2^53: the page there has it, and the lines before it are not built."""
    assert page("s", "line", {2**53: "far"}, 1, 10)["lines"] == 10
    assert page("s", "line", {2**53: "far"}, 2**53, 10)["text"] == "far"


def test_of_a_document_only_what_was_forgotten_is_blank() -> None:
    """Line 3 was forgotten; the other lines are shown, and all keep their numbers."""
    text = "# Chains\n\nThe chains come from Kedjan.\n\nThey are dear.\n\n# Locks\n\nLocks come from Hjulhuset.\n"
    lines = lines_of_file(text, about_kedjan)
    assert [n for n, line in lines.items() if line] == [1, 5, 7, 9]
    assert lines[9] == "Locks come from Hjulhuset."


def test_a_secret_that_is_forgotten_in_part_is_not_shown_in_part() -> None:
    """A line that is masked is blank where something of it was forgotten: what is left may be no secret by itself."""
    lines = lines_of_file(f"before\n{KEY}\nafter", lambda lines: {2: "-----", 3: "MI"})
    assert [line for line in lines.values() if line] == ["before", "after"]


def test_secrets_are_masked_and_lines_keep_their_numbers() -> None:
    """A key of four lines leaves its first, masked, and three blank ones; CRLF counts as one line end."""
    lines = lines_of_file(f"before\r\n{KEY}\r\npassword: hunter2!x\r\nafter", nothing)
    assert lines[1] == "before"
    assert [lines[n] for n in range(2, 6)] == ["***", "", "", ""]
    assert "hunter2" not in lines[6]
    assert lines[7] == "after"


@pytest.mark.feature(
    "… with secrets masked, also on a page that begins inside one", of="a document is read by the name"
)
def test_a_key_is_masked_on_a_page_that_begins_inside_it() -> None:
    """Lines 3 and 4 alone do not look like a key; they are blank all the same."""
    found = page("d", "line", lines_of_file(f"before\n{KEY}\nafter", nothing), 3, 2)
    assert found["text"].strip() == ""


def test_memories_are_laid_at_their_lines() -> None:
    """Lines 3 to 4, then 4 to 5 of a chunk that repeats one: the later one wins; a turn is one entry."""
    places = [(Place("f", 3, 4, "line"), "a\nb"), (Place("f", 4, 5, "line"), "b2\nc")]
    assert lines_of_memories(places) == {3: "a", 4: "b2", 5: "c"}
    assert lines_of_memories([(Place("s", 2, 2), "x\ny"), (Place("s", 1, 1), "w")]) == {1: "w", 2: "x\ny"}
