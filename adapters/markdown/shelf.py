"""What is known of every document now: a table in memory, rebuilt from the files at each opening.

A document is replaced in one step, so that a reader meets its old or its new state.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from dataclasses import dataclass, field

from adapters.index import Entry
from adapters.markdown.files import Signature
from fusion.contract import Hit


@dataclass(frozen=True, slots=True)
class Item:
    """One thing that can be found: a chunk of a user's file, or an entry of the gateway's own.

    ``entries`` are what the index holds of it: more than one for a long entry, which is found by any of
    its parts and given back whole. ``own``: it may be deleted.
    """

    hit: Hit
    entries: tuple[Entry, ...]


@dataclass(slots=True)
class Document:
    """A file's items. ``signature`` is that of the state they were read from; ``None`` makes the next scan read
    it again, and ``digest`` then says whether anything changed."""

    name: str
    items: list[Item]
    signature: Signature | None = None
    digest: bytes | None = None
    remarks: tuple[str, ...] = ()
    _order: list[Hit] = field(default_factory=list)
    _position: dict[str, int] = field(default_factory=dict)

    def beside(self, native_id: str, span: int) -> list[Hit]:
        """Up to ``span`` hits before and after one, in the document's order; an entry without a place has none."""
        if len(self._order) != len(self.items):
            hits = [item.hit for item in self.items]
            self._order = sorted(hits, key=lambda hit: (hit.place.start, hit.place.end) if hit.place else (0, 0))
            self._position = {hit.native_id: n for n, hit in enumerate(self._order)}
        at = self._position.get(native_id)
        if at is None or self._order[at].place is None:
            return []
        near = self._order[max(0, at - span) : at] + self._order[at + 1 : at + 1 + span]
        return [hit for hit in near if hit.place is not None]


class Shelf:
    """All documents by name, all items by what they are looked up by.

    ``generation`` counts what was taken away or replaced: where it is the same before and after, nothing was.
    """

    def __init__(self) -> None:
        self.documents: dict[str, Document] = {}
        self.generation = 0
        self._by_key: dict[str, Item] = {}
        self._by_event: dict[str, list[Item]] = {}
        self._native: dict[str, str] = {}

    def __len__(self) -> int:
        return len(self._native)

    def put(self, document: Document) -> None:
        self.drop(document.name)
        self.documents[document.name] = document
        self._link(document.name, document.items)

    def extend(self, name: str, items: Sequence[Item], signature: Signature | None) -> None:
        """Add items at a document's end, which stays in step with its file: what was there is not looked at."""
        document = self.documents.setdefault(name, Document(name, []))
        document.items.extend(items)
        document.signature, document.digest = signature, None
        self._link(name, items)

    def drop(self, name: str) -> None:
        document = self.documents.pop(name, None)
        if document is None:
            return
        self.generation += 1
        for item in document.items:
            del self._native[item.hit.native_id]
            for entry in item.entries:
                del self._by_key[entry.key]
            if item.hit.event_id is not None:
                left = [other for other in self._by_event[item.hit.event_id] if other is not item]
                if left:
                    self._by_event[item.hit.event_id] = left
                else:
                    del self._by_event[item.hit.event_id]

    def found(self, key: str) -> Item | None:
        """The item that an entry of the index belongs to."""
        return self._by_key.get(key)

    def of_event(self, event_id: str) -> Sequence[Item]:
        return self._by_event.get(event_id, ())

    def holding(self, native_id: str) -> Document | None:
        name = self._native.get(native_id)
        return None if name is None else self.documents[name]

    def entries(self) -> Iterator[Entry]:
        for document in self.documents.values():
            for item in document.items:
                yield from item.entries

    def _link(self, name: str, items: Sequence[Item]) -> None:
        for item in items:
            self._native[item.hit.native_id] = name
            for entry in item.entries:
                self._by_key[entry.key] = item
            if item.hit.event_id is not None:
                self._by_event.setdefault(item.hit.event_id, []).append(item)
