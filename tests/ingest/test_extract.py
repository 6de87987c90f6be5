"""Capture: kind, entities, facts, times and episodes of an event."""

from __future__ import annotations

from dataclasses import replace
from datetime import UTC, datetime, timedelta

import pytest
from hypothesis import example, given, settings
from hypothesis import strategies as st

from fusion.contract import KINDS, Entity, Episode, Event, Extraction, Fact, Kind, Moment, Precision
from fusion.ingest.extract import KEYWORDS, MAX_ENTITIES, MAX_FACTS, MAX_PART_WORDS, MAX_TIMES, extract

WEDNESDAY = datetime(2026, 3, 11, 10, 30, 20, tzinfo=UTC)


def event(text: str, speaker: str | None = None, kind: Kind = "note", at: Moment | None = None) -> Event:
    return Event("0190", text, WEDNESDAY, kind=kind, speaker=speaker, at=at)


def names(text: str, speaker: str | None = None) -> list[str]:
    return [entity.name for entity in extract(event(text, speaker)).entities]


def stated(text: str, speaker: str | None = None) -> list[tuple[str, str, str]]:
    return [(fact.subject, fact.predicate, fact.object) for fact in extract(event(text, speaker)).facts]


def named_times(text: str, at: Moment | None = None) -> list[tuple[str, Precision]]:
    return [(f"{m.utc:%Y-%m-%dT%H:%M:%S}", m.precision) for m in extract(event(text, at=at)).times]


# Kind


@pytest.mark.row("A038", "keywords determine a memory's kind")
@pytest.mark.parametrize(("kind", "keyword"), [(kind, word) for kind, words in KEYWORDS.items() for word in words])
def test_classify_knows_each_keyword_of_the_seed_in_any_case(kind: Kind, keyword: str):
    """A keyword alone decides the kind, written small or large."""
    assert extract(event(f"xyz {keyword} xyz")).kind == kind
    assert extract(event(f"xyz {keyword.upper()} xyz")).kind == kind


@pytest.mark.parametrize(
    ("text", "kind"),
    [
        ("The gateway listens on port 8765", "fact"),
        ("An unlikely thing: mustard, thence, alike", "fact"),  # keywords within words are none
        ("You mustn’t; don’t deploy", "rule"),  # the typographic apostrophe
        ("First install it, then run the server; it must work", "procedure"),  # 4 keywords to 1
        ("We must like it", "rule"),  # 1 to 1: the rule comes first
    ],
)
def test_classify_takes_the_kind_with_the_most_keywords(text: str, kind: Kind):
    """Whole words are counted; of equals the first of rule, procedure, preference, episode; without any, a fact."""
    assert extract(event(text)).kind == kind


@pytest.mark.parametrize("kind", [kind for kind in KINDS if kind != "note"])
def test_extract_keeps_a_chosen_kind(kind: Kind):
    """Only "note", which says nothing, is classified; a turn stays a turn."""
    assert extract(event("You must never do this", kind=kind)).kind == kind


# Entities


@pytest.mark.parametrize(
    ("text", "expected"),
    [
        ("yesterday we met Marta Ruiz in Berlin", ["Marta Ruiz", "Berlin"]),
        ("Marta Ruiz met us", ["Marta Ruiz"]),  # two capitals are a name even where a sentence begins
        ("Gardening calms. The cat sleeps.", []),  # one capital where a sentence begins says nothing
        ("Paris is nice. We love Paris.", ["Paris"]),  # unless the word comes again
        ("PostgreSQL scales", ["PostgreSQL"]),  # or has a capital within
        ("Hey Caroline! Thanks, Yesterday I met Bob", ["Caroline", "Bob"]),
        ("on Monday in May they came, or Tues", []),  # times, not names
        ("BTW They're glad. Woah! Go on", []),
        ("we asked Dr. Smith", ["Smith"]),
        ("at the University of Chile", ["University of Chile"]),
        ("Marta's Gateway runs in Łódź", ["Marta", "Gateway", "Łódź"][1:]),
        ("we saw Marta's Gateway", ["Marta", "Gateway"]),
        ("see [[Release 4|the release]] and [[Bug#open]]", ["Release 4", "Bug"]),
        ("ask @marta.r, not me@example.com", ["marta.r"]),
        ("run `fusion serve` but not `a b c d`", ["fusion serve"]),
        ('we saw "Stalker" and “The Mirror”', ["Stalker", "The Mirror"]),
        ('she said "No way!" and "whatever it is"', []),  # speech, not names
        ("看了「千と千尋」", ["千と千尋"]),
        ("see https://Example.com/Some/Path there", []),
        ("so:\n```\nFoo Bar = Baz\n```\nin Rome", ["Rome"]),
    ],
)
def test_names_are_entities(text: str, expected: list[str]):
    """Marked names (links, handles, code, quotes) come first, then capitalised ones that are not just a beginning."""
    assert names(text) == expected


