"""Reads, observes and reflects the stable prefixes of one tenant.

Reading writes nothing that the reply waits for. A read that finds the raw buffer above its high-water mark has it
compressed in the background, so the next prompt has the observations; the job `observe` does the same for windows that
nobody reads.

When to compress decides the hit rate. With t tokens a turn, marks H and L, observations of O tokens and a line of c
times its turn, a window compresses once in (H - L) / t turns. Only then the cache misses the raw buffer that is left
(L) and the new lines (c × (H - L)); every other turn misses the t tokens that it adds. The mean text has
O + (H + L) / 2 tokens, so the share that misses is about

    t × ((1 + c) × (H - L) + L) / ((H - L) × (O + (H + L) / 2))

which is 4 % with t = 200, H = 8,000, L = 2,000, O = 2,500 and c = .15. A window that were compressed with each turn
would miss its whole raw buffer each time.
"""

from __future__ import annotations

import asyncio
import logging
import secrets
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from datetime import datetime
from hashlib import blake2b
from typing import TYPE_CHECKING, Any

from fusion.contract import Event, LanguageModel, Scope
from fusion.errors import FusionError
from fusion.ingest.prefix_prompt import MAX_TURNS, worded
from fusion.journal import Journal, prefix
from fusion.journal.prefix import Contents, NewObservation, Stored, Turn, Window
from fusion.journal.rows import Record
from fusion.lib.background_writer import BackgroundWriter
from fusion.lib.budget import estimate_tokens
from fusion.lib.clock import Clock, utc_now
from fusion.lib.observer import Observation, is_specific, observe
from fusion.lib.reflector import KEPT_SHARE, Entry, pruned
from fusion.lib.words import spoken
from fusion.recall.stable_prefix import PrefixText, hit_rate, observation_line, packed, raw_line, unpacked

if TYPE_CHECKING:
    from fusion.recall.stable_prefix import Served

log = logging.getLogger(__name__)

NEWEST_TURNS = 2
"""the newest turns, which are never compressed"""
NONCE_BYTES = 6


@dataclass(frozen=True, slots=True)
class Marks:
    """The sizes of a window in tokens: of its raw buffer when it is compressed and when that ends, and of observations.

    ``turn_chars`` are the characters of one turn in the raw buffer, ``tool_chars`` those of a tool's output.
    """

    high: int = 8_000
    low: int = 2_000
    observations: int = 4_000
    turn_chars: int = 4_000
    tool_chars: int = 1_500

    @classmethod
    def of(cls, given: Mapping[str, Any]) -> Marks:
        """The marks of ``[prefix]``."""
        names = ("buffer_high_tokens", "buffer_low_tokens", "observations_tokens", "turn_chars", "tool_chars")
        return cls(*(given[name] for name in names))

    @property
    def most_raw(self) -> int:
        """Tokens of the raw buffer that are shown while it cannot be compressed."""
        return 2 * self.high

    @property
    def kept(self) -> int:
        """Tokens of the observations that stay after a pruning."""
        return int(KEPT_SHARE * self.observations)


@dataclass(frozen=True, slots=True)
class View:
    """A window as it is shown. ``left_out`` counts the oldest turns of a raw buffer that is too large to be shown."""

    window: Window
    observations: tuple[Stored, ...]
    turns: tuple[Turn, ...]
    shown: PrefixText
    left_out: int
    is_full: bool
    """whether the raw buffer is above its high-water mark"""


@dataclass(frozen=True, slots=True)
class Compressed:
    """What the observer did to a window, or would do: turns compressed, observations added and pruned."""

    turns: int = 0
    added: int = 0
    pruned: int = 0
    model_tokens: int = 0
    """tokens that were sent to the language model"""


@dataclass(slots=True)
class _Asked:
    """The turns of a window that wait to be counted, and the lines of the last text."""

    served: tuple[Served, ...]
    turns: int = 0
    hits: float = 0.0


