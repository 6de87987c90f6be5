"""The requests about stored memories: remember, list, read, change and forget them."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import replace
from typing import Annotated, Any, Literal, Self

from pydantic import Discriminator, Field, JsonValue, Tag, model_validator
from pydantic.functional_validators import AfterValidator, BeforeValidator
from pydantic.json_schema import SkipJsonSchema

from fusion.contract import Audience, Kind, Lifetime, Origin, Place, Priority, Trust, Unit
from fusion.doors.schemas.base import (
    MAX_BATCH,
    Asking,
    Body,
    Cursor,
    DueTime,
    Entities,
    Id,
    Importance,
    MemoryText,
    Name,
    PageCursor,
    PageSize,
    QueryText,
    Reference,
    Scoped,
    Share,
    Since,
    StatedProvenance,
    Tags,
    When,
    boolean,
    decimal,
    end_of_day,
    integer,
    one_line,
    printable,
)
from fusion.doors.validation import MANY, ONE
from fusion.errors import BadInput
from fusion.gateway.decisions import StateRequest, StatesRequest
from fusion.ingest.forget import ForgetRequest
from fusion.ingest.intake import MAX_TEXT_CHARS, NewMemory
from fusion.ingest.update import Change
from fusion.journal.browsing import Order, Standing
from fusion.journal.listing import Criteria
from fusion.journal.retire import MAX_KEPT, CompleteFile
from fusion.lib.moment import moment
from fusion.lib.stated_fields import MAX_TAG_CHARS, MAX_TTL_S, stated_entities, to_stated
from fusion.recall.document import MAX_LINES, MAX_VERSIONS, PAGE_LINES


def _header(max_chars: int, why: str) -> Callable[[str], str]:
    """A check that a header has 1 to ``max_chars`` printable ASCII characters, no space first or last.

    ``why`` is the message otherwise.
    """

    def check(header: str) -> str:
        if (
            not 0 < len(header) <= max_chars
            or header != header.strip()
            or not (header.isascii() and header.isprintable())
        ):
            raise BadInput(why)
        return header

    return check


_PRINTABLE = {"minLength": 1, "pattern": "^[!-~]([ -~]*[!-~])?$"}
IdempotencyKey = Annotated[
    str,
    AfterValidator(_header(255, "Idempotency-Key has 1 to 255 printable ASCII characters; a UUID is a good one.")),
    Field(json_schema_extra=_PRINTABLE | {"maxLength": 255}),
]
Batch = Annotated[
    str,
    AfterValidator(_header(64, "Ingest-Batch has 1 to 64 printable ASCII characters.")),
    Field(json_schema_extra=_PRINTABLE | {"maxLength": 64}),
]


class MemoryBody(Scoped):
    """One memory to keep. With ``document`` and ``position``, sending the same text again changes nothing."""

    text: MemoryText = Field(max_length=MAX_TEXT_CHARS)
    audience: Audience = Field(default="group", description="the widest audience that may read it")
    kind: Kind = "note"
    raw_kind: Id | None = Field(default=None, description="the source's own word for it")
    speaker: Id | None = None
    at: When | None = Field(default=None, description="when it happened, or began, as precisely as it is known")
    until: When | None = Field(default=None, description="when it ended: an episode lasts from at to the end of this")
    entities: Entities = Field(default=(), description="who and what an episode involves, by name")
    document: Reference | None = Field(default=None, description="the conversation or file that contains it")
    position: int | None = Field(default=None, ge=0, le=2**53, description="its place there: turn or line, in order")
    end: int | None = Field(default=None, ge=0, le=2**53, description="…and the last one, if it takes several")
    unit: Unit = "turn"
    source: Reference | None = Field(default=None, description="where it comes from, part of its natural key")
    revision: Annotated[str, Field(max_length=256), AfterValidator(printable)] = ""
    origin: Origin = "owner"
    valid_from: Since | None = None
    valid_to: Since | None = None
    lifetime: Lifetime | None = Field(default=None, description="ttl ends after 720 hours, session after 24 unused")
    ttl_seconds: Annotated[float, Field(gt=0, le=MAX_TTL_S)] | None = Field(
        default=None, description="it ends that long after it was stored; makes the lifetime ttl"
    )
    confidence: Share | None = None
    importance: Importance | None = None
    provenance: StatedProvenance | None = None
    priority: Priority | None = Field(default=None, description="P0 is kept unused, P1 for months, P2 for weeks")
    due: DueTime | None = Field(default=None, description="when a plan is due; else the words of its text decide")
    trust: Trust = Field(default="unknown", description="trusted is the owner's to say; quarantined is never answered")
    tags: Tags = ()
    metadata: dict[str, JsonValue] | None = Field(default=None, description="kept and shown; nothing searches it")
    supersedes: Reference | None = Field(default=None, description="the ref of the memory that this one replaces")
    read_from: SkipJsonSchema[Reference | None] = None
    """the path of the file that it was read from; never opened, and only the gateway's own readers are believed"""

    @model_validator(mode="after")
    def _check_place(self) -> Self:
        """Require a position with a document: without one, all memories of the document would be one."""
        if (self.document is None) != (self.position is None):
            raise ValueError("document and position go together; give both or none")
        if self.end is not None and (self.position is None or self.end < self.position):
            raise ValueError("end comes at or after position")
        return self

    @model_validator(mode="after")
    def _check_trust(self) -> Self:
        """Refuse trust that only the owner may give: an agent, a tool and a file may state less, and never more."""
        if self.trust == "trusted" and (self.origin != "owner" or self.read_from is not None):
            raise ValueError("trust: only the owner can say trusted, not an agent, a tool, an import or a file")
        return self

    @model_validator(mode="after")
    def _check_end(self) -> Self:
        if self.ttl_seconds is not None and self.valid_to is not None:
            raise ValueError("ttl_seconds and valid_to both say when it ends; give one of them")
        return self

    @model_validator(mode="after")
    def _check_episode(self) -> Self:
        """Require a beginning for an end, and the end after it."""
        if self.until is None:
            return self
        if self.at is None:
            raise ValueError("until needs at: give the beginning of the episode, too")
        if self.at.until is not None:
            raise ValueError("until is given twice, also in at; give one of them")
        end, begin = end_of_day(self.until), self.at.utc
        if end < begin or (end == begin and self.until.utc < begin):  # of the day before
            raise ValueError("until is before at; an episode ends at or after its beginning")
        return self

    def memory(self) -> NewMemory:
        """The memory for `fusion.ingest`, which adds the tenant."""
        return self._as(
            NewMemory,
            scope=self.scope("default"),
            at=self.at and (replace(self.at, until=end_of_day(self.until)) if self.until else self.at),
            place=self._place(),
            stated=(*self._stated(), *stated_entities(self.entities)),
            file=self.read_from,
        )

    def _stated(self) -> tuple[tuple[str, str], ...]:
        return to_stated(
            self.lifetime,
            self.confidence,
            self.tags,
            importance=self.importance,
            provenance=self.provenance,
            priority=self.priority,
            due=self.due,
            ttl_seconds=self.ttl_seconds,
            metadata=self.metadata,
        )

    def _place(self) -> Place | None:
        if self.document is None or self.position is None:
            return None
        return Place(self.document, self.position, self.position if self.end is None else self.end, self.unit)


