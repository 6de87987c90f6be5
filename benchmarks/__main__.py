"""``python -m benchmarks COMMAND``: the last line on stdout is one JSON object. Bad input ends with exit code 2."""

from __future__ import annotations

import argparse
import json
import os
import signal
import sys
from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import TYPE_CHECKING, Any

# One thread of numpy, before it is imported: CPU per query is to be that of the query.
os.environ.setdefault("OPENBLAS_NUM_THREADS", "1")

if TYPE_CHECKING:
    from benchmarks.options import Run

DATASETS = {
    "locomo": "conversations of many sessions: evidence in the packed block, R@k, abstention, latency",
    "musique": "multi-hop questions, all paragraphs in one store: R@5 of the supporting ones",
    "longmemeval": "chats with an assistant, a haystack for each question",
    "beam": "conversations of up to 10 million tokens: a folder with chat.json and probing_questions/",
    "beir": "a folder with corpus.jsonl, queries.jsonl and qrels/*.tsv",
    "folder": "your own: a folder of Markdown, and a JSON list of queries with the files that answer them",
}
BASELINES = "bm25,dense,rrf,handset"
MORE_BASELINES = f"{BASELINES},mem0,mnemostack"


def main(arguments: Sequence[str] | None = None) -> int:
    from benchmarks.datasets import DataError
    from fusion.errors import BadInput, NotFound, SettingsError

    options = _parser().parse_args(arguments)
    try:
        figures: Mapping[str, Any] = options.measure(options)
    except (BadInput, DataError, NotFound, SettingsError) as error:
        print(f"benchmarks: {error}", file=sys.stderr)
        return 2
    if not options.json:
        options.show(figures)
    print(json.dumps(figures, ensure_ascii=False))
    return int(options.failed(figures))


