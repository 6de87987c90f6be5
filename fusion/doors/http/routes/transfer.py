"""Routes for moving the memories of a home: export and import."""

from __future__ import annotations

import asyncio
import json
from collections.abc import AsyncIterator
from typing import Annotated, BinaryIO

from fastapi import Request
from fastapi.responses import Response
from starlette.concurrency import iterate_in_threadpool
from starlette.requests import ClientDisconnect
from starlette.responses import StreamingResponse

from fusion import wire
from fusion.doors import schemas
from fusion.doors.http.routing import ClientGone, Context, InQuery, problems, reply, router, while_connected
from fusion.doors.http.streaming import NDJSON, Line, no_lines, streamed
from fusion.gateway.transfer import Export, ImportReport, disk_errors
from fusion.upkeep.job import Progress, no_progress

_EXPORT = (
    '{"type":"header","format":"memory-fusion.export","version":1,…}\n…\n{"type":"footer","lines":412,"sha256":"…"}\n'
)
_LINES = '{"progress":{"done":500,"total":50000}}\n{"result":{"dry_run":false,"tenants":[…]}}\n'
_SENT = {"type": "object", "description": "the lines of an export, also as application/x-ndjson"}


@router.get(
    "/v1/export",
    response_class=Response,
    responses={200: {"content": {NDJSON: {"schema": {"type": "string"}, "example": _EXPORT}}}, **problems(404, 507)},
)
async def export(context: Context, query: Annotated[schemas.ExportQuery, InQuery]) -> Response:
    """Export memories, with what was forgotten as hashes, as lines of JSON

    From one snapshot of each journal. A token of the home's owner exports every tenant.
    """
    made = await context.gateway.export(context.tenant, tenant=query.tenant, user_id=query.user_id)
    return StreamingResponse(_chunks(made), media_type=NDJSON)


async def _chunks(export: Export) -> AsyncIterator[bytes]:
    async for chunk in iterate_in_threadpool(export.chunks()):
        yield chunk


@router.post(
    "/v1/import",
    name="import_export",
    response_model=wire.ImportReport,
    responses={200: {"content": {NDJSON: {"schema": {"type": "string"}, "example": _LINES}}}, **problems(507)},
    openapi_extra={"requestBody": {"required": True, "content": {"application/json": {"schema": _SENT}}}},
)
async def import_export(request: Request, context: Context, query: Annotated[schemas.ImportQuery, InQuery]) -> Response:
    """Import an export, or only count what that would do

    The whole export is checked before anything of it is stored. Sent twice it is imported once, so send it again after
    an interruption.
    """
    file = context.gateway.spool()
    try:
        await _receive(request, file, context)
    except BaseException:
        file.close()
        raise
    options = query.options()

    async def run(line: Line, progress: Progress) -> ImportReport:
        async def moved(tenant: str, old: str, new: str) -> None:
            await line(json.dumps({"tenant": tenant, "old": old, "new": new}))

        with file:
            return await context.gateway.import_export(context.tenant, file, options, moved, progress)

    if NDJSON in request.headers.get("accept", ""):
        return await streamed(run)
    return reply(await while_connected(request, run(no_lines, no_progress)))


async def _receive(request: Request, file: BinaryIO, context: Context) -> None:
    """Write the body of a request to a file. Raises StoreFull, and ClientGone."""
    try:
        async for piece in request.stream():
            with disk_errors(context.settings.home):
                file.write(piece)
        with disk_errors(context.settings.home):
            await asyncio.to_thread(file.flush)
    except ClientDisconnect:
        raise ClientGone from None
