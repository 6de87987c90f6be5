"""Recognises sentences of a conversation that are not worth remembering: greetings, questions, output of tools, …

`CHECKS` is the published list. Extraction, by rules or by a model, leaves out each sentence for which `junk_of` names a
check. Each check is a pure function of one sentence and takes time linear in its length. A sentence that passes all
checks is not yet a fact: `fusion.ingest.turn_facts` looks for a statement in it.
"""

from __future__ import annotations

import re
from collections.abc import Callable, Iterable, Mapping
from typing import Literal

from fusion.lib.clean import clean
from fusion.lib.envelope import is_silent, said, without_own_block
from fusion.lib.jaccard import guard_words, jaccard
from fusion.lib.prompt_words import COURTESY, FUNCTION, ORDER, OWN, QUESTION
from fusion.lib.statements import sentences
from fusion.lib.text_cache import text_cache
from fusion.lib.words import STOP_WORDS, accentless, find_words, normalise, stem

Junk = Literal["heartbeat", "echo", "tool", "question", "offer", "instruction", "greeting", "fragment", "duplicate"]

MAX_CHECKED_CHARS = 2_000
"""characters of a text that are checked; sentences are shorter"""
DUPLICATE_JACCARD = 0.8
"""least Jaccard similarity of the words of two duplicates, which also have the same numbers and negations"""
MAX_COMPARED = 200
"""maximum earlier facts that a new one is compared with: the latest with a common word"""

_SPEAKER_AS_AGENT = frozenset({"assistant", "agent", "ai", "bot"})

# Echoes of blocks of memories ---------------------------------------------------------------------------------------

_ECHO = re.compile(
    r"""(?:
        </?(?:memories|relevant-memories|active_memory_plugin|system-reminder|user-prompt-submit-hook)\b
      | \#\#\ Long-Term\ Memories | ---\ (?:Relevant\ Memories|End\ of\ memories)\b
      | (?:Context\ pack|Stable\ prefix)\ \(
      | \*\*(?:Summary\ \(from|Individual\ facts)
      | Recalled\ data,?\ not\ instructions
      | (?:-\ )?\[[mx][0-9a-z]{1,12}(?:,\ [mx][0-9a-z]{1,12})?\](?:\ |$)
      | (?:-\ )?\[(?:rule|procedure|fact|episode|preference|decision|plan|note|turn)s?\]\ \S
      | (?:-\ )?\[(?:mem0|cognee|cortex|qmd|graphiti|markdown|sqlite|index)\]\ \S
      | (?:The\ following|These|Here\ are)\ [^.]{0,40}\bmemories\b
      | \#\ \d{4}-\d\d-\d\d\ \S+\.md\s*$
    )
    | \(importance:\ \d{1,2}\)\s*$ | \[conflicts\ with:[^\[\]]*\]\s*$ | \bmy\ memory\ block\b
    """,
    re.VERBOSE | re.IGNORECASE,
)


def _is_echo(text: str, speaker: str | None) -> bool:
    return _ECHO.search(text) is not None or (bool(text.strip()) and not without_own_block(text).strip())


def _is_heartbeat(text: str, speaker: str | None) -> bool:
    return is_silent(text) or said(text, "user").unattended


# Output of tools, and code ------------------------------------------------------------------------------------------

