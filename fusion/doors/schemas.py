"""The requests of the HTTP API, declared once as pydantic models.

FastAPI validates requests with them and writes them into `/openapi.json`; tests compare the MCP tools, the client and
the command line with them. Every model is strict and closed: a wrong type or an unknown field is an error that names
the field. Replies are declared in `fusion.wire`.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from dataclasses import MISSING, fields, replace
from datetime import UTC, datetime, timedelta
from functools import cache
from typing import Annotated, Any, Literal, Self, TypeVar, get_type_hints

from pydantic import (
    BaseModel,
    ConfigDict,
    Discriminator,
    Field,
    JsonValue,
    Tag,
    TypeAdapter,
    ValidationError,
    create_model,
    model_validator,
)
from pydantic.functional_validators import AfterValidator, BeforeValidator
from pydantic.json_schema import SkipJsonSchema, WithJsonSchema

from fusion.compare.arms import ALL_BACKENDS
from fusion.contract import (
    EVERYTHING,
    KINDS,
    Asker,
    Audience,
    BlockFormat,
    Kind,
    Lifetime,
    Moment,
    Origin,
    Place,
    Precision,
    Scope,
    Trust,
    Unit,
    Where,
)
from fusion.doors.validation import MANY, ONE, content_of, explain, refuse_duplicates
from fusion.errors import BadInput, TooLarge
from fusion.extension import Verb
from fusion.gateway.decisions import StateRequest
from fusion.gateway.memory_flush import Access, Context, Rules, Trigger
from fusion.gateway.transfer import ImportOptions, TrustChoice
from fusion.ingest.forget import ForgetRequest
from fusion.ingest.intake import MAX_TEXT_CHARS, NewMemory, not_one_line
from fusion.ingest.update import Change
from fusion.journal.listing import Criteria
from fusion.journal.retire import MAX_KEPT, CompleteFile
from fusion.lib.budget import DAILY_LOG_CHARS, MAX_BUDGET_CHARS, MAX_BUDGET_TOKENS
from fusion.lib.moment import end_of, zone_of
from fusion.lib.stated_fields import MAX_TAG_CHARS, MAX_TAGS, MAX_TTL_S, stated_entities, to_stated
from fusion.recall.document import MAX_LINES, PAGE_LINES
from fusion.recall.engine import QUERY_LIMIT, FuseRequest
from fusion.sources.histories import agent_of
from fusion.sources.readers import moment

MAX_BATCH = 100
MAX_MESSAGES = 50_000
MAX_RESULTS = 100
MAX_REF_CHARS = 512
MAX_ENTITIES = 32

B = TypeVar("B", bound=BaseModel)
D = TypeVar("D")


def _printable(text: str) -> str:
    """Refuse a NUL: stores and prompts cannot hold one, and dropping it would change the text."""
    if "\0" in text:
        raise ValueError("has a NUL character; remove it")
    return text


def _one_line(text: str) -> str:
    """Refuse an id or a reference that recall cannot cite."""
    if wrong := not_one_line(text):
        raise ValueError(wrong)
    return text


def _not_blank(fix: str) -> Callable[[str], str]:
    """A check of a text that must say something; ``fix`` is what its field is for."""

    def check(text: str) -> str:
        if not text.strip():
            raise ValueError(f"is empty; {fix}")
        return _printable(text)

    return check


def _check_length(query: str) -> str:
    """Refuse a query over the limit with TooLarge, which becomes a 413, unlike a ValidationError."""
    if len(query) > QUERY_LIMIT:
        raise TooLarge(
            f"query has {len(query)} characters; {QUERY_LIMIT} are the most. Ask with the part that matters."
        )
    return query


def _integer(value: object) -> object:
    """The integer in a text of a query string."""
    return int(value) if isinstance(value, str) and value.isascii() and value.isdigit() and len(value) <= 16 else value


def _boolean(value: object) -> object:
    """The boolean in a text of a query string."""
    return {"true": True, "false": False}.get(value, value) if isinstance(value, str) else value


def moment_of(value: object) -> object:
    """A moment as precise as its text ("2026", "2026-01", "2026-01-31", with a time of day), or a `MomentBody`."""
    if isinstance(value, dict):
        try:
            return _MOMENT.validate_python(value).moment()
        except ValidationError as error:
            raise ValueError(explain(error)) from None
    if not isinstance(value, str):
        return value
    try:
        return moment(value)
    except ValueError:
        raise ValueError('is no time; write ISO 8601, "2026-01-31" or "2026-01-31T09:30:00Z"') from None


def since(value: object) -> object:
    """The time of a memory's field: a date is the beginning of that day, UTC."""
    found = moment_of(value) if isinstance(value, str) else value
    return found.utc if isinstance(found, Moment) else found


