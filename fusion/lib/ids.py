"""Makes identifiers of memories: UUIDv7s for machines, short refs for prompts, cursors for pages."""

from __future__ import annotations

import secrets
import threading
import time
from base64 import b32encode
from hashlib import blake2b
from uuid import UUID

from fusion.lib.text_cache import text_cache

_ALPHABET = "0123456789abcdefghjkmnpqrstvwxyz"
_VALUES = {character: value for value, character in enumerate(_ALPHABET)} | {"i": 1, "l": 1, "o": 0}
_MAX_DIGITS = 13
"""thirteen digits of 5 bits hold every 64-bit sequence number"""


class UuidSource:
    """Generates UUIDs of version 7 (RFC 9562), each greater than the one before, even if the clock goes back.

    The 12 bits after the millisecond count the UUIDs within the same millisecond (method 1 of section 6.2).
    """

    def __init__(self) -> None:
        self._lock = threading.Lock()
        self._ms = -1
        self._count = 0

    def __call__(self, now_ms: int | None = None) -> str:
        """``now_ms`` is milliseconds since 1970, UTC; by default the clock's."""
        ms = time.time_ns() // 1_000_000 if now_ms is None else now_ms
        with self._lock:
            if ms > self._ms:
                # The counter starts in the lower half, so that a millisecond has room for 2,048 more at least.
                self._ms, self._count = ms, secrets.randbits(11)
            else:
                self._count += 1
                if self._count > 0xFFF:
                    self._ms, self._count = self._ms + 1, 0
            ms, count = self._ms, self._count
        value = (ms & (1 << 48) - 1) << 80 | 0x7 << 76 | count << 64 | 0b10 << 62 | secrets.randbits(62)
        return str(UUID(int=value))


uuid7 = UuidSource()
"""the default source of event ids in a process"""


def short_ref(seq: int) -> str:
    """The ref of a journal's sequence number: `m` and Crockford's base 32 in lower case, `m1z` for 63."""
    digits = ""
    while seq:
        seq, digit = divmod(seq, 32)
        digits = _ALPHABET[digit] + digits
    return "m" + (digits or "0")


def cursor(seq: int) -> str:
    """The cursor of a page that ended at a sequence number: `c` and the same digits as in a ref."""
    return "c" + short_ref(seq)[1:]


def parse_cursor(text: str) -> int | None:
    """The sequence number of a cursor, or None if it is invalid."""
    return parse_short_ref("m" + text[1:]) if text[:1] == "c" else None


def parse_short_ref(ref: str) -> int | None:
    """The sequence number of a ref, or None if it is invalid.

    As Crockford specifies, case is ignored, `i` and `l` are read as 1 and `o` as 0, since people copy refs by hand.
    """
    text = ref.lower()
    if not 2 <= len(text) <= _MAX_DIGITS + 1 or text[0] != "m":
        return None
    seq = 0
    for character in text[1:]:
        value = _VALUES.get(character)
        if value is None:
            return None
        seq = seq * 32 + value
    return seq if seq < 1 << 63 else None


@text_cache(65_536)
def external_ref(backend: str, native_id: str) -> str:
    """The ref of a memory that the journal does not have: ``x`` and ten characters.

    It is a hash of (backend, native id), since native ids can be long paths; 50 bits keep a million memories apart. The
    receipt has the backend and the native id.
    """
    digest = blake2b(f"{backend}\0{native_id}".encode("utf-8", "replace"), digest_size=7).digest()
    return "x" + b32encode(digest).decode().lower()[:10]


EPISODE = "ep:"
"""the prefix of the ref of an observation"""


def parse_episode_ref(ref: str) -> int | None:
    """The number of an observation in the ledger, or None if the ref names none: ``ep:17``."""
    digits = ref[len(EPISODE) :]
    valid = ref.startswith(EPISODE) and digits.isascii() and digits.isdigit() and len(digits) <= 18
    return int(digits) if valid else None
