"""Which questions ask for the same by their words alone, and which never do."""

from __future__ import annotations

import pytest

from fusion.lib.same_question import asks_the_same

REWORDED = [
    ("what do we know about the harbour?", "what is known about the harbour?"),
    ("what do we know about the harbour?", "Please tell me what we know about the harbour"),
    ("what did we decide about the database?", "what have we decided about the database?"),
    ("where does the bookings database move?", "can you tell me where the bookings database moves?"),
    ("which database do we use?", "What database are we using"),
    ("why did we choose Postgres?", "why did we pick Postgres?"),
]


@pytest.mark.row("A026", "a reworded question with the same content words gets its prepared answer without a model")
@pytest.mark.parametrize(("one", "other"), REWORDED)
def test_reworded_question_is_the_same_by_its_words(one: str, other: str) -> None:
    """An encoding takes longer than the rest of a prepared answer."""
    assert asks_the_same(one, other) is asks_the_same(other, one) is True


NEARLY = [
    ("what is planned for March?", "what is planned for May?"),
    ("what is planned for 2030?", "what is planned for 2031?"),
    ("what do we know about lamp 12?", "what do we know about lamp 21?"),
    ("does Ada like tea?", "does Ada not like tea?"),
    ("what does Ada think of Bo?", "what does Cleo think of Bo?"),
    ("where is unit a?", "where is unit b?"),
    ("what did Ada tell Bo?", "what did Bo tell Ada?"),
    ("who pays Bo?", "who does Bo pay?"),
    ("what do I owe Bo?", "what does Bo owe me?"),
    ("what can she do in Rome?", "what can he do in Rome?"),
    ("what did Ada pay?", "what did Ada pay before?"),
    ("what came after the war?", "what came before the war?"),
    ("when was a slot held?", "why was a slot held?"),
    ("where is the office?", "where was the office?"),
    ("which flights go to Rome?", "which flights go from Rome?"),
    ("what is on the table?", "what is under the table?"),
    ("how do I turn the heating on?", "how do I turn the heating off?"),
    ("who can enter the vault?", "who must enter the vault?"),
    ("how do we upload the files?", "how do we download the files?"),
    ("what is the price of the small room?", "what is the price of the large room?"),
    ("what is the wifi password at home?", "what is the wifi password at work?"),
    ("what is allowed in the garden?", "what is forbidden in the garden?"),
    ("what do we know about the harbour?", "what do we know about the harbour master?"),
    ("what is the backup of the vault?", "what is the vault of the backup?"),
    ("how does the server load?", "how is the server loaded?"),
]


@pytest.mark.row("A026", "a question that differs in a number, date, name, negation or relation is answered anew")
@pytest.mark.parametrize(("one", "other"), NEARLY)
def test_nearly_the_same_question_is_another(one: str, other: str) -> None:
    """Whatever the model says, which finds many of these as close as rewordings."""
    assert asks_the_same(one, other) is asks_the_same(other, one) is False


def test_moved_words_leave_it_to_the_model() -> None:
    assert asks_the_same("when does the lease end?", "when is the end of the lease?") is None
