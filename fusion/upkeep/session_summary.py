"""Summarises one day of a session by rules: what was asked, said, decided and done, what is open, dates and files.

Each line quotes a sentence of one turn, with the turn's ref. The rules recognise decisions, completed work and open
points by words of seven languages; in other languages a summary has only what was asked and said. All functions are
pure.
"""

from __future__ import annotations

import re
from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass, replace
from datetime import datetime, tzinfo
from typing import Literal

from fusion.contract import Event, Moment
from fusion.journal.rows import Record
from fusion.lib.budget import clip
from fusion.lib.clean import clean
from fusion.lib.envelope import said
from fusion.lib.redact import redact
from fusion.lib.statements import sentences
from fusion.lib.times import windows
from fusion.lib.words import spoken

Label = Literal["asked", "said", "decided", "done", "open"]
Stated = Callable[[Event], bool]
"""whether an event, of which the text is one sentence, states a fact"""

MAX_LINE_CHARS = 240
MAX_LINES: dict[Label, int] = {"asked": 4, "said": 12, "decided": 6, "done": 6, "open": 4}
"""maximum lines of each kind in one summary; the last ones are kept"""
MAX_NAMED = 8
"""maximum dates, and maximum files, in one summary"""
MAX_TURN_CHARS = 20_000
"""characters that are read of a turn; longer turns are pastes"""
MIN_WORDS = 3
"""fewest words of a sentence that is understood by itself"""

ASSISTANTS = frozenset({"assistant", "ai"})

_DECIDED = re.compile(
    r"\b(?:decided|agreed (?:on|to|that)|settled on|we(?:'ll| will| shall) (?:go with|use|keep|take)|going with|"
    r"let(?:'s|us) (?:go with|use|keep|take)|we chose|I chose|"
    r"entschieden|beschlossen|geeinigt|wir nehmen|décidé|nous avons choisi|on part sur|"
    r"decidido|decidimos|acordamos|hemos elegido|vamos con|deciso|abbiamo scelto|concordato|"
    r"combinamos|escolhemos|besloten|afgesproken|we kiezen)\b",
    re.IGNORECASE,
)
_DONE = re.compile(
    r"^(?:done|fixed|created|updated|added|deployed|merged|installed|completed|finished|removed|renamed|moved|sent|"
    r"scheduled|booked)\b|\bI(?:'ve| have)(?: now| just| also)? \w+|\bI (?:just )?(?:fixed|created|updated|added|"
    r"deployed|merged|installed|completed|finished|removed|renamed|moved|sent|scheduled|booked|changed|wrote|ran|set)\b|"
    r"\b(?:erledigt|behoben|habe ich|ich habe|j'ai|c'est fait|he (?:creado|arreglado|actualizado|añadido|enviado)|"
    r"listo|ho (?:creato|corretto|aggiornato|aggiunto|inviato)|fatto|eu (?:criei|corrigi|atualizei|adicionei|enviei)|"
    r"feito|ik heb|gedaan)\b",
    re.IGNORECASE,
)
_OPEN = re.compile(
    r"\b(?:to-?do|open question|still (?:need|have) to|still open|not (?:yet )?(?:sure|decided|done)|next step|"
    r"follow[- ]up|remind me|waiting for|blocked (?:by|on)|need(?:s)? to check|"
    r"noch offen|muss noch|offene frage|reste à|en attente|pendiente|falta por|da fare|in attesa|"
    r"por fazer|pendente|nog te doen|nog open)\b",
    re.IGNORECASE,
)
_REQUEST = re.compile(
    r"^(?:please|can you|could you|would you|will you|I need|I want|I'd like|help me|let's|tell me|show me|find|check|"
    r"write|make|add|fix|change|move|send|book|remind|look|run|create|update|bitte|kannst du|können sie|ich brauche|"
    r"peux-tu|pouvez-vous|s'il te plaît|por favor|puedes|necesito|per favore|puoi|ho bisogno|pode|preciso|kun je|"
    r"graag)\b",
    re.IGNORECASE,
)
_QUESTION_ENDS = ("?", "？", "؟")
_FENCED = re.compile(r"^[ \t]*(```|~~~).*?(?:^[ \t]*\1|\Z)", re.DOTALL | re.MULTILINE)
_URL = re.compile(r"\b[a-z][a-z0-9+.-]{1,15}://\S+", re.IGNORECASE)
_FILE = re.compile(
    r"(?<![\w@/.-])(?:~/|\.{1,2}/|/)?(?:[\w-][\w.-]*/)*[\w-][\w.-]*\."
    r"(?:md|txt|py|js|ts|tsx|jsx|json|jsonl|toml|ya?ml|sh|rs|go|java|kt|c|h|cpp|cs|rb|php|css|html|sql|csv|ini|cfg|conf|"
    r"lock|log|pdf|docx?|xlsx?|pptx?|png|jpe?g|svg|ipynb|tex)\b(?![\w/])"
)
_BEGINS = re.compile(r"^(?:[-*+>#|]+|\d{1,3}[.)])\s+")
_REF = re.compile(r"\[(m[0-9a-z]{1,12})\]")
_COMMENT = re.compile(r"<!--|-->")


