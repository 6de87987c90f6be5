"""The journal's in-memory cache: records, neighbours and document frequencies, which every question needs.

A write invalidates it before the write is acknowledged.
"""

from __future__ import annotations

import json
from collections import OrderedDict
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import replace
from typing import Any

from fusion.contract import Event, Scope, document_key, is_doubtful, voucher
from fusion.journal.rows import RECORD_COLUMNS, Record, frequencies, record_in
from fusion.lib.bm25 import Frequencies
from fusion.store.database import VALUES, Connection, Database

CACHED_RECORDS = 20_000
CACHED_DOCUMENTS = 2_000
CACHED_TERMS = 50_000


_OrderKey = tuple[object, ...]
_Order = Mapping[str, tuple[Sequence[str], int]]
"""the current events of one document or session: by event id, the ids in reading order, and its position there"""


class JournalCache:
    """The recently used records, orders and frequencies of one journal."""

    def __init__(self, database: Database) -> None:
        self._database = database
        self._records: OrderedDict[str, Record] = OrderedDict()
        self._orders: OrderedDict[_OrderKey, _Order] = OrderedDict()
        self._neighbours: dict[tuple[str, int], tuple[Record, ...]] = {}
        self._counts: dict[tuple[str, str | None], Frequencies] = {}
        self.changes = 0
        """the number of writes: what a reader saw before a write must not be cached after it"""

    async def records(self, event_ids: Sequence[str]) -> Mapping[str, Record]:
        """By event id, the records of known events, forgotten ones included."""
        found = {i: record for i in event_ids if (record := self._records.get(i)) is not None}
        missing = [i for i in event_ids if i not in found]
        if missing:
            changes = self.changes
            wanted = f"select {RECORD_COLUMNS} from event where event_id in {VALUES}"
            rows = await self._database.rows(wanted, (json.dumps(missing),))
            for row in rows:
                record = record_in(tuple(row))
                found[record.event.event_id] = record
                if changes == self.changes:
                    self._records[record.event.event_id] = record
            while len(self._records) > CACHED_RECORDS:
                self._records.popitem(last=False)
        return found

    async def neighbours(self, event_ids: Sequence[str], span: int) -> Mapping[str, Sequence[Record]]:
        """By event id, up to ``span`` events before it and after it in its order; unknown ids are left out."""
        found = {i: near for i in event_ids if (near := self._neighbours.get((i, span))) is not None}
        if missing := [i for i in event_ids if i not in found]:
            changes = self.changes
            ids = await self._neighbour_ids((await self.records(missing)).values(), span)
            every = await self.records(list(dict.fromkeys(i for near in ids.values() for i in near)))
            read = {event_id: tuple(every[i] for i in near if i in every) for event_id, near in ids.items()}
            found |= read
            if changes == self.changes:
                if len(self._neighbours) > CACHED_RECORDS:
                    self._neighbours.clear()
                self._neighbours |= {(event_id, span): records for event_id, records in read.items()}
        return found

    async def _neighbour_ids(self, records: Iterable[Record], span: int) -> Mapping[str, Sequence[str]]:
        """By event id, the ids of up to ``span`` events before it and after it in its order."""
        keyed = [(record.event.event_id, key) for record in records if (key := _order_key(record.event)) is not None]
        orders = await self._orders_of(dict.fromkeys(key for _, key in keyed))
        found: dict[str, list[str]] = {}
        for event_id, key in keyed:
            if (there := orders[key].get(event_id)) is not None:
                ids, at = there
                found[event_id] = [*ids[max(0, at - span) : at], *ids[at + 1 : at + 1 + span]]
        return found

    async def _orders_of(self, keys: Iterable[_OrderKey]) -> Mapping[_OrderKey, _Order]:
        """By key, the orders of documents and sessions. Those that are not cached are read together."""
        found = {key: self._orders.get(key) for key in keys}
        if missing := [key for key, order in found.items() if order is None]:
            changes = self.changes
            read = await self._database.read(lambda db: {key: _read_order(db, key) for key in missing})
            found |= read
            if changes == self.changes:
                self._orders |= read
            while len(self._orders) > CACHED_DOCUMENTS:
                self._orders.popitem(last=False)
        return {key: order for key, order in found.items() if order is not None}

    async def frequencies(self, scope: Scope, asked: Sequence[str]) -> Frequencies:
        """The document frequency of each term among the memories of the scope's user, or of the whole tenant."""
        owner = (scope.tenant, scope.user_id)
        known = self._counts.get(owner)
        if known is None or not known.counts.keys() >= set(asked):
            changes = self.changes
            found = await self._database.read(lambda db: frequencies(db, scope, asked))
            known = replace(found, counts={**dict.fromkeys(asked, 0), **found.counts})
            if changes == self.changes:
                if sum(len(one.counts) for one in self._counts.values()) > CACHED_TERMS:
                    self._counts.clear()
                before = self._counts.get(owner, known).counts
                self._counts[owner] = replace(known, counts={**before, **known.counts})
        return replace(known, counts={term: n for term in asked if (n := known.counts[term])})

    def invalidate(self) -> None:
        """Note a write: drop neighbours and frequencies, and do not cache what is being read now."""
        self.changes += 1
        self._neighbours.clear()
        self._counts.clear()

    def clear(self) -> None:
        """Drop everything, after a write that changed many events."""
        self.invalidate()
        self._records.clear()
        self._orders.clear()

    def drop(self, event: Event) -> None:
        """Drop an event that was added or changed, and the order that it is in."""
        self._records.pop(event.event_id, None)
        key = _order_key(event)
        if key is not None:
            self._orders.pop(key, None)

    def drop_records(self, event_ids: Iterable[str]) -> None:
        """Drop events whose state changed; their orders stay."""
        for event_id in event_ids:
            self._records.pop(event_id, None)

    def drop_superseded(self, event_id: str) -> None:
        """Drop a superseded event, and all orders: its replacement may be in another document."""
        self._records.pop(event_id, None)
        self._orders.clear()


def _read_order(db: Connection, key: _OrderKey) -> _Order:
    """The current events of one document or session in reading order.

    What a file of JSONL says of a session is in an order of its own. Which file has a document is decided when an event
    is stored, so its events are in one order across files.
    """
    of_document = key[0] == "document"
    by = "document = ? and place_unit = ?" if of_document else "document is null and session_id = ?"
    *owner, stated_by = key[1:]
    rows = db.execute(
        "select event_id, file, source, place_unit, trust, origin from event "
        "where tenant = ? and user_id is ? and agent_id is ? and run_id is ? "
        f"and {by} and forgotten = 0 and superseded_by is null order by place_start, seq",
        owner,
    )
    by_file: dict[str | None, list[str]] = {}
    known: dict[tuple[Any, ...], bool] = {}  # most rows of a document say the same
    for event_id, file, *said in rows:
        if (ours := known.get(tuple(said))) is None:
            source, unit, trust, origin = said
            ours = known[tuple(said)] = voucher(source, unit, doubtful=is_doubtful(trust, origin)) == stated_by
        if ours:
            by_file.setdefault(None if of_document else file, []).append(event_id)
    return {event_id: (ids, at) for ids in by_file.values() for at, event_id in enumerate(ids)}


def _order_key(event: Event) -> _OrderKey | None:
    """The key of the order that an event is in: its document, else its session, by who stated it; None without."""
    scope = event.scope
    if event.place is not None:
        return ("document", *document_key(event))
    if scope.session_id is not None:
        owner = (scope.tenant, scope.user_id, scope.agent_id, scope.run_id)
        return ("session", *owner, scope.session_id, event.stated_by)
    return None
