"""Figures for people: what is measured of several arms or backends side by side, the rest a line each."""

from __future__ import annotations

import json
from collections.abc import Mapping
from typing import Any

from rich.box import SIMPLE
from rich.console import Console
from rich.markup import escape
from rich.table import Table

BY_BACKEND = {
    "alone": "alone",
    "shapley": "fair share",
    "leave_one_out": "lost without",
    "saves_ms": "ms saved without",
    "p50_ms_alone": "ms alone",
    "cpu_ms_per_query": "ms of CPU",
}
"""of a contribution, by backend: the figure, and the column's name"""
OF_ARMS = {
    "eib_frac": "EIB 6,000",
    "eib_3000_frac": "3,000",
    "eib_1500_frac": "1,500",
    "r_at_10": "R@10",
    "chars": "chars",
}


def show(figures: Mapping[str, Any], console: Console | None = None) -> None:
    """Prints everything but the sentences as tables, and these last."""
    console = console or Console()
    rest = dict(figures)
    backends = {name: rest.pop(name) for name in BY_BACKEND if "shapley" in figures and name in rest}
    arms, sentences = rest.pop("arms", {}), rest.pop("verdicts", [])
    table = Table("figure", "value")
    for name, value in rest.items():
        parts = value.items() if isinstance(value, Mapping) else [(None, value)]
        for key, part in parts:
            table.add_row(escape(name if key is None else f"{name} · {key}"), _text(part))
    console.print(table)
    if backends:
        table = Table("backend", *(BY_BACKEND[name] for name in backends), box=SIMPLE)
        for backend in figures["backends"]:
            table.add_row(escape(backend), *(_text(of[backend]) for of in backends.values()))
        console.print(table)
    if arms:
        console.print(_arms(arms))
    for sentence in sentences:
        console.print(escape(sentence))


def _arms(arms: Mapping[str, Mapping[str, Any]]) -> Table:
    """Shares of 1; the difference at 6,000 characters in points, with its 95 % interval."""
    against = next((arm["against"]["baseline"] for arm in arms.values() if "against" in arm), "")
    table = Table(
        "arm", *OF_ARMS.values(), f"points over {escape(against)}", "won/even/lost", box=SIMPLE, padding=(0, 1, 0, 0)
    )
    for name, arm in arms.items():
        versus = arm.get("against", {}).get("eib_frac")
        verdict = ("", "")
        if versus is not None:
            verdict = (
                "{:+.1f} ({:+.1f} to {:+.1f})".format(*(100 * versus[n] for n in ("difference", "low", "high"))),
                f"{versus['win']}/{versus['tie']}/{versus['loss']}",
            )
        table.add_row(escape(name), *(_text(arm.get(figure)) for figure in OF_ARMS), *verdict)
    return table


def _text(value: object) -> str:
    if value is None:
        return "–"
    return escape(value if isinstance(value, str) else json.dumps(value, ensure_ascii=False))
