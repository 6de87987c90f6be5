"""Invents what an agent's tools return around the turns of a conversation: noise in the words of that conversation."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from datetime import timedelta
from random import Random

from benchmarks.datasets import Corpus, Item
from benchmarks.synthetic_text import sentence
from fusion.contract import Scope
from fusion.lib.observation import NewObservation

TOOLS = ("Bash", "Read", "Grep", "WebFetch", "Edit")
CHARACTERS = 200
"""characters of noise around the words of a turn"""


def observations(corpus: Corpus, scope: Scope, each: int) -> Iterator[NewObservation]:
    """``each`` results of tools for every turn; half of its words are in each of them, so that they are found."""
    draw = Random(f"tool noise {corpus.id}")
    for number, item in enumerate(corpus.memories):
        for copy in range(each):
            yield _result(item, f"{number}.{copy}", scope, draw)


def _result(item: Item, name: str, scope: Scope, draw: Random) -> NewObservation:
    words = item.text.split()
    quoted = " ".join(draw.sample(words, (len(words) + 1) // 2)) if words else ""
    at = item.at + timedelta(seconds=1) if item.at is not None else None
    return NewObservation(
        "tool.result",
        scope,
        payload={"stdout": f"{sentence(draw, CHARACTERS)}\n{quoted}"},
        ts=at,
        event_id=f"noise-{name}",
        tool=draw.choice(TOOLS),
    )


def batches(found: Sequence[NewObservation], size: int = 100) -> Iterator[Sequence[NewObservation]]:
    """The observations in batches, as a request carries them."""
    for start in range(0, len(found), size):
        yield found[start : start + size]
