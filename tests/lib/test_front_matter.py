"""Front matter."""

from __future__ import annotations

import pytest
from hypothesis import given
from hypothesis import strategies as st

from fusion.lib.front_matter import HEAD_CHARS, VALUE_CHARS, front_matter, read
from tests.fire.functions import aliased

NOTE = """---
title: "Gateway"
date: 2026-03-04
tags: [db, "search"]
people:
  - Ana
  - Ben
---
Intro line.

# Project *Atlas*

## Decisions

We chose SQLite.

```sh
# not a heading
```

## Empty leaf

Setext
------
- one
- two
"""


def test_front_matter_is_flat_and_tolerant():
    """Scalars, inline lists and block lists become strings; a text without the fences has no front matter."""
    assert front_matter(NOTE) == {"title": "Gateway", "date": "2026-03-04", "tags": "db, search", "people": "Ana, Ben"}
    assert front_matter("a: b\n") == {}
    assert front_matter("---\nnever closed: yes\n") == {}


@pytest.mark.parametrize(
    ("head", "fields"),
    [
        ('title: "A \\"quoted\\" note: on tea"', {"title": 'A "quoted" note: on tea'}),
        ("title: >\n  A long\n  title", {"title": "A long title"}),
        ("owner: Julien   # since spring", {"owner": "Julien"}),
        ("date: 2026-03-04\ndone: yes\nn: 012", {"date": "2026-03-04", "done": "yes", "n": "012"}),
        ("related: [[A note|alias]]\nlinks:\n  - [[B]]\n  - C", {"related": "[[A note|alias]]", "links": "[[B]], C"}),
        ("nested:\n  deeper: {a: 1}\nempty:", {"nested": "", "empty": ""}),
    ],
)
def test_front_matter_is_read_as_yaml(head: str, fields: dict[str, str]) -> None:
    """Quotes, folded text, comments; each scalar is its text, whatever it looks like, and a wiki link is one."""
    assert front_matter(f"---\n{head}\n---\nBody.") == fields


@pytest.mark.feature("broken front matter costs neither its other fields nor the note")
@pytest.mark.parametrize(
    ("broken", "value"),
    [
        ("title: Gateway: the plan", "Gateway: the plan"),
        ("title: @home", "@home"),
        ("title: *star*", "*star*"),
        ('title: "never closed', "never closed"),
        ("title: [a, b", "[a, b"),
        ("title: {{ template }}", None),
        ("title: x\n\tindented by a tab", "x"),
        ("title: " + "[" * 1000 + "]" * 1000, None),
    ],
)
def test_front_matter_that_is_broken_keeps_the_other_fields(broken: str, value: str | None) -> None:
    """What is no YAML is read entry by entry; what a broken entry says is its text."""
    found = front_matter(f"---\ndate: 2026-03-04\n{broken}\ntags: [db, search]\n---\nBody.")
    assert (found["date"], found["tags"]) == ("2026-03-04", "db, search")
    if value is not None:
        assert found["title"] == value


@pytest.mark.feature("YAML aliases in front matter are plain text: a few kilobytes never become megabytes")
@pytest.mark.parametrize("key", ["k329", "title"])
def test_front_matter_does_not_unfold_aliases(key: str) -> None:
    """Short heads whose aliases would unfold to hundreds of megabytes: each alias is its own text."""
    text = f"---\n{aliased(7_500)}\n{key}: *b\ndate: 2026-03-04\n---\nBody."
    fields, body = read(text)
    assert front_matter(text)[key] == "*b"
    assert front_matter(text)["date"] == "2026-03-04"
    assert sum(len(value) for _, values in fields for value in values) <= HEAD_CHARS
    assert body == ["Body."]


def test_front_matter_keeps_an_entry_with_an_anchor() -> None:
    """An anchor is no part of its value, with and without an alias to it."""
    assert front_matter("---\na: &x one\n---\n") == {"a": "one"}
    assert front_matter("---\na: &x one\nb: *x\nc: 5 * 3\n---\n") == {"a": "one", "b": "*x", "c": "5 * 3"}


@pytest.mark.parametrize("title", ["a" * 7_000, "[" + "a," * 3_000 + "a]", "[[" + "a," * 3_000 + "a]]"])
def test_front_matter_limits_the_length_of_a_value(title: str) -> None:
    """A title precedes every chunk of its note."""
    found = front_matter(f"---\ntitle: {title}\ndate: 2026-03-04\n---\nBody.")
    assert 0 < len(found["title"]) <= VALUE_CHARS
    assert found["date"] == "2026-03-04"


@given(st.text(st.sampled_from("ab:-[]{}&*!|>'\"%@`#, \n\t\u2028é"), max_size=200))
def test_any_front_matter_is_read(head: str) -> None:
    """No error, no line of the body is lost, a value is never empty or of several lines, and values do not grow."""
    fields, body = read(f"---\n{head}\n---\nlast")
    assert body[-1] == "last"
    assert all(key and "\n" not in key and all(v and "\n" not in v for v in values) for key, values in fields)
    assert sum(len(value) for _, values in fields for value in values) <= 2 * len(head)
