"""``fusion <backend> reindex``: move a backend to another embedding model, without a gap.

It works for every backend whose ``index`` can read its texts. The new vectors are built while the old ones answer, and
replace them in one step. After an interruption, even a kill, the same command continues where it stopped.
"""

from __future__ import annotations

import asyncio
import re
from collections.abc import Callable, Mapping
from dataclasses import dataclass
from typing import TYPE_CHECKING, Annotated, Any, ClassVar, Literal, Protocol

from fusion.errors import (
    BackendError,
    BackendTimeout,
    BackendUnreachable,
    BadInput,
    HttpStatus,
    InvalidAnswer,
    RateLimited,
)
from fusion.extension import Call
from fusion.lib.backoff import backoff_s

if TYPE_CHECKING:
    from fusion.contract import Embedder

PAUSE_S, LONGEST_PAUSE_S = 2.0, 60.0
PATIENCE = 8
"""failures in a row after which it gives up: 2 + 4 + … + 60 + 60 s, four minutes"""
LONGEST_WAIT_S = 600.0
_MODEL = re.compile(r"[A-Za-z0-9][A-Za-z0-9._:@/-]{0,199}")
"""a model's name becomes part of some providers' paths"""


class MovableIndex(Protocol):
    """An index that may be movable: `adapters.index.Index`, or an adapter over a database's own index."""

    @property
    def moves(self) -> bool: ...

    @property
    def embedder(self) -> Embedder | None: ...

    async def count_missing(self, embedder: Embedder) -> tuple[int, int]: ...

    async def build(
        self, embedder: Embedder, progress: Callable[[int, int | None], None]
    ) -> Mapping[str, InvalidAnswer]: ...

    async def switch_to(self, embedder: Embedder) -> None: ...


class Indexed(Protocol):
    """A backend, or its store, with such an index."""

    @property
    def index(self) -> MovableIndex: ...


@dataclass(frozen=True)
class Reindex:
    """Move to another embedding model; searches go on with the old one until the new one can answer.

    Which one, the table embedder.next of fusion.toml says, with its address and key; without that table it is another
    model of the provider that the settings name. With a provider that has a server, the texts are sent there: --dry-run
    says how many. A text that the model makes no vector of is found by its words, and asked for again. When all
    backends have been moved, write it into the table embedder: then it is everything's, for good.
    """

    provider: Annotated[str, "One that the settings name, or local; that of embedder.next if left out."] = ""
    model: Annotated[str, "The provider's model; as the settings have it if left out."] = ""
    dimensions: Annotated[int, "Numbers in a vector; as the settings have it if left out."] = 0
    dry_run: Annotated[bool, "Only say how many texts and characters would be sent, at most."] = False

    operates: ClassVar[Literal[True]] = True
    in_settings: ClassVar[Mapping[str, str]] = {
        "url": "[embedder.next] url",
        "api_key_env": "[embedder.next] api_key_env",
        "api_key_file": "[embedder.next] api_key_file",
    }

    def __post_init__(self) -> None:
        if self.dimensions < 0:
            raise BadInput("dimensions: 0 or more")
        if self.model and (not _MODEL.fullmatch(self.model) or ".." in self.model):
            raise BadInput("model: the name of a model, of letters, digits and . _ : @ / -")

    async def __call__(self, backend: Indexed, call: Call) -> Mapping[str, object]:
        index, changes = backend.index, self._changes()
        if not index.moves:
            raise BadInput("this backend's index cannot be moved: it does not know its texts")
        embedder = await call.gateway.embedder(changes)
        before = None if index.embedder is None else index.embedder.identity
        result: dict[str, object] = {"from": before, "to": embedder.identity, "texts": 0, "characters": 0}
        if before == embedder.identity:
            return {**result, "moved": False}
        result["texts"], result["characters"] = await index.count_missing(embedder)
        if self.dry_run:
            return {**result, "moved": False}
        refused = await self._build(index, embedder, call.progress)
        await call.gateway.use_embedder(changes)
        await index.switch_to(embedder)
        why = next((str(fault) for fault in refused.values()), None)
        return {**result, "moved": True, "without": len(refused), "why": why}

    def render(self, result: Any) -> str:
        if result["from"] == result["to"]:
            return f"It has the vectors of {result['to']} already."
        way = f"from {result['from'] or 'words only'} to {result['to']}"
        sent = f"{result['texts']:,} texts, {result['characters']:,} characters"
        if not result["moved"]:
            return f"To move {way}, at most {sent} would be sent."
        without = f" {result['without']:,} of them have no vector and are found by their words: {result['why']}."
        stays = "It stays so until [embedder] names another."
        return f"Moved {way}: {sent}.{without if result['without'] else ''} {stays}"

    async def sleep(self, seconds: float) -> None:
        """Wait before the next request to a provider that failed."""
        await asyncio.sleep(seconds)

    def _changes(self) -> dict[str, object]:
        names = ("provider", "model", "dimensions")
        return {name: getattr(self, name) for name in names if getattr(self, name)}

    async def _build(
        self, index: MovableIndex, embedder: Embedder, progress: Callable[[int, int | None], None]
    ) -> Mapping[str, InvalidAnswer]:
        """Build to the end and retry after transient failures of the provider; raise all others.

        Before the first answer, an unreachable server is reported at once, as a mistake, not waited for.
        """
        failures, best, answered = 0, 0, False

        def on_progress(done: int, total: int | None) -> None:
            nonlocal failures, best, answered
            if done > best:
                failures, best, answered = 0, done, True
            progress(done, total)

        while True:
            try:
                return await index.build(embedder, on_progress)
            except BackendError as error:
                failures += 1
                answered = answered or not isinstance(error, BackendUnreachable)
                if failures > PATIENCE or not answered or not _passes(error):
                    raise
                wait_s = getattr(error, "retry_after_s", None)
                await self.sleep(
                    min(LONGEST_WAIT_S, wait_s if wait_s is not None else backoff_s(failures, PAUSE_S, LONGEST_PAUSE_S))
                )


def _passes(error: BackendError) -> bool:
    """Whether a failure is transient."""
    if isinstance(error, HttpStatus):
        return error.status >= 500
    return isinstance(error, RateLimited | BackendUnreachable | BackendTimeout)
