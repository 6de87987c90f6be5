"""Extracts facts (subject, predicate, object) from a text by rules for English: a table of verbs, clause by clause.

The rules prefer precision: no facts come from questions, conditions, hearsay, negations, or subjects that are only
pronouns. Verbs of states count in the present tense, verbs of events in the past.
"""

from __future__ import annotations

import re
from collections.abc import Iterator
from dataclasses import dataclass
from typing import Literal

from fusion.contract import Fact
from fusion.ingest.entities import COMMON, LINK, WORD, is_common
from fusion.lib.times import find_time
from fusion.lib.words import find_words

MAX_FACTS = 8

MAX_PART_WORDS = 6
"""maximum words of a fact's subject and object; longer ones are sentences"""

# Verbs -------------------------------------------------------------------------------------------------------------

_Form = Literal["base", "third", "past", "perfect", "ing"]

_STATES = {
    "uses": "use",
    "owns": "own",
    "has": "have/has/had/having",
    "prefers": "prefer/prefers/preferred/preferring",
    "likes": "like|love|enjoy",
    "dislikes": "dislike|hate",
    "lives in": "live in",
    "works at": "work at|work for",
    "works on": "work on",
    "works as": "work as",
    "studies": "study/studies/studied/studying",
    "teaches": "teach/teaches/taught/teaching",
    "plays": "play",
    "speaks": "speak/speaks/spoke/speaking",
    "collects": "collect",
    "runs": "run/runs/ran/running",
    "runs on": "run/runs/ran/running on",
    "manages": "manage",
    "maintains": "maintain",
    "leads": "lead/leads/led/leading",
    "depends on": "depend on",
    "needs": "need",
    "contains": "contain",
}
"""predicates of states, in the present tense ("uses", "is using"), each with its verbs; irregular ones in four forms"""

_EVENTS = {
    "moved to": "move to",
    "went to": "go/goes/went/going/gone to",
    "travelled to": "travel/travels/travelled/travelling to|travel to|fly/flies/flew/flying/flown to",
    "visited": "visit",
    "joined": "join",
    "left": "leave/leaves/left/leaving|quit/quits/quit/quitting",
    "started": "start|begin/begins/began/beginning/begun",
    "finished": "finish|complete",
    "decided on": "decide on",
    "chose": "choose/chooses/chose/choosing/chosen",
    "switched to": "switch to|migrate to",
    "replaced": "replace",
    "signed up for": "sign/signs/signed/signing up for",
    "graduated from": "graduate from",
    "attended": "attend",
    "married": "marry/marries/married/marrying",
    "met": "meet/meets/met/meeting",
    "bought": "buy/buys/bought/buying|order",
    "got": "get/gets/got/getting/gotten",
    "sold": "sell/sells/sold/selling",
    "adopted": "adopt",
    "made": "make/makes/made/making",
    "built": "build/builds/built/building",
    "created": "create",
    "wrote": "write/writes/wrote/writing/written",
    "painted": "paint",
    "learned": "learn",
    "tried": "try/tries/tried/trying",
    "watched": "watch",
    "won": "win/wins/won/winning",
    "lost": "lose/loses/lost/losing",
    "broke": "break/breaks/broke/breaking/broken",
    "fixed": "fix",
    "found": "find/finds/found/finding|discover",
    "deployed": "deploy",
    "released": "release|publish|launch",
    "upgraded": "upgrade",
    "installed": "install",
    "hired": "hire",
    "cancelled": "cancel/cancels/cancelled/cancelling|cancel",
}
"""predicates of events, in the past tense ("joined", "has joined")"""


def _forms(verb: str) -> Iterator[tuple[str, _Form]]:
    """The forms of a verb with its particle; those of regular verbs are derived."""
    word, _, particle = verb.partition(" ")
    tail = f" {particle}" if particle else ""
    if "/" in word:
        base, third, past, ing, *perfect = word.split("/")
    else:
        stem = word.removesuffix("e")
        base, third = word, word + ("es" if word.endswith(("s", "x", "ch", "sh")) else "s")
        past, ing, perfect = stem + "ed", stem + "ing", []
    kinds: tuple[tuple[str, _Form], ...] = (
        (base, "base"),
        (third, "third"),
        (past, "past"),
        (perfect[0] if perfect else past, "perfect"),
        (ing, "ing"),
    )
    return ((form + tail, kind) for form, kind in kinds)


