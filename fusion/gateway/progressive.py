"""Progressive recall on an open home: an index of hits, then what stands around one, then full texts.

Each step is bounded and says what the next one would cost, so that a reader pays only for what it opens. None of them
counts as use: a memory is used when it is in a block or a pack.
"""

from __future__ import annotations

from collections.abc import Awaitable, Callable, Iterable, Mapping, Sequence
from contextlib import suppress
from dataclasses import asdict, dataclass
from typing import Any, Literal, NamedTuple, cast

import orjson

from fusion import wire
from fusion.contract import Hit, Query, Scope
from fusion.errors import NobodyAnswered, NotFound
from fusion.gateway.answering import Packing
from fusion.gateway.forget_by_query import external_items
from fusion.gateway.in_tenant import in_tenant
from fusion.gateway.packing import ContextPacking
from fusion.gateway.recall_request import RecallRequest
from fusion.journal import external_refs
from fusion.journal.external_refs import ExternalItem, is_external
from fusion.journal.near_in_time import near_in_time
from fusion.lib.budget import clip_to_tokens, estimate_tokens
from fusion.lib.ids import parse_short_ref
from fusion.lib.listing import plain_ref, record_ref
from fusion.recall.engine import Outcome
from fusion.recall.filter import JOURNAL, Admitted, Record, admit_one
from fusion.recall.pack import Block, Ranking
from fusion.recall.recall_steps import (
    INDEX_TOKENS,
    RECORDS_TOKENS,
    SPAN,
    TIMELINE_TOKENS,
    Entry,
    Index,
    entry_of,
    index_of,
    nearest_within,
)

DEADLINE_S = 1.0
"""seconds that a backend has to find what stands around one of its own items"""
MORE = 3
"""how many times as many memories are read around one as are shown, since the state of some hides them"""
By = Literal["document", "session", "time"]


@dataclass(frozen=True, slots=True)
class IndexRequest(RecallRequest):
    """A question that an index of hits answers, within ``limit`` hits and ``budget_tokens`` of their lines."""

    limit: int = 20
    budget_tokens: int = INDEX_TOKENS


@dataclass(frozen=True, slots=True)
class TimelineRequest:
    """Which memories to show in what stands around them: so many ``before`` and ``after`` each."""

    refs: tuple[str, ...]
    scope: Scope
    before: int = SPAN
    after: int = SPAN
    budget_tokens: int = TIMELINE_TOKENS


@dataclass(frozen=True, slots=True)
class RecordsRequest:
    """Which memories to read in full, within ``budget_tokens``."""

    refs: tuple[str, ...]
    scope: Scope
    budget_tokens: int = RECORDS_TOKENS


class _Near(NamedTuple):
    """A memory near another one; ``record`` is None for an item of a backend."""

    ref: str
    hit: Hit
    record: Record | None = None

    @property
    def entry(self) -> Entry:
        return entry_of(self.ref, self.hit, self.record)


class _Window(NamedTuple):
    """A memory with what stands around it, in reading order, and what connects them."""

    anchor: str
    entries: Sequence[Entry]
    by: By


