"""What stores contradict each other in, by structure: what was asserted last holds, and the receipt says why."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, replace
from datetime import UTC, datetime, timedelta
from itertools import permutations
from typing import Any

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from fusion.contract import Event, Fact, Features, Hit, Moment, Opening, Query, Scope, State
from fusion.lib.bm25 import Frequencies
from fusion.lib.ids import external_ref
from fusion.lib.temporal_facts import Assertion, FactObject, written
from fusion.recall.contradictions import Claim, Decided, resolved
from fusion.recall.engine import FuseRequest, Outcome, fuse
from fusion.recall.gather import GuardedBackend
from fusion.recall.io import JournalReads, Live
from fusion.recall.recording import Recorder, Replay
from fusion.recipe import ContradictionSettings, PackSettings, Recipe, RerankSettings
from tests.recall.helpers import StoredRecord

NOW = datetime(2026, 6, 1, tzinfo=UTC)
ASK = FuseRequest("where does ada live", now=NOW)
RECIPE = Recipe(rerank=RerankSettings(signals={"bm25": 1, "fusion": 1}, judge="never"))
LEAVE_OUT = replace(RECIPE, contradictions=ContradictionSettings("leave_out"))
UUID = "0199e0b6-8a4e-7c1d-9f00-00000000000a"


def day(written: str) -> datetime:
    return datetime.fromisoformat(written).replace(tzinfo=UTC)


@dataclass
class Fixed:
    """A backend that answers every question with the same hits."""

    hits: Sequence[Hit]
    features = Features(filters=frozenset({"user_id", "agent_id", "run_id", "session_id"}), tenants=True, as_of=True)

    @classmethod
    async def open(cls, opening: Opening) -> Fixed:
        return cls(())

    async def search(self, query: Query) -> Sequence[Hit]:
        return self.hits

    async def close(self) -> None:
        """Nothing is open."""


def live(backends: Mapping[str, Sequence[Hit]], *records: StoredRecord) -> Live:
    kept = {record.event.event_id: record for record in records}

    async def of(event_ids: Sequence[str]) -> Mapping[str, StoredRecord]:
        return {i: kept[i] for i in event_ids if i in kept}

    async def near(event_ids: Sequence[str], span: int) -> Mapping[str, Sequence[StoredRecord]]:
        return {}

    async def frequencies(scope: Scope, terms: Sequence[str]) -> Frequencies:
        return Frequencies()

    guarded = {name: GuardedBackend(name, Fixed(hits)) for name, hits in backends.items()}
    return Live(guarded, JournalReads(of, near, frequencies, lambda backend, hits: hits), lexical=True)


def lives_in(native_id: str, place: str, since: str | None = None, **more: Any) -> Hit:
    """The edge of a graph: where Ada lives."""
    valid_from = None if since is None else day(since)
    fact = Fact("Ada", "LIVES_IN", place)
    return Hit(native_id, f"Ada lives in {place}", kind="fact", valid_from=valid_from, fact=fact, **more)


def remembered(
    event_id: str, text: str, at: str, *, superseded_by: str | None = None, state: State | None = None, **more: Any
) -> StoredRecord:
    event = Event(event_id, text, day(at), **more)
    return StoredRecord(f"m{event_id[-1]}", event, superseded_by=superseded_by, state=state or State())


def contradictions(outcome: Outcome) -> list[dict[str, Any]]:
    found: list[dict[str, Any]] = outcome.receipt.body.get("contradictions", [])
    return found


def decisions(outcome: Outcome) -> dict[str, str]:
    return {row["ref"]: str(row["decision"]) for row in outcome.receipt.body["candidates"]}


OLD, NEW = external_ref("zep", "edge/1"), external_ref("neo4j", "edge/2")
EDGES = {"zep": [lives_in("edge/1", "Berlin", "2024-01-01")], "neo4j": [lives_in("edge/2", "Paris", "2025-03-01")]}


@pytest.mark.feature("of two values that two stores have of one attribute, the one that was asserted last holds")
async def test_newer_value_supersedes_the_older_one_in_the_block() -> None:
    """The older edge is shown after the newer one, and a line says so; the receipt names both stores and times."""
    outcome = await fuse(ASK, RECIPE, live(EDGES))
    block = outcome.fused.block
    assert f"[{NEW}, {OLD}] {OLD} is superseded by {NEW} (2025-03-01, from neo4j).\n" in block
    assert block.index("Ada lives in Paris") < block.index("Ada lives in Berlin")
    assert contradictions(outcome) == [
        {
            "decision": "newest",
            "on": "value",
            "refs": [NEW, OLD],
            "stores": ["neo4j", "zep"],
            "at": ["2025-03-01T00:00:00+00:00", "2024-01-01T00:00:00+00:00"],
        }
    ]
    assert outcome.fused.disputed[0].newer == NEW


async def test_context_pack_marks_the_superseded_value() -> None:
    """In the format's own words."""
    recipe = replace(RECIPE, pack=PackSettings(format="context-pack"))
    block = (await fuse(ASK, recipe, live(EDGES))).fused.block
    assert f"Ada lives in Berlin [superseded by: obs:{NEW}]" in block
    assert f"Ada lives in Paris [supersedes: obs:{OLD}]" in block


