"""`scale`: what more memories, more gateways and other stores cost, in parts that run by themselves."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from datetime import UTC, datetime
from pathlib import Path
from typing import Any

from benchmarks.figures import commit
from fusion.errors import BadInput

NEED_DATA = ("postgres-evidence",)
"""the parts that need a copy of LoCoMo; without one they are left out, unless they are named"""
PARTS = ("growth", "cluster", "gateways", "journal", "model", "signs", "postgres-store", *NEED_DATA)


def measure(
    only: Sequence[str], sizes: Sequence[int], seconds: float, data: Path | None = None, home: Path | None = None
) -> dict[str, Any]:
    """The figures of the parts that ``only`` names, or of all. Raises BadInput for an unknown one.

    ``sizes`` are the numbers of memories of a home that grows, ``seconds`` is the time of the load on a cluster.
    ``home`` is a folder in which the home that grows is kept.
    """
    if unknown := sorted(set(only) - set(PARTS)):
        raise BadInput(f"--only {','.join(unknown)}: the parts are {', '.join(PARTS)}")
    if data is None and (without := sorted(set(only) & set(NEED_DATA))):
        raise BadInput(f"--only {','.join(without)}: it needs --data, a copy of LoCoMo")
    chosen = [name for name in PARTS if (name in only if only else data is not None or name not in NEED_DATA)]
    parts = _parts(sizes, seconds, data, home)
    found = {name: parts[name]() for name in chosen}
    return {**found, "commit": commit(), "date": datetime.now(UTC).date().isoformat()}


def _parts(
    sizes: Sequence[int], seconds: float, data: Path | None, home: Path | None
) -> Mapping[str, Callable[[], Mapping[str, Any]]]:
    """By name, what measures a part."""

    def growth() -> Mapping[str, Any]:
        from benchmarks import scale_growth

        return scale_growth.run(sizes, home)

    # The others need the extra `postgres`.
    def cluster() -> Mapping[str, Any]:
        from benchmarks import scale_cluster

        return scale_cluster.run(seconds)

    def gateways() -> Mapping[str, Any]:
        from benchmarks import scale_gateways

        return scale_gateways.side_by_side()

    def journal() -> Mapping[str, Any]:
        from benchmarks import scale_gateways

        return scale_gateways.against_sqlite()

    def model() -> Mapping[str, Any]:
        from benchmarks import scale_model

        return scale_model.run()

    def signs() -> Mapping[str, Any]:
        from benchmarks import scale_signs

        return scale_signs.run()

    def store() -> Mapping[str, Any]:
        from benchmarks import scale_postgres

        return scale_postgres.run(sizes)

    def evidence() -> Mapping[str, Any]:
        from benchmarks import scale_postgres

        assert data is not None
        return scale_postgres.evidence(data)

    return dict(zip(PARTS, (growth, cluster, gateways, journal, model, signs, store, evidence), strict=True))
