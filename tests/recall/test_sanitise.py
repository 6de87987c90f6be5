"""Hits are validated, cleaned, and made ready to be ranked."""

from __future__ import annotations

import pytest

from fusion.lib.text_cache import empty_text_caches
from fusion.lib.text_words import text_words
from fusion.recall.sanitise import ValidatedHits, sanitised
from tests.recall.helpers import standalone


@pytest.mark.parametrize(("counts_words", "computed"), [(True, 1), (False, 0)])
def test_words_are_counted_only_where_hits_are_ranked(counts_words: bool, computed: int) -> None:
    """A search that verifies a deletion compares its hundred hits with one memory."""
    empty_text_caches()
    sanitised([standalone("n1", "the heron ledger")], 9, ValidatedHits(counts_words=counts_words))
    assert text_words.cache_info().currsize == computed
