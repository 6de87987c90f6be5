"""Who makes the request that is being worked on: the key that the gate checked, and the door that it came through."""

from __future__ import annotations

import unicodedata
from contextvars import ContextVar
from dataclasses import dataclass

OWNER = "owner"
"""the name of a caller with the home's token"""
ANYONE = "anyone"
"""the name of a caller without a key, where none is needed"""
RESERVED = frozenset({OWNER, ANYONE})
"""names that no API key may have: logs and rights go by them"""
KEY_ID_DIGITS = 8
"""hexadecimal digits of a key's SHA-256 that tell it apart in the access log"""


@dataclass(frozen=True, slots=True)
class Caller:
    """The key and the door of a request. Nothing of it is what the client says of itself but ``request_id``."""

    key: str
    """the key's name as `shown_name` has it; `OWNER` with the home's token"""
    key_id: str
    """the first digits of the key's SHA-256, which tell apart keys of one name; empty without a key"""
    role: str
    door: str
    """http, mcp, openclaw-mem, mem0, qmd, compat, or inspector: a session of a browser"""
    request_id: str


CALLER: ContextVar[Caller | None] = ContextVar("caller", default=None)
"""None outside a request, as in a job"""


def is_reserved(name: str) -> bool:
    """Whether an API key of this name would look like another caller in a log, also with other capitals or widths."""
    return unicodedata.normalize("NFKC", name).strip().casefold() in RESERVED


def shown_name(name: str, sha256: str) -> str:
    """An API key's name in logs and decisions: ``API key owner (1a2b3c4d)`` for one with a reserved name."""
    return f"API key {name} ({sha256[:KEY_ID_DIGITS]})" if is_reserved(name) else name


def reserved_note(name: str, sha256: str) -> str:
    """What is wrong with an API key of a reserved name."""
    return (
        f"the API key called {name!r} could be taken for another caller, so it is {shown_name(name, sha256)!r} in logs "
        "and decisions"
    )


RENAME = "give it another name in [[server.keys]]; the key itself stays"
"""the fix for such a key"""
