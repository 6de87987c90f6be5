"""Pages of Markdown: names that are safe in a path, one page a subject, the same for the same facts."""

from __future__ import annotations

from itertools import permutations

import pytest
from hypothesis import given
from hypothesis import strategies as st

from fusion.lib.graph_pages import PageFact, pages_of, stem_of


def fact(subject: str, object_: str = "x", *, current: bool = True) -> PageFact:
    return PageFact(f"entity:{subject}", subject, "uses", object_, "2026-03-01", None, "active", ("obs:m1",), current)


@pytest.mark.parametrize("subject", ["entity:../../etc/passwd", "entity:a/b", "entity:index", "entity:.", "entity:c:d"])
def test_no_subject_names_a_file_elsewhere_or_the_index(subject: str) -> None:
    stem = stem_of(subject)
    assert "/" not in stem
    assert stem.strip(".")
    assert stem.lower() != "index"


@given(st.sets(st.text("ab/.-", min_size=1, max_size=5), max_size=8))
def test_each_subject_has_a_page_of_its_own(names: set[str]) -> None:
    assert len({stem_of(f"entity:{name}") for name in names}) == len(names)


def test_the_order_of_the_facts_changes_nothing() -> None:
    facts = [fact("shop"), fact("shop", "entity:db", current=False), fact("db")]
    pages = pages_of(facts)
    assert all(pages_of(order) == pages for order in permutations(facts))
    assert "## Earlier, ended or uncertain" in pages["shop.md"]
    assert "[[db]]" in pages["shop.md"]
