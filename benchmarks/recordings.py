"""Recordings of all I/O of a corpus's questions, and their files; `benchmarks.replay` makes and replays them.

A corpus has one file, `NAME.npz`: a JSON table that holds every hit, record and text once, and for each question a
matrix of the model's matches. It holds no code. It names what it was made from, and is refused for anything else.
"""

from __future__ import annotations

import os
import zipfile
import zlib
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field, replace
from datetime import datetime
from functools import cached_property
from pathlib import Path
from typing import Any

import numpy as np
import orjson
from pydantic import TypeAdapter

from benchmarks.datasets import Corpus, DataError, Question
from benchmarks.fill_stores import content_digest, file_name
from fusion.contract import NEW, Event, Hit, State, Trust
from fusion.recall.filter import Record
from fusion.recall.gather import Answer
from fusion.recall.recording import Recording
from fusion.recall.signals import Likeness
from fusion.recipe import Recipe

VERSION = 4
MINIMA = ("depth", "span", "second_encoder")
"""a recording with more of these can be replayed for less"""
BUDGETS = (6000, 3000, 1500)
"""characters; the full block first, because its time is measured before anything of the query is cached"""


@dataclass(frozen=True, slots=True)
class Cost:
    """Milliseconds and CPU of a backend for one question, asked alone, without encoding it."""

    ms: float
    cpu_ms: float


@dataclass(frozen=True)
class StoredRecord:
    """What the journal had of an event."""

    ref: str
    event: Event
    forgotten: bool
    superseded_by: str | None
    said_at: datetime | None = None
    state: State = NEW

    @cached_property
    def hit(self) -> Hit:
        hit = Hit.of(self.event)
        hit.stated_by = self.event.stated_by
        hit.trust = self.trust
        return hit

    @property
    def trust(self) -> Trust:
        return self.state.trust or self.event.trust


@dataclass(frozen=True)
class CorpusRecording:
    """The recordings of one corpus by question index, and what else was measured with them.

    ``made`` names what they were made from: anything else is not replayed. ``rankings`` are the baselines' item ids,
    best first, by name and question.
    """

    made: Mapping[str, Any]
    asked: Mapping[int, str]
    """what each question said"""
    recordings: Mapping[int, Recording]
    stored: Mapping[str, str]
    """by ref, the id of the item that it is"""
    costs: Mapping[int, Mapping[str, Cost]] = field(default_factory=dict)
    rankings: Mapping[str, Mapping[int, Sequence[tuple[str, float]]]] = field(default_factory=dict)
    timed: Mapping[str, Sequence[float]] = field(default_factory=dict)
    """milliseconds of live answers, question by question: of all backends under "", and by the one left out"""


def made_from(
    corpus: Corpus, backends: Sequence[str], recipe: Recipe, embedder: str, *, how: str = ""
) -> dict[str, Any]:
    """What a recording depends on. ``how`` says how the corpus was stored."""
    return {
        "version": VERSION,
        "corpus": corpus.id,
        "content": content_digest(corpus),
        "stored": how,
        "backends": list(backends),
        "embedder": embedder,
        "depth": recipe.gather.depth,
        "span": recipe.expand.span,
        "second_encoder": recipe.rerank.second_encoder,
    }


# On disk ---------------------------------------------------------------------------------------------------------


_HITS = TypeAdapter(tuple[Hit, ...])
_KEPT = TypeAdapter(tuple[StoredRecord, ...])
_COSTS = TypeAdapter(dict[int, dict[str, Cost]])


def file_of(folder: Path, made: Mapping[str, Any]) -> Path:
    """The file of a corpus's recording; the same corpus stored in another way has another."""
    name = file_name(made["corpus"]) + (f"-{file_name(made['stored'])}" if made["stored"] else "")
    return folder / f"{name}.npz"