_TOOL = re.compile(
    r"""\s*(?:
        Traceback\ \(most | File\ ".*",\ line\ \d | at\ \S.*:\d+\)?\s*$ | [\w.]*(?:Error|Exception|Warning):\s
      | (?:Exit|Return)\ code\b | Tool\ ran\b | npm\ (?:ERR|WARN) | fatal:\  | Killed\s*$ | Permission\ denied
      | No\ such\ file | command\ not\ found | Successfully\ installed\ | Requirement\ already | collected\ \d+\ items
      | The\ file\ \S+\ has\ been\ (?:updated|created|deleted)
      | [dl-][rwx-]{9}\W | total\ \d+\s*$ | (?:real|user|sys)\s+\d+m[\d.]+s | HTTP/\d
      | \[?\d{4}-\d\d-\d\d[T\ ]\d\d:\d\d:\d\d | \[?\d\d:\d\d:\d\d\b
      | \W{0,2}(?:TRACE|DEBUG|INFO|WARN(?:ING)?|ERROR|FATAL|CRITICAL)\b[\]:\ ]
      | diff\ --git\  | @@\ -\d | (?:\+\+\+|---)\ [ab/]\S | [$>%]\ \S | [+-]\s{2,}\S
      | \d{1,3}%\| | ={5,} | (?=\S+\ (?:PASSED|FAILED|ERROR|SKIPPED))\S+?::\S
      | \|.*\|\s*$
      | (?:def|class|async\ def)\ \w++.*:\s*$ | import\ [\w., ]+$ | from\ \S+\ import\ | return\ \S+$
      | const\ |\#include
      | (?:CREATE|ALTER|DROP|INSERT|SELECT|UPDATE|DELETE)\ (?:TABLE|INDEX|INTO|FROM|\*)
      | (?:sudo|curl|wget|git|pip|npm|apt(?:-get)?|docker|kubectl|ssh|cd|ls|cat|grep)\ (?=\S*[-./:])\S+
      | (?:pip|npm|apt|apt-get|sudo|systemctl|docker|kubectl)\ (?:install|run|exec|restart|systemctl|get|apply)\b
      | [{\[]\s*(?:["'{\[]|$) | "\w+"\s*: | <\w+[^>]*>.*</\w+> | </?\w+>\s*$
      | \S{80,}\s*$ | \[[^\]\n]{1,300}\]\s*$
    )""",
    re.VERBOSE,
)
_SYMBOL = re.compile(r"[{}()\[\];=<>|\\$`^~]|->|::")
_CODE_SHARE = 0.12
"""least share of symbols among the characters of a sentence that is code"""


def _is_tool(text: str, speaker: str | None) -> bool:
    if speaker and speaker.casefold() in {"tool", "toolresult", "tool_result", "system"}:
        return True
    unquoted = re.sub(r"`[^`\n]{1,60}`", "x", text)
    return _TOOL.match(text) is not None or sum(map(len, _SYMBOL.findall(unquoted))) > _CODE_SHARE * len(text)


# Questions ----------------------------------------------------------------------------------------------------------

_AUXILIARY = frozenset(
    "do does did is are was were can could would will should shall may might has have had am isn't aren't don't "
    "doesn't didn't won't can't couldn't wouldn't shouldn't".split()
)
_SUBJECT = frozenset("i you he she it we they this that these those there the a an my your our his her their".split())
_ASKED = re.compile(
    r"(?:any(?:\s+(?:idea|news|thoughts|luck|chance|update)|thing\s+(?:new|else))\b|what\s+about\b|how\s+about\b"
    r"|(?:i\s+)?wonder(?:ing)?\s+(?:if|what|how|why|who|where|when|whether)\b)",
    re.IGNORECASE,
)
_STATES = frozenset("happens happened matters works i'm we're".split())


def _is_question(text: str, speaker: str | None) -> bool:
    bare = text.rstrip(" \t\"'”’)*_`")
    if bare.endswith(("?", "？", "؟", "?!", "?!?")) or "¿" in text:
        return True
    words = [word.replace("’", "'") for word in normalise(text).split()[:3]]
    if not words:
        return False
    first, second = accentless(words[0].strip(",.!:")), (words[1] if len(words) > 1 else "").strip(",.!:")
    if _ASKED.match(text.lstrip()):
        return True
    if first in QUESTION:  # "when we moved to Rome, I …" states something, "when does it end" asks
        return (
            first in {"whose", "which"}
            or second in _AUXILIARY
            or second in {"many", "much", "long", "often"}
            or (first == "who" and second not in _SUBJECT and not text.rstrip().endswith((".", "!")))
        )
    return first in _AUXILIARY and second in _SUBJECT and not text.rstrip().endswith("!")


# Offers and announcements of an assistant ---------------------------------------------------------------------------

