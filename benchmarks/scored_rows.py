"""Scored rows, one for each question, arm and budget: every figure and report is made from them."""

from __future__ import annotations

import os
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import asdict, dataclass
from pathlib import Path
from typing import Any

import orjson

from benchmarks.arms import Arm
from benchmarks.datasets import Corpus, DataError, Item, Question
from benchmarks.metrics import duplicate_pairs, texts_in_block
from fusion.lib.words import spoken
from fusion.recall.engine import Outcome
from fusion.recall.pack import Excerpt

MAX_RANKED = 50
"""ids of the ranking kept in a row"""


@dataclass(frozen=True, slots=True)
class Row:
    """What one arm gave for one question in a block of ``budget`` characters.

    ``members`` are the item ids of each excerpt, ``ranked`` those before packing. ``gold``, ``found`` and ``eib`` (the
    share of the gold that is in the block) are empty, and None, where the question does not count for recall.
    """

    dataset: str
    corpus: str
    question: int
    query: str
    category: str
    arm: str
    recipe: str
    recipe_hash: str
    backends: tuple[str, ...]
    budget: int
    block: str
    members: tuple[tuple[str, ...], ...]
    ranked: tuple[str, ...]
    gold: tuple[str, ...]
    found: tuple[bool, ...]
    eib: float | None
    took_ms: float
    cpu_ms: float
    abstained: bool
    duplicates: int
    evidence: tuple[str, ...] = ()
    """the text of each of ``gold``; empty where it names a document"""
    best: float | None = None
    """the best candidate's local score, which an abstaining recipe's floor is held against; None for a baseline"""
    probabilities: tuple[float | None, ...] = ()
    """that each of ``ranked`` helps; empty for a baseline"""

    def answer(self) -> dict[str, Any]:
        """The row as an independent referee scores it: what the agent got, without the scores."""
        return {
            "conversation": self.corpus,
            "question": self.question,
            "budget": self.budget,
            "block": self.block,
            "members": self.members,
            "ranked": self.ranked,
        }

    @property
    def judged(self) -> list[tuple[float, bool]]:
        """Of the ranked memories, the probability that each helps, and whether it is among the evidence."""
        if self.eib is None:
            return []
        pairs = zip(self.ranked, self.probabilities, strict=False)
        return [(p, name in self.gold) for name, p in pairs if p is not None]

    @property
    def key(self) -> tuple[str, int]:
        """Identifies the question within its data set."""
        return self.corpus, self.question


def write(file: Path, rows: Iterable[Mapping[str, Any]]) -> None:
    """A JSON object a line, all or nothing: the file is put in its place when it is whole."""
    part = file.with_name(file.name + ".part")
    try:
        with part.open("wb") as stream:
            stream.writelines(orjson.dumps(row) + b"\n" for row in rows)
        part.replace(file)
    except OSError as error:
        raise DataError(f"{file} cannot be written: {os.strerror(error.errno or 0)}") from None
    finally:
        part.unlink(missing_ok=True)


def write_rows(file: Path, rows: Iterable[Row]) -> None:
    write(file, (asdict(row) for row in rows))


class Scorer:
    """Scores the answers of one corpus. ``stored`` maps each ref to the item that it holds."""

    def __init__(self, dataset: str, corpus: Corpus, stored: Mapping[str, Item]) -> None:
        self._dataset, self._corpus, self._stored = dataset, corpus, stored
        self._items = {item.id: item for item in corpus.memories}

    def row(self, question: Question, arm: Arm, budget: int, outcome: Outcome, took_ms: float, cpu_ms: float) -> Row:
        """The row of an answer of the gateway."""
        ranked = list(outcome.receipt.reasons["ref"])
        return self.row_of(
            question,
            (arm.name, arm.recipe.name, arm.recipe.hash, arm.backends),
            budget,
            (outcome.fused.block, outcome.fused.memories),
            ranked,
            took_ms,
            cpu_ms,
            best=round(max(outcome.receipt.reasons["local"], default=0.0), 4),
            probabilities=outcome.receipt.reasons["probability"],
        )

    def row_of(
        self,
        question: Question,
        arm: tuple[str, str, str, tuple[str, ...]],
        budget: int,
        block: tuple[str, Sequence[Excerpt]],
        ranked: Sequence[str],
        took_ms: float,
        cpu_ms: float,
        *,
        best: float | None = None,
        probabilities: Sequence[float | None] = (),
    ) -> Row:
        text, memories = block
        members = tuple(tuple(self._id(member.ref) for member in memory.members) for memory in memories)
        gold = question.gold if question.answerable else ()
        hits = self._found(gold, text, members)
        names = list(dict.fromkeys(self._named(self._id(ref)) for ref in ranked))[:MAX_RANKED]
        named = ((self._named(self._id(ref)), p) for ref, p in zip(ranked, probabilities, strict=False))
        # Several passages or copies are one memory, and the last of these pairs is the best one's.
        by_name = dict(reversed(list(named)))
        return Row(
            self._dataset,
            self._corpus.id,
            question.index,
            question.text,
            question.category,
            *arm,
            budget=budget,
            block=text,
            members=members,
            ranked=tuple(names),
            gold=gold,
            found=hits,
            eib=sum(hits) / len(hits) if hits else None,
            took_ms=round(took_ms, 3),
            cpu_ms=round(cpu_ms, 3),
            abstained=not members,
            duplicates=duplicate_pairs([spoken(m.text, m.speaker) for x in memories for m in x.members]),
            evidence=tuple(self._items[g].spoken if g in self._items else "" for g in gold),
            best=best,
            probabilities=tuple(by_name[name] for name in names) if by_name else (),
        )

    def share(self, question: Question, outcome: Outcome) -> float | None:
        """The share of a question's evidence that an answer's block has; None where it does not count for recall."""
        if not question.answerable:
            return None
        members = [[self._id(member.ref) for member in memory.members] for memory in outcome.fused.memories]
        found = self._found(question.gold, outcome.fused.block, members)
        return sum(found) / len(found)

    def is_evidence(self, question: Question, ref: str) -> bool:
        """Whether the memory of this ref is among what answers the question."""
        return question.answerable and self._named(self._id(ref)) in question.gold

    def _found(self, gold: Sequence[str], block: str, members: Sequence[Sequence[str]]) -> tuple[bool, ...]:
        if self._corpus.match == "words":
            return tuple(texts_in_block([self._items[g].spoken for g in gold], block))
        inside = {self._named(member) for excerpt in members for member in excerpt}
        return tuple(g in inside for g in gold)

    def _named(self, name: str) -> str:
        """The name of this item as evidence: its document or its id, as the corpus matches."""
        item = self._items.get(name)
        return item.document if item is not None and self._corpus.match == "document" else name

    def _id(self, ref: str) -> str:
        """The id of the item that a ref holds; a ref of something else, such as an extracted fact, unchanged."""
        item = self._stored.get(ref)
        return item.id if item else ref