def save(recorded: CorpusRecording, folder: Path) -> None:
    """Writes a corpus's file atomically, readable by its owner only: it holds the texts of the memories.

    Raises DataError where it cannot be written.
    """
    hits: dict[Hit, int] = {}
    texts: dict[str, int] = {}
    records: dict[str, Record] = {}
    neighbours: dict[tuple[str, str], list[int]] = {}
    questions: dict[int, dict[str, Any]] = {}
    arrays: dict[str, Any] = {}

    def place(hit: Hit) -> int:
        return hits.setdefault(replace(hit, score=None), len(hits))  # a score is for the receipt only

    for index, r in recorded.recordings.items():
        records.update(r.records)
        neighbours.update({key: [place(hit) for hit in found] for key, found in r.neighbours.items()})
        arrays.update(_arrays(f"{index}", r.matches, r.dense, texts))
        second = r.second or Likeness()
        arrays.update(_arrays(f"{index}-second", second.matches, second.dense, texts))
        questions[index] = {
            "text": recorded.asked[index],
            "now": r.now,
            "nonce": r.nonce,
            "receipt_id": r.receipt_id,
            "span": r.span,
            "answers": [{**_plain(a), "hits": [place(hit) for hit in a.hits]} for a in r.answers.values()],
            "documents": r.documents,
            "average_length": r.average_length,
            "counts": r.counts,
            "words": r.words,
            "unseen": [texts.setdefault(t, len(texts)) for t in sorted(r.unseen)],
            "reworded": sorted(r.reworded),
            "lexical": r.lexical,
            "model": r.model,
            "asked_second": r.asked_second,
            "second": {
                "identity": second.second,
                "words": second.words,
                "unseen": [texts.setdefault(t, len(texts)) for t in sorted(second.pending)],
            },
        }
    table = {
        "made": recorded.made,
        "stored": recorded.stored,
        "costs": recorded.costs,
        "rankings": recorded.rankings,
        "timed": recorded.timed,
        "hits": list(hits),
        "records": [
            StoredRecord(r.ref, r.event, r.forgotten, r.superseded_by, state=r.state) for r in records.values()
        ],
        "beside": [(name, native, places) for (name, native), places in neighbours.items()],
        "texts": list(texts),
        "questions": questions,
    }
    packed = zlib.compress(orjson.dumps(table, option=orjson.OPT_NON_STR_KEYS), 6)
    file = file_of(folder, recorded.made)
    part = file.with_suffix(".part")
    try:
        folder.mkdir(parents=True, exist_ok=True, mode=0o700)
        part.unlink(missing_ok=True)
        with os.fdopen(os.open(part, os.O_WRONLY | os.O_CREAT | os.O_EXCL, 0o600), "wb") as stream:
            np.savez(stream, table=np.frombuffer(packed, dtype=np.uint8), **arrays)
        part.replace(file)
    except OSError as error:
        raise DataError(f"{file} cannot be written: {os.strerror(error.errno or 0)}") from None


def _arrays(name: str, matches: Mapping[str, Any], dense: Mapping[str, float], texts: dict[str, int]) -> dict[str, Any]:
    """What an encoder says of texts, as arrays with a row each; new texts are added to ``texts`` with their number."""
    seen = [text for text in matches if text in dense]
    return {
        f"matches-{name}": np.stack([matches[text] for text in seen]) if seen else np.empty((0, 0), np.float32),
        f"dense-{name}": np.array([dense[text] for text in seen], dtype=np.float64),
        f"texts-{name}": np.array([texts.setdefault(text, len(texts)) for text in seen], dtype=np.int32),
    }


def _read_arrays(name: str, arrays: Mapping[str, Any], texts: Sequence[str]) -> tuple[dict[str, Any], dict[str, float]]:
    """The matches and the cosines by text, as `_arrays` keeps them."""
    seen = [texts[number] for number in arrays[f"texts-{name}"]]
    return (
        dict(zip(seen, arrays[f"matches-{name}"], strict=True)),
        dict(zip(seen, arrays[f"dense-{name}"].tolist(), strict=True)),
    )


def _plain(answer: Answer) -> dict[str, Any]:
    return {"backend": answer.backend, "status": answer.status, "took_ms": answer.took_ms}


