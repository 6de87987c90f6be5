"""`fusion init`: from nothing to a first answer.

Look → show → ask → write the configuration → ingest → answer one question. Nothing is written before everything was
answered, the configuration is written whole or not at all, and what was ingested is kept: after a Ctrl-C at any moment
the home is one that works.
"""

from __future__ import annotations

import asyncio
import os
import re
import shlex
import shutil
import sys
import tempfile
import time
import tomllib
from collections.abc import Callable, Mapping, Sequence
from contextlib import AbstractAsyncContextManager
from dataclasses import asdict, dataclass, field
from importlib.util import find_spec
from pathlib import Path
from typing import TYPE_CHECKING, Any

import fusion as package
from fusion.client import stop_server
from fusion.contract import Scope, VerifiesOptions
from fusion.discover import PORTS, Discovery, Find, Group, Topic, discover, topics
from fusion.doors.cli import render
from fusion.doors.cli.ingest import Summary, ingest
from fusion.doors.cli.plural import counted
from fusion.doors.cli.progress import spinner
from fusion.errors import FusionError, HomeLocked, SettingsError
from fusion.gateway.import_class import resolve
from fusion.home import explain_lock, find_home, owner
from fusion.lib.front_matter import read as read_front_matter
from fusion.lib.words import STOP_WORDS, word_list
from fusion.settings import Chosen, Settings, load, new_file, toml_text
from fusion.sources.files import Limits
from fusion.trust import make_home, require, rerecord

if TYPE_CHECKING:
    from fusion import wire
    from fusion.client import AsyncClient

GROUPS: Mapping[Group, str] = {"notes": "Notes", "sessions": "Sessions", "memories": "Memories"}
PATIENCE_S = 60.0
"""for vectors: everything can be found by its words before they are there"""
QUESTIONS = 6
"""asked at most; the one with the best answer is shown"""
ASKING_S = 5.0
"""after so long no further question is asked"""
BARE = 0.75
"""what the answer to a question of one word, or without a topic, counts, where that to another counts 1"""
FIELDS_FIRST = 0.7
"""what an answer counts whose first excerpt opens with front matter, where prose counts 1"""
LEAST_WORDS, MANY_WORDS = 3, 60
"""different words that an answer has beyond those of its question: with fewer it is none, more count as many"""
BUDGET, RESULTS = 1200, 3
"""of the first answer: it is to be read by a person, on one screen"""
DECIDED = "what was decided?"


class Unanswered(Exception):
    """There is nobody to ask, and ``--yes`` was not given."""


@dataclass(frozen=True, slots=True)
class Asking:
    """How `init` was called. ``user`` is the asking user's home folder; ``named`` is what
    `fusion.trust.require` wants to know; ``ask`` puts a question and returns the line
    that was typed, and is None where nobody can type."""

    home: Path
    user: Path
    cwd: Path
    scan: Sequence[Path] = ()
    yes: bool = False
    dry_run: bool = False
    force: bool = False
    quiet: bool = False
    ask: Callable[[str], str] | None = None
    ports: Mapping[str, Sequence[int]] = field(default_factory=lambda: PORTS)
    named: bool = True

    @property
    def config(self) -> Path:
        return self.home / "fusion.toml"


Gateway = Callable[[], AbstractAsyncContextManager["AsyncClient"]]
"""makes a client of the home's server"""


def init(asking: Asking, gateway: Gateway) -> dict[str, Any]:
    """Sets a home up; returns what ``--json`` prints.

    Raises HomeNotAllowed, SettingsError when there is a configuration already (but for ``force``), HomeLocked when
    another process than a server has the home open, Unanswered when there is nobody to ask.
    """
    _refuse(asking)
    found = asyncio.run(look(asking))
    if not asking.quiet:
        render.discovered(found, asking.user)
    if asking.dry_run:
        _say(asking, f"Nothing was written. Without --dry-run the settings go to {asking.config}.")
        return _told(asking, found)
    chosen = choose(asking, found)  # outside of any event loop, where a Ctrl-C would not reach the question
    kept = _kept_paths(asking.config, found.finds)
    return _told(asking, found) | asyncio.run(set_up(asking, chosen, gateway, kept))


