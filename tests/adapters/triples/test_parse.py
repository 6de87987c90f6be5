"""What people write down as triples: front matter, wiki links, arrows."""

from __future__ import annotations

import pytest
from hypothesis import given
from hypothesis import strategies as st

from adapters.triples.parse import MOST, parse
from fusion.contract import Fact

NOTE = """---
title: "Bug gateway"
owner: Julien   # since spring
tags: [bug, backend]
seen-in:
  - Release 4
  - "[[Release 5]]"
nested:
  deeper: {a: 1}
empty:
---
# Notes

See [[Release 4|the release]], ![[diagram.png]] and [[Julien#contact]].
- Julien -> corrected_by -> Bug gateway
* **Gateway** → runs on → `Kubernetes` → hosted by → Lisbon

```
a -> b -> c and [[not a link]]
```
Inline `[[no link]]` and p->next->value are code; an arrow -> alone is none.
"""


def test_a_note() -> None:
    """Everything that a note states, in its order, each once."""
    parsed = parse(NOTE, "notes/ignored.md")
    assert parsed.subject == "Bug gateway"
    assert parsed.facts == (
        Fact("Bug gateway", "owner", "Julien"),
        Fact("Bug gateway", "tags", "bug"),
        Fact("Bug gateway", "tags", "backend"),
        Fact("Bug gateway", "seen-in", "Release 4"),
        Fact("Bug gateway", "seen-in", "Release 5"),
        Fact("Bug gateway", "links_to", "Release 4"),
        Fact("Bug gateway", "links_to", "diagram.png"),
        Fact("Bug gateway", "links_to", "Julien"),
        Fact("Julien", "corrected_by", "Bug gateway"),
    )
    assert "Release 5" in parsed.names
    assert "not a link" not in parsed.names


@pytest.mark.row("A141", "triples: `A -> relation -> B`, front matter and links are read")
@pytest.mark.parametrize(
    ("line", "facts"),
    [
        ("A -> likes -> B", [("A", "likes", "B")]),
        ("A → likes → B.", [("A", "likes", "B")]),
        ("  1. A --> likes --> B", [("A", "likes", "B")]),
        ("> - A ⟶ likes ⟶ B", [("A", "likes", "B")]),
        ("[[Bug gateway]] -> corrected_by -> [[Julien|him]]", [("Bug gateway", "corrected_by", "Julien")]),
        ("A -> uses -> B -> runs_on -> C", [("A", "uses", "B"), ("B", "runs_on", "C")]),
        ("A -> B", []),
        ("A -> likes -> B -> C", []),
        ("A -> -> B", []),
        ("x->y->z", []),
        ("-> likes ->", []),
        ("A -> " + "very " * 60 + "-> B", []),
    ],
)
def test_arrows(line: str, facts: list[tuple[str, str, str]]) -> None:
    """Subject, relation, object; a chain shares its inner names; two parts, gaps, code and sentences are none."""
    assert [(f.subject, f.predicate, f.object) for f in parse(line).facts] == facts


def test_a_file_is_its_own_subject() -> None:
    """Without a title, a link is from the note that the file is; a conversation is no file and links nothing."""
    assert parse("see [[Julien]]", "team/Gateway bug.md").facts == (Fact("Gateway bug", "links_to", "Julien"),)
    parsed = parse("see [[Julien]]", "session 12")
    assert (parsed.facts, parsed.names) == ((), ("Julien",))


def test_front_matter_must_be_closed() -> None:
    """A rule at the top of a text is not front matter, and prose with colons is no field."""
    assert parse("---\nowner: Julien\nand so on", "a.md").facts == ()
    assert parse("Zoë: I said so\nowner: me", "a.md").facts == ()


def test_there_is_an_end() -> None:
    """A text with a thousand links gives its first ones."""
    parsed = parse(" ".join(f"[[Page {n}]]" for n in range(1000)), "index.md")
    assert len(parsed.facts) == MOST
    assert parsed.facts[0].object == "Page 0"


markup = st.text(st.sampled_from("AB ->→-:[]|#\n`~*\"'{}é東"), max_size=300)


@given(markup | st.text(max_size=200), st.none() | st.sampled_from(["a.md", "x", "---", ".md"]))
def test_any_text_is_read(text: str, document: str | None) -> None:
    """For any text there is no error, and each fact has three non-empty parts without line breaks."""
    for fact in parse(text, document).facts:
        for part in (fact.subject, fact.predicate, fact.object):
            assert part.strip()
            assert "\n" not in part


def test_hostile_texts_take_linear_time() -> None:
    """Brackets, backticks and arrows without end are read in one pass: 300,000 characters of each."""
    for piece in ("[[", "[[a|", "` ", "``a` ", "-> ", "> - ", "→", "---\n", "a: [", " \t"):
        assert parse(piece * (300_000 // len(piece))).facts == ()
