"""Reads the session histories that callers send, in the background, for seed 002's ``POST /ingest``.

A call stores its body as it was sent, and is answered at once. The history of a session's last call is read when no
other call came for a while; only new and changed turns are stored. A gateway that stops reads what waits, and the next
start reads what a crash left waiting.
"""

from __future__ import annotations

import asyncio
import logging
import re
import secrets
from collections.abc import Awaitable, Callable, Iterable, Mapping, Sequence
from dataclasses import dataclass, replace
from datetime import datetime, timedelta

import orjson

from fusion.contract import Audience, Place, Scope
from fusion.errors import LeaseLost
from fusion.ingest.intake import MAX_TEXT_CHARS, MAX_URGENT_MEMORIES, Intake, NewMemory
from fusion.journal import Journal, histories
from fusion.journal.histories import Backlog, HistoryKey, Taken, Waiting
from fusion.journal.leases import LEASE_S, OTHERS_S
from fusion.lib.backoff import backoff_s
from fusion.lib.budget import clip
from fusion.lib.clock import Clock, utc_now
from fusion.lib.envelope import MARKED, UNATTENDED, Said, said, without_own_block, without_wrappers
from fusion.lib.queue_worker import QueueWorker
from fusion.lib.wakeup import wait_for_news
from fusion.lib.words import content_hash
from fusion.sources.follow import OPENING, Followed, edits_first_turn, fingerprint, follow
from fusion.sources.turns import Turn, is_group_key, message_turn

log = logging.getLogger(__name__)

SOURCE = "memory-cortex"
"""the source kind of a history's turns, and the prefix of its conversation's name"""
BATCH = 100
"""maximum turns in one call of remember"""
LEASE = "histories"
"""the name of the lease under which one of the gateways that share a journal reads histories"""
CLAIM = timedelta(seconds=LEASE_S)
"""how long a history is claimed: as long as that lease, so that what a gateway leaves that dies waits no longer"""
FIRST_RETRY_S, MAX_RETRY_S = 1.0, 3600.0
"""seconds until a history that failed is tried again, doubled each time up to the maximum"""
FRESH = timedelta(hours=1)
"""the age of a turn that was just said"""
CLOSE_S = 10.0
"""maximum seconds at closing for reading what waits; the rest is read at the next start"""

_PROGRAMS = re.compile(r"(?:^|:)(?:cron|heartbeat|subagent)(?::|$)", re.IGNORECASE)
_AGENT = re.compile(r"agent:([^:\s]+):")


def of_program(session_id: str, channel: str) -> bool:
    """Whether a program (cron, heartbeat, subagent) has a session, by its id or channel as OpenClaw writes them."""
    return _PROGRAMS.search(session_id) is not None or channel.lower() in ("cron", "heartbeat")


def of_group(session_id: str, turns: Iterable[Turn]) -> bool:
    """Whether a session was held in a group: by its id as OpenClaw writes it, or because several people wrote."""
    return is_group_key(session_id) or len({turn.name for turn in turns if turn.speaker == "user"} - {""}) > 1


def agent_of(session_id: str) -> str | None:
    """The agent in a session id of OpenClaw's form: ``agent:main:telegram:1``."""
    named = _AGENT.match(session_id)
    return named[1] if named else None


@dataclass(frozen=True, slots=True)
class Rules:
    """How long a history waits for the next call, how much may wait, and whether heartbeats are left out."""

    debounce: timedelta = timedelta(seconds=30)
    max_waiting_bytes: int = 256_000_000
    skip_heartbeat: bool = True


