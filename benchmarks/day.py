"""Tries a home over some days of simulated time: after each step, every door must give the same memories.

The home has the four default memories and their model; its clock is moved by hours. The doors are `/fuse`, the recall
of openclaw-cortex, MCP and the hook of Claude Code. No store alone may answer what the doors do not.
"""

from __future__ import annotations

import asyncio
import json
import os
import re
import subprocess
import sys
import tempfile
from collections.abc import AsyncIterator, Awaitable, Callable, Mapping
from contextlib import asynccontextmanager
from dataclasses import dataclass, field
from datetime import datetime, timedelta
from pathlib import Path
from typing import Any
from uuid import uuid4

from mcp import Client as McpClient

from fusion.client import AsyncClient
from fusion.doors.http.app import create_app
from fusion.doors.http.serve import Server, listen, url_of
from fusion.doors.mcp.server import tools_server
from fusion.doors.mcp.tools import Caller
from fusion.errors import FusionError
from fusion.gateway.gateway import Gateway
from fusion.home import ServerRecord, config_root, write_record
from fusion.lib.clock import utc_now
from fusion.settings import Settings, load
from fusion.trust.token import home_token

TIMEOUT_MS = 60_000
"""milliseconds for each question and backend: this measures agreement, not speed"""
SETTLE_S = 300.0
HOOK_TRIES = 20
"""how often a hook is asked that did not get an answer in its three seconds"""


@dataclass(frozen=True, slots=True)
class Topic:
    """A question, and the words that each tell one of its memories."""

    question: str
    words: tuple[str, ...]

    def named_in(self, text: str) -> frozenset[str]:
        """The words that a text has."""
        return frozenset(word for word in self.words if word in text)


HOME_TOWN = Topic("where does Nadia live?", ("Rome", "Oslo"))
EDITOR = Topic("which mode does Nadia want in her editor?", ("every editor", "all her editors"))
DOOR = Topic("what is the guest code of the front door?", ("4711",))
FERRY = Topic("when does the ferry to the island leave?", ("at noon", "at six"))
PARKING = Topic("on which level is the car parked?", ("level C",))
PLANT = Topic("who waters the plant in the office?", ("Quentin",))
PORT = Topic("which port does the staging database listen on?", ("5433", "6543"))
KEY = Topic("where is the spare key hidden?", ("flower pot",))
BUILD = Topic("which branch does the build agent test now?", ("kestrel",))
TALK = Topic("what did Nadia buy for the kitchen?", ("kettle",))
TOPICS = (HOME_TOWN, EDITOR, DOOR, FERRY, PARKING, PLANT, PORT, KEY, BUILD, TALK)


@dataclass
class MovedClock:
    """The machine's time, and how far it was moved."""

    ahead: timedelta = timedelta()

    def __call__(self) -> datetime:
        return utc_now() + self.ahead


@dataclass(frozen=True, slots=True)
class Disagreement:
    """A door that answered with other memories than it should have."""

    step: str
    door: str
    question: str
    expected: frozenset[str]
    found: frozenset[str]

    def __str__(self) -> str:
        return (
            f"after {self.step!r}, {self.door} answers {self.question!r} with {sorted(self.found)}, "
            f"not {sorted(self.expected)}"
        )


