"""`fusion init`: looks, shows, asks, writes the settings, ingests, and answers one question.

Nothing is written before all questions are answered. The settings are written whole or not at all, and what was
ingested is kept, so that a Ctrl-C at any moment leaves a working home or none.
"""

from __future__ import annotations

import asyncio
import re
import shlex
import shutil
import sys
import time
import tomllib
from collections.abc import Callable, Mapping, Sequence
from dataclasses import asdict, dataclass, field
from importlib.util import find_spec
from pathlib import Path
from typing import TYPE_CHECKING, Any

import fusion as package
from fusion.client import stop_server
from fusion.contract import Scope, VerifiesOptions
from fusion.discover import PORTS, CortexBlock, Discovery, Find, Group, discover, foreign
from fusion.doors.cli import render
from fusion.doors.cli.first_answer import BUDGET, RESULTS, Gateway, first_answer
from fusion.doors.cli.ingest import Summary, ingest
from fusion.doors.cli.plural import counted
from fusion.doors.cli.progress import spinner
from fusion.doors.cli.timers import likely_kind
from fusion.errors import FusionError, HomeLocked, SettingsError
from fusion.gateway.import_class import resolve
from fusion.home import explain_lock, find_home, owner
from fusion.local_models.files import is_installed
from fusion.local_models.registry import MULTILINGUAL, LocalModel, named
from fusion.new_settings import Chosen, new_file, toml_text
from fusion.settings import Settings, load
from fusion.sources.files import Limits
from fusion.store.private_files import sync, write_atomically
from fusion.trust import make_home, require, rerecord

if TYPE_CHECKING:
    from fusion import wire

GROUPS: Mapping[Group, str] = {"notes": "Notes", "sessions": "Sessions", "memories": "Memories"}
PATIENCE_S = 60.0
"""seconds to wait for vectors; until they are there, everything is found by its words"""


class Unanswered(Exception):
    """There is no terminal to ask on, and ``--yes`` is missing."""


@dataclass(frozen=True, slots=True)
class Asking:
    """The arguments of `init`.

    ``user`` is the user's own folder, ``named`` an argument of `fusion.trust.require`. ``ask`` puts a question and
    returns the typed line; it is None without a terminal.
    """

    home: Path
    user: Path
    cwd: Path
    scan: Sequence[Path] = ()
    yes: bool = False
    dry_run: bool = False
    force: bool = False
    write_workspace: bool = False
    quiet: bool = False
    ask: Callable[[str], str] | None = None
    ports: Mapping[str, Sequence[int]] = field(default_factory=lambda: PORTS)
    named: bool = True

    @property
    def config(self) -> Path:
        return self.home / "fusion.toml"


def init(asking: Asking, gateway: Gateway) -> dict[str, Any]:
    """Sets a home up; returns what ``--json`` prints.

    Raises HomeNotAllowed, SettingsError for existing settings (unless ``force``), HomeLocked if a process that is no
    server has the home open, Unanswered without a terminal.
    """
    _refuse(asking)
    found = asyncio.run(look(asking))
    if not asking.quiet:
        render.discovered(found, asking.user)
    if asking.dry_run:
        _say(asking, f"Nothing was written. Without --dry-run the settings go to {asking.config}.")
        return _report(asking, found)
    cortex = found.cortex if _takes_cortex(asking, found.cortex) else None
    chosen = choose(asking, found)  # not in an event loop, in which a Ctrl-C would not reach the question
    workspace = choose_workspace(asking, chosen)
    kept = _kept_paths(asking.config, found.finds)
    return _report(asking, found) | asyncio.run(set_up(asking, chosen, gateway, kept, workspace, cortex))


async def set_up(
    asking: Asking,
    chosen: Sequence[Find],
    gateway: Gateway,
    kept: Mapping[str, Sequence[str]],
    workspace: Path | None = None,
    cortex: CortexBlock | None = None,
) -> dict[str, Any]:
    """Writes the settings, reads in what was chosen, answers a first question.

    ``kept`` has, by table, the paths of the earlier settings that stay; ``workspace`` may be written to; ``cortex`` has
    the settings of Memory Cortex.
    """
    more = [*_writable(workspace), *_of_cortex(cortex)]
    _write(asking, new_file([*_settings(chosen, kept), *more], _opening()))
    summary = await _read_in(asking, chosen, gateway)
    question, answer = (None, None) if summary is None else await first_answer(chosen, gateway)
    offered = await asyncio.to_thread(_offered_model, chosen)
    if not asking.quiet:
        _go_on(asking, question, answer)
        if workspace is not None:
            _say_upkeep(asking, workspace)
        _say_hosts(asking, chosen)
        _say_cortex(asking, cortex)
        if offered is not None:
            _offer(asking, offered)
    where = [str(one.where) for one in chosen]
    model = None if offered is None else offered.name
    return {
        "chosen": where,
        "workspace": None if workspace is None else str(workspace),
        "ingested": summary,
        "question": question,
        "answer": answer,
        "offered_model": model,
    }


