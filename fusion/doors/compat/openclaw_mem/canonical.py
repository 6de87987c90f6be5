"""Canonical exports of openclaw-mem: a folder with the current records as lines, an index, and a manifest with hashes.

It is for clients of openclaw-mem. `fusion export` has everything: earlier versions, states and tombstones.
"""

from __future__ import annotations

import asyncio
import hashlib
import shutil
from collections.abc import AsyncIterator, Mapping
from dataclasses import dataclass, field
from datetime import UTC, datetime
from pathlib import Path
from typing import Any

import orjson

from fusion.errors import BadInput
from fusion.version import VERSION

COLUMNS = ("id", "ts", "kind", "summary", "summary_en", "lang", "tool_name", "detail_json")
LAYOUT = ("manifest.json", "observations.jsonl", "index.json", "provenance.json")
RESTORE = {
    "supported": False,
    "mode": "none",
    "reason": "fusion import restores a home from an export of fusion export; this one has the current records alone",
}
MIGRATION = {"supported": False, "reason": "it is for reading"}
SOURCE = "memory-fusion"


@dataclass(slots=True)
class Summary:
    """What an export has: the number of its records, and their first and last id and time."""

    count: int = 0
    ids: list[int] = field(default_factory=list)
    times: list[str] = field(default_factory=list)

    def add(self, row: Mapping[str, Any]) -> None:
        """Count a record."""
        self.count += 1
        self.ids = _ends([*self.ids, *([] if row["id"] is None else [row["id"]])])
        self.times = _ends([*self.times, *([row["ts"]] if row["ts"] else [])])

    def source(self) -> dict[str, Any]:
        """The part of a manifest that says what is exported."""
        return {
            "db": SOURCE,
            "table_status": "ok",
            "observations_count": self.count,
            "oldest_ts": min(self.times, default=None),
            "newest_ts": max(self.times, default=None),
            "id_range": {"min": min(self.ids, default=None), "max": max(self.ids, default=None)},
            "columns": list(COLUMNS),
        }


def _ends(values: list[Any]) -> list[Any]:
    ordered = sorted(set(values))
    return ordered if len(ordered) < 3 else [ordered[0], ordered[-1]]


def folder_below(root: Path, named: str | None) -> Path:
    """The folder that a request names, below ``root``. Raises BadInput for any other."""
    root = root.resolve()
    try:
        found = (root / (named or "")).resolve()
    except (OSError, ValueError, RuntimeError):
        raise BadInput("export path outside configured export root") from None
    if not found.is_relative_to(root):
        raise BadInput("export path outside configured export root")
    return found


def planned(summary: Summary, name: str, now: datetime) -> dict[str, Any]:
    """The receipt of a dry run: the manifest, and nothing is written."""
    manifest = {
        "schema": "openclaw-mem.pack-capsule.canonical-manifest.v1",
        "generated_at": _stamp(now),
        "contract_mode": "manifest_only_dry_run",
        "source": summary.source(),
        "planned_output": {
            "path": name,
            "layout": list(LAYOUT),
            "archive_written": False,
            "manifest_written": False,
        },
        "restore": RESTORE,
        "migration": MIGRATION,
    }
    return _receipt(manifest, name, dry_run=True)


async def written(rows: AsyncIterator[Mapping[str, Any]], parent: Path, now: datetime) -> dict[str, Any]:
    """Write an export into a new folder below ``parent``, and return its receipt. It is complete or not there."""
    name = name_of(now)
    final = parent / name
    building = parent / f".{name}.part"
    await asyncio.to_thread(building.mkdir, parents=True)
    try:
        summary = await _write_rows(building / LAYOUT[1], rows)
        manifest = await asyncio.to_thread(_seal, building, name, summary, now)
        await asyncio.to_thread(building.rename, final)
    except BaseException:
        await asyncio.to_thread(shutil.rmtree, building, ignore_errors=True)
        raise
    checks = await asyncio.to_thread(_checks, final, manifest["files"])
    return _receipt(manifest, name, dry_run=False) | {
        "artifact_dir": name,
        "manifest_path": f"{name}/{LAYOUT[0]}",
        "verify": {
            "schema": "openclaw-mem.pack-capsule.verify.v1",
            "ok": all(one["ok"] for one in checks),
            "command": "verify",
            "capsule_dir": name,
            "checks": checks,
        },
    }


async def _write_rows(file: Path, rows: AsyncIterator[Mapping[str, Any]]) -> Summary:
    summary = Summary()
    with file.open("xb") as out:
        async for row in rows:
            summary.add(row)
            out.write(orjson.dumps({name: row[name] for name in COLUMNS}) + b"\n")
    return summary


def _seal(folder: Path, name: str, summary: Summary, now: datetime) -> dict[str, Any]:
    """Write the index, the provenance and the manifest."""
    index = {"columns": list(COLUMNS), "count": summary.count, "id_range": summary.source()["id_range"]}
    (folder / LAYOUT[2]).write_bytes(orjson.dumps(index))
    made = {"program": f"memory-fusion {VERSION}", "exported_at": _stamp(now), "command": "export-canonical"}
    (folder / LAYOUT[3]).write_bytes(orjson.dumps(made))
    files = [_file(folder / one) for one in LAYOUT[1:]]
    together = hashlib.sha256("".join(one["sha256"] for one in files).encode()).hexdigest()
    manifest = {
        "schema": "openclaw-mem.canonical-capsule.v1",
        "capsule_version": 1,
        "capsule_id": name,
        "exported_at": _stamp(now),
        "contract_mode": "canonical_export_write",
        "source": {**summary.source(), "table": "observations"},
        "files": files,
        "integrity_hash": f"sha256:{together}",
        "restore": RESTORE,
        "migration": MIGRATION,
    }
    (folder / LAYOUT[0]).write_bytes(orjson.dumps(manifest, option=orjson.OPT_INDENT_2))
    return manifest


def _file(file: Path) -> dict[str, Any]:
    with file.open("rb") as opened:
        digest = hashlib.file_digest(opened, "sha256").hexdigest()
    return {"name": file.name, "sha256": digest, "bytes": file.stat().st_size}


def _checks(folder: Path, files: list[dict[str, Any]]) -> list[dict[str, Any]]:
    """Each file as it is on disk, compared with what the manifest says."""
    checks = []
    for one in files:
        actual = _file(folder / one["name"])
        checks.append(
            {
                "name": one["name"],
                "exists": True,
                "expected_sha256": one["sha256"],
                "actual_sha256": actual["sha256"],
                "expected_bytes": one["bytes"],
                "actual_bytes": actual["bytes"],
                "ok": actual == one,
            }
        )
    return checks


def _receipt(manifest: Mapping[str, Any], name: str, *, dry_run: bool) -> dict[str, Any]:
    return {
        "schema": "openclaw-mem.pack-capsule.export-canonical.v1",
        "ok": True,
        "command": "export-canonical",
        "dry_run": dry_run,
        "db": SOURCE,
        "planned_output": name,
        "manifest": manifest,
        "restore_supported": RESTORE["supported"],
        "restore_message": RESTORE["reason"],
        "archive_written": not dry_run,
        "topology": "unchanged",
    }


def name_of(now: datetime) -> str:
    """The name of an export's folder: its time."""
    return f"{now.astimezone(UTC):%Y%m%dT%H%M%S%fZ}_canonical-v1"


def _stamp(now: datetime) -> str:
    return now.astimezone(UTC).isoformat(timespec="seconds").replace("+00:00", "Z")