def until(value: object) -> object:
    """The time of a question's field: a date is the end of that day, a month its end, UTC."""
    found = moment_of(value) if isinstance(value, str) else value
    if not isinstance(found, Moment):
        return found
    try:
        after = {
            "year": lambda at: at.replace(year=at.year + 1),
            "month": lambda at: (at + timedelta(days=31)).replace(day=1),
            "day": lambda at: at + timedelta(days=1),
        }.get(found.precision)
        return found.utc if after is None else after(found.utc) - timedelta(microseconds=1)
    except (ValueError, OverflowError):
        raise ValueError("is beyond the end of the calendar") from None


def _zone(name: str) -> str:
    """Refuse a name that is no time zone's: the question would be answered for other days."""
    if name != "UTC" and zone_of(name) is UTC:
        raise ValueError("is no time zone that this machine knows; write an IANA name: Europe/Berlin")
    return name


def end_of_day(moment: Moment) -> datetime:
    """The end of an episode: of the day, month or year that is named, else the very time."""
    if moment.precision not in ("day", "month", "year"):
        return moment.utc
    try:
        return end_of(moment)
    except (ValueError, OverflowError):
        raise ValueError("until is beyond the end of the calendar") from None


Id = Annotated[str, Field(min_length=1, max_length=256), AfterValidator(_one_line)]
UserId = Annotated[str, Field(max_length=256, description="empty: no user"), AfterValidator(_one_line)]
Reference = Annotated[str, Field(min_length=1, max_length=MAX_REF_CHARS), AfterValidator(_one_line)]
EntityName = Annotated[str, Field(min_length=1, max_length=128), AfterValidator(_one_line)]
Name = Annotated[str, Field(min_length=1, max_length=64), AfterValidator(_printable)]
Zone = Annotated[str, Field(max_length=64, description="an IANA name: Europe/Berlin"), AfterValidator(_printable)]
Share = Annotated[float, Field(ge=0, le=1)]
Tags = Annotated[
    tuple[Annotated[str, Field(min_length=1, max_length=MAX_TAG_CHARS)], ...], Field(max_length=MAX_TAGS, strict=False)
]
QueryText = Annotated[
    str,
    Field(json_schema_extra={"minLength": 1, "maxLength": QUERY_LIMIT}),
    AfterValidator(_not_blank("say what to recall")),
    AfterValidator(_check_length),
]
MemoryText = Annotated[
    str, Field(json_schema_extra={"minLength": 1}), AfterValidator(_not_blank("say what to remember"))
]
_TIME = WithJsonSchema({"type": "string", "examples": ["2026-01-31", "2026-01-31T09:30:00Z"]})
Until = Annotated[datetime, BeforeValidator(until), _TIME]
Since = Annotated[datetime, BeforeValidator(since), _TIME]
AskerZone = Annotated[
    Annotated[str, Field(min_length=1, max_length=64), AfterValidator(_printable), AfterValidator(_zone)] | None,
    Field(description="the asker's, in which yesterday ends: Europe/Berlin; by default the home's"),
]
Now = Annotated[Since | None, Field(description="when it is asked, if not now: what yesterday counts from")]


