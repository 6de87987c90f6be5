"""The cortex's verbs over a whole gateway: what they keep, what they show, and that nobody gets what is another's."""

from __future__ import annotations

import json
from collections.abc import AsyncIterator, Collection
from contextlib import asynccontextmanager
from dataclasses import replace
from datetime import UTC, datetime, timedelta
from pathlib import Path
from random import Random
from typing import Any

import httpx
import pytest

from adapters.cortex.cli import VERBS, Entities, History
from adapters.cortex.cortex import Cortex
from adapters.cortex.port import Graph, State
from adapters.cortex.records import line_of
from adapters.cortex.sqlite import SqliteGraph
from adapters.cortex.transfer import Imported, export_lines, imported, migrate_all
from adapters.graph.options import WalkOptions
from fusion.client import AsyncClient
from fusion.client.calls import do
from fusion.contract import Event, Opening, Scope
from fusion.doors.http.app import create_app
from fusion.errors import BackendUnreachable, BadInput, NotFound
from fusion.gateway.gateway import Gateway
from fusion.ingest.intake import NewMemory
from fusion.journal import rows
from fusion.lib.budget import estimate_tokens
from fusion.lib.stated_fields import from_stated, to_stated
from tests.adapters.cortex.store_contract import ADA, BEN, memory, numbers
from tests.adapters.cortex.test_lifecycle import Killed, Mortal
from tests.backend_contract import NOW, event_id
from tests.patience import load

TWO = {"cortex": {"adapter": "adapters.cortex:Cortex"}, "other": {"adapter": "adapters.inmemory:InMemory"}}


class Told:
    """The verbs of one open home, as a client calls them; what was kept is everywhere when it returns."""

    def __init__(self, client: AsyncClient, fusion: Gateway) -> None:
        self.client = client
        self.fusion = fusion

    async def __call__(self, verb: str, /, *, user: str | None = None, **arguments: Any) -> Any:
        done = await self.client.do("cortex", verb, arguments, user_id=user)
        await self.fusion.settle()
        return done

    async def lines(self, verb: str, **arguments: Any) -> list[str]:
        return [part["line"] async for part in self.client.stream(do("cortex", verb, arguments)) if "line" in part]

    async def texts(self, **how: Any) -> list[str]:
        return [one["content"] for one in (await self("list", **how))["memories"]]


@asynccontextmanager
async def telling(home: Path, embedder: str = "", **cortex: object) -> AsyncIterator[Told]:
    """``cortex`` are options of that backend."""
    backends = {**TWO, "cortex": {**TWO["cortex"], **cortex}}
    settings = load(home=home, embedder={"adapter": embedder}, backends_only=True, backends=backends)
    async with Gateway.open(settings) as fusion:
        transport = httpx.ASGITransport(create_app(fusion, settings))
        async with AsyncClient.over(transport) as client:
            yield Told(client, fusion)


def cortex_of(tell: Told) -> Cortex:
    backend = tell.fusion.guarded["cortex"].backend
    assert isinstance(backend, Cortex)
    return backend


@pytest.fixture
async def tell(home: Path) -> AsyncIterator[Told]:
    async with telling(home) as told:
        yield told


