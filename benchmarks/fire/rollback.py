"""Measures how long it takes to forget everything of one source in all embedded backends, as a user does it."""

from __future__ import annotations

import asyncio
import random
import tempfile
import time
from pathlib import Path
from typing import Any

from fusion.contract import Scope
from fusion.gateway.gateway import Gateway
from fusion.ingest.forget import ForgetReceipt, ForgetRequest
from fusion.ingest.intake import NewMemory
from fusion.journal import listing
from fusion.journal.listing import Criteria
from fusion.settings import load

SOURCE = "file:/mail.mbox"
WHOSE = Scope(user_id="nadia", audience="private")
WORDS = [f"word{number}" for number in range(3000)]


def measure(full: bool) -> dict[str, Any]:
    """``rollback_s`` of ``rolled_back`` memories, among as many that stay.

    ``rollback_cpu_s`` is the processor time in it, which does not depend on who else uses the machine.
    """
    return asyncio.run(_measure(2000 if full else 100))


async def _measure(count: int) -> dict[str, Any]:
    draw = random.Random(16)
    with tempfile.TemporaryDirectory() as folder:
        settings = load(home=Path(folder) / "home", embedder={"adapter": ""})
        async with Gateway.open(settings) as fusion:
            items = [
                NewMemory(
                    f"Message {number}: {' '.join(draw.choices(WORDS, k=25))}",
                    scope=WHOSE,
                    source=SOURCE if number % 2 else "file:/other.mbox",
                    kind="note",
                )
                for number in range(2 * count)
            ]
            for first in range(0, len(items), 100):
                await fusion.remember(items[first : first + 100])
            await fusion.settle()
            started, worked = time.perf_counter(), time.process_time()
            receipts: list[ForgetReceipt] = []
            more = True
            while more:
                reply = await fusion.forget_many(ForgetRequest(WHOSE, criteria=Criteria(source=SOURCE)))
                receipts += reply.receipts
                more = reply.more
            await fusion.settle()
            took_s, worked_s = time.perf_counter() - started, time.process_time() - worked
            left = await fusion.journal.read(listing.matching, WHOSE, Criteria(source=SOURCE), 1)
            kept = (await fusion.journal.counts("default"))["current"]
    return {
        "rollback_s": round(took_s, 1),
        "rollback_cpu_s": round(worked_s, 1),
        "rolled_back": len(receipts),
        "verified_deleted": sum(set(receipt.backends.values()) <= {"deleted"} for receipt in receipts),
        "left": len(left),
        "kept": kept,
        "backends": len(settings.backends),
    }
