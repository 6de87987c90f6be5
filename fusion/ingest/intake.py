"""The entry of the write path: checks and redacts new memories, stores them in the journal and acknowledges them."""

from __future__ import annotations

from collections.abc import Awaitable, Callable, Collection, Iterator, Mapping, Sequence
from contextlib import contextmanager
from dataclasses import asdict, dataclass, field, replace
from datetime import datetime
from functools import lru_cache
from hashlib import sha256
from pathlib import PurePosixPath
from types import MappingProxyType
from typing import Literal

import orjson

from fusion.contract import CLAIMED_PREFIX, FILE_PREFIX, Event, Kind, Moment, Origin, Place, Scope, Trust
from fusion.errors import BadInput, KeyInUse
from fusion.ingest.deliver import Deliverer
from fusion.ingest.distil import Distiller
from fusion.journal import Journal, retire
from fusion.journal.append import Stored
from fusion.journal.idempotency import reused
from fusion.journal.journal import Around
from fusion.journal.retire import CompleteFile, SourceCount
from fusion.lib.annotations import CURATED, annotations_of
from fusion.lib.clean import clean, is_one_line
from fusion.lib.clock import Clock, utc_now
from fusion.lib.envelope import without_own_block, without_whole_blocks
from fusion.lib.ids import UuidSource, uuid7
from fusion.lib.redact import redact
from fusion.lib.source_trust import lowered
from fusion.lib.stated_fields import annotated, time_to_live

MAX_TEXT_CHARS = 100_000
"""maximum characters of one memory; a longer text is a document, to be ingested as a file, in sections"""

MAX_URGENT_MEMORIES = 25
"""maximum memories in a request that is delivered before files that are being ingested"""

WHY_OTHER_FILE = (
    "its conversation or its key is of another file, whose first turn this file does not have; put the parts of one "
    "conversation into one file"
)
"""why a line of JSONL is stored as claimed, and what to do"""

WHY_CLAIMED = "only the reader of the file or session, or the caller that began the conversation, can name it"
"""why a source is stored as claimed"""

HEARTBEATS = frozenset({"HEARTBEAT_OK", "NO_REPLY"})
"""what agents answer when they have nothing to say (seed 000)"""


def not_one_line(text: str) -> str | None:
    """Why a text cannot be an id or a reference, or None.

    Blocks cite references, so each must be one line of visible characters. References are identities, so a wrong one is
    refused and not corrected.
    """
    return (
        None if is_one_line(text) else "has a line break, a tab or an invisible character; write it as one plain line"
    )


@dataclass(frozen=True, slots=True)
class NewMemory:
    """One memory as a caller sends it. With ``source`` or ``place``, sending it twice stores it once."""

    text: str
    scope: Scope = field(default_factory=Scope)
    kind: Kind = "note"
    raw_kind: str | None = None
    speaker: str | None = None
    at: Moment | None = None
    place: Place | None = None
    source: str | None = None
    revision: str = ""
    trust: Trust = "unknown"
    origin: Origin = "owner"
    valid_from: datetime | None = None
    valid_to: datetime | None = None
    supersedes: str | None = None
    stated: tuple[tuple[str, str], ...] = ()
    file: str | None = None
    """the file of JSONL that it was read from"""
    derived_from: tuple[str, ...] = ()
    """the ids of the events that it follows from; it is forgotten with the last of them"""


@dataclass(frozen=True, slots=True)
class Prepared:
    """A checked and redacted memory; ``event`` is None if nothing is left of it.

    ``changes`` says in words how the text differs from what was sent; empty if it does not.
    """

    event: Event | None
    redacted: int = 0
    changes: str = ""


@dataclass(frozen=True, slots=True)
class Acknowledged:
    """The reply for one memory. It is kept if it was stored, superseded an earlier one, or is a duplicate.

    ``skipped``: nothing was left to store. ``blocked``: it was forgotten before; an explicit remember lifts that.
    """

    ref: str
    event_id: str
    status: Literal["stored", "duplicate", "superseded", "blocked", "skipped"]
    redacted: int = 0
    """number of masked secrets"""
    reason: str = ""
    """why it was not stored, or how the stored text differs from what was sent"""
    supersedes: str | None = None
    """the ref of the memory that it replaces"""
    said: int = 1
    """how often it was remembered explicitly, this time included"""
    claimed: bool = False
    """whether it is stored as a claim, because its caller may not name the source that it named"""


class Replayed(list[Acknowledged]):
    """The reply to the first request of an Idempotency-Key, repeated: this request stored nothing."""


