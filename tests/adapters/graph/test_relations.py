"""The words of predicates and names: six relations, aliases, titles."""

from __future__ import annotations

import pytest
from hypothesis import given
from hypothesis import strategies as st

from adapters.graph.relations import Relation, asked_relations, relation, strength, types
from adapters.triples.names import aliases, loose
from adapters.triples.parse import about
from fusion.contract import Fact


@pytest.mark.row(
    "A141",
    "triples: free predicates are mapped to USES, BLOCKED_BY, RELATES_TO, EVALUATES, DECIDES, "
    "MENTIONS, in either direction",
)
@pytest.mark.parametrize(
    ("predicate", "found"),
    [
        ("uses", Relation("USES")),
        ("Depends on", Relation("USES")),
        ("is used by", Relation("USES", inverse=True)),
        ("blocked_by", Relation("BLOCKED_BY")),
        ("is blocked by", Relation("BLOCKED_BY")),
        ("blocks", Relation("BLOCKED_BY", inverse=True)),
        ("see also", Relation("RELATES_TO")),
        ("has been evaluated by", Relation("EVALUATES", inverse=True)),
        ("decided on", Relation("DECIDES")),
        ("links_to", Relation("MENTIONS")),
        ("also called", Relation("ALSO_CALLED")),
        ("corrected_by", Relation("")),
        ("", Relation("")),
    ],
)
def test_free_predicates_come_down_to_six(predicate: str, found: Relation) -> None:
    """Whatever tense, case and auxiliaries; the passive runs the other way; the rest stays free."""
    assert relation(predicate) == found


def test_what_a_question_asks_after() -> None:
    """Its words name relations as predicates do."""
    assert asked_relations("What does the gateway depend on?") == {"USES"}
    assert asked_relations("Who is blocked by the release?") == {"BLOCKED_BY"}
    assert asked_relations("Where was the heron?") == frozenset()


def test_a_link_leads_on_less_than_a_statement() -> None:
    """Half of what "uses" does, or a free predicate."""
    assert (strength("links_to"), strength("uses"), strength("corrected_by")) == (0.5, 1.0, 1.0)


@pytest.mark.row(
    "A141",
    "… entities get types from statements: tool, decision and repo, in addition to capture's person and project",
    of="triples: free predicates are",
)
def test_what_the_ends_of_a_fact_are() -> None:
    """What is used is a tool, what is decided on a decision; an address of code is a repo; inverse ones too."""
    assert list(types(Fact("Gateway", "uses", "Redis"))) == [("Redis", "tool")]
    assert list(types(Fact("Redis", "used by", "Gateway"))) == [("Redis", "tool")]
    assert list(types(Fact("Marta", "decided on", "trunk"))) == [("trunk", "decision")]
    assert list(types(Fact("Gateway", "lives in", "github.com/a/gateway"))) == [("github.com/a/gateway", "repo")]


@pytest.mark.parametrize(
    ("text", "names"),
    [
        ("The Bubye River, also known as Bubi River, is long.", [("Bubye River", "Bubi River")]),
        ("The European Union (EU) was founded.", [("European Union", "EU")]),
        ("Kiln Works, Inc., commonly known as Kiln, is old.", [("Kiln Works Inc", "Kiln")]),
        ("Ana Lima (also known as Nana) came.", [("Ana Lima", "Nana")]),
        ("He is also known as Nana.", []),
        ("They met in Seattle (USA).", []),
        ("The cat is called Minka.", []),
        ("Mira went home. Also called Tom.", []),
    ],
)
def test_other_names_that_a_text_gives(text: str, names: list[tuple[str, str]]) -> None:
    """Of a capitalised name; an abbreviation must match its letters; a pronoun has no alias."""
    assert [(fact.subject, fact.object) for fact in aliases(text)] == names


def test_what_a_text_is_about() -> None:
    """Its title, and the title without what tells it from others; a file's name; front matter before both."""
    assert about("Green (album). It was recorded.", None) == {"green album", "green"}
    assert about("---\ntitle: Kiln\n---\nIt burnt.", "notes/fire.md") == {"kiln"}
    assert about("it burnt", "notes/fire.md") == {"fire"}
    assert about("it burnt", "session 3") == frozenset()


def test_loose_ignores_articles_and_blanks() -> None:
    """Articles and blanks."""
    assert loose("the open ai") == loose("openai") == "openai"


@given(st.text(st.sampled_from("AB ab.,()\n:#-'“”é東also known as"), max_size=300) | st.text(max_size=200))
def test_any_text_has_names(text: str) -> None:
    """For any text there is no error, and names are never empty."""
    assert all(fact.subject and fact.object for fact in aliases(text))
    assert all(about(text, None))


def test_hostile_texts_take_linear_time() -> None:
    """Names, brackets and "known as" without end: 300,000 characters of each."""
    for piece in ("A ", "A (B) ", "(A", " also known as", " also", "A known as ", "A. ", "Aa-"):
        text = piece * (300_000 // len(piece))
        assert all(fact.subject and fact.object for fact in aliases(text))
