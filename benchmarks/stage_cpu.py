"""Measures the CPU of each stage of the read path, called alone on synthetic answers."""

from __future__ import annotations

import time
from collections.abc import Callable, Mapping, Sequence
from datetime import UTC, datetime, timedelta
from random import Random
from typing import TypeVar

from benchmarks.synthetic_text import question, sentence
from fusion.contract import Hit, Moment, Place, Query, Scope, TokenVectors
from fusion.home import config_root
from fusion.lib.bm25 import Frequencies, terms
from fusion.lib.words import spoken
from fusion.recall.dedup import dedup
from fusion.recall.expand import expand
from fusion.recall.filter import Admitted, admit
from fusion.recall.maxsim import best_matches
from fusion.recall.pack import pack
from fusion.recall.rerank import by_local_score
from fusion.recall.rrf import ceiling, rrf
from fusion.recall.signals import Likeness, local_signals
from fusion.recipe import Recipe
from fusion.recipe_files import read_recipe

T = TypeVar("T")

CANDIDATES = 200
STORES = ("one", "two", "three", "four")
CHARACTERS = 200
TOKENS = 45
"""of a text of that length, as MiniLM's WordPiece cuts English"""
DIMENSIONS = 384
REPEATS = 20


def stage_cpu_ms(repeats: int = REPEATS) -> dict[str, float]:
    """Milliseconds of CPU by stage: the median of ``repeats`` requests, each with texts of its own.

    200 distinct candidates from four backends, 50 each, without neighbours. Their token vectors are there, as a model's
    would be that has seen them before; what they are makes no difference to what it costs to compare them.
    """
    recipe = read_recipe(config_root() / "recipes" / "default.toml")
    spent: dict[str, list[float]] = {}
    for repeat in range(repeats):
        _request(recipe, Random(repeat), lambda name, ms: spent.setdefault(name, []).append(ms))
    medians = {name: round(sorted(values)[len(values) // 2], 3) for name, values in spent.items()}
    return {**medians, "total": round(sum(medians.values()), 3)}


def _request(recipe: Recipe, draw: Random, note: Callable[[str, float], None]) -> None:
    def timed(name: str, stage: Callable[[], T]) -> T:
        started = time.process_time()
        result = stage()
        note(name, (time.process_time() - started) * 1000)
        return result

    query = Query(question(draw), Scope(audience="private"), datetime(2026, 6, 1, tzinfo=UTC))
    found = {store: _hits(store, draw) for store in STORES}
    admitted = timed("admit", lambda: {s: admit(s, hits, query, {})[0] for s, hits in found.items()})
    candidates = timed("dedup", lambda: dedup(admitted, recipe.dedup))
    assert len(candidates) == CANDIDATES
    ranked = timed("rrf", lambda: rrf(candidates, recipe.fuse))
    nothing: Mapping[str, Sequence[Admitted]] = {}
    pool = timed("expand", lambda: expand(ranked, nothing, recipe.expand, recipe.dedup))
    asked = terms(query.text)
    # Terms of a text are remembered from request to request; these are new, so the whole price is paid here.
    texts = [terms(spoken(p.candidate.hit.text, p.candidate.hit.speaker)) for p in pool]
    frequencies = Frequencies(len(pool), 30.0, {t: sum(t in set(text) for text in texts) for t in set(asked)})
    terms.cache_clear()
    best = ceiling(STORES, recipe.fuse)
    words = tuple(query.text.split())
    said = [spoken(p.candidate.hit.text, p.candidate.hit.speaker) for p in pool]
    vectors = [_tokens(draw, TOKENS) for _ in said]
    matches = timed("likeness", lambda: best_matches(_tokens(draw, len(words), words), vectors))
    seen = Likeness(words, dict(zip(said, matches, strict=True)), {text: draw.random() for text in said})
    signals = timed("signals", lambda: local_signals(query, pool, best, frequencies, seen))
    order = timed("rerank", lambda: by_local_score(pool, signals, recipe.rerank, query.text))
    timed("pack", lambda: pack(order, recipe.pack, recipe.rerank, "0123456789abcdef"))


def _tokens(draw: Random, count: int, words: tuple[str, ...] = ()) -> TokenVectors:
    import numpy as np

    rows = np.frombuffer(draw.randbytes(count * DIMENSIONS), dtype=np.int8).reshape(count, DIMENSIONS)
    return TokenVectors(rows, 1 / 127, words=words)


def _hits(store: str, draw: Random) -> list[Hit]:
    return [
        Hit(
            native_id=f"{store}-{n}",
            text=sentence(draw, CHARACTERS),
            score=1 - n / 100,
            speaker=draw.choice(("Mara", "Teo", None)),
            at=Moment(datetime(2026, 1, 1, tzinfo=UTC) + timedelta(days=draw.randrange(150))),
            place=Place(f"{store}/{n % 10}", n, n),
        )
        for n in range(CANDIDATES // len(STORES))
    ]
