"""The replies about stable prefixes."""

from __future__ import annotations

from typing_extensions import TypedDict


class PrefixObservation(TypedDict):
    """One observation: what stays of a turn. ``importance`` is from 0 to 1, ``label`` its label."""

    recordRef: str
    at: str
    importance: float | None
    label: str
    text: str


class RawTurn(TypedDict):
    """One turn that is not compressed yet, as its line in the text."""

    recordRef: str
    at: str
    session_id: str | None
    line: str


class Prefix(TypedDict):
    """A stable prefix. ``text`` goes into the prompt as it is, before what changes with every turn.

    Its first ``stable_chars`` characters, whose ``hash`` this is, change only when ``version`` does: a marker for a
    provider's prompt cache goes behind them.
    """

    observations: list[PrefixObservation]
    raw_buffer: list[RawTurn]
    text: str
    stable_chars: int
    version: int
    hash: str
    changed_at: str
    tokens: int
    """estimated tokens of ``text``"""
    prefix_hit_rate: float | None
    """the mean share of the text that equals the beginning of the text of the turn before; null before a turn"""
    turns: int
    """turns that the rate is the mean of"""
    rewrites: int
    """how often observations were dropped: by the reflector, or because a memory was forgotten, replaced or ended"""
    left_out: int
    """the oldest turns that are not shown, because the raw buffer could not be compressed"""
