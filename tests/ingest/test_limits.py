"""The limits of the write path: a change of one is a decision, so each has its value here."""

from __future__ import annotations

import pytest

from fusion.ingest import deliver, distil, distil_prompt, extract, facts, forget, intake, verify
from fusion.journal import cache, external_refs, idempotency, rows, tombstones
from fusion.store import database, private_files, sqlite, writable


@pytest.mark.parametrize(
    ("name", "found", "expected"),
    [
        ("characters of a text that the rules read", extract.MAX_EXTRACTED_CHARS, 20_000),
        ("characters of a sentence before a time", extract.SENTENCE_CHARS, 300),
        ("words of a part of a fact", facts.MAX_PART_WORDS, 6),
        ("events of a delivery", deliver.BATCH_EVENTS, 200),
        ("seconds for a delivery", deliver.DELIVERY_TIMEOUT_S, 300),
        (
            "seconds between tries of a backend, first and last",
            (deliver.FIRST_BACKOFF_S, deliver.MAX_BACKOFF_S),
            (0.5, 60),
        ),
        ("tries of an event that a backend rejects", deliver.MAX_ATTEMPTS, 24),
        ("seconds between such tries, at most", deliver.MAX_ATTEMPT_BACKOFF_S, 7200),
        ("cached extractions", deliver.MAX_CACHED_EXTRACTIONS, 4096),
        ("texts kept to verify their deletion", deliver.MAX_SOUGHT_TEXTS, 10_000),
        ("turns and characters of an exchange", (distil.MAX_EXCHANGE_TURNS, distil.MAX_EXCHANGE_CHARS), (8, 12_000)),
        ("turns shown before an exchange", distil.CONTEXT_TURNS, 3),
        ("characters that each side of an exchange says", distil.MIN_SIDE_CHARS, 20),
        ("jobs among which an exchange is looked for", distil.MAX_JOBS_READ, 500),
        (
            "invalid answers about a turn, and seconds after the first",
            (distil.MAX_ATTEMPTS, distil.FIRST_RETRY_S),
            (3, 60),
        ),
        ("tokens of a model's answer", distil_prompt.MAX_ANSWER_TOKENS, 2048),
        ("confidence of a memory", distil_prompt.MIN_CONFIDENCE, 0.5),
        ("memories of an answer", distil_prompt.MAX_MEMORIES, 16),
        ("characters of a turn in the prompt", distil_prompt.MAX_TURN_CHARS, 4_000),
        ("characters of a distilled memory", distil_prompt.MAX_MEMORY_CHARS, 1_000),
        ("characters of a name", distil_prompt.MAX_NAME_CHARS, 120),
        ("seconds that a forget waits for a backend", (forget.WAIT_S, forget.WAIT_EACH_S), (2.0, 0.1)),
        ("characters of a preview", forget.PREVIEW_CHARS, 160),
        ("previews of an undo", forget.UNDO_PREVIEWS, 20),
        ("memories of one forget request", forget.MAX_FORGET, 500),
        ("memories that a forget by query takes", forget.DEFAULT_QUERY_LIMIT, 20),
        ("characters of one memory", intake.MAX_TEXT_CHARS, 100_000),
        ("memories of a request that goes first", intake.MAX_URGENT_MEMORIES, 25),
        (
            "characters and hits of a search that verifies a deletion",
            (verify.PROBE_CHARS, verify.PROBE_LIMIT),
            (1000, 100),
        ),
        ("deletions of a batch that are verified by a search", verify.SEARCHED, 5),
        (
            "cached records, documents and terms",
            (cache.CACHED_RECORDS, cache.CACHED_DOCUMENTS, cache.CACHED_TERMS),
            (20_000, 2_000, 50_000),
        ),
        ("external items and days that they are kept", (external_refs.KEPT, external_refs.KEPT_DAYS), (5_000, 30)),
        ("seconds that an Idempotency-Key is kept", idempotency.KEPT_S, 604_800),
        ("words of a text that is blocked by its words", rows.SHORT_TEXT_WORDS, 5),
        ("words of a line that earlier versions blocked", tombstones.FORMER_LINE_WORDS, 3),
        ("seconds that a writer waits for a lock", sqlite.BUSY_S, 5.0),
        ("bytes of a write-ahead log", sqlite.WAL_BYTES, 16_000_000),
        ("threads that read", database.READERS, 2),
        ("bytes that a home must have left", writable.PROBE_BYTES, 262_144),
        ("bytes of a state file", private_files.MAX_BYTES, 1_048_576),
    ],
)
def test_a_limit_has_its_value(name: str, found: object, expected: object) -> None:
    """The reason for each limit is next to its constant."""
    assert found == expected, name
