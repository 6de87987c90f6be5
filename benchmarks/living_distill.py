"""Measures what keeps MEMORY.md: the facts that the rules of `distill` keep, and what a bad model destroys.

``distill``: the year of `living_year`. After each half day the rules rewrite a file of 25,000 characters from what is
in it and what is new, as the job does. At the end each fact that matters and holds is looked up, and each question: it
is answered if one line has its subject and its value. The same for files of that size with the newest turns, and with
the newest facts, each once; all three have the lines of `distill`, with their refs.

``distill_talk``: each conversation of LoCoMo, as an independent check on text that nobody wrote for it. After each
session the rules rewrite a file of a tenth of the characters of the whole talk. Counted is the share of the turns that
hold the answer to a question of which the file has a line.

``protected_lines``: a model rewrites the file 200 times, and loses or twists one line in a hundred each time. Counted
are the lines of protected sections that are lost or changed at the end: without the shepherd, with it, and where the
model only names operations on numbered lines that are checked, as `distill` asks it to.
"""

from __future__ import annotations

import json
import random
import tempfile
from collections import Counter
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field, replace
from datetime import datetime, timedelta
from functools import cache
from itertools import groupby
from pathlib import Path
from typing import Any

from benchmarks import living_year
from benchmarks.datasets import Corpus
from benchmarks.living_year import BEGAN
from fusion.contract import Event, Scope
from fusion.contract import Fact as Triple
from fusion.errors import InvalidAnswer
from fusion.ingest.facts import facts as triples_of
from fusion.ingest.turn_facts import turn_facts
from fusion.lib.grading import MAX_IMPORTANCE, grade_of
from fusion.lib.words import words
from fusion.store.workspace import Workspace
from fusion.upkeep import distill_prompt
from fusion.upkeep.curate import Fact, curated, refs_of, rendered, text_of
from fusion.upkeep.drift import by_words, protects, sections
from fusion.upkeep.shepherd import Limits, Shepherd

TURNS, DAYS, CYCLES = 20_000, 365, 200
MAX_CHARS = 25_000
PROTECTED = ("identity", "rules")
SEED = 7
"""of the printed year; rules are tried on others"""


def measure(
    corpora: Sequence[Corpus] = (), turns: int = TURNS, days: int = DAYS, cycles: int = CYCLES
) -> dict[str, Any]:
    """The figures ``distill``, ``distill_talk`` where there are conversations, and ``protected_lines``."""
    of_talk = {"distill_talk": talk(corpora)} if corpora else {}
    return {"distill": year(turns, days), **of_talk, "protected_lines": protected_lines(cycles)}


# A year ----------------------------------------------------------------------------------------------------------


