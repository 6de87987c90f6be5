"""Why a connection to PostgreSQL could not be made: the driver's message has no code, and may have the address."""

from __future__ import annotations

_REASONS = (
    ("Connection refused", "connection refused"),
    ("No such file or directory", "no server listens at this socket"),
    ("timeout expired", "no connection in time"),
    ("could not translate host name", "no such host"),
    ("Name or service not known", "no such host"),
    ("nodename nor servname", "no such host"),
    ("failed to resolve host", "no such host"),
    ("invalid port number", "no such port"),
    ("starting up", "it is starting up"),
    ("shutting down", "it is shutting down"),
    ("not currently accepting connections", "the database accepts no connections"),
    ("not permitted to log in", "the role may not log in"),
    ("session is read-only", "no host of the url accepts writes"),
    ("certificate", "no trusted TLS connection"),
    ("sslmode value", "no such sslmode"),
    ("SSL", "no TLS connection as sslmode asks for"),
)
"""texts in the driver's message, and what is said of them"""


def reason(error: Exception) -> str:
    """The reason in words of ours; empty if it is unknown."""
    said = str(error)
    return next((reason for text, reason in _REASONS if text in said), "")