class PrefixWindows(BackgroundWriter):
    """The stable prefixes of one tenant. ``model`` words observations; None: the rules do."""

    LINGER_S = 0.5

    def __init__(
        self, journal: Journal, marks: Marks, model: LanguageModel | None = None, clock: Clock = utc_now
    ) -> None:
        super().__init__()
        self._journal = journal
        self.marks = marks
        self._model = model
        self._clock = clock
        self._key = secrets.token_bytes(16)
        self._asked: dict[int, _Asked] = {}
        self._observing: dict[str, asyncio.Task[None]] = {}

    async def read(self, scope: Scope) -> View:
        """The window of a scope as it is now; counts a turn of it, and has a full raw buffer compressed afterwards."""
        window = await self._opened(scope)
        view = await self._view(window)
        self._count(view)
        if view.is_full and window.number:
            self._observe_soon(window)
        return view

    async def _opened(self, scope: Scope) -> Window:
        known = await self._journal.read(prefix.find, scope)
        if known is not None:
            return known
        try:
            return await self._journal.write(prefix.open_window, scope, self._clock())
        except FusionError as error:
            log.warning("a stable prefix is not kept: %s", error)
            return await self._journal.read(prefix.unsaved, scope, self._clock())

    async def _view(self, window: Window) -> View:
        """A window without what may not be shown any more; that is also dropped from the store, as a rewrite."""
        now = self._clock()
        found = await self._journal.read(prefix.contents, window, newest=True)
        if gone := [one.number for one in found.observations if not _may_be_shown(one.record, now)]:
            try:
                await self._journal.write(prefix.drop_observations, found.window, gone, now)
                found = await self._journal.read(prefix.contents, window, newest=True)
            except FusionError as error:
                log.warning("observations that ended are hidden, and could not be dropped yet: %s", error)
        return self._rendered(found, now)

    def _rendered(self, found: Contents, now: datetime) -> View:
        observations = tuple(one for one in found.observations if _may_be_shown(one.record, now))
        waiting = [turn for turn in found.turns if _may_be_shown(turn.record, now)]
        lines = [self._raw_line(turn.record) for turn in waiting]
        sizes = [estimate_tokens(line) for line in lines]
        first = _first_shown(sizes, self.marks.most_raw)
        shown = PrefixText(
            tuple(_line(one) for one in observations), tuple(lines[first:]), self._nonce(found.window.scope)
        )
        full = found.more or sum(sizes) > self.marks.high
        return View(found.window, observations, tuple(waiting[first:]), shown, first, full)

    def _raw_line(self, record: Record) -> str:
        said = spoken(record.event.text, record.event.speaker)
        of_tool = record.event.origin == "tool"
        chars = self.marks.tool_chars if of_tool else self.marks.turn_chars
        return raw_line(record.ref, _time(record.event), said, chars)

    def _nonce(self, scope: Scope) -> str:
        """The nonce of a window's last line: the same as long as the process runs, and nobody can guess it."""
        key = prefix.key_of(scope).encode("utf-8", "surrogatepass")
        return blake2b(key, key=self._key, digest_size=NONCE_BYTES).hexdigest()

    # The hit rate

    def _count(self, view: View) -> None:
        """Count a turn; a text that was just sent is no new turn."""
        number = view.window.number
        if not number:
            return
        now = view.shown.served
        asked = self._asked.setdefault(number, _Asked(unpacked(view.window.served)))
        if now and now != asked.served:
            asked.turns += 1
            asked.hits += hit_rate(asked.served, now)
            asked.served = now
        self._write_soon()

    def hit_rate(self, window: Window) -> float | None:
        """The mean hit rate of a window's turns, with those that are not stored yet; None before the first."""
        waiting = self._asked.get(window.number)
        turns = self.turns(window)
        return (window.hits + (waiting.hits if waiting else 0.0)) / turns if turns else None

    def turns(self, window: Window) -> int:
        """How many turns of a window were counted."""
        waiting = self._asked.get(window.number)
        return window.turns + (waiting.turns if waiting else 0)

    async def _write_waiting(self) -> None:
        waiting = {number: (one.turns, one.hits, packed(one.served)) for number, one in self._asked.items()}
        for number, (turns, hits, served) in waiting.items():
            try:
                await self._journal.write(prefix.count, number, turns, hits, served, self._clock())
            except FusionError as error:
                log.warning("the hit rate of a stable prefix could not be stored yet: %s", error)
                continue
            self._asked[number].turns -= turns
            self._asked[number].hits -= hits

    # The observer and the reflector

    def _observe_soon(self, window: Window) -> None:
        key = prefix.key_of(window.scope)
        if key not in self._observing:
            self._observing[key] = asyncio.create_task(self._observe_alone(key, window))

    async def _observe_alone(self, key: str, window: Window) -> None:
        try:
            await self.observe(window)
        except Exception as error:  # noqa: BLE001 — the turns stay in the raw buffer, and the job tries again
            log.warning("a raw buffer could not be compressed: %s", type(error).__name__)
        finally:
            self._observing.pop(key, None)

    async def observe(self, window: Window, *, dry_run: bool = False, use_model: bool = True) -> Compressed:
        """Compress a raw buffer that is above its high-water mark down to the low one; prune what exceeds the budget.

        One transaction stores both. If another process was first, nothing is stored.
        """
        now = self._clock()
        found = await self._journal.read(prefix.contents, window, newest=False)
        waiting = [turn for turn in found.turns if _may_be_shown(turn.record, now)]
        chosen = self._to_compress(waiting, more=found.more)
        if not chosen:
            return Compressed()
        made, tokens = await self._observed(chosen, use_model=use_model and not dry_run)
        stored, new = (
            [_entry(one) for one in found.observations],
            [_entry_of_new(n, *one) for n, one in enumerate(made)],
        )
        gone = pruned([*stored, *new], now, self.marks.observations, self.marks.kept)
        lines = [
            NewObservation(turn.seq, one.importance, spoken(one.text, turn.record.event.speaker))
            for number, (turn, one) in enumerate(made)
            if -1 - number not in gone
        ]
        dropped = sorted(number for number in gone if number >= 0)
        done = Compressed(len(chosen), len(lines), len(dropped), tokens)
        if dry_run:
            return done
        if await self._journal.write(prefix.store, found.window, lines, chosen[-1].seq, dropped, now):
            return done
        return Compressed(model_tokens=tokens)

    def _to_compress(self, turns: Sequence[Turn], *, more: bool) -> Sequence[Turn]:
        """The oldest turns, so many that the rest is at the low-water mark; none below the high-water mark."""
        sizes = [estimate_tokens(self._raw_line(turn.record)) for turn in turns]
        if more:  # further turns wait behind these
            return turns
        left = sum(sizes)
        if left <= self.marks.high:
            return ()
        count = 0
        while count < len(turns) - NEWEST_TURNS and left > self.marks.low:
            left -= sizes[count]
            count += 1
        return turns[:count]

    async def _observed(self, turns: Sequence[Turn], *, use_model: bool) -> tuple[list[tuple[Turn, Observation]], int]:
        """The turns that have an observation, each with it, and the tokens that the model was sent."""
        made = [(turn, one) for turn in turns if (one := await asyncio.to_thread(_by_rules, turn.record.event))]
        if not use_model or self._model is None:
            return made, 0
        tokens, shortened = 0, []
        for start in range(0, len(made), MAX_TURNS):
            part = made[start : start + MAX_TURNS]
            texts = [spoken(turn.record.event.text, turn.record.event.speaker) for turn, _ in part]
            answer = await worded(texts, self._model)
            tokens += answer.tokens
            shortened += [
                (turn, Observation(answer.lines[number], one.importance, "model") if number in answer.lines else one)
                for number, (turn, one) in enumerate(part)
            ]
        return shortened, tokens

    async def reflect(self, window: Window, *, dry_run: bool = False) -> int:
        """Drop the observations of least worth down to what stays after a pruning; returns how many.

        The job does this at night, when the providers' caches have expired, so that the day has room for new ones.
        """
        now = self._clock()
        found = await self._journal.read(prefix.contents, window, newest=True)
        dropped = sorted(pruned([_entry(one) for one in found.observations], now, self.marks.kept, self.marks.kept))
        if dropped and not dry_run:
            await self._journal.write(prefix.drop_observations, found.window, dropped, now)
        return len(dropped)

    async def settle(self) -> None:
        """Return once no raw buffer is being compressed, and what waits is counted."""
        if self._observing:
            await asyncio.wait(set(self._observing.values()))
        await self.flush()

    async def close(self) -> None:
        """Stop compressing, which leaves the turns in the raw buffer, and count what waits."""
        observing = [*self._observing.values()]
        for task in observing:
            task.cancel()
        await asyncio.gather(*observing, return_exceptions=True)
        await super().close()


