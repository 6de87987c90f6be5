"""Recognises memories that an earlier block has shown, so that a session gets each of them once."""

from __future__ import annotations

from collections.abc import Set
from hashlib import blake2b

from fusion.lib.words import spoken
from fusion.recall.dedup import Candidate
from fusion.recall.filter import TEXT_CHARS


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
