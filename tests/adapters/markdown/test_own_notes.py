"""An entry says all that is known of its event, and survives what people, editors and crashes do to files."""

from __future__ import annotations

import resource
from datetime import UTC, datetime
from pathlib import Path
from typing import get_args

import pytest
from hypothesis import given
from hypothesis import strategies as st

from adapters.markdown.files import signature
from adapters.markdown.own_notes import Notes, file_of, parse, write
from fusion.contract import KINDS, Event, Moment, Origin, Place, Precision, Scope, Trust

NOON = datetime(2026, 3, 4, 12, 0, tzinfo=UTC)

NASTY = (
    "",
    "\n",
    " ",
    "\n\nblank lines around\n\n",
    "a --> b <!-- c",
    "<!-- memory {} -->",
    "<!-- /memory -->",
    "\\<!-- /memory -->\n\\\\<!-- memory x",
    '<!-- memory {"event_id":"stolen"} -->\n## heading\n\nbody\n<!-- /memory -->',
    "# heading\n## another\n\ntext",
    "```\nnever closed",
    "windows\r\nline\rends\r",
    "trailing \\",
    "\\",
    "---\nfront: matter\n---",
    "\u2028\u2029\x85\x0b\x0c\x1c",
    "\ufeffbom",
    "\0nul",
    "🤷\u200d♂️ 東京 é e\u0301",
)

_texts = st.sampled_from(NASTY) | st.text() | st.lists(st.sampled_from(NASTY), max_size=4).map("\n".join)
_names = st.text(st.characters(exclude_categories=["Cs"]), min_size=1, max_size=20)
_maybe = st.none() | _names
_times = st.datetimes(timezones=st.just(UTC))
_events = st.builds(
    Event,
    event_id=_names,
    text=_texts,
    recorded_at=_times,
    scope=st.builds(
        Scope, tenant=_names, user_id=_maybe, session_id=_maybe, project=_maybe, audience=st.just("private")
    ),
    kind=st.sampled_from(KINDS),
    raw_kind=_maybe,
    speaker=_maybe,
    at=st.none() | st.builds(Moment, _times, st.sampled_from(get_args(Precision)), _maybe),
    place=st.none()
    | st.builds(Place, _names, st.integers(0, 9), st.integers(9, 20), st.sampled_from(["turn", "line"])),
    source=_maybe,
    revision=st.text(st.characters(exclude_categories=["Cs"]), max_size=5),
    trust=st.sampled_from(get_args(Trust)),
    origin=st.sampled_from(get_args(Origin)),
    valid_from=st.none() | _times,
    valid_to=st.none() | _times,
    supersedes=_maybe,
    derived_from=st.lists(_names, max_size=3).map(tuple),
)


def note(text: str, event_id: str = "e1", **fields: object) -> Event:
    return Event(event_id, text, NOON, **fields)  # type: ignore[arg-type]


@given(st.lists(_events, min_size=1, max_size=3))
def test_entries_restore_their_events(events: list[Event]) -> None:
    """Written one after another and read back, every field of every event is what it was, the text to the letter."""
    page = parse("".join(write(event) for event in events))
    assert [n.event for n in page.notes] == events
    assert not page.rest.strip("\n")
    assert not page.unread
    assert page.torn is None


@pytest.mark.parametrize("text", NASTY)
def test_nasty_texts_return_to_the_letter(text: str) -> None:
    """Texts that look like markers, headings or fences stay texts."""
    page = parse(write(note(text)) + write(note("next", "e2")))
    assert [n.event.text for n in page.notes] == [text, "next"]


def test_an_entry_reads_well() -> None:
    """The file is readable for people, too."""
    event = note("We chose PostgreSQL.", speaker="Marta", at=Moment(NOON, "day"))
    assert write(event) == (
        '<!-- memory {"event_id":"e1","lines":1,"recorded_at":"2026-03-04T12:00:00+00:00","speaker":"Marta",'
        '"at":{"utc":"2026-03-04T12:00:00+00:00","precision":"day","zone":null}} -->\n'
        "## 2026-03-04 · Marta\n\nWe chose PostgreSQL.\n<!-- /memory -->\n\n"
    )


@given(_texts, st.data())
def test_an_entry_cut_short_is_known_as_such(text: str, data: st.DataObject) -> None:
    """Wherever a write was cut, the entry before it is whole, and the last is whole too or marked as torn."""
    first, second = write(note("kept")), write(note(text, "e2"))
    length = data.draw(st.integers(1, len(second)))
    page = parse(first + second[:length])
    assert page.notes[0].event.text == "kept"
    assert [n.event.text for n in page.notes[1:]] in ([], [text])
    if len(page.notes) == 1:
        assert page.torn == len(first.split("\n"))
        assert not page.rest.strip()


def test_what_is_between_entries_is_kept_apart() -> None:
    """Lines written by hand stay where they are, and are no part of an entry."""
    text = "by hand\n" + write(note("one")) + "also by hand\n" + write(note("two", "e2")) + "# at the end"
    page = parse(text)
    assert [n.event.text for n in page.notes] == ["one", "two"]
    assert [line for line in page.rest.split("\n") if line] == ["by hand", "also by hand", "# at the end"]
    lines = text.split("\n")
    assert all(lines[n] == line for n, line in enumerate(page.rest.split("\n")) if line)


def test_edited_by_hand() -> None:
    """A changed text is the new text; a lost end marker ends at the next entry; a broken marker is named, and its
    text belongs to nobody."""
    entries = write(note("old\ntext")).replace("old", "new") + write(note("open", "e2")).replace(
        "<!-- /memory -->\n", ""
    )
    entries += write(note("broken", "e3")).replace('{"event_id"', '{"event_id') + write(note("last", "e4"))
    page = parse(entries)
    assert [n.event.text for n in page.notes] == ["new\ntext", "open", "last"]
    assert page.unread == (13,)
    assert "broken" not in page.rest


