"""Places of hits: one document, and overlapping spans."""

from __future__ import annotations

from dataclasses import replace

from fusion.contract import Hit, Place, Scope, document_of
from fusion.recall.document_place import PlaceIndex, in_one_document
from tests.recall.helpers import standalone, turn


def lines(start: int, end: int, text: str, document: str = "a.md") -> Hit:
    return standalone(f"{document}:{start}", text, place=Place(document, start, end, "line"))


def test_document_of_tells_documents_units_agents_runs_and_senders_apart() -> None:
    """`in_one_document` agrees with the keys."""
    one = turn(1, "tea")
    others = [
        turn(1, "tea", document="b"),
        replace(one, place=Place("talk", 1, 1, "line")),
        replace(one, scope=Scope(agent_id="x")),
        replace(one, scope=Scope(run_id="x")),
        replace(one, stated_by="file:x"),
        standalone("s", "tea"),
    ]
    for other, expected in [(turn(2, "tea"), True), *((other, False) for other in others)]:
        assert in_one_document(one, other) is expected
        assert (document_of(one) == document_of(other)) is expected


def test_lines_of_a_file_are_of_that_file_whichever_agent_read_it() -> None:
    """A backend that reads the user's files knows no agent; a line that a file did not vouch for stays apart."""
    one = replace(lines(1, 1, "tea"), stated_by="file:/notes/a.md", scope=Scope(agent_id="x", run_id="1"))
    assert in_one_document(one, replace(lines(2, 2, "cups"), stated_by="file:/notes/a.md"))
    claims = [replace(hit, stated_by="claimed:file:/notes/a.md") for hit in (one, lines(2, 2, "cups"))]
    assert not in_one_document(*claims)


def test_place_index_finds_a_nested_span_with_the_same_words() -> None:
    """Line 2 is within lines 1 to 3; line 4 is not, nor is a changed text or another document."""
    hits = [
        lines(1, 3, "tea is at four\nbring a cup\nand a spoon"),
        lines(2, 2, "bring a cup"),
        lines(4, 4, "bring a cup"),
        lines(2, 2, "bring a mug"),
        lines(2, 2, "bring a cup", document="b.md"),
        standalone("s", "bring a cup"),
    ]
    index = PlaceIndex(hits)
    index.add(0)
    assert [index.find(i) for i in range(1, 6)] == [0, None, None, None, None]


def test_place_index_finds_a_wider_span() -> None:
    """The position was added first, and the span that contains it is looked up."""
    hits = [turn(2, "bring a cup"), replace(turn(1, "tea is at four bring a cup"), place=Place("talk", 1, 3))]
    index = PlaceIndex(hits)
    index.add(0)
    assert index.find(1) == 0
