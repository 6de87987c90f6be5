"""The job `distill`: makes the curated MEMORY.md out of what was said in the last days, and of what it has.

Rules choose the facts (`curate`). A language model, where one is configured, then tidies our lines (`distill_prompt`);
if its answer is wrong, the rules' text is written. What is forgotten goes from our lines first. A person's lines and
the protected sections stay as they are, and a change that would lose too much is refused.
"""

from __future__ import annotations

import asyncio
import re
import secrets
from collections.abc import Awaitable, Callable, Mapping, Sequence
from dataclasses import dataclass, replace
from datetime import UTC, datetime
from typing import Any

from fusion.contract import Event, LanguageModel, Scope
from fusion.contract import Fact as Triple
from fusion.errors import BadInput, FusionError
from fusion.journal.rows import Record
from fusion.lib.budget import estimate_tokens
from fusion.lib.grading import MAX_IMPORTANCE, grade_of
from fusion.lib.importance import stated_importance
from fusion.lib.times import find_time
from fusion.lib.words import stems
from fusion.store.workspace import EditedMeanwhile, Snapshot, TooMuchLost, Workspace
from fusion.upkeep import distill_prompt, entries, reflect
from fusion.upkeep.curate import Curated, Fact, curated, refs_of, rendered, text_of
from fusion.upkeep.drift import Path
from fusion.upkeep.extract import INTERACTIONS, RAW, report_diff
from fusion.upkeep.job import JobContext
from fusion.upkeep.reflections import lasting
from fusion.upkeep.session_summary import ASSISTANTS, one_line

NAME = "distill"
DOES = "Rewrite MEMORY.md of your workspace: the facts that matter most, each once."
FILE = "MEMORY.md"
TRIES = 3
"""how often the file is made anew that somebody edits meanwhile"""
MODEL_S = 120.0
"""seconds that the model has for its answer"""
DEFAULT_TOKENS = 5_000
"""tokens of a prompt if the job's budget_tokens is 0"""
SIMILAR = 3
"""lines of the file that the model sees with each new one"""
MAX_REFLECTIONS = 31
"""maximum reflections that are read, the newest ones"""
OWN_WORDS = "reflection: "
"""the beginning of a line that is of a reflection"""

_SUMMARISED = re.compile(r"- (?:said|decided): (?P<text>.+)")
_SAID = re.compile(r"- \d\d:\d\d (?P<text>.+)")
_YEAR = re.compile(r"\b(?:19|20)\d\d\b")
_REF = re.compile(r" \[(m[0-9a-z]{1,12})\]$")


@dataclass(frozen=True, slots=True)
class Limits:
    """The size of the file, and what a run may lose of it; the price of a million tokens of the model, in dollars.

    ``reflections`` says whether lines of the agent's reflections are candidates.
    """

    max_chars: int = 25_000
    max_loss: float = 0.25
    protected: Callable[[Path], bool] = lambda path: False
    budget_tokens: int = 0
    price_in: float = 0.0
    price_out: float = 0.0
    reflections: bool = False


@dataclass(frozen=True, slots=True)
class Known:
    """A memory, its uses, and what it states."""

    record: Record
    uses: int


@dataclass(frozen=True, slots=True)
class Sources:
    """The calls of a home that the job works with.

    ``stated`` returns the statements that somebody told the home explicitly; ``known`` the memories of some refs that
    are there still; ``facts`` the facts in a text that somebody said, and ``triples`` what a sentence states. ``home``
    is a short id of the home.
    """

    stated: Callable[[], Awaitable[Sequence[Known]]]
    known: Callable[[Sequence[str]], Awaitable[Mapping[str, Known]]]
    facts: Callable[[Event], Sequence[str]]
    triples: Callable[[str], Sequence[Triple]]
    home: Callable[[], Awaitable[str]]
    reindex: Callable[[], Awaitable[Mapping[str, str]]]
    model: LanguageModel | None = None


async def steps() -> Sequence[str]:
    return [FILE]


