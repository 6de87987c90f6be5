"""The questions of the latest answers, in memory alone: receipts have none, and a restart forgets them."""

from __future__ import annotations

from fusion.recall.mask import masked

MAX_QUESTIONS = 500
MAX_CHARS = 2_000
"""characters of a question that are remembered"""
MAX_CHARS_OF_ALL = 400_000


class RecentQuestions:
    """The latest questions of one tenant, by the id of the receipt; none if ``remembers`` is False."""

    def __init__(self, *, remembers: bool = True) -> None:
        self._remembers = remembers
        self._questions: dict[str, str] = {}
        self._chars = 0

    def note(self, receipt_id: str, question: str) -> None:
        """Remember the question of an answer, and forget the oldest ones beyond the limits."""
        if not self._remembers:
            return
        self._questions[receipt_id] = question = question[:MAX_CHARS]
        self._chars += len(question)
        while len(self._questions) > MAX_QUESTIONS or self._chars > MAX_CHARS_OF_ALL:
            self._chars -= len(self._questions.pop(next(iter(self._questions))))

    def of(self, receipt_id: str) -> str | None:
        """The question of an answer without secrets; None if it is not remembered."""
        question = self._questions.get(receipt_id)
        return None if question is None else masked(question)