@pytest.mark.feature("… and a recipe can leave the older one out", of="of two values that two stores have")
async def test_recipe_leaves_the_superseded_value_out() -> None:
    """With a decision of its own."""
    outcome = await fuse(ASK, LEAVE_OUT, live(EDGES))
    assert "Berlin" not in outcome.fused.block
    assert decisions(outcome) == {NEW: "packed", OLD: "contradicted"}


async def test_newer_value_is_shown_even_if_it_fits_the_question_less() -> None:
    """Rank decides nothing: the newer one is under the floor by itself, the older one fits the question."""
    paris = replace(EDGES["neo4j"][0], text="Paris since March")
    backends = {**EDGES, "neo4j": [paris]}
    scores = {row["ref"]: row["local"] for row in (await fuse(ASK, RECIPE, live(backends))).receipt.body["candidates"]}
    floor = (scores[NEW] + scores[OLD]) / 2
    assert scores[NEW] < floor
    recipe = replace(RECIPE, rerank=replace(RECIPE.rerank, floor=floor))
    outcome = await fuse(ASK, recipe, live(backends))
    assert decisions(outcome) == {NEW: "packed", OLD: "packed"}
    assert outcome.fused.block.index("Paris since March") < outcome.fused.block.index("Ada lives in Berlin")


async def test_superseded_value_is_never_shown_alone() -> None:
    """Where the block has room for one memory only, it is the newer one."""
    recipe = replace(RECIPE, pack=PackSettings(max_items=1))
    assert decisions(await fuse(ASK, recipe, live(EDGES))) == {NEW: "packed", OLD: "items_full"}
    recipe = replace(RECIPE, pack=PackSettings(budget_chars=230))
    paris = replace(EDGES["neo4j"][0], text=f"Ada lives in Paris {'and so on ' * 30}")
    found = decisions(await fuse(ASK, recipe, live({**EDGES, "neo4j": [paris]})))
    assert found[OLD] != "packed" or found[NEW] == "packed"


@pytest.mark.parametrize(
    "newer",
    [
        lives_in("edge/2", "Paris", "2025-03-01", trust="untrusted"),
        lives_in("edge/2", "Paris", "2025-03-01", origin="tool"),
    ],
    ids=["untrusted", "tool"],
)
@pytest.mark.parametrize("recipe", [RECIPE, LEAVE_OUT], ids=["mark", "leave out"])
async def test_less_trusted_newer_value_does_not_win(newer: Hit, recipe: Recipe) -> None:
    """Both are shown as disputed."""
    outcome = await fuse(ASK, recipe, live({**EDGES, "neo4j": [newer]}))
    assert decisions(outcome) == {NEW: "packed", OLD: "packed"}
    assert f"disagree: {OLD} is from zep, {NEW} from neo4j.\n" in outcome.fused.block
    assert [row["decision"] for row in contradictions(outcome)] == ["less_trusted"]


async def test_unknown_newer_value_does_not_win_over_a_trusted_one() -> None:
    """What only a backend vouches for is never trusted; a fact of the owner in the journal is."""
    stated = written(Assertion("api", "status", FactObject("literal", "live")))
    record = remembered("e1", "api has the status live", "2025-01-01", trust="trusted", stated=(stated,))
    edge = Hit("n1", "api is retired", valid_from=day("2026-01-01"), fact=Fact("API", "status", "retired"))
    ask = FuseRequest("what is the status of the api", now=NOW)
    backends = {"own": [Hit.of(record.event)], "graph": [edge]}
    outcome = await fuse(ask, LEAVE_OUT, live(backends, record))
    assert [row["decision"] for row in contradictions(outcome)] == ["less_trusted"]
    assert set(decisions(outcome).values()) == {"packed"}
    unknown = remembered("e1", "api has the status live", "2025-01-01", stated=(stated,))
    outcome = await fuse(ask, LEAVE_OUT, live(backends, unknown))
    assert [row["decision"] for row in contradictions(outcome)] == ["newest"]
    assert decisions(outcome)["m1"] == "contradicted"


