"""Converts the settings of Memory Cortex (seed 002) in OpenClaw's `openclaw.json` into settings of a home.

The block is ``memoryCortex``, or ``infrastructure.memoryCortex`` in OpenClaw's fork. A server in it is accepted only on
this machine or in a private network. Keys without a setting here are listed, and nothing is guessed.
"""

from __future__ import annotations

import re
import socket
from collections.abc import Callable, Mapping
from contextlib import closing
from dataclasses import dataclass, replace
from ipaddress import ip_address
from pathlib import Path
from typing import Any

import orjson

FILE = Path(".openclaw", "openclaw.json")
MAX_BYTES = 4_000_000
PROBE_S = 0.5
EMBEDDER, LANGUAGE_MODEL = "nomic-embed-text", "qwen3-8b"
"""the seed's models, which are not in the block"""

Value = str | int | float | bool


@dataclass(frozen=True, slots=True)
class CortexBlock:
    """A converted block: settings of a home by table and name, and the keys that were left out, with reasons."""

    file: Path
    settings: Mapping[tuple[str, str], Value]
    left_out: Mapping[str, str]


def cortex_block(user: Path) -> CortexBlock | None:
    """The block of OpenClaw's settings in a user's folder; None if it is missing or cannot be read."""
    file = user / FILE
    try:
        if file.is_symlink() or not file.is_file() or file.stat().st_size > MAX_BYTES:
            return None
        settings = _json5(file.read_text(encoding="utf-8"))
    except (OSError, ValueError):
        return None
    for table in (settings, settings.get("infrastructure") if isinstance(settings, dict) else None):
        block = table.get("memoryCortex") if isinstance(table, dict) else None
        if isinstance(block, dict):
            return _with_free_port(read_block(file, block))
    return None


def _with_free_port(block: CortexBlock) -> CortexBlock:
    """The block without its port if another program answers there, most likely Memory Cortex itself."""
    port = block.settings.get(("memory_cortex", "port"))
    if not isinstance(port, int):
        return block
    with closing(socket.socket(socket.AF_INET, socket.SOCK_STREAM)) as probe:
        probe.settimeout(PROBE_S)
        if probe.connect_ex(("127.0.0.1", port)) != 0:
            return block
    settings = {key: value for key, value in block.settings.items() if key != ("memory_cortex", "port")}
    why = f"another program answers on port {port}; stop that, and set [memory_cortex] port = {port}"
    return replace(block, settings=settings, left_out={**block.left_out, "middlewarePort": why})


def read_block(file: Path, block: Mapping[str, Any]) -> CortexBlock:
    """The settings of a block."""
    found: dict[tuple[str, str], Value] = {}
    left_out: dict[str, str] = {}
    for key, value in block.items():
        if key in _HOSTS or key in _PORTS:
            continue
        if key not in _PLAIN:
            left_out[key] = "no setting of Memory Cortex that is known here"
            continue
        setting, is_valid = _PLAIN[key]
        if not is_valid(value):
            left_out[key] = "its value is of another kind, or outside the bounds of the setting"
        elif setting is not None:
            found[setting] = value / 1000 if key in _TO_SECONDS else value
    if found.get(("hooks", "budget_tokens")) or found.get(("hooks", "max_items")):
        found["hooks", "format"] = "long-term"
    _servers(block, found, left_out)
    return CortexBlock(file, found, left_out)


