"""The cortex's verbs, as `fusion cortex <verb>` and POST /v1/backends/cortex/<verb>.

Verbs that take memories in (store, capture, update, forget) go through the gateway: the journal records them, every
backend gets them, and they survive the loss of this store. The verbs in `adapters.cortex.maintenance_verbs` work on
this store alone.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from typing import TYPE_CHECKING, Annotated, Any, ClassVar, Literal

from adapters.cortex.context import packed
from adapters.cortex.maintenance_verbs import Entities, Export, Import, Lifecycle, Migrate, Reembed, Reindexed, Stats
from adapters.cortex.openclaw_fields import chain, kind_of, listing, shaped
from adapters.cortex.requests import (
    MAX_PAGE,
    draft_of_line,
    newest_version,
    own_memory,
    parse_time,
    query_of,
    readable,
    recall_unforgotten,
    required_content,
    resolve_id,
    store_result,
    stored_memory,
)
from fusion.contract import Event, Scope
from fusion.errors import BadInput, NotFound
from fusion.extension import Call, Lines, Verb
from fusion.lib.clean import is_one_line
from fusion.lib.stated_fields import to_stated
from fusion.lib.words import content_hash

if TYPE_CHECKING:
    from adapters.cortex.cortex import Cortex
    from adapters.cortex.port import Memory

MAX_BUDGET_TOKENS = 100_000
MIN_SIDE_CHARS = 20
"""minimum characters of one side of a captured turn; shorter ones are left out, as in openclaw-cortex"""

Id = Annotated[str, "Its id, eight or more of its first or last characters, or the ref that a block cites: m1z."]
Type = Annotated[str | None, "rule, procedure, fact, episode, preference, …; else as its words say."]
Lasting = Annotated[str | None, "How long it lasts: permanent, project, session (24 h without use) or ttl (720 h)."]
Tags = Annotated[tuple[str, ...], "May be given again."]
Sure = Annotated[float | None, "From 0 to 1."]


@dataclass(frozen=True)
class Recall:
    """The best memories for a message, as text for a prompt within a budget of tokens."""

    asks: ClassVar[Literal[True]] = True

    message: Annotated[str, "What is asked, or talked about."]
    budget: Annotated[int, "Tokens at most."] = 2000
    project: Annotated[str | None, "Boosts memories of this project."] = None
    include_history: Annotated[bool, "Earlier versions, and what has ended, too."] = False
    as_of: Annotated[str | None, "What was true then: 2026-01-31, or with a time, in UTC."] = None

    def __post_init__(self) -> None:
        if not 1 <= self.budget <= MAX_BUDGET_TOKENS:
            raise BadInput(f"budget: from 1 to {MAX_BUDGET_TOKENS} tokens")

    async def __call__(self, cortex: Cortex, call: Call, /) -> Mapping[str, object]:
        asked = query_of(self.message, call, self.project, as_of=self.as_of)
        ranked = await recall_unforgotten(cortex, call, asked, history=self.include_history)
        context = packed([one.memory for one in ranked], self.budget)
        # Counted as used: frequency and recency rank later results.
        await cortex.used([memory.id for memory in context.memories], call.now)
        await call.gateway.used([memory.id for memory in context.memories])
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

    asks: ClassVar[Literal[True]] = True

    message: Annotated[str, "What to look for."]
    limit: Annotated[int, "How many at most."] = 10
    project: Annotated[str | None, "Boosts memories of this project."] = None
    include_history: Annotated[bool, "Earlier versions, and what has ended, too."] = False
    as_of: Annotated[str | None, "What was true then: 2026-01-31, or with a time, in UTC."] = None

    def __post_init__(self) -> None:
        if not 1 <= self.limit <= MAX_PAGE:
            raise BadInput(f"limit: from 1 to {MAX_PAGE}")

    async def __call__(self, cortex: Cortex, call: Call, /) -> Mapping[str, object]:
        asked = query_of(self.message, call, self.project, as_of=self.as_of)
        ranked = (await recall_unforgotten(cortex, call, asked, history=self.include_history))[: self.limit]
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
        return "\n".join(f"{row['score']:.3f}  {listing([row['memory']])}" for row in result["results"]) or "nothing"


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
        return store_result(await call.gateway.remember([self.draft(call)]))

    def draft(self, call: Call) -> Event:
        return Event(
            "",
            required_content(self.content),
            call.now,
            kind=kind_of(self.type),
            scope=Scope(audience="group"),
            valid_to=parse_time("valid_until", self.valid_until),
            supersedes=self.supersedes,
            stated=to_stated(self.lifetime, self.confidence, self.tags),
        )


@dataclass(frozen=True)
class StoreBatch:
    """Remember many things, a line of JSON each: {"content", "type", "scope", "tags", "project", "confidence"}.

    A line that is wrong is named, and then nothing of its batch is kept.
    """

    lines: Annotated[Lines, "One JSON object a line."]

    async def __call__(self, cortex: Cortex, call: Call, /) -> Mapping[str, object]:
        drafts = [draft_of_line(number, line, call) for number, line in enumerate(self.lines, start=1)]
        kept = await call.gateway.remember(drafts)
        return {
            "stored": sum(became in ("stored", "superseded") for _, became in kept),
            "known": sum(became == "duplicate" for _, became in kept),
            "refused": sum(became in ("blocked", "skipped") for _, became in kept),
        }


@dataclass(frozen=True)
class Capture:
    """Remember a turn of a conversation and the facts in it. Capturing it again changes nothing."""

    user_message: Annotated[str, "What the user said."]
    assistant_message: Annotated[str, "What the agent answered."]

    async def __call__(self, cortex: Cortex, call: Call, /) -> Mapping[str, object]:
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

    Whichever version you name, the newest is replaced. A memory that was only imported or migrated cannot be updated:
    store the new text, and forget the old memory.
    """

    id: Id
    content: Annotated[str | None, "The new text; without it only the other options change."] = None
    type: Type = None
    lifetime: Lasting = None
    tags: Tags = ()
    confidence: Sure = None
    valid_until: Annotated[str | None, "When it stops to be true; else as the old version says."] = None

    async def __call__(self, cortex: Cortex, call: Call, /) -> Mapping[str, object]:
        named = await own_memory(cortex, call, self.id)
        versions = await readable(call, await cortex.graph.versions(named.id))
        old = newest_version(named, [one for one in versions if call.scope.admits(one.event.scope)])
        state, begins = old.state, old.event.valid_from
        confidence = state.confidence if self.confidence is None else self.confidence
        draft = Event(
            "",
            old.event.text if self.content is None else required_content(self.content),
            call.now,
            scope=old.event.scope,
            kind=old.event.kind if self.type is None else kind_of(self.type),
            speaker=old.event.speaker,
            trust=old.event.trust,
            origin=old.event.origin,
            # A version that is already valid is replaced from now on; one that begins later still begins then.
            valid_from=begins if begins is not None and begins > call.now else None,
            valid_to=parse_time("valid_until", self.valid_until) or old.event.valid_to,
            supersedes=old.id,
            stated=to_stated(
                self.lifetime or state.lifetime,
                confidence,
                self.tags or [tag for tag in state.tags if is_one_line(tag)],
            ),
        )
        try:
            return store_result(await call.gateway.remember([draft]))
        except NotFound:
            raise NotFound(
                f"{old.id} was imported or migrated and is not in the journal: "
                "store the new text, and forget the old memory"
            ) from None


