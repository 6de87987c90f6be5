"""What a session's questions found is kept ready, and nobody could tell but by the time that it takes."""

from __future__ import annotations

import asyncio
from collections.abc import AsyncIterator, Sequence
from contextlib import asynccontextmanager
from dataclasses import replace
from datetime import datetime, timedelta
from pathlib import Path
from tempfile import TemporaryDirectory
from typing import TYPE_CHECKING, Any

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from adapters.cortex import Cortex
from adapters.cortex import prewarm as warming
from adapters.cortex.options import Options
from adapters.cortex.port import Link, Matches, View
from adapters.cortex.prewarm import MAX_BYTES, MAX_ENTRIES, PrewarmCache, key_of
from adapters.cortex.recall import Pool, recall
from adapters.cortex.sqlite import SqliteGraph
from fusion.contract import Opening, Query, Scope
from tests.backend_contract import NOW, event_id, make_event, make_extracted
from tests.fakes import FakeEmbedder

if TYPE_CHECKING:
    from fusion.contract import Floats

TALK = Scope(user_id="ada", session_id="talk")
SECOND = timedelta(seconds=1)


class Watched(SqliteGraph):
    """Counts how often it was searched."""

    finds = 0

    async def find(self, text: str, vector: Floats | None, view: View, limit: int) -> Matches:
        self.finds += 1
        return await super().find(text, vector, view, limit)


class Slow(Watched):
    """Its walks take longer than any question has."""

    async def link(self, text: str, view: View, similar: Sequence[str], limit: int) -> Sequence[Link]:
        await asyncio.Event().wait()
        return ()


class Filling(Watched):
    """Its vectors take as long as the test likes."""

    settles = 0

    def __init__(self, *given: Any) -> None:
        super().__init__(*given)
        self.filled = asyncio.Event()
        self.filled.set()

    async def settle(self) -> None:
        self.settles += 1
        await self.filled.wait()
        await super().settle()


class Talk:
    """A cortex in which a session asks, and whose clock a test sets."""

    def __init__(self, graph: Watched) -> None:
        self.graph = graph
        self.now = NOW
        self.cortex = Cortex(graph, Options(), clock=lambda: self.now)

    async def say(self, n: int, text: str, scope: Scope = TALK, **fields: object) -> None:
        await self.cortex.remember([make_extracted(make_event(n, text, scope, kind="turn", **fields))])  # type: ignore[arg-type]
        await self.rest()

    async def rest(self) -> None:
        """Wait until background work is done and every text has its vector."""
        if (task := self.cortex._refreshing) is not None:
            await task
        await self.graph.settle()

    async def ask(self, text: str, scope: Scope = TALK, **how: object) -> list[int]:
        found = await self.cortex.recall(self.query(text, scope, **how))
        return [int(one.memory.id[-12:], 16) for one in found]

    def query(self, text: str, scope: Scope = TALK, **how: object) -> Query:
        return Query(text, scope, self.now, **how)  # type: ignore[arg-type]

    async def searched(self, text: str, scope: Scope = TALK, **how: object) -> int:
        """How often the store is searched for a question."""
        before = self.graph.finds
        await self.ask(text, scope, **how)
        return self.graph.finds - before


@asynccontextmanager
async def talking(
    folder: Path, kind: type[Watched] = Watched, embedder: FakeEmbedder | None = None
) -> AsyncIterator[Talk]:
    graph = await kind.open(Opening("cortex", folder, {}, embedder or FakeEmbedder()), Options())
    talk = Talk(graph)
    try:
        yield talk
    finally:
        await talk.cortex.close()


@pytest.fixture
async def talk(tmp_path: Path) -> AsyncIterator[Talk]:
    async with talking(tmp_path) as opened:
        await opened.say(1, "A slot is held for fifteen minutes.")
        await opened.say(2, "Berit prefers cinnamon cake.")
        await opened.graph.settle()
        yield opened


@pytest.mark.row(
    "A026",
    "Cortex: a session's last questions are cached, for the same terms in the same order, of the same "
    "user, in SQLite; bounded in entries, bytes and minutes",
)
async def test_a_session_that_asks_again_finds_it_ready(talk: Talk) -> None:
    """The same terms in the same order, whatever small words, case and endings: searched once, answered as before."""
    first = await talk.ask("How long is a slot held?")
    assert await talk.searched("How long are slots held") == 0
    assert await talk.ask("HOW LONG IS A SLOT HELD") == first


