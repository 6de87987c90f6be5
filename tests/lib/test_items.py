"""Addresses of items in a path, the text and the filter of their values, and the pair that an event has of one."""

from __future__ import annotations

import json
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from fusion.errors import BadInput
from fusion.lib.item_address import Address, escaped, joined, split, unescaped
from fusion.lib.items import STATED, Item, fits, item_in, same_value, tag_of, text_of

LABELS = st.lists(st.text(min_size=1), min_size=1, max_size=5)
VALUES = st.dictionaries(
    st.text(),
    st.recursive(st.none() | st.booleans() | st.integers() | st.text(), st.lists, max_leaves=5),
)


@given(LABELS, st.text(min_size=1))
def test_every_address_can_be_written_in_a_path(labels: list[str], key: str) -> None:
    written = joined(labels)
    assert split(written) == tuple(labels)
    assert "/" not in written
    assert unescaped(escaped(key)) == key
    assert not {"/", "."} & {*escaped(key)}


@given(LABELS, LABELS)
def test_a_namespace_begins_those_in_it_and_no_other(outer: list[str], inner: list[str]) -> None:
    assert tag_of([*outer, *inner]).startswith(f"{tag_of(outer)}/")
    assert tag_of(inner).startswith(f"{tag_of(outer)}/") == (inner[: len(outer)] == outer and len(inner) > len(outer))


@given(LABELS, st.text(min_size=1), VALUES)
def test_an_event_has_an_item_as_it_was_put(labels: list[str], key: str, value: dict[str, Any]) -> None:
    item = Item(Address(tuple(labels), key), json.dumps(value))
    assert item_in(item.stated) == item
    assert item.value == value
    assert text_of(value, key).strip() or not key.strip()


@pytest.mark.parametrize(
    "written",
    ["", "[]", '[["a"],"k"]\n[]', '[["a"],"k"]\n{', '[["a"],7]\n{}', '[[""],"k"]\n{}', '["a"]\n{}', "[" * 9999],
)
def test_what_no_put_wrote_is_no_item(written: str) -> None:
    assert item_in([(STATED, written)]) is None


@pytest.mark.parametrize(
    ("value", "text"),
    [
        ({"text": "likes dark"}, "likes dark"),
        ({"a": "x", "b": {"c": [1, True]}, "d": None, "e": " "}, "a: x\nb.c: 1\nb.c: true"),
        ({}, "key"),
    ],
)
def test_the_text_of_a_value_has_a_line_for_each_field(value: dict[str, Any], text: str) -> None:
    assert text_of(value, "key") == text


@pytest.mark.parametrize(
    ("wanted", "fit"),
    [
        ({}, True),
        ({"n": 1}, True),
        ({"n": True}, False),
        ({"n": {"$gte": 1, "$lt": 2}}, True),
        ({"n": {"$gt": "0"}}, False),
        ({"s": {"$gt": "a"}}, True),
        ({"s": {"$lt": 1}}, False),
        ({"none": {"$gt": 0}}, False),
        ({"none": {"$ne": 0}}, True),
        ({"o": {"a": 1}}, True),
        ({"o": {"a": {"$eq": 2}}}, False),
        ({"n": {"a": 1}}, False),
    ],
)
def test_a_filter_wants_fields_of_a_value(wanted: dict[str, Any], fit: bool) -> None:
    assert fits({"n": 1, "s": "b", "o": {"a": 1, "b": 2}}, wanted) is fit


def test_an_unknown_operator_is_named() -> None:
    with pytest.raises(BadInput, match=r"\$in.*\$eq, \$ne"):
        fits({"n": 1}, {"n": {"$in": [1]}})


def test_the_order_of_fields_makes_no_other_value() -> None:
    assert same_value('{"a":1,"b":2}', '{"b":2,"a":1}')
    assert not same_value('{"a":1}', '{"a":true}')
