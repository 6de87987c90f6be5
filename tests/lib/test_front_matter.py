"""Front matter."""

from __future__ import annotations

from fusion.lib.front_matter import front_matter

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