class UpdateBody(Scoped):
    """A new version of one memory: what is not set stays as it is."""

    text: MemoryText | None = Field(default=None, max_length=MAX_TEXT_CHARS, description="what it says from now on")
    kind: Kind | None = None
    valid_from: Since | None = None
    valid_to: Since | None = None
    origin: Origin = "owner"

    @model_validator(mode="after")
    def _check_change(self) -> Self:
        if not {"text", "kind", "valid_from", "valid_to"} & {n for n in self.model_fields_set if getattr(self, n)}:
            raise ValueError("nothing is to change; give text, kind, valid_from or valid_to")
        return self

    def change(self) -> Change:
        return self._as(Change)


MemoriesBody = Annotated[
    Annotated[MemoryBody, Tag(ONE)]
    | Annotated[Annotated[list[MemoryBody], Field(min_length=1, max_length=MAX_BATCH)], Tag(MANY)],
    Discriminator(lambda body: MANY if isinstance(body, list) else ONE),
]


class MemoriesQuery(Scoped):
    """Which memories to list, in which order; every field that is given must fit."""

    document: Reference | None = Field(default=None, description="only those of this conversation or file")
    source: Reference | None = Field(default=None, description="only those from there")
    kind: Kind | None = None
    trust: Trust | None = Field(default=None, description="as it is now")
    origin: Origin | None = None
    state: Standing | Literal["all"] | None = Field(
        default=None, description="in one word what holds of it; by default all that nothing replaced"
    )
    in_project: Id | None = Field(default=None, description="only those that belong to this project now")
    tag: Annotated[str, Field(min_length=1, max_length=MAX_TAG_CHARS), AfterValidator(printable)] | None = Field(
        default=None, description="only those with this tag, as stated or set"
    )
    after: Since | None = Field(default=None, description="happened, else recorded, not before this; a date: its begin")
    before: Since | None = Field(default=None, description="…before this; a date is its beginning, UTC")
    min_importance: Annotated[Share, BeforeValidator(decimal)] | None = Field(
        default=None, description="only those with this importance at least"
    )
    backend: Name | None = Field(default=None, description="only those that this backend has")
    q: Annotated[str, Field(min_length=1, max_length=200), AfterValidator(printable)] | None = Field(
        default=None, description="only those with all of these words or parts of words, eight at most"
    )
    order: Order = Field(
        default="recorded",
        description="the latest recorded first; newest and oldest go by the time at which they happened",
    )
    limit: PageSize = 20
    cursor: PageCursor = None

    def filters(self) -> dict[str, Any]:
        """The fields of `Browse` but the scope."""
        names = MemoriesQuery.model_fields.keys() - Scoped.model_fields.keys()
        return {name: getattr(self, name) for name in names}