async def set_up(
    asking: Asking, chosen: Sequence[Find], gateway: Gateway, kept: Mapping[str, Sequence[str]]
) -> dict[str, Any]:
    """Writes the configuration, reads in what was chosen, answers a first question. ``kept`` are, by table, the paths
    of the earlier configuration that stay."""
    _write(asking, new_file(_settings(chosen, kept), _opening()))
    summary = await _read_in(asking, chosen, gateway)
    question, answer = (None, None) if summary is None else await _first_answer(chosen, gateway)
    if not asking.quiet:
        _go_on(asking, question, answer)
    where = [str(one.where) for one in chosen]
    return {"chosen": where, "ingested": summary, "question": question, "answer": answer}


def _refuse(asking: Asking) -> None:
    is_empty = asking.home.is_dir() and not any(asking.home.iterdir())
    require(asking.home, named=asking.named or is_empty)  # to set it up is to say that memories belong there
    if asking.config.exists() and not (asking.force or asking.dry_run):
        raise SettingsError(
            f"{asking.config} is there already. `fusion ingest PATH` adds to this home; --force writes the file anew, "
            "with the paths that you added, and keeps the old one beside it"
        )
    holder = None if asking.dry_run else owner(asking.home)
    if holder is not None and not holder.serves:
        raise HomeLocked(explain_lock(asking.home, holder))


async def look(asking: Asking) -> Discovery:
    """What is on this computer, with a spinner."""
    with spinner("looking for notes, sessions and memory servers on this computer", asking.quiet):
        return await discover(asking.user, asking.cwd, asking.scan, never=[asking.home], ports=asking.ports)


def _told(asking: Asking, found: Discovery) -> dict[str, Any]:
    return {
        "home": str(asking.home),
        "config": str(asking.config),
        "dry_run": asking.dry_run,
        "finds": [asdict(one) | {"group": one.group, "large": one.large} for one in found.finds],
        "servers": [asdict(one) | {"used": False} for one in found.servers],
        "complete": found.complete,
    }


# What to take ----------------------------------------------------------------------------------------------------


def choose(asking: Asking, found: Discovery) -> list[Find]:
    """What of the finds is to be used: one question a group. Raises Unanswered."""
    numbered = dict(enumerate(found.finds, start=1))
    if asking.yes or not numbered:
        return [one for one in numbered.values() if not one.large]
    if asking.ask is None:
        raise Unanswered(
            "there is no terminal to ask on: pass --yes to take what is sensible, or --dry-run only to look"
        )
    chosen: list[Find] = []
    for group, name in GROUPS.items():
        offered = {number: one for number, one in numbered.items() if one.group == group}
        if offered:
            chosen += _ask(asking.ask, name, offered)
    return chosen


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
    """The settings that differ from the defaults: whose folders are followed, and what is not installed."""
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


def _list(lines: Sequence[str]) -> str:
    return "\n".join(["[", *lines, "]"])


def _opening() -> str:
    return f"""\
The settings of this home, written by `fusion init` on {time.strftime("%Y-%m-%d")}. They are yours to edit; the server
reads them when it starts (`fusion stop`; the next command starts it again). A line that is a comment shows a default:
take its # away to change it. Environment variables win over this file: FUSION_SERVER__PORT=9000 is `[server] port`.
Relative paths are relative to this file."""


def _write(asking: Asking, text: str) -> None:
    """Whole or not at all; an earlier file is kept beside the new one. A server that read it is stopped."""
    config = asking.config
    make_home(asking.home)
    descriptor, name = tempfile.mkstemp(dir=asking.home, prefix=".fusion-", suffix=".toml")
    try:
        with os.fdopen(descriptor, "w", encoding="utf-8") as file:
            file.write(text)
            file.flush()
            os.fsync(file.fileno())
        if config.exists():
            backup = config.with_name(f"fusion.toml.{time.strftime('%Y%m%dT%H%M%S')}.bak")
            earlier = config.read_bytes()
            backup.touch(mode=0o600)  # it may hold keys, as the file itself
            backup.write_bytes(earlier)
            _say(asking, f"The earlier settings are kept in {backup}")
        Path(name).replace(config)
        rerecord(asking.home)
    except BaseException:
        Path(name).unlink(missing_ok=True)
        raise
    _say(asking, f"Wrote {config}")
    if (stopped := stop_server(asking.home)) is not None:
        _say(
            asking,
            f"Stopped the server at {stopped.url}, which had the earlier settings. The next command starts one at "
            f"a free port; to have it where it was: fusion stop{_home(asking)}; fusion serve{_home(asking)}",
        )


