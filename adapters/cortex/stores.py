"""Where the cortex keeps its memories: in one SQLite file, or in a database over Bolt.

[backends.cortex]
store = "neo4j"                     # or "memgraph"; "sqlite", which needs no server, unless it is said
url = "bolt://127.0.0.1:7687"       # and what else `adapters.bolt.options` has: user, password_env, database …
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import replace

from adapters.bolt import DIALECTS, Bolt, Server
from adapters.bolt.options import NAMES
from adapters.cortex.bolt import BoltGraph
from adapters.cortex.port import Graph
from adapters.cortex.sqlite import SqliteGraph
from adapters.graph import Walking
from fusion.contract import NAME_PLACEHOLDER, Opening
from fusion.errors import SettingsError

SQLITE = "sqlite"
MIGRATE_TO = "migrate_to"
"""the table of the store that `fusion cortex migrate` moves to, with the options that the store itself has"""
STORES = (SQLITE, *DIALECTS)


async def open_graph(opening: Opening, walking: Walking) -> Graph:
    """The store that the options choose. A database is not asked before the first question. Raises ``SettingsError``
    for a wrong option, ``StoreDamaged`` for a corrupt or newer file."""
    where = f"backends.{opening.name}"
    store = _store(opening.options, where)
    server = _server(opening.options, store, where)
    if server is None:
        return await SqliteGraph.open(opening, walking)
    return BoltGraph(Bolt(server, DIALECTS[store]), walking, opening.embedder)


def without_store(opening: Opening) -> Opening:
    """The opening with the options that are not about the store."""
    return replace(
        opening, options={k: v for k, v in opening.options.items() if k not in ("store", MIGRATE_TO, *NAMES)}
    )


def target_of(opening: Opening, store: str) -> Opening:
    """The opening of the store to move to; a database is the one that `MIGRATE_TO` says. Raises ``SettingsError``."""
    table = opening.options.get(MIGRATE_TO)
    where = f"[backends.{opening.name}.{MIGRATE_TO}]"
    options: dict[str, object] = {"store": _store({"store": store}, f"backends.{opening.name}.{MIGRATE_TO}")}
    if store != SQLITE:
        if not isinstance(table, Mapping) or table.get("store") != store:
            raise SettingsError(
                f'store: only the settings say where {store} is. Write in fusion.toml {where} store = "{store}", '
                'url = "bolt://…" and what else it needs (database, user, password_env), and start the server again'
            )
        options = dict(table)
    return replace(opening, options=options)


def verify(options: Mapping[str, object]) -> None:
    """Raises ``SettingsError`` for a wrong option, and where what the chosen store needs is not installed."""
    where = f"backends.{NAME_PLACEHOLDER}"
    _server(options, _store(options, where), where)


def _server(options: Mapping[str, object], store: str, where: str) -> Server | None:
    """Where the database is; None for a file of our own."""
    if store == SQLITE:
        if strange := [name for name in NAMES if name in options]:
            raise SettingsError(f'[{where}] {", ".join(strange)}: only with store = "memgraph" or "neo4j"')
        return None
    Server.verify()
    return Server.of(options, where)


def _store(options: Mapping[str, object], where: str) -> str:
    store = options.get("store", SQLITE)
    if store not in STORES:
        raise SettingsError(f"[{where}] store = {store!r} must be one of {', '.join(STORES)}")
    return str(store)
