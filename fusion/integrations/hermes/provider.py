"""The memory provider that Hermes loads. No failure of memory holds up its agent, or ends it.

Hermes calls `prefetch` before a turn and shows the model its block once, calls `sync_turn` after it, and says when a
session ends or its context is compressed. Everything goes to memory-fusion and to the providers behind this one.
"""

from __future__ import annotations

import json
import logging
from collections.abc import Mapping, Sequence
from concurrent.futures import wait
from dataclasses import replace
from functools import partial
from pathlib import Path
from queue import Full
from typing import Any

from agent.memory_provider import MemoryProvider

from fusion.client import Client
from fusion.errors import FusionError
from fusion.integrations.agent_memory import CAPTURE_S, AgentMemory, Turn
from fusion.integrations.hermes import settings as files
from fusion.integrations.hermes import tools
from fusion.integrations.hermes.call_queue import CallQueue
from fusion.integrations.hermes.joined_block import joined
from fusion.integrations.hermes.memory_files import MemoryFiles
from fusion.integrations.hermes.others import Load, Other, Others, accepted
from fusion.integrations.hermes.owner import owner_of
from fusion.integrations.hermes.settings import Kind, Settings
from fusion.lib.envelope import is_private, said, without_own_block

NAME = "memory-fusion"
API_KEY = "FUSION_API_KEY"
SHUTDOWN_S = 20.0
"""seconds that the end of a session waits until all turns are kept: the server of a home may still be starting"""
FLUSH_S = 0.5
"""seconds that a compression waits until all turns are kept"""
SIDECAR = "api_content"
"""the member of a message with what the model was sent, recalled memories included"""

log = logging.getLogger(__name__)


