"""Keeps a synthesis of what was recalled for a session's last question, for its next one (seed 002).

A synthesis is made in the background after a prompt got its block. The session's next question gets it above its own
facts if it is soon enough (`[memory_cortex] synthesis_ttl_s`) and about the same; otherwise the synthesis is dropped.
It is used once. The seed uses it for any next question; here the two questions are compared.
"""

from __future__ import annotations

import asyncio
import logging
import re
import time
from collections import OrderedDict
from collections.abc import Awaitable, Callable, Mapping, Sequence
from dataclasses import dataclass, replace

from fusion.contract import Embedder, text_scale
from fusion.errors import FusionError
from fusion.journal.sessions import SessionKey
from fusion.lib.budget import estimate_tokens
from fusion.lib.junk import content_words, junk_of
from fusion.lib.listing import FACTS, SUMMARY
from fusion.lib.prompt_words import FUNCTION
from fusion.lib.words import STOP_WORDS, accentless, find_words, normalise
from fusion.recall.engine import FuseRequest
from fusion.recipe import PackSettings

log = logging.getLogger(__name__)

KEPT_S = 300.0
"""usual maximum age of a synthesis in seconds (seed 002)"""
MIN_PROMPT_CHARS = 10
"""fewest characters of a prompt for which a synthesis is made (seed 002)"""
MAX_SESSIONS = 64
MAX_MAKING = 4
"""maximum syntheses that are made at the same time"""
MIN_COSINE = 0.3
"""least cosine of two questions about the same, on the scale of all-MiniLM-L6-v2. Of 30 changes of topic the highest
cosine is .23; of the follow-up questions with a subject of their own, two are below .3."""
MIN_SHARED = 1
"""fewest common content words of two questions about the same, without an embedder"""

_GOES_ON = frozenset("and but also then und aber auch dann et mais aussi y pero tambien e ma anche".split())
"""first words of a question that continues the one before"""
_POINTS = re.compile(
    r"\b(?:it|its|that|this|these|those|they|them|their|he|him|his|she|her|there|then|es|das|dies|sie|er|ihn|ihm|ça|cela"
    r"|il|elle|eso|esto|ello|quello|questo)\b",
    re.IGNORECASE,
)
_OWN_SUBJECT = 3
"""fewest content words of a question that has a pronoun and still a subject of its own"""


@dataclass(frozen=True, slots=True)
class Cited:
    """A sentence of a synthesis; ``texts`` has, by ref, the hashes of the memories that it was made from."""

    text: str
    texts: Mapping[str, str]


Lines = Sequence[Cited]


@dataclass(frozen=True, slots=True)
class _Kept:
    query: str
    lines: Lines
    at: float
    turn: int


class NextSyntheses:
    """The synthesis that waits for the next question of each session, for ``kept_s``. ``clock`` is in seconds."""

    def __init__(self, clock: Callable[[], float] = time.monotonic, kept_s: float = KEPT_S) -> None:
        self.clock = clock
        self._kept_s = kept_s
        self._kept: OrderedDict[SessionKey, _Kept] = OrderedDict()
        self._making: dict[SessionKey, asyncio.Task[None]] = {}

    def start(self, key: SessionKey, query: str, make: Callable[[], Awaitable[Lines]], turn: int = 0) -> None:
        """Make the synthesis for a session's next turn, after ``turn``, in the background; returns at once."""
        self._drop(key)
        if len(query.strip()) < MIN_PROMPT_CHARS or len(self._making) >= MAX_MAKING:
            return
        self._making[key] = asyncio.create_task(self._make(key, query, make, turn))

    async def _make(self, key: SessionKey, query: str, make: Callable[[], Awaitable[Lines]], turn: int) -> None:
        try:
            lines = await make()
            if lines:
                self._kept[key] = _Kept(query, lines, self.clock(), turn)
                self._kept.move_to_end(key)
                while len(self._kept) > MAX_SESSIONS:
                    self._kept.popitem(last=False)
        except (FusionError, TimeoutError) as error:
            log.info("no synthesis for the next turn of a session: %s", type(error).__name__)
        finally:
            if self._making.get(key) is asyncio.current_task():
                del self._making[key]

    def _drop(self, key: SessionKey) -> None:
        self._kept.pop(key, None)
        if (making := self._making.pop(key, None)) is not None:
            making.cancel()

    async def take(self, key: SessionKey, query: str, embedder: Embedder | None, turn: int = 0) -> Lines:
        """The synthesis for a session's question; () if there is none, it is too old, or about something else.

        Nor is one used that was not made after ``turn``, because another gateway answered a question since. Does not
        wait for a synthesis that is still being made.
        """
        kept = self._kept.pop(key, None)
        if kept is None or kept.turn != turn or self.clock() - kept.at > self._kept_s:
            return ()
        return kept.lines if await about_the_same(kept.query, query, embedder) else ()

    def waiting(self, key: SessionKey) -> tuple[str, Lines, float] | None:
        """The question, the lines and the age in seconds of what waits for a session's next question."""
        kept = self._kept.get(key)
        if kept is None or (age_s := self.clock() - kept.at) > self._kept_s:
            return None
        return kept.query, kept.lines, age_s

    async def settle(self) -> None:
        """Return once no synthesis is being made."""
        if self._making:
            await asyncio.wait(set(self._making.values()))

    async def close(self) -> None:
        making = [*self._making.values()]
        for task in making:
            task.cancel()
        await asyncio.gather(*making, return_exceptions=True)


