"""BEAM: conversations of 100 thousand to 10 million tokens, and twenty probing questions each.

Tavakoli et al., "Beyond a million tokens: Benchmarking and enhancing long-term memory in LLMs", 2025. A folder with
`chat.json` and `probing_questions/probing_questions.json`, or a folder of such folders. Questions of the category
``abstention`` have no answer; those without ``source_chat_ids`` do not count for recall.
"""

from __future__ import annotations

import re
from collections import Counter
from collections.abc import Iterator, Mapping, Sequence
from datetime import datetime, timedelta
from pathlib import Path
from typing import Any

from benchmarks.datasets import (
    MONTHS,
    UNANSWERABLE,
    Corpus,
    DataError,
    Item,
    Question,
    field,
    moment,
    nonempty_text,
    read_json,
)

_MARK = re.compile(r"\s*->->\s*[\d,\s]+$")
"""what the data set appends to a user's message: its place in the plan that it was written from"""
_ANCHOR = re.compile(r"([A-Z][a-z]+)-(\d{1,2})-(\d{4})")


def load(path: Path) -> tuple[Corpus, ...]:
    """A corpus for each conversation, by the name of its folder. Raises DataError."""
    if not path.is_dir():
        raise DataError(f"{path} is no BEAM folder: chat.json is expected in it, or in folders below it")
    chats = sorted(path.rglob("chat.json"))
    if not chats:
        raise DataError(f"{path} has no chat.json, in it or below it")
    return tuple(_conversation(chat, "-".join(chat.parent.relative_to(path.parent).parts)) for chat in chats)


def _conversation(chat: Path, name: str) -> Corpus:
    turns = tuple(_turns(chat))
    copies = Counter(turn.id.partition("#")[0] for turn in turns)
    file = chat.parent / "probing_questions" / "probing_questions.json"
    asked = read_json(file)
    if not isinstance(asked, dict):
        raise DataError(f"{file}: an object of questions by ability is expected")
    questions: list[Question] = []
    for ability in asked:
        for place, entry in enumerate(field(asked, ability, list, str(file))):
            text = nonempty_text(entry, "question", f"{file}, {ability}, question {place}")
            named = dict.fromkeys(_ids(entry.get("source_chat_ids")))
            # An id that several messages have is ambiguous.
            gold = tuple(i for i in named if copies[i] == 1)
            category = UNANSWERABLE if ability == "abstention" else ability
            unresolved = tuple(i for i in named if copies[i] != 1)
            questions.append(Question(len(questions), text, category, gold, unresolved))
    return Corpus(name, turns, tuple(questions))


def _turns(chat: Path) -> Iterator[Item]:
    batches = read_json(chat)
    if not isinstance(batches, list):
        raise DataError(f"{chat}: a list of batches is expected")
    seen: Counter[str] = Counter()
    for number, batch in enumerate(_flat(batches)):
        where = f"{chat}, batch {number}"
        groups = field(batch, "turns", list, where)
        start = _moment(batch.get("time_anchor"), where)
        if not all(isinstance(group, list) for group in groups):
            raise DataError(f"{where}: 'turns' must be lists of messages")
        messages = [message for group in groups for message in group]
        for position, message in enumerate(messages):
            here = f"{where}, message {position}"
            name = str(field(message, "id", (int, str), here))
            start = _moment(message.get("time_anchor"), here) or start
            seen[name] += 1
            yield Item(
                id=name if seen[name] == 1 else f"{name}#{seen[name]}",
                text=_MARK.sub("", nonempty_text(message, "content", here)),
                document=f"batch_{number}",
                position=position,
                speaker=field(message, "role", str, here),
                at=start + timedelta(seconds=position) if start else None,
            )


def _flat(entries: Sequence[Any]) -> Iterator[Mapping[str, Any]]:
    """The batches; the longest conversations have them by plan."""
    for entry in entries:
        if isinstance(entry, Mapping) and "turns" not in entry:
            for batches in entry.values():
                yield from _flat(batches if isinstance(batches, list) else [])
        else:
            yield entry


def _ids(value: Any) -> Iterator[str]:
    """Ids as they come: one, a list, or lists by what they are evidence of."""
    if isinstance(value, Mapping):
        value = list(value.values())
    if isinstance(value, list):
        for part in value:
            yield from _ids(part)
    elif isinstance(value, int | str):
        yield str(value)


def _moment(text: object, where: str) -> datetime | None:
    """ "March-15-2024" as a day; None for what is no date at all. Raises DataError for a day there is not."""
    match = _ANCHOR.search(text) if isinstance(text, str) else None
    if match is None or match[1].lower() not in MONTHS:
        return None
    return moment(match[3], match[1], match[2], where=where)
