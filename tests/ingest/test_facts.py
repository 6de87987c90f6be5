"""Facts by rules: a table of verbs, clause by clause."""

from __future__ import annotations

import pytest

from fusion.ingest.facts import _EVENTS, _PREDICATES, _SEEN, _STATES, _states, facts


def stated(text: str, speaker: str | None = "Marta") -> list[tuple[str, str, str]]:
    return [(fact.subject, fact.predicate, fact.object) for fact in facts(text, speaker)]


@pytest.mark.parametrize("predicate", list(_STATES))
def test_facts_of_states_are_in_the_present_tense(predicate: str):
    """ "She uses X" and "I'm using X" hold; "she used X" need not hold any more."""
    (third,) = [form for (form, kind), told in _PREDICATES.items() if (kind, told) == ("third", predicate)][:1]
    assert stated(f"Tom {third} the Atlas") == [("Tom", predicate, "Atlas")]
    assert not any(kind in ("past", "perfect") for (_, kind), told in _PREDICATES.items() if told == predicate)


@pytest.mark.parametrize("predicate", list(_EVENTS))
def test_facts_of_events_are_in_the_past_tense(predicate: str):
    """ "I joined X" and "I've joined X" happened; "I join X" is a plan or a habit."""
    (past,) = [form for (form, kind), told in _PREDICATES.items() if (kind, told) == ("past", predicate)][:1]
    (perfect,) = [form for (form, kind), told in _PREDICATES.items() if (kind, told) == ("perfect", predicate)][:1]
    assert stated(f"I {past} the Atlas") == [("Marta", predicate, "Atlas")]
    assert stated(f"I've just {perfect} the Atlas") == [("Marta", predicate, "Atlas")]


@pytest.mark.row(
    "A040",
    '… by a table of verbs: present, past, and the speaker for "I"',
    of="statements become facts: subject",
)
@pytest.mark.parametrize(
    ("text", "expected"),
    [
        ("Last weekend I joined a choir in Porto.", ("Marta", "joined", "choir")),
        ("In May 2023 we moved to Faro with the dogs", ("Marta", "moved to", "Faro")),
        ("I've been playing the cello for five years.", ("Marta", "plays", "cello")),
        ("Tom has been working on Atlas.", ("Tom", "works on", "Atlas")),
        ("Started a new job yesterday!", ("Marta", "started", "new job")),
        ("I have two cats at home", ("Marta", "has", "two cats")),
        ("I'm a huge fan of old maps.", ("Marta", "likes", "old maps")),
        ("My sister works as a nurse.", ("Marta's sister", "works as", "nurse")),
        ("The indexer depends on `tantivy`", ("indexer", "depends on", "tantivy")),
        ("We migrated to PostgreSQL on Monday", ("Marta", "switched to", "PostgreSQL")),
        ("Tom signed up for a marathon.", ("Tom", "signed up for", "marathon")),
    ],
)
def test_facts_are_found_in_many_phrasings(text: str, expected: tuple[str, str, str]):
    """With a time before it, with "been", without "I", with more words after the object."""
    assert stated(text) == [expected]


def test_a_clause_after_and_has_the_same_subject():
    """Who went to the market bought the lamp; who "that" is about is not known."""
    assert stated("I went to the market and bought a lamp.") == [
        ("Marta", "went to", "market"),
        ("Marta", "bought", "lamp"),
    ]
    assert stated("I met Tom, that bought a lamp.") == [("Marta", "met", "Tom")]


@pytest.mark.feature("… a statement without meaning of its own is left out", of="statements become facts: subject")
@pytest.mark.parametrize(
    "text",
    [
        "I have to go",
        "I have a question",
        "I got it",
        "I got really tired",
        "I found it hard",
        "I was a nurse",
        "I used Redis",  # not any more, maybe
        "I bought her a lamp, if I remember well"[:17],
        "I like his tech",
        "Running the tests is fun",
        "It started a fire",
        "They moved to Rome",
        "Tom wonders whether Kim joined Acme",
        "My dogs are doing fine",
        "I had moved to Rome",
        "Stopped a lot",
    ],
)
def test_statements_that_need_their_context_are_no_facts(text: str):
    """Duties, moods, idle phrases, pronouns, hearsay, and what was before the past."""
    assert stated(text) == []


def test_no_verb_form_has_two_predicates():
    """A form has one predicate, and a state's verb is no event's in the same form."""
    forms = [form for form, _ in _PREDICATES]
    assert len(set(_STATES) & set(_EVENTS)) == 0
    assert all(form == form.lower() for form in forms)


@pytest.mark.feature("sentences without a verb that states something are passed over quickly")
@pytest.mark.parametrize(
    "form", sorted({form for form, _ in _PREDICATES} | {"is", "are", "am", "'m", "ſold", "runs on"})
)
def test_quick_look_passes_over_no_verb(form: str):
    for sentence in (f"Tom {form.upper()} the Atlas", f"I{form} late", f"x-{form} y", f"Tom {form}"):
        assert _states(sentence) == (_SEEN.search(sentence) is not None)
