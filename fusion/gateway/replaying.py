"""The calls on an open home that show how an answer comes about: asked while it is watched, and replayed."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field, replace
from typing import Any

from fusion import wire
from fusion.contract import Passage, Query, Verdict
from fusion.errors import BadInput, ReplayGap, SettingsError
from fusion.gateway.answering import Answering
from fusion.gateway.bootstrap import checked
from fusion.gateway.in_tenant import in_tenant
from fusion.gateway.parts import DEFAULT
from fusion.gateway.recordings import Recorded
from fusion.recall.decision import Decision
from fusion.recall.engine import FuseRequest, Outcome, explain, fuse
from fusion.recall.filter import JOURNAL
from fusion.recall.gather import Answer, Answered
from fusion.recall.mask import shown
from fusion.recall.recording import Recording, Replay
from fusion.recall.signals import SIGNALS
from fusion.recipe import Recipe
from fusion.recipe_files import ranges, values_of, with_changes

TEXT_CHARS = 300
"""characters of a candidate's text that are shown"""
WAIT_S = 5.0
"""seconds that a replay waits for a slot among the questions"""


@dataclass(frozen=True, slots=True)
class ReplayRequest:
    """Which recording to answer from, and by which numbers.

    ``changes`` are values of a recipe, nested as in its file; they and the budget replace those of the question.
    """

    recording: str
    """the id of the receipt of its answer"""
    tenant: str = DEFAULT
    user_id: str | None = None
    recipe: str | None = None
    changes: Mapping[str, Mapping[str, Any]] = field(default_factory=dict)
    budget_chars: int | None = None
    max_results: int | None = None


class _Steered(Replay):
    """A replay with any numbers: a smaller depth sees the head of each list, and new passages have no verdict."""

    async def answers(self, query: Query, names: Sequence[str] | None, deadline_s: float) -> Sequence[Answer]:
        found = await Replay.answers(self, query, names, deadline_s)
        return [replace(answer, hits=answer.hits[: query.limit]) for answer in found]

    async def verdict(self, query: str, passages: Sequence[Passage], deadline_s: float) -> Verdict:
        if self.recording.verdict is None:
            return Verdict("disabled", fault="the judge was not asked when this was recorded")
        return await Replay.verdict(self, query, [p for p in passages if p.text in self.recording.verdicts], deadline_s)


class ReplayCalls(Answering):
    """The calls of an open home that watch and replay answers, for one tenant."""

    __slots__ = ()

    @in_tenant
    async def ask(self, request: FuseRequest, answered: Answered) -> wire.Asked:
        """Do `fuse`, report each backend's answer at once, and return the candidates as well. Raises as `fuse`."""
        fused, outcome = await self._answered(request, answered=answered)
        recording = fused.receipt_id if self.recordings.has(fused.receipt_id) else None
        candidates = await self._candidates(outcome)
        return {"answer": fused, "candidates": candidates, "recording": recording}  # type: ignore[typeddict-item]

    @in_tenant
    async def replay(self, request: ReplayRequest, tenant: str = DEFAULT) -> wire.Asked:
        """Answer a recorded question by other numbers, without asking a store. No receipt is kept.

        Raises NotFound without a recording, and BadInput for a wrong change, or one that needs more than was recorded.
        """
        recorded = self.recordings.of(request.recording, request.user_id)
        recipe = self._changed(recorded, request)
        asked = replace(_without_changed(recorded.request, request.changes), explain=False)
        asked = replace(
            asked,
            budget_chars=request.budget_chars or asked.budget_chars,
            max_results=request.max_results or asked.max_results,
        )
        async with self.admission.slot(WAIT_S, self.tenant):
            io = _Steered(await self._as_of_now(recorded))
            try:
                outcome = await fuse(asked, recipe, io, recorded.context, recorded.event)
            except ReplayGap as gap:
                raise BadInput(f"changes: {gap}. Ask the question again with a recipe that has these numbers") from None
        candidates = await self._candidates(outcome, io.recording)
        return {"answer": outcome.fused, "candidates": candidates, "recording": recorded.receipt_id}  # type: ignore[typeddict-item]

    def _changed(self, recorded: Recorded, request: ReplayRequest) -> Recipe:
        recipe = recorded.recipe if request.recipe is None else self._recipe(FuseRequest("", recipe=request.recipe))
        if not request.changes:
            return recipe
        made = with_changes(recipe, request.changes)
        try:
            return checked({made.name: made})[made.name]
        except SettingsError as error:
            raise BadInput(f"changes: {error}") from None

    async def _as_of_now(self, recorded: Recorded) -> Recording:
        """A recording with what the journal says now of its memories. Raises NotFound if one was forgotten since."""
        then = recorded.recording
        records = await self.live.records([*then.records])
        if any(
            name not in records or (records[name].forgotten and not then.records[name].forgotten)
            for name in then.records
        ):
            self.recordings.clear()
            self.recordings.of(recorded.receipt_id)
        visible = self.live.journal.without_forgotten
        return replace(
            then,
            records=dict(records),
            answers={name: self.live.without_hidden(answer) for name, answer in then.answers.items()},
            neighbours={key: visible(key[0], hits) for key, hits in then.neighbours.items()},
        )

    async def _candidates(self, outcome: Outcome, recording: Recording | None = None) -> list[wire.AskedCandidate]:
        """The candidates of an answer with their reasons, and the beginning of the text of each."""
        rows: list[wire.AskedCandidate] = explain(outcome.receipt.body)["candidates"]
        hits = {(backend, hit.native_id): hit for backend, found in outcome.hits for hit in found}
        by_journal = {
            hit["native_id"]
            for row in rows
            for hit in row["source_hits"]
            if (hit["backend"], hit["native_id"]) not in hits
        }
        records = await self.journal.records([*by_journal]) if by_journal else {}
        hits |= {(JOURNAL, name): record.hit for name, record in records.items() if not record.forgotten}
        for row in rows:
            found = (hits.get((hit["backend"], hit["native_id"])) for hit in row["source_hits"])
            first = (
                None if row["decision"] == Decision.PRIVATE else next((hit for hit in found if hit is not None), None)
            )
            row["text"] = None if first is None else shown(first).text[:TEXT_CHARS]
        return rows

    @in_tenant
    async def recipes_of_home(self, tenant: str = DEFAULT) -> wire.Recipes:
        """The recipes of the home with their values, and the range, choices and default of each value."""
        return {
            "default": self.settings.recipe,
            "recipes": [
                {"name": name, "hash": recipe.hash, "fields": values_of(recipe)}
                for name, recipe in sorted(self.recipes.items())
            ],
            "ranges": ranges(),
            "signals": list(SIGNALS),
        }


def _without_changed(request: FuseRequest, changes: Mapping[str, Mapping[str, Any]]) -> FuseRequest:
    """The question without its own limits of the block where a change has them."""
    changed = {*changes.get("pack", {})}
    budget = {"budget_chars", "budget_tokens"}
    own = budget | {"max_results", "max_items", "format", "fill"}
    names = changed & own | (budget if changed & budget else set())
    nothing: dict[str, Any] = dict.fromkeys(names)
    return replace(request, **nothing)
