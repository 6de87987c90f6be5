"""Reads the answer of a judge: leniently in form (one repair of almost-JSON) and strictly in content.

A score that is not a number from 0 to 10 for a passage that was asked about is no score.
"""

from __future__ import annotations

import json
from collections.abc import Iterable
from typing import Any

MAX_REPLY_CHARS = 65_536
MAX_REPAIRED_CHARS = 2_048
MAX_REPAIRED_BRACKETS = 64
"""maximum characters and brackets of almost-JSON to repair, three times a full answer: some take quadratic time"""
_BRACKETS = str.maketrans(dict.fromkeys("{[("))


def scores_of(text: str, ids: Iterable[str]) -> tuple[dict[str, float], int, str | None]:
    """Scores by passage id, the number that were ignored, and the fault if there are none.

    A number from 0 to 10 for an id that was asked about is a score. Only the first entry for an id counts, even if it
    is invalid: neither half of a contradiction is better.
    """
    listed, fault = entries(text)
    asked, seen = set(ids), set[str]()
    scores: dict[str, float] = {}
    ignored = 0
    for entry in listed:
        name = entry.get("id") if isinstance(entry, dict) else None
        score = _score(entry.get("score")) if isinstance(entry, dict) else None
        if not isinstance(name, str) or name not in asked or name in seen or score is None:
            ignored += 1
        else:
            scores[name] = score
        if isinstance(name, str):
            seen.add(name)
    return scores, ignored, None if scores else fault or "no score of it is valid"


def entries(text: str) -> tuple[list[Any], str | None]:
    """The answer's list, with almost-JSON repaired once; or its fault."""
    if not text or len(text) > MAX_REPLY_CHARS:
        return [], "the answer is empty" if not text else "the answer is too long"
    value, cut = _parsed(text)
    entries = value.get("scores") if isinstance(value, dict) else None
    if not isinstance(entries, list):
        return [], "the answer has no scores"
    return entries[:-1] if cut else entries, None


def _parsed(text: str) -> tuple[object, bool]:
    """A value (None if it is nowhere near JSON), and whether its last number may have lost digits: a 10 became a 1."""
    try:
        return json.loads(text), False
    except ValueError:
        if len(text) > MAX_REPAIRED_CHARS or len(text) - len(text.translate(_BRACKETS)) > MAX_REPAIRED_BRACKETS:
            return None, False

        from json_repair import repair_json

        try:
            return repair_json(text, return_objects=True), text[-1] in "0123456789.+-eE"
        except (ValueError, RecursionError):
            return None, False
    except RecursionError:
        return None, False


def _score(value: object) -> float | None:
    """A finite number from 0 to 10, as it is: nothing is clamped, and ``"7"`` and ``true`` are not numbers."""
    if isinstance(value, bool) or not isinstance(value, int | float):
        return None
    return float(value) if 0 <= value <= 10 else None