class TestKeeping:
    @pytest.mark.row("A049", "A052", "`fusion cortex`: what it stores is an event, in every memory system")
    async def test_what_is_stored_is_an_event_everywhere(self, tell: Told) -> None:
        """In the journal and in the other backend, too; with what its caller said of it."""
        kept = await tell("store", content="Never push on Friday.", type="rule", tags=["git"], confidence=0.9)
        assert kept["stored"] is True
        shown = await tell("get", id=kept["id"])
        wanted = {"content": "Never push on Friday.", "type": "rule", "tags": ["git"], "confidence": 0.9}
        assert {name: shown[name] for name in wanted} == wanted
        assert (shown["scope"], shown["access_count"], shown["valid_to"]) == ("permanent", 0, None)
        answer = await tell.client.search("other", "push")
        assert [hit["event_id"] for hit in answer["hits"]] == [kept["id"]]
        assert (await tell.client.memory(kept["id"]))["kind"] == "rule"

    @pytest.mark.row(
        "A048",
        "A049",
        "… stated lifetime, confidence and tags survive the loss of the store",
        of="`fusion cortex`: what it stores",
    )
    async def test_what_was_stated_survives_the_loss_of_the_store(self, home: Path) -> None:
        """The cortex's folder is gone; the journal tells it again, with lifetime, confidence and tags."""
        async with telling(home) as tell:
            kept = await tell("store", content="Tea at nine.", lifetime="session", tags=["a", "b"], confidence=0.4)
            before = await tell("get", id=kept["id"])
        for file in sorted((home / "backends" / "cortex").rglob("*"), reverse=True):
            file.unlink() if file.is_file() else file.rmdir()
        (home / "backends" / "cortex").rmdir()
        async with telling(home) as tell:
            await tell.fusion.settle()
            assert await tell("get", id=kept["id"]) == before

    @pytest.mark.row(
        "A035",
        "A052",
        "… an update is a new version; the history has all versions",
        of="`fusion cortex`: what it stores",
    )
    async def test_an_update_is_a_new_version(self, tell: Told) -> None:
        """History has both, oldest first, the old one valid until the new one; what was not said anew is kept."""
        old = await tell("store", content="We use SQLite.", type="fact", tags=["db"], confidence=0.8)
        new = await tell("update", id=old["id"], content="We use Postgres.")
        first, second = (await tell("history", id=old["id"]))["versions"]
        assert (first["content"], second["content"]) == ("We use SQLite.", "We use Postgres.")
        assert (second["id"], second["supersedes_id"]) == (new["id"], old["id"])
        assert first["valid_to"] == second["valid_from"]
        assert (second["type"], second["tags"], second["confidence"], second["valid_to"]) == ("fact", ["db"], 0.8, None)
        retagged = await tell("update", id=new["id"], tags=["storage"])
        assert (await tell("get", id=retagged["id"]))["content"] == "We use Postgres."

    @pytest.mark.feature("… an update keeps validity, trust and origin", of="`fusion cortex`: what it stores")
    async def test_an_update_keeps_how_long_it_holds_and_whose_word_it_is(self, tell: Told) -> None:
        """Tagged anew, it expires when it did, is no more trusted than it was, and begins no earlier; a date that is
        given counts.
        """
        code = await tell("store", content="The guest code is 12.", valid_until="2030-01-01")
        tagged = await tell("update", id=code["id"], tags=["guest"])
        assert (await tell("get", id=tagged["id"]))["valid_until"] == "2030-01-01T00:00:00Z"
        longer = await tell("update", id=tagged["id"], valid_until="2031-01-01")
        assert (await tell("get", id=longer["id"]))["valid_until"] == "2031-01-01T00:00:00Z"
        begins = datetime(2040, 1, 1, tzinfo=UTC)
        group = Scope(audience="group")
        other = NewMemory("Pay Bob from 2040 on.", group, trust="untrusted", origin="agent", valid_from=begins)
        (kept,) = await tell.fusion.remember([other])
        await tell.fusion.settle()
        changed = await tell("update", id=kept.event_id, tags=["pay"])
        event = (await cortex_of(tell).graph.get([changed["id"]]))[changed["id"]].event
        assert (event.trust, event.origin, event.valid_from) == ("untrusted", "agent", begins)

    @pytest.mark.row(
        "A035",
        "… an update by an old version's id applies to the newest: one is current",
        of="`fusion cortex`: what it stores",
    )
    async def test_an_old_version_updated_again_leaves_one_current(self, tell: Told) -> None:
        """Oslo, Bergen, then by the first id Tromsø: it follows Bergen, and it alone is current."""
        first = await tell("store", content="Ada lives in Oslo.", type="fact")
        second = await tell("update", id=first["id"], content="Ada lives in Bergen.")
        third = await tell("update", id=first["id"], content="Ada lives in Tromsø.")
        versions = (await tell("history", id=first["id"]))["versions"]
        assert [one["id"] for one in versions] == [first["id"], second["id"], third["id"]]
        assert [one["supersedes_id"] for one in versions] == [None, first["id"], second["id"]]
        found = (await tell("search", message="where does Ada live"))["results"]
        assert [row["memory"]["content"] for row in found] == ["Ada lives in Tromsø."]

    @pytest.mark.feature(
        "… for a memory that was only imported, it says how to change it", of="`fusion cortex`: what it stores"
    )
    async def test_what_came_by_import_says_how_it_is_changed(self, tell: Told) -> None:
        """The journal does not have it: the error names the fix, and nothing changes."""
        await tell("import", lines=[line_of(memory(1, "Elsewhere.", scope=Scope(audience="group")))])
        with pytest.raises(NotFound, match=r"imported or migrated.*store the new text, and forget the old memory"):
            await tell("update", id=event_id(1), content="Here.")
        assert await tell.texts() == ["Elsewhere."]

    @pytest.mark.row(
        "A032",
        "A052",
        "… capture keeps turns with at least 20 characters on each side, and no heartbeats",
        of="`fusion cortex`: what it stores",
    )
    async def test_a_turn_is_captured_unless_it_says_nothing(self, tell: Told) -> None:
        """Each side of 20 characters or more, by its speaker; a heartbeat is nothing to keep."""
        long = "We decided to deploy on Tuesdays from now on."
        kept = await tell("capture", user_message=long, assistant_message="ok")
        assert kept["stored"] == 1
        shown = await tell("get", id=kept["ids"][0])
        assert (shown["content"], shown["speaker"]) == (long, "user")
        assert (await tell("capture", user_message="HEARTBEAT_OK", assistant_message="NO_REPLY"))["stored"] == 0

    @pytest.mark.row(
        "A052",
        "… a batch is stored or refused as a whole; errors name the line and field",
        of="`fusion cortex`: what it stores",
    )
    @pytest.mark.feature(
        "… an unknown type from a caller is refused, with the list of all types", of="an unknown type from a model"
    )
    async def test_a_batch_is_kept_or_refused_as_a_whole(self, tell: Told) -> None:
        """A line of JSON each; what is wrong with one is said with its line and field, and then none is kept."""
        good = [json.dumps({"content": f"Thing {n}", "type": "note", "tags": ["t"]}) for n in range(3)]
        assert await tell("store-batch", lines=good) == {"stored": 3, "known": 0, "refused": 0}
        for bad, said in (
            ('{"content": ""}', "say what to remember"),
            ('{"content": "a", "kind": "x"}', "no field 'kind'"),
            ('{"content": "a", "confidence": "high"}', "confidence"),
            ('{"content": "a", "tags": [1]}', "tags"),
            ('{"content": "a", "type": "rumour"}', "type: there are"),
            ('{"content": "a", "scope": "forever"}', "scope: give one of permanent, project, session, ttl"),
            ("[1]", "line 2 is not a JSON object"),
            ("{", "line 2 is not JSON"),
        ):
            with pytest.raises(BadInput, match=f"line 2.*{said.removeprefix('line 2')}"):
                await tell("store-batch", lines=[good[0], bad])
        assert len(await tell.texts()) == 3

    async def test_forgetting_is_everywhere(self, tell: Told) -> None:
        """Each backend says what became of it; a second time there is nothing to forget."""
        kept = await tell("store", content="The code of the safe is in the drawer.")
        done = await tell("forget", id=kept["id"])
        assert done == {"deleted": True, "backends": {"cortex": "deleted", "other": "deleted"}}
        with pytest.raises(NotFound):
            await tell("get", id=kept["id"])