ArmText = Annotated[str, Field(min_length=1, max_length=512), AfterValidator(_printable)]
_ARM = "a recipe, @ and backends joined by +, all of them, or all but those behind a -"
Refs = Annotated[tuple[Reference, ...], Field(max_length=1000, strict=False)]
Names = Annotated[tuple[Name, ...], Field(min_length=1, max_length=64, strict=False)]
Entities = Annotated[tuple[EntityName, ...], Field(max_length=MAX_ENTITIES, strict=False)]
Cursor = Annotated[str, Field(min_length=1, max_length=64)]
PageCursor = Annotated[Cursor | None, Field(description="next_cursor of the page before; none for the first page")]
PageSize = Annotated[int, Field(ge=1, le=MAX_BATCH), BeforeValidator(_integer)]


class _Body(BaseModel):
    model_config = ConfigDict(strict=True, extra="forbid", frozen=True)

    def _as(self, kind: type[D], **more: Any) -> D:
        """A dataclass with this body's fields of the same names, and ``more``."""
        names = _common_fields(kind, type(self))  # type: ignore[arg-type]  # a class is hashable
        return kind(**{**{name: getattr(self, name) for name in names}, **more})


@cache
def _common_fields(kind: type[Any], body: type[_Body]) -> frozenset[str]:
    return frozenset(field.name for field in fields(kind)) & body.model_fields.keys()


class MomentBody(_Body):
    """A moment with an explicit precision, or the time to ``until``; ``zone`` is the IANA name of its time zone."""

    utc: Since
    precision: Precision = "second"
    zone: Annotated[str, Field(max_length=64), AfterValidator(_printable)] | None = None
    until: Since | None = Field(default=None, description="when it ended, if that is later than the precision says")

    @model_validator(mode="after")
    def _check_end(self) -> Self:
        if self.until is not None and self.until < self.utc:
            raise ValueError("until is before utc; it is when the same thing ended")
        return self

    def moment(self) -> Moment:
        return self._as(Moment)


_MOMENT = TypeAdapter(MomentBody)

When = Annotated[
    Moment,
    BeforeValidator(moment_of),
    WithJsonSchema(
        {
            "oneOf": [
                {"type": "string", "examples": ["2026-01", "2026-01-31", "2026-01-31T09:30:00+02:00"]},
                MomentBody.model_json_schema(),
            ]
        }
    ),
]


class Scoped(_Body):
    """The scope of a request. A field that is not set does not filter a question, and is empty on a memory.

    An empty ``user_id`` asks for the memories that belong to no user.
    """

    user_id: UserId | None = None
    agent_id: Id | None = None
    run_id: Id | None = None
    session_id: Id | None = None
    project: Id | None = Field(default=None, description="boosts; never filters")
    audience: Audience = Field(default="private", description="where the answer will be read")

    def scope(self, tenant: str) -> Scope:
        return Scope(tenant, self.user_id, self.agent_id, self.run_id, self.session_id, self.project, self.audience)


class AskerBody(_Body):
    """Who asks, while the scope says whose memories are searched. An asker never filters."""

    agent_id: Id | None = Field(default=None, description="the agent that asks")
    session_id: Id | None = Field(default=None, description="its session: what was shown in it is not shown again")
    channel: Id | None = Field(default=None, description="where the answer goes")
    new_context: bool = Field(default=False, description="nothing shown earlier is in the session's context any more")

    def asker(self) -> Asker:
        return self._as(Asker)


def _many(value: object) -> object:
    return [value] if isinstance(value, str) else value


def _one_or_many(one: dict[str, Any], most: int) -> WithJsonSchema:
    return WithJsonSchema({"anyOf": [one, {"type": "array", "items": one, "maxItems": most}]})


