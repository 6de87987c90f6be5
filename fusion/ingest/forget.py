"""Forgetting: the tombstone first, then every backend, and a receipt that says what became of it where.

From the moment the tombstone stands, nothing shows the memory: every answer is checked against it. A backend is asked
to forget, and then asked again; one that is down, or still returns it, is asked until it has forgotten.
"""

from __future__ import annotations

import asyncio
import contextlib
import logging
from collections.abc import AsyncIterator, Awaitable, Callable, Mapping, Sequence
from dataclasses import dataclass, field, replace
from datetime import datetime

from fusion.contract import Event, Scope
from fusion.errors import BadInput, FusionError, NotFound, StillThere
from fusion.ingest.deliver import Deliverer
from fusion.journal import Journal
from fusion.journal.deletion import Deletion
from fusion.journal.external_refs import ExternalItem, is_external
from fusion.journal.listing import Criteria
from fusion.journal.rows import Record, words_key
from fusion.lib.clean import clean
from fusion.lib.ids import cursor, parse_cursor, parse_short_ref
from fusion.lib.redact import redact
from fusion.lib.words import spoken

log = logging.getLogger(__name__)

_BEST_TO_WORST = ("absent", "deleted", "hidden", "still_there", "pending")
WAIT_S = 2.0
"""for one backend while the caller waits; after that it is pending"""
WAIT_EACH_S = 0.1
"""…and so much for each memory more"""

PREVIEW_CHARS = 160
"""of a memory in a preview"""
UNDO_PREVIEWS = 20
"""memories in the preview of an undo"""
MAX_FORGET = 100
"""memories forgotten, or previewed, by one request"""
BATCH_MEMORIES = 500
"""…by one transaction, of what is forgotten whole"""
DEFAULT_QUERY_LIMIT = 20
"""…where they are found by a question and nobody said how many: what comes later means something else"""

Purge = Callable[[Sequence[str]], Awaitable[None]]
Recall = Callable[[str, Scope], Awaitable[Sequence["Preview"]]]
"""what a question finds, the likeliest first, without what only stands beside it"""


@dataclass(frozen=True, slots=True)
class ForgetReceipt:
    """By backend: deleted, absent (it never had it), hidden (a user's own file, left as it is), pending or still_there.

    Deleted means that the backend was asked again and did not return it; still_there that it did: it will be asked
    until it has. ``also`` has the refs of what went with it: duplicates, earlier versions, and what was derived from
    nothing else. Where these fared worse in a backend than the memory itself, that is what stands there. ``same`` has
    those of ``also`` that said the very same words.
    """

    ref: str
    event_id: str
    backends: Mapping[str, str]
    also: tuple[str, ...] = ()
    same: tuple[str, ...] = ()

    @property
    def done(self) -> bool:
        return not {"pending", "still_there"}.intersection(self.backends.values())


@dataclass(frozen=True, slots=True)
class ForgetRequest:
    """What to forget in a scope: by refs, or all that meets the query and the criteria, at most ``limit`` at once."""

    scope: Scope
    refs: tuple[str, ...] = ()
    query: str | None = None
    criteria: Criteria = field(default_factory=Criteria)
    limit: int | None = None
    cursor: str | None = None
    dry_run: bool = False

    def names(self) -> list[str]:
        """What it is named by; never values. Raises BadInput where that is nothing, or makes no sense."""
        names = [*(["ref"] if self.refs else []), *(["query"] if self.query else []), *self.criteria.names()]
        if not names:
            raise BadInput(
                "Say what to forget: refs, query, source, document, before or after. "
                "A user, an agent or a session alone would be all they have; after: 1970-01-01 says that on purpose"
            )
        if self.refs and len(names) > 1:
            raise BadInput("refs stand alone: they name what to forget, and nothing else can narrow that")
        if self.cursor is not None and (self.refs or self.query or parse_cursor(self.cursor) is None):
            raise BadInput("cursor: give next_cursor of a reply as it is, with the same criteria and without query")
        return names


