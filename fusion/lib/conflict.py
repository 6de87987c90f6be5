"""Conflicts between memories: which member wins, and what becomes of the others when one is gone (seed 000)."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import NamedTuple, Protocol, TypeVar

from fusion.contract import ConflictStatus, Event, State, StateChange

TIED = 0.01
"""confidences that differ by no more are the same: the newer memory wins"""


class _Confident(Protocol):
    @property
    def confidence(self) -> float: ...
    @property
    def conflict_status(self) -> ConflictStatus | None: ...


class Member(Protocol):
    """A memory that may be in a conflict."""

    @property
    def event(self) -> Event: ...
    @property
    def state(self) -> _Confident: ...


M = TypeVar("M", bound=Member)


class ConflictMember(NamedTuple):
    """A memory in a conflict."""

    event: Event
    state: State


def best(members: Sequence[M]) -> M:
    """The one of the highest confidence; of those within `TIED` of it, the newest."""
    top = max(member.state.confidence for member in members)
    # Written as a sum, .95 - .01 is a little more than .94.
    close = [member for member in members if member.state.confidence >= top - TIED - 1e-9]
    return max(close, key=lambda member: (member.event.recorded_at, member.event.event_id))


def without_opponents(left: Sequence[M]) -> Mapping[str, StateChange]:
    """The changes to the members ``left`` of a conflict of which the others are gone, by event id.

    The only open side is no longer disputed. Where only losers are left, the best of them is current again.
    """
    over: StateChange = {"conflict_status": None, "contradicts": None}
    open_sides = [member for member in left if member.state.conflict_status == "active"]
    if len(open_sides) == 1:
        return {open_sides[0].event.event_id: over}
    if left and all(member.state.conflict_status == "resolved" for member in left):
        return {best(left).event.event_id: {**over, "ended_at": None, "ended": None}}
    return {}