@pytest.mark.parametrize("recipe", [RECIPE, LEAVE_OUT], ids=["mark", "leave out"])
async def test_value_that_will_hold_supersedes_none_that_holds_now(recipe: Recipe) -> None:
    """At the time from which it holds, it does."""
    backends = {**EDGES, "neo4j": [lives_in("edge/2", "Paris", "2099-01-01")]}
    outcome = await fuse(ASK, recipe, live(backends))
    assert (contradictions(outcome), decisions(outcome)) == ([], {NEW: "packed", OLD: "packed"})
    then = await fuse(replace(ASK, as_of=day("2099-06-01")), recipe, live(backends))
    assert [(row["decision"], row["refs"]) for row in contradictions(then)] == [("newest", [NEW, OLD])]


async def test_statement_about_later_supersedes_none_of_now() -> None:
    """The journal's own, of a day to come."""
    until_then = remembered("e1", "api has the status live", "2025-01-01", stated=(LIVE,))
    fact = written(Assertion("api", "status", FactObject("literal", "retired"), valid_from=day("2026-09-01")))
    planned = remembered("e2", "api has the status retired from September", "2026-01-01", stated=(fact,))
    backends = {"own": [Hit.of(until_then.event), Hit.of(planned.event)]}
    outcome = await fuse(STATUS, LEAVE_OUT, live(backends, until_then, planned))
    assert decisions(outcome) == {"m1": "packed", "m2": "packed"}


async def test_record_of_later_than_now_is_of_unknown_time() -> None:
    """A backend that dates what it has in 2099 is believed no more than one without dates."""
    paris = replace(lives_in("edge/2", "Paris"), recorded_at=day("2099-01-01"))
    outcome = await fuse(ASK, LEAVE_OUT, live({**EDGES, "neo4j": [paris]}))
    assert [row["decision"] for row in contradictions(outcome)] == ["same_time"]
    assert decisions(outcome) == {NEW: "packed", OLD: "packed"}
    items = {
        "zep": [Hit(UUID, "Ada lives in Paris", recorded_at=day("2099-01-01"))],
        "neo4j": [Hit(f"edge/{UUID}", "Ada lives in Berlin", recorded_at=day("2025-01-01"))],
    }
    outcome = await fuse(ASK, LEAVE_OUT, live(items))
    assert [row["decision"] for row in contradictions(outcome)] == ["same_time"]


@pytest.mark.parametrize("since", [None, "2024-01-01"], ids=["unknown", "equal"])
async def test_values_of_equal_or_unknown_times_are_disputed(since: str | None) -> None:
    """No recipe leaves either out."""
    backends = {**EDGES, "neo4j": [lives_in("edge/2", "Paris", since)]}
    outcome = await fuse(ASK, LEAVE_OUT, live(backends))
    assert decisions(outcome) == {NEW: "packed", OLD: "packed"}
    assert " disagree: " in outcome.fused.block
    assert [row["decision"] for row in contradictions(outcome)] == ["same_time"]


async def test_a_day_and_an_hour_of_it_are_not_later_than_each_other() -> None:
    """The times have precisions."""
    berlin = replace(EDGES["zep"][0], valid_from=None, at=Moment(day("2025-03-01"), "day"))
    backends = {"zep": [berlin], "neo4j": [lives_in("edge/2", "Paris", "2025-03-01T13:00")]}
    assert [row["decision"] for row in contradictions(await fuse(ASK, RECIPE, live(backends)))] == ["same_time"]


async def test_values_that_may_hold_at_once_are_no_contradiction() -> None:
    """Other predicates, subjects, owners, and the same value with another precision."""
    one = EDGES["zep"][0]
    others = [
        replace(one, fact=Fact("Ada", "LIKES", "Paris")),
        replace(one, fact=Fact("Bo", "LIVES_IN", "Paris")),
        replace(one, fact=Fact("Ada", "LIVES_IN", "Berlin Mitte")),
        replace(one, scope=Scope(user_id="bo"), fact=Fact("Ada", "LIVES_IN", "Paris")),
    ]
    ask = replace(ASK, all_users=True)
    for other in others:
        backends = {"zep": [one], "neo4j": [replace(other, valid_from=day("2025-01-01"))]}
        assert contradictions(await fuse(ask, RECIPE, live(backends))) == []


async def test_recipe_names_further_single_valued_predicates() -> None:
    """A cup has one main sponsor at a time."""

    def sponsored(name: str, since: str) -> Hit:
        fact = Fact("cup", "main_sponsor", name)
        return Hit(name, f"the cup is sponsored by {name}", valid_from=day(since), fact=fact)

    backends = {"zep": [sponsored("Acme", "2024-01-01")], "neo4j": [sponsored("Bolt", "2025-01-01")]}
    ask = FuseRequest("who sponsors the cup", now=NOW)
    assert contradictions(await fuse(ask, RECIPE, live(backends))) == []
    recipe = replace(RECIPE, contradictions=ContradictionSettings(single_valued=("Main sponsor",)))
    assert [row["decision"] for row in contradictions(await fuse(ask, recipe, live(backends)))] == ["newest"]
    assert recipe.hash != RECIPE.hash


