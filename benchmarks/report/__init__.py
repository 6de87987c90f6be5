"""A report to look at: one HTML page that needs nothing else, and its charts as PNGs, made of rows files."""

from __future__ import annotations

import os
from collections.abc import Mapping, Sequence
from contextlib import suppress
from dataclasses import dataclass
from datetime import UTC, datetime
from pathlib import Path
from typing import Any

from benchmarks.datasets import DataError
from benchmarks.progress import bar
from benchmarks.report import read
from benchmarks.report.charts import charts, contribution
from benchmarks.report.drawing import Chart
from benchmarks.report.findings import Findings, arms_of, findings, headline
from benchmarks.report.page import Drawn, page

NAME = "report.html"


@dataclass(frozen=True, slots=True)
class Report:
    """What is reported, and where to. Without ``baseline`` it is chosen as the benchmarks do; of several runs of one
    arm it is that of the first.

    ``rows`` are FILE or RUN=FILE: the arms of a run that has a name get it appended.
    """

    rows: tuple[str, ...]
    out: Path
    baseline: str | None = None
    contribution: Path | None = None


def run(options: Report) -> dict[str, Any]:
    """Writes the page and the PNGs, and gives their paths. On DataError an earlier report is unchanged."""
    sources = [read.source(text) for text in options.rows]
    rows = read.rows(sources)
    shares = read.contribution(options.contribution) if options.contribution else None
    with bar("arms", arms_of(rows)) as advance:
        found = findings(rows, options.baseline, advance, [one.run for one in sources if one.run])
    sets = [Drawn(one, tuple(charts(one))) for one in found]
    backends = contribution(shares) if shares else None
    pictures = _named(sets, backends)
    files: dict[str, bytes] = {}
    with bar("charts", len(pictures)) as advance:
        for name, chart in pictures.items():
            files[name] = chart.png()
            advance(1)
    today = datetime.now(UTC).date()
    names = [one.file.name for one in sources] + ([options.contribution.name] if options.contribution else [])
    text = page(sets, (shares, backends) if shares and backends else None, names, today)
    _write(options.out, {**files, NAME: text.encode("utf-8", "replace")})
    return {
        "report": os.fspath(options.out / NAME),
        "charts": [os.fspath(options.out / name) for name in files],
        "rows": len(rows),
        "datasets": {one.dataset: _summary(one) for one in found},
    }


def _summary(found: Findings) -> dict[str, Any]:
    return {
        "headline": headline(found),
        "baseline": found.baseline,
        "arms": {arm.name: round(arm.eib[found.full].mean, 4) for arm in found.scored},
        "missed": len(found.cases),
    }


def _named(sets: Sequence[Drawn], backends: Chart | None) -> dict[str, Chart]:
    """The charts by file name; where there are several data sets, theirs are numbered in their order."""
    out = {}
    for i, one in enumerate(sets, start=1):
        for chart in one.charts:
            out[f"{chart.name}-{i}.png" if len(sets) > 1 else f"{chart.name}.png"] = chart
    if backends is not None:
        out[f"{backends.name}.png"] = backends
    return out


def _write(folder: Path, files: Mapping[str, bytes]) -> None:
    """Nothing half-written: all are whole under other names before the first gets its own, the page last."""
    parts = {folder / name: folder / f"{name}.part" for name in files}
    try:
        folder.mkdir(parents=True, exist_ok=True)
        for name, content in files.items():
            parts[folder / name].write_bytes(content)
        for file, part in parts.items():
            part.replace(file)
    except OSError as error:
        for part in parts.values():
            with suppress(OSError):
                part.unlink()
        raise DataError(f"{folder} cannot be written: {error.strerror}") from None