def step(workspace: Workspace | None, sources: Sources, limits: Limits) -> Callable[[JobContext, str], Awaitable[None]]:
    """The one step of a run."""

    async def run(context: JobContext, _: str) -> None:
        if workspace is None:
            raise BadInput("[workspace] write is false: no file of yours is written")
        job = _Run(workspace, sources, limits, context)
        for left in reversed(range(TRIES)):
            try:
                await job.run()
                break
            except EditedMeanwhile:  # the edit stays, and the file is made anew from it
                if not left:
                    raise
        if job.changed:
            context.result["indexed"] = dict(await sources.reindex())

    return run


@dataclass(slots=True)
class _Run:
    """One run over one file."""

    workspace: Workspace
    sources: Sources
    limits: Limits
    context: JobContext
    changed: bool = False

    async def run(self) -> None:
        read, ours = await self._without_forgotten()
        candidates = await self._candidates()
        new = await asyncio.to_thread(self._by_rules, read.text, ours, candidates)
        self._report(new)
        text = await self._by_model(read, ours, new) or new.text
        if text.rstrip() == read.text.rstrip():
            return
        try:
            await self._write(read, text, self.limits.max_loss)
        except TooMuchLost:
            if text == new.text:
                raise
            self.context.result["model"]["why"] = "its text would lose too much, so that of the rules is written"
            await self._write(read, new.text, self.limits.max_loss)

    def _by_rules(self, text: str, ours: Mapping[str, Fact], candidates: Sequence[Fact]) -> Curated:
        limits = self.limits
        return curated(
            text,
            ours,
            candidates,
            protected=limits.protected,
            now=self.context.now,
            max_chars=limits.max_chars,
            max_loss=limits.max_loss,
            triples=self.sources.triples,
        )

    def _report(self, new: Curated) -> None:
        result = self.context.result
        result["characters"] = len(new.text)
        result["lines"] = len(new.facts)
        counts = {
            "added": len(new.added),
            "merged": new.merged,
            "outdated": len(new.outdated),
            "no_room": new.no_room,
            "disputed": len(new.disputed),
        }
        result.update({name: count for name, count in counts.items() if count})
        if new.notes:
            result["notes"] = list(new.notes)
        pairs = [f"{old!r}: now {now!r}" for old, now in new.outdated]
        pairs += [f"your line {line.strip()!r} stays, but see {fact!r}" for line, fact in new.disputed]
        if pairs:
            result["contradictions"] = pairs[:50]

    # What there is ------------------------------------------------------------------------------------------------

    async def _without_forgotten(self) -> tuple[Snapshot, dict[str, Fact]]:
        """The file and our lines in it, after those of forgotten memories were taken out."""
        read = await asyncio.to_thread(self.workspace.read, FILE)
        _check_round_trip(read)
        there = [line for line in dict.fromkeys(read.text.splitlines()) if line in await self._written()]
        known = await self.sources.known([ref for line in there for ref in refs_of(line)])
        ours = {line: fact for line in there if (fact := self._fact_of_line(line, known)) is not None}
        gone = {line for line in there if line not in ours}
        if not gone:
            return read, ours
        self.context.add({"forgotten": len(gone)})
        every = {**ours, **{line: Fact(text_of(line), self.context.now) for line in gone}}
        left = rendered(read.text, every, [*ours.values()], {}, self.limits.protected)
        if not self.context.dry_run:
            await self._write(read, left, 1.0)
            return await asyncio.to_thread(self.workspace.read, FILE), ours
        return Snapshot(read.path, left.encode()), ours

    async def _written(self) -> set[str]:
        """The lines that this job wrote into the file, as the log of changes has them."""
        changes = await asyncio.to_thread(self.workspace.changes, FILE)
        ours = [one for one in changes if one.by == NAME and one.state != "undone"]
        return {line for one in ours for line in one.lines}

    def _fact_of_line(self, line: str, known: Mapping[str, Known]) -> Fact | None:
        """The fact of one of our lines; None once all memories that say it are gone."""
        refs = refs_of(line)
        if not refs:
            return self._fact(text_of(line), self.context.now, ())
        found = [known[ref] for ref in refs if ref in known]
        if text_of(line).startswith(OWN_WORDS):
            return _own_words(text_of(line), found) if len(found) == len(refs) else None
        if not found:
            return None
        return replace(self._fact_of(text_of(line), found), refs=refs)

    def _fact_of(self, text: str, known: Sequence[Known]) -> Fact:
        """A fact that some memories say."""
        best = max(known, key=lambda one: one.record.event.began)
        record = best.record
        importance = max((stated_importance(one.record.state) or 0.0 for one in known), default=0.0) or None
        grade = grade_of(text, record.event.kind, importance, record.state.tags)
        return Fact(
            text,
            record.event.began,
            tuple(one.record.ref for one in known),
            grade.topic,
            grade.importance / MAX_IMPORTANCE,
            record.trust,
            sum(one.uses for one in known),
            tuple(self.sources.triples(text)),
            min(one.record.event.began for one in known),
        )

    def _fact(self, text: str, at: datetime, refs: tuple[str, ...]) -> Fact:
        """A fact of a line without a memory: a person wrote it."""
        grade = grade_of(text)
        triples = tuple(self.sources.triples(text))
        return Fact(text, at, refs, grade.topic, grade.importance / MAX_IMPORTANCE, "trusted", 0, triples)

    async def _candidates(self) -> list[Fact]:
        """The facts that somebody stored, those in the files of the job `extract`, and lines of reflections."""
        home = await self.sources.home()
        stated = [
            self._fact_of(dated(one_line(one.record.event.text), f"{one.record.event.began:%Y-%m-%d}"), [one])
            for one in await self.sources.stated()
            if len(one.record.event.text) <= distill_prompt.MAX_LINE_CHARS
        ]
        days = [f"{RAW}/{name}" for name in await asyncio.to_thread(self.workspace.names, RAW) if name.endswith(".md")]
        found: dict[tuple[str, str], Fact | None] = {}
        for path in (*days, INTERACTIONS):
            read = await asyncio.to_thread(self.workspace.read, path)
            lines = [
                (line, entry.day, entry.home == home)
                for entry in entries.parse(read.text).entries
                for line in entry.lines
                if _SAID.match(line) or _SUMMARISED.match(line)
            ]
            refs = [cited[1] for line, _, is_ours in lines if is_ours and (cited := _REF.search(line))]
            known = await self.sources.known(refs)
            for line, day, is_ours in lines:
                for fact in self._facts_in(line, day, known, is_ours=is_ours):
                    found.setdefault((fact.text, fact.refs[0] if fact.refs else ""), fact)
        reflected = await self._reflected() if self.limits.reflections else []
        return [*stated, *(fact for fact in found.values() if fact is not None), *reflected]

    async def _reflected(self) -> list[Fact]:
        """The lines of the newest reflections, unless a turn that they quote was forgotten or somebody edited them."""
        names = [one for one in await asyncio.to_thread(self.workspace.names, reflect.FOLDER) if one.endswith(".md")]
        lines = []
        for name in names[-MAX_REFLECTIONS:]:
            read = await asyncio.to_thread(self.workspace.read, f"{reflect.FOLDER}/{name}")
            if await reflect.is_own(self.workspace, read):
                lines += lasting(read.text)
        known = await self.sources.known([ref for line in lines for ref in line.refs])
        return [
            _own_words(f"{OWN_WORDS}{line.text}", [known[ref] for ref in line.refs])
            for line in lines
            if all(ref in known for ref in line.refs)
        ]

    def _facts_in(self, line: str, day: str, known: Mapping[str, Known], *, is_ours: bool) -> list[Fact]:
        """The facts of one line of the files of `extract`."""
        ref = found[1] if is_ours and (found := _REF.search(line)) else ""
        if ref and ref not in known:
            return []  # forgotten since
        plain = _REF.sub("", line)
        said = datetime.fromisoformat(day).replace(tzinfo=UTC)
        if (summarised := _SUMMARISED.match(plain)) is not None:
            texts = [summarised["text"]]
        elif (turn := _SAID.match(plain)) is not None:
            speaker, _, text = turn["text"].partition(": ")
            if speaker.casefold() in ASSISTANTS:
                return []  # what an agent says of its work is in the summaries
            event = Event(ref or "-", text, said, Scope(), "turn", speaker=speaker)
            texts = list(self.sources.facts(event))
        else:
            return []
        if ref:
            return [self._fact_of(dated(one_line(text), day), [known[ref]]) for text in texts]
        return [self._fact(dated(one_line(text), day), said, ()) for text in texts]

    # The model ----------------------------------------------------------------------------------------------------

    async def _by_model(self, read: Snapshot, ours: Mapping[str, Fact], new: Curated) -> str | None:
        """The text after the model has tidied our lines; None if it is not asked, or its answer is not used."""
        model = self.sources.model
        if model is None or all(one.own_words for one in new.added) or self.context.dry_run:
            return None
        shown = _shown(new, self.limits.budget_tokens or DEFAULT_TOKENS)
        question = distill_prompt.ask(shown, secrets.token_hex(8))
        sent, answered = estimate_tokens(distill_prompt.SYSTEM + question), 0
        bill: dict[str, Any] = {"name": model.name, "tokens_in": sent}
        self.context.result["model"] = bill
        try:
            async with asyncio.timeout(min(MODEL_S, max(1.0, self.context.left_s))):
                answer = await model.complete(distill_prompt.SYSTEM, question, distill_prompt.MAX_ANSWER_TOKENS)
            answered = estimate_tokens(answer)
            found = distill_prompt.tidied(answer, shown)
        except (FusionError, TimeoutError) as error:
            bill["why"] = f"its answer is not used: {str(error) or 'it took too long'}"
            return None
        finally:
            dollars = (sent * self.limits.price_in + answered * self.limits.price_out) / 1e6
            bill |= {"tokens_out": answered, "dollars": round(dollars, 4)}
        bill |= {"done": found.done, "refused": found.refused}
        if not found.done:
            return None
        left = [*(fact for fact in new.facts if fact not in shown), *found.facts]
        by_ref = {ref: fact.line for fact in left for ref in fact.refs}
        moved = {line: by_ref.get(fact.refs[-1], line) if fact.refs else line for line, fact in ours.items()}
        return rendered(read.text, ours, left, moved, self.limits.protected)

    # Writing ------------------------------------------------------------------------------------------------------

    async def _write(self, read: Snapshot, text: str, max_loss: float) -> None:
        new = text.encode("utf-8", "replace")
        if self.context.dry_run:
            report_diff(self.context, read, new)
            return
        person = set(read.text.splitlines()) - await self._written()
        lines = [line for line in text.splitlines() if line.startswith("- ") and line not in person]
        change = await asyncio.to_thread(
            self.workspace.write,
            read,
            new,
            by=NAME,
            now=self.context.now,
            run=self.context.run,
            max_loss=max_loss,
            lines=lines,
        )
        self.changed = True
        self.context.result.setdefault("changes", []).append(f"{change.name} {read.path}")


