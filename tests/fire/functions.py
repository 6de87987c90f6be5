"""The functions that read text from outside, and hostile texts for them."""

from __future__ import annotations

import contextlib
from collections.abc import Callable
from datetime import UTC, datetime
from typing import Any

from adapters.cognee import replies
from adapters.cortex.key_phrases import key_phrases
from adapters.graph import relations
from adapters.graph.names import key, spans
from adapters.index import expansion, lexical
from adapters.judges import reply
from adapters.markdown import mentions, own_notes
from adapters.qdrant import sparse
from adapters.qmd import Options, request_of
from adapters.triples import names
from adapters.triples.parse import parse as parse_triples
from fusion.contract import Event, Scope
from fusion.doors import terminal
from fusion.errors import FusionError
from fusion.ingest import extract
from fusion.lib import (
    budget,
    chunk,
    clean,
    dated_notes,
    envelope,
    escape,
    fence,
    front_matter,
    listing,
    moment,
    paraphrase,
    prompt,
    redact,
    statements,
    summarise,
    text_words,
    times,
    titles,
    translated_times,
    word_forms,
    words,
)
from fusion.lib.heuristic_v1 import heuristic_score
from fusion.lib.same_subject import kept_apart_by
from fusion.recall import (
    course_of_talks,
    query_dates,
    query_structure,
    several,
    split_query,
)
from fusion.upkeep import contradict

NOW = datetime(2026, 3, 1, 12, tzinfo=UTC)
SAID = moment.moment("2026-03-01T12:00:00Z")
EVENT_ID = "01890a5d-ac96-774b-bcce-b302099a8057"


def _event(text: str, speaker: str | None = "Ann") -> Event:
    return Event(EVENT_ID, text, NOW, speaker=speaker)


def _quiet(call: Callable[[str], object]) -> Callable[[str], object]:
    """A call that may refuse a text, with an error of ours or of the language."""

    def called(text: str) -> object:
        with contextlib.suppress(FusionError, ValueError, TypeError, KeyError):
            return call(text)
        return None

    return called


def _connections(text: str) -> Any:
    return replies.triplets(f"\nConnections:\n{text}", Scope())


FUNCTIONS: dict[str, Callable[[str], object]] = {
    "words.words": words.words,
    "words.words_and_pictures": words.words_and_pictures,
    "words.stems": words.stems,
    "words.spoken": lambda text: words.spoken(text, "Ann"),
    "words.words_and_stems": words.words_and_stems,
    "text_words.text_words": text_words.text_words,
    "chunk.chunks": chunk.chunks,
    "chunk.tokens": chunk.tokens,
    "clean.clean": clean.clean,
    "envelope.said (user)": lambda text: envelope.said(text, "user"),
    "envelope.said (assistant)": lambda text: envelope.said(text, "assistant"),
    "envelope.without_own_block": envelope.without_own_block,
    "envelope.without_wrappers": envelope.without_wrappers,
    "envelope.without_private": envelope.without_private,
    "envelope.is_silent": envelope.is_silent,
    "times.windows": lambda text: list(times.windows(text, SAID)),
    "front_matter": lambda text: front_matter.front_matter(f"---\n{text}\n---\n"),
    "moment": _quiet(moment.moment),
    "prompt.quoted": prompt.quoted,
    "prompt.tagged": lambda text: prompt.tagged("memory", "n", text, speaker=text),
    "prompt.parsed": _quiet(prompt.parsed),
    "contradict.read": _quiet(lambda text: contradict.read(text, ())),
    "budget.clip": lambda text: budget.clip(text, 500),
    "extract": lambda text: extract.extract(_event(text)),
    "statements": statements.statements,
    "statements.says_something": statements.says_something,
    "word_forms.canonical": word_forms.canonical.__wrapped__,
    "word_forms.names": getattr(word_forms.names, "__wrapped__", word_forms.names),
    "paraphrase.difference": lambda text: paraphrase.difference.__wrapped__(
        text, " ".join(f"v{w}" for w in text.split())
    ),
    "terminal.plain": terminal.plain,
    "terminal.json_line": terminal.json_line,
    "redact": redact.redact,
    "redact_lines": redact.redact_lines,
    "escape": escape.escape,
    "listing.context_item": lambda text: listing.context_item("fact", text),
    "listing.without_frames": lambda text: listing.without_frames(listing.one_line(text)),
    "fence.cited": lambda text: fence.cited("a1", text),
    "split_query.sub_questions": lambda text: split_query.sub_questions(text, 4),
    "query_dates.dates": lambda text: query_dates.dates.__wrapped__(text, NOW),
    "query_structure.read": query_structure.read,
    "translated_times.in_english": translated_times.in_english,
    "dated_notes.day_of_path": dated_notes.day_of_path.__wrapped__,
    "dated_notes.day_of_heading": dated_notes.day_of_heading.__wrapped__,
    "summarise": lambda text: [summarise.summary(section) for section in summarise.sections(text)],
    "triples.parse": lambda text: parse_triples(text, "a/b.md"),
    "triples.parse (front matter)": lambda text: parse_triples(f"---\n{text}\n---\nHello.", "a/b.md"),
    "titles.lead": titles.lead,
    "titles.bare": titles.bare,
    "several.asks_for_several": several.asks_for_several,
    "course_of_talks.asks_for_course": course_of_talks.asks_for_course,
    "triples.aliases": lambda text: list(names.aliases(text)),
    "triples.loose": names.loose,
    "importance": heuristic_score,
    "same subject": lambda text: kept_apart_by("Whose is it?", text, text),
    "triples.relation": relations.relation,
    "triples.asked": relations.asked_relations,
    "graph.key": key,
    "graph.spans": spans,
    "cortex.key_phrases": key_phrases,
    "expansion.keywords": expansion.keywords,
    "lexical.terms": lexical.terms,
    "sparse.of_memory": sparse.of_memory,
    "markdown.places": lambda text: list(mentions.places(text, "database")),
    "markdown.parse": own_notes.parse,
    "qmd.request_of": lambda text: request_of(text, 8, Options(url="http://localhost")),
    "cognee.passage": _quiet(lambda text: replies.passage({"text": text, "id": "x", "score": 0.1}, Scope())),
    "cognee.connections": _connections,
    "judges.entries": reply.entries,
}


