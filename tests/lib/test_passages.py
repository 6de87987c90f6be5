"""`fusion.lib.passages`: a long text is cut where its writer cut it, and nothing of it is lost."""

from __future__ import annotations

import itertools

import pytest
from hypothesis import given
from hypothesis import strategies as st

from fusion.lib import passages as lib
from fusion.lib.passages import PASSAGE_CHARS, SAID_CHARS, WRITTEN_CHARS, Span, is_long

SENTENCE = "The pump of the reef tank was replaced in March because it hummed. "
PARAGRAPH = SENTENCE * 5


def passages(text: str) -> tuple[Span, ...]:
    """The passages of what Ada said."""
    return lib.passages(text, "Ada")


def passage_texts(text: str) -> list[str]:
    return lib.passage_texts(text, "Ada")


def test_what_was_written_stays_whole_for_longer_than_what_was_said():
    said, written = "x" * SAID_CHARS, "x" * WRITTEN_CHARS
    assert [is_long(said, "Ada"), is_long(said + "x", "Ada")] == [False, True]
    assert [is_long(written, None), is_long(written + "x", None)] == [False, True]
    assert lib.spoken_passages(written, None) == (written,)
    first, second = lib.spoken_passages(SENTENCE * 10, "Ada")
    assert first.startswith("Ada: The pump")
    assert second.startswith("Ada: The pump")


def test_a_short_text_is_one_passage():
    text = "One.\n\nTwo.\n"
    assert passage_texts(text) == ["One.\n\nTwo."]


@pytest.mark.parametrize("text", ["", "   \n"])
def test_an_empty_text_has_no_passages(text):
    assert passages(text) == ()


def test_a_long_text_is_cut_at_paragraphs_and_items():
    text = f"{PARAGRAPH}\n\n- {PARAGRAPH}\n- {PARAGRAPH}"
    assert passage_texts(text) == [PARAGRAPH.strip(), f"- {PARAGRAPH.strip()}", f"- {PARAGRAPH.strip()}"]


def test_short_items_stay_together_up_to_the_size_of_a_passage():
    items = [f"- item {n}: {SENTENCE.strip()}" for n in range(20)]
    found = passage_texts("\n".join(items))
    assert "\n".join(found) == "\n".join(items)
    # An item has 76 to 77 characters and its line end: five of them are 389, six 467.
    assert [part.count("- item") for part in found] == [5, 5, 5, 5]


def test_a_heading_and_a_line_with_a_colon_stay_with_what_follows():
    text = f"{PARAGRAPH}\n\n## Pump\n\nIt was replaced:\n\n- {PARAGRAPH}\n- {PARAGRAPH}"
    assert passage_texts(text)[1].startswith("## Pump\n\nIt was replaced:\n\n- The pump")


def test_a_long_paragraph_is_cut_between_sentences():
    found = passage_texts(SENTENCE * 30)
    assert len(found) == 5
    assert all(part.endswith("hummed.") and len(part) <= PASSAGE_CHARS for part in found)


def test_code_stays_whole_and_is_cut_between_lines_if_it_is_long():
    code = "```python\n" + "value = compute(1, 2, 3)\n" * 10 + "```"
    assert code in passage_texts(f"{PARAGRAPH}\n{code}\n\n{PARAGRAPH}")
    lines = "value = compute(1, 2, 3)\n" * 60
    assert all("\n" not in part[-1:] and part.endswith((")", "```")) for part in passage_texts(f"```\n{lines}```"))


def test_a_text_without_spaces_is_cut_all_the_same():
    assert [len(part) for part in passage_texts("x" * 2000)] == [450, 450, 450, 650]


pieces = st.sampled_from(
    [
        SENTENCE,
        PARAGRAPH,
        "\n",
        "\n\n",
        "- an item\n",
        "# Head\n",
        "So:\n",
        "```\n",
        "~~~",
        " ",
        "x" * 900,
        "。",
        "é\u2028ü",
        "\r\n",
    ]
)


@given(st.lists(pieces, max_size=40).map("".join))
def test_every_character_is_in_exactly_one_passage(text):
    found = passages(text)
    assert all(a.end <= b.start for a, b in itertools.pairwise(found))
    assert "".join("".join(text[s:e].split()) for s, e in found) == "".join(text.split())
    if len(text) <= SAID_CHARS:
        assert len(found) <= 1
    assert all(text[s:e] == text[s:e].strip() for s, e in found)