class TestLooking:
    async def test_a_page_at_a_time_and_by_what_it_is(self, tell: Told) -> None:
        """`next` of one page is `after` of the next; type, lifetime and tag narrow."""
        for n in range(5):
            kind, lifetime = ("rule", "session") if n % 2 else ("note", "permanent")
            await tell("store", content=f"Thing {n}", type=kind, lifetime=lifetime, tags=[f"t{n}"])
        seen: list[str] = []
        after = ""
        while after is not None:
            page = await tell("list", limit=2, after=after)
            seen += [one["content"] for one in page["memories"]]
            after = page["next"]
        assert seen == [f"Thing {n}" for n in range(5)]
        assert await tell.texts(type="rule") == await tell.texts(lifetime="session") == ["Thing 1", "Thing 3"]
        assert await tell.texts(tag="t4") == ["Thing 4"]

    @pytest.mark.row(
        "A052",
        "… list, stats, entities and the others stay within the caller's scope",
        of="`fusion cortex`: what it stores",
    )
    async def test_each_sees_ones_own(self, tell: Told) -> None:
        """list, get, history, update, forget, entities, stats, export and lifecycle keep to the caller's scope."""
        kept = await tell("store", content="Ada met Grace Hopper in Lisbon.", lifetime="ttl", user="ada")
        assert await tell.texts(user="ben") == []
        for verb, more in (("get", {}), ("history", {}), ("update", {"content": "x"}), ("forget", {})):
            with pytest.raises(NotFound, match=f"there is no memory '{kept['id']}' here"):
                await tell(verb, id=kept["id"], user="ben", **more)
        assert (await tell("stats", user="ben"))["total_memories"] == 0
        assert (await tell("stats", user="ada"))["by_scope"] == {"ttl": 1}
        assert (await tell("entities", user="ben"))["entities"] == []
        assert (await tell("lifecycle", user="ben"))["scanned"] == 0
        assert await tell.texts(user="ada") == await tell.texts() == ["Ada met Grace Hopper in Lisbon."]

    @pytest.mark.feature(
        "Cortex: a memory is named by its printed id, or by the ref in a block; an ambiguous one is reported",
        part="faults/cortex",
    )
    async def test_named_by_what_is_printed_of_it(self, tell: Told) -> None:
        """By the last eight characters, by the first, by the ref of a block; never another's, nor by fewer."""
        old = await tell("store", content="We use SQLite.", type="fact", user="ada")
        new = await tell("update", id=old["id"][-8:], content="We use Postgres.", user="ada")
        theirs = await tell("store", content="Tea at nine.", user="ben")
        (ref,) = [one["ref"] for one in (await tell.client.memories(user_id="ada"))["memories"]]
        for name in (new["id"], new["id"][-8:], new["id"][:-1], ref):
            assert (await tell("get", id=name, user="ada"))["content"] == "We use Postgres."
            assert len((await tell("history", id=name, user="ada"))["versions"]) == 2
        for name in (theirs["id"][-8:], new["id"][-7:], "m99"):
            with pytest.raises(NotFound, match=f"there is no memory '{name}' here"):
                await tell("get", id=name, user="ada")
        assert (await tell("forget", id=new["id"][-8:], user="ada"))["backends"] == {
            "cortex": "deleted",
            "other": "deleted",
        }
        assert await tell.texts() == ["Tea at nine."]

    async def test_a_lifetime_that_is_none_is_called_as_it_was_said(self, tell: Told) -> None:
        """The option is --lifetime; a line of a batch calls it scope, as openclaw-cortex does."""
        with pytest.raises(BadInput, match=r"^lifetime: give one of permanent, project, session, ttl"):
            await tell("store", content="Tea at nine.", lifetime="foo")

    async def test_what_may_be_several_is_named(self, tell: Told) -> None:
        """Neighbours share the time that their ids begin with: both are said, and nothing is done."""
        kept = [memory(1, "Tea at nine."), memory(2, "Tea at ten.")]
        await cortex_of(tell).graph.add(kept)
        ids = [one.id for one in kept]
        for verb in ("get", "history", "forget"):
            with pytest.raises(BadInput, match=f"matches 2 memories, give more characters: {ids[0]}, {ids[1]}"):
                await tell(verb, id=ids[0][:8])
        assert len(await tell.texts()) == 2

    async def test_entities_and_facts_of_a_memory(self, tell: Told) -> None:
        """What capture learnt stands beside the memory, and its entities in the list of all."""
        kept = await tell("store", content="Marta -> owns -> Lighthouse")
        assert {"subject": "Marta", "predicate": "owns", "object": "Lighthouse"} in (await tell("get", id=kept["id"]))[
            "facts"
        ]
        assert {e["name"] for e in (await tell("entities"))["entities"]} >= {"Marta", "Lighthouse"}

    @pytest.mark.feature(
        "… entities leaves out fragments that rules cut from sentences, unless `--every` is given",
        of="`fusion cortex`: what it stores",
    )
    async def test_ends_of_facts_are_no_entities_to_look_at(self, tell: Told) -> None:
        """What one memory alone has in small letters is counted and left out, unless everything is asked for."""
        for content in ("Marta uses an old typewriter at home.", "Marta likes tea.", "Ben likes tea."):
            await tell("store", content=content)
        named, every = await tell("entities"), await tell("entities", every=True)
        assert {e["name"] for e in named["entities"]} == {"Marta", "Ben", "tea"}
        assert {e["name"] for e in every["entities"]} == {"Marta", "Ben", "tea", "old typewriter"}
        assert (named["unnamed"], every["unnamed"]) == (1, 0)
        assert Entities().render(named).splitlines()[-1].lstrip().startswith("1  more, in one memory each")
        assert "more, in one" not in Entities().render(every)
        assert len((await tell("entities", limit=1))["entities"]) == 1

    async def test_the_report_of_a_lifecycle(self, tell: Told) -> None:
        """JSON with the five counts; a negative time is refused."""
        await tell("store", content="Over soon.", valid_until=(datetime.now(UTC) - timedelta(hours=1)).isoformat())
        report = await tell("lifecycle", dry_run=True)
        counts = ("expired", "decayed", "consolidated", "retired", "conflicts_resolved")
        assert [report[name] for name in counts] == [0, 0, 0, 1, 0]
        with pytest.raises(BadInput, match="more than 0"):
            await tell("lifecycle", ttl_hours=-1.0)

    @pytest.mark.feature(
        "… `fusion cortex lifecycle` also ends what only the cortex has, imported or migrated",
        of="what the lifecycle ends",
    )
    async def test_lifecycle_ends_what_only_the_cortex_has(self, tell: Told) -> None:
        """An imported memory is in no journal. Both are counted once."""
        await tell("store", content="The demo is at noon.", lifetime="session")
        told = memory(1, "Tea is at nine.", state=State(lifetime="ttl"))
        alone = replace(told, event=replace(told.event, scope=Scope()))
        await imported(cortex_of(tell).graph, Scope(), [line_of(alone)])
        for dry_run in (True, False):
            report = await tell("lifecycle", dry_run=dry_run, idle_hours=1e-9, ttl_hours=1e-9)
            assert (report["expired"], report["decayed"], report["scanned"]) == (1, 1, 2)
        assert (await tell("recall", message="when is tea, and when the demo?"))["memories"] == []
        assert (await tell("lifecycle", idle_hours=1e-9, ttl_hours=1e-9))["expired"] == 0

    def test_every_verb_has_a_help(self) -> None:
        """A sentence that says what it does."""
        assert all((kind.__doc__ or "").rstrip().endswith(".") for kind in VERBS.values())


