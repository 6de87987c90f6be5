"""Measures automatic memory: histories of sessions in, facts out, recall before a prompt, upkeep.

The figures are independent of each other. One that cannot be measured says why. Only those of LoCoMo need data.
"""

from __future__ import annotations

import asyncio
import json
import os
import subprocess
import sys
import tempfile
import time
from collections.abc import Callable, Mapping, Sequence
from dataclasses import replace
from datetime import UTC, datetime, timedelta
from pathlib import Path
from resource import RUSAGE_CHILDREN, getrusage
from statistics import fmean
from typing import Any

from benchmarks import living_distill
from benchmarks.bad_servers import WAYS, Way, bad_server
from benchmarks.datasets import Corpus, DataError, locomo
from benchmarks.fill_stores import BACKENDS, TIMEOUT_MS, open_home, store_corpus, wait_until_stored
from benchmarks.living_junk import KINDS, count
from benchmarks.metrics import percentile, texts_in_block
from benchmarks.progress import steps
from fusion.client import AsyncClient, stop_server
from fusion.contract import Asker, Event, Scope
from fusion.doors.http.app import create_app
from fusion.gateway.gateway import Gateway
from fusion.ingest.intake import NewMemory
from fusion.ingest.turn_facts import turn_facts
from fusion.lib.listing import SUMMARY
from fusion.lib.words import spoken
from fusion.recall.engine import FuseRequest

SAMPLE = Path(__file__).parent.parent / "config" / "sample" / "sessions.jsonl"
HISTORY = 2_000
"""messages of a history, of which one is new"""
CALLS = 20
"""calls, each with one turn more"""
PROMPTS = 20
"""prompts for each bad server"""
BUDGET_CHARS = 6_000
PARTS = ("ingest", "auto_recall", "junk", "recall_after_ingest", "synthesis", "upkeep")


def measure(
    data: Path | None, limit: int | None = None, conversations: Sequence[str] = (), parts: Sequence[str] = ()
) -> dict[str, Any]:
    """The figures of ``parts``, or all, of at most ``limit`` questions of each conversation, or of all."""
    corpora = locomo.load(data) if data is not None else ()
    known = {corpus.id for corpus in corpora}
    if unknown := {*conversations} - known:
        raise DataError(f"{data}: there is no conversation {', '.join(sorted(unknown))}")
    if unknown := {*parts} - {*PARTS}:
        raise DataError(f"living has no part {', '.join(sorted(unknown))}; there are {', '.join(PARTS)}")
    chosen = [corpus for corpus in corpora if not conversations or corpus.id in conversations]
    measures: Mapping[str, Callable[[], Any]] = {
        "ingest": lambda: asyncio.run(ingest()),
        "auto_recall": auto_recall,
        "junk": lambda: junk(chosen),
        "synthesis": lambda: asyncio.run(synthesis()),
        "upkeep": lambda: living_distill.measure(chosen),
    }
    wanted = [part for part in PARTS if not parts or part in parts]
    titles = {part: [part] for part in wanted}
    if "recall_after_ingest" in titles and chosen:
        titles["recall_after_ingest"] = [f"recall after ingest: {corpus.id}" for corpus in chosen]
    found: dict[str, Any] = {"command": "living"}
    with steps([title for part in wanted for title in titles[part]]) as done:
        for part in wanted:
            if part in measures:
                found |= measures[part]()
                done()
            else:
                found |= asyncio.run(recall_after_ingest(chosen, limit, done))
    return found


# Histories -----------------------------------------------------------------------------------------------------------


async def ingest(messages: int = HISTORY, calls: int = CALLS) -> dict[str, Any]:
    """Milliseconds and CPU until ``POST /ingest`` answers, and CPU until the new turn is stored."""
    history = [_message(number) for number in range(messages)]
    with tempfile.TemporaryDirectory(prefix="memory-fusion-") as folder:
        async with open_home(Path(folder) / "home", ("markdown",)) as gateway:
            app = create_app(gateway, gateway.settings)
            import httpx

            async with AsyncClient.over(httpx.ASGITransport(app)) as client:
                answer_ms, cpu_ms, stored_ms = [], [], []
                for call in range(calls + 1):
                    started, cpu = time.perf_counter(), time.process_time()
                    await client.ingest_history(history, "agent:main:bench", user_id="ada", debounce=False)
                    answered, answered_cpu = time.perf_counter(), time.process_time()
                    await gateway.settle()
                    if call:  # the first is the whole history
                        answer_ms.append((answered - started) * 1000)
                        cpu_ms.append((answered_cpu - cpu) * 1000)
                        stored_ms.append((time.process_time() - cpu) * 1000)
                    history.append(_message(len(history)))
    return {
        "ingest_messages": messages,
        "ingest_answer_ms_p50": percentile(0.5, answer_ms),
        "ingest_answer_ms_p100": round(max(answer_ms), 2),
        "ingest_cpu_ms_p50": percentile(0.5, cpu_ms),
        "ingest_stored_cpu_ms_p50": percentile(0.5, stored_ms),
    }