_OFFER = re.compile(
    r"""\s*(?:(?:sure|ok(?:ay)?|great|alright|certainly|of\ course|now|next|then|first|so|yes|no)[,!.:\s]+)*(?:
        let\ me\b | (?:i['’]ll|i\ will|i['’]d|i\ would|i\ can|i\ could|i['’]m|i\ am|i['’]ve|i\ have|i\ don['’]t
          |i\ do\ not|i\ hope|i\ understand|i\ see|i\ think|i\ found\ nothing|i\ cannot|i\ can['’]t|i\ need)\b
      | shall\ (?:i|we)\b | would\ you\ like\b | do\ you\ want\b | feel\ free\b | happy\ to\b | glad\ to\b
      | here(?:['’]s|\ is|\ are)\b | below\ (?:is|are)\b | (?:just\ )?say\ the\ word\b
      | as\ an\ ai\b | as\ a\ language\ model
      | if\ you(?:['’]d)?\ (?:want|like|need|prefer)\b | you\ can\ (?:always|also|ask|tell|just)\b
      | (?:looking|searching|checking|reading|running)\ (?:at|for|through|the|into)\b | sorry\b | apologies\b
      | please\ (?:let|tell|confirm|provide|share)\b | to\ (?:help|assist)\ you\b
    )""",
    re.VERBOSE | re.IGNORECASE,
)
_OFFER_OF_ANYBODY = re.compile(
    r"\s*(?:let me know\b|feel free\b|as an ai\b|happy to help|i hope this helps|would you like me\b"
    r"|i(?:['’]m| am) happy to help\b|don['’]t hesitate\b)",
    re.IGNORECASE,
)


def _is_offer(text: str, speaker: str | None) -> bool:
    of_agent = (speaker or "").casefold() in _SPEAKER_AS_AGENT
    return (_OFFER.match(text) if of_agent else _OFFER_OF_ANYBODY.match(text)) is not None


# Instructions for now -----------------------------------------------------------------------------------------------

_STANDING = re.compile(
    r"\b(?:always|never|every|each|whenever|from now on|by default|in everything|in future|rule|policy|until|without"
    r"|do not|don['’]t|immer|nie|niemals|jede[rsnm]?|toujours|jamais|chaque|siempre|nunca|cada|sempre|mai|ogni)\b",
    re.IGNORECASE,
)
"""words that make an instruction a rule, because it holds longer than one turn"""
_TAKEOVER = re.compile(
    r"\b(?:ignore|disregard|forget)\b[^.]{0,30}\b(?:instructions?|prompts?|rules|above)\b"
    r"|\byou are now\b|\b(?:reveal|print|show|repeat)\b[^.]{0,30}\b(?:system prompt|api keys?|password|secrets?)\b"
    r"|^\s*(?:system|assistant|developer)\s*:|\b(?:new|updated) (?:system )?instructions\b",
    re.IGNORECASE,
)
"""attempts to take over a model; a sentence with one is always left out"""
_FIRST_PERSON = re.compile(rf"\b(?:me|mich|mir|moi|{'|'.join(sorted(OWN))})\b", re.IGNORECASE)
_POLITE = re.compile(
    r"\s*(?:(?:ok(?:ay)?|so|now|then|and|please|pls|just|also|bitte|dann|jetzt|por favor|per favore|s'il te pla[iî]t)"
    r"[,:\s]+)+",
    re.IGNORECASE,
)
_MORE_ORDERS = frozenset("make fix commit explain refactor translate summarize deploy use ask call send buy".split())
_NOT_ORDERS = frozenset(
    "test plan name list change set work build release range keep sort cover use peux puedes son come "
    "resume continua crea genera traduce verifica corrige copia elimina usa trova".split()
)
"""words of `ORDER` that are often nouns at the beginning of a sentence, or statements in another language"""


def _is_instruction(text: str, speaker: str | None) -> bool:
    if _TAKEOVER.search(text):
        return True
    if _STANDING.search(text) or (speaker or "").casefold() in _SPEAKER_AS_AGENT:
        return False
    asked = _POLITE.match(text)
    words = find_words(normalise(text[asked.end() :] if asked else text))
    first = accentless(words[0]) if words else ""
    if asked and "please" in asked[0].lower() and first in ORDER:
        return True
    return first in (ORDER - _NOT_ORDERS) | _MORE_ORDERS and (len(words) < 2 or words[1] not in {"is", "was", "are"})


# Greetings and small talk -------------------------------------------------------------------------------------------

