"""Lets a browser in without the home's token or an API key.

`fusion open` makes a link with a code that works once and for a minute. The page exchanges the code for a session: a
token that stands for the key that made the link, until it expires or the server ends. It is sent as a key is, in
``Authorization``, so no other site can make the browser send it.

A server that was started again does not know the session. The page may renew it if it proves that it knows the
session's renewal key, which is never sent, after the server has proved the same: another program that has taken the
port gets nothing that opens the home. A proof holds for one port, so such a program cannot pass on the server's.

A renewal outlives neither the sign-in that began it nor its key. It ends when the first session would have ended. A
server that does not know the key any more renews nothing. Signing out ends every session and renewal of that sign-in,
also at the next server of the home, which keeps a list of them.
"""

from __future__ import annotations

import hmac
import json
import logging
import re
import secrets
import time
from collections import Counter
from collections.abc import Callable
from dataclasses import dataclass
from hashlib import sha256
from pathlib import Path

from fusion.store.private_files import write_atomically

CODE_S = 60.0
"""seconds that a link works"""
SESSION_S = 12 * 3600.0
"""seconds that a session works, with its renewals"""
CHALLENGE_S = 30.0
MAX_HELD = 256
"""codes, sessions, challenges and sign-outs, of each; beyond it the oldest ends of the key that has the most"""
SIGNED_OUT = "inspector-signed-out.json"
"""the file in the home with the sign-ins that have ended before their time"""

log = logging.getLogger(__name__)
_ID = re.compile(r"([0-9a-f]{64})\.([0-9]{1,12})\.([A-Za-z0-9_-]{16})")


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


@dataclass(frozen=True, slots=True)
class _SignIn:
    """What a code, a session or a challenge belongs to: a key, and the sign-in with it until its end."""

    key: str
    """the SHA-256 of the key in hex"""
    expires_at: int
    name: str

    @property
    def renewal_id(self) -> str:
        return f"{self.key}.{self.expires_at}.{self.name}"


class Held:
    """At most `MAX_HELD` secrets, each with the sign-in that it belongs to and until when."""

    def __init__(self, now: Callable[[], float]) -> None:
        self._now = now
        self._held: dict[str, tuple[_SignIn, float]] = {}

    def add(self, secret: str, of: _SignIn, until: float) -> None:
        self._held = {name: one for name, one in self._held.items() if one[1] > self._now()}
        while len(self._held) >= MAX_HELD:
            # A key that opens many ends only its own: not those of another key or tenant.
            [(most, _)] = Counter(one.key for one, _ in self._held.values()).most_common(1)
            self._held.pop(next(name for name, (one, _) in self._held.items() if one.key == most))
        self._held[_digest(secret)] = (of, until)

    def get(self, digest: str) -> _SignIn | None:
        """What the secret with this SHA-256 belongs to; None for one that is unknown or has expired."""
        found, until = self._held.get(digest, (None, 0.0))
        return found if until > self._now() else None

    def take(self, secret: str) -> _SignIn | None:
        """As `get`, and the secret does not work again."""
        found = self.get(_digest(secret))
        self._held.pop(_digest(secret), None)
        return found

    def end(self, of: _SignIn) -> None:
        """No secret of this sign-in works again."""
        self._held = {name: one for name, one in self._held.items() if one[0] != of}

    def all(self) -> list[_SignIn]:
        return [one for one, until in self._held.values() if until > self._now()]


class SignedOut:
    """The sign-ins that ended before their time. With a ``file`` the next server of the home knows them, too."""

    def __init__(self, file: Path | None, now: Callable[[], float]) -> None:
        self._file = file
        self._held = Held(now)
        for renewal_id in _listed(file):
            if found := _sign_in(renewal_id):
                self._held.add(found.name, found, found.expires_at)

    def __contains__(self, one: _SignIn) -> bool:
        return self._held.get(_digest(one.name)) == one

    def add(self, one: _SignIn) -> None:
        self._held.add(one.name, one, one.expires_at)
        if self._file is None or not self._file.parent.is_dir():
            return
        try:
            write_atomically(self._file, json.dumps([each.renewal_id for each in self._held.all()]).encode())
        except OSError as error:
            log.error("a page signed out, and the next server will not know: %s: %s", self._file, error.strerror)