@pytest.mark.feature(
    "… the history of a memory that was repeated, contradicted and decayed reads as a person expects",
    of="`fusion cortex`: what it stores",
)
async def test_history_shows_duplicates_contradictions_and_decay(home: Path) -> None:
    """Bergen twice is one memory; Oslo contradicts it, and both are recalled until upkeep settles it. Then Oslo holds,
    and history says what held before; what was for one session is over, and still there to look up.
    """

    def read(verb: Any, told: Any) -> list[str]:
        """The lines that a person sees, from the text on."""
        return [line.split("  ", 2)[2] for line in verb.render(json.loads(json.dumps(told))).splitlines()]

    async with telling(home, "tests.adapters.test_reindex:Providers") as tell:
        first = await tell("store", content="Mara lives in Bergen.", type="fact")
        again = await tell("store", content="Mara lives in Bergen.", type="fact")
        other = await tell("store", content="Mara lives in Oslo.", type="fact")
        short = await tell("store", content="The demo is at noon.", type="fact", lifetime="session")
        old, new = first["id"][-8:], other["id"][-8:]
        assert read(History(""), await tell("history", id=again["id"])) == [
            f"Mara lives in Bergen.  (fact, permanent, 0.70, contradicts {new})",
            f"Mara lives in Bergen.  (fact, permanent, 0.70, says the same as {old})",
            f"Mara lives in Oslo.  (fact, permanent, 0.70, contradicts {old})",
        ]
        assert read(History(""), await tell("history", id=first["id"])) == [
            f"Mara lives in Bergen.  (fact, permanent, 0.70, contradicts {new})",
            f"Mara lives in Oslo.  (fact, permanent, 0.70, contradicts {old})",
        ]
        before = (await tell("recall", message="where does Mara live?"))["context"]
        assert f"Mara lives in Bergen. [conflicts with: {new}]" in before
        assert f"Mara lives in Oslo. [conflicts with: {old}]" in before
        report = await tell("lifecycle", idle_hours=1e-9)
        assert (report["decayed"], report["conflicts_resolved"], report["consolidated"]) == (1, 1, 0)
        now = await tell("history", id=first["id"])
        end = now["versions"][0]["valid_to"][:16].replace("T", " ")
        assert read(History(""), now) == [
            f"Mara lives in Bergen.  (fact, permanent, 0.70, until {end}, lost a conflict)",
            "Mara lives in Oslo.  (fact, permanent, 0.70)",
        ]
        after = (await tell("recall", message="where does Mara live?"))["context"]
        assert after == "--- Relevant Memories ---\n[fact] Mara lives in Oslo."
        (gone,) = read(History(""), await tell("history", id=short["id"]))
        assert gone.startswith("The demo is at noon.  (fact, session, 0.70, until ")


async def test_an_option_that_was_removed_is_accepted(home: Path) -> None:
    """A home of an earlier version may set it."""
    async with telling(home, guarded=False) as tell:
        assert await tell.texts() == []


@pytest.mark.row(
    "A027", "… an update of one side of an open conflict takes its place there", of="`fusion cortex`: what it stores"
)
async def test_an_update_of_one_side_of_a_conflict_stays_in_it(home: Path) -> None:
    """Fifteen (.9) against ten (.6), then ten is tagged: its new version contradicts fifteen in its place, both are
    recalled with that mark, and upkeep leaves the surer one alone.
    """
    async with telling(home, "tests.adapters.test_reindex:Providers") as tell:
        fifteen, ten = (sampled("facts.jsonl", f"A slot is held for {n}") for n in ("fifteen", "ten"))
        a = await tell("store", content=fifteen, type="decision", confidence=0.9)
        b = await tell("store", content=ten, type="decision", confidence=0.6)
        new = await tell("update", id=b["id"], tags=["slots"])
        found = await tell("recall", message="How long is a slot held?")
        assert {one["id"]: one["contradicts_id"] for one in found["memories"]} == {
            a["id"]: new["id"],
            new["id"]: a["id"],
        }
        assert found["context"].count("[conflicts with: ") == 2
        assert (await tell("lifecycle"))["conflicts_resolved"] == 1
        after = await tell("recall", message="How long is a slot held?")
        assert [one["id"] for one in after["memories"]] == [a["id"]]


SAMPLE = Path(__file__).parents[3] / "config" / "sample"


def sampled(file: str, beginning: str) -> str:
    """The one sentence of the sample workspace that begins so."""
    lines = (SAMPLE / file).read_text("utf-8").splitlines()
    (text,) = [told for line in lines if (told := json.loads(line)["text"]).startswith(beginning)]
    return str(text)


@pytest.mark.feature(
    "… the example of the cortex's page prints what the page shows",
    of="`fusion cortex`: what it stores",
)
async def test_a_conversation_of_the_sample_reads_as_a_person_expects(home: Path) -> None:
    """Mara and Teo on how long a slot is held: captured twice, it is there once; the decision is stored twice, then
    contradicted; what was for one session decays. `fusion cortex history` tells it as the cortex's page shows it.
    """
    exchange = {
        "user_message": sampled("sessions.jsonl", "How long do we hold?"),
        "assistant_message": sampled("sessions.jsonl", "Half of the held slots"),
    }
    fifteen, ten = (sampled("facts.jsonl", f"A slot is held for {n}") for n in ("fifteen", "ten"))
    cake = sampled("sessions.jsonl", "Take the princess cake")

    def read(told: Any) -> list[str]:
        """What a person sees of each line, from the text on."""
        return [line.split("  ", 2)[2] for line in History("").render(json.loads(json.dumps(told))).splitlines()]

    async with telling(home, "tests.adapters.test_reindex:Providers") as tell:
        first = await tell("capture", **exchange)
        again = await tell("capture", **exchange)
        assert (first["stored"], first["known"]) == (2, 0)
        assert (again["stored"], again["known"], again["ids"]) == (0, 2, [])
        assert read(await tell("history", id=first["ids"][0])) == [
            f"user: {exchange['user_message']}  (turn, permanent, 0.70)"
        ]
        old = await tell("store", content=fifteen, type="decision")
        same = await tell("store", content=fifteen, type="decision")
        new = await tell("store", content=ten, type="decision")
        short = await tell("store", content=cake, lifetime="session")
        a, b = old["id"][-8:], new["id"][-8:]
        assert read(await tell("history", id=same["id"])) == [
            f"{fifteen}  (decision, permanent, 0.70, contradicts {b})",
            f"{fifteen}  (decision, permanent, 0.70, says the same as {a})",
            f"{ten}  (decision, permanent, 0.70, contradicts {a})",
        ]
        report = await tell("lifecycle", idle_hours=1e-9)
        assert (report["decayed"], report["conflicts_resolved"]) == (1, 1)
        now = await tell("history", id=old["id"])
        end = now["versions"][0]["valid_to"][:16].replace("T", " ")
        assert read(now) == [
            f"{fifteen}  (decision, permanent, 0.70, until {end}, lost a conflict)",
            f"{ten}  (decision, permanent, 0.70)",
        ]
        (gone,) = read(await tell("history", id=short["id"]))
        assert gone.startswith(f"{cake}  (fact, session, 0.70, until ")
        context = (await tell("recall", message="How long is a slot held?"))["context"]
        assert ten in context
        assert fifteen not in context
        assert context.count(exchange["user_message"]) == 1
        assert cake not in context