_PRAISE = (
    "great good nice cool awesome amazing fantastic wonderful lovely sweet cute perfect excellent brilliant beautiful "
    "inspiring impressive incredible fun funny exciting interesting tough hard rough sad bad sorry happy glad proud "
    "grateful thankful excited super neat rad dope sick gorgeous adorable heartwarming special powerful right true "
    "fine well okay ok important helpful worth crazy wild insane terrible awful relaxing peaceful delicious yummy "
    "tasty stunning motivating encouraging uplifting meaningful rewarding fulfilling comforting refreshing best better "
    "appreciated mesmerizing magical breathtaking unreal epic rocking killing crushing nailed"
).split()
_POLITE_WORDS = frozenset(
    [
        *COURTESY,
        *_PRAISE,
        *"thx ty ya yay yeah yea aw aww awww oh ooh ah haha hahaha hehe omg whoa woah yup cheers congrats "
        "congratulations luck luckily wish wishes agree agreed absolutely definitely totally certainly indeed done job "
        "work question day night weekend week evening later soon see you talk care take hope hoping love loved keep "
        "going it up that's thats sounds sound looks look seems must be been have having much so very such truly lot "
        "lots really too for all me i i'm im your you're youre we hear hearing from seeing meet chat chatting chatted "
        "know believe imagine bet glad appreciate means support supporting thanks thank thankful course thing problem "
        "worries anytime always here there this these and the a an of to with in on at is are was were it's its them "
        "they what who like proud let's lets go ahead guess same feel feeling feelings way point makes sense happy "
        "friend buddy man dude girl guys bro sis wait can't cant wow understand understandable kind thoughtful words "
        "stay keep strong enjoy enjoying having time fun safe positive inspired journey awesome bonjour comment va ca "
        "danke passt das tak tack grazie dopo ciao muchas merci beaucoup hej schones wochenende gern gerne "
        "just more even about if when how do does did don't dont nothing something anything everything every".split(),
    ]
)
_STARTS = frozenset(
    [
        *COURTESY,
        *_PRAISE,
        *"thx ty yay yeah yea aw aww awww oh ooh ah haha omg whoa woah yup cheers congrats congratulations hope glad "
        "so sounds that that's it it's you you're i i'm love totally definitely absolutely agreed keep take see talk "
        "bye of for danke merci muchas ciao hej can't enjoy appreciate wishing good thanks wow what such must looks "
        "seems this way have no let's same".split(),
    ]
)
_HONORIFIC_NAME = re.compile(r"[A-Z][\w'’-]+")


def _is_greeting(text: str, speaker: str | None) -> bool:
    """Whether a sentence has nothing but courtesy, praise and function words, and perhaps the other's name."""
    words = [accentless(normalise(word)).replace("’", "'") for word in re.findall(r"[\w'’]+", text)]
    if not words or any(word[0].isdigit() for word in words):
        return False
    if words[0] not in _STARTS:
        return False
    others = [
        word
        for word, written in zip(words, re.findall(r"[\w'’]+", text), strict=True)
        if word not in _POLITE_WORDS and word not in STOP_WORDS
    ]
    names = [written for written in re.findall(r"[\w'’]+", text) if _HONORIFIC_NAME.fullmatch(written)]
    allowed = 1 if any(normalise(name) in others for name in names) else 0
    return len(others) <= allowed


# Fragments ----------------------------------------------------------------------------------------------------------

_POINTS = re.compile(
    r"\s*(?:it|that|this|these|those|they|which|who|das|es|dies|ça|cela|eso|esto|questo)(?:['’](?:s|re|d|ll|ve))?\b",
    re.IGNORECASE,
)
_POINTING_WORDS = 4
"""fewest content words of a sentence that begins with a pronoun and can still be understood by itself"""


def _is_fragment(text: str, speaker: str | None) -> bool:
    content = content_words(text)
    if len(find_words(text)) < 3 or len(content) < 2:
        return True
    named = any(word[0].isdigit() for word in content) or re.search(r"(?<=[\w,] )[A-ZÄÖÜÉ][a-zäöüßéè]+", text)
    return not named and _POINTS.match(text) is not None and len(content) < _POINTING_WORDS


