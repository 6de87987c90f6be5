"""Sessions of the inspector: what a code, a session and a renewal open, and what they do not."""

from __future__ import annotations

import hmac
from hashlib import sha256

import pytest

from fusion.doors.inspector.sessions import CODE_S, MAX_HELD, SESSION_S, Session, Sessions

KEY = sha256(b"the home's token").hexdigest()
PORT = 8765


class Clock:
    def __init__(self) -> None:
        self.now = 1_000_000.0

    def __call__(self) -> float:
        return self.now


def digest(token: str) -> str:
    return sha256(token.encode()).hexdigest()


def prove(key: str, text: str) -> str:
    return hmac.new(key.encode(), text.encode(), sha256).hexdigest()


@pytest.fixture
def clock() -> Clock:
    return Clock()


@pytest.fixture
def sessions(clock: Clock) -> Sessions:
    return Sessions("secret of the home", clock)


def opened(sessions: Sessions) -> Session:
    session = sessions.open(sessions.link_code(KEY))
    assert session is not None
    return session


def renewed(sessions: Sessions, session: Session, *, port: int = PORT) -> Session | None:
    """The session after a renewal, by a page that checks the server's proof for its own port."""
    challenge = sessions.challenge(session.renewal_id, "nonce", port)
    if challenge is None or challenge.proof != prove(session.renewal_key, f"server {PORT} nonce"):
        return None
    return sessions.renew(challenge.challenge, prove(session.renewal_key, f"page {PORT} {challenge.challenge}"), port)


@pytest.mark.feature("a link of `fusion open` signs a browser in once, within a minute, for twelve hours")
def test_code_opens_one_session_within_a_minute(sessions: Sessions, clock: Clock) -> None:
    code = sessions.link_code(KEY)
    session = sessions.open(code)
    assert session is not None
    assert sessions.key_of(digest(session.token)) == KEY
    assert sessions.open(code) is None
    late = sessions.link_code(KEY)
    clock.now += CODE_S
    assert sessions.open(late) is None
    assert sessions.open("never made") is None


def test_session_ends_after_its_time(sessions: Sessions, clock: Clock) -> None:
    session = opened(sessions)
    clock.now += SESSION_S - 1
    assert sessions.key_of(digest(session.token)) == KEY
    clock.now += 1
    assert sessions.key_of(digest(session.token)) == digest(session.token)
    assert renewed(sessions, session) is None


def test_key_of_leaves_other_keys_as_they_are(sessions: Sessions) -> None:
    assert sessions.key_of(KEY) == KEY


@pytest.mark.feature("the inspector goes on after its server was started again, and gives another program nothing")
def test_session_is_renewed_by_the_next_server_of_the_home(clock: Clock) -> None:
    session = opened(Sessions("secret of the home", clock))
    after = Sessions("secret of the home", clock)
    assert after.key_of(digest(session.token)) != KEY
    again = renewed(after, session)
    assert again is not None
    assert after.key_of(digest(again.token)) == KEY
    assert again.expires_at == session.expires_at


def test_server_of_another_home_cannot_prove_itself(clock: Clock) -> None:
    session = opened(Sessions("secret of the home", clock))
    other = Sessions("secret of another home", clock).challenge(session.renewal_id, "nonce", PORT)
    assert other is not None
    assert other.proof != prove(session.renewal_key, f"server {PORT} nonce")


def test_proof_that_another_port_passes_on_does_not_hold(clock: Clock) -> None:
    session = opened(Sessions("secret of the home", clock))
    assert renewed(Sessions("secret of the home", clock), session, port=9999) is None


def test_challenge_works_once_and_needs_the_renewal_key(sessions: Sessions) -> None:
    session = opened(sessions)
    challenge = sessions.challenge(session.renewal_id, "nonce", PORT)
    assert challenge is not None
    text = f"page {PORT} {challenge.challenge}"
    assert sessions.renew(challenge.challenge, prove("guessed", text), PORT) is None
    assert sessions.renew(challenge.challenge, prove(session.renewal_key, text), PORT) is None


@pytest.mark.parametrize("renewal_id", ["", "nonsense", f"{KEY}.", f"{KEY}.99999999999999", f"{KEY[:-1]}g.2000000000"])
def test_malformed_renewal_is_refused(sessions: Sessions, renewal_id: str) -> None:
    assert sessions.challenge(renewal_id, "nonce", PORT) is None


def test_later_expiry_in_a_renewal_id_has_another_key(sessions: Sessions) -> None:
    """A page cannot prolong its session by another time in the id."""
    session = opened(sessions)
    longer = f"{KEY}.{session.expires_at + 1}"
    challenge = sessions.challenge(longer, "nonce", PORT)
    assert challenge is not None
    assert (
        sessions.renew(challenge.challenge, prove(session.renewal_key, f"page {PORT} {challenge.challenge}"), PORT)
        is None
    )


def test_number_of_open_sessions_is_bounded(sessions: Sessions) -> None:
    first = opened(sessions)
    for _ in range(MAX_HELD):
        opened(sessions)
    assert sessions.key_of(digest(first.token)) != KEY
