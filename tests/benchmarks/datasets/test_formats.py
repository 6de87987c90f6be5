"""The loaders of the other formats, on small corpora of our own."""

from __future__ import annotations

import json
from collections.abc import Callable, Sequence
from datetime import UTC, datetime
from pathlib import Path
from typing import Any

import pytest

from benchmarks.datasets import UNANSWERABLE, Corpus, DataError, beam, beir, folder, longmemeval, musique
from tests.benchmarks.helpers import HOPS

HAYSTACK = {
    "question_id": "q1",
    "question_type": "single-session-user",
    "question": "What broke?",
    "haystack_dates": ["2024/01/14 (Sun) 12:30", "2024/03/02 (Sat) 09:05"],
    "haystack_session_ids": ["s_a", "s_b"],
    "haystack_sessions": [
        [{"role": "user", "content": "My oven broke.", "has_answer": True}, {"role": "assistant", "content": "Oh!"}],
        [{"role": "user", "content": "It is repaired."}],
    ],
}


def _written(path: Path, value: object) -> Path:
    path.parent.mkdir(parents=True, exist_ok=True)
    path.write_text(value if isinstance(value, str) else json.dumps(value), encoding="utf-8")
    return path


def _lines(*entries: object) -> str:
    return "".join(json.dumps(entry) + "\n" for entry in entries)


def test_json_lines_may_hold_unicode_line_separators(tmp_path: Path) -> None:
    """U+2028 and U+0085 end no line of a JSONL file."""
    file = tmp_path / "hops.jsonl"
    question = "Where was\u2028the oven\u0085built?"
    file.write_text(json.dumps({**HOPS[0], "question": question}, ensure_ascii=False) + "\n", encoding="utf-8")
    (corpus,) = musique.load(file)
    assert corpus.questions[0].text == question


@pytest.mark.feature("MuSiQue, LongMemEval, BEAM and BEIR's format are read, by path")
def test_musique_puts_all_paragraphs_in_one_store(tmp_path: Path) -> None:
    """Five paragraphs, of which three differ: three memories, and the gold names them for both questions."""
    (corpus,) = musique.load(_written(tmp_path / "hops.json", HOPS))
    assert [item.text for item in corpus.memories] == [
        "Oven. The oven was built in Oslo.",
        "Oslo. Oslo lies on a fjord.",
        "Salad. Salad is eaten cold.",
    ]
    assert [(q.category, q.gold) for q in corpus.questions] == [("2hop", ("P0", "P1")), ("2hop", ("P0",))]


def test_musique_is_read_from_lines_as_well(tmp_path: Path) -> None:
    """The published files are JSONL; the same questions come out."""
    lines = musique.load(_written(tmp_path / "hops.jsonl", _lines(*HOPS)))
    assert lines == musique.load(_written(tmp_path / "hops.json", HOPS))


def test_longmemeval_gives_each_question_its_haystack(tmp_path: Path) -> None:
    """The gold is the turn that is marked, dated by its session; an id in _abs is unanswerable."""
    absent = {**HAYSTACK, "question_id": "q2_abs"}
    known, unknown = longmemeval.load(_written(tmp_path / "s.json", [HAYSTACK, absent]))
    assert [(i.id, i.document, i.speaker) for i in known.memories] == [
        ("S0:0", "session_0", "user"),
        ("S0:1", "session_0", "assistant"),
        ("S1:0", "session_1", "user"),
    ]
    assert known.memories[1].at == datetime(2024, 1, 14, 12, 30, 1, tzinfo=UTC)
    assert (known.questions[0].gold, known.questions[0].category) == (("S0:0",), "single-session-user")
    assert (unknown.questions[0].answerable, unknown.questions[0].category) == (False, UNANSWERABLE)


def _beam(root: Path) -> Path:
    chat = [
        {
            "batch_number": 1,
            "time_anchor": "March-15-2024",
            "turns": [
                [
                    {"id": 0, "role": "user", "content": "My oven broke. ->-> 1,1"},
                    {"id": 1, "role": "assistant", "content": "Oh!"},
                ],
                [{"id": 1, "role": "user", "content": "Salad, then."}],
            ],
        }
    ]
    asked = {
        "information_extraction": [{"question": "What broke?", "source_chat_ids": {"first": [0], "second": [[1]]}}],
        "abstention": [{"question": "Who watered the moon?"}],
    }
    _written(root / "1" / "chat.json", chat)
    _written(root / "1" / "probing_questions" / "probing_questions.json", asked)
    return root


