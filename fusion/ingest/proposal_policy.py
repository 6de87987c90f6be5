"""Policies: rules of the settings that approve or reject proposals without a person.

Without rules nothing is decided. Of several that fit, the first decides, and the decision names it. A rule never
approves what somebody forgot before, what replaces another memory, or what is quarantined.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from datetime import datetime, timedelta
from typing import Literal

from fusion.contract import Kind, Trust
from fusion.ingest.proposals import importance_of, memory_of
from fusion.journal.proposals import Proposal


@dataclass(frozen=True, slots=True)
class Policy:
    """One rule: the proposals that it is for, and what becomes of them. An empty condition fits every proposal.

    ``sources`` are beginnings of sources, ``keys`` the names of the proposers' API keys. Without ``trust`` it is for
    proposals of unknown trust alone.
    """

    name: str
    action: Literal["approve", "reject"]
    kinds: tuple[Kind, ...] = ()
    sources: tuple[str, ...] = ()
    keys: tuple[str, ...] = ()
    trust: tuple[Trust, ...] = ()
    min_importance: float | None = None
    max_importance: float | None = None
    min_age: timedelta = timedelta(0)

    @property
    def who(self) -> str:
        """Its name in the log of decisions."""
        return f"policy {self.name}"


def deciding(policies: Sequence[Policy], proposal: Proposal, now: datetime) -> Policy | None:
    """The first policy that decides on an open proposal; None leaves it to a person."""
    return next((one for one in policies if _fits(one, proposal, now) and _may(one, proposal)), None)


def _may(policy: Policy, proposal: Proposal) -> bool:
    memory = memory_of(proposal)
    needs_person = proposal.forgotten_before or memory.supersedes is not None or memory.trust == "quarantined"
    return policy.action == "reject" or not needs_person


def _fits(policy: Policy, proposal: Proposal, now: datetime) -> bool:
    memory = memory_of(proposal)
    importance = importance_of(memory)
    return (
        now - proposal.at >= policy.min_age
        and (not policy.kinds or memory.kind in policy.kinds)
        and (not policy.sources or (memory.source or "").startswith(policy.sources))
        and (not policy.keys or proposal.proposed_by in policy.keys)
        and memory.trust in (policy.trust or ("unknown",))
        and (policy.min_importance is None or (importance is not None and importance >= policy.min_importance))
        and (policy.max_importance is None or (importance is not None and importance <= policy.max_importance))
    )