@dataclass(slots=True)
class Day:
    """A home, the doors before it, and what each topic's answer should be now."""

    home: Path
    clock: MovedClock
    gateway: Gateway
    client: AsyncClient
    mcp: McpClient
    say: Callable[[str], None]
    refs: dict[str, str] = field(default_factory=dict)
    """by word, the memory that has it"""
    expected: dict[Topic, frozenset[str]] = field(default_factory=lambda: dict.fromkeys(TOPICS, frozenset()))
    disagreements: list[Disagreement] = field(default_factory=list)
    checks: int = 0
    steps: int = 0

    async def remember(self, topic: Topic, word: str, text: str, **fields: Any) -> None:
        """Remember a text that has the word of a topic; the answer should have it from now on."""
        (kept,) = (await self.client.remember([{"text": text, "kind": "fact", **fields}]))["memories"]
        self.refs[word] = kept["ref"]
        self.expected[topic] |= {word}

    def gone(self, topic: Topic, *words: str) -> None:
        """The answer should no longer have these words."""
        self.expected[topic] -= {*words}

    def back(self, topic: Topic, *words: str) -> None:
        """The answer should have these words again."""
        self.expected[topic] |= {*words}

    async def check(self, step: str, *topics: Topic) -> None:
        """Ask every door about these topics, and compare."""
        await self.client.settle(SETTLE_S)
        self.steps += 1
        before = len(self.disagreements)
        for topic in topics:
            expected = self.expected[topic]
            for door, found in (await self._answers(topic)).items():
                self.checks += 1
                if found != expected:
                    self.disagreements.append(Disagreement(step, door, topic.question, expected, found))
            for backend in self.gateway.guarded:
                alone = await self.client.fuse(topic.question, backends=[backend])
                self.checks += 1
                if not (found := topic.named_in(alone["block"])) <= expected:
                    self.disagreements.append(Disagreement(step, f"{backend} alone", topic.question, expected, found))
        new = self.disagreements[before:]
        self.say(f"{self.clock():%d %b %H:%M}  {step}: {'every door agrees' if not new else ''}")
        for one in new:
            self.say(f"              {one.door}: {sorted(one.found)}, not {sorted(one.expected)}")

    async def _answers(self, topic: Topic) -> Mapping[str, frozenset[str]]:
        """By door, the words of its answer."""
        fused = await self.client.fuse(topic.question)
        recalled = await self.client.do("cortex", "recall", {"message": topic.question})
        told = await self.mcp.call_tool("memory_fuse", {"query": topic.question})
        texts = {
            "/fuse": fused["block"],
            "cortex recall": recalled["context"],
            "MCP": "".join(getattr(part, "text", "") for part in told.content),
            "hook": await asyncio.to_thread(self._hook, topic.question),
        }
        return {door: topic.named_in(text) for door, text in texts.items()}

    def _hook(self, prompt: str) -> str:
        """The context that the hook adds to a prompt of a new session."""
        command = [sys.executable, "-m", "fusion", "hook", "user-prompt-submit", "--home", str(self.home)]
        fault = ""
        for _ in range(HOOK_TRIES):
            payload = json.dumps({"prompt": prompt, "session_id": str(uuid4()), "cwd": str(self.home)})
            done = subprocess.run(command, input=payload.encode(), capture_output=True, check=True)
            fault = done.stderr.decode()
            if not fault:
                return str(json.loads(done.stdout)["hookSpecificOutput"]["additionalContext"])
        raise FusionError(f"the hook had no answer {HOOK_TRIES} times: {fault}")


async def morning(day: Day) -> None:
    """Remember what the day is about."""
    await day.remember(HOME_TOWN, "Rome", "Nadia lives in Rome.")
    await day.remember(EDITOR, "every editor", "Nadia prefers dark mode in every editor.")
    await day.remember(DOOR, "4711", "The guest code of the front door is 4711.")
    await day.client.set_state(day.refs["4711"], lifetime="ttl")
    await day.remember(FERRY, "at noon", "The ferry to the island leaves at noon.")
    until = (day.clock() + timedelta(hours=3)).isoformat()
    await day.remember(PARKING, "level C", "The car is parked on level C.", valid_to=until)
    await day.remember(PLANT, "Quentin", "Quentin waters the plant in the office.")
    await day.remember(PORT, "5433", "The staging database listens on port 5433.")
    await day.remember(KEY, "flower pot", "The spare key is hidden under the flower pot.")
    await day.remember(BUILD, "kestrel", "The build agent tests the branch kestrel now.")
    await day.client.set_state(day.refs["kestrel"], lifetime="session")
    turn = {"kind": "turn", "speaker": "Nadia", "session_id": "s1"}
    await day.remember(TALK, "kettle", "I bought a blue kettle for the kitchen.", **turn)
    await day.check("remember ten memories", *TOPICS)


