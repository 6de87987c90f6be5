"""Counts junk among extracted facts with checks of its own, so that extraction does not grade itself.

It shares no code with `fusion.lib.junk`, by which extraction leaves out junk, and has other words and patterns. Tests
compare both with the same lines, which were labelled by hand before either was written.
"""

from __future__ import annotations

import json
import re
from collections.abc import Iterable, Mapping, Sequence
from contextlib import suppress
from typing import Literal

Junk = Literal["greeting", "echo", "question", "tool_noise", "duplicate"]
KINDS: tuple[Junk, ...] = ("greeting", "echo", "question", "tool_noise", "duplicate")

_GREETING_WORDS = frozenset(
    "hi hello hey yo good morning evening afternoon night day bye goodbye see you later soon talk ttyl take care "
    "thanks thank thx cheers welcome please sorry ok okay yes yeah yep no nope sure great nice cool awesome "
    "amazing perfect wow lol haha congrats congratulations luck lovely sweet cute so very really that this is it "
    "was sounds looks a an the to for of and i im your youre me my much lot lots too all with have has had hope "
    "proud glad happy love am are be what how exactly absolutely totally definitely agree right true job work "
    "question weekend fun time going it's that's you're i'm here there at hear hearing from wonderful fantastic "
    "excellent done well worries anytime danke guten morgen tag abend bitte merci beaucoup bonjour salut gracias "
    "muchas hola ciao grazie dopo passt das ca va comment du dir dich appreciate means been must nothing hard "
    "mean go on keep up".split()
)
_ASKING = frozenset(
    "who whom whose what when where why how which is are was were do does did can could will would "
    "should shall have has wer wann wo warum qui quand ou pourquoi quien cuando donde chi dove".split()
)
_SUBJECTS = frozenset("i you he she it we they this that these there the a an my your our his her any anyone".split())
_ECHO = (
    "long-term memories",
    "memories nonce",
    "end of memories",
    "relevant memories ---",
    "context pack (",
    "recalled data",
    "(importance:",
    "[conflicts with",
    "summary (from",
    "individual facts",
    "heartbeat",
    "no_reply",
    "system-reminder",
    "relevant-memories",
)
_CITED = re.compile(r"^\W*\[(?:[mx][0-9a-z]{1,12}|fact|rule|preference|preferences|decision|note|turn|mem0)\]")
_LOG = re.compile(
    r"\b\d{1,2}:\d{2}:\d{2}\b|\b(?:ERROR|WARN|INFO|DEBUG|Traceback|Exception|stdout|stderr)\b|\bexit code\b"
    r"|\b0x[0-9a-f]{4,}|(?:/[\w.-]+){3,}|\w+Error:|\bPASSED\b|npm |^\$ |^[-+@]{1,3} ",
    re.IGNORECASE,
)


_COMMANDS = (
    *("sudo", "pip", "npm", "curl", "git", "docker", "import", "def", "class", "create", "select", "fatal", "diff"),
    *("real", "killed", "collected", "tool", "http", "permission denied", "no such file", "successfully installed"),
)
"""beginnings of lines that programs write, unless a full stop ends the line"""
_MODE = re.compile(r"^[-dl](?:[r-][w-][x-]){3} ")


def junk_kind(fact: str, speaker: str | None = None) -> Junk | None:
    """The kind of junk that a fact is, except duplicates; None if it is none. A speaker before its text is ignored."""
    text = fact.partition(": ")[2] if speaker and fact.startswith(f"{speaker}: ") else fact
    words = re.findall(r"[^\W_]+(?:['’][^\W_]+)?", text.lower())
    if any(mark in text.lower() for mark in _ECHO) or _CITED.match(text):
        return "echo"
    if _is_tool_noise(text):
        return "tool_noise"
    if _is_question(text, words):
        return "question"
    return "greeting" if _is_greeting(text, words) else None


def _is_tool_noise(text: str) -> bool:
    with suppress(ValueError):
        if isinstance(json.loads(text), dict | list):
            return True
    if _MODE.match(text) or (text.lower().startswith(_COMMANDS) and not re.search(r"[a-z]{2}[.!]$", text)):
        return True
    symbols = sum(not (char.isalnum() or char.isspace() or char in ".,;:!?'\"’“”()-–—&%€$/#+…~*") for char in text)
    longest = max(map(len, text.split()), default=0)
    return _LOG.search(text) is not None or symbols > 0.1 * len(text) or longest > 60


def _is_question(text: str, words: Sequence[str]) -> bool:
    if text.rstrip(" \"'”’)*").endswith(("?", "？")):
        return True
    return (
        len(words) > 2 and words[0] in _ASKING and words[1] in _SUBJECTS | _ASKING and not text.rstrip().endswith(".")
    )


def _is_greeting(text: str, words: Sequence[str]) -> bool:
    """Whether a short sentence has only words of greetings, and at most one other, which may be a name."""
    if len(words) > 10 or any(char.isdigit() for char in text):
        return False
    return sum(word.replace("’", "'") not in _GREETING_WORDS for word in words) <= (1 if len(words) > 1 else 0)


def count(facts: Iterable[tuple[str, str | None]]) -> Mapping[Junk, int]:
    """How many of these facts, each with its speaker, are junk of each kind; a repetition counts as a duplicate."""
    counts: dict[Junk, int] = dict.fromkeys(KINDS, 0)
    seen: set[tuple[str, ...]] = set()
    for fact, speaker in facts:
        key = tuple(sorted(set(re.findall(r"[^\W_]{3,}|\d+", fact.lower()))))
        kind = junk_kind(fact, speaker) or ("duplicate" if key in seen else None)
        seen.add(key)
        if kind is not None:
            counts[kind] += 1
    return counts
