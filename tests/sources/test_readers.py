"""Files become memories; what cannot be read is skipped, with its reason, and the others are done."""

from __future__ import annotations

import json
import os
from collections import Counter
from datetime import UTC, datetime
from pathlib import Path
from tempfile import TemporaryDirectory
from typing import Any

import orjson
import pytest
from hypothesis import example, given, settings
from hypothesis import strategies as st

from fusion.contract import Moment, Place, Precision, Scope
from fusion.ingest.intake import NewMemory
from fusion.lib.words import content_hash
from fusion.sources.files import Limits, files, linked
from fusion.sources.readers import MAX_LINE_BYTES, Skip, moment, read, size


@pytest.fixture
def notes(tmp_path: Path) -> Path:
    folder = tmp_path / "notes"
    folder.mkdir()
    return folder


def memories(*paths: Path, **options: Any) -> list[NewMemory]:
    found = list(read(paths, **options))
    assert [item for item in found if isinstance(item, Skip)] == []
    return [item for item in found if isinstance(item, NewMemory)]


def skips(*paths: Path, **options: Any) -> list[tuple[str, str]]:
    """Where, by its name alone, and why."""
    return [(Path(i.where).name, i.reason) for i in read(paths, **options) if isinstance(i, Skip)]


def lines(path: Path, *rows: dict[str, Any] | str) -> Path:
    path.write_text("".join((row if isinstance(row, str) else orjson.dumps(row).decode()) + "\n" for row in rows))
    return path


# Markdown


@pytest.mark.row("A050", "a Markdown file becomes one memory for each section, with its headings and lines")
def test_a_markdown_file_is_a_memory_a_section(notes: Path):
    """Each section is a note with its lines, its file as source, and its own content as revision."""
    file = notes / "gateway.md"
    file.write_text("# Gateway\n\nIt listens.\n\n## Port\n\n8765\n")
    first, second = memories(notes)
    assert first == NewMemory(
        text="# Gateway\n\nIt listens.",
        place=Place("notes/gateway.md", 1, 3, "line"),
        source=f"file:{file}",
        revision=content_hash("# Gateway\n\nIt listens."),
        origin="import",
    )
    assert (second.text, second.place) == ("## Port\n\n8765", Place("notes/gateway.md", 5, 7, "line"))


def test_a_file_is_the_same_document_alone_or_in_its_folder(notes: Path):
    """So that what was ingested one way is known the other way; and what is named twice is read once."""
    file = notes / "a.md"
    file.write_text("hello\n")
    assert memories(file) == memories(notes) == memories(notes, file, notes)


def test_another_text_of_a_section_is_another_revision_and_the_others_stay(notes: Path):
    """An edit changes the natural key of the section it is in, wherever the others have moved to."""
    file = notes / "a.md"
    file.write_text("# A\n\none\n\n# B\n\ntwo\n")
    before = memories(notes)
    file.write_text("# A\n\none\nand more\n\n# B\n\ntwo\n")
    after = memories(notes)
    assert before[0].revision != after[0].revision
    assert before[1].revision == after[1].revision


@pytest.mark.parametrize(
    ("name", "front", "day"),
    [
        ("2026-03-04.md", "", datetime(2026, 3, 4, tzinfo=UTC)),
        ("2026-03-04-standup.md", "date: 2026-01-01", datetime(2026, 3, 4, tzinfo=UTC)),
        ("plan.md", 'date: "2026-01-02"', datetime(2026, 1, 2, tzinfo=UTC)),
        ("plan.md", "date: 2026-01-02T10:00:00Z", datetime(2026, 1, 2, tzinfo=UTC)),
        ("plan.md", "created: 2026-01-03", datetime(2026, 1, 3, tzinfo=UTC)),
        ("2026-13-45.md", "", None),
        ("plan.md", "date: soon", None),
        ("plan.md", "", None),
    ],
)
def test_a_day_comes_from_the_name_or_the_front_matter(notes: Path, name: str, front: str, day: datetime | None):
    """The name wins; a day is known as a day; what is no day is none."""
    (notes / name).write_text(f"---\n{front}\n---\nhello\n" if front else "hello\n")
    assert memories(notes)[0].at == (Moment(day, "day") if day else None)


