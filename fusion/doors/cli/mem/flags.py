"""The flags of openclaw-mem's commands, put under our names and in their places before `fusion mem` parses them.

``--json`` may come before the command there, and `pack` and `graph fact` print JSON without it. ``--db`` names a
database file, and a home is not one: it is refused with what to write instead. Times are in milliseconds there.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from datetime import UTC, datetime
from typing import Any, NoReturn

import typer
from typer.exceptions import TyperException

from fusion.doors.cli.mem.failures import print_failure
from fusion.doors.cli.mem.refused import why_refused
from fusion.doors.cli.usage import USAGE, Failed, OneLine, wrong_usage
from fusion.errors import BadInput

JSON, NO_JSON = "--json", "--no-json"
JSON_FIRST = ("pack", "graph fact")
"""commands that print JSON, unless ``--no-json`` asks for lines"""
GROUPS = ("graph", "episodes", "capsule")
"""groups of commands in the group"""
WORDS_GIVEN = "fusion mem"
"""key of the arguments in the context's meta"""
FILES = ("--db", "--harness-home")
"""flags that name files of openclaw-mem"""
RENAMED: Mapping[str, Mapping[str, str]] = {
    "": {"--session-id": "--session", "--agent-id": "--agent"},
    "episodes": {
        "--from-ts-ms": "--after",
        "--to-ts-ms": "--before",
        "--ts-ms": "--ts",
        "--now-ts-ms": "--now",
        "--summary": "",
    },
    "graph fact": {"--as-of": "--at"},
    "graph impact": {"--path": ""},
    "store": {"--scope": "--project"},
}
"""our flags for those of openclaw-mem, by the command's first words; "": the value alone, as an argument"""
TIMES = frozenset({"--from-ts-ms", "--to-ts-ms", "--ts-ms", "--now-ts-ms"})
WORDS: Mapping[str, tuple[str, ...]] = {"--global": ("--scope", "global")} | dict.fromkeys(
    (
        *("--embed", "--no-embed", "--update-index", "--no-update-index", "--allow-tool-output"),
        *("--graph-require-structured-provenance", "--no-graph-require-structured-provenance"),
    ),
    (),
)
"""flags without a value, and what stands for them: `harvest` makes neither vectors nor an index, an episode may always
have what a tool returned, and every edge of the graph names what asserts it"""
MANY = "--ids"
"""the flag with several values"""
LEFT_OUT: Mapping[str, frozenset[str]] = {
    "episodes": frozenset({"--payload-cap-bytes", "--refs-cap-bytes", "--model", "--base-url", "--batch", "-k"})
    | {"--replacement"},
    "store": frozenset({"--workspace", "--memory-notes-dir", "--model", "--base-url"}),
    "search": frozenset({"--graph-stale-after-days"}),
    "recall": frozenset({"--model", "--base-url", "--vector-backend", "--graph-stale-after-days"}),
    "pack": frozenset(
        {"--vector-backend", "--graph-budget-tokens", "--graph-take", "--pack-lifecycle-shadow"}
        | {"--pack-lifecycle-log-max-rows", "--pack-lifecycle-write", "--graph-probe", "--graph-provenance-policy"}
        | {"--graph-probe-limit", "--graph-probe-n-min", "--graph-probe-t-high", "--graph-probe-t-marginal"}
        | {"--graph-provenance-hops", "--graph-provenance-max-edges", "--graph-provenance-max-nodes"}
        | {
            "--graph-aware-stale-after-days",
            "--pack-artifact-agent",
            "--pack-artifact-session",
            "--pack-artifact-scope",
        }
        | {"--pack-artifact-min-bytes", "--pack-artifact-min-tokens", "--pack-artifact-max-bytes"}
        | {"--pack-artifact-max-session-bytes", "--pack-artifact-disable-strategy"}
    ),
    "ingest": frozenset({"--importance-scorer"}),
    "harvest": frozenset(
        {"--importance-scorer", "--model", "--base-url", "--index-to", "--index-limit", "--embed-limit"}
    ),
    "triage": frozenset({"--cron-jobs-path"}),
    "graph match": frozenset({"--search-limit", "--support-limit"}),
    "graph impact": frozenset({"--graph"}),
    "graph fact": frozenset({"--assertion-ref", "--subject-label", "--source-root"}),
}
"""flags with a value that mean nothing here: limits that are ours, models of the settings, receipts that we write"""


