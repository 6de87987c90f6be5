"""OpenClaw's annotations: what counts, where, and what does not fit."""

from __future__ import annotations

import pytest
from hypothesis import given
from hypothesis import strategies as st

from fusion.lib.annotations import NONE, Annotations, annotations_of
from fusion.lib.stated_fields import annotated

ENTRIES = """\
- Keep the gateway on loopback. <!-- trigger: gateway setup, network safety --> <!-- importance: 9 -->
- Chains come from Kedjan. <!--TRIGGER:suppliers; orders--><!-- importance: 4 -->
- Use the release helper. <!-- project: github.com/openclaw/openclaw -->
"""


def test_annotations_of_a_curated_file_all_count() -> None:
    """As OpenClaw reads them of one chunk: the highest importance, all triggers, all projects."""
    found = annotations_of(ENTRIES, curated=True)
    assert found == Annotations(
        9, ("gateway setup", "network safety", "suppliers", "orders"), ("github.com/openclaw/openclaw",)
    )
    assert annotated(found) == (
        ("project", "openclaw"),
        ("importance", "0.9"),
        *(("tag", trigger) for trigger in found.triggers),
    )


def test_other_files_have_projects_alone() -> None:
    """What is not curated cannot make itself important."""
    assert annotations_of(ENTRIES, curated=False) == Annotations(projects=("github.com/openclaw/openclaw",))


@pytest.mark.parametrize(
    "line",
    [
        "<!-- importance: 9 --> before the text",
        "- entry <!-- importance: 0 -->",
        "- entry <!-- importance: 11 -->",
        "- entry <!-- importance: high -->",
        "- entry <!-- importance: 5",
        "- entry <!-- trigger: , ; -->",
        "- entry <!-- project: <b> -->",
        "- entry <!-- other: 9 -->",
    ],
)
def test_what_does_not_fit_counts_as_not_annotated(line: str) -> None:
    assert annotations_of(line, curated=True) == NONE


@pytest.mark.parametrize(
    ("keys", "project"),
    [("path:/home/ada/hjul", "hjul"), ("hjul", "hjul"), ("github.com/a/b; github.com/a/c", None), ("a/", "a")],
)
def test_project_is_the_last_part_of_the_only_key(keys: str, project: str | None) -> None:
    """Projects of the gateway are called as their folders; an entry of several belongs to none."""
    assert annotations_of(f"- entry <!-- project: {keys} -->", curated=False).project == project


@given(st.text(st.sampled_from("<!->: triggeimpotanc19;,\n"), max_size=200))
def test_any_text_is_read(text: str) -> None:
    """What is stated is in range, whatever the text."""
    found = annotations_of(text, curated=True)
    assert found.importance is None or 1 <= found.importance <= 10
    assert all(value for _, value in annotated(found))