def _refuse(asking: Asking) -> None:
    is_empty = asking.home.is_dir() and not any(asking.home.iterdir())
    require(asking.home, named=asking.named or is_empty)  # setting up an empty folder allows it
    if asking.config.exists() and not (asking.force or asking.dry_run):
        raise SettingsError(
            f"{asking.config} exists. `fusion ingest PATH` adds to this home; --force replaces the file, keeps the "
            "paths that you added, and keeps the old file next to it"
        )
    holder = None if asking.dry_run else owner(asking.home)
    if holder is not None and not holder.serves:
        raise HomeLocked(explain_lock(asking.home, holder))


async def look(asking: Asking) -> Discovery:
    """Searches this computer, with a spinner."""
    with spinner("looking for notes, sessions and memory servers on this computer", asking.quiet):
        return await discover(asking.user, asking.cwd, asking.scan, never=[asking.home], ports=asking.ports)


def _report(asking: Asking, found: Discovery) -> dict[str, Any]:
    return {
        "home": str(asking.home),
        "config": str(asking.config),
        "dry_run": asking.dry_run,
        "finds": [asdict(one) | {"group": one.group, "large": one.large} for one in found.finds],
        "servers": [asdict(one) | {"used": False} for one in found.servers],
        "complete": found.complete,
        "memory_cortex": None if found.cortex is None else _shown(found.cortex),
    }


def _shown(cortex: CortexBlock) -> dict[str, Any]:
    """The settings of Memory Cortex as ``--json`` prints them."""
    settings = {f"{table}.{name}": value for (table, name), value in cortex.settings.items()}
    return {"file": str(cortex.file), "settings": settings, "left_out": dict(cortex.left_out)}


# What to take ----------------------------------------------------------------------------------------------------


def choose(asking: Asking, found: Discovery) -> list[Find]:
    """Asks for each group which finds to use. Raises Unanswered."""
    numbered = dict(enumerate(found.finds, start=1))
    if asking.yes or not numbered:
        return [one for one in numbered.values() if not one.large]
    if asking.ask is None:
        raise Unanswered(
            "there is no terminal to ask on: add --yes to use all that is not large, or --dry-run to look only"
        )
    chosen: list[Find] = []
    for group, name in GROUPS.items():
        offered = {number: one for number, one in numbered.items() if one.group == group}
        if offered:
            chosen += _ask(asking.ask, name, offered)
    return chosen


def _takes_cortex(asking: Asking, cortex: CortexBlock | None) -> bool:
    """Whether to take the settings of Memory Cortex; --yes takes them."""
    if cortex is None or asking.yes or asking.ask is None:
        return cortex is not None
    typed = asking.ask(f"Memory Cortex: take its settings from {cortex.file}? Enter: yes; n: no").strip().lower()
    return typed not in ("n", "no", "none")


def _ask(ask: Callable[[str], str], name: str, offered: Mapping[int, Find]) -> list[Find]:
    sensible = [number for number, one in offered.items() if not one.large]
    numbers = " ".join(map(str, sensible)) or "none"
    while True:
        typed = ask(f"{name}: which ones? Enter: {numbers}; a: all; n: none; or their numbers").strip().lower()
        if typed in ("", "y", "yes"):
            return [offered[number] for number in sensible]
        if typed in ("a", "all"):
            return list(offered.values())
        if typed in ("n", "no", "none"):
            return []
        picked = re.findall(r"\d+", typed)
        if re.fullmatch(r"[\d\s,]+", typed) and all(int(number) in offered for number in picked):
            return [one for number, one in offered.items() if str(number) in picked]
        name = f"{', '.join(map(str, offered))} are there. {name.rpartition('. ')[2]}"


WRITTEN = "MEMORY.md, memory/interactions.md, memory/reflect/, .daily-raw/ and .archive/"
"""what jobs write in a workspace"""


def choose_workspace(asking: Asking, chosen: Sequence[Find]) -> Path | None:
    """The agent's workspace that jobs may write to, if the user says so; ``--yes`` does not say it.

    Raises SettingsError where an option says so and there is not exactly one workspace.
    """
    workspaces = [one.where.resolve() for one in chosen if one.kind == "workspace"]
    if asking.write_workspace:
        if len(workspaces) != 1:
            found = "several" if workspaces else "no agent's workspace"
            raise SettingsError(f"--write-workspace: {found} of what is used may be meant; set [workspace] root_folder")
        return workspaces[0]
    if asking.yes or asking.ask is None:
        return None
    for folder in workspaces:
        question = (
            f"May jobs write to {folder}? They write {WRITTEN}; fusion undo takes each change back. y, or Enter: no"
        )
        if asking.ask(question).strip().lower() in ("y", "yes"):
            return folder
    return None


