"""Gives facts a topic and an importance by rules, for homes without a language model (seed 002)."""

from __future__ import annotations

import re
from collections.abc import Mapping, Sequence
from typing import NamedTuple

from fusion.contract import Kind
from fusion.lib.words import accentless, find_words, normalise

MIN_IMPORTANCE, MAX_IMPORTANCE = 1, 10
MAX_GRADED_CHARS = 2_000
OTHER = "general"

OF_KIND: Mapping[Kind, tuple[str, int]] = {
    "rule": ("rules", 8),
    "decision": ("decisions", 8),
    "preference": ("preferences", 7),
    "plan": ("plans", 6),
    "procedure": ("procedures", 6),
}
"""topic and importance by kind; other kinds have the topic of their words and the default importance"""
DEFAULT_IMPORTANCE = 5


def _words(listed: str) -> frozenset[str]:
    return frozenset(listed.split())


TOPICS: Mapping[str, frozenset[str]] = {
    "health": _words(
        "allergic allergy allergies doctor hospital medicine medication mg blood surgery diagnosed diagnosis therapy "
        "therapist pregnant diabetes asthma migraine injury injured pain dentist vaccine arzt allergisch krankenhaus "
        "allergique medecin alergico medico allergico"
    ),
    "family": _words(
        "mother father mum mom dad sister brother son daughter wife husband partner kids children child baby family "
        "grandma grandpa grandmother grandfather grandparents aunt uncle cousin niece nephew parents married wedding "
        "engaged divorce mutter vater schwester bruder sohn tochter kinder mere pere soeur frere fils fille hermana "
        "hermano hijo hija sorella fratello figlio figlia"
    ),
    "work": _words(
        "job work works working office company team manager boss colleague colleagues customer customers client "
        "project meeting sprint contract salary hired career interview business shop store studio invoice budget "
        "deadline promotion startup nurse teacher engineer designer arbeite arbeitet travaille trabajo lavoro"
    ),
    "software": _words(
        "server database postgres sqlite python branch deploy deployment release api repo repository test tests ci "
        "docker backup backups staging production bug library framework code index migration terraform ansible linux "
        "debian version port bucket pipeline model"
    ),
    "home": _words(
        "house home apartment flat kitchen garden rent landlord neighbour neighbor neighbours heating boiler roof "
        "furniture moved live lives wohne habite abito key alarm wifi cabin lift"
    ),
    "travel": _words(
        "trip travel travelled flight flew hotel airport train holiday vacation abroad passport camping hike hiking "
        "roadtrip beach tour visited visit"
    ),
    "food": _words(
        "food cook cooking recipe restaurant vegetarian vegan coffee tea dinner lunch breakfast bake baking cake bread "
        "eat eats coriander nuts noix"
    ),
    "money": _words(
        "euro euros dollars kronor price cost costs paid pay pays bought sold savings loan mortgage tax bank"
    ),
    "learning": _words(
        "school university college course class classes degree study studies studied studying learn learned learning "
        "exam lesson lessons workshop book books read reading"
    ),
    "hobbies": _words(
        "paint painted painting music guitar piano clarinet violin song dance dancing game games gaming run running "
        "marathon race bike cycling swim swimming yoga gym football basketball pottery photography hobby movie film "
        "concert festival art write writing novel sail"
    ),
    "pets": _words("dog dogs cat cats puppy kitten pet pets horse bird fish turtle turtles"),
}
"""topics and their words; a fact gets the topic with most words in it, the first of several"""

NAMES = (*dict.fromkeys(topic for topic, _ in OF_KIND.values()), *TOPICS, OTHER)
"""all topics: a closed list, so that facts of one topic are found together"""

