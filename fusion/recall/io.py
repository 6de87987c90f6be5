"""The live input of a request (`fusion.recall.engine.RecallIO`): backends, journal, model and judge."""

from __future__ import annotations

import asyncio
import logging
import secrets
from collections.abc import Awaitable, Callable, Collection, Mapping, Sequence
from dataclasses import dataclass, replace
from datetime import datetime
from functools import cached_property
from operator import is_
from typing import TYPE_CHECKING, Protocol

from fusion.contract import (
    Embedder,
    EncodesLater,
    FindsNeighbours,
    HasVocabulary,
    Hit,
    Judge,
    KnowsVectors,
    LooksUp,
    Passage,
    Query,
    ReadsInContext,
    Scope,
    TimeRange,
    TokenVectors,
    Verdict,
    Where,
    text_scale,
    token_scale,
)
from fusion.errors import FusionError
from fusion.lib import trace
from fusion.lib.bm25 import Frequencies
from fusion.lib.clock import Clock, utc_now
from fusion.lib.pasted import prompt_parts
from fusion.lib.seldom import Seldom
from fusion.recall.filter import JOURNAL, Record
from fusion.recall.gather import Answer, Answered, GuardedBackend, gather, unable
from fusion.recall.maxsim import best_matches, match_unknown_words
from fusion.recall.near_duplicates import Texts
from fusion.recall.query_dates import Dates
from fusion.recall.sanitise import sanitised
from fusion.recall.signals import Likeness
from fusion.recall.standing import Use
from fusion.recall.synonyms import reworded

if TYPE_CHECKING:
    import numpy as np
    from numpy.typing import NDArray

log = logging.getLogger(__name__)
log.addFilter(Seldom())  # a model that is missing fails with each question

INLINE_TOKEN_PAIRS = 400_000
"""pairs of tokens up to which matching runs on the event loop, about a millisecond; a thread would add a fifth"""


async def _no_uses(event_ids: Sequence[str]) -> Mapping[str, Use]:
    return {}


MAX_HAPPENED = 50
"""memories of the times that a query names that join the pool, besides those that backends find"""
MAX_OF_TIME = 200
"""the same for a query that asks for nothing but a time: a month of daily notes"""


MAX_FITTING = 200
"""memories that fit a question's filter that join the pool, besides those that backends find"""


class Happened(Protocol):
    """`fusion.journal.Journal.happened`."""

    async def __call__(
        self,
        scope: Scope,
        times: Sequence[TimeRange],
        limit: int,
        *,
        zone: str | None,
        history: bool,
        every: bool,
    ) -> Sequence[Record]: ...


class Fitting(Protocol):
    """`fusion.journal.Journal.fitting`."""

    async def __call__(self, scope: Scope, where: Where, limit: int, *, history: bool) -> Sequence[Record]: ...


@dataclass(frozen=True, slots=True)
class JournalReads:
    """The journal's read functions that the read path needs; it may not import the journal itself."""

    records: Callable[[Sequence[str]], Awaitable[Mapping[str, Record]]]
    neighbours: Callable[[Sequence[str], int], Awaitable[Mapping[str, Sequence[Record]]]]
    """by event id, the records up to so many positions before and after it in its document, in order"""
    frequencies: Callable[[Scope, Sequence[str]], Awaitable[Frequencies]]
    without_forgotten: Callable[[str, Sequence[Hit]], Sequence[Hit]]
    """a backend's hits without external ones that have forgotten text"""
    uses: Callable[[Sequence[str]], Awaitable[Mapping[str, Use]]] = _no_uses
    """by event id, how often a memory was in a block, for those that were"""
    happened: Happened | None = None
    """the records of what happened in some periods; None where a test has none"""
    fitting: Fitting | None = None
    """the records that fit a filter; None where a test has none"""


