"""Measures what keeps MEMORY.md: the facts of a year that the rules of `distill` keep, and what a bad model destroys.

``distill``: a year of turns with facts, of which some change, some are said again, and most turns say nothing. After
each half day the rules rewrite a file of 25,000 characters. Then each fact that still holds is looked up: it counts as
answerable if one line has its subject and its value. The same for files of that size with the newest turns, and with
the newest facts.

``protected_lines``: a model rewrites the file 200 times, and loses or twists one line in a hundred each time. Counted
are the lines of protected sections that are lost or changed at the end: without the shepherd, with it, and where the
model only names operations on numbered lines that are checked, as `distill` asks it to.
"""

from __future__ import annotations

import json
import random
import tempfile
from collections.abc import Iterator, Sequence
from dataclasses import dataclass, replace
from datetime import UTC, datetime, timedelta
from pathlib import Path
from typing import Any

from fusion.contract import Event, Scope
from fusion.errors import InvalidAnswer
from fusion.ingest.facts import facts as triples_of
from fusion.ingest.turn_facts import turn_facts
from fusion.lib.grading import MAX_IMPORTANCE
from fusion.lib.words import words
from fusion.store.workspace import Workspace
from fusion.upkeep import distill_prompt
from fusion.upkeep.curate import Fact, curated, rendered
from fusion.upkeep.drift import by_words, protects, sections
from fusion.upkeep.shepherd import Limits, Shepherd

BEGAN = datetime(2026, 1, 1, 8, tzinfo=UTC)
TURNS, DAYS, CYCLES = 20_000, 365, 200
MAX_CHARS = 25_000
PROTECTED = ("identity", "rules")
FACTS_PER_TURN = 0.12
AGAIN, CHANGED = 0.25, 0.25
"""shares of the facts that are said again, and that change an earlier one"""


def run(turns: int = TURNS, days: int = DAYS, cycles: int = CYCLES) -> dict[str, Any]:
    """The figures ``distill`` and ``protected_lines``."""
    return {"distill": year(turns, days), "protected_lines": protected_lines(cycles)}


measure = run


# A year ----------------------------------------------------------------------------------------------------------

_NAMES = "Ada Ben Cleo Dara Emil Fina Gus Hana Ivo Jule Kian Lena Milo Nora Otis Pia Quin Rosa Sven Tuva".split()
_HOUSES = "Kedjan Nordhus Solvik Brygga Fjell Havn Lund Skogen Tangen Viken Aasen Bakken Dalen Elvik Foss".split()
_CITIES = "Oslo Bergen Rome Lyon Porto Gdansk Turin Malmo Ghent Bilbao Split Graz Turku Cork Basel Nantes".split()
_FOODS = "peanuts shellfish sesame celery mustard lupin walnuts soy kiwi eggs".split()
_TOOLS = "Postgres Redis Kafka Caddy Nomad Ansible Vault Consul Grafana Loki Minio Traefik".split()
_CHATTER = (
    "Thanks, that looks good.",
    "Can you have another look at it?",
    "Hmm, let me think about that for a moment.",
    "Good morning!",
    "Could you summarise what we have so far?",
    "That was quick, great work.",
    "What do you think about the second option?",
    "OK, go on please.",
)


@dataclass(frozen=True, slots=True)
class _Said:
    """A fact as the script knows it: what a question asks for, its value, and how often it is asked for in a year."""

    subject: str
    slot: str
    value: str
    text: str
    asked: int

    def is_in(self, line: str) -> bool:
        """Whether a line answers the question."""
        return words(f"{self.subject} {self.value}") <= words(line)


def _facts(rng: random.Random, count: int) -> Iterator[_Said]:
    """Facts in the order in which they are said; a later one with the same subject and slot replaces an earlier one."""
    said: list[_Said] = []
    for number in range(count):
        draw = rng.random()
        if said and draw < AGAIN:
            yield said[rng.randrange(len(said))]
            continue
        if said and draw < AGAIN + CHANGED:
            earlier = said[rng.randrange(len(said))]
            new = _fact(rng, earlier.slot, earlier.subject, earlier.asked)
        else:
            slot = rng.choice(("lives", "allergic", "port", "tool", "pays"))
            new = _fact(rng, slot, _subject(rng, slot, number), int(rng.paretovariate(1.1)) - 1)
        said = [one for one in said if (one.subject, one.slot) != (new.subject, new.slot)] + [new]
        yield new


