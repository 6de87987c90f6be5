"""Whose memories a session of Hermes has, by what Hermes says of its platform, chat and user.

A chat of several people has memories of its own. Several of them may share one session, and Hermes names the one who
began it, so nobody's own memories may appear there.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any, Literal

from fusion.integrations.hermes.settings import Settings

ID_CHARS = 256
ALONE = frozenset({"", "dm", "private"})
"""chats of one person"""
LOCAL = frozenset({"cli", "tui", "cron", "subagent"})
"""platforms of the person whose computer it is"""
UNATTENDED = frozenset({"cron", "subagent", "flush"})
"""contexts and platforms in which no person speaks"""


@dataclass(frozen=True, slots=True)
class Owner:
    """A user, or a chat of several people. Without a name: the one person of the home."""

    user_id: str | None
    audience: Literal["private", "group"]
    attended: bool
    """whether a person speaks, so that turns are kept"""


def owner_of(settings: Settings, session: Mapping[str, Any]) -> Owner:
    """The owner, by the arguments with which Hermes initializes a provider."""
    platform = _text(session, "platform") or "cli"
    attended = not UNATTENDED & {platform, _text(session, "agent_context")}
    if _text(session, "chat_type") not in ALONE:
        chat = _text(session, "chat_id") or _text(session, "gateway_session_key") or "unknown"
        return Owner(f"{platform}:chat:{chat}"[:ID_CHARS], "group", attended)
    user = _text(session, "user_id")
    if not user and platform in LOCAL:
        return Owner(settings.user_id or None, "private", attended)
    named = f"{platform}:{user or _text(session, 'chat_id') or 'unknown'}"[:ID_CHARS]
    return Owner(settings.users.get(named, named), "private", attended)


def _text(session: Mapping[str, Any], name: str) -> str:
    """A value in one line; "" if there is none."""
    value = session.get(name)
    return " ".join(str(value).split()) if isinstance(value, str | int) else ""
