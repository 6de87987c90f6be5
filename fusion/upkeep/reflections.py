"""Reflects on what an agent did, by rules: its work, repeated mistakes, what was begun and not ended, open questions.

Every line quotes a turn, with its ref. The rules know the words of English, and a few of German, French and Spanish;
what they miss is missing, and nothing is made up. All functions are pure.
"""

from __future__ import annotations

import re
from collections import defaultdict
from collections.abc import Collection, Iterator, Mapping, Sequence
from dataclasses import dataclass
from datetime import date, tzinfo
from itertools import pairwise

from fusion.contract import REFLECTION, Event
from fusion.journal.rows import Record
from fusion.lib.jaccard import jaccard
from fusion.lib.redact import redact
from fusion.lib.statements import sentences
from fusion.lib.words import stems
from fusion.upkeep.session_summary import MAX_TURN_CHARS, is_assistant, one_line, summarised, words_of

MAX_LINES = 10
"""lines of each section, the last ones"""
MAX_ERROR_LINES = 200
"""lines of one turn that are searched for errors; a longer one is a log"""
SAME = 0.5
"""share of common words (Jaccard) from which two corrections count as one mistake, and an ending as that of a task"""
MATTER = "memory-fusion"
"""the key of the front matter that marks a file as a reflection"""

_ERROR = re.compile(
    r"\b(?:error|exception|traceback|failed|failure|fatal|cannot|could not|couldn't|not found|timed out|refused|denied|"
    r"unable to|fehler|fehlgeschlagen|erreur|échoué|fallo|falló)\b",
    re.IGNORECASE,
)
_VARYING = re.compile(r"\b0x[0-9a-f]+\b|\d+|\b[0-9a-f]{8,}\b", re.IGNORECASE)
"""what differs between two occurrences of one error: numbers, addresses, hashes"""
_CORRECTION = re.compile(
    r"(?:no[,.!]|nope\b|wrong\b|that(?:'s| is| was) (?:not|wrong)|not what I|"
    r"I (?:said|meant|told you|asked (?:for|you))|"
    r"actually[, ]|stop\b|don't\b|do not\b|you (?:forgot|again|still|should(?:n't| not)? have)|undo (?:that|it)|"
    r"nein[,.!]|falsch\b|ich (?:sagte|meinte)|non[,.!]|c'est faux|j'ai dit|no es|está mal|dije)",
    re.IGNORECASE,
)
_BEGUN = re.compile(
    r"\b(?:I'll|I will|I am going to|I'm going to|let me|I'm (?:now |still )?(?:working|looking|starting)|working on|"
    r"next,? I|ich werde|je vais|voy a)\b",
    re.IGNORECASE,
)
_DONE = re.compile(
    r"\b(?:done|fixed|finished|completed|deployed|merged|sent|created|updated|added|removed|moved|ready|works now|"
    r"erledigt|fertig|behoben|terminé|listo|hecho)\b",
    re.IGNORECASE,
)
_UNKNOWN = re.compile(
    r"\b(?:I (?:do not|don't) know|I(?:'m| am) not sure|I (?:could not|couldn't|cannot|can't) find|no idea|unclear|"
    r"ich wei(?:ß|ss) nicht|je ne sais pas|no sé)\b",
    re.IGNORECASE,
)
_REFS = re.compile(r"\[(m[0-9a-z]{1,12})\]")
_TURNS = re.compile(r"^turns: (\d{1,9})$", re.MULTILINE)
_FUNCTION_WORDS = frozenset(stems("I will I'll let me now then next the a an to of in on for and it that this is done"))


@dataclass(frozen=True, slots=True)
class Line:
    """One line of a reflection, with the refs of the turns that it quotes."""

    text: str
    refs: tuple[str, ...]

    def __str__(self) -> str:
        return " ".join((f"- {self.text}", *(f"[{ref}]" for ref in self.refs)))


@dataclass(frozen=True, slots=True)
class Reflection:
    """What the rules found in the turns of one day."""

    turns: int
    did: tuple[Line, ...]
    mistakes: tuple[Line, ...]
    begun: tuple[Line, ...]
    questions: tuple[Line, ...]

    @property
    def sections(self) -> Mapping[str, Sequence[Line]]:
        """The sections of its file, by heading."""
        return {
            "What I did": self.did,
            "Repeated mistakes": self.mistakes,
            "Begun and not ended": self.begun,
            "Open questions": self.questions,
        }


def reflected(sessions: Sequence[Sequence[Record]], zone: tzinfo) -> Reflection:
    """The reflection on the sessions of one day, each with its turns in order."""
    summaries = [found for turns in sessions if (found := summarised(turns, _nothing, zone)) is not None]
    lines = [line for summary in summaries for line in summary.lines]
    return Reflection(
        sum(map(len, sessions)),
        _last(Line(line.text, (line.ref,)) for line in lines if line.label == "done"),
        _last((*_errors(sessions), *_corrections(sessions))),
        _last(_unfinished(sessions)),
        _last((*(Line(line.text, (line.ref,)) for line in lines if line.label == "open"), *_unanswered(sessions))),
    )


def written(day: date, found: Reflection, thoughts: Sequence[str] = (), by: str = "") -> str:
    """The file of a reflection; ``thoughts`` are those of the language model called ``by``."""
    lines = ["---", f"{MATTER}: {REFLECTION}", f"date: {day.isoformat()}", f"turns: {found.turns}", "---", ""]
    lines += [f"# Reflection of {day.isoformat()}", ""]
    lines += ["The agent's own thoughts on what was said, written by memory-fusion. They are no facts.", ""]
    for heading, section in found.sections.items():
        if section:
            lines += [f"## {heading}", *map(str, section), ""]
    if thoughts:
        lines += [f"## {THOUGHTS}{by}", *(f"- {thought}" for thought in thoughts), ""]
    if not (thoughts or any(found.sections.values())):
        lines += ["Nothing to reflect on.", ""]
    return "\n".join(lines)


