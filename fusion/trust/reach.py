"""Lists what a settings file would load, reach, read and follow. It only parses the file as TOML.

Settings are recognised by the form of their names, as `fusion.settings` and every adapter spell them (``*_env``,
``*_file``, ``*_folder``, ``paths``, ``adapter``), so the options of external adapters are understood, too.
"""

from __future__ import annotations

import re
import tomllib
from collections import defaultdict
from collections.abc import Iterator, Mapping
from dataclasses import dataclass
from ipaddress import ip_address
from pathlib import Path
from typing import Any
from urllib.parse import urlsplit

from fusion.trust.fingerprint import References

OWN_VARIABLES = frozenset(
    "ANTHROPIC_API_KEY COGNEE_API_KEY COGNEE_PASSWORD GEMINI_API_KEY HINDSIGHT_API_KEY MEM0_API_KEY MEMGRAPH_PASSWORD "
    "MISTRAL_API_KEY NEO4J_PASSWORD OPENAI_API_KEY POSTGRES_PASSWORD QDRANT_API_KEY VOYAGE_API_KEY".split()
)
"""variables that a settings file may name for a key or a password, with all that begin with FUSION_"""

EMBEDDED = frozenset({"adapters.markdown", "adapters.cortex", "adapters.mem0", "adapters.triples", "adapters.inmemory"})
"""modules of backends that reach nothing outside the home by default"""
_BUILT_IN_EMBEDDER = "adapters.embedders.providers:Providers"
_SAFE_TOP = frozenset({"recipe", "backends_only", "log_level"})
_SAFE_TABLES = frozenset({"journal", "receipts", "ingest", "tools", "hooks", "checks"})
_SAFE_SERVER = frozenset({"host", "port", "keys", "allowed_hosts", "allowed_origins"})
"""settings of [server] that `_safe_server` checks; its other settings are numbers"""
_SAFE_TEXTS = frozenset({"merge", "fallback_for", "ignore", "private", "paths", "bind", "weights", "user_id"})
_UNSAFE_NUMBERS = frozenset({"port", "compat_port", "open_to_local_users", "infer", "create", "media"})
"""numbers and switches of a backend that open a port, or make it connect to a server"""


@dataclass(frozen=True, slots=True)
class NamedSetting:
    """One setting of a `Reach`: its dotted key, and its value as text."""

    key: str
    value: str


@dataclass(frozen=True, slots=True)
class Reach:
    """What one settings file would do. ``unreadable`` says why it is not TOML; then the rest is empty.

    The names of the fields are keys of `fusion allow --json`.
    """

    loads: tuple[NamedSetting, ...] = ()
    """external adapters"""
    ours: tuple[NamedSetting, ...] = ()
    """adapters that ship with the gateway"""
    reaches: tuple[NamedSetting, ...] = ()
    """URLs, and providers with a known address"""
    variables: tuple[NamedSetting, ...] = ()
    key_files: tuple[NamedSetting, ...] = ()
    folders: tuple[NamedSetting, ...] = ()
    writes: tuple[NamedSetting, ...] = ()
    """folders of the user's that may be written to"""
    sends: tuple[NamedSetting, ...] = ()
    """backends to which the memory files of the workspace are sent"""
    runs: tuple[NamedSetting, ...] = ()
    """commands of programs that `fusion jobs install` keeps running"""
    listens: tuple[NamedSetting, ...] = ()
    says: tuple[NamedSetting, ...] = ()
    """texts that reach an agent's prompt"""
    recipes_folder: str | None = None
    home: str | None = None
    harmless: bool = True
    unreadable: str = ""

    @property
    def references(self) -> References:
        modules = tuple(sorted({item.value.partition(":")[0] for item in self.loads}))
        return References(self.recipes_folder, modules)


