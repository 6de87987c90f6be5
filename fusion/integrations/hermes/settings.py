"""The settings of the provider: the file `memory-fusion.json` in the folder of Hermes.

{"user_id": "ada", "providers": ["honcho", "mem0"], "policy": {"turn": "all", "memory": ["mem0"]}}
"""

from __future__ import annotations

import json
import os
import secrets
from collections.abc import Mapping
from pathlib import Path
from typing import Annotated, Any, Literal

from pydantic import BaseModel, ConfigDict, Field, ValidationError

from fusion.errors import SettingsError

FILE = "memory-fusion.json"
MAX_BYTES = 1 << 20

Kind = Literal["turn", "memory", "session", "delegation"]
"""what is written: a turn, an entry of MEMORY.md or USER.md, the end of a session, the result of a subagent"""
Name = Annotated[str, Field(min_length=1, max_length=64)]
Rule = Literal["all", "first", "none"] | list[Name]
"""who gets what is written: all providers, the first that takes it, none, or those that are named"""


class Settings(BaseModel):
    """What `memory-fusion.json` may have; each member has a default."""

    model_config = ConfigDict(extra="forbid", frozen=True)

    url: str = ""
    """a server by its URL, with the API key in FUSION_API_KEY; without it that of the home, which is started"""
    home: str = ""
    """the folder of the home; without it the user's own"""
    user_id: str = ""
    """whose memories those of the terminal are; "" for a home of one person"""
    users: dict[str, Name] = {}
    """users by the name that a platform gives them: {"telegram:123": "ada"}"""
    project: str = ""
    capture: bool = True
    """whether turns are kept in memory-fusion"""
    tools: bool = True
    """whether the model gets memory-fusion's tools"""
    recall_ms: Annotated[int, Field(ge=10, le=7_000)] = 200
    """milliseconds that a prompt waits for memory-fusion"""
    providers: list[Name] = []
    """the names of the providers behind this one, as Hermes has them"""
    policy: Rule | dict[Kind, Rule] = "all"
    """which of them get what is written: one rule, or one for each kind; a kind that is not named goes to all"""
    provider_tools: bool = True
    """whether the model gets the tools of the providers"""
    provider_ms: Annotated[int, Field(ge=10, le=7_000)] = 2_000
    """milliseconds that a prompt waits for all of them together; Hermes itself waits 8 seconds"""
    provider_chars: Annotated[int, Field(ge=0, le=100_000)] = 4_000
    """characters of the block that one provider fills at most"""

    def rule(self, kind: Kind) -> Rule:
        """Who gets what is written of this kind."""
        return self.policy.get(kind, "all") if isinstance(self.policy, dict) else self.policy


def read(folder: Path) -> Settings:
    """The settings in a folder of Hermes; the defaults without a file. Raises SettingsError, which names the member."""
    path = folder / FILE
    try:
        with path.open("rb") as file:
            content = file.read(MAX_BYTES + 1)
    except FileNotFoundError:
        return Settings()
    except OSError as error:
        raise SettingsError(f"{path} cannot be read: {error.strerror}. Check who owns it.") from None
    if len(content) > MAX_BYTES:
        raise SettingsError(
            f"{path} is larger than {MAX_BYTES} bytes. Write it anew: hermes memory setup memory-fusion"
        )
    try:
        return Settings.model_validate_json(content)
    except ValidationError as error:
        raise SettingsError(f"{path}: {_first(error)}. Mend it there, or delete the file for the defaults.") from None


def write(folder: Path, values: Mapping[str, Any]) -> None:
    """Add values to the settings in a folder. Raises SettingsError for one that is not valid, and changes nothing."""
    found = read(folder).model_dump(exclude_defaults=True) | {name: _typed(name, one) for name, one in values.items()}
    try:
        made = Settings.model_validate(found)
    except ValidationError as error:
        raise SettingsError(f"{folder / FILE} was not changed: {_first(error)}.") from None
    text = json.dumps(made.model_dump(exclude_defaults=True), ensure_ascii=False, indent=2)
    whole = folder / f".{FILE}.{secrets.token_hex(4)}"
    try:
        descriptor = os.open(whole, os.O_WRONLY | os.O_CREAT | os.O_EXCL | os.O_NOFOLLOW, 0o600)
        with os.fdopen(descriptor, "w", encoding="utf-8") as file:
            file.write(f"{text}\n")
        whole.replace(folder / FILE)
    finally:
        whole.unlink(missing_ok=True)


def _typed(name: str, value: Any) -> Any:
    """A value as the settings have it: Hermes' setup asks for texts, and lists are separated by commas there."""
    if not isinstance(value, str):
        return value
    names = [part.strip() for part in value.split(",") if part.strip()]
    if name == "providers":
        return names
    return names if name == "policy" and value not in ("all", "first", "none") else value.strip()


def _first(error: ValidationError) -> str:
    """The first mistake, with the path of its member."""
    found = error.errors(include_url=False, include_input=False)[0]
    place = ".".join(str(step) for step in found["loc"])
    return f"{place}: {found['msg']}" if place else str(found["msg"])