THOUGHTS = "Thoughts, by "
LASTING = ("What I did", "Repeated mistakes")
"""the sections that `lasting` reads"""


def turns_of(text: str) -> int | None:
    """The number of turns that a reflection is about; None for another file."""
    found = _TURNS.search(text[:300])
    return int(found[1]) if found else None


def refs_in(text: str) -> list[str]:
    """The refs of a reflection, each once."""
    return list(dict.fromkeys(_REFS.findall(text)))


def lasting(text: str) -> list[Line]:
    """The lines of a reflection on what the agent did and which mistakes it repeated; the rest soon ends."""
    found, heading = list[Line](), ""
    for line in text.splitlines():
        if line.startswith("## "):
            heading = line.removeprefix("## ")
        elif heading in LASTING and (refs := _REFS.findall(line)):
            found.append(Line(" ".join(_REFS.sub("", line).removeprefix("- ").split()), tuple(refs)))
    return found


def without_forgotten(text: str, known: Collection[str]) -> str:
    """A reflection without the lines that quote a turn that is not ``known`` any more, and then without thoughts.

    Nobody can tell of which turns a model thought.
    """
    if all(ref in known for ref in refs_in(text)):
        return text
    kept, in_thoughts = list[str](), False
    for line in text.splitlines():
        in_thoughts = line.startswith(f"## {THOUGHTS}") or (in_thoughts and not line.startswith("## "))
        if not in_thoughts and all(ref in known for ref in _REFS.findall(line)):
            kept.append(line)
    return "\n".join((*kept, ""))


# The rules -------------------------------------------------------------------------------------------------------


def _nothing(_: Event) -> bool:
    return False


def _last(lines: Iterator[Line] | Sequence[Line]) -> tuple[Line, ...]:
    """The last lines, each text once."""
    return tuple({line.text: line for line in lines}.values())[-MAX_LINES:]


def _errors(sessions: Sequence[Sequence[Record]]) -> Iterator[Line]:
    """Errors that several turns have, but for numbers and addresses; the last occurrence is quoted."""
    found: defaultdict[str, dict[str, str]] = defaultdict(dict)
    for record in _all(sessions):
        for line in record.event.text[:MAX_TURN_CHARS].splitlines()[:MAX_ERROR_LINES]:
            if _ERROR.search(line) and (said := one_line(redact(line)[0])):
                found[" ".join(_VARYING.sub("#", said).casefold().split())][record.ref] = said
    for occurrences in found.values():
        if len(occurrences) > 1:
            refs = tuple(occurrences)
            yield Line(f"{len(refs)} times: {occurrences[refs[-1]]}", refs[-3:])


def _corrections(sessions: Sequence[Sequence[Record]]) -> Iterator[Line]:
    """What somebody corrected right after an answer; corrections of nearly the same words are one line."""
    groups: list[tuple[frozenset[str], list[tuple[str, str]]]] = []
    for turns in sessions:
        for before, record in pairwise(turns):
            said = words_of(record.event).strip()
            if is_assistant(record.event) or not is_assistant(before.event) or not _CORRECTION.match(said):
                continue
            content = frozenset(stems(said))
            group = next((one for one in groups if jaccard(one[0], content) >= SAME), None)
            if group is None:
                groups.append((content, [(one_line(said), record.ref)]))
            else:
                group[1].append((one_line(said), record.ref))
    for _, corrections in groups:
        text, _ = corrections[-1]
        times = f"{len(corrections)} times corrected" if len(corrections) > 1 else "corrected"
        yield Line(f"{times}: {text}", tuple(ref for _, ref in corrections)[-3:])


def _unfinished(sessions: Sequence[Sequence[Record]]) -> Iterator[Line]:
    """What the agent said it would do, of which no later sentence of its own says that it is done."""
    begun: list[tuple[str, str, frozenset[str]]] = []
    for turns in sessions:
        for record in turns:
            if not is_assistant(record.event):
                continue
            for sentence in _sentences(record):
                content = frozenset(stems(sentence)) - _FUNCTION_WORDS
                if _DONE.search(sentence):
                    begun = [one for one in begun if len(one[2] & content) < SAME * len(one[2])]
                elif _BEGUN.search(sentence) and len(content) > 1 and not sentence.endswith("?"):
                    begun.append((sentence, record.ref, content))
    for sentence, ref, _ in begun:
        yield Line(one_line(sentence), (ref,))


def _unanswered(sessions: Sequence[Sequence[Record]]) -> Iterator[Line]:
    """Questions that the agent could not answer, and its own last question of a session."""
    for turns in sessions:
        for before, record in pairwise(turns):
            if is_assistant(before.event) or not is_assistant(record.event):
                continue
            asked = [one for one in _sentences(before) if one.endswith("?")]
            if asked and _UNKNOWN.search(words_of(record.event)):
                yield Line(one_line(asked[-1]), (before.ref, record.ref))
        if turns and is_assistant(turns[-1].event):
            asked = [one for one in _sentences(turns[-1]) if one.endswith("?")]
            if asked:
                yield Line(f"asked, without an answer: {one_line(asked[-1])}", (turns[-1].ref,))


def _sentences(record: Record) -> list[str]:
    text = words_of(record.event)
    return [said for start, end in sentences(text) if (said := text[start:end].strip())]


def _all(sessions: Sequence[Sequence[Record]]) -> Iterator[Record]:
    for turns in sessions:
        yield from turns
