"""Compares a session's history with the one of the call before: which turns are new, changed or removed.

A caller sends the whole history each time. New turns may follow, a turn may be edited, and the end may be removed (a
rewind) and replaced (a fork). The beginning may be missing because the caller compacted the history or sends only the
last turns, or the caller may have started another conversation under the same session id. In these last two cases no
turn is retired, because the missing turns were still said.
"""

from __future__ import annotations

from collections import Counter, deque
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from hashlib import blake2b

from fusion.journal.conversations import LONG_TURN_CHARS
from fusion.lib.jaccard import jaccard
from fusion.lib.junk import content_words, is_all_junk
from fusion.lib.words import words

_DIGEST_BYTES = 8
_BYTES = _DIGEST_BYTES + 1
_LONG, _BY_USER = 1, 2
_REPEATS = 8
"""how many places of a repeated turn are considered, the last ones"""
OPENING = 4
"""turns at the beginning of a conversation among which `edits_first_turn` looks for the first of a user"""
EXCHANGE = 2
"""turns of one exchange: a user's turn and its reply"""
EDIT_JACCARD = 0.6
"""least Jaccard similarity of the words of a turn and of its edit"""
MENTIONED_WORDS = 2
"""content words of a turn that a reply has if it is about that turn"""


def fingerprint(speaker: str, text: str) -> bytes:
    """A digest of a turn, with flags: whether the turn is long, and whether a user said it."""
    digest = blake2b(f"{speaker}\0{text}".encode("utf-8", "surrogatepass"), digest_size=_DIGEST_BYTES).digest()
    return digest + bytes([(_LONG if len(text) >= LONG_TURN_CHARS else 0) | (_BY_USER if speaker == "user" else 0)])


@dataclass(frozen=True, slots=True)
class Followed:
    """The changes that a history makes. The turn ``number`` of the history has the place ``number + offset``.

    ``changed`` are the numbers of new and edited turns. ``gone`` are the places of removed turns. ``known`` are the
    fingerprints to compare the next history with. ``anew`` says that another conversation began.
    """

    offset: int
    changed: tuple[int, ...]
    gone: range
    known: bytes
    anew: bool = False


def follow(known: bytes, history: Sequence[bytes], *, is_same: bool = False) -> Followed:
    """Compare a history's fingerprints with those ``known`` of its session. An empty history changes nothing.

    ``is_same`` says that the two are one conversation, even if the fingerprints do not show it.
    """
    old = _split(known)
    if not history:
        return Followed(0, (), range(0), known)
    found = _aligned(old, history) or ((0, 0) if is_same else None)
    if found is None:
        return Followed(0, tuple(range(len(history))), range(0), b"".join(history), anew=bool(old))
    first, offset = found
    whole = [*old[: first + offset], *history[first:]]
    changed = (n for n in range(first, len(history)) if n + offset >= len(old) or old[n + offset] != history[n])
    return Followed(offset, tuple(changed), range(len(whole), len(old)), b"".join(whole))


def edits_first_turn(known: bytes, history: Sequence[bytes], opening: Mapping[int, str], texts: Sequence[str]) -> bool:
    """Whether a history begins with an edit of the user's first turn, and has nothing else in common with ``known``.

    The two are then one exchange with an edited turn, or a rewind to that turn. ``opening`` are the known texts of the
    first turns by place, and ``texts`` those of the history. The edit has most of the turn's words, or it has the same
    reply, which mentions the turn: so neither a greeting nor "Noted." connects two conversations. More than one
    exchange is not given up for a question, because people ask the same one each day.
    """
    old = _split(known)
    first = next((number for number, turn in enumerate(history) if turn[-1] & _BY_USER), len(history))
    its_edit, turn = history[first : first + 1], old[first : first + 1]
    if first not in opening or not its_edit or not turn or not turn[0][-1] & its_edit[0][-1] & _LONG:
        return False
    if old[:first] != history[:first] or min(len(old), len(history)) - first > EXCHANGE:
        return False
    said = opening[first]
    if len(old) - first > EXCHANGE and is_all_junk(said, "user"):
        return False
    if jaccard(words(said), words(texts[first])) >= EDIT_JACCARD:
        return True
    reply = history[first + 1 : first + EXCHANGE]
    is_kept = reply != [] and reply == old[first + 1 : first + EXCHANGE] and reply[0][-1] & _LONG
    return bool(is_kept) and len(content_words(said) & content_words(texts[first + 1])) >= MENTIONED_WORDS


def _split(known: bytes) -> list[bytes]:
    return [known[at : at + _BYTES] for at in range(0, len(known), _BYTES)]


def _aligned(old: Sequence[bytes], history: Sequence[bytes]) -> tuple[int, int] | None:
    """The first turn of a history that is compared with the old one, and the offset of its turns there.

    None if the two are different conversations: they share no long turn of the user, and no two long turns of anybody.
    """
    common = _common(old, history)
    if common == len(old) or _proves(history[:common]):
        return 0, 0
    later = len(old) - len(history)
    same_end = _common(old[::-1], history[::-1])
    if later > 0 and _proves(history[len(history) - same_end :]):  # the same as last time
        return len(history) - same_end, later
    places: dict[bytes, deque[int]] = {}
    for place, turn in enumerate(old):
        if turn[-1] & _LONG:
            places.setdefault(turn, deque(maxlen=_REPEATS)).append(place)
    offsets = Counter(place - number for number, turn in enumerate(history) for place in places.get(turn, ()))
    if not offsets:
        return None
    ((offset, _),) = offsets.most_common(1)
    numbers = [number for number, turn in enumerate(history) if number + offset in places.get(turn, ())]
    if not _proves([history[number] for number in numbers]):
        return None
    if offset <= 0:  # a turn at the beginning was edited, or turns are sent that were not sent before
        return 0, 0
    first = numbers[0]
    while first and old[first + offset - 1] == history[first - 1]:
        first -= 1
    return first, offset


def _common(one: Sequence[bytes], other: Sequence[bytes]) -> int:
    """The length of the common beginning of two lists."""
    pairs = enumerate(zip(one, other, strict=False))
    return next((number for number, (a, b) in pairs if a != b), min(len(one), len(other)))


def _proves(turns: Sequence[bytes]) -> bool:
    long = [turn for turn in turns if turn[-1] & _LONG]
    return len(long) > 1 or any(turn[-1] & _BY_USER for turn in long)