def _servers(block: Mapping[str, Any], found: dict[tuple[str, str], Value], left_out: dict[str, str]) -> None:
    """Add the settings of the servers that a block names by host and port."""
    for name, (host_key, port_key, default_port) in _SERVERS.items():
        if host_key not in block and port_key not in block:
            continue
        host, port = block.get(host_key, "localhost"), block.get(port_key, default_port)
        if not _is_port(port):
            left_out[port_key] = "it is no port"
        elif not isinstance(host, str) or not _is_near(host):
            left_out[host_key] = "it is no address of this machine or of a private network"
        elif name == "middleware":
            if host not in _LOOPBACK:
                left_out[host_key] = "this server listens on [server] host"
            found["memory_cortex", "port"] = port
        elif name == "embed":
            url = f"http://{_in_url(host)}:{port}"
            found |= {("embedder", "provider"): "compatible", ("embedder", "model"): EMBEDDER, ("embedder", "url"): url}
        elif name == "llm":
            found |= {
                ("model", "adapter"): "adapters.models.gateway:Gateway",
                ("model", "model"): LANGUAGE_MODEL,
                ("model", "base_url"): f"http://{_in_url(host)}:{port}/v1",
            }
        elif block.get("hwMonitorEnabled") is not False:
            found["memory_cortex", "hw_monitor_url"] = f"http://{_in_url(host)}:{port}/"


def _is_switch(value: object) -> bool:
    return isinstance(value, bool)


def _within(least: int, most: int) -> Callable[[object], bool]:
    """Whether a value is a number within these bounds."""
    return lambda value: isinstance(value, int) and not isinstance(value, bool) and least <= value <= most


_is_port = _within(1, 65_535)
_PLAIN: Mapping[str, tuple[tuple[str, str] | None, Callable[[object], bool]]] = {
    "enabled": (("memory_cortex", "enabled"), _is_switch),
    "autoIngest": (("memory_cortex", "auto_ingest"), _is_switch),
    "autoRecall": (("memory_cortex", "auto_recall"), _is_switch),
    "skipHeartbeat": (("memory_cortex", "skip_heartbeat"), _is_switch),
    "recallTimeoutMs": (("hooks", "recall_timeout_ms"), _within(20, 15_000)),
    "recallMaxTokens": (("hooks", "budget_tokens"), _within(1, 32_000)),
    "recallMaxFacts": (("hooks", "max_items"), _within(1, 1000)),
    "synthesisCacheTtlMs": (("memory_cortex", "synthesis_ttl_s"), _within(0, 86_400_000)),
    "hwMonitorEnabled": (None, _is_switch),
}
"""the setting of each key, None for keys that only affect others; and the check of its value"""
_TO_SECONDS = frozenset({"synthesisCacheTtlMs"})
"""keys in milliseconds whose setting is in seconds"""
_SERVERS = {
    "middleware": ("middlewareHost", "middlewarePort", 8300),
    "embed": ("embedHost", "embedPort", 8105),
    "llm": ("llmHost", "llmPort", 8301),
    "hwMonitor": ("hwMonitorHost", "hwMonitorPort", 8085),
}
"""the keys of each server's host and port, and the seed's port"""
_HOSTS = frozenset(host for host, _, _ in _SERVERS.values())
_PORTS = frozenset(port for _, port, _ in _SERVERS.values())
_LOOPBACK = frozenset({"localhost", "127.0.0.1", "::1"})


def _is_near(host: str) -> bool:
    """Whether a host is this machine, or an address of a private network; names are not looked up."""
    try:
        return host == "localhost" or ip_address(host).is_private
    except ValueError:
        return False


def _in_url(host: str) -> str:
    return f"[{host}]" if ":" in host else host


_STRING = r'"(?:[^"\\]|\\.?+)*+(?:"|\Z)'
"""a string, or all that follows a quotation mark that no other one ends: so it is read once"""
_COMMENT = re.compile(rf"({_STRING})|//[^\n]*|/\*.*?(?:\*/|\Z)", re.DOTALL)
_TRAILING = re.compile(rf"({_STRING})|,(?=\s*[}}\]])", re.DOTALL)


def _json5(text: str) -> Any:
    """JSON with comments and trailing commas, as OpenClaw's settings often are. Raises ValueError for more of JSON5."""
    try:
        return orjson.loads(text)
    except orjson.JSONDecodeError:
        for pattern in (_COMMENT, _TRAILING):
            text = pattern.sub(lambda found: found[1] or "", text)
        return orjson.loads(text)