class ProgressiveRecall(ContextPacking):
    """The calls of an open home that recall step by step, for one tenant."""

    __slots__ = ()

    @in_tenant
    async def index(self, request: IndexRequest) -> wire.IndexReply:
        """The hits of all backends for a question, one line each, best first. Raises as `fuse`."""

        async def packer(ranking: Ranking) -> Block:
            return index_of(ranking, request.limit, request.budget_tokens)

        fused, outcome = await self._answered(request.question(), Packing(packer, lambda outcome: outcome))
        found = outcome.block
        assert isinstance(found, Index)  # noqa: S101 - made above
        entries = [hit.entry for hit in found.hits]
        self._note_external(entries, outcome, request.scope)
        hits = [{**_row(hit.entry), "score": hit.score, "probability": hit.probability} for hit in found.hits]
        return {
            "hits": cast(list[wire.IndexHit], hits),
            "left_out": found.left_out,
            "tokens": sum(entry.cost for entry in entries),
            "next": await self._cost_of_timeline(entries, request.scope),
            "abstained": None if entries else fused.abstained,
            "degraded": fused.degraded,
            "backends": cast(list[wire.BackendAnswer], [*fused.backends]),
            "coverage": cast(wire.Coverage, dict(fused.coverage)),
            "receipt_id": fused.receipt_id,
            "took_ms": fused.took_ms,
            "notes": [*fused.notes],
        }

    @in_tenant
    async def timeline(self, request: TimelineRequest) -> wire.TimelineReply:
        """What stands around memories: in their document or session, else in time.

        Each memory has an equal share of the budget; of a window that is larger the nearest stay.
        """
        refs = _distinct(request.refs)
        share = request.budget_tokens // max(1, len(refs))
        missing: list[str] = []
        anchors: set[str] = set()
        shown: dict[str, tuple[Entry, By]] = {}
        left_out = 0
        for ref in refs:
            try:
                window = await self._window(ref, request)
            except NotFound:
                missing.append(ref)
                continue
            anchors.add(window.anchor)
            kept = nearest_within(window.entries, window.anchor, share)
            left_out += len(window.entries) - len(kept)
            for entry in kept:
                shown.setdefault(entry.ref, (entry, window.by))
        rows = [{**_row(entry), "anchor": entry.ref in anchors, "by": by} for entry, by in shown.values()]
        return {
            "entries": cast(list[wire.TimelineEntry], rows),
            "missing": missing,
            "left_out": left_out,
            "tokens": sum(entry.cost for entry, _ in shown.values()),
            "next": _step("get", shown, sum(entry.tokens for entry, _ in shown.values())),
        }

    async def _cost_of_timeline(self, entries: Sequence[Entry], scope: Scope) -> wire.NextStep | None:
        """What the timeline of the best hit would cost; None without hits."""
        if not entries:
            return None
        request = TimelineRequest((entries[0].ref,), scope)
        with suppress(NotFound):
            window = await self._window(entries[0].ref, request)
            kept = nearest_within(window.entries, window.anchor, request.budget_tokens)
            return _step("timeline", request.refs, sum(entry.cost for entry in kept))
        return _step("get", request.refs, entries[0].tokens)

    async def _window(self, ref: str, request: TimelineRequest) -> _Window:
        """One memory with what stands around it. Raises NotFound."""
        if is_external(ref):
            return await self._window_of_item(ref, request)
        record = await self.journal.find(ref, request.scope)
        if record.trust == "quarantined":
            raise NotFound(f"{ref} is quarantined")
        event = record.event
        span = max(request.before, request.after)
        by: By = "session" if event.place is None else "document"
        near: Sequence[Record] = (await self.journal.neighbours([event.event_id], span)).get(event.event_id, ())
        if not near:
            by = "time"
            near = await self.journal.read(near_in_time, record, request.scope, MORE * span, MORE * span)
        query = Query("", request.scope, self.live.now())
        records = {one.event.event_id: one for one in near}
        visible = (one for one in near if isinstance(admit_one(JOURNAL, one.hit, 1, query, records), Admitted))
        return _around(
            _Near(record.ref, record.hit, record), [_Near(one.ref, one.hit, one) for one in visible], request, by
        )

    async def _window_of_item(self, ref: str, request: TimelineRequest) -> _Window:
        """An item of a backend with what stands around it in its own document there. Raises NotFound."""
        await self.external_refs.flush()
        item = await self.journal.read(external_refs.resolve, ref, request.scope)
        finds = [(item.ref, item.backend, item.hit)]
        near = await self.live.neighbours(finds, max(request.before, request.after), DEADLINE_S)
        query = Query("", request.scope, self.live.now())
        found = (admit_one(item.backend, hit, 1, query, {}) for hit in near.get(item.ref, ()))
        visible = [one for one in found if isinstance(one, Admitted)]
        self.external_refs.note([ExternalItem(one.ref, item.backend, one.hit, request.scope) for one in visible])
        return _around(_Near(item.ref, item.hit), [_Near(one.ref, one.hit) for one in visible], request, "document")

    def _note_external(self, entries: Iterable[Entry], outcome: Outcome, scope: Scope) -> None:
        """Keep which items of the backends the refs of an index cite, so that they can be read."""
        if fresh := self.external_refs.unknown((entry.ref for entry in entries), scope):
            self.external_refs.note(external_items(outcome, scope, fresh))


