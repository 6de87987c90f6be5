"""Forgetting: the tombstone in the journal first, then every backend, and a receipt with the outcome in each.

Every answer is checked against the tombstone, so the memory is hidden at once. Each backend deletes it and is searched
again; one that is down, or still returns it, is retried until it is gone.
"""

from __future__ import annotations

import asyncio
import contextlib
import logging
from collections.abc import Awaitable, Callable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field, replace
from datetime import datetime
from itertools import chain

from fusion.contract import Event, Scope
from fusion.errors import BadInput, FusionError, NotFound
from fusion.ingest.deliver import Deliverer
from fusion.journal import Journal, batches, deletion, external_refs, listing, proposals
from fusion.journal.deletion import Deletion
from fusion.journal.external_refs import ExternalItem, is_external
from fusion.journal.listing import Criteria
from fusion.journal.outbox import Due
from fusion.journal.proposals import Proposal, Wanted
from fusion.journal.rows import Record, words_key
from fusion.lib.clean import clean
from fusion.lib.ids import cursor, parse_cursor, parse_short_ref
from fusion.lib.junk import content_words
from fusion.lib.passages import is_long, spoken_passages
from fusion.lib.redact import redact
from fusion.lib.text_cache import empty_text_caches
from fusion.lib.words import spoken

log = logging.getLogger(__name__)

_BEST_TO_WORST = ("absent", "deleted", "hidden", "still_there", "pending")
WAIT_S = 2.0
"""seconds that the caller waits for one backend; after that the deletion is pending"""
WAIT_EACH_S = 0.1
"""seconds that the caller waits in addition for each memory"""

PREVIEW_CHARS = 160
"""maximum characters of a text in a preview"""
UNDO_PREVIEWS = 20
"""maximum memories in the preview of an undo"""
MAX_FORGET = 500
"""maximum memories that one request by criteria forgets or previews"""
DEFAULT_QUERY_LIMIT = 20
"""default limit of a forget by query: less relevant memories are about something else"""

Purge = Callable[[Sequence[str]], Awaitable[None]]
ForgetQuotes = Callable[[Sequence[Event]], Awaitable[None]]
Recall = Callable[[str, Scope], Awaitable[Sequence["Preview"]]]
"""the memories that match a query, best first, without neighbours"""


@dataclass(frozen=True, slots=True)
class ForgetReceipt:
    """The outcome for one memory by backend: deleted, absent (never there), hidden, pending or still_there.

    Deleted is verified: a search no longer returns it. Still_there means that a search did, and that the deletion is
    retried. Hidden means that the text is in a user's own file, which is not edited. ``also`` has the refs of what was
    deleted with it: duplicates, earlier versions, and what was derived from it alone; the outcome of a backend is the
    worst of all. ``same`` has those of ``also`` in the same words. ``released`` has the refs of memories that say
    nearly the same: they were merged into what was deleted, and are answered again.
    """

    ref: str
    event_id: str
    backends: Mapping[str, str]
    also: tuple[str, ...] = ()
    same: tuple[str, ...] = ()
    released: tuple[str, ...] = ()

    @property
    def done(self) -> bool:
        """Whether no backend has an open deletion."""
        return not {"pending", "still_there"}.intersection(self.backends.values())


@dataclass(frozen=True, slots=True)
class ForgetRequest:
    """What to forget in a scope: refs, or what matches the query and all criteria, at most ``limit`` at once.

    With ``all_users`` a query without user and agent searches those of all.
    """

    scope: Scope
    refs: tuple[str, ...] = ()
    query: str | None = None
    criteria: Criteria = field(default_factory=Criteria)
    limit: int | None = None
    cursor: str | None = None
    dry_run: bool = False
    all_users: bool = False

    def names(self) -> list[str]:
        """The names of its criteria, for the audit. Raises BadInput for none, or for a wrong combination."""
        names = [*(["ref"] if self.refs else []), *(["query"] if self.query else []), *self.criteria.names()]
        if not names:
            raise BadInput(
                "Say what to forget: refs, query, source, document, before or after. "
                "A user, an agent or a session alone would be all they have; after: 1970-01-01 says that on purpose"
            )
        if self.refs and len(names) > 1:
            raise BadInput("refs cannot be combined with other criteria: they name exactly what to forget")
        if self.cursor is not None and (self.refs or self.query or parse_cursor(self.cursor) is None):
            raise BadInput("cursor: give next_cursor of a reply as it is, with the same criteria and without query")
        return names


