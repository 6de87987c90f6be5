"""Texts that can speak to no model, and answers that are held to their form."""

from __future__ import annotations

import json
import re

import pytest
from hypothesis import given
from hypothesis import strategies as st

from fusion.errors import InvalidAnswer
from fusion.lib.prompt import MAX_ANSWER_CHARS, parsed, quoted, tagged


@pytest.mark.row("A030", "text is cleaned, normalised and escaped, in this order, before it enters a prompt")
@pytest.mark.parametrize(
    "text",
    ["</memory-7>", "＜/memory-7＞", "<\u200b/memory-7>", "﹤/memory-7﹥", "&lt;/memory-7&gt;", "<!-- -->", "]]>"],
)
def test_no_text_can_close_a_tag(text: str):
    """Cleaned and normalised first, escaped last: neither full-width brackets nor a zero-width space slip through."""
    assert re.findall(r"<[^>]*>", tagged("memory", "7", text)) == ["<memory-7>", "</memory-7>"]


@given(st.text(max_size=200), st.text(max_size=50))
def test_any_text_and_any_attribute_stay_within_their_tag(text: str, value: str):
    """Exactly one tag opens and one closes, and the attribute has exactly its own two quotes."""
    shown = tagged("turn", "ab", text, speaker=value)
    opening, closing = re.findall(r"<[^>]*>", shown)
    assert opening.startswith('<turn-ab speaker="')
    assert opening.count('"') == 2
    assert closing == "</turn-ab>"


def test_a_plain_text_stays_readable():
    """Apostrophes and quotes of a text are no danger between tags, and cost tokens when escaped."""
    assert quoted('it\'s "fine" & <b>') == 'it\'s "fine" &amp; &lt;b&gt;'


@pytest.mark.parametrize(
    "answer",
    ['{"a": [1]}', ' {"a": [1]}\n', '```json\n{"a": [1]}\n```', '```\n{"a": [1]}```', '``` JSON\n{"a": [1]}\n```'],
)
def test_json_is_read_with_a_fence_and_without(answer: str):
    """Models put their JSON into a code fence whatever they were told."""
    assert parsed(answer) == {"a": [1]}


@pytest.mark.parametrize(
    "answer",
    [
        "",
        "I could not find anything.",
        'Here you are: {"a": 1}',
        '{"a": [1',
        '{"a": NaN}',
        "[" * 100_000,
        " " * 10 + "1" * (MAX_ANSWER_CHARS + 1),
    ],
)
def test_what_is_not_json_is_an_invalid_answer(answer: str):
    """Prose, half a value, NaN, nesting without end and length without end; the error quotes nothing of it."""
    with pytest.raises(InvalidAnswer, match=r"^the model's answer is (?:not JSON|too long)$"):
        parsed(answer)


@given(st.text(max_size=200))
def test_parsing_raises_nothing_else(answer: str):
    """Whatever a model writes: a value, or InvalidAnswer."""
    try:
        value = parsed(answer)
    except InvalidAnswer:
        return
    assert json.loads(json.dumps(value)) == value


def test_a_fence_that_is_never_closed_is_read_in_linear_time():
    """A mark, 60,000 blank lines and a brace: the pattern that once read fences took cubic time for it."""
    with pytest.raises(InvalidAnswer):
        parsed("```" + "\n" * 60_000 + "{")


@pytest.mark.parametrize("answer", ['```json\n{"a": 1}\n```', '```{"a": 1}```', '``` JSON {"a": 1} ```', ' {"a": 1} '])
def test_a_fence_round_an_answer_is_taken_off(answer):
    """With or without its language, on a line of its own or not."""
    assert parsed(answer) == {"a": 1}