def _parser() -> argparse.ArgumentParser:
    parser = argparse.ArgumentParser(prog="python -m benchmarks", description=__doc__)
    commands = parser.add_subparsers(required=True, metavar="COMMAND")

    for name, what in DATASETS.items():
        command = commands.add_parser(name, help=what)
        _what(command, queries=name == "folder")
        command.add_argument(
            "--arms", type=_names, default=(), help="as fusion compare takes them, with commas between"
        )
        command.add_argument(
            "--baselines",
            type=_baselines,
            help=f"of {MORE_BASELINES}; or none, or all that are installed; {BASELINES} unless scattered",
        )
        command.add_argument(
            "--against", help="the arm that the others are compared with: handset, or the last baseline"
        )
        command.add_argument(
            "--ablate", action="store_true", help="arms of the recipe with one thing left out at a time"
        )
        command.add_argument(
            "--joined", type=_several, default=1, metavar="N", help="ask N questions in one sentence, drawn by --seed"
        )
        command.add_argument("--answers", type=Path, help="write the blocks, a JSON object a line, for a referee")
        command.add_argument("--rows", type=Path, help="write a JSON object a line for each question, arm and budget")
        command.set_defaults(measure=_measure, dataset=name)
        if name in ("locomo", "folder"):
            command.add_argument(
                "--scattered", action="store_true", help="each session, or file, in one or two of the backends"
            )

    contribution = commands.add_parser("contribution", help="the Shapley value of each backend, and its cost")
    _what(contribution, queries=True)
    contribution.add_argument("--format", choices=sorted(DATASETS), help="locomo; folder where --queries is given")
    which = contribution.add_mutually_exclusive_group()
    which.add_argument("--whole", action="store_true", help="LoCoMo: every backend holds all, not scattered")
    which.add_argument("--scattered", action="store_true", help="a folder: each file in one or two of the backends")
    contribution.add_argument("--rows", type=Path, help="write a JSON object a line for each question and subset")
    contribution.set_defaults(measure=_contribution)

    tune = commands.add_parser("tune", help="a recipe by your own questions: `fusion tune` does it by feedback")
    tune.add_argument("--data", type=Path, required=True, help="a data set, or a folder of Markdown")
    tune.add_argument("--format", choices=sorted(DATASETS), help="locomo; folder where --queries is given")
    tune.add_argument("--queries", type=Path, help='[{"query": …, "files": […]}, …]')
    tune.add_argument("--learner", action="store_true", help="learn trees over the signals, not numbers")
    tune.add_argument("--name", help="of the recipe: tuned, or learned with --learner")
    tune.add_argument("--recipe", help="what to begin with; the home's own by default")
    tune.add_argument(
        "--only", action="append", default=[], help="try only numbers with this in their name; repeatable"
    )
    tune.add_argument(
        "--conversation", "--conversations", action="append", default=[], help="use only this corpus; repeatable"
    )
    tune.add_argument("--limit", type=_positive, help="questions of each corpus")
    tune.add_argument("--recordings", type=Path, help="keep recorded answers here; below the home by default")
    tune.add_argument("--answers", type=Path, help="write the held-out answers, a JSON object a line, for a referee")
    tune.add_argument("--labels", type=Path, help="tune nothing: write labels for `fusion tune --calibrate` here")
    tune.add_argument(
        "--force", action="store_true", help="write over a recipe of this name; write it even if not better"
    )
    tune.add_argument("--home", type=Path, help="the home whose recipes get the new one; yours by default")
    tune.add_argument("--config", type=Path, help="your fusion.toml; the one that `fusion` would read by default")
    tune.set_defaults(measure=_tune, show=_show_tuning)

    graph = commands.add_parser("graph", help="triples: questions of several hops with and without it, a large graph")
    _what(graph, queries=False)
    graph.set_defaults(measure=_graph)

    vault = commands.add_parser("vault", help="a vault of Markdown by kind of question: hybrid, by words, by vectors")
    vault.add_argument("--data", type=Path, help="a folder of yours; without it, the one that comes with the project")
    vault.add_argument("--queries", type=Path, help='[{"query": …, "files": […], "category": …}, …]')
    vault.set_defaults(measure=_vault)

    dates = commands.add_parser("dates", help="questions that name a date, over daily notes: is the right day first?")
    dates.set_defaults(measure=_dates, show=_show_dates)

    report = commands.add_parser("report", help="rows as a page to look at, and charts as PNGs")
    report.add_argument("rows", nargs="+", metavar="[RUN=]ROWS", help="what --rows wrote; arms of a named run have it")
    report.add_argument("--baseline", metavar="ARM", help="what the others are compared with: handset, if it is there")
    report.add_argument("--contribution", type=Path, metavar="FILE", help="what `contribution --json` printed")
    report.add_argument("--out", type=Path, required=True, metavar="DIR", help="report.html and *.png are put here")
    report.set_defaults(measure=_report)

    overhead = commands.add_parser("overhead", help="CPU of one /fuse over a bare gather of the same four answers")
    overhead.add_argument("--requests", type=int, default=200, help="a round, and side")
    overhead.add_argument("--rounds", type=int, default=5, help="the median counts")
    overhead.set_defaults(measure=_overhead)
    telemetry = commands.add_parser("telemetry", help="CPU that metrics and traces add to one /fuse")
    telemetry.add_argument("--requests", type=int, default=20, help="a round, and side")
    telemetry.add_argument("--rounds", type=int, default=40, help="the median counts")
    telemetry.set_defaults(measure=_telemetry)

    gate = commands.add_parser("gate", help="CPU of this checkout and of another commit: exit code 1 if a stage grew")
    gate.add_argument("--base", default="HEAD^", metavar="COMMIT", help="what it is compared with: the parent")
    gate.add_argument("--rounds", type=_positive, default=5, help="the median ratio counts")
    gate.set_defaults(measure=_gate, failed=lambda figures: bool(figures["grown"]))

    scale = commands.add_parser("scale", help="a home that grows; gateways that share a PostgreSQL, while it fails")
    scale.add_argument("--only", type=_names, default=(), help="only these parts, with commas between; all by default")
    scale.add_argument("--sizes", type=_sizes, default=(1_000, 10_000), help="memories, with commas between")
    scale.add_argument("--data", type=Path, help="a copy of LoCoMo of yours, for the evidence that is found")
    scale.add_argument("--seconds", type=float, default=600.0, help="of the load on three gateways")
    scale.add_argument("--home", type=Path, help="keep the home that grows in this folder, and go on with what it has")
    scale.set_defaults(measure=_scale)

    footprint = commands.add_parser("footprint", help="CPU of `fusion --help`, memory of a server with 3,000 memories")
    footprint.add_argument("--memories", type=int, default=3000)
    footprint.set_defaults(measure=_footprint)

    inspector = commands.add_parser(
        "inspector", help="the page in Chromium: weight, first paint, a long list, a slider, a live tail, a large graph"
    )
    inspector.add_argument("--memories", type=int, default=100_000, help="of the long list")
    inspector.add_argument("--tail", type=float, default=600.0, metavar="SECONDS")
    inspector.add_argument("--only", type=_names, default=(), help="of paint,list,slider,tail,graph")
    inspector.set_defaults(measure=_inspector)
    doors = commands.add_parser(
        "doors", help="a hook, MCP's start, a thousand questions at once, ten thousand in a row"
    )
    doors.add_argument("--memories", type=int, default=400)
    doors.add_argument("--concurrent", type=int, default=1000)
    doors.add_argument("--requests", type=int, default=10_000)
    doors.set_defaults(measure=_doors)

    markdown = commands.add_parser("markdown", help="a vault of 100,000 chunks: search, start, follow; and MuSiQue")
    markdown.add_argument(
        "--million", action="store_true", help="a million chunks, too: some minutes, and 4 GB of disk"
    )
    markdown.add_argument("--data", type=Path, help="a copy of MuSiQue of yours, to be written out as a vault")
    markdown.set_defaults(measure=_markdown)

    cortex = commands.add_parser("cortex", help="recall and storing at 100,000 memories; what the graph adds")
    cortex.add_argument("--data", type=Path, help="a copy of LoCoMo of yours, for what the graph adds")
    cortex.set_defaults(measure=_cortex)

    state = commands.add_parser(
        "state", help="rewordings, repeats in a session, what was decided against, and its cost"
    )
    state.add_argument("--memories", type=_positive, default=10_000, help="of which every other one is decided about")
    state.add_argument("--questions", type=_positive, default=500, help="for these, each asked in every way")
    state.set_defaults(measure=_state, show=_show_state)

    day = commands.add_parser("day", help="days of simulated time: after each step every door gives the same memories")
    day.set_defaults(measure=_day, show=_show_day)

    quiet = commands.add_parser(
        "quiet", help="what a hook says unasked: silence for prompts that need no memory, noise beside answers"
    )
    quiet.add_argument("--limit", type=_positive, help="prompts of each home")
    quiet.add_argument("--recipe", default="default", help="of the questions that are asked")
    quiet.add_argument(
        "--labels", type=Path, metavar="DIR", help="write labels for `fusion tune --calibrate`: a.jsonl and b.jsonl"
    )
    quiet.set_defaults(measure=_silence, show=_show_silence)

    living = commands.add_parser(
        "living", help="automatic memory: histories in, facts out, recall before a prompt, upkeep"
    )
    living.add_argument("parts", nargs="*", metavar="PART", help="only these; all by default")
    living.add_argument("--data", type=Path, help="a copy of LoCoMo of yours, for its facts and recall after ingest")
    living.add_argument("--conversations", type=_names, default=(), help="only these of LoCoMo, by id")
    living.add_argument("--limit", type=_positive, help="questions of each conversation")
    living.add_argument("--week", action="store_true", help="instead, play a week of an agent on a clock of its own")
    living.set_defaults(measure=_living, show=_show_living)

    pack = commands.add_parser("pack", help="context packs: evidence in them, dissent, time, and what they rest on")
    pack.add_argument("--data", type=Path, help="a copy of LoCoMo of yours")
    pack.add_argument("--only", type=_names, default=(), help="only these parts, with commas between; all by default")
    pack.add_argument("--conversations", type=_names, default=(), help="only these of LoCoMo, by id")
    pack.add_argument("--limit", type=_positive, help="questions of each conversation")
    pack.add_argument("--home", type=Path, help="keep the stores here between runs")
    pack.set_defaults(measure=_pack, show=_show_pack)

    fire = commands.add_parser("fire", help="attacks and accidents: what escapes, leaks, stalls, misleads or is lost")
    fire.add_argument("parts", nargs="*", metavar="PART", help="only these; all by default")
    fire.add_argument("--short", action="store_true", help="some 20 s a part, as the tests run it")
    fire.set_defaults(measure=_fire)

    for command in commands.choices.values():
        command.set_defaults(failed=command.get_default("failed") or _never)
        command.set_defaults(show=command.get_default("show") or _show)
        command.add_argument("--json", action="store_true", help="print nothing but the JSON object")
    return parser