def test_the_speaker_is_the_first_entity_and_a_person():
    """Who speaks is always known; a handle is a person too; other types are not guessed."""
    assert extract(event("hello @ana, in Rome", "Marta")).entities == (
        Entity("Marta", "person"),
        Entity("ana", "person"),
        Entity("Rome", "concept"),
    )


def test_entities_are_unique_and_at_most_sixteen():
    """Case makes no second entity: the first spelling stays."""
    assert names("[[redis]] with Redis and REDIS") == ["redis"]
    assert len(names(" and ".join(f"[[Name {n}]]" for n in range(40)))) == MAX_ENTITIES == 16


# Facts


@pytest.mark.row("A028", "A040", "statements become facts: subject, predicate, object")
@pytest.mark.parametrize(
    ("text", "expected"),
    [
        ("Julien is a backend engineer.", ("Julien", "is", "a backend engineer")),
        ("The gateway uses SQLite, and Redis.", ("gateway", "uses", "SQLite")),
        ("Marta Ruiz owns the orders service", ("Marta Ruiz", "owns", "orders service")),
        ("Julien prefers Neo4j because it is fast", ("Julien", "prefers", "Neo4j")),
        ("Ana really likes hiking", ("Ana", "likes", "hiking")),
        ("Ana lives in Lisbon with Tom", ("Ana", "lives in", "Lisbon")),
        ("Ana now works at Acme.", ("Ana", "works at", "Acme")),
        ("Ana is working on Project Atlas!", ("Ana", "works on", "Project Atlas")),
        ("Ana moved to Berlin last week", ("Ana", "moved to", "Berlin")),
        ("Ana moved to Berlin in May 2023", ("Ana", "moved to", "Berlin")),
        ("The team decided on PostgreSQL after a long talk", ("team", "decided on", "PostgreSQL")),
        ("Yes, Marta chose node.js", ("Marta", "chose", "node.js")),
        ("- `fusion` uses tantivy", ("fusion", "uses", "tantivy")),
    ],
)
def test_plain_statements_are_facts(text: str, expected: tuple[str, str, str]):
    """Each verb makes one fact, whose object ends where its clause does."""
    assert stated(text) == [expected]


@pytest.mark.parametrize(
    ("text", "expected"),
    [
        ("I prefer tea", ("Marta", "prefers", "tea")),
        ("we use SQLite", ("Marta", "uses", "SQLite")),
        ("I'm a nurse", ("Marta", "is", "a nurse")),
        ("Hey, I’m working on the docs", ("Marta", "works on", "docs")),
        ("My dog is Rex", ("Marta's dog", "is", "Rex")),
        ("Our favourite colour is green", ("Marta's favourite colour", "is", "green")),
        ("Tom likes my garden", ("Tom", "likes", "Marta's garden")),
        ("My cats like fish", ("Marta's cats", "likes", "fish")),
    ],
)
def test_the_speaker_stands_for_i(text: str, expected: tuple[str, str, str]):
    """I, we, my and our are the speaker; without a known speaker they state nothing."""
    assert stated(text, "Marta") == [expected]
    assert stated(text) == []


@pytest.mark.parametrize(
    "text",
    [
        "Is Marta a nurse?",
        "Marta likes tea?",
        "If I like it, that is fine",
        "I said that I like it",
        "I don't like Java",
        "Marta is not a nurse",
        "Marta is never on time",
        "She likes tea",
        "It is raining",
        "Marta is going home",
        "Marta is so tired",
        "The weather is nice",
        "I would like a coffee",
        "I like it",
        "We use it to stay organised",  # what "it" is was said before
        "Looks like rain",  # no name before a verb without its s
        "Sounds like a plan",
        "Marta uses one two three four five six seven",  # 7 words
        "this product is liked",
        "see https://Ana uses",
    ],
)
def test_questions_conditions_and_negations_are_no_facts(text: str):
    """Questions, conditions, hearsay, negations, moods and bare pronouns make none; nor does a part over six words."""
    assert stated(text, "Tom") == []


def test_arrow_lines_are_facts():
    """``A -> rel -> B`` in either arrow, as a list item or not; a chain states each of its steps."""
    text = "- Julien -> corrected_by -> [[Bug gateway]]\nA → uses → B → runs on → C\np->next->value\na -> b"
    assert stated(text) == [
        ("Julien", "corrected_by", "Bug gateway"),
        ("A", "uses", "B"),
        ("B", "runs on", "C"),
    ]


def test_facts_are_unique_and_at_most_eight():
    """The same statement twice is one fact."""
    assert stated("Ana likes tea. Ana likes tea.") == [("Ana", "likes", "tea")]
    assert len(stated("\n".join(f"A{n} -> is -> B" for n in range(20)))) == MAX_FACTS == 8


