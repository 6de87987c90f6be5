"""What sort of answer a question asks for: a number, a time, a person, a place, yes or no, or a thing."""

from __future__ import annotations

import re
from enum import StrEnum


class AnswerType(StrEnum):
    """The sort of answer that a question asks for."""

    NUMBER = "number"
    """how many, how much, how long, which version, which limit"""
    TIME = "time"
    """when, on which day, at what time, how often"""
    PERSON = "person"
    PLACE = "place"
    TRUTH = "truth"
    """yes or no, for or against"""
    THING = "thing"
    """all else: a name, a choice, a manner"""


_NUMBER = re.compile(
    r"\bhow (?:many|much|long|large|big|tall|high|old|far|fast|deep|wide|heavy|warm|cold)\b"
    r"|\bat what (?:temperature|speed|price|rate|age)\b"
    r"|\b(?:what|which)\b[^?]{0,40}\b(?:limit|maximum|minimum|size|number|port|version|price|cost|fee|rate|discount|"
    r"budget|temperature|age|percentage|share|salary|speed|capacity|amount|rent|weight|length|height|width|quota|"
    r"timeout|interval|score|distance)\b"
    r"|\b(?:wie ?viele?|wie (?:lange|hoch|groß|teuer|alt|weit|schwer)|combien|cu[aá]nt[oa]s?|quant[oiae]s?|"
    r"hoe ?(?:veel|lang|groot|hoog|duur|oud|ver))\b",
    re.IGNORECASE,
)
_TIME = re.compile(
    r"\bwhen\b|\bhow (?:often|frequently|soon|early|late)\b|\b(?:by|since|until) when\b"
    r"|\b(?:what|which)\s+(?:time|day|days|date|month|year|week|weekday|evening|hour|season)\b|\bdeadline\b"
    r"|\b(?:wann|wie oft|um wie ?viel uhr|quand|quel(?:le)?s? (?:jours?|heures?|dates?|mois|fréquence)|"
    r"cu[aá]ndo|qu[eé] (?:d[ií]as?|hora|fecha|mes)|quando|(?:che|quale) (?:ora|giorn[oi]|data|mese)|"
    r"(?:a|em) que (?:horas?|dias?|data)|wanneer|hoe (?:vaak|laat)|welke (?:dag|datum)|welche[mnrs]? (?:tag|datum))\b",
    re.IGNORECASE,
)
_PERSON = re.compile(
    r"\b(?:who|whom|whose|wer|wem|wen|wessen|qui|quién(?:es)?|quien(?:es)?|chi|wie is|quem)\b"
    r"|\b(?:what|which) (?:person|colleague|doctor|teacher|contact)\b",
    re.IGNORECASE,
)
_PLACE = re.compile(
    r"\bwhere\b|\b(?:what|which)\s+(?:city|town|country|place|room|building|floor|street|venue|hotel|address|office)\b"
    r"|\b(?:wo|wohin|woher|où|dónde|adónde|dove|waar|onde)\b"
    r"|\b(?:em|in) (?:que|welche[rmn]?|che) (?:cidade|stadt|città)\b",
    re.IGNORECASE,
)
_TRUTH = re.compile(
    r"^\W*(?:is|are|was|were|am|do|does|did|can|could|may|might|must|shall|should|will|would|has|have|had|"
    r"isn't|aren't|doesn't|don't|can't|won't|"
    r"ist|sind|hat|haben|kann|können|darf|dürfen|mag|soll|sollen|wird|werden|muss|isst|trinkt|spricht|"
    r"est-ce|est|sont|peut-on|a-t-|es|está|están|tiene|puede|le gusta|les gusta|hay|"
    r"è|sono|ha|può|piace|si può|is het|heeft|kan|mag|moet|gaat|eet|drinkt|é|está|tem|pode|gosta)\b",
    re.IGNORECASE,
)
_OPINION = re.compile(
    r"\b(?:think|thinks|feel|feels) (?:of|about)\b|\bopinion\b|\bhow (?:is|are) (?:\w+'s|the|my|his|her)\b"
    r"|\b(?:was hält|que pense|qué opina|cosa pensa|wat vindt)\b",
    re.IGNORECASE,
)
_TYPES = (
    (AnswerType.NUMBER, _NUMBER),
    (AnswerType.TIME, _TIME),
    (AnswerType.TRUTH, _TRUTH),
    (AnswerType.TRUTH, _OPINION),
    (AnswerType.PERSON, _PERSON),
    (AnswerType.PLACE, _PLACE),
)
MAX_CHARS = 500
"""characters of a question that are looked at; longer ones are prompts, which ask for a thing"""
_OR = re.compile(r"\b(?:or|oder|ou|o)\b", re.IGNORECASE)


def answer_type(question: str) -> AnswerType:
    """The sort of answer that a question asks for."""
    asked = question[:MAX_CHARS]
    for kind, pattern in _TYPES:
        if pattern.search(asked):
            return AnswerType.THING if kind is AnswerType.TRUTH and _OR.search(asked) else kind
    return AnswerType.THING
