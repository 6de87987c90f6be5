"""Proposals on their way to a memory: they are checked and redacted when they come, and stored when they are approved.

A proposal becomes a memory by the same `Intake` as everything else, in one transaction with its approval.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import asdict, dataclass, field, replace
from functools import cache
from hashlib import sha256
from typing import Any, Literal

import orjson
from pydantic import TypeAdapter

from fusion.contract import Kind, Trust
from fusion.errors import BadInput
from fusion.ingest.claims import as_stated_by_caller
from fusion.ingest.intake import Acknowledged, Intake, NewMemory
from fusion.journal import Journal, proposals
from fusion.journal.proposals import Decider, Limits, NewProposal, Proposal, ProposalState, Verdict
from fusion.journal.rows import words_key
from fusion.lib.clean import clean
from fusion.lib.redact import redact

MAX_REASON_CHARS = 500
"""maximum characters of the reason of a proposal or of a decision"""


@dataclass(frozen=True, slots=True)
class Proposed:
    """A memory that somebody proposes, why, and the refs of the memories that it follows from."""

    memory: NewMemory
    reason: str = ""
    derived_from: tuple[str, ...] = ()


@dataclass(frozen=True, slots=True)
class Rules:
    """What the settings allow: the most characters of one proposal, and how many may be open."""

    max_chars: int = 8000
    limits: Limits = field(default_factory=Limits)


@dataclass(frozen=True, slots=True)
class Edit:
    """What an approval changes about the draft; fields that are None stay."""

    text: str | None = None
    kind: Kind | None = None
    importance: float | None = None
    trust: Trust | None = None


NO_EDIT = Edit()


@dataclass(frozen=True, slots=True)
class Queued:
    """The outcome of one proposal that was sent.

    ``status``: proposed, or duplicate of an open one in the same words, or skipped because no text was left of it.
    """

    name: str
    status: Literal["proposed", "duplicate", "skipped"]
    redacted: int = 0
    reason: str = ""


async def propose(
    journal: Journal,
    intake: Intake,
    given: Sequence[Proposed],
    by: Decider,
    rules: Rules,
    *,
    tenant: str,
    idempotency_key: str | None = None,
) -> list[Queued]:
    """Enter proposals into the queue, all or none; nothing is stored as a memory.

    Raises BadInput, which names the proposal, and as `fusion.journal.proposals.propose`.
    """
    checked = [_checked(number, one, intake, rules, tenant) for number, one in enumerate(given)]
    guard = None
    if idempotency_key is not None:
        body = sha256(orjson.dumps(["proposals", by.name, list(given)], default=str)).hexdigest()
        guard = (tenant, idempotency_key, body)
    entered = iter(await journal.propose([new for new, _ in checked if new is not None], by, rules.limits, guard))
    outcomes = []
    for new, queued in checked:
        if new is None:
            outcomes.append(queued)
            continue
        number, is_new = next(entered)
        outcomes.append(replace(queued, name=f"p{number}", status="proposed" if is_new else "duplicate"))
    return outcomes


def _checked(
    number: int, one: Proposed, intake: Intake, rules: Rules, tenant: str
) -> tuple[NewProposal | None, Queued]:
    """A proposal as it enters the queue, clean and without secrets; None if no text is left of it."""
    name, memory = f"proposals[{number}]", one.memory
    Intake.check(memory, name)
    if len(memory.text) > rules.max_chars:
        raise BadInput(
            f"{name}.text has {len(memory.text)} characters; [proposals] max_chars allows {rules.max_chars}. Propose "
            "one statement, not a document"
        )
    if memory.trust == "trusted":
        raise BadInput(f"{name}.trust: a proposal is unknown at most; whoever approves it can trust it")
    prepared = intake.prepared(memory, tenant)
    event = prepared.event
    if event is None:
        return None, Queued("", "skipped", reason=prepared.changes)
    kept = as_stated_by_caller(
        replace(memory, text=event.text, speaker=event.speaker, raw_kind=event.raw_kind, scope=event.scope)
    )
    draft = orjson.loads(orjson.dumps(asdict(kept)))
    words = words_key(event.text, event.speaker, event.scope)
    reason = redact(clean(one.reason)[0])[0]
    new = NewProposal(draft, words, event.scope, kept.source, one.derived_from, reason)
    return new, Queued("", "proposed", prepared.redacted, prepared.changes)


def memory_of(proposal: Proposal) -> NewMemory:
    """The memory that a proposal asks for."""
    return memory_from(proposal.draft)


def memory_from(draft: Mapping[str, Any]) -> NewMemory:
    """The memory of a draft. Raises pydantic's ValidationError for what is no draft."""
    return _adapter().validate_python(draft)


@cache
def _adapter() -> TypeAdapter[NewMemory]:
    return TypeAdapter(NewMemory)


async def approve(
    journal: Journal,
    intake: Intake,
    proposal: Proposal,
    verdict: Verdict,
    edit: Edit = NO_EDIT,
) -> Acknowledged:
    """Store the memory of an open proposal, changed by ``edit``, in one transaction with the approval.

    Raises AlreadyDecided, also if somebody else decides at the same time, and as `Intake.remember`.
    """
    evidence = await journal.read(proposals.evidence_of, proposal.id)
    memory = replace(edited(memory_of(proposal), edit), derived_from=evidence)
    around = proposals.approving(proposal, verdict)
    kept = await intake.remember([memory], tenant=proposal.scope.tenant, around=around)
    return kept[0]


def edited(memory: NewMemory, edit: Edit) -> NewMemory:
    """The memory with what an edit changes."""
    stated = memory.stated
    if edit.importance is not None:
        stated = (*(pair for pair in stated if pair[0] != "importance"), ("importance", repr(float(edit.importance))))
    return replace(
        memory,
        text=memory.text if edit.text is None else edit.text,
        kind=edit.kind or memory.kind,
        trust=edit.trust or memory.trust,
        stated=stated,
    )


def importance_of(memory: NewMemory) -> float | None:
    """The importance that a memory states, from 0 to 1."""
    return next((float(value) for name, value in memory.stated if name == "importance"), None)


async def reject(journal: Journal, proposal: Proposal, verdict: Verdict, to: ProposalState = "rejected") -> None:
    """Reject an open proposal, or let it expire. Raises AlreadyDecided."""
    await journal.write(proposals.reject, proposal.id, verdict, to)