class TestForgotten:
    """What was forgotten stays so, wherever a store has it from."""

    @pytest.mark.feature(
        "… an import does not bring back what was forgotten since the export", of="`fusion cortex`: what it stores"
    )
    async def test_an_import_does_not_bring_it_back(self, tell: Told) -> None:
        """Export two, forget one, import both: one is known, one is forgotten, and it is counted."""
        gone = await tell("store", content="The alarm code is 4711.")
        await tell("store", content="Tea at nine.")
        lines = await tell.lines("export")
        await tell("forget", id=gone["id"])
        assert await tell("import", lines=lines) == {"imported": 0, "known": 1, "forgotten": 1, "freed": 0}
        assert await tell.texts() == ["Tea at nine."]

    @pytest.mark.feature(
        "… a second migration deletes in the target what was forgotten since the first",
        of="`fusion cortex`: what it stores",
    )
    async def test_a_second_migration_takes_it_away_there(self, tell: Told, tmp_path: Path) -> None:
        """Migrate two, forget one, migrate again: it is deleted in the target, which has the other."""
        gone = await tell("store", content="The alarm code is 4711.")
        await tell("store", content="Tea at nine.")
        source = cortex_of(tell).graph

        async def forgotten(ids: Collection[str]) -> frozenset[str]:
            return await tell.fusion.journal.read(rows.forgotten, ids)

        async with store(tmp_path / "b") as target:
            assert (await migrate_all(source, target, no_progress, forgotten)).copied == 2
            await tell("forget", id=gone["id"])
            again = await migrate_all(source, target, no_progress, forgotten)
            assert (again.memories, again.copied, again.others, again.forgotten) == (1, 0, 0, 1)
            assert [one.event.text for one in await target.page()] == ["Tea at nine."]

    @pytest.mark.feature(
        "… no verb returns a forgotten memory, even if the store has it again", of="`fusion cortex`: what it stores"
    )
    async def test_no_verb_shows_it_though_the_store_has_it(self, tell: Told) -> None:
        """A store that was migrated before has it still; to forget it once more deletes it there."""
        gone = await tell("store", content="The alarm code is 4711.")
        graph = cortex_of(tell).graph
        kept = await graph.get([gone["id"]])
        await tell("forget", id=gone["id"])
        await graph.add(list(kept.values()))
        assert (await tell("recall", message="alarm code"))["context"] == ""
        assert (await tell("search", message="alarm code"))["results"] == []
        assert await tell.texts() == []
        assert await tell.lines("export") == []
        for verb in ("get", "history", "update"):
            with pytest.raises(NotFound):
                await tell(verb, id=gone["id"])
        assert (await tell("forget", id=gone["id"]))["deleted"] is True
        assert await graph.get([gone["id"]]) == {}


class TestCapturing:
    @pytest.mark.feature(
        "… the same exchange of a session and a day is captured once, however often it is sent",
        of="`fusion cortex`: what it stores",
    )
    async def test_the_same_exchange_of_a_session_and_a_day_is_one(self, tell: Told) -> None:
        """Sent again it is known; the same words in answer to something else, or in another session, are said anew."""
        asked = "Shall we deploy it on Friday?"
        turn = {"user_message": asked, "assistant_message": "Never on a Friday, says the rule."}
        assert (await tell("capture", **turn))["stored"] == 2
        assert (await tell("capture", **turn))["known"] == 2
        assert (await tell("capture", **(turn | {"assistant_message": "Let us ask Teo about it."})))["stored"] == 2
        other = await tell.client.do("cortex", "capture", turn, session_id="another")
        assert other["stored"] == 2


class TestMigrating:
    @pytest.mark.feature("the settings name the target of a cortex migration")
    @pytest.mark.parametrize(
        ("store", "table", "said"),
        [
            ("sqlite", {}, "in that sqlite store already"),
            ("oracle", {}, "must be one of sqlite, memgraph, neo4j"),
            (
                "neo4j",
                {},
                r"the address of neo4j comes from the settings.* \[backends.cortex.migrate_to\] store = .neo4j.",
            ),
            ("neo4j", {"store": "memgraph", "url": "bolt://127.0.0.1:1"}, "comes from the settings"),
            ("neo4j", {"store": "neo4j"}, "url is missing"),
            ("neo4j", {"store": "neo4j", "url": "http://x"}, "url must start with"),
        ],
    )
    async def test_where_to_is_what_the_settings_say(
        self, home: Path, store: str, table: dict[str, str], said: str
    ) -> None:
        """Checked before anything is written."""
        async with telling(home, migrate_to=table) as tell:
            with pytest.raises(BadInput, match=said):
                await tell("migrate", store=store)

    @pytest.mark.parametrize("name", ["url", "database", "login", "password_env"])
    async def test_a_request_names_no_database(self, tell: Told, name: str) -> None:
        """Not even one that the settings could have: the answer is the setting's name."""
        with pytest.raises(BadInput, match=rf"{name}: .*it is a setting: \[backends.cortex.migrate_to\]"):
            await tell("migrate", store="neo4j", **{name: "bolt://127.0.0.1:1"})

    async def test_a_database_that_is_not_there(self, home: Path) -> None:
        """Is reported as one that does not answer; the memories stay where they are."""
        async with telling(home, migrate_to={"store": "neo4j", "url": "bolt://127.0.0.1:1"}) as tell:
            await tell("store", content="Here to stay.")
            with pytest.raises(BackendUnreachable):
                await tell("migrate", store="neo4j")
            assert await tell.texts() == ["Here to stay."]


