"""The readings of an open home that operators' metrics are made of."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass

from fusion import wire
from fusion.gateway.measures import Measures, ModelUse
from fusion.gateway.parts import TenantParts
from fusion.journal import state


@dataclass(frozen=True, slots=True)
class Readings:
    """Counts since the start, and the state now. Backlogs and breakers are those of the home's owner."""

    measures: Measures
    models: Mapping[tuple[str, str], ModelUse]
    """by name and use: judge, or model for everything else that asks ``[model]``"""
    breakers: Mapping[str, str]
    """the state of each backend's breaker: closed, open, half_open; disabled for a backend without one in use"""
    backlog: Mapping[str, int]
    """deliveries that a backend has not acknowledged yet"""
    given_up: Mapping[str, int]
    """deliveries that were given up"""
    decisions: Mapping[tuple[str, str], int]
    uptime_s: float


class ReadingCalls(TenantParts):
    """Reads what operators count."""

    async def readings(self) -> Readings:
        """The readings of the whole home."""
        deliveries = await self.journal.deliveries()
        backlog = await self.deliverer.backlog()
        return Readings(
            measures=self.measures,
            models=self._models(),
            breakers={g.name: "disabled" if g.disabled is not None else g.breaker.state for g in self.guarded.values()},
            backlog={name: backlog.get(name, 0) for name in self.guarded},
            given_up={name: deliveries[name].failed if name in deliveries else 0 for name in self.guarded},
            decisions=await self.journal.read(state.counts),
            uptime_s=self.health.uptime_s,
        )

    def models_used(self, *, of_all: bool) -> list[wire.ModelUse]:
        """The use of each model since the start, with its cost where the settings have a price.

        It is the use of this tenant, or ``of_all`` tenants.
        """
        prices = self.settings.telemetry.prices
        return [
            {
                "model": model,
                "use": use,
                "calls": dict(counted.calls),
                "tokens_read": counted.read,
                "tokens_written": counted.written,
                "cost": round(counted.cost(prices[model]), 6) if model in prices else None,
            }
            for (model, use), counted in (self._models() if of_all else self._models(self.tenant)).items()
        ]

    def _models(self, tenant: str | None = None) -> Mapping[tuple[str, str], ModelUse]:
        found: dict[tuple[str, str], ModelUse] = {}
        if self.live.judge is not None:
            found[self.live.judge.name, "judge"] = _use(self.measures.judge, tenant)
        if self.model is not None:
            found[self.model.name, "model"] = _use(self.measures.model, tenant)
        return found


def _use(by_tenant: Mapping[str, ModelUse], tenant: str | None) -> ModelUse:
    """The use by one tenant, by all of them without one."""
    return ModelUse.sum(use for name, use in by_tenant.items() if tenant in (None, name))
