"""Extracts the words of a speaker from a turn of a transcript, without the text that programs added.

Programs add metadata of the channel, reminders of the harness, recalled memories (capturing our own again would
duplicate them) and heartbeats. Text that its author marked as private is removed as well. All functions are pure and
take time linear in the text.
"""

from __future__ import annotations

import re
from bisect import bisect_left
from itertools import accumulate
from typing import Literal, NamedTuple

from fusion.lib.lazy_pattern import lazy_pattern
from fusion.lib.listing import CORTEX, END, END_BEGINS, HEADERS, ITEM, SEPARATOR, SUBHEADS

Speaker = Literal["user", "assistant"]

MARKED = "marked as private"
ANSWER_TO_MARKED = "an answer to a prompt that is marked as private"
UNATTENDED = "a heartbeat or a scheduled run, or an answer to one"
ACK_CHARS = 300
"""an answer with HEARTBEAT_OK at its start or end is empty if the rest is no longer than this (OpenClaw's bound)"""


class Said(NamedTuple):
    """The speaker's own text, empty if there is nothing to store; ``reason`` then explains that to the user.

    ``unattended``: no person wrote this prompt, so its answer is not part of a conversation either.
    """

    text: str
    reason: str = ""
    unattended: bool = False

    @property
    def whole_exchange(self) -> bool:
        """Whether neither this prompt nor the answer to it is kept: its author wants nothing of it kept, or no person
        wrote it. An answer repeats what it was asked."""
        return self.unattended or self.reason == MARKED


def said(text: str, speaker: Speaker) -> Said:
    """Extract the speaker's own text from a turn."""
    text = without_own_block(text)
    if speaker == "user" and _UNATTENDED.match(text):
        return Said("", UNATTENDED, unattended=True)
    text = without_wrappers(text)
    text = _from_channel(text) if speaker == "user" else _DIRECTIVE.sub("", _cut(text, _THOUGHT, _THOUGHT_END))
    if speaker == "user" and _UNATTENDED.match(text):
        return Said("", UNATTENDED, unattended=True)
    if is_silent(text):
        return Said("", UNATTENDED)
    if is_marked(text):
        return Said("", MARKED)
    kept = without_private(text).strip()
    return Said(kept, MARKED if text.strip() and not kept else "")


def _cut(text: str, opening: re.Pattern[str], closing: re.Pattern[str]) -> str:
    """The text without the spans from an opening to the next closing, or to the end if there is none."""
    kept, at = [], 0
    while found := opening.search(text, at):
        kept.append(text[at : found.start()])
        end = closing.search(text, found.end())
        if end is None:
            return "".join(kept)
        at = end.end()
    return "".join([*kept, text[at:]]) if kept else text


# Recalled memories ----------------------------------------------------------------------------------------------------

_TAG = r'<memories nonce="([^"<>\n]{1,80})">'
_FIRST_LINE = r"(?:Recalled data|\[[mx][0-9a-z]{1,12}\])"
_OPENED = lazy_pattern(_TAG)
_OURS = lazy_pattern(rf"{_TAG}[ \t]*\n(?={_FIRST_LINE})")
_OURS_END = lazy_pattern(r'</memories nonce="([^"<>\n]{1,80})">')
_CODE = lazy_pattern(r"^ {0,3}(?:```|~~~)", re.MULTILINE)
_CUT_TAG = lazy_pattern(r'<memories nonce=(?:"[^"<>\n]{0,80}"?)?\Z')
_CUT_FIRST_LINE = lazy_pattern(rf"{_TAG}[ \t]*\n(?=(.{{1,13}})\Z)")
_CUT_ITEM = lazy_pattern(r"-|- \[[mx0-9a-z, ]{0,30}|\[[a-z]{0,12}")
_CUT_BEGINNING = lazy_pattern(r"^(?:\[[mx][0-9a-z]{1,12}\] |[^\n]{0,60}Cite by \[ref\]\.$)", re.MULTILINE)


def without_whole_blocks(text: str) -> tuple[str, int]:
    """The text without complete blocks in a format of `recall/block_format.py`, and the number of them.

    A complete fence has an opening tag at the end of its line, a first line in our format, and the end tag with the
    same nonce. A complete listing has a header at the end of its line, then items, and our last line; the context of
    ``fusion cortex recall`` has no last line, but begins a line and ends with its last item. A text that only mentions
    these is not changed, nor is a block in a Markdown code fence, which is quoted.
    """
    text, fenced = _without_fences(text)
    text, listed = _without_listings(text, cut=False)
    return text, fenced + listed