async def about_the_same(one: str, other: str, embedder: Embedder | None) -> bool:
    """Whether the second question continues the first: by its words, else by the cosine of the two.

    In another language than English they have a word in common, too: models that know English best find any two
    questions in it alike.
    """
    if _goes_on(other):
        return True
    mine, theirs = content_words(one), content_words(other)
    if not mine & theirs and _is_foreign(f"{one} {other}"):
        return False
    if embedder is None:
        return len(mine & theirs) >= MIN_SHARED
    try:
        # One text per call: for several texts the embedder first reads its cache on disk, which has no questions.
        vectors = [(await embedder.embed([text], keep=False))[0] for text in (one, other)]
    except (FusionError, OSError, RuntimeError) as error:
        log.warning("two questions could not be compared: %s", type(error).__name__)
        return len(mine & theirs) >= MIN_SHARED
    return text_scale(embedder).of(float(vectors[0] @ vectors[1])) >= MIN_COSINE


def _is_foreign(questions: str) -> bool:
    """Whether questions have more function words of other languages than of English."""
    words = [accentless(word) for word in find_words(normalise(questions))]
    english = sum(word in STOP_WORDS for word in words)
    return sum(word in FUNCTION for word in words if word not in STOP_WORDS) > english


def within_budget(items: Sequence[str], asked: FuseRequest, pack: PackSettings) -> tuple[Sequence[str], FuseRequest]:
    """The first items that fit into a third of a question's budget, and the question with the remaining budget."""
    tokens, chars = asked.budget_tokens or 0, asked.budget_chars or 0
    if not tokens and not chars:
        tokens, chars = pack.budget_tokens, pack.budget_chars
    kept: list[str] = []
    while len(kept) < len(items):
        size = _size([*kept, items[len(kept)]])
        if (tokens and 3 * size[0] > tokens) or (chars and 3 * size[1] > chars):
            break
        kept.append(items[len(kept)])
    if not kept:
        return (), asked
    used_tokens, used_chars = _size(kept)
    return kept, replace(
        asked,
        budget_tokens=tokens - used_tokens if tokens else None,
        budget_chars=chars - used_chars if chars else None,
    )


def _size(items: Sequence[str]) -> tuple[int, int]:
    """The tokens and characters that these items add to a block, with the lines around them."""
    added = "\n".join([SUMMARY, *items, "", FACTS, ""])
    return estimate_tokens(added), len(added)


def _goes_on(question: str) -> bool:
    """Whether a question has no subject of its own: "and why?", "what time does it leave?" Thanks ask for nothing."""
    if junk_of(question) == "greeting":
        return False
    words = find_words(normalise(question))
    content = content_words(question)
    if not words or not content:
        return True
    return len(content) < _OWN_SUBJECT and (words[0] in _GOES_ON or _POINTS.search(question) is not None)
