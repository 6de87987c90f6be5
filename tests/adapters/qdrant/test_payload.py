"""An event as a Qdrant payload: its keys, which are a stored format, and the way back."""

from __future__ import annotations

from datetime import UTC, datetime

import pytest
from hypothesis import given

from adapters.qdrant.payload import event_of, hit_of, payload_of
from fusion.contract import Event, Fact, Hit, Moment, Place, Scope
from tests.store.test_rows import events

NOON = datetime(2026, 1, 31, 12, tzinfo=UTC)
FULL = Event(
    "1",
    "Tea at five.",
    NOON,
    Scope("acme", "ada l", "agent", "run", "_session", "garden plan"),
    kind="fact",
    raw_kind="memo",
    speaker="Ada",
    at=Moment(NOON, "day", "Europe/Oslo"),
    place=Place("notes.md", 3, 4, "line"),
    source="notes",
    revision="r1",
    trust="trusted",
    origin="agent",
    valid_from=NOON,
    valid_to=NOON,
    supersedes="0",
    derived_from=("a", "b"),
)
TIME = "2026-01-31T12:00:00+00:00"


def test_payload_of_writes_the_keys_of_stored_collections() -> None:
    """Mem0's names, ISO times, and ids without blanks or a leading underscore: collections of today have these."""
    assert payload_of(FULL) == {
        "data": "Tea at five.",
        "hash": "53e93205a4d509bdf2ffda61fdaea262",
        "created_at": TIME,
        "updated_at": TIME,
        "text_lemmatized": "Tea at five.",
        "actor_id": "Ada",
        "user_id": "_ada%20l",
        "agent_id": "agent",
        "run_id": "run",
        "event_id": "1",
        "tenant": "acme",
        "session_id": "__session",
        "project": "garden plan",
        "audience": "group",
        "kind": "fact",
        "raw_kind": "memo",
        "at": TIME,
        "at_precision": "day",
        "at_zone": "Europe/Oslo",
        "document": "notes.md",
        "start": 3,
        "end": 4,
        "unit": "line",
        "source": "notes",
        "revision": "r1",
        "trust": "trusted",
        "origin": "agent",
        "valid_from": TIME,
        "valid_to": TIME,
        "supersedes": "0",
        "derived_from": ["a", "b"],
    }


def test_payload_of_leaves_out_what_is_empty() -> None:
    """A memory of nobody is stored under a user of that name, as mem0 needs one of user, agent and run."""
    payload = payload_of(Event("1", "Tea.", NOON, Scope("acme")))
    assert payload.keys() == {
        *("data", "hash", "created_at", "updated_at", "text_lemmatized", "user_id", "event_id", "tenant"),
        *("audience", "kind", "trust", "origin"),
    }
    assert payload["user_id"] == "_shared"


@given(events)
def test_event_of_reads_what_payload_of_wrote(event: Event) -> None:
    """Every field comes back, in the event and in the hit; the hit has the id of its point."""
    payload = payload_of(event)
    assert event_of(payload) == event
    expected = Hit.of(event)
    expected.native_id = "point"
    assert hit_of("point", payload) == expected


def test_hit_of_takes_only_mem0s_keys_from_a_payload_of_another_program() -> None:
    """The keys "tenant" or "kind" may mean anything there; a time without a zone is UTC."""
    payload = {"data": "Tea.", "user_id": "ada", "tenant": "x", "kind": "rule", "created_at": "2026-01-31T12:00:00"}
    hit = hit_of("9", payload)
    assert (hit.native_id, hit.event_id, hit.text, hit.recorded_at) == ("9", None, "Tea.", NOON)
    assert (hit.scope, hit.kind) == (Scope(user_id="ada", audience="group"), "note")
    assert event_of(payload) is None


@pytest.mark.feature("a text that another program updated in mem0 is a version of the event, recorded at the update")
def test_hit_of_an_updated_payload_is_a_version_of_its_event() -> None:
    """mem0 keeps our keys at its UPDATE; the event's day and place say nothing of the new text."""
    event = Event("1", "Ada lives in Berlin.", NOON, Scope(user_id="ada"), at=Moment(NOON), place=Place("talk", 1, 1))
    later = "2026-02-01T09:00:00+00:00"
    hit = hit_of("1", {**payload_of(event), "data": "Ada lives in Paris.", "updated_at": later})
    assert (hit.event_id, hit.version_of, hit.recorded_at) == (None, "1", datetime(2026, 2, 1, 9, tzinfo=UTC))
    assert (hit.at, hit.place, hit.scope, hit.text) == (None, None, event.scope, "Ada lives in Paris.")
    assert hit_of("1", {**payload_of(event), "updated_at": "soon"}).event_id == "1"


def test_hit_of_another_programs_payload_is_as_new_as_its_update() -> None:
    """And it is a fact if its metadata has a triple."""
    payload = {
        "data": "Ada lives in Paris",
        "created_at": "2026-01-31T12:00:00",
        "updated_at": "2026-02-01T09:00:00",
        "subject": "Ada",
        "attribute": "lives in",
        "value": "Paris",
    }
    hit = hit_of("9", payload)
    assert (hit.recorded_at, hit.version_of) == (datetime(2026, 2, 1, 9, tzinfo=UTC), None)
    assert hit.fact == Fact("Ada", "lives in", "Paris")
    assert hit_of("9", {**payload, "value": 3}).fact is None