# Versions of one memory


RECORD = remembered("e1", "Ada lives in Berlin", "2025-01-01")


def changed(text: str, at: str, **more: Any) -> Hit:
    """mem0's copy of the event e1, as its UPDATE left it."""
    return Hit("e1", text, recorded_at=day(at), version_of="e1", **more)


@pytest.mark.feature("a memory that was updated in mem0 alone is shown in both versions, the newer one marked so")
async def test_version_that_a_backend_changed_later_supersedes_the_journals() -> None:
    """Both are in the pool, also if no other backend found the journal's; only mem0 vouches for the new text."""
    outcome = await fuse(ASK, RECIPE, live({"mem0": [changed("Ada lives in Paris", "2026-01-01")]}, RECORD))
    new = external_ref("mem0", "e1")
    assert f"[{new}, m1] m1 is superseded by {new} (2026-01-01, from mem0).\n" in outcome.fused.block
    assert [(row["decision"], row["on"], row["stores"]) for row in contradictions(outcome)] == [
        ("newest", "version", ["mem0", "journal"])
    ]
    shown = {member.ref: member.trust for excerpt in outcome.fused.memories for member in excerpt.members}
    assert shown == {new: "unknown", "m1": "unknown"}


async def test_version_that_the_journal_repeated_later_is_the_journals() -> None:
    """mem0's text is not shown, and the receipt says why."""
    record = replace(RECORD, said_at=day("2026-02-01"))
    outcome = await fuse(ASK, RECIPE, live({"mem0": [changed("Ada lives in Paris", "2026-01-01")]}, record))
    assert decisions(outcome) == {"m1": "packed"}
    assert [(row["decision"], row["refs"], row["stores"]) for row in contradictions(outcome)] == [
        ("journal", ["m1", "m1"], ["journal", "mem0"])
    ]


async def test_version_is_compared_with_the_newest_of_the_journal() -> None:
    """The journal replaced the memory twice; what mem0 changed in between has lost, what it changed after wins."""
    records = (
        replace(RECORD, superseded_by="e2"),
        remembered("e2", "Ada lives in Rome", "2025-06-01", superseded_by="e3", supersedes="e1"),
        remembered("e3", "Ada lives in Oslo", "2026-03-01", supersedes="e2"),
    )
    between = await fuse(ASK, RECIPE, live({"mem0": [changed("Ada lives in Paris", "2026-01-01")]}, *records))
    assert decisions(between) == {"m3": "packed"}
    after = await fuse(ASK, LEAVE_OUT, live({"mem0": [changed("Ada lives in Paris", "2026-04-01")]}, *records))
    assert decisions(after) == {external_ref("mem0", "e1"): "packed", "m3": "contradicted"}


@pytest.mark.parametrize(
    "hidden", [{"forgotten": True}, {"state": State(ended_at=day("2025-09-01"), ended="archived")}]
)
async def test_version_of_a_memory_that_is_gone_is_gone(hidden: dict[str, Any]) -> None:
    """A forgotten memory does not come back by a change of its copy."""
    backends = {"mem0": [changed("Ada lives in Paris", "2026-01-01")], "other": [lives_in("1", "Berlin")]}
    outcome = await fuse(ASK, RECIPE, live(backends, replace(RECORD, **hidden)))
    assert "Paris" not in outcome.fused.block
    assert decisions(outcome).keys() == {external_ref("other", "1")}


async def test_version_of_another_users_memory_is_not_shown() -> None:
    """Whose memory it is, the journal says."""
    record = replace(RECORD, event=replace(RECORD.event, scope=Scope(user_id="bo")))
    ask = replace(ASK, scope=Scope(user_id="ada"))
    backends = {
        "mem0": [changed("Ada lives in Paris", "2026-01-01", scope=Scope(user_id="ada"))],
        "other": [lives_in("1", "Berlin", scope=Scope(user_id="ada"))],
    }
    outcome = await fuse(ask, RECIPE, live(backends, record))
    assert decisions(outcome).keys() == {external_ref("other", "1")}


async def test_version_with_the_same_words_is_the_same_memory() -> None:
    """mem0 also notes an update that changed the metadata alone."""
    outcome = await fuse(ASK, RECIPE, live({"mem0": [changed("Ada lives  in Berlin\n", "2026-01-01")]}, RECORD))
    assert (decisions(outcome), contradictions(outcome)) == ({"m1": "packed"}, [])


async def test_version_later_than_the_time_that_is_asked_about_is_not_shown() -> None:
    """What was recorded by then was the journal's."""
    ask = replace(ASK, known_at=day("2025-05-01"))
    outcome = await fuse(ask, RECIPE, live({"mem0": [changed("Ada lives in Paris", "2026-01-01")]}, RECORD))
    assert decisions(outcome) == {"m1": "packed"}