@pytest.mark.parametrize("name", ["MEMORY.md", "memory.md"])
def test_memory_md_is_private(notes: Path, name: str):
    """No group reads it; other files have the audience that was asked for. The rest of the scope is for all."""
    (notes / name).write_text("secret\n")
    (notes / "open.md").write_text("hello\n")
    found = memories(notes, scope=Scope(user_id="ana", project="atlas"))
    assert {item.text: item.scope for item in found} == {
        "secret": Scope(user_id="ana", project="atlas", audience="private"),
        "hello": Scope(user_id="ana", project="atlas", audience="group"),
    }


def test_a_folder_is_walked_in_a_fixed_order_without_what_is_hidden(notes: Path):
    """Files by name, then folders by name; hidden ones, node_modules, and other kinds of file are passed over."""
    for name in ("b.md", "a.markdown", "sub/c.MD", "sub/deep/d.md", ".git/x.md", ".h.md", "node_modules/m.md", "z.txt"):
        (notes / name).parent.mkdir(parents=True, exist_ok=True)
        (notes / name).write_text(name)
    found = memories(notes)
    assert [item.text for item in found] == ["a.markdown", "b.md", "sub/c.MD", "sub/deep/d.md"]
    assert found[-1].place == Place("notes/sub/deep/d.md", 1, 1, "line")


def test_a_hidden_folder_is_read_when_it_is_named(tmp_path: Path):
    """Agents keep their memory in such places."""
    (tmp_path / ".agent").mkdir()
    (tmp_path / ".agent" / "a.md").write_text("hello")
    assert [item.text for item in memories(tmp_path / ".agent")] == ["hello"]


def test_a_very_deep_folder_is_walked(notes: Path):
    """Depth is bounded by the file system, not by Python's stack."""
    folders = [notes]
    try:
        for _ in range(1200):
            (folder := folders[-1] / "d").mkdir()
            folders.append(folder)
        file = folders[-1] / "a.md"
        file.write_text("hello")
        assert skips(notes) == [("a.md", "its path is longer than 512 characters")]
        file.unlink()
    finally:  # pytest's own tidying recurses
        for folder in reversed(folders[1:]):
            folder.rmdir()


# What is skipped


def test_binary_files_are_skipped_and_the_others_read(notes: Path, tmp_path: Path):
    """Empty, binary, not UTF-8, too large, a pipe, a link that leads out, and nothing but front matter."""
    (notes / "empty.md").touch()
    (notes / "binary.md").write_bytes(b"a\0b")
    (notes / "latin.md").write_bytes("café".encode("latin-1"))
    (notes / "large.md").write_text("x" * 1001)
    os.mkfifo(notes / "pipe.md")
    os.mkfifo(notes / "pipe.jsonl")
    (tmp_path / "outside.md").write_text("secret")
    (notes / "link.md").symlink_to(tmp_path / "outside.md")
    (tmp_path / "elsewhere").mkdir()
    (notes / "folder").symlink_to(tmp_path / "elsewhere")
    (notes / "gone.md").symlink_to(tmp_path / "nowhere.md")
    (notes / "good.md").write_text("hello")
    assert skips(notes, limits=Limits(0.001)) == [
        ("binary.md", "binary: it has NUL bytes"),
        ("empty.md", "empty"),
        ("folder", "a link that leads out of its folder"),
        ("gone.md", "a link that leads out of its folder"),
        ("large.md (0.0 MB)", "larger than 0.001 MB ([ingest] max_file_mb)"),
        ("latin.md", "not UTF-8"),
        ("link.md", "a link that leads out of its folder"),
        ("pipe.jsonl", "not a regular file"),
        ("pipe.md", "not a regular file"),
    ]
    assert [i.text for i in read([notes], limits=Limits(0.001)) if isinstance(i, NewMemory)] == ["hello"]