class DocumentQuery(Scoped):
    """A page of a document. A path that is no document's is not found."""

    path: str = Field(description="as a hit or an excerpt names its document", examples=["notes/database.md"])
    start: Annotated[int, Field(ge=1, le=2**53), BeforeValidator(integer)] = Field(
        default=1, alias="from", description="the first line or turn"
    )
    lines: Annotated[int, Field(ge=1, le=MAX_LINES), BeforeValidator(integer)] = Field(
        default=PAGE_LINES, description="lines or turns at most"
    )
    summaries: Literal["rules", "model"] | None = Field(
        default=None, description="list the page's sections, each with a summary by rules, or by the model of [model]"
    )
    versions: Annotated[int, Field(ge=0, le=MAX_VERSIONS), BeforeValidator(integer)] = Field(
        default=0, description="earlier versions of its file at most, if the file is in a git repository"
    )


class ForgetBody(Asking):
    """What to forget: refs, or all memories of a scope that match every criterion, at most ``limit`` at once."""

    refs: Annotated[list[Reference], Field(min_length=1, max_length=MAX_BATCH)] | None = Field(
        default=None, description="these memories; excludes all other criteria"
    )
    query: QueryText | None = None
    source: Reference | None = Field(default=None, description="memories of this source: file:/path, or as it was sent")
    document: Reference | None = Field(default=None, description="memories of this conversation or file")
    after: Since | None = Field(default=None, description="not before this; a date is its beginning, UTC")
    before: Since | None = Field(default=None, description="before this; a date is its beginning, UTC")
    time: Literal["happened", "recorded"] = Field(
        default="happened",
        description="which time counts; without a time of its own, a memory happened when it was recorded",
    )
    limit: int | None = Field(
        default=None,
        ge=1,
        le=MAX_BATCH,
        description="20 where a query finds them, else 500; send the same again to go on",
    )
    cursor: Cursor | None = Field(default=None, description="next_cursor of the reply before, with the same criteria")
    dry_run: bool = Field(default=False, description="only show what would be forgotten")

    def request(self, tenant: str) -> ForgetRequest:
        criteria = Criteria(self.source, self.document, self.after, self.before, self.time == "recorded")
        return self._as(ForgetRequest, scope=self.scope(tenant), refs=tuple(self.refs or ()), criteria=criteria)


class UndoBody(Scoped):
    """The ingest to undo, at most ``limit`` memories at once."""

    batch: Reference | None = Field(default=None, description="its id, as `fusion ingest` printed it; else the last")
    limit: int = Field(default=1000, ge=1, le=1000, description="send the same again to go on")
    dry_run: bool = Field(default=False, description="only show what would be removed")


