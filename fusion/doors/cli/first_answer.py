"""The first answer of `fusion init`: asks a few questions about what was found and keeps the best answer."""

from __future__ import annotations

import asyncio
import time
from collections.abc import Callable, Sequence
from contextlib import AbstractAsyncContextManager
from typing import TYPE_CHECKING

from fusion.discover import Find, Topic, topics
from fusion.lib.front_matter import read as read_front_matter
from fusion.lib.words import STOP_WORDS, word_list

if TYPE_CHECKING:
    from fusion import wire
    from fusion.client import AsyncClient

QUESTIONS = 6
"""maximum number of questions that are asked; the one with the best answer is shown"""
ASKING_S = 5.0
"""seconds after which no further question is asked"""
BARE = 0.75
"""weight of the answer to a question of one word, or without a topic; that of others is 1"""
FIELDS_FIRST = 0.7
"""weight of an answer whose first excerpt opens with front matter; that of prose is 1"""
LEAST_WORDS, MANY_WORDS = 3, 60
"""different words that an answer adds to its question: fewer make no answer, more count as this many"""
BUDGET, RESULTS = 1200, 3
"""characters and excerpts of the answer: it fits one screen"""
DECIDED = "what was decided?"

Gateway = Callable[[], AbstractAsyncContextManager["AsyncClient"]]
"""makes a client of the home's server"""


async def first_answer(
    chosen: Sequence[Find], gateway: Gateway, clock: Callable[[], float] = time.monotonic
) -> tuple[str | None, wire.FuseReply | None]:
    """The question about what was found that its block answers best, with the answer.

    None where no answer says more than its question.
    """
    until = clock() + ASKING_S
    best: tuple[float, str, wire.FuseReply] | None = None
    async with gateway() as client:
        for question in questions(await asyncio.to_thread(topics, chosen)):
            answer = await client.fuse(question, budget_chars=BUDGET, max_results=RESULTS, explain=True, all_users=True)
            worth = quality(question, answer)
            if worth > (best[0] if best else 0.0):
                best = worth, question, answer
            if clock() > until:
                break
    return (None, None) if best is None else best[1:]


def questions(found: Sequence[Topic]) -> list[str]:
    """Questions about the topics that say most.

    One asks what was decided, where a topic has a decision or there is no topic at all.
    """
    asked = [topic.question for topic in found[: QUESTIONS - 1]]
    return [*asked, DECIDED] if not asked or any(topic.decided for topic in found) else asked


def quality(question: str, answer: wire.FuseReply) -> float:
    """How well a block shows a newcomer an answer: it is sure, says much that the question does not, from several
    sources, with a date, and opens with prose. 0 for a block that only repeats the question.
    """
    members = [member for memory in answer["memories"] for member in memory["members"]]
    texts = [read_front_matter(member["text"]) for member in members]
    words = word_list("\n".join(line for _, body in texts for line in body))
    more = len(set(words) - set(word_list(question)) - STOP_WORDS)
    if not answer["block"] or more < LEAST_WORDS:
        return 0.0
    sources = {member["place"]["document"] if member["place"] else member["ref"] for member in members}
    dated = any(member["at"] for member in members)
    worth = members[0]["score"] + min(more, MANY_WORDS) / MANY_WORDS + 0.2 * min(len(sources), 3) + 0.1 * dated
    bare = question == DECIDED or (question.isascii() and " " not in question)
    fields, _ = texts[0]
    return worth * (BARE if bare else 1.0) * (FIELDS_FIRST if fields else 1.0)
