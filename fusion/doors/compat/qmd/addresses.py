"""The addresses of documents, as QMD has them: ``qmd://collection/path``, ``collection/path`` and ``#docid``."""

from __future__ import annotations

import re
from dataclasses import dataclass
from urllib.parse import quote, unquote

from fusion.doors.compat.openclaw_mem.ids import record_id, ref_of
from fusion.errors import NotFound

SCHEME = "qmd://"
COLLECTION = "memory"
"""the collection of all documents and memories of a home"""
_DOCID = re.compile(r"#?(?P<digits>[0-9a-f]{6,16})|#(?P<short>[0-9a-f]{1,5})", re.IGNORECASE)
_RANGE = re.compile(r":(?P<start>[0-9]{1,15})(:(?P<count>[0-9]{1,15}))?$")


@dataclass(frozen=True, slots=True)
class Address:
    """What a client asks for: a path of the gateway or a ref, and the lines. ``lines`` None: as many as there are."""

    path: str
    is_ref: bool = False
    start: int = 1
    lines: int | None = None


def uri_of(path: str) -> str:
    """The address of a document, or of a memory by its ref; that of a QMD behind the gateway stays as it is."""
    return path if path.startswith(SCHEME) else f"{SCHEME}{COLLECTION}/{quote(path)}"


def collection_of(uri: str) -> str:
    """The collection of an address."""
    return uri.removeprefix(SCHEME).partition("/")[0]


def docid_of(ref: str) -> str | None:
    """The docid of a memory: ``#`` and at least six hexadecimal digits, which lead back to its ref."""
    number = record_id(ref)
    return None if number is None else f"#{number:06x}"


def address_of(named: str) -> Address:
    """What a client names: a docid or an address, with ``:from`` or ``:from:count`` after it. Raises NotFound."""
    name, start, lines = named.strip().strip("\"'"), 1, None
    if span := _RANGE.search(name):
        name = name[: span.start()]
        start, lines = max(1, int(span["start"])), int(span["count"]) if span["count"] else None
    if docid := _DOCID.fullmatch(name):
        return Address(_ref_of(docid["digits"] or docid["short"], named), True, start, lines)
    if not name:
        raise NotFound("Document not found: it has no name")
    path = name.removeprefix(SCHEME)
    if path.startswith(f"{COLLECTION}/"):
        return Address(unquote(path.removeprefix(f"{COLLECTION}/")), False, start, lines)
    return Address(name, False, start, lines)


def _ref_of(digits: str, named: str) -> str:
    try:
        return ref_of(int(digits, 16))
    except ValueError:
        raise NotFound(f"Document not found: {named}") from None
