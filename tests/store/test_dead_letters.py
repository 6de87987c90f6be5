"""The list of refused records: each once, without its text, and set aside in a file of its own."""

from __future__ import annotations

from datetime import UTC, datetime, timedelta
from pathlib import Path

import pytest

from fusion.store.dead_letters import MAX_BYTES, DeadLetter, DeadLetters

NOON = datetime(2026, 3, 14, 12, tzinfo=UTC)
LETTER = DeadLetter("file:events.jsonl:3", "it is no JSON", b"my secret diary")


@pytest.fixture
def letters(tmp_path: Path) -> DeadLetters:
    return DeadLetters(tmp_path / "observations" / "dead-letters.jsonl")


def wheres(letters: DeadLetters) -> list[str]:
    return [one.where for one in letters.listed()]


def test_a_letter_has_no_text_of_its_record(letters: DeadLetters) -> None:
    assert letters.listed() == []
    letters.add([LETTER], NOON)
    (one,) = letters.listed()
    assert (one.at, one.where, one.reason, one.fields["bytes"]) == (NOON, *LETTER[:2], 15)
    assert b"diary" not in letters.file.read_bytes()


def test_a_record_is_listed_once_however_often_it_is_refused(letters: DeadLetters) -> None:
    letters.add([LETTER], NOON)
    letters.add([LETTER, LETTER._replace(line=b"another")], NOON + timedelta(hours=1))
    assert [one.at.hour for one in letters.listed()] == [12, 13]


def test_what_is_set_aside_is_kept_and_not_listed_again(letters: DeadLetters) -> None:
    later = NOON + timedelta(seconds=1)
    letters.add([LETTER], NOON)
    letters.add([DeadLetter("file:events.jsonl:9", "ts is no time", b"{}")], later)
    assert letters.set_aside(NOON, "owner", "mended", later) == 1
    assert wheres(letters) == ["file:events.jsonl:9"]
    (kept,) = DeadLetters(letters.seen_file).listed()
    assert kept.fields["seen"] == {"at": later.isoformat(), "by": "owner", "why": "mended"}
    letters.add([LETTER._replace(where="file:events.jsonl:4")], later)
    assert wheres(letters) == ["file:events.jsonl:9"], "a file that is read again brings nothing back"
    assert letters.set_aside(NOON, "owner", "", later) == 0


@pytest.mark.parametrize(
    "line", [b"{", b"[]", b"{}", b'{"at":5}', b'{"at":"2026-03-14","where":"a","reason":"b"}', b"\xff"]
)
def test_lines_that_are_no_entries_are_left_out(letters: DeadLetters, line: bytes) -> None:
    letters.add([LETTER], NOON)
    letters.file.write_bytes(line + b"\n" + letters.file.read_bytes())
    assert wheres(letters) == [LETTER.where]


def test_a_list_that_is_too_long_loses_its_older_half(letters: DeadLetters) -> None:
    reason = "x" * 250
    letters.add([DeadLetter(f"file:a:{n}", reason) for n in range(3_000)], NOON)
    assert letters.file.stat().st_size < MAX_BYTES
    assert wheres(letters)[-1] == "file:a:2999"


def test_a_link_in_place_of_the_list_is_neither_read_nor_written(letters: DeadLetters, tmp_path: Path) -> None:
    other = tmp_path / "other"
    other.write_text("untouched")
    letters.file.parent.mkdir()
    letters.file.symlink_to(other)
    letters.add([LETTER], NOON)
    assert letters.listed() == []
    assert other.read_text() == "untouched"
