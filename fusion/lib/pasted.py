"""Tells what was typed in a prompt from what was pasted into it: fenced code, tracebacks, logs, diffs."""

from __future__ import annotations

import re
from collections import Counter
from typing import NamedTuple

from fusion.lib.words import find_words

MIN_WORDS = 3
"""words that a typed part has: "fix this:" says nothing without what was pasted"""
MIN_REPEATS = 3
"""lines of one form, numbers aside, from which they are a log"""

FENCE = "```"
FENCES = (FENCE, "~~~")
INDENTS = ("    ", "\t")
LINE_CHARS = 200
"""characters of a line that are looked at, so that no line takes long"""
_NUMBER = re.compile(r"\d+")
_CODE = re.compile(r"(?![-*+\u2022]\s|\d+[.)]\s).*[(){}\[\];=<>]")
"""a line of code, if it is indented; a list may be indented, too"""
_PASTED = re.compile(
    r"""
    Traceback\ \(most\ recent | File\ ".*",\ line\ \d | at\ \S.*:\d+\)?$ | [\^~]+$   # a traceback
    | \W{0,2}(?:\d{4}-\d\d-\d\d[T\ ])?\d\d:\d\d:\d\d                               # a time
    | \W{0,2}(?:TRACE|DEBUG|INFO|WARN(?:ING)?|ERROR|FATAL|CRITICAL)\b[\]:\ ]         # a level
    | diff\ --git\  | @@\ -\d | (?:\+\+\+|---)\ \S | [$>]\ \S                        # a diff, a shell, a quotation
    """,
    re.VERBOSE,
)


class Prompt(NamedTuple):
    """The lines of a prompt that its author typed, and those that were pasted; the second is "" without any."""

    typed: str
    pasted: str = ""

    def cut(self, chars: int) -> str:
        """What was typed, followed by the last of the pasted lines that fit: they are those of the error."""
        room = chars - len(self.typed) - 1
        if len(self.pasted) <= room:
            return f"{self.typed}\n{self.pasted}" if self.pasted else self.typed
        lines = self.pasted[len(FENCE) - room :].splitlines()[1:] if room > len(FENCE) else []
        if sum(map(_is_fence, lines)) % 2:
            lines[0] = FENCE
        return "\n".join([self.typed, *lines])


def prompt_parts(text: str) -> Prompt:
    """The parts of a prompt. One without pasted lines, or with hardly a typed word, is typed as a whole."""
    lines = text.splitlines()
    if len(lines) < 2:
        return Prompt(text)
    forms = Counter(map(_form, lines))
    typed: list[str] = []
    pasted: list[str] = []
    fenced = False
    for line in lines:
        fence, form = _is_fence(line), _form(line)
        repeats = bool(form) and forms[form] >= MIN_REPEATS
        (pasted if fence or fenced or repeats or _is_pasted(line) else typed).append(line)
        fenced ^= fence
    said = "\n".join(typed).strip()
    return Prompt(said, "\n".join(pasted)) if pasted and len(find_words(said)) >= MIN_WORDS else Prompt(text)


def _form(line: str) -> str:
    """A line without what differs between the lines of a log."""
    return _NUMBER.sub("0", line.strip())


def _is_fence(line: str) -> bool:
    return line.lstrip().startswith(FENCES)


def _is_pasted(line: str) -> bool:
    body = line.strip()[:LINE_CHARS]
    return bool(_PASTED.match(body)) or (line.startswith(INDENTS) and bool(_CODE.match(body)))
