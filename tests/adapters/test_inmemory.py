"""The reference backend keeps every promise of the suite; and it ranks as the textbook says."""

from __future__ import annotations

from dataclasses import replace
from datetime import UTC, datetime
from pathlib import Path

import pytest

from adapters.inmemory import InMemory
from fusion.contract import Backend, FindsNeighbours, Forgets, Hit, Moment, Remembers, Settles, TracksUse
from fusion.lib.words import stems
from tests.backend_contract import (
    BackendContract,
    event_id,
    make_event,
    make_extracted,
    make_query,
    make_samples,
    opening,
)


class TestInMemory(BackendContract):
    filters = True

    durable = False  # it is a dict

    async def open_backend(self, folder: Path) -> Backend:
        return await InMemory.open(opening(folder))

    async def test_has_every_port(self, backend: Backend) -> None:
        """It shows how each optional port is written."""
        for port in (Remembers, Forgets, FindsNeighbours, TracksUse, Settles):
            assert isinstance(backend, port)

    async def test_knows_what_was_true_then(self, folder: Path) -> None:
        """``as_of`` finds what had begun and had not ended; without it, what holds now is found."""
        backend = await InMemory.open(opening(folder))
        spring, summer = datetime(2025, 4, 1, tzinfo=UTC), datetime(2025, 7, 1, tzinfo=UTC)
        old = make_event(1, "Ada lives in Bath.", valid_from=datetime(2020, 1, 1, tzinfo=UTC), valid_to=summer)
        new = make_event(2, "Ada lives in York.", at=Moment(summer))
        await backend.remember([make_extracted(old), make_extracted(new)])
        question = make_query("where lives Ada?")
        seen = [
            {hit.event_id for hit in await backend.search(replace(question, as_of=then))}
            for then in (spring, summer, None)
        ]
        assert seen == [{event_id(1)}, {event_id(2)}, {event_id(2)}]

    async def test_ranks_by_bm25(self, folder: Path) -> None:
        """Rarer shared terms weigh more: idf(1 of 12) > idf(2 of 12)."""
        backend = await InMemory.open(opening(folder))
        await backend.remember(make_samples())
        await backend.remember([make_extracted(make_event(50, "Another greyhound called Waffle."))])
        hits = await backend.search(make_query("greyhound Biscuit"))
        assert [hit.event_id for hit in hits] == [event_id(4), event_id(50)]

    async def test_saturates_as_rank_bm25_does(self, folder: Path) -> None:
        """For one term the idf is a common factor, so the order by frequency and length must be rank-bm25's."""
        rank_bm25 = pytest.importorskip("rank_bm25")
        texts = ["apple", "apple apple pear", "apple pear plum quince fig", "pear", "apple apple apple fig fig fig fig"]
        backend = await InMemory.open(opening(folder))
        await backend.remember([make_extracted(make_event(n, text)) for n, text in enumerate(texts)])
        oracle = rank_bm25.BM25Plus([stems(text) for text in texts], k1=1.2, b=0.75, delta=0)
        scores = oracle.get_scores(stems("apple"))
        expected = [n for n in sorted(range(len(texts)), key=lambda n: (-scores[n], n)) if scores[n] > 0]
        hits = await backend.search(make_query("apple"))
        assert [hit.event_id for hit in hits] == [event_id(n) for n in expected]


def test_a_hit_under_another_score_is_otherwise_the_same() -> None:
    """Every field is taken over, and the hit itself stays as it was: others may have it, too."""
    at = datetime(2025, 4, 1, tzinfo=UTC)
    hit = Hit.of(make_event(1, "Ada lives in Bath.", at=Moment(at), valid_from=at, derived_from=("e",)), "n", 0.5)
    hit = replace(hit, path=("ada", "bath"), graph_score=0.25)
    assert hit.scored(0.75) == replace(hit, score=0.75)
    assert hit.score == 0.5