def _message(number: int) -> dict[str, Any]:
    at = datetime(2026, 1, 5, 9, tzinfo=UTC) + timedelta(minutes=number)
    role = "assistant" if number % 2 else "user"
    text = f"Note {number}: the order {7919 * number % 10_007} of workshop {number % 97} is due in {number % 30} days."
    return {"role": role, "content": text, "timestamp": at.isoformat()}


# Recall before a prompt ----------------------------------------------------------------------------------------------


def auto_recall(prompts: int = PROMPTS) -> dict[str, Any]:
    """Milliseconds that a hook adds to a prompt with each bad server, from the start of its process to its end."""
    took = {way: _hooks(way, prompts) for way in WAYS}
    return {
        "auto_recall_ms_p100": round(max(wall for each in took.values() for wall, _ in each), 1),
        "auto_recall_by_server": {
            way: {
                "least_ms": round(min(wall for wall, _ in each), 1),
                "p50_ms": percentile(0.5, [wall for wall, _ in each]),
                "p100_ms": round(max(wall for wall, _ in each), 1),
                "cpu_ms_p50": percentile(0.5, [cpu for _, cpu in each]),
            }
            for way, each in took.items()
        },
    }


def _hooks(way: Way, prompts: int) -> list[tuple[float, float]]:
    """By prompt, the milliseconds of the hook by the clock, and of its CPU."""
    payload = json.dumps({"prompt": "where do the chains come from?"}).encode()
    environment = {name: value for name, value in os.environ.items() if not name.startswith("FUSION_")}
    with tempfile.TemporaryDirectory(prefix="memory-fusion-") as folder:
        home = Path(folder) / "home"
        command = [sys.executable, "-m", "fusion", "hook", "user-prompt-submit", "--home", str(home)]
        took = []
        with bad_server(home, way):
            for _ in range(prompts):
                started, cpu = time.perf_counter(), _cpu_of_children_s()
                subprocess.run(command, input=payload, capture_output=True, check=True, env=environment)
                took.append(((time.perf_counter() - started) * 1000, (_cpu_of_children_s() - cpu) * 1000))
                if way == "dead":  # the prompt has started one, which must not answer the next
                    _stop_started(home)
                    break
        return took


def _cpu_of_children_s() -> float:
    used = getrusage(RUSAGE_CHILDREN)
    return used.ru_utime + used.ru_stime


def _stop_started(home: Path) -> None:
    """Wait for the server that a hook has started in the background, and stop it."""
    from fusion.client import ensure_server

    ensure_server(home)
    stop_server(home)


# Junk ----------------------------------------------------------------------------------------------------------------


def junk(corpora: Sequence[Corpus]) -> dict[str, Any]:
    """The share of facts by rules from the sample's and LoCoMo's sessions that are junk, counted by other checks."""
    sources = {"sample": _sample(), **({"locomo": _turns(corpora)} if corpora else {})}
    counts, facts, rejects, turns = dict.fromkeys(KINDS, 0), 0, 0, 0
    by_source = {}
    for name, talks in sources.items():
        extracted = [turn_facts(talk) for talk in talks]
        pairs = [(fact.fact, fact.fact.partition(": ")[0]) for found in extracted for fact in found.facts]
        counted = count(pairs)
        left_out = sum(len(found.rejects) for found in extracted)
        by_source[name] = {
            "turns": sum(map(len, talks)),
            "facts": len(pairs),
            "rejects": left_out,
            "junk_rate": _share(sum(counted.values()), len(pairs)),
        }
        facts, rejects, turns = facts + len(pairs), rejects + left_out, turns + sum(map(len, talks))
        counts = {kind: counts[kind] + counted[kind] for kind in KINDS}
    raw = count(
        (spoken(turn.text, turn.speaker), turn.speaker) for talks in sources.values() for t in talks for turn in t
    )
    return {
        "junk_rate": _share(sum(counts.values()), facts),
        "junk_rate_of_turns": _share(sum(raw.values()), turns),
        "junk_by_kind": counts,
        "facts": facts,
        "rejects": rejects,
        "junk_by_source": by_source,
    }


def _sample() -> list[list[Event]]:
    """The sample's sessions as turns."""
    talks: dict[str, list[Event]] = {}
    for line in SAMPLE.read_text(encoding="utf-8").splitlines():
        said = json.loads(line)
        talks.setdefault(said["document"], []).append(_turn(said["text"], said["speaker"], len(talks)))
    return [*talks.values()]


def _turns(corpora: Sequence[Corpus]) -> list[list[Event]]:
    """Each conversation of LoCoMo as turns."""
    return [[_turn(item.text, item.speaker, n) for n, item in enumerate(corpus.memories)] for corpus in corpora]


def _turn(text: str, speaker: str | None, number: int) -> Event:
    at = datetime(2026, 1, 1, tzinfo=UTC)
    return Event(f"turn-{number}", text, at, scope=Scope(), kind="turn", speaker=speaker)


def _share(part: int, whole: int) -> float:
    return round(part / whole, 4) if whole else 0.0


# Recall after ingest -------------------------------------------------------------------------------------------------


