"""What notes are about: real headings of the sections that say most, in any language and any number."""

from __future__ import annotations

import os
from pathlib import Path

import pytest
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st

from fusion.discover import Find, Topic, topics
from fusion.discover.topics import FILES, SECONDS

TEXT = "Mara and Nadia looked at it for two days, and decided on 3 March 2026 to keep it, because the other one rusts."


def found(folder: Path, **how: object) -> list[Topic]:
    return topics([Find("notes", folder, (folder,), 1, 1)], **how)  # type: ignore[arg-type]


def titles(folder: Path) -> list[str]:
    return [topic.title for topic in found(folder)]


def written(folder: Path, **notes: str) -> Path:
    for name, text in notes.items():
        (folder / f"{name}.md").write_text(text, encoding="utf-8")
    return folder


@pytest.mark.feature(
    "… its first question uses real headings of the richest notes: no tags, no comments in code, no front matter",
    of="`fusion init` goes from nothing",
)
def test_only_headings_are_topics(tmp_path: Path) -> None:
    """No tag, no comment in code, nothing of the front matter."""
    note = f"""---
title: Front matter
# a comment in front matter
---
#tagged #bike

```sh
# remove everything
rm -rf build
```

## The cargo bike

{TEXT}

    # indented code too

Of two lines
============

{TEXT}
"""
    assert set(titles(written(tmp_path, a=note))) == {"The cargo bike", "Of two lines"}


def test_boilerplate_headings_are_no_topics(tmp_path: Path) -> None:
    """Table of contents, README, templates and days come after everything else, and their usual headings not at all."""
    (tmp_path / "templates").mkdir()
    written(tmp_path / "templates", meeting=f"# Weekly meeting form\n{TEXT}\n")
    notes = {
        "README": f"# Getting started\n{TEXT}\n",
        "index": "# Map of my house\n- [[Kitchen]]\n- [[Garden]]\n- [[Cellar]]\n",
        "2026-03-01": f"# 2026-03-01\n## Tasks\n{TEXT}\n## Notes\n{TEXT}\n",
        "bike": f"# The cargo bike\n{TEXT}\n## TODO\n{TEXT}\n",
    }
    assert titles(written(tmp_path, **notes))[0] == "The cargo bike"
    assert not {"Getting started", "Tasks", "Notes", "TODO", "2026-03-01", "Map of my house"} & set(
        titles(tmp_path)[1:2]
    )
    assert not {"Tasks", "Notes", "TODO", "2026-03-01", "Getting started"} & set(titles(tmp_path))


def test_a_heading_that_many_files_have_is_no_topic(tmp_path: Path) -> None:
    """Part of a form, in whichever language."""
    for number in range(4):
        written(tmp_path, **{f"tag{number}": f"# Besuch {'abcd'[number]}\n\n## Wer dabei war\n\n{TEXT}\n"})
    assert not [title for title in titles(tmp_path) if "Wer dabei war" in title]


def test_topics_are_ordered_by_weight(tmp_path: Path) -> None:
    """A decision with names and a date before a line of prose, each file once before any has a second."""
    notes = {
        "long": f"# Where we live\n{TEXT}\n\n# What we eat\n{TEXT} {TEXT}\n",
        "short": "# A thing to keep\nIt stands in the cellar behind the shelf.\n",
    }
    said = found(written(tmp_path, **notes))
    assert [topic.title for topic in said] == ["What we eat", "A thing to keep", "Where we live"]
    assert [topic.question for topic in said[:2]] == [
        'what was decided about "What we eat"?',
        'what do my notes say about "A thing to keep"?',
    ]


@pytest.mark.parametrize(
    ("heading", "question"),
    [
        ("数据库的决定", "数据库的决定"),
        ("Почему Postgres", "Почему Postgres"),
        ("מסד הנתונים", "מסד הנתונים"),
        ("Garden", "Garden"),
        ("🐝 Bees and hives 🍯", 'what was decided about "Bees and hives"?'),
        ("Why did we move?", "Why did we move?"),
        ("[[Mara Lindqvist|Mara]] and `spindle`", 'what was decided about "Mara and spindle"?'),
    ],
)
def test_a_heading_of_any_kind_becomes_a_question(tmp_path: Path, heading: str, question: str) -> None:
    """Other scripts, one word, emoji, links, and what is a question already."""
    assert [topic.question for topic in found(written(tmp_path, x=f"# {heading}\n\n{TEXT}\n"))] == [question]


@pytest.mark.parametrize("heading", ["2026", "12.5", "🍯", "...", "---", "2026-03-01", "2026-W10", "the", "x" * 200])
def test_a_heading_that_names_nothing_gives_way_to_the_files_name(tmp_path: Path, heading: str) -> None:
    """Numbers, pictures, days."""
    assert titles(written(tmp_path, cargo_bike=f"# {heading}\n\n{TEXT}\n")) == ["cargo bike"]


def test_empty_notes_have_no_topics(tmp_path: Path) -> None:
    """Nor has a folder without any."""
    assert found(tmp_path) == []
    assert found(written(tmp_path, a="", b="\n\n", c="---\n---\n")) == []


@pytest.mark.feature(
    "… its first question works for headings in any language, of one word, with emoji, among 10,000 "
    "notes in bounded time",
    of="`fusion init` goes from nothing",
)
def test_ten_thousand_notes_are_not_all_read(tmp_path: Path) -> None:
    """A bounded number of files, and none after the time that there is."""
    for number in range(10_000):
        descriptor = os.open(tmp_path / f"note {number}.md", os.O_WRONLY | os.O_CREAT)
        if number % 100 == 0:
            os.write(descriptor, f"# Topic of number {number}\n\n{TEXT}\n".encode())
        os.close(descriptor)
    looked: list[float] = []

    def clock(step: float = 0.0) -> float:
        looked.append(step)
        return len(looked) * step

    assert len(found(tmp_path, clock=clock)) > FILES / 4
    assert len(looked) <= FILES + 1
    looked.clear()
    assert len(found(tmp_path, clock=lambda: clock(SECONDS / 4))) <= 4


@settings(max_examples=60, suppress_health_check=[HealthCheck.function_scoped_fixture])
@given(text=st.text(max_size=600))
def test_any_text_is_a_note(tmp_path: Path, text: str) -> None:
    """Every title is a printable line with letters in it, and every question can be asked."""
    (tmp_path / "note.md").write_text(text, encoding="utf-8", errors="ignore")
    for topic in found(tmp_path):
        assert topic.title.isprintable()
        assert any(character.isalpha() for character in topic.title)
        assert 0 < len(topic.question) < 200