def dated(text: str, day: str) -> str:
    """A text that names a time, with the day on which it was said: "next Friday" means nothing without it."""
    return f"{text} ({day})" if find_time(text) and not _YEAR.search(text) else text


def _own_words(text: str, known: Sequence[Known]) -> Fact:
    """A line of a reflection on some memories: it states nothing, its trust is unknown, and it is never important."""
    at = max(one.record.event.began for one in known)
    return Fact(text, at, tuple(one.record.ref for one in known), "reflections", own_words=True)


def _shown(new: Curated, budget_tokens: int) -> list[Fact]:
    """The lines that the model sees: the new ones, each with the most similar others, as many as its budget allows.

    It sees no reflections, because it could make a fact of one.
    """
    facts = [fact for fact in new.facts if not fact.own_words]
    shown: dict[Fact, None] = {}
    left = budget_tokens - estimate_tokens(distill_prompt.SYSTEM)
    others = [(fact, frozenset(stems(fact.text))) for fact in facts if fact not in new.added]
    for fact in (one for one in new.added if not one.own_words):
        own = frozenset(stems(fact.text))
        near = sorted(others, key=lambda pair: -len(pair[1] & own))[:SIMILAR]
        for one in (fact, *(other for other, its in near if its & own)):
            cost = estimate_tokens(one.text) + 40  # with its tags
            if one not in shown and cost <= left:
                left -= cost
                shown[one] = None
    return list(shown)


def _check_round_trip(read: Snapshot) -> None:
    """Raises BadInput for a file whose lines could not be written back as they are."""
    plain = read.text.replace("\r\n", "\n")
    is_text = (read.data or b"") == read.text.encode()
    if not is_text or len(plain.splitlines()) != plain.removesuffix("\n").count("\n") + bool(plain):
        raise BadInput(f"{read.path} has characters that are no text, or unusual line ends: it is not written")
