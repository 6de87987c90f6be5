"""The figures of the jobs that keep MEMORY.md, on a short year."""

from __future__ import annotations

import pytest

from benchmarks.living_distill import MAX_CHARS, measure, protected_lines, run, year


@pytest.mark.feature(
    "facts of a year of turns stay answerable from a curated MEMORY.md, compared with keeping the newest lines",
)
def test_the_rules_keep_facts_that_a_file_of_the_newest_turns_has_lost() -> None:
    """Each file keeps to its size, and the same seed gives the same figures."""
    found = year(1200, 30)
    assert found["answerable"]["distilled"] > found["answerable"]["newest_turns"]
    assert found["answerable"]["distilled"] >= found["answerable"]["newest_facts"]
    assert max(found["characters"].values()) <= MAX_CHARS
    assert found == year(1200, 30)


@pytest.mark.feature("no protected line is lost or changed after many rewrites by a bad model, with the shepherd")
def test_protected_lines_survive_a_bad_model() -> None:
    """With the shepherd, and where the model only names operations that are checked; without either some are gone."""
    found = protected_lines(40)
    assert found["without_shepherd"] > 0
    assert (found["with_shepherd"], found["with_checked_operations"]) == (0, 0)


def test_the_module_offers_one_function() -> None:
    assert measure is run