@pytest.mark.parametrize("recipe", [RECIPE, LEAVE_OUT], ids=["mark", "leave out"])
async def test_version_of_later_than_now_is_not_shown(recipe: Recipe) -> None:
    """No backend has changed a memory in 2099."""
    outcome = await fuse(ASK, recipe, live({"mem0": [changed("Ada lives in Paris", "2099-01-01")]}, RECORD))
    assert decisions(outcome) == {"m1": "packed"}


async def test_version_of_an_untrusted_memory_is_untrusted() -> None:
    """So it supersedes it, and nothing that is trusted more."""
    record = replace(RECORD, event=replace(RECORD.event, trust="untrusted"))
    outcome = await fuse(ASK, RECIPE, live({"mem0": [changed("Ada lives in Paris", "2026-01-01")]}, record))
    assert {m.trust for excerpt in outcome.fused.memories for m in excerpt.members} == {"untrusted"}


async def test_items_with_one_uuid_are_versions_of_one_memory() -> None:
    """Two adapters read one graph; one of them has an old copy."""
    backends = {
        "zep": [Hit(UUID, "Ada lives in Paris", recorded_at=day("2026-01-01"))],
        "neo4j": [Hit(f"edge/{UUID.upper()}", "Ada lives in Berlin", recorded_at=day("2025-01-01"))],
    }
    outcome = await fuse(ASK, LEAVE_OUT, live(backends))
    assert decisions(outcome)[external_ref("neo4j", f"edge/{UUID.upper()}")] == "contradicted"


@pytest.mark.feature("an item that one store still has and another one says has ended is left out, by the receipt")
async def test_item_that_another_store_says_has_ended_is_left_out() -> None:
    """zep says until when the edge held; the copy in Neo4j has no end."""
    ended = lives_in(UUID, "Berlin", "2024-01-01", valid_to=day("2025-03-01"))
    native = f"edge/{UUID}"
    backends = {"zep": [ended], "neo4j": [lives_in(native, "Berlin", "2024-01-01"), lives_in("edge/9", "Paris")]}
    outcome = await fuse(ASK, RECIPE, live(backends))
    gone = external_ref("neo4j", native)
    assert decisions(outcome)[gone] == "ended_elsewhere"
    assert "Berlin" not in outcome.fused.block
    (row,) = [row for row in contradictions(outcome) if row["decision"] == "ended"]
    assert (row["refs"], row["stores"]) == ([external_ref("zep", UUID), gone], ["zep", "neo4j"])


@pytest.mark.parametrize(
    "ended",
    [lives_in("edge/7", "Berlin", "2024-01-01"), replace(lives_in(UUID, "Berlin", "2024-01-01"), kind="note")],
    ids=["the same fact", "an item of another kind"],
)
@pytest.mark.parametrize("recipe", [RECIPE, LEAVE_OUT], ids=["mark", "leave out"])
async def test_store_ends_no_item_that_it_does_not_hold(recipe: Recipe, ended: Hit) -> None:
    """An equal triple that has ended is in dispute, by the receipt: any backend could say that."""
    backends = {
        "zep": [replace(ended, valid_to=day("2025-03-01"))],
        "neo4j": [lives_in(f"edge/{UUID}", "Berlin", "2024-01-01")],
    }
    outcome = await fuse(ASK, recipe, live(backends))
    assert decisions(outcome) == {external_ref("neo4j", f"edge/{UUID}"): "packed"}
    assert [(row["decision"], row["stores"]) for row in contradictions(outcome)] == [("same_time", ["zep", "neo4j"])]


async def test_copies_of_an_ended_item_stay() -> None:
    """The end of the item is not the end of what a third store says in the same words."""
    backends = {
        "zep": [lives_in(UUID, "Berlin", "2024-01-01", valid_to=day("2025-03-01"))],
        "neo4j": [lives_in(f"edge/{UUID}", "Berlin", "2024-01-01")],
        "notes": [Hit("n1", "Ada lives in Berlin")],
    }
    assert set(decisions(await fuse(ASK, LEAVE_OUT, live(backends))).values()) == {"packed"}


async def test_trusted_copy_of_an_older_value_stays() -> None:
    """A memory of the owner's that was made of others is shown under the ref of an edge with the same words."""
    record = remembered("e1", "Ada lives in Berlin", "2025-01-01", trust="trusted", derived_from=("e0",))
    outcome = await fuse(ASK, LEAVE_OUT, live({**EDGES, "own": [Hit.of(record.event)]}, record))
    assert decisions(outcome) == {NEW: "packed", OLD: "packed"}
    assert [row["decision"] for row in contradictions(outcome)] == ["less_trusted"]