def content_words(text: str) -> frozenset[str]:
    """The stems of a text's words, without function words of five languages."""
    found = (accentless(word) for word in find_words(normalise(text)))
    return frozenset(stem(word) for word in found if word not in STOP_WORDS and word not in FUNCTION)


# All checks ---------------------------------------------------------------------------------------------------------

CHECKS: Mapping[Junk, tuple[str, Callable[[str, str | None], bool]]] = {
    "heartbeat": ("an agent has nothing to say, or a scheduler wrote the prompt", _is_heartbeat),
    "echo": ("part of a block of recalled memories, or of a reminder of a harness", _is_echo),
    "tool": ("output of a program, a log, a traceback, a table, a command, or source code", _is_tool),
    "question": ("asks, and states nothing", _is_question),
    "offer": ("an assistant offers, announces, apologises, or introduces its answer", _is_offer),
    "instruction": ("asks for something to be done now; a rule for the future is a fact", _is_instruction),
    "greeting": ("courtesy, praise or assent without a subject", _is_greeting),
    "fragment": ("too short to be understood by itself, or about an unnamed “it” or “that”", _is_fragment),
}
"""the checks of one sentence in order, each with a description. `Duplicates` finds duplicates."""


def junk_of(text: str, speaker: str | None = None) -> Junk | None:
    """The name of the first check that a sentence fails; None if it may be a fact."""
    text = clean(text[:MAX_CHECKED_CHARS])[0].strip()
    return next((name for name, (_, check) in CHECKS.items() if check(text, speaker)), None)


def is_all_junk(text: str, speaker: str | None = None) -> bool:
    """Whether every sentence of a text is junk: "Hi Max! Where do the bookings live?" """
    text = text[: 2 * MAX_CHECKED_CHARS]
    return all(junk_of(text[start:end], speaker) is not None for start, end in sentences(text))


@text_cache(512)
def stated(text: str, speaker: str | None = None) -> str:
    """A turn from its first statement to its last; "" if it states nothing: "Hi Max! Where do the bookings live?"

    A question right before the first statement stays, since it may name what that is about.
    """
    if len(text) > 2 * MAX_CHECKED_CHARS:
        return text
    parts = [*sentences(text)]
    junk = [junk_of(text[start:end], speaker) for start, end in parts]
    kept = [n for n, (start, end) in enumerate(parts) if _may_state(junk[n], text[start:end], speaker)]
    if not kept:
        return ""
    first, last = kept[0], kept[-1]
    if first and junk[first - 1] == "question":
        first -= 1
    return text[parts[first][0] : parts[last][1]].strip()


def _may_state(junk: Junk | None, sentence: str, speaker: str | None) -> bool:
    """Whether a sentence states something. A short one or a request of a user may: "I'm vegan.", "Call me Bob." """
    if junk is None or (speaker or "").casefold() in _SPEAKER_AS_AGENT:
        return junk is None
    if junk == "fragment":
        return bool(content_words(sentence))
    return junk == "instruction" and _FIRST_PERSON.search(sentence) is not None and not _TAKEOVER.search(sentence)


class Duplicates:
    """An index of the facts so far, which finds a fact in nearly the same words."""

    def __init__(self) -> None:
        self._facts: list[tuple[str, frozenset[str], frozenset[str]]] = []
        self._by_word: dict[str, list[int]] = {}

    def same_as(self, text: str, whose: str = "") -> bool:
        """Whether an earlier fact of the same owner says the same; if none does, add this one to the index."""
        words = content_words(text)
        guards = guard_words(frozenset(find_words(normalise(text))))
        for number in self._candidates(words):
            owner, others, theirs = self._facts[number]
            if owner == whose and guards == theirs and jaccard(words, others) >= DUPLICATE_JACCARD:
                return True
        for word in words:
            self._by_word.setdefault(word, []).append(len(self._facts))
        self._facts.append((whose, words, guards))
        return False

    def _candidates(self, words: Iterable[str]) -> list[int]:
        """The latest facts with one of the rarest words, of which two duplicates always share one."""
        rarest = sorted(words, key=lambda word: len(self._by_word.get(word, ())))
        found = {number for word in rarest[: max(2, len(rarest) // 4 + 1)] for number in self._by_word.get(word, ())}
        return sorted(found, reverse=True)[:MAX_COMPARED]
