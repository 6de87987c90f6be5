"""Refuses every network connection but those to loopback, for tests."""

from __future__ import annotations

import ipaddress


class NetworkUsed(BaseException):
    """A test used another network than loopback. Not an ``Exception``, so that handlers let it pass."""


class NetworkGuard:
    """An audit hook that Python calls before every connection. Audit hooks cannot be removed, so there is only one."""

    allowed = False

    def __call__(self, event: str, arguments: tuple[object, ...]) -> None:
        if self.allowed:
            return
        if event in ("socket.connect", "socket.sendto"):
            address = arguments[1]
            if isinstance(address, tuple) and not _loopback(str(address[0])):
                raise NetworkUsed(f"connection to {address[:2]}: mark the test `live`, or serve it from loopback")
        elif event == "socket.getaddrinfo" and arguments[0] and not _loopback(_text(arguments[0])):
            raise NetworkUsed(f"look-up of {arguments[0]!r}: mark the test `live`, or use a name under .invalid")


def _text(host: object) -> str:
    return host.decode("ascii", "replace") if isinstance(host, bytes) else str(host)


def _loopback(host: str) -> bool:
    """Whether a host is loopback, the wildcard address, or a name that cannot exist (RFC 6761)."""
    if host in ("", "localhost", "testserver") or host.endswith((".localhost", ".invalid")):
        return True
    try:
        address = ipaddress.ip_address(host.split("%", maxsplit=1)[0])
    except ValueError:
        return False
    return address.is_loopback or address.is_unspecified


GUARD = NetworkGuard()
