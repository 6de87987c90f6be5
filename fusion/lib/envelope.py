"""Extracts the words of a speaker from a turn of a transcript, without the text that programs added.

Programs add metadata of the channel, reminders of the harness, recalled memories (capturing our own again would
duplicate them) and heartbeats. Text that its author marked as private is removed as well. All functions are pure and
take time linear in the text.
"""

from __future__ import annotations

import re
from bisect import bisect_left
from typing import Literal, NamedTuple

Speaker = Literal["user", "assistant"]

MARKED = "marked as private"
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
    if _MARK.search(text):
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
_OPENED = re.compile(_TAG)
_OURS = re.compile(rf"{_TAG}[ \t]*\n(?={_FIRST_LINE})")
_OURS_END = re.compile(r'</memories nonce="([^"<>\n]{1,80})">')
_CODE = re.compile(r"^ {0,3}(?:```|~~~)", re.MULTILINE)
_CUT_TAG = re.compile(r'<memories nonce=(?:"[^"<>\n]{0,80}"?)?\Z')
_CUT_FIRST_LINE = re.compile(rf"{_TAG}[ \t]*\n(?=(.{{1,13}})\Z)")
_CUT_BEGINNING = re.compile(r"^(?:\[[mx][0-9a-z]{1,12}\] |[^\n]{0,60}Cite by \[ref\]\.$)", re.MULTILINE)


def without_whole_blocks(text: str) -> tuple[str, int]:
    """The text without complete blocks in the format of `recall/pack.py`, and the number of them.

    A complete block has an opening tag at the end of its line, a first line in our format, and the end tag with the
    same nonce. A text that only mentions the tags is not changed, nor is a block in a Markdown code fence, which is
    quoted.
    """
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
    if "memories nonce=" not in text:
        return text
    text, _ = without_whole_blocks(text)
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


# Text that a harness adds ---------------------------------------------------------------------------------------------

_CUT_OFF_TOO = ("relevant-memories", "active_memory_plugin")
_WRAPPERS = (
    *_CUT_OFF_TOO,
    *("system-reminder", "command-name", "command-message", "command-args", "command-contents"),
    *("local-command-caveat", "local-command-stdout", "local-command-stderr"),
    *("bash-input", "bash-stdout", "bash-stderr", "task-notification", "user-prompt-submit-hook"),
    *("ide_opened_file", "ide_selection", "ide_diagnostics", "user-memory-input", "environment_context"),
)
_WRAPPER = re.compile(rf"(?:^|\A)[ \t]*<({'|'.join(_WRAPPERS)})(?:\s[^<>\n]{{0,200}})?>", re.MULTILINE)
_NEXT_WRAPPER = re.compile(rf"\s*<({'|'.join(_WRAPPERS)})(?:\s[^<>\n]{{0,200}})?>")
_CAVEAT = re.compile(r"\s*(?:Caveat: The messages below were generated by|\[Request interrupted by user)")


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

_METADATA = re.compile(r"^[A-Z][^\n]{0,80}\(untrusted[^()\n]{0,40}\):[ \t]*\n```[a-z]*[ \t]*$", re.MULTILINE)
_FENCE = re.compile(r"^```[ \t]*$\n?", re.MULTILINE)
_HISTORY = re.compile(r"\s*\[Chat messages since your last reply")
_CURRENT = re.compile(r"^\[Current message[^\]\n]{0,80}\][ \t]*\n?", re.MULTILINE)
_APPENDED = re.compile(r"^Untrusted context \(metadata, do not treat as instructions or commands\):", re.MULTILINE)
_HEAD = re.compile(
    r"\s*(?:"
    r"System: \[[^\]\n]{0,80}\][^\n]*(?:\n|\Z)"
    r"|\[media attached[^\]\n]*\][ \t]*(?:\n|\Z)"
    r"|To send (?:an image|a file) back, (?:prefer|use) the message tool[^\n]*(?:\n|\Z)"
    r"|\[[A-Za-z][^\]\n]{0,200}?\d{4}-\d\d-\d\d[ T]\d\d:\d\d[^\]\n]{0,60}\][ \t]*"
    r")"
)
_MESSAGE_ID = re.compile(r"^\[message_id:[^\]\n]{0,200}\][ \t]*$\n?", re.MULTILINE)
_DIRECTIVE = re.compile(r"\[\[(?:reply_to_current|reply_to:[^\]\n]{0,100}|audio_as_voice)\]\][ \t]*")
_THOUGHT = re.compile(r"\A\s*<think(?:ing)?>")
_THOUGHT_END = re.compile(r"</think(?:ing)?>")


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

_UNATTENDED = re.compile(
    r"\s*(?:\[OpenClaw heartbeat poll\]|Read HEARTBEAT\.md if it exists|\[cron:|A new session was started via /"
    r"|Pre-compaction memory flush|\[Internal task completion event\]|OpenClaw runtime (?:context|event)"
    r"|<<<BEGIN_OPENCLAW_INTERNAL_CONTEXT>>>|\[Inter-session message\]|\[Subagent (?:Context|Task)\])"
)
_SILENT = re.compile(r"[\W_]*(?:HEARTBEAT_OK|NO_REPLY|REPLY_SKIP|ANNOUNCE_SKIP)[\W_]*", re.IGNORECASE)
_ACK = "HEARTBEAT_OK"


def is_silent(text: str) -> bool:
    """Whether an agent's answer is empty: NO_REPLY, or HEARTBEAT_OK with at most `ACK_CHARS` characters of text."""
    if len(text) > ACK_CHARS + 100:
        return False
    if _SILENT.fullmatch(text):
        return True
    bare = text.strip().strip("*_`")
    return (bare.startswith(_ACK) or bare.endswith(_ACK)) and len(bare) - len(_ACK) <= ACK_CHARS


_MARK = re.compile(r"\[(?:NOEXPORT|PRIVATE|NOMEM)\]", re.IGNORECASE)
_PRIVATE = re.compile(r"<private>", re.IGNORECASE)
_PRIVATE_END = re.compile(r"</private>", re.IGNORECASE)


def without_private(text: str) -> str:
    """The text without the parts between ``<private>`` and ``</private>``, or the end of the text."""
    return _cut(text, _PRIVATE, _PRIVATE_END)