_Words = Annotated[
    tuple[Id, ...],
    Field(max_length=64, strict=False),
    BeforeValidator(_many),
    _one_or_many({"type": "string", "minLength": 1, "maxLength": 256}, 64),
]
_Kinds = Annotated[
    tuple[Kind, ...],
    Field(max_length=len(KINDS), strict=False),
    BeforeValidator(_many),
    _one_or_many({"type": "string", "enum": list(KINDS)}, len(KINDS)),
]


class WhereBody(_Body):
    """What a memory must be like. Of several values of one field any will do; every field that is given must fit."""

    folder: _Words = Field(default=(), description="in these folders: customers, 2026/11")
    tag: _Words = Field(default=(), description="with these tags, in front matter or as #tag; nested ones count")
    property: Annotated[dict[Id, _Words], Field(max_length=64)] = Field(
        default={}, description="with these values of properties in the front matter of the note"
    )
    kind: _Kinds = Field(default=(), description="of these kinds")
    speaker: _Words = Field(default=(), description="said by these speakers, by name or a part of it")
    after: Since | None = Field(default=None, description="that happened, or were recorded, then or later")
    before: Until | None = Field(default=None, description="…or earlier; a date is the end of that day")

    @model_validator(mode="before")
    @classmethod
    def _check_names(cls, given: Any) -> Any:
        """Refuse a name that is no filter, with those that are."""
        names = cls.model_fields
        if isinstance(given, dict) and (unknown := [name for name in given if name not in names]):
            known = ", ".join(names)
            raise ValueError(f"has no {str(unknown[0])[:64]!r}; there are {known}")
        return given

    def where(self) -> Where:
        pairs = tuple((name, value) for name, values in self.property.items() for value in values)
        return self._as(Where, property=pairs)


WhereField = Annotated[
    WhereBody | None, Field(description="only memories like this, by folder, tag, property, kind, speaker and time")
]


def where_of(body: WhereBody | None) -> Where:
    """The filter of a request; one that admits all if it has none."""
    return EVERYTHING if body is None else body.where()


class Asking(Scoped):
    """The scope of a request that ranks memories by a question.

    It names a user or an agent, unless one user and one agent are all that have memories.
    """

    all_users: Annotated[bool, BeforeValidator(_boolean)] = Field(
        default=False, description="the home's owner asks for the memories of all users and agents"
    )


class Question(Asking):
    """The fields of a question and of a comparison."""

    query: QueryText = Field(
        description="Beyond 4,000 characters it is searched by its first and last 2,000, and the answer says so.",
    )
    as_of: Until | None = Field(default=None, description="what was true then; a date is the end of that day")
    known_at: Until | None = Field(default=None, description="what had been recorded by then")
    timezone: AskerZone = None
    now: Now = None
    where: WhereField = None
    budget_chars: int | None = Field(
        default=None, ge=1, le=MAX_BUDGET_CHARS, description="characters of the block at most, its frame included"
    )
    budget_tokens: int | None = Field(
        default=None,
        ge=1,
        le=MAX_BUDGET_TOKENS,
        description="estimated tokens of the block at most; with budget_chars, both hold; either replaces the recipe's",
    )
    max_results: int | None = Field(default=None, ge=1, le=100, description="excerpts in the block at most")
    max_items: int | None = Field(
        default=None, ge=1, le=1000, description="single memories in the block at most; an excerpt may have several"
    )
    format: BlockFormat | None = Field(default=None, description="what the block looks like; fence by default")
    timeout_ms: int | None = Field(default=None, ge=1, le=60_000, description="for everything, end to end")

    def request(self, tenant: str) -> FuseRequest:
        return self._as(FuseRequest, scope=self.scope(tenant), where=where_of(self.where))


