"""Markdown cut into sections."""

from __future__ import annotations

from hypothesis import given
from hypothesis import strategies as st

from fusion.lib.sections import front_matter, sections

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


def test_sections_follow_headings_and_carry_their_lines():
    """A section is the lines under one heading; a `#` in a fence is no heading; an underlined line is one."""
    found = sections(NOTE)
    assert [(s.heading, s.start, s.end) for s in found] == [
        ((), 9, 9),
        (("Project Atlas", "Decisions"), 13, 19),
        (("Project Atlas", "Empty leaf"), 21, 21),
        (("Project Atlas", "Setext"), 23, 26),
    ]
    lines = NOTE.split("\n")
    for section in found:
        assert section.text == "\n".join(lines[section.start - 1 : section.end])


def test_front_matter_is_flat_and_tolerant():
    """Scalars, inline lists and block lists become strings; a text without the fences has no front matter."""
    assert front_matter(NOTE) == {"title": "Gateway", "date": "2026-03-04", "tags": "db, search", "people": "Ana, Ben"}
    assert front_matter("a: b\n") == {}
    assert front_matter("---\nnever closed: yes\n") == {}


def test_a_long_section_is_cut_where_a_block_ends():
    """Three paragraphs of 40 in 90: two fit below the title (3 + 2 + 40 + 2 + 40), the third is alone."""
    text = "# T\n\n" + "\n\n".join(letter * 40 for letter in "abc")
    found = sections(text, max_chars=90)
    assert [(s.start, s.end) for s in found] == [(1, 5), (7, 7)]
    assert all(s.heading == ("T",) for s in found)


def test_overlap_repeats_lines_of_the_piece_before():
    """Three lines of 6 fit into 20 (6 + 1 + 6 + 1 + 6); each next piece begins with the last line before it."""
    found = sections("\n".join(f"line {n}" for n in range(6)), max_chars=20, overlap_lines=1)
    assert [(s.start, s.end) for s in found] == [(1, 3), (3, 5), (5, 6)]


def test_a_line_longer_than_a_section_is_cut_at_blanks():
    """One line of 50 words of 9 characters makes several sections of the same line; no word is lost."""
    line = " ".join(["wordwords"] * 50)
    found = sections(line, max_chars=100)
    assert {(s.start, s.end) for s in found} == {(1, 1)}
    assert " ".join(s.text for s in found) == line


@given(
    st.text(alphabet="ab# \n`-*>\r1.=", max_size=300),
    st.integers(1, 60),
    st.integers(0, 3),
)
def test_every_line_with_text_is_in_a_section(text, max_chars, overlap):
    """Whatever the text: no section over the limit, lines in order, and every word outside bare headings is kept."""
    found = sections(text, max_chars, overlap)
    lines = text.replace("\r\n", "\n").replace("\r", "\n").split("\n")
    assert all(len(s.text) <= max_chars for s in found)
    assert all(s.text.strip() for s in found)
    assert [s.start for s in found] == sorted(s.start for s in found)
    covered = {n for s in found for n in range(s.start, s.end + 1)}
    for number, line in enumerate(lines, start=1):
        if "a" in line and number not in covered:
            # Only a heading (its line, or the text above its underline) may stand in `heading` alone.
            assert line.lstrip(" ").startswith("#") or {"=", "-"} & set("".join(lines[number : number + 3]))
