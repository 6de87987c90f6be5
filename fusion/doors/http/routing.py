"""What all route modules share: the router with its strict JSON, the context of a request, and replies.

Requests are models of `schemas`, which FastAPI validates. Replies are declared in `fusion.wire` for the OpenAPI
document and encoded as they are: to validate them again would cost a question more than its ranking. Tests validate
every reply against its declaration.
"""

from __future__ import annotations

import asyncio
from collections.abc import Callable, Coroutine, Iterable
from dataclasses import dataclass
from typing import TYPE_CHECKING, Annotated, Any, TypeVar, cast

from fastapi import APIRouter, Depends, Path, Query, Request
from fastapi.responses import Response
from fastapi.routing import APIRoute
from pydantic import ValidationError
from starlette.types import Receive, Scope

from fusion import problem
from fusion.contract import Role
from fusion.doors import schemas, validation
from fusion.doors.http.encode import encode
from fusion.doors.roles import require_role, role_of
from fusion.errors import BadInput, NotFound
from fusion.journal.proposals import Decider
from fusion.journal.state import BY_HAND

if TYPE_CHECKING:
    from fusion.doors.http.middleware import Gate
    from fusion.gateway.gateway import Gateway
    from fusion.ingest.intake import NewMemory
    from fusion.settings import Settings

T = TypeVar("T")
B = TypeVar("B", bound=schemas.Body)

WATCH_AFTER_S = 0.02
"""seconds before a request is watched for a client that hangs up"""


class ClientGone(Exception):
    """The client closed its connection before the reply."""


class StrictRoute(APIRoute):
    """A route that accepts strict JSON only: no NaN, no duplicate field in an object, no duplicate parameter."""

    def get_route_handler(self) -> Callable[[Request], Coroutine[Any, Any, Response]]:
        handle = super().get_route_handler()

        async def read_strictly(request: Request) -> Response:
            decides = request.app.state.context.settings.proposals.decided_by
            needed = role_of(request.method, self.path_format, decides)
            require_role(request.scope["role"], needed, f"{request.method} {self.path_format}")
            if request.scope["query_string"]:
                validation.refuse_duplicates(request.query_params.multi_items())
            if self.body_field is not None:
                request = StrictRequest(request.scope, request.receive, await request.body())
            return await handle(request)

        return read_strictly


class StrictRequest(Request):
    """A request whose JSON is parsed already. Raises BadInput for a body that is not JSON."""

    def __init__(self, scope: Scope, receive: Receive, body: bytes) -> None:
        super().__init__(scope, receive)
        self._body = body
        self._content = validation.content_of(body)

    async def body(self) -> bytes:
        return self._body

    async def json(self) -> object:
        return self._content


@dataclass(frozen=True, slots=True)
class RequestContext:
    """The objects that answer a request, and the tenant of the request."""

    gateway: Gateway
    settings: Settings
    gate: Gate
    tenant: str = "default"
    may_ask_all: bool = False
    """whether the request's key may ask for the memories of all users"""
    role: Role = "operator"
    """the role of the request's key"""
    caller: str = BY_HAND
    """the name of the request's key; `BY_HAND` with the home's token"""

    @property
    def decider(self) -> Decider:
        """The caller as the log of decisions names it."""
        return Decider(self.caller, self.role)

    def permit(self, body: schemas.Asking) -> None:
        """Raise BadInput for a request for all users whose key may not do that."""
        if body.all_users:
            self.permit_all()

    def permit_all(self) -> None:
        """Raise BadInput if the key of the request may not ask for the memories of all users."""
        if not self.may_ask_all:
            raise BadInput(
                "all_users needs the home's token, or an API key with all_users = true in [[server.keys]]; "
                "otherwise name a user_id or an agent_id"
            )

    @property
    def is_owner(self) -> bool:
        """Whether the request's key is the owner's, who alone may raise the trust of memories."""
        return self.may_ask_all

    def permit_trusted(self, items: Iterable[NewMemory]) -> None:
        """Raise BadInput for memories that are stored as trusted with a key that is not the owner's."""
        if not self.is_owner and any(item.trust == "trusted" for item in items):
            raise BadInput(
                "trust: only the owner can say trusted: with the home's token, or an API key with all_users = true in "
                "[[server.keys]]"
            )


