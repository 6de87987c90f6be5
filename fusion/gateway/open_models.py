"""Opens the models that the settings name: embedders, judge and language model."""

from __future__ import annotations

import logging
from collections.abc import Mapping
from typing import TYPE_CHECKING

from pydantic import ValidationError

from fusion.contract import Embedder, HasLocalModel, Judge, JudgesWithModel, LanguageModel, ReadsInContext, Scope
from fusion.errors import ModelMissing, SettingsError
from fusion.gateway.embedders import Embedders
from fusion.gateway.import_class import resolve
from fusion.gateway.llm_budget import Budget, BudgetedModel
from fusion.settings import EmbedderSettings, Settings

if TYPE_CHECKING:
    from fusion.store.postgres import Server

log = logging.getLogger(__name__)
SECOND = "adapters.embedders.second:SecondEncoder"
"""what opens the second encoder"""


async def open_embedders(settings: Settings) -> tuple[Embedders, tuple[str, ...]]:
    """The embedders of a home, and notes on what does not work without one. Raises SettingsError."""
    embedder, notes = await _embedder(settings)
    adapter = settings.embedder.adapter or EmbedderSettings().adapter

    async def open_other(changed: Mapping[str, object]) -> Embedder:
        try:
            options = EmbedderSettings.model_validate(changed).options
        except ValidationError as error:
            wrong = "; ".join(f"{'.'.join(map(str, e['loc']))}: {e['msg']}" for e in error.errors())
            raise SettingsError(f"[embedder] {wrong}") from None
        opened: Embedder = await resolve(adapter, "embedder.adapter").open(
            settings.home / "embeddings", {**options, "alone": True}
        )
        return opened

    next_options = settings.embedder.next.model_dump() if settings.embedder.next.provider else None
    second, missing = await _second_encoder(settings)
    return Embedders(embedder, settings.embedder.options, open_other, next_options, second), (*notes, *missing)


async def _second_encoder(settings: Settings) -> tuple[ReadsInContext | None, tuple[str, ...]]:
    """The local model that `[embedder] second` names; None without one, with a note if it is not installed."""
    name = settings.embedder.second
    if not name:
        return None, ()
    try:
        options = {**settings.embedder.options, "model": name}
        opened: ReadsInContext = await resolve(SECOND, "embedder.second").open(settings.home / "embeddings", options)
    except ModelMissing as error:
        note = f"without the second encoder, recipes that ask for it rank by [embedder] alone: {error}"
        log.error("%s", note)
        return None, (note,)
    return opened, ()


async def _embedder(settings: Settings) -> tuple[Embedder | None, tuple[str, ...]]:
    if settings.embedder.none:
        return None, ("no embedding model is configured: everything is found by its words only",)
    options = settings.embedder.options
    try:
        kind = resolve(settings.embedder.adapter, "embedder.adapter")
        opened: Embedder = await kind.open(settings.home / "embeddings", options)
    except ModelMissing as error:
        note = f"without the embedding model everything is found by its words only: {error}"
        log.error("%s", note)
        return None, (note,)
    if local_model(opened) is None:
        return opened, ("without the local model a question and what was found are compared by their words only",)
    return opened, ()


def local_model(embedder: Embedder | None) -> Embedder | None:
    """The model in this process that compares a question with its candidates: a provider's server would be too slow."""
    if isinstance(embedder, HasLocalModel):
        return embedder.local
    return embedder


def open_judge(settings: Settings, model: LanguageModel | None) -> Judge | None:
    """The judge that the settings name, over this language model if it is one that asks it; or None.

    Raises SettingsError.
    """
    if not settings.judge.judged_by:
        return None
    kind, options = resolve(settings.judge.judged_by, "judge.adapter"), settings.judge.options
    if isinstance(kind, JudgesWithModel):
        require_model(settings)
        return kind.open_over(model, options)
    judge: Judge = kind.open(options)
    return judge


def require_model(settings: Settings) -> None:
    """Raises SettingsError if ``[model]`` names no language model, for a judge that asks it."""
    if not settings.model.adapter:
        raise SettingsError("[judge] this judge asks the language model of [model]: name one there, [model] adapter")


def open_language_model(
    settings: Settings, server: Server | None = None
) -> tuple[BudgetedModel | None, tuple[str, ...]]:
    """The language model with its budget, or None; and notes on what does not work if a configured one is missing.

    The gateways that share a ``server`` share the budget.
    """
    chosen = settings.model
    if not chosen.adapter:
        return None, ()
    try:
        opened: LanguageModel = resolve(chosen.adapter, "model.adapter").open(chosen.model_dump(exclude={"adapter"}))
    except ModelMissing as error:
        note = f"without the language model, facts are extracted by rules alone: {error}"
        log.error("%s", note)
        return None, (note,)
    most = chosen.calls_per_minute, chosen.tokens_per_minute
    budget: Budget | None = None
    if server is not None:
        from fusion.store.shared_budget import SharedBudget

        budget = SharedBudget(server, Scope().tenant, *most)
    return BudgetedModel(opened, calls_per_minute=most[0], tokens_per_minute=most[1], budget=budget), ()
