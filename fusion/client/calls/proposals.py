"""Requests that propose memories, and those of whoever decides what needs a person."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import TYPE_CHECKING, Any

from fusion import wire
from fusion.client.calls.call import Call, not_none, quoted

if TYPE_CHECKING:
    from datetime import datetime

EXTRACT_S = 300.0
"""seconds to extract statements, which may ask a language model several times"""


def propose(
    proposals: Mapping[str, Any] | Sequence[Mapping[str, Any]], *, idempotency_key: str | None = None
) -> Call[wire.ProposeReply]:
    """Propose one memory or several, each with the fields of `schemas.ProposalBody`; nothing is stored until somebody
    approves it."""
    headers = not_none({"Idempotency-Key": idempotency_key})
    body = proposals if isinstance(proposals, Mapping) else list(proposals)
    return Call("POST", "/v1/store/propose", body, headers=headers)


def proposals(
    *, state: str = "open", limit: int = 20, cursor: str | None = None, **scope: str | None
) -> Call[wire.Proposals]:
    """A page of proposals in a state (``any``: in all), newest first."""
    return Call.get("/v1/proposals", locals())


def proposal(name: str, **scope: str | None) -> Call[wire.Proposal]:
    """One proposal by its name: p12."""
    return Call.get(_proposal(name), scope)


def approve(
    name: str,
    *,
    text: str | None = None,
    kind: str | None = None,
    importance: float | None = None,
    trust: str | None = None,
    why: str = "",
    **scope: str | None,
) -> Call[wire.ProposalDecided]:
    """Store the memory that a proposal asks for, with these changes."""
    changes = {"text": text, "kind": kind, "importance": importance, "trust": trust, "why": why}
    return Call.post(f"{_proposal(name)}/approve", {**changes, **scope})


def reject(name: str, *, why: str = "", **scope: str | None) -> Call[wire.ProposalDecided]:
    """Reject a proposal."""
    return Call.post(f"{_proposal(name)}/reject", {"why": why, **scope})


def extract(
    text: str | None = None,
    *,
    speaker: str | None = None,
    refs: Sequence[str] | None = None,
    document: str | None = None,
    after: datetime | str | None = None,
    before: datetime | str | None = None,
    limit: int | None = None,
    by: str | None = None,
    propose: bool | None = None,
    **scope: str | None,
) -> Call[wire.Extracted]:
    """Candidates for memories in a text, in memories by ref, or in a scope's memories of a document or a time.

    No memory is stored; with ``propose`` the candidates are queued as proposals.
    """
    return Call.post("/v1/store/extract", locals(), timeout_s=EXTRACT_S)


def triage(*, limit: int = 20, **scope: str | None) -> Call[wire.Triage]:
    """What needs a person, the most urgent first, each item with its choices."""
    return Call.get("/v1/triage", locals())


def decide_triage(item: str, choice: str, *, why: str = "", **scope: str | None) -> Call[wire.TriageDecided]:
    """Decide one item of `triage` by one of its choices."""
    return Call.post("/v1/triage", locals())


def _proposal(name: str) -> str:
    return f"/v1/proposals/{quoted(name)}"
