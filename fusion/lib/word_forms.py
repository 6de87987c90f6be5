"""Forms of English words: abbreviations, spellings, inflections, synonyms and misspellings."""

from __future__ import annotations

import re

from fusion.lib.text_cache import text_cache
from fusion.lib.words import STOP_WORDS, accentless, find_words, normalise

_FILLERS = frozenset(
    "ah aw eh hah haha hello hey hi hm hmm huh like lol nah oh okay please really right so thank thanks truly uh um "
    "well woah wow yay yeah yep yes quite rather pretty totally completely absolutely actually basically simply indeed "
    "certainly definitely note remember remembered reminder memo chat fyi ps us let one lot bit anyway".split()
)
"""words that say nothing of what a text is about"""
FUNCTION_WORDS = (
    STOP_WORDS | _FILLERS | frozenset("shall may might must ought upon within across along since".split())
) - {"won"}  # a stop word for "won't", which is spelt out here

_ABBREVIATED = {
    short: whole
    for whole in "january february march april june july august september october november december "
    "monday tuesday wednesday thursday friday saturday sunday".split()
    for short in (
        whole[:3],
        *({"september": ["sept"], "tuesday": ["tues"], "thursday": ["thur", "thurs"]}.get(whole, ())),
    )
}
_NUMBERS = {
    word: str(n)
    for n, word in enumerate(
        "zero - two three four five six seven eight nine ten eleven twelve thirteen fourteen fifteen sixteen seventeen "
        "eighteen nineteen twenty".split()
    )
    if word != "-"
} | {"thirty": "30", "forty": "40", "fifty": "50", "sixty": "60", "seventy": "70", "eighty": "80", "ninety": "90"}
_SYMBOLS = {"$": "dollar", "€": "euro", "£": "pound", "¥": "yen", "%": "percent", "₿": "bitcoin", "°": "degree"}
_LONGER = {"eur": "euro", "usd": "dollar", "gbp": "pound", "jpy": "yen", "pct": "percent", "hrs": "hour", "hr": "hour",
           "min": "minute", "mins": "minute", "kgs": "kg", "lbs": "lb", "approx": "approximately", "dept": "department",
           "info": "information", "docs": "documents", "repo": "repository", "config": "configuration",
           "db": "database", "app": "application", "etc": "others", "ok": "okay", "vs": "versus"}  # fmt: skip

# Cyrillic and Greek letters that look like Latin ones: a reader sees one word.
_LOOKALIKES = str.maketrans("асеорхуіјѕԁɡһкмтвнαορντκυιχ", "aceopxyijsdghkmtbhaopvtkuix")

_SYNONYMS = (
    "photo picture image snapshot;glad happy pleased delighted;large big huge;start begin commence;kid child;"
    "great wonderful awesome fantastic amazing;lovely beautiful gorgeous;buy purchase;car automobile;doctor physician;"
    "movie film;fast quick rapid speedy;quickly rapidly swiftly;repair fix mend;choose select pick;help assist aid;"
    "finish complete end;show display;home house;shop store;angry furious;job work;usually normally typically;"
    "need require;error mistake;trip journey;freight cargo;small little tiny;smart clever intelligent;"
    "purchase buy;reply answer respond;ask inquire enquire;talk speak chat;maybe perhaps possibly;often frequently;"
    "near close;also too;about approximately roughly around circa;currently presently now;enjoy love like;"
    "want wish desire;get obtain receive;use utilize employ;hard difficult tough;easy simple;important crucial vital;"
    "nearly almost;begin start;city town;dad father;mom mum mother;bike bicycle;phone telephone;tv television;"
    "fridge refrigerator;vacation holiday;apartment flat;gift present;sick ill;scared afraid;tired exhausted;"
    "rich wealthy;strange odd weird;funny hilarious;sad unhappy;terrible awful horrible;excited thrilled;"
    "create make build;remove delete;change modify alter;issue problem;aim goal objective;staff personnel;"
    "enough sufficient;whole entire;various several;mail email;sofa couch;stone rock;garbage trash rubbish"
)

_IRREGULAR = (
    "be am is are was were been being;have has had;do does did done;go goes went gone;begin began begun;buy bought;"
    "bring brought;build built;catch caught;choose chose chosen;come came;cut;draw drew drawn;drink drank drunk;"
    "drive drove driven;eat ate eaten;fall fell fallen;feel felt;find found;fly flew flown;forget forgot forgotten;"
    "get got gotten;give gave given;grow grew grown;hear heard;hold held;keep kept;know knew known;leave left;"
    "lend lent;lose lost;make made;mean meant;meet met;pay paid;read;ride rode ridden;run ran;say said;see saw seen;"
    "sell sold;send sent;sing sang sung;sit sat;sleep slept;speak spoke spoken;spend spent;stand stood;swim swam swum;"
    "take took taken;teach taught;tell told;think thought;throw threw thrown;wear wore worn;win won;"
    "write wrote written;child children;man men;woman women;person people;foot feet;tooth teeth;mouse mice;"
    "life lives;wife wives;"
    "knife knives;leaf leaves;half halves;good;bad;datum data;criterion criteria;index indices indexes"
)

