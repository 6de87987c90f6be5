"""The log of segments: acknowledged lines stay, pointers stay valid, and damage is reported."""

from __future__ import annotations

from pathlib import Path

import pytest
from hypothesis import given
from hypothesis import strategies as st
from hypothesis.stateful import RuleBasedStateMachine, invariant, rule

from fusion.errors import NotFound
from fusion.store.segments import LOST, CutSegment, Place, SegmentLog

BLANK = b'{"blank":true}'


def lines(log: SegmentLog) -> list[bytes]:
    return [line for _, line in log.lines_from(Place(1, 1))]


def filled(folder: Path, count: int = 30) -> tuple[SegmentLog, list[Place]]:
    """A log of several segments; each line is its own number."""
    log = SegmentLog.open(folder, segment_bytes=100)
    return log, [log.append([b"line %06d" % n])[0] for n in range(count)]


@pytest.mark.row(
    "A149", "segments are closed and compressed by size, an index lists them, and every pointer stays valid"
)
def test_pointers_stay_valid_when_segments_are_packed(tmp_path: Path) -> None:
    log, places = filled(tmp_path)
    assert len(list(tmp_path.glob("*.zst"))) >= 2
    assert (tmp_path / "index.json").exists()
    for number, place in enumerate(places):
        assert log.read(place.pointer) == b"line %06d" % number
    again = SegmentLog.open(tmp_path, segment_bytes=100)
    assert [again.read(place.pointer) for place in places] == lines(log)
    assert again.end == log.end
    assert again.segments() == log.segments()


@pytest.mark.row("A149", "forgetting overwrites a line in its place, also in a compressed segment; other pointers stay")
def test_rewritten_lines_keep_the_places_of_others(tmp_path: Path) -> None:
    log, places = filled(tmp_path)
    gone = {places[0], places[7], places[-1]}
    assert log.rewrite(dict.fromkeys(gone, BLANK)) == 3
    assert log.rewrite(dict.fromkeys(gone, BLANK)) == 0
    log.append([b"one more"])
    again = SegmentLog.open(tmp_path, segment_bytes=100)
    for number, place in enumerate(places):
        assert again.read(place.pointer) == (BLANK if place in gone else b"line %06d" % number)
    stored = b"".join(file.read_bytes() for file in tmp_path.iterdir())
    assert b"line 000029" not in stored


@pytest.mark.parametrize("there", [0, 3, 30], ids=["no file", "one segment", "several"])
def test_a_log_that_lost_segments_goes_on_behind_them(tmp_path: Path, there: int) -> None:
    """The ledger has what was before place 4 of segment 90: the next line gets that place, also after a restart."""
    log, places = filled(tmp_path, there)
    assert log.fill(Place(90, 4)) == 3
    assert log.append([b"after the loss"]) == [Place(90, 4)]
    again = SegmentLog.open(tmp_path, segment_bytes=100)
    assert again.read("000090#4") == b"after the loss"
    assert [again.read(place.pointer) for place in places] == [b"line %06d" % n for n in range(there)]
    assert lines(again) == [*(b"line %06d" % n for n in range(there)), LOST, LOST, LOST, b"after the loss"]
    assert again.fill(Place(2, 9)) == 0


def test_an_index_that_is_lost_is_made_again(tmp_path: Path) -> None:
    log, _ = filled(tmp_path)
    for damaged in (None, b"{", b'{"segments": [{"number": 1}]}'):
        (tmp_path / "index.json").unlink()
        if damaged is not None:
            (tmp_path / "index.json").write_bytes(damaged)
        assert SegmentLog.open(tmp_path, segment_bytes=100).segments() == log.segments()


def test_a_line_that_was_not_acknowledged_is_cut_off(tmp_path: Path) -> None:
    """The process ended in the middle of a write."""
    log, places = filled(tmp_path, 3)
    with (tmp_path / "segment-000001.jsonl").open("ab") as file:
        file.write(b"half of a li")
    again = SegmentLog.open(tmp_path, segment_bytes=100)
    assert lines(again) == lines(log)
    assert again.append([b"next"]) == [Place(1, 4)]
    assert again.read(places[0].pointer) == b"line 000000"


