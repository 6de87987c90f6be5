"""What every request that ranks memories by a question says: the question, who asks, and which memories may answer."""

from __future__ import annotations

from dataclasses import KW_ONLY, dataclass, field
from datetime import datetime
from typing import Any

from fusion.contract import EVERYTHING, Asker, Scope, Where
from fusion.recall.engine import FuseRequest


@dataclass(frozen=True, slots=True)
class RecallRequest:
    """A question to the memories of a scope. What is None comes from the recipe."""

    query: str
    scope: Scope = field(default_factory=lambda: Scope(audience="private"))
    _: KW_ONLY
    as_of: datetime | None = None
    known_at: datetime | None = None
    where: Where = EVERYTHING
    backends: tuple[str, ...] | None = None
    recipe: str | None = None
    timeout_ms: int | None = None
    asker: Asker | None = None
    all_users: bool = False
    timezone: str | None = None
    now: datetime | None = None

    def question(self, **more: Any) -> FuseRequest:
        """The question for `fuse`, with ``more`` of its fields. A recipe's gate is for prompts, so it is off."""
        return FuseRequest(
            self.query,
            self.scope,
            as_of=self.as_of,
            known_at=self.known_at,
            where=self.where,
            backends=self.backends,
            recipe=self.recipe,
            timeout_ms=self.timeout_ms,
            asker=self.asker,
            all_users=self.all_users,
            timezone=self.timezone,
            now=self.now,
            gate=False,
            **more,
        )
