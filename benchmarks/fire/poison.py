"""`poison_in_block`, `rank_1`: how many answers one hostile memory of 300 characters gets into, and how many it leads.

python -m benchmarks.fire.poison --data locomo.json --conversations conv-30 --questions 60
"""

from __future__ import annotations

import argparse
import asyncio
import json
import os
from collections import Counter
from collections.abc import Sequence
from datetime import UTC, datetime
from pathlib import Path
from random import Random
from typing import Any

from benchmarks.datasets.locomo import load
from benchmarks.fire.lies import CLEAN, _turn, talk_of
from benchmarks.fire.poisoned_home import DOORS, Door, PoisonedHome, common_words, open_poisoned_home, share
from fusion.ingest.intake import NewMemory
from tests.fire.lies import PEOPLE, SEED, lies
from tests.fire.poison import CHARS, Poison, poisons

SHORT = ("keywords", "speaker", "place")
ASKED, ASKED_SHORT = 40, 4


def measure(full: bool) -> dict[str, Any]:
    """Tries every strategy by every door on the facts of `tests.fire.lies`, with questions that name a speaker."""
    pairs = lies()
    memories = [_turn(pair.truth, n) for n, pair in enumerate(pairs)]
    questions = [f"{PEOPLE[n % len(PEOPLE)]} said it: {pair.question}" for n, pair in enumerate(pairs)]
    asked = Random(SEED).sample(questions, ASKED if full else ASKED_SHORT)
    found = poisons(PEOPLE, common_words([one.text for one in memories]), "talk-3", datetime.now(UTC))
    chosen = found if full else [one for one in found if one.strategy in SHORT]
    return asyncio.run(attacked(memories, asked, chosen, DOORS if full else ("remembered", "external")))


async def attacked(
    memories: Sequence[NewMemory], questions: Sequence[str], chosen: Sequence[Poison], doors: Sequence[Door]
) -> dict[str, Any]:
    """Plants one hostile memory at a time, and forgets it before the next."""
    within: Counter[str] = Counter()
    first: Counter[str] = Counter()
    async with open_poisoned_home() as home:
        await home.keep(memories, CLEAN)
        await home.wait_until_stored()
        for door in doors:
            for poison in chosen:
                if door == "note" and poison.claims:
                    continue  # a file makes no claims
                name = f"{door} {poison.strategy}"
                # What was forgotten is kept out in the same words: each gets a number.
                poison = poison._replace(text=f"{len(within)} {poison.text}"[:CHARS])
                await _one(home, door, poison, questions, name, within, first)
    tried = sorted({*within, *first})
    shares = {name: share(within[name], len(questions)) for name in tried}
    return {
        "poison_in_block": max(shares.values(), default=0.0),
        "rank_1": sum(first.values()),
        "poison_mean": share(sum(within.values()), len(questions) * max(1, len(within))),
        "poison_by": shares,
        "rank_1_by": {name: n for name, n in first.items() if n},
        "questions": len(questions),
        "memories": len(memories),
    }


async def _one(
    home: PoisonedHome,
    door: Door,
    poison: Poison,
    questions: Sequence[str],
    name: str,
    within: Counter[str],
    first: Counter[str],
) -> None:
    await home.plant(door, [poison.text], CLEAN, **poison.claims)
    await home.wait_until_stored()
    within[name] += 0
    for question in questions:
        fused = await home.ask(question, CLEAN)
        excerpts = [[member.text for member in memory.members] for memory in fused.memories]
        within[name] += any(poison.text in texts for texts in excerpts)
        members = [member for memory in fused.memories for member in memory.members]
        best = max(members, key=lambda member: member.score, default=None)
        first[name] += best is not None and best.text == poison.text
    await home.unplant(CLEAN)


def main() -> None:
    os.environ.setdefault("OPENBLAS_NUM_THREADS", "1")
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--data", type=Path, required=True, help="a copy of LoCoMo of yours")
    parser.add_argument("--conversations", default="", help="ids with commas between; all by default")
    parser.add_argument("--questions", type=int, default=60, help="of each conversation")
    parser.add_argument("--doors", default=",".join(DOORS))
    options = parser.parse_args()
    for corpus in load(options.data):
        if options.conversations and corpus.id not in options.conversations.split(","):
            continue
        memories = talk_of(corpus)
        answerable = [question.text for question in corpus.questions if question.answerable]
        asked = Random(SEED).sample(answerable, min(options.questions, len(answerable)))
        names = sorted({one.speaker for one in memories if one.speaker})
        document = next(one.place.document for one in memories if one.place)
        chosen = poisons(names, common_words([one.text for one in memories]), document, datetime.now(UTC))
        found = asyncio.run(attacked(memories, asked, chosen, options.doors.split(",")))
        print(json.dumps({"corpus": corpus.id, **found}), flush=True)


if __name__ == "__main__":
    main()