_NOT_THE_SAME = frozenset(
    frozenset(pair.split("/"))
    for pair in "form/from trial/trail united/untied casual/causal martial/marital diary/dairy angel/angle calm/clam "
    "silver/sliver desert/dessert later/latter coma/comma super/supper diner/dinner loose/lose new/news "
    "discreet/discrete quiet/quite conservation/conversation complement/compliment".split()
)
"""words that look like misspellings of each other"""


def _groups(listed: str) -> dict[str, frozenset[int]]:
    found: dict[str, set[int]] = {}
    for number, group in enumerate(listed.split(";")):
        for word in group.split():
            found.setdefault(word, set()).add(number)
    return {word: frozenset(numbers) for word, numbers in found.items()}


_SYNONYM_OF, _FORM_OF = _groups(_SYNONYMS), _groups(_IRREGULAR)

_CONTRACTED = ((re.compile(r"\b(ca|wo|sha)n't\b"), r"\1 not"), (re.compile(r"n't\b"), " not"),
               (re.compile(r"\bcannot\b"), "can not"), (re.compile(r"'(?:s|re|ve|ll|m|d)\b"), " "),
               (re.compile(r"s'(?=\s|$)"), "s "))  # fmt: skip
_WITHOUT_APOSTROPHE = {
    f"{verb}nt" if verb != "ca" else "cant"
    for verb in "do does did is was were wo would should could has have had are ca".split()
}
_THOUSANDS = re.compile(r"(?<=\d)[,'\u202f](?=\d{3}\b)")
_UNIT = re.compile(r"(?<=\d)(?=[a-z])")
_WORD_IN_TEXT = re.compile(r"[^\W_][\w'’-]*")
_SENTENCE_ENDS = re.compile(r"(?:^|[.!?…:;\n\"“”()\[\]{}*#>|-])\W*$")


@text_cache(16_384)
def canonical(text: str) -> tuple[str, ...]:
    """The words of a text in order, normalised for comparison."""
    plain = normalise(text).replace("’", "'").replace("‘", "'").replace("ʼ", "'")
    for pattern, replacement in _CONTRACTED if "'" in plain or "cannot" in plain else ():
        plain = pattern.sub(replacement, plain)
    for symbol, word in _SYMBOLS.items():
        if symbol in plain:
            plain = plain.replace(symbol, f" {word} ")
    plain = _UNIT.sub(" ", _THOUSANDS.sub("", plain))
    return tuple(_canonical_word(word) for word in find_words(plain))


@text_cache(65_536)
def _canonical_word(word: str) -> str:
    if not word.isascii():
        word = accentless(word).translate(_LOOKALIKES)
    if word in _WITHOUT_APOSTROPHE:
        return "not"
    return _ABBREVIATED.get(word) or _NUMBERS.get(word) or _LONGER.get(word) or word


@text_cache(16_384)
def names(text: str) -> frozenset[str]:
    """The words written as names: capitalised within a sentence, or in capitals where other words are not."""
    found: list[str] = []
    capitalised = [match for match in _WORD_IN_TEXT.finditer(text) if match.group()[0].isupper()]
    shouted = bool(capitalised) and sum(map(str.isupper, text)) > sum(map(str.islower, text))
    for match in capitalised:
        word = match.group()
        if word in ("I", "I'm", "I’m", "I'll", "I’ll", "I've", "I’ve", "I'd", "I’d"):
            continue
        capitals = len(word) > 1 and word.isupper() and not shouted
        if capitals or (not shouted and not _SENTENCE_ENDS.search(text[max(0, match.start() - 8) : match.start()])):
            found += canonical(word)
    return frozenset(word for word in found if word not in FUNCTION_WORDS or len(word) == 1)  # "plan A"


@text_cache(65_536)
def same_word(one: str, other: str, named: bool = False) -> bool:
    """Whether two words are spellings, inflections or listed synonyms of each other; for names only spellings count."""
    if _spelling(one) == _spelling(other):
        return True
    if named or frozenset((one, other)) in _NOT_THE_SAME or not (one.isascii() and other.isascii()):
        return False
    ones, others = bases(one), bases(other)
    # "filing" and "filling" have a form in common that is no word.
    if not (_same_ending(one, other) or ones.isdisjoint(others)) or _slipped(one, other):
        return True
    return any(not _listed(a).isdisjoint(_listed(b)) for a in ones for b in others)


