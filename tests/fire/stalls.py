"""What could hold up a server's event loop: hostile answers of models, replies of backends, and connections."""

from __future__ import annotations

import json
from collections.abc import Iterator

ANSWER_CHARS = 65_000
REPLY_BYTES = 4_000_000


def answers() -> dict[str, str]:
    """Answers of a model, each some 64 KB."""
    n = ANSWER_CHARS
    units = {
        "open brackets": "[",
        "open braces": '{"a":',
        "closed brackets": "[]",
        "quotes": '"a" b ',
        "escapes": '"\\u0000',
        "backslashes": "\\",
        "NaN": "NaN,",
        "big numbers": "9" * 400 + ",",
        "exponents": "1e999999,",
        "combining marks": "a\u0301\u0327",
        "emoji": "\U0001f468\u200d\U0001f469\u200d",
        "fences": "```json\n{}\n```\n",
        "comments": "/* */ //\n",
        "tags": "</memory><memory>",
        "entries": '{"id":"a","score":1},',
        "half entries": '{"id":"a","score":',
    }
    made = {name: '{"scores":[' + unit * (n // len(unit)) for name, unit in units.items()}
    made |= {f"bare {name}": unit * (n // len(unit)) for name, unit in units.items()}
    made["a fence, blank lines, a brace"] = "```" + "\n" * n + "{"
    made["a fence, blanks, text, blanks"] = "```json" + " " * (n // 3) + "x" * (n // 3) + " " * (n // 3)
    made["one number"] = "1" * n
    made["blanks"] = " " * n + "x"
    made["memories without an end"] = '{"memories":[' + '{"text":"a","kind":"fact"},' * (n // 30)
    return made


def replies() -> dict[str, bytes]:
    """Replies of a backend, up to 4 MB: what it sends to `POST /search`."""
    n = REPLY_BYTES

    def items(texts: Iterator[str] | list[str]) -> bytes:
        return json.dumps({"results": [{"id": f"i{i}", "text": t, "score": 0.5} for i, t in enumerate(texts)]}).encode()

    made = {
        "open brackets": b"[" * n,
        "nested brackets": b"[" * (n // 2) + b"]" * (n // 2),
        "nested objects": b'{"a":' * (n // 6) + b"1" + b"}" * (n // 6),
        "one number": b'{"results":[{"id":"a","text":"b","score":' + b"9" * n + b"}]}",
        "NaN": b'{"results":[' + b"NaN," * (n // 4) + b"1]}",
        "no UTF-8": b'{"results":[{"id":"a","text":"' + b"\xff\xfe" * (n // 2) + b'"}]}',
        "lone surrogates": b'{"results":[{"id":"a","text":"' + b"\\ud800" * (n // 6) + b'"}]}',
        "many items": items([f"memory number {i} about the cache" for i in range(n // 80)]),
        "the same text": items(["the cache is Redis"] * (n // 70)),
        "blanks": b" " * n + b"1",
    }
    for unit in (
        " ",
        "a",
        "\n",
        "<",
        "&lt;",
        "- a\n",
        "1 ",
        "May 5 2026 ",
        "\u202e",
        "\u3042",
        "[[a",
        "password is ",
        "`",
    ):
        made[f"long texts of {unit!r}"] = items([unit * (40_000 // len(unit)) + str(i) for i in range(60)])
        made[f"one text of {unit!r}"] = items([unit * (n // 4 // len(unit.encode()))])
    return made


HEAD = b"POST /fuse HTTP/1.1\r\nHost: localhost\r\nContent-Type: application/json\r\n"
CHUNKED = HEAD + b"Transfer-Encoding: chunked\r\n\r\n"


def floods() -> dict[str, tuple[bytes, bytes, int]]:
    """What a connection sends before any key is looked at: a beginning, and what follows it so many times."""
    return {
        "a header without end": (HEAD + b"X-Long: ", b"a" * 65_536, 400),
        "headers without end": (HEAD, b"X-More: a\r\n" * 6_000, 400),
        "a name without end": (HEAD, b"a" * 65_536, 400),
        "a URL without end": (b"GET /", b"a" * 65_536, 400),
        "blank lines": (b"", b"\r\n" * 32_000, 400),
        "an extension of a chunk": (CHUNKED + b"1;", b"e" * 65_536, 400),
        "trailers": (CHUNKED + b"0\r\n", b"X-More: a\r\n" * 6_000, 400),
        "tiny chunks": (CHUNKED, b"1\r\n \r\n" * 40_000, 20),
        "pipelined requests": (b"", b"GET /healthz HTTP/1.1\r\nHost: localhost\r\n\r\n" * 1_000, 5),
        "pipelined questions without a key": (b"", HEAD + b"Content-Length: 2\r\n\r\n{}", 2_000),
    }
