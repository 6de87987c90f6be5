"""The figures of a session, measured small: what is shown again, and that prepared answers are used."""

from __future__ import annotations

import pytest

from benchmarks.sessions import sessions


@pytest.mark.model
async def test_session_figures_count_repetitions_and_prepared_answers() -> None:
    """Nothing is shown again within the hook's window, and each like question gets its prepared answer."""
    figures = await sessions(turns=6, prepared=4)
    assert (figures["turns"], figures["repeat_injections"]) == (6, 0)
    assert figures["injections"] > 0
    assert figures["prepared_used"] == 1
    assert all(
        figures[f"{name}_p50_ms"] > 0 for name in ("unprepared", "prepared", "prepared_reworded", "prepared_moved")
    )