def _what(command: argparse.ArgumentParser, *, queries: bool) -> None:
    """Which data, and which of it."""
    command.add_argument("--data", type=Path, required=True, help="a copy of yours; no data is part of this project")
    if queries:
        command.add_argument("--queries", type=Path, help='[{"query": …, "files": […]}, …]')
    command.add_argument("--recipe", default="default")
    command.add_argument("--recipes", type=Path, help="a folder of recipes of yours")
    command.add_argument("--backends", type=_names, default=(), help="of markdown,cortex,mem0,triples; all by default")
    command.add_argument("--conversations", type=_names, default=(), help="only these corpora, by id")
    command.add_argument("--limit", type=_positive, help="questions of each corpus")
    command.add_argument("--captions", action="store_true", help="store the captions of shared photos too")
    command.add_argument("--seed", type=int, default=0, help="of the scattering and of the intervals")
    command.add_argument("--jobs", type=_positive, default=1, help="processes; latency is best measured with one")
    command.add_argument("--home", type=Path, help="keep the stores here between runs")
    command.add_argument("--recordings", type=Path, help="keep recordings here, and replay those that are there")


def _state(options: argparse.Namespace) -> dict[str, Any]:
    from benchmarks import state

    return state.measure(options.memories, options.questions)


def _show_state(figures: Mapping[str, Any]) -> None:
    from benchmarks import state

    state.show(figures)


