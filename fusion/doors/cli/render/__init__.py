"""Views: what the command line prints for people. Markup in texts is printed literally."""

from fusion.doors.cli.render.answers import found, fused, receipt, receipts
from fusion.doors.cli.render.audit import accesses
from fusion.doors.cli.render.comparisons import compared, stored_comparisons, verdict
from fusion.doors.cli.render.episodes import episode
from fusion.doors.cli.render.home import (
    LABELS,
    backends,
    discovered,
    findings,
    growth,
    held_back,
    links,
    repairs,
    status,
)
from fusion.doors.cli.render.jobs import job_log, jobs, layers, lifecycle, minute, ran
from fusion.doors.cli.render.memories import (
    audit,
    batches,
    decision,
    decisions,
    forgettings,
    ingested,
    memories,
    memory,
    released,
    said_again,
    to_forget,
    undone,
    with_versions,
)
from fusion.doors.cli.render.proposals import decided, extracted, proposal, proposals, proposed
from fusion.doors.cli.render.tables import size
from fusion.doors.cli.render.transfer import backed_up, imported, migrated, restored, schemas
from fusion.doors.cli.render.triage import triage, triage_decided, triage_item

__all__ = [
    "LABELS",
    "accesses",
    "audit",
    "backed_up",
    "backends",
    "batches",
    "compared",
    "decided",
    "decision",
    "decisions",
    "discovered",
    "episode",
    "extracted",
    "findings",
    "forgettings",
    "found",
    "fused",
    "growth",
    "held_back",
    "imported",
    "ingested",
    "job_log",
    "jobs",
    "layers",
    "lifecycle",
    "links",
    "memories",
    "memory",
    "migrated",
    "minute",
    "proposal",
    "proposals",
    "proposed",
    "ran",
    "receipt",
    "receipts",
    "released",
    "repairs",
    "restored",
    "said_again",
    "schemas",
    "size",
    "status",
    "stored_comparisons",
    "to_forget",
    "triage",
    "triage_decided",
    "triage_item",
    "undone",
    "verdict",
    "with_versions",
]
