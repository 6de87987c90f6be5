"""What a question says of the sort of memories that it wants."""

from __future__ import annotations

import pytest
from hypothesis import given
from hypothesis import strategies as st

from fusion.contract import Where
from fusion.recall.query_structure import Structure, fits_all, read


@pytest.mark.parametrize(
    ("text", "first"),
    [
        ("#reefer", Where(tag=("reefer",))),
        ("list #region/north", Where(tag=("region/north",))),
        ("all notes of type customer", Where(property=(("type", "customer"),))),
        ("Show me all notes with status: open.", Where(property=(("status", "open"),))),
        ("list notes where status is open", Where(property=(("status", "open"),))),
        ("list all notes tagged with reefer", Where(tag=("reefer",))),
        ("list the notes in the folder projects/2026", Where(folder=("projects/2026",))),
        ("what are our decisions?", Where(kind=("decision",))),
        ("zeige alle Notizen vom Typ Kunde", Where(property=(("type", "Kunde"),))),
        ("liste unsere Kunden auf", Where(property=(("type", "Kunden"), ("type", "Kunde"), ("type", "Kund")))),
        ("montre-moi toutes les notes de type client", Where(property=(("type", "client"),))),
        ("elenca tutti i clienti", Where(property=(("type", "clienti"),))),
    ],
)
def test_list_question_names_its_filter(text: str, first: Where) -> None:
    """The likeliest meaning first."""
    said = read(text)
    assert said.whole
    assert said.candidates[0].tag == first.tag
    assert said.candidates[0].folder == first.folder
    assert said.candidates[0].kind == first.kind
    assert set(first.property) <= set(said.candidates[0].property)


def test_noun_may_be_a_property_a_folder_or_a_tag() -> None:
    said = read("list our customers").candidates
    assert [bool(one.property) for one in said] == [True, True, True, False, False]
    assert set(said[-2].folder) == {"customers", "customer"} == set(said[-1].tag)


@pytest.mark.parametrize(
    "text",
    [
        "which customers pay late?",
        "what did we decide about the list of customers, and who was there?",
        "the issue #12 and the colour # of C# code",
        "see https://example.org/#part",
        "# Heading",
        "",
        "list " + "very " * 60 + "many customers",
    ],
)
def test_most_questions_say_nothing_of_it(text: str) -> None:
    assert read(text) == Structure()


def test_tag_in_a_question_is_a_filter_and_no_list() -> None:
    assert read("why is the #reefer warm?") == Structure((Where(tag=("reefer",)),))


def test_request_that_has_a_filter_keeps_it() -> None:
    given_ = Where(folder=("projects",), kind=("note",))
    assert fits_all(Where(tag=("x",), kind=("fact",)), given_) == Where(
        tag=("x",), folder=("projects",), kind=("note",)
    )


@given(st.text(max_size=220))
def test_any_text_is_read(text: str) -> None:
    assert len(read(text).candidates) <= 7
