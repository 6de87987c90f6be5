"""Recognises what the asker's context has already, so that a session gets each memory once.

That is what earlier blocks have shown, what was said in the session itself, and the question.
"""

from __future__ import annotations

from collections.abc import Iterable, Set
from dataclasses import dataclass
from datetime import datetime
from hashlib import blake2b

from fusion.lib.words import normalise, spoken
from fusion.recall.dedup import Candidate
from fusion.recall.filter import TEXT_CHARS


@dataclass(frozen=True, slots=True)
class InContext:
    """What a session has in its context: memories by their keys, and its own turns since ``began``, or all of them.

    Without a ``session`` it is what ``keys`` names.
    """

    keys: Set[str] = frozenset()
    session: str | None = None
    began: datetime | None = None

    def keys_among(self, candidates: Iterable[Candidate], question: str) -> Set[str]:
        """The keys of what the context has, with those of such turns, and of turns that only ask the same question."""
        if self.session is None:
            return self.keys
        asked = _bare(question)
        own = (
            one for one in candidates if one.hit.kind == "turn" and (self._said(one) or _bare(one.hit.text) == asked)
        )
        return self.keys | {_text_key(one) for one in own}

    def _said(self, candidate: Candidate) -> bool:
        """Whether it is a turn of this session, which its context still has."""
        hit = candidate.hit
        at = hit.at.utc if hit.at else hit.recorded_at
        return hit.scope.session_id == self.session and (self.began is None or at is None or at >= self.began)


NOTHING = InContext()


def _bare(text: str) -> str:
    """A text without what two ways to type the same question differ in."""
    return " ".join(normalise(text).split()).rstrip("?!. ")


def shown_keys(candidate: Candidate, *, passage: bool = False) -> tuple[str, ...]:
    """The keys of a memory that a block shows: a hash of its text, and the refs of its copies in the journal.

    An event of the journal never changes, so its ref is enough. What another system has may change under its ref, and
    of a long text each question may show another part, a ``passage``: there, only the text counts.
    """
    if passage:
        return (_text_key(candidate),)
    refs = {candidate.ref, *(hit.ref for hit in candidate.source_hits)}
    return _text_key(candidate), *sorted(ref for ref in refs if ref.startswith("m"))


def was_shown(candidate: Candidate, shown: Set[str]) -> bool:
    """Whether ``shown`` has the memory as it is now."""
    if _text_key(candidate) in shown:
        return True
    hit = candidate.hit
    return candidate.ref in shown and not hit.external and len(hit.text) < TEXT_CHARS


def _text_key(candidate: Candidate) -> str:
    text = spoken(candidate.hit.text, candidate.hit.speaker)
    return "t" + blake2b(text.encode("utf-8", "replace"), digest_size=8).hexdigest()
