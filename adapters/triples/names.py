"""Resolves names to entities: by aliases that a text gives, and regardless of case, accents and the like.

A name is resolved in three steps: exactly (but for case, accents and punctuation: `adapters.graph.names.key`); by an
alias, which is an edge that a memory asserts; else without articles and blanks.
"""

from __future__ import annotations

import re
from collections.abc import Iterator, Sequence
from dataclasses import replace
from json import dumps

from adapters.graph.names import key, named, spans
from adapters.graph.relations import ALSO_CALLED
from adapters.graph.traversal import MAX_QUERY_ENTITIES, rarity
from fusion.contract import Extracted, Extraction, Fact, Scope
from fusion.lib.words import STOP_WORDS
from fusion.store.rows import storable
from fusion.store.sqlite import Connection

_ALSO = re.compile(
    r"[,]?\s[(]?(?:(?:is|was|are|also|commonly|better|formerly|previously|originally|otherwise|often|now)\s){0,3}"
    r"(?:(?:known|referred\sto)\s(?:simply\s)?as|called|aka|a[.]k[.]a[.])\s(?:the\s)?[\"“]?(?=[^\W\d_a-z])"
)
_SHORT = re.compile(r"\s[(](?=[^\W\d_a-z][^\Wa-z]{1,9}[);,])")
_SMALL = frozenset("of de del du la le van von der for the &".split())
_COMPANY = frozenset({"Inc", "Ltd", "LLC", "Co", "Corp", "GmbH"})
_AROUND = 80
# Characters before and after "also called" in which the two names are looked for.

_GIVES = ("known", "called", "referred", "aka", "a.k.a")

MOST_ALIASES = 8


def aliases(text: str) -> Iterator[Fact]:
    """The other names that a text gives: "Publix Super Markets, known as Publix"; "European Union (EU)"."""
    found = [(match, False) for match in _ALSO.finditer(text)] if any(word in text for word in _GIVES) else []
    found += [(match, True) for match in _SHORT.finditer(text)] if "(" in text else []
    for match, is_short in found[:MOST_ALIASES]:
        name = _name(text[max(0, match.start() - _AROUND) : match.start()].split()[::-1])
        alias = _name(text[match.end() : match.end() + _AROUND].split(), forward=True)
        if name.lower() in STOP_WORDS or alias.lower() in STOP_WORDS:
            continue
        if name and alias and key(name) != key(alias) and (not is_short or _stands_for(alias, name)):
            yield Fact(name, ALSO_CALLED, alias)


def _name(words: Sequence[str], *, forward: bool = False) -> str:
    """The capitalised name that these words begin with; where they run backwards, that they end with."""
    taken: list[str] = []
    for word in words[:8]:
        plain = word.strip("()[]\"“”'‘’,.;:!?")
        small = plain.lower() in _SMALL
        if not plain or not (small or plain[0].isupper()):
            break
        cut = word.rstrip("\"”'’").endswith((",", ".", ";", ":", "!", "?", ")"))
        if not forward and taken and cut and taken[-1] not in _COMPANY:
            break  # what ends before the name is another clause
        taken.append(plain)
        if forward and cut:
            break
    while taken and taken[-1].lower() in _SMALL:
        taken.pop()
    while taken and taken[0].lower() in _SMALL:
        taken.pop(0)
    return " ".join(taken if forward else taken[::-1])


def _stands_for(short: str, name: str) -> bool:
    """Whether the letters of an abbreviation begin words of the name, in their order: EU; not (USA) after a city."""
    letters = [c.lower() for c in short if c.isalpha()]
    initials = [word[0].lower() for word in re.split(r"[\s-]+", name) if word]
    rest = iter(initials)
    return len(letters) >= 2 and all(any(letter == initial for initial in rest) for letter in letters)


def loose(name_key: str) -> str:
    """A key without its article and its blanks: "the beatles", "open ai"."""
    return name_key.removeprefix("the ").replace(" ", "")


LOOSE = "replace(case when substr(key, 1, 4) = 'the ' then substr(key, 5) else key end, ' ', '')"
"""`loose` in SQL"""

ENTITY_LOOSE = f"tenant, {LOOSE}, owner"
"""what an index on ``entity`` has for it"""


def resolve(db: Connection, text: str, scope: Scope) -> dict[int, tuple[str, float]]:
    """The entities of the owners in ``scope`` that a text names, rarest first: by id, the name and its rarity."""
    spelt = list(dict.fromkeys(span for _, _, span in spans(text)))
    if not spelt:
        return {}
    rows = _known(db, scope.tenant, scope.user_id, spelt)
    mentioned = set(named(text, rows.keys()))
    found = sorted(
        (row for name, same in rows.items() if name in mentioned for row in same), key=lambda r: (r[2], r[0])
    )
    return {entity: (name, rarity(mentions)) for entity, name, mentions in found[:MAX_QUERY_ENTITIES]}


def respelt(db: Connection, batch: Sequence[Extracted]) -> list[Extracted]:
    """Extractions with each name in the spelling that the graph already has."""
    return [replace(c, extraction=_respelt(db, c.event.scope, c.extraction)) for c in batch]


def _respelt(db: Connection, scope: Scope, extracted: Extraction) -> Extraction:
    names = [e.name for e in extracted.entities] + [end for f in extracted.facts for end in (f.subject, f.object)]
    keys = {name: key(name) for name in dict.fromkeys(names)}
    known = _known(db, scope.tenant, scope.user_id or "", [k for k in keys.values() if k])
    other = {name: known[k][0][1] for name, k in keys.items() if k in known and key(known[k][0][1]) != k}
    if not other:
        return extracted
    return replace(
        extracted,
        entities=tuple(replace(e, name=other.get(e.name, e.name)) for e in extracted.entities),
        facts=tuple(
            replace(f, subject=other.get(f.subject, f.subject), object=other.get(f.object, f.object))
            for f in extracted.facts
        ),
    )


def _trails(name_key: str) -> bool:
    """Whether a span of a text is no name: "of Berlin", "Berlin is"; an article is allowed."""
    words = name_key.removeprefix("the ").split(" ")
    return words[0] in STOP_WORDS or words[-1] in STOP_WORDS


def _known(
    db: Connection, tenant: str, owner: str | None, keys: Sequence[str]
) -> dict[str, list[tuple[int, str, int]]]:
    """The entities of each key, else of the key without articles and blanks: id, name, mentions."""
    mine = "" if owner is None else "and owner = :owner"
    values = {"tenant": storable(tenant), "owner": storable(owner or "")}

    def rows(column: str, wanted: Sequence[str]) -> dict[str, list[tuple[int, str, int]]]:
        found: dict[str, list[tuple[int, str, int]]] = {}
        for at, *entity in db.execute(
            f"select {column}, id, name, mentions from entity where tenant = :tenant {mine} "
            f"and {column} in (select value from json_each(:wanted)) order by id",
            {**values, "wanted": dumps(wanted)},
        ):
            found.setdefault(at, []).append((entity[0], entity[1], entity[2]))
        return found

    exactly = rows("key", keys)
    missing = {k: loose(k) for k in keys if k not in exactly and not _trails(k)}
    loosely = rows(LOOSE, list(dict.fromkeys(missing.values())))
    return exactly | {k: loosely[plain] for k, plain in missing.items() if plain in loosely}
