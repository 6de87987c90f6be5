"""What the cortex can be told to do, as `fusion cortex <verb>` and POST /v1/backends/cortex/<verb>.

What comes in from outside (store, capture, update, forget) goes through the gateway: it is journalled, reaches the
other memory systems too, and survives the loss of this store. What is the cortex's own (lifecycle, import, migrate)
works on its store.
"""

from __future__ import annotations

import json
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, replace
from datetime import datetime, timedelta
from typing import TYPE_CHECKING, Annotated, Any, ClassVar, Literal

from adapters.reindex import Reindex
from fusion.contract import Event, Query, Scope
from fusion.errors import BadInput, NotFound, SettingsError
from fusion.extension import Call, Lines, Verb

if TYPE_CHECKING:
    from adapters.cortex.cortex import Cortex
    from adapters.cortex.port import Known, Memory
    from adapters.cortex.rank import Ranked

MAX_PAGE = 500
MAX_BUDGET = 100_000
MAX_MESSAGE_CHARS = 4000
"""of a message are looked at: what somebody asks about stands at its beginning"""
DEADLINE_S = 10.0
"""of a recall that somebody waits for; the gateway's own questions have theirs"""
SHORT = 8
"""characters of an id, from its beginning or end, that may stand for it: as many as are printed where it is cut"""
AMBIGUOUS = 5
"""ids that an error names"""
MIN_SIDE_CHARS = 20
"""of what either side said: openclaw-cortex captures no shorter turn"""

Id = Annotated[str, "Its id, eight or more of its first or last characters, or the ref that a block cites: m1z."]
Type = Annotated[str | None, "rule, procedure, fact, episode, preference, …; else as its words say."]
Lasting = Annotated[str | None, "How long it lasts: permanent, project, session (24 h without use) or ttl (720 h)."]
Tags = Annotated[tuple[str, ...], "May be given again."]
Sure = Annotated[float | None, "From 0 to 1."]


@dataclass(frozen=True)
class Recall:
    """What a prompt should know: the best memories for a message, as text within a budget of tokens."""

    message: Annotated[str, "What is asked, or talked about."]
    budget: Annotated[int, "Tokens at most."] = 2000
    project: Annotated[str | None, "Boosts memories of this project."] = None
    include_history: Annotated[bool, "Earlier versions, and what has ended, too."] = False
    as_of: Annotated[str | None, "What was true then: 2026-01-31, or with a time, in UTC."] = None

    def __post_init__(self) -> None:
        if not 1 <= self.budget <= MAX_BUDGET:
            raise BadInput(f"budget: from 1 to {MAX_BUDGET} tokens")

    async def __call__(self, cortex: Cortex, call: Call, /) -> Mapping[str, object]:
        from adapters.cortex.context import packed
        from adapters.cortex.shapes import shaped

        asked = query_of(self.message, call, self.project, as_of=self.as_of)
        ranked = await _recalled(cortex, call, asked, history=self.include_history)
        context = packed([one.memory for one in ranked], self.budget)
        # What is packed is used: the seed counts it, and ranks by it the next time.
        await cortex.used([memory.id for memory in context.memories], call.now)
        return {
            "context": context.text,
            "memory_count": len(context.memories),
            "tokens_used": context.tokens,
            "memories": [shaped(memory) for memory in context.memories],
        }

    def render(self, result: Any) -> str:
        return str(result["context"]) or "nothing"