def reach_of(content: bytes | None, folder: Path, around: Path) -> Reach:
    """Lists what a settings file in ``folder`` would do. Folders that it names are harmless below ``around``."""
    if content is None:
        return Reach()
    try:
        table = tomllib.loads(content.decode())
    except (ValueError, RecursionError) as error:
        return Reach(harmless=False, unreadable=str(error) or type(error).__name__)
    found: defaultdict[str, list[NamedSetting]] = defaultdict(list)
    for key, value in _leaves(table):
        kind = _kind(key, value)
        if kind == "adapter":
            found["ours" if shipped(str(value)) else "loads"].append(NamedSetting(key, str(value)))
        elif kind is not None and value not in ("", None):
            path = kind in ("key_files", "folders", "writes")
            text = "true" if value is True else without_password(str(value))
            found[kind].append(NamedSetting(key, str(rooted(text, folder)) if path else text))
    top = {name: table.get(name) for name in ("recipes_folder", "home")}
    named = {name: str(rooted(value, folder)) for name, value in top.items() if isinstance(value, str) and value}
    items: dict[str, Any] = {name: tuple(items) for name, items in found.items()}
    return Reach(
        **items,
        recipes_folder=named.get("recipes_folder"),
        home=named.get("home"),
        harmless=_harmless(table, folder, around),
    )


def external_variables(reach: Reach) -> list[str]:
    """The environment variables that it names, except the gateway's own."""
    names = {item.value for item in reach.variables}
    return sorted(name for name in names if name not in OWN_VARIABLES and not name.startswith("FUSION_"))


def external_key_files(reach: Reach, home: Path) -> list[str]:
    """The key files that it names outside the home."""
    return sorted({item.value for item in reach.key_files if not Path(item.value).is_relative_to(home)})


def shipped(adapter: str) -> bool:
    """Whether an adapter ships with the gateway: its module is a file of the package next to `fusion`."""
    module, _, name = adapter.partition(":")
    parts = module.split(".")
    if parts[0] != "adapters" or not all(part.isidentifier() for part in parts) or not name.isidentifier():
        return adapter == ""
    file = Path(__file__).resolve().parents[2].joinpath(*parts)
    return file.with_suffix(".py").is_file() or (file / "__init__.py").is_file()


def is_loopback(host: str) -> bool:
    """Whether a host is this machine, by its name or address alone, without a DNS query."""
    if host == "localhost" or host.endswith(".localhost"):
        return True
    try:
        return ip_address(host).is_loopback
    except ValueError:
        return False


_PASSWORD_PARAMETER = re.compile(r"([?&](?:ssl)?password=)[^&]*")
"""of a URL of PostgreSQL"""


def without_password(text: str) -> str:
    """A URL without its password; any other text as it is."""
    try:
        password = urlsplit(text).password
    except ValueError:
        return text
    shown = text if not password else text.replace(f":{password}@", ":…@", 1)
    return _PASSWORD_PARAMETER.sub(r"\1…", shown) if "://" in shown else shown


def host_of(url: str) -> str:
    """The host of a URL; the text itself where it is not a URL."""
    try:
        return urlsplit(url).hostname or url
    except ValueError:
        return url


def rooted(value: str, folder: Path) -> Path:
    """A path of a settings file, absolute and without links, as `fusion.settings` reads it."""
    try:
        return (folder / Path(value).expanduser()).resolve()
    except (RuntimeError, OSError, ValueError):
        return folder / "?"


def _leaves(value: object, path: str = "") -> Iterator[tuple[str, object]]:
    """Yields every value with its dotted key; the entries of a list share the list's key."""
    if isinstance(value, Mapping):
        for name, one in value.items():
            yield from _leaves(one, f"{path}.{name}".lstrip("."))
    elif isinstance(value, list):
        for one in value:
            yield from _leaves(one, path)
    else:
        yield path, value


