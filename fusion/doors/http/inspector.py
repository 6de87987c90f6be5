"""The routes of the inspector: its page, and the sessions of browsers. The page asks by the routes of every client."""

from __future__ import annotations

from dataclasses import asdict
from typing import Annotated

from fastapi import FastAPI, Request
from fastapi.responses import Response
from pydantic import Field
from starlette.exceptions import HTTPException

from fusion.doors.http import memory_file
from fusion.doors.http.routing import read_as, reply
from fusion.doors.inspector.files import INSPECTOR, front_endpoint, page_endpoint
from fusion.doors.inspector.sessions import CODE_S, Sessions
from fusion.doors.schemas.base import Body
from fusion.doors.validation import content_of

LINKS, SESSIONS, RENEWALS = "/v1/inspector/links", "/v1/inspector/sessions", "/v1/inspector/renewals"
"""where a browser gets a link, a session for it, and the first step to renew that"""
OVER = "This page is no longer signed in. Open it again: fusion open"
KEY_ONLY = "A session makes no links, or it would not end after its time. Use the key: fusion open"

Text = Annotated[str, Field(min_length=1, max_length=200, pattern=r"^[A-Za-z0-9._-]+$")]


class CodeBody(Body):
    """The code of a link."""

    code: Text


class ProofBody(Body):
    """The answer to a challenge."""

    challenge: Text
    proof: Text


class RenewalBody(Body):
    """Which session to renew, and what the server has to prove first."""

    renewal_id: Text
    nonce: Text


def add_routes(app: FastAPI) -> None:
    app.add_route("/", front_endpoint, include_in_schema=False)
    app.add_route(INSPECTOR, front_endpoint, include_in_schema=False)
    app.add_route(f"{INSPECTOR}/{{file:path}}", page_endpoint, include_in_schema=False)
    app.add_route(LINKS, make_link, methods=["POST"], include_in_schema=False)
    app.add_route(SESSIONS, open_session, methods=["POST"], include_in_schema=False)
    app.add_route(SESSIONS, end_session, methods=["DELETE"], include_in_schema=False)
    app.add_route(RENEWALS, begin_renewal, methods=["POST"], include_in_schema=False)
    memory_file.add_routes(app)


async def make_link(request: Request) -> Response:
    """A link to the page that signs in once, for the key of this request."""
    if request.scope["in_session"]:
        raise HTTPException(403, KEY_ONLY)
    code = _sessions(request).link_code(request.scope["key_digest"])
    return reply({"path": f"{INSPECTOR}/#code={code}", "expires_s": CODE_S})


async def open_session(request: Request) -> Response:
    """A session for the code of a link, or for the answer to a challenge."""
    sent = content_of(await request.body())
    if isinstance(sent, dict) and "code" in sent:
        session = _sessions(request).open(read_as(CodeBody, sent).code)
    else:
        answer = read_as(ProofBody, sent)
        session = _sessions(request).renew(answer.challenge, answer.proof, _port(request))
    if session is None:
        raise HTTPException(401, OVER)
    return reply(asdict(session))


async def end_session(request: Request) -> Response:
    """End the session of this request, whose page signs out; a key stays as it is."""
    _sessions(request).close(request.headers.get("authorization", "").partition(" ")[2].strip())
    return reply({"ended": bool(request.scope["in_session"])})


async def begin_renewal(request: Request) -> Response:
    """The server proves that it knows the session's renewal key, and asks the page for the same."""
    asked = read_as(RenewalBody, content_of(await request.body()))
    challenge = _sessions(request).challenge(asked.renewal_id, asked.nonce, _port(request))
    if challenge is None:
        raise HTTPException(401, OVER)
    return reply(asdict(challenge))


def _sessions(request: Request) -> Sessions:
    sessions: Sessions = request.app.state.context.gate.sessions
    return sessions


def _port(request: Request) -> int:
    """The port at which the server itself listens: what a client says in Host proves nothing."""
    return int((request.scope.get("server") or ("", 0))[1] or 0)
