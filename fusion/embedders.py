"""The embedders of a home: the one that `[embedder]` names, and those that single backends were moved to.

A backend that was moved has `embedder.json` in its folder: which one, and which `[embedder]` named at that time. As
soon as `[embedder]` names another, the configuration is right again and the record goes.
"""

from __future__ import annotations

import asyncio
import json
import logging
from collections.abc import Awaitable, Callable, Mapping, Sequence
from pathlib import Path
from typing import Any

from fusion.contract import Embedder
from fusion.errors import SettingsError

log = logging.getLogger(__name__)
RECORD = "embedder.json"
OF_A_PROVIDER = ("provider", "model", "url", "dimensions", "api_key_env", "api_key_file")
"""what is another provider's as soon as the provider is another"""


class Embedders:
    """``configured`` is the one of `[embedder]`, ``options`` are its own; ``open`` opens one with other options."""

    def __init__(
        self,
        configured: Embedder | None,
        options: Mapping[str, object],
        open: Callable[[Mapping[str, object]], Awaitable[Embedder]],
    ) -> None:
        self.configured = configured
        self._options, self._opener = options, open
        self._others: dict[str, Embedder] = {}
        self._opening = asyncio.Lock()

    async def other(self, changes: Mapping[str, object]) -> Embedder:
        """The one of `[embedder]` with these options in place of its own. Raises SettingsError and ModelMissing."""
        kept = {k: v for k, v in self._options.items() if "provider" not in changes or k not in OF_A_PROVIDER}
        options = {**kept, **changes}
        if self.configured is not None and options == self._options:
            return self.configured
        name = json.dumps(options, sort_keys=True, default=str)
        async with self._opening:
            if name not in self._others:
                self._others[name] = await self._opener(options)
        found = self._others[name]
        same = self.configured is not None and self.configured.identity == found.identity
        return self.configured if same and self.configured is not None else found

    async def of(self, folder: Path) -> Embedder | None:
        """That of the backend in ``folder``. Raises SettingsError where one that it was moved to cannot be had."""
        file = folder / RECORD
        try:
            record: Any = json.loads(file.read_text(encoding="utf-8"))
            changes, instead_of = dict(record["options"]), record["instead_of"]
        except FileNotFoundError:
            return self.configured
        except (OSError, ValueError, KeyError, TypeError) as error:
            log.warning("%s is not used: %s", file, type(error).__name__)
            return self.configured
        if instead_of != self._identity:
            file.unlink()
            return self.configured
        try:
            return await self.other(changes)
        except SettingsError as error:
            told = f"{folder.name} was moved to another embedder, which cannot be had: {error}; mend that, or remove"
            raise SettingsError(f"{told} {file}, and its vectors are made again by [embedder]") from None

    def settle(self, folder: Path, changes: Mapping[str, object]) -> None:
        """From now on the backend in ``folder`` has the embedder of these changes."""
        record = {"instead_of": self._identity, "options": dict(changes)}
        new = folder / f".{RECORD}.new"
        new.write_text(json.dumps(record, indent=1), encoding="utf-8")
        new.replace(folder / RECORD)

    async def forget(self, texts: Sequence[str]) -> None:
        """Removes these texts from the caches of all of them."""
        for embedder in self._all():
            await embedder.forget(texts)

    async def close(self) -> None:
        for embedder in self._all():
            await embedder.close()

    @property
    def _identity(self) -> str | None:
        return None if self.configured is None else self.configured.identity

    def _all(self) -> list[Embedder]:
        return [*([] if self.configured is None else [self.configured]), *self._others.values()]