class FusionProvider(MemoryProvider):
    """memory-fusion as Hermes' one external provider, with others behind it."""

    def __init__(self, folder: Path | None = None, load: Load | None = None) -> None:
        """``folder`` is Hermes' own by default, and ``load`` its way to find a provider by its name."""
        self._folder = folder or _hermes_home()
        self._load = load or _hermes_provider
        self._found: tuple[Settings, Others] | None = None
        self._memory: AgentMemory | None = None
        self._files: MemoryFiles | None = None
        self._mirrored = CallQueue("memory-fusion-files")
        self._attended = True
        self._is_new_context = False

    @property
    def name(self) -> str:
        return NAME

    def is_available(self) -> bool:
        """Whether the settings can be read. No server is asked: one that is down costs an empty block."""
        try:
            self._open()
        except FusionError as error:
            log.error("memory-fusion is off: %s", error)
            return False
        return True

    def _open(self) -> tuple[Settings, Others]:
        """The settings, and the providers behind this one; Hermes asks for their tools before it begins a session."""
        if self._found is None:
            read = files.read(self._folder)
            self._found = read, Others.load(read.providers, NAME, self._load, read.provider_ms / 1000)
        return self._found

    @property
    def _settings(self) -> Settings:
        return self._open()[0]

    @property
    def _others(self) -> Others:
        return self._open()[1]

    # A session

    def initialize(self, session_id: str, **kwargs: Any) -> None:
        try:
            self._begin(session_id, kwargs)
        except (FusionError, OSError, ValueError) as error:
            log.error("the session goes on without memory-fusion: %s", error)
        self._others.start(lambda provider: provider.initialize(session_id, **kwargs))

    def _begin(self, session_id: str, session: Mapping[str, Any]) -> None:
        read, owner = self._settings, owner_of(self._settings, session)
        profile = str(session.get("agent_identity") or "default")
        self._attended = owner.attended
        client = _client(read)
        CallQueue("memory-fusion-start").run(client.ready)  # a home's server takes seconds to start, so begin now
        self._memory = AgentMemory(
            client,
            user_id=owner.user_id,
            session_id=session_id or None,
            agent_id="hermes",
            project=read.project or None,
            framework="hermes",
            recall_s=read.recall_ms / 1000,
            capture=read.capture and owner.attended,
            audience=owner.audience,
        )
        scope = {"user_id": owner.user_id} if owner.user_id else {}
        self._files = MemoryFiles(client, profile, scope, owner.audience)

    def on_session_switch(
        self,
        new_session_id: str,
        *,
        parent_session_id: str = "",
        reset: bool = False,
        rewound: bool = False,
        **kwargs: Any,
    ) -> None:
        """Another session from now on. What earlier blocks showed is gone after a compression, a reset or an undo."""
        if self._memory is not None:
            self._memory = self._memory.bound(session_id=new_session_id)
        self._is_new_context |= reset or rewound or kwargs.get("reason") == "compression"
        named = {
            "parent_session_id": parent_session_id,
            "reset": reset,
            **kwargs,
            **({"rewound": True} if rewound else {}),
        }
        self._others.write("session switch", lambda provider: provider.on_session_switch(new_session_id, **named))

    def on_session_end(self, messages: list[dict[str, Any]]) -> None:
        shared = _shared(messages)
        self._write("session", lambda provider: provider.on_session_end(shared))

    def shutdown(self) -> None:
        """Wait a bounded time for what is still written."""
        self._others.write("shutdown", lambda provider: provider.shutdown())
        if not self.flush(SHUTDOWN_S):
            log.warning("memory-fusion did not get all that was said: its server is down, or still starting")
        if not self._others.flush():
            log.warning("a memory provider was still writing at the end of the session")

    def flush(self, timeout_s: float = CAPTURE_S) -> bool:
        """Wait until memory-fusion has all that was said; whether it was in time."""
        mirrored = self._mirrored.last
        is_mirrored = mirrored is None or not wait([mirrored], timeout_s).not_done
        return (self._memory is None or self._memory.flush(timeout_s)) and is_mirrored

    # Before a turn

    def system_prompt_block(self) -> str:
        texts = self._others.texts("system_prompt_block", lambda provider: provider.system_prompt_block())()
        return "\n\n".join(without_own_block(text) for text in texts.values())

    def on_turn_start(self, turn_number: int, message: str, **kwargs: Any) -> None:
        self._others.ask("on_turn_start", lambda provider: provider.on_turn_start(turn_number, message, **kwargs))()

    def prefetch(self, query: str, *, session_id: str = "") -> str:
        """One block of what memory-fusion and the others recall; "" if nothing helps, or nothing came in time."""
        query = without_own_block(query)
        others = self._others.texts("prefetch", lambda provider: provider.prefetch(query, session_id=session_id))
        return joined(self._recall(query, session_id), others(), self._settings.provider_chars)

    def _recall(self, query: str, session_id: str) -> str:
        memory = self._of(session_id)
        if memory is None:
            return ""
        asker: dict[str, Any] = {"agent_id": "hermes", "session_id": memory.session_id}
        if self._is_new_context:
            asker["new_context"] = True
        block = replace(memory, limits={"asker": asker} if memory.session_id else {}).recall(query)
        self._is_new_context = False
        return block

    def queue_prefetch(self, query: str, *, session_id: str = "") -> None:
        query = without_own_block(query)
        self._others.write("queue_prefetch", lambda provider: provider.queue_prefetch(query, session_id=session_id))

    # What is kept

    def sync_turn(
        self,
        user_content: str,
        assistant_content: str,
        *,
        session_id: str = "",
        messages: list[dict[str, Any]] | None = None,
    ) -> None:
        """Keep a turn, once. What is private, recalled or said by no person goes to nobody."""
        asked, answered = said(user_content, "user"), said(assistant_content, "assistant")
        if not asked.text or not answered.text or not self._attended:
            return
        memory = self._of(session_id)
        if memory is not None:
            memory.keep([Turn("user", user_content), Turn("assistant", assistant_content)])
        given = {} if messages is None else {"messages": _shared(messages)}
        self._write(
            "turn",
            lambda provider: provider.sync_turn(
                asked.text, answered.text, session_id=session_id, **accepted(provider.sync_turn, **given)
            ),
        )

    def on_pre_compress(self, messages: list[dict[str, Any]]) -> str:
        """What the others want in the summary; memory-fusion has kept the turns already."""
        shared = _shared(messages)
        texts = self._others.texts("on_pre_compress", lambda provider: provider.on_pre_compress(shared))
        self.flush(FLUSH_S)
        return "\n\n".join(without_own_block(text) for text in texts().values())

    def on_memory_write(
        self, action: str, target: str, content: str, metadata: Mapping[str, Any] | None = None
    ) -> None:
        """Keep what Hermes' own tool wrote to MEMORY.md or USER.md."""
        given = dict(metadata or {})
        if not self._attended:
            return
        self._write(
            "memory",
            lambda provider: provider.on_memory_write(
                action, target, content, **accepted(provider.on_memory_write, metadata=given)
            ),
        )
        if self._files is not None and self._settings.capture:
            mirror = partial(self._files.apply, action, target, content, str(given.get("old_text") or ""))
            try:
                self._mirrored.run(mirror)
            except Full:
                log.warning("an entry of %s was not kept: too many wait", target)

    def on_delegation(self, task: str, result: str, *, child_session_id: str = "", **kwargs: Any) -> None:
        task, result = without_own_block(task), without_own_block(result)
        self._write(
            "delegation",
            lambda provider: provider.on_delegation(task, result, child_session_id=child_session_id, **kwargs),
        )

    def _write(self, kind: Kind, call: Any) -> None:
        """Have those providers do something whom the policy names for what is written."""
        self._others.write(kind, call, self._settings.rule(kind))

    def _of(self, session_id: str) -> AgentMemory | None:
        return None if self._memory is None else self._memory.bound(session_id=session_id or None)

    # Tools

    def get_tool_schemas(self) -> list[dict[str, Any]]:
        own = [*tools.SCHEMAS] if self._settings.tools else []
        return own + [schema for one in self._members_with_tools() for schema in _schemas(one)]

    def handle_tool_call(self, tool_name: str, args: dict[str, Any], **kwargs: Any) -> str:
        if self._memory is not None and any(tool_name == one["name"] for one in tools.SCHEMAS):
            return tools.call(self._memory, tool_name, args)
        for one in self._members_with_tools():
            if any(tool_name == _name_of(schema) for schema in _schemas(one)):
                return str(one.provider.handle_tool_call(tool_name, args, **kwargs))
        return json.dumps({"error": f"no memory provider has a tool {tool_name!r}"})

    def _members_with_tools(self) -> Sequence[Other]:
        return self._others.members if self._settings.provider_tools else ()

    # Setup

    def get_config_schema(self) -> list[dict[str, Any]]:
        return [
            {"key": "url", "description": "URL of a memory-fusion server (empty: the one of your home)", "default": ""},
            {"key": "api_key", "description": "API key of that server", "secret": True, "env_var": API_KEY},
            {"key": "user_id", "description": "Your name in memory-fusion (empty: nobody else uses it)", "default": ""},
            {"key": "providers", "description": "Hermes' providers to keep, by name: honcho, mem0", "default": ""},
            {"key": "policy", "description": "Which of them get what is written: all, first, none", "default": "all"},
        ]

    def save_config(self, values: dict[str, Any], hermes_home: str) -> None:
        files.write(Path(hermes_home), values)

    def backup_paths(self) -> list[str]:
        """The paths of the others. `fusion export` makes a backup of memory-fusion."""
        found: list[str] = []
        for one in self._others.members:
            try:
                found += one.provider.backup_paths()
            except Exception as error:  # noqa: BLE001 - each fails alone
                log.warning("the memory provider %s does not say what to back up: %s", one.name, error)
        return found