async def recall_after_ingest(
    corpora: Sequence[Corpus], limit: int | None, done: Callable[[], None] = lambda: None
) -> dict[str, Any]:
    """The share of the evidence in blocks, after sessions were sent as histories and after plain ``remember``.

    ``done`` is called after each conversation.
    """
    if not corpora:
        done()
        return {"recall_after_ingest": {"left_out": "it needs --data"}}
    shares = {}
    for corpus in corpora:
        shares[corpus.id] = {way: await _shares(corpus, way, limit) for way in ("remember", "ingest")}
        done()
    whole = {way: [share for found in shares.values() for share in found[way]] for way in ("remember", "ingest")}
    by_conversation = {name: _means(found) for name, found in shares.items()}
    return {"recall_after_ingest": {**_means(whole), "by_conversation": by_conversation}}


async def _shares(corpus: Corpus, way: str, limit: int | None) -> list[float]:
    """By question of a conversation that was stored in this way, the share of its evidence that the block has."""
    with tempfile.TemporaryDirectory(prefix="memory-fusion-") as folder:
        async with open_home(Path(folder) / "home", BACKENDS) as gateway:
            await (store_corpus(gateway, corpus) if way == "remember" else _send(gateway, corpus))
            return [await _in_block(gateway, corpus, q) for q in corpus.asked(limit) if q.answerable]


def _means(shares: Mapping[str, Sequence[float]]) -> dict[str, Any]:
    means = {f"eib_{way}": round(fmean(found), 4) for way, found in shares.items() if found}
    return {"questions": len(shares["ingest"]), **means}


async def _send(gateway: Gateway, corpus: Corpus) -> None:
    """Send each session as one history, with the names of the two speakers."""
    for document in dict.fromkeys(item.document for item in corpus.memories):
        messages = [
            {
                "role": "user",
                "name": item.speaker,
                "content": item.text,
                **({"timestamp": item.at.isoformat()} if item.at else {}),
            }
            for item in corpus.memories
            if item.document == document
        ]
        body = json.dumps({"messages": messages}).encode()
        scope = Scope(user_id=corpus.id, session_id=f"{corpus.id}-{document}")
        await gateway.ingest_history(scope, body, debounce=False)
    await gateway.settle()
    await wait_until_stored(gateway, len(corpus.memories))


async def _in_block(gateway: Gateway, corpus: Corpus, question: Any) -> float:
    owner = Scope(user_id=corpus.id, audience="private")
    request = FuseRequest(question.text, owner, budget_chars=BUDGET_CHARS, timeout_ms=TIMEOUT_MS, fill=True)
    block = (await gateway.fuse(request)).block
    texts = {item.id: item.text for item in corpus.memories}
    return fmean(texts_in_block([texts[gold] for gold in question.gold], block))


# The synthesis of the turn before ------------------------------------------------------------------------------------

QUESTIONS = Path(__file__).parent / "data" / "next_questions.tsv"
"""the pairs by which the least cosine was chosen"""
HELD_OUT = Path(__file__).parent / "data" / "next_questions_held_out.tsv"
"""pairs by which no number was chosen, each with its language"""


async def synthesis() -> dict[str, Any]:
    """The shares of follow-up questions and of changes of topic whose block has the synthesis of the turn before."""
    with tempfile.TemporaryDirectory(prefix="memory-fusion-") as folder:
        async with open_home(Path(folder) / "home", ("cortex",)) as gateway:
            chosen = await _used(QUESTIONS, gateway)
            held_out = await _used(HELD_OUT, gateway)
    languages = dict.fromkeys(language for _, language, _ in held_out)
    return {
        "synthesis_used_follow_ups": _used_share(chosen, "follow"),
        "synthesis_used_changes": _used_share(chosen, "change"),
        "synthesis_held_out": {
            language: {
                "follow_ups": _used_share(held_out, "follow", language),
                "changes": _used_share(held_out, "change", language),
            }
            for language in languages
        },
    }


async def _used(file: Path, gateway: Gateway) -> list[tuple[str, str, bool]]:
    """By pair its kind, its language, and whether the second question's block has the synthesis of the first one.

    Each pair has a user, with one memory: the words of the first question.
    """
    used = []
    for number, line in enumerate(file.read_text(encoding="utf-8").splitlines()):
        kind, one, other, *language = line.split("\t")
        owner = Scope(user_id=f"{file.stem}-{number}", audience="private")
        await gateway.remember([NewMemory(one.strip("¿? "), scope=owner)])
        await gateway.settle()
        asked = FuseRequest(one, owner, recipe="seed002", timeout_ms=TIMEOUT_MS, asker=Asker(None, f"session-{number}"))
        await gateway.fuse(asked)
        await gateway.syntheses.settle()
        block = (await gateway.fuse(replace(asked, query=other))).block
        used.append((kind, "".join(language), SUMMARY in block))
    return used


def _used_share(used: Sequence[tuple[str, str, bool]], kind: str, language: str = "") -> float:
    these = [is_used for name, spoken_in, is_used in used if name == kind and spoken_in == language]
    return _share(sum(these), len(these))


def show(found: Mapping[str, Any]) -> None:
    """Print the figures."""
    for name, value in found.items():
        print(f"{name:28} {value}")
