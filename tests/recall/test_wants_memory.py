"""The gate before and after the search: which prompts get no block, and which private memories are left out."""

from __future__ import annotations

import pytest

from fusion.contract import Hit, Place
from fusion.lib.bm25 import Frequencies, terms
from fusion.recall.query_dates import Dates, dates
from fusion.recall.rerank import Scored
from fusion.recall.signals import SignalTable
from fusion.recall.wants_memory import (
    ARITHMETIC,
    NO_SUBJECT,
    NOTHING_SPECIFIC,
    gate,
    is_private,
    needs_no_search,
    prompt_signs,
)
from fusion.recipe import GateSettings
from tests.recall.helpers import NOW, pooled

HOME = (
    "The parser was rewritten in May.",
    "Ines teaches the guitar on Thursdays.",
    "The boiler is serviced by Kruse in September.",
    "We fix a failing test within a day.",
    "commit and push",
)


def frequencies(texts: tuple[str, ...] = HOME) -> Frequencies:
    """The document frequencies of a home of these texts, twenty times as large."""
    counts: dict[str, int] = {}
    for text in texts:
        for term in set(terms(text)):
            counts[term] = counts.get(term, 0) + 1
    return Frequencies(20 * len(texts), 5.0, counts)


def ranked(*texts: str, score: float, document: str = "notes.md", meaning: float | None = 0.5) -> list[Scored]:
    """Memories in the order of their scores; the next ones have .3."""
    rows = [{"dense": meaning, "speaker": 0.5} if meaning is not None else {"speaker": 0.5} for _ in texts]
    table = SignalTable.of(rows)
    return [
        Scored(
            pooled(f"n{i}", Hit(f"n{i}", text, place=Place(document, i, i, "line"))),
            table,
            i,
            score if i == 0 else 0.3,
            complete=meaning is not None,
        )
        for i, text in enumerate(texts)
    ]


def asked(prompt: str, order: list[Scored], numbers: GateSettings | None = None) -> tuple[str | None, float]:
    """Why the gate is silent, or None; and the probability."""
    numbers = numbers or GateSettings(wants_memory=0.25, private=0.5)
    found = gate(order, prompt, frequencies(), dates(prompt, NOW), numbers)
    return found.silent, found.probability


class TestBeforeTheSearch:
    @pytest.mark.parametrize(
        "prompt",
        [
            "what's 17 times 23?",
            "15% of 240",
            "wie viel sind 20 Prozent von 85",
            "combien font 144 divisé par 12 ?",
            "¿cuánto es 35 por 12?",
            "quanti secondi ci sono in un giorno?",
            "how many days between 3 March and 19 June?",
        ],
    )
    def test_arithmetic_is_not_searched(self, prompt: str) -> None:
        assert needs_no_search(prompt) == ARITHMETIC

    @pytest.mark.parametrize(
        "prompt", ["continue", "yes please go ahead", "danke, gut", "non, pas celui-là", "sí, adelante", "grazie"]
    )
    def test_prompt_without_subject_is_not_searched(self, prompt: str) -> None:
        assert needs_no_search(prompt) == NO_SUBJECT

    @pytest.mark.parametrize(
        "prompt",
        [
            "who am I?",
            "what is my budget for 2026?",
            "was haben wir am 3. März gemacht?",
            "remind me",
            "quoter port 7070",
            "what happened on 3 March?",
            "fix the failing test",
            "who has our spare key?",
            "房子的钥匙在哪里",
        ],
    )
    def test_prompt_with_subject_or_owner_is_searched(self, prompt: str) -> None:
        assert needs_no_search(prompt) is None

    @pytest.mark.parametrize(
        "prompt",
        [
            "do it on Monday",
            "let's do that tomorrow",
            "ok, see you on Friday",
            "we'll finish this next week",
            "move it to next week",
            "remind them on Friday",
            "remind me tomorrow",
            "can you send it by Friday?",
            "not today",
            "yes, but only from March",
            "leave it as it was yesterday",
            "try again in an hour",
            "write it up on Sunday",
            "mach das am Montag",
            "machen wir das nächste Woche",
            "on fait ça lundi",
            "à demain",
            "hazlo el lunes",
            "ci vediamo lunedì",
        ],
    )
    def test_prompt_that_only_arranges_a_time_is_not_searched(self, prompt: str) -> None:
        assert needs_no_search(prompt, dates(prompt, NOW)) == NO_SUBJECT

    @pytest.mark.parametrize(
        "prompt",
        [
            "yesterday",
            "what did I do on Monday?",
            "did we meet on Friday",
            "show me last week",
            "can you summarise yesterday?",
            "tell me about last Friday",
            "write a summary of last week",
            "my notes of yesterday",
            "what's on Monday?",
            "call Dr. Abendroth tomorrow",
            "ship the canary on Friday",
            "was war gestern",
            "zeig mir letzte Woche",
            "qu'est-ce qu'on a fait lundi",
            "résume la semaine dernière",
            "¿qué hice el lunes?",
            "cosa ho fatto ieri",
        ],
    )
    def test_prompt_that_asks_for_a_time_is_searched(self, prompt: str) -> None:
        named = dates(prompt, NOW)
        assert named.windows
        assert needs_no_search(prompt, named) is None

    def test_empty_prompt_and_huge_prompt_have_signs(self) -> None:
        """Neither raises, and none of the signs is outside of 0 to 1."""
        for text in ("", "x" * 4000, "{}" * 2000, "🙂", "\n\n"):
            needs_no_search(text)
            assert all(0 <= sign <= 1 for sign in prompt_signs(text, Frequencies()).values())