class Intake:
    """Stores new memories of one home."""

    def __init__(
        self,
        journal: Journal,
        deliverer: Deliverer,
        clock: Clock = utc_now,
        distiller: Distiller | None = None,
        ids: UuidSource = uuid7,
        on_stored: Callable[[Sequence[Event]], Awaitable[None]] | None = None,
        trust_of_sources: Mapping[str, Trust] = MappingProxyType({}),
    ) -> None:
        self._trust_of_sources = trust_of_sources
        self._ids = ids
        self._on_stored = on_stored
        self._journal = journal
        self._deliverer = deliverer
        self._distiller = distiller
        self._clock = clock
        self._in_flight: dict[tuple[str, str], str] = {}
        """by tenant and Idempotency-Key, the hash of the request in progress"""

    async def remember(
        self,
        items: Sequence[NewMemory],
        *,
        tenant: str = "default",
        idempotency_key: str | None = None,
        batch: str | None = None,
        apart: bool = False,
        updates: bool = False,
        in_order: bool = False,
        around: Around | None = None,
    ) -> Sequence[Acknowledged]:
        """Store all ``items``, or raise and store none; what is acknowledged is on the disk.

        A repeated request of an ``idempotency_key`` gets the first one's reply, as `Replayed`. ``batch`` is the id of
        the ingest run. A small request is delivered first, unless it has a batch or imported memories, or is to be
        delivered ``in_order``. With ``apart``, words that were remembered before become another memory. With
        ``updates``, each item replaces the current memory that it supersedes, or raises AlreadyReplaced. ``around`` is
        done in the transaction that stores them (`Journal.append`). Raises BadInput that names the item, KeyReused,
        KeyInUse, StoreFull and StoreBusy.
        """
        prepared = [self._prepare(number, item, tenant) for number, item in enumerate(items)]
        events = [one.event for one in prepared if one.event is not None]

        def reply(stored: Sequence[Stored]) -> list[dict[str, object]]:
            return [asdict(one) for one in _acknowledge(prepared, stored)]

        guard = None
        if idempotency_key is not None:
            # The hash is of the request, before ids and times are added.
            body = sha256(orjson.dumps(list(items), default=str)).hexdigest()
            guard = (tenant, idempotency_key, body)
        with self._exclusive(guard):
            urgent = (
                batch is None
                and not in_order
                and len(events) <= MAX_URGENT_MEMORIES
                and all(event.origin != "import" for event in events)
            )
            outcome = await self._journal.append(
                events,
                guard=guard,
                reply=reply,
                batch=batch,
                urgent=urgent,
                apart=apart,
                updates=updates,
                around=around,
            )
        self._deliverer.wake()
        if self._distiller is not None:
            self._distiller.wake()
        if self._on_stored is not None and events:
            await self._on_stored(events)
        if isinstance(outcome, str):
            return Replayed(Acknowledged(**one) for one in orjson.loads(outcome))
        return _acknowledge(prepared, outcome)

    async def retire(self, scope: Scope, files: Sequence[CompleteFile], *, dry_run: bool = False) -> Mapping[str, int]:
        """Retire the memories that files no longer contain; counts by source."""
        retired = await self._journal.retire(scope, files, dry_run=dry_run)
        if retired and not dry_run:
            self._deliverer.wake()
        return retired

    async def retire_turns(self, scope: Scope, source: str, document: str, places: Collection[int]) -> int:
        """Retire the turns at these places of a conversation, which its source no longer has; their number."""
        retired = await self._journal.retire_turns(scope, source, document, places)
        if retired:
            self._deliverer.wake()
        return retired

    async def sources(self, scope: Scope, prefix: str, after: str, limit: int) -> Sequence[SourceCount]:
        """The sources of a scope's current memories that begin with ``prefix``, sorted, after ``after``."""
        return await self._journal.read(retire.sources, scope, prefix, after, limit)

    @contextmanager
    def _exclusive(self, guard: tuple[str, str, str] | None) -> Iterator[None]:
        """Refuse a second request of a key while the first, whose reply is not known yet, is in progress."""
        if guard is None:
            yield
            return
        tenant, key, body = guard
        if (first := self._in_flight.get((tenant, key))) is not None:
            why = f"The first request with Idempotency-Key {key!r} is still under way; send it again in a second."
            raise KeyInUse(why) if first == body else reused(key)
        self._in_flight[tenant, key] = body
        try:
            yield
        finally:
            del self._in_flight[tenant, key]

    def prepared(self, item: NewMemory, tenant: str) -> Prepared:
        """The memory as it would be stored."""
        return self._prepare(0, item, tenant)

    @staticmethod
    def check(item: NewMemory, name: str = "memories[0]") -> None:
        """Raises BadInput, which names the memory by ``name``, if it is empty, too long, or has a secret in an id."""
        if not item.text.strip():
            raise BadInput(f"{name}.text is empty: say what to remember")
        if len(item.text) > MAX_TEXT_CHARS:
            raise BadInput(
                f"{name}.text has {len(item.text)} characters; at most {MAX_TEXT_CHARS} are one memory. "
                "Save it as a file and use `fusion ingest`, which takes it in sections"
            )
        _refuse_secrets(name, item)

    def _prepare(self, number: int, item: NewMemory, tenant: str) -> Prepared:
        """The event of a memory, checked and redacted."""
        self.check(item, f"memories[{number}]")
        text, recalled = _without_recalled(item)
        text, cleaned = clean(text)
        text, secrets = redact(text)
        named, in_name = clean(item.speaker) if item.speaker else (None, 0)
        speaker, in_speaker = redact(named) if named else (None, {})
        raw_kind, in_kind = redact(item.raw_kind) if item.raw_kind else (None, {})
        if not text.strip() or text.strip().upper() in HEARTBEATS:
            return Prepared(None, changes=_nothing_left(text, recalled))
        redacted = sum([*secrets.values(), *in_speaker.values(), *in_kind.values()])
        now = self._clock()
        event = Event(
            event_id=str(self._ids(int(now.timestamp() * 1000))),
            text=text,
            recorded_at=now,
            scope=replace(item.scope, tenant=tenant, user_id=item.scope.user_id or None),
            kind=item.kind,
            raw_kind=raw_kind,
            speaker=speaker,
            at=item.at,
            place=item.place,
            source=item.source,
            revision=item.revision,
            trust=lowered(item.trust, item.source, self._trust_of_sources),
            origin=item.origin,
            valid_from=item.valid_from,
            valid_to=item.valid_to or (None if (lasts := time_to_live(item.stated)) is None else now + lasts),
            supersedes=item.supersedes,
            derived_from=item.derived_from,
            stated=(*item.stated, *_annotated(item, text)),
            file=item.file and name_of_file(item.file),
        )
        return Prepared(event, redacted, _changes(recalled, cleaned + in_name, redacted))