def test_a_named_file_that_is_missing_is_skipped(notes: Path):
    """A typing error, a kind of file that is not read, a device, links in a circle."""
    (notes / "a.txt").write_text("hello")
    (notes / "loop").symlink_to(notes / "loop")
    found = skips(notes / "nowhere", notes / "a.txt", Path(os.devnull), notes / "loop", Path("a\0b"))
    assert [reason for _, reason in found] == [
        "there is no such file or folder",
        "neither Markdown (.md) nor JSONL (.jsonl)",
        "neither Markdown (.md) nor JSONL (.jsonl)",
        "there is no such file or folder",
        "there is no such file or folder",
    ]


def test_a_link_that_is_named_is_followed(notes: Path, tmp_path: Path):
    """A named link means its target, and the memories are named by the target."""
    (notes / "a.md").write_text("hello")
    (tmp_path / "link").symlink_to(notes)
    assert memories(tmp_path / "link") == memories(notes)


def test_a_link_within_its_folder_is_read_where_it_leads(notes: Path):
    """Not twice."""
    (notes / "a.md").write_text("hello")
    (notes / "b.md").symlink_to(notes / "a.md")
    assert len(memories(notes)) == 1


def test_a_file_that_goes_away_is_skipped(notes: Path):
    """It was there when its folder was listed."""
    (notes / "a.md").write_text("first")
    (notes / "b.md").write_text("second")
    items = read([notes])
    assert isinstance(next(items), NewMemory)
    (notes / "b.md").unlink()
    assert list(items) == [Skip(str(notes / "b.md"), "gone before it could be read")]


def test_a_file_that_changes_while_it_is_read_is_reported(notes: Path):
    """What was read of it is kept; another run reads the rest, and what it repeats has the same keys."""
    file = lines(notes / "a.jsonl", {"text": "one"}, {"text": "two"})
    items = read([file])
    first = next(items)
    with file.open("a") as appended:
        appended.write('{"text":"three"}\n')
    *rest, last = items
    assert last == Skip(str(file), "changed while it was read; run it again")
    again = memories(file)
    assert [first, *rest] == again[: 1 + len(rest)]
    assert [item.text for item in again] == ["one", "two", "three"]


def test_a_name_that_is_not_utf_8_is_skipped(notes: Path):
    """Its name could not be kept as the source of a memory."""
    Path(os.fsdecode(os.fsencode(notes) + b"/\xff.md")).write_text("hello")
    assert skips(notes) == [("?.md", "its name is not UTF-8")]


# JSONL


@pytest.mark.feature("a JSONL line can state every field of a memory")
def test_a_line_of_jsonl_says_everything_a_memory_has(notes: Path):
    """Every field that is known goes where it belongs; what the line says wins over the scope that was given."""
    row = {
        "text": "We chose SQLite",
        "at": "2026-01-31T09:30:00+02:00",
        "speaker": "Marta",
        "document": "session 1",
        "position": 7,
        "end": 8,
        "unit": "line",
        "user_id": "ana",
        "agent_id": "a",
        "run_id": "r",
        "session_id": "s",
        "project": "atlas",
        "audience": "private",
        "kind": "decision",
        "raw_kind": "adr",
        "source": "wiki",
        "revision": "3",
        "origin": "agent",
        "valid_from": "2026-02-01",
        "valid_to": "2026-03",
        "supersedes": "m1z",
    }
    whose = Scope(tenant="acme", user_id="tom")
    assert memories(lines(notes / "a.jsonl", row), scope=whose) == [
        NewMemory(
            text="We chose SQLite",
            scope=Scope("acme", "ana", "a", "r", "s", "atlas", "private"),
            kind="decision",
            raw_kind="adr",
            speaker="Marta",
            at=Moment(datetime(2026, 1, 31, 7, 30, tzinfo=UTC), "second"),
            place=Place("session 1", 7, 8, "line"),
            source="wiki",
            revision="3",
            origin="agent",
            valid_from=datetime(2026, 2, 1, tzinfo=UTC),
            valid_to=datetime(2026, 3, 1, tzinfo=UTC),
            supersedes="m1z",
            file=str(notes.resolve() / "a.jsonl"),
        )
    ]