class _StateFields(Scoped):
    """What to change about a memory; fields that are left out stay as they are."""

    archived: bool | None = Field(default=None, description="true hides it from now on; false makes it current again")
    trust: Trust | None = Field(default=None, description="quarantined memories are never answered")
    lifetime: Lifetime | None = Field(default=None, description="ttl ends after 720 hours, session after 24 unused")
    confidence: Share | None = None
    importance: Importance | None = None
    provenance: StatedProvenance | None = None
    priority: Priority | None = Field(default=None, description="P0 is kept unused, P1 for months, P2 for weeks")
    due: DueTime | None = Field(default=None, description="when a plan is due")
    for_project: Id | None = Field(default=None, description="the project that the memory belongs to")
    tags: Tags | None = None
    why: Annotated[str, Field(max_length=500), AfterValidator(printable)] = Field(
        default="", description="the reason, for the log"
    )

    def change(self, ref: str, tenant: str) -> StateRequest:
        tags = None if self.tags is None else tuple(self.tags)
        due = None if self.due is None else moment(self.due)
        return self._as(StateRequest, ref=ref, scope=self.scope(tenant), tags=tags, project=self.for_project, due=due)


class StateBody(_StateFields):
    """The memory, and what to change about it; fields that are left out stay as they are."""

    ref: Reference

    def request(self, tenant: str) -> StateRequest:
        return self.change(self.ref, tenant)


class StatesBody(_StateFields):
    """Several memories of one owner, and what to change about each; fields that are left out stay as they are."""

    refs: Annotated[tuple[Reference, ...], Field(min_length=1, max_length=MAX_BATCH, strict=False)]
    dry_run: bool = Field(default=False, description="only show what would change")

    def request(self, tenant: str) -> StatesRequest:
        return StatesRequest(self.refs, self.change(self.refs[0], tenant), self.dry_run)


class PlansQuery(Scoped):
    """Which plans to list, by due time."""

    everything: Annotated[bool, BeforeValidator(boolean)] = Field(
        default=False, description="also those that are not due yet, or have no due time"
    )
    limit: PageSize = 20


class DecisionsQuery(Scoped):
    """Which page of the log of decisions, newest first."""

    ref: Reference | None = Field(default=None, description="only decisions on this memory")
    limit: PageSize = 20
    cursor: Annotated[str, Field(max_length=32)] | None = Field(
        default=None, description="next_cursor of the page before"
    )


_DecisionName = Annotated[str, Field(min_length=1, max_length=32), AfterValidator(one_line)]


class UndoDecisionBody(Scoped):
    """The decision to take back, or the run of which all decisions are taken back."""

    decision: _DecisionName | None = Field(default=None, examples=["d12"])
    run: Reference | None = Field(
        default=None, description="the run of a job, as its decisions name it, or as j12 to undo its changes of files"
    )
    dry_run: bool = Field(default=False, description="only name the files that a run changed")

    @model_validator(mode="after")
    def _check_one(self) -> Self:
        if (self.decision is None) == (self.run is None):
            raise ValueError("give a decision or a run, not both")
        if self.dry_run and self.run is None:
            raise ValueError("dry_run is for a run")
        return self


class BatchesQuery(Scoped):
    """Which ingests to list, the latest first."""

    limit: PageSize = 20


class ForgottenQuery(Scoped):
    """Which page of the audit of what was forgotten, newest first."""

    limit: PageSize = 20
    cursor: PageCursor = None


class SourcesQuery(Scoped):
    """Which sources to list, by name."""

    prefix: Reference | None = Field(default=None, description="only those that begin so: file:/home/ada/notes/")
    after: Reference | None = Field(default=None, description="the last one of the page before")
    limit: Annotated[int, Field(ge=1, le=1000), BeforeValidator(integer)] = 100


class WholeBody(Body):
    """One whole file: all its memories except these revisions are retired."""

    source: Reference = Field(description="the file, as its memories name it: file:/path")
    keep: Annotated[list[Annotated[str, Field(max_length=256)]], Field(max_length=MAX_KEPT)]
    part: Annotated[str, Field(max_length=64)] = Field(
        default="", description="only of revisions that begin so: for a file of more pieces than one request takes"
    )


class RetireBody(Scoped):
    """The present content of files, by revisions."""

    files: Annotated[list[WholeBody], Field(min_length=1, max_length=MAX_KEPT)]
    dry_run: bool = Field(default=False, description="only count")

    def whole(self) -> list[CompleteFile]:
        return [CompleteFile(file.source, tuple(file.keep), file.part) for file in self.files]
