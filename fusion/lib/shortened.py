"""Checks that a line which a language model wrote only shortens a text: a cheap check, which needs no model.

Each content word of the line must be in the text, and each number, address or path must be there as it is written.
Each clause of the line must also affirm or deny as the nearest clause of the text does. So nothing is made up, no
matter what the text tells the model to write. That words of the text are put together wrongly is not found.
"""

from __future__ import annotations

import re
from collections.abc import Sequence
from dataclasses import dataclass
from typing import Self

from fusion.lib.clean import clean
from fusion.lib.junk import content_words, junk_of
from fusion.lib.listing import one_line
from fusion.lib.polarity import negates
from fusion.lib.redact import redact
from fusion.lib.statements import sentences

_EDGE = "\"'“”‘’`*_.,;:!?()[]{}<>«»…-–— "
"""what may stand around a written form and is no part of it"""
_EXACT = re.compile(r"\d|\w[./:@\\_]\w|^[/~@#]\w")
"""a part of a text between spaces that has to be in the text as it is: a number, an address, a path, an identifier"""

_CLAUSES = re.compile(
    r"[;:]|\b(?:because|but|although|though|while|whereas|since|which|weil|aber|obwohl|sondern|während|denn|mais|parce"
    r"|bien que|porque|pero|aunque|perché|sebbene|omdat|maar|hoewel)\b",
    re.IGNORECASE,
)
"""what separates two clauses of which one may be denied alone; a comma may stand in a list that one negation denies"""


def plain_line(text: str) -> str:
    """What a model wrote as one line, without invisible characters and secrets."""
    return redact(one_line(clean(text)[0]))[0]


@dataclass(frozen=True, slots=True)
class Original:
    """A text that lines are compared with."""

    words: frozenset[str]
    forms: frozenset[str]
    clauses: Sequence[tuple[frozenset[str], bool]]
    """the content words of each clause, and whether it has a negation"""

    @classmethod
    def of(cls, text: str) -> Self:
        """What has to be known of a text; takes time linear in it."""
        return cls(content_words(text), frozenset(_forms(text)), _clauses(text))

    def fault_of(self, line: str) -> str:
        """Why a line does not only shorten the text, in words without any of it; "" if it does."""
        words = content_words(line)
        if not words or (kind := junk_of(line)) is not None:
            return "it states nothing" if not words else f"it is a {kind}"
        if not words <= self.words:
            return "it has a word that the memory does not have"
        if any(form not in self.forms for form in _forms(line) if _EXACT.search(form)):
            return "it has a number or an address that the memory does not have"
        if not all(self._agrees(*clause) for clause in _clauses(line)):
            return "it affirms what the memory denies, or the other way round"
        return ""

    def _agrees(self, words: frozenset[str], denies: bool) -> bool:
        """Whether one of the clauses that share most words with a clause affirms or denies as that does."""
        most = max((len(words & one) for one, _ in self.clauses), default=0)
        return denies in {negative for one, negative in self.clauses if len(words & one) == most}


def _clauses(text: str) -> list[tuple[frozenset[str], bool]]:
    """The content words of each clause of a text, and whether it has a negation."""
    parts = [part for start, end in sentences(text) for part in _CLAUSES.split(text[start:end])]
    return [(words, negates(part)) for part in parts if (words := content_words(part))]


def _forms(text: str) -> list[str]:
    """The parts of a text between spaces, in lower case, without punctuation around them."""
    return [form for part in text.split() if (form := part.strip(_EDGE).casefold())]