# The configuration -----------------------------------------------------------------------------------------------


NOTES = "notes"
MARKDOWN_ONLY = "backends.markdown"
"""the tables whose ``paths`` are folders of notes"""


def _kept_paths(config: Path, finds: Sequence[Find]) -> dict[str, list[str]]:
    """By table, the paths of the earlier configuration that were not found now, as they are written there.

    A folder that was found is followed if it is chosen. Nothing is kept of a file that cannot be read. A path of
    `MARKDOWN_ONLY` that [notes] has too is named once, in [notes].
    """
    seen = {path.resolve() for one in finds for path in one.paths}
    kept: dict[str, list[str]] = {}
    for name in (NOTES, MARKDOWN_ONLY):
        for path in _paths_in(config, name):
            real = (config.parent / Path(path).expanduser()).resolve()
            if real not in seen:
                seen.add(real)
                kept.setdefault(name, []).append(path)
    return kept


def _paths_in(config: Path, table: str) -> list[str]:
    """The ``paths`` of one table of a configuration; none where the file or the table cannot be read."""
    try:
        value: Any = tomllib.loads(config.read_text(encoding="utf-8"))
        for part in (*table.split("."), "paths"):
            value = value[part]
        return [path for path in value if isinstance(path, str)]
    except (OSError, ValueError, KeyError, TypeError):
        return []


def _settings(chosen: Sequence[Find], kept: Mapping[str, Sequence[str]]) -> list[Chosen]:
    """The settings that differ from the defaults: folders to follow, and backends whose packages are missing."""
    found = [
        f"    {toml_text(str(path))},  # {render.LABELS[one.kind]}, {counted(one.files, 'file')} when it was found"
        for one in chosen
        if one.group == "notes"
        for path in one.paths
    ]
    before = {table: [f"    {toml_text(path)},  # as it was before" for path in paths] for table, paths in kept.items()}
    settings = []
    if notes := [*before.get(NOTES, ()), *found]:
        settings.append(
            Chosen(NOTES, "paths", _list(notes), "edits there are searchable in every backend within seconds")
        )
    if before.get(MARKDOWN_ONLY):  # its own paths replace those of [notes], so it needs both
        reason = "only this backend searches the first of these"
        settings.append(Chosen(MARKDOWN_ONLY, "paths", _list([*before[MARKDOWN_ONLY], *notes]), reason))
    for name, backend in Settings().backends.items():
        try:
            kind = resolve(backend.adapter, f"backends.{name}.adapter")
            if isinstance(kind, VerifiesOptions):
                kind.verify(backend.options)
        except FusionError as missing:
            settings.append(Chosen(f"backends.{name}", "enabled", "false", f"{missing}; then make it true"))
    return settings


def _writable(workspace: Path | None) -> list[Chosen]:
    if workspace is None:
        return []
    reason = "you allowed it; jobs look after the files of this agent"
    return [
        Chosen("workspace", "write", "true", reason),
        Chosen("workspace", "root_folder", toml_text(str(workspace)), reason),
    ]


def _of_cortex(cortex: CortexBlock | None) -> list[Chosen]:
    """The settings that a block of Memory Cortex has."""
    if cortex is None:
        return []
    reason = f"memoryCortex in {cortex.file} has it so"
    return [Chosen(table, name, _toml(value), reason) for (table, name), value in cortex.settings.items()]


def _toml(value: str | int | float | bool) -> str:
    return toml_text(value) if isinstance(value, str) else str(value).lower()


def _list(lines: Sequence[str]) -> str:
    return "\n".join(["[", *lines, "]"])


def _opening() -> str:
    return f"""\
The settings of this home, written by `fusion init` on {time.strftime("%Y-%m-%d")}. They are yours to edit; the server
reads them when it starts (`fusion stop`; the next command starts it again). A line that is a comment shows a default:
take its # away to change it. Environment variables win over this file: FUSION_SERVER__PORT=9000 is `[server] port`.
Relative paths are relative to this file."""


def _write(asking: Asking, text: str) -> None:
    """Writes the settings whole or not at all, keeps an earlier file next to them, and stops a running server."""
    config = asking.config
    make_home(asking.home)
    if config.exists():
        backup = config.with_name(f"fusion.toml.{time.strftime('%Y%m%dT%H%M%S')}.bak")
        write_atomically(backup, config.read_bytes())
        _say(asking, f"The earlier settings are kept in {backup}")
    write_atomically(config, text.encode())
    sync(config)
    rerecord(asking.home)
    _say(asking, f"Wrote {config}")
    if (stopped := stop_server(asking.home)) is not None:
        _say(
            asking,
            f"Stopped the server at {stopped.url}, which had the earlier settings. The next command starts one at "
            f"a free port; to keep the old port: fusion stop{_home(asking)}; fusion serve{_home(asking)}",
        )


