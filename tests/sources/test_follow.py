"""Following a history: what is new, changed, taken back, cut off at the beginning, or another conversation."""

from __future__ import annotations

from hypothesis import given
from hypothesis import strategies as st

from fusion.sources.follow import fingerprint, follow

HI = ("user", "Hi")
HELLO = ("assistant", "Hello! How can I help you today?")
MILL = ("user", "The mill at the harbour is closed in March.")
NOTED = ("assistant", "I have noted that about the mill.")
BOAT = ("user", "My boat is moored at the second pier.")
FINE = ("assistant", "The second pier is a good place for it.")
OTHER = ("user", "Which trains go to Bremen on Sunday?")
SUMMARY = ("user", "A summary of what was said: the mill is closed in March.")


def prints(*turns: tuple[str, str]) -> list[bytes]:
    return [fingerprint(*turn) for turn in turns]


def known(*turns: tuple[str, str]) -> bytes:
    return b"".join(prints(*turns))


def test_first_history_is_all_new() -> None:
    done = follow(b"", prints(HI, HELLO))
    assert (done.changed, done.offset, list(done.gone), done.anew) == ((0, 1), 0, [], False)


def test_same_history_changes_nothing() -> None:
    done = follow(known(MILL, NOTED), prints(MILL, NOTED))
    assert (done.changed, list(done.gone), done.known) == ((), [], known(MILL, NOTED))


def test_history_that_grew_has_new_turns_only() -> None:
    """Also where all that was known is short."""
    assert follow(known(MILL, NOTED), prints(MILL, NOTED, BOAT)).changed == (2,)
    assert follow(known(HI), prints(HI, HELLO)).changed == (1,)


def test_history_without_turns_changes_nothing() -> None:
    done = follow(known(MILL, NOTED), [])
    assert (done.changed, list(done.gone), done.known) == ((), [], known(MILL, NOTED))


def test_edited_turn_is_the_only_change() -> None:
    """In the middle, at the end and at the beginning."""
    edited = ("user", "The mill at the harbour is closed in April.")
    assert follow(known(MILL, NOTED, BOAT), prints(MILL, ("assistant", "Noted, it is the mill."), BOAT)).changed == (1,)
    assert follow(known(MILL, NOTED, BOAT), prints(MILL, NOTED, OTHER)).changed == (2,)
    done = follow(known(MILL, NOTED, BOAT), prints(edited, NOTED, BOAT))
    assert (done.changed, done.offset, list(done.gone)) == ((0,), 0, [])


def test_rewind_takes_the_end_back() -> None:
    done = follow(known(MILL, NOTED, BOAT, FINE), prints(MILL, NOTED))
    assert (done.changed, list(done.gone), done.known) == ((), [2, 3], known(MILL, NOTED))


def test_fork_keeps_the_common_part_and_takes_the_rest_back() -> None:
    done = follow(known(MILL, NOTED, BOAT, FINE), prints(MILL, NOTED, OTHER))
    assert (done.changed, list(done.gone), done.known) == ((2,), [3], known(MILL, NOTED, OTHER))


def test_compacted_history_keeps_what_is_not_sent_any_more() -> None:
    """The summary at its beginning is no turn; what follows the known turns is new at the next places."""
    done = follow(known(MILL, NOTED, BOAT, FINE), prints(SUMMARY, BOAT, FINE, OTHER))
    assert (done.changed, done.offset, list(done.gone)) == ((3,), 1, [])
    assert done.known == known(MILL, NOTED, BOAT, FINE, OTHER)
    again = follow(done.known, prints(SUMMARY, BOAT, FINE, OTHER))
    assert (again.changed, list(again.gone)) == ((), [])


def test_window_over_the_last_turns_moves_on() -> None:
    sent = [MILL, NOTED, BOAT, FINE, OTHER]
    state = b""
    for end in range(1, 6):
        done = follow(state, prints(*sent[max(0, end - 3) : end]))
        assert [number + done.offset for number in done.changed] == [end - 1]
        assert list(done.gone) == []
        state = done.known
    assert state == known(*sent)


def test_rewind_in_a_compacted_history_takes_back_what_followed() -> None:
    done = follow(known(MILL, NOTED, BOAT, FINE), prints(SUMMARY, BOAT))
    assert (done.changed, list(done.gone), done.known) == ((), [3], known(MILL, NOTED, BOAT))


def test_another_conversation_under_the_same_session_takes_nothing_back() -> None:
    """Also one that begins with the same greeting."""
    for first in ((OTHER,), (HI, HELLO, OTHER), (HI,)):
        done = follow(known(HI, HELLO, MILL, NOTED), prints(*first))
        assert (done.anew, list(done.gone)) == (True, [])
        assert done.changed == tuple(range(len(first)))


turns = st.lists(st.sampled_from([HI, HELLO, MILL, NOTED, BOAT, FINE, OTHER]), max_size=8)


@given(turns, turns)
def test_what_is_known_afterwards_ends_with_the_history_and_changes_no_more(one: list, other: list) -> None:  # type: ignore[type-arg]
    """For any two histories: sending the second again changes nothing; no place is both changed and gone."""
    first = follow(b"", prints(*one))
    done = follow(first.known, prints(*other))
    if other:
        assert done.known.endswith(b"".join(prints(*other[min(done.changed, default=len(other)) :])))
    assert not {number + done.offset for number in done.changed} & set(done.gone)
    again = follow(done.known, prints(*other))
    assert (list(again.gone), again.known) == ([], done.known)
    assert again.changed == ()