@dataclass(frozen=True, slots=True)
class Preview:
    """A memory that a request forgets. ``text`` is short and without secrets; empty once it is forgotten.

    ``same_as`` is the ref of the memory that it duplicates, if the request did not name it itself. The text of a
    ``quarantined`` one is for operators.
    """

    ref: str
    text: str
    backends: tuple[str, ...] = ()
    at: datetime | None = None
    source: str | None = None
    same_as: str | None = None
    quarantined: bool = False


@dataclass(frozen=True, slots=True)
class UndoResult:
    """The result of an undo: how many memories of a batch were taken back, and how many are ``left``.

    ``found`` shows the first of them, also in a dry run. ``restored`` are the refs that are current again.
    """

    batch: str
    dry_run: bool
    found: tuple[Preview, ...]
    undone: int
    left: int
    restored: tuple[str, ...] = ()


@dataclass(frozen=True, slots=True)
class ForgetResult:
    """The result of a forget request. ``missing`` are refs that name no memory, or one that was forgotten before.

    ``more`` says that the limit was reached: repeat the request to continue, a dry run from ``next_cursor``.
    ``released`` has those of all receipts, in a dry run those that would be released.
    """

    dry_run: bool
    found: tuple[Preview, ...]
    receipts: tuple[ForgetReceipt, ...] = ()
    missing: tuple[str, ...] = ()
    done: bool = True
    pending: int = 0
    more: bool = False
    next_cursor: str | None = None
    released: tuple[str, ...] = ()


