"""The replies of triage: what needs a person, and what was decided."""

from __future__ import annotations

from typing import Literal

from typing_extensions import TypedDict

TriageKind = Literal[
    "proposal",
    "conflict",
    "quarantined",
    "low_trust",
    "incident",
    "failed_delivery",
    "failed_job",
    "overdue_plan",
    "dead_letters",
]


class TriageChoice(TypedDict):
    """One way to decide an item: its name, the key in a terminal, what it does, and the command that does it."""

    name: str
    key: str
    does: str
    command: str


class TriageSide(TypedDict):
    """A memory that an item is about."""

    ref: str
    text: str
    at: str
    trust: str


class TriageItem(TypedDict):
    """Something that needs a person. Without ``choices``, ``command`` shows more of it, and it is fixed elsewhere.

    ``POST /v1/triage`` with ``id`` and the name of a choice decides it.
    """

    id: str
    kind: TriageKind
    urgency: int
    """100 is the most urgent"""
    why: str
    text: str
    at: str | None
    sides: list[TriageSide]
    choices: list[TriageChoice]
    command: str


class Triage(TypedDict):
    """What needs a person, the most urgent first; ``counts`` are by kind, and ``more`` says that the limit cut some."""

    items: list[TriageItem]
    counts: dict[str, int]
    more: bool


class TriageDecided(TypedDict):
    """The result of a choice. ``decision`` is its name in the log, which undoes it.

    It is null if nothing changed, and for dead letters, which are kept in the file ``kept_in``.
    """

    id: str
    choice: str
    decision: str | None
    ref: str | None
    writes_performed: bool
    """whether a memory was stored"""
    kept_in: str | None
    """the file with the dead letters that were set aside, in the folder of the others"""
