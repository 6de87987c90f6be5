"""BEIR's format: `corpus.jsonl`, `queries.jsonl` and `qrels/*.tsv` in one folder.

Thakur et al., "BEIR: A heterogeneous benchmark for zero-shot evaluation of information retrieval models", NeurIPS 2021.
"""

from __future__ import annotations

from pathlib import Path

from benchmarks.datasets import Corpus, DataError, Item, Question, distinct, field, nonempty_text, read_lines, read_text

SPLITS = ("test", "dev", "train")


def load(path: Path) -> tuple[Corpus, ...]:
    """One corpus, and the queries that the first of `qrels/test.tsv`, `dev.tsv`, `train.tsv` or any other judges.

    A document without a title and a text, of which published sets have some, is nothing to remember. Raises DataError,
    also for a judgement of a query or document that is not there.
    """
    if not path.is_dir():
        raise DataError(f"{path} is no folder; BEIR's format is a folder with corpus.jsonl, queries.jsonl and qrels/")
    documents = (
        _document(entry, f"{path / 'corpus.jsonl'}, line {n}") for n, entry in read_lines(path / "corpus.jsonl")
    )
    memories = tuple(document for document in documents if document.text.strip())
    ids = distinct((item.id for item in memories), str(path / "corpus.jsonl"))
    texts: dict[str, str] = {}
    for number, entry in read_lines(path / "queries.jsonl"):
        where = f"{path / 'queries.jsonl'}, line {number}"
        name = str(field(entry, "_id", (str, int), where))
        if name in texts:
            raise DataError(f"{where}: the id {name!r} occurs twice")
        texts[name] = nonempty_text(entry, "text", where)
    split, judged = _qrels(path, texts, ids)
    questions = tuple(Question(i, texts[q], split, tuple(gold)) for i, (q, gold) in enumerate(judged.items()))
    return (Corpus(path.resolve().name, memories, questions),)


def _document(entry: object, where: str) -> Item:
    title = entry.get("title") if isinstance(entry, dict) else None
    text = field(entry, "text", str, where)
    return Item(str(field(entry, "_id", (str, int), where)), f"{title}. {text}" if title else text, kind="note")


def _qrels(path: Path, queries: dict[str, str], documents: set[str]) -> tuple[str, dict[str, list[str]]]:
    folder = path / "qrels"
    files = [f for f in (folder / f"{split}.tsv" for split in SPLITS) if f.is_file()] or sorted(folder.glob("*.tsv"))
    if not files:
        raise DataError(f"{folder} has no .tsv of judgements")
    judged: dict[str, list[str]] = {}
    for number, line in enumerate(read_text(files[0]).splitlines(), start=1):
        where = f"{files[0]}, line {number}"
        if not line.strip() or (number == 1 and line.startswith("query-id")):
            continue
        cells = line.split("\t")
        try:
            query, document, score = cells[0], cells[1], float(cells[2])
        except (IndexError, ValueError):
            raise DataError(f"{where}: query-id, corpus-id and score are expected, with tabs between") from None
        if query not in queries:
            raise DataError(f"{where}: there is no query {query!r}")
        if document not in documents:
            raise DataError(f"{where}: there is no document {document!r} that says anything")
        if score > 0:
            judged.setdefault(query, []).append(document)
    return files[0].stem, {query: list(dict.fromkeys(gold)) for query, gold in judged.items()}