def test_beam_reads_folders_of_chats(tmp_path: Path) -> None:
    """Marks go, dates hold on, an id of two messages is gold of nobody, and abstention has no answer."""
    (corpus,) = beam.load(_beam(tmp_path / "100K"))
    assert corpus.id == "100K-1"
    assert [(i.id, i.text) for i in corpus.memories] == [("0", "My oven broke."), ("1", "Oh!"), ("1#2", "Salad, then.")]
    assert corpus.memories[2].at == datetime(2024, 3, 15, 0, 0, 2, tzinfo=UTC)
    assert [(q.category, q.gold) for q in corpus.questions] == [("information_extraction", ("0",)), (UNANSWERABLE, ())]


def test_beam_reads_plans(tmp_path: Path) -> None:
    """The longest conversations have their batches by plan; they come in the same order."""
    root = _beam(tmp_path / "10M")
    file = root / "1" / "chat.json"
    batches = json.loads(file.read_text(encoding="utf-8"))
    plain = beam.load(root)
    _written(file, [{"plan-1": batches}])
    assert beam.load(root) == plain


def _beir(root: Path, qrels: str = "query-id\tcorpus-id\tscore\nq1\td1\t1\nq1\td2\t0\n") -> Path:
    documents = [{"_id": "d1", "title": "Oven", "text": "It broke."}, {"_id": "d2", "title": "", "text": "Salad."}]
    _written(root / "corpus.jsonl", _lines(*documents))
    _written(root / "queries.jsonl", _lines({"_id": "q1", "text": "What broke?"}, {"_id": "q2", "text": "Unjudged"}))
    _written(root / "qrels" / "test.tsv", qrels)
    return root


def test_beir_asks_the_judged_queries(tmp_path: Path) -> None:
    """A score of 0 is no answer, and a query without judgements is not asked."""
    (corpus,) = beir.load(_beir(tmp_path / "kitchen"))
    assert [item.text for item in corpus.memories] == ["Oven. It broke.", "Salad."]
    assert [(q.text, q.category, q.gold) for q in corpus.questions] == [("What broke?", "test", ("d1",))]


def _folder(root: Path) -> Path:
    _written(root / "notes" / "oven.md", "# Oven\n\nIt broke on Sunday.\n")
    _written(root / "salad.md", "# Salad\n\nFor a week.\n")
    _written(root / "code.py", "print('not a note')\n")
    return root


def _own(root: Path, queries: object) -> tuple[Corpus, ...]:
    return folder.load(_folder(root / "memory"), _written(root / "queries.json", queries))


@pytest.mark.feature("your own memories can be measured: a folder of Markdown and a list of queries")
def test_a_folder_of_notes_is_a_corpus(tmp_path: Path) -> None:
    """Chunks of each file as `fusion ingest` cuts them; gold is the file; no files means no answer."""
    (corpus,) = _own(tmp_path, [{"query": "What broke?", "files": ["notes/oven.md"]}, {"query": "Moon?", "files": []}])
    assert {item.document for item in corpus.memories} == {"notes/oven.md", "salad.md"}
    assert corpus.match == "document"
    assert [(q.gold, q.category) for q in corpus.questions] == [
        (("notes/oven.md",), "answerable"),
        ((), UNANSWERABLE),
    ]


def _twice(tmp_path: Path) -> object:
    return musique.load(_written(tmp_path / "hops.json", [HOPS[0], HOPS[0]]))


def _half(tmp_path: Path) -> object:
    return musique.load(_written(tmp_path / "hops.jsonl", _lines(HOPS[0]) + '{"id": '))


def _missing(tmp_path: Path) -> object:
    return musique.load(tmp_path / "none.json")


def _bytes(tmp_path: Path) -> object:
    file = tmp_path / "bytes.json"
    file.write_bytes(b"\xff\xfe\x00")
    return musique.load(file)


def _uneven(tmp_path: Path) -> object:
    return longmemeval.load(_written(tmp_path / "s.json", [{**HAYSTACK, "haystack_dates": []}]))


def _no_chat(tmp_path: Path) -> object:
    return beam.load(tmp_path)