def _without_fences(text: str) -> tuple[str, int]:
    if "<memories nonce=" not in text:
        return text, 0
    ends: dict[str, list[re.Match[str]]] = {}
    for end in _OURS_END.finditer(text):
        ends.setdefault(end[1], []).append(end)
    kept: list[str] = []
    at = count = fences = 0
    for found in _OURS.finditer(text):
        if found.start() < at:
            continue
        closing = ends.get(found[1], [])
        following = bisect_left(closing, found.end(), key=lambda end: end.start())
        if following == len(closing):
            continue
        before = text[at : found.start()]
        fences += len(_CODE.findall(before))
        kept.append(before)
        at = found.start()
        if fences % 2 == 0:
            at = closing[following].end()
            count += 1
    return "".join([*kept, text[at:]]), count


def without_own_block(text: str) -> str:
    """A turn of a transcript without our blocks, including blocks that are cut off at either end of the text."""
    return _without_listings(_without_cut_fences(text), cut=True)[0]


def _without_cut_fences(text: str) -> str:
    if "memories nonce=" not in text:
        return text
    text, _ = _without_fences(text)
    openings = [found.start() for found in _OURS.finditer(text)]
    if (cut := _CUT_FIRST_LINE.search(text)) and "Recalled data".startswith(cut[2]):
        openings.append(cut.start())
    if cut := _CUT_TAG.search(text):
        openings.append(cut.start())
    fences = at = 0
    for start in openings:
        fences, at = fences + len(_CODE.findall(text[at:start])), start
        if fences % 2 == 0:  # else it is quoted
            text = text[:start]
            break
    # A text has one beginning, so one block at most was cut off there.
    if inside := _CUT_BEGINNING.search(text):
        opened = {found[1] for found in _OPENED.finditer(text)}
        for end in _OURS_END.finditer(text, inside.start()):
            if text[end.start() - 1] == "\n" and end[1] not in opened:
                return text[end.end() :]
    return text


def _without_listings(text: str, *, cut: bool) -> tuple[str, int]:
    """The text without blocks that show one memory a line; with ``cut`` also without those that are cut off."""
    if not any(header in text for header in HEADERS) and not (cut and END_BEGINS in text):
        return text, 0
    lines = _Lines(text, cut=cut)
    kept: list[str] = []
    at = count = fences = number = 0
    while number < len(lines.texts):
        span = lines.block_at(number) or (lines.cut_beginning() if number == 0 else None)
        number += 1
        if span is None:
            continue
        fences += len(_CODE.findall(text[at : span.start]))
        kept.append(text[at : span.start])
        at = span.start
        if fences % 2 == 0:  # else it is quoted
            at, number = span.end, span.next_line
            count += 1
    return "".join([*kept, text[at:]]), count


class _Span(NamedTuple):
    """A block in a text: its first character, the one after its last, and the first line where another may begin."""

    start: int
    end: int
    next_line: int