class TestRecalling:
    @pytest.mark.row(
        "A001",
        "A006",
        "… recall builds a context within a token budget; packed memories count as used",
        of="`fusion cortex`: what it stores",
    )
    async def test_a_context_for_a_prompt(self, tell: Told) -> None:
        """Within the budget, with its estimate; what is packed counts as used, what is only searched does not."""
        kept = await tell("store", content="The bookings live in Postgres.", type="fact")
        await tell("store", content="Nadia prefers peppermint tea.", type="preference")
        found = await tell("recall", message="where do the bookings live?")
        assert found["context"].startswith("--- Relevant Memories ---\n[fact] The bookings live in Postgres.")
        assert found["memory_count"] == len(found["memories"]) >= 1
        assert 0 < found["tokens_used"] <= 2000
        assert (await tell("get", id=kept["id"]))["access_count"] == 1
        results = (await tell("search", message="bookings", limit=1))["results"]
        assert [row["memory"]["id"] for row in results] == [kept["id"]]
        assert 0 < results[0]["score"] <= 1
        assert (await tell("get", id=kept["id"]))["access_count"] == 1

    @pytest.mark.row("A006", "… the default context has 2,000 tokens", of="`fusion cortex`: what it stores")
    async def test_a_context_has_two_thousand_tokens_by_default(self, tell: Told) -> None:
        """Of memories that are more than that, as many as fit: one more of them would not have."""
        text = "The bookings of berth {n} are kept in Postgres, " + "harbour " * 80
        for n in range(30):
            await tell("store", content=text.format(n=n), type="episode")
        found = await tell("recall", message="where are the bookings kept?")
        longest = estimate_tokens(text.format(n=10)) + 20
        assert 2000 - longest < found["tokens_used"] <= 2000
        assert found["memory_count"] < 30

    @pytest.mark.row("A004", "… `--include-history` adds earlier versions", of="`fusion cortex`: what it stores")
    async def test_history_is_recalled_where_it_is_asked_for(self, tell: Told) -> None:
        """Else the current version alone."""
        old = await tell("store", content="The bookings live in SQLite.")
        await tell("update", id=old["id"], content="The bookings live in Postgres.")
        now = (await tell("search", message="bookings"))["results"]
        ever = (await tell("search", message="bookings", include_history=True))["results"]
        assert [row["memory"]["content"] for row in now] == ["The bookings live in Postgres."]
        assert len(ever) == 2

    @pytest.mark.parametrize(
        "wrong", [{"message": " "}, {"message": "a", "budget": 0}, {"message": "a", "as_of": "soon"}]
    )
    async def test_nonsense_is_refused(self, tell: Told, wrong: dict[str, Any]) -> None:
        """With the argument's name."""
        with pytest.raises(BadInput, match=next(reversed(wrong))):
            await tell("recall", **wrong)


class TestDropIn:
    """openclaw-cortex's own routes, as its clients call them."""

    @pytest.fixture
    async def http(self, home: Path) -> AsyncIterator[httpx.AsyncClient]:
        settings = load(home=home, embedder={"adapter": ""}, backends_only=True, backends=TWO)
        async with Gateway.open(settings) as fusion:
            transport = httpx.ASGITransport(create_app(fusion, settings))
            base = "http://localhost/compat/cortex"
            async with httpx.AsyncClient(transport=transport, base_url=base) as client:
                client.event_hooks["request"].append(lambda request: fusion.settle())
                yield client

    @pytest.mark.row("A051", "openclaw-cortex's HTTP routes answer in its shapes")
    async def test_every_reply_has_its_shape(self, http: httpx.AsyncClient) -> None:
        """{id, stored}, {context, memory_count, tokens_used}, {results: [{memory, score}]}, {total_memories, …}, …"""
        sent = {"content": "Never push on Friday.", "type": "rule", "scope": "permanent", "tags": ["git"]}
        kept = (await http.post("/v1/remember", json={**sent, "project": "house", "confidence": 0.9})).json()
        assert set(kept) == {"id", "stored"}
        assert kept["stored"] is True
        recalled = (await http.post("/v1/recall", json={"message": "push on Friday?", "budget": 500})).json()
        assert set(recalled) == {"context", "memory_count", "tokens_used"}
        assert recalled["context"] == "--- Relevant Memories ---\n[rule] Never push on Friday."
        (found,) = (await http.post("/v1/search", json={"message": "push", "limit": 3})).json()["results"]
        assert {"memory", "score"} <= set(found)
        assert found["memory"]["id"] == kept["id"]
        one = (await http.get(f"/v1/memories/{kept['id']}")).json()
        assert (one["content"], one["type"], one["scope"], one["tags"]) == tuple(sent.values())
        assert (one["project"], one["confidence"]) == ("house", 0.9)
        counted = {"total_memories": 1, "by_type": {"rule": 1}, "by_scope": {"permanent": 1}}
        assert (await http.get("/v1/stats")).json() == counted
        changed = (await http.put(f"/v1/memories/{kept['id']}", json={"content": "Push whenever."})).json()
        assert (await http.get(f"/v1/memories/{changed['id']}")).json()["supersedes_id"] == kept["id"]
        assert (await http.delete(f"/v1/memories/{changed['id']}")).json() == {"deleted": True}
        assert (await http.get(f"/v1/memories/{changed['id']}")).status_code == 404
        assert (await http.get("/healthz")).json() == {"status": "ok"}

    @pytest.mark.row("A004", "… `include_history` adds earlier versions", of="openclaw-cortex's HTTP routes")
    async def test_earlier_versions_are_found_on_request(self, http: httpx.AsyncClient) -> None:
        """By a recall and by a search; without the field, and with false, the current version alone."""
        old = (await http.post("/v1/remember", json={"content": "The bookings live in SQLite."})).json()
        await http.put(f"/v1/memories/{old['id']}", json={"content": "The bookings live in Postgres."})
        for given, count in (({}, 1), ({"include_history": False}, 1), ({"include_history": True}, 2)):
            asked = {"message": "where do the bookings live?", **given}
            assert (await http.post("/v1/recall", json=asked)).json()["memory_count"] == count
            assert len((await http.post("/v1/search", json=asked)).json()["results"]) == count

    @pytest.mark.parametrize(
        ("path", "sent", "said"),
        [
            ("/v1/recall", {}, "message: is missing"),
            ("/v1/search", {"message": "a", "include_history": 1}, "include_history: give true or false"),
            ("/v1/recall", {"message": "a", "budget": "all"}, "budget: "),
            ("/v1/search", {"message": "a", "limit": True}, "limit: "),
            ("/v1/search", {"message": "a", "limit": 0}, "limit: "),
            ("/v1/search", {"message": "a", "top": 3}, "no field 'top'"),
            ("/v1/remember", {"content": " "}, "say what to remember"),
        ],
    )
    async def test_nonsense_is_a_422(self, http: httpx.AsyncClient, path: str, sent: dict[str, Any], said: str) -> None:
        """As everywhere in this gateway."""
        reply = await http.post(path, json=sent)
        assert reply.status_code == 422
        assert said in reply.json()["detail"]


