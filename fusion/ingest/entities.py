"""Extracts entities from a text: wiki links, handles, code, quoted titles and capitalised names."""

from __future__ import annotations

import re
from collections import Counter
from collections.abc import Iterator, Sequence
from itertools import groupby

from fusion.contract import Entity, Fact
from fusion.lib.times import DAYS, MONTHS
from fusion.lib.words import STOP_WORDS

MAX_ENTITIES = 16


def _classes(characters: Iterator[int]) -> str:
    """A regular-expression character class of code points, as ranges."""
    runs = (list(run) for _, run in groupby(enumerate(characters), key=lambda pair: pair[1] - pair[0]))
    return "".join(f"{chr(run[0][1])}-{chr(run[-1][1])}" for run in runs)


# `re` knows no \p{Lu}; Latin, Greek, Cyrillic and Armenian are below U+0590, what follows mostly has no capitals.
_UPPER = _classes(point for point in range(0x590) if chr(point).isupper())
WORD = rf"[{_UPPER}][\w&+#-]*(?:\.\w+)*(?:['’](?!s\b)\w+)?"
_NAME = re.compile(rf"(?<![\w@/\\.'’-]){WORD}(?:[ ](?:(?:of|de|del|van|von|der|la|du|&)[ ]){{0,2}}{WORD}){{0,5}}")
LINK = re.compile(r"\[\[([^\[\]|#\n]{1,120})(?:[|#][^\[\]\n]{0,240})?\]\]")
_HANDLE = re.compile(r"(?<![\w.@/])@(\w[\w.-]{0,38})")
_CODE = re.compile(r"(?<!`)`([^`\n]{1,60})`(?!`)")
_QUOTED = re.compile(r"[\"“«「『]([^\"“”«»「」『』\n]{2,60})[\"”»」』]")

_TITLES = ("Dr.", "Mr.", "Mrs.", "Ms.", "Prof.", "St.")
COMMON = STOP_WORDS.union(
    DAYS,
    MONTHS,
    (month[:3] for month in MONTHS),
    (title[:-1].lower() for title in _TITLES),
    "sept today yesterday tomorrow tonight last next absolutely actually agreed alright although always amazing "
    "anyway awesome aw bye cheers congrats congratulations cool definitely don either every everyone exactly fine "
    "first finally good great haha hello hey hi however indeed later look many maybe meanwhile never nice nothing "
    "oh ok okay perhaps please really right second see since something sometimes sorry still sure thank thanks "
    "third two three one true unfortunately usually wait well whatever whether without wonderful wow yea yeah yep "
    "yes yet also another because make use using note must todo done important rule step steps remember btw fyi lol "
    "omg imo mon tue tues wed thu thur thurs fri sat sun woah whoa glad go bet got guess hope looks sounds seems "
    "love loved been had keep let check".split(),
)
"""lower-case words that may begin a sentence with a capital and are not names; days and months are times"""


_ADDRESSED = re.compile(
    rf"(?i:\b(?:hey|hi|hello|dear|thanks|thank you|thx|congrats|congratulations|bye|wow|yeah|yep|yes|no|sure|oh|ok)"
    rf"(?:\s+(?:there|again|so much))?)[,!]?\s({WORD})(?=[,.!?;:]|\s-|$)"
)
"""a name that is addressed: "Hey Marta!", "Thanks, Tom." """
_PERSONAL = frozenset("likes|dislikes|prefers|lives in|works at|works as|moved to|married|studies|adopted".split("|"))
"""predicates of persons only"""


def entities(text: str, prose: str, speaker: str | None, stated: Sequence[Fact] = ()) -> list[Entity]:
    """The entities of a text, at most 16, each once without regard to case.

    In this order: the speaker, marked names (wiki links, @handles, `code`, "quotes"), capitalised names, subjects of
    the facts ``stated``. The facts also give the types of some entities.
    """
    found: dict[str, Entity] = {}
    types = dict(_types(prose, stated))

    def add(name: str, type_: str = "") -> None:
        name = " ".join(name.split())
        if name and any(map(str.isalnum, name)):
            known = "project" if name.startswith("Project ") else types.get(name.casefold(), "concept")
            found.setdefault(name.casefold(), Entity(name, type_ or known))

    if speaker:
        add(speaker, "person")
    for name in LINK.findall(text) if "[[" in text else ():
        add(name)
    for name in _HANDLE.findall(text) if "@" in text else ():
        add(name.rstrip(".-"), "person")
    for name in _CODE.findall(prose) if "`" in prose else ():
        if len(name.split()) <= 3:
            add(name)
    for name in _QUOTED.findall(prose):
        if _is_title(name):
            add(name)
    for name in _names(_unmarked(prose)):
        add(name)
    for fact in stated:
        if _NAME.fullmatch(fact.subject):
            add(fact.subject)
    return list(found.values())[:MAX_ENTITIES]


def _types(prose: str, stated: Sequence[Fact]) -> Iterator[tuple[str, str]]:
    """The types of some names, by the facts about them and by how they are addressed."""
    for fact in stated:
        if fact.predicate == "uses":
            yield fact.object.casefold(), "tool"
        if fact.predicate in _PERSONAL:
            yield fact.subject.casefold(), "person"
    for name in _ADDRESSED.findall(prose):
        if not is_common(name):
            yield name.casefold(), "person"


def _unmarked(prose: str) -> str:
    """The text without marked names, so that their parts do not become entities."""
    prose = LINK.sub(" ", prose) if "[[" in prose else prose
    prose = _CODE.sub(" ", prose) if "`" in prose else prose
    return _QUOTED.sub(lambda match: " x " if _is_title(match[1]) else match[0], prose)


def _is_title(quoted: str) -> bool:
    """Whether a quotation is a title rather than speech."""
    first = quoted[0]
    capital = first.isupper() or first.isdigit() or (first.isalpha() and not first.islower())
    return capital and quoted[-1] not in ".!?,;:…。！？" and len(quoted.split()) <= 5 and quoted.lower() not in COMMON


def _names(prose: str) -> Iterator[str]:
    """Capitalised names. A single word at the beginning of a sentence counts only if it occurs twice."""
    found = []
    for match in _NAME.finditer(prose):
        words = match[0].rstrip("&-'’").split(" ")
        opens = _opens_sentence(prose, match.start())
        while words and is_common(words[0]):
            words.pop(0)
            opens = False
        while words and is_common(words[-1]):
            words.pop()
        if words:
            found.append((" ".join(words), opens and len(words) == 1 and words[0][1:].islower()))
    times_seen = Counter(name for name, _ in found)
    for name, doubtful in found:
        if len(name) > 1 and (not doubtful or times_seen[name] > 1):
            yield name


def is_common(word: str) -> bool:
    """Whether a word, contracted or not ("They're"), is too common to be a name."""
    return re.split("['’]", word.lower(), maxsplit=1)[0] in COMMON


def _opens_sentence(text: str, start: int) -> bool:
    before = text[max(0, start - 16) : start]
    lead = before.rstrip(" \t*_\"'“‘«([{#>-•|~=+0123456789)")
    if not lead:
        return len(before) == start or "\n" in before
    return lead[-1] in ".!?:;…\n\r。！？" and not lead.endswith(_TITLES)
