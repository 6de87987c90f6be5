"""Windows of time: where what a text names begins and ends."""

from __future__ import annotations

from datetime import UTC, datetime
from itertools import pairwise

import pytest
from hypothesis import given
from hypothesis import strategies as st

from fusion.contract import Moment, Precision
from fusion.lib.moment import end_of
from fusion.lib.times import _TIME, find_time, windows

WEDNESDAY = Moment(datetime(2026, 3, 11, 10, 30, tzinfo=UTC))


def named(text: str, said: Moment = WEDNESDAY) -> list[tuple[str, str]]:
    """Beginning and end of each time, as dates where both are midnight."""
    return [(_short(window.start), _short(window.end)) for window in windows(text, said)]


def _short(time: datetime) -> str:
    return f"{time:%Y-%m-%d}" if (time.hour, time.minute) == (0, 0) else f"{time:%Y-%m-%dT%H:%M}"


@pytest.mark.feature(
    "… seasons with their own vagueness, and the week before last", of="a stated time has a window: days"
)
@pytest.mark.parametrize(
    ("text", "start", "end"),
    [
        ("We met yesterday.", "2026-03-10", "2026-03-11"),
        ("We met last night.", "2026-03-10", "2026-03-11"),
        ("We met last week.", "2026-03-02", "2026-03-09"),  # Monday to Sunday
        ("We met last weekend.", "2026-03-07", "2026-03-09"),  # Saturday and Sunday
        ("We meet this weekend.", "2026-03-14", "2026-03-16"),
        ("We met two weekends ago.", "2026-02-28", "2026-03-02"),
        ("We met last month.", "2026-02-01", "2026-03-01"),
        ("We met in 2024.", "2024-01-01", "2025-01-01"),
        ("We met in Q2 2025.", "2025-04-01", "2025-07-01"),
        ("We met an hour ago.", "2026-03-11T09:00", "2026-03-11T10:00"),
        ("We met a few days ago.", "2026-03-05", "2026-03-10"),  # 6 to 2 days ago
        ("I was ill for the last two weeks.", "2026-02-25", "2026-03-11T10:30"),
        ("I was ill over the past few months.", "2025-09-01", "2026-03-11T10:30"),
        ("I was ill in the past year.", "2025-01-01", "2026-03-11T10:30"),
        ("We meet in two weeks.", "2026-03-25", "2026-03-26"),
        ("We met the week before last.", "2026-02-23", "2026-03-02"),
        ("We met the month before last.", "2026-01-01", "2026-02-01"),
        ("We met last summer.", "2025-06-01", "2025-09-01"),
        ("We met last winter.", "2025-12-01", "2026-03-01"),
        ("We met last spring.", "2025-03-01", "2025-06-01"),  # this one is not over
        ("We meet this spring.", "2026-03-01", "2026-06-01"),
        ("We meet this winter.", "2026-12-01", "2027-03-01"),
        ("We meet next spring.", "2027-03-01", "2027-06-01"),
        ("We meet next fall.", "2026-09-01", "2026-12-01"),
        ("We met in the autumn of 2019.", "2019-09-01", "2019-12-01"),
        ("We met on Saturday, 21 February 2026.", "2026-02-21", "2026-02-22"),  # one day, not the last Saturday as well
        ("We met on Saturday, February 21st.", "2026-02-21", "2026-02-22"),
        ("We met between 3 and 5 February.", "2026-02-03", "2026-02-06"),
        ("We met between the 3rd and the 5th of May 2025.", "2025-05-03", "2025-05-06"),
        ("We met in winter 2019.", "2019-12-01", "2020-03-01"),
    ],
)
def test_a_time_has_its_own_length(text: str, start: str, end: str):
    """Said on Wednesday, 2026-03-11, at 10:30."""
    assert named(text) == [(start, end)]


@pytest.mark.feature(
    "a stated time has a window: days, weeks, weekends, months, ranges; without a year, the nearest "
    "that fits the sentence's tense",
)
@pytest.mark.parametrize(
    ("text", "start"),
    [
        ("We met on Monday.", "2026-03-09"),
        ("We met on Wednesday.", "2026-03-04"),  # not the day itself
        ("We met on Friday.", "2026-03-06"),
        ("We will meet on Monday.", "2026-03-16"),
        ("I'll send it on Friday.", "2026-03-13"),
        ("It must be done by Friday.", "2026-03-13"),
        ("We moved in May.", "2025-05-01"),
        ("We moved in February.", "2026-02-01"),
        ("We moved in March.", "2026-03-01"),
        ("We are going to move in May.", "2026-05-01"),
        ("We will move in February.", "2027-02-01"),
        ("We moved last May.", "2025-05-01"),
        ("We moved last March.", "2025-03-01"),
        ("We move next March.", "2027-03-01"),
        ("We met on May 5th.", "2025-05-05"),
        ("We met on the 5th of March.", "2026-03-05"),
        ("We will meet on 5 May.", "2026-05-05"),
        ("We will meet on the 10th of March.", "2027-03-10"),
        ("It was fun. We will talk. We met on Monday.", "2026-03-09"),  # each sentence has its own tense
    ],
)
def test_what_names_no_year_is_the_nearest_in_the_sentences_own_tense(text: str, start: str):
    """The last one before it was said where the sentence tells of the past, the next one where it tells of plans."""
    assert [first for first, _ in named(text)] == [start]


