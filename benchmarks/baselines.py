"""Baselines over the same memories and vectors, packed into the same fence.

| name       | what it is |
|------------|------------|
| bm25       | rank-bm25's Okapi over stems |
| dense      | cosine of the same MiniLM vectors |
| rrf        | reciprocal rank fusion of both, k 60 |
| handset    | the hand-set linear prototype: IDF-weighted MaxSim + BM25 + cosine, and the named speaker; as excerpts |
| mem0       | the mem0 library alone, without a language model |
| mnemostack | the mnemostack library alone, without a graph and a language model; passages of one turn or of three |

All but the prototype answer with at most eight single memories.
"""

from __future__ import annotations

import asyncio
from collections import Counter
from collections.abc import Callable, Mapping, Sequence
from dataclasses import replace
from typing import TYPE_CHECKING, Any

from benchmarks import memory_libraries
from benchmarks.datasets import Corpus, Item, Question
from benchmarks.memory_libraries import Ranking
from benchmarks.progress import Advance
from benchmarks.scored_rows import Row, Scorer
from fusion.contract import Embedder, Hit, Moment, Place
from fusion.lib.bm25 import Frequencies
from fusion.lib.rank_fusion import rank_fusion, ranked
from fusion.lib.words import normalise, stems
from fusion.recall.dedup import Candidate
from fusion.recall.expand import Pooled
from fusion.recall.maxsim import best_matches, token_weights
from fusion.recall.pack import Excerpt, pack
from fusion.recall.rerank import Scored
from fusion.recall.signals import SignalTable
from fusion.recipe import PackSettings, RerankSettings

if TYPE_CHECKING:
    import numpy as np
    from numpy.typing import NDArray

    Scores = NDArray[np.float64]

LIBRARIES = frozenset({"mem0", "mnemostack"})
"""libraries with stores of their own"""
EXCERPTS = frozenset({"handset"})
DEPTH = 200
"""places of a ranking that are kept: more than any block holds"""
SPEAKER = 0.3
"""added to the sum of the three if the question names the speaker"""
NONCE = "0" * 12


def steps(names: Sequence[str], memories: int, questions: int) -> int:
    """The number of progress steps of `rankings`: the libraries store each memory, too."""
    return len(LIBRARIES.intersection(names)) * (memories + questions) + bool(set(names) - LIBRARIES) * questions


async def rankings(
    names: Sequence[str],
    corpus: Corpus,
    questions: Sequence[Question],
    embedder: Embedder,
    advance: Advance = lambda steps: None,
) -> dict[str, dict[int, Ranking]]:
    """Every baseline's answer to every question, by name and question. Advances by one as `steps` counts."""
    found: dict[str, dict[int, Ranking]] = {name: {} for name in names}
    scored = [name for name in names if name not in LIBRARIES]
    if scored:
        scorers = await _Scores.of(corpus, embedder, late=bool(EXCERPTS & set(scored)))
        for question in questions:
            scores = await scorers.of_question(question.text, scored)
            for name in scored:
                found[name][question.index] = best(corpus.memories, scores[name])
            advance(1)
    if "mem0" in names:
        found["mem0"] = await memory_libraries.mem0(corpus, questions, embedder, DEPTH, advance)
    if "mnemostack" in names:
        found["mnemostack"] = await memory_libraries.mnemostack(corpus, questions, embedder, advance)
    return found


def best(items: Sequence[Item], scores: Scores) -> Ranking:
    """The first `DEPTH` by score; ties in the order of the corpus."""
    import numpy as np

    return [(items[i].id, float(scores[i])) for i in np.argsort(-scores, kind="stable")[:DEPTH]]


def rrf(*scores: Scores) -> Scores:
    """The reciprocal rank fusion of several scores of the same items."""
    import numpy as np

    order = [np.argsort(-column, kind="stable").tolist() for column in scores]
    total = np.zeros(len(scores[0]))
    for place, score in rank_fusion(map(ranked, order)).items():
        total[place] = score
    return total


def min_max_scaled(scores: Scores) -> Scores:
    """Scores scaled to 0 … 1; all 0 where they are equal."""
    low, high = float(scores.min()), float(scores.max())
    return (scores - low) / (high - low) if high > low else scores * 0.0


