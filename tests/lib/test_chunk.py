"""Chunks are whole blocks of one section, and together they are the text."""

from __future__ import annotations

from collections import Counter
from itertools import pairwise

from hypothesis import given
from hypothesis import strategies as st

from fusion.lib.chunk import Chunk, chunks, tokens, unix

_LINES = st.sampled_from(
    [
        "",
        "",
        "   ",
        "# Title",
        "## Part",
        "### Detail",
        "Setext",
        "---",
        "===",
        "```",
        "~~~py",
        "- item",
        "  - nested item",
        "1. first",
        "> quoted",
        "| a | b |",
        "|---|---|",
        "| 1 | 2 |",
        "[ref]: http://example.org",
        "<div>",
        "<!-- comment",
        "-->",
        "    indented code",
        "\tTab",
        "A sentence about the orders service and what it stores.",
        "long " * 40,
        "x" * 150,
        "長い文章" * 20,
        "\u2028 \x0c odd separators \x85",
    ]
)
_TEXTS = st.lists(_LINES, max_size=40).map("\n".join) | st.text(max_size=200)


@given(_TEXTS, st.integers(8, 120), st.integers(0, 60))
def test_every_line_is_in_one_chunk(text: str, size: int, overlap: int) -> None:
    """Each line that is not blank is in exactly one chunk, whatever the overlap, or in parts that have its words."""
    lines = unix(text).split("\n")
    seen: Counter[int] = Counter()
    parts: dict[int, str] = {}
    for chunk in chunks(text, size, min(overlap, size - 1)):
        if chunk.part:
            assert chunk.start == chunk.end
            assert chunk.text in lines[chunk.start - 1]
            parts[chunk.start] = parts.get(chunk.start, "") + chunk.text
        else:
            assert chunk.text == "\n".join(lines[chunk.start - 1 : chunk.end])
            seen.update(range(chunk.start, chunk.end + 1))
    for number, line in enumerate(lines, start=1):
        if number in parts:
            assert "".join(parts[number].split()) == "".join(line.split())
            assert not seen[number]
        elif line.strip():
            assert seen[number] == 1, (number, line)


@given(_TEXTS, st.integers(8, 120), st.integers(0, 60))
def test_ranges_reproduce_the_lines(text: str, size: int, overlap: int) -> None:
    """A chunk's text is its lines to the letter, in order, none twice, whatever the overlap; all lines are there."""
    lines = unix(text).split("\n")
    found = chunks(text, size, min(overlap, size - 1))
    places = [(chunk.start, chunk.end, chunk.part) for chunk in found]
    assert places == sorted(set(places))
    for chunk in found:
        assert chunk.text.strip()
        assert chunk.part or chunk.text == "\n".join(lines[chunk.start - 1 : chunk.end])
    covered = {n for chunk in found for n in range(chunk.start, chunk.end + 1)}
    assert {n for n, line in enumerate(lines, start=1) if line.strip()} <= covered


@given(_TEXTS, st.integers(8, 120))
def test_size_is_kept_but_for_headings(text: str, size: int) -> None:
    """A chunk is at most ``size`` tokens, and its headings and front matter, each of which is at most that too."""
    for chunk in chunks(text, size, overlap=0):
        assert tokens(chunk.text) <= size * (2 + len(chunk.headings))


def test_headings_lead_to_each_chunk() -> None:
    """A chunk carries the headings above it; one that has no text of its own opens the next chunk below it."""
    text = "intro\n\n# Orders\n\n## Storage\n\nPostgreSQL.\n\n### Why\n\nFamiliar.\n\n## Queue\n\nNATS.\n"
    assert chunks(text) == [
        Chunk("intro", 1, 1, ()),
        Chunk("# Orders\n\n## Storage\n\nPostgreSQL.", 3, 7, ("Orders", "Storage")),
        Chunk("### Why\n\nFamiliar.", 9, 11, ("Orders", "Storage", "Why")),
        Chunk("## Queue\n\nNATS.", 13, 15, ("Orders", "Queue")),
    ]


def test_headings_that_say_it_all() -> None:
    """A heading followed by one that is not below it is a chunk of its own: it is what was noted."""
    assert [c.text for c in chunks("## Chose PostgreSQL\n## Called Marta\n")] == [
        "## Chose PostgreSQL",
        "## Called Marta",
    ]


