"""The layers of memories: by event, an abstract and an overview that rules or a language model made of its text.

The text of an event never changes, so its layers hold as long as it does: an edited memory is another event. They go in
the transaction in which the text is deleted. A memory of which a model gave no valid layers is asked about again after
a while that doubles each time.
"""

from __future__ import annotations

import logging
from collections.abc import Awaitable, Callable, Mapping, Sequence
from datetime import datetime, timedelta
from typing import Literal

from fusion.errors import FusionError
from fusion.journal.rows import MAX_SEQ, Record, record_of
from fusion.lib.background_writer import BackgroundWriter
from fusion.lib.backoff import backoff_s
from fusion.lib.ids import parse_short_ref
from fusion.lib.layers import METHOD, Layers
from fusion.lib.passages import SAID_CHARS, WRITTEN_CHARS
from fusion.store.database import VALUES, Connection, listed, replacing
from fusion.store.rows import microseconds, storable

log = logging.getLogger(__name__)

SCHEMA = """
create table layer(
    event_id text not null, maker text not null, method text not null, at integer not null,
    abstract text not null, overview text not null,
    primary key(event_id, maker)
);
create table layer_refusal(
    event_id text primary key, tries integer not null, again_at integer not null, why text not null
);
"""
Maker = Literal["rules", "model"]

FIRST_RETRY_S, LONGEST_RETRY_S = 3_600.0, 30 * 86_400.0
"""seconds until a model is asked again about a memory of which it gave no valid layers"""
_WANTED = (
    "forgotten = 0 and superseded_by is null and merged_into is null "
    f"and length(text) > case when coalesce(speaker, '') = '' then {WRITTEN_CHARS} else {SAID_CHARS} end "
    "and coalesce(json_extract(state, '$.trust'), trust) <> 'quarantined' "
    "and json_extract(state, '$.ended_at') is null "
    "and not exists (select 1 from layer l where l.event_id = event.event_id and l.maker = 'model') "
    "and not exists (select 1 from layer_refusal r where r.event_id = event.event_id and r.again_at > :now)"
)
"""the condition on a long current memory that a model may be asked about at a time"""

_STILL_THERE = "where exists (select 1 from event where event_id = ?1 and forgotten = 0)"
_PUT = replacing(
    "layer", "event_id, maker", "method, at, abstract, overview", f"select ?1, ?2, ?3, ?4, ?5, ?6 {_STILL_THERE}"
)
_REFUSE = replacing("layer_refusal", "event_id", "tries, again_at, why", f"select ?1, ?2, ?3, ?4 {_STILL_THERE}")


def of(db: Connection, event_ids: Sequence[str], *, by_model: bool) -> dict[str, Layers]:
    """The stored layers of these events, by id: those of today's rules, or ``by_model`` a model's where there are."""
    rows = db.execute(
        f"select * from layer where event_id in {VALUES} "
        "and (maker = 'model' and ? = 1 or maker = 'rules' and method = ?) order by maker = 'model'",
        (*listed(event_ids), by_model, METHOD),
    )
    return {row["event_id"]: Layers(row["abstract"], row["overview"], row["method"]) for row in rows}


def methods_of(db: Connection, event_id: str) -> dict[str, str]:
    """What made the stored layers of an event, by maker."""
    rows = db.execute("select maker, method from layer where event_id = ? order by maker", (event_id,))
    return {row["maker"]: row["method"] for row in rows}


def put(db: Connection, made: Mapping[str, Layers], maker: Maker, now: datetime) -> None:
    """Store layers by event id, but not those of memories that were forgotten meanwhile."""
    db.executemany(
        _PUT,
        [
            (event_id, maker, storable(one.method), microseconds(now), storable(one.abstract), storable(one.overview))
            for event_id, one in made.items()
        ],
    )
    if maker == "model":
        db.execute(f"delete from layer_refusal where event_id in {VALUES}", listed(list(made)))


def refuse(db: Connection, event_id: str, why: str, now: datetime) -> None:
    """Note that a model gave no valid layers of a memory, and when it may be asked again."""
    row = db.execute("select tries from layer_refusal where event_id = ?", (event_id,)).fetchone()
    tries = 1 if row is None else row["tries"] + 1
    again = now + timedelta(seconds=backoff_s(tries, FIRST_RETRY_S, LONGEST_RETRY_S))
    db.execute(
        _REFUSE,
        (event_id, tries, microseconds(again), storable(why)),
    )


def newest_without(db: Connection, before: int | None, now: datetime) -> Record | None:
    """The newest long memory before a number that a model may be asked about; None if there is none."""
    row = db.execute(
        f"select * from event where seq < :before and {_WANTED} order by seq desc limit 1",
        {"before": MAX_SEQ if before is None else before, "now": microseconds(now)},
    ).fetchone()
    return None if row is None else record_of(row)


def waiting(db: Connection, now: datetime) -> int:
    """How many long memories a model may be asked about now."""
    found = db.execute(f"select count(*) from event where {_WANTED}", {"now": microseconds(now)})
    return int(found.fetchone()[0])


def drop(db: Connection, event_id: str) -> None:
    """Delete the layers of a memory that is forgotten, and what is noted of it."""
    db.execute("delete from layer where event_id = ?", (event_id,))
    db.execute("delete from layer_refusal where event_id = ?", (event_id,))


def number_of(record: Record) -> int:
    """The number of a memory, by which `newest_without` goes on."""
    return parse_short_ref(record.ref) or 0


class LayerLog(BackgroundWriter):
    """Stores layers that rules made for packs, in the background, those of many packs in one write."""

    MAX_WAITING = 2_000
    """memories whose layers may wait for a journal that cannot be written"""

    def __init__(self, keep: Callable[[Mapping[str, Layers]], Awaitable[None]]) -> None:
        super().__init__()
        self._keep = keep
        self._waiting: dict[str, Layers] = {}

    def note(self, made: Mapping[str, Layers]) -> None:
        """Queue layers by event id; returns at once."""
        for event_id, one in made.items():
            if len(self._waiting) < self.MAX_WAITING:
                self._waiting[event_id] = one
        if self._waiting:
            self._write_soon()

    async def _write_waiting(self) -> None:
        """Store what waits. What cannot be stored is made again by the next pack, so that no text waits here."""
        waiting, self._waiting = self._waiting, {}
        if waiting:
            try:
                await self._keep(waiting)
            except FusionError as error:
                log.warning("the layers of memories could not be stored: %s", error)