class FuseBody(Question):
    """A question to all memories."""

    backends: Names | None = Field(default=None, description="ask only these")
    recipe: Name | None = None
    explain: bool = Field(default=False, description="the receipt's reasons with the answer")
    fill: bool | None = Field(
        default=None, description="true: fill the block up to its limits; false: leave out what adds too little"
    )
    gate: bool | None = Field(
        default=None, description="false: answer whatever the prompt is, although the recipe's gate would be silent"
    )
    asker: AskerBody | None = None

    def request(self, tenant: str) -> FuseRequest:
        asker = None if self.asker is None else self.asker.asker()
        return self._as(FuseRequest, scope=self.scope(tenant), asker=asker, where=where_of(self.where))


class CompareBody(Question):
    """A question to two arms: a recipe, which backends it asks, or both."""

    a: ArmText = Field(
        default=ALL_BACKENDS, description="seed003, default@markdown+cortex, @markdown, all, -mem0: " + _ARM
    )
    b: ArmText = Field(description="the other arm")


class FeedbackBody(Scoped):
    """Which memories of an answer were useful, and which were not; replaces earlier feedback on it.

    One of the two lists is required: an empty list takes feedback back, and a missing field must not.
    """

    receipt_id: Reference
    useful: Refs = Field(default=(), description="refs as the answer cites them; empty, without useless: taken back")
    useless: Refs = Field(default=(), description="no ref may be both")

    @model_validator(mode="after")
    def _check_lists(self) -> Self:
        if not self.model_fields_set & {"useful", "useless"}:
            raise ValueError("useful or useless is missing; an empty list takes feedback back")
        if both := [n for n, ref in enumerate(self.useless) if ref in self.useful]:
            raise ValueError(f"useless[{both[0]}] is in useful, too; a memory was one or the other")
        return self


class ReceiptQuery(_Body):
    """The user that the receipt's question was asked for."""

    user_id: UserId | None = Field(default=None, description="who asked; the receipt of another question is not found")


class LabelsQuery(_Body):
    """Which labels to read, oldest first."""

    limit: Annotated[int, Field(ge=1, le=1000), BeforeValidator(_integer)] = 100
    cursor: PageCursor = None


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
    revision: Annotated[str, Field(max_length=256), AfterValidator(_printable)] = ""
    origin: Origin = "owner"
    valid_from: Since | None = None
    valid_to: Since | None = None
    lifetime: Lifetime | None = Field(default=None, description="ttl ends after 720 hours, session after 24 unused")
    ttl_seconds: Annotated[float, Field(gt=0, le=MAX_TTL_S)] | None = Field(
        default=None, description="it ends that long after it was stored; makes the lifetime ttl"
    )
    confidence: Share | None = None
    importance: Share | None = None
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
    """Which memories to list, newest first."""

    document: Reference | None = Field(default=None, description="only those of this conversation or file")
    source: Reference | None = Field(default=None, description="only those from there")
    limit: PageSize = 20
    cursor: PageCursor = None


class SearchBody(Asking):
    """A question to one backend, answered with its raw hits."""

    backend: Name
    query: QueryText
    where: WhereField = None
    limit: int = Field(default=10, ge=1, le=100)


