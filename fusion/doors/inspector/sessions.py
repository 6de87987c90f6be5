"""Lets a browser in without the home's token or an API key.

`fusion open` makes a link with a code that works once and for a minute. The page exchanges the code for a session: a
token that stands for the key that made the link, until it expires or the server ends. It is sent as a key is, in
``Authorization``, so no other site can make the browser send it.

A server that was started again does not know the session. The page may renew it if it proves that it knows the
session's renewal key, which is never sent, after the server has proved the same: another program that has taken the
port gets nothing that opens the home. A proof holds for one port, so such a program cannot pass on the server's.
"""

from __future__ import annotations

import hmac
import re
import secrets
import time
from collections.abc import Callable
from dataclasses import dataclass
from hashlib import sha256

CODE_S = 60.0
"""seconds that a link works"""
SESSION_S = 12 * 3600.0
"""seconds that a session works, with its renewals"""
CHALLENGE_S = 30.0
MAX_HELD = 256
"""codes, sessions and challenges of each that are held; beyond it the oldest ends"""

_ID = re.compile(r"([0-9a-f]{64})\.([0-9]{1,12})")


@dataclass(frozen=True, slots=True)
class Session:
    """A session of a browser."""

    token: str
    expires_at: int
    """seconds since the epoch"""
    renewal_id: str
    renewal_key: str


@dataclass(frozen=True, slots=True)
class Challenge:
    """The server's half of a renewal: the proof that it knows the renewal key, and what the page has to prove."""

    proof: str
    challenge: str


class Held:
    """At most `MAX_HELD` secrets, each with what it stands for and until when."""

    def __init__(self, now: Callable[[], float]) -> None:
        self._now = now
        self._held: dict[str, tuple[str, float]] = {}

    def add(self, secret: str, stands_for: str, lasts_s: float) -> None:
        self._held = {name: one for name, one in self._held.items() if one[1] > self._now()}
        while len(self._held) >= MAX_HELD:
            self._held.pop(next(iter(self._held)))
        self._held[_digest(secret)] = (stands_for, self._now() + lasts_s)

    def get(self, digest: str) -> str | None:
        """What the secret with this SHA-256 stands for; None for one that is unknown or has expired."""
        stands_for, until = self._held.get(digest, ("", 0.0))
        return stands_for if until > self._now() else None

    def take(self, secret: str) -> str | None:
        """As `get`, and the secret does not work again."""
        found = self.get(_digest(secret))
        self._held.pop(_digest(secret), None)
        return found


class Sessions:
    """The sessions of one server. ``home_token`` makes renewals outlive the server; without it they do not."""

    def __init__(self, home_token: str | None = None, now: Callable[[], float] = time.time) -> None:
        self._secret = sha256(b"inspector " + (home_token or secrets.token_urlsafe(32)).encode()).digest()
        self._now = now
        self._codes = Held(now)
        self._open = Held(now)
        self._challenges = Held(now)

    def key_of(self, digest: str) -> str:
        """The SHA-256 of the key that a session stands for; of anything else the same again."""
        return self._open.get(digest) or digest

    def link_code(self, key_digest: str) -> str:
        """A new code, which opens one session for this key."""
        code = secrets.token_urlsafe(32)
        self._codes.add(code, key_digest, CODE_S)
        return code

    def open(self, code: str) -> Session | None:
        """A session for the code of a link; None for a code that was used, has expired or never was."""
        key_digest = self._codes.take(code)
        return None if key_digest is None else self._session(key_digest, int(self._now() + SESSION_S))

    def challenge(self, renewal_id: str, nonce: str, port: int) -> Challenge | None:
        """The first step of a renewal; None for a session that has expired."""
        key = self._renewal_key(renewal_id)
        if key is None:
            return None
        challenge = secrets.token_urlsafe(32)
        self._challenges.add(challenge, renewal_id, CHALLENGE_S)
        return Challenge(_proof(key, f"server {port} {nonce}"), challenge)

    def renew(self, challenge: str, proof: str, port: int) -> Session | None:
        """The second step: the session anew, for a page that answers the challenge; else None."""
        renewal_id = self._challenges.take(challenge)
        key = self._renewal_key(renewal_id or "")
        if renewal_id is None or key is None:
            return None
        if not hmac.compare_digest(proof.encode(), _proof(key, f"page {port} {challenge}").encode()):
            return None
        key_digest, _, expires_at = renewal_id.partition(".")
        return self._session(key_digest, int(expires_at))

    def _session(self, key_digest: str, expires_at: int) -> Session:
        token, renewal_id = secrets.token_urlsafe(32), f"{key_digest}.{expires_at}"
        self._open.add(token, key_digest, expires_at - self._now())
        return Session(token, expires_at, renewal_id, self._renewal_key(renewal_id) or "")

    def _renewal_key(self, renewal_id: str) -> str | None:
        found = _ID.fullmatch(renewal_id)
        if found is None or int(found[2]) <= self._now():
            return None
        return hmac.new(self._secret, renewal_id.encode(), sha256).hexdigest()


def _proof(key: str, text: str) -> str:
    """HMAC-SHA256 in hex, which a browser can compute as well."""
    return hmac.new(key.encode(), text.encode(), sha256).hexdigest()


def _digest(secret: str) -> str:
    return sha256(secret.encode()).hexdigest()
