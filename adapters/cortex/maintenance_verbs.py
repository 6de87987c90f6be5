"""Verbs that look after a cortex's store: entities, lifecycle, stats, reembed, export, import, migrate.

They work on this store alone, except lifecycle, which decides in the journal on the memories that it has.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Mapping
from dataclasses import asdict, dataclass
from datetime import timedelta
from typing import TYPE_CHECKING, Annotated, Any, ClassVar, Literal

from adapters.cortex.lifecycle import Rules, pages, tend
from adapters.cortex.open_store import SQLITE, open_graph, target_of
from adapters.cortex.transfer import export_lines, imported, migrate_all
from adapters.graph.options import WalkOptions
from adapters.reindex import Reindex
from fusion.errors import BadInput, SettingsError
from fusion.extension import Call, Lines

if TYPE_CHECKING:
    from adapters.cortex.cortex import Cortex
    from adapters.cortex.port import EntitySummary


@dataclass(frozen=True)
class Entities:
    """The people, projects, systems and concepts that are mentioned, the most mentioned first."""

    limit: Annotated[int, "How many at most."] = 100
    every: Annotated[bool, "Also what one memory alone has, in small letters: mostly ends of facts."] = False

    async def __call__(self, cortex: Cortex, call: Call, /) -> Mapping[str, object]:
        known = await cortex.graph.entities(call.scope, MAX_ENTITIES)
        shown = [one for one in known if self.every or _is_named(one)]
        return {"entities": shown[: max(1, self.limit)], "unnamed": len(known) - len(shown)}

    def render(self, result: Any) -> str:
        lines = [f"{e['mentions']:>6}  {e['name']} ({e['type']})" for e in result["entities"]]
        if result["unnamed"]:
            lines.append(f"{result['unnamed']:>6}  more, in one memory each and in small letters: --every shows them")
        return "\n".join(lines) or "nothing"


MAX_ENTITIES = 10_000


def _is_named(entity: EntitySummary) -> bool:
    """Whether it is more than the end of one fact, as rules cut it out ("running my own studio"): it has a type, a
    capital or a script without capitals, or a second memory has it too. Recall walks over all of them."""
    return entity.mentions > 1 or entity.type != "concept" or not entity.name.islower()


@dataclass(frozen=True)
class Lifecycle:
    """Expire, decay, retire, consolidate, resolve conflicts, for all memory systems. Run it again at any time.

    It is the run of `fusion lifecycle`. Memories that only this store has, imported or migrated, have theirs here.
    """

    dry_run: Annotated[bool, "Only count; change nothing."] = False
    ttl_hours: Annotated[float | None, "After which a ttl memory expires; else as in fusion.toml: 720."] = None
    idle_hours: Annotated[float | None, "Without use, after which a session memory decays; else 24."] = None
    delete_expired: Annotated[bool, "Delete what expired, in every memory system; this cannot be undone."] = False

    def __post_init__(self) -> None:
        if any(hours is not None and not 0 < hours <= 1e6 for hours in (self.ttl_hours, self.idle_hours)):
            raise BadInput("ttl_hours and idle_hours: give hours, more than 0")

    async def __call__(self, cortex: Cortex, call: Call, /) -> Mapping[str, object]:
        decided = await call.gateway.lifecycle(
            dry_run=self.dry_run,
            ttl_hours=self.ttl_hours,
            idle_hours=self.idle_hours,
            delete_expired=self.delete_expired or None,
        )
        plain = Rules()
        own = await tend(
            cortex.graph,
            cortex.embedder,
            call.now,
            Rules(_hours(self.ttl_hours, plain.ttl), _hours(self.idle_hours, plain.idle)),
            scope=call.scope,
            dry_run=self.dry_run,
            progress=call.progress,
            leave=call.gateway.journalled,
        )
        counts = {name: count + decided[name] for name, count in asdict(own).items() if type(count) is int}
        return {**decided, **counts, "notes": list(dict.fromkeys((*decided["notes"], *own.notes)))}


def _hours(count: float | None, otherwise: timedelta) -> timedelta:
    return otherwise if count is None else max(timedelta(hours=count), timedelta.resolution)


@dataclass(frozen=True)
class Stats:
    """How many memories there are, by type and by scope."""

    async def __call__(self, cortex: Cortex, call: Call, /) -> Mapping[str, object]:
        types: Counter[str] = Counter()
        lifetimes: Counter[str] = Counter()
        async for page in pages(cortex.graph, call.scope):
            types.update(memory.kind for memory in page)
            lifetimes.update(memory.state.lifetime for memory in page)
        return {
            "total_memories": types.total(),
            "by_type": dict(sorted(types.items())),
            "by_scope": dict(sorted(lifetimes.items())),
        }


@dataclass(frozen=True)
class Export:
    """Print every memory as a line of JSON, in the order of their ids: the same store is the same bytes."""

    async def __call__(self, cortex: Cortex, call: Call, /) -> Mapping[str, object]:
        return {
            "exported": await export_lines(cortex.graph, call.scope, call.line, call.progress, call.gateway.forgotten)
        }


@dataclass(frozen=True)
class Import:
    """Take the lines of an export into this store; existing memories stay as they are.

    What was forgotten since the export stays forgotten: store it anew if you want it back.
    """

    lines: Annotated[Lines, "As export printed it."]

    async def __call__(self, cortex: Cortex, call: Call, /) -> object:
        return await imported(cortex.graph, call.scope, self.lines, call.gateway.forgotten)


@dataclass(frozen=True)
class Reembed(Reindex):
    """Move to another embedding model; searches go on with the old one until the new one can answer.

    With a provider that has a server, the texts are sent there: --dry-run says how many. Then name the model in
    fusion.toml, in the table embedder. In a database the old model's vectors are taken away with it.
    """

    async def __call__(self, cortex: Any, call: Call) -> Mapping[str, object]:
        return await super().__call__(cortex.graph, call)


@dataclass(frozen=True)
class Reindexed(Reembed):
    """The same as reembed, by the name that other backends have for it."""


@dataclass(frozen=True)
class Migrate:
    """Bring every memory into another store, and verify it by counts and a checksum.

    The table backends.cortex.migrate_to of fusion.toml has the database's address and login. Memories that are there
    already stay, so an interrupted run continues; memories forgotten since an earlier run are deleted there. If
    something was remembered or forgotten meanwhile, run it once more after you have named the store in fusion.toml and
    before you start the server again.
    """

    operates: ClassVar[Literal[True]] = True
    in_settings: ClassVar[Mapping[str, str]] = {
        name: f"[backends.cortex.migrate_to] {option}"
        for name, option in (
            ("url", "url"),
            ("database", "database"),
            ("login", "user"),
            ("password_env", "password_env"),
        )
    }

    store: Annotated[str, "Where to: sqlite, memgraph or neo4j."]

    async def __call__(self, cortex: Cortex, call: Call, /) -> object:
        now = {"store": SQLITE, **cortex.opening.options}
        try:
            opening = target_of(cortex.opening, self.store)
            if all(opening.options.get(name) == now.get(name) for name in ("store", "url", "database")):
                raise BadInput(f"store: the memories are in that {self.store} store already")
            target = await open_graph(opening, WalkOptions())
        except SettingsError as error:
            raise BadInput(str(error)) from None
        try:
            return await migrate_all(cortex.graph, target, call.progress, call.gateway.forgotten)
        finally:
            await target.close()