async def contradict(day: Day) -> None:
    """Both sides are answered until the lifecycle decides; its undo shows both again."""
    day.clock.ahead += timedelta(hours=1)
    await day.remember(HOME_TOWN, "Oslo", "Nadia lives in Oslo now.")
    await day.check("contradict: another home town", HOME_TOWN)


async def reword(day: Day) -> None:
    """A rewording is answered once; the undo of the merge shows both, and a second undo hides it again."""
    day.clock.ahead += timedelta(hours=1)
    await day.remember(EDITOR, "all her editors", "Nadia prefers dark mode in all her editors.")
    day.gone(EDITOR, "all her editors")
    await day.check("reword: the dark mode once more", EDITOR)
    (merged,) = (await day.client.decisions(ref=day.refs["all her editors"]))["decisions"]
    undone = (await day.client.undo_decision(merged["id"]))["decision"]
    day.back(EDITOR, "all her editors")
    await day.check("undo the merge of the rewording", EDITOR)
    assert undone is not None
    await day.client.undo_decision(undone["id"])
    day.gone(EDITOR, "all her editors")
    await day.check("undo that undo", EDITOR)


async def archive(day: Day) -> None:
    """An archived memory is gone until it is current again; a quarantined one until it is trusted."""
    done = (await day.client.set_state(day.refs["Quentin"], archived=True))["decision"]
    day.gone(PLANT, "Quentin")
    await day.check("archive who waters the plant", PLANT)
    assert done is not None
    await day.client.undo_decision(done["id"])
    day.back(PLANT, "Quentin")
    await day.check("undo the archiving", PLANT)
    await day.client.set_state(day.refs["Quentin"], trust="quarantined")
    day.gone(PLANT, "Quentin")
    await day.check("quarantine it", PLANT)
    await day.client.set_state(day.refs["Quentin"], trust="trusted")
    day.back(PLANT, "Quentin")
    await day.check("trust it", PLANT)


async def update(day: Day) -> None:
    """A new version takes the place of the earlier one, until it is undone."""
    done = await day.client.update(day.refs["5433"], "The staging database listens on port 6543.")
    day.gone(PORT, "5433")
    day.back(PORT, "6543")
    await day.check("update the port", PORT)
    await day.client.undo(done["batch"])
    day.gone(PORT, "6543")
    day.back(PORT, "5433")
    await day.check("undo the update", PORT)
    await day.client.set_state(day.refs["5433"], archived=True)
    done = await day.client.update(day.refs["5433"], "The staging database listens on port 6543.")
    day.gone(PORT, "5433")
    await day.check("archive the port and update it: it stays archived", PORT)
    await day.client.set_state(done["ref"], archived=False)
    day.back(PORT, "6543")
    await day.check("make the new version current", PORT)


async def forget(day: Day) -> None:
    """What is forgotten is gone, and may be remembered again."""
    await day.client.forget(day.refs["flower pot"])
    day.gone(KEY, "flower pot")
    await day.check("forget where the key is", KEY)
    await day.client.forget(day.refs["kettle"])
    day.gone(TALK, "kettle")
    await day.check("forget a turn", TALK)
    await day.remember(KEY, "flower pot", "The spare key is hidden under the flower pot.")
    await day.check("remember the key again", KEY)


async def afternoon(day: Day) -> None:
    """What was valid until now is gone by itself; the lifecycle resolves the conflict."""
    day.clock.ahead += timedelta(hours=4)
    day.gone(PARKING, "level C")
    await day.check("four hours later: the car was parked until then", PARKING)
    await day.client.lifecycle()
    day.gone(HOME_TOWN, "Rome")
    await day.check("lifecycle: the conflict is resolved", HOME_TOWN, PARKING, DOOR, BUILD)


async def next_day(day: Day) -> None:
    """A session's memory decays when it is not used for a day."""
    day.clock.ahead += timedelta(hours=25)
    await day.check("a day later: nothing decided yet", BUILD, DOOR)
    day.clock.ahead += timedelta(hours=25)
    await day.client.lifecycle()
    day.gone(BUILD, "kestrel")
    await day.check("lifecycle: the session's memory decayed", BUILD, DOOR)