def _table() -> dict[tuple[str, _Form], str]:
    """The predicate of each verb form that states it."""
    found: dict[tuple[str, _Form], str] = {}
    for verbs, wanted in ((_STATES, {"base", "third", "ing"}), (_EVENTS, {"past", "perfect"})):
        for predicate, spelt in verbs.items():
            for verb in spelt.split("|"):
                found.update({(form, kind): predicate for form, kind in _forms(verb) if kind in wanted})
    return found


_PREDICATES = _table()
_BE = ("am", "is", "are", "'m", "'re", "'s")
_HAVE = ("have", "has", "'ve", "'s")


def _any_of(words: Iterator[str] | tuple[str, ...]) -> str:
    return "|".join(sorted({re.escape(word) for word in words}, key=len, reverse=True)).replace("'", "['’]")


_VERB = _any_of(form for form, _ in _PREDICATES)
_ADVERBS = (
    r"(?:\s+(?:really|just|also|now|still|always|usually|currently|recently|actually|both|all|finally|already|even|"
    r"absolutely|totally|mostly|mainly|often|once|then))*"
)
_STATEMENT = re.compile(
    rf"""[\s*_>•#-]*
    (?i:(?:well|yes|yeah|yep|oh|hey|ok|okay|and|but|so|also|now|then|today|yesterday|actually|honestly|recently|lately
        |finally|guess\swhat|btw|by\sthe\sway)[\s,!]+){{0,3}}
    (?P<subject>
        (?i:(?:my|our|the)\s+)[\w'’-]+(?:\s+[\w'’-]+){{0,3}}?
      | (?:I|[Ww]e)\b
      | `[^`\n]{{1,60}}`
      | {WORD}(?:[ ]{WORD}){{0,4}}
    )
    (?:(?:(?P<aux>['’](?:m|re|s|ve)|\s+(?i:am|is|are|have|has))(?P<been>\s+been)?(?=\s))?
        {_ADVERBS}\s+(?P<verb>(?i:{_VERB}))
      |(?P<copula>['’]m|\s+(?i:is|are|am)){_ADVERBS})
    \s+(?P<object>\S.*)""",
    re.VERBOSE | re.DOTALL,
)
_CONTINUED = re.compile(rf"{_ADVERBS}\s*(?P<verb>(?i:{_VERB}))\s+(?P<object>\S.*)", re.DOTALL)
"""a clause without a subject of its own: "… and bought a lamp", "Started a new job!" """
_SEEN = re.compile(rf"(?i:\b(?:is|are|am|{_VERB})|['’]m)\s")
_SEEN_WORDS = frozenset({"is", "are", "am", "m"} | {find_words(form)[0] for form, _ in _PREDICATES})
"""one of these is in each text that `_SEEN` finds something in"""

# Clauses -----------------------------------------------------------------------------------------------------------

_SENTENCE_END = re.compile(r"(?<=[.!?…。！？])\s+|\n+")
_CLAUSE_END = re.compile(
    r"(?<![,;:.!?…。！？])[,;:.!?…。！？]++(?=\s|$)|[()\[\]{}—–\"“”]|\s-+\s|--+"
    r"|(?<!\bwork)(?<!works)(?<!working)(?<!\bup)\s(?:as|for)\s"
    r"|\s(?:and|but|or|because|so|since|while|when|which|who|that|if|unless|although|though|after|before|until"
    r"|instead|rather|with|where|than|whether|how|why|what)\s",
    re.IGNORECASE,
)
_DOUBTFUL = frozenset({"if", "unless", "that", "than", "until", "as", "whether", "how", "why", "what"})
"""what follows is not stated as so: "if I move to Rome", "I heard that she uses it" """
_GOES_ON = frozenset({"and", ",", "but"})
_ARROW = re.compile(r"(?<!\s)(?:\s++-{1,2}>\s+|\s*+[→⟶]\s*)|[→⟶]\s*")  # begins a run of blanks, never in it
_BULLET = re.compile(r"^\s*(?:[-*+]\s+|\d{1,9}[.)]\s+|>\s?)*")
_TRIM = " \t*_`\"'“”‘’«».,;:!"
_PHRASE_AFTER = re.compile(
    r"\s(?:in|at|on|from|by|about|during|near|around|over|under|into|onto|to|through|without|against|between|across"
    r"|along|inside|outside|behind|again|together|lately|recently|now|too|there|here|yet|already|instead|today"
    r"|anymore|every\s.*|each\s.*|all\s(?:the|my|day|night)\s?.*|I|we|you|they|he|she)(?:\s|$)",
    re.IGNORECASE,
)
"""where the object ends and a phrase of time, place or company begins"""
_FOND = re.compile(r"(?:an?\s(?:\w+\s)?(?:fan|lover)\sof|fond\sof|keen\son|(?:really\s)?into)\s+", re.IGNORECASE)
_DETERMINER = re.compile(r"^(?:an?|the|some|this|these)\s+", re.IGNORECASE)
_UNSURE = frozenset(
    "not no never neither nor it them him her us you me this that these those so very really too pretty quite to how "
    "what when where why who if any all more such lots much many most going good great better best well bad hard out "
    "up down back off away over through along into everything everyone something someone anything nothing one ones "
    "myself yourself himself herself ourselves itself like sure happy sad tired glad sorry able just enough his her "
    "their its your being having seeing getting is are was were".split()
)
"""first words of an object that is negated, refers to an earlier sentence, or is not a thing"""
_A_THING = frozenset("a an the my our his her their one from called named".split())
_IDLE = frozenset(
    "lot few bit look feeling question great good nice blast ball chat chance idea hard long tough day time way "
    "problem mix moment while point word kind sort couple lovely wonderful fantastic amazing better bad big little "
    "really very".split()
)
"""first words of a phrase that is not a thing: "has a lot of fun", "is a great way" """
_VAGUE_VERBS = frozenset({"has", "got", "made", "found", "tried", "lost", "left", "runs", "started", "needs", "leads"})
"""verbs whose object must have an article, a number, a possessive, or a capital"""