def year(turns: int = TURNS, days: int = DAYS, seed: int = SEED, max_chars: int = MAX_CHARS) -> dict[str, Any]:
    """What each file answers at the end of the year of `living_year`."""
    said = living_year.year(turns, days, seed)
    home, text = _Home(max_chars), ""
    cycle = max(1, turns // (days * 2))
    for turn in said.turns:
        home.hear(Event(f"e{turn.number}", turn.text, turn.at, Scope(), "turn", speaker=turn.speaker))
        for shown in turn.shown:
            home.uses[f"m{shown}"] += 1
        if (turn.number + 1) % cycle == 0:
            text = home.distilled(text, turn.at)
    answered = {name: _answered(said, lines) for name, lines in home.files(text).items()}
    return {
        "turns": turns,
        "facts_that_hold": len(said.holds),
        "answered": answered,
        "ratio_to_newest_turns": _ratios(answered, "newest_turns"),
        "ratio_to_newest_facts": _ratios(answered, "newest_facts"),
    }


def _answered(said: living_year.Year, lines: Sequence[str]) -> dict[str, float]:
    """Of the facts that matter and hold, and of the questions, those that a line of the file answers.

    ``outdated`` are facts that no longer hold and are in the file all the same.
    """
    entries = [words(line) for line in lines]
    matters, trivia = said.questions[: -said.of_trivia], said.questions[-said.of_trivia :]
    asked = {
        "facts": said.holds,
        "questions": said.questions,
        "of_what_matters": matters,
        "of_trivia": trivia,
        "outdated": said.outdated,
    }
    found = {name: sum(any(map(one.is_in, entries)) for one in facts) for name, facts in asked.items()}
    return {"characters": sum(len(line) + 1 for line in lines), **found}


def _ratios(answered: Mapping[str, Mapping[str, float]], other: str) -> dict[str, float]:
    ours, theirs = answered["distilled"], answered[other]
    return {name: round(ours[name] / max(1, theirs[name]), 2) for name in ("facts", "questions")}


# Real talk -------------------------------------------------------------------------------------------------------


def talk(corpora: Sequence[Corpus]) -> dict[str, Any]:
    """The share of gold evidence of which each file has a line, over all conversations."""
    found: Counter[str] = Counter()
    gold = 0
    for corpus in corpora:
        turns = {f"m{number}": turn.id for number, turn in enumerate(corpus.memories)}
        answers = {one for question in corpus.questions if question.answerable for one in question.gold}
        gold += len(answers)
        for name, lines in _files_of_talk(corpus).items():
            found[name] += len(answers & {turns[ref] for line in lines for ref in refs_of(line)})
    return {"evidence": gold, "share": {name: round(count / max(1, gold), 4) for name, count in found.items()}}


def _files_of_talk(corpus: Corpus) -> dict[str, list[str]]:
    """The files at the end of a conversation."""
    home, text, now = _Home(sum(len(turn.spoken) + 1 for turn in corpus.memories) // 10), "", BEGAN
    for _, session in groupby(enumerate(corpus.memories), key=lambda numbered: numbered[1].document):
        for number, turn in session:
            now = turn.at or now
            home.hear(Event(f"e{number}", turn.text, now, Scope(), "turn", speaker=turn.speaker))
        text = home.distilled(text, now + timedelta(hours=12))
    return home.files(text)


# A home ----------------------------------------------------------------------------------------------------------


@dataclass(slots=True)
class _Home:
    """The memories of a home, and what its job `distill` makes of them: the same steps, without a journal."""

    max_chars: int
    heard: list[Event] = field(default_factory=list)
    extracted: list[Fact] = field(default_factory=list)
    said: dict[str, datetime] = field(default_factory=dict)
    uses: Counter[str] = field(default_factory=Counter)
    ours: dict[str, Fact] = field(default_factory=dict)
    done: int = 0

    def hear(self, event: Event) -> None:
        """A turn becomes a memory, and a person's turn gives facts."""
        self.heard.append(event)
        ref = f"m{event.event_id[1:]}"
        self.said[ref] = event.recorded_at
        if event.speaker != "assistant":
            self.extracted += [self.fact(one.fact, (ref,)) for one in turn_facts([event]).facts]

    def fact(self, text: str, refs: tuple[str, ...]) -> Fact:
        """A fact as the job makes it from some memories."""
        grade = grade_of(text, "turn")
        return Fact(
            text,
            max(self.said[ref] for ref in refs),
            refs,
            grade.topic,
            grade.importance / MAX_IMPORTANCE,
            uses=sum(self.uses[ref] for ref in refs),
            since=min(self.said[ref] for ref in refs),
            triples=_triples(text),
        )

    def distilled(self, text: str, now: datetime) -> str:
        """The file after a run over the facts that are new since the last one."""
        ours = {line: self.fact(text_of(line), refs_of(line)) for line in self.ours}
        new, self.done = self.extracted[self.done :], len(self.extracted)
        found = curated(
            text, ours, new, protected=protects(PROTECTED), now=now, max_chars=self.max_chars, max_loss=0.25
        )
        self.ours = {fact.line: fact for fact in found.facts}
        return found.text

    def files(self, text: str) -> dict[str, list[str]]:
        """The lines of the file, and those of files of its size with what is newest, each line once."""
        return {
            "distilled": text.splitlines(),
            "newest_turns": self._newest([f"{one.speaker}: {one.text} [m{one.event_id[1:]}]" for one in self.heard]),
            "newest_facts": self._newest([one.line for one in self.extracted]),
        }

    def _newest(self, lines: Sequence[str]) -> list[str]:
        room, found = self.max_chars, dict[str, str]()
        for line in reversed(lines):
            said = text_of(line)
            if said in found:
                continue
            room -= len(line) + 1
            if room < 0:
                break
            found[said] = line
        return [*found.values()]


@cache
def _triples(text: str) -> tuple[Triple, ...]:
    speaker, _, said = text.partition(": ")
    return tuple(triples_of(said, speaker))


# A bad model -----------------------------------------------------------------------------------------------------

_HOUSES = "Kedjan Nordhus Solvik Brygga Fjell Havn Lund Skogen Tangen Viken Aasen Bakken Dalen Elvik Foss".split()
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
