"""The options of Markdown memory, checked once."""

from __future__ import annotations

import re
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field, fields
from math import inf
from pathlib import Path

from adapters.index.merge import TEXT_WEIGHT, VECTOR_WEIGHT
from adapters.markdown.media import mime_of
from adapters.markdown.ranking import MENTION_LIFT, MERGES, Ranking
from fusion.contract import DIMENSIONS, NoteFolders, Scope
from fusion.errors import SettingsError
from fusion.lib.did_you_mean import hint
from fusion.lib.ignore import ALWAYS, matcher

MEDIA_MB = 14.0
"""a request may have 20 MB, and a file in it is written with four characters for three bytes"""


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
    ``interval_s``: seconds between two scheduled scans of all files; 0 is never. ``ranking``: the keys of
    `Ranking`, in the same table.
    """

    paths: tuple[Path, ...] = ()
    bind: Scope = field(default_factory=Scope)
    private: tuple[str, ...] = ("MEMORY.md", "memory.md")
    ignore: tuple[str, ...] = ALWAYS
    remember_turns: bool = False
    log_folder: Path | None = None
    chunk_tokens: int = 400
    chunk_overlap: int = 80
    max_file_mb: float = 4.0
    media: bool = False
    media_max_mb: float = 10.0
    scan_interval_s: float = 2.0
    watch: bool = True
    debounce_s: float = 1.5
    interval_s: float = 300.0
    ranking: Ranking = field(default_factory=Ranking)

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
        known = [f.name for f in (*fields(cls), *fields(Ranking)) if f.name != "ranking"]
        for key in given:
            if key not in known:
                has = f"it has {', '.join(known)}{hint(key, known)}"
                raise SettingsError(f"[backends.markdown] has no setting {key!r}; {has}")
        if notes is not None and notes.paths and not given.get("paths"):
            given = _with_notes(given, notes)
        options = cls(
            paths=tuple(Path(path).expanduser() for path in _texts(given, "paths", ())),
            bind=_scope(given.get("bind", {})),
            private=_texts(given, "private", cls().private),
            ignore=(*ALWAYS, *_texts(given, "ignore", ())),
            log_folder=_folder(given, "log_folder"),
            remember_turns=_flag(given, "remember_turns", cls().remember_turns),
            chunk_tokens=int(_number(given, "chunk_tokens", cls().chunk_tokens, 16)),
            chunk_overlap=int(_number(given, "chunk_overlap", cls().chunk_overlap, 0)),
            max_file_mb=_number(given, "max_file_mb", cls().max_file_mb, 0.001),
            media=_flag(given, "media", cls().media),
            media_max_mb=_number(given, "media_max_mb", cls().media_max_mb, 0.001),
            scan_interval_s=_number(given, "scan_interval_s", cls().scan_interval_s, 0),
            watch=_flag(given, "watch", cls().watch),
            debounce_s=_number(given, "debounce_s", cls().debounce_s, 0),
            interval_s=_number(given, "interval_s", cls().interval_s, 0),
            ranking=_ranking(given),
        )
        for key, patterns in (("ignore", options.ignore), ("private", options.private)):
            try:
                matcher(patterns)
            except re.error as error:
                raise SettingsError(f"[backends.markdown] {key} has a pattern that makes no sense: {error}") from error
        if options.media_max_mb > MEDIA_MB:
            raise SettingsError(f"[backends.markdown] media_max_mb must be at most {MEDIA_MB:g}")
        if options.chunk_overlap >= options.chunk_tokens:
            raise SettingsError("[backends.markdown] chunk_overlap must be smaller than chunk_tokens")
        return options


def _with_notes(given: Mapping[str, object], notes: NoteFolders) -> dict[str, object]:
    """The table with the folders of [notes] as its ``paths``; ``bind`` keeps the owner unless it names another."""
    bind = given.get("bind", {})
    if notes.scope.user_id and isinstance(bind, Mapping):
        bind = {"user_id": notes.scope.user_id, **bind}
    ignore = (*notes.ignore, *_texts(given, "ignore", ()))
    return {"interval_s": notes.every_s, **given, "bind": bind, "paths": notes.paths, "ignore": ignore}


def _ranking(given: Mapping[str, object]) -> Ranking:
    merge = next((known for known in MERGES if known == given.get("merge", MERGES[0])), None)
    if merge is None:
        raise SettingsError(f"[backends.markdown] merge must be one of {', '.join(MERGES)}")
    ranking = Ranking(
        merge=merge,
        vector_weight=_number(given, "vector_weight", VECTOR_WEIGHT, 0),
        text_weight=_number(given, "text_weight", TEXT_WEIGHT, 0),
        mention_lift=_number(given, "mention_lift", MENTION_LIFT, 0, 1),
        half_life_days=_number(given, "half_life_days", 0, 0),
        mmr_lambda=_number(given, "mmr_lambda", 1, 0, 1),
        min_score=_number(given, "min_score", 0, 0, 1),
    )
    if ranking.vector_weight + ranking.text_weight == 0:
        raise SettingsError("[backends.markdown] vector_weight and text_weight must not both be 0")
    return ranking


def _texts(given: Mapping[str, object], key: str, default: tuple[str, ...]) -> tuple[str, ...]:
    value = given.get(key, default)
    if isinstance(value, str | Path) or not isinstance(value, Sequence):
        raise SettingsError(f"[backends.markdown] {key} must be a list")
    if not all(isinstance(item, str | Path) and str(item) for item in value):
        raise SettingsError(f"[backends.markdown] {key} must be a list of texts")
    return tuple(str(item) for item in value)


def _folder(given: Mapping[str, object], key: str) -> Path | None:
    value = given.get(key) or None
    if value is not None and not isinstance(value, str | Path):
        raise SettingsError(f"[backends.markdown] {key} must be the path of a folder")
    return Path(value).expanduser() if value else None


def _flag(given: Mapping[str, object], key: str, default: bool) -> bool:
    value = given.get(key, default)
    if not isinstance(value, bool):
        raise SettingsError(f"[backends.markdown] {key} must be true or false")
    return value


def _number(given: Mapping[str, object], key: str, default: float, least: float, most: float = inf) -> float:
    value = given.get(key, default)
    if isinstance(value, bool) or not isinstance(value, int | float) or not least <= value <= most or value == inf:
        bounds = f"of at least {least:g}" if most == inf else f"from {least:g} to {most:g}"
        raise SettingsError(f"[backends.markdown] {key} must be a number {bounds}")
    return value


def _scope(given: object) -> Scope:
    allowed = ("tenant", *DIMENSIONS, "project")
    if not isinstance(given, Mapping) or not all(k in allowed and isinstance(v, str) and v for k, v in given.items()):
        raise SettingsError(f"[backends.markdown] bind must give texts to some of {', '.join(allowed)}")
    return Scope(**given)
