"""The figures of the doors, measured small: that they are there, not what they are."""

from __future__ import annotations

import json
from contextlib import redirect_stdout
from io import StringIO

import pytest

from benchmarks import dead_servers, doors
from benchmarks.__main__ import main
from tests.hosts.hosts import HOSTS


@pytest.mark.feature(
    "figures: a hook's overhead, an MCP client's start, a thousand requests at once, ten thousand in "
    "a row, as one line of JSON"
)
@pytest.mark.model
@pytest.mark.timeout(600)
def test_the_doors_print_their_figures(monkeypatch: pytest.MonkeyPatch) -> None:
    """One line of JSON from a real server, hook and MCP client; no 5xx but 503, and nothing left open."""
    for module, name, few in (
        (doors, "HOOKS", 3),
        (doors, "STARTS", 1),
        (dead_servers, "TRIES", 1),
    ):
        monkeypatch.setattr(module, name, few)
    said = StringIO()
    with redirect_stdout(said):
        assert main(["doors", "--memories", "40", "--concurrent", "10", "--requests", "100", "--json"]) == 0
    [line] = said.getvalue().splitlines()
    figures = json.loads(line)
    assert figures["load_10_200"] == 10
    assert figures["load_10_5xx_other_than_503"] == 0
    # A store opens one more connection to its database, of two files, when so many ask at once for the first time. What
    # is left open is left by each of the hundred requests.
    assert figures["fds_leaked"] < 10
    assert figures["hook_overhead_ms"] > 0
    assert figures["mcp_ready_s"] > 0
    assert figures["mcp_ready_cpu_s"] > 0
    assert figures["hook_cpu_ms"] > 0
    assert figures["mcp_shown_over_block"] <= 1.02
    assert {"hook session-start", "tool of fusion mcp", "framework"} <= figures["dead_server_ms"].keys()
    assert set(figures["shown_over_block"]) == {*HOSTS, "MCP Inspector"}
    assert figures["frameworks_with_a_real_test"] >= 12
    assert {"rss_growth_mb_after_100_requests", "load_10_p99_ms", "commit", "date"} <= figures.keys()
