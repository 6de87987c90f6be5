"""Messages that are too long for one memory, over scattered stores."""

from __future__ import annotations

from pathlib import Path

import pytest

from benchmarks.datasets import Corpus, DataError, Item, Question
from benchmarks.fill_stores import open_home, scattered_copies, store_copies
from benchmarks.options import Run
from benchmarks.run_dataset import run

LONG = "The rake is behind the shed.\n\n" * 12_000


@pytest.mark.feature("a message that is too long for one memory is split for scattered stores, too")
async def test_scattered_stores_get_a_long_message_in_pieces(tmp_path: Path) -> None:
    """Its pieces are all the one message, and none is longer than a memory."""
    corpus = Corpus("c", (Item("1", LONG, "s", 1), Item("2", "Tea is at four.", "s", 2)), ())
    async with open_home(tmp_path / "home", ("markdown", "cortex")) as gateway:
        copies = scattered_copies(corpus, ("markdown", "cortex"), 0)
        stored = await store_copies(gateway, corpus, copies, tmp_path / "ledger.json")
    assert sum(item.id == "1" for item in stored.items.values()) > 10
    assert {item.id for item in stored.items.values()} == {"1", "2"}


@pytest.mark.feature("what cannot be stored is found before anything is stored, scattered or not")
@pytest.mark.parametrize("over", [False, True])
def test_a_message_that_cannot_be_stored_is_found_before_anything_is_stored(over: bool, tmp_path: Path) -> None:
    """A message without words is named, and no home is made."""
    bad = Item("7", " \n", "s", 1)
    corpus = Corpus("c", (bad,), (Question(0, "When is tea?", "single", ("7",)),))
    options = Run(dataset="d", corpora=(corpus,), home=tmp_path / "homes", scattered=over, baselines=())
    with pytest.raises(DataError, match="message 7"):
        run(options)
    assert not (tmp_path / "homes").exists()
