"""Plans: when they are due by their words, which are listed, and when one is done."""

from __future__ import annotations

from datetime import UTC, datetime
from pathlib import Path

import pytest

from fusion.contract import Moment, Scope
from fusion.gateway.decisions import StateRequest
from fusion.gateway.gateway import Gateway
from fusion.ingest.intake import NewMemory
from tests.gateway.helpers import NADIA, OMAR, small

NOW = datetime(2026, 3, 14, 12, tzinfo=UTC)
SAID = Moment(datetime(2026, 1, 14, tzinfo=UTC), "day")
TEXTS = {
    "Remind me in March to renew the passport": "due",
    "Send the form by the end of 2026-02-03": "overdue",
    "Repaint the shed in June": "upcoming",
    "Learn to sail": "undated",
}


def noon() -> datetime:
    return NOW


async def planned(gateway: Gateway, scope: Scope = NADIA) -> dict[str, str]:
    """The refs of four plans, by text."""
    kept = await gateway.remember([NewMemory(text, scope=scope, kind="plan", at=SAID) for text in TEXTS])
    return dict(zip(TEXTS, [one.ref for one in kept], strict=True))


@pytest.mark.row("A146", "plans that are due or overdue are listed, the earliest first; an archived one is done")
async def test_due_plans_are_listed_until_they_are_done(home: Path) -> None:
    async with Gateway.open(small(home), clock=noon) as gateway:
        refs = await planned(gateway)
        await gateway.remember([NewMemory("The fair is in March", scope=NADIA, kind="fact", at=SAID)])
        due = (await gateway.plans(NADIA))["plans"]
        assert [one["status"] for one in due] == ["overdue", "due"]
        every = (await gateway.plans(NADIA, everything=True))["plans"]
        assert {one["text"]: one["status"] for one in every} == TEXTS
        assert [one["status"] for one in every] == ["overdue", "due", "upcoming", "undated"]
        assert (await gateway.plans(NADIA, 1, everything=True))["more"]
        assert not (await gateway.plans(OMAR, everything=True))["plans"], "another user's"
        await gateway.set_state(StateRequest(refs["Remind me in March to renew the passport"], NADIA, archived=True))
        assert [one["status"] for one in (await gateway.plans(NADIA))["plans"]] == ["overdue"]


async def test_due_time_is_set_by_hand(home: Path) -> None:
    async with Gateway.open(small(home), clock=noon) as gateway:
        refs = await planned(gateway)
        await gateway.set_state(StateRequest(refs["Learn to sail"], NADIA, due=Moment(NOW, "day")))
        assert (await gateway.memory(refs["Learn to sail"], NADIA))["due"]["at"] == NOW
        assert "Learn to sail" in [one["text"] for one in (await gateway.plans(NADIA))["plans"]]
