"""A pack says which of its memories names another's value as past, and so supersedes it."""

from __future__ import annotations

from datetime import datetime
from pathlib import Path

import pytest

from fusion.contract import Scope, Trust
from fusion.gateway.gateway import Gateway
from fusion.gateway.packing import PackRequest
from fusion.ingest.intake import NewMemory
from fusion.lib.moment import Moment
from tests.gateway.helpers import small

NADIA = Scope(user_id="nadia", audience="private")
OLD, NEW = "The nightly backup of Spindle runs at 03:15.", "The nightly backup of Spindle moved from 03:15 to 04:30."


async def told(gateway: Gateway, text: str, day: str, trust: Trust = "unknown") -> str:
    """The ref of a memory of a day, as packs cite it."""
    at = Moment(datetime.fromisoformat(f"{day}T12:00:00+00:00"), "day")
    (kept,) = await gateway.remember([NewMemory(text, NADIA, at=at, trust=trust)])
    return f"obs:{kept.ref}"


async def lines(gateway: Gateway, question: str) -> list[str]:
    await gateway.settle()
    pack = await gateway.pack(PackRequest(question, NADIA))
    return [line for line in pack.bundle_text.splitlines() if line.startswith("- ")]


QUESTION = "When does the nightly backup of Spindle run?"


@pytest.mark.feature("a pack marks what a newer memory names as past as superseded, not as a conflict")
@pytest.mark.parametrize(
    ("old", "new", "question"),
    [
        (OLD, NEW, QUESTION),
        (
            "Das Backup von Spindle läuft um 3:15.",
            "Das Backup von Spindle wurde von 3:15 auf 4:30 verlegt.",
            "Wann läuft das Backup von Spindle?",
        ),
    ],
)
async def test_the_newer_memory_supersedes(home: Path, old: str, new: str, question: str) -> None:
    async with Gateway.open(small(home)) as gateway:
        first, second = await told(gateway, old, "2026-02-03"), await told(gateway, new, "2026-06-03")
        shown = await lines(gateway, question)
    assert [line.split(" [")[-1] for line in shown] == [f"supersedes: {first}]", f"superseded by: {second}]"]
    assert "conflicts with" not in "".join(shown)


async def test_an_older_memory_supersedes_nothing(home: Path) -> None:
    """What was moved earlier may have been moved back since."""
    async with Gateway.open(small(home)) as gateway:
        await told(gateway, NEW, "2026-02-03")
        await told(gateway, OLD, "2026-06-03")
        assert "supersede" not in "".join(await lines(gateway, QUESTION))


async def test_an_untrusted_memory_supersedes_nothing_of_more_trust(home: Path) -> None:
    async with Gateway.open(small(home)) as gateway:
        await told(gateway, OLD, "2026-02-03")
        await told(gateway, NEW, "2026-06-03", "untrusted")
        assert "supersede" not in "".join(await lines(gateway, QUESTION))


async def test_two_values_without_a_change_stay_a_conflict(home: Path) -> None:
    async with Gateway.open(small(home)) as gateway:
        await told(gateway, OLD, "2026-02-03")
        await told(gateway, OLD.replace("03:15", "04:30"), "2026-06-03")
        shown = "".join(await lines(gateway, QUESTION))
    assert shown.count("[conflicts with: ") == 2