class LedgerGroup(OneLine):
    """The group `fusion mem`, which takes the flags of openclaw-mem."""

    def parse_args(self, ctx: Any, args: list[str]) -> list[str]:
        """Parse the arguments of the group. A flag that names a file of openclaw-mem is wrong usage."""
        as_json = JSON in _split(args)[0]
        try:
            words = in_our_words(in_place(args))
        except BadInput as error:
            self._end(Failed(error, as_json, USAGE), _words(args))
        ctx.meta[WORDS_GIVEN] = words
        return super().parse_args(ctx, words)

    def invoke(self, ctx: Any) -> Any:
        """Run a command of the group. With ``--json`` its errors are openclaw-mem's, on stdout."""
        given: list[str] = ctx.meta.get(WORDS_GIVEN, [])
        try:
            return super().invoke(ctx)
        except Failed as failed:
            self._end(failed, _words(given))
        except TyperException as error:
            if JSON not in _split(given)[0] or (wrong := wrong_usage(error)) is None:
                raise
            self._end(Failed(wrong, True, USAGE), _words(given))

    def _end(self, failed: Failed, command: Sequence[str]) -> NoReturn:
        """End with an error: as JSON on stdout, or for people as every command does."""
        if not failed.as_json:
            raise failed
        print_failure(failed.error, command)
        raise typer.Exit(failed.code) from None


def in_place(args: Sequence[str]) -> list[str]:
    """The arguments with a ``--json`` from before the command at their end, unless it is there, too."""
    options, rest = _split(args)
    for flag in FILES:
        if any(one == flag or one.startswith(f"{flag}=") for one in options):
            raise BadInput(
                f"{flag} names a file of openclaw-mem, and `fusion mem` works on a home: leave it out, or name a home "
                "with --home FOLDER or FUSION_HOME"
            )
    leading = 0
    while leading < len(options) and options[leading] == JSON:
        leading += 1
    moved = options[leading:]
    return [*_json_first([*moved, *([JSON] if leading and JSON not in moved else [])]), *rest]


def _json_first(options: list[str]) -> list[str]:
    """The arguments of a command that prints JSON by default, with ``--json`` unless they have ``--no-json``."""
    plain = [word for word in options if word not in (JSON, NO_JSON)]
    if not f"{' '.join(plain[:2])} ".startswith(tuple(f"{words} " for words in JSON_FIRST)):
        return options
    if plain[:2] == ["graph", "fact"] and (len(plain) == 2 or plain[2].startswith("-")):
        return plain  # the group itself, which prints its help
    return plain if NO_JSON in options else [*plain, JSON]


def in_our_words(args: Sequence[str]) -> list[str]:
    """The arguments with our flags for those of openclaw-mem. Raises BadInput for what is refused, and for no time."""
    options, rest = _split(args)
    if (why := why_refused(options)) is not None:
        raise BadInput(why)
    return [*_renamed(options), *rest]


def _renamed(options: Sequence[str]) -> Iterator[str]:
    command = " ".join(options[:2])
    tables = [table for words, table in RENAMED.items() if command.startswith(words)]
    renamed = {flag: ours for table in tables for flag, ours in table.items()}
    left_out = {flag for words, flags in LEFT_OUT.items() if command.startswith(words) for flag in flags}
    given, many = iter(options), False
    for word in given:
        flag, equals, value = word.partition("=")
        many = many and not word.startswith("-")
        if flag in WORDS:
            yield from WORDS[flag]
        elif flag == MANY and not equals:
            many = True
        elif many and not word.startswith("-"):
            yield from (MANY, word)
        elif flag in left_out or flag in renamed:
            said = value if equals else next(given, None)
            if flag in renamed:
                yield from [renamed[flag]] if renamed[flag] else []
                yield from [] if said is None else [_time(flag, said) if flag in TIMES else said]
        else:
            yield word


def _time(flag: str, said: str) -> str:
    """A time of openclaw-mem, in milliseconds since 1970."""
    try:
        return datetime.fromtimestamp(int(said) / 1000, UTC).isoformat()
    except (ValueError, OverflowError, OSError):
        raise BadInput(f"{flag}: give milliseconds since 1970") from None


def _words(args: Sequence[str]) -> list[str]:
    """The words that name a command of the group: those before its first option, three at most in a group of groups."""
    depth = 3 if args[:2] == ["graph", "fact"] else 2 if args[:1] and args[0] in GROUPS else 1
    return [word for word in args[:depth] if not word.startswith("-")]


def _split(args: Sequence[str]) -> tuple[list[str], list[str]]:
    """The arguments before ``--``, and that with what follows it, which are no flags."""
    end = args.index("--") if "--" in args else len(args)
    return list(args[:end]), list(args[end:])