# The memories ----------------------------------------------------------------------------------------------------


async def _read_in(asking: Asking, chosen: Sequence[Find], gateway: Gateway) -> Summary | None:
    """Ingests what was chosen. The server, which follows the notes afterwards, waits for the end of it."""
    paths = [path for one in chosen for path in one.paths]
    if not paths:
        return None
    settings = load(home=asking.home)
    limits = Limits.of(settings.ingest, settings.sessions)
    try:
        summary = await ingest(
            paths, Scope(), gateway(), patience_s=PATIENCE_S, quiet=asking.quiet, home=asking.home, limits=limits
        )
    except asyncio.CancelledError:
        where = " ".join(shlex.quote(str(path)) for path in paths)
        sys.stderr.write(f"Stopped. What was read so far is kept. To go on: fusion ingest{_home(asking)} {where}\n")
        raise
    if not asking.quiet:
        render.ingested(summary)
    return summary


def _go_on(asking: Asking, question: str | None, answer: wire.FuseReply | None) -> None:
    """Prints the answer, and what to type next."""
    home = _home(asking)
    if question and answer:
        _say(asking, f"\n$ fusion fuse{home} {shlex.quote(question)} --budget {BUDGET} --max-results {RESULTS}")
        render.fused(answer)
    _say(
        asking,
        f"""
Go on:
  fusion fuse{home} "…"        ask anything
  fusion remember{home} "…"    add a memory; fusion ingest{home} PATH adds files
  fusion status{home}          what is there; fusion doctor{home} says what is wrong""",
    )


def _say_upkeep(asking: Asking, workspace: Path) -> None:
    """Prints what the jobs that write to a workspace need."""
    home = _home(asking)
    _say(asking, f"  fusion shepherd promote{home}    approve MEMORY.md, so that it is kept from drifting")
    _say(asking, f"  fusion jobs install{home} --{likely_kind()}    timers for the jobs that write to {workspace}")


def _say_cortex(asking: Asking, cortex: CortexBlock | None) -> None:
    """Prints what clients of Memory Cortex need at the port that is taken over."""
    port = None if cortex is None else cortex.settings.get(("memory_cortex", "port"))
    if port is not None:
        _say(
            asking,
            f"  Clients of Memory Cortex on port {port} need the token (fusion token{_home(asking)}).\n"
            f"  For those that send none: open_to_local_users = true in [memory_cortex] of {asking.config}",
        )


def _say_hosts(asking: Asking, chosen: Sequence[Find]) -> None:
    """Prints how agents are connected. The plugins are in a checkout of the sources, not in a wheel."""
    home = _home(asking)
    if find_spec("fusion.doors.mcp"):
        _say(asking, f"  claude mcp add memory-fusion -- {_command()} mcp{home}")
    plugins = Path(package.__file__).parent.parent / "integrations"
    if not plugins.is_dir():
        return
    named = f"FUSION_HOME={shlex.quote(str(asking.home))} " if home else ""
    claude = shlex.quote(str(plugins / "claude-code"))
    _say(asking, f"  {named}claude --plugin-dir {claude}    recalls before each prompt, and captures")
    if any(one.kind in ("workspace", "openclaw") for one in chosen):
        folder = shlex.quote(str(plugins / "openclaw"))
        install = f"openclaw plugins install --link {folder} --force --accept-capabilities"
        _say(asking, f"  {install}    the same for OpenClaw; its README.md has two settings more")


def _offered_model(chosen: Sequence[Find]) -> LocalModel | None:
    """The embedder for the language of these notes, where the default one is a poor choice."""
    return named(MULTILINGUAL) if foreign(chosen) else None


def _offer(asking: Asking, model: LocalModel) -> None:
    """Says how to get a model for notes in other languages; downloads nothing."""
    install = "" if is_installed(model) else f"  {model.add_command}\n"
    _say(
        asking,
        f"""
Your notes are not in English, and the embedding model of this home knows English best. One that knows many languages:
{install}  [embedder] model = "{model.name}"    in {asking.config}; then fusion stop{_home(asking)}""",
    )


def _command() -> str:
    """How another program calls `fusion`: by its path in a virtual environment that is not on everybody's PATH."""
    found, own = shutil.which("fusion"), Path(sys.executable).with_name("fusion")
    return shlex.quote(str(own)) if own.is_file() and found in (None, str(own)) else "fusion"


def _home(asking: Asking) -> str:
    """The option --home, where commands do not find this home without it."""
    return "" if asking.home == find_home(cwd=asking.cwd) else f" --home {shlex.quote(str(asking.home))}"


def _say(asking: Asking, line: str) -> None:
    if not asking.quiet:
        sys.stdout.write(line + "\n")
        sys.stdout.flush()
