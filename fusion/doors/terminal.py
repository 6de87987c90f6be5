"""Removes control characters from all output to a terminal.

A file name, a memory or an error of a backend may contain escape sequences that move the cursor, overwrite lines or
write into the clipboard. `guard` replaces stdout and stderr by streams that remove them from everything that is
printed, logged or raised. `console` is a Rich console that removes them from texts and then adds its own colours.
"""

from __future__ import annotations

import re
import sys
from collections.abc import Iterable
from functools import cache
from typing import TYPE_CHECKING, Any, TextIO, cast

from fusion.lib.clean import BREAKS, JOINERS, SELECTORS, UNSEEN, clean
from fusion.lib.lazy_pattern import lazy_pattern

if TYPE_CHECKING:
    from rich.console import Console, ConsoleOptions, RenderableType

_SEQUENCE = lazy_pattern(
    r"(?:\x1b\[|\x9b)[0-?]*+[ -/]*+[@-~]"  # CSI: colours, the cursor
    r"|(?:\x1b[\]PX^_]|[\x9d\x90\x98\x9e\x9f])[^\x07\x1b\x9c\n]*+(?:\x07|\x1b\\|\x9c)?"  # OSC, DCS: clipboard
    r"|\x1b[ -/]*+[0-~]?"
)
_STYLE = lazy_pattern(r"(\x1b\[[0-9;]*m|\x1b\[\?25[lh]|\x1b\[\d*[ABCDGK]|\r)")
"""the sequences that Rich writes for colours and bars"""


_UNPRINTABLE = lazy_pattern(rf"[\x7f{BREAKS}{UNSEEN}{JOINERS}{SELECTORS}]")


def plain(text: str) -> str:
    """A text without escape sequences, control, direction and invisible characters."""
    if text.isascii() and text.isprintable():
        return text
    return clean(_SEQUENCE.sub("", text))[0]


def json_line(content: object) -> str:
    """A value as one line of JSON, with every character escaped that is not plain."""
    import orjson

    written = orjson.dumps(content, default=str).decode()
    return (written if written.isascii() else _UNPRINTABLE.sub(_escape, written)) + "\n"


def _escape(match: re.Match[str]) -> str:
    units = match.group().encode("utf-16-be")
    return "".join(f"\\u{units[i] << 8 | units[i + 1]:04x}" for i in range(0, len(units), 2))


def guard() -> None:
    """Make everything that is written to stdout and stderr plain. A second call changes nothing."""
    sys.stdout = _guarded(sys.stdout)
    sys.stderr = _guarded(sys.stderr)


def _guarded(stream: TextIO | None) -> TextIO:
    if stream is None or isinstance(stream, PlainStream):
        return cast(TextIO, stream)
    return cast(TextIO, PlainStream(stream))


class PlainStream:
    """A text stream that writes plain text."""

    def __init__(self, stream: TextIO) -> None:
        self._stream = stream
        self.rich_proxied_file = StyledStream(stream)
        """the stream that Rich uses instead of this one"""

    def write(self, text: str) -> int:
        self._stream.write(plain(text))
        return len(text)

    def writelines(self, lines: Iterable[str]) -> None:
        for line in lines:
            self.write(line)

    def __getattr__(self, name: str) -> Any:
        return getattr(self._stream, name)


class StyledStream(PlainStream):
    """A text stream for Rich: on a terminal its colours and bars pass, and no other control sequence."""

    def __init__(self, stream: TextIO) -> None:
        self._stream = stream
        self._styled = stream.isatty()

    def write(self, text: str) -> int:
        if not self._styled or "\x1b" not in text:
            pieces = [plain(text)] if "\r" not in text or not self._styled else [text]
        else:
            pieces = [piece if number % 2 else plain(piece) for number, piece in enumerate(_STYLE.split(text))]
        self._stream.write("".join(pieces))
        return len(text)


def console(*, stderr: bool = False, quiet: bool = False, **options: Any) -> Console:
    """A Rich console that prints plain texts in its own colours."""
    return _plain_console()(stderr=stderr, quiet=quiet, **options)


@cache
def _plain_console() -> type[Console]:
    from rich.console import Console
    from rich.segment import Segment

    class PlainConsole(Console):
        def render(self, renderable: RenderableType, options: ConsoleOptions | None = None) -> Iterable[Segment]:
            for segment in super().render(renderable, options):
                yield segment if segment.control else Segment(plain(segment.text), segment.style)

    return PlainConsole