class Histories(QueueWorker):
    """Queues and reads the histories of one tenant. Tests replace ``clock`` and ``sleep``."""

    def __init__(
        self,
        journal: Journal,
        intake: Intake,
        tenant: str,
        rules: Rules,
        *,
        clock: Clock = utc_now,
        sleep: Callable[[float], Awaitable[None]] = asyncio.sleep,
    ) -> None:
        super().__init__("histories")
        self._journal = journal
        self._intake = intake
        self._tenant = tenant
        self._rules = rules
        self._clock = clock
        self._sleep = sleep
        self._owner = secrets.token_hex(8)
        self._own = self._owner if journal.shared else None
        """whose leases it may end; None for all, since this process holds the home"""
        self._idle.set()
        self.on_change: Callable[[HistoryKey], None] = lambda key: None
        """called once new, changed or retired turns of a session are in the journal"""

    async def put(self, scope: Scope, channel: str, body: bytes, *, debounce: bool = True) -> datetime:
        """Store the body of a call durably; returns when it is due. ``body`` is JSON with ``messages``.

        Raises BadInput for an id with a secret in it, Overloaded, StoreFull and StoreBusy.
        """
        Intake.check(_memory(scope, 1, 0, Turn("", "user", "", None), "-"), "history")
        key, wait = HistoryKey.of(scope), self._rules.debounce if debounce else timedelta()
        most = self._rules.max_waiting_bytes
        due = await self._journal.write(histories.put, key, channel, body, self._clock(), wait, most)
        self.wake()
        return due

    async def backlog(self) -> Backlog:
        """How many histories wait, and why one failed."""
        found = await self._journal.read(histories.backlog)
        return replace(found, fault=self.fault or found.fault)

    async def settle(self) -> None:
        """Wait until no history is due, or one has failed."""
        if self._task is not None:
            self.wake()
            await self._idle.wait()

    async def close(self) -> None:
        """Stop, and read what waits, because the home may stay closed for long."""
        started = self._task is not None
        await super().close()
        if started:
            try:
                async with asyncio.timeout(CLOSE_S):
                    await self._journal.write(histories.release_all, self._own)
                    while await self._take_next(early=True):
                        pass
            except Exception as error:  # noqa: BLE001 — they are on the disk, and taken in at the next start
                log.warning("histories wait for the next start: %s", type(error).__name__)

    async def _serve(self) -> None:
        failures, released = 0, False
        while True:
            self._news.clear()
            try:
                if not released:
                    await self._journal.write(histories.release_all, self._own)
                    released = True
                pause_s = await self._round()
            except Exception as error:  # noqa: BLE001 — the histories stay on the disk after any fault
                failures += 1
                self.fault = str(error) or type(error).__name__
                log.warning("histories could not be read (try %d): %s", failures, type(error).__name__)
                released = False  # the lease of what failed may be left
                self._idle.set()
                await wait_for_news(self._news, backoff_s(failures, FIRST_RETRY_S, 60.0), self._sleep)
                continue
            failures, self.fault = 0, ""
            if pause_s != 0 and not self._news.is_set():
                self._idle.set()
                if self._journal.shared:  # another gateway may have acknowledged one and died
                    pause_s = LEASE_S if pause_s is None else min(pause_s, LEASE_S)
                await wait_for_news(self._news, pause_s, self._sleep)

    async def _round(self) -> float | None:
        """Take in one history and return 0; else the seconds until one is due, None without any."""
        due_in = await self._journal.read(histories.due_in, self._clock(), self._longest_wait)
        if due_in is None or due_in:
            return None if due_in is None else max(due_in.total_seconds(), 0.001)
        if not await self._take_next() and self._journal.shared:
            await self._sleep(OTHERS_S)  # another gateway reads one
        return 0.0

    @property
    def _longest_wait(self) -> timedelta:
        """The longest debounce or pause of a history."""
        return max(self._rules.debounce * histories.MAX_DEBOUNCES, timedelta(seconds=MAX_RETRY_S))

    async def _take_next(self, *, early: bool = False) -> bool:
        """Take in the history that is due first; False if none is, or another gateway is taking one in.

        The lease is checked in each transaction that writes, so a gateway that stood still writes nothing over what
        another one has taken in since.
        """
        changed = None
        try:
            async with self._journal.leases.held(LEASE) as held:
                if held is None:
                    return False
                waiting = await self._journal.write(
                    histories.claim, self._owner, self._clock(), CLAIM, longest=self._longest_wait, early=early
                )
                if waiting is None:
                    return False
                if await self._take_or_postpone(waiting, early=early):
                    changed = waiting.key
        except LeaseLost:  # nothing is left to do: the history waits, or another gateway has it
            log.warning("a history took longer than the lease: another gateway takes it in")
            return True
        if changed is not None:
            self.on_change(changed)  # after the lease: what that begins is no part of it
        return True

    async def _take_or_postpone(self, waiting: Waiting, *, early: bool) -> bool:
        """Take in a history; whether that changed anything. One that fails is due again later."""
        try:
            return await self._take(waiting)
        except LeaseLost:
            raise
        except Exception as error:
            if early:
                raise
            log.warning("a history was not taken in (try %d): %s", waiting.attempts + 1, type(error).__name__)
            pause = timedelta(seconds=backoff_s(waiting.attempts + 1, FIRST_RETRY_S, MAX_RETRY_S))
            fault = f"{type(error).__name__}: {error}"
            await self._journal.write(histories.release, waiting, self._owner, fault, self._clock() + pause)
            return False

    async def _take(self, waiting: Waiting) -> bool:
        """Store the changes of a history; whether there are any.

        Each step is idempotent, so it may be interrupted anywhere and repeated.
        """
        before = await self._journal.read(histories.taken, waiting.key)
        opening = await self._opening(waiting.key, before) if before.known else {}
        talk, items, empty, done = await asyncio.to_thread(self._read, waiting, before, opening)
        in_order = self._is_old(items)
        for start in range(0, len(items), BATCH):
            batch = items[start : start + BATCH]
            kept = await self._intake.remember(batch, tenant=self._tenant, in_order=in_order)
            empty |= {_place(item) for item, one in zip(batch, kept, strict=True) if one.status == "skipped"}
            if start + BATCH < len(items):
                await self._journal.write(histories.renew, waiting, self._owner, self._clock(), CLAIM)
        if gone := {*done.gone, *empty}:
            scope = self._scope(waiting.key)
            await self._intake.retire_turns(scope, source_of(scope), document_of(scope, talk), gone)
        await self._journal.write(histories.finish, waiting, self._owner, Taken(talk, done.known, self._clock()))
        return bool(items or gone)

    async def _opening(self, key: HistoryKey, before: Taken) -> dict[int, str]:
        """The current texts of a conversation's first turns, by place."""
        scope = self._scope(key)
        document = document_of(scope, before.talk)
        rows = await self._journal.read(histories.turns_at, scope, source_of(scope), document, range(OPENING))
        return {row["place_start"]: row["text"] for row in rows}

    def _read(
        self, waiting: Waiting, before: Taken, opening: Mapping[int, str]
    ) -> tuple[int, list[NewMemory], set[int], Followed]:
        """The number of the conversation, the memories of its new and changed turns, and the places without one."""
        sent = orjson.loads(waiting.body)
        turns = [turn for message in sent["messages"] if (turn := turn_of(message)) is not None]
        prints = [fingerprint(turn.speaker, turn.text) for turn in turns]
        done = follow(before.known, prints)
        texts = [self._text(turns, number) for number in range(min(len(turns), OPENING + 1))] if done.anew else []
        if done.anew and edits_first_turn(before.known, prints, opening, texts):
            done = follow(before.known, prints, is_same=True)
        talk = before.talk + done.anew
        found: Audience = "group" if of_group(waiting.key.session_id, turns) else "private"
        scope = replace(self._scope(waiting.key), audience=sent.get("audience") or found, project=sent.get("project"))
        items, empty = [], set()
        for number in done.changed:
            turn, place = turns[number], number + done.offset
            text = self._text(turns, number)
            if text:
                items.append(_memory(scope, talk, place, turn, text))
            else:
                empty.add(place)
        return talk, items, empty, done

    def _is_old(self, items: Sequence[NewMemory]) -> bool:
        """Whether turns are an old history rather than what was just said.

        Backends call the memory that was stored last the newest one, so sessions must reach them in their order. What
        was just said may overtake them.
        """
        since = self._clock() - FRESH
        return len(items) > MAX_URGENT_MEMORIES or any(item.at is not None and item.at.utc < since for item in items)

    def _scope(self, key: HistoryKey) -> Scope:
        return Scope(self._tenant, key.user_id or None, key.agent_id or None, session_id=key.session_id)

    def _text(self, turns: Sequence[Turn], number: int) -> str:
        """The text of a turn to keep; empty for a heartbeat or a marked prompt, and for the answer to one."""
        turn = turns[number]
        found = said(turn.text, turn.speaker)
        prompt = next((turns[n] for n in range(number, -1, -1) if turns[n].speaker == "user"), None)
        asked = Said("") if prompt is None else said(prompt.text, "user")
        unattended = asked.unattended or (prompt is not None and prompt.unattended)
        if asked.reason == MARKED or (unattended and self._rules.skip_heartbeat):
            return ""
        if not self._rules.skip_heartbeat and found.reason == UNATTENDED:
            return without_wrappers(without_own_block(turn.text)).strip()
        return found.text


def turn_of(message: object) -> Turn | None:
    """The turn of a message by a user or an assistant; None for other messages and for empty ones."""
    found = message_turn(message, message) if isinstance(message, dict) else None
    return found and replace(found, text=found.text.replace("\0", ""))


def source_of(scope: Scope) -> str:
    """The source of a session's turns."""
    return f"{SOURCE}:{scope.session_id}"


def document_of(scope: Scope, talk: int) -> str:
    """The name of a conversation; ``talk`` numbers the conversations of one session id."""
    return f"{SOURCE}/{scope.session_id}" + (f"#{talk}" if talk > 1 else "")


def _memory(scope: Scope, talk: int, place: int, turn: Turn, text: str) -> NewMemory:
    text = clip(text, MAX_TEXT_CHARS)
    return NewMemory(
        text=text,
        scope=scope,
        kind="turn",
        speaker=turn.name or turn.speaker,
        at=turn.at,
        place=Place(document_of(scope, talk), place, place),
        source=source_of(scope),
        revision=content_hash(f"{turn.speaker}\0{text}"),
        origin="agent" if turn.speaker == "assistant" else "owner",
    )


def _place(item: NewMemory) -> int:
    assert item.place is not None  # noqa: S101 — `_memory` gives each one
    return item.place.start