@pytest.mark.parametrize(
    ("row", "kind", "raw_kind"),
    [
        ({"document": "d", "position": 0}, "turn", None),
        ({"document": "d", "position": 0, "kind": "fact"}, "fact", None),
        ({"document": "d", "position": 1, "unit": "line"}, "note", None),
        ({"document": "d"}, "note", None),
        ({}, "note", None),
        ({"kind": "observation"}, "note", "observation"),
    ],
)
def test_a_line_with_a_place_in_a_conversation_is_a_turn(
    notes: Path, row: dict[str, Any], kind: str, raw_kind: str | None
):
    """Unless it says its kind; a kind of another system's is kept as that system's word."""
    (found,) = memories(lines(notes / "a.jsonl", {"text": "hi", **row}))
    assert (found.kind, found.raw_kind) == (kind, raw_kind)


def test_lines_without_a_key_have_one(notes: Path):
    """Source is the document or else the file; the line's number tells apart two that say the same."""
    yes = content_hash("yes")
    found = memories(
        lines(
            notes / "a.jsonl",
            {"text": "yes"},
            {"text": "yes"},
            {"text": "yes", "document": "d"},
            {"text": "yes", "document": "d", "position": 9},
            {"text": "yes", "position": 9},
            {"text": "yes", "source": "s", "revision": "r"},
        )
    )
    assert [(item.source, item.place, item.revision) for item in found] == [
        ("jsonl:a.jsonl", None, f"1:{yes}"),
        ("jsonl:a.jsonl", None, f"2:{yes}"),
        ("jsonl:d", Place("d", 3, 3), ""),
        ("jsonl:d", Place("d", 9, 9), ""),
        ("jsonl:a.jsonl", None, f"9:{yes}"),
        ("s", None, "r"),
    ]
    assert found == memories(notes / "a.jsonl")


@pytest.mark.row("A124", "a bad line is skipped with its number, the others are stored")
@pytest.mark.parametrize(
    ("row", "reason"),
    [
        ("{", "not a line of JSON"),
        ('{"text": "\\ud800"}', "not a line of JSON"),
        ('{"text": "x", "position": NaN}', "not a line of JSON"),
        ("[" * 5000, "not a line of JSON"),
        ('["text"]', "not a JSON object"),
        ({"speaker": "Ana"}, "text is missing or empty"),
        ({"text": " \n"}, "text is missing or empty"),
        ({"text": None}, "text is missing or empty"),
        ({"text": 5}, "text is not a text"),
        ({"text": "a\0"}, "text has a NUL character"),
        (
            {"text": "a", "document": "doc\n# x"},
            "document has a line break, a tab or an invisible character; write it as one plain line",
        ),
        (
            {"text": "a", "user_id": "a\u200bb"},
            "user_id has a line break, a tab or an invisible character; write it as one plain line",
        ),
        ({"text": "a", "user_id": 5}, "user_id is not a text"),
        ({"text": "a", "speaker": "x" * 257}, "speaker is longer than 256 characters"),
        ({"text": "a", "document": "d", "position": -1}, "position is not a whole number from 0"),
        ({"text": "a", "document": "d", "position": True}, "position is not a whole number from 0"),
        ({"text": "a", "document": "d", "position": 1.0}, "position is not a whole number from 0"),
        ('{"text": "a", "position": 99999999999999999999}', "position is not a whole number from 0"),
        ({"text": "a", "document": "d", "position": 3, "end": 2}, "end is before position"),
        ({"text": "a", "document": "d", "unit": ["turn"]}, "unit is not one of turn, line"),
        ({"text": "a", "audience": "all"}, "audience is not one of private, group"),
        ({"text": "a", "origin": {}}, "origin is not one of owner, agent, tool, import, system"),
        (
            {"text": "a", "at": "last week"},
            'at is not a time; write ISO 8601: "2026-01-31" or "2026-01-31T09:30:00Z"',
        ),
    ],
)
def test_a_line_that_makes_no_sense_is_skipped_with_its_number(notes: Path, row: dict[str, Any] | str, reason: str):
    """The reason names the field and never what it holds; the lines around it are read."""
    file = lines(notes / "a.jsonl", {"text": "before"}, row, "", {"text": "after"})
    before, skip, after = read([file])
    assert skip == Skip(f"{file}:2", reason, rejected=True)
    assert isinstance(before, NewMemory)
    assert isinstance(after, NewMemory)