async def full_records(
    request: RecordsRequest, read: Callable[[str, Scope], Awaitable[Mapping[str, Any]]]
) -> wire.RecordsReply:
    """Memories in full, in the order of their refs, as far as the budget goes.

    The text of the first one that does not fit is cut, and the next step says what the rest costs. ``read`` returns one
    memory. A quarantined one is missing, as agents read these replies.
    """
    found: list[wire.FullRecord] = []
    missing: list[str] = []
    later: dict[str, int] = {}
    left_out: list[str] = []
    left = request.budget_tokens
    for ref in _distinct(request.refs):
        try:
            memory = await read(ref, request.scope)
        except (NotFound, NobodyAnswered):
            missing.append(ref)
            continue
        if memory.get("trust") == "quarantined":
            missing.append(ref)
            continue
        text = clip_to_tokens(memory["text"], left)
        if text != memory["text"]:
            later[memory["ref"]] = estimate_tokens(memory["text"])
        if left <= 0:
            left_out.append(memory["ref"])
            continue
        tokens = estimate_tokens(text)
        more = {"recordRef": record_ref(memory["ref"]), "tokens": tokens, "truncated": text != memory["text"]}
        found.append(cast(wire.FullRecord, {**memory, "text": text, **more}))
        left = 0 if text != memory["text"] else left - tokens
    return {
        "records": found,
        "missing": missing,
        "left_out": left_out,
        "tokens": sum(one["tokens"] for one in found),
        "next": _step("get", later, sum(later.values())),
    }


def record_of_episode(found: wire.Episode) -> dict[str, Any]:
    """An observation in the fields of a memory: its summary, then its payload."""
    payload = found.get("payload")
    more = payload if isinstance(payload, str) else orjson.dumps(payload).decode() if payload is not None else ""
    scope = {name: found[name] for name in ("user_id", "agent_id", "session_id", "project")}
    return {
        "ref": found["ref"],
        "event_id": found["event_id"],
        "text": "\n".join(filter(None, (found["summary"], more))),
        "kind": found["type"],
        "speaker": None,
        "at": found["ts"],
        "recorded_at": None,
        "document": None,
        "position": None,
        "source": found["tool"],
        "trust": found["trust"],
        "origin": found["origin"],
        "scope": {name: value for name, value in scope.items() if value},
    }


def _around(anchor: _Near, near: Sequence[_Near], request: TimelineRequest, by: By) -> _Window:
    """The window of a memory: the last ones before it and the first ones after it, in the order of ``near``."""
    earlier = [one for one in near if not _follows(one, anchor, by)]
    later = [one for one in near if _follows(one, anchor, by)]
    window = [*earlier[max(0, len(earlier) - request.before) :], anchor, *later[: request.after]]
    return _Window(anchor.ref, [one.entry for one in window], by)


def _follows(one: _Near, anchor: _Near, by: By) -> bool:
    """Whether a memory stands after another one."""
    if by == "document" and one.hit.place is not None and anchor.hit.place is not None:
        return (one.hit.place.start, one.ref) > (anchor.hit.place.start, anchor.ref)
    if by == "time" and anchor.hit.at is not None and one.hit.at is not None:
        return (one.hit.at.utc, _number(one)) > (anchor.hit.at.utc, _number(anchor))
    return _number(one) > _number(anchor)


def _number(one: _Near) -> int:
    """The number of a memory in the order in which they were recorded."""
    return parse_short_ref(one.ref) or 0


def _row(entry: Entry) -> dict[str, Any]:
    return asdict(entry)


def _distinct(refs: Iterable[str]) -> list[str]:
    """Refs without brackets and prefix, each once."""
    return list(dict.fromkeys(map(plain_ref, refs)))


def _step(step: str, refs: Iterable[str], tokens: int) -> wire.NextStep | None:
    """A next step; None without refs."""
    named = [*refs]
    return {"step": step, "refs": named, "tokens": tokens} if named else None
