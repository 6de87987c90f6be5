"""The file `memory-fusion.json`, and whose memories a session of Hermes has."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

import pytest

from fusion.errors import SettingsError
from fusion.integrations.hermes.owner import Owner, owner_of
from fusion.integrations.hermes.settings import FILE, MAX_BYTES, Settings, read, write


def test_without_a_file_the_defaults_hold(tmp_path: Path) -> None:
    assert read(tmp_path) == Settings()
    assert Settings().rule("turn") == "all"


def test_a_policy_may_have_a_rule_for_each_kind(tmp_path: Path) -> None:
    (tmp_path / FILE).write_text('{"policy": {"turn": "first", "memory": ["mem0"]}}')
    found = read(tmp_path)
    assert [found.rule("turn"), found.rule("memory"), found.rule("session")] == ["first", ["mem0"], "all"]


@pytest.mark.parametrize(
    ("text", "named"),
    [
        ("no JSON", "Invalid JSON"),
        ("[]", "memory-fusion.json"),
        ('{"provider": ["mem0"]}', "provider: "),
        ('{"policy": "some"}', "policy"),
        ('{"policy": {"turns": "all"}}', "policy"),
        ('{"recall_ms": 60000}', "recall_ms"),
        ('{"providers": [""]}', "providers.0"),
        (" " * (MAX_BYTES + 1), "larger"),
    ],
)
def test_a_mistake_is_named(tmp_path: Path, text: str, named: str) -> None:
    (tmp_path / FILE).write_text(text)
    with pytest.raises(SettingsError, match=named):
        read(tmp_path)


def test_the_setup_writes_what_it_asked_for(tmp_path: Path) -> None:
    (tmp_path / FILE).write_text('{"project": "hjul"}')
    write(tmp_path, {"providers": "honcho, mem0", "policy": "first", "user_id": " ada ", "url": ""})
    assert json.loads((tmp_path / FILE).read_text()) == {
        "project": "hjul",
        "providers": ["honcho", "mem0"],
        "policy": "first",
        "user_id": "ada",
    }
    assert (tmp_path / FILE).stat().st_mode & 0o777 == 0o600
    assert [one.name for one in tmp_path.iterdir()] == [FILE]


def test_the_setup_refuses_a_mistake_and_changes_nothing(tmp_path: Path) -> None:
    with pytest.raises(SettingsError, match="recall_ms"):
        write(tmp_path, {"recall_ms": "soon"})
    assert [*tmp_path.iterdir()] == []


USERS = Settings(user_id="ada", users={"telegram:1": "ada", "discord:1": "berit"})


@pytest.mark.feature("Hermes: users of all platforms are apart, and a group chat has memories of its own")
@pytest.mark.parametrize(
    ("session", "owner"),
    [
        ({"platform": "cli"}, Owner("ada", "private", True)),
        ({"platform": "telegram", "user_id": "1", "chat_type": "dm"}, Owner("ada", "private", True)),
        ({"platform": "discord", "user_id": "1", "chat_type": "dm"}, Owner("berit", "private", True)),
        ({"platform": "signal", "user_id": "1"}, Owner("signal:1", "private", True)),
        ({"platform": "webhook"}, Owner("webhook:unknown", "private", True)),
        (
            {"platform": "telegram", "user_id": "1", "chat_type": "group", "chat_id": "-100"},
            Owner("telegram:chat:-100", "group", True),
        ),
        ({"platform": "slack", "chat_type": "thread"}, Owner("slack:chat:unknown", "group", True)),
        ({"platform": "cron"}, Owner("ada", "private", False)),
        ({"platform": "cli", "agent_context": "subagent"}, Owner("ada", "private", False)),
    ],
)
def test_a_session_has_the_memories_of_its_owner(session: dict[str, Any], owner: Owner) -> None:
    assert owner_of(USERS, session) == owner


def test_without_a_name_the_home_is_of_one_person() -> None:
    assert owner_of(Settings(), {"platform": "cli"}) == Owner(None, "private", True)