@dataclass(frozen=True)
class Live:
    """Live input: searches the backends, reads the journal, runs the model and asks the judge."""

    guarded: Mapping[str, GuardedBackend]
    journal: JournalReads
    embedder: Embedder | None = None
    judge: Judge | None = None
    judge_timeout_s: float = 2.5
    lexical: bool = False
    """whether the configuration has no model, which is then no degradation"""
    clock: Clock = utc_now
    second: ReadsInContext | None = None
    """the second encoder, for recipes that ask for it"""
    answered: Answered | None = None
    """is called with each backend's answer as soon as it is there; None if nobody watches"""

    @cached_property
    def expanders(self) -> Mapping[str, FindsNeighbours]:
        """The backends that find neighbours of their hits; cached, because the check is slow."""
        return {name: s.backend for name, s in self.guarded.items() if isinstance(s.backend, FindsNeighbours)}

    def now(self) -> datetime:
        return self.clock()

    def nonce(self) -> str:
        return secrets.token_hex(6)

    def receipt_id(self) -> str:
        return "r" + secrets.token_hex(12)

    def asked(self, names: Sequence[str] | None) -> Collection[str]:
        chosen = self.guarded if names is None else names
        return [name for name in chosen if self.guarded[name].is_asked]

    async def answers(self, query: Query, names: Sequence[str] | None, deadline_s: float) -> Sequence[Answer]:
        chosen = self.guarded if names is None else {name: self.guarded[name] for name in names}
        asked = replace(query, deadline_s=deadline_s)
        if (answered := self.answered) is None:
            answers = await gather(asked, list(chosen.values()), deadline_s)
        else:
            shown = answered
            answers = await gather(
                asked, list(chosen.values()), deadline_s, lambda answer: shown(self.without_hidden(answer))
            )
        return [self.without_hidden(answer) for answer in answers]

    async def fitting(self, query: Query, names: Sequence[str] | None = None) -> Sequence[Answer]:
        """What fits a query's filter: of the backends that can look it up, and of the journal under its own name.

        A backend that fails has no part in the answer.
        """
        found: list[Answer] = []
        for name, guarded in self.guarded.items():
            backend = guarded.backend
            if (names is not None and name not in names) or guarded.disabled is not None or guarded.broken:
                continue
            if not isinstance(backend, LooksUp) or unable(query, backend.features):
                continue
            try:
                async with asyncio.timeout(query.deadline_s):
                    hits, dropped = sanitised(await backend.fitting(query), query.limit, guarded.validated)
            except (FusionError, OSError, TimeoutError) as error:
                log.warning("backend %s could not look up what fits a filter: %s", name, type(error).__name__)
                continue
            found.append(self.without_hidden(Answer(name, "ok" if hits else "empty", hits, dropped=dropped)))
        if self.journal.fitting is not None:
            history = query.as_of is not None or query.known_at is not None
            records = await self.journal.fitting(query.scope, query.where, query.limit, history=history)
            found.append(Answer(JOURNAL, "ok" if records else "empty", tuple(record.hit for record in records)))
        return found

    def without_hidden(self, answer: Answer) -> Answer:
        """An answer without what was forgotten of it."""
        hits = tuple(self.journal.without_forgotten(answer.backend, answer.hits))
        if len(hits) == len(answer.hits):
            # The number is the same, but the text of one may be cut.
            return answer if all(map(is_, hits, answer.hits)) else replace(answer, hits=hits)
        return replace(answer, hits=hits, dropped={**answer.dropped, "forgotten": len(answer.hits) - len(hits)})

    async def records(self, event_ids: Sequence[str]) -> Mapping[str, Record]:
        return await self.journal.records(event_ids)

    async def uses(self, event_ids: Sequence[str]) -> Mapping[str, Use]:
        return await self.journal.uses(event_ids)

    async def happened(self, query: Query, named: Dates) -> Sequence[Hit]:
        """From the journal: episodes, daily notes, every memory of that time if the query names nothing else; and what
        fits its filter."""
        history = query.as_of is not None or query.known_at is not None
        records: list[Record] = []
        if named.windows and self.journal.happened is not None:
            records += await self.journal.happened(
                query.scope,
                named.times,
                MAX_OF_TIME if named.nothing_else else MAX_HAPPENED,
                zone=query.zone,
                history=history,
                every=named.nothing_else,
            )
        if query.where and self.journal.fitting is not None:
            records += await self.journal.fitting(query.scope, query.where, MAX_FITTING, history=history)
        return [record.hit for record in records]

    async def frequencies(self, scope: Scope, terms: Sequence[str]) -> Frequencies:
        return await self.journal.frequencies(scope, terms)

    async def neighbours(
        self, finds: Sequence[tuple[str, str, Hit]], span: int, deadline_s: float
    ) -> Mapping[str, Sequence[Hit]]:
        """From the journal for its events, from the backend for external hits.

        The neighbours of a fact are the events that it was derived from.
        """
        events = {hit.event_id: ref for ref, _, hit in finds if hit.event_id}
        in_journal = await self.journal.neighbours(list(events), span) if events else {}
        found: dict[str, Sequence[Hit]] = {
            events[event_id]: [record.hit for record in records] for event_id, records in in_journal.items()
        }
        derived = {ref: hit.derived_from for ref, _, hit in finds if hit.derived_from and ref not in found}
        if derived:
            sources = await self.journal.records([i for ids in derived.values() for i in ids])
            found.update({ref: [sources[i].hit for i in ids if i in sources] for ref, ids in derived.items()})
        if not self.expanders:
            return found
        external: dict[str, list[tuple[str, Hit]]] = {}
        for ref, backend, hit in finds:
            if backend in self.expanders and ref not in found and hit.place is not None:
                external.setdefault(backend, []).append((ref, hit))
        answers = await asyncio.gather(*(self._neighbours(n, f, span, deadline_s) for n, f in external.items()))
        for answer in answers:
            found.update(answer)
        return found

    async def _neighbours(
        self, name: str, finds: Sequence[tuple[str, Hit]], span: int, deadline_s: float
    ) -> dict[str, Sequence[Hit]]:
        """The neighbours of a backend's hits; none if it fails, which costs only the neighbours."""
        try:
            async with asyncio.timeout(deadline_s):
                neighbours = await self.expanders[name].neighbours([hit for _, hit in finds], span)
        except (FusionError, OSError, TimeoutError) as error:
            log.warning("backend %s gave no neighbours of its hits: %s", name, type(error).__name__)
            return {}
        return {
            ref: self.journal.without_forgotten(name, hits) for (ref, _), hits in zip(finds, neighbours, strict=True)
        }

    async def cosines(self, query: str, texts: Sequence[str]) -> Mapping[str, float]:
        if self.embedder is None:
            return {}
        try:
            return await self._cosines(self.embedder, query, texts)
        except (FusionError, OSError, RuntimeError) as error:
            log.warning("the embedding model failed; passages are chosen by words: %s", type(error).__name__)
            return {}

    async def likeness(
        self, query: str, texts: Sequence[str], contexts: Mapping[str, str] | None = None
    ) -> Likeness | None:
        if contexts is not None and self.second is not None:
            try:
                return await self._second_likeness(self.second, query, texts, contexts)
            except (FusionError, OSError, RuntimeError) as error:
                log.warning("the second encoder failed; the first one ranks: %s", type(error).__name__)
        if self.embedder is None:
            return None if self.lexical else Likeness()
        try:
            asked = await self.embedder.query_tokens(query)
            tokens = await self.embedder.tokens(texts, 0.0)
            seen = {text: t for text, t in zip(texts, tokens, strict=True) if t is not None}
            # One pass of the model gives both, so a text with token vectors has its dense vector cached as well.
            dense = await self._cosines(self.embedder, query, list(seen))
        except (FusionError, OSError, RuntimeError) as error:
            log.warning("the embedding model failed; ranking continues without it: %s", type(error).__name__)
            return Likeness()
        pending = frozenset(texts) - seen.keys()
        self._encode_later([text for text in texts if text in pending])
        matches = token_scale(self.embedder).of_all(await _matches(asked, list(seen.values())))
        if match_unknown_words(asked, list(seen), matches):
            # The model's vector of such a question says nothing.
            dense = dict(zip(seen, matches.mean(axis=1).tolist(), strict=True))
        matched = dict(zip(seen, matches, strict=True))
        return Likeness(asked.words, matched, dense, pending, model=self.embedder.identity)

    async def _second_likeness(
        self, second: ReadsInContext, query: str, texts: Sequence[str], contexts: Mapping[str, str]
    ) -> Likeness:
        """As `likeness`, on the scale of the first encoder; a turn that was not read in its context is taken alone."""
        asked = await second.query_tokens(query)
        read = {text: contexts.get(text, text) for text in texts}
        seen = await _tokens(second, list(read.values()))
        alone = [text for text, key in read.items() if key not in seen]
        seen |= await _tokens(second, alone)
        used = {text: key for text, key in read.items() if key in seen} | {t: t for t in alone if t in seen}
        cosines = await self._cosines(second, query, list(used.values()))
        absent = [key for text in alone for key in (text, read[text]) if key not in seen]
        if absent:
            second.encode_later(absent)
        matches = token_scale(second).of_all(await _matches(asked, [seen[key] for key in used.values()])).clip(0.0)
        dense = {text: cosines[key] for text, key in used.items() if key in cosines}
        if match_unknown_words(asked, list(used), matches):
            dense = dict(zip(used, matches.mean(axis=1).tolist(), strict=True))
        matched = dict(zip(used, matches, strict=True))
        pending = frozenset(texts) - used.keys()
        first = self.embedder.identity if self.embedder is not None else ""
        return Likeness(asked.words, matched, dense, pending, model=first, second=second.identity)

    async def reworded(self, pairs: Sequence[Texts]) -> Collection[Texts]:
        if self.embedder is None:
            return ()
        texts = list(dict.fromkeys(text for pair in pairs for text in pair))
        try:
            tokens = await self.embedder.tokens(texts, 0.0)
        except (FusionError, OSError, RuntimeError) as error:
            log.warning("the embedding model failed; paraphrases stay separate memories: %s", type(error).__name__)
            return ()
        self._encode_later([text for text, one in zip(texts, tokens, strict=True) if one is None])
        knows = self.embedder.knows if isinstance(self.embedder, HasVocabulary) else None
        return reworded(pairs, dict(zip(texts, tokens, strict=True)), knows, token_scale(self.embedder))

    @staticmethod
    async def _cosines(embedder: Embedder, query: str, texts: Sequence[str]) -> Mapping[str, float]:
        """The cosine of the query with each text that has a vector already, on the scale of the default model.

        Of what was typed and what was pasted, the nearer counts.
        """
        parts = [part for part in prompt_parts(query) if part] or [query]
        questions = [(await embedder.embed([part], keep=False))[0] for part in parts]
        known = await embedder.known(texts) if isinstance(embedder, KnowsVectors) else {}
        if not known:
            return {}
        import numpy as np

        rows = np.concatenate(list(known.values())).reshape(len(known), -1)
        found = text_scale(embedder).of_all(np.max([rows @ question for question in questions], axis=0))
        return dict(zip(known, found.tolist(), strict=True))

    def _encode_later(self, texts: Sequence[str]) -> None:
        """Encode these texts after the answer, for the next question."""
        if texts and isinstance(self.embedder, EncodesLater):
            self.embedder.encode_later(texts)

    @property
    def has_judge(self) -> bool:
        return self.judge is not None

    async def verdict(self, query: str, passages: Sequence[Passage], deadline_s: float) -> Verdict:
        if self.judge is None:
            return Verdict("disabled", fault="no judge is configured")
        name = self.judge.name
        with trace.span(f"judge {name}", "client", {"gen_ai.request.model": name}) as span:
            verdict = await self.judge.judge(query, passages, min(deadline_s, self.judge_timeout_s))
            span.set_attribute("fusion.status", verdict.status)
            span.set_attribute("gen_ai.usage.input_tokens", verdict.input_tokens)
            span.set_attribute("gen_ai.usage.output_tokens", verdict.output_tokens)
            return verdict


async def _matches(asked: TokenVectors, texts: Sequence[TokenVectors]) -> NDArray[np.float32]:
    """`best_matches`, in a thread if there are many."""
    few = len(asked.vectors) * sum(len(one.vectors) for one in texts) <= INLINE_TOKEN_PAIRS
    return best_matches(asked, texts) if few else await asyncio.to_thread(best_matches, asked, texts)


async def _tokens(encoder: Embedder, texts: Sequence[str]) -> dict[str, TokenVectors]:
    """The token vectors of the texts that have some."""
    found = await encoder.tokens(texts, 0.0)
    return {text: one for text, one in zip(texts, found, strict=True) if one is not None}
