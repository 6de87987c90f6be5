"""Maps predicates to six relations and their directions.

A predicate is stored as it was written; its relation is computed from its words, so a later change of the rules needs
no migration. A predicate of none of the six is walked like the others, and found by its words.
"""

from __future__ import annotations

import re
from collections.abc import Iterator
from dataclasses import dataclass
from typing import Literal

from fusion.contract import Fact
from fusion.lib.text_cache import text_cache
from fusion.lib.words import stems, word_list

Type = Literal["USES", "BLOCKED_BY", "RELATES_TO", "EVALUATES", "DECIDES", "MENTIONS", "ALSO_CALLED", ""]
"""seed 004's six; ALSO_CALLED, between two names of one thing; and "", a free one"""

ALSO_CALLED = "also called"
"""the predicate of an alias: an edge like others, asserted by a memory and forgotten with it"""

_OF: dict[Type, str] = {
    "USES": "uses|utilizes|employs|depends on|relies on|requires|needs|runs on|hosted on|deployed on|built with|"
    "built on|written in|made with|based on|powered by|imports|calls|integrates with|works with",
    "BLOCKED_BY": "blocked by|blocked on|waits for|waits on|waiting for|waiting on|stuck on|held up by|hindered by",
    "RELATES_TO": "relates to|related to|see also|belongs to|part of|is part of|connected to|associated with|similar to"
    "|like|about|tags|tag|topic|project|contains|includes",
    "EVALUATES": "evaluates|tests|compares|reviews|assesses|benchmarks|measures|audits|tried|examines|investigates",
    "DECIDES": "decides|decides on|chose|chooses|selects|approves|switched to|migrates to|settles on|adopts|picks|"
    "agrees on|opts for",
    "MENTIONS": "mentions|links_to|links to|refers to|cites|references|quotes|points to|names",
    "ALSO_CALLED": "also called|alias|aliases|aka|a k a|also known as|known as|called|nickname|nicknamed|short for|"
    "stands for|formerly",
}
_OF_INVERSE: dict[Type, str] = {
    "USES": "used by|used in|needed by|required by|hosts|powers|runs for",
    "BLOCKED_BY": "blocks|holds up|hinders|prevents",
    "RELATES_TO": "has part",
    "EVALUATES": "evaluated by|tested by|reviewed by|tried by|compared by",
    "DECIDES": "decided by|chosen by|approved by|selected by|adopted by",
    "MENTIONS": "mentioned by|mentioned in|linked from|cited by|cited in",
}


@dataclass(frozen=True, slots=True)
class Relation:
    """``inverse``: it runs from object to subject: what "blocks" says of A and B is BLOCKED_BY of B and A."""

    type: Type
    inverse: bool = False


def _stemmed(predicate: str) -> tuple[str, ...]:
    # All words, stop words too: "used by" is not "uses".
    return tuple(stem for word in word_list(predicate.replace("_", " ")) for stem in (stems(word) or [word]))


_KNOWN = {
    _stemmed(spelling): Relation(kind, inverse)
    for inverse, table in ((False, _OF), (True, _OF_INVERSE))
    for kind, spelt in table.items()
    for spelling in spelt.split("|")
}
_AUXILIARY = frozenset(
    {"is", "are", "was", "were", "be", "been", "being", "has", "have", "had", "get", "got", "current"}
)


@text_cache(4096)
def relation(predicate: str) -> Relation:
    """The relation of a predicate, independent of tense, case and auxiliaries: "is currently blocked_by"."""
    parts = _stemmed(predicate)
    if parts in _KNOWN:
        return _KNOWN[parts]
    return _KNOWN.get(tuple(part for part in parts if part not in _AUXILIARY), Relation(""))


def asked_relations(text: str) -> frozenset[Type]:
    """The relations that a question asks after: "what does the gateway depend on?" asks after USES."""
    parts = _stemmed(text)
    spans = {parts[i : i + size] for i in range(len(parts)) for size in (1, 2, 3)}
    return frozenset(_KNOWN[span].type for span in spans if span in _KNOWN)


_REPO = re.compile(r"(?:https?://|git@)?[\w.-]*(?:github|gitlab|codeberg)\.\w+[/:]\S+|[\w.-]+/[\w.-]+\.git")


def types(fact: Fact) -> Iterator[tuple[str, str]]:
    """The types of a fact's ends by its relation: the object of USES is a tool, that of DECIDES a decision."""
    found = relation(fact.predicate)
    subject, object_ = (fact.object, fact.subject) if found.inverse else (fact.subject, fact.object)
    if found.type == "USES":
        yield object_, "tool"
    elif found.type == "DECIDES":
        yield object_, "decision"
    for end in (subject, object_):
        if _REPO.fullmatch(end):
            yield end, "repo"


_LOOSE: dict[Type, float] = {"MENTIONS": 0.5, "RELATES_TO": 0.5}
"""A link, a tag or "see also" relates two entities without saying how: half the weight of a specific relation."""


def strength(predicate: str) -> float:
    """The weight of an edge relative to a common mention: 1 for an edge with a specific relation."""
    return _LOOSE.get(relation(predicate).type, 1.0)
