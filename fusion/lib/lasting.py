"""How long a statement is worth keeping, by its wording: a rule holds for years, a lunch is over tomorrow.

The rules read the first finite verb and the words for near times. They know English; of other languages they know words
like "yesterday" alone.
"""

from __future__ import annotations

import re

from fusion.lib.jaccard import DATES
from fusion.lib.words import find_words, normalise

PASSING_DAYS, OTHER_DAYS, LASTING_DAYS = 14.0, 90.0, 720.0
"""half-lives of what passes, of past events and what the rules do not know, and of what holds until it changes"""

_NEAR = re.compile(
    r"\b(?:today|tonight|yesterday|tomorrow|(?:this|last|next) (?:morning|afternoon|evening|night|week|weekend)"
    r"|(?:last|next|this|on) (?:mon|tues|wednes|thurs|fri|satur|sun)day|right now|just now|at the moment|currently"
    r"|heute|gestern|gerade|demain|aujourd['’]hui|ce (?:matin|soir)|ayer|hoy|mañana|oggi|ieri|domani"
    r"|hoje|ontem|vandaag|gisteren)\b",
    re.IGNORECASE,
)
_STANDS = re.compile(
    r"\b(?:always|never|must|every|each|usually|by default|from now on|as of|prefers?|decided|agreed|rule|remember"
    r"|allergic|born|birthday|moved|married|divorced|joined|became|switched|replaced|renamed|hired|promoted|adopted"
    r"|graduated|founded|diagnosed|retired|died|signed up|(?:has|have|['’]ve|['’]s) (?:taken|left|begun|started"
    r"|become|quit|stopped|changed))\b|\bnow\b(?<!right now)(?<!just now)",
    re.IGNORECASE,
)
"""words of what holds until it is changed, also where they tell of a moment in the past"""
_VERB = re.compile(
    r"(?P<lasting>\b(?:is|are|am|has|have|does|do|can|cannot|should|will|belongs?|lives?|works?|runs?|uses?|likes?|loves?"
    r"|hates?|needs?|wants?|owns?|costs?|pays?|means?|starts?|ends?|opens?|closes?|leads?|manages?|speaks?|plays?"
    r"|studies|teaches|keeps?|listens|contains?|depends|goes|go|looks|drinks?|eats?|knows?)\b|['’](?:s|m|re)\b)"
    r"|(?P<past>\b(?:was|were|did|had|took|went|came|got|made|met|saw|said|told|gave|found|bought|brought|paid|sent|sold|ate|drank"
    r"|ran|rode|drove|flew|swam|sang|wrote|read|spoke|heard|felt|left|lost|won|broke|fell|slept|woke|forgot|began|spent"
    r"|thought|taught|caught|built|kept|held|put|cut|hit|\w{2,}ed)\b)",
    re.IGNORECASE,
)
_SEVERAL = frozenset("a an another one some also too ein eine un une una um uma een".split())


def half_life_days(text: str) -> float:
    """Days after which a statement is worth half, by its wording."""
    if _STANDS.search(text):
        return LASTING_DAYS
    if _NEAR.search(text):
        return PASSING_DAYS
    verb = _VERB.search(text)
    return LASTING_DAYS if verb is not None and verb["lasting"] else OTHER_DAYS


def has_other_value(text: str, other: str) -> bool:
    """Whether two sentences differ only in a number or date after the verb: "is due on 7 May", "is due on 9 June".

    Not where both may hold: two events in the past, and what there may be several of ("an appointment on 7 May").
    """
    mine, theirs = (find_words(normalise(one)) for one in (text, other))
    start = next((at for at, (a, b) in enumerate(zip(mine, theirs, strict=False)) if a != b), None)
    if start is None or _SEVERAL.intersection(mine[:start]):
        return False
    before = " ".join(mine[:start])
    verb = _VERB.search(before)
    if verb is None or not (verb["lasting"] or _STANDS.search(before)):
        return False
    most = min(len(mine), len(theirs)) - start
    end = next((at for at in range(most) if mine[-1 - at] != theirs[-1 - at]), most)
    runs = mine[start : len(mine) - end], theirs[start : len(theirs) - end]
    return all(run and all(word[0].isdigit() or word in DATES for word in run) for run in runs)
