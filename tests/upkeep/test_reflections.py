"""The rules of reflections on turns, and the file that they are written to."""

from __future__ import annotations

from datetime import UTC, date, datetime, timedelta

from fusion.contract import Event, Place
from fusion.journal.rows import Record
from fusion.upkeep.reflections import Reflection, reflected, refs_in, turns_of, without_forgotten, written

NOW = datetime(2026, 3, 14, 12, 0, tzinfo=UTC)
DAY = date(2026, 3, 14)


def session(*turns: tuple[str, str]) -> list[Record]:
    return [
        Record(
            f"m{number}",
            Event(
                f"e{number}",
                text,
                NOW + timedelta(minutes=number),
                kind="turn",
                speaker=speaker,
                place=Place("chat", number, number),
            ),
        )
        for number, (speaker, text) in enumerate(turns, start=1)
    ]


def reflection(*turns: tuple[str, str]) -> Reflection:
    return reflected([session(*turns)], UTC)


def test_an_error_that_came_once_is_no_repeated_mistake() -> None:
    found = reflection(("assistant", "Error: the disk is full"), ("user", "Please try again."))
    assert found.mistakes == ()


def test_a_secret_in_an_error_is_masked() -> None:
    key = "sk-ant-api03-" + "a1B2c3D4" * 12
    found = reflection(*[("assistant", f"Error: the key {key} was refused")] * 2)
    assert key not in str(found.mistakes[0])


def test_a_user_who_begins_with_no_is_no_correction_without_an_answer_before() -> None:
    assert reflection(("user", "No, wait."), ("assistant", "I wait.")).mistakes == ()


def test_what_is_done_later_is_not_left_begun() -> None:
    begun = ("assistant", "I'll rename the booking table in the staging database.")
    assert reflection(begun).begun
    assert not reflection(
        begun, ("assistant", "I renamed nothing yet. The booking table in staging is done now.")
    ).begun


def test_the_agents_last_question_is_open() -> None:
    found = reflection(("user", "Deploy it."), ("assistant", "Shall I deploy to staging first?"))
    assert found.questions[0].text.endswith("Shall I deploy to staging first?")


def test_a_file_without_findings_says_so_and_names_its_turns() -> None:
    text = written(DAY, reflection(("user", "Hello there, agent.")))
    assert "Nothing to reflect on." in text
    assert turns_of(text) == 1
    assert turns_of("mine") is None


def test_forgotten_turns_take_the_thoughts_with_them() -> None:
    found = reflection(("assistant", "I fixed the importer."), ("user", "When does Ada come back?"))
    text = written(DAY, found, ["I was quick."], "thinker")
    assert refs_in(text) == ["m1", "m2"]
    assert without_forgotten(text, ["m1", "m2"]) == text
    left = without_forgotten(text, ["m2"])
    assert "importer" not in left
    assert "I was quick." not in left
    assert "When does Ada come back?" in left
    assert without_forgotten(left, ["m2"]) == left
