"""Opens the backends that the settings name; one that cannot be opened is replaced by a placeholder with the reason."""

from __future__ import annotations

import asyncio
import logging
from collections.abc import Mapping, Sequence
from contextlib import AsyncExitStack
from dataclasses import replace

from fusion.contract import Backend, CountsEvents, Describes, Features, Hit, Opening, Query
from fusion.errors import BackendUnreachable, PackageMissing, SettingsError
from fusion.gateway.import_class import resolve, why
from fusion.gateway.parts import DEFAULT, SharedParts
from fusion.gateway.workspace import records_of
from fusion.ingest.verify import Ask
from fusion.journal import Journal
from fusion.lib.breaker import Breaker
from fusion.recall.gather import Bulkhead, GuardedBackend, gather
from fusion.recall.sanitise import ValidatedHits
from fusion.settings import BackendSettings, Settings

log = logging.getLogger(__name__)

OPEN_S = 120.0
"""seconds for one backend to open: it may rebuild a large index, but must not keep the others from opening"""
EMBEDDED = (
    "it keeps memories in this gateway's own folder, where the other gateways of [database] url do not see them: use a "
    "store that is a server, such as adapters.postgres"
)
NOT_OPENED = "it could not be opened"
"""prefix of the reason why a backend is disabled that the settings enable"""


async def open_backends(
    settings: Settings, shared: SharedParts, tenant: str, stack: AsyncExitStack
) -> dict[str, GuardedBackend]:
    """Open all backends at once; ``stack`` closes them, also if one of them raises SettingsError."""
    opened = await asyncio.gather(
        *(_open(name, chosen, settings, shared, tenant) for name, chosen in settings.backends.items()),
        return_exceptions=True,
    )
    backends = [one for one in opened if isinstance(one, GuardedBackend)]
    for guarded in backends:
        stack.push_async_callback(guarded.backend.close)
    for one in opened:
        if isinstance(one, BaseException):
            raise one
    if not backends:
        raise SettingsError("no backend is configured: add a [backends.NAME] table")
    return {guarded.name: guarded for guarded in backends}


async def _open(
    name: str, chosen: BackendSettings, settings: Settings, shared: SharedParts, tenant: str
) -> GuardedBackend:
    """The backend of that name, open or disabled with the reason.

    A backend of the defaults whose optional package is not installed counts as disabled by the user.
    """
    backend: Backend
    disabled: str | None = None
    broken = False
    if not chosen.enabled:
        backend, disabled = UnavailableBackend("disabled"), "disabled in the configuration"
    else:
        folder = settings.home / "backends" / name
        try:
            kind = resolve(chosen.adapter, f"backends.{name}.adapter")
            folder.mkdir(mode=0o700, parents=True, exist_ok=True)
            # A backend that was moved to another embedder uses it for all tenants.
            embedder = await shared.embedders.of(shared.settings.home / "backends" / name)
            opening = Opening(
                name,
                folder,
                chosen.options,
                embedder,
                shared.model,
                tenant,
                settings.notes.folders,
                settings.workspace.writable if tenant == DEFAULT else None,
                records_of(settings.home),
            )
            async with asyncio.timeout(OPEN_S):
                backend = await kind.open(opening)
            if shared.server is not None and backend.features.embedded:
                await backend.close()
                backend, disabled = UnavailableBackend(EMBEDDED), EMBEDDED
            elif not backend.features.tenants and backend.features.tenant != tenant:
                await backend.close()
                backend = UnavailableBackend("it serves another tenant", backend.features)
        except SettingsError as error:
            if name in settings.asked_for or not isinstance(error, PackageMissing):
                raise
            backend, disabled = UnavailableBackend(str(error)), str(error)
            log.warning("backend %s is left out: %s", name, error)
        except Exception as error:  # noqa: BLE001 — a fault of one backend must not affect the others
            reason = why(error)
            backend, disabled, broken = UnavailableBackend(reason), f"{NOT_OPENED}: {reason}", True
            log.error("backend %s could not be opened: %s", name, reason)
    return GuardedBackend(
        name=name,
        backend=backend,
        deadline_s=chosen.deadline_ms / 1000,
        breaker=Breaker(),
        bulkhead=Bulkhead(chosen.max_concurrent),
        fallback_for=chosen.fallback_for,
        disabled=disabled,
        broken=broken,
    )


class UnavailableBackend:
    """Placeholder for a backend that is not open, so that every answer lists it with the reason."""

    def __init__(self, reason: str, features: Features | None = None) -> None:
        self.reason, self.features = reason, features or Features()

    @classmethod
    async def open(cls, opening: Opening) -> UnavailableBackend:
        return cls(f"{opening.name} was not opened")

    async def search(self, query: Query) -> Sequence[Hit]:
        raise BackendUnreachable(self.reason)

    async def close(self) -> None:
        """Nothing is open."""


async def was_emptied(journal: Journal, guarded: GuardedBackend) -> bool:
    """Whether a backend holds nothing though the journal has delivered memories to it."""
    backend = guarded.backend
    if not isinstance(backend, Describes | CountsEvents) or not await journal.outbox.has_delivered(guarded.name):
        return False
    try:
        async with asyncio.timeout(guarded.deadline_s):
            if isinstance(backend, CountsEvents) and (held := await backend.count()) is not None:
                return held == 0
            if not isinstance(backend, Describes):
                return False
            described = await backend.describe()
            return described.items == 0 and not described.degraded  # a backend that is down also reports 0
    except Exception as error:  # noqa: BLE001 — without a description the backend gets new memories only
        log.warning("backend %s does not say what it holds: %s", guarded.name, type(error).__name__)
        return False


def search_function(backends: Mapping[str, GuardedBackend]) -> Ask:
    """A function that returns one backend's hits before any filter; it raises BackendUnreachable if there is no
    answer. They are compared with one memory and not ranked, so their words are not counted."""

    async def ask(name: str, query: Query) -> Sequence[Hit]:
        guarded = replace(backends[name], validated=ValidatedHits(counts_words=False))
        (answer,) = await gather(query, [guarded], guarded.deadline_s)
        if answer.status not in ("ok", "empty"):
            raise BackendUnreachable(f"{name} does not answer ({answer.status}) {answer.detail}".rstrip())
        return answer.hits

    return ask