def test_a_line_that_is_too_long_is_passed_over(notes: Path):
    """It is not held in memory; a line of just the limit is read."""
    longest = b'{"text": "a"' + b" " * (MAX_LINE_BYTES - 14) + b"}\n"  # 12 + blanks + 2 = the limit
    assert len(longest) == MAX_LINE_BYTES
    file = notes / "a.jsonl"
    file.write_bytes(longest + b"x" * (3 * MAX_LINE_BYTES) + b"\n" + b'{"text": "b"}')
    first, skip, last = read([file])
    assert isinstance(first, NewMemory)
    assert skip == Skip(f"{file}:2", "longer than 1,048,576 bytes", rejected=True)
    assert isinstance(last, NewMemory)
    assert last.text == "b"


def test_unknown_fields_of_jsonl_are_reported_once(notes: Path):
    """At the end of their file, each once, the first ten by name."""
    file = lines(notes / "a.jsonl", {"text": "a", "mood": 1, "trust": "trusted"}, {"text": "b", "mood": 2})
    assert skips(file) == [("a.jsonl", "unknown fields were left out: mood, trust")]
    many = lines(notes / "b.jsonl", {"text": "a", **{f"f{n:02}": n for n in range(13)}})
    ((_, reason),) = skips(many)
    assert reason.endswith("f08, f09 and 3 more")


def test_a_binary_file_called_jsonl_is_skipped_once(notes: Path):
    """One reason for the file, not one for each of its thousand lines; a BOM is no such thing."""
    (notes / "a.jsonl").write_bytes(b"\0\1\2\n" * 1000)
    (notes / "b.jsonl").write_bytes(b'\xef\xbb\xbf{"text": "hello"}\r\n')
    assert skips(notes) == [("a.jsonl", "binary: it has NUL bytes")]
    assert memories(notes / "b.jsonl")[0].text == "hello"


def instant(year: int, month: int, day: int, *clock: int) -> datetime:
    return datetime(year, month, day, *clock, tzinfo=UTC)


@pytest.mark.parametrize(
    ("written", "parts", "precision"),
    [
        ("2026", (2026, 1, 1), "year"),
        ("2026-02", (2026, 2, 1), "month"),
        ("2026-02-03", (2026, 2, 3), "day"),
        ("2026-02-03T04", (2026, 2, 3, 4), "hour"),
        ("2026-02-03T04:05", (2026, 2, 3, 4, 5), "minute"),
        ("2026-02-03 04:05+02:00", (2026, 2, 3, 2, 5), "minute"),
        ("2026-02-03T04:05:06", (2026, 2, 3, 4, 5, 6), "second"),
        ("2026-02-03t04:05:06.5z", (2026, 2, 3, 4, 5, 6, 500_000), "second"),
    ],
)
def test_a_moment_is_as_precise_as_it_is_written(written: str, parts: tuple[int, ...], precision: Precision):
    """ISO 8601; without a zone it is UTC."""
    assert moment(written) == Moment(instant(*parts), precision)


@pytest.mark.parametrize(
    "written", ["", "20", "2026-13", "2026-02-30", "26-01-01", "yesterday", "0001-01-01T00:00+23:00", "٢٠٢٦", "0000"]
)
def test_an_invalid_time_is_refused(written: str):
    """With ValueError, also where it would leave the calendar."""
    with pytest.raises(ValueError, match=r"ISO 8601|out of range|must be in"):
        moment(written)


# Reading


def test_reading_is_lazy_and_tells_how_far_it_is(notes: Path):
    """`size` is what progress adds up to; nothing is read before it is asked for."""
    (notes / "a.md").write_text("hello\n")  # 6 bytes
    lines(notes / "b.jsonl", {"text": "x"}, "bad")  # 13 + 4 bytes
    told: list[int] = []
    items = read([notes], progress=told.append)
    assert told == []
    next(items)
    assert told == [6]
    next(items)
    assert told == [6, 13]
    list(items)
    assert sum(told) == size([notes]) == 6 + 13 + 4


