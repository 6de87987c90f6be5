"""Choose and open the cortex's store: one SQLite file, or a database over Bolt.

[backends.cortex]
store = "neo4j"                     # or "memgraph"; default "sqlite", which needs no server
url = "bolt://127.0.0.1:7687"       # and what else `adapters.bolt.options` has: user, password_env, database …
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import replace

from adapters.bolt.dialects import DIALECTS
from adapters.bolt.driver import Bolt
from adapters.bolt.options import NAMES, Server
from adapters.cortex.bolt import BoltGraph
from adapters.cortex.port import Graph
from adapters.cortex.sqlite import SqliteGraph
from adapters.graph.options import WalkOptions
from fusion.contract import NAME_PLACEHOLDER, Opening
from fusion.errors import SettingsError

SQLITE = "sqlite"
MIGRATE_TO = "migrate_to"
"""the settings table of the store that `fusion cortex migrate` copies to; it has the same options"""
STORE_OPTIONS = ("store", MIGRATE_TO, *NAMES)
"""the options of the store, in the table of the cortex"""
STORES = (SQLITE, *DIALECTS)


async def open_graph(opening: Opening, walking: WalkOptions) -> Graph:
    """Open the store that the options choose; a database is contacted only at the first query.

    Raises ``SettingsError`` for a wrong option, ``StoreDamaged`` for a corrupt or newer file.
    """
    where = f"backends.{opening.name}"
    store = _store(opening.options, where)
    server = _server(opening.options, store, where)
    if server is None:
        return await SqliteGraph.open(opening, walking)
    return BoltGraph(Bolt(server, DIALECTS[store]), walking, opening.embedder)


def target_of(opening: Opening, store: str) -> Opening:
    """The opening of the store to copy to; a database's address comes from `MIGRATE_TO`. Raises ``SettingsError``."""
    table = opening.options.get(MIGRATE_TO)
    where = f"[backends.{opening.name}.{MIGRATE_TO}]"
    options: dict[str, object] = {"store": _store({"store": store}, f"backends.{opening.name}.{MIGRATE_TO}")}
    if store != SQLITE:
        if not isinstance(table, Mapping) or table.get("store") != store:
            raise SettingsError(
                f"store: the address of {store} comes from the settings. Write in fusion.toml {where} "
                f'store = "{store}", url = "bolt://…" and, if needed, database, user and password_env; then restart '
                "the server"
            )
        options = dict(table)
    return replace(opening, options=options)


def verify(options: Mapping[str, object]) -> None:
    """Raises ``SettingsError`` for a wrong option, and where what the chosen store needs is not installed."""
    where = f"backends.{NAME_PLACEHOLDER}"
    _server(options, _store(options, where), where)


def _server(options: Mapping[str, object], store: str, where: str) -> Server | None:
    """The database's address; None for the SQLite store."""
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