_LEADS_TO_TIME = frozenset({"", "in", "on", "during", "back in", "since", "and", "so", "then", "but"})


@dataclass(frozen=True, slots=True)
class _Clause:
    text: str
    before: str
    """the conjunction before the clause; "" for the first"""


def facts(prose: str, speaker: str | None) -> list[Fact]:
    """The facts of a text, at most 8: those of ``A -> rel -> B`` lines, then of sentences.

    ``I``, ``we``, ``my`` and ``our`` are the speaker; without a speaker, such facts are left out.
    """
    found: dict[Fact, None] = {}
    for line in prose.split("\n") if "->" in prose or "→" in prose or "⟶" in prose else ():
        found.update(dict.fromkeys(_chain(line)))
    for sentence in _SENTENCE_END.split(prose):
        if len(found) >= MAX_FACTS:
            break
        if not sentence.endswith(("?", "？")) and _states(sentence) and not _ARROW.search(sentence):
            found.update(dict.fromkeys(_statements(sentence, speaker)))
    return list(found)[:MAX_FACTS]


def _states(sentence: str) -> bool:
    """Whether a sentence has a verb that states something."""
    if sentence.isascii() and _SEEN_WORDS.isdisjoint(find_words(sentence.lower())):
        return False  # found in a tenth of the time; other letters, such as "ſ", match those of the pattern
    return _SEEN.search(sentence) is not None


def _chain(line: str) -> Iterator[Fact]:
    """``A -> rel -> B -> rel -> C`` states two facts."""
    parts = [LINK.sub(r"\1", part).strip(_TRIM) for part in _ARROW.split(_BULLET.sub("", line, count=1))]
    if len(parts) >= 3 and len(parts) % 2 and all(0 < len(p.split()) <= MAX_PART_WORDS for p in parts):
        for i in range(0, len(parts) - 2, 2):
            yield Fact(*parts[i : i + 3])


def _clauses(sentence: str) -> Iterator[_Clause]:
    start, before = 0, ""
    for end in _CLAUSE_END.finditer(sentence):
        yield _Clause(sentence[start : end.start()], before)
        start, before = end.end(), end[0].strip().lower()
    yield _Clause(sentence[start:], before)


def _statements(sentence: str, speaker: str | None) -> Iterator[Fact]:
    subject = ""
    for clause in _clauses(sentence):
        if clause.before in _DOUBTFUL:
            subject = ""
            continue
        text = _without_time_before(clause.text)
        if match := _STATEMENT.match(text):
            subject = match["subject"]
            predicate = "is" if match["copula"] else _predicate(match)
        elif (match := _CONTINUED.match(text)) and (who := _carried(clause, match, subject, text)):
            subject = who
            predicate = _PREDICATES.get((_plain(match["verb"]), "past"), "")
        else:
            continue
        if predicate and (fact := _fact(subject, predicate, match["object"], speaker)):
            yield fact


def _without_time_before(clause: str) -> str:
    """The clause without a time at its beginning ("Last weekend I joined …")."""
    lead = clause.lstrip(" \t*_>•#-")
    when = find_time(lead[:60])
    opens = when is not None and lead[: when.start()].strip().lower() in _LEADS_TO_TIME
    return lead[when.end() :] if when is not None and opens else clause