# Times: said on Wednesday, 2026-03-11


@pytest.mark.parametrize(
    ("text", "expected"),
    [
        ("on 2026-03-04", ("2026-03-04T00:00:00", "day")),
        ("in 2026-03", ("2026-03-01T00:00:00", "month")),
        ("2026-03-04T09:12Z", ("2026-03-04T09:12:00", "minute")),
        ("2026-03-04 09:12:30", ("2026-03-04T09:12:30", "second")),
        ("2026-03-04T09:12:30+02:00", ("2026-03-04T07:12:30", "second")),
        ("in May 2023", ("2023-05-01T00:00:00", "month")),
        ("Sept. 2023", ("2023-09-01T00:00:00", "month")),
        ("12 March 2026", ("2026-03-12T00:00:00", "day")),
        ("the 1st of March, 2026", ("2026-03-01T00:00:00", "day")),
        ("March 12th, 2026", ("2026-03-12T00:00:00", "day")),
        ("since 2019", ("2019-01-01T00:00:00", "year")),
        ("Yesterday", ("2026-03-10T00:00:00", "day")),
        ("the day before yesterday", ("2026-03-09T00:00:00", "day")),
        ("today", ("2026-03-11T00:00:00", "day")),
        ("this morning", ("2026-03-11T00:00:00", "day")),
        ("tomorrow", ("2026-03-12T00:00:00", "day")),
        ("last week", ("2026-03-02T00:00:00", "day")),  # its Monday
        ("this week", ("2026-03-09T00:00:00", "day")),
        ("last month", ("2026-02-01T00:00:00", "month")),
        ("next month", ("2026-04-01T00:00:00", "month")),
        ("last year", ("2025-01-01T00:00:00", "year")),
        ("last Friday", ("2026-03-06T00:00:00", "day")),
        ("last Wednesday", ("2026-03-04T00:00:00", "day")),  # never the day itself
        ("next Wednesday", ("2026-03-18T00:00:00", "day")),
        ("this Friday", ("2026-03-13T00:00:00", "day")),
        ("two days ago", ("2026-03-09T00:00:00", "day")),
        ("a couple of weeks ago", ("2026-02-25T00:00:00", "day")),  # 11 March - 14 days
        ("3 months ago", ("2025-12-01T00:00:00", "month")),
        ("a year ago", ("2025-01-01T00:00:00", "year")),
        ("an hour ago", ("2026-03-11T09:00:00", "hour")),
        ("10 minutes ago", ("2026-03-11T10:20:00", "minute")),
    ],
)
def test_times_have_the_precision_of_the_text(text: str, expected: tuple[str, Precision]):
    """Full dates are absolute; the others count from the event's date."""
    assert named_times(f"so, {text}, it was") == [expected]


@pytest.mark.parametrize(
    "text",
    [
        "31 June 2026",
        "9999 years ago",
        "2026-13-01",
        "555-2026-03-04",
        "id 2026-03-04-17",
        "May I?",
        "version 2023",
    ],
)
def test_times_leave_out_numbers_that_are_no_times(text: str):
    """Impossible days, numbers that only look like dates, and a month's name alone."""
    assert named_times(text) == []


@pytest.mark.feature('"yesterday" counts from the event\'s date, with the precision that was stated')
def test_relative_times_count_from_the_event_and_not_from_its_recording():
    """An old conversation that is imported today speaks of its own yesterday."""
    assert named_times("yesterday", Moment(datetime(2023, 5, 8, 13, 56, tzinfo=UTC))) == [
        ("2023-05-07T00:00:00", "day")
    ]


def test_days_begin_in_the_zone_in_which_they_were_said():
    """10 March 20:00 UTC is the 11th in Tokyo (UTC+9): yesterday, the 10th, began there at 15:00 UTC on the 9th."""
    said = Moment(datetime(2026, 3, 10, 20, tzinfo=UTC), zone="Asia/Tokyo")
    assert extract(event("yesterday", at=said)).times == (
        Moment(datetime(2026, 3, 9, 15, tzinfo=UTC), "day", "Asia/Tokyo"),
    )
    unknown = replace(said, zone="Mars/Olympus")
    assert extract(event("yesterday", at=unknown)).times[0].utc == datetime(2026, 3, 9, tzinfo=UTC)


def test_times_are_not_more_precise_than_their_event():
    """Of something said "in 2025", yesterday is unknown, and last year is 2024."""
    assert named_times("yesterday, last year", Moment(datetime(2025, 1, 1, tzinfo=UTC), "year")) == [
        ("2024-01-01T00:00:00", "year")
    ]


