"""MuSiQue: questions whose answer takes several paragraphs; all paragraphs of all questions in one store.

Trivedi et al., "MuSiQue: Multihop questions via single-hop question composition", TACL 2022 (CC BY 4.0). A JSON list
or JSONL. What is looked for are the supporting paragraphs, among everybody's distractors.
"""

from __future__ import annotations

from collections.abc import Iterable
from pathlib import Path
from typing import Any

from benchmarks.datasets import Corpus, DataError, Item, Question, distinct, field, nonempty_text, read_json, read_lines


def load(path: Path) -> tuple[Corpus, ...]:
    """One corpus. A paragraph that several questions have is one memory. Raises DataError."""
    paragraphs: dict[tuple[str, str], Item] = {}
    questions: list[Question] = []
    names: list[str] = []
    for where, entry in _entries(path):
        names.append(field(entry, "id", str, where))
        gold: list[str] = []
        for place, paragraph in enumerate(field(entry, "paragraphs", list, where)):
            here = f"{where}, paragraph {place}"
            title = field(paragraph, "title", str, here)
            text = field(paragraph, "paragraph_text", str, here)
            item = paragraphs.setdefault((title, text), Item(f"P{len(paragraphs)}", f"{title}. {text}", kind="note"))
            if field(paragraph, "is_supporting", bool, here):
                gold.append(item.id)
        hops = names[-1].partition("__")[0][:4]
        questions.append(Question(len(questions), nonempty_text(entry, "question", where), hops, tuple(gold)))
    if not questions:
        raise DataError(f"{path} is no MuSiQue file: it has no question")
    distinct(names, str(path))
    return (Corpus(path.stem, tuple(paragraphs.values()), tuple(questions)),)


def _entries(path: Path) -> Iterable[tuple[str, Any]]:
    if path.suffix == ".jsonl":
        return [(f"{path}, line {number}", entry) for number, entry in read_lines(path)]
    entries = read_json(path)
    if not isinstance(entries, list):
        raise DataError(f"{path} is no MuSiQue file: a list of questions is expected")
    return [(f"{path}, question {i}", entry) for i, entry in enumerate(entries)]