@dataclass(frozen=True)
class Search:
    """The best memories for a message, each with its score and what that is made of. Counts nothing as used."""

    message: Annotated[str, "What to look for."]
    limit: Annotated[int, "How many at most."] = 10
    project: Annotated[str | None, "Boosts memories of this project."] = None
    include_history: Annotated[bool, "Earlier versions, and what has ended, too."] = False
    as_of: Annotated[str | None, "What was true then: 2026-01-31, or with a time, in UTC."] = None

    def __post_init__(self) -> None:
        if not 1 <= self.limit <= MAX_PAGE:
            raise BadInput(f"limit: from 1 to {MAX_PAGE}")

    async def __call__(self, cortex: Cortex, call: Call, /) -> Mapping[str, object]:
        from adapters.cortex.shapes import shaped

        asked = query_of(self.message, call, self.project, as_of=self.as_of)
        ranked = (await _recalled(cortex, call, asked, history=self.include_history))[: self.limit]
        return {
            "results": [
                {
                    "memory": shaped(one.memory),
                    "score": round(one.score, 6),
                    "factors": one.factors,
                    "penalty": one.penalty,
                    "path": one.path,
                }
                for one in ranked
            ]
        }

    def render(self, result: Any) -> str:
        from adapters.cortex.shapes import told

        return "\n".join(f"{row['score']:.3f}  {told([row['memory']])}" for row in result["results"]) or "nothing"


@dataclass(frozen=True)
class Store:
    """Remember one thing, in every memory system."""

    content: Annotated[str, "What to remember."]
    type: Type = None
    lifetime: Lasting = None
    tags: Tags = ()
    confidence: Sure = None
    supersedes: Annotated[str | None, "The id of the memory that this one replaces."] = None
    valid_until: Annotated[str | None, "When it stops to be true: 2026-01-31, or with a time, in UTC."] = None

    async def __call__(self, cortex: Cortex, call: Call, /) -> Mapping[str, object]:
        return _one(await call.gateway.remember([self.draft(call)]))

    def draft(self, call: Call) -> Event:
        from adapters.cortex.retention import stating
        from adapters.cortex.shapes import kind_of

        return Event(
            "",
            _content(self.content),
            call.now,
            kind=kind_of(self.type),
            scope=Scope(audience="group"),
            valid_to=_moment("valid_until", self.valid_until),
            supersedes=self.supersedes,
            stated=stating(self.lifetime, self.confidence, self.tags),
        )


@dataclass(frozen=True)
class StoreBatch:
    """Remember many things, a line of JSON each: {"content", "type", "scope", "tags", "project", "confidence"}.

    A line that is wrong is named, and then nothing of its batch is kept.
    """

    lines: Annotated[Lines, "One JSON object a line."]

    async def __call__(self, cortex: Cortex, call: Call, /) -> Mapping[str, object]:
        drafts = [_drafted(number, line, call) for number, line in enumerate(self.lines, start=1)]
        kept = await call.gateway.remember(drafts)
        return {
            "stored": sum(became in ("stored", "superseded") for _, became in kept),
            "known": sum(became == "duplicate" for _, became in kept),
            "refused": sum(became in ("blocked", "skipped") for _, became in kept),
        }


@dataclass(frozen=True)
class Capture:
    """Remember a turn of a conversation: what was said, and what can be learnt from it. The same again is known."""

    user_message: Annotated[str, "What the user said."]
    assistant_message: Annotated[str, "What the agent answered."]

    async def __call__(self, cortex: Cortex, call: Call, /) -> Mapping[str, object]:
        from fusion.lib.words import content_hash

        said = {"user": self.user_message, "assistant": self.assistant_message}
        # Both sides in one session on one day are one exchange, however often it is sent; "yes" to something else is
        # another.
        exchange = content_hash("\0".join((f"{call.now:%Y-%m-%d}", *said.values())))
        drafts = [
            Event(
                "",
                text,
                call.now,
                kind="turn",
                speaker=who,
                source="capture",
                revision=f"{who} {exchange}",
                origin="owner" if who == "user" else "agent",
            )
            for who, text in said.items()
            if len(text.strip()) >= MIN_SIDE_CHARS
        ]
        kept = await call.gateway.remember(drafts) if drafts else ()
        ids = [event_id for event_id, became in kept if became in ("stored", "superseded")]
        known = sum(became == "duplicate" for _, became in kept)
        return {"stored": len(ids), "known": known, "ids": ids}