async def context_of(request: Request) -> RequestContext:
    shared: RequestContext = request.app.state.context
    return RequestContext(
        shared.gateway,
        shared.settings,
        shared.gate,
        request.scope["tenant"],
        request.scope["may_ask_all"],
        request.scope["role"],
        request.scope["key_name"],
    )


Context = Annotated[RequestContext, Depends(context_of)]
Reference = Annotated[
    str, Path(json_schema_extra={"minLength": 1, "maxLength": schemas.MAX_REF_CHARS}, examples=["m1z"])
]
Name = Annotated[str, Path(json_schema_extra={"minLength": 1, "maxLength": 64})]
InQuery = Query()


def problems(*statuses: int) -> dict[int | str, dict[str, Any]]:
    """The error replies of a route for the OpenAPI document; each is problem details."""
    return {status: problem_reply(status) for status in statuses}


def problem_reply(status: int) -> dict[str, Any]:
    """The OpenAPI description of one error reply."""
    example = problem.http_problem(status, "What is wrong, and how to fix it.")
    content = {problem.MEDIA_TYPE: {"schema": {"$ref": "#/components/schemas/Problem"}, "example": example}}
    return {"description": problem.phrase(status), "content": content}


_COMMON = (400, 401, 403, 408, 413, 421, 422, 429, 500, 503)
"""the errors of every route: refusals of the gate, wrong input, internal errors, overload"""

router = APIRouter(
    route_class=StrictRoute, responses=problems(*_COMMON), generate_unique_id_function=lambda route: route.name
)


def reply(content: object, status: int = 200, **headers: str) -> Response:
    """A JSON reply of dataclasses and dictionaries; names of ``headers`` have underscores for hyphens."""
    named = {name.replace("_", "-"): value for name, value in headers.items()}
    return Response(encode(content), status, named, "application/json")


async def while_connected(request: Request, work: Coroutine[Any, Any, T]) -> T:
    """The result of ``work``, which is cancelled when the client hangs up; then it raises ClientGone.

    Call it after the body has been read: the next message of the connection can only be the disconnect.
    """
    task = cast("asyncio.Task[Any]", asyncio.current_task())
    gone = False
    watching: asyncio.Task[None] | None = None

    async def watch() -> None:
        nonlocal gone
        while (await request.receive())["type"] != "http.disconnect":
            pass
        gone = True
        task.cancel()

    def begin() -> None:
        nonlocal watching
        watching = asyncio.ensure_future(watch())

    # Most requests end before a client could hang up, so only long ones are watched. The work stays in this task: a
    # task for it would cost each request one more iteration of the event loop.
    timer = asyncio.get_running_loop().call_later(WATCH_AFTER_S, begin)
    try:
        return await work
    except asyncio.CancelledError:
        if gone:
            raise ClientGone from None
        raise  # cancelled by the server: it stops, or a time limit is over
    finally:
        timer.cancel()
        if watching is not None:
            watching.cancel()
        if gone:
            task.uncancel()


def checked_ref(ref: str) -> str:
    """The ref, if its form is valid. Raises NotFound otherwise, as for a memory that does not exist."""
    if not ref or len(ref) > schemas.MAX_REF_CHARS or not ref.isprintable():
        raise NotFound("There is no such memory or receipt context.")
    return ref


def read_as(model: type[B], sent: object) -> B:
    """The body of a route that is not in the OpenAPI document. Raises BadInput, which names the wrong field."""
    try:
        return model.model_validate(sent)
    except ValidationError as error:
        raise BadInput(validation.explain(error)) from None