class TestStated:
    def test_there_and_back(self) -> None:
        """What is stated of an event is what its state says, and the other way round."""
        state = State(lifetime="ttl", confidence=0.25, tags=("a", "b"))
        event = Event("1", "x", NOW, stated=to_stated(state.lifetime, state.confidence, state.tags))
        assert State(**from_stated(event)) == state
        assert from_stated(Event("1", "x", NOW)) == {}

    def test_nonsense_in_a_journal_counts_as_not_stated(self) -> None:
        """Another program may have written it."""
        pairs = (("lifetime", "forever"), ("confidence", "nan"), ("confidence", "7"), ("colour", "red"))
        assert from_stated(Event("1", "x", NOW, stated=pairs)) == {}

    @pytest.mark.parametrize(
        "wrong",
        [
            {"lifetime": "forever"},
            {"confidence": float("nan")},
            {"confidence": 1.5},
            {"tags": [" "]},
            {"tags": ["x" * 129]},
        ],
    )
    def test_nonsense_at_the_door_is_refused(self, wrong: dict[str, Any]) -> None:
        """With what may stand there."""
        with pytest.raises(BadInput):
            to_stated(**wrong)


def no_progress(done: int, total: int | None) -> None:
    """Nobody looks."""


@asynccontextmanager
async def store(folder: Path) -> AsyncIterator[Graph]:
    opened = await SqliteGraph.open(Opening("cortex", folder, {}, None), WalkOptions())
    try:
        yield opened
    finally:
        await opened.close()


async def lines_of(graph: Graph, scope: Scope | None = None) -> list[str]:
    found: list[str] = []

    async def line(text: str) -> None:
        found.append(text)

    await export_lines(graph, scope or Scope(audience="private"), line, no_progress)
    return found


FULL = State(
    lifetime="session",
    confidence=0.123456789,
    tags=("ä", '"'),
    access_count=3,
    last_accessed=NOW,
    conflict_group="g",
    conflict_status="active",
    contradicts=event_id(1),
)


class Small:
    """A store that is read in small pages, so that there are many points to die at."""

    def __init__(self, graph: Graph) -> None:
        self._graph = graph
        self.stats = graph.stats

    async def page(self, after: str = "", limit: int = 500, scope: Scope | None = None) -> Any:
        return await self._graph.page(after, min(limit, 2), scope)