def _schemas(other: Other) -> list[dict[str, Any]]:
    try:
        return [schema for schema in other.provider.get_tool_schemas() if _name_of(schema)]
    except Exception as error:  # noqa: BLE001 - each fails alone
        log.warning("the memory provider %s has no tools now: %s", other.name, error)
        return []


def _name_of(schema: Any) -> str:
    """The name of a tool, which some providers wrap in a function."""
    if not isinstance(schema, Mapping):
        return ""
    function = schema.get("function")
    name = (function if isinstance(function, Mapping) else schema).get("name")
    return name if isinstance(name, str) else ""


def _shared(messages: Sequence[Any]) -> list[dict[str, Any]]:
    """The messages that other providers may have: without private ones, and without what was recalled."""
    found = [one for one in messages or () if isinstance(one, Mapping)]
    texts = [one.get("content") for one in found]
    return [
        {name: value for name, value in one.items() if name != SIDECAR}
        | ({"content": without_own_block(text)} if isinstance(text, str) else {})
        for one, text in zip(found, texts, strict=True)
        if not (isinstance(text, str) and is_private(text))
    ]


def _client(read: Settings) -> Client:
    return Client(read.url) if read.url else Client.of_home(Path(read.home).expanduser() if read.home else None)


def _hermes_home() -> Path:
    from hermes_constants import get_hermes_home

    return Path(get_hermes_home())


def _hermes_provider(name: str) -> Any:
    from plugins.memory import load_memory_provider

    return load_memory_provider(name)
