"""The periods of episodes: by them, a question about a time finds what happened then.

An episode is a memory of kind "episode", or one whose caller stated when it ended. Without a time of its own it
happened when it was recorded.
"""

from __future__ import annotations

from contextlib import suppress

from fusion.contract import Event, Moment
from fusion.lib.moment import end_of
from fusion.store.database import Connection, replacing
from fusion.store.rows import microseconds

SCHEMA = """
create table episode(seq integer primary key, began integer not null, ended integer not null);
create index episode_period on episode(ended, began);
insert into episode select seq, coalesce(at, recorded_at), coalesce(at, recorded_at) + 1000000 * case
    when at is null then 1 when at_precision = 'day' then 90000 when at_precision = 'month' then 2682000
    when at_precision = 'year' then 31626000 else 3600 end
from event where kind = 'episode' and forgotten = 0;
create index event_at on event(tenant, at) where at is not null;
"""
"""microseconds since 1970; the end is excluded. Of homes of before it may be later, by an hour of a changed clock"""

_PUT = replacing("episode", "seq", "began, ended")


def add(db: Connection, seq: int, event: Event) -> None:
    """Store the period of an event, if it is an episode."""
    at = event.at or Moment(event.recorded_at)
    if event.kind != "episode" and at.until is None:
        return
    end = at.utc
    with suppress(OverflowError, ValueError):  # the year 9999 has no next one
        end = end_of(at)
    period = (seq, microseconds(at.utc), microseconds(end))
    db.execute(_PUT, period)
