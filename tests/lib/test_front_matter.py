"""Front matter."""

from __future__ import annotations

import pytest
from hypothesis import given
from hypothesis import strategies as st

from fusion.lib.front_matter import front_matter, read

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


@pytest.mark.feature("a broken head of a note costs neither its other fields nor the note")
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


@given(st.text(st.sampled_from("ab:-[]{}&*!|>'\"%@`#, \n\t\u2028é"), max_size=200))
def test_any_front_matter_is_read(head: str) -> None:
    """No error, no line of the body is lost, and a value is never empty or of several lines."""
    fields, body = read(f"---\n{head}\n---\nlast")
    assert body[-1] == "last"
    assert all(key and "\n" not in key and all(v and "\n" not in v for v in values) for key, values in fields)
