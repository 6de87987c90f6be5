"""Leaves out of a block what adds too little to its best memories; neither the order nor a score changes.

A note is cut by the probability that it helps (`fusion.recall.calibration`). A turn of a conversation must be worth its
characters: evidence is scattered over several turns, of which each is improbable alone. That price holds for turns
where a turn is the best memory, and for all memories where the question is nested. Where the scores are not
calibrated, the share of the best score decides.

What is kept with any probability: the best memory, what contradicts a memory that is kept, the note that says what
replaced it, what a judge decided on, what happened on the days or in the episode that the question names, and the
section that it asks for of a document that is shown.
"""

from __future__ import annotations

from collections.abc import Sequence

from fusion.contract import document_of
from fusion.lib.words import normalise
from fusion.recall.asked_section import AskedSections
from fusion.recall.calibration import is_long, is_turn
from fusion.recall.dispute import rivals_of
from fusion.recall.nested_question import is_nested
from fusion.recall.query_dates import Dates, time_of
from fusion.recall.reading_order import replaced_words, replaces
from fusion.recall.rerank import Scored
from fusion.recipe import PackSettings, RerankSettings

NAMED_DAYS_S = 8 * 86_400.0
"""seconds of the longest time that counts as days, and not as a month or a year"""
NOTES_SHARE = 0.2
"""share of the price of turns that a note must bring for a nested question"""
LOOKED_AT = 50
"""best memories among the weak ones that may say what replaced something"""
LINE_CHARS = 50
"""characters that a line takes in addition to its text: citation, speaker, date, and a part of the excerpt's heading"""


def cut(
    order: Sequence[Scored], question: str, named: Dates, numbers: PackSettings, floors: RerankSettings
) -> frozenset[str]:
    """The keys of what adds too little; none if the block is to be filled, or if all that happened then is asked for.

    Memories below the floors are in no block and are not weighed.
    """
    if numbers.fill or named.nothing_else:
        return frozenset()
    packable = [scored for scored in order if not scored.is_below(floors)]
    if not packable:
        return frozenset()
    best = max(scored.local for scored in packable)
    talk, nested = is_turn(packable[0]), is_nested(question)
    sections = AskedSections(question)
    documents = {document_of(packable[0].pooled.candidate.hit)}
    weak: dict[str, Scored] = {}
    for scored in packable[1:]:
        if scored.probability is None:
            adds = scored.local >= numbers.cut_share * best or (is_turn(scored) and is_long(scored))
        elif nested or (talk and is_turn(scored)):
            price = numbers.cut_price if is_turn(scored) else numbers.cut_price * NOTES_SHARE
            adds = scored.probability >= price * _chars(scored) / 1000
        else:
            adds = scored.probability >= numbers.cut_probability
        hit = scored.pooled.candidate.hit
        asked = document_of(hit) in documents and sections.has(hit)
        if adds or asked or scored.asked_for or scored.decided_by_judge or _is_of_named_days(scored, named):
            documents.add(document_of(hit))
        else:
            weak[scored.pooled.key] = scored
    for scored in _replacing(list(weak.values())[:LOOKED_AT], [s for s in packable if s.pooled.key not in weak]):
        del weak[scored.pooled.key]
    kept = {scored.ref for scored in packable if scored.pooled.key not in weak}
    rivals = rivals_of(packable)
    return frozenset(key for key, scored in weak.items() if kept.isdisjoint(rivals.get(scored.ref, ())))


def _replacing(weak: Sequence[Scored], kept: Sequence[Scored]) -> list[Scored]:
    """The notes that say what replaced something that an older note states, of those that are kept."""
    hits = [scored.pooled.candidate.hit for scored in kept if not is_turn(scored)]
    older = [(hit.at.utc, normalise(hit.text)) for hit in hits if hit.at is not None]
    found = []
    for scored in weak if older else ():
        hit = scored.pooled.candidate.hit
        if hit.at is None or is_turn(scored) or not replaced_words(text := normalise(hit.text)):
            continue
        if any(when < hit.at.utc and replaces(text, stated) for when, stated in older):
            found.append(scored)
    return found


def _chars(scored: Scored) -> int:
    return len(scored.pooled.candidate.hit.text) + LINE_CHARS


def _is_of_named_days(scored: Scored, named: Dates) -> bool:
    if not named.windows:
        return False
    hit = scored.pooled.candidate.hit
    if hit.kind == "episode" and named.asks_for(hit):
        return True
    return any(end - start <= NAMED_DAYS_S for start, end, _ in named.windows) and named.closeness(time_of(hit)) == 1