@dataclass(frozen=True)
class Update:
    """Replace a memory by a new version of it; the old one stays in its history.

    The newest version is replaced, whichever of them is named. What came by import or migration alone cannot be: store
    what holds now, and forget the old.
    """

    id: Id
    content: Annotated[str | None, "What holds now; without it only what is said beside changes."] = None
    type: Type = None
    lifetime: Lasting = None
    tags: Tags = ()
    confidence: Sure = None
    valid_until: Annotated[str | None, "When it stops to be true; else as the old version says."] = None

    async def __call__(self, cortex: Cortex, call: Call, /) -> Mapping[str, object]:
        from adapters.cortex.retention import stating
        from adapters.cortex.shapes import kind_of

        named = await mine(cortex, call, self.id)
        versions = await _unforgotten(call, await cortex.graph.versions(named.id))
        old = _newest(named, [one for one in versions if call.scope.admits(one.event.scope)])
        state, begins = old.state, old.event.valid_from
        confidence = state.confidence if self.confidence is None else self.confidence
        draft = Event(
            "",
            old.event.text if self.content is None else _content(self.content),
            call.now,
            scope=old.event.scope,
            kind=old.event.kind if self.type is None else kind_of(self.type),
            speaker=old.event.speaker,
            trust=old.event.trust,
            origin=old.event.origin,
            # What holds already holds in its new form from now on; what is yet to begin still begins then.
            valid_from=begins if begins is not None and begins > call.now else None,
            valid_to=_moment("valid_until", self.valid_until) or old.event.valid_to,
            supersedes=old.id,
            stated=stating(self.lifetime or state.lifetime, confidence, self.tags or state.tags),
        )
        try:
            return _one(await call.gateway.remember([draft]))
        except NotFound:
            raise NotFound(
                f"{old.id} came by import or migration, and the journal does not know it: "
                "store what holds now, and forget the old one"
            ) from None


@dataclass(frozen=True)
class Forget:
    """Forget one memory, in every memory system."""

    id: Id

    async def __call__(self, cortex: Cortex, call: Call, /) -> Mapping[str, object]:
        named = await _meant(cortex, call, self.id)
        try:
            return {"deleted": True, "backends": dict(await call.gateway.forget(named))}
        except NotFound:
            # The journal does not know what was imported or migrated: then this store alone has it. Nor does it find
            # what was forgotten before, which a store that comes from elsewhere may have still.
            memory = await _held(cortex, call, named)
            return {"deleted": await cortex.forget(memory.id, [memory.id]) == "deleted", "backends": {}}


@dataclass(frozen=True)
class Get:
    """Show one memory with everything that is known of it."""

    id: Id

    async def __call__(self, cortex: Cortex, call: Call, /) -> Mapping[str, object]:
        from adapters.cortex.shapes import chain

        memory = await mine(cortex, call, self.id)
        versions = chain(await _unforgotten(call, await cortex.graph.versions(memory.id)))
        (shown,) = [one for one in versions if one["id"] == memory.id]
        return {**shown, "entities": memory.extraction.entities, "facts": memory.extraction.facts}


@dataclass(frozen=True)
class History:
    """Every version of a memory, oldest first; of one that says the same as another, those of the other too."""

    id: Id

    async def __call__(self, cortex: Cortex, call: Call, /) -> Mapping[str, object]:
        from adapters.cortex.shapes import chain

        memory = await mine(cortex, call, self.id)
        shown = []
        for id_ in filter(None, (memory.id, memory.state.merged_into)):
            versions = await _unforgotten(call, await cortex.graph.versions(id_))
            shown += chain([one for one in versions if call.scope.admits(one.event.scope)])
        return {"versions": sorted(shown, key=lambda one: (one["valid_from"], one["id"]))}

    def render(self, result: Any) -> str:
        return _told(result["versions"])