def _scale(options: argparse.Namespace) -> dict[str, Any]:
    from benchmarks import scale

    return scale.measure(options.only, options.sizes, options.seconds, options.data, options.home)


def _gate(options: argparse.Namespace) -> dict[str, Any]:
    from benchmarks import gate

    return gate.run(options.base, options.rounds)


def _dates(options: argparse.Namespace) -> Mapping[str, Any]:
    from benchmarks import dates

    return dates.run()


def _show_dates(figures: Mapping[str, Any]) -> None:
    from benchmarks import dates

    dates.show(figures)


def _living(options: argparse.Namespace) -> dict[str, Any]:
    from benchmarks import living, living_week

    if options.week:
        return living_week.play()
    return living.measure(options.data, options.limit, options.conversations, options.parts)


def _show_living(figures: Mapping[str, Any]) -> None:
    from benchmarks import living, living_week

    (living_week if "days" in figures else living).show(figures)


def _pack(options: argparse.Namespace) -> dict[str, Any]:
    from benchmarks import pack

    return pack.measure(options.data, options.only, options.limit, options.conversations, options.home)


def _show_pack(figures: Mapping[str, Any]) -> None:
    from benchmarks import pack

    pack.show(figures)


def _silence(options: argparse.Namespace) -> dict[str, Any]:
    from benchmarks import quiet

    return quiet.measure(options.limit, recipe=options.recipe, labels=options.labels)


def _show_silence(figures: Mapping[str, Any]) -> None:
    from benchmarks import quiet

    quiet.show(figures)


def _show(figures: Mapping[str, Any]) -> None:
    from benchmarks.print_figures import show

    show(figures)


def _never(figures: Mapping[str, Any]) -> bool:
    """A command that prints figures and judges none."""
    return False


def _positive(text: str) -> int:
    return _at_least(1, text)


def _several(text: str) -> int:
    return _at_least(2, text)


def _at_least(least: int, text: str) -> int:
    try:
        number = int(text)
    except ValueError:
        raise argparse.ArgumentTypeError(f"{text!r} is no whole number") from None
    if number < least:
        raise argparse.ArgumentTypeError(f"{number} is less than {least}")
    return number


def _sizes(text: str) -> tuple[int, ...]:
    return tuple(_at_least(100, one) for one in _names(text))


def _names(text: str) -> tuple[str, ...]:
    return tuple(name for name in text.split(",") if name)


def _baselines(text: str) -> tuple[str, ...]:
    """By name; "all" leaves out what is not installed, while one that is named is missed aloud."""
    if text == "all":
        from benchmarks.memory_libraries import installed

        return tuple(name for name in _names(MORE_BASELINES) if installed(name))
    return () if text == "none" else _names(text)


# What a command needs is imported when it is called: the others need not have it.


def _measure(options: argparse.Namespace) -> Mapping[str, Any]:
    from dataclasses import replace

    from benchmarks.run_dataset import run

    scattered = getattr(options, "scattered", False)
    usual = () if scattered else _names(BASELINES)
    chosen = replace(
        _run(options, options.dataset),
        arms=options.arms,
        baselines=usual if options.baselines is None else options.baselines,
        against=options.against,
        ablate=options.ablate,
        answers=options.answers,
        scattered=scattered,
        joined=options.joined,
    )
    if options.dataset != "musique":
        return run(chosen)
    both = tuple(dict.fromkeys((*chosen.baselines, "bm25", "dense")))
    figures = run(replace(chosen, baselines=both))
    return {**figures, **{f"{name}_r_at_5": figures["arms"][name]["r_at_5"] for name in ("bm25", "dense")}}