@pytest.mark.row(
    "A026", "… another question, user, session or time is searched anew", of="Cortex: a session's last questions"
)
@pytest.mark.parametrize(
    ("text", "scope", "how"),
    [
        ("Is a cake held for long?", TALK, {}),
        ("How long is slot 2 held?", TALK, {}),
        ("How long is a slot not held?", TALK, {}),
        ("How long is a slot held?", replace(TALK, session_id="other"), {}),
        ("How long is a slot held?", replace(TALK, user_id="ben"), {}),
        ("How long is a slot held?", replace(TALK, tenant="blue"), {}),
        ("How long is a slot held?", replace(TALK, audience="private"), {}),
        ("How long is a slot held?", replace(TALK, project="spindle"), {}),
        ("How long is a slot held?", replace(TALK, session_id=None), {}),
        ("How long is a slot held?", TALK, {"as_of": NOW + SECOND}),
        ("How long is a slot held?", TALK, {"known_at": NOW + SECOND}),
    ],
)
async def test_another_question_is_looked_for(talk: Talk, text: str, scope: Scope, how: dict[str, object]) -> None:
    """Other words, a number, a negation, another user, session, tenant, audience, project or time: searched."""
    await talk.ask("How long is a slot held?")
    assert await talk.searched(text, scope, **how) == 1


async def test_what_changes_the_store_makes_it_stale(talk: Talk) -> None:
    """What is said, forgotten or over since is in no answer of before, also where a session is another's."""
    question = "How long is a slot held?"
    assert await talk.ask(question) == [1, 2]
    await talk.say(3, "A slot is held for ten minutes.", replace(TALK, session_id="other"))
    assert await talk.searched(question) == 1
    await talk.cortex.forget(event_id(2), [])
    assert await talk.ask(question) == [1]
    await talk.graph.alter({event_id(1): {"ended_at": NOW}})
    assert await talk.ask(question) == []


async def test_what_is_over_by_now_is_not_shown(talk: Talk) -> None:
    """Valid for another minute when it was looked for; a minute later it is looked for again, without it."""
    await talk.say(3, "A slot is held for ten minutes.", valid_to=NOW + timedelta(minutes=1))
    question = "How long is a slot held?"
    assert 3 in await talk.ask(question)
    talk.now += timedelta(seconds=59)
    assert await talk.searched(question) == 0
    talk.now += SECOND
    assert 3 not in await talk.ask(question)


async def test_use_is_counted_in_the_next_answer(talk: Talk) -> None:
    """States are read each time: what was used since ranks by it, though nothing was searched."""
    question = "slot cake"
    before = await talk.cortex.recall(talk.query(question))
    await talk.cortex.used([event_id(2)], NOW)
    assert await talk.searched(question) == 0
    after = {one.memory.id: one.score for one in await talk.cortex.recall(talk.query(question))}
    assert after[event_id(2)] > {one.memory.id: one.score for one in before}[event_id(2)]


@pytest.mark.feature("… the cache returns nothing from the future", of="a clock that jumps back: the")
async def test_it_is_kept_for_five_minutes(talk: Talk) -> None:
    """From when it was looked for; and a clock that jumps back finds nothing of later."""
    question = "How long is a slot held?"
    await talk.ask(question)
    talk.now += timedelta(minutes=5)
    assert await talk.searched(question) == 0
    talk.now += SECOND
    assert await talk.searched(question) == 1
    talk.now -= timedelta(days=1)
    assert await talk.searched(question) == 1


@pytest.mark.row(
    "A026",
    "… after each turn, the session's last question is answered again in the background",
    of="Cortex: a session's last questions",
)
async def test_a_stored_turn_refreshes_the_last_query_of_its_session(talk: Talk) -> None:
    """What the turn said is in the answer, which was looked for before anybody asked; another session's is not."""
    question, other = "How long is a slot held?", replace(TALK, session_id="other")
    await talk.ask(question)
    await talk.ask(question, other)
    await talk.say(3, "A slot is held for ten minutes from now on.")
    assert await talk.searched(question) == 0
    assert 3 in await talk.ask(question)
    assert await talk.searched(question, other) == 1


@pytest.mark.row(
    "A026",
    "… while vectors are computed, only a session's last question waits",
    of="Cortex: a session's last questions",
)
async def test_a_session_waits_with_one_question(tmp_path: Path) -> None:
    """While vectors fill in nothing is asked anew: of five turns meanwhile the first's question is under way, and the
    last's waits alone."""
    async with talking(tmp_path, Filling) as talk:
        assert isinstance(talk.graph, Filling)
        await talk.say(1, "A slot is held for fifteen minutes.")
        await talk.ask("slot")
        talk.graph.filled.clear()
        talk.graph.settles = 0
        for n in range(2, 7):
            talk.now += SECOND
            await talk.cortex.remember([make_extracted(make_event(n, f"Slot {n} is free.", TALK, kind="turn"))])
            await asyncio.sleep(0)
        talk.graph.filled.set()
        assert talk.cortex._refreshing is not None
        await talk.cortex._refreshing
        assert talk.graph.settles == 2


