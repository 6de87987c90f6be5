"""A decorator that runs a call on the gateway of the tenant that it names."""

from __future__ import annotations

import functools
import inspect
from collections.abc import Awaitable, Callable, Mapping
from typing import Any, TypeVar, cast

from fusion.contract import Scope
from fusion.errors import BadInput

Method = TypeVar("Method", bound=Callable[..., Awaitable[Any]])


def in_tenant(method: Method) -> Method:
    """Run a method on the gateway of the tenant that the call names by ``tenant`` or by a scope."""
    signature = inspect.signature(method)

    @functools.wraps(method)
    async def answer(gateway: Any, *args: Any, **kwargs: Any) -> Any:
        tenant = _tenant(signature.bind(gateway, *args, **kwargs).arguments)
        if tenant in (None, gateway.tenant):
            return await method(gateway, *args, **kwargs)
        if gateway.tenants is None:
            raise BadInput("this is the gateway of another tenant")
        async with gateway.tenants.at(tenant) as of_tenant:
            return await method(of_tenant, *args, **kwargs)

    return cast("Method", answer)


def _tenant(arguments: Mapping[str, Any]) -> str | None:
    """The tenant that a call's arguments name, else the tenant of the scope in them, else None."""
    if "tenant" in arguments:
        return str(arguments["tenant"])
    values = (arguments.get("scope"), arguments.get("fields", {}).get("scope"), arguments.get("request"))
    scopes = (getattr(value, "scope", value) for value in values)
    return next((scope.tenant for scope in scopes if isinstance(scope, Scope)), None)