def key(item: NewMemory) -> tuple[object, ...]:
    """What the journal knows an event by."""
    document = item.place.document if item.place else None
    start = item.place.start if item.place and item.place.unit == "turn" else None
    return item.scope.user_id, item.source, document, start, item.revision or content_hash(item.text)


@settings(deadline=None)
@given(st.lists(st.fixed_dictionaries({"text": st.sampled_from(["yes", "no"])}), max_size=8))
def test_every_line_has_a_key_of_its_own(rows: list[dict[str, str]]):
    """However often the same is said, as many memories come of it as there are lines; again, the same ones."""
    with TemporaryDirectory() as folder:
        file = lines(Path(folder) / "a.jsonl", *rows)
        found = [item for item in read([file]) if isinstance(item, NewMemory)]
        assert len({key(item) for item in found}) == len(rows)
        assert found == [item for item in read([file]) if isinstance(item, NewMemory)]


VALUES = st.recursive(
    st.none() | st.booleans() | st.integers() | st.floats() | st.text(max_size=8),
    lambda inner: st.lists(inner, max_size=3) | st.dictionaries(st.text(max_size=4), inner, max_size=3),
    max_leaves=6,
)
FIELDS = st.sampled_from("text at speaker document position end unit kind source revision user_id audience x".split())


@settings(deadline=None)
@given(
    st.one_of(
        st.binary(max_size=200),
        st.text(max_size=200).map(lambda text: text.encode("utf-8", "surrogatepass")),
        st.lists(st.dictionaries(FIELDS, VALUES, max_size=5), max_size=4).map(
            lambda rows: "\n".join(map(json.dumps, rows)).encode()
        ),
    ),
    st.sampled_from(["a.md", "a.jsonl"]),
)
@example(b"> " * 2_000, "a.md")
@example(b"---\n", "a.md")
def test_whatever_a_file_holds_reading_it_never_raises(data: bytes, name: str):
    """Every item is a memory with a text, a source and a place in order, or a skip with a reason."""
    with TemporaryDirectory() as folder:
        file = Path(folder) / name
        file.write_bytes(data)
        for item in read([file]):
            if isinstance(item, Skip):
                assert item.reason
                assert item.where.startswith(str(file.resolve()))
            else:
                assert item.text.strip()
                assert item.source
                assert item.place is None or 0 <= item.place.start <= item.place.end
                item.text.encode("utf-8")


@pytest.mark.parametrize("name", ["a\nb.md", "a\tb.md", "a\u200bb.md"])
def test_a_file_whose_name_cannot_be_cited_is_skipped(notes: Path, name: str):
    """Its document would never be found again; the report of it is one line, too."""
    (notes / name).write_text("Text.")
    [skip] = read([notes])
    assert isinstance(skip, Skip)
    assert skip.reason == "its path has a line break, a tab or an invisible character"
    assert "\n" not in skip.where


@pytest.mark.feature("linked notes and folders are counted by kind, like other files that are not read")
def test_links_are_counted_by_kind(notes: Path, tmp_path: Path) -> None:
    """Whatever they lead to: another note, a picture, a folder, nothing. One that leads out is named, too."""
    (notes / "sub").mkdir()
    (notes / "a.md").write_text("hello")
    (tmp_path / "outside.md").write_text("secret")
    for name, target in {
        "b.md": notes / "a.md",
        "c.md": tmp_path / "nowhere.md",
        "p.png": tmp_path / "picture.png",
        "way": notes / "sub",
        "out.md": tmp_path / "outside.md",
    }.items():
        (notes / name).symlink_to(target)
    passed: Counter[str] = Counter()
    found = list(files([notes], passed))
    skips = [Path(one.where).name for one in found if isinstance(one, Skip)]
    assert (passed, skips) == ({"linked .md": 1, "linked .png": 1, "linked folder": 1}, ["c.md", "out.md"])
    assert linked(found, passed) == {"linked .md": 3, "linked .png": 1, "linked folder": 1}