class TestTransfer:
    @pytest.mark.row(
        "A163", "A049", "A052", "… export and import are byte-stable", of="`fusion cortex`: what it stores"
    )
    async def test_export_and_import_are_byte_stable(self, tmp_path: Path) -> None:
        """Out, into an empty store, out again: the same bytes, states and learnt facts included."""
        async with store(tmp_path / "a") as a, store(tmp_path / "b") as b:
            await a.add([memory(n, f"Thing {n} é\n", ("Marta", "owns", f"boat {n}"), state=FULL) for n in range(1, 9)])
            lines = await lines_of(a)
            assert await imported(b, Scope(audience="private"), lines[:5]) == Imported(5, 0)
            assert await imported(b, Scope(audience="private"), lines) == Imported(3, 5)
            assert await lines_of(b) == lines
            assert lines == [line_of(m) for m in await a.page()]

    async def test_only_ones_own(self, tmp_path: Path) -> None:
        """An export is of a scope; what is another's cannot be imported as one's own."""
        async with store(tmp_path / "a") as a, store(tmp_path / "b") as b:
            await a.add([memory(1, "Hers."), memory(2, "His.", scope=BEN)])
            (his,) = await lines_of(a, BEN)
            with pytest.raises(BadInput, match="line 1: that memory belongs to another user"):
                await imported(b, ADA, [his])
            assert (await b.stats()).items == 0

    @pytest.mark.parametrize("line", ["", "{", "[]", '{"event": {}}', '{"event": {"event_id": 1}}'])
    async def test_a_line_that_is_none_is_named(self, tmp_path: Path, line: str) -> None:
        """And nothing of its batch is taken in."""
        async with store(tmp_path / "a") as a:
            with pytest.raises(BadInput, match="line 2: not a memory"):
                await imported(a, ADA, [line_of(memory(1, "Good.")), line])
            assert (await a.stats()).items == 0

    @pytest.mark.feature(
        "… an invalid line (NaN, impossible counts or ids) is refused by its line and field",
        of="`fusion cortex`: what it stores",
    )
    @pytest.mark.parametrize(
        ("part", "field", "value", "said"),
        [
            ("state", "confidence", float("nan"), "confidence"),
            ("state", "confidence", 7, "confidence: from 0 to 1"),
            ("state", "access_count", -5, "access_count: from 0 to 9007199254740992"),
            ("state", "reinforced_count", 10**30, "reinforced_count"),
            ("event", "event_id", "a`]->(b", "event_id: letters, digits"),
            ("event", "event_id", "", "event_id: letters, digits"),
        ],
    )
    async def test_nonsense_in_a_line_is_named(
        self, tmp_path: Path, part: str, field: str, value: object, said: str
    ) -> None:
        """What no store can keep, or no memory has, is refused with its line and field."""
        line = json.loads(line_of(memory(1, "Good.", state=FULL)))
        line[part][field] = value
        async with store(tmp_path / "a") as a:
            with pytest.raises(BadInput, match=f"line 1: not a memory: .*{said}"):
                await imported(a, ADA, [json.dumps(line)])
            assert (await a.stats()).items == 0

    @pytest.mark.feature(
        "… what was merged into a forgotten memory is imported as a memory of its own",
        of="`fusion cortex`: what it stores",
    )
    async def test_what_it_was_merged_into_may_have_been_forgotten(self, tmp_path: Path) -> None:
        """Then it says so itself, and is in no conflict any more, as where the other was forgotten before its eyes."""

        async def forgotten(ids: Collection[str]) -> frozenset[str]:
            return frozenset({event_id(1)}.intersection(ids))

        merged = memory(2, "Tea at nine.", state=State(merged_into=event_id(1)))
        rival = memory(3, "Tea at ten.", state=FULL)  # active, and contradicts the first
        async with store(tmp_path / "a") as a:
            lines = [line_of(one) for one in (memory(1, "Tea at nine."), merged, rival)]
            assert await imported(a, Scope(audience="private"), lines, forgotten) == Imported(2, 0, 1, freed=2)
            two, three = await a.page()
            assert two.state.merged_into is None
            assert (three.state.conflict_status, three.state.contradicts) == (None, None)

    @pytest.mark.feature(
        "… a memory that lost to a forgotten one is imported as current",
        of="`fusion cortex`: what it stores",
    )
    async def test_what_it_lost_a_conflict_to_may_have_been_forgotten(self, tmp_path: Path) -> None:
        """The best of the losers goes on, as where the winner is forgotten before their eyes; not while one is current,
        which may be in the store already."""
        whole = Scope(audience="private")
        won = State(conflict_group="tea", confidence=0.9)
        lost = [
            State(
                conflict_group="tea", conflict_status="resolved", contradicts=event_id(1), ended_at=NOW, confidence=sure
            )
            for sure in (0.7, 0.8)
        ]
        lines = [line_of(memory(n, f"Tea at {n}.", state=state)) for n, state in enumerate((won, *lost), start=1)]

        async def forgotten(ids: Collection[str]) -> frozenset[str]:
            return frozenset({event_id(1)}.intersection(ids))

        async with store(tmp_path / "a") as a:
            assert await imported(a, whole, lines, forgotten) == Imported(2, 0, 1, freed=1)
            two, three = (one.state for one in await a.page())
            assert (two.ended_at, two.conflict_status) == (NOW, "resolved")
            assert (three.ended_at, three.conflict_status, three.contradicts) == (None, None, None)
        async with store(tmp_path / "b") as b:
            assert await imported(b, whole, lines) == Imported(3, 0)
            assert [one.state.ended_at for one in await b.page()] == [None, NOW, NOW]
        async with store(tmp_path / "c") as c:
            await c.add([memory(3, "Tea at 3.", state=won)])
            assert await imported(c, whole, lines, forgotten) == Imported(1, 1, 1)
            assert [one.state.ended_at for one in await c.page()] == [NOW, None]

    @pytest.mark.feature(
        "… what was merged into a memory that is missing is restored, and counted", of="`fusion cortex`: what it stores"
    )
    async def test_what_it_was_merged_into_may_be_nowhere(self, tmp_path: Path) -> None:
        """A line was left out, or is another user's: who says the same says so itself, and it is counted. What is
        among the lines, wherever, or in the store, is found."""
        mine = Scope(user_id="ada", audience="private")
        lines = [
            line_of(memory(n, "Tea at nine.", state=State(merged_into=event_id(into))))
            for n, into in ((2, 1), (3, 9), (4, 7), (5, 6))
        ]
        async with store(tmp_path / "a") as a:
            await a.add([memory(7, "Tea at nine."), memory(9, "Tea at nine.", scope=BEN)])
            rival = line_of(memory(8, "Tea at ten.", state=FULL))  # active, and contradicts the first
            told = await imported(a, mine, [*lines, line_of(memory(6, "Tea at nine.")), rival])
            assert told == Imported(6, 0, freed=3)
            page = {numbers([one.id])[0]: one.state for one in await a.page()}
            merged = {n: state.merged_into for n, state in page.items() if state.merged_into}
            assert merged == {4: event_id(7), 5: event_id(6)}
            assert (page[8].conflict_status, page[8].contradicts) == (None, None)
            assert await imported(a, mine, lines) == Imported(0, 4)

    @pytest.mark.row(
        "A052",
        "… migrating to another store is verified by counts and a checksum",
        of="`fusion cortex`: what it stores",
    )
    async def test_a_store_is_brought_to_another_and_verified(self, tmp_path: Path) -> None:
        """Counts and checksum are equal; again there is nothing to copy; what changed since is brought over."""
        async with store(tmp_path / "a") as a, store(tmp_path / "b") as b:
            await a.add([memory(n, f"Thing {n}", ("Marta", "owns", "boat"), state=FULL) for n in range(1, 1201)])
            await b.add([memory(9999, "Elsewhere.")])
            first = await migrate_all(a, b, no_progress)
            assert (first.memories, first.copied, first.others) == (1200, 1200, 1)
            await a.alter({event_id(7): {"confidence": 1.0, "tags": ()}})
            second = await migrate_all(a, b, no_progress)
            assert (second.memories, second.copied) == (1200, 1)
            assert second.checksum != first.checksum
            assert [line_of(m) for m in (await b.page("", 1200))] == [line_of(m) for m in await a.page("", 1200)]

    @pytest.mark.feature(
        "… a migration that is killed fifty times continues where it stopped", of="`fusion cortex`: what it stores"
    )
    async def test_killed_on_its_way_a_run_goes_on_where_the_last_one_stopped(self, tmp_path: Path) -> None:
        """Fifty times, before or after one of its next writes; then every memory is there once, and as it was."""
        random = Random(1)
        async with store(tmp_path / "a") as a, store(tmp_path / "b") as b:
            await a.add([memory(n, f"Thing {n}", state=FULL) for n in range(1, 151)])
            await b.add([memory(n, f"Thing {n}") for n in range(1, 151, 7)])  # there already, in an earlier state
            kills = 0
            while kills < 50:
                with pytest.raises(Killed):
                    await migrate_all(
                        Small(a), Mortal(b, random.randrange(2), after=random.random() < 0.4), no_progress
                    )  # type: ignore[arg-type]
                kills += 1
                assert (await a.stats()).items == 150
            done = await migrate_all(a, b, no_progress)
            assert (done.memories, done.others) == (150, 0)
            assert await lines_of(b) == await lines_of(a)

    async def test_another_memory_under_ones_id_is_not_overwritten(self, tmp_path: Path) -> None:
        """It is somebody's, too."""
        async with store(tmp_path / "a") as a, store(tmp_path / "b") as b:
            await a.add([memory(1, "Ours.")])
            await b.add([memory(1, "Theirs.")])
            with pytest.raises(BadInput, match="into an empty store"):
                await migrate_all(a, b, no_progress)
            assert [m.event.text for m in await b.page()] == ["Theirs."]
