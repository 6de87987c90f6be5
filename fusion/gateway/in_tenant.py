"""A decorator that runs a call on the gateway of the tenant that it names, and notes it there."""

from __future__ import annotations

import functools
import inspect
from collections.abc import Awaitable, Callable, Mapping
from typing import Any, TypeVar, cast

from fusion.errors import BadInput
from fusion.gateway.accesses import noted, scope_of
from fusion.journal.journal import REFRESH_S

SPARE_S = 1.0
"""seconds that a question may take beyond its own limit and as long a wait for a slot; then its journal hangs"""

Method = TypeVar("Method", bound=Callable[..., Awaitable[Any]])


def in_tenant(method: Method) -> Method:
    """Run a method on the gateway of the tenant that the call names by ``tenant`` or by a scope.

    It sees every write that was acknowledged before, also by other gateways of a shared journal.
    If it is a request's, it is in that tenant's access log.
    """
    signature = inspect.signature(method)

    @functools.wraps(method)
    async def answer(gateway: Any, *args: Any, **kwargs: Any) -> Any:
        arguments = signature.bind(gateway, *args, **kwargs).arguments

        async def at(of_tenant: Any) -> Any:
            with noted(of_tenant.access_log, method.__name__, arguments) as one:
                limit_s = _limit_s(arguments)
                await of_tenant.journal.refresh(min(REFRESH_S, limit_s or REFRESH_S))
                async with of_tenant.journal.time_limit(limit_s and 2 * limit_s + SPARE_S):
                    one.result = await method(of_tenant, *args, **kwargs)
            return one.result

        tenant = _tenant(arguments)
        if tenant in (None, gateway.tenant):
            return await at(gateway)
        if gateway.tenants is None:
            raise BadInput("this is the gateway of another tenant")
        async with gateway.tenants.at(tenant) as of_tenant:
            return await at(of_tenant)

    return cast("Method", answer)


def _limit_s(arguments: Mapping[str, Any]) -> float | None:
    """The time limit in seconds that a question names; None for any other call."""
    limit_ms = getattr(arguments.get("request"), "timeout_ms", None) or arguments.get("fields", {}).get("timeout_ms")
    return limit_ms / 1000 if isinstance(limit_ms, int) else None


def _tenant(arguments: Mapping[str, Any]) -> str | None:
    """The tenant that a call's arguments name, else the tenant of the scope in them, else None."""
    if "tenant" in arguments:
        return str(arguments["tenant"])
    scope = scope_of(arguments)
    return None if scope is None else scope.tenant
