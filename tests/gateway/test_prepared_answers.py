"""The answer that is prepared after a turn: used at once for a like question, and never when something changed."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, field, replace
from datetime import UTC, datetime, timedelta
from pathlib import Path
from typing import Any

import numpy as np
import pytest

from fusion.contract import Asker, CosineScale, Scope, TokenVectors
from fusion.errors import BackendUnreachable
from fusion.gateway.gateway import Gateway
from fusion.gateway.prepared_answers import KEPT_S, Basis, alike
from fusion.ingest.intake import NewMemory
from fusion.journal.sessions import SessionKey
from fusion.recall.engine import Fused, FuseRequest
from tests.gateway.helpers import ASKED, DECIDED, NADIA, OMAR, embedded, remember

ASKER = Asker("coder", "s1")
SESSION = replace(NADIA, session_id="s1")
LIKE = "Where does the bookings database move"
"""the same words as `ASKED`, written otherwise"""
MORE = "The bookings database moves to Postgres in May"


@dataclass
class Clock:
    """Seconds that a test advances."""

    now: float = 1000.0

    def __call__(self) -> float:
        return self.now


@dataclass
class FixedVectors:
    """An embedder with a fixed vector for each text; it fails for others."""

    vectors: dict[str, tuple[float, float]]
    identity: str = "fixed"
    dimensions: int = 2
    asked: list[Sequence[str]] = field(default_factory=list)

    async def embed(self, texts: Sequence[str], *, keep: bool = True) -> Any:
        self.asked.append(texts)
        if not {*texts} <= self.vectors.keys():
            raise BackendUnreachable("no such text")
        return np.array([self.vectors[text] for text in texts], dtype=np.float32)

    async def query_tokens(self, text: str) -> TokenVectors:
        raise AssertionError("a prepared answer compares whole questions only")

    async def tokens(self, texts: Sequence[str], deadline_s: float) -> Sequence[TokenVectors | None]:
        raise AssertionError("a prepared answer compares whole questions only")

    async def forget(self, texts: Sequence[str]) -> None: ...

    async def close(self) -> None: ...


class Crowded(FixedVectors):
    """Its cosines lie between .8 and 1."""

    text_scale = token_scale = CosineScale(5.0, -4.0)


async def ask(gateway: Gateway, question: str = LIKE, asker: Asker = ASKER, **fields: Any) -> Fused:
    """A question without a repetition, so that the first answer does not empty the next one."""
    fields = {"scope": NADIA, "timeout_ms": 60_000, **fields}
    return await gateway.fuse(FuseRequest(question, asker=asker, **fields))


async def capture(gateway: Gateway, text: str = "Ada: let us see", scope: Scope = SESSION) -> None:
    """A turn of the session is captured, and what follows in the background is done."""
    await gateway.remember([NewMemory(text, scope=scope, kind="turn")])
    await gateway.settle()


async def prepared(gateway: Gateway) -> None:
    """The session asks, and a turn of it is captured."""
    await remember(gateway, DECIDED)
    await ask(gateway, ASKED)
    await capture(gateway)


@pytest.mark.row("A026", "a session's next answer is prepared after each turn, and used for a like question")
async def test_like_question_gets_the_prepared_answer(home: Path) -> None:
    """It is what a fresh question would get, with the turn that was captured, under a receipt of its own; once."""
    async with Gateway.open(embedded(home)) as gateway:
        await remember(gateway, DECIDED)
        first = await ask(gateway, ASKED)
        await capture(gateway, MORE)
        fresh, _ = await gateway.record(FuseRequest(LIKE, NADIA, asker=ASKER, timeout_ms=60_000))
        got, again = await ask(gateway), await ask(gateway)
        assert (first.prepared, got.prepared, again.prepared) == (False, True, False)
        assert MORE in got.block
        assert got.memories == fresh.memories
        assert (await gateway.receipt(got.receipt_id))["prepared"] is True
        assert "prepared" not in await gateway.receipt(again.receipt_id)


async def test_prepared_answer_counts_as_a_turn(home: Path) -> None:
    """With the recipe of the hooks it has what the session was not shown yet, and that is not shown again.

    What another session says is new to it; its own turns stand in its prompt already.
    """
    async with Gateway.open(embedded(home)) as gateway:
        await remember(gateway, DECIDED)
        assert DECIDED in (await ask(gateway, ASKED, recipe="hook")).block
        await capture(gateway, MORE, replace(NADIA, session_id="s2"))
        await capture(gateway)
        got = await ask(gateway, recipe="hook")
        assert got.prepared
        assert MORE in got.block
        assert DECIDED not in got.block
        await capture(gateway, "Ada: and what about the archive?")
        again = await ask(gateway, recipe="hook")
        assert (again.prepared, MORE in again.block) == (True, False)


@pytest.mark.row("A026", "a prepared answer is never used after a memory was forgotten, stored or decided about")
@pytest.mark.parametrize("change", ["forget", "remember", "decide"])
async def test_prepared_answer_is_not_used_after_a_change(home: Path, change: str) -> None:
    """Whoever changes what."""
    async with Gateway.open(embedded(home)) as gateway:
        [ref] = await remember(gateway, DECIDED)
        await ask(gateway, ASKED)
        await capture(gateway)
        if change == "forget":
            await gateway.forget(ref, NADIA)
        elif change == "remember":
            await gateway.remember([NewMemory(MORE, scope=NADIA)])
            await gateway.settle()
        else:
            record = await gateway.journal.find(ref, NADIA)
            ended = {"ended_at": datetime.now(UTC), "ended": "retired"}
            await gateway.journal.decide({record.event.event_id: ended}, "test", "over")  # type: ignore[dict-item]
        got = await ask(gateway)
        assert not got.prepared
        assert (DECIDED in got.block) is (change == "remember")
        assert (MORE in got.block) is (change == "remember")


@pytest.mark.parametrize(
    ("question", "fields"),
    [
        ("who keeps bees?", {}),
        (LIKE + " not", {}),
        (LIKE, {"asker": Asker("coder", "s2")}),
        (LIKE, {"asker": Asker("coder", "s1", new_context=True)}),
        (LIKE, {"asker": Asker("writer", "s1")}),
        (LIKE, {"scope": OMAR}),
        (LIKE, {"scope": replace(NADIA, project="harbour")}),
        (LIKE, {"budget_chars": 500}),
        (LIKE, {"recipe": "hook"}),
        (LIKE, {"as_of": datetime(2030, 1, 1, tzinfo=UTC)}),
    ],
)
async def test_other_question_is_answered_anew(home: Path, question: str, fields: dict[str, Any]) -> None:
    """Another question, session, agent, user, budget, recipe or time."""
    async with Gateway.open(embedded(home)) as gateway:
        await prepared(gateway)
        assert not (await ask(gateway, question, **fields)).prepared


async def test_prepared_answer_is_used_for_five_minutes(home: Path) -> None:
    """From the captured turn on."""
    for later, is_used in ((KEPT_S, True), (KEPT_S + 1, False)):
        async with Gateway.open(embedded(home / str(is_used))) as gateway:
            clock = gateway.prepared.clock = Clock()
            await prepared(gateway)
            clock.now += later
            assert (await ask(gateway)).prepared is is_used


async def test_memory_that_ends_ends_the_prepared_answer(home: Path) -> None:
    """It was valid when the answer was prepared."""
    async with Gateway.open(embedded(home)) as gateway:
        ends = datetime.now(UTC) + timedelta(hours=1)
        await gateway.remember([NewMemory(DECIDED, scope=NADIA, valid_to=ends)])
        await ask(gateway, ASKED)
        await capture(gateway)
        key = SessionKey("default", "nadia", "coder", "s1")
        request = FuseRequest(LIKE, NADIA, asker=ASKER, timeout_ms=60_000)
        basis = Basis(gateway.journal.changes, turn=1)
        assert await gateway.prepared.take(key, request, lambda: basis, ends, None) is None
        assert await gateway.prepared.take(key, request, lambda: basis, ends - timedelta(seconds=1), None) is not None


async def test_nothing_is_prepared_for_a_session_that_asked_nothing(home: Path) -> None:
    """A turn of another session, user or kind prepares nothing."""
    async with Gateway.open(embedded(home)) as gateway:
        await remember(gateway, DECIDED)
        await ask(gateway, ASKED)
        for scope in (replace(NADIA, session_id="s2"), replace(OMAR, session_id="s1")):
            await capture(gateway, scope=scope)
        await remember(gateway, "The quay is closed", scope=SESSION)
        assert not (await ask(gateway)).prepared


async def test_questions_are_alike_by_words_or_vectors() -> None:
    """In the same order by words alone; otherwise by vectors, and without a model not at all."""
    one, same, moved = "When does the lease end?", "when does the lease end", "when is the end of the lease?"
    model = FixedVectors({one: (1.0, 0.0), moved: (0.9, 0.436)})
    assert await alike(one, same, model)
    assert await alike(one, same, None)
    assert await alike("how long is a slot held?", "How long are slots held", None)
    assert model.asked == []
    assert await alike(one, moved, model)
    assert not await alike(one, moved, None)
    assert not await alike("the end of the lease, when is it?", moved, model)  # the model fails
    model.vectors[moved] = (0.0, 1.0)
    assert not await alike(one, moved, model)


async def test_questions_are_alike_on_the_scale_of_the_model() -> None:
    """A model by which all texts have a cosine of .8 must not take two questions for one because of it."""
    one, moved = "When does the lease end?", "when is the end of the lease?"
    for cosine, expected in ((0.9, False), (0.98, True)):
        model = Crowded({one: (1.0, 0.0), moved: (cosine, (1 - cosine**2) ** 0.5)})
        assert await alike(one, moved, model) is expected