@dataclass(frozen=True, slots=True)
class Line:
    """One line of a summary: its kind, a sentence with its speaker, and the ref of the turn that said it."""

    label: Label
    text: str
    ref: str


@dataclass(frozen=True, slots=True)
class Summary:
    """A session on one day: when it began and ended, its lines in the order of the turns, dates and files."""

    began: datetime
    ended: datetime
    lines: tuple[Line, ...]
    dates: tuple[str, ...]
    files: tuple[str, ...]


def summarised(turns: Sequence[Record], stated: Stated, zone: tzinfo) -> Summary | None:
    """The summary of the turns of one session, in their order; None if nothing in them is worth a line."""
    lines: list[Line] = []
    dates: dict[str, None] = {}
    files: dict[str, None] = {}
    for record in turns:
        text = words_of(record.event)
        lines += _lines(record, text, stated)
        dates |= {} if is_assistant(record.event) else dict.fromkeys(_dates(record.event, text, zone))
        files |= dict.fromkeys(_inline(found.group()) for found in _FILE.finditer(_URL.sub(" ", text)))
    if turns and not is_assistant(turns[-1].event):
        lines = _with_last_question_open(lines, turns[-1].ref)
    kept = tuple(_bounded(lines))
    if not kept:
        return None
    times = [record.event.began for record in turns]
    return Summary(min(times), max(times), kept, tuple(dates)[-MAX_NAMED:], tuple(files)[-MAX_NAMED:])


def words_of(turn: Event) -> str:
    """The words of a turn's speaker, without recalled memories, heartbeats, private text, code and secrets."""
    text = said(turn.text[:MAX_TURN_CHARS], "assistant" if is_assistant(turn) else "user").text
    return redact(_FENCED.sub("\n", text))[0]


def one_line(text: str, limit: int = MAX_LINE_CHARS) -> str:
    """A text in one line, without marks of headings, lists and comments, and without refs in brackets."""
    return clip(_inline(text), limit)


def _inline(text: str) -> str:
    plain = _BEGINS.sub("", " ".join(clean(text)[0].split()))
    return _COMMENT.sub("--", _REF.sub(r"(\1)", plain))


def is_assistant(turn: Event) -> bool:
    """Whether the agent said a turn."""
    return (turn.speaker or "").casefold() in ASSISTANTS


def _lines(record: Record, text: str, stated: Stated) -> Iterator[Line]:
    for start, end in sentences(text):
        sentence = text[start:end].strip()
        if not _says_something(sentence):
            continue
        label = _label(sentence, record.event, stated)
        if label is not None:
            implied = label in ("asked", "done")  # the user asks, and the assistant does
            speaker = None if implied and record.event.speaker in ("user", "assistant") else record.event.speaker
            yield Line(label, spoken(one_line(sentence), speaker), record.ref)


def _label(sentence: str, turn: Event, stated: Stated) -> Label | None:
    """The label of a sentence; None for small talk, and for sentences of an assistant that are not about its work."""
    asks = sentence.endswith(_QUESTION_ENDS)
    if not asks and _DECIDED.search(sentence):
        return "decided"
    if not asks and _OPEN.search(sentence):
        return "open"
    if is_assistant(turn):
        return "done" if not asks and _DONE.search(sentence) else None
    if asks or _REQUEST.search(sentence):
        return "asked"
    return "said" if stated(replace(turn, text=sentence)) else None


def _says_something(sentence: str) -> bool:
    """Whether a sentence has a few words and mostly letters, unlike tables and output of tools."""
    letters = sum(map(str.isalpha, sentence))
    shown = len("".join(sentence.split()))
    spaced = len(sentence.split())
    return letters * 3 >= shown * 2 and (spaced >= MIN_WORDS or (letters >= 6 and not sentence.isascii()))


def _with_last_question_open(lines: Sequence[Line], ref: str) -> list[Line]:
    """The lines, with a question of the last turn as open, because no turn answers it."""
    return [Line("open", one.text, one.ref) if one.ref == ref and one.label == "asked" else one for one in lines]


def _bounded(lines: Sequence[Line]) -> Iterator[Line]:
    """The last lines of each kind, without repetitions."""
    once = list({(one.label, one.text): one for one in lines}.values())
    for label, most in MAX_LINES.items():
        yield from [one for one in once if one.label == label][-most:]


def _dates(turn: Event, text: str, zone: tzinfo) -> Iterator[str]:
    """The days that a turn names, with its words for them: ``2026-12-02 (next Wednesday)``."""
    for window in windows(text, turn.at or Moment(turn.recorded_at)):
        if window.at is not None and window.at.precision == "day":
            words = one_line(text[window.span[0] : window.span[1]], 40)
            day = window.at.utc if window.at.zone is None else window.start.astimezone(zone)
            yield f"{day:%Y-%m-%d}" + ("" if f"{day:%Y-%m-%d}" == words else f" ({words})")
