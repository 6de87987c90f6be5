"""The provenance of a memory: its kinds and their references, and what source and place say."""

from __future__ import annotations

import time
from dataclasses import replace
from datetime import UTC, datetime
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from fusion.contract import Event, Place, Provenance, State
from fusion.errors import BadInput
from fusion.lib.provenance import KINDS, NONE, parse_provenance, provenance_of


@pytest.mark.row("A145", "a reference tells its kind of provenance: url, file_line, file_anchor, receipt, opaque, none")
@pytest.mark.parametrize(
    ("ref", "kind"),
    [
        ("", "none"),
        ("https://example.org/minutes", "url"),
        ("HTTP://example.org", "url"),
        ("notes/db.md#L3", "file_line"),
        ("notes/my file.md#L3-L9", "file_line"),
        ("notes/db.md#L3-9", "file_line"),
        ("notes/db.md#L9-L3", "opaque"),
        ("notes/db.md#backups", "file_anchor"),
        ("receipt:0199a1b2", "receipt"),
        ("graph_refresh_receipt:7", "receipt"),
        ("javascript:alert(1)", "opaque"),
        ("file:///etc/passwd", "opaque"),
        ("what Ana said on the phone", "opaque"),
        ("#", "opaque"),
    ],
)
def test_reference_tells_its_kind(ref: str, kind: str) -> None:
    assert parse_provenance(ref) == Provenance(kind, ref)  # type: ignore[arg-type]
    assert parse_provenance({"kind": kind, "ref": ref}).kind == kind


def test_every_reference_may_be_opaque_and_kinds_have_aliases() -> None:
    assert parse_provenance({"kind": "opaque", "ref": "https://example.org"}).kind == "opaque"
    assert parse_provenance({"kind": "file-line", "ref": "a.md#L1"}).kind == "file_line"
    assert parse_provenance({"kind": "none"}) == NONE
    assert parse_provenance({"ref": "a.md#L1"}).kind == "file_line"


@pytest.mark.row("A145", "a reference that has not the form of its kind of provenance is refused")
@pytest.mark.parametrize(
    "value",
    [
        {"kind": "url", "ref": "ftp://example.org"},
        {"kind": "file_line", "ref": "a.md"},
        {"kind": "none", "ref": "a.md"},
        {"kind": "opaque", "ref": ""},
        {"kind": "magic", "ref": "x"},
        {"kind": 3, "ref": "x"},
        {"kind": "url", "ref": ["https://example.org"]},
        {"kind": "opaque", "ref": "x", "more": 1},
        "two\nlines",
        "a\u202eb",
        "nul\0",
        "x" * 2049,
        7,
        None,
    ],
)
def test_wrong_provenance_is_refused(value: Any) -> None:
    with pytest.raises(BadInput, match="provenance: give a reference"):
        parse_provenance(value)


EVENT = Event("0199", "Backups run at two.", datetime(2026, 3, 14, tzinfo=UTC))


@pytest.mark.row("A145", "without a stated provenance, source and place say where a memory comes from")
@pytest.mark.parametrize(
    ("event", "found"),
    [
        (EVENT, NONE),
        (replace(EVENT, source="file:/n/db.md", place=Place("db.md", 3, 9, "line")), ("file_line", "/n/db.md#L3-L9")),
        (replace(EVENT, source="file:/n/a#b.md", place=Place("x", 3, 3, "line")), ("file_line", "/n/a%23b.md#L3")),
        (replace(EVENT, source="file:/n/db.md"), ("opaque", "file:/n/db.md")),
        (replace(EVENT, source="https://example.org/a"), ("url", "https://example.org/a")),
        (replace(EVENT, source="web:minutes"), ("opaque", "web:minutes")),
        (replace(EVENT, place=Place("talk", 4, 4)), ("opaque", "talk, turn 4")),
    ],
)
def test_source_and_place_are_the_provenance(event: Event, found: Provenance | tuple[str, str]) -> None:
    assert provenance_of(event, State()) == (found if isinstance(found, Provenance) else Provenance(*found))  # type: ignore[arg-type]
    stated = Provenance("url", "https://example.org")
    assert provenance_of(event, State(provenance=stated)) == stated


@given(st.text(max_size=80))
def test_every_text_is_refused_or_has_one_kind(text: str) -> None:
    try:
        found = parse_provenance(text)
    except BadInput:
        return
    assert found.kind in KINDS
    assert parse_provenance({"kind": found.kind, "ref": found.ref}) == found


@pytest.mark.parametrize("text", ["#" * 2048, "a#" * 1024, "https://" + "a" * 2040, "a#L" + "9" * 2000, "_" * 2048])
def test_hostile_reference_takes_bounded_time(text: str) -> None:
    began = time.process_time()
    parse_provenance(text)
    assert time.process_time() - began < 0.2