def _kind(key: str, value: object) -> str | None:
    """The field of `Reach` that a setting belongs to; None for a number or a plain word."""
    name = key.rpartition(".")[2]
    if name == "adapter":
        return "adapter"
    if name.endswith("_env"):
        return "variables"
    if name.endswith("_file"):
        return "key_files"
    if key.startswith("jobs.servers"):
        return "runs"
    if key.startswith("backends.") and name == "workspace":
        return "sends" if value is True else None
    if key == "workspace.root_folder" or name == "log_folder":
        return "writes"
    if name in ("paths", "home") or name.endswith("_folder") or key in ("judge.file", "judge.tokenizer"):
        return "folders"
    if key in ("flush.prompt", "flush.system_prompt"):
        return "says"
    if key in ("server.host", "server.allowed_hosts", "server.allowed_origins") or name == "compat_port":
        return "listens"
    if (
        key in ("memory_cortex.port", "memory_cortex.open_to_local_users", "openclaw_mem.port", "mem0.port", "qmd.port")
        and value
    ):
        return "listens"
    if key.startswith("server.keys"):
        return "listens" if name in ("name", "tenant") else None
    if isinstance(value, str) and ("://" in value or name.endswith(("url", "endpoint", "host", "server"))):
        return "reaches"
    if key in ("embedder.provider", "embedder.next.provider", "judge.provider") and value not in (
        "",
        "local",
        "model",
        "none",
    ):
        return "reaches"
    return "reaches" if name == "preset" else None


def _harmless(table: Mapping[str, Any], folder: Path, around: Path) -> bool:
    """Whether settings name only embedded backends and folders below ``around``: no URL, no key, no text for a prompt.

    Every setting must be known to be harmless.
    """
    return all(_safe(name, value, folder, around) for name, value in table.items())


def _safe(name: str, value: Any, folder: Path, around: Path) -> bool:
    if name in _SAFE_TOP or name in _SAFE_TABLES:
        return True
    if name in ("home", "recipes_folder"):
        return _inside([value], folder, around)
    if not isinstance(value, Mapping):
        return False
    if name == "jobs":
        return not value.get("servers")
    if name == "server":
        return _safe_server(value)
    if name == "embedder":
        return _safe_embedder(value)
    if name == "judge":
        return not value.get("adapter") and value.get("provider", "") in ("", "local") and not value.get("file")
    if name == "model":
        return not value.get("adapter")
    if name in ("memory_cortex", "openclaw_mem", "mem0", "qmd"):
        return all(_is_safe_number(key, one) for key, one in value.items())
    if name in ("notes", "sessions"):
        return "adapter" not in value and _safe_backend(value, folder, around)
    if name == "flush":
        return not {"prompt", "system_prompt"} & value.keys()
    tables = value.values() if name == "backends" else ()
    return name == "backends" and all(isinstance(one, Mapping) and _safe_backend(one, folder, around) for one in tables)


def _safe_server(table: Mapping[str, Any]) -> bool:
    opens = any(table.get(name) for name in ("keys", "allowed_hosts", "allowed_origins"))
    numbers = all(
        isinstance(value, int | float) and not isinstance(value, bool)
        for name, value in table.items()
        if name not in _SAFE_SERVER
    )
    return numbers and not opens and is_loopback(str(table.get("host", "127.0.0.1")))


def _safe_embedder(table: Mapping[str, Any]) -> bool:
    built_in = table.get("adapter", _BUILT_IN_EMBEDDER) in ("", _BUILT_IN_EMBEDDER)
    here = table.get("provider", "local") in ("", "local", "none")
    rest = {name: value for name, value in table.items() if name not in ("adapter", "provider", "next")}
    following = table.get("next", {})
    if following and not (isinstance(following, Mapping) and "next" not in following and _safe_embedder(following)):
        return False
    return built_in and here and not any(isinstance(value, str) and value for value in rest.values())


def _safe_backend(table: Mapping[str, Any], folder: Path, around: Path) -> bool:
    adapter = table.get("adapter", "adapters.inmemory:InMemory")
    if not isinstance(adapter, str) or adapter.partition(":")[0] not in EMBEDDED:
        return False
    for name, value in table.items():
        if name == "paths":
            if not _inside(value, folder, around):
                return False
        elif name not in _SAFE_TEXTS and name != "adapter" and not _is_safe_number(name, value):
            return False
    return True


def _is_safe_number(name: str, value: object) -> bool:
    return isinstance(value, int | float) and not (name in _UNSAFE_NUMBERS and value)


def _inside(paths: object, folder: Path, around: Path) -> bool:
    """Whether all paths are below ``around``."""
    if not isinstance(paths, list):
        return False
    return all(isinstance(path, str) and rooted(path, folder).is_relative_to(around) for path in paths)
