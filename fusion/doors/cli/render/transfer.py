"""Views of imports, backups, restores and migrations."""

from __future__ import annotations

from pathlib import Path
from typing import TYPE_CHECKING

from fusion.doors.cli.plural import counted
from fusion.doors.cli.render.jobs import minute
from fusion.doors.cli.render.tables import say

if TYPE_CHECKING:
    from fusion import wire
    from fusion.gateway.backup import Backup, Restored
    from fusion.gateway.migrate import Migrated
    from fusion.gateway.schema_update import SchemaUpdates

_COUNTS = (
    ("known", "known already"),
    ("blocked", "forgotten here, so left out"),
    ("forgotten", "of this home forgotten, as there"),
    ("deleted", "forgotten there, kept as ids only"),
    ("conflict", "left out: another text has the id here"),
    ("refused", "left out: see below"),
    ("new_refs", "with another ref here"),
    ("observations", "new observations"),
    ("proposals", "new proposals"),
)
"""the counts of an import after the first, in words"""


def imported(report: wire.ImportReport) -> None:
    """Prints what an import did, or would do."""
    verb = "would be imported" if report["dry_run"] else "imported"
    say(f"Export of {minute(report['created_at'])}, by memory-fusion {report['program']}:")
    for one in report["tenants"]:
        whose = "" if len(report["tenants"]) == 1 else f"{one['tenant']}: "
        trust = "their trust is kept" if one["trust"] == "kept" else f"at most {one['trust']}"
        say(f"  {whose}{counted(one['new'], 'new memory')} {verb}, {trust}")
        counts: dict[str, int] = {**one}  # type: ignore[dict-item]
        for name, words in _COUNTS:
            if counts[name]:
                say(f"    {counts[name]:,} {words}")
    for missing in report["missing"]:
        say(f"  missing: {missing}")
    if report["broken"]:
        say(f"  {counted(report['broken'], 'broken line')} left out")
    for fault in report["faults"]:
        say(f"  {fault}")


def backed_up(path: Path, backup: Backup, *, verified: bool) -> None:
    """Prints what a backup holds."""
    tenants = "" if len(backup.journals) == 1 else f" of {counted(len(backup.journals), 'tenant')}"
    made = f" of {minute(backup.created_at.isoformat())}" if verified else ""
    size = f"{backup.bytes / 1e6:.1f} MB"
    say(f"{path}: a sound backup{made} with {counted(backup.memories, 'memory')}{tenants}, {size}.")
    say(f"To restore it: fusion restore {path} --home FOLDER")


def restored(done: Restored, *, refused: bool) -> None:
    """Prints what was restored, what the replaced home had beyond it, and what to do next."""
    when = minute(done.backup.created_at.isoformat())
    say(f"{done.home}: {counted(done.backup.memories, 'memory')} as of {when}. The first start fills the stores.")
    for lost in done.lost.values():
        say(f"  The backup is older than the home that was there: {lost}.")
    if done.kept_as is not None:
        say(f"  That home is kept as {done.kept_as}. To add what it has since:")
        say(f"  fusion import {done.kept_as} --home {done.home}")
    if refused:
        say(f"Its settings reach outside of it. To see what they reach, and allow it: fusion allow --home {done.home}")
    say(f"To serve it: fusion serve --home {done.home}")


def migrated(found: Migrated) -> None:
    """Prints what was moved or would be: every table that has rows, its checksum, the fence, and what to do next."""
    verb = "would move" if found.dry_run else "moved"
    what = f"{counted(found.rows, 'row')} of {counted(len(found.tenants), 'tenant')}, {found.bytes / 1e6:.1f} MB"
    say(f"{found.home}: {verb} {what}, from {found.source} to {found.target}.")
    for tenant in found.tenants:
        say(f"  {tenant.tenant}: {counted(tenant.rows, 'row')}, {tenant.bytes / 1e6:.1f} MB")
        for one in tenant.tables:
            if one.rows:
                say(f"    {one.table:<22}{one.rows:>10,}  {one.checksum}".rstrip())
    if found.fence_s is not None:
        fence = f"Of {found.took_s:.1f} s, nothing could be written for {found.fence_s:.1f}."
        say(f"Every table is equal on both sides. {fence}")
    for kept in found.kept_as:
        say(f"  Kept as {kept}")
    if found.setting:
        say(f"Written into the settings: {found.setting}")
    for note in found.notes:
        say(note)
    if not found.dry_run:
        say(f"To serve it: fusion serve --home {found.home}")


def schemas(found: SchemaUpdates) -> None:
    """Prints the version of each tenant's schema, and what was or would be done to it."""
    verb = "would be migrated" if found.dry_run else "migrated"
    say(f"{found.place}: {counted(len(found.schemas), 'schema')}, {found.due} {verb} to version {found.version}.")
    for one in found.schemas:
        if one.error:
            say(f"  {one.tenant}: stays as it is: {one.error}")
        elif one.due:
            lacked = f", with {counted(len(one.columns), 'new column')}" if one.columns else ""
            say(f"  {one.tenant}: version {one.version}, {verb}{lacked}")
        else:
            say(f"  {one.tenant}: version {one.version}, nothing to do")
    if found.dry_run and found.due and not found.failed:
        say(f"Every step was made and taken back. Gateways of schema {found.oldest} or newer may run meanwhile.")
