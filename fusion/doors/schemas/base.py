"""The field types and the scopes that the requests share."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import fields
from datetime import UTC, datetime, timedelta
from functools import cache
from typing import Annotated, Any, Literal, Self, TypeVar

from pydantic import BaseModel, ConfigDict, Field, StringConstraints, TypeAdapter, ValidationError, model_validator
from pydantic.functional_validators import AfterValidator, BeforeValidator
from pydantic.json_schema import WithJsonSchema

from fusion.contract import EVERYTHING, KINDS, Asker, Audience, Kind, Moment, Precision, Provenance, Scope, Where
from fusion.doors.validation import explain
from fusion.errors import TooLarge
from fusion.ingest.intake import not_one_line
from fusion.lib.importance import parse_importance
from fusion.lib.moment import end_of, zone_of
from fusion.lib.provenance import MAX_REF_CHARS as MAX_PROVENANCE_CHARS
from fusion.lib.provenance import parse_provenance
from fusion.lib.stated_fields import MAX_TAG_CHARS, MAX_TAGS, due_as_written
from fusion.recall.engine import QUERY_LIMIT
from fusion.sources.readers import moment

MAX_BATCH = 100
MAX_REF_CHARS = 512
MAX_ENTITIES = 32
D = TypeVar("D")


def printable(text: str) -> str:
    """Refuse a NUL: stores and prompts cannot hold one, and dropping it would change the text. U+10FFFF, which is no
    character, stands for it in PostgreSQL."""
    if "\0" in text:
        raise ValueError("has a NUL character; remove it")
    if "\U0010ffff" in text:
        raise ValueError("has U+10FFFF, which is no character; remove it")
    return text


def one_line(text: str) -> str:
    """Refuse an id or a reference that recall cannot cite."""
    if wrong := not_one_line(text):
        raise ValueError(wrong)
    return text


def _not_blank(fix: str) -> Callable[[str], str]:
    """A check of a text that must say something; ``fix`` is what its field is for."""

    def check(text: str) -> str:
        if not text.strip():
            raise ValueError(f"is empty; {fix}")
        return printable(text)

    return check


def _check_length(query: str) -> str:
    """Refuse a query over the limit with TooLarge, which becomes a 413, unlike a ValidationError."""
    if len(query) > QUERY_LIMIT:
        raise TooLarge(
            f"query has {len(query)} characters; {QUERY_LIMIT} are the most. Ask with the part that matters."
        )
    return query


def integer(value: object) -> object:
    """The integer in a text of a query string."""
    return int(value) if isinstance(value, str) and value.isascii() and value.isdigit() and len(value) <= 16 else value


def decimal(value: object) -> object:
    """The number in a text of a query string."""
    try:
        return float(value) if isinstance(value, str) and len(value) <= 32 else value
    except ValueError:
        return value


def boolean(value: object) -> object:
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


def _with_seconds(now: datetime) -> datetime:
    """Refuse the last microseconds of the calendar: receipts have a time as a float of seconds, and theirs is that of
    the year 10000."""
    try:
        datetime.fromtimestamp(now.timestamp(), UTC)
    except (ValueError, OverflowError):
        raise ValueError("is beyond the end of the calendar") from None
    return now


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


Id = Annotated[str, Field(min_length=1, max_length=256), AfterValidator(one_line)]
UserId = Annotated[str, Field(max_length=256, description="empty: no user"), AfterValidator(one_line)]
Reference = Annotated[str, Field(min_length=1, max_length=MAX_REF_CHARS), AfterValidator(one_line)]
EntityName = Annotated[str, Field(min_length=1, max_length=128), AfterValidator(one_line)]
Name = Annotated[str, Field(min_length=1, max_length=64), AfterValidator(printable)]
Zone = Annotated[str, Field(max_length=64, description="an IANA name: Europe/Berlin"), AfterValidator(printable)]
Share = Annotated[float, Field(ge=0, le=1)]


def _importance(value: object) -> object:
    """A score in any form; "unknown" for what says that there is none."""
    score = parse_importance(value)
    return "unknown" if score is None else score


def _provenance(value: object) -> object:
    return value if isinstance(value, Provenance) else parse_provenance(value)


Importance = Annotated[
    float | Literal["unknown"],
    BeforeValidator(_importance),
    WithJsonSchema(
        {
            "anyOf": [
                {"type": "number", "minimum": 0, "maximum": 1},
                {"type": "string", "maxLength": 40},
                {"type": "object"},
            ],
            "description": "0 to 1, 86%, 86/100, must_remember, nice_to_have, ignore, unknown, or {score} or {label}",
        }
    ),
]
StatedProvenance = Annotated[
    Provenance,
    BeforeValidator(_provenance),
    WithJsonSchema(
        {
            "anyOf": [
                {"type": "string", "maxLength": MAX_PROVENANCE_CHARS},
                {
                    "type": "object",
                    "properties": {"kind": {"type": "string"}, "ref": {"type": "string"}},
                    "additionalProperties": False,
                },
            ],
            "description": "where it comes from: a URL, path#L3-L9, path#name, receipt:ID or any other line; "
            "or {kind, ref} with kind none, url, file_line, file_anchor, receipt or opaque",
        }
    ),
]
DueTime = Annotated[str, Field(max_length=64), AfterValidator(due_as_written)]
_Tag = Annotated[
    str,
    StringConstraints(strip_whitespace=True, min_length=1, max_length=MAX_TAG_CHARS),
    AfterValidator(one_line),
]
Tags = Annotated[tuple[_Tag, ...], Field(max_length=MAX_TAGS, strict=False)]
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
    Annotated[str, Field(min_length=1, max_length=64), AfterValidator(printable), AfterValidator(_zone)] | None,
    Field(description="the asker's, in which yesterday ends: Europe/Berlin; by default the home's"),
]
Now = Annotated[
    Annotated[Since, AfterValidator(_with_seconds)] | None,
    Field(description="when it is asked, if not now: what yesterday counts from"),
]
Refs = Annotated[tuple[Reference, ...], Field(max_length=1000, strict=False)]
Names = Annotated[tuple[Name, ...], Field(min_length=1, max_length=64, strict=False)]
Entities = Annotated[tuple[EntityName, ...], Field(max_length=MAX_ENTITIES, strict=False)]
Cursor = Annotated[str, Field(min_length=1, max_length=64)]
PageCursor = Annotated[Cursor | None, Field(description="next_cursor of the page before; none for the first page")]
PageSize = Annotated[int, Field(ge=1, le=MAX_BATCH), BeforeValidator(integer)]


class Body(BaseModel):
    model_config = ConfigDict(strict=True, extra="forbid", frozen=True)

    def _as(self, kind: type[D], **more: Any) -> D:
        """A dataclass with this body's fields of the same names, and ``more``."""
        names = _common_fields(kind, type(self))  # type: ignore[arg-type]  # a class is hashable
        return kind(**{**{name: getattr(self, name) for name in names}, **more})


@cache
def _common_fields(kind: type[Any], body: type[Body]) -> frozenset[str]:
    return frozenset(field.name for field in fields(kind)) & body.model_fields.keys()


class MomentBody(Body):
    """A moment with an explicit precision, or the time to ``until``; ``zone`` is the IANA name of its time zone."""

    utc: Since
    precision: Precision = "second"
    zone: Annotated[str, Field(max_length=64), AfterValidator(printable)] | None = None
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


class Scoped(Body):
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


class AskerBody(Body):
    """Who asks, while the scope says whose memories are searched. An asker never filters."""

    agent_id: Id | None = Field(default=None, description="the agent that asks")
    session_id: Id | None = Field(default=None, description="its session: what was shown in it is not shown again")
    channel: Id | None = Field(default=None, description="where the answer goes")
    new_context: bool = Field(default=False, description="nothing shown earlier is in the session's context any more")
    keeps_blocks: bool = Field(
        default=True, description="false: a block is in the context for one turn alone, so it may be shown again"
    )

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


class WhereBody(Body):
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

    all_users: Annotated[bool, BeforeValidator(boolean)] = Field(
        default=False, description="the home's owner asks for the memories of all users and agents"
    )