def load(folder: Path, made: Mapping[str, Any], questions: Sequence[Question]) -> CorpusRecording | None:
    """The recording of a corpus; None where it must be recorded: there is no file, one of ``questions`` is missing or
    has changed, or the stores were asked for less.

    Raises DataError for a file that cannot be read, and for one made from something else, which it names.
    """
    file = file_of(folder, made)
    if not file.exists():
        return None
    try:
        with np.load(file, allow_pickle=False) as arrays:
            table = orjson.loads(zlib.decompress(arrays["table"].tobytes()))
            differs = _differing(table["made"], made)
            if differs:
                raise DataError(
                    f"{file} was recorded otherwise ({', '.join(differs)} differ); move it away to record again"
                )
            if any(made[key] > table["made"][key] for key in MINIMA):
                return None
            asked = {int(index): one["text"] for index, one in table["questions"].items()}
            if any(asked.get(question.index) != question.text for question in questions):
                return None
            return _read(table, arrays)
    except (OSError, zlib.error, zipfile.BadZipFile, KeyError, ValueError) as error:
        if isinstance(error, DataError):
            raise
        raise DataError(f"{file} cannot be read; move it away to record again: {error}") from None


def _differing(have: Mapping[str, Any], want: Mapping[str, Any]) -> list[str]:
    """The keys in which a recording differs from what is needed."""
    return [key for key in want if key not in MINIMA and have.get(key) != want[key]]


def _second_of(
    index: str, asked: Mapping[str, Any], arrays: Mapping[str, Any], texts: Sequence[str]
) -> Likeness | None:
    """What the second encoder said of a question's texts; None if it said nothing."""
    said = asked["second"]
    if not said["identity"]:
        return None
    matches, dense = _read_arrays(f"{index}-second", arrays, texts)
    unseen = frozenset(texts[number] for number in said["unseen"])
    return Likeness(tuple(said["words"]), matches, dense, unseen, asked["model"], said["identity"])


def _read(table: Mapping[str, Any], arrays: Mapping[str, Any]) -> CorpusRecording:
    hits = _HITS.validate_python(table["hits"])
    records: dict[str, Record] = {kept.event.event_id: kept for kept in _KEPT.validate_python(table["records"])}
    neighbours: dict[tuple[str, str], Sequence[Hit]] = {
        (name, native): [hits[place] for place in places] for name, native, places in table["beside"]
    }
    texts: list[str] = table["texts"]
    recordings = {}
    for index, asked in table["questions"].items():
        matches, dense = _read_arrays(index, arrays, texts)
        answers = [
            Answer(a["backend"], a["status"], tuple(hits[place] for place in a["hits"]), a["took_ms"])
            for a in asked["answers"]
        ]
        recordings[int(index)] = Recording(
            now=datetime.fromisoformat(asked["now"]),
            nonce=asked["nonce"],
            receipt_id=asked["receipt_id"],
            span=asked["span"],
            answers={a.backend: a for a in answers},
            asked=frozenset(a.backend for a in answers),
            records=records,
            neighbours=neighbours,
            documents=asked["documents"],
            average_length=asked["average_length"],
            counts=asked["counts"],
            words=tuple(asked["words"]),
            matches=matches,
            dense=dense,
            unseen={texts[i] for i in asked["unseen"]},
            reworded={(one, other) for one, other in asked["reworded"]},
            lexical=asked["lexical"],
            model=asked["model"],
            asked_second=asked["asked_second"],
            second=_second_of(index, asked, arrays, texts),
        )
    return CorpusRecording(
        made=table["made"],
        asked={int(index): asked["text"] for index, asked in table["questions"].items()},
        recordings=recordings,
        stored=table["stored"],
        costs=_COSTS.validate_python(table["costs"]),
        rankings={
            name: {int(i): [(item, score) for item, score in ranking] for i, ranking in by_question.items()}
            for name, by_question in table["rankings"].items()
        },
        timed=table["timed"],
    )
