"""Why two statements that resemble each other are not about one thing, so that their values are no contradiction.

The guards are words alone: another owner ("my sister's"), another day, season or meal than the question names, an
exception to a rule, and a plan that was carried out.
"""

from __future__ import annotations

import re
from collections.abc import Iterable

from fusion.lib.polarity import polarity
from fusion.lib.word_forms import same_word
from fusion.lib.words import find_words, normalise

MAX_CHARS = 1_000
"""characters of a statement that are read"""

_KIN = (
    "sister brother mother father mum mom dad son daughter wife husband cousin uncle aunt niece nephew neighbour "
    "neighbor parents grandma grandpa grandmother grandfather friend flatmate roommate partner girlfriend boyfriend "
    "colleague boss twins baby kids "
    "schwester bruder mutter vater sohn tochter frau mann nachbar nachbarin eltern freund freundin kollege kollegin "
    "soeur frere mere pere fils fille voisin voisine parents ami amie femme mari "
    "hermana hermano madre padre hijo hija vecino vecina padres amigo amiga esposa marido "
    "sorella fratello figlio figlia vicino vicina genitori amico amica moglie marito "
    "zus broer moeder vader zoon dochter buurman buurvrouw ouders vriend vriendin "
    "irma irmao mae pai filho filha vizinho vizinha pais"
)
_OWNERS = re.compile(
    r"\b(?:my|our|his|her|their|your|mein\w*|unser\w*|mon|ma|mes|mi|mis|mio|mia|miei|mijn|onze|meu|minha|meus)\s+"
    r"(?:\w+\s+)?(" + "|".join(sorted(set(_KIN.split()))) + r")\b"
)
_SIBLINGS = tuple(
    frozenset(listed.split())
    for listed in (
        "monday tuesday wednesday thursday friday saturday sunday",
        "january february march april june july august september october november december",
        "spring summer autumn winter",
        "morning noon lunch afternoon evening night breakfast dinner lunchtime",
        "montag dienstag mittwoch donnerstag freitag samstag sonntag",
        "fruhling sommer herbst winter",
        "header footer sidebar",
        "production staging development testing",
        "upstairs downstairs",
        "internal external",
        "android ios",
        "desktop mobile",
        "inbound outbound",
        "front back",
        "upper lower",
        "indoor outdoor",
        "north south east west",
        "adults children",
        "staff guests visitors",
        "father mother",
        "brother sister",
        "husband wife",
        "son daughter",
        "cats dogs nuts birds horses fish",
    )
)
_EXCEPTION = re.compile(
    r"\b(?:except(?:ion(?:s|ally)?|ing)?|unless|only (?:for|on|in|if|when|during)|apart from|other than|"
    r"in (?:urgent|special|rare|emergency) cases?|in case of|in an emergency|for (?:administrators|admins|emergencies)|"
    r"ausnahme|ausgenommen|ausser|sauf|excepto|salvo|eccetto|tranne|behalve|exceto)\b"
)
_ADDITIVE = re.compile(
    r"\b(?:also|too|as well|besides|additionally|in addition|auch|ebenfalls|aussi|también|tambien|anche|ook|também)\b"
)
_PLANNED = re.compile(
    r"\b(?:will|plans?|planned|planning|going to|intends?|wants?|want to|is to|are to|scheduled|hopes?|decided to|"
    r"decision|will be|wird|werden|plant|va|vamos|vai|gaat|zal)\b"
)
_DONE = re.compile(
    r"(?<!\bbe )\b(?:finished|completed|done|built|delivered|carried out|fulfilled|"
    r"signed off|implemented|shipped|installed|torn down|renovated|painted)\b|\bas (?:planned|agreed|decided)\b"
)


def kept_apart_by(question: str, earlier: str, later: str) -> str | None:
    """Why two statements do not answer a question about one thing, in a word; None if no guard finds a reason."""
    asked, before, after = (_plain(text) for text in (question, earlier, later))
    if _owners(before, asked) != _owners(after, asked):
        return "owner"
    if _other_sibling(asked, before, after):
        return "sibling"
    if _EXCEPTION.search(after) and not _EXCEPTION.search(before):
        return "exception"
    if _ADDITIVE.search(after):
        return "addition"
    if _PLANNED.search(before) and _DONE.search(after) and polarity(later) >= 0:
        return "fulfilled"
    return None


def _plain(text: str) -> str:
    return normalise(text[:MAX_CHARS]).replace("’", "'")


def _owners(text: str, question: str) -> frozenset[str]:
    """The relatives and friends whose things a statement is about, without those that the question names."""
    return frozenset(found for found in _OWNERS.findall(text) if not re.search(rf"\b{found}", question))


def _other_sibling(question: str, *statements: str) -> bool:
    """Whether the question names one of some siblings, and a statement another one and not that."""
    asked = find_words(question)
    texts = [find_words(text) for text in statements]
    return any(
        wanted and any(found and found.isdisjoint(wanted) for found in (_members(words, group) for words in texts))
        for group in _SIBLINGS
        if (wanted := _members(asked, group))
    )


def _members(words: Iterable[str], group: frozenset[str]) -> set[str]:
    return {one for word in words for one in group if word == one or same_word(word, one)}
