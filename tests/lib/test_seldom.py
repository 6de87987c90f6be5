"""Messages that each question would repeat."""

from __future__ import annotations

import logging

import pytest

from fusion.lib.seldom import MOST, Seldom


class Log:
    """What a filter passes. ``now_s`` is the time."""

    def __init__(self) -> None:
        self.now_s = 0.0
        self.seldom = Seldom(60.0, lambda: self.now_s)
        self.lines: list[str] = []

    def warning(self, at_s: float, message: str, *values: object) -> None:
        self.now_s = at_s
        record = logging.makeLogRecord({"msg": message, "args": values})
        if self.seldom.filter(record):
            self.lines.append(record.getMessage())


@pytest.mark.feature("what fails with each question is logged once a minute, with how often it came")
def test_a_message_is_logged_once_a_minute() -> None:
    log = Log()
    for at_s in (0.0, 10.0, 59.9):
        log.warning(at_s, "the model failed: %s", "ModelMissing")
    log.warning(59.9, "the model failed: %s", "OSError")
    for at_s in (60.0, 180.0):
        log.warning(at_s, "the model failed: %s", "ModelMissing")
    assert log.lines == [
        "the model failed: ModelMissing",
        "the model failed: OSError",
        "the model failed: ModelMissing (2 more times since the last line)",
        "the model failed: ModelMissing",
    ]


def test_any_number_of_messages_takes_a_bounded_room() -> None:
    log = Log()
    for number in range(3 * MOST):
        log.warning(0.0, "number %d", number)
    assert len(log.lines) == 3 * MOST
    assert len(log.seldom._known) <= MOST