# The memories ----------------------------------------------------------------------------------------------------


async def _read_in(asking: Asking, chosen: Sequence[Find], gateway: Gateway) -> Summary | None:
    """Ingests what was chosen; the server, which follows the notes among it from then on, waits until that is done."""
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
        sys.stderr.write(f"Stopped. What was read so far is kept; this goes on: fusion ingest{_home(asking)} {where}\n")
        raise
    if not asking.quiet:
        render.ingested(summary)
    return summary


async def _first_answer(
    chosen: Sequence[Find], gateway: Gateway, clock: Callable[[], float] = time.monotonic
) -> tuple[str | None, wire.FuseReply | None]:
    """Of a few questions that what was found can answer, the one that its block answers best, with its answer; None
    where none has an answer that says more than the question."""
    until = clock() + ASKING_S
    best: tuple[float, str, wire.FuseReply] | None = None
    async with gateway() as client:
        for question in questions(await asyncio.to_thread(topics, chosen)):
            answer = await client.fuse(question, budget_chars=BUDGET, max_results=RESULTS, explain=True)
            worth = quality(question, answer)
            if worth > (best[0] if best else 0.0):
                best = worth, question, answer
            if clock() > until:
                break
    return (None, None) if best is None else best[1:]


def questions(found: Sequence[Topic]) -> list[str]:
    """Questions about the topics that say most, and what was decided, where a decision stands in one or there is no
    topic at all."""
    asked = [topic.question for topic in found[: QUESTIONS - 1]]
    return [*asked, DECIDED] if not asked or any(topic.decided for topic in found) else asked


def quality(question: str, answer: wire.FuseReply) -> float:
    """How well a block answers a question, for a person who sees one for the first time: it is sure, says much that the
    question does not, from several places, with a date. 0 where it only repeats the question."""
    members = [member for memory in answer["memories"] for member in memory["members"]]
    bodies = [read_front_matter(member["text"])[1] for member in members]
    said = word_list("\n".join(line for body in bodies for line in body))
    more = len(set(said) - set(word_list(question)) - STOP_WORDS)
    if not answer["block"] or more < LEAST_WORDS:
        return 0.0
    sources = {member["place"]["document"] if member["place"] else member["ref"] for member in members}
    dated = any(member["at"] for member in members)
    worth = members[0]["score"] + min(more, MANY_WORDS) / MANY_WORDS + 0.2 * min(len(sources), 3) + 0.1 * dated
    bare = question == DECIDED or (question.isascii() and " " not in question)
    opens_with_fields = members[0]["text"].removeprefix("\ufeff").split("\n") != bodies[0]
    return worth * (BARE if bare else 1.0) * (FIELDS_FIRST if opens_with_fields else 1.0)


def _go_on(asking: Asking, question: str | None, answer: wire.FuseReply | None) -> None:
    """The answer, and what to type next."""
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
    # Only what is there is told of: the plugin stands in a checkout, and is no part of a wheel.
    if find_spec("fusion.doors.mcp"):
        _say(asking, f"  claude mcp add memory-fusion -- {_command()} mcp{home}")
    plugin = Path(package.__file__).parent.parent / "integrations" / "claude-code"
    if plugin.is_dir():
        named = f"FUSION_HOME={shlex.quote(str(asking.home))} " if home else ""
        _say(
            asking,
            f"  {named}claude --plugin-dir {shlex.quote(str(plugin))}    recalls before each prompt, and captures",
        )


def _command() -> str:
    """What another program calls to run `fusion`: a virtual environment is on the PATH of the shell that entered it."""
    found, own = shutil.which("fusion"), Path(sys.executable).with_name("fusion")
    return shlex.quote(str(own)) if own.is_file() and found in (None, str(own)) else "fusion"


def _home(asking: Asking) -> str:
    """The option that names this home, where it is not found without."""
    return "" if asking.home == find_home(cwd=asking.cwd) else f" --home {shlex.quote(str(asking.home))}"


def _say(asking: Asking, line: str) -> None:
    if not asking.quiet:
        sys.stdout.write(line + "\n")
        sys.stdout.flush()
