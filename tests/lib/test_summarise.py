"""Summaries of sections by rules: a sentence of the section, chosen by the words that it repeats."""

from __future__ import annotations

import pytest
from hypothesis import given
from hypothesis import strategies as st

from fusion.lib.summarise import MAX_SUMMARY_CHARS, Section, sections, summary

NOTE = """---
title: Database
status: decided
---
# Bookings

The bookings database moves to Postgres in April. SQLite stays for tests.

## Backup

- [x] Backups of the bookings database run every night at two.
- Ana checks them.

## Empty

```
select 1
```
"""


@pytest.mark.row("A050", "a section's summary by rules is its most central sentence, outside of markup")
def test_summary_is_the_most_central_sentence() -> None:
    found = sections(NOTE)
    assert [(one.headings, one.start, one.end) for one in found] == [
        (("Bookings",), 1, 7),
        (("Bookings", "Backup"), 9, 12),
        (("Bookings", "Empty"), 14, 18),
    ]
    assert [summary(one) for one in found] == [
        "The bookings database moves to Postgres in April.",
        "Backups of the bookings database run every night at two.",
        "select 1",
    ]


def test_section_of_several_chunks_is_one() -> None:
    """A long section is chunked for search; its summary is one all the same."""
    text = "# Log\n\n" + "\n\n".join(f"Entry {n} says that the harbour crane was oiled." for n in range(200))
    [one] = sections(text)
    assert (one.start, one.end) == (1, text.count("\n") + 1)
    assert "crane" in summary(one)


def test_text_without_words_has_no_summary() -> None:
    assert sections("\n\n") == []
    assert summary(Section((), 1, 2, "---\n***")) == ""


@given(st.text(max_size=400))
def test_summary_is_one_short_line(text: str) -> None:
    """Whatever the text is, in its order and without overlap."""
    found = sections(text)
    assert [one.start for one in found] == sorted(one.start for one in found)
    for one in found:
        line = summary(one)
        assert "\n" not in line
        assert len(line) <= MAX_SUMMARY_CHARS
