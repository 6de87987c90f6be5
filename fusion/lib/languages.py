"""Tells whether a text is in another language than English: by the frequent words of some languages, and by script."""

from __future__ import annotations

import re

from fusion.lib.words import word_list

MIN_WORDS = 40
"""words of a text below which nothing is said of its language"""
MIN_SHARE = 0.05
"""share of frequent words of other languages in a text that is in one of them; running text has 15 to 40 %"""
MIN_DIFFERENT = 5
"""different frequent words of other languages in such a text; names of places have one or two: El Camino, La Paz"""
OTHER_SCRIPT = 0.3
"""share of letters beyond the Latin script; names and quotations stay below it"""
_LETTER = re.compile(r"[^\W\d_]")
_LATIN = re.compile(r"[A-Za-z\u00aa-\u024f\u1e00-\u1eff]")

ENGLISH = frozenset(
    "the of and to that for with this have not from you but which are be by it was on we they at is as or an if".split()
)
OTHER = frozenset(
    # German, French, Spanish, Italian, Portuguese
    "und der das ist nicht ein eine einen mit auf für wir sich dem den von zu auch wie wird sind oder bei nach "
    "le la les des une est dans pour qui sur avec pas nous au du et je plus que "
    "el los las una por con para del se y es su lo como más pero "
    "il che di per non sono della gli nel si è anche ho abbiamo "
    "os um uma não mais da em na dos foi ao "
    # Dutch, Swedish, Danish, Norwegian, Finnish
    "het een van niet voor zijn dat ik wij naar ook maar "
    "och att det som är på för inte med jag av till vi ett om "
    "og ikke til af er på jeg vi har "
    "ja että ei se oli mutta kun niin "
    # Polish, Czech, Hungarian, Romanian, Turkish
    "nie się że jest na do ale tak jak "
    "je pro ve jako ale jsem "
    "az és egy hogy nem is van meg "
    "și pe cu nu din este sau "
    "bir ve bu için ile çok daha".split()
) - ENGLISH.union("is do se me on no pro per an as van us so she he".split())


def is_foreign(text: str) -> bool:
    """Whether a text is surely in another language than English; False for a short or mixed one."""
    letters = _LETTER.findall(text)
    words = word_list(text)
    if len(letters) < 2 * MIN_WORDS:
        return False
    if sum(_LATIN.match(letter) is None for letter in letters) > OTHER_SCRIPT * len(letters):
        return True
    if len(words) < MIN_WORDS:
        return False
    english, other = ([word for word in words if word in known] for known in (ENGLISH, OTHER))
    return len({*other}) >= MIN_DIFFERENT and len(other) > max(MIN_SHARE * len(words), 2 * len(english))
