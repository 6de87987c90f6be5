"""A language model for the verbs and routes of a `Verbed`."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Self

from tests.fakes import FakeModel


class Counting(FakeModel):
    """Answers with the number of characters that it was sent."""

    @classmethod
    def open(cls, options: Mapping[str, object]) -> Self:
        return cls(lambda asked: f"{len(asked.user)} characters")
