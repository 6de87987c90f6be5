"""Decides when an agent should save memories before its context is compacted, and writes the prompts for that turn.

As in OpenClaw (`memory-flush.ts`, seed 001): shortly before the context window is full, or once the transcript is
large, the agent gets one silent turn in which it saves memories to the day's log. The agent's host runs that turn. All
functions are pure.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from datetime import UTC, datetime, tzinfo
from typing import Literal
from zoneinfo import ZoneInfo, ZoneInfoNotFoundError

from fusion import wire
from fusion.errors import BadInput
from fusion.lib.chunk import tokens

Access = Literal["rw", "ro", "none"]
Trigger = Literal["user", "heartbeat", "cron", "subagent"]
Reason = Literal[
    "tokens",  # they reach the threshold
    "transcript",  # its bytes reach theirs
    "overflow",  # the model has refused the context already
    "not_yet",
    "unknown_tokens",  # neither tokens nor a transcript's size are known, so nothing can be decided
    "already_flushed",
    "disabled",
    "unattended",
    "read_only",
    "cli_backend",
]

DAY = "YYYY-MM-DD"
"""placeholder for the day's date in prompts"""
LOG = f"memory/{DAY}.md"
SILENT = "NO_REPLY"

SAFETY = (
    f"Store durable memories only in {LOG} (create memory/ if needed).",
    (
        "Treat workspace bootstrap/reference files such as MEMORY.md, SOUL.md, TOOLS.md, and AGENTS.md as read-only "
        "during this flush; never overwrite, replace, or edit them."
    ),
    f"If {LOG} already exists, APPEND new content only and do not overwrite existing entries.",
)
"""the three lines that are added to every prompt that lacks them"""

_OR_NOTHING = f"If nothing to store, reply with {SILENT}."
PROMPT = "\n".join(("Pre-compaction memory flush.", *SAFETY, _OR_NOTHING))
"""the prompt, in OpenClaw's words"""
SYSTEM_PROMPT = "\n".join(
    (
        "Pre-compaction memory flush turn.",
        "The session is near auto-compaction; capture durable memories to disk.",
        *SAFETY,
        f"You may reply, but usually {SILENT} is correct.",
    )
)
"""the system prompt, in OpenClaw's words"""


@dataclass(frozen=True, slots=True)
class Rules:
    """The thresholds for a flush, in tokens and bytes; ``force_transcript_bytes`` 0 ignores the transcript's size.

    The seed has 2 MB for the transcript and 4,000 for the soft threshold; current OpenClaw has the former off and a
    floor of 20,000.
    """

    enabled: bool = True
    reserve_floor_tokens: int = 20_000
    soft_threshold_tokens: int = 4_000
    force_transcript_bytes: int = 0

    def threshold(self, window_tokens: int) -> int:
        """The number of tokens from which a flush is due. Raises BadInput if it is not positive."""
        threshold = window_tokens - self.reserve_floor_tokens - self.soft_threshold_tokens
        if threshold <= 0:
            raise BadInput(
                f"a context window of {window_tokens:,} tokens leaves nothing after reserve_floor_tokens "
                f"({self.reserve_floor_tokens:,}) and soft_threshold_tokens ({self.soft_threshold_tokens:,}): "
                "lower these two, or disable the flush"
            )
        return threshold


@dataclass(frozen=True, slots=True)
class Context:
    """The state of a session. ``total_tokens`` is None if its host does not know the present number.

    ``incoming`` is the next message, which the window must also hold. ``compactions`` is the number of compactions so
    far, and ``flushed_at`` that number at the last flush.
    """

    window_tokens: int
    total_tokens: int | None = None
    incoming: str = ""
    transcript_bytes: int | None = None
    compactions: int = 0
    flushed_at: int | None = None
    overflowed: bool = False
    trigger: Trigger = "user"
    workspace: Access = "rw"
    cli_backend: bool = False


def plan(
    context: Context, rules: Rules, now: datetime, zone: str = "", *, prompt: str = "", system_prompt: str = ""
) -> wire.FlushPlan:
    """The plan for a session at ``now``. ``zone`` is the user's time zone (IANA); empty: the machine's.

    ``prompt`` and ``system_prompt`` replace the default ones; the safety lines are added to them. Raises BadInput.
    """
    threshold = rules.threshold(context.window_tokens)
    expected = None if context.total_tokens is None else context.total_tokens + tokens(context.incoming)
    reason = _reason(context, rules, threshold, expected)
    here = local(now, zone)
    name = zone or here.tzname() or "UTC"
    time = f"Current time: {here:%A, %Y-%m-%d %H:%M} ({name})"
    return wire.FlushPlan(
        flush=reason in ("tokens", "transcript", "overflow"),
        reason=reason,
        threshold_tokens=threshold,
        expected_tokens=expected,
        prompt=_worded(prompt or PROMPT, (*SAFETY, _OR_NOTHING, time), here),
        system_prompt=_worded(system_prompt or SYSTEM_PROMPT, SAFETY, here),
        path=LOG.replace(DAY, f"{here:%Y-%m-%d}"),
        time=here.isoformat(timespec="seconds"),
        zone=name,
        rules={
            "enabled": rules.enabled,
            "reserve_floor_tokens": rules.reserve_floor_tokens,
            "soft_threshold_tokens": rules.soft_threshold_tokens,
            "force_transcript_bytes": rules.force_transcript_bytes,
        },
    )


def _reason(context: Context, rules: Rules, threshold: int, expected: int | None) -> Reason:
    """The first reason that applies: reasons against a flush come before reasons for it."""
    if not rules.enabled:
        return "disabled"
    if context.trigger != "user":
        return "unattended"
    if context.workspace != "rw":
        return "read_only"
    if context.cli_backend:
        return "cli_backend"
    if context.flushed_at == context.compactions:
        return "already_flushed"
    if context.overflowed:
        return "overflow"
    if expected is not None and expected >= threshold:
        return "tokens"
    size = context.transcript_bytes if rules.force_transcript_bytes else None
    if size is not None and size >= rules.force_transcript_bytes:
        return "transcript"
    return "unknown_tokens" if expected is None and size is None else "not_yet"


def _worded(text: str, lines: Sequence[str], here: datetime) -> str:
    """A prompt with those of ``lines`` that it lacks, and the date in place of `DAY`."""
    missing = [line for line in lines if line not in text]
    return "\n".join([text.rstrip(), *missing]).replace(DAY, f"{here:%Y-%m-%d}")


def local(now: datetime, zone: str) -> datetime:
    """``now`` in a time zone; an empty ``zone`` is the machine's. Raises BadInput for an unknown one."""
    return now.astimezone(_zone(zone))


def _zone(name: str) -> tzinfo | None:
    if not name:
        return None
    if name == "UTC":
        return UTC  # also where the system has no table of zones
    try:
        return ZoneInfo(name)
    except (ZoneInfoNotFoundError, ValueError, OSError):
        raise BadInput("zone: there is no such time zone; write an IANA name, Europe/Berlin") from None
