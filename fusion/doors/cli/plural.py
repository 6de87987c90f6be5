"""Numbers with their nouns, as people write them."""

from __future__ import annotations

IRREGULAR = {"memory": "memories", "entry": "entries", "is": "are", "was": "were", "has": "have"}
VERBS = ("is", "was", "has")


def counted(number: int, noun: str) -> str:
    """A number and its noun: 1 memory, 2 memories, 1,200 new files."""
    return f"{number:,} {plural(number, noun)}"


def plural(number: int, noun: str) -> str:
    """A noun, or a verb, as a number wants it. Of several words the last one changes, and the noun before a verb."""
    if number == 1:
        return noun
    head, _, last = noun.rpartition(" ")
    if head and last in VERBS:
        head = plural(number, head)
    return f"{head} {IRREGULAR.get(last, last + 's')}".lstrip()
