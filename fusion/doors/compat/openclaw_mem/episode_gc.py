"""Deletes the episodes of one scope that are older than a policy of days by type: openclaw-mem's ``episodes gc``."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from datetime import UTC, datetime, timedelta
from math import isfinite
from typing import Any

from fusion.client import AsyncClient
from fusion.errors import BadInput
from fusion.lib.moment import moment
from fusion.lib.observation import TYPES

FOREVER = "forever"
MAX_DAYS = 36_500
PAGE = 100
"""episodes that are deleted at once"""


@dataclass(frozen=True, slots=True)
class Policy:
    """By type the days that an episode is kept, counted back from ``now``; a type without days is kept for ever."""

    days: Mapping[str, float]
    now: datetime

    @classmethod
    def of(cls, kept_days: Mapping[Any, float], stated: Sequence[str], now: str | None) -> Policy:
        """The days of the settings, and instead of them those that were stated as TYPE=DAYS or TYPE=forever.

        Raises BadInput for an unknown type, for no number of days, and for a time that is none.
        """
        days: dict[str, float] = dict(kept_days)
        for one in stated:
            kind, _, kept = one.partition("=")
            if kind not in TYPES:
                raise BadInput(f"--policy: there is no type {kind[:64]!r}; there are {', '.join(TYPES)}")
            days.pop(kind, None)
            if kept != FOREVER:
                days[kind] = _days(one, kept)
        try:
            return cls(days, datetime.now(UTC) if now is None else moment(now).utc)
        except (ValueError, OverflowError):
            raise BadInput("--now: give a time: 2026-01-31, or 2026-01-31T15:00") from None

    @property
    def now_ms(self) -> int:
        """``now`` in milliseconds since 1970."""
        return int(self.now.timestamp() * 1000)


async def delete_past(
    client: AsyncClient, scope: Mapping[str, Any], policy: Policy, *, dry_run: bool = False
) -> dict[str, int]:
    """Delete what is older than the policy keeps it in a scope, or only count it; the numbers by type."""
    if not scope:
        raise BadInput("--scope: name the project, or --user, --agent or --session; --global is what names none")
    deleted: dict[str, int] = {}
    for kind, days in policy.days.items():
        before = (policy.now - timedelta(days=days)).isoformat()
        cursor = None
        while True:
            page = await client.query_episodes(types=[kind], before=before, limit=PAGE, cursor=cursor, **scope)
            refs = [one["ref"] for one in page["episodes"]]
            if refs and not dry_run:
                await client.forget_many(refs=refs, **{name: of for name, of in scope.items() if name != "project"})
            deleted[kind] = deleted.get(kind, 0) + len(refs)
            cursor = page["next_cursor"]
            if cursor is None:
                break
    return deleted


def _days(stated: str, kept: str) -> float:
    try:
        days = float(kept)
    except ValueError:
        days = -1.0
    if not (isfinite(days) and 0 <= days <= MAX_DAYS):
        raise BadInput(f"--policy: {stated[:80]!r}: give 0 to {MAX_DAYS} days, or {FOREVER}")
    return days