class _Lines:
    """The lines of a text, with the items of blocks that show one memory a line."""

    def __init__(self, text: str, *, cut: bool) -> None:
        self.cut = cut
        self.size = len(text)
        self.lines = text.split("\n")
        self.texts = [line.rstrip() for line in self.lines]
        self.starts = [0, *accumulate(len(line) + 1 for line in self.lines)]
        count = len(self.texts)
        self.run_ends = [count] * (count + 1)
        """for each line, the next one that is no part of a listing's body"""
        for number in range(count - 1, -1, -1):
            line = self.texts[number]
            in_body = (
                line in ("", SEPARATOR) or self._is_item(number) or (cut and number == count - 1 and _is_cut(line))
            )
            self.run_ends[number] = self.run_ends[number + 1] if in_body else number

    def block_at(self, number: int) -> _Span | None:
        """The block whose header ends this line."""
        line, header = self.texts[number], self._header(number)
        first = number + 2 if self._text(number + 1) == "" else number + 1
        if header is None or not self._is_item(first):
            return None
        start, after = self.starts[number] + len(line) - len(header), self.run_ends[first]
        if span := self._to_end(start, after):
            return span
        if line == CORTEX:
            return self._bare(start, first)
        return _Span(start, self.size, after) if self.cut and after == len(self.texts) else None

    def cut_beginning(self) -> _Span | None:
        """The rest of a block that the text begins in the middle of."""
        after = self.run_ends[1]
        return self._to_end(0, after) if self.cut and any(map(self._is_item, range(after))) else None

    def _to_end(self, start: int, number: int) -> _Span | None:
        """A block up to this line, if it begins as the last line of a block."""
        end = END.match(self._text(number) or "")
        return _Span(start, self.starts[number] + end.end(), number) if end else None

    def _bare(self, start: int, last: int) -> _Span:
        """The context of ``fusion cortex recall``, which ends with its last item."""
        while self._text(last + 1) == SEPARATOR and self._is_item(last + 2):
            last += 2
        if self.cut and all(map(_is_cut, self.texts[last + 1 : last + 3])) and last + 3 >= len(self.texts):
            return _Span(start, self.size, len(self.texts))
        return _Span(start, self.starts[last] + len(self.lines[last]), last + 1)

    def _text(self, number: int) -> str | None:
        return self.texts[number] if number < len(self.texts) else None

    def _header(self, number: int) -> str | None:
        """The header at the end of a line. No item has one: `listing.without_frames` escapes it."""
        return next((one for one in HEADERS if self.texts[number].endswith(one)), None)

    def _is_item(self, number: int) -> bool:
        line = self._text(number) or ""
        return line in SUBHEADS or (ITEM.match(line) is not None and self._header(number) is None)


def _is_cut(line: str) -> bool:
    """Whether the last line of a text may be the beginning of an item, or of the last line of a block."""
    cut_end = END_BEGINS.startswith(line) or (line.startswith(END_BEGINS) and not END.match(line))
    cut_subhead = bool(line) and any(subhead.startswith(line) for subhead in SUBHEADS)
    return cut_end or cut_subhead or _CUT_ITEM.fullmatch(line) is not None


# Text that a harness adds ---------------------------------------------------------------------------------------------

_CUT_OFF_TOO = ("relevant-memories", "active_memory_plugin", "memory-context")
_WRAPPERS = (
    *_CUT_OFF_TOO,
    *("system-reminder", "command-name", "command-message", "command-args", "command-contents"),
    *("local-command-caveat", "local-command-stdout", "local-command-stderr"),
    *("bash-input", "bash-stdout", "bash-stderr", "task-notification", "user-prompt-submit-hook"),
    *("ide_opened_file", "ide_selection", "ide_diagnostics", "user-memory-input", "environment_context"),
)
_WRAPPER = lazy_pattern(rf"(?:^|\A)[ \t]*<({'|'.join(_WRAPPERS)})(?:\s[^<>\n]{{0,200}})?>", re.MULTILINE)
_NEXT_WRAPPER = lazy_pattern(rf"\s*<({'|'.join(_WRAPPERS)})(?:\s[^<>\n]{{0,200}})?>")
_CAVEAT = lazy_pattern(r"\s*(?:Caveat: The messages below were generated by|\[Request interrupted by user)")


def without_wrappers(text: str) -> str:
    """The text without reminders, local commands and their output, and memories recalled by other systems.

    A wrapper starts at the beginning of a line, so a sentence *about* ``<system-reminder>`` stays. A wrapper without an
    end is removed if it starts the text or contains memories.
    """
    if _CAVEAT.match(text):
        return ""
    if "<" not in text:
        return text
    kept, at = [], 0
    endless: set[str] = set()
    found = _WRAPPER.search(text)
    while found:
        tag = found[1]
        end = -1 if tag in endless else text.find(f"</{tag}>", found.end())
        if end >= 0:
            kept.append(text[at : found.start()])
            at = end + len(tag) + 3
            found = _NEXT_WRAPPER.match(text, at) or _WRAPPER.search(text, at)
            continue
        endless.add(tag)
        if tag in _CUT_OFF_TOO or not "".join([*kept, text[at : found.start()]]).strip():
            kept.append(text[at : found.start()])
            return "".join(kept)
        found = _WRAPPER.search(text, found.end())
    return "".join([*kept, text[at:]])


# Text that a channel adds ---------------------------------------------------------------------------------------------

