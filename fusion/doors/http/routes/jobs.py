"""Routes for the jobs of a home; only keys of its owner may use them."""

from __future__ import annotations

from typing import Annotated

from fastapi import Request
from fastapi.responses import Response

from fusion import wire
from fusion.doors import schemas
from fusion.doors.http.routing import Context, InQuery, Name, problems, reply, router, while_connected
from fusion.doors.http.streaming import NDJSON, Line, no_lines, streamed
from fusion.gateway.views import position_of
from fusion.lib.ids import cursor as cursor_of
from fusion.upkeep.job import Progress, no_progress

_LINES = '{"progress":{"done":0,"total":2,"note":"default"}}\n{"result":{"run":{"id":7,"status":"done"}}}\n'


@router.get("/v1/jobs", response_model=wire.Jobs)
async def jobs(context: Context) -> Response:
    """List the jobs: schedules, next and last runs, progress"""
    return reply({"jobs": await context.gateway.jobs(context.tenant).views()})


@router.get("/v1/jobs/log", response_model=wire.JobLog, responses=problems(404))
async def job_log(context: Context, query: Annotated[schemas.JobLogQuery, InQuery]) -> Response:
    """List the runs of jobs, the latest first, each with its receipt"""
    page = await context.gateway.jobs(context.tenant).log(query.job, query.limit, position_of(query.cursor))
    return reply({"runs": page.runs, "next_cursor": None if page.next is None else cursor_of(page.next)})


@router.post(
    "/v1/jobs/{name}/run",
    response_model=wire.JobRan,
    responses={
        200: {"content": {NDJSON: {"schema": {"type": "string"}, "example": _LINES}}},
        **problems(404, 409, 507),
    },
)
async def run_job(request: Request, context: Context, name: Name, body: schemas.RunJobBody) -> Response:
    """Run a job now, and wait for its receipt

    The run goes on if the client hangs up. 409 while a run of the job is under way.
    """
    runner = context.gateway.jobs(context.tenant)

    async def run(line: Line, progress: Progress) -> dict[str, object]:
        if body.due:
            return {"run": await runner.run_if_due(name, progress=progress)}
        return {"run": await runner.run(name, dry_run=body.dry_run, progress=progress)}

    if NDJSON in request.headers.get("accept", ""):
        return await streamed(run)
    return reply(await while_connected(request, run(no_lines, no_progress)))


@router.post("/v1/jobs/{name}/pause", response_model=wire.Job, responses=problems(404, 507))
async def pause_job(context: Context, name: Name, body: schemas.PauseJobBody) -> Response:
    """Stop running a job by its schedule"""
    return reply(await context.gateway.jobs(context.tenant).set_paused(name, True))


@router.post("/v1/jobs/{name}/resume", response_model=wire.Job, responses=problems(404, 507))
async def resume_job(context: Context, name: Name, body: schemas.PauseJobBody) -> Response:
    """Run a paused job by its schedule again"""
    return reply(await context.gateway.jobs(context.tenant).set_paused(name, False))
