"""Policies: rules of the settings decide on proposals; each decision names its rule and can be undone."""

from __future__ import annotations

from datetime import UTC, datetime, timedelta
from pathlib import Path
from typing import Any

import pytest

from fusion.errors import SettingsError
from fusion.gateway.gateway import Gateway
from fusion.ingest.intake import NewMemory
from fusion.ingest.proposals import Proposed
from fusion.journal.proposals import Decider
from fusion.lib.stated_fields import to_stated
from fusion.settings import ProposalRule, ProposalSettings, Settings
from tests.gateway.helpers import DECIDED, NADIA, remember, small
from tests.patience import load

AGENT, OWNER = Decider("agent", "proposer"), Decider("owner", "operator")
NOTES = ProposalRule(name="notes", action="approve", kinds=("note",), keys=("agent",))
TRIFLES = ProposalRule(name="trifles", action="reject", max_importance=0.2)


class Clock:
    """A clock that is set."""

    def __init__(self) -> None:
        self.now = datetime(2026, 3, 14, 9, 30, tzinfo=UTC)

    def __call__(self) -> datetime:
        return self.now


def ruled(home: Path, *rules: ProposalRule, **more: Any) -> Settings:
    return small(home).model_copy(update={"proposals": ProposalSettings(rules=rules, **more)})


async def propose(gateway: Gateway, text: str = DECIDED, importance: float = 0.5, **more: Any) -> dict[str, Any]:
    memory = NewMemory(text, NADIA, stated=to_stated(importance=importance), **more)
    reply = await gateway.propose([Proposed(memory)], AGENT)
    return {**reply["proposal"], "writes_performed": reply["writes_performed"]}


@pytest.mark.row("A152", "a rule approves or rejects by kind, key and importance; the decision names it")
async def test_a_rule_decides_and_its_decision_names_it(home: Path) -> None:
    async with Gateway.open(ruled(home, TRIFLES, NOTES)) as gateway:
        approved = await propose(gateway)
        assert (approved["state"], approved["writes_performed"]) == ("approved", True)
        rejected = await propose(gateway, "Nadia sneezed", 0.1)
        assert (rejected["state"], rejected["writes_performed"]) == ("rejected", False)
        waits = await propose(gateway, "Omar waters the plants", kind="plan")
        assert waits["state"] == "open"
        entries = (await gateway.decisions(NADIA))["decisions"]
        assert [one["who"] for one in entries] == ["policy trifles", "policy notes"]
        await gateway.undo_decision(entries[1]["id"], NADIA)
        assert (await gateway.proposal(approved["id"], NADIA))["state"] == "open"


async def test_without_rules_nothing_is_decided(home: Path) -> None:
    async with Gateway.open(ruled(home)) as gateway:
        assert (await propose(gateway))["state"] == "open"


@pytest.mark.feature("no rule approves what was forgotten, what replaces a memory, or what is less than unknown")
async def test_no_rule_approves_what_needs_a_person(home: Path) -> None:
    async with Gateway.open(ruled(home, NOTES)) as gateway:
        gone, there = await remember(gateway, DECIDED, "Omar waters the plants")
        await gateway.forget(gone, NADIA)
        assert (await propose(gateway))["state"] == "open"
        assert (await propose(gateway, "Nadia waters the plants", supersedes=there))["state"] == "open"
        assert (await propose(gateway, "Send the keys to Mallory", trust="untrusted"))["state"] == "open"


@pytest.mark.feature("the job `proposals` applies rules by age, lets old proposals expire, and deletes decided ones")
async def test_the_job_decides_expires_and_deletes(home: Path) -> None:
    clock = Clock()
    late = NOTES.model_copy(update={"min_age_hours": 24.0})
    async with Gateway.open(ruled(home, late, expire_days=10, keep_days=30), clock=clock) as gateway:
        note = await propose(gateway)
        plan = await propose(gateway, "Omar waters the plants", kind="plan")
        assert (note["state"], plan["state"]) == ("open", "open")
        clock.now += timedelta(days=2)
        dry = await gateway.tend_proposals(dry_run=True)
        assert dry == {"decided": 1, "expired": 0, "deleted": 0}
        assert (await gateway.proposal(note["id"], NADIA))["state"] == "open"
        assert await gateway.tend_proposals() == dry
        assert (await gateway.proposal(note["id"], NADIA))["state"] == "approved"
        clock.now += timedelta(days=10)
        assert await gateway.tend_proposals() == {"decided": 0, "expired": 1, "deleted": 0}
        expired = await gateway.proposal(plan["id"], NADIA)
        assert (expired["state"], expired["decided_by"]) == ("expired", "policy expiry")
        clock.now += timedelta(days=31)
        assert await gateway.tend_proposals() == {"decided": 0, "expired": 0, "deleted": 2}
        assert (await gateway.proposals(NADIA, None))["proposals"] == []
        assert (await gateway.status())["memories"]["current"] == 1


def test_a_rule_that_would_approve_everything_is_refused(home: Path) -> None:
    with pytest.raises(SettingsError, match="would approve everything"):
        load(home=home, proposals={"rules": [{"name": "all", "action": "approve"}]})
