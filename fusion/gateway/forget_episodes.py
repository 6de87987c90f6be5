"""Forgetting of observations by the requests that forget memories: by ref, or all that a scope has in a time."""

from __future__ import annotations

from dataclasses import replace
from datetime import UTC, datetime, timedelta

from fusion.contract import Scope
from fusion.errors import NotFound
from fusion.ingest.forget import MAX_FORGET, ForgetReceipt, ForgetRequest, ForgetResult, Preview, shorten
from fusion.ingest.forget_observations import ObservationForgetter
from fusion.journal.observations import Wanted
from fusion.lib.ids import EPISODE
from fusion.store.database import Row
from fusion.store.rows import time_of

LEDGER = "observations"
"""the name of the ledger where receipts name a backend"""
NOTHING = ForgetResult(False, ())
_FIRST = datetime.min.replace(tzinfo=UTC)
"""the beginning of the calendar; nothing is before it, and no time can be subtracted from it"""


def is_episode(ref: str) -> bool:
    """Whether a ref is that of an observation."""
    return ref.startswith(EPISODE)


async def forget_one(forgetter: ObservationForgetter, ref: str, scope: Scope) -> ForgetReceipt:
    """Forget one observation by ref. Raises NotFound."""
    rows = await forgetter.named([ref], scope)
    if not rows:
        raise NotFound(f"there is no episode {ref!r} here")
    await forgetter.forget(rows)
    return _receipt(rows[0])


async def forget_episodes(forgetter: ObservationForgetter, request: ForgetRequest) -> ForgetResult:
    """Forget the observations that a request names: its refs ``ep:…``, or those of its scope, source and time.

    A query and a document name none, as they name memories; nor does a later page of a dry run.
    """
    refs = [ref for ref in request.refs if is_episode(ref)]
    limit = request.limit or MAX_FORGET
    if request.refs:
        rows = await forgetter.named(refs, request.scope) if refs else []
    elif request.query is not None or request.criteria.document is not None or request.cursor is not None:
        return NOTHING
    elif request.criteria.before == _FIRST:
        rows = []
    else:
        rows = await forgetter.found(_wanted(request), limit + 1)
    chosen = rows if request.refs else rows[:limit]
    if not request.dry_run:
        await forgetter.forget(chosen, "+".join(request.names()))
    receipts = () if request.dry_run else tuple(map(_receipt, chosen))
    found = tuple(_preview(row, with_text=request.dry_run) for row in chosen)
    missing = tuple({*refs} - {one.ref for one in found})
    return ForgetResult(request.dry_run, found, receipts, missing, more=len(rows) > len(chosen))


def of_memories(request: ForgetRequest) -> ForgetRequest | None:
    """The request without refs of observations; None if it has no others."""
    refs = tuple(ref for ref in request.refs if not is_episode(ref))
    return replace(request, refs=refs) if refs or not request.refs else None


def joined(memories: ForgetResult, episodes: ForgetResult) -> ForgetResult:
    """One result of the two."""
    return replace(
        memories,
        found=(*memories.found, *episodes.found),
        receipts=(*memories.receipts, *episodes.receipts),
        missing=(*memories.missing, *episodes.missing),
        more=memories.more or episodes.more,
    )


def _wanted(request: ForgetRequest) -> Wanted:
    criteria = request.criteria
    last = None if criteria.before is None else criteria.before - timedelta(microseconds=1)
    return Wanted(request.scope, after=criteria.after, before=last, source=criteria.source, recorded=criteria.recorded)


def _preview(row: Row, *, with_text: bool) -> Preview:
    text = shorten(row["summary"]) if with_text else ""
    return Preview(f"{EPISODE}{row['seq']}", text, (LEDGER,), time_of(row["ts"]), row["source"])


def _receipt(row: Row) -> ForgetReceipt:
    return ForgetReceipt(f"{EPISODE}{row['seq']}", row["event_id"], {LEDGER: "deleted"})
