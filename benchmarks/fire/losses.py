"""Losses: what was acknowledged and is not there after kills, power cuts, deletions and damages of the journal.

``acked_lost`` counts a memory that was acknowledged and is gone without being named: acknowledged into files that were
deleted before, not there after a kill or a power cut, or missing after a damage that neither the open home nor the
repair reported.
"""

from __future__ import annotations

import asyncio
import random
import shutil
import sqlite3
import tempfile
from contextlib import closing, suppress
from pathlib import Path
from typing import Any

from fusion.contract import Scope
from fusion.errors import FusionError, StoreDamaged
from fusion.gateway.gateway import Gateway
from fusion.gateway.repair import repair
from fusion.ingest.intake import NewMemory
from fusion.settings import Settings
from tests.faults.home import settings_of
from tests.faults.test_kill import is_sound, nursery, texts
from tests.fire.losses import ACCIDENTS, DAMAGES, cut_power

WHOSE = Scope(user_id="nadia", audience="private")
KILLS, CUTS, DELETIONS, DAMAGED = 200, 20, 20, 20
SHORT = 10


def measure(full: bool) -> dict[str, Any]:
    """``acked_lost`` over all four, with the counts of each."""
    share = 1 if full else SHORT
    with tempfile.TemporaryDirectory() as folder:
        root = Path(folder)
        counts = {
            "kills": _killed(root / "kills", KILLS // share),
            "power_cuts": _cut(root / "cuts", CUTS // share),
            "deletions": asyncio.run(_deleted(root / "deletions", DELETIONS // share)),
            "damages": asyncio.run(_damaged(root / "damages", DAMAGED // share)),
        }
    return {"acked_lost": sum(one["lost"] for one in counts.values()), **counts}


def _killed(folder: Path, kills: int) -> dict[str, int]:
    """kill -9: half before the n-th statement of an append, half after a random number of acknowledgements."""
    folder.mkdir()
    draw = random.Random(16)
    lost = acknowledged = damaged = 0
    with nursery() as home:
        by_statement, at_random = folder / "statements.sqlite", folder / "random.sqlite"
        kept: set[object] = set()
        for number in range(kills // 2):
            said = home.kill("append", by_statement, number, number % 40 + 1)
            kept.update(n for _, n in said)
            damaged += not is_sound(by_statement)
        there = texts(by_statement, "event")
        lost += sum(f"{what} {n}" not in there for n in kept for what in ("turn", "note"))
        acknowledged += 2 * len(kept)
        kept = set()
        for _ in range(kills - kills // 2):
            kept.update(n for _, n in home.kill("write", at_random, after=draw.randint(1, 40)))
            damaged += not is_sound(at_random)
        there = texts(at_random, "event")
        lost += sum(f"{what} {n}" not in there for n in kept for what in ("turn", "note"))
        acknowledged += 2 * len(kept)
    return {"count": kills, "acknowledged": acknowledged, "lost": lost, "damaged": damaged}


def _cut(folder: Path, cuts: int) -> dict[str, int]:
    """Cuts the power: the log keeps what it had at an acknowledgement, followed by torn bytes."""
    folder.mkdir()
    lost = acknowledged = damaged = 0
    for number in range(cuts):
        file, kept = asyncio.run(cut_power(folder / str(number), number))
        damaged += not is_sound(file)
        there = texts(file, "event")
        lost += sum(said not in there for said in kept)
        acknowledged += len(kept)
    return {"count": cuts, "acknowledged": acknowledged, "lost": lost, "damaged": damaged}


def _settings(home: Path) -> Settings:
    return settings_of(home, cortex="adapters.cortex:Cortex")


async def _remember(fusion: Gateway, *numbers: int) -> list[str]:
    said = [f"Harbour {number} is in Lyon, as {number} people say" for number in numbers]
    await fusion.remember([NewMemory(text, scope=WHOSE, kind="note") for text in said])
    return said


async def _deleted(folder: Path, deletions: int) -> dict[str, int]:
    """Deletes the home or its journal while it is open: nothing may be acknowledged after that."""
    folder.mkdir()
    lost = refused = unnamed = 0
    for number, accident in zip(range(deletions), _around(list(ACCIDENTS.values())), strict=False):
        home = folder / str(number) / "home"
        home.mkdir(parents=True, mode=0o700)
        with suppress(FusionError, OSError):
            async with Gateway.open(_settings(home)) as fusion:
                await _remember(fusion, *range(10))
                await fusion.settle()
                await fusion.journal._database.checkpoint()
                await _remember(fusion, 10)
                accident.happen(home)
                for after in range(5):
                    try:
                        await _remember(fusion, 100 + after)
                        lost += 1
                    except FusionError:
                        refused += 1
                unnamed += (await fusion.ready())["ready"]
    return {"count": deletions, "refused": refused, "unnamed": unnamed, "lost": lost}


async def _damaged(folder: Path, damages: int) -> dict[str, int]:
    """Damages a closed journal: the repair names what is missing and restores what a store holds."""
    folder.mkdir()
    lost = recovered = readable = unnamed = 0
    for number, damage in zip(range(damages), _around(list(DAMAGES.values())), strict=False):
        home, older = folder / str(number) / "home", folder / str(number) / "older"
        home.mkdir(parents=True, mode=0o700)
        older.mkdir()
        kept = await _filled(home, older, 20 + 7 * number)
        damage.happen(home, older)
        named = await _is_named(home)
        (done,) = await repair(_settings(home), dry_run=False)
        with closing(sqlite3.connect(home / "journal.sqlite")) as db:
            there = {text for (text,) in db.execute("select text from event where forgotten = 0")}
        missing = len(kept - there)
        lost += max(0, missing - done.missing) if named else missing
        unnamed += not named
        recovered += done.recovered
        readable += done.readable
    return {"count": damages, "unnamed": unnamed, "readable": readable, "recovered": recovered, "lost": lost}


async def _filled(home: Path, older: Path, count: int) -> set[str]:
    """Makes a home as kill -9 leaves it, with its log, and an older copy of its journal."""
    crashed = home.with_name("crashed")
    async with Gateway.open(_settings(home)) as fusion:
        kept = await _remember(fusion, *range(count // 2))
        await fusion.settle()
        await fusion.journal._database.checkpoint()
        shutil.copy(home / "journal.sqlite", older)
        kept += await _remember(fusion, *range(count // 2, count))
        await fusion.settle()
        shutil.copytree(home, crashed)
    for path in home.iterdir():
        if path.is_dir():
            shutil.rmtree(path)
        else:
            path.unlink()
    for path in crashed.iterdir():
        path.rename(home / path.name)
    return set(kept)


async def _is_named(home: Path) -> bool:
    """Whether the home reports a damaged journal: it does not open, or opens with a note and refuses writes."""
    try:
        async with Gateway.open(_settings(home)) as fusion:
            notes = (await fusion.ready())["notes"]
            try:
                await _remember(fusion, 999)
            except StoreDamaged:
                return any("journal" in note for note in notes)
            return False
    except StoreDamaged:
        return True


def _around(values: list[Any]) -> Any:
    while True:
        yield from values