class TestAfterTheSearch:
    @pytest.mark.feature("a hook's recipe stays silent for prompts that need no memory, and the receipt says why")
    @pytest.mark.parametrize(
        "prompt",
        ["fix the failing test", "make the button blue", "what is the capital of France?", "scrivi una poesia"],
    )
    def test_gate_is_silent_without_a_clear_match(self, prompt: str) -> None:
        """A memory that is hardly better than the others is chance."""
        assert asked(prompt, ranked(*HOME, score=0.4, meaning=0.25))[0] == NOTHING_SPECIFIC

    @pytest.mark.parametrize(
        ("prompt", "answer"),
        [
            ("on which day does Ines teach the guitar?", HOME[1]),
            ("who services our boiler", HOME[2]),
            ("when did we rewrite the parser?", HOME[0]),
        ],
    )
    def test_gate_lets_a_question_through(self, prompt: str, answer: str) -> None:
        assert asked(prompt, ranked(answer, *HOME, score=0.6))[0] is None

    def test_earlier_prompt_of_the_same_words_is_no_evidence(self) -> None:
        """A session's own "commit and push" is as like the next one as can be, and says nothing."""
        with_echo = asked("commit and push", ranked("commit and push", score=0.9, meaning=0.99))
        assert with_echo[0] == NOTHING_SPECIFIC
        assert with_echo == asked("commit and push", [])

    def test_question_that_becomes_a_statement_by_one_word_is_answered(self) -> None:
        """The memory has all words of the question and the answer."""
        answer = "The guest code of the front door is 4711."
        assert asked("what is the guest code of the front door?", ranked(answer, *HOME, score=0.7))[0] is None

    def test_gate_without_a_model_goes_by_words(self) -> None:
        question = "on which day does Ines teach the guitar?"
        assert asked(question, ranked(HOME[1], *HOME, score=0.5, meaning=None))[0] is None
        assert asked("make the button blue", ranked(*HOME, score=0.3, meaning=None))[0] == NOTHING_SPECIFIC

    def test_probability_does_not_depend_on_the_threshold(self) -> None:
        order = ranked(*HOME, score=0.4)
        found = {asked("fix the failing test", order, GateSettings(wants_memory=n))[1] for n in (0.1, 0.9)}
        assert len(found) == 1

    @pytest.mark.feature("a diary is recalled unasked only for a clear match or for the day that the prompt names")
    def test_diary_is_left_out_of_the_block_of_another_subject(self) -> None:
        note, *_, entry = ranked(HOME[0], *HOME[1:3], score=0.6)
        entry = entry._replace(
            pooled=pooled("d", Hit("d", "Cried, then slept.", place=Place("Diary/may.md", 1, 1, "line")))
        )
        numbers = GateSettings(wants_memory=0.25, private=0.5)
        found = gate([note, entry], "when did we rewrite the parser?", frequencies(), Dates(), numbers)
        assert (found.silent, found.private) == (None, {"d"})


class TestPrivate:
    @pytest.mark.parametrize(
        ("document", "private"),
        [
            ("Diary/monday.md", True),
            ("vault/Tagebuch/März.md", True),
            ("2026-03-04.md", True),
            ("Daily notes/2026-03-04.md", True),
            ("private/plan.md", True),
            ("memory/2026-03-04.md", False),
            ("meetings/2026-03-04-planning.md", False),
            ("runbooks/deploy.md", False),
        ],
    )
    def test_folder_or_date_makes_a_note_private(self, document: str, private: bool) -> None:
        assert is_private(Hit("n", "text", place=Place(document, 1, 2, "line"))) is private

    def test_tag_makes_a_note_private(self) -> None:
        assert is_private(Hit("n", "My salary #private", place=Place("notes.md", 1, 2, "line")))
        tagged = Hit("n", "My salary", place=Place("notes.md", 1, 2, "line"), properties=(("tag", "private"),))
        assert is_private(tagged), "by the front matter of its note"

    def test_turn_and_memory_without_document_are_not_private(self) -> None:
        assert not is_private(Hit("n", "hello", place=Place("diary", 1, 1, "turn")))
        assert not is_private(Hit("n", "hello #private"))