def _contribution(options: argparse.Namespace) -> Mapping[str, Any]:
    from dataclasses import replace

    from benchmarks.contribution import run
    from benchmarks.datasets import DataError

    dataset = options.format or ("folder" if options.queries else "locomo")
    if options.scattered and dataset not in ("locomo", "folder"):
        raise DataError(f"--scattered: locomo and folder have sessions or files to scatter, {dataset} has not")
    scattered = options.scattered or (dataset == "locomo" and not options.whole)
    return run(replace(_run(options, dataset), scattered=scattered))


def _tune(options: argparse.Namespace) -> Mapping[str, Any]:
    from benchmarks.tune import Data, run, write_labels

    dataset = options.format or ("folder" if options.queries else "locomo")
    conversations = tuple(name for text in options.conversation for name in _names(text))
    data = Data(dataset, options.data, options.queries, conversations, options.limit, options.recordings)
    if options.labels is not None:
        where = {"home": options.home, "config": options.config}
        return write_labels(data, options.labels, **where, recipe=options.recipe, quiet=options.json)
    return run(
        data,
        home=options.home,
        config=options.config,
        quiet=options.json,
        recipe=options.recipe,
        name=options.name or ("learned" if options.learner else "tuned"),
        learner=options.learner,
        force=options.force,
        answers=options.answers,
        only=tuple(options.only),
    )


def _show_tuning(figures: Mapping[str, Any]) -> None:
    from benchmarks.tune import show

    if "labels" in figures:
        print(f"{figures['labels']:,} labels of {figures['answers']:,} answers in {figures['file']}")
    else:
        show(figures)


def _graph(options: argparse.Namespace) -> Mapping[str, Any]:
    from benchmarks.graph import run

    return run(_run(options, "musique"))


def _run(options: argparse.Namespace, dataset: str) -> Run:
    from benchmarks.datasets.load import load
    from benchmarks.fill_stores import BACKENDS
    from benchmarks.options import Run

    return Run(
        dataset=options.data.resolve().stem,
        corpora=load(dataset, options.data, getattr(options, "queries", None)),
        recipe=options.recipe,
        recipes_folder=options.recipes,
        backends=options.backends or BACKENDS,
        captions=options.captions,
        conversations=options.conversations,
        limit=options.limit,
        jobs=options.jobs,
        rows=getattr(options, "rows", None),
        home=options.home,
        recordings=options.recordings,
        seed=options.seed,
    )


def _report(options: argparse.Namespace) -> Mapping[str, Any]:
    from benchmarks.report import Report, run

    return run(Report(tuple(options.rows), options.out, options.baseline, options.contribution))


def _vault(options: argparse.Namespace) -> Mapping[str, Any]:
    from benchmarks.datasets import DataError
    from benchmarks.vault_search import run

    if (options.data is None) != (options.queries is None):
        raise DataError("--data and --queries belong together: the questions name files of the folder")
    return run() if options.data is None else run(options.data, options.queries)


def _telemetry(options: argparse.Namespace) -> Mapping[str, Any]:
    from benchmarks.telemetry import run

    return run(options.requests, options.rounds)


def _overhead(options: argparse.Namespace) -> Mapping[str, Any]:
    from benchmarks.overhead import run

    return run(options.requests, options.rounds)


def _footprint(options: argparse.Namespace) -> Mapping[str, Any]:
    from benchmarks.footprint import run

    return run(options.memories)


def _inspector(options: argparse.Namespace) -> Mapping[str, Any]:
    from benchmarks.inspector import PARTS, run

    return run(options.memories, options.tail, options.only or PARTS)


def _doors(options: argparse.Namespace) -> Mapping[str, Any]:
    from benchmarks.doors import run

    return run(options.memories, options.concurrent, options.requests)


def _fire(options: argparse.Namespace) -> Mapping[str, Any]:
    from benchmarks.fire import run

    return run(options.parts, full=not options.short)


def _day(options: argparse.Namespace) -> Mapping[str, Any]:
    from benchmarks.day import run

    return run(_quiet if options.json else print)


def _quiet(line: str) -> None:
    """Print nothing."""


def _show_day(figures: Mapping[str, Any]) -> None:
    from benchmarks.day import show

    show(figures)


def _cortex(options: argparse.Namespace) -> Mapping[str, Any]:
    from benchmarks.cortex import run

    return run(options.data)


def _markdown(options: argparse.Namespace) -> Mapping[str, Any]:
    from benchmarks.markdown import run

    return run(options.data, options.million)


if __name__ == "__main__":
    # On SIGTERM, still stop the servers and remove the homes.
    signal.signal(signal.SIGTERM, lambda number, frame: sys.exit(128 + number))
    sys.exit(main())