async def test_what_was_cut_off_or_failed_is_not_kept(tmp_path: Path) -> None:
    """A walk that took too long, and an embedder that does not work: the next question tries again."""
    async with talking(tmp_path / "slow", Slow) as talk:
        await talk.say(1, "A slot is held for fifteen minutes.")
        assert [await talk.searched("slot", deadline_s=0.01) for _ in range(2)] == [1, 1]
    embedder = FakeEmbedder()
    async with talking(tmp_path / "failing", embedder=embedder) as talk:
        await talk.say(1, "A slot is held for fifteen minutes.")
        embedder.failing = True
        assert [await talk.searched("slot") for _ in range(2)] == [1, 1]
        embedder.failing = False
        assert [await talk.searched("slot") for _ in range(2)] == [1, 0]


@pytest.mark.row(
    "A026",
    "… a session's id is used only in a hash (openclaw-cortex: as a file name)",
    of="Cortex: a session's last questions",
)
@pytest.mark.parametrize("session", ["../../etc/passwd", "a\0b", "\ud800", "x" * 1_000_000, "C:\\con"])
async def test_a_sessions_id_is_the_name_of_nothing(tmp_path: Path, session: str) -> None:
    """Whatever it is called, no file is made for it, and what is kept of it is a hash of sixteen bytes."""
    async with talking(tmp_path / "cortex") as talk:
        await talk.say(1, "A slot is held for fifteen minutes.")
        files = sorted(tmp_path.rglob("*"))
        scope = replace(TALK, session_id=session)
        assert [await talk.searched("slot", scope) for _ in range(2)] == [1, 0]
        assert sorted(tmp_path.rglob("*")) == files
        key = key_of(talk.query("slot", scope), history=False)
        assert key is not None
        assert len(key) == 16


def pool(many: int) -> Pool:
    return Pool(Matches(), (), {event_id(n): 1.0 for n in range(many)}, {}, whole=True)


def asked(n: int, at: datetime = NOW) -> Query:
    return Query("slot", replace(TALK, session_id=str(n)), at)


def test_entries_and_bytes_are_bounded() -> None:
    """The oldest go; one that is larger than all of it is not kept at all."""
    warm = PrewarmCache()
    for n in range(MAX_ENTRIES + 2):
        warm.put(asked(n), False, "1", pool(1))
    assert warm.entries == MAX_ENTRIES
    assert warm.get(asked(1), False, "1") is None
    assert warm.get(asked(2), False, "1") is not None
    for n in range(MAX_ENTRIES):
        warm.put(asked(n), False, "1", pool(1000))
        assert warm.total <= MAX_BYTES
    assert 0 < warm.entries < MAX_ENTRIES
    warm.put(asked(0), False, "1", pool(MAX_BYTES // warming._BYTES_PER_CANDIDATE + 1))
    assert (warm.entries, warm.total) == (0, 0)


STEPS = st.lists(
    st.one_of(
        st.tuples(st.just("say"), st.sampled_from(("slot held", "cake", "slot cake", "Berit")), st.integers(0, 1)),
        st.tuples(st.just("forget"), st.just(""), st.integers(0, 9)),
        st.tuples(st.just("end"), st.just(""), st.integers(0, 9)),
        st.tuples(st.just("use"), st.just(""), st.integers(0, 9)),
        st.tuples(st.just("wait"), st.just(""), st.sampled_from((1, 40, 301, -5))),
        st.tuples(st.just("ask"), st.sampled_from(("slot", "cake", "slot cake")), st.integers(0, 1)),
    ),
    max_size=20,
)


@pytest.mark.row(
    "A026",
    "… a cached answer equals a fresh search, after any new memory, deletion, expiry or use in between",
    of="Cortex: a session's last questions",
)
@given(steps=STEPS)
@settings(max_examples=30, deadline=None)
def test_an_answer_is_the_one_that_a_search_gives(steps: list[tuple[str, str, int]]) -> None:
    """Whatever was said, forgotten, ended, used and waited for between: memories, scores and paths are the same."""

    async def live(folder: Path) -> None:
        async with talking(folder) as talk:
            for n, (what, text, which) in enumerate(steps, start=1):
                scope = replace(TALK, session_id=("talk", "other")[which % 2])
                if what == "say":
                    await talk.say(n, text, scope, valid_to=NOW + timedelta(seconds=60) if n % 3 == 0 else None)
                elif what == "forget":
                    await talk.cortex.forget(event_id(which), [])
                elif what == "end":
                    await talk.graph.alter({event_id(which): {"ended_at": talk.now}})
                elif what == "use":
                    await talk.cortex.used([event_id(which)], talk.now)
                elif what == "wait":
                    talk.now += timedelta(seconds=which)
                else:
                    query = talk.query(text, scope)
                    (vector,) = await FakeEmbedder().embed([text])
                    assert await talk.cortex.recall(query) == await recall(talk.graph, query, vector, Options())

    with TemporaryDirectory() as folder:
        asyncio.run(live(Path(folder)))
