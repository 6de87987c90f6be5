"""`hostile_home_escapes`: attacks by homes of cloned repositories that did more than nothing."""

from __future__ import annotations

from concurrent.futures import ThreadPoolExecutor
from typing import Any

from tests.fire.homes import allowed_cases, attack, attack_allowed, cases

WORKERS = 2
"""processes at once"""
SHORT = 4
"""in short, one attack of so many of those that take each home once"""


def measure(full: bool) -> dict[str, Any]:
    """Tries every hostile home with every command, hook and client; and what must fail even if the home is allowed.

    In short some homes, with a door each: `tests/fire/test_homes.py` has others.
    """
    share = 1 if full else SHORT
    tried, allowed = cases(full)[::share], allowed_cases(full)[::share]
    with ThreadPoolExecutor(WORKERS) as pool:
        found = list(pool.map(lambda case: attack(*case), tried))
        more = list(pool.map(lambda case: attack_allowed(*case), allowed))
    named = [f"{home} by {door.name} ({way})" for home, door, way in tried]
    named += [f"{home} by {door.name} (allowed)" for home, door in allowed]
    escapes = [f"{case}: {what}" for case, what in zip(named, [*found, *more], strict=True) if what]
    return {
        "hostile_home_escapes": len(escapes),
        "attempts": len(tried) + len(allowed),
        "homes": len({case[0] for case in tried}),
        "doors": len({case[1].name for case in tried}),
        "escapes": escapes[:20],
    }
