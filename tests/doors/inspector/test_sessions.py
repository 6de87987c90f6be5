"""Sessions of the inspector: what a code, a session and a renewal open, and what they do not."""

from __future__ import annotations

import hmac
from hashlib import sha256
from pathlib import Path

import pytest

from fusion.doors.inspector.sessions import CODE_S, MAX_HELD, SESSION_S, SIGNED_OUT, Session, Sessions

KEY = sha256(b"the home's token").hexdigest()
PORT = 8765
SIGN_IN = "abcdefgh01234567"


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


@pytest.mark.parametrize(
    "renewal_id",
    [
        "",
        "nonsense",
        f"{KEY}.",
        f"{KEY}.2000000000",
        f"{KEY}.99999999999999.{SIGN_IN}",
        f"{KEY[:-1]}g.2000000000.{SIGN_IN}",
    ],
)
def test_malformed_renewal_is_refused(sessions: Sessions, renewal_id: str) -> None:
    assert sessions.challenge(renewal_id, "nonce", PORT) is None


def test_later_expiry_in_a_renewal_id_has_another_key(sessions: Sessions) -> None:
    """A page cannot prolong its session by another time in the id."""
    session = opened(sessions)
    longer = session.renewal_id.replace(str(session.expires_at), str(session.expires_at + 1))
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


def test_key_that_opens_many_sessions_ends_only_its_own(sessions: Sessions) -> None:
    owner, code = opened(sessions), sessions.link_code(KEY)
    other = sha256(b"a reader of another tenant").hexdigest()
    first = sessions.open(sessions.link_code(other))
    assert first is not None
    for _ in range(2 * MAX_HELD):
        sessions.open(sessions.link_code(other))
    for _ in range(2 * MAX_HELD):
        sessions.link_code(other)
    assert sessions.key_of(digest(owner.token)) == KEY
    assert sessions.open(code) is not None
    assert sessions.key_of(digest(first.token)) != other


@pytest.mark.feature(
    "signing out of the inspector ends each session and renewal of that sign-in, also at the next server of the home"
)
def test_sign_out_ends_every_session_and_renewal_of_the_sign_in(clock: Clock, tmp_path: Path) -> None:
    """Another browser's sign-in with the same key goes on; so does an answer to a challenge from before, of nobody."""
    file = tmp_path / SIGNED_OUT
    sessions = Sessions("secret of the home", clock, signed_out=file)
    first, other = opened(sessions), opened(sessions)
    second = renewed(sessions, first)
    assert second is not None
    asked = sessions.challenge(first.renewal_id, "nonce", PORT)
    assert asked is not None
    sessions.close(second.token)
    answer = prove(first.renewal_key, f"page {PORT} {asked.challenge}")
    assert sessions.renew(asked.challenge, answer, PORT) is None
    assert KEY not in {sessions.key_of(digest(one.token)) for one in (first, second)}
    assert sessions.key_of(digest(other.token)) == KEY
    for server in (sessions, Sessions("secret of the home", clock, signed_out=file)):
        assert [renewed(server, one) for one in (first, second)] == [None, None]
        assert renewed(server, other) is not None
    assert file.stat().st_mode & 0o077 == 0
    assert first.renewal_key not in file.read_text()


@pytest.mark.feature("a session of the inspector ends with its key: a server without that key renews nothing")
def test_renewal_ends_with_the_key(clock: Clock) -> None:
    """The key is taken out of the settings, before the first step of a renewal or between the two."""
    keys = {KEY}
    sessions = Sessions("secret of the home", clock, is_key=keys.__contains__)
    session = opened(sessions)
    assert renewed(sessions, session) is not None
    asked = sessions.challenge(session.renewal_id, "nonce", PORT)
    assert asked is not None
    keys.clear()
    answer = prove(session.renewal_key, f"page {PORT} {asked.challenge}")
    assert sessions.renew(asked.challenge, answer, PORT) is None
    assert sessions.challenge(session.renewal_id, "nonce", PORT) is None


def test_renewals_never_outlive_the_first_session(sessions: Sessions, clock: Clock) -> None:
    session = first = opened(sessions)
    for _ in range(11):
        clock.now += 3600
        again = renewed(sessions, session)
        assert again is not None
        session = again
    assert session.expires_at == first.expires_at
    clock.now += 3600
    assert renewed(sessions, session) is None
    assert sessions.key_of(digest(session.token)) != KEY


@pytest.mark.parametrize("text", ["", "{", "[1, null]", '{"a": 1}', '["nonsense"]', "[" * 9999])
def test_damaged_list_of_sign_outs_keeps_nobody_out(clock: Clock, tmp_path: Path, text: str) -> None:
    """The next sign-out writes it anew."""
    file = tmp_path / SIGNED_OUT
    file.write_text(text)
    sessions = Sessions("secret of the home", clock, signed_out=file)
    session = opened(sessions)
    sessions.close(session.token)
    after = Sessions("secret of the home", clock, signed_out=file)
    assert renewed(after, session) is None


def test_list_of_sign_outs_is_bounded_and_forgets_what_has_expired(clock: Clock, tmp_path: Path) -> None:
    file = tmp_path / SIGNED_OUT
    sessions = Sessions("secret of the home", clock, signed_out=file)
    for _ in range(MAX_HELD + 5):
        sessions.close(opened(sessions).token)
    assert file.read_text().count(KEY) == MAX_HELD
    clock.now += SESSION_S
    sessions.close(opened(sessions).token)
    assert file.read_text().count(KEY) == 1


def test_sign_out_holds_where_the_disk_refuses_the_list(clock: Clock, tmp_path: Path) -> None:
    file = tmp_path / SIGNED_OUT
    file.mkdir()
    sessions = Sessions("secret of the home", clock, signed_out=file)
    session = opened(sessions)
    sessions.close(session.token)
    assert renewed(sessions, session) is None
