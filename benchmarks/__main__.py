"""``python -m benchmarks locomo | overhead | footprint | doors``: the last line on stdout is one JSON object."""

from __future__ import annotations

import argparse
import json
import os
import signal
import sys
from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Any

# One thread of numpy, before it is imported: CPU per query is to be that of the query.
os.environ.setdefault("OPENBLAS_NUM_THREADS", "1")


def main(arguments: Sequence[str] | None = None) -> int:
    options = _parser().parse_args(arguments)
    figures: Mapping[str, Any] = options.measure(options)
    if not options.json:
        _show(figures)
    print(json.dumps(figures, ensure_ascii=False))
    return 0


def _parser() -> argparse.ArgumentParser:
    parser = argparse.ArgumentParser(prog="python -m benchmarks", description=__doc__)
    commands = parser.add_subparsers(required=True, metavar="COMMAND")

    locomo = commands.add_parser("locomo", help="evidence in the packed block, R@k, abstention, latency")
    locomo.add_argument("--data", type=Path, required=True, help="LoCoMo's JSON file; it is not part of this project")
    locomo.add_argument("--recipe", default="default")
    locomo.add_argument("--backends", type=_names, default=(), help="of markdown,cortex,mem0,triples; all by default")
    locomo.add_argument("--conversations", type=_names, default=(), help="only these, by sample_id")
    locomo.add_argument("--limit", type=int, help="questions of each conversation")
    locomo.add_argument("--captions", action="store_true", help="store the captions of shared photos too")
    locomo.add_argument("--scattered", action="store_true", help="each session in one or two of the backends")
    locomo.add_argument("--seed", type=int, default=0, help="of the scattering")
    locomo.add_argument("--jobs", type=int, default=1, help="processes; latency is best measured with one")
    locomo.add_argument("--answers", type=Path, help="write the blocks, a JSON object a line, for a referee")
    locomo.add_argument("--home", type=Path, help="keep the stores here between runs")
    locomo.set_defaults(measure=_locomo)

    overhead = commands.add_parser("overhead", help="CPU of one /fuse over a bare gather of the same four answers")
    overhead.add_argument("--requests", type=int, default=200, help="a round, and side")
    overhead.add_argument("--rounds", type=int, default=5, help="the median counts")
    overhead.set_defaults(measure=_overhead)

    footprint = commands.add_parser("footprint", help="CPU of `fusion --help`, memory of a server with 3,000 memories")
    footprint.add_argument("--memories", type=int, default=3000)
    footprint.set_defaults(measure=_footprint)

    doors = commands.add_parser(
        "doors", help="a hook, MCP's start, a thousand questions at once, ten thousand in a row"
    )
    doors.add_argument("--memories", type=int, default=400)
    doors.add_argument("--concurrent", type=int, default=1000)
    doors.add_argument("--requests", type=int, default=10_000)
    doors.set_defaults(measure=_doors)

    for command in (locomo, overhead, footprint, doors):
        command.add_argument("--json", action="store_true", help="print nothing but the JSON object")
    return parser


def _names(text: str) -> tuple[str, ...]:
    return tuple(name for name in text.split(",") if name)


# What a command needs is imported when it is called: the others need not have it.


def _locomo(options: argparse.Namespace) -> Mapping[str, Any]:
    from benchmarks.report import BACKENDS, Run
    from benchmarks.run_locomo import run

    return run(
        Run(
            data=options.data,
            recipe=options.recipe,
            backends=options.backends or BACKENDS,
            captions=options.captions,
            scattered=options.scattered,
            conversations=options.conversations,
            limit=options.limit,
            jobs=options.jobs,
            answers=options.answers,
            home=options.home,
            seed=options.seed,
        )
    )


def _overhead(options: argparse.Namespace) -> Mapping[str, Any]:
    from benchmarks.overhead import run

    return run(options.requests, options.rounds)


def _footprint(options: argparse.Namespace) -> Mapping[str, Any]:
    from benchmarks.footprint import run

    return run(options.memories)


def _doors(options: argparse.Namespace) -> Mapping[str, Any]:
    from benchmarks.doors import run

    return run(options.memories, options.concurrent, options.requests)


def _show(figures: Mapping[str, Any]) -> None:
    from rich.console import Console
    from rich.table import Table

    table = Table("figure", "value")
    for name, value in figures.items():
        if isinstance(value, Mapping):
            for key, part in value.items():
                table.add_row(f"{name} · {key}", json.dumps(part, ensure_ascii=False))
        else:
            table.add_row(name, value if isinstance(value, str) else json.dumps(value, ensure_ascii=False))
    Console().print(table)


if __name__ == "__main__":
    # Told to end, it still ends its servers and puts its homes away.
    signal.signal(signal.SIGTERM, lambda number, frame: sys.exit(128 + number))
    sys.exit(main())
