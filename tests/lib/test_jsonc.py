"""Members of JSON texts with comments: what is edited, and that nothing else is."""

from __future__ import annotations

import json
import re
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from fusion.lib.jsonc import members_of, parse, with_member, without_member

COMMENTED = """\
// mine
{
  "servers": { // all of them
    "other": {"url": "http://x//y", "note": "a /* b */"}, /* the first */
  },
  "b": [1, 2,], // odd
}
"""
PATH = ["servers", "ours"]
ENTRY = {"command": "fusion", "args": ["mcp"]}
NAMES = st.text(st.characters(exclude_categories=["Cs"]), max_size=6)
VALUES = st.recursive(
    st.none() | st.booleans() | st.integers(-99, 99) | NAMES,
    lambda inner: st.lists(inner, max_size=3) | st.dictionaries(NAMES, inner, max_size=3),
    max_leaves=8,
)
OBJECTS = st.dictionaries(NAMES, VALUES, max_size=4)


def test_member_is_added_and_comments_stay() -> None:
    added = with_member(COMMENTED, PATH, ENTRY)
    assert parse(added) == {**parse(COMMENTED), "servers": {"ours": ENTRY, **parse(COMMENTED)["servers"]}}
    for comment in re.findall(r"// mine|// all of them|/\* the first \*/|// odd|a /\* b \*/", COMMENTED):
        assert comment in added
    assert parse(without_member(added, PATH)) == parse(COMMENTED)


@pytest.mark.parametrize(
    ("text", "written"),
    [
        ("", '{\n  "servers": {\n    "ours": 1\n  }\n}\n'),
        ("{}", '{\n  "servers": {\n    "ours": 1\n  }\n}'),
        ('{"a": 1}', '{\n  "servers": {\n    "ours": 1\n  },\n  "a": 1}'),
        ('{\n\t"servers": {}\n}\n', None),
    ],
)
def test_member_is_added_to_any_object(text: str, written: str | None) -> None:
    added = with_member(text, PATH, 1)
    assert members_of(parse(added), PATH) == 1
    assert written is None or added == written


@pytest.mark.parametrize("text", ["[1]", "{", '{"a": 1} x', '{"a": 1 "b": 2}', "nonsense", '{"servers": 3}'])
def test_damaged_text_is_refused(text: str) -> None:
    with pytest.raises(ValueError, match=r"."):
        with_member(text, PATH, 1)


@given(OBJECTS, st.lists(NAMES, min_size=1, max_size=3), VALUES, st.sampled_from([None, 1, 4]), st.booleans())
def test_only_the_member_changes(
    before: dict[str, Any], path: list[str], value: Any, indent: int | None, comments: bool
) -> None:
    """However the text is laid out: with it the others are as before, and without it all is."""
    text = json.dumps(before, indent=indent)
    if comments:
        text = text.replace("\n", " // {x\n").replace("{\n", "{ /* } */\n") if indent else f"/* {{ */{text}"
    inside = before
    for name in path[:-1]:
        inside = inside.get(name, {}) if isinstance(inside, dict) else inside
        if not isinstance(inside, dict):
            with pytest.raises(ValueError, match="no object"):
                with_member(text, path, value)
            return
    added = with_member(text, path, value)
    assert members_of(parse(added), path) == value
    expected = json.loads(json.dumps(before))
    place = expected
    for name in path[:-1]:
        place = place.setdefault(name, {})
    place[path[-1]] = value
    assert parse(added) == expected
    removed = parse(without_member(added, path))
    place.pop(path[-1])
    assert removed == expected