class Sessions:
    """The sessions of one server. ``home_token`` makes renewals outlive the server; without it they do not.

    ``is_key`` says whether the server knows a key, by its SHA-256 in hex; ``signed_out`` is the file `SIGNED_OUT`.
    """

    def __init__(
        self,
        home_token: str | None = None,
        now: Callable[[], float] = time.time,
        *,
        is_key: Callable[[str], bool] = lambda digest: True,
        signed_out: Path | None = None,
    ) -> None:
        self._secret = sha256(b"inspector " + (home_token or secrets.token_urlsafe(32)).encode()).digest()
        self._now = now
        self._is_key = is_key
        self._codes = Held(now)
        self._open = Held(now)
        self._challenges = Held(now)
        self._signed_out = SignedOut(signed_out, now)

    def key_of(self, digest: str) -> str:
        """The SHA-256 of the key that a session stands for; of anything else the same again."""
        found = self._open.get(digest)
        return digest if found is None else found.key

    def link_code(self, key_digest: str) -> str:
        """A new code, which opens one session for this key."""
        code, now = secrets.token_urlsafe(32), self._now()
        self._codes.add(code, _SignIn(key_digest, int(now + SESSION_S), secrets.token_urlsafe(12)), now + CODE_S)
        return code

    def open(self, code: str) -> Session | None:
        """A session for the code of a link; None for a code that was used, has expired or never was."""
        found = self._codes.take(code)
        return None if found is None else self._session(found)

    def close(self, token: str) -> None:
        """End a session before its time, with its renewals and all other sessions that these opened."""
        found = self._open.take(token)
        if found is not None:
            self._open.end(found)
            self._challenges.end(found)
            self._signed_out.add(found)

    def challenge(self, renewal_id: str, nonce: str, port: int) -> Challenge | None:
        """The first step of a renewal; None for a session that has ended, and for a key that is no more."""
        found = _sign_in(renewal_id)
        if found is None or not self._goes_on(found):
            return None
        challenge = secrets.token_urlsafe(32)
        self._challenges.add(challenge, found, self._now() + CHALLENGE_S)
        return Challenge(_proof(self._renewal_key(found), f"server {port} {nonce}"), challenge)

    def renew(self, challenge: str, proof: str, port: int) -> Session | None:
        """The second step: the session anew, for a page that answers the challenge; else None."""
        found = self._challenges.take(challenge)
        if found is None or not self._goes_on(found):
            return None
        asked = f"page {port} {challenge}"
        if not hmac.compare_digest(proof.encode(), _proof(self._renewal_key(found), asked).encode()):
            return None
        return self._session(found)

    def _goes_on(self, one: _SignIn) -> bool:
        return one.expires_at > self._now() and one not in self._signed_out and self._is_key(one.key)

    def _session(self, one: _SignIn) -> Session:
        token = secrets.token_urlsafe(32)
        self._open.add(token, one, one.expires_at)
        return Session(token, one.expires_at, one.renewal_id, self._renewal_key(one))

    def _renewal_key(self, one: _SignIn) -> str:
        return hmac.new(self._secret, one.renewal_id.encode(), sha256).hexdigest()


def _sign_in(renewal_id: str) -> _SignIn | None:
    found = _ID.fullmatch(renewal_id)
    return None if found is None else _SignIn(found[1], int(found[2]), found[3])


def _listed(file: Path | None) -> list[str]:
    """The renewal ids in a file of `SignedOut`; none if it is missing or damaged."""
    try:
        found = json.loads(file.read_bytes()) if file is not None else []
    except FileNotFoundError:
        return []
    except (OSError, ValueError, RecursionError) as error:
        log.error("pages that signed out of an earlier server may sign in again: %s: %s", file, type(error).__name__)
        return []
    return [one for one in found if isinstance(one, str)] if isinstance(found, list) else []


def _proof(key: str, text: str) -> str:
    """HMAC-SHA256 in hex, which a browser can compute as well."""
    return hmac.new(key.encode(), text.encode(), sha256).hexdigest()


def _digest(secret: str) -> str:
    return sha256(secret.encode()).hexdigest()
