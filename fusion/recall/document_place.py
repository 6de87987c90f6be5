"""The place of hits in their documents: whether two are of one document, and which overlap."""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Sequence

from fusion.contract import Hit, Place, document_of
from fusion.lib.words import word_list


def in_one_document(hit: Hit, other: Hit) -> bool:
    """Whether both hits have the same `document_of`; the names are compared first, since most differ in them."""
    if hit is other:
        return True
    if hit.place is None or other.place is None:
        return hit.place is other.place
    return hit.place.document == other.place.document and document_of(hit) == document_of(other)


class PlaceIndex:
    """An index of hits by their place; hits are given as indices into ``hits``."""

    def __init__(self, hits: Sequence[Hit]) -> None:
        self._hits = hits
        self._documents = [document_of(hit) for hit in hits]
        # Nearly all turns have a single position, so only hits of the same position need to be compared.
        self._at_position: dict[object, dict[int, list[int]]] = defaultdict(dict)
        self._spans: dict[object, list[int]] = defaultdict(list)

    def add(self, i: int) -> None:
        """Adds a hit; one without a place is ignored."""
        hit = self._hits[i]
        if hit.place is None:
            return
        document = self._documents[i]
        if hit.place.start == hit.place.end:
            self._at_position[document].setdefault(hit.place.start, []).append(i)
        else:
            self._spans[document].append(i)

    def find(self, i: int) -> int | None:
        """The first added hit whose span contains this one's or is within it, and so are its words."""
        hit = self._hits[i]
        if hit.place is None:
            return None
        for j in self._near(self._documents[i], hit.place):
            other = self._hits[j]
            if _nested(hit.place, other.place) and other.derived_from == hit.derived_from and _has_words_of(hit, other):
                return j
        return None

    def _near(self, document: object, place: Place) -> Sequence[int]:
        at_position = self._at_position[document]
        if place.start == place.end:
            found: Sequence[int] = at_position.get(place.start, ())
        else:
            found = [j for position, here in at_position.items() if place.start <= position <= place.end for j in here]
        wider = self._spans.get(document)
        return sorted((*found, *wider)) if wider else found


def _nested(place: Place, other: Place | None) -> bool:
    """Whether one of two places of a document is within the other."""
    return other is not None and (
        (other.start <= place.start and place.end <= other.end)
        or (place.start <= other.start and other.end <= place.end)
    )


def _has_words_of(hit: Hit, other: Hit) -> bool:
    """Whether one text contains the other's words in a row. If not, the lines of the file have changed since."""
    if hit.text == other.text:
        return True
    one, two = (" ".join(word_list(h.text)) for h in (hit, other))
    return one in two or two in one