@dataclass(frozen=True)
class Forget:
    """Forget one memory, in every memory system."""

    id: Id

    async def __call__(self, cortex: Cortex, call: Call, /) -> Mapping[str, object]:
        named = await resolve_id(cortex, call, self.id)
        try:
            return {"deleted": True, "backends": dict(await call.gateway.forget(named))}
        except NotFound:
            # The journal has neither imported or migrated memories, nor forgotten ones that this store may still have.
            memory = await stored_memory(cortex, call, named)
            return {"deleted": await cortex.forget(memory.id, [memory.id]) == "deleted", "backends": {}}


@dataclass(frozen=True)
class Get:
    """Show one memory with everything that is known of it."""

    id: Id

    async def __call__(self, cortex: Cortex, call: Call, /) -> Mapping[str, object]:
        memory = await own_memory(cortex, call, self.id)
        versions = chain(await readable(call, await cortex.graph.versions(memory.id)))
        (shown,) = [one for one in versions if one["id"] == memory.id]
        return {**shown, "entities": memory.extraction.entities, "facts": memory.extraction.facts}


@dataclass(frozen=True)
class History:
    """Every version of a memory, oldest first; also those of a memory that says the same, or contradicts it."""

    id: Id

    async def __call__(self, cortex: Cortex, call: Call, /) -> Mapping[str, object]:
        to_show = [(await own_memory(cortex, call, self.id)).id]
        shown: list[dict[str, Any]] = []
        for id_ in to_show:
            if id_ in {one["id"] for one in shown}:
                continue
            versions = await readable(call, await cortex.graph.versions(id_))
            versions = [one for one in versions if call.scope.admits(one.event.scope)]
            shown += chain(versions)
            to_show += [other for one in versions for other in (one.state.merged_into, one.state.contradicts) if other]
        return {"versions": sorted(shown, key=lambda one: (one["valid_from"], one["id"]))}

    def render(self, result: Any) -> str:
        return listing(result["versions"])


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
        found: list[Memory] = []
        after = self.after
        while len(found) < self.limit and (page := await cortex.graph.page(after, MAX_PAGE, call.scope)):
            found += [memory for memory in await readable(call, page) if self._wants(memory)]
            after = page[-1].id
        found = found[: self.limit]
        return {"memories": [shaped(one) for one in found], "next": found[-1].id if len(found) == self.limit else None}

    def render(self, result: Any) -> str:
        more = f"\nmore: --after {result['next']}" if result["next"] else ""
        return listing(result["memories"]) + more

    def _wants(self, memory: Memory) -> bool:
        return (
            self.type in (None, memory.kind)
            and self.lifetime in (None, memory.state.lifetime)
            and (self.tag is None or self.tag in memory.state.tags)
        )


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
