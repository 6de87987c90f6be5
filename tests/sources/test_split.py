"""Texts that are too long for one memory: in pieces, complete, each of a size that is taken."""

from __future__ import annotations

import json
from pathlib import Path

import orjson
import pytest
from hypothesis import given
from hypothesis import strategies as st

from benchmarks.datasets import Corpus, DataError, Item
from benchmarks.fill_stores import count_split
from fusion.contract import Place, Scope
from fusion.doors.cli.ingest import Tally
from fusion.doors.memory_batches import BATCH_BYTES, wire_form
from fusion.ingest.intake import MAX_TEXT_CHARS, Intake, NewMemory
from fusion.sources.readers import read
from fusion.sources.split import MAX_TEXT_BYTES, is_too_long, split

PROSE = "The harbour was dredged in spring, and the cranes were moved to the northern quay. "


@pytest.mark.parametrize("text", [PROSE * 4_300, "x" * 348_853, "\x01" * 40_000 + " end", "ä\n" * 70_000])
def test_a_long_text_becomes_pieces_that_are_taken_and_leave_nothing_out(text: str) -> None:
    """Every word of it, in order, in pieces of which each is one memory and fits a request."""
    pieces = list(split(NewMemory(text, Scope(), source="jsonl:a", place=Place("chat", 7, 7))))
    assert len(pieces) > 1
    assert "".join("".join(piece.text for piece in pieces).split()) == "".join(text.split())
    assert {piece.place.document for piece in pieces if piece.place} == {"chat#7"}
    assert len({piece.revision for piece in pieces}) == len(pieces)
    for piece in pieces:
        Intake.check(piece)
        assert len(orjson.dumps(wire_form(piece))) < BATCH_BYTES


@given(st.text(max_size=200), st.integers(1, 3_000))
def test_a_text_that_is_not_split_fits_in_a_request(text: str, times: int) -> None:
    """The bound is not below what JSON makes of a text; a short one is left as it is."""
    long = text * times
    if not is_too_long(long):
        assert len(long) <= MAX_TEXT_CHARS
        assert len(json.dumps(long, ensure_ascii=False).encode("utf-8", "replace")) <= MAX_TEXT_BYTES + 2
        assert [piece.text for piece in split(NewMemory(long))] == [long]


@pytest.mark.feature("a text that is too long for one memory is split, and counted")
def test_a_long_line_of_jsonl_and_a_long_turn_are_read_in_pieces_and_counted(tmp_path: Path) -> None:
    """Until now they were skipped; a second reading has the same pieces, so that nothing is kept twice."""
    (tmp_path / "a.jsonl").write_text(json.dumps({"text": PROSE * 2_000}) + "\n" + json.dumps({"text": "short"}) + "\n")
    turn = {"type": "user", "sessionId": "s1", "uuid": "u1", "message": {"role": "user", "content": PROSE * 2_000}}
    (tmp_path / "s1.jsonl").write_text(json.dumps({**turn, "cwd": "/", "timestamp": "2026-01-01T00:00:00Z"}) + "\n")
    tally = Tally()
    first = list(read([tmp_path], split_up=tally.split_up))
    assert all(isinstance(item, NewMemory) for item in first)
    assert tally.split == 2
    assert "short" in [item.text for item in first if isinstance(item, NewMemory)]
    assert first == list(read([tmp_path]))


@pytest.mark.feature(
    "… and a benchmark names what cannot be stored before anything is", of="a text that is too long for one"
)
def test_a_benchmark_finds_what_cannot_be_stored_before_anything_is() -> None:
    """A message of 348,853 characters is counted; one whose name holds a secret is named."""
    long = Corpus("c1", (Item("m1", PROSE * 4_300, "batch_0", 3), Item("m2", "short", "batch_0", 4)), ())
    counted = count_split([long], captions=False)
    assert counted["messages"] == 1
    assert counted["pieces"] > 200
    assert count_split([Corpus("c2", (Item("m1", "short"),), ())], captions=False) == {}
    secret = "sk-ant-" + "api03-a1B2c3D4e5F6g7H8i9J0"
    with pytest.raises(DataError, match=r"c3, message m7\.document has a secret"):
        count_split([Corpus("c3", (Item("m7", "x", secret),), ())], captions=False)
