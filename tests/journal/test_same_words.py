"""Memories in the same words, among thousands of the same length."""

from __future__ import annotations

import pytest

from fusion.contract import Hit
from fusion.journal.same_words import SameWords
from tests.ingest.helpers import ME, event
from tests.journal.helpers import append
from tests.sqlite_steps import counted

SAID = "we sail to lyon on friday 0001"


@pytest.mark.feature("of memories that have the length of a forgotten one, only those with its letters are read whole")
async def test_few_of_the_rows_of_one_length_are_read_whole(file_journal):
    steps = {}
    for size in (100, 800):
        held = (await file_journal.watermark()).events
        await append(file_journal, *(event(f"{SAID[:-4]}{n:04}", n) for n in range(held, size)))

        def look(db):
            with counted(db) as taken:
                (found,) = SameWords(db).of(Hit.of(event(SAID)), ME)
            assert found["text"] == SAID
            return taken.count

        steps[size] = await file_journal.read(look)
    whole = 40  # steps of a row with all of its columns
    assert (steps[800] - steps[100]) / 700 < whole


async def test_whitespace_and_case_do_not_matter_and_letters_alone_do_not_suffice(file_journal):
    await append(
        file_journal,
        *(
            event(text, n)
            for n, text in enumerate([SAID, SAID.upper(), SAID.replace(" ", "  "), SAID.replace("lyon on", "lyo non")])
        ),
    )
    found = await file_journal.read(lambda db: [row["text"] for row in SameWords(db).of(Hit.of(event(SAID)), ME)])
    assert found == [SAID, SAID.upper(), SAID.replace(" ", "  ")]
