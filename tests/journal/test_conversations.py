"""Conversations that callers write turn by turn: who may add turns."""

from __future__ import annotations

import pytest

from tests.ingest.helpers import event
from tests.journal.helpers import append, neighbour_texts


@pytest.mark.feature("a turn from another source does not join a conversation")
async def test_a_turn_of_another_source_does_not_join_a_conversation_of_one_source(journal):
    """Neither at a place that is taken, nor before, between or after the turns; and it replaces none of them."""
    talk = await append(journal, *(event(f"turn {n}", n, source="chat:12") for n in (1, 2, 5)))
    for source in ("chat:evil", "chat:", "chat:1"):
        for n in (0, 2, 3, 9):
            (planted,) = await append(journal, event(f"planted {n} {source}", n, source=source))
            assert planted.state == "stored"
            assert planted.event.source == f"claimed:{source}"
            assert await neighbour_texts(journal, planted, 1) != ["turn 1", "turn 2"]
    assert await neighbour_texts(journal, talk[1], 5) == ["turn 1", "turn 5"]
    (more,) = await append(journal, event("turn 3", 3, source="chat:12"))
    assert await neighbour_texts(journal, more, 1) == ["turn 2", "turn 5"]
    (edited,) = await append(journal, event("turn 3, edited", 3, source="chat:12"))
    assert edited.state == "superseded"


@pytest.mark.feature("a source without a kind does not join a conversation without a source")
async def test_a_source_without_a_kind_does_not_join_a_conversation_without_a_source(journal):
    """Both have no kind, and they are two sources all the same."""
    talk = await append(journal, *(event(f"turn {n}", n) for n in range(3)))
    (planted,) = await append(journal, event("planted", 9, source="chat"))
    assert planted.event.source == "claimed:chat"
    assert await neighbour_texts(journal, talk[2], 5) == ["turn 0", "turn 1"]


@pytest.mark.feature("another message does not take an occupied place of a conversation")
async def test_a_taken_place_in_a_conversation_refuses_another_message(journal):
    """A talk whose messages each have an id of their own takes the next one; a second text at a place is a claim."""
    talk = await append(journal, *(event(f"turn {n}", n, source=f"chat:message-{n}") for n in range(3)))
    (planted,) = await append(journal, event("planted", 1, source="chat:message-7"))
    assert planted.event.source == "claimed:chat:message-7"
    (again,) = await append(journal, event("planted", 1, source="chat:message-7"))
    assert (again.ref, again.state) == (planted.ref, "duplicate")
    (following,) = await append(journal, event("turn 3", 3, source="chat:message-3"))
    assert await neighbour_texts(journal, following, 5) == ["turn 0", "turn 1", "turn 2"]
    (sent_again,) = await append(journal, event("turn 1", 1, source="chat:message-1"))
    assert (sent_again.ref, sent_again.state) == (talk[1].ref, "duplicate")