def test_saved_with_windows_line_ends() -> None:
    """An editor that turns the file into CRLF changes no text."""
    page = parse((write(note("one\ntwo")) + write(note("three", "e2"))).replace("\n", "\r\n"))
    assert [n.event.text for n in page.notes] == ["one\ntwo", "three"]


@pytest.mark.feature("Markdown: new memories are appended to one file a day")
def test_a_file_a_day_or_a_document() -> None:
    """Notes go by the day they are about; turns by their session, and whose session it is."""
    assert file_of(note("x")) == "2026-03-04.md"
    assert file_of(note("x", at=Moment(datetime(2025, 1, 2, tzinfo=UTC)))) == "2025-01-02.md"
    place = Place("../Sprint: 12/../../etc\0", 1, 1)
    julien = file_of(note("x", place=place, scope=Scope(user_id="julien")))
    marta = file_of(note("x", place=place, scope=Scope(user_id="marta")))
    assert julien != marta
    assert julien.startswith("sessions/Sprint-12-..-..-etc-")
    assert "/" not in julien.removeprefix("sessions/")


@pytest.mark.feature("Markdown: new memories are appended to one file a day")
def test_append_then_remove(tmp_path: Path) -> None:
    """Removing an entry leaves all else as it was; a file with nothing left goes away."""
    notes = Notes(tmp_path)
    notes.prepare()
    file = tmp_path / "day.md"
    notes.append("day.md", write(note("one")))
    file.write_text(file.read_text() + "by hand, no line end")
    notes.append("day.md", write(note("two", "e2")))
    assert notes.remove("day.md", {"e1"})
    assert file.read_text() == "by hand, no line end\n" + write(note("two", "e2"))
    assert not notes.remove("day.md", {"e1"})
    assert file.stat().st_mode & 0o777 == 0o600
    file.write_text(write(note("two", "e2")))
    assert notes.remove("day.md", {"e2"})
    assert not file.exists()


def test_a_write_that_fails_leaves_the_file_as_it_was(tmp_path: Path) -> None:
    """When the disk takes only part of an entry, that part is taken back."""
    notes = Notes(tmp_path)
    notes.append("day.md", write(note("one")))
    before = (tmp_path / "day.md").read_bytes()
    soft, hard = resource.getrlimit(resource.RLIMIT_FSIZE)
    resource.setrlimit(resource.RLIMIT_FSIZE, (len(before) + 50, hard))
    try:
        with pytest.raises(OSError, match="too large"):
            notes.append("day.md", write(note("two " * 100, "e2")))
    finally:
        resource.setrlimit(resource.RLIMIT_FSIZE, (soft, hard))
    assert (tmp_path / "day.md").read_bytes() == before


def test_prepare_cuts_off_what_was_not_finished(tmp_path: Path) -> None:
    """After a crash in the middle of a write the file ends with the last whole entry, byte for byte."""
    notes = Notes(tmp_path)
    whole = write(note("één")) + "caf\udce9 by hand\n"
    data = whole.encode("utf-8", "surrogateescape")
    (tmp_path / "day.md").write_bytes(data + write(note("torn apart", "e2")).encode()[:-30])
    (tmp_path / ".x.new").write_text("left over")
    notes.prepare()
    assert (tmp_path / "day.md").read_bytes() == data
    assert not (tmp_path / ".x.new").exists()


@pytest.mark.parametrize("end", range(1, 200, 3))
def test_what_is_torn_is_found_from_the_end(tmp_path: Path, end: int) -> None:
    """Wherever the write of a last entry was cut, what a person wrote before it and all whole entries stay."""
    whole = (write(note("one")) + "by hand\n" + write(note("two", "e2"))).encode()
    cut = write(note("torn\n\n\\<!-- memory", "e3")).encode()[:end]
    (tmp_path / "day.md").write_bytes(whole + cut)
    Notes(tmp_path).prepare()
    kept = (tmp_path / "day.md").read_bytes()
    assert kept.startswith(whole)
    assert parse(kept.decode()).torn is None
    assert [one.event.event_id for one in parse(kept.decode()).notes][:2] == ["e1", "e2"]


@pytest.mark.feature("Markdown: at a start no file of notes is read that is as it was")
def test_prepare_reads_no_file_that_is_as_it_was(tmp_path: Path) -> None:
    """A file in the state that was whole is not even looked into; in any other state it is."""
    day = tmp_path / "sessions" / "day.md"
    day.parent.mkdir()
    day.write_bytes(torn := write(note("torn")).encode()[:-30])
    known = signature(day.stat())
    Notes(tmp_path).prepare({"sessions/day.md": known})
    assert day.read_bytes() == torn
    for other in ({}, {"sessions/day.md": None}, {"day.md": known}, {"sessions/day.md": (*known[:3], known[3] + 1)}):
        day.write_bytes(torn)
        Notes(tmp_path).prepare(other)
        assert day.read_bytes() == b""


def test_a_link_in_the_folder_is_not_written_through(tmp_path: Path) -> None:
    """Somebody's link in the place of a day's file leads nowhere."""
    notes = Notes(tmp_path / "notes")
    notes.prepare()
    target = tmp_path / "elsewhere.md"
    (tmp_path / "notes" / "day.md").symlink_to(target)
    with pytest.raises(OSError, match="symbolic"):
        notes.append("day.md", write(note("x")))
    assert not target.exists()