@dataclass(frozen=True)
class List:
    """List memories, oldest first, a page at a time."""

    limit: Annotated[int, "How many a page, at most 500."] = 50
    after: Annotated[str, "The id that the page before ended with."] = ""
    type: Annotated[str | None, "Only this type."] = None
    lifetime: Annotated[str | None, "Only this lifetime."] = None
    tag: Annotated[str | None, "Only with this tag."] = None

    def __post_init__(self) -> None:
        if not 1 <= self.limit <= MAX_PAGE:
            raise BadInput(f"limit: from 1 to {MAX_PAGE}")

    async def __call__(self, cortex: Cortex, call: Call, /) -> Mapping[str, object]:
        from adapters.cortex.shapes import shaped

        found: list[Memory] = []
        after = self.after
        while len(found) < self.limit and (page := await cortex.graph.page(after, MAX_PAGE, call.scope)):
            found += [memory for memory in await _unforgotten(call, page) if self._wants(memory)]
            after = page[-1].id
        found = found[: self.limit]
        return {"memories": [shaped(one) for one in found], "next": found[-1].id if len(found) == self.limit else None}

    def render(self, result: Any) -> str:
        more = f"\nmore: --after {result['next']}" if result["next"] else ""
        return _told(result["memories"]) + more

    def _wants(self, memory: Memory) -> bool:
        from adapters.cortex.shapes import type_of

        return (
            self.type in (None, type_of(memory))
            and self.lifetime in (None, memory.state.lifetime)
            and (self.tag is None or self.tag in memory.state.tags)
        )


@dataclass(frozen=True)
class Entities:
    """The people, projects, systems and concepts that are mentioned, the most mentioned first."""

    limit: Annotated[int, "How many at most."] = 100
    every: Annotated[bool, "Also what one memory alone has, in small letters: mostly ends of facts."] = False

    async def __call__(self, cortex: Cortex, call: Call, /) -> Mapping[str, object]:
        known = await cortex.graph.entities(call.scope, MOST_ENTITIES)
        shown = [one for one in known if self.every or _is_named(one)]
        return {"entities": shown[: max(1, self.limit)], "unnamed": len(known) - len(shown)}

    def render(self, result: Any) -> str:
        lines = [f"{e['mentions']:>6}  {e['name']} ({e['type']})" for e in result["entities"]]
        if result["unnamed"]:
            lines.append(f"{result['unnamed']:>6}  more, in one memory each and in small letters: --every shows them")
        return "\n".join(lines) or "nothing"


MOST_ENTITIES = 10_000


def _is_named(entity: Known) -> bool:
    """Whether it is more than the end of one fact, as rules cut it out ("running my own studio"): it has a type, a
    capital or a script without capitals, or a second memory has it too. Recall walks over all of them."""
    return entity.mentions > 1 or entity.type != "concept" or not entity.name.islower()


@dataclass(frozen=True)
class Lifecycle:
    """Expire, decay, retire, consolidate, resolve conflicts; nothing is deleted. Run it again at any time."""

    dry_run: Annotated[bool, "Only count; change nothing."] = False
    ttl_hours: Annotated[float, "After which a memory of the lifetime ttl expires."] = 720.0
    idle_hours: Annotated[float, "Without use, after which a session memory decays."] = 24.0

    def __post_init__(self) -> None:
        if not (0 < self.ttl_hours <= 1e6 and 0 < self.idle_hours <= 1e6):
            raise BadInput("ttl_hours and idle_hours: give hours, more than 0")

    async def __call__(self, cortex: Cortex, call: Call, /) -> object:
        from adapters.cortex.lifecycle import Rules, tend

        rules = Rules(timedelta(hours=self.ttl_hours), timedelta(hours=self.idle_hours))
        return await tend(
            cortex.graph,
            cortex.embedder,
            call.now,
            rules,
            scope=call.scope,
            dry_run=self.dry_run,
            progress=call.progress,
        )


@dataclass(frozen=True)
class Stats:
    """How many memories there are, by type and by scope."""

    async def __call__(self, cortex: Cortex, call: Call, /) -> Mapping[str, object]:
        from collections import Counter

        from adapters.cortex.lifecycle import pages
        from adapters.cortex.shapes import type_of

        types: Counter[str] = Counter()
        lifetimes: Counter[str] = Counter()
        async for page in pages(cortex.graph, call.scope):
            types.update(type_of(memory) for memory in page)
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
        from adapters.cortex.transfer import exported

        return {"exported": await exported(cortex.graph, call.scope, call.line, call.progress, call.gateway.forgotten)}