@dataclass(frozen=True, slots=True)
class Preview:
    """One memory that is meant. ``text`` is short and without secrets; empty once it is forgotten.

    ``same_as``: nothing named it, it goes with that one, for it says the same words.
    """

    ref: str
    text: str
    backends: tuple[str, ...] = ()
    at: datetime | None = None
    source: str | None = None
    same_as: str | None = None


@dataclass(frozen=True, slots=True)
class UndoResult:
    """What an undo came to: ``undone`` memories of a batch were taken back, ``left`` still are to be.

    ``found`` shows the first of those that were, or with a dry run would be.
    """

    batch: str
    dry_run: bool
    found: tuple[Preview, ...]
    undone: int
    left: int


@dataclass(frozen=True, slots=True)
class ForgetResult:
    """What one request came to. ``missing`` are refs of nothing here, maybe forgotten before.

    ``more``: the limit was reached. The same request again goes on; a dry run goes on from ``next_cursor``.
    """

    dry_run: bool
    found: tuple[Preview, ...]
    receipts: tuple[ForgetReceipt, ...] = ()
    missing: tuple[str, ...] = ()
    done: bool = True
    pending: int = 0
    more: bool = False
    next_cursor: str | None = None


class Forgetter:
    """Forgets for one home. ``purge`` removes texts from the embedder's caches."""

    def __init__(self, journal: Journal, deliverer: Deliverer, purge: Purge | None = None) -> None:
        self._journal = journal
        self._deliverer = deliverer
        self._purge = purge

    async def request(self, request: ForgetRequest, recall: Recall) -> ForgetResult:
        """Forgets what a request means, or with ``dry_run`` shows it; ``recall`` answers its query.

        Raises BadInput, which says what to change.
        """
        names = request.names()
        found, more = await self._found(request, recall)
        refs = [one.ref for one in found]
        missing = tuple(ref for ref in dict.fromkeys(request.refs) if ref not in {one.ref for one in found})
        beyond = parse_short_ref(refs[-1]) if more and request.query is None else None
        next_cursor = None if beyond is None else cursor(beyond)
        found += await self._duplicates(refs, request.scope)
        if request.dry_run:
            return ForgetResult(True, tuple(found), missing=missing, more=more, next_cursor=next_cursor)
        receipts = await self.forget_all(refs, request.scope, "+".join(names))
        pending = sum(not receipt.done for receipt in receipts)
        outcome_of = tuple(replace(one, text="") for one in found)
        return ForgetResult(False, outcome_of, tuple(receipts), missing, not pending, pending, more, next_cursor)

    async def _found(self, request: ForgetRequest, recall: Recall) -> tuple[list[Preview], bool]:
        """What is meant, and whether there is more of it than the limit."""
        if request.refs:
            return await self.previews(list(dict.fromkeys(request.refs)), request.scope), False
        if request.query is None:
            limit = request.limit or MAX_FORGET
            beyond = (parse_cursor(request.cursor) if request.cursor else None) or 0
            records = await self._journal.matching(request.scope, request.criteria, limit + 1, beyond=beyond)
            return await self._previews(records[:limit]), len(records) > limit
        limit = request.limit or DEFAULT_QUERY_LIMIT
        recalled = list(await recall(request.query, request.scope))
        if request.criteria.names():  # only of our own memories is it known when and where they came from
            ours = [one.ref for one in recalled if not is_external(one.ref)]
            kept = await self._journal.matching(request.scope, request.criteria, len(ours), among=ours)
            wanted = {record.ref for record in kept}
            recalled = [one for one in recalled if one.ref in wanted]
        return recalled[:limit], len(recalled) > limit

    async def previews(self, refs: Sequence[str], scope: Scope) -> list[Preview]:
        """What a preview shows of what refs name, of those that are there."""
        found = await self._journal.find_all([ref for ref in refs if not is_external(ref)], scope)
        shown = dict(zip(found, await self._previews(list(found.values())), strict=True))
        previews = []
        for ref in refs:
            if not is_external(ref):
                if ref in shown:
                    previews.append(replace(shown[ref], ref=ref))
                continue
            with contextlib.suppress(NotFound):
                previews.append(external_preview(await self._journal.external_item(ref, scope), ref))
        return previews

    async def _duplicates(self, refs: Sequence[str], scope: Scope) -> list[Preview]:
        """What goes with memories because it says the same words, and is not among them."""
        duplicates = await self._journal.duplicates(refs, scope)
        shown = await self._previews([record for _, record in duplicates])
        return [replace(one, same_as=ref) for one, (ref, _) in zip(shown, duplicates, strict=True)]

    async def _previews(self, records: Sequence[Record]) -> list[Preview]:
        """What a preview shows of our own memories."""
        held = await self._journal.outbox.holders([record.ref for record in records])
        return [
            Preview(
                record.ref,
                shorten(spoken(record.event.text, record.event.speaker)),
                tuple(held[record.ref]),
                record.event.at.utc if record.event.at else record.event.recorded_at,
                record.event.source,
            )
            for record in records
        ]

    async def forget(self, ref: str, scope: Scope) -> ForgetReceipt:
        """Forgets one memory by its ref or event id. Raises NotFound."""
        receipts = await self.forget_all([ref], scope)
        if not receipts:
            raise NotFound(f"there is no memory {ref!r} here")
        return receipts[0]

    async def forget_matching(self, scope: Scope, criteria: Criteria) -> AsyncIterator[list[ForgetReceipt]]:
        """Forgets everything in a scope that meets all criteria, however much it is; the receipts, a batch at a time.

        Raises BadInput for no criteria: that would be all that a scope has.
        """
        names = ForgetRequest(scope, criteria=criteria).names()
        while records := await self._journal.matching(scope, criteria, BATCH_MEMORIES):
            receipts = await self.forget_all([record.ref for record in records], scope, "+".join(names))
            if not receipts:  # somebody else was quicker with all of them
                return
            yield receipts

    async def forget_all(self, refs: Sequence[str], scope: Scope, by: str = "ref") -> list[ForgetReceipt]:
        """Forgets many; without a receipt for what is not there, or went with an earlier one. ``by`` is audited."""
        # The caches first as well: after a crash between here and the end nobody knows the texts any more.
        rows_to_delete = await self._journal.to_be_deleted(refs, scope)
        await self._purge_caches(rows_to_delete)
        for (
            event
        ) in rows_to_delete:  # before it is due: the deliverer may be the first to ask, and then the text is gone
            self._deliverer.keep_text(event)
        forgotten = {
            ref: deletions for ref, deletions in (await self._journal.forget(refs, scope, by)).items() if deletions
        }
        every = [deletion for deletions in forgotten.values() for deletion in deletions]
        due: dict[str, list[tuple[int, Event, tuple[str, ...]]]] = {}
        for deletion in every:
            self._deliverer.keep_text(deletion.record.event, deletion.due)
            for name, (seq, native_ids) in deletion.due.items():
                due.setdefault(name, []).append((seq, deletion.record.event, native_ids))
        outcomes = await asyncio.gather(*(self._forget_in(name, asked) for name, asked in due.items()))
        outcome_of = dict(zip(due, outcomes, strict=True))
        await self._purge_caches([deletion.record.event for deletion in every])
        if any(not {"pending", "still_there"}.isdisjoint(outcome.values()) for outcome in outcomes):
            self._deliverer.wake()
        return [_receipt(deletions, outcome_of) for deletions in forgotten.values()]

    async def undo(self, scope: Scope, batch: str | None, *, limit: int, dry_run: bool) -> UndoResult:
        """Takes back up to ``limit`` memories that a run of an ingest added, by default the last run.

        What was known before stays, and so does what somebody wrote in place of a memory since. The backends delete
        them in the background; no answer shows them meanwhile. Raises NotFound where there is no such run.
        """
        if batch is None:
            last = await self._journal.batches(scope, 1)
            if not last:
                raise NotFound("there is no ingest to undo: no memory that is kept came with one")
            batch = last[0].id
        records, total = await self._journal.batch_records(scope, batch, limit)
        if not records:
            raise NotFound(f"there is no ingest {batch!r} to undo, or nothing of it is left; `fusion undo` lists them")
        found = tuple(await self._previews(records[:UNDO_PREVIEWS]))
        if dry_run:
            return UndoResult(batch, True, found, 0, total)
        events = [record.event for record in records]
        await self._purge_caches(events)
        undone = await self._journal.undo(scope, batch, limit)
        await self._purge_caches(events)
        self._deliverer.wake()
        return UndoResult(batch, False, tuple(replace(one, text="") for one in found), len(undone.records), undone.left)

    async def _forget_in(self, name: str, due: Sequence[tuple[int, Event, Sequence[str]]]) -> dict[int, str]:
        """What became of each event in one backend, by its number; pending once the backend fails as a whole."""
        outcome_of = {seq: "pending" for seq, *_ in due}
        if not self._deliverer.has_backend(name):
            return outcome_of
        try:
            async with asyncio.timeout(WAIT_S + WAIT_EACH_S * len(due)):
                if len(due) > 1 and self._deliverer.forgets_many(name):
                    for seq, outcome in (await self._deliverer.forget_all(name, due)).items():
                        outcome_of[seq] = "still_there" if isinstance(outcome, StillThere) else outcome
                        if isinstance(outcome, StillThere):
                            log.warning("%s", outcome)
                            await self._deliverer.retry_later(name, seq, 0, outcome)
                    return outcome_of
                for seq, event, native_ids in due:
                    try:
                        outcome_of[seq] = await self._deliverer.forget(name, seq, event, native_ids)
                    except StillThere as error:
                        log.warning("%s", error)
                        outcome_of[seq] = "still_there"
                        await self._deliverer.retry_later(name, seq, 0, error)
        except Exception as error:  # noqa: BLE001 — whatever ails one store, the others are asked and it stays due
            log.warning("backend %s has not forgotten an event yet: %s", name, type(error).__name__)
        return outcome_of

    async def _purge_caches(self, events: Sequence[Event]) -> None:
        if self._purge is None or not events:
            return
        try:
            await self._purge([text for e in events for text in (e.text, spoken(e.text, e.speaker)) if text])
        except (FusionError, OSError) as error:
            log.warning("the embedder's caches were not purged: %s", error)