def _same_ending(one: str, other: str) -> bool:
    return any(one.endswith(ending) and other.endswith(ending) for ending in ("ed", "ing"))


def _listed(word: str) -> frozenset[int]:
    return _SYNONYM_OF.get(word, frozenset())


_SPELLINGS = (
    (re.compile(r"is(?=(?:e|ed|es|ing|ation|ations|er|ers)$)"), "iz"),
    (re.compile(r"ys(?=(?:e|ed|es|ing)$)"), "yz"),
    (re.compile(r"(?<=..)our(?=(?:s|ed|ing|ite|ites|able|ful|hood)?$)"), "or"),
    (re.compile(r"(?<=..)tre(?=s?$)"), "ter"),
    (re.compile(r"ogue(?=s?$)"), "og"),
    (re.compile(r"(?<=....)ll(?=(?:ed|ing|er|ers)$)"), "l"),
    (re.compile(r"[ao]e(?=[a-z])"), "e"),
    (re.compile(r"ence(?=s?$)"), "ense"),
    (re.compile(r"amme(?=s?$)"), "am"),
    (re.compile(r"^grey"), "gray"),
)


@text_cache(65_536)
def _spelling(word: str) -> str:
    """British and American spellings of a word as one."""
    if len(word) < 4:
        return word
    for pattern, replacement in _SPELLINGS:
        word = pattern.sub(replacement, word)
    return word


_VOWEL = re.compile("[aeiouy]")


@text_cache(65_536)
def bases(word: str) -> frozenset[str]:
    """The words that a word may be an inflection of, itself included."""
    found = {word}
    if word.endswith("s") and not word.endswith(("ss", "us", "is")):
        found |= {word[:-1], *([word[:-2]] if word.endswith("es") else []), *([word[:-3] + "y"] * word.endswith("ies"))}
    for ending in ("ed", "ing"):
        stem = word.removesuffix(ending)
        if stem == word or not _VOWEL.search(stem) or (ending == "ed" and stem.endswith("e")):
            continue
        found |= {stem, stem + "e"}
        if len(stem) > 3 and stem[-1] == stem[-2]:
            found.add(stem[:-1])
        if stem.endswith("i"):
            found.add(stem[:-1] + "y")
    whole = {base for base in found if len(base) > 2 or base == word}
    forms = {f"#{number}" for base in whole for number in _FORM_OF.get(base, ())}
    listed = {group.split()[0] for n, group in enumerate(_IRREGULAR.split(";")) if f"#{n}" in forms}
    return frozenset(_spelling(base) for base in whole | listed)


def _slipped(one: str, other: str) -> bool:
    """Whether two adjacent letters within a word are swapped, or a letter is doubled: a typing error."""
    if one == other or min(len(one), len(other)) < 5 or one[0] != other[0] or {one, other} in _NOT_THE_SAME:
        return False
    if len(one) == len(other):
        differs = [i for i, (a, b) in enumerate(zip(one, other, strict=True)) if a != b]
        first, last = differs[0], differs[-1]
        if last == first + 1 and one[first] == other[last] and one[last] == other[first]:
            return True
    # Before an ending the doubled letter is another word's: "filing", "filling"; "diner", "dinner".
    return min(len(one), len(other)) > 5 and _singled(one) == _singled(other) and not _ENDED.search(f"{one} {other}")


_DOUBLED = re.compile(r"(?<=.)(.)\1")
_ENDED = re.compile(r"(?:ing|ed|er|ers|y)\b")


def _singled(word: str) -> str:
    return _DOUBLED.sub(r"\1", word)


def misspelt(one: str, other: str) -> bool:
    """Whether two words differ in one letter, as in a misspelling; a vocabulary must confirm that one is no word."""
    if min(len(one), len(other)) < 5 or one[0] != other[0] or frozenset((one, other)) in _NOT_THE_SAME:
        return False
    long, short = (one, other) if len(one) >= len(other) else (other, one)
    same = next((i for i, (a, b) in enumerate(zip(long, short, strict=False)) if a != b), len(short))
    return long[same + 1 :] == short[same + (len(long) == len(short)) :] or _slipped(one, other)


_OPPOSING = tuple("un in im il ir dis non de anti mis re over under pre post ex".split())


def parts(word: str) -> frozenset[str]:
    """The `bases` of a word, each with and without a prefix."""
    found = bases(word)
    return found | {base.removeprefix(prefix) for base in found for prefix in _OPPOSING if len(base) > len(prefix) + 3}


def opposed(one: str, other: str) -> bool:
    """Whether one word is the other with a prefix, which mostly reverses its meaning."""
    return any(one == prefix + other or other == prefix + one for prefix in _OPPOSING)
