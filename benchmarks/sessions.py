"""Measures what a session is shown again, and the time of an answer that was prepared after its last turn."""

from __future__ import annotations

import tempfile
import time
from pathlib import Path
from random import Random
from typing import Any

from benchmarks.metrics import percentile
from benchmarks.progress import bar
from benchmarks.synthetic_text import sentence, word
from fusion.contract import Asker, Scope
from fusion.gateway.gateway import Gateway
from fusion.ingest.intake import NewMemory
from fusion.recall.engine import Fused, FuseRequest
from fusion.settings import load

TURNS = 50
PREPARED = 60
QUESTIONS = {
    "prepared": ("what do we know about {}?", "What do we know about {}"),
    "prepared_reworded": ("what do we know about {}?", "what is known about {}?"),
    "prepared_moved": ("when does the work on {} end?", "when is the end of the work on {}?"),
}
"""by figure, the last question and the next one: in its words, in forms of them, and in another order, which needs the
model"""
TOPICS = 12
"""subjects that the session's questions return to, each with `MEMORIES` memories"""
MEMORIES = 20
SCOPE = Scope(user_id="ada", audience="private")
TIMEOUT_MS = 10_000


async def sessions(turns: int = TURNS, prepared: int = PREPARED) -> dict[str, Any]:
    """Both figures, over one home with the four default memories and the recipe of the hooks."""
    with tempfile.TemporaryDirectory(prefix="memory-fusion-") as folder:
        async with Gateway.open(load(home=Path(folder) / "home")) as gateway:
            draw = Random("sessions")
            topics = [f"{word(draw)} {word(draw)}" for _ in range(TOPICS)]
            texts = [f"About {topic}: {sentence(draw, 90)}" for topic in topics for _ in range(MEMORIES)]
            await gateway.remember([NewMemory(text, SCOPE) for text in texts])
            await gateway.settle()
            return {
                **await repeat_injections(gateway, topics, turns, draw),
                **await prepared_answers(gateway, topics, prepared, draw),
            }


async def repeat_injections(gateway: Gateway, topics: list[str], turns: int, draw: Random) -> dict[str, Any]:
    """How many memories one session was shown a second time; a turn of it is captured after each question."""
    shown: list[str] = []
    with bar("turns", turns) as advance:
        for turn in range(turns):
            fused = await _ask(gateway, f"what about {draw.choice(topics)}?", "asking")
            shown += [member.ref for excerpt in fused.memories for member in excerpt.members]
            await _capture(gateway, f"Turn {turn}: {sentence(draw, 60)}", "asking")
            advance(1)
    return {"turns": turns, "injections": len(shown), "repeat_injections": len(shown) - len(set(shown))}


async def prepared_answers(gateway: Gateway, topics: list[str], count: int, draw: Random) -> dict[str, Any]:
    """Milliseconds of a question like the last one after a captured turn, by how much its words differ.

    ``unprepared`` is the first question of each session, with the same memories.
    """
    took: dict[str, list[float]] = {"unprepared": [], **{name: [] for name in QUESTIONS}}
    used = 0
    for n in range(count):
        name, (first, again) = list(QUESTIONS.items())[n % len(QUESTIONS)]
        topic, session = f"{word(draw)} and {topics[n % len(topics)]}", f"s{n}"
        _, took_ms = await _timed(gateway, first.format(topic), session)
        took["unprepared"].append(took_ms)
        await _capture(gateway, f"Ada: let me see, number {n}", session)
        fused, took_ms = await _timed(gateway, again.format(topic), session)
        if fused.prepared:
            used += 1
            took[name].append(took_ms)
    return {"prepared_used": used / count} | {f"{name}_p50_ms": percentile(0.5, each) for name, each in took.items()}


async def _timed(gateway: Gateway, question: str, session: str) -> tuple[Fused, float]:
    started = time.perf_counter()
    fused = await _ask(gateway, question, session)
    return fused, round((time.perf_counter() - started) * 1000, 2)


async def _ask(gateway: Gateway, question: str, session: str) -> Fused:
    asker = Asker("benchmark", session)
    return await gateway.fuse(FuseRequest(question, SCOPE, recipe="hook", timeout_ms=TIMEOUT_MS, asker=asker))


async def _capture(gateway: Gateway, text: str, session: str) -> None:
    scope = Scope(user_id="ada", session_id=session, audience="private")
    await gateway.remember([NewMemory(text, scope, kind="turn")])
    await gateway.settle()