def _carried(clause: _Clause, match: re.Match[str], subject: str, text: str) -> str:
    """The subject of a clause without one: that of the clause before, or the speaker at the start of a sentence."""
    verb = _plain(match["verb"])
    if (verb, "past") not in _PREDICATES or (verb, "base") in _PREDICATES:
        return ""
    if clause.before in _GOES_ON:
        return subject
    return "I" if not clause.before and text.lstrip()[:1].isupper() and " " not in verb[:4] else ""


def _predicate(match: re.Match[str]) -> str:
    """The predicate of a statement's verb in its tense; "" if there is none."""
    verb, aux = _plain(match["verb"]), _plain(match["aux"] or "").strip()
    if aux in _BE or match["been"]:
        found = _PREDICATES.get((verb, "ing"), "")
        if found or aux != "'s" or match["been"]:
            return found
    if aux in _HAVE:
        return _PREDICATES.get((verb, "perfect"), "")
    if _takes_base_form(match["subject"]) and (verb, "base") in _PREDICATES:
        return _PREDICATES[verb, "base"]
    return _PREDICATES.get((verb, "third"), "") or _PREDICATES.get((verb, "past"), "")


def _plain(verb: str) -> str:
    return " ".join(verb.lower().replace("’", "'").split())


def _takes_base_form(subject: str) -> bool:
    """Whether a subject takes the base form, "like" rather than "likes": I, we, my cats."""
    first, *rest = subject.lower().split()
    return first in {"i", "we"} if not rest else first in {"my", "our", "the"} and rest[-1].endswith("s")


def _fact(subject: str, predicate: str, object_: str, speaker: str | None) -> Fact | None:
    """The fact of a statement; None if it cannot be understood without its context."""
    first, *rest = subject.split()
    who = first.lower()
    if who in {"i", "we", "my", "our"}:
        if not speaker:
            return None
        subject = f"{speaker}'s {' '.join(rest)}" if rest else speaker
    elif who == "the":
        subject = " ".join(rest)
    elif not subject.startswith("`") and is_common(who):
        return None
    if predicate == "is" and (fond := _FOND.match(object_)):
        predicate, object_ = "likes", object_[fond.end() :]
    if (thing := _thing(object_, predicate, who)) is None:
        return None
    if thing.split()[0].lower() in {"my", "our"}:
        if not speaker or len(thing.split()) == 1:
            return None
        thing = f"{speaker}'s {thing.split(maxsplit=1)[1]}"
    subject = subject.strip(_TRIM)
    short = all(0 < len(part.split()) <= MAX_PART_WORDS + len((speaker or "").split()) for part in (subject, thing))
    return Fact(subject, predicate, thing) if short and thing.lower() not in COMMON else None


def _thing(object_: str, predicate: str, who: str) -> str | None:
    """The object of a statement without time and place; None if it is not a thing or refers to another sentence."""
    if when := find_time(object_):  # "moved to Berlin last week": the week is not part of the place
        object_ = re.sub(r"\s(?:in|on|by|since)\s*$", "", object_[: when.start()])
    if rest := _PHRASE_AFTER.search(object_):
        object_ = object_[: rest.start()]
    object_ = " ".join(object_.strip(_TRIM).split())
    words = object_.split()
    if not words or words[0].lower() in _UNSURE:
        return None
    if predicate == "is":
        is_thing = words[0].lower() in _A_THING or not words[0].endswith("ing")
        named = (who in {"my", "our"} and is_thing) or _names_a_thing(words[0])
        return object_ if named and (len(words) == 1 or words[1].lower() not in _IDLE) else None
    if predicate in _VAGUE_VERBS and not _looks_like_one(words):
        return None
    thing = _DETERMINER.sub("", object_).strip(_TRIM)
    return thing if thing and thing.split()[0].lower() not in _IDLE else None


def _names_a_thing(word: str) -> bool:
    """Whether the word after "is" begins a noun phrase, unlike "is going" or "is so tired"."""
    return word.lower() in _A_THING or word[0].isupper() or word[0].isdigit() or word[0] == "`"


def _looks_like_one(words: list[str]) -> bool:
    first = words[0].lower()
    if first in {"a", "an", "the", "my", "our", "two", "three", "four", "new"} or words[0][0].isdigit():
        return len(words) > 1 and words[1].lower() not in _IDLE
    return words[0][0].isupper() or words[0][0] == "`"