async def next_month(day: Day) -> None:
    """What lives for 720 hours expires; its undo holds against the next run."""
    day.clock.ahead += timedelta(hours=700)
    report = await day.client.lifecycle()
    day.gone(DOOR, "4711")
    await day.check("lifecycle a month later: the guest code expired", DOOR)
    for decision in (await day.client.decisions(limit=100))["decisions"]:
        if decision["run"] == report["run"]:
            await day.client.undo_decision(decision["id"])
    day.back(DOOR, "4711")
    await day.check("undo that run", DOOR)
    await day.client.lifecycle()
    await day.check("run it again: what was undone stays", DOOR, HOME_TOWN)


async def clock_back(day: Day) -> None:
    """A clock that goes back and forth takes no decision back, and makes none of its own."""
    ahead, day.clock.ahead = day.clock.ahead, timedelta()
    await day.client.lifecycle()
    await day.remember(FERRY, "at six", "In winter the ferry to the island leaves at six.")
    await day.check("the clock goes back", *TOPICS)
    day.clock.ahead = ahead
    await day.client.lifecycle()
    await day.check("and forward again", *TOPICS)


STEPS: tuple[Callable[[Day], Awaitable[None]], ...] = (
    morning,
    contradict,
    reword,
    archive,
    update,
    forget,
    afternoon,
    next_day,
    next_month,
    clock_back,
)


def run(say: Callable[[str], None] = print) -> dict[str, Any]:
    """Try all steps in a home of their own; the figures, with what disagreed."""
    return asyncio.run(_run(say))


async def _run(say: Callable[[str], None]) -> dict[str, Any]:
    with tempfile.TemporaryDirectory(prefix="fusion-day-") as folder:
        async with opened(Path(folder) / "home", say) as day:
            for step in STEPS:
                await step(day)
            return {
                "command": "day",
                "steps": day.steps,
                "checks": day.checks,
                "disagreements": [str(one) for one in day.disagreements],
            }


@asynccontextmanager
async def opened(home: Path, say: Callable[[str], None]) -> AsyncIterator[Day]:
    """A new home with a server before it, and the doors of that server."""
    clock, settings = MovedClock(), _settings(home)
    async with Gateway.open(settings, clock=clock) as gateway:
        token, door = home_token(home), listen("127.0.0.1", 0)
        server = Server(create_app(gateway, settings, local_token=token), settings)
        url = url_of(door)
        serving = asyncio.create_task(server.serve(sockets=[door]))
        try:
            async with AsyncClient(url, api_key=token, timeout_s=TIMEOUT_MS / 1000) as client:

                async def caller_of(context: Any) -> Caller:
                    return Caller(client, {})

                async with McpClient(tools_server(caller_of)) as mcp:
                    write_record(home, ServerRecord(os.getpid(), url, "now"))
                    yield Day(home, clock, gateway, client, mcp, say)
        finally:
            server.should_exit = True
            await serving


def _settings(home: Path) -> Settings:
    """The default settings, with a minute for each question and backend."""
    home.mkdir(mode=0o700)
    recipes = home / "recipes"
    recipes.mkdir(mode=0o700)
    for name in ("default", "hook"):
        shipped = (config_root() / "recipes" / f"{name}.toml").read_text(encoding="utf-8")
        text = re.sub(r"^timeout_ms = .*\n", "", shipped, flags=re.MULTILINE)
        text = text.replace("\n[gather]\n", f"\n[gather]\ntimeout_ms = {TIMEOUT_MS}\n")
        (recipes / f"{name}.toml").write_text(text, encoding="utf-8")
    # The clock is moved, so a job of the night would run between two steps.
    settings = load(home=home, log_level="warning", jobs={"lifecycle": {"schedule": "off"}})
    backends = {n: one.model_copy(update={"deadline_ms": TIMEOUT_MS}) for n, one in settings.backends.items()}
    return settings.model_copy(update={"backends": backends})


def show(figures: Mapping[str, Any]) -> None:
    """Print the figures; the steps were printed as they were done."""
    disagreements = figures["disagreements"]
    print(f"\n{figures['steps']} steps, {figures['checks']} answers, {len(disagreements)} disagreements")
    for one in disagreements:
        print(f"  {one}")