_PREFERS = re.compile(
    r"\b(?:prefers?|favou?rite|would rather|i['’]d rather|dislikes?|can['’]t stand)\b"
    r"|\b(?:i|we|he|she|they)\s+(?:\w+ly\s+|also\s+|do(?:n['’]t|esn['’]t| not)?\s+|just\s+)?"
    r"(?:love|like|hate|enjoy)s?\b",
    re.IGNORECASE,
)
_DECIDED = re.compile(
    r"\b(?:decided|decision|chose|chosen|agreed (?:on|to)|settled on|switched (?:to|from)|beschlossen|entschieden"
    r"|decidimos|deciso|décidé)\b",
    re.IGNORECASE,
)
_PLANS = re.compile(
    r"\b(?:plan(?:s|ned|ning)? to|going to|will|gonna|next (?:week|month|year|spring|summer|autumn|fall|winter)"
    r"|tomorrow|signed up|opens? on|starts? on)\b",
    re.IGNORECASE,
)
_RULE = re.compile(
    r"^\W*(?:rule\b|always\b|never\b|do not\b|don['’]t\b|from now on\b|use \S+ .*\bfor me\b)|\b(?:must(?: not)?"
    r"|forbidden|mandatory|every \w+ needs)\b",
    re.IGNORECASE,
)
_MATTERS = re.compile(
    r"\b(?:important|remember|critical|urgent|crucial|vital|note that|wichtig|importante?)\b", re.IGNORECASE
)
_IDENTITY = re.compile(
    r"\b(?:my (?:name|birthday|address|phone|number|wife|husband|partner|manager|son|daughter|mother|father|sister"
    r"|brother)|i(?:['’]m| am) (?:an?|the|allergic|from|married|vegetarian|vegan)|i (?:live|work) (?:in|at|as|for)"
    r"|allergic|allergisch|allergique|alérgic|allergic[oa]|blood type|prescribed|diagnosed|password|alarm code)\b",
    re.IGNORECASE,
)
_UNSURE = re.compile(r"\b(?:maybe|perhaps|i think|i guess|probably|might|not sure|kind of|sort of)\b", re.IGNORECASE)
_PASSING = re.compile(
    r"\b(?:right now|at the moment|just now|this (?:morning|afternoon|evening)|tonight)\b", re.IGNORECASE
)
_EXACT = re.compile(r"\d")


class Grade(NamedTuple):
    """The topic of a fact, and its importance from 1 to 10."""

    topic: str
    importance: int


def graded(text: str, kind: Kind = "note") -> Grade:
    """Grade a fact by rules; ``kind`` decides the topic if it is one of `OF_KIND`."""
    text = text[:MAX_GRADED_CHARS]
    topic, importance = OF_KIND.get(kind_of(text, kind), (_topic(text), DEFAULT_IMPORTANCE))
    for pattern, step in ((_MATTERS, 1), (_IDENTITY, 3), (_EXACT, 1), (_UNSURE, -2), (_PASSING, -2)):
        importance += step if pattern.search(text) else 0
    return Grade(topic, max(MIN_IMPORTANCE, min(MAX_IMPORTANCE, importance)))


def grade_of(text: str, kind: Kind = "note", importance: float | None = None, tags: Sequence[str] = ()) -> Grade:
    """The grade of a memory: its ``importance`` (0 to 1) and the topic among its ``tags``, else those by rules."""
    ruled = graded(text, kind)
    stated = ruled.importance if importance is None else round(importance * MAX_IMPORTANCE)
    topic = next((tag for tag in tags if tag in NAMES), ruled.topic)
    return Grade(topic, max(MIN_IMPORTANCE, min(MAX_IMPORTANCE, stated)))


def kind_of(text: str, kind: Kind) -> Kind:
    """The kind that a text states by its words; ``kind`` if that says something, or if the words do not."""
    if kind in OF_KIND:
        return kind
    patterns: tuple[tuple[re.Pattern[str], Kind], ...] = (
        (_RULE, "rule"),
        (_DECIDED, "decision"),
        (_PREFERS, "preference"),
        (_PLANS, "plan"),
    )
    return next((found for pattern, found in patterns if pattern.search(text)), kind)


def _topic(text: str) -> str:
    words = {accentless(word) for word in find_words(normalise(text))}
    best = max(TOPICS, key=lambda topic: len(words & TOPICS[topic]))
    return best if words & TOPICS[best] else OTHER