def _no_query(tmp_path: Path) -> object:
    return beir.load(_beir(tmp_path / "b", "query-id\tcorpus-id\tscore\nq9\td1\t1\n"))


def _no_document(tmp_path: Path) -> object:
    return beir.load(_beir(tmp_path / "b", "q1\td1\t1\nq1\td9\t1\n"))


def _no_score(tmp_path: Path) -> object:
    return beir.load(_beir(tmp_path / "b", "q1 d1 1\n"))


def _no_file(tmp_path: Path) -> object:
    return _own(tmp_path, [{"query": "What broke?", "files": ["oven.md"]}])


def _no_list(tmp_path: Path) -> object:
    return _own(tmp_path, [{"query": "What broke?", "files": "notes/oven.md"}])


def _haystack(**changed: object) -> Callable[[Path], object]:
    return lambda folder: longmemeval.load(_written(folder / "s.json", [{**HAYSTACK, **changed}]))


def _chat(batch: object) -> Callable[[Path], object]:
    def load(folder: Path) -> object:
        root = _beam(folder / "100K")
        _written(root / "1" / "chat.json", [batch])
        return beam.load(root)

    return load


def _empty_document(folder: Path) -> object:
    root = _beir(folder / "b")
    _written(root / "corpus.jsonl", _lines({"_id": "d1", "text": " "}, {"_id": "d2", "text": "Salad."}))
    return beir.load(root)


def _own_files(*files: object) -> Callable[[Path], object]:
    return lambda folder: _own(folder, [{"query": "What broke?", "files": files}])


def _message(**changed: object) -> object:
    return {"turns": [[{"id": 0, "role": "user", "content": "Oh!", **changed}]]}


BROKEN: Sequence[tuple[Callable[[Path], Any], str]] = [
    (_twice, "the id '2hop__1_2' occurs twice"),
    (_half, r"hops\.jsonl, line 2: not JSON"),
    (_missing, r"none\.json cannot be read: No such file"),
    (_bytes, "is not UTF-8"),
    (_uneven, r"question 0 \(q1\): 2 sessions, 2 session ids and 0 dates"),
    (_no_chat, "has no chat.json"),
    (_no_query, r"test\.tsv, line 2: there is no query 'q9'"),
    (_no_document, r"test\.tsv, line 2: there is no document 'd9'"),
    (_no_score, r"test\.tsv, line 1: .*tabs between"),
    (_no_file, r"query 0: .* has no memory in a file 'oven\.md'"),
    (_no_list, "query 0: 'files' must be list"),
    (_own_files(["oven.md"]), r"query 0: .* has no memory in a file \['oven\.md'\]"),
    (lambda folder: _own(folder, [{"query": " ", "files": []}]), "query 0: 'query' is empty"),
    (lambda folder: musique.load(_written(folder / "deep.json", "[" * 100_000)), r"deep\.json: nested too deep"),
    (lambda folder: musique.load(_written(folder / "deep.jsonl", "[" * 100_000)), "line 1: nested too deep"),
    (lambda folder: musique.load(_written(folder / "a.json", [{**HOPS[0], "question": ""}])), "'question' is empty"),
    (_haystack(haystack_sessions=["hello", []]), r"\(q1\), session 0: a list of turns"),
    (_haystack(haystack_dates=["2023/15/20", "2024/01/14"]), r"session 0: there is no day 20 of month 15 in 2023"),
    (_haystack(question=""), r"\(q1\): 'question' is empty"),
    (_chat("hello"), "batch 0: 'turns' must be list"),
    (_chat({"turns": ["hello"]}), "batch 0: 'turns' must be lists of messages"),
    (_chat({"turns": [["hello"]]}), "batch 0, message 0: 'id' must be"),
    (_chat(_message(content="")), "batch 0, message 0: 'content' is empty"),
    (_chat(_message(time_anchor="March-55-2024")), "message 0: there is no day 55 of month March in 2024"),
    (_empty_document, r"test\.tsv, line 2: there is no document 'd1' that says anything"),
]


@pytest.mark.feature("a broken data set is refused with the line or entry of the fault")
@pytest.mark.parametrize(("load", "message"), BROKEN)
def test_every_format_names_a_broken_entry(load: Callable[[Path], object], message: str, tmp_path: Path) -> None:
    """Every complaint says where: the file, and the line or the entry."""
    with pytest.raises(DataError, match=message):
        load(tmp_path)