def test_a_hash_in_a_fence_is_no_heading() -> None:
    """Code is code."""
    (chunk,) = chunks("# Setup\n\n```sh\n# install\nmake\n```\n")
    assert chunk.headings == ("Setup",)
    assert (chunk.start, chunk.end) == (1, 6)


def test_blocks_stay_whole_where_they_fit() -> None:
    """Ten tokens are forty bytes: each of these blocks fits one chunk, no two do."""
    fence = "```\nalpha\n\nbeta\ngamma\n```"
    table = "| k | v |\n|---|---|\n| a | 1 |"
    listing = "- one\n  - nested\n- two"
    found = chunks(f"{fence}\n\n{table}\n\n{listing}", size=10, overlap=0)
    assert [chunk.text for chunk in found] == [fence, table, listing]


def test_a_list_too_large_is_split_at_its_items() -> None:
    """Nested items go with theirs while they fit."""
    text = "\n".join(f"- item number {n}\n  - below item number {n}" for n in range(4))
    found = chunks(text, size=12, overlap=0)
    assert [chunk.text for chunk in found] == [f"- item number {n}\n  - below item number {n}" for n in range(4)]


@given(_TEXTS, st.integers(8, 120), st.integers(0, 60))
def test_a_lead_is_the_end_of_the_chunk_before(text: str, size: int, overlap: int) -> None:
    """It is what the chunk before ends with, under the same headings, and no longer than the overlap."""
    found = chunks(text, size, min(overlap, size - 1))
    for before, chunk in pairwise(found):
        if chunk.lead:
            assert before.text.endswith(chunk.lead)
            assert before.headings == chunk.headings
            assert tokens(chunk.lead) <= overlap
    assert not found or not found[0].lead


def test_overlap_only_where_a_section_is_split() -> None:
    """Four paragraphs of 10 tokens (with the blank line): the first chunk of 25 takes two, each next one takes one and
    is led over to by the paragraph before it, 10 + 10 tokens."""
    paragraphs = [f"{n} " + "x" * 36 for n in range(4)]
    text = "\n\n".join(paragraphs)
    split = chunks(text, size=25, overlap=10)
    assert [(chunk.start, chunk.end) for chunk in split] == [(1, 3), (5, 5), (7, 7)]
    assert [chunk.lead for chunk in split] == ["", paragraphs[1], paragraphs[2]]
    assert split[1].searched == f"{paragraphs[1]}\n{paragraphs[2]}"
    apart = chunks("\n\n".join(f"# {n}\n\n{p}" for n, p in enumerate(paragraphs)), size=25, overlap=10)
    assert [(chunk.start, chunk.end) for chunk in apart] == [(1, 3), (5, 7), (9, 11), (13, 15)]


def test_a_long_line_is_cut_between_words() -> None:
    """100 words of 4 bytes and a blank, 16 bytes a part: three words each, and one in the last."""
    parts = chunks(" ".join(["word"] * 100), size=4, overlap=0)
    assert [p.part for p in parts] == list(range(1, 35))
    assert {p.text for p in parts[:-1]} == {"word word word"}
    assert all((p.start, p.end) == (1, 1) for p in parts)


def test_front_matter_opens_the_first_chunk() -> None:
    """It is kept with what it introduces."""
    text = '---\ntitle: "Orders"\ndate: 2026-03-04\ntags:\n  - db\n---\n\n# Storage\n\nPostgreSQL.\n'
    (chunk,) = chunks(text)
    assert (chunk.start, chunk.end, chunk.headings) == (1, 10, ("Storage",))


def test_link_definitions_are_not_lost() -> None:
    """They leave nothing in CommonMark's tree, and are lines all the same."""
    assert [c.text for c in chunks("[a]: http://a\n[b]: http://b")] == ["[a]: http://a\n[b]: http://b"]
    assert [c.text for c in chunks("text\n\n[a]: http://a\n\n# H\n[b]: http://b\n")] == [
        "text\n\n[a]: http://a",
        "# H\n[b]: http://b",
    ]


def test_windows_line_ends_count_as_one() -> None:
    """CRLF and CR are read as LF, and lines are counted as an editor counts them."""
    assert [(c.text, c.start, c.end) for c in chunks("one\r\n\r\n# Two\rthree")] == [
        ("one", 1, 1),
        ("# Two\nthree", 3, 4),
    ]