def _annotated(item: NewMemory, text: str) -> tuple[tuple[str, str], ...]:
    """What OpenClaw's annotations in a file of Markdown state; only what a reader of files sends has such a source."""
    source = item.source or ""
    if item.place is None or item.place.unit != "line" or not source.startswith(FILE_PREFIX):
        return ()
    return annotated(annotations_of(text, curated=PurePosixPath(source).name.lower() in CURATED))


@lru_cache(1 << 14)
def name_of_file(path: str) -> str:
    """A path as the journal keeps it: itself, or its hash if it has a secret in it."""
    return f"sha256:{sha256(path.encode('utf-8', 'surrogatepass')).hexdigest()}" if redact(path)[1] else path


def _refuse_secrets(name: str, item: NewMemory) -> None:
    """Raises BadInput for a secret in an id, a key or a file's name, which cannot be masked."""
    identities = (
        ("document", item.place.document if item.place else None),
        ("source", item.source),
        ("revision", item.revision),
        ("supersedes", item.supersedes),
        ("project", item.scope.project),
        *item.stated,
        *item.scope.named().items(),
    )
    for field_name, value in identities:
        if value and redact(value)[1]:
            raise BadInput(f"{name}.{field_name} has a secret in it; take it out")


def _without_recalled(item: NewMemory) -> tuple[str, int]:
    """The text without blocks of recalled memories, and how many characters they had.

    A turn comes from a transcript, where a block may be cut off. In other texts only complete blocks are removed, since
    the text may be about them.
    """
    text = without_own_block(item.text) if item.kind == "turn" else without_whole_blocks(item.text)[0]
    return text, len(item.text) - len(text)


def _changes(recalled: int, cleaned: int, redacted: int) -> str:
    """How the stored text differs from what was sent, in words; empty if it does not."""
    changes = []
    if recalled:
        changes.append(f"{_counted(recalled, 'character')} of recalled memories left out")
    if cleaned:
        changes.append(
            f"{_counted(cleaned, 'character')} replaced or removed (line ends, controls, invisible or broken)"
        )
    if redacted:
        changes.append(f"{_counted(redacted, 'secret')} masked")
    return "; ".join(changes)


def _counted(count: int, thing: str) -> str:
    return f"{count:,} {thing}" if count == 1 else f"{count:,} {thing}s"


def _nothing_left(text: str, recalled: int) -> str:
    """Why nothing of a text is stored."""
    if text.strip():
        return "nothing to remember: a heartbeat"
    if recalled:
        return "nothing to remember: all of it is a block of recalled memories"
    return "nothing to remember: it has no visible character"


def _acknowledge(prepared: Sequence[Prepared], stored: Sequence[Stored]) -> list[Acknowledged]:
    kept = iter(stored)
    replies = []
    for item in prepared:
        if item.event is None:
            replies.append(Acknowledged("", "", "skipped", reason=item.changes))
            continue
        one = next(kept)
        if one.state == "blocked":
            why = "it was forgotten; remember it explicitly, without source and document, to lift that"
            replies.append(Acknowledged("", "", "blocked", reason=why))
        else:
            fresh = one.state != "duplicate"
            redacted, changes = (item.redacted, item.changes) if fresh else (0, "")
            if one.withheld:
                held = f"{_counted(one.withheld, 'line')} left out, forgotten in this file before"
                changes = "; ".join(filter(None, (changes, held)))
            claimed = (one.event.source or "").startswith(CLAIMED_PREFIX)
            if fresh and claimed:
                why = WHY_CLAIMED if one.event.file is None else WHY_OTHER_FILE
                changes = "; ".join(filter(None, (changes, f"its source is kept as {one.event.source!r}: {why}")))
            if one.said > 1:
                changes = f"said again: it was remembered before, {one.said} times in all"
            replies.append(
                Acknowledged(
                    one.ref,
                    one.event.event_id,
                    one.state,
                    redacted,
                    changes,
                    supersedes=one.supersedes,
                    said=one.said,
                    claimed=claimed,
                )
            )
    return replies
