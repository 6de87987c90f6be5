"""A later statement that says itself that the value of an earlier one is past, in English and German."""

from __future__ import annotations

import pytest
from hypothesis import given
from hypothesis import strategies as st

from fusion.lib.succession import MAX_CHARS, outdates

NIGHTLY = "The nightly backup of Spindle runs at 03:15."


@pytest.mark.feature("a statement that names an older value as past supersedes it, in English and German")
@pytest.mark.parametrize(
    ("later", "earlier"),
    [
        ("The nightly backup of Spindle moved from 03:15 to 04:30.", NIGHTLY),
        ("We moved the nightly backup of Spindle from 03:15 to 04:30 last week.", NIGHTLY),
        ("Aurora switched from MySQL to PostgreSQL 16.", "Aurora uses MySQL in production."),
        ("In May, Aurora migrated from MySQL to PostgreSQL because of the licence.", "Aurora runs on MySQL."),
        ("Aurora no longer uses MySQL, it is now on PostgreSQL.", "Aurora uses MySQL."),
        ("Aurora no longer uses MySQL, now PostgreSQL.", "Aurora uses MySQL."),
        ("The office is no longer in Utrecht, but now in Berlin.", "The office is in Utrecht."),
        ("The stand-up used to start at 9:00, now it is at 10:00.", "The stand-up starts at 9:00."),
        ("We switched from MySQL to Postgres.", "We use MySQL."),
        ("I moved from Utrecht to Berlin.", "I live in Utrecht."),
        ("Aurora wurde von MySQL auf PostgreSQL umgestellt.", "Aurora nutzt MySQL."),
        ("Aurora wechselte im Mai von MySQL zu PostgreSQL.", "Aurora läuft auf MySQL."),
        ("Aurora nutzt nicht mehr MySQL, sondern PostgreSQL.", "Aurora nutzt MySQL."),
        ("Das Büro ist nicht mehr in Utrecht, jetzt in Berlin.", "Das Büro ist in Utrecht."),
        ("Das Backup lief früher um 3:15, jetzt um 4:30.", "Das Backup läuft um 3:15."),
        ("Das Backup von Spindle wurde von 3:15 auf 4:30 verlegt.", "Das Backup von Spindle läuft um 3:15."),
        ("Ich bin von Utrecht nach Berlin gezogen.", "Ich wohne in Utrecht."),
    ],
)
def test_the_earlier_value_is_past(later: str, earlier: str) -> None:
    assert outdates(later, earlier)
    assert not outdates(earlier, later)


@pytest.mark.feature(
    "… plans, questions, denials, other subjects and other values supersede nothing",
    of="a statement that names an older",
)
@pytest.mark.parametrize(
    ("later", "earlier"),
    [
        ("The nightly backup of Spindle runs at 04:30.", NIGHTLY),
        ("Should the nightly backup of Spindle be moved from 03:15 to 04:30?", NIGHTLY),
        ("The nightly backup of Spindle will be moved from 03:15 to 04:30.", NIGHTLY),
        ("We have not moved the nightly backup of Spindle from 03:15 to 04:30.", NIGHTLY),
        ("If Aurora moved from MySQL to Postgres, tests would break.", "Aurora uses MySQL."),
        ("Aurora switched from MySQL to Postgres, and back.", "Aurora uses MySQL."),
        ("The nightly backup of Spindle moved from 02:00 to 04:30.", NIGHTLY),
        ("Aurora moved from MySQL to PostgreSQL.", "The billing service uses MySQL."),
        ("Aurora moved from MySQL to PostgreSQL.", "Aurora uses PostgreSQL, not MySQL."),
        ("Aurora moved from MySQL to PostgreSQL.", "Aurora crashed because MySQL ran out of memory."),
        ("Aurora moved from MySQL to PostgreSQL.", "Aurora had MySQL trouble."),
        ("Aurora moved from MySQL to PostgreSQL.", "Aurora uses MySQL and PostgreSQL."),
        ("I moved from Utrecht to Berlin.", "I visited Utrecht in May."),
        ("I moved from Utrecht to Berlin.", "My sister lives in Utrecht."),
        ("The train goes from Utrecht to Berlin.", "The train is in Utrecht."),
        ("Aurora nutzt nicht MySQL, sondern PostgreSQL.", "Aurora nutzt MySQL."),
        ("Aurora soll von MySQL auf PostgreSQL umgestellt werden.", "Aurora nutzt MySQL."),
        ("Wir haben nicht von MySQL auf PostgreSQL umgestellt.", "Wir nutzen MySQL."),
        ("Das Lager wurde von Utrecht nach Berlin verlegt.", "Das Büro ist in Utrecht."),
        ("", ""),
    ],
)
def test_nothing_is_past(later: str, earlier: str) -> None:
    assert not outdates(later, earlier)


@given(st.text(alphabet="abo fromtw,.;?\n", max_size=MAX_CHARS), st.text(alphabet="abo isuse.", max_size=80))
def test_no_text_is_an_error(later: str, earlier: str) -> None:
    assert outdates(later, earlier) in (True, False)


def test_long_statements_are_left_alone() -> None:
    later = "We moved from MySQL to Postgres. " * 30
    assert not outdates(later, "We use MySQL.")