@dataclass(frozen=True)
class Import:
    """Take the lines of an export into this store; what is there already stays as it is.

    What was forgotten since the export stays forgotten: store it anew if you want it back.
    """

    lines: Annotated[Lines, "As export printed it."]

    async def __call__(self, cortex: Cortex, call: Call, /) -> object:
        from adapters.cortex.transfer import imported

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

    Where a database is, and as whom to log on, the table backends.cortex.migrate_to of fusion.toml says. What is there
    already stays, so broken off it goes on where it stopped; what was forgotten since goes from there too. Run it once
    more after you have named the store in fusion.toml and before you start the server again, if something was
    remembered or forgotten meanwhile.
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
        from adapters.cortex.stores import SQLITE, open_graph, target_of
        from adapters.cortex.transfer import migrated
        from adapters.graph import Walking

        now = {"store": SQLITE, **cortex.opening.options}
        try:
            opening = target_of(cortex.opening, self.store)
            if all(opening.options.get(name) == now.get(name) for name in ("store", "url", "database")):
                raise BadInput(f"store: the memories are in that {self.store} store already")
            target = await open_graph(opening, Walking())
        except SettingsError as error:
            raise BadInput(str(error)) from None
        try:
            return await migrated(cortex.graph, target, call.progress, call.gateway.forgotten)
        finally:
            await target.close()


# What they share -------------------------------------------------------------------------------------------------


async def mine(cortex: Cortex, call: Call, id: str) -> Memory:
    """A memory of the caller's, as `_meant`.

    Raises ``NotFound``, the same for another's, a forgotten one and one that never was.
    """
    memory = await _held(cortex, call, await _meant(cortex, call, id))
    if await call.gateway.forgotten([memory.id]):
        raise NotFound(f"there is no memory {id!r} here")
    return memory


async def _meant(cortex: Cortex, call: Call, said: str) -> str:
    """The id that somebody means by it, its first or last characters as they are printed, or the ref of a block; what
    it is itself where nothing of the caller's is called that. Raises ``BadInput`` where several are."""
    if await cortex.graph.get([said]):
        return said
    if len(said) >= SHORT:
        found = await _unforgotten(call, await cortex.graph.named(said, call.scope, MAX_PAGE))
        if len(found) > 1:
            several = ", ".join(memory.id for memory in found[:AMBIGUOUS]) + (", …" if len(found) > AMBIGUOUS else "")
            raise BadInput(f"id: {said!r} may be any of {len(found)}, write more of it: {several}")
        if found:
            return found[0].id
    try:
        own = await call.gateway.ids(said)
    except NotFound:
        return said
    return own[0] if own else said


def _newest(named: Memory, versions: Sequence[Memory]) -> Memory:
    """The last of its versions; what contradicts it supersedes it too, and is no version of it."""
    newest, line = named, {named.id}
    for one in versions:
        before = one.event.supersedes
        if before in line and one.state.contradicts != before:
            newest = one
            line.add(one.id)
    return newest


async def _unforgotten(call: Call, memories: Sequence[Memory]) -> list[Memory]:
    """Those that were not forgotten: a store that was down then, or was filled from elsewhere, may have more."""
    gone = await call.gateway.forgotten([memory.id for memory in memories])
    return [memory for memory in memories if memory.id not in gone]


async def _recalled(cortex: Cortex, call: Call, asked: Query, *, history: bool) -> list[Ranked]:
    found = await cortex.recall(asked, history=history)
    gone = await call.gateway.forgotten([one.memory.id for one in found])
    return [one for one in found if one.memory.id not in gone]


