"""Reads the vectors by which dissent among the best memories of a ranking is found."""

from __future__ import annotations

import logging

from fusion.contract import Embedder, Hit, KnowsVectors, LanguageModel, text_scale, token_scale
from fusion.errors import FusionError
from fusion.gateway.dissent_by_model import dissent_by_model
from fusion.lib.words import spoken
from fusion.recall.dissent import Dissent, dissents, readable
from fusion.recall.dissent_features import Asked, Scales, Stated
from fusion.recall.pack import Ranking

log = logging.getLogger(__name__)


async def find_dissent(
    ranking: Ranking, embedder: Embedder | None, model: LanguageModel | None = None, model_ms: int = 0
) -> list[Dissent]:
    """The memories of a ranking that answer its question differently.

    The language model decides if there is one and it has ``model_ms`` for it, otherwise rules over the embedder's
    vectors, or nothing without an embedder. Only vectors that are there already are used: a new memory is compared at
    the next question.
    """
    if model is not None and model_ms:
        hits = {one.ref: one.pooled.candidate.hit for one in readable(ranking)}
        found = await dissent_by_model(ranking.question, hits, model, model_ms / 1000)
        if found is not None:
            return found
    asked, answers = await answers_of(ranking, embedder)
    return dissents(asked, answers) if asked is not None else []


async def answers_of(ranking: Ranking, embedder: Embedder | None) -> tuple[Asked | None, list[Stated]]:
    """The question and the best memories of a ranking with their vectors; None and no memories if there are not two."""
    hits = {one.ref: one.pooled.candidate.hit for one in readable(ranking)}
    if embedder is None or len(hits) < 2:
        return None, []
    try:
        return await _read(ranking.question, hits, embedder)
    except (FusionError, OSError, RuntimeError) as error:
        log.warning("the embedding model failed; dissent in other words is not looked for: %s", type(error).__name__)
        return None, []


async def _read(question: str, hits: dict[str, Hit], embedder: Embedder) -> tuple[Asked | None, list[Stated]]:
    texts = {ref: spoken(hit.text, hit.speaker) for ref, hit in hits.items()}
    tokens = dict(zip(texts, await embedder.tokens(list(texts.values()), 0.0), strict=True))
    dense = await embedder.known(list(texts.values())) if isinstance(embedder, KnowsVectors) else {}
    asked_tokens = await embedder.query_tokens(question)
    (asked_dense,) = await embedder.embed([question], keep=False)
    if not len(asked_tokens.vectors):
        return None, []
    asked = Asked(question, asked_tokens, asked_dense, Scales(text_scale(embedder), token_scale(embedder)))
    answers = [
        Stated(ref, hit.text, hit.speaker, hit.at.utc if hit.at else hit.recorded_at, own, dense[texts[ref]], asked)
        for ref, hit in hits.items()
        if (own := tokens[ref]) is not None and len(own.vectors) and texts[ref] in dense
    ]
    return asked, answers
