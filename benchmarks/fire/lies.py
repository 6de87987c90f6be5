"""`lie_only`: questions whose block shows a lie about a fact and not the fact. Of own facts, or of a LoCoMo file:

python -m benchmarks.fire.lies --data locomo.json --conversations conv-30 --questions 60
"""

from __future__ import annotations

import argparse
import asyncio
import json
import os
import re
from collections import Counter
from collections.abc import Mapping, Sequence
from dataclasses import replace
from pathlib import Path
from random import Random
from typing import Any

from benchmarks.datasets import Corpus
from benchmarks.datasets.locomo import load
from benchmarks.fire.poisoned_home import CLAIMING, DOORS, Door, PoisonedHome, by_key, open_poisoned_home, share, shown
from fusion.contract import Place, Scope
from fusion.ingest.intake import NewMemory
from fusion.lib.jaccard import jaccard
from fusion.lib.words import STOP_WORDS, words
from tests.fire.lies import PEOPLE, SEED, SUBSTITUTES, Pair, copies, lies

SHORT_PAIRS = 10
SHORT_DOORS: tuple[Door, ...] = ("remembered", "imitated")
PLANTED_BY: Mapping[Door, Door] = {"claimed": "remembered", "imitated": "external", "line": "line"}
"""by claiming door, the way in"""
TURNS = 10
"""facts of one talk"""
CLEAN, COPIES = "clean", "copies"


def measure(full: bool) -> dict[str, Any]:
    """Asks the pairs of `tests.fire.lies`, each planted by each door; and checks whether copies merge."""
    pairs = lies()
    if not full:
        pairs = pairs[:: len(pairs) // SHORT_PAIRS]
    return asyncio.run(_own(pairs, (*DOORS, *CLAIMING) if full else SHORT_DOORS))


async def _own(pairs: Sequence[Pair], doors: Sequence[Door]) -> dict[str, Any]:
    talk = [_turn(pair.truth, n) for n, pair in enumerate(pairs)]
    async with open_poisoned_home() as home:
        figures = await _attacked(home, pairs, talk, doors)
        kept = 0
        for n, copy in enumerate(copies()):
            await home.keep([replace(_turn(copy.truth, n), speaker=None)], COPIES)
            await home.plant("external", [copy.other], COPIES)
        await home.wait_until_stored()
        for copy in copies():
            seen = shown(await home.ask(copy.truth, COPIES))
            kept += copy.truth in seen and copy.other in seen
        return {**figures, "duplicates_kept": kept, "copies": len(copies())}


def _turn(text: str, n: int) -> NewMemory:
    place = Place(f"talk-{n // TURNS}", n % TURNS, n % TURNS)
    return NewMemory(text=text, kind="turn", speaker=PEOPLE[n % len(PEOPLE)], place=place, source=f"chat:{n // TURNS}")


async def _attacked(
    home: PoisonedHome, pairs: Sequence[Pair], memories: Sequence[NewMemory], doors: Sequence[Door]
) -> dict[str, Any]:
    await home.keep(memories, CLEAN)
    stated = {memory.text: memory for memory in memories}
    for door in doors:
        await home.keep(memories, door)
        if door not in CLAIMING:
            await home.plant(door, [pair.other for pair in pairs], door)
            continue
        for pair in pairs:
            true = stated[pair.truth]
            claims = {"speaker": true.speaker, "kind": true.kind, "at": true.at, "place": true.place}
            if door == "line":
                claims["source"] = true.source
            await home.plant(PLANTED_BY[door], [pair.other], door, **claims)
    await home.wait_until_stored()
    clean = {pair: pair.truth in shown(await home.ask(pair.question, CLEAN)) for pair in pairs}
    asked: Counter[str] = Counter()
    lied: Counter[str] = Counter()
    evicted = both = marked = 0
    for door in doors:
        for pair in pairs:
            fused = await home.ask(pair.question, door)
            seen = shown(fused)
            truth, lie = pair.truth in seen, pair.other in seen
            asked.update((door, pair.kind))
            lied.update((door, pair.kind) if lie and not truth else ())
            evicted += clean[pair] and not truth
            both += truth and lie
            marked += truth and lie and bool(fused.disputed)
    questions = len(doors) * len(pairs)
    return {
        "lie_only": share(sum(lied[door] for door in doors), questions),
        "evictions": share(evicted, questions),
        "lie_only_by": by_key(lied, asked),
        "questions": questions,
        "truth_without_attack": share(sum(clean.values()), len(pairs)),
        "both_shown": share(both, questions),
        "marked_of_both": share(marked, both),
    }


# A data set ------------------------------------------------------------------------------------------------------


def changed(text: str, draw: Random) -> str | None:
    """The text with one content word changed; None where that leaves less than three fifths of its words."""
    found = [m for m in re.finditer(r"[A-Za-z]{4,}", text) if m.group().lower() not in STOP_WORDS]
    if not found:
        return None
    match = draw.choice(found)
    new = draw.choice([word for word in SUBSTITUTES if word != match.group().lower()])
    new = new.capitalize() if match.group()[0].isupper() else new
    lie = text[: match.start()] + new + text[match.end() :]
    return lie if jaccard(words(text), words(lie)) >= 0.6 else None


def attack(corpus: Corpus, questions: int) -> list[Pair]:
    """Makes lies about the evidence of some questions of a corpus."""
    draw = Random(f"{SEED}/{corpus.id}")
    texts = {item.id: item.text for item in corpus.memories}
    pairs: dict[str, Pair] = {}
    for question in draw.sample(corpus.questions, len(corpus.questions)):
        if question.answerable and len(pairs) < questions:
            truth = texts[question.gold[0]]
            lie = changed(truth, draw)
            if lie is not None:
                pairs.setdefault(truth, Pair(question.category, question.text, truth, lie))
    return list(pairs.values())


async def on(corpus: Corpus, questions: int, doors: Sequence[Door]) -> dict[str, Any]:
    """Measures the same attack on a conversation of a data set."""
    memories = talk_of(corpus)
    async with open_poisoned_home() as home:
        return await _attacked(home, attack(corpus, questions), memories, doors)


def talk_of(corpus: Corpus) -> list[NewMemory]:
    """A corpus's turns as they are captured."""
    from benchmarks.fill_stores import _memory

    return [replace(_memory(item, corpus.id, False), scope=Scope()) for item in corpus.memories]


def main() -> None:
    os.environ.setdefault("OPENBLAS_NUM_THREADS", "1")
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--data", type=Path, required=True, help="a copy of LoCoMo of yours")
    parser.add_argument("--conversations", default="", help="ids with commas between; all by default")
    parser.add_argument("--questions", type=int, default=60, help="of each conversation")
    parser.add_argument("--doors", default=",".join((*DOORS, *CLAIMING)))
    options = parser.parse_args()
    chosen = [c for c in load(options.data) if not options.conversations or c.id in options.conversations.split(",")]
    for corpus in chosen:
        found = asyncio.run(on(corpus, options.questions, options.doors.split(",")))
        print(json.dumps({"corpus": corpus.id, **found}), flush=True)


if __name__ == "__main__":
    main()