@pytest.mark.parametrize(
    "claim",
    [
        {"valid_to": day("2025-03-01"), "trust": "untrusted"},
        {"valid_to": day("2025-03-01"), "scope": Scope(user_id="bo")},
        {"valid_to": day("2024-06-01")},
    ],
    ids=["less trusted", "another owner", "before it was said again"],
)
async def test_end_that_does_not_count_ends_nothing(claim: dict[str, Any]) -> None:
    """The copy was asserted in 2025."""
    backends = {
        "zep": [lives_in(UUID, "Berlin", "2024-01-01", **claim)],
        "neo4j": [lives_in(f"edge/{UUID}", "Berlin", "2025-01-01")],
    }
    found = decisions(await fuse(replace(ASK, all_users=True), RECIPE, live(backends)))
    assert found == {external_ref("neo4j", f"edge/{UUID}"): "packed"}


async def test_no_store_ends_what_the_journal_has() -> None:
    """A memory of the journal ends in the journal."""
    stated = written(Assertion("api", "status", FactObject("literal", "live")))
    record = remembered("e1", "api has the status live", "2025-01-01", stated=(stated,))
    ended = Hit("n1", "api live", valid_to=day("2026-01-01"), fact=Fact("api", "status", "live"))
    ask = FuseRequest("what is the status of the api", now=NOW)
    outcome = await fuse(ask, LEAVE_OUT, live({"own": [Hit.of(record.event)], "graph": [ended]}, record))
    assert decisions(outcome) == {"m1": "packed"}


async def test_receipt_names_what_the_journal_replaced() -> None:
    """A backend still has the earlier version."""
    records = (replace(RECORD, superseded_by="e2"), remembered("e2", "Ada lives in Rome", "2025-06-01"))
    backends = {"old": [Hit.of(RECORD.event)], "new": [Hit.of(records[1].event)]}
    outcome = await fuse(ASK, RECIPE, live(backends, *records))
    assert decisions(outcome) == {"m2": "packed"}
    assert [(row["decision"], row["refs"], row["stores"]) for row in contradictions(outcome)] == [
        ("journal", ["m2", "m1"], ["journal", "old"])
    ]


async def test_facts_that_rules_extracted_are_left_to_the_journal() -> None:
    """Two memories of the journal with the facts that rules found in them; a graph's edge is compared with each."""
    records = (RECORD, remembered("e2", "Ada lives in Rome", "2025-06-01"))
    facts = [
        Hit(f"fact:{n}", f"Ada lives in {place}", derived_from=(f"e{n}",), fact=Fact("Ada", "lives in", place),
            recorded_at=day(at))
        for n, place, at in ((1, "Berlin", "2025-01-01"), (2, "Rome", "2025-06-01"))
    ]  # fmt: skip
    own = [Hit.of(record.event) for record in records]
    assert contradictions(await fuse(ASK, LEAVE_OUT, live({"triples": [*facts, *own]}, *records))) == []
    edge = lives_in("edge/2", "Paris", "2026-01-01")
    outcome = await fuse(ASK, LEAVE_OUT, live({"triples": [*facts, *own], "neo4j": [edge]}, *records))
    assert [row["decision"] for row in contradictions(outcome)] == ["newest", "newest"]
    assert f"m1 is superseded by {NEW} " in outcome.fused.block
    assert f"m2 is superseded by {NEW} " in outcome.fused.block


async def test_fact_is_trusted_as_the_memory_that_states_it() -> None:
    """A newer edge supersedes no memory that the owner trusts, though a backend alone vouches for its triple."""
    record = remembered("e1", "Ada lives in Berlin", "2025-01-01", trust="trusted")
    fact = Hit("fact:1", "Ada lives in Berlin", derived_from=("e1",), fact=Fact("Ada", "lives in", "Berlin"))
    own = [replace(fact, recorded_at=day("2025-01-01"), trust="trusted"), Hit.of(record.event)]
    backends = {"triples": own, "neo4j": [lives_in("edge/2", "Paris", "2026-01-01")]}
    outcome = await fuse(ASK, LEAVE_OUT, live(backends, record))
    assert [row["decision"] for row in contradictions(outcome)] == ["less_trusted"]
    assert decisions(outcome)["m1"] == "packed"


LIVE = written(Assertion("api", "status", FactObject("literal", "live")))
STATUS = FuseRequest("what is the status of the api", now=NOW)