@pytest.mark.parametrize(
    ("text", "start", "end"),
    [
        ("We were there from Monday to Wednesday.", "2026-03-09", "2026-03-12"),
        ("We were there 3-7 May 2025.", "2025-05-03", "2025-05-08"),
        ("We were there May 3–7, 2025.", "2025-05-03", "2025-05-08"),
        ("We were there from 3 to 7 May.", "2025-05-03", "2025-05-08"),
        ("We were there from 2026-03-01 to 2026-03-04.", "2026-03-01", "2026-03-05"),
        ("We were there between 2026-03-01 and 2026-03-04.", "2026-03-01", "2026-03-05"),
        ("We lived there 2019-2021.", "2019-01-01", "2022-01-01"),
        ("We were there from May to July 2023.", "2023-05-01", "2023-08-01"),
        ("We were there from March 1, 2025 until April 2, 2025.", "2025-03-01", "2025-04-03"),
        ("We lived there since 2019.", "2019-01-01", "2026-03-12"),  # until the end of the day it was said
        ("We lived there since last May.", "2025-05-01", "2026-03-12"),
    ],
)
def test_a_range_goes_from_the_beginning_of_one_to_the_end_of_the_other(text: str, start: str, end: str):
    """Both ends included, as people mean them."""
    assert named(text) == [(start, end)]


def test_two_times_are_no_range():
    """Only "from … to" and "between … and" join two times."""
    assert [first for first, _ in named("2026-03-01 and 2026-03-04")] == ["2026-03-01", "2026-03-04"]


@pytest.mark.parametrize(
    "text", ["You may come.", "Go on, march on!", "in march order", "We sat on sun loungers.", "from may", "in five"]
)
def test_words_that_are_also_months_and_days(text: str):
    """They are times only with a capital and a preposition."""
    assert named(text) == []


@pytest.mark.feature(
    "… seasons with their own vagueness, and the week before last", of="a stated time has a window: days"
)
def test_a_season_is_vague():
    """The seasons are those of the northern hemisphere; they yield a window and no moment."""
    (window,) = windows("We met in summer 2019.", WEDNESDAY)
    assert window.at is None


def test_a_winter_that_is_under_way_is_this_one():
    """Said on 10 January 2026: it began in December."""
    said = Moment(datetime(2026, 1, 10, tzinfo=UTC))
    assert named("It snowed this winter.", said) == [("2025-12-01", "2026-03-01")]
    assert named("It snowed last winter.", said) == [("2024-12-01", "2025-03-01")]


@pytest.mark.parametrize("text", ["She was hurt in the fall.", "a spring broke", "the last straw", "winter is coming"])
def test_a_season_is_a_time_with_its_year_or_beside_now_only(text: str):
    """They fall, springs break."""
    assert named(text) == []


def test_what_is_vague_has_a_window_and_no_moment():
    """ "A few days ago" is told no more exactly than that."""
    (window,) = windows("We met a few days ago.", WEDNESDAY)
    assert window.at is None


@pytest.mark.parametrize(
    ("precision", "end"),
    [
        ("second", "2026-02-28T10:30:01"),
        ("minute", "2026-02-28T10:31:00"),
        ("hour", "2026-02-28T11:30:00"),
        ("day", "2026-03-01T10:30:00"),
        ("month", "2026-03-28T10:30:00"),
        ("year", "2027-02-28T10:30:00"),
    ],
)
def test_a_moment_ends_where_its_precision_does(precision: Precision, end: str):
    """A day later, a month later, a year later, on the same clock."""
    start = datetime(2026, 2, 28, 10, 30, tzinfo=UTC)
    assert f"{end_of(Moment(start, precision)):%Y-%m-%dT%H:%M:%S}" == end


def test_a_day_in_its_own_zone_may_have_23_hours():
    """29 March 2026 in Berlin: the clock goes forward, so it is from 23:00 UTC of the 28th to 22:00 UTC."""
    said = Moment(datetime(2026, 3, 30, 9, tzinfo=UTC), zone="Europe/Berlin")
    (window,) = windows("We met yesterday.", said)
    assert (f"{window.start:%d %H}", f"{window.end:%d %H}") == ("28 23", "29 22")


WORDS = st.sampled_from(
    "from to between and since until by in on last next this the of - – few a two 31 3 7 2025 9999 may May June Monday "
    "fri weekend winter week weeks month year ago yesterday tomorrow past before days will . , 2026-02-30 2026-03-01 "
    "Q3".split()
)


@given(st.lists(WORDS, max_size=14).map(" ".join), st.datetimes(timezones=st.just(UTC)))
def test_a_window_begins_before_it_ends(text: str, said: datetime):
    """Whatever words of time come together, and whenever: whole windows, in the order of the text, or none."""
    found = list(windows(text, Moment(said)))
    assert all(window.start < window.end for window in found)
    assert all(a.span[1] <= b.span[0] for a, b in pairwise(found))


_TIME_WORDS = st.sampled_from(
    "in last may May the 5th of march 2023 mid-june few weeks ago two days past q3 from to 2019 - by Friday thu "
    "weekend before summer yesterday night tonight 31st 1999-12-24 ſunday K cafe is on until spring 17 next".split()
)


@pytest.mark.feature("texts that name no time are passed over quickly")
@given(st.lists(_TIME_WORDS, max_size=6).map(" ".join))
def test_quick_look_passes_over_no_text_that_names_a_time(text: str) -> None:
    assert (find_time(text) is None) == (_TIME.search(text) is None)
