"""The requests about stored comparisons of two arms."""

from __future__ import annotations

from typing import Annotated, Any, Self

from pydantic import Field, model_validator
from pydantic.functional_validators import AfterValidator

from fusion.doors.schemas.base import Body, PageCursor, PageSize, one_line

MAX_QUESTIONS = 1_000_000
Count = Annotated[int, Field(ge=0, le=MAX_QUESTIONS)]
Share = Annotated[float, Field(ge=0, le=1, allow_inf_nan=False)]
Difference = Annotated[float, Field(ge=-1, le=1, allow_inf_nan=False)]
Mean = Annotated[float, Field(ge=0, le=1e9, allow_inf_nan=False)]
Line = Annotated[str, Field(min_length=1, max_length=200), AfterValidator(one_line)]
Name = Annotated[str, Field(min_length=1, max_length=64), AfterValidator(one_line)]


class ComparisonArmBody(Body):
    """One arm, and what its answers cost: means of a question."""

    arm: Line
    recipe: Name
    hash: Name
    backends: Annotated[list[Name], Field(min_length=1, max_length=100)]
    only: Annotated[int, Field(ge=0, le=1_000_000_000)]
    empty: Count
    characters: Mean
    waited_ms: Mean
    took_ms: Mean


class ComparisonVerdictBody(Body):
    """What the arms found of the expected answers, and b - a with its 95 % interval."""

    n: Annotated[int, Field(ge=1, le=MAX_QUESTIONS)]
    a: Share
    b: Share
    difference: Difference
    low: Difference
    high: Difference
    win: Count
    tie: Count
    loss: Count
    seed: Annotated[int, Field(ge=0, le=1 << 63)] = 0

    @model_validator(mode="after")
    def _check_figures(self) -> Self:
        if self.win + self.tie + self.loss != self.n:
            raise ValueError("win, tie and loss do not add up to n")
        if self.low > self.high:
            raise ValueError("low is above high")
        return self


class ComparisonBody(Body):
    """The figures of a comparison over many questions, as `fusion compare --queries` prints them."""

    a: ComparisonArmBody
    b: ComparisonArmBody
    questions: Annotated[int, Field(ge=1, le=MAX_QUESTIONS)] = Field(description="that both arms answered")
    unanswered: Count = 0
    degraded: Count = 0
    tuned_on: Count = Field(default=0, description="questions that chose an arm's recipe")
    same_memories: Count = Field(description="questions with the same memories in both blocks")
    overlap: Share = Field(description="mean share of memories that both blocks have")
    verdict: ComparisonVerdictBody | None = Field(default=None, description="null without expected answers")

    @model_validator(mode="after")
    def _check_counts(self) -> Self:
        parts = {"degraded": self.degraded, "tuned_on": self.tuned_on, "same_memories": self.same_memories}
        parts |= {} if self.verdict is None else {"verdict.n": self.verdict.n}
        for name, count in parts.items():
            if count > self.questions:
                raise ValueError(f"{name} is more than questions")
        return self

    def figures(self) -> dict[str, Any]:
        return self.model_dump(mode="json")


class ComparisonsQuery(Body):
    """Which comparisons to list, newest first."""

    limit: PageSize = 20
    cursor: PageCursor = None
