"""The index of inclusions is bounded, and a journal that cannot be written loses only the oldest ones."""

from __future__ import annotations

from collections.abc import Sequence
from datetime import UTC, datetime

import pytest

from fusion.errors import StoreBusy
from fusion.journal.inclusions import Inclusion, InclusionLog

AT = datetime(2026, 3, 1, tzinfo=UTC)


def inclusion(receipt: str) -> Inclusion:
    return Inclusion("e1", receipt, AT, "pack", None, 1, 0.5, None, ("one",))


class Keeper:
    """Keeps what is written, or is busy."""

    def __init__(self) -> None:
        self.busy = False
        self.kept: list[str] = []

    async def __call__(self, included: Sequence[Inclusion]) -> None:
        if self.busy:
            raise StoreBusy("locked")
        self.kept += [one.receipt_id for one in included]


@pytest.mark.feature("inclusions that cannot be written wait for the next write, a bounded number of them")
async def test_inclusions_wait_for_a_busy_journal() -> None:
    keeper = Keeper()
    log = InclusionLog(keeper)
    keeper.busy = True
    log.note([inclusion("r0")])
    await log.flush()
    keeper.busy = False
    log.note([inclusion(f"r{number}") for number in range(1, log.MAX_WAITING + 1)])
    await log.close()
    assert (len(keeper.kept), keeper.kept[0]) == (log.MAX_WAITING, "r1")