def _first_shown(sizes: Sequence[int], most: int) -> int:
    """The index of the first turn that is shown, so that the last ones keep within ``most`` tokens."""
    left, first = most, len(sizes)
    while first and (sizes[first - 1] <= left or first == len(sizes)):
        first -= 1
        left -= sizes[first]
    return first


def _by_rules(turn: Event) -> Observation | None:
    return observe(turn.text, turn.speaker, of_agent=turn.origin != "owner")


def _may_be_shown(record: Record, now: datetime) -> bool:
    """Whether a turn is current: not forgotten, replaced, quarantined, ended or past its time."""
    return (
        not record.forgotten
        and record.superseded_by is None
        and record.trust != "quarantined"
        and record.state.ended_at is None
        and (record.event.valid_to is None or record.event.valid_to > now)
    )


def _time(event: Event) -> datetime:
    """When a turn was said, else when it was stored."""
    return event.at.utc if event.at else event.recorded_at


def _line(one: Stored) -> str:
    return observation_line(one.record.ref, _time(one.record.event), one.importance, one.text)


def _entry(one: Stored) -> Entry:
    tokens = estimate_tokens(_line(one))
    return Entry(one.number, one.importance, _time(one.record.event), tokens, is_specific(one.text))


def _entry_of_new(index: int, turn: Turn, one: Observation) -> Entry:
    """An observation that is not stored yet; its number is negative."""
    record, text = turn.record, spoken(one.text, turn.record.event.speaker)
    line = observation_line(record.ref, _time(record.event), one.importance, text)
    return Entry(-1 - index, one.importance, _time(record.event), estimate_tokens(line), is_specific(one.text))
