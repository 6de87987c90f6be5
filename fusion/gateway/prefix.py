"""The calls on an open home for stable prefixes."""

from __future__ import annotations

from collections.abc import Sequence

from fusion import wire
from fusion.contract import Scope
from fusion.gateway.in_tenant import in_tenant
from fusion.gateway.owners import require_owner
from fusion.gateway.parts import DEFAULT, TenantParts
from fusion.gateway.prefix_windows import Compressed, View
from fusion.journal import prefix
from fusion.journal.prefix import Window
from fusion.lib.budget import estimate_tokens
from fusion.lib.importance import label_of
from fusion.lib.listing import record_ref


class PrefixCalls(TenantParts):
    """The calls of an open home for stable prefixes, for one tenant."""

    __slots__ = ()

    @in_tenant
    async def prefix(self, scope: Scope, *, all_users: bool = False) -> wire.Prefix:
        """The stable prefix of what a scope's sessions said: its observations and its raw buffer.

        The first call for a scope begins its window. Raises NobodyNamed as `fuse` does.
        """
        await require_owner(self.journal, scope, all_users)
        return self._shown_prefix(await self.prefixes.read(scope))

    def _shown_prefix(self, view: View) -> wire.Prefix:
        window, shown = view.window, view.shown
        rate = self.prefixes.hit_rate(window)
        return {
            "observations": [
                {
                    "recordRef": record_ref(one.record.ref),
                    "at": one.record.event.began.isoformat(),
                    "importance": one.importance,
                    "label": label_of(one.importance),
                    "text": one.text,
                }
                for one in view.observations
            ],
            "raw_buffer": [
                {
                    "recordRef": record_ref(turn.record.ref),
                    "at": turn.record.event.began.isoformat(),
                    "session_id": turn.record.event.scope.session_id,
                    "line": line.rstrip("\n"),
                }
                for turn, line in zip(view.turns, shown.raw_buffer, strict=True)
            ],
            "text": shown.text,
            "stable_chars": len(shown.stable),
            "version": window.version,
            "hash": shown.hash,
            "changed_at": window.changed_at.isoformat(),
            "tokens": estimate_tokens(shown.text),
            "prefix_hit_rate": None if rate is None else round(rate, 4),
            "turns": self.prefixes.turns(window),
            "rewrites": window.rewrites,
            "left_out": view.left_out,
        }

    @in_tenant
    async def prefix_windows(self, tenant: str = DEFAULT) -> Sequence[Window]:
        """All stable prefixes of a tenant, the one that was asked for last first."""
        return await self.journal.read(prefix.windows)

    @in_tenant
    async def observe_prefix(
        self, tenant: str, window: Window, *, dry_run: bool = False, use_model: bool = True
    ) -> Compressed:
        """Compress the raw buffer of a stable prefix if it is above its high-water mark."""
        return await self.prefixes.observe(window, dry_run=dry_run, use_model=use_model)

    @in_tenant
    async def reflect_prefix(self, tenant: str, window: Window, *, dry_run: bool = False) -> int:
        """Drop the observations of least worth of a stable prefix; returns how many."""
        return await self.prefixes.reflect(window, dry_run=dry_run)

    async def prefix_counts(self) -> wire.PrefixCounts:
        """How many stable prefixes there are, and their mean hit rate."""
        found = await self.journal.read(prefix.counts)
        rate = None if found.hit_rate is None else round(found.hit_rate, 4)
        return {
            "windows": found.windows,
            "turns": found.turns,
            "rewrites": found.rewrites,
            "prefix_hit_rate": rate,
        }
