"""The requests about a home: jobs, upkeep, export, import, and waiting for deliveries."""

from __future__ import annotations

from typing import Annotated

from pydantic import Field
from pydantic.functional_validators import BeforeValidator

from fusion.doors.schemas.base import Body, Id, Name, PageCursor, PageSize, Scoped, boolean
from fusion.gateway.transfer import ImportOptions, TrustChoice
from fusion.upkeep.grade import GradeRequest, ScorerName


class RunJobBody(Body):
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
    archive_unused: bool | None = Field(
        default=None, description="archive what no block needed for long, by priority; else [lifecycle] archive_unused"
    )


class GradeBody(Scoped):
    """Whose memories to grade, and how."""

    dry_run: bool = Field(default=False, description="change nothing, and count what a run would do")
    scorer: ScorerName | None = Field(default=None, description="off only counts; else [jobs.grade] scorer")

    def request(self, tenant: str) -> GradeRequest:
        return self._as(GradeRequest, scope=self.scope(tenant))


class PauseJobBody(Body):
    """Nothing: the path names the job."""


class JobLogQuery(Body):
    """Which runs to list, the latest first."""

    job: Name | None = Field(default=None, description="only those of this job")
    limit: PageSize = 20
    cursor: PageCursor = None


class ExportQuery(Body):
    """What to export: everything that the key may read, one tenant, or one user."""

    tenant: Id | None = Field(default=None, description="only this tenant; the owner's alone may name another")
    user_id: Id | None = Field(default=None, description="only this user's memories")


class ImportQuery(Body):
    """How to import an export."""

    dry_run: Annotated[bool, BeforeValidator(boolean)] = Field(default=False, description="count, and change nothing")
    trust: TrustChoice = Field(
        default="auto",
        description="the most that its memories are believed; keep: it is your own, as auto takes one of this journal",
    )
    partial: Annotated[bool, BeforeValidator(boolean)] = Field(
        default=False, description="also an export that is cut off or has broken lines, without these"
    )
    refs: Annotated[bool, BeforeValidator(boolean)] = Field(
        default=False, description="a line for each memory that gets another ref; needs Accept: application/x-ndjson"
    )
    tenant: Id | None = Field(default=None, description="only this tenant of the export")

    def options(self) -> ImportOptions:
        return self._as(ImportOptions)


class SettleBody(Body):
    """How long to wait until everything remembered is delivered and its vectors are there."""

    timeout_s: float = Field(default=30.0, ge=0, le=600)
