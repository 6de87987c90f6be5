"""`python -m benchmarks fire`: the gateway under attack and in accidents, one module a part.

A part is a module with ``measure(full)``. It returns its figures by the names in `AIMS` and the counts they were made
from, as JSON values. ``full=False`` is a run of some 20 s for tests; ``full=True`` has the published counts. The
attacks and their seeds are in ``tests/fire``, so that tests and figures use the same ones.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from datetime import UTC, datetime
from types import MappingProxyType
from typing import Any, NamedTuple

from benchmarks.datasets import DataError
from benchmarks.figures import commit
from benchmarks.fire import homes, lies, losses, other_users, poison, rollback, secrets, stalls, tenants

Measure = Callable[[bool], Mapping[str, Any]]


class Aim(NamedTuple):
    """The bound of a figure, inclusive: an upper one, or a lower one with ``at_least``."""

    bound: float
    at_least: bool = False

    def met(self, value: float) -> bool:
        """Whether ``value`` is within the bound. NaN never is."""
        return value >= self.bound if self.at_least else value <= self.bound


AIMS: Mapping[str, Aim] = MappingProxyType(
    {
        "hostile_home_escapes": Aim(0),
        "other_uid_reads": Aim(0),
        "acked_lost": Aim(0),
        "tenant_bits": Aim(0),
        "oracle_words": Aim(0),
        "loop_stall_ms": Aim(250),
        "lie_only": Aim(0.05),
        "poison_in_block": Aim(0.05),
        "rank_1": Aim(0),
        "secrets_masked": Aim(0.95, at_least=True),
    }
)

PARTS: Mapping[str, Measure] = MappingProxyType(
    {
        "homes": homes.measure,
        "lies": lies.measure,
        "poison": poison.measure,
        "others": other_users.measure,
        "losses": losses.measure,
        "rollback": rollback.measure,
        "secrets": secrets.measure,
        "stalls": stalls.measure,
        "tenants": tenants.measure,
    }
)


def run(names: Sequence[str] = (), *, full: bool = True, parts: Mapping[str, Measure] = PARTS) -> dict[str, Any]:
    """The figures of the parts named, or of all; ``missed`` lists those that keep out of their bound.

    Raises DataError for a part that there is not.
    """
    for name in names:
        if name not in parts:
            raise DataError(f"fire: there is no part {name!r}; choose from {', '.join(parts)}")
    counts = {name: dict(parts[name](full)) for name in names or parts}
    figures = {figure: counted.pop(figure) for counted in counts.values() for figure in AIMS if figure in counted}
    return {
        **figures,
        "missed": [figure for figure, value in figures.items() if not AIMS[figure].met(value)],
        "counts": counts,
        "full": full,
        "date": datetime.now(UTC).date().isoformat(),
        "commit": commit(),
    }
