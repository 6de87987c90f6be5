"""The record of one answer: the decision on every candidate, with refs, ranks and signals, but no text."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field
from math import isnan
from typing import Any

from fusion.recipe import EARLIER_SIGNALS, renamed


@dataclass(frozen=True, slots=True)
class Receipt:
    """The receipt of one request, without the query and without any memory's text. ``summary`` is JSON-ready.

    ``reasons`` has the candidates by column, as they are stored: rows with names would take three times as long to
    write and twice the space. ``row`` is what a list of receipts shows of it (`fusion.recall.receipt_row`).
    """

    receipt_id: str
    tenant: str
    at: float
    """seconds since the epoch"""
    summary: Mapping[str, Any]
    reasons: Mapping[str, Any]
    row: Mapping[str, Any] = field(default_factory=dict)

    @property
    def body(self) -> dict[str, Any]:
        """The receipt as it is read, with a row for each candidate."""
        return {**self.summary, "candidates": rows_of(self.reasons)}


def rows_of(reasons: Mapping[str, Any]) -> list[dict[str, Any]]:
    """The candidates as rows; each has the signals that are not absent."""
    signals = reasons.get("signals", {})
    columns = {name: column for name, column in reasons.items() if name != "signals"}
    rows = [dict(zip(columns, values, strict=True)) for values in zip(*columns.values(), strict=True)]
    for i, row in enumerate(rows):
        seen = ((name, column[i]) for name, column in signals.items())
        row["signals"] = {name: value for name, value in seen if value is not None and not isnan(value)}
    return rows


EARLIER_KEYS = {"sightings": "source_hits", "beside": "neighbour_of"}
"""keys of a candidate in receipts of earlier versions"""


def with_current_keys(body: Mapping[str, Any]) -> dict[str, Any]:
    """A receipt's body under current names; receipts of earlier versions have other keys and signal names."""
    rows = [renamed(row, EARLIER_KEYS) for row in body["candidates"]]
    for row in rows:
        row["signals"] = renamed(row["signals"], EARLIER_SIGNALS)
    weights = {"weights": renamed(body["weights"], EARLIER_SIGNALS)} if "weights" in body else {}
    return {**body, **weights, "candidates": rows}