@pytest.mark.parametrize(
    "named",
    [
        {"text": "The garden needs water"},
        {"text": "The API is retired", "scope": Scope(user_id="bo")},
        {"text": "The API is retired", "scope": Scope(agent_id="coder")},
        {"text": "The API is retired", "forgotten": True},
        {"text": "The API is retired", "superseded_by": "e7"},
        {"text": "The apiary is retired"},
    ],
    ids=["states nothing of it", "another user's", "another agent's", "forgotten", "replaced", "parts of words"],
)
@pytest.mark.parametrize("recipe", [RECIPE, LEAVE_OUT], ids=["mark", "leave out"])
async def test_backend_borrows_no_trust_by_a_false_source(recipe: Recipe, named: dict[str, Any]) -> None:
    """A triple is not trusted because a backend names any trusted memory as its source."""
    record = remembered("e1", "api has the status live", "2025-01-01", trust="trusted", stated=(LIVE,))
    event = {name: value for name, value in named.items() if name in ("text", "scope")}
    kept = {name: value for name, value in named.items() if name not in event}
    other = StoredRecord("m2", Event("e2", recorded_at=day("2024-01-01"), trust="trusted", **event), **kept)
    fact = Fact("API", "status", "retired")
    edge = Hit("edge/2", "api is retired", valid_from=day("2026-01-01"), derived_from=("zzz", "e2"), fact=fact)
    outcome = await fuse(STATUS, recipe, live({"own": [Hit.of(record.event)], "neo4j": [edge]}, record, other))
    assert [row["decision"] for row in contradictions(outcome)] == ["less_trusted"]
    assert decisions(outcome)["m1"] == "packed"


async def test_backend_puts_no_triple_into_a_memorys_mouth() -> None:
    """It may find a trusted memory and add a triple that the memory does not state: nobody says it."""
    record = remembered("e1", "api has the status live", "2025-01-01", trust="trusted", stated=(LIVE,))
    newer = remembered("e2", "The API has an address", "2026-01-01", trust="trusted")
    edge = replace(Hit.of(newer.event), fact=Fact("API", "status", "retired"))
    backends = {"own": [Hit.of(record.event)], "neo4j": [edge]}
    outcome = await fuse(STATUS, LEAVE_OUT, live(backends, record, newer))
    assert contradictions(outcome) == []
    assert decisions(outcome) == {"m1": "packed", "m2": "packed"}


async def test_speaker_states_what_is_said_of_them() -> None:
    """Rules extract "Ada lives in Berlin" from what Ada says of herself."""
    record = remembered("e1", "I live in Berlin", "2025-01-01", trust="trusted", speaker="Ada")
    fact = lives_in("fact:1", "Berlin", "2025-01-01", derived_from=("e1",))
    backends = {"triples": [fact, Hit.of(record.event)], "neo4j": [lives_in("edge/2", "Paris", "2026-01-01")]}
    outcome = await fuse(ASK, LEAVE_OUT, live(backends, record))
    assert [row["decision"] for row in contradictions(outcome)] == ["less_trusted"]
    assert decisions(outcome)["m1"] == "packed"


async def test_contradictions_replay() -> None:
    """From a recording."""
    recorder = Recorder.of(live({"mem0": [changed("Ada lives in Paris", "2026-01-01")], **EDGES}, RECORD))
    outcome = await fuse(ASK, RECIPE, recorder)
    again = await fuse(ASK, RECIPE, Replay(recorder.recording))
    assert again.fused.block == outcome.fused.block
    assert contradictions(again) == contradictions(outcome)


# Any claims, in any order


TIMES = st.one_of(
    st.none(),
    st.tuples(st.integers(0, 4), st.integers(0, 3)).map(
        lambda of: (NOW + timedelta(days=of[0]), NOW + timedelta(days=of[0] + of[1]))
    ),
)
CLAIMS = st.builds(
    Claim,
    ref=st.sampled_from(["m1", "m2", "m3", "x1", "x2", "x3"]),
    store=st.sampled_from(["journal", "mem0", "zep"]),
    about=st.sampled_from([("version", "e1"), ("value", "default", "", "ada", "place")]),
    value=st.sampled_from(["berlin", "berlin mitte", "paris", "rome"]),
    began=TIMES,
    recorded=TIMES,
    trust=st.integers(0, 2),
    extracted=st.booleans(),
)


@given(st.lists(CLAIMS, max_size=8), st.randoms(use_true_random=False))
def test_order_of_claims_does_not_matter(claims: list[Claim], random: Any) -> None:
    shuffled = claims[:]
    random.shuffle(shuffled)
    assert resolved(shuffled) == resolved(claims)


@given(st.lists(CLAIMS, max_size=8), st.integers(0, 8))
def test_winner_is_not_of_later_than_now(claims: list[Claim], days: int) -> None:
    """No claim wins by a time that is still to come, and those that hold now hold as if nothing was said of later."""
    query = Query("where", Scope(), now=NOW + timedelta(days=days))
    for one in _resolved_in(claims, query):
        assert one.decided is not Decided.NEWEST or (one.first.at is not None and one.first.at <= query.now)
    values = [claim for claim in claims if claim.about[0] == "value"]
    begun = [claim for claim in values if not _is_to_come(claim, query.now)]
    assert _resolved_in(values, query) == _resolved_in(begun, query)


