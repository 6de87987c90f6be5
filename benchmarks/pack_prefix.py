"""The stable prefix over an invented day of 200 turns: how often it hits, what it saves, and what it still knows.

The day has five sessions of one agent. The talk is generated, the same each time: requests, answers, and output of
tools that is much longer than both. In the morning 30 key facts are said, each inside a longer turn: ten decisions,
preferences and rules (``marked``), ten facts with a number or a name (``specific``), and ten that nothing tells from
the talk around them (``bare``). In the evening the window is looked through for them, as is a window of the last turns
with the same tokens.
"""

from __future__ import annotations

import asyncio
from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from datetime import UTC, datetime, timedelta
from itertools import accumulate, pairwise
from pathlib import Path
from random import Random
from tempfile import TemporaryDirectory
from typing import Any

from benchmarks.metrics import mean
from benchmarks.pack import Data
from fusion.contract import Event, Moment, Origin, Scope
from fusion.gateway.prefix_windows import Marks, PrefixWindows
from fusion.journal import Journal
from fusion.lib.budget import estimate_tokens
from fusion.lib.ids import uuid7
from fusion.recall.stable_prefix import PrefixText, hit_rate, raw_line

TURNS = 200
SESSIONS = 5
MORNING = 80
"""the turns in which the key facts are said"""
FACTS = 30
"""a third of them in each group"""
MINUTES = 3
"""between two turns"""
BEGINS = datetime(2026, 11, 2, 8, tzinfo=UTC)
SEED = 29
AGENT = Scope(user_id="nadia", agent_id="main", audience="private")
MARKS = Marks()

_MARKED = (
    "We decided that {thing} runs on port {value}.",
    "I prefer {thing} before {value} o'clock, please remember that.",
    "From now on {thing} must never be deployed without ticket {value}.",
    "The deadline for {thing} is the {value}th, so that is decided.",
    "Always book {thing} under customer number {value}.",
)
_SPECIFIC = (
    "The van for {thing} has the plate KD {value}.",
    "Berit keeps the key for {thing} in locker {value}.",
    "{thing} costs {value} crowns a month.",
    "Jonas lives above {thing}, at number {value}.",
    "The meter of {thing} showed {value} this morning.",
)
_THINGS = (
    "the harbour office,the bookings service,the winter sale,the sauna boat,the ticket printer,the kayak shed,"
    "the newsletter,the card reader,the night ferry,the tide table,the summer camp,the boiler room,the map server,"
    "the payroll export,the front desk"
).split(",")
_BARE = (
    "The spare key is under the blue pot behind the shed.",
    "My sister moves back to the island with both dogs.",
    "The old pump hums when the tide is low.",
    "Our neighbour sells honey from the hives on the roof.",
    "The red kayak leaks a little near the bow.",
    "Grandmother never liked the smell of smoked fish.",
    "The cellar floods whenever the wind comes from the west.",
    "The painter used the wrong green for the front door.",
    "Half of the chairs in the hall are borrowed from the school.",
    "The ferry crew takes parcels along for free.",
)
_ASKS = (
    "Can you look at {thing} again?",
    "What does the log of {thing} say?",
    "Please check why {thing} was slow last night.",
    "Is {thing} ready for the review?",
)
_TALK = (
    "It went on like that for a while and nobody minded.",
    "The weather was grey, and the queue at the pier was long.",
    "Most of it looks as it did yesterday.",
    "I had another coffee in between.",
    "There was nothing unusual in the first part of it.",
    "The second half took a little longer than the first.",
)
_DONE = (
    "I looked at {thing}: the tests pass and the queue is empty.",
    "I restarted {thing}, and it answers again.",
    "The report on {thing} has four pages; the second one has the numbers.",
    "We decided to leave {thing} as it is until next week.",
)


@dataclass(frozen=True, slots=True)
class Said:
    """One turn of the day, and the key fact in it with its group; "" for none."""

    text: str
    speaker: str
    origin: Origin
    session: str
    key: str = ""
    group: str = ""


def day(seed: int = SEED) -> Iterator[Said]:
    """The turns of the day."""
    random = Random(seed)
    facts = _facts(random)
    places = set(random.sample(range(0, MORNING, 2), FACTS))
    for number in range(TURNS):
        session = f"session-{number * SESSIONS // TURNS + 1}"
        if number % 2 == 0:
            key, group = facts.pop() if number in places else ("", "")
            parts = [random.choice(_ASKS).format(thing=random.choice(_THINGS)), *_some(random, 3), key]
            yield Said(" ".join(filter(None, parts)), "Nadia", "owner", session, key, group)
        elif number % 4 == 1:
            yield Said(_output(random), "tool", "tool", session)
        else:
            done = random.choice(_DONE).format(thing=random.choice(_THINGS))
            yield Said(" ".join([done, *_some(random, 6)]), "assistant", "agent", session)