class _Scores:
    """One corpus, ready to be scored against any question."""

    def __init__(self, corpus: Corpus, embedder: Embedder, vectors: Any, tokens: Sequence[Any]) -> None:
        from rank_bm25 import BM25Okapi

        self._embedder, self._vectors, self._tokens = embedder, vectors, tokens
        self._items = corpus.memories
        stemmed = [stems(item.spoken) for item in corpus.memories]
        self._bm25 = BM25Okapi([terms or [""] for terms in stemmed])
        counts = Counter(term for terms in stemmed for term in set(terms))
        self._frequencies = Frequencies(len(stemmed), sum(map(len, stemmed)) / len(stemmed), counts)

    @classmethod
    async def of(cls, corpus: Corpus, embedder: Embedder, *, late: bool) -> _Scores:
        said = [item.spoken for item in corpus.memories]
        tokens = await embedder.tokens(said, 3600.0) if late else ()
        return cls(corpus, embedder, await embedder.embed(said), tokens)

    async def of_question(self, text: str, names: Sequence[str]) -> dict[str, Scores]:
        import numpy as np

        bm25 = np.asarray(self._bm25.get_scores(stems(text)), dtype=np.float64)
        dense = np.asarray(self._vectors @ (await self._embedder.embed([text], keep=False))[0], dtype=np.float64)
        scores = {"bm25": bm25, "dense": dense}
        if "rrf" in names:
            scores["rrf"] = rrf(bm25, dense)
        if "handset" in names:
            maxsim = await self._maxsim(text)
            parts = (maxsim, bm25, dense)
            scores["handset"] = sum((min_max_scaled(part) for part in parts), self._speaker(text) * SPEAKER)
        return scores

    async def _maxsim(self, text: str) -> Scores:
        import numpy as np

        asked = await self._embedder.query_tokens(text)
        weights = np.array(token_weights(asked.words, self._frequencies))
        tokens = [one for one in self._tokens if one is not None]
        matches = await asyncio.to_thread(best_matches, asked, tokens)
        return np.asarray(matches @ (weights / weights.sum()), dtype=np.float64)

    def _speaker(self, text: str) -> Scores:
        import numpy as np

        asked = set(normalise(text).replace("'", " ").replace("?", " ").split())
        return np.array([float(bool(i.speaker) and normalise(i.speaker or "") in asked) for i in self._items])


def rows(
    dataset: str,
    corpus: Corpus,
    found: Mapping[str, Mapping[int, Ranking]],
    budgets: Sequence[int],
    advance: Callable[[int], None] = lambda steps: None,
) -> list[Row]:
    """A row for each baseline, question and budget, packed by the gateway's own packer. No latency: none was taken."""
    items = {item.id: item for item in corpus.memories}
    refs = {item.id: f"b{i:010d}" for i, item in enumerate(corpus.memories)}
    scorer = Scorer(dataset, corpus, {refs[item.id]: item for item in corpus.memories})
    questions = {question.index: question for question in corpus.questions}
    made: list[Row] = []
    for name, by_question in found.items():
        for index, ranking in by_question.items():
            passages = [passage if passage in items else passage.split("\n") for passage, _ in ranking]
            parts = {
                f"p{i:010d}": [passage] if isinstance(passage, str) else passage for i, passage in enumerate(passages)
            }
            order = [
                Scored(
                    Pooled(Candidate(ref, _hit(ref, [items[i] for i in ids]), ()), 0.0, {}),
                    SignalTable(1, {}),
                    0,
                    score,
                )
                for (ref, ids), (_, score) in zip(parts.items(), ranking, strict=True)
            ]
            ranked = [refs[i] for ids in parts.values() for i in ids]
            for budget in budgets:
                numbers = PackSettings(budget_chars=budget, excerpts=name in EXCERPTS)
                block = pack(order, numbers, RerankSettings(), NONCE)
                memories = [_by_item(memory, parts, items, refs) for memory in block.memories]
                made.append(
                    scorer.row_of(
                        questions[index], (name, name, "", ()), budget, (block.text, memories), ranked, 0.0, 0.0
                    )
                )
            advance(1)
    return made


def _hit(ref: str, items: Sequence[Item]) -> Hit:
    """A passage as the packer takes it, under a ref as long as any."""
    first, last = items[0], items[-1]
    alone = len(items) == 1
    return Hit(
        native_id=ref,
        text=first.text if alone else "\n".join(item.spoken for item in items),
        speaker=first.speaker if alone else None,
        at=Moment(first.at) if first.at else None,
        place=Place(first.document, first.position, last.end or last.position, first.unit) if first.document else None,
    )


def _by_item(
    memory: Excerpt, parts: Mapping[str, Sequence[str]], items: Mapping[str, Item], refs: Mapping[str, str]
) -> Excerpt:
    """A memory of the block with its items as members, because figures are of items."""
    return replace(
        memory,
        members=tuple(
            replace(member, ref=refs[i], text=items[i].text, speaker=items[i].speaker)
            for member in memory.members
            for i in parts[member.ref]
        ),
    )
