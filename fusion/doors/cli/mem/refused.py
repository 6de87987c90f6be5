"""What openclaw-mem's command line has and `fusion mem` refuses, with the reason and what to use instead.

`docs/ledger.md` lists the same. A test walks through all commands and flags of openclaw-mem 2.0.0: each one works here,
has no effect (`LEFT_OUT` of `fusion.doors.cli.mem.flags`), or stands here.
"""

from __future__ import annotations

from collections.abc import Mapping

_FILE = "it names a graph file of openclaw-mem, and the graph here is made of memories and facts: leave it out"
_ARCHIVED = "archived memories are in no answer; `fusion state REF --restore` brings one back"
_GBRAIN = "it runs another program, gbrain; name a memory system as a backend in fusion.toml"
_CODE = "it names files of a code graph, and the graph here is made of memories and facts: leave it out"
FLAGS: Mapping[str, Mapping[str, str]] = {
    "search": {"--graph-path": _FILE, "--graph-readiness-state": _FILE, "--include-archived": _ARCHIVED},
    "recall": {"--graph-path": _FILE, "--graph-readiness-state": _FILE, "--include-archived": _ARCHIVED},
    "pack": {
        "--include-archived": _ARCHIVED,
        **dict.fromkeys(("--graph-aware-path", "--graph-query-db"), _FILE),
        **dict.fromkeys(("--graph-aware-active-file", "--graph-aware-recent-file"), _CODE),
        **dict.fromkeys(
            ("--use-gbrain", "--gbrain-bin", "--gbrain-limit", "--gbrain-timeout-ms", "--gbrain-expand"), _GBRAIN
        ),
        "--pack-artifact-store": "there is no store of artifacts: `fusion mem get REF` has the whole text of a line",
    },
    "graph match": {"--scope": "an idea is matched with all projects: leave it out"},
    "graph export": dict.fromkeys(
        ("--query", "--to", "--scope", "--limit", "--window"),
        "the whole graph is exported, as pages: fusion mem graph export FOLDER",
    ),
    "graph fact propose": dict.fromkeys(
        ("--kind", "--target"), "it is for guards of edits to code, which are not here: leave it out"
    ),
    "graph fact rebuild": dict.fromkeys(
        ("--file", "--append", "--allow-dangling-source"),
        "facts are rebuilt from memories, which `fusion import` takes in: leave it out",
    ),
}
"""by command, its flags that are refused, and why"""
_HOME = "the home is set up and kept by `fusion init`, `fusion status`, `fusion doctor`, `fusion repair`"
_UPKEEP = (
    "it maintains files and skills of openclaw-mem; upkeep here are `fusion jobs`, `fusion lifecycle`, `fusion triage`"
)
_STORES = "stores are backends of fusion.toml, kept up to date by themselves: `fusion backends`"
_VECTORS = "vectors are made with each memory, and `fusion mem search` asks words, vectors and graph at once"
_ARTIFACTS = "results of tools are kept as episodes: `fusion mem episodes append`"
_CAPSULES = "capsules are of openclaw-mem's database; `fusion export`, `fusion import` and `fusion backup` move a home"
_GRAPH = (
    "the graph here is made of memories and facts: `fusion mem graph neighbors`, `path`, `impact`, `match`, `export`"
)
_CARDS = "cards are of subjects: `fusion mem graph card show`, `refresh`, `lint`"
_GUARD = "it guards edits to code from a file of facts: `fusion mem graph fact lint` checks those of memories"
_FOLLOWED = "sessions and files are followed by themselves: `[sessions]` and `[episodes]` in fusion.toml"
COMMANDS: Mapping[str, str] = {
    **dict.fromkeys(("init", "doctor", "db", "service-store", "writeback-store", "backend", "mem-system"), _HOME),
    **dict.fromkeys(("install", "harness", "codex"), "`fusion init` connects agents and their hooks"),
    "engine": "`fusion backup` and `fusion restore` keep snapshots of a home",
    **dict.fromkeys(
        "symbolic-canvas routing optimize dream-lite continuity self curate steward ingest-review active-line surface "
        "goal skill-capture skill-curator mutation governed self-curator".split(),
        _UPKEEP,
    ),
    **dict.fromkeys(("sync", "writeback-lancedb", "qdrant", "service", "bridge"), _STORES),
    "docs": "`fusion ingest FOLDER` takes documents in, and every question asks them",
    "summarize": "summaries are a job: `fusion jobs`",
    **dict.fromkeys(("embed", "vsearch", "hybrid", "semantic", "index"), _VECTORS),
    **dict.fromkeys(("artifact", "pack-artifacts-observe"), _ARTIFACTS),
    "gbrain-sidecar": _GBRAIN,
    **dict.fromkeys(
        ("capsule seal", "capsule verify", "capsule inspect", "capsule diff", "capsule restore"), _CAPSULES
    ),
    **dict.fromkeys(
        (
            *("graph index", "graph pack", "graph preflight", "graph auto-status", "graph health", "graph readiness"),
            *("graph topology-refresh", "graph topology-extract", "graph topology-diff", "graph extract"),
            *("graph render", "graph query", "graph capture-git", "graph capture-md"),
        ),
        _GRAPH,
    ),
    **dict.fromkeys(("graph synth", "graph lint"), _CARDS),
    **dict.fromkeys(("graph fact guard", "graph fact guard-lint", "graph fact measure-extraction"), _GUARD),
    **dict.fromkeys(
        ("episodes append-session-store-receipt", "episodes extract-sessions", "episodes ingest"), _FOLLOWED
    ),
    "route": "`fusion mem pack --use-graph auto` and `fusion fuse` choose by themselves",
}
"""by their first words, the commands that are refused, and why"""


def why_refused(args: list[str]) -> str | None:
    """Why a command line of openclaw-mem is refused; None if it is not."""
    for size in (1, 2, 3):
        named = " ".join(args[:size])
        if len(args) >= size and named in COMMANDS:
            return f"{named} of openclaw-mem is not here: {COMMANDS[named]}"
        for word in args if len(args) >= size else ():
            flag = word.partition("=")[0]
            if flag in FLAGS.get(named, {}):
                return f"{flag} of openclaw-mem is not here: {FLAGS[named][flag]}"
    return None
