"""Finds what a text might assert with one of the nine predicates, for a person to review; nothing is stored.

Three forms are read: a line ``fact: X uses Y``, a line that begins with a subject as ``entity:x``, and plain English
sentences in which the rules of `fusion.ingest.facts` find a predicate that is one of the nine or an alias of one.
"""

from __future__ import annotations

import re
from collections.abc import Iterator
from contextlib import suppress

from fusion.errors import BadInput
from fusion.ingest.facts import facts
from fusion.lib.fact_lines import MARK, stated_in
from fusion.lib.temporal_facts import ENTITY, Assertion, entity_ref, object_of, predicate_of

MAX_TEXT_CHARS = 200_000
_BULLET = re.compile(r"[ \t]*(?:[-*+][ \t]+)?")


def candidates(text: str, limit: int) -> list[Assertion]:
    """What a text might assert, each once, in the order of its lines, at most ``limit``.

    Raises BadInput for a text of more than `MAX_TEXT_CHARS` characters.
    """
    if len(text) > MAX_TEXT_CHARS:
        raise BadInput(f"text: it has {len(text):,} characters, and {MAX_TEXT_CHARS:,} are read at most; give a part")
    found: dict[tuple[str, str, str], Assertion] = {}
    for line in text.splitlines():
        for one in _of_line(line):
            found.setdefault((entity_ref(one.subject), one.predicate, one.object.text.casefold()), one)
        if len(found) >= limit:
            break
    return list(found.values())[:limit]


def _of_line(line: str) -> Iterator[Assertion]:
    said = line[_BULLET.match(line).end() :]  # type: ignore[union-attr]  # it matches nothing, too
    if said.casefold().startswith((MARK, ENTITY)):
        marked = said if said.casefold().startswith(MARK) else f"{MARK} {said}"
        for one in stated_in(marked):
            yield Assertion(one.subject.removeprefix(ENTITY), one.predicate, one.object, one.valid_from, one.valid_to)
        return
    for fact in facts(said, None):
        with suppress(BadInput):
            predicate = predicate_of(fact.predicate)
            entity_ref(fact.subject)
            yield Assertion(fact.subject, predicate, object_of(predicate, "literal", fact.object))
