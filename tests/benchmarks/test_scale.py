"""The figures of scale: the arithmetic of growth, and one small home for real."""

from __future__ import annotations

import json
from contextlib import redirect_stdout
from io import StringIO
from pathlib import Path
from typing import Any

import pytest

from benchmarks import scale_cluster, scale_growth, scale_signs
from benchmarks.__main__ import main
from benchmarks.scale_growth import exponent
from tests.postgres.servers import Database


@pytest.mark.parametrize(
    ("costs", "found"),
    [
        ({1: 5.0, 10: 50.0, 100: 500.0}, 1.0),  # as much as the work
        ({1: 5.0, 100: 50.0}, 0.5),  # ten times the cost for a hundred times the work
        ({1: 5.0, 10: 5.0}, 0.0),
        ({10: 5.0}, None),  # one point has no slope
        ({1: 0.0, 10: 5.0}, None),  # nothing has no logarithm
    ],
)
def test_the_exponent_is_the_slope_of_the_logarithms(costs: dict[int, float], found: float | None) -> None:
    """By least squares."""
    assert exponent(costs) == found


def test_an_unknown_part_is_refused(capsys: pytest.CaptureFixture[str]) -> None:
    """The error names the parts."""
    assert main(["scale", "--only", "nothing"]) == 2
    assert "growth" in capsys.readouterr().err


@pytest.mark.model
@pytest.mark.timeout(600)
def test_so_few_vectors_are_all_compared() -> None:
    """Of 3,000 both searches compare every row, so nothing is missed."""
    figures = scale_signs.run(rows=3_000, texts=200)
    assert (figures["rows"], figures["texts"]) == (3_000, 150)
    assert (figures["recall_at_100"], figures["least_recall"]) == (1.0, 1.0)


@pytest.mark.feature("figures: what a memory, a question, a restart, a deletion and a backup cost while a home grows")
@pytest.mark.model
@pytest.mark.timeout(600)
def test_a_small_home_is_grown(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """Every figure is there, at both sizes, and the exponents between them. The next run stores nothing again.

    One store holds the memories: each of the eight starts of the server costs less.
    """
    settings = f'backends_only = true\n{scale_growth.SETTINGS}adapter = "adapters.markdown:Markdown"\n'
    for name, few in (("WARM_UP", 1), ("QUESTIONS", 10), ("FORGOTTEN", 1), ("SETTINGS", settings)):
        monkeypatch.setattr(scale_growth, name, few)

    def grown(sizes: str) -> dict[str, Any]:
        said = StringIO()
        with redirect_stdout(said):
            assert main(["scale", "--only", "growth", "--sizes", sizes, "--home", str(tmp_path), "--json"]) == 0
        growth: dict[str, Any] = json.loads(said.getvalue())["growth"]
        return growth

    growth = grown("100,200")
    assert list(growth["at"]) == ["100", "200"]
    for figures in growth["at"].values():
        assert all(value > 0 for value in figures.values()), figures
    assert growth["exponent"]["question_cpu_ms"] is not None
    again = grown("200")["at"]["200"]
    assert growth["at"]["200"].keys() - again.keys() == {"ingest_per_s", "memory_cpu_ms"}


@pytest.mark.feature(
    "many gateways: three on one PostgreSQL lose nothing, deliver nothing twice and leak nothing while gateways are "
    "killed and the database is restarted"
)
@pytest.mark.timeout(900)
def test_three_gateways_lose_nothing_while_they_are_killed(
    postgres_database: Database, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Ten seconds of two clients; `python -m benchmarks scale --only cluster` has the ten minutes of six."""
    monkeypatch.setattr(scale_cluster, "CLIENTS", 2)
    figures = scale_cluster.run(10.0)
    assert figures["acknowledged"] > 0
    assert figures["killed"] >= 1
    nothing = (
        "lost",
        "undelivered",
        "twice_in_the_journal",
        "delivered_twice",
        "forgotten_and_still_listed",
        "forgotten_and_still_stored",
        "tenant_leaks",
        "shown_after_forget",
        "5xx_other_than_503",
        "given_up",
    )
    assert {name: figures[name] for name in nothing} == dict.fromkeys(nothing, 0)