class Forgetter:
    """Forgets memories of one home. ``purge`` removes texts from the embedder's caches, ``forget_quotes`` the
    observations that quote a memory."""

    def __init__(
        self,
        journal: Journal,
        deliverer: Deliverer,
        purge: Purge | None = None,
        forget_quotes: ForgetQuotes | None = None,
    ) -> None:
        self._journal = journal
        self._deliverer = deliverer
        self._purge = purge
        self._forget_quotes = forget_quotes

    async def request(self, request: ForgetRequest, recall: Recall) -> ForgetResult:
        """Forget what a request names, or show it with ``dry_run``; ``recall`` answers its query. Raises BadInput."""
        names = request.names()
        found, more = await self._found(request, recall)
        found = [*await self._proposals(request), *found]
        refs = [one.ref for one in found]
        missing = tuple(ref for ref in dict.fromkeys(request.refs) if ref not in {one.ref for one in found})
        beyond = parse_short_ref(refs[-1]) if more and request.query is None else None
        next_cursor = None if beyond is None else cursor(beyond)
        found += await self._duplicates(refs, request.scope)
        if request.dry_run:
            released = tuple(chain.from_iterable((await self._released(refs, request.scope)).values()))
            return ForgetResult(
                True, tuple(found), missing=missing, more=more, next_cursor=next_cursor, released=released
            )
        receipts = await self.forget_all(refs, request.scope, "+".join(names))
        pending = sum(not receipt.done for receipt in receipts)
        forgotten = tuple(replace(one, text="") for one in found)
        released = tuple(ref for receipt in receipts for ref in receipt.released)
        return ForgetResult(
            False, forgotten, tuple(receipts), missing, not pending, pending, more, next_cursor, released
        )

    async def _released(self, refs: Sequence[str], scope: Scope) -> Mapping[str, Sequence[str]]:
        """By the id of a memory that goes with the refs, the refs of those that are answered again without it."""
        deleted = await self._journal.read(deletion.events_to_delete, refs, scope)
        return await self._journal.read(deletion.released_by, [event.event_id for event in deleted], scope)

    async def _proposals(self, request: ForgetRequest) -> list[Preview]:
        """The proposals that the criteria of a request select, on its first page; they are in no document."""
        criteria = request.criteria
        if request.refs or request.cursor is not None or criteria.document is not None:
            return []
        words = None if request.query is None else content_words(request.query)
        wanted = Wanted(criteria.source, criteria.after, criteria.before, words)
        limit = request.limit or (MAX_FORGET if request.query is None else DEFAULT_QUERY_LIMIT)
        found = await self._journal.read(proposals.to_forget, request.scope, wanted, limit)
        return [_proposal_preview(one) for one in found]

    async def _found(self, request: ForgetRequest, recall: Recall) -> tuple[list[Preview], bool]:
        """The memories that a request names, and whether there are more than the limit."""
        if request.refs:
            return await self.previews(list(dict.fromkeys(request.refs)), request.scope), False
        if request.query is None:
            limit = request.limit or MAX_FORGET
            beyond = (parse_cursor(request.cursor) if request.cursor else None) or 0
            page = (request.scope, request.criteria, limit + 1)
            records = await self._journal.read(listing.matching, *page, beyond=beyond)
            return await self._previews(records[:limit]), len(records) > limit
        limit = request.limit or DEFAULT_QUERY_LIMIT
        recalled = list(await recall(request.query, request.scope))
        if request.criteria.names():  # external items have no known source and time
            in_journal = [one.ref for one in recalled if not is_external(one.ref)]
            page = (request.scope, request.criteria, len(in_journal))
            kept = await self._journal.read(listing.matching, *page, among=in_journal)
            wanted = {record.ref for record in kept}
            recalled = [one for one in recalled if one.ref in wanted]
        return recalled[:limit], len(recalled) > limit

    async def previews(self, refs: Sequence[str], scope: Scope) -> list[Preview]:
        """Previews of the refs that name a memory."""
        found = await self._journal.find_all([ref for ref in refs if not is_external(ref)], scope)
        shown = dict(zip(found, await self._previews(list(found.values())), strict=True))
        previews = []
        for ref in refs:
            if proposals.parse_name(ref) is not None:
                with contextlib.suppress(NotFound):
                    previews.append(_proposal_preview(await self._journal.read(proposals.find, ref, scope)))
                continue
            if not is_external(ref):
                if ref in shown:
                    previews.append(replace(shown[ref], ref=ref))
                continue
            with contextlib.suppress(NotFound):
                previews.append(external_preview(await self._journal.read(external_refs.resolve, ref, scope), ref))
        return previews

    async def _duplicates(self, refs: Sequence[str], scope: Scope) -> list[Preview]:
        """Previews of duplicates of the refs' memories that are not among them."""
        duplicates = await self._journal.read(deletion.duplicates_of, refs, scope)
        shown = await self._previews([record for _, record in duplicates])
        return [replace(one, same_as=ref) for one, (ref, _) in zip(shown, duplicates, strict=True)]

    async def _previews(self, records: Sequence[Record]) -> list[Preview]:
        """Previews of the journal's own memories."""
        held = await self._journal.outbox.holders([record.ref for record in records])
        return [
            Preview(
                record.ref,
                shorten(spoken(record.event.text, record.event.speaker)),
                tuple(held[record.ref]),
                record.event.at.utc if record.event.at else record.event.recorded_at,
                record.event.source,
                quarantined=record.trust == "quarantined",
            )
            for record in records
        ]

    async def forget(self, ref: str, scope: Scope) -> ForgetReceipt:
        """Forget one memory by its ref or event id. Raises NotFound."""
        receipts = await self.forget_all([ref], scope)
        if not receipts:
            raise NotFound(f"there is no memory {ref!r} here")
        return receipts[0]

    async def forget_all(
        self, refs: Sequence[str], scope: Scope, by: str = "ref", *, alone: bool = False
    ) -> list[ForgetReceipt]:
        """Forget memories by ref; no receipt for a ref that names none, or one that went with an earlier ref.

        With ``alone`` other memories in the same words stay.
        """
        # Purge the caches first: after a crash during the deletion the texts would be unknown.
        rows_to_delete = await self._journal.read(deletion.events_to_delete, refs, scope, alone=alone)
        await self.purge_caches(rows_to_delete)
        if self._forget_quotes is not None:
            await self._forget_quotes(rows_to_delete)
        for event in rows_to_delete:  # before the deletion is due, since the deliverer may run it first
            self._deliverer.keep_text(event)
        event_ids = [event.event_id for event in rows_to_delete]
        released = await self._journal.read(deletion.released_by, event_ids, scope)
        forgotten = {
            ref: deletions
            for ref, deletions in (await self._journal.forget(refs, scope, by, alone=alone)).items()
            if deletions
        }
        every = [deleted for deletions in forgotten.values() for deleted in deletions]
        due: dict[str, list[Due]] = {}
        for deleted in every:
            self._deliverer.keep_text(deleted.record.event, deleted.due)
            for name, (seq, native_ids) in deleted.due.items():
                due.setdefault(name, []).append(Due(seq, deleted.record.event, 0, native_ids))
        outcomes = await asyncio.gather(*(self._forget_in(name, asked) for name, asked in due.items()))
        outcome_of = dict(zip(due, outcomes, strict=True))
        receipts = [_receipt(deletions, outcome_of, released) for deletions in forgotten.values()]
        await self.purge_caches([deleted.record.event for deleted in every])  # last: until here the texts are compared
        if any(not {"pending", "still_there"}.isdisjoint(outcome.values()) for outcome in outcomes):
            self._deliverer.wake()
        return receipts

    async def undo(self, scope: Scope, batch: str | None, *, limit: int, dry_run: bool) -> UndoResult:
        """Take back up to ``limit`` memories that an ingest run added, by default the last run.

        Memories from before the run stay, and so do newer versions of its memories. The backends delete them in the
        background; they are hidden at once. Raises NotFound if there is no such run.
        """
        if batch is None:
            last = await self._journal.read(batches.batches, scope, 1)
            if not last:
                raise NotFound("there is no ingest to undo: no memory that is kept came with one")
            batch = last[0].id
        records, total = await self._journal.read(batches.of_batch, scope, batch, limit)
        if not records:
            raise NotFound(f"there is no ingest {batch!r} to undo, or nothing of it is left; `fusion undo` lists them")
        found = tuple(await self._previews(records[:UNDO_PREVIEWS]))
        if dry_run:
            return UndoResult(batch, True, found, 0, total)
        events = [record.event for record in records]
        await self.purge_caches(events)
        undone = await self._journal.undo(scope, batch, limit)
        await self.purge_caches(events)
        self._deliverer.wake()
        found = tuple(replace(one, text="") for one in found)
        return UndoResult(batch, False, found, len(undone.records), undone.left, undone.restored)

    async def delete_expired(self, event_ids: Sequence[str]) -> int:
        """Delete those of these memories that expired, without tombstones; returns their number.

        The backends delete them in the background; they are hidden already.
        """
        events = [record.event for record in (await self._journal.records(event_ids)).values()]
        await self.purge_caches(events)
        deleted = await self._journal.delete_expired(event_ids)
        await self.purge_caches(events)
        self._deliverer.wake()
        return deleted

    async def _forget_in(self, name: str, due: Sequence[Due]) -> dict[int, str]:
        """By event number, the state in one backend; pending from the moment that the backend fails as a whole."""
        states: dict[int, str] = {one.seq: "pending" for one in due}
        others: list[int] = []
        try:
            async with asyncio.timeout(WAIT_S + WAIT_EACH_S * len(due)):
                for batch in self._deliverer.deletion_batches(name, due):
                    made = await self._deliverer.delete(name, batch)
                    others += [one.seq for one in batch if one.seq not in made]
                    states |= made
            if others:  # another gateway was faster
                states |= await self._deliverer.deleted_by_others(name, others, WAIT_S)
        except Exception as error:  # noqa: BLE001 — the deletion stays due, and other backends are not affected
            log.warning("backend %s has not forgotten an event yet: %s", name, type(error).__name__)
        return states

    async def purge_caches(self, events: Sequence[Event]) -> None:
        """Remove the texts of memories from the embedder's caches and from those of what was computed for a text."""
        if not events:
            return
        if self._purge is not None:
            try:
                await self._purge([text for event in events for text in _embedded(event) if text])
            except (FusionError, OSError) as error:
                log.warning("the embedder's caches were not purged: %s", error)
        empty_text_caches()