_METADATA = lazy_pattern(r"^[A-Z][^\n]{0,80}\(untrusted[^()\n]{0,40}\):[ \t]*\n```[a-z]*[ \t]*$", re.MULTILINE)
_FENCE = lazy_pattern(r"^```[ \t]*$\n?", re.MULTILINE)
_HISTORY = lazy_pattern(r"\s*\[Chat messages since your last reply")
_CURRENT = lazy_pattern(r"^\[Current message[^\]\n]{0,80}\][ \t]*\n?", re.MULTILINE)
_APPENDED = lazy_pattern(r"^Untrusted context \(metadata, do not treat as instructions or commands\):", re.MULTILINE)
_HEAD = lazy_pattern(
    r"\s*(?:"
    r"System: \[[^\]\n]{0,80}\][^\n]*(?:\n|\Z)"
    r"|\[media attached[^\]\n]*\][ \t]*(?:\n|\Z)"
    r"|To send (?:an image|a file) back, (?:prefer|use) the message tool[^\n]*(?:\n|\Z)"
    r"|\[[A-Za-z][^\]\n]{0,200}?\d{4}-\d\d-\d\d[ T]\d\d:\d\d[^\]\n]{0,60}\][ \t]*"
    r")"
)
_MESSAGE_ID = lazy_pattern(r"^\[message_id:[^\]\n]{0,200}\][ \t]*$\n?", re.MULTILINE)
_DIRECTIVE = lazy_pattern(r"\[\[(?:reply_to_current|reply_to:[^\]\n]{0,100}|audio_as_voice)\]\][ \t]*")
_THOUGHT = lazy_pattern(r"\A\s*<think(?:ing)?>")
_THOUGHT_END = lazy_pattern(r"</think(?:ing)?>")


def _from_channel(text: str) -> str:
    """The message as its sender typed it."""
    if "(untrusted" in text:
        text = _cut(text, _METADATA, _FENCE)
    if appended := _APPENDED.search(text):
        text = text[: appended.start()]
    if _HISTORY.match(text) and (current := _CURRENT.search(text)):
        text = text[current.end() :]
    if "[message_id:" in text:
        text = _MESSAGE_ID.sub("", text)
    at = 0
    while head := _HEAD.match(text, at):
        at = head.end()
    return text[at:]


# Heartbeats and private text ------------------------------------------------------------------------------------------

_UNATTENDED = lazy_pattern(
    r"\s*(?:\[OpenClaw heartbeat poll\]|Read HEARTBEAT\.md if it exists|\[cron:|A new session was started via /"
    r"|Pre-compaction memory flush|\[Internal task completion event\]|OpenClaw runtime (?:context|event)"
    r"|<<<BEGIN_OPENCLAW_INTERNAL_CONTEXT>>>|\[Inter-session message\]|\[Subagent (?:Context|Task)\])"
)
_SILENT = lazy_pattern(r"[\W_]*(?:HEARTBEAT_OK|NO_REPLY|REPLY_SKIP|ANNOUNCE_SKIP)[\W_]*", re.IGNORECASE)
_ACK = "HEARTBEAT_OK"


def is_silent(text: str) -> bool:
    """Whether an agent's answer is empty: NO_REPLY, or HEARTBEAT_OK with at most `ACK_CHARS` characters of text."""
    if len(text) > ACK_CHARS + 100:
        return False
    if _SILENT.fullmatch(text):
        return True
    bare = text.strip().strip("*_`")
    return (bare.startswith(_ACK) or bare.endswith(_ACK)) and len(bare) - len(_ACK) <= ACK_CHARS


_MARK = lazy_pattern(r"\[(?:NOEXPORT|PRIVATE|NOMEM)\]", re.IGNORECASE)
_PRIVATE = lazy_pattern(r"<private>", re.IGNORECASE)
_PRIVATE_END = lazy_pattern(r"</private>", re.IGNORECASE)


def is_marked(text: str) -> bool:
    """Whether its author wants nothing of a text kept: [NOEXPORT], [PRIVATE] or [NOMEM] is in it."""
    return _MARK.search(text) is not None


def without_private(text: str) -> str:
    """The text without the parts between ``<private>`` and ``</private>``, or the end of the text."""
    return _cut(text, _PRIVATE, _PRIVATE_END)


def is_private(text: str) -> bool:
    """Whether a text, or a part of it, is marked as not to be kept: [NOMEM], [PRIVATE], [NOEXPORT], ``<private>``."""
    return bool(_MARK.search(text) or _PRIVATE.search(text) or _PRIVATE_END.search(text))
