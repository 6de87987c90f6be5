"""The requests that ask: questions, comparisons, feedback and searches of one backend."""

from __future__ import annotations

from typing import Annotated, Self

from pydantic import Field, JsonValue, model_validator
from pydantic.functional_validators import AfterValidator, BeforeValidator

from fusion.compare.arms import ALL_BACKENDS
from fusion.contract import BlockFormat
from fusion.doors.schemas.base import (
    MAX_REF_CHARS,
    AskerBody,
    AskerZone,
    Asking,
    Body,
    Name,
    Names,
    Now,
    PageCursor,
    PageSize,
    QueryText,
    Reference,
    Refs,
    Scoped,
    Until,
    UserId,
    WhereField,
    integer,
    one_line,
    printable,
    where_of,
)
from fusion.gateway.receipts import ReceiptsRequest
from fusion.gateway.replaying import ReplayRequest
from fusion.lib.budget import MAX_BUDGET_CHARS, MAX_BUDGET_TOKENS
from fusion.recall.engine import FuseRequest

ArmText = Annotated[str, Field(min_length=1, max_length=512), AfterValidator(printable)]
_ARM = "a recipe, @ and backends joined by +, all of them, or all but those behind a -"


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


class AskBody(FuseBody):
    """A question whose answer is watched, and may be replayed."""

    record: bool = Field(
        default=False, description="keep the input of the answer in memory for ten minutes, for POST /v1/replay"
    )


_Values = Annotated[dict[Name, JsonValue], Field(max_length=64)]


class ReplayBody(Body):
    """A recorded question, and the numbers to answer it by; they replace those of the question and of the recipe."""

    recording: Reference = Field(description="the id that POST /v1/ask with record = true replied, of its receipt")
    user_id: UserId | None = Field(default=None, description="who asked; the recording of another is not found")
    recipe: Name | None = Field(default=None, description="instead of the question's")
    changes: Annotated[dict[Name, Annotated[dict[Name, JsonValue], Field(max_length=64)]], Field(max_length=16)] = (
        Field(
            default={},
            description="values of a recipe, nested as in its file; GET /v1/recipes has their names and ranges",
            examples=[{"pack": {"max_results": 3}}],
        )
    )
    budget_chars: int | None = Field(default=None, ge=1, le=MAX_BUDGET_CHARS)
    max_results: int | None = Field(default=None, ge=1, le=100)

    def request(self, tenant: str) -> ReplayRequest:
        return self._as(ReplayRequest, tenant=tenant)


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
    merge: bool = Field(default=False, description="keep earlier feedback on the answer's other memories")

    @model_validator(mode="after")
    def _check_lists(self) -> Self:
        if not self.model_fields_set & {"useful", "useless"}:
            raise ValueError("useful or useless is missing; an empty list takes feedback back")
        if both := [n for n, ref in enumerate(self.useless) if ref in self.useful]:
            raise ValueError(f"useless[{both[0]}] is in useful, too; a memory was one or the other")
        return self


class ReceiptQuery(Body):
    """The user that the receipt's question was asked for."""

    user_id: UserId | None = Field(default=None, description="who asked; the receipt of another question is not found")


class ReceiptsQuery(Asking):
    """Which receipts to list, newest first: of all, or of one user, agent or session, as they asked."""

    limit: PageSize = 50
    cursor: PageCursor = None
    after: Annotated[str, Field(min_length=1, max_length=MAX_REF_CHARS), AfterValidator(one_line)] | None = Field(
        default=None, description="only what was answered after this receipt, or since an earlier reply's latest"
    )

    def request(self, tenant: str) -> ReceiptsRequest:
        return self._as(ReceiptsRequest, scope=self.scope(tenant))


class ActivityQuery(Scoped):
    """Of which days to count what happened."""

    days: Annotated[int, Field(ge=1, le=400), BeforeValidator(integer)] = Field(default=90, description="up to today")


class BackendHistoryQuery(Asking):
    """Over which answers to look at the backends."""

    answers: Annotated[int, Field(ge=1, le=1000), BeforeValidator(integer)] = Field(
        default=200, description="the latest, at most"
    )


class LabelsQuery(Body):
    """Which labels to read, oldest first."""

    limit: Annotated[int, Field(ge=1, le=1000), BeforeValidator(integer)] = 100
    cursor: PageCursor = None


class SearchBody(Asking):
    """A question to one backend, answered with its raw hits."""

    backend: Name
    query: QueryText
    where: WhereField = None
    limit: int = Field(default=10, ge=1, le=100)