def external_preview(item: ExternalItem, ref: str | None = None) -> Preview:
    """What a preview shows of another's item."""
    hit = item.hit
    at = hit.at.utc if hit.at else hit.recorded_at
    return Preview(ref or item.ref, shorten(spoken(hit.text, hit.speaker)), (item.backend,), at)


def shorten(text: str) -> str:
    """A text for a list: one line, without secrets and what is invisible."""
    line = " ".join(redact(clean(text)[0])[0].split())
    return line if len(line) <= PREVIEW_CHARS else line[: PREVIEW_CHARS - 1] + "…"


def _receipt(deletions: Sequence[Deletion], outcome_of: Mapping[str, Mapping[int, str]]) -> ForgetReceipt:
    """One memory's, with what went with it."""
    backends: dict[str, str] = {}
    for deletion in deletions:
        for name, (seq, _) in deletion.due.items():
            backends[name] = max(backends.get(name, "absent"), outcome_of[name][seq], key=_BEST_TO_WORST.index)
    first, *others = (deletion.record for deletion in deletions)
    said = _words(first.event)
    same = tuple(other.ref for other in others if _words(other.event) == said)
    return ForgetReceipt(first.ref, first.event.event_id, backends, tuple(other.ref for other in others), same)


def _words(event: Event) -> str:
    return words_key(event.text, event.speaker, event.scope)
