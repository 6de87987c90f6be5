"""A file of questions with what is expected of their answers."""

from __future__ import annotations

from pathlib import Path

import pytest

from fusion.compare.queries import Expected, read_queries
from fusion.errors import BadInput

MEMORY = {
    "document": "notes/projects/database.md",
    "members": [
        {"ref": "m1k", "speaker": "Mara", "text": "Writers block\neach other, by design."},
        {"ref": "m2", "speaker": None, "text": "数据库迁移到了邮局"},
    ],
}


def written(folder: Path, text: str) -> Path:
    file = folder / "queries.jsonl"
    file.write_text(text, encoding="utf-8")
    return file


def test_lines_of_text_and_of_json(tmp_path: Path) -> None:
    """Both may be in one file; blank lines are skipped, an empty list expects nothing."""
    lines = ["\ufeffwhy Postgres?", "", '{"query": "who?", "expected": ["m1", "m1"], "user_id": "ada"}']
    lines.append('{"query": "what?", "expected": []}')
    plain, who, what = read_queries(written(tmp_path, "\r\n".join(lines)))
    assert (plain.query, plain.expected, plain.given) == ("why Postgres?", None, {})
    assert (who.expected, who.given) == (Expected(any=("m1",)), {"user_id": "ada"})
    assert what.expected is None


@pytest.mark.feature("… the JSON list of the benchmarks and `tune` is read, too", of="many questions get wins, ties")
def test_the_list_that_the_benchmarks_read(tmp_path: Path) -> None:
    """One JSON list is as many questions as it has entries, not one question of brackets; its files are expected."""
    text = ' [{"query": "why?", "files": ["database.md"]},\n {"query": "who?", "files": [], "category": "people"}]'
    why, who = read_queries(written(tmp_path, text))
    assert (why.query, why.expected, why.given) == ("why?", Expected(files=("database.md",)), {})
    assert (who.query, who.expected, who.given) == ("who?", None, {})


@pytest.mark.parametrize(
    ("expected", "share"),
    [
        (Expected(refs=("m1k",)), 1.0),
        (Expected(refs=("m1",)), 0.0),
        (Expected(texts=("WRITERS BLOCK each other by design",)), 1.0),  # case, points and line breaks are nothing
        (Expected(texts=("riters",)), 0.0),  # words are whole
        (Expected(texts=("迁移",)), 1.0),  # unless the script has no blanks
        (Expected(files=("database.md",)), 1.0),
        (Expected(files=("projects/database.md", "base.md")), 0.5),
        (Expected(any=("m2", "projects/database.md", "Mara: Writers block", "pizza")), 0.75),
    ],
)
def test_the_share_that_a_block_has(expected: Expected, share: float) -> None:
    """Refs match exactly, files by their ending, texts word for word within one memory."""
    assert expected.found_in([MEMORY]) == share
    assert expected.found_in([]) == 0.0


@pytest.mark.feature("… a wrong line of the file is reported", of="many questions get wins, ties")
@pytest.mark.parametrize(
    ("text", "says"),
    [
        ("\n \n", "there is no question in it"),
        ("fine\n{broken", ":2: is not JSON"),
        ('{"expected": ["m1"]}', ":1: query is missing or empty"),
        ('{"query": "q", "expect": ["m1"]}', ":1: there is no field 'expect'"),
        ('{"query": "q", "expected": 3}', ":1: expected is a list"),
        ('{"query": "q", "expected": {"any": ["m1"]}}', ":1: expected is a list"),
        ('{"query": "q", "expected": {"refs": "m1"}}', ":1: expected.refs is a list of texts"),
        ('{"query": "q", "expected": [""]}', ":1: expected is a list of texts, none of them empty"),
        ('{"query": "q", "user_id": 3}', ":1: user_id is a text"),
        ('{"query": "q", "files": "database.md"}', ":1: expected.files is a list of texts"),
        ('{"query": "q", "files": [], "expected": []}', ":1: expected has files of its own"),
        ('[{"query": "q"}', ": begins as a JSON list, but is none: "),
        ('[{"query": "q"}, "why?"]', ", entry 2: is no object with a query"),
        ('[{"query": "q"}, {"query": ""}]', ", entry 2: query is missing or empty"),
        ("[]", "there is no question in it"),
    ],
)
def test_what_is_wrong_is_told_with_its_line(tmp_path: Path, text: str, says: str) -> None:
    """File and line, and what to write."""
    with pytest.raises(BadInput) as caught:
        read_queries(written(tmp_path, text))
    assert says in str(caught.value)
    assert "queries.jsonl" in str(caught.value)


def test_another_encoding_is_told(tmp_path: Path) -> None:
    """Latin-1 is not guessed at."""
    (tmp_path / "q.txt").write_bytes(b"caf\xe9?")
    with pytest.raises(BadInput, match="not UTF-8, at byte 3"):
        read_queries(tmp_path / "q.txt")