def _is_to_come(claim: Claim, now: datetime) -> bool:
    """Whether it begins after now and was recorded by now."""
    recorded = claim.recorded is None or claim.recorded[0] <= now
    return recorded and claim.began is not None and claim.began[0] > now


def _resolved_in(claims: list[Claim], query: Query) -> Sequence[Any]:
    return resolved([known for claim in claims if (known := claim.as_known(query)) is not None])


@given(st.lists(CLAIMS, max_size=8))
def test_winner_is_never_older_or_less_trusted_than_the_loser(claims: list[Claim]) -> None:
    for one in resolved(claims):
        if one.decided is Decided.NEWEST:
            assert one.first.is_later_than(one.second)
            assert one.first.trust >= one.second.trust
        elif one.decided is Decided.SAME_TIME:
            assert not one.second.is_later_than(one.first)
        assert one.first.contradicts(one.second)


@given(st.lists(CLAIMS, min_size=1, max_size=8))
def test_one_claim_of_each_group_holds(claims: list[Claim]) -> None:
    """However often they contradict each other, they do not all lose."""
    for about in {claim.about for claim in claims}:
        lost = {one.second for one in resolved(claims) if one.decided is Decided.NEWEST}
        assert {claim for claim in claims if claim.about == about} - lost


FORGOTTEN = remembered("e2", "Ada lives in Rome", "2023-01-01", trust="trusted")
HITS = st.lists(
    st.tuples(
        st.sampled_from(["Berlin", "Paris", "Rome"]),
        st.sampled_from([None, "2024-01-01", "2025-01-01", "2026-01-01", "2099-01-01"]),
        st.sampled_from([None, "2025-06-01"]),
        st.sampled_from(["unknown", "untrusted"]),
        st.sampled_from([(), ("zzz", "e2")]),
        st.sampled_from(["edge/", UUID[:-1]]),
    ),
    min_size=1,
    max_size=5,
)


@pytest.mark.parametrize("recipe", [RECIPE, LEAVE_OUT], ids=["mark", "leave out"])
@settings(max_examples=20)
@given(HITS, HITS)
async def test_no_hit_goes_without_a_decision_in_any_order(
    recipe: Recipe, zep: list[tuple[Any, ...]], neo4j: list[tuple[Any, ...]]
) -> None:
    """The order of stores and hits changes no decision, and each hit that is not refused has one."""

    def hits(edges: list[tuple[Any, ...]]) -> list[Hit]:
        return [
            lives_in(
                f"{named}{n}",
                place,
                since,
                trust=trust,
                valid_to=None if until is None else day(until),
                derived_from=of,
            )
            for n, (place, since, until, trust, of, named) in enumerate(edges)
        ]

    answers = {"zep": hits(zep), "neo4j": hits(neo4j)}
    seen = []
    for names in permutations(answers):
        for turned in (False, True):
            backends = {name: answers[name][:: -1 if turned else 1] for name in names}
            outcome = await fuse(ASK, recipe, live(backends, replace(FORGOTTEN, forgotten=True)))
            body = outcome.receipt.body
            cited = {hit[1] for row in body["candidates"] for hit in row["source_hits"]}
            live_refs = {external_ref(name, h.native_id) for name in names for h in answers[name] if h.valid_to is None}
            assert cited == live_refs
            lost = {ref for ref, decision in decisions(outcome).items() if decision == "contradicted"}
            assert lost <= {row["refs"][1] for row in contradictions(outcome) if row["decision"] == "newest"}
            times = [at for row in contradictions(outcome) if row["decision"] == "newest" for at in row["at"]]
            assert all(datetime.fromisoformat(at) <= NOW for at in times)
            trusts = {external_ref(name, h.native_id): h.trust for name in names for h in answers[name]}
            assert all(_may_prevail(trusts, row) for row in contradictions(outcome))
            natives = {external_ref(name, h.native_id): h.native_id for name in names for h in answers[name]}
            ended = [
                [natives[ref] for ref in row["refs"]] for row in contradictions(outcome) if row["decision"] == "ended"
            ]
            assert all(one == other and one.startswith(UUID[:-1]) for one, other in ended)
            seen.append(sorted((row["decision"], *row["refs"]) for row in contradictions(outcome)))
    assert all(one == seen[0] for one in seen)


def _may_prevail(trusts: Mapping[str, str], row: Mapping[str, Any]) -> bool:
    """Whether the first memory of a receipt's row takes no place of one that is trusted more."""
    winner, loser = (trusts[ref] for ref in row["refs"])
    return row["decision"] not in ("newest", "ended") or winner != "untrusted" or loser == "untrusted"