def test_times_are_unique_and_at_most_eight():
    """ "today" twice is one time."""
    assert len(named_times("today and today")) == 1
    assert len(named_times(" ".join(f"2026-01-{n:02}" for n in range(1, 20)))) == MAX_TIMES == 8


# Episodes


@pytest.mark.row("A039", "an episode has a window of time and participants")
def test_an_episode_has_a_window_and_its_participants():
    """Said on 2026-03-11: yesterday is the whole of the 10th; its sentence names Tom and speaks of the speaker."""
    found = extract(event("Kim is here. We deployed Atlas with Tom yesterday. Lisa slept.", "Marta"))
    assert found.episodes == (
        Episode(datetime(2026, 3, 10, tzinfo=UTC), datetime(2026, 3, 11, tzinfo=UTC), ("Marta", "Atlas", "Tom")),
    )


def test_an_episode_of_others_is_not_the_speakers():
    """A speaker who only reports an episode is not a participant."""
    (episode,) = extract(event("In 2024 Kim met Tom.", "Marta")).episodes
    assert episode.entities == ("Kim", "Tom")


# Types


@pytest.mark.row("A040", "people, projects and tools are distinguished if the text says which they are")
def test_entity_types_follow_from_facts_and_address():
    """Who is spoken to, or does what only people do, is a person; what is used a tool; "Project X" a project."""
    found = extract(event("Hey Kim! Tom likes Project Atlas, and the team uses Redis in Rome.", "Marta"))
    types = {entity.name: entity.type for entity in found.entities}
    assert types == {
        "Marta": "person",
        "Kim": "person",
        "Tom": "person",
        "Project Atlas": "project",
        "Redis": "tool",
        "Rome": "concept",
    }


def test_a_name_that_opens_its_sentence_counts_when_something_is_stated_of_it():
    """ "Gardening calms" names nobody; "Marta joined Acme" does."""
    assert names("Marta joined Acme.") == ["Acme", "Marta"]


# Everything

PIECES = st.sampled_from(
    [
        *("\"'`[]{}()@#|*_~\n\t.?!,;:->→\0\ud800\u202eİßΩ漢"),
        *("I'm", " is ", " a ", "The ", "Marta", "[[", "]]", "```", "~~~", "://", " -> ", "my ", "like ", "don’t "),
        *("2026-02-30", "9999 years ago", "last Friday", " a couple of days ago", " if ", " and "),
    ]
)


@settings(deadline=None)
@given(
    st.one_of(st.text(max_size=300), st.lists(PIECES, max_size=60).map("".join)),
    st.one_of(st.none(), st.text(max_size=20)),
    st.datetimes(timezones=st.just(UTC)),
    st.sampled_from(["second", "minute", "hour", "day", "month", "year"]),
    st.sampled_from([None, "", "Asia/Tokyo", "America/Los_Angeles", "../etc", "\0", "x" * 300, "Europe"]),
)
@example("yesterday", None, datetime.min.replace(tzinfo=UTC), "day", "America/Los_Angeles")
@example("tomorrow, next month, next year", None, datetime.max.replace(tzinfo=UTC), "day", "Asia/Tokyo")
def test_extract_never_raises_and_keeps_its_bounds(
    text: str, speaker: str | None, at: datetime, precision: Precision, zone: str | None
):
    """Whatever a text, its speaker, its time and its zone are: a whole answer, the same each time, within bounds."""
    said = event(text, speaker, at=Moment(at, precision, zone))
    found = extract(said)
    assert isinstance(found, Extraction)
    assert found == extract(said)
    assert found.kind in KINDS
    assert len(found.entities) <= MAX_ENTITIES
    assert len(found.facts) <= MAX_FACTS
    assert len(found.times) <= MAX_TIMES
    assert len(found.episodes) <= MAX_TIMES
    assert found.confidence == 1
    assert len({entity.name.casefold() for entity in found.entities}) == len(found.entities)
    for fact in found.facts:
        assert isinstance(fact, Fact)
        assert fact.predicate
        for part in (fact.subject, fact.object):
            assert 0 < len(part.split()) <= MAX_PART_WORDS + len((speaker or "").split())
    assert all(moment.utc.utcoffset() == timedelta(0) for moment in found.times)


@pytest.mark.parametrize(
    "piece",
    [
        "A",
        "[[",
        "a. ",
        "`",
        "I like ",
        "A b ",
        "A ",
        "my a ",
        "1 ",
        "- ",
        '"A',
        "~~~\n",
        "in May ",
        "from 31 June to ",
        "I bought and ",
    ],
)
@pytest.mark.timeout(10)
def test_long_texts_are_read_to_a_bound(piece: str):
    """Hostile texts cost no more than their length: a quadratic rule would take minutes here, not milliseconds."""
    assert isinstance(extract(event(piece * 50_000)), Extraction)