def _subject(rng: random.Random, slot: str, number: int) -> str:
    name, house = rng.choice(_NAMES), rng.choice(_HOUSES)
    return f"{name} {house}{number}" if slot in ("lives", "allergic") else f"{house}{number}"


def _fact(rng: random.Random, slot: str, subject: str, asked: int) -> _Said:
    value, text = {
        "lives": lambda: (city := rng.choice(_CITIES), f"{subject} lives in {city} now."),
        "allergic": lambda: (food := rng.choice(_FOODS), f"{subject} is allergic to {food}."),
        "port": lambda: (port := str(rng.randrange(1024, 65_000)), f"The server {subject} listens on port {port} now."),
        "tool": lambda: (tool := rng.choice(_TOOLS), f"We decided that the project {subject} uses {tool} now."),
        "pays": lambda: (
            sum_ := str(rng.randrange(100, 9000)),
            f"The customer {subject} pays {sum_} euros a month now.",
        ),
    }[slot]()
    return _Said(subject, slot, value, text, asked)


def year(turns: int = TURNS, days: int = DAYS, seed: int = 7) -> dict[str, Any]:
    """The facts that hold at the end of the year, and how many of them each file answers."""
    rng = random.Random(seed)
    said = _facts(rng, turns)
    holds: dict[tuple[str, str], _Said] = {}
    uses: dict[str, int] = {}
    text, kept, events, extracted = "", list[Fact](), list[Event](), list[Fact]()
    cycle = max(1, turns // (days * 2))
    for number in range(turns):
        at = BEGAN + timedelta(days=days) * (number / turns)
        words_of_turn = rng.choice(_CHATTER)
        if rng.random() < FACTS_PER_TURN:
            fact = next(said)
            holds[fact.subject, fact.slot] = fact
            uses[fact.text] = fact.asked
            words_of_turn = f"{words_of_turn} {fact.text}"
        events.append(Event(f"e{number}", words_of_turn, at, Scope(), "turn", speaker="Ada"))
        if len(events) % cycle == 0:
            new = [one for event in events[-cycle:] for one in _extracted(event, uses)]
            extracted += new
            found = _curated(text, kept, new, at)
            text, kept = found.text, list(found.facts)
    lines = {
        "distilled": text.splitlines(),
        "newest_turns": _newest([f"{one.speaker}: {one.text}" for one in events]),
        "newest_facts": _newest([one.line for one in extracted]),
    }
    answered = {name: [fact for fact in holds.values() if any(map(fact.is_in, of))] for name, of in lines.items()}
    asked = sum(fact.asked for fact in holds.values())
    return {
        "turns": turns,
        "facts_that_hold": len(holds),
        "characters": {name: sum(len(line) + 1 for line in of) for name, of in lines.items()},
        "answerable": {name: len(found) for name, found in answered.items()},
        "answerable_by_use": {
            name: round(sum(one.asked for one in found) / max(1, asked), 4) for name, found in answered.items()
        },
        "ratio_to_newest_turns": _ratio(len(answered["distilled"]), len(answered["newest_turns"])),
        "ratio_to_newest_facts": _ratio(len(answered["distilled"]), len(answered["newest_facts"])),
    }


def _extracted(event: Event, uses: dict[str, int]) -> Iterator[Fact]:
    for one in turn_facts([event]).facts:
        plain = one.fact.removeprefix("Ada: ")
        triples = tuple(triples_of(plain, "Ada"))
        yield Fact(
            plain,
            event.recorded_at,
            (f"m{event.event_id[1:]}",),
            one.topic,
            one.importance / MAX_IMPORTANCE,
            uses=uses.get(plain, 0),
            triples=triples,
        )


def _curated(text: str, kept: Sequence[Fact], new: Sequence[Fact], at: datetime) -> Any:
    return curated(
        text,
        {one.line: one for one in kept},
        new,
        protected=protects(PROTECTED),
        now=at,
        max_chars=MAX_CHARS,
        max_loss=0.25,
    )


def _newest(lines: Sequence[str]) -> list[str]:
    """The newest lines that fit."""
    room, found = MAX_CHARS, []
    for line in reversed(lines):
        room -= len(line) + 1
        if room < 0:
            break
        found.append(line)
    return found


def _ratio(ours: int, theirs: int) -> float:
    return round(ours / max(1, theirs), 2)


# A bad model -----------------------------------------------------------------------------------------------------

OWN = "".join(
    (
        "# Max\n\n## Identity\n\n",
        *(f"- I am Max, and value number {n} of mine is honesty of kind {n}.\n" for n in range(10)),
        "\n## Rules\n\n",
        *(f"- Rule {n}: never do deed {n} without asking Ada first.\n" for n in range(20)),
        "\n## Facts\n\n",
        *(f"- The server {house} listens on port {7000 + n}.\n" for n, house in enumerate(_HOUSES * 6)),
    )
)


def protected_lines(cycles: int = CYCLES, seed: int = 7) -> dict[str, Any]:
    """Protected lines that are lost or changed after so many rewrites, of those that there are."""
    before = _protected(OWN)
    found = {
        "without_shepherd": _rewritten(cycles, seed, shepherded=False),
        "with_shepherd": _rewritten(cycles, seed, shepherded=True),
        "with_checked_operations": _tidied(cycles, seed),
    }
    return {"cycles": cycles, "lines": len(before)} | {
        name: len([line for line in before if line not in _protected(text)]) for name, text in found.items()
    }


def _protected(text: str) -> list[str]:
    protected = protects(PROTECTED)
    return [line for one in sections(text) if protected(one.path) for line in one.lines if line.strip()]


def _bad(rng: random.Random, line: str) -> str | None:
    """A line as the model writes it: one in a hundred is lost or twisted."""
    if not line.startswith("- ") or rng.random() >= 0.01:
        return line
    if rng.random() < 0.5:
        return None
    at = rng.choice([number for number, word in enumerate(line.split()) if number])
    return " ".join(word if number != at else "roughly" for number, word in enumerate(line.split()))


def _rewritten(cycles: int, seed: int, *, shepherded: bool) -> str:
    """The file after a model has rewritten all of it again and again, as seed 003 does."""
    rng = random.Random(seed)
    with tempfile.TemporaryDirectory(prefix="memory-fusion-") as name:
        folder = Path(name).resolve()
        (root := folder / "workspace").mkdir()
        (root / "MEMORY.md").write_text(OWN)
        workspace = Workspace(root, folder / "records")
        shepherd = Shepherd(folder / "shepherd", workspace, Limits(0.25, 0.3, PROTECTED))
        shepherd.promote(BEGAN, workspace.read("MEMORY.md").hash)
        for cycle in range(cycles):
            now = BEGAN + timedelta(hours=12 * cycle)
            read = workspace.read("MEMORY.md")
            lines = [new for line in read.text.splitlines() if (new := _bad(rng, line)) is not None]
            if lines != read.text.splitlines():
                workspace.write(read, "\n".join((*lines, "")).encode(), by="distill", now=now)
            look = shepherd.look() if shepherded else None
            if look is not None:
                ours, total = ([by_words(one) for one in found.passages] for found in (look.ours, look.total))
                shepherd.act(look, shepherd.judge(look, ours, total), now)
        return (root / "MEMORY.md").read_text()


def _tidied(cycles: int, seed: int) -> str:
    """The file after a model named operations on our lines again and again, as `distill` asks for."""
    rng = random.Random(seed)
    own = OWN.partition("## Facts")[0]
    lines = [line for line in OWN.splitlines() if line.startswith("- The server")]
    facts = [Fact(line.removeprefix("- "), BEGAN, (f"m{n}",)) for n, line in enumerate(lines)]
    text = rendered(own, {}, facts, {}, protects(PROTECTED))
    for _ in range(cycles):
        ours = {one.line: one for one in facts}
        merge = []
        for number, fact in enumerate(facts, start=1):
            new = _bad(rng, f"- {fact.text}")
            if new != f"- {fact.text}":
                merge.append({"lines": [number], "text": (new or "- gone").removeprefix("- ")})
        try:
            facts = list(distill_prompt.tidied(json.dumps({"merge": merge}), facts).facts)
        except InvalidAnswer:
            continue
        text = rendered(text, ours, [replace(one) for one in facts], {}, protects(PROTECTED))
    return text
