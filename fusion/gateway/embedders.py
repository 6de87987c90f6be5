"""The embedders of a home: the one in the table `[embedder]`, and those that single backends were moved to.

A backend that was moved has a record in its folder, `embedder.json`: the table of the settings and the model it was
moved to, and the model of `[embedder]` at that time. Once `[embedder]` names another model, the record is obsolete and
deleted. Addresses and keys are in the settings only.
"""

from __future__ import annotations

import asyncio
import json
import logging
from collections.abc import Awaitable, Callable, Mapping, Sequence
from pathlib import Path
from typing import Any

from fusion.contract import Embedder, ReadsInContext
from fusion.errors import BadInput, SettingsError

log = logging.getLogger(__name__)
RECORD = "embedder.json"
OF_A_PROVIDER = ("provider", "model", "url", "dimensions", "api_key_env", "api_key_file")
"""options that belong to one provider and do not apply to another one"""
OURS, NEXT, LOCAL = "embedder", "next", "local"
"""the table `[embedder]`, the table `[embedder.next]`, and the model on this machine, which needs no table"""
SETTINGS_ONLY = ("url", "api_key_env", "api_key_file")
"""options that only the settings may have; records of earlier versions have them as well"""


class Embedders:
    """All embedders of a home; each is opened once.

    ``configured`` is the embedder of `[embedder]` and ``options`` its options; ``next_options`` are those of
    `[embedder.next]`. ``open`` opens an embedder with other options. ``second`` compares questions with what was found,
    for recipes that ask for it; no backend uses it.
    """

    def __init__(
        self,
        configured: Embedder | None,
        options: Mapping[str, object],
        open: Callable[[Mapping[str, object]], Awaitable[Embedder]],
        next_options: Mapping[str, object] | None = None,
        second: ReadsInContext | None = None,
    ) -> None:
        self.configured, self.second = configured, second
        self._options, self._opener = options, open
        self._tables: dict[str, Mapping[str, object]] = {OURS: options}
        if next_options is not None:
            self._tables = {NEXT: {**options, **next_options}, **self._tables}
        self._others: dict[str, Embedder] = {}
        self._opening = asyncio.Lock()

    async def other(self, changes: Mapping[str, object]) -> Embedder:
        """The embedder that a request selects, as in `_chosen`. Raises BadInput, SettingsError and ModelMissing."""
        return await self._opened(self._chosen(changes)[1])

    def _chosen(self, changes: Mapping[str, object]) -> tuple[dict[str, object], dict[str, object]]:
        """The record of a request's choice, and the options that result from it.

        ``changes`` may name a ``provider`` of the settings (or local) and its ``model`` and ``dimensions``; without a
        provider, `[embedder.next]` is used if it exists, else `[embedder]`. Raises BadInput.
        """
        provider = changes.get("provider")
        own = {name: changes[name] for name in ("model", "dimensions") if changes.get(name)}
        if provider is None:
            table = next(iter(self._tables))
        else:
            named = (name for name, options in self._tables.items() if options.get("provider") == provider)
            table = next(named, LOCAL if provider == LOCAL else "")
        if not table:
            raise BadInput(
                f"provider: texts are sent only where the settings say, and they do not name {provider!r}. Write in "
                f'fusion.toml [embedder.next] provider = "{provider}", with its url and key if it needs them, and '
                "start the server again"
            )
        return {"table": table, **own}, {**self._of_table(table), **own}

    def _of_table(self, table: object) -> dict[str, object]:
        """The options of a table; `LOCAL` has none of a provider. Raises SettingsError if the table is gone."""
        if table == LOCAL:
            return {**{k: v for k, v in self._options.items() if k not in OF_A_PROVIDER}, "provider": LOCAL}
        if not isinstance(table, str) or table not in self._tables:
            raise SettingsError("the table [embedder.next] is gone")
        return dict(self._tables[table])

    def _recorded(self, options: Mapping[str, object]) -> dict[str, object]:
        """The options that result from a record. Raises SettingsError.

        Records of earlier versions contain the options themselves. Their addresses and keys are used only if the
        settings have the same: the record is a file in the home, and must not decide where texts are sent.
        """
        if "table" in options:
            own = {name: options[name] for name in ("model", "dimensions") if name in options}
            return {**self._of_table(options["table"]), **own}
        secret = {name: options[name] for name in SETTINGS_ONLY if options.get(name)}
        for table in self._tables.values() if secret else ():
            if all(table.get(name) == value for name, value in {**secret, "provider": options.get("provider")}.items()):
                return {**table, **options}
        if secret:
            names = " and ".join(secret)
            raise SettingsError(f"its {names} must be in the settings: name it in the table [embedder.next]")
        kept = {k: v for k, v in self._options.items() if "provider" not in options or k not in OF_A_PROVIDER}
        return {**kept, **options}

    async def _opened(self, options: Mapping[str, object]) -> Embedder:
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
        """The embedder of the backend in ``folder``. Raises SettingsError if one that it was moved to is missing."""
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
            return await self._opened(self._recorded(changes))
        except SettingsError as error:
            raise SettingsError(
                f"{folder.name} was moved to another embedder, which is not available: {error}; fix that, or remove "
                f"{file}, and its vectors are made again by [embedder]"
            ) from None

    def use(self, folder: Path, changes: Mapping[str, object]) -> None:
        """Record that the backend in ``folder`` uses the embedder that ``changes`` select, from its next opening on."""
        record = {"instead_of": self._identity, "options": self._chosen(changes)[0]}
        new = folder / f".{RECORD}.new"
        new.write_text(json.dumps(record, indent=1), encoding="utf-8")
        new.replace(folder / RECORD)

    async def forget(self, texts: Sequence[str]) -> None:
        """Remove these texts from the caches of all embedders."""
        for embedder in self._all():
            await embedder.forget(texts)

    async def close(self) -> None:
        for embedder in self._all():
            await embedder.close()

    @property
    def _identity(self) -> str | None:
        return None if self.configured is None else self.configured.identity

    def _all(self) -> list[Embedder]:
        shared = [one for one in (self.configured, self.second) if one is not None]
        return [*shared, *self._others.values()]
