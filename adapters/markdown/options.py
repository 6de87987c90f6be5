"""The options of Markdown memory."""

from __future__ import annotations

import re
from collections.abc import Mapping
from dataclasses import dataclass, field, fields, replace
from pathlib import Path

from adapters.markdown.media import mime_of
from adapters.markdown.ranking import Ranking
from adapters.options import build, build_known, number
from fusion.contract import DIMENSIONS, NoteFolders, Scope
from fusion.errors import SettingsError
from fusion.lib.ignore import ALWAYS, matcher

TABLE = "[backends.markdown]"
MEDIA_MB = 14.0
"""maximum megabytes of a file: a request may have 20 MB, and writes three bytes of a file as four characters"""


@dataclass(frozen=True, slots=True)
class Options:
    """The keys of `[backends.markdown]`.

    ``paths``: folders and single files of the user's; without any, those of [notes], with its ``ignore`` added and its
    owner and interval where these are not set here. ``bind``: whose they are (scope dimensions by name).
    ``private``: names of files that are never shown to a group. ``ignore``: files to leave out, in the patterns of
    .gitignore, after those that hold anyway: hidden files and folders (`.obsidian` is one), `node_modules`,
    `__pycache__`; `!name` takes one back. ``remember_turns``: write every turn of a conversation down, not just notes.
    ``log_folder``: the folder, in one of ``paths``, that has the user's daily logs (``YYYY-MM-DD.md``), for what an
    agent appends to today's; empty: such lines become notes of the gateway's own.
    ``chunk_tokens``, ``chunk_overlap``: in tokens of about four bytes. ``max_file_mb``: larger files are skipped.
    ``media``: pictures and recordings in ``paths`` are found too, by what a multimodal embedder sees and hears in them;
    they are sent to its server. ``media_max_mb``: larger ones are skipped; at most 14, for what a request may have.
    ``watch``: react to the system's change events, ``debounce_s`` seconds after the first.
    ``scan_interval_s``: seconds for which a search trusts the last scan, where no change events arrive.
    ``interval_s``: seconds between two scheduled scans of all files; 0 is never. ``sync_on_session_start``: scan all
    files when a session asks for the first time. ``sync_on_search``: a search first reads what changed.
    ``ranking``: the keys of `Ranking`, in the same table.
    """

    paths: tuple[Path, ...] = ()
    bind: Scope = field(default_factory=Scope)
    private: tuple[str, ...] = ("MEMORY.md", "memory.md")
    ignore: tuple[str, ...] = ()
    remember_turns: bool = False
    log_folder: Path | None = None
    chunk_tokens: int = number(400, 16)
    chunk_overlap: int = number(80, 0)
    max_file_mb: float = number(4.0, 0.001)
    media: bool = False
    media_max_mb: float = number(10.0, 0.001, MEDIA_MB)
    scan_interval_s: float = number(2.0, 0)
    watch: bool = True
    debounce_s: float = number(1.5, 0)
    interval_s: float = number(300.0, 0)
    sync_on_session_start: bool = True
    sync_on_search: bool = True
    ranking: Ranking = field(default_factory=Ranking)

    def __post_init__(self) -> None:
        for key, patterns in (("ignore", self.ignore), ("private", self.private)):
            try:
                matcher(patterns)
            except re.error as error:
                raise SettingsError(f"{key} has a pattern that makes no sense: {error}") from error
        if self.chunk_overlap >= self.chunk_tokens:
            raise SettingsError("chunk_overlap must be smaller than chunk_tokens")

    @property
    def max_bytes(self) -> int:
        return int(self.max_file_mb * 2**20)

    def limit_of(self, path: str) -> tuple[int, str]:
        """The size limit in bytes of a file of that name, and the setting of the limit."""
        if self.media and mime_of(path):
            return int(self.media_max_mb * 2**20), "media_max_mb"
        return self.max_bytes, "max_file_mb"

    @classmethod
    def of(cls, given: Mapping[str, object], notes: NoteFolders | None = None) -> Options:
        """Reads the table; ``notes`` are the folders of [notes], for a table without ``paths``.

        Raises ``SettingsError`` for a key that does not exist or a value that makes no sense.
        """
        if notes is not None and notes.paths and not given.get("paths"):
            given = _with_notes(given, notes)
        ranking = {one.name for one in fields(Ranking)}
        others = {
            "bind": _scope(given.get("bind", {})),
            "log_folder": _folder(given.get("log_folder") or None),
            "ranking": build_known(Ranking, given, TABLE),
        }
        options = build(cls, {**given, **others}, TABLE, ranking)
        paths = tuple(Path(path).expanduser() for path in options.paths)
        return replace(options, paths=paths, ignore=(*ALWAYS, *map(str, options.ignore)))


def _with_notes(given: Mapping[str, object], notes: NoteFolders) -> dict[str, object]:
    """The table with the folders of [notes] as its ``paths``; ``bind`` keeps the owner unless it names another."""
    bind = given.get("bind", {})
    if notes.scope.user_id and isinstance(bind, Mapping):
        bind = {"user_id": notes.scope.user_id, **bind}
    ignore = given.get("ignore", ())
    if isinstance(ignore, list | tuple):  # else it is refused as it is written
        ignore = (*notes.ignore, *ignore)
    return {"interval_s": notes.every_s, **given, "bind": bind, "paths": notes.paths, "ignore": ignore}


def _folder(value: object) -> Path | None:
    if value is not None and not isinstance(value, str | Path):
        raise SettingsError(f"{TABLE} log_folder must be the path of a folder")
    return Path(value).expanduser() if value else None


def _scope(given: object) -> Scope:
    allowed = ("tenant", *DIMENSIONS, "project")
    if not isinstance(given, Mapping) or not all(k in allowed and isinstance(v, str) and v for k, v in given.items()):
        raise SettingsError(f"{TABLE} bind must give texts to some of {', '.join(allowed)}")
    return Scope(**given)
