"""`python -m benchmarks graph`, on a graph of forty edges."""

from __future__ import annotations

import json
from dataclasses import replace
from importlib.util import find_spec
from pathlib import Path

import pytest

if find_spec("mem0") is None:
    pytest.skip("needs mem0ai: pip install '/path/to/checkout[mem0]'", allow_module_level=True)

from benchmarks.__main__ import _parser
from benchmarks.__main__ import _run as run_of
from benchmarks.datasets import DataError
from benchmarks.datasets.load import load
from benchmarks.graph import Sizes, large_graph, run, sentences_per_s
from benchmarks.options import Run
from tests.benchmarks.helpers import HOPS

TINY = Sizes(entities=20, relations=40, hub=10, asked=3, sentences=4, mem0=10, mem0_asked=2)


def test_graph_takes_the_options_of_a_data_set(tmp_path: Path) -> None:
    """`--data` alone is enough: it names the set, and nothing that another command has is missed."""
    file = tmp_path / "hops.json"
    file.write_text(json.dumps(HOPS), encoding="utf-8")
    options = run_of(_parser().parse_args(["graph", "--data", str(file), "--json"]), "musique")
    assert (options.dataset, options.rows, len(options.corpora)) == ("hops", None, 1)


def test_graph_checks_its_input_first(tmp_path: Path) -> None:
    """A graph of minutes is not drawn for a recipe that does not exist; one without edges cannot be drawn at all."""
    file = tmp_path / "hops.json"
    file.write_text(json.dumps(HOPS), encoding="utf-8")
    options = Run("hops", load("musique", file), recipe="nowhere")
    with pytest.raises(DataError, match="nowhere"):
        run(options, replace(TINY, entities=0))


async def test_a_graph_is_drawn_and_asked(tmp_path: Path) -> None:
    """Six notes of five arrows and ten of the hub: sizes as asked for, and some time for each kind of question."""
    figures = await large_graph(tmp_path, TINY)
    assert (figures["entities"], figures["relations"], figures["hub_edges"]) == (20, 40, 10)
    assert figures["hop2_cpu_ms"] > 0
    assert figures["hub_cpu_ms"] > 0


async def test_sentences_are_counted() -> None:
    """Four memories of five sentences take some time."""
    assert await sentences_per_s(TINY.sentences) > 0


@pytest.mark.feature(
    "`python -m benchmarks graph` measures a large graph with a hub, and sentences by rules, as one JSON object"
)
@pytest.mark.model
@pytest.mark.slow
def test_every_figure_is_printed(tmp_path: Path) -> None:
    """All that the command promises is in one object that JSON can hold. Three paragraphs fit any first five, so both
    sides find all: the gain is 0, and so is each end of its interval."""
    file = tmp_path / "hops.json"
    file.write_text(json.dumps(HOPS), encoding="utf-8")
    figures = json.loads(json.dumps(run(Run("hops", load("musique", file)), TINY)))
    assert (figures["musique_r5_with"], figures["musique_r5_without"]) == (1.0, 1.0)
    assert {figures["musique_r5_gain"][part] for part in ("difference", "low", "high")} == {0.0}
    for name in ("hop2_cpu_ms", "hub_cpu_ms", "rules_sentences_per_s", "mem0_latency_ratio", "parse_cpu_ms"):
        assert figures[name] > 0