class DocumentQuery(Scoped):
    """A page of a document. A path that is no document's is not found."""

    path: str = Field(description="as a hit or an excerpt names its document", examples=["notes/database.md"])
    start: Annotated[int, Field(ge=1, le=2**53), BeforeValidator(_integer)] = Field(
        default=1, alias="from", description="the first line or turn"
    )
    lines: Annotated[int, Field(ge=1, le=MAX_LINES), BeforeValidator(_integer)] = Field(
        default=PAGE_LINES, description="lines or turns at most"
    )
    summaries: Literal["rules", "model"] | None = Field(
        default=None, description="list the page's sections, each with a summary by rules, or by the model of [model]"
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


class StateBody(Scoped):
    """The memory, and what to change about it; fields that are left out stay as they are."""

    ref: Reference
    archived: bool | None = Field(default=None, description="true hides it from now on; false makes it current again")
    trust: Trust | None = Field(default=None, description="quarantined memories are never answered")
    lifetime: Lifetime | None = Field(default=None, description="ttl ends after 720 hours, session after 24 unused")
    confidence: Share | None = None
    importance: Share | None = None
    for_project: Id | None = Field(default=None, description="the project that the memory belongs to")
    tags: Tags | None = None
    why: Annotated[str, Field(max_length=500), AfterValidator(_printable)] = Field(
        default="", description="the reason, for the log"
    )

    def request(self, tenant: str) -> StateRequest:
        tags = None if self.tags is None else tuple(self.tags)
        return self._as(StateRequest, scope=self.scope(tenant), tags=tags, project=self.for_project)


class DecisionsQuery(Scoped):
    """Which page of the log of decisions, newest first."""

    ref: Reference | None = Field(default=None, description="only decisions on this memory")
    limit: PageSize = 20
    cursor: Annotated[str, Field(max_length=32)] | None = Field(
        default=None, description="next_cursor of the page before"
    )


_DecisionName = Annotated[str, Field(min_length=1, max_length=32), AfterValidator(_one_line)]


class UndoDecisionBody(Scoped):
    """The decision to take back, or the run of which all decisions are taken back."""

    decision: _DecisionName | None = Field(default=None, examples=["d12"])
    run: Reference | None = Field(default=None, description="the run of a job, as its decisions name it")

    @model_validator(mode="after")
    def _check_one(self) -> Self:
        if (self.decision is None) == (self.run is None):
            raise ValueError("give a decision or a run, not both")
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
    limit: Annotated[int, Field(ge=1, le=1000), BeforeValidator(_integer)] = 100


class WholeBody(_Body):
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


class FlushBody(_Body):
    """The use of a session's context window. Rules that are not set come from the settings."""

    context_window: int = Field(ge=1, le=2**40, description="tokens that the model takes")
    total_tokens: int | None = Field(default=None, ge=0, le=2**40, description="tokens in use; none: not known")
    message: str = Field(default="", description="what comes next, which has to fit as well")
    transcript_bytes: int | None = Field(default=None, ge=0, le=2**53, description="size of the session's transcript")
    compactions: int = Field(default=0, ge=0, le=2**31, description="of this session so far")
    flushed_at: int | None = Field(default=None, ge=0, le=2**31, description="`compactions` at the last flush")
    overflowed: bool = Field(default=False, description="the model has refused the context already")
    trigger: Trigger = Field(default="user", description="what the turn answers to; only a user's is flushed")
    workspace: Access = Field(default="rw", description="what the agent may do there; only rw is flushed")
    cli_backend: bool = Field(default=False, description="another program's command line runs the turns")
    zone: Zone | None = Field(default=None, description="the user's time zone: Europe/Berlin")
    reserve_floor_tokens: int | None = Field(default=None, ge=0, le=2**40, description="kept free for the reply")
    soft_threshold_tokens: int | None = Field(default=None, ge=0, le=2**40, description="how long before that")
    force_transcript_bytes: int | None = Field(default=None, ge=0, le=2**53, description="0: its size is left out")

    def context(self) -> Context:
        return self._as(Context, window_tokens=self.context_window, incoming=self.message)

    def rules(self, configured: Rules) -> Rules:
        names = {field.name for field in fields(Rules)}
        return replace(configured, **self.model_dump(include=names, exclude_none=True))


class SearchToolBody(Asking):
    """memory_search, with the field names of OpenClaw."""

    query: QueryText
    max_results: int = Field(default=6, alias="maxResults", ge=1, le=50, description="results at most")
    min_score: float = Field(default=0.0, alias="minScore", ge=0, le=1, description="results of at least this score")
    citations: Literal["auto", "on", "off"] | None = Field(default=None, description="instead of the setting")
    backends: Names | None = Field(default=None, description="ask only these")
    as_of: Until | None = Field(default=None, description="what was true then; a date is the end of that day")
    timezone: AskerZone = None
    where: WhereField = None
    timeout_ms: int | None = Field(default=None, ge=1, le=60_000, description="for everything, end to end")

    def request(self, tenant: str) -> FuseRequest:
        budget_chars = min(MAX_BUDGET_CHARS, 4000 * self.max_results)  # one memory takes 4,000 of a block at most
        more = {"where": where_of(self.where), "budget_chars": budget_chars, "explain": True}
        return self._as(FuseRequest, scope=self.scope(tenant), **more)


class GetToolBody(Scoped):
    """memory_get: a page of a document, or a memory by its ref."""

    path: str = Field(description="as a result of memory_search names it")
    start: int = Field(default=1, alias="from", ge=1, le=2**53, description="the first line or turn")
    lines: int = Field(default=PAGE_LINES, ge=1, le=MAX_LINES, description="lines or turns at most")


class AppendToolBody(Scoped):
    """memory_append: lines for today's log."""

    text: MemoryText = Field(max_length=MAX_TEXT_CHARS)


class HistoryBody(_Body):
    """The whole history of a session, as Memory Cortex's ``POST /ingest`` takes it after each turn."""

    messages: list[Any] = Field(
        max_length=MAX_MESSAGES,
        description="{role, content, name, timestamp} each; other roles than user and assistant are left out",
    )
    session_id: Id
    channel: Id | None = None
    user_id: UserId | None = None
    agent_id: Id | None = Field(default=None, description="without it, that of a session_id like agent:main:telegram:1")
    project: Id | None = None
    audience: Audience = Field(default="group", description="the widest audience that may read it")
    debounce: bool = Field(default=True, description="take it in once no other call came for a while, else at once")

    def scope(self, tenant: str) -> Scope:
        agent = self.agent_id or agent_of(self.session_id)
        return Scope(tenant, self.user_id, agent, None, self.session_id, self.project, self.audience)


class SessionQuery(_Body):
    """Which session to describe."""

    session_id: Id
    user_id: UserId | None = None
    agent_id: Id | None = Field(default=None, description="without it, that of a session_id like agent:main:telegram:1")

    def scope(self, tenant: str) -> Scope:
        return Scope(tenant, self.user_id, audience="private")

    def asker(self) -> Asker:
        return Asker(self.agent_id or agent_of(self.session_id), self.session_id)


class CortexQuestion(Asking):
    """What to recall, as Memory Cortex's ``POST /recall`` takes it."""

    query: QueryText


class CortexSearchBody(CortexQuestion):
    """What to search for, as Memory Cortex's ``POST /hybrid-search`` takes it."""

    limit: int = Field(default=10, ge=1, le=MAX_RESULTS)


class DailyLogsBody(Asking):
    """The logs of today and yesterday, for the start of a session."""

    zone: Zone | None = Field(default=None, description="the user's time zone, instead of the setting: Europe/Berlin")
    budget_chars: int = Field(default=DAILY_LOG_CHARS, ge=1, le=MAX_BUDGET_CHARS, description="of the block")


class RunJobBody(_Body):
    """How to run a job."""

    dry_run: bool = Field(default=False, description="change nothing, and report what a run would do")
    due: bool = Field(default=False, description="run it only if its schedule says so and it is not paused")


class LifecycleBody(Scoped):
    """Whose memories to run the lifecycle over, and how."""

    dry_run: bool = Field(default=False, description="change nothing, and count what a run would do")
    ttl_hours: Annotated[float, Field(gt=0, le=1e6)] | None = Field(
        default=None, description="hours after which a memory of the lifetime ttl expires; else [lifecycle] ttl_hours"
    )
    idle_hours: Annotated[float, Field(gt=0, le=1e6)] | None = Field(
        default=None, description="hours without use after which a session memory decays; else [lifecycle] idle_hours"
    )
    delete_expired: bool | None = Field(
        default=None, description="delete what expired in every backend; else [lifecycle] delete_expired"
    )


class PauseJobBody(_Body):
    """Nothing: the path names the job."""


class JobLogQuery(_Body):
    """Which runs to list, the latest first."""

    job: Name | None = Field(default=None, description="only those of this job")
    limit: PageSize = 20
    cursor: PageCursor = None


class ExportQuery(_Body):
    """What to export: everything that the key may read, one tenant, or one user."""

    tenant: Id | None = Field(default=None, description="only this tenant; the owner's alone may name another")
    user_id: Id | None = Field(default=None, description="only this user's memories")


class ImportQuery(_Body):
    """How to import an export."""

    dry_run: Annotated[bool, BeforeValidator(_boolean)] = Field(default=False, description="count, and change nothing")
    trust: TrustChoice = Field(
        default="auto",
        description="the most that its memories are believed; keep: it is your own, as auto takes one of this journal",
    )
    partial: Annotated[bool, BeforeValidator(_boolean)] = Field(
        default=False, description="also an export that is cut off or has broken lines, without these"
    )
    refs: Annotated[bool, BeforeValidator(_boolean)] = Field(
        default=False, description="a line for each memory that gets another ref; needs Accept: application/x-ndjson"
    )
    tenant: Id | None = Field(default=None, description="only this tenant of the export")

    def options(self) -> ImportOptions:
        return self._as(ImportOptions)


class SettleBody(_Body):
    """How long to wait until everything remembered is delivered and its vectors are there."""

    timeout_s: float = Field(default=30.0, ge=0, le=600)


def verb(kind: type[Verb], body: bytes) -> tuple[Verb, Scoped]:
    """A verb with its arguments, and its scope. Raises BadInput, which names each wrong argument."""
    given = content_of(body)
    for name, where in in_settings(kind).items():
        if isinstance(given, dict) and name in given:
            raise BadInput(f"{name}: a request does not say that; it is a setting: {where}")
    try:
        sent = _arguments_model(kind).validate_json(body)  # strict JSON mode accepts a list for a tuple
    except ValidationError as error:
        raise BadInput(explain(error)) from None
    own = {name: getattr(sent, name) for name in sent.model_fields_set - Asking.model_fields.keys()}
    return kind(**own), sent


def in_settings(kind: type[Verb]) -> Mapping[str, str]:
    """Former arguments of a verb that are settings now, each with the setting's name."""
    return getattr(kind, "in_settings", {})


@cache
def _arguments_model(kind: type[Verb]) -> TypeAdapter[Scoped]:
    """The model of a verb's body: its own arguments and a scope."""
    hints = get_type_hints(kind, include_extras=True)
    own: dict[str, Any] = {
        f.name: (hints[f.name], ... if f.default is MISSING and f.default_factory is MISSING else None)
        for f in fields(kind)  # type: ignore[arg-type]  # a Verb is a dataclass, which a protocol cannot declare
    }
    base = Asking if getattr(kind, "asks", False) else Scoped
    return TypeAdapter(create_model(kind.__name__, __base__=base, **own))


def in_query(model: type[B], parameters: Sequence[tuple[str, str]]) -> B:
    """A query string as ``model``. Raises BadInput for an unknown or duplicate parameter."""
    refuse_duplicates(parameters)
    try:
        return model.model_validate(dict(parameters))
    except ValidationError as error:
        raise BadInput(explain(error)) from None


def _header(max_chars: int, why: str) -> Callable[[str], str]:
    """A check that a header has 1 to ``max_chars`` printable ASCII characters; ``why`` is the message otherwise."""

    def check(header: str) -> str:
        if not 0 < len(header) <= max_chars or not (header.isascii() and header.isprintable()):
            raise BadInput(why)
        return header

    return check


_PRINTABLE = {"minLength": 1, "pattern": "^[!-~]+$"}
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