def test_a_process_that_ended_while_it_packed_loses_nothing(tmp_path: Path) -> None:
    log, _ = filled(tmp_path)
    expected = lines(log)
    packed = next(iter(sorted(tmp_path.glob("*.zst"))))
    (tmp_path / packed.name.removesuffix(".zst")).write_bytes(b"line 000000\nline 000001\n")  # it was not removed yet
    assert lines(SegmentLog.open(tmp_path, segment_bytes=100)) == expected


@pytest.mark.row("A149", "an archive that is cut is read as far as it goes, and reported; the next ones are whole")
def test_an_archive_that_is_cut_is_reported(tmp_path: Path) -> None:
    log, places = filled(tmp_path)
    file = tmp_path / "segment-000002.jsonl.zst"
    file.write_bytes(file.read_bytes()[:-12])
    again = SegmentLog.open(tmp_path, segment_bytes=100)
    with pytest.raises(CutSegment, match="segment 000002 cannot be read after line"):
        list(again.lines_from(Place(2, 1)))
    assert [line for _, line in again.lines_from(Place(3, 1))] == [line for _, line in log.lines_from(Place(3, 1))]
    assert again.read(places[0].pointer) == b"line 000000"
    assert again.rewrite({Place(2, 1): BLANK}) == 1
    assert again.read("000002#1") == BLANK
    assert again.read("000002#2") in (LOST, log.read("000002#2")), "what could not be read is gone for good"


@pytest.mark.parametrize("pointer", ["", "1#1", "000001#0", "000001", "../../etc#1", "000009#1", "000001#999"])
def test_a_pointer_that_names_no_line_is_not_found(tmp_path: Path, pointer: str) -> None:
    log, _ = filled(tmp_path, 3)
    with pytest.raises(NotFound):
        log.read(pointer)


def test_no_segment_is_written_through_a_link(tmp_path: Path) -> None:
    target = tmp_path / "elsewhere"
    target.write_bytes(b"")
    folder = tmp_path / "log"
    folder.mkdir()
    (folder / "segment-000001.jsonl").symlink_to(target)
    log = SegmentLog.open(folder)
    with pytest.raises(Exception, match="cannot be written"):
        log.append([b"x"])
    assert target.read_bytes() == b""


class LogMachine(RuleBasedStateMachine):
    """Appends, rewrites and opens a log anew, in any order."""

    folder: Path

    def __init__(self) -> None:
        super().__init__()
        import tempfile

        self.folder = Path(tempfile.mkdtemp(prefix="segments-"))
        self.log = SegmentLog.open(self.folder, segment_bytes=60)
        self.model: dict[Place, bytes] = {}

    @rule(texts=st.lists(st.integers(0, 10**20), min_size=1, max_size=4))
    def append(self, texts: list[int]) -> None:
        written = [str(text).encode() for text in texts]
        self.model |= dict(zip(self.log.append(written), written, strict=True))

    @rule(data=st.data())
    def rewrite(self, data: st.DataObject) -> None:
        if self.model:
            place = data.draw(st.sampled_from(sorted(self.model)))
            self.log.rewrite({place: BLANK})
            self.model[place] = BLANK

    @rule()
    def reopen(self) -> None:
        self.log = SegmentLog.open(self.folder, segment_bytes=60)

    @invariant()
    def every_pointer_is_valid(self) -> None:
        assert dict(self.log.lines_from(Place(1, 1))) == self.model

    def teardown(self) -> None:
        import shutil

        shutil.rmtree(self.folder)


TestLogMachine = LogMachine.TestCase


@given(st.integers(1, 999_999), st.integers(1, 10**8))
def test_a_pointer_is_read_as_it_was_written(segment: int, line: int) -> None:
    assert Place.of(Place(segment, line).pointer) == Place(segment, line)
