"""Where a memory comes from, as openclaw-mem names it (seed 004): a kind, and a reference of that kind.

| kind | reference |
|---|---|
| none | empty |
| url | an address: `https://example.org/minutes` |
| file_line | lines of a file: `notes/db.md#L3`, `notes/db.md#L3-L9` |
| file_anchor | a place in a file by name: `notes/db.md#backups` |
| receipt | a receipt: `receipt:0199a1b2` |
| opaque | anything else on one line |

A reference is a label: nothing opens it.
"""

from __future__ import annotations

import re
from collections.abc import Mapping
from typing import Any, get_args

from fusion.contract import FILE_PREFIX, Event, Provenance, ProvenanceKind, State
from fusion.errors import BadInput

MAX_REF_CHARS = 2048
KINDS: tuple[ProvenanceKind, ...] = get_args(ProvenanceKind)
NONE = Provenance("none")
_URL = re.compile(r"https?://[^\s/]{1,255}(?:/\S{0,2000})?", re.IGNORECASE)
_LINES = re.compile(r"(?P<path>[^#\s][^#]{0,2000})#L(?P<first>\d{1,9})(?:-L?(?P<last>\d{1,9}))?")
_ANCHOR = re.compile(r"[^#\s][^#]{0,2000}#[^\s#]{1,256}")
_RECEIPT = re.compile(r"[a-z_]{0,40}receipt:[^\s:]{1,256}")
_ALIASES = {
    "file-line": "file_line",
    "fileline": "file_line",
    "file-anchor": "file_anchor",
    "fileanchor": "file_anchor",
}
_WANTED = (
    "provenance: give a reference on one line, or {kind, ref} with one of the kinds none, url (https://…), "
    "file_line (path#L3-L9), file_anchor (path#name), receipt (receipt:ID), opaque"
)


def parse_provenance(value: Any) -> Provenance:
    """The provenance that a value states: a reference, whose form tells its kind, or an object with kind and ref.

    Raises BadInput for another value, and for a reference that has not the form of its kind.
    """
    if isinstance(value, Provenance):
        return parse_provenance({"kind": value.kind, "ref": value.ref})
    if isinstance(value, Mapping):
        kind, ref = value.get("kind", ""), value.get("ref") or ""
        if not isinstance(kind, str) or not isinstance(ref, str) or not value.keys() <= {"kind", "ref"}:
            raise BadInput(_WANTED)
        return _checked(_ALIASES.get(kind.lower(), kind.lower()) or str(_kind_of(_one_line(ref))), _one_line(ref))
    if not isinstance(value, str):
        raise BadInput(_WANTED)
    ref = _one_line(value)
    return Provenance(_kind_of(ref), ref)


def provenance_of(event: Event, state: State) -> Provenance:
    """The provenance of a memory: what was stated, else what its source and place say."""
    if state.provenance is not None:
        return state.provenance
    source, place = event.source or "", event.place
    if source.startswith(FILE_PREFIX):
        path = source.removeprefix(FILE_PREFIX).replace("#", "%23")
        if place is None or place.unit != "line":
            return Provenance("opaque", source)
        last = f"-L{place.end}" if place.end != place.start else ""
        return Provenance("file_line", f"{path}#L{place.start}{last}")
    if source:
        return Provenance(_kind_of(source), source)
    return NONE if place is None else Provenance("opaque", f"{place.document}, {place.unit} {place.start}")


def _one_line(ref: str) -> str:
    ref = ref.strip()
    if len(ref) > MAX_REF_CHARS or not all(character.isprintable() for character in ref):
        raise BadInput(_WANTED)
    return ref


def _kind_of(ref: str) -> ProvenanceKind:
    """The kind that the form of a reference tells."""
    if not ref:
        return "none"
    if _URL.fullmatch(ref):
        return "url"
    if _RECEIPT.fullmatch(ref):
        return "receipt"
    if found := _LINES.fullmatch(ref):
        return "file_line" if int(found["last"] or found["first"]) >= int(found["first"]) else "opaque"
    return "file_anchor" if _ANCHOR.fullmatch(ref) else "opaque"


def _checked(kind: str, ref: str) -> Provenance:
    """A provenance of a stated kind, which its reference must fit; every reference may be opaque."""
    for one in KINDS:
        if kind == one and (one == _kind_of(ref) or (one == "opaque" and ref)):
            return Provenance(one, ref)
    raise BadInput(_WANTED)
