"""Observations in a whole home: captured, harvested, listed and searched, and never among the memories."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import replace
from datetime import UTC, datetime, timedelta
from pathlib import Path
from typing import Any

import orjson
import pytest

from fusion import wire
from fusion.contract import Scope
from fusion.errors import BadInput, KeyReused, NotFound, StoreBusy
from fusion.gateway.episodes import EpisodeQuery, EpisodeSearch
from fusion.gateway.gateway import Gateway
from fusion.ingest.forget import ForgetRequest
from fusion.ingest.observe import ObservationIntake, ReplayedObservations
from fusion.journal import observation_vectors, observations
from fusion.journal.listing import Criteria
from fusion.journal.observations import Wanted
from fusion.journal.proposals import Decider
from fusion.lib.clock import utc_now
from fusion.lib.ids import UuidSource
from fusion.lib.observation import EpisodeType, NewObservation, Observation, line_of, observed
from fusion.lib.observation_lines import BLANK
from fusion.settings import Settings
from fusion.store.segments import Place, SegmentLog
from fusion.store.sqlite import Connection
from tests.fakes import FakeEmbedder
from tests.gateway.helpers import NADIA, OMAR, remember, small
from tests.patience import load

SESSION = Scope(user_id="nadia", session_id="s1", project="bookings", audience="private")


def result(text: str, scope: Scope = SESSION, **fields: object) -> NewObservation:
    return NewObservation("tool.result", scope, tool="Bash", payload={"stdout": text}, **fields)  # type: ignore[arg-type]


@pytest.mark.row("A123", "a tool's result is a line of an append-only log, and at once an episode of its session")
async def test_a_captured_result_is_visible_at_once(home: Path) -> None:
    async with Gateway.open(small(home)) as gateway:
        (kept,) = await gateway.append_episodes([result("alembic: 3 migrations applied to the bookings")])
        assert (kept.ref, kept.status, kept.pointer) == ("ep:1", "stored", "000001#1")
        (listed,) = (await gateway.query_episodes(EpisodeQuery(NADIA)))["episodes"]
        assert [listed["ref"], listed["type"], listed["tool"]] == ["ep:1", "tool.result", "Bash"]
        assert [listed["origin"], listed["trust"]] == ["tool", "untrusted"]
        assert listed["summary"] == "stdout: alembic: 3 migrations applied to the bookings"
        (found,) = (await gateway.search_episodes(EpisodeSearch("which migration was applied?", NADIA)))["episodes"]
        assert found["ref"] == "ep:1"
        assert found["score"] == 1, "it has both words of the question"
        assert (await gateway.episode("ep:1", NADIA))["payload"] == {
            "stdout": "alembic: 3 migrations applied to the bookings"
        }
        log = (home / "observations" / "segment-000001.jsonl").read_bytes()
        assert log.count(b"\n") == 1


@pytest.mark.row("A139", "episodes are evidence only: no backend gets one, and no answer of /fuse has one")
async def test_observations_are_never_in_an_answer(home: Path) -> None:
    async with Gateway.open(small(home)) as gateway:
        await remember(gateway, "Nadia prefers tea in the morning")
        before = await gateway.fuse("which migrations were applied?", scope=NADIA)
        await gateway.append_episodes([result(f"migrations were applied: {n}") for n in range(20)])
        await gateway.settle()
        after = await gateway.fuse("which migrations were applied?", scope=NADIA)
        assert [one.ref for one in after.memories] == [one.ref for one in before.memories]
        for name in gateway.guarded:
            hits = (await gateway.search(name, "migrations were applied", NADIA)).hits
            assert not [hit for hit in hits if "migrations" in hit.text]


async def test_episodes_of_another_user_are_not_shown(home: Path) -> None:
    async with Gateway.open(small(home)) as gateway:
        await gateway.append_episodes([result("the deploy key was rotated")])
        assert (await gateway.query_episodes(EpisodeQuery(OMAR)))["episodes"] == []
        assert (await gateway.search_episodes(EpisodeSearch("deploy key", OMAR)))["episodes"] == []
        with pytest.raises(NotFound):
            await gateway.episode("ep:1", OMAR)
        group = Scope(user_id="nadia", audience="group")
        assert (await gateway.query_episodes(EpisodeQuery(group)))["episodes"] == [], "private, and asked in a group"


async def test_a_project_filters_episodes(home: Path) -> None:
    async with Gateway.open(small(home)) as gateway:
        await gateway.append_episodes([result("of the bookings"), result("of the shop", Scope(project="shop"))])
        shop = await gateway.query_episodes(EpisodeQuery(Scope(project="shop", audience="private")))
        assert [one["ref"] for one in shop["episodes"]] == ["ep:2"]


@pytest.mark.row("A140", "an episode needs a scope, to be written and to be read")
async def test_a_scope_is_required(home: Path) -> None:
    nobody = Scope(audience="private")
    async with Gateway.open(small(home)) as gateway:
        with pytest.raises(BadInput, match=r"episodes\[1\]: say whose it is: user_id, agent_id, session_id or project"):
            await gateway.append_episodes([result("one"), result("two", nobody)])
        with pytest.raises(BadInput, match="say whose it is"):
            await gateway.query_episodes(EpisodeQuery(nobody))
        with pytest.raises(BadInput, match="or all_users"):
            await gateway.search_episodes(EpisodeSearch("one", nobody))
        assert (await gateway.query_episodes(EpisodeQuery(nobody, all_users=True)))["episodes"] == [], "none was stored"


async def test_the_same_event_is_stored_once(home: Path) -> None:
    async with Gateway.open(small(home)) as gateway:
        one = result("twice", event_id="call_1")
        first, second = await gateway.append_episodes([one, one])
        (third,) = await gateway.append_episodes([one])
        assert [first.status, second.status, third.status] == ["stored", "duplicate", "duplicate"]
        assert {first.ref, second.ref, third.ref} == {"ep:1"}
        other = Scope(user_id="omar", session_id="s1", audience="private")
        (of_omar,) = await gateway.append_episodes([result("his own", other, event_id="call_1")])
        assert (of_omar.status, of_omar.ref) == ("stored", "ep:2"), "an id of one user blocks no other's"
        assert (home / "observations" / "segment-000001.jsonl").read_bytes().count(b"\n") == 2


async def test_a_repeated_idempotency_key_gets_the_first_reply(home: Path) -> None:
    async with Gateway.open(small(home)) as gateway:
        first = await gateway.append_episodes([result("one")], idempotency_key="k1")
        again = await gateway.append_episodes([result("one")], idempotency_key="k1")
        assert isinstance(again, ReplayedObservations)
        assert list(again) == list(first)
        with pytest.raises(KeyReused):
            await gateway.append_episodes([result("another")], idempotency_key="k1")
        assert len((await gateway.query_episodes(EpisodeQuery(NADIA)))["episodes"]) == 1


async def test_pages_of_episodes_are_in_the_order_of_time(home: Path) -> None:
    start = datetime(2026, 3, 1, tzinfo=UTC)
    async with Gateway.open(small(home)) as gateway:
        await gateway.append_episodes([result(f"step {n}", ts=start + timedelta(hours=n % 7)) for n in range(12)])
        seen, cursor = [], None
        while True:
            page = await gateway.query_episodes(EpisodeQuery(NADIA, limit=5, cursor=cursor))
            seen += page["episodes"]
            if (cursor := page["next_cursor"]) is None:
                break
        assert len(seen) == 12
        assert [one["ts"] for one in seen] == sorted(one["ts"] for one in seen)
        newest = await gateway.query_episodes(EpisodeQuery(NADIA, limit=12, newest_first=True))
        assert [one["ref"] for one in newest["episodes"]] == [one["ref"] for one in reversed(seen)]


@pytest.mark.row("A140", "a session's working set has its latest episodes, oldest first, and no other session's")
async def test_a_working_set_is_the_latest_of_one_session(home: Path) -> None:
    async with Gateway.open(small(home)) as gateway:
        other = Scope(user_id="nadia", session_id="s2", audience="private")
        await gateway.append_episodes([*(result(f"step {n}") for n in range(20)), result("elsewhere", other)])
        latest = await gateway.working_set(SESSION, 3)
        assert [one["summary"] for one in latest] == ["stdout: step 17", "stdout: step 18", "stdout: step 19"]
        with pytest.raises(BadInput, match="session_id"):
            await gateway.working_set(NADIA)


async def test_lanes_are_searched_only_if_they_are_named(home: Path) -> None:
    async with Gateway.open(small(home)) as gateway:
        read = NewObservation("tool.result", SESSION, tool="Read", payload="The harbour master's manual")
        await gateway.append_episodes([read, result("the harbour is open")])
        found = await gateway.search_episodes(EpisodeSearch("harbour", NADIA))
        assert [one["ref"] for one in found["episodes"]] == ["ep:2"]
        cold = await gateway.search_episodes(EpisodeSearch("harbour", NADIA, lanes=("documents",)))
        assert [(one["ref"], one["lane"]) for one in cold["episodes"]] == [("ep:1", "documents")]


# Search by meaning ----------------------------------------------------------------------------------------------------


class Embedders:
    """Opens embedders whose model has the name in the settings; "boat" and "vessel" mean the same to them."""

    @classmethod
    async def open(cls, folder: Path, options: Mapping[str, Any]) -> FakeEmbedder:
        return FakeEmbedder(identity=str(options["model"]), synonyms={"vessel": "boat"})


def embedding(home: Path, model: str) -> Settings:
    table = {"adapter": f"{__name__}:Embedders", "model": model}
    backends = {"memory": {"adapter": "adapters.inmemory:InMemory"}}
    return load(home=home, backends_only=True, embedder=table, backends=backends)


BOATS = ["the boat is in the harbour", "the invoice was paid", "a kettle of tea"]


@pytest.mark.row("A139", "episodes are searched by words, by vectors of the home's model, or by both")
async def test_episodes_are_searched_by_words_vectors_or_both(home: Path) -> None:
    async with Gateway.open(embedding(home, "one@1")) as gateway:
        await gateway.append_episodes([result(text) for text in BOATS])
        before = await gateway.search_episodes(EpisodeSearch("vessel", NADIA, mode="hybrid"))
        assert before["episodes"] == []
        assert "`fusion mem episodes embed`, POST /v1/episodes/embed, makes them" in before["vector_status"]
        with pytest.raises(BadInput, match="3 episodes have no vectors of one@1"):
            await gateway.search_episodes(EpisodeSearch("vessel", NADIA, mode="vector"))
        done = await gateway.embed_episodes(NADIA)
        assert done == {"model": "one@1", "embedded": 3, "left": 0}
        assert (await gateway.embed_episodes(NADIA))["embedded"] == 0
        assert (await gateway.search_episodes(EpisodeSearch("vessel", NADIA)))["episodes"] == [], "no word is the same"
        vector = await gateway.search_episodes(EpisodeSearch("vessel", NADIA, mode="vector"))
        assert vector["episodes"][0]["ref"] == "ep:1"
        hybrid = await gateway.search_episodes(EpisodeSearch("vessel invoice", NADIA, mode="hybrid", trace=True))
        assert {one["ref"] for one in hybrid["episodes"][:2]} == {"ep:1", "ep:2"}
        assert hybrid["vector_status"] == "ok"
        assert list(hybrid["trace"] or {}) == ["lexical", "vector", "fused"]
        assert "harbour" not in str(hybrid["trace"]), "a trace has no text"
        assert (await gateway.search_episodes(EpisodeSearch("vessel", OMAR, mode="vector")))["episodes"] == []


@pytest.mark.row("A139", "vectors of another model are never compared; embedding makes them again")
async def test_vectors_of_another_model_are_made_again(home: Path) -> None:
    async with Gateway.open(embedding(home, "one@1")) as gateway:
        await gateway.append_episodes([result(text) for text in BOATS])
        await gateway.embed_episodes(NADIA)
    async with Gateway.open(embedding(home, "two@1")) as gateway:
        with pytest.raises(BadInput, match="3 episodes have no vectors of two@1"):
            await gateway.search_episodes(EpisodeSearch("vessel", NADIA, mode="vector"))
        assert (await gateway.embed_episodes(NADIA))["embedded"] == 3
        found = await gateway.search_episodes(EpisodeSearch("vessel", NADIA, mode="vector"))
        assert found["episodes"][0]["ref"] == "ep:1"


async def test_without_a_model_a_hybrid_search_is_one_by_words(home: Path) -> None:
    async with Gateway.open(small(home)) as gateway:
        await gateway.append_episodes([result(text) for text in BOATS])
        found = await gateway.search_episodes(EpisodeSearch("boat", NADIA, mode="hybrid"))
        assert [one["ref"] for one in found["episodes"]] == ["ep:1"]
        assert found["vector_status"].startswith("off")
        with pytest.raises(BadInput, match=r"\[embedder\]"):
            await gateway.embed_episodes(NADIA)


# Harvest --------------------------------------------------------------------------------------------------------------


def lines_of(folder: Path) -> bytes:
    """All that the log, its archives and the journal hold, unpacked."""
    log = SegmentLog.open(folder / "observations")
    said = b"\n".join(line for _, line in log.lines_from(Place(1, 1)))
    return said + b"".join(file.read_bytes() for file in folder.glob("journal.sqlite*"))


@pytest.mark.row("A124", "what the ledger could not take is in the log, and the next harvest takes it in")
async def test_a_busy_journal_loses_no_observation(home: Path) -> None:
    async with Gateway.open(small(home)) as gateway:
        gateway.journal.refuse_writes("another process is writing", StoreBusy)
        (kept,) = await gateway.append_episodes([result("kept")])
        assert (kept.status, kept.ref) == ("stored", "")
        gateway.journal.refuse_writes("")
        (found,) = (await gateway.query_episodes(EpisodeQuery(NADIA)))["episodes"]
        assert found["pointer"] == kept.pointer


@pytest.mark.row("A124", "one malformed line costs itself: it is counted, and listed with its reason")
async def test_a_malformed_line_of_the_log_costs_itself(home: Path) -> None:
    async with Gateway.open(small(home)) as gateway:
        await gateway.append_episodes([result("before")])
        log = await gateway.observations.log()
        log.append([b"{not json", b'{"schema": "memory-fusion.observation.v9"}'])
        await gateway.append_episodes([result("after")])
        listed = (await gateway.query_episodes(EpisodeQuery(NADIA)))["episodes"]
        assert [one["summary"] for one in listed] == ["stdout: before", "stdout: after"]
        file = home / "observations" / "dead-letters.jsonl"
        letters = [orjson.loads(line) for line in file.read_bytes().splitlines()]
        assert [(one["where"], one["reason"][:10]) for one in letters] == [
            ("000001#2", "it is no J"),
            ("000001#3", "its schema"),
        ]


@pytest.mark.row("A124", "a scorer that raises costs only the grade; a grade that came with a record is kept")
async def test_a_scorer_that_raises_costs_only_the_grade(home: Path) -> None:
    def score(found: Observation) -> Mapping[str, Any]:
        if "bad" in found.summary:
            raise ZeroDivisionError
        return {"score": 0.9, "label": "must_remember"}

    async with Gateway.open(small(home)) as gateway:
        intake = ObservationIntake(gateway.journal, "default", home, utc_now, UuidSource(), score)
        log = await intake.log()
        found = [observed(result(text), utc_now(), UuidSource()).observation for text in ("good", "bad", "graded")]
        graded = [replace(one, importance=0.2) if "graded" in one.summary else one for one in found if one is not None]
        log.append([line_of(one) for one in graded])
        done = await intake.harvest()
        assert (done.stored, done.scorer_errors, done.rejected) == (3, 1, 0)
        rows = (await gateway.query_episodes(EpisodeQuery(NADIA)))["episodes"]
        assert [one["importance"] and one["importance"]["score"] for one in rows] == [0.9, None, 0.2]


async def test_observations_are_graded_if_the_settings_say_so(home: Path) -> None:
    plain = small(home)
    graded = plain.model_copy(update={"episodes": plain.episodes.model_copy(update={"grade": True})})
    async with Gateway.open(graded) as gateway:
        await gateway.append_episodes([result("We decided: never deploy on Fridays, always run the migrations first")])
        (one,) = (await gateway.query_episodes(EpisodeQuery(NADIA)))["episodes"]
        assert one["importance"] is not None
        assert one["importance"]["method"] == "heuristic-v1"
        assert one["importance"]["score"] > 0.5


@pytest.mark.row("A124", "a harvest from the beginning changes nothing, and overwrites no field that a person set")
async def test_a_harvest_from_the_beginning_changes_nothing(home: Path) -> None:
    async with Gateway.open(small(home)) as gateway:
        await gateway.append_episodes([result("one"), result("two")])
        await gateway.redact_episodes(NADIA, ["ep:1"])
        before = (await gateway.query_episodes(EpisodeQuery(NADIA, include_payload=True)))["episodes"]
        await gateway.journal.write(observations.bookmark, "log", "000001#1")
    async with Gateway.open(small(home)) as gateway:
        assert (await gateway.harvest_episodes()).duplicate == 2
        after = (await gateway.query_episodes(EpisodeQuery(NADIA, include_payload=True)))["episodes"]
        assert after == before
        assert after[0]["summary"] == "[REDACTED]"
        assert (await gateway.observations.log()).read("000001#2") != BLANK


# Forgetting -----------------------------------------------------------------------------------------------------------

SECRET = "the boathouse key hangs behind the blue oar"


@pytest.mark.feature("forgetting reaches observations: by ref, by session, user or time, and quotes of a memory")
async def test_forgetting_by_ref_reaches_every_copy(home: Path) -> None:
    async with Gateway.open(embedding(home, "one@1")) as gateway:
        await gateway.append_episodes([result("before"), result(SECRET, event_id="call_1"), result("after")])
        await gateway.embed_episodes(NADIA)
        with pytest.raises(NotFound):
            await gateway.forget("ep:2", OMAR)
        receipt = await gateway.forget("ep:2", NADIA)
        assert receipt.backends == {"observations": "deleted"}
        assert b"boathouse" not in lines_of(home)
        assert len(await gateway.journal.read(observation_vectors.of, Wanted(NADIA), "one@1")) == 2
        (again,) = await gateway.append_episodes([result(SECRET, event_id="call_1")])
        assert again.status == "blocked"
        assert b"boathouse" not in lines_of(home)
        log = await gateway.observations.log()
        assert b"after" in log.read("000001#3")
        refs = [one["ref"] for one in (await gateway.query_episodes(EpisodeQuery(NADIA)))["episodes"]]
        assert refs == ["ep:1", "ep:3"]


async def test_forgetting_a_session_or_a_time_reaches_observations(home: Path) -> None:
    other = Scope(user_id="nadia", session_id="s2", audience="private")
    old = datetime(2025, 1, 1, tzinfo=UTC)
    everything = Criteria(after=datetime(1970, 1, 1, tzinfo=UTC))
    async with Gateway.open(small(home)) as gateway:
        await gateway.append_episodes([result("one", ts=old), result("two"), result("three", other)])
        of_session = ForgetRequest(SESSION, criteria=Criteria(before=datetime(2025, 6, 1, tzinfo=UTC)))
        preview = await gateway.forget_many(replace(of_session, dry_run=True))
        assert [(one.ref, one.text) for one in preview.found] == [("ep:1", "stdout: one")]
        done = await gateway.forget_many(of_session)
        assert [(one.ref, one.text) for one in done.found] == [("ep:1", "")]
        await gateway.forget_many(ForgetRequest(other, criteria=everything))
        left = (await gateway.query_episodes(EpisodeQuery(NADIA)))["episodes"]
        assert [one["summary"] for one in left] == ["stdout: two"]
        by_both = await gateway.forget_many(ForgetRequest(NADIA, refs=("ep:2", "ep:99", "m99")))
        assert [one.ref for one in by_both.receipts] == ["ep:2"]
        assert {*by_both.missing} == {"ep:99", "m99"}


async def test_nothing_is_before_the_first_day(home: Path) -> None:
    """No time can be subtracted from the first one; an observation of that very time is not before it."""
    first = datetime.min.replace(tzinfo=UTC)
    async with Gateway.open(small(home)) as gateway:
        await gateway.append_episodes([result("one", ts=first), result("two")])
        for before in (first, first + timedelta(microseconds=1)):
            asked = ForgetRequest(SESSION, criteria=Criteria(before=before), dry_run=True)
            preview = await gateway.forget_many(asked)
            assert [one.text for one in preview.found] == (["stdout: one"] if before > first else [])
        done = await gateway.forget_many(ForgetRequest(SESSION, criteria=Criteria(before=first)))
        assert (done.found, done.receipts) == ((), ())
        assert len((await gateway.query_episodes(EpisodeQuery(NADIA)))["episodes"]) == 2


async def test_forgetting_a_memory_forgets_the_observations_that_quote_it(home: Path) -> None:
    async with Gateway.open(small(home)) as gateway:
        (ref,) = await remember(gateway, SECRET)
        theirs = Scope(user_id="omar", session_id="s9", audience="private")
        await gateway.append_episodes(
            [result(f"grep: notes.md: {SECRET.upper()}!"), result("the boathouse is blue"), result(SECRET, theirs)]
        )
        await gateway.forget(ref, NADIA)
        left = (await gateway.query_episodes(EpisodeQuery(NADIA)))["episodes"]
        assert [one["summary"] for one in left] == ["stdout: the boathouse is blue"]
        assert len((await gateway.query_episodes(EpisodeQuery(theirs)))["episodes"]) == 1, "another user's own"


async def test_forgetting_reaches_what_the_ledger_has_not_yet(home: Path) -> None:
    async with Gateway.open(small(home)) as gateway:
        gateway.journal.refuse_writes("busy", StoreBusy)
        await gateway.append_episodes([result(SECRET)])
        gateway.journal.refuse_writes("")
        await gateway.forget_many(ForgetRequest(NADIA, criteria=Criteria(after=datetime(1970, 1, 1, tzinfo=UTC))))
        assert b"boathouse" not in lines_of(home)


DAYS: Mapping[EpisodeType, int] = {
    "conversation.user": 60,
    "conversation.assistant": 90,
    "tool.call": 30,
    "tool.result": 30,
    "ops.alert": 90,
}


@pytest.mark.row("A140", "each type is kept its days, decisions for ever; what is past them leaves no copy")
async def test_episodes_end_by_their_type(home: Path) -> None:
    now = datetime.now(UTC)
    ages: list[tuple[EpisodeType, int]] = [(each, days + more) for each, days in DAYS.items() for more in (-1, 1)]
    ages.append(("ops.decision", 4000))
    async with Gateway.open(small(home)) as gateway:
        for each, age in ages:
            text = f"{each} of {age} days"
            await gateway.append_episodes([NewObservation(each, SESSION, summary=text, ts=now - timedelta(days=age))])
        counted = await gateway.expire_episodes(dry_run=True)
        assert counted == dict.fromkeys(DAYS, 1)
        assert await gateway.expire_episodes() == counted
        assert await gateway.expire_episodes() == {}
        left = {one["summary"] for one in (await gateway.query_episodes(EpisodeQuery(NADIA)))["episodes"]}
        kept = {f"{each} of {days - 1} days" for each, days in DAYS.items()}
        assert left == {*kept, "ops.decision of 4000 days"}
        assert b"of 31 days" not in lines_of(home)


async def test_redacted_episodes_stay_in_their_places(home: Path) -> None:
    async with Gateway.open(small(home)) as gateway:
        await gateway.append_episodes([result(SECRET), result("after")])
        with pytest.raises(NotFound, match="nothing was redacted"):
            await gateway.redact_episodes(NADIA, ["ep:1", "ep:9"])
        assert await gateway.redact_episodes(NADIA, ["ep:1"], dry_run=True) == 1
        assert await gateway.redact_episodes(NADIA, ["ep:1"]) == 1
        assert b"boathouse" not in lines_of(home)
        rows = (await gateway.query_episodes(EpisodeQuery(NADIA)))["episodes"]
        assert [(one["summary"], one["redacted"]) for one in rows] == [("[REDACTED]", True), ("stdout: after", False)]
        assert (await gateway.search_episodes(EpisodeSearch("boathouse", NADIA)))["episodes"] == []


@pytest.mark.parametrize("importance", [0.9, "unknown"])
async def test_an_importance_by_hand_is_in_a_ledger_that_is_made_again(
    home: Path, tmp_path: Path, importance: Any
) -> None:
    """Of an observation in the log, and of one that a file of the user has; what was redacted is not there again."""
    file = tmp_path / "others.jsonl"
    file.write_text('{"id": "f1", "summary": "we agreed on the red boat", "session_id": "s1"}\n', encoding="utf-8")
    settings = small(home)
    episodes = settings.episodes.model_copy(update={"paths": (file,), "grade": True})
    settings = settings.model_copy(update={"episodes": episodes})
    everybody = Scope(audience="private")
    async with Gateway.open(settings) as gateway:
        await gateway.append_episodes([result("we decided to deploy on Friday"), result(SECRET)])
        await gateway.harvest_episodes()
        before = (await gateway.query_episodes(EpisodeQuery(everybody, all_users=True)))["episodes"]
        assert len(before) == 3
        for one in before:
            if "boathouse" in one["summary"]:
                await gateway.redact_episodes(everybody, [one["ref"]])
            await gateway.grade_episode(one["ref"], everybody, importance, Decider("owner"), "it matters")
        graded = {one["event_id"]: one["importance"] for one in await listed(gateway, everybody)}
        await gateway.journal.write(emptied)
    async with Gateway.open(settings) as gateway:
        await gateway.harvest_episodes()
        again = await listed(gateway, everybody)
        assert {one["event_id"]: one["importance"] for one in again} == graded
        assert not any("boathouse" in one["summary"] for one in again)
        assert (await gateway.harvest_episodes()).stored == 0


async def listed(gateway: Gateway, scope: Scope) -> list[wire.Episode]:
    return (await gateway.query_episodes(EpisodeQuery(scope, all_users=True)))["episodes"]


def emptied(db: Connection) -> None:
    """Empty the ledger, as a journal is that was made again without it."""
    for table in ("observation_vector", "observation_text", "observation", "harvested"):
        db.execute(f"delete from {table}")


@pytest.mark.parametrize("importance", [0.9, "unknown"])
async def test_no_harvest_changes_an_importance_by_hand(home: Path, importance: Any) -> None:
    """Also not after the episode was redacted."""
    settings = small(home)
    graded = settings.model_copy(update={"episodes": settings.episodes.model_copy(update={"grade": True})})
    async with Gateway.open(settings) as gateway:
        await gateway.append_episodes([result("we decided to deploy on Friday")])
        found = await gateway.grade_episode("ep:1", NADIA, importance, Decider("owner"), "ghp_" + "a1B2" * 9)
        assert found["importance"] is not None
        assert "a1B2a1B2" not in found["importance"]["rationale"]
        with pytest.raises(NotFound):
            await gateway.grade_episode("ep:1", OMAR, 0.1, Decider("owner"))
        await gateway.journal.write(observations.bookmark, "log", "000001#1")
    async with Gateway.open(graded) as gateway:
        assert (await gateway.harvest_episodes()).duplicate == 1
        assert (await gateway.episode("ep:1", NADIA))["importance"] == found["importance"]
        await gateway.redact_episodes(NADIA, ["ep:1"])
        row = await gateway.journal.read(observations.find, "ep:1", NADIA)
        assert observations.by_hand_of(row).keys() == {"importance", "summary", "payload", "refs"}


@pytest.mark.feature("a log of observations that was cut loses no later observation, and gives no pointer twice")
async def test_after_a_cut_log_the_next_observation_is_kept(home: Path) -> None:
    async with Gateway.open(small(home)) as gateway:
        await gateway.append_episodes([result("the first"), result("the second")])
    file = home / "observations" / "segment-000001.jsonl"
    file.write_bytes(file.read_bytes()[:-20])
    async with Gateway.open(small(home)) as gateway:
        (kept,) = await gateway.append_episodes([result("after the cut")])
        assert (kept.ref, kept.status, kept.pointer) == ("ep:3", "stored", "000001#3")
        listed = (await gateway.query_episodes(EpisodeQuery(NADIA)))["episodes"]
    assert [one["pointer"] for one in listed] == ["000001#1", "000001#2", "000001#3"]
