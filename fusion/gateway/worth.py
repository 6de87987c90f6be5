"""What the backends and recipes of a home were worth: over its latest answers, and by people's votes."""

from __future__ import annotations

from collections import Counter, defaultdict
from collections.abc import Iterable, Mapping, Sequence
from math import ceil
from typing import Any

from fusion import wire
from fusion.lib import wilson
from fusion.recall.decision import Decision, decision_of

Row = Mapping[str, Any]
"""a receipt's row (`fusion.recall.receipt_row`), or its part about one backend"""
SPANS = 20
"""spans of answers that the history of a backend's times has"""
ANSWERED = ("ok", "empty")


def worth_of(name: str, rows: Sequence[Row], blocks: int, votes: wire.VotesOnBackend) -> wire.BackendWorth:
    """What one backend did for some answers, the newest of which come first. Every row has its part."""
    parts = [_part(row, name) for row in rows]
    times = _times(parts)
    return {
        "name": name,
        "asked": len(parts),
        "answered": len(times),
        "p50_ms": percentile(times, 0.5),
        "p95_ms": percentile(times, 0.95),
        "contributed": _share(sum(part["in_block"] > 0 for part in parts), blocks),
        "alone": _share(sum(part["alone"] > 0 for part in parts), blocks),
        "votes": votes,
        "spans": [_span(name, span) for span in _spans(rows[::-1])],
        "moments": [],
    }


def by_backend(rows: Iterable[Row]) -> dict[str, list[Row]]:
    """The rows in which each backend has a part, in their order."""
    found: dict[str, list[Row]] = defaultdict(list)
    for row in rows:
        for part in row["backends"]:
            found[part["name"]].append(row)
    return found


def votes_on_backends(labels: Iterable[Row]) -> defaultdict[str, wire.VotesOnBackend]:
    """By backend, the votes on memories that it found."""
    found: defaultdict[str, wire.VotesOnBackend] = defaultdict(lambda: {"useful": 0, "useless": 0})
    for label in labels:
        for backend in label.get("found_by") or ():
            found[backend]["useful" if label["useful"] else "useless"] += 1
    return found


def votes_on_recipes(labels: Iterable[Row]) -> wire.VotesOnRecipes:
    """The votes on what each recipe has put into blocks, and which recipe is better, if that is certain.

    A vote counts for the recipe whose answer it was given on. Votes are not paired by question, so the intervals of two
    shares may overlap where `fusion compare --queries` finds a difference.
    """
    counts: Counter[tuple[str, str, bool]] = Counter()
    answers: defaultdict[tuple[str, str], set[str]] = defaultdict(set)
    for label in labels:
        if decision_of(label["decision"]) != Decision.PACKED:
            continue
        recipe = label["recipe"]["name"], label["recipe"]["hash"]
        counts[*recipe, label["useful"]] += 1
        answers[recipe].add(label["receipt_id"])
    recipes = [_recipe_votes(recipe, len(asked), counts) for recipe, asked in answers.items()]
    recipes.sort(key=lambda one: (-one["share"], one["name"]))
    certain = len(recipes) > 1 and all(recipes[0]["low"] > other["high"] for other in recipes[1:])
    return {"recipes": recipes, "better": recipes[0]["name"] if certain else None}


def _recipe_votes(recipe: tuple[str, str], answers: int, counts: Counter[tuple[str, str, bool]]) -> wire.RecipeVotes:
    useful, useless = counts[*recipe, True], counts[*recipe, False]
    low, high = wilson.interval(useful, useful + useless)
    return {
        "name": recipe[0],
        "hash": recipe[1],
        "answers": answers,
        "useful": useful,
        "useless": useless,
        "share": _share(useful, useful + useless),
        "low": round(low, 4),
        "high": round(high, 4),
    }


def _spans(rows: Sequence[Row]) -> list[Sequence[Row]]:
    """Rows in at most `SPANS` spans of as many answers each, in their order."""
    size = max(1, ceil(len(rows) / SPANS))
    return [rows[start : start + size] for start in range(0, len(rows), size)]


def _span(name: str, rows: Sequence[Row]) -> wire.SpanOfAnswers:
    parts = [_part(row, name) for row in rows]
    times = _times(parts)
    return {
        "at": rows[0]["at"],
        "asked": len(parts),
        "answered": len(times),
        "p50_ms": percentile(times, 0.5),
        "p95_ms": percentile(times, 0.95),
    }


def _part(row: Row, name: str) -> Row:
    return next(part for part in row["backends"] if part["name"] == name)


def _times(parts: Iterable[Row]) -> list[float]:
    """The times in which a backend answered, ascending."""
    return sorted(part["took_ms"] for part in parts if part["status"] in ANSWERED)


def _share(part: int, whole: int) -> float:
    return round(part / whole, 4) if whole else 0.0


def percentile(ascending: Sequence[float], share: float) -> float | None:
    """The least value that so great a share of the values does not exceed; None without values."""
    return ascending[max(0, ceil(share * len(ascending)) - 1)] if ascending else None