UNITS = (
    " ", "\n", "\t", "\r\n", "\u2028", "a", "A", "1", "é", "一", "あ", "가", "א", "\u0301", "\u200d", "\u202e", "😀",
    "a ", "A ", "Ab ", "Ab cd ", "1 ", "a.", "a. ", "a, ", "a\n", "a\n\n", "- a\n", "> ", "# ", "# a\n", "`",
    "``` ", "```\n", "~~~\n", "[", "[[", "[[a]]", "[[a", "(", "((a)", "{", "{\"a\":", "\"", "\"a\" ", "'", "“a",
    "<", "<a ", "<memories nonce=", "<private>", "</", "&", "&#", "...", ",", ", ", ":", "a: ", "-", "--", " - ",
    "_", "*", "**a**", "|", "| a ", "/", "a/b.", "\\", "@a", "#a ", "-----", "\u0000", "=", "a=b;",
    "I live in Rome and ", "my name is ", "we use ", "I am not ", " is ", "no longer ", "yesterday ",
    "2 days ago ", "May 5 2026 ", "2026-01-01 ", "last ", "in the past ", "a -> b -> ", " -> ", "what ",
    "who is and what ", "password ", "password is ", "sk-", "eyJ", "a://b:c@", "key=", "http://a.b/", "Ann: ",
    "[memory 01890a5d-ac96-774b-bcce-b302099a8057, ", "a --[b]--> c\n", "(also known as ", "1", "9", "1e9", "[1,",
    "NaN,", "null,",
)  # fmt: skip
"""what is repeated"""


def aliased(n: int) -> str:
    """Front matter whose YAML aliases would unfold to the cube of its length."""
    n = min(n, front_matter.HEAD_CHARS - 100)
    words, names, keys = n * 3 // 10, n // 10, n * 6 // 10
    lines = [f"x: &x {'s ' * (words // 2)}", f"b: &b [{','.join(['*x'] * (names // 3))}]"]
    return "\n".join([*lines, *(f"k{i}: *b" for i in range(keys // 10))])


def texts() -> dict[str, Callable[[int], str]]:
    """Hostile texts by name, each for a number of characters."""
    made: dict[str, Callable[[int], str]] = {}
    for unit in UNITS:
        made[f"{unit!r} repeated"] = lambda n, unit=unit: unit * (n // len(unit))
    made["every line another word"] = lambda n: "\n".join(f"w{i}" for i in range(n // 6))
    made["every word another name"] = lambda n: " ".join(f"N{i}a" for i in range(n // 7))
    made["brackets opened, then closed"] = lambda n: "[" * (n // 2) + "]" * (n // 2)
    made["braces opened, then closed"] = lambda n: '{"a":' * (n // 6) + "}" * (n // 6)
    made["a fence, blank lines, a brace"] = lambda n: "```" + "\n" * (n - 4) + "{"
    made["a fence, blanks, text, blanks"] = lambda n: "```json" + " " * (n // 3) + "x" * (n // 3) + " " * (n // 3)
    made["blanks inside a sentence"] = lambda n: "I live" + " " * (n - 12) + "Rome."
    made["blanks before a mark"] = lambda n: "a" + " " * n + "!"
    made["one number"] = lambda n: "1" * n
    made["a list of big numbers"] = lambda n: "[" + ",".join("1" * 400 for _ in range(n // 401)) + "]"
    made["scores without an end"] = lambda n: '{"scores":[' + '{"id":"a","score":1},' * (n // 22)
    made["a string without an end"] = lambda n: '{"scores":"' + "a" * n
    made["quotes inside a string"] = lambda n: '{"scores":"' + 'a" b ' * (n // 5)
    made["YAML aliases of aliases"] = aliased
    return made
