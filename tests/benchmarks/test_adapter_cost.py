"""The figures of other people's memories are made of real answers."""

from __future__ import annotations

from importlib.util import find_spec

import pytest

if find_spec("mem0") is None:
    pytest.skip("needs mem0ai: pip install '/path/to/checkout[mem0]'", allow_module_level=True)

from benchmarks.adapter_cost import mem0_latency_ratio, parse_cpu_ms


def test_parsing_forty_hits_is_measured() -> None:
    """A time above zero, of the slowest reader; what it may be the benchmark says, not a test."""
    assert parse_cpu_ms(repeats=3) > 0


@pytest.mark.feature("figures: Mem0 through the gateway against its library alone, and parsing forty hits")
@pytest.mark.model
async def test_mem0_is_measured_against_its_library() -> None:
    """Both sides answer the same questions, and their ratio is a number."""
    assert await mem0_latency_ratio(memories=20, questions=2) > 0
