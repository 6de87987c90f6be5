"""Lines of openclaw-mem's observations, taken into the episodes as its commands ``ingest`` and ``harvest`` do."""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass, field
from datetime import UTC, datetime
from itertools import islice
from pathlib import Path
from typing import Any

from fusion.client import AsyncClient
from fusion.contract import Scope
from fusion.doors.compat.openclaw_mem.episodes import GLOBAL, number_of
from fusion.doors.compat.openclaw_mem.ledger import envelope
from fusion.errors import BadInput
from fusion.lib.heuristic_v1 import heuristic_score
from fusion.lib.importance import label_of
from fusion.lib.observation import NewObservation
from fusion.lib.observation_lines import BadRecord, foreign_observation

SOURCE = Path("~/.openclaw/memory/openclaw-mem-observations.jsonl")
"""the file that openclaw-mem's plugin writes"""
BATCH = 100
"""observations that are sent at once"""
SHOWN_IDS = 50
LABELS = ("must_remember", "nice_to_have", "ignore", "unknown")


@dataclass(slots=True)
class Ingested:
    """What became of lines so far. A line that is no observation is counted, and costs itself alone."""

    seen: int = 0
    rejected: int = 0
    duplicates: int = 0
    ids: list[int | None] = field(default_factory=list)
    labels: Counter[str] = field(default_factory=Counter)
    rejections: list[dict[str, Any]] = field(default_factory=list)
    """the line and the reason of the first that were rejected"""

    def reject(self, line: int, reason: str) -> None:
        """Count a line that is no observation, or that was not stored."""
        self.rejected += 1
        if len(self.rejections) < SHOWN_IDS:
            self.rejections.append({"line": line, "reason": reason})

    def counts(self) -> dict[str, Any]:
        """The counts that both commands print; the rules grade every observation."""
        return {
            "total_seen": self.seen,
            "graded_filled": len(self.ids),
            "skipped_existing": 0,
            "skipped_disabled": 0,
            "scorer_errors": 0,
            "label_counts": {label: self.labels[label] for label in LABELS},
            "rejected": self.rejected,
            "duplicates": self.duplicates,
            "rejections": self.rejections,
        }


async def ingested(client: AsyncClient, owner: Scope, lines: Iterable[bytes], name: str) -> dict[str, Any]:
    """Take in lines, and return what ``ingest`` prints. ``name`` is part of the ids of records that have none."""
    done = Ingested()
    await _take(client, owner, lines, name, done)
    return {"inserted": len(done.ids), "ids": done.ids[:SHOWN_IDS], **done.counts()}


async def harvested(client: AsyncClient, owner: Scope, source: Path, archive: Path | None) -> dict[str, Any]:
    """Take in a file, and return what ``harvest`` prints.

    As there, the file is first renamed, so that its writer begins a new one, and in the end moved to ``archive``, or
    deleted. One with lines that are no observations stays, renamed, and the next harvest reads it again.
    """
    left_over = sorted(source.parent.glob(f"{source.name}.*.processing"))
    rotated = source.is_file()
    files = [*left_over, *([_rotated(source)] if rotated else [])]
    done, kept = Ingested(), list[str]()
    for file in files:
        rejected = done.rejected
        with file.open("rb") as lines:
            await _take(client, owner, lines, source.name, done)
        if done.rejected > rejected:
            kept.append(file.name)
        elif archive is None:
            file.unlink()
        else:
            archive.mkdir(mode=0o700, parents=True, exist_ok=True)
            file.rename(archive / file.name)
    return envelope(
        "harvest",
        "v0",
        ok=not kept,
        ingested=len(done.ids),
        processed_files=len(files),
        files=[file.name for file in files],
        kept=kept,
        recovered=bool(left_over),
        rotated=rotated,
        source=str(source),
        archive="deleted" if archive is None else str(archive),
        embedded=0,
        **done.counts(),
    )


def _rotated(source: Path) -> Path:
    """The file under the name that it has while it is read."""
    return source.rename(f"{source}.{datetime.now(UTC):%Y%m%d_%H%M%S_%f}.processing")


async def _take(client: AsyncClient, owner: Scope, lines: Iterable[bytes], name: str, done: Ingested) -> None:
    full = ((number, line) for number, text in enumerate(lines, start=1) if (line := text.strip()))
    while batch := list(islice(full, BATCH)):
        done.seen += len(batch)
        found = []
        for number, line in batch:
            try:
                found.append((number, foreign_observation(line, owner, name)))
            except BadRecord as reason:
                done.reject(number, str(reason))
        await _send(client, found, done)


async def _send(client: AsyncClient, found: Sequence[tuple[int, NewObservation]], done: Ingested) -> None:
    """Append observations. Of a batch that is refused, each is sent alone."""
    if not found:
        return
    try:
        kept = (await client.append_episodes([_draft(one) for _, one in found]))["episodes"]
    except BadInput as reason:
        if len(found) == 1:
            done.reject(found[0][0], str(reason))
            return
        for alone in found:
            await _send(client, [alone], done)
        return
    for (number, one), entry in zip(found, kept, strict=True):
        if entry["status"] == "stored":
            done.ids.append(number_of(entry["ref"]))
            done.labels[label_of(heuristic_score(one.summary).score)] += 1
        elif entry["status"] == "duplicate":
            done.duplicates += 1
        else:
            done.reject(number, entry["reason"])


def _draft(one: NewObservation) -> Mapping[str, Any]:
    """The request that appends an observation. One that says nothing of whose it is belongs to the scope ``global``."""
    scope = one.scope
    ids = {name: getattr(scope, name) for name in ("user_id", "agent_id", "session_id", "project")}
    draft = {
        **(ids if any(ids.values()) else {"project": GLOBAL}),
        "type": one.type,
        "summary": one.summary,
        "payload": one.payload or None,
        "refs": one.refs,
        "ts": None if one.ts is None else one.ts.isoformat(),
        "event_id": one.event_id,
        "tool": one.tool,
        "lane": one.lane,
        "kind": one.raw_kind,
        "source": one.source,
    }
    return {name: value for name, value in draft.items() if value is not None}
