"""The requests about triage: what needs a person."""

from __future__ import annotations

from typing import Annotated

from pydantic import Field
from pydantic.functional_validators import AfterValidator

from fusion.doors.schemas.base import PageSize, Reference, Scoped, one_line
from fusion.doors.schemas.proposals import Reason


class TriageQuery(Scoped):
    """How much to list, the most urgent first."""

    limit: PageSize = 20


class TriageBody(Scoped):
    """The item to decide, and how."""

    item: Reference = Field(description="its id, as GET /v1/triage lists it", examples=["p12"])
    choice: Annotated[str, Field(min_length=1, max_length=80), AfterValidator(one_line)] = Field(
        description="the name of one of its choices", examples=["approve"]
    )
    why: Reason = Field(default="", description="the reason, for the log")
