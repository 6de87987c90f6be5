"""Texts on their way into a prompt, and answers on their way out: neither is trusted.

What people wrote is data, so it stands between tags that carry a nonce of the call (`tagged`) and can close none of
them (`quoted`). What a model wrote is held to the form that was asked for (`parsed`).
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


def quoted(text: str) -> str:
    """A text that can close no tag: cleaned of what is invisible, NFKC (a full-width ``＜`` becomes ``<``), escaped."""
    return escape(_plain(text), quote=False)


def _plain(text: str) -> str:
    return unicodedata.normalize("NFKC", clean(text)[0])


def tagged(name: str, nonce: str, text: str, **attributes: str) -> str:
    """A text between a pair of tags; ``attributes`` are escaped as well."""
    written = "".join(f' {key}="{escape(_plain(value))}"' for key, value in attributes.items())
    return f"<{name}-{nonce}{written}>\n{quoted(text)}\n</{name}-{nonce}>"


def parsed(answer: str) -> Any:
    """The JSON that a model answered with, maybe in a code fence, and nothing else.

    Raises InvalidAnswer for prose, half a value and NaN; it never quotes the answer, which may quote a memory.
    """
    answer = answer.strip()
    if len(answer) > MAX_ANSWER_CHARS:
        raise InvalidAnswer("the model's answer is too long")
    try:
        return json.loads(_unfenced(answer), parse_constant=_refuse)
    except (ValueError, RecursionError):
        raise InvalidAnswer("the model's answer is not JSON") from None


def _unfenced(answer: str) -> str:
    """What stands between the marks of a code fence; an answer without one as it is."""
    if len(answer) < 2 * len(_FENCE) or not (answer.startswith(_FENCE) and answer.endswith(_FENCE)):
        return answer
    inside = answer[len(_FENCE) : -len(_FENCE)].strip()
    return inside[4:] if inside[:4].lower() == "json" else inside


def _refuse(constant: str) -> NoReturn:
    raise ValueError(f"{constant} is no JSON")