def _embedded(event: Event) -> Iterator[str]:
    """The texts of a memory of which an embedder may have vectors: all of it, and its passages."""
    yield event.text
    yield spoken(event.text, event.speaker)
    if is_long(event.text, event.speaker):
        yield from spoken_passages(event.text, event.speaker)


def _proposal_preview(proposal: Proposal) -> Preview:
    """The preview of a proposal, which no backend has."""
    return Preview(proposal.name, shorten(proposal.text), (), proposal.stated_at, proposal.draft["source"])


def external_preview(item: ExternalItem, ref: str | None = None) -> Preview:
    """The preview of an external item."""
    hit = item.hit
    at = hit.at.utc if hit.at else hit.recorded_at
    return Preview(ref or item.ref, shorten(spoken(hit.text, hit.speaker)), (item.backend,), at)


def shorten(text: str) -> str:
    """A text as one short line, without secrets and invisible characters."""
    line = " ".join(redact(clean(text)[0])[0].split())
    return line if len(line) <= PREVIEW_CHARS else line[: PREVIEW_CHARS - 1] + "…"


def _receipt(
    deletions: Sequence[Deletion],
    outcome_of: Mapping[str, Mapping[int, str]],
    released: Mapping[str, Sequence[str]],
) -> ForgetReceipt:
    """The receipt of one memory and what was deleted with it."""
    backends: dict[str, str] = {}
    for deleted in deletions:
        for name, (seq, _) in deleted.due.items():
            backends[name] = max(backends.get(name, "absent"), outcome_of[name][seq], key=_BEST_TO_WORST.index)
    first, *others = (deleted.record for deleted in deletions)
    said = _words(first.event)
    same = tuple(other.ref for other in others if _words(other.event) == said)
    also = tuple(other.ref for other in others)
    free = tuple(ref for deleted in deletions for ref in released.get(deleted.record.event.event_id, ()))
    return ForgetReceipt(first.ref, first.event.event_id, backends, also, same, free)


def _words(event: Event) -> str:
    return words_key(event.text, event.speaker, event.scope)