async def _held(cortex: Cortex, call: Call, id: str) -> Memory:
    """As `mine`, forgotten or not."""
    memory = (await cortex.graph.get([id])).get(id)
    if memory is None or not call.scope.admits(memory.event.scope):
        raise NotFound(f"there is no memory {id!r} here")
    return memory


def query_of(message: str, call: Call, project: str | None, *, as_of: str | None = None) -> Query:
    """What is asked of the cortex itself. Raises ``BadInput``."""
    if not message.strip():
        raise BadInput("message: say what to recall")
    scope = replace(call.scope, project=project or call.scope.project)
    text = message[:MAX_MESSAGE_CHARS]
    until = f"{as_of}T23:59:59.999999" if as_of and len(as_of) == len("2026-01-31") else as_of
    return Query(text, scope, call.now, MAX_PAGE, DEADLINE_S, _moment("as_of", until))


def draft_of(sent: Mapping[str, object], call: Call) -> Event:
    """What seed 000's clients send to be remembered. Raises ``BadInput``, which names the field."""
    from adapters.cortex.retention import stating

    allowed: dict[str, type | tuple[type, ...]] = {
        "content": str,
        "type": str,
        "scope": str,
        "tags": list,
        "project": str,
        "confidence": (int, float),
    }
    for name, value in sent.items():
        if name not in allowed:
            raise BadInput(f"there is no field {name!r}, only: {', '.join(allowed)}")
        if value is not None and (not isinstance(value, allowed[name]) or isinstance(value, bool)):
            raise BadInput(f"{name}: that is not what stands there")
    values: Any = sent
    plain = Store(values.get("content") or "", type=values.get("type")).draft(call)
    scope = Scope(audience="group", project=values.get("project"))
    tags = texts("tags", values.get("tags") or ())
    said = stating(values.get("scope"), values.get("confidence"), tags, called="scope")
    return Event("", plain.text, call.now, scope=scope, kind=plain.kind, stated=said)


def texts(name: str, values: Sequence[object]) -> tuple[str, ...]:
    """A list of texts. Raises ``BadInput`` where there is something else in it."""
    found = tuple(value for value in values if isinstance(value, str))
    if len(found) != len(values):
        raise BadInput(f"{name}: a list of texts")
    return found


def _drafted(number: int, line: str, call: Call) -> Event:
    sent = _object(number, line)
    try:
        return draft_of(sent, call)
    except BadInput as error:
        raise BadInput(f"line {number}: {error}") from None


def _object(number: int, line: str) -> Mapping[str, object]:
    try:
        found = json.loads(line)
    except ValueError as error:
        raise BadInput(f"line {number} is not JSON: {error}") from None
    if not isinstance(found, dict):
        raise BadInput(f"line {number} is not a JSON object")
    return found


def _content(text: str) -> str:
    if not text.strip():
        raise BadInput("content: say what to remember")
    return text


def _moment(name: str, text: str | None) -> datetime | None:
    from datetime import UTC

    if text is None:
        return None
    try:
        found = datetime.fromisoformat(text)
    except ValueError:
        raise BadInput(f'{name}: write ISO 8601, "2026-01-31" or "2026-01-31T09:30:00Z"') from None
    return found.astimezone(UTC) if found.tzinfo else found.replace(tzinfo=UTC)


def _one(kept: Any) -> Mapping[str, object]:
    """What became of one draft, as the seed says it."""
    ((event_id, became),) = kept
    return {"id": event_id, "stored": became in ("stored", "superseded", "duplicate"), "status": became}


def _told(memories: Any) -> str:
    from adapters.cortex.shapes import told

    return told(memories)


VERBS: Mapping[str, type[Verb]] = {
    "recall": Recall,
    "search": Search,
    "store": Store,
    "store-batch": StoreBatch,
    "capture": Capture,
    "update": Update,
    "forget": Forget,
    "get": Get,
    "list": List,
    "history": History,
    "entities": Entities,
    "lifecycle": Lifecycle,
    "stats": Stats,
    "reembed": Reembed,
    "reindex": Reindexed,
    "export": Export,
    "import": Import,
    "migrate": Migrate,
}