def _facts(random: Random) -> list[tuple[str, str]]:
    """The key facts in an order of their own, each with its group."""
    found = [(one, "bare") for one in _BARE]
    for group, forms in (("marked", _MARKED), ("specific", _SPECIFIC)):
        for value in random.sample(range(1_000, 9_999), FACTS // 3):
            one = random.choice(forms).format(thing=random.choice(_THINGS), value=value)
            found.append((f"{one[:1].upper()}{one[1:]}", group))
    random.shuffle(found)
    return found


def _some(random: Random, most: int) -> Sequence[str]:
    return random.sample(_TALK, random.randint(0, most))


def _output(random: Random) -> str:
    """The output of a tool: 500 to 10,000 characters of log."""
    lines = [
        f"2026-11-02 08:{random.randint(10, 59)}:{random.randint(10, 59)} INFO worker-{random.randint(1, 9)} took "
        f"{random.randint(1, 900)} ms for request {random.randint(10_000, 99_999)}"
        for _ in range(random.randint(7, 140))
    ]
    return "\n".join(lines)


def measure(data: Data) -> dict[str, Any]:
    """The figures of the day; ``data`` is not needed."""
    with TemporaryDirectory() as folder:
        return asyncio.run(_measured(Path(folder), [*day()]))


async def _measured(folder: Path, said: Sequence[Said]) -> dict[str, Any]:
    now = [BEGINS]
    journal = await Journal.open(folder / "journal.sqlite")
    windows = PrefixWindows(journal, MARKS, clock=lambda: now[0])
    shown, history = [], []
    for turn in said:
        await journal.append([_event(turn, now[0])])
        shown.append((await windows.read(AGENT)).shown)
        await windows.settle()
        history.append(raw_line("m1", now[0], f"{turn.speaker}: {turn.text}", len(turn.text) + 99))
        now[0] += timedelta(minutes=MINUTES)
    view = await windows.read(AGENT)
    await windows.close()
    await journal.close()
    tokens = estimate_tokens(view.shown.text)
    last = [PrefixText((), tuple(_last(history[: n + 1], tokens))) for n in range(len(history))]
    sizes = [*map(estimate_tokens, history)]
    sent, whole = [estimate_tokens(one.text) for one in shown], [*accumulate(sizes)]
    rates = _rates(shown)
    uncached = [size * (1 - rate) for size, rate in zip(sent, rates, strict=True)]
    return {
        "turns": len(said),
        "prefix_hit_rate": mean(rates),
        "rewrites": view.window.rewrites,
        "changes_of_the_stable_part": view.window.version,
        "tokens_a_turn": mean(sent, 0),
        "not_cached_tokens_a_turn": mean(uncached, 0),
        "whole_history_tokens_a_turn": mean(whole, 0),
        "whole_history_not_cached_tokens_a_turn": mean(sizes, 0),
        "saved": round(1 - sum(sent) / sum(whole), 3),
        "tokens_in_the_evening": tokens,
        "known_in_the_evening": _known(said, view.shown.text),
        "last_turns_hit_rate": mean(_rates(last)),
        "last_turns_known_in_the_evening": _known(said, last[-1].text),
    }


def _rates(shown: Sequence[PrefixText]) -> Sequence[float]:
    return [hit_rate(before.served, now.served) for before, now in pairwise([PrefixText(), *shown])]


def _known(said: Sequence[Said], text: str) -> dict[str, float]:
    """The share of key facts in a text, of all and of each group."""
    keys = [turn for turn in said if turn.key]
    groups = {
        group: [turn.key in text for turn in keys if turn.group == group] for group in ("marked", "specific", "bare")
    }
    return {"all": _share([turn.key in text for turn in keys]), **{name: _share(one) for name, one in groups.items()}}


def _share(found: Sequence[bool]) -> float:
    return round(sum(found) / len(found), 3)


def _event(turn: Said, at: datetime) -> Event:
    scope = Scope(AGENT.tenant, AGENT.user_id, AGENT.agent_id, session_id=turn.session, audience="private")
    return Event(
        str(uuid7()), turn.text, at, scope, kind="turn", speaker=turn.speaker, at=Moment(at), origin=turn.origin
    )


def _last(lines: Sequence[str], tokens: int) -> Sequence[str]:
    """The last lines that have so many tokens."""
    first, left = len(lines), tokens
    while first and (left := left - estimate_tokens(lines[first - 1])) >= 0:
        first -= 1
    return lines[first:]
