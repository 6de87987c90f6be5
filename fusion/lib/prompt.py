"""Quotes untrusted texts for a prompt, and parses untrusted answers of a model.

A text is put between tags with a nonce of the call (`tagged`), which it cannot close since it is escaped (`quoted`). An
answer must have the requested form (`parsed`).
"""

from __future__ import annotations

import json
import unicodedata
from html import escape
from typing import Any, NoReturn

from fusion.errors import InvalidAnswer
from fusion.lib.clean import clean

MAX_ANSWER_CHARS = 65_536

_FENCE = "```"
_THOUGHT, _THOUGHT_END = "<think>", "</think>"


def quoted(text: str) -> str:
    """A text that cannot close a tag: without invisible characters, NFKC (full-width ``＜`` becomes ``<``), escaped."""
    return escape(_plain(text), quote=False)


def _plain(text: str) -> str:
    return unicodedata.normalize("NFKC", clean(text)[0])


def tagged(name: str, nonce: str, text: str, **attributes: str) -> str:
    """A quoted text between a pair of tags; ``attributes`` are escaped, too."""
    written = "".join(f' {key}="{escape(_plain(value))}"' for key, value in attributes.items())
    return f"<{name}-{nonce}{written}>\n{quoted(text)}\n</{name}-{nonce}>"


def parsed(answer: str) -> Any:
    """Parse a model's answer, which must be JSON, possibly in a code fence and after its thoughts (Qwen3's form).

    Raises InvalidAnswer for anything else and for NaN. The error does not contain the answer, which may quote a memory.
    """
    answer = answer.strip()
    if len(answer) > MAX_ANSWER_CHARS:
        raise InvalidAnswer("the model's answer is too long")
    try:
        return json.loads(_unfenced(_without_thoughts(answer)), parse_constant=_refuse)
    except (ValueError, RecursionError):
        raise InvalidAnswer("the model's answer is not JSON") from None


def listed(answer: str, name: str) -> list[Any]:
    """The list ``name`` of a model's answer, which may also be that list alone. Raises InvalidAnswer."""
    value = parsed(answer)
    found = value.get(name) if isinstance(value, dict) else value
    if not isinstance(found, list):
        raise InvalidAnswer(f"the model's answer has no {name}")
    return found


def _without_thoughts(answer: str) -> str:
    """The answer without a leading ``<think>…</think>``; thoughts without an end are all of it."""
    if not answer.startswith(_THOUGHT):
        return answer
    return answer.partition(_THOUGHT_END)[2].strip()


def _unfenced(answer: str) -> str:
    """The contents of a code fence; an answer without one is returned unchanged."""
    if len(answer) < 2 * len(_FENCE) or not (answer.startswith(_FENCE) and answer.endswith(_FENCE)):
        return answer
    inside = answer[len(_FENCE) : -len(_FENCE)].strip()
    return inside[4:] if inside[:4].lower() == "json" else inside


def _refuse(constant: str) -> NoReturn:
    raise ValueError(f"{constant} is no JSON")
