"""Repetition and contradiction of statements: what is decided on one memory holds for the answers of all backends."""

from __future__ import annotations

from collections.abc import AsyncIterator, Mapping, Sequence
from contextlib import asynccontextmanager
from dataclasses import replace
from pathlib import Path
from typing import TYPE_CHECKING, Any, ClassVar

import pytest

from fusion.contract import State
from fusion.errors import BackendUnreachable
from fusion.gateway.decisions import StateRequest
from fusion.gateway.gateway import Gateway
from fusion.ingest.forget import ForgetRequest
from fusion.ingest.intake import NewMemory
from fusion.journal import state, statements
from fusion.store.sqlite import Connection
from tests.fakes import CrowdedEmbedder, FakeEmbedder
from tests.gateway.helpers import NADIA, remember
from tests.patience import load

if TYPE_CHECKING:
    from fusion.contract import Floats

DARK = "Nadia prefers dark mode in every single editor"
AGAIN = ("In every single editor Nadia prefers dark mode", "Nadia prefers dark mode every editor")


class Failing(FakeEmbedder):
    """Cannot be reached."""

    async def embed(self, texts: Sequence[str], *, keep: bool = True) -> Floats:
        raise BackendUnreachable("the model is away")


class FailingEmbedders:
    """Opens an embedder that cannot be reached."""

    @classmethod
    async def open(cls, folder: Path, options: Mapping[str, Any]) -> FakeEmbedder:
        return Failing()


@pytest.mark.feature("status says how many statements wait to be compared, and why")
async def test_status_reports_statements_that_wait(home: Path) -> None:
    backends = {"memory": {"adapter": "adapters.inmemory:InMemory"}}
    embedder = {"adapter": "tests.gateway.test_consolidation:FailingEmbedders"}
    async with Gateway.open(load(home=home, backends_only=True, embedder=embedder, backends=backends)) as gateway:
        await gateway.remember([NewMemory(DARK, NADIA, kind="fact")])
        await gateway.settle()
        found = await gateway.status()
    assert found["statements"] == {"waiting": 1, "fault": "the model is away"}
    assert "statements wait to be compared, the embedder fails: the model is away" in found["notes"]


class Embedders:
    """Opens embedders whose cosine of two texts is the share of words that they have in common."""

    opened: ClassVar[list[FakeEmbedder]] = []

    @classmethod
    async def open(cls, folder: Path, options: Mapping[str, Any]) -> FakeEmbedder:
        cls.opened.append(FakeEmbedder(dimensions=2048))
        return cls.opened[-1]


class CrowdedEmbedders:
    """Opens embedders whose cosines lie between .8 and 1, and who say so."""

    @classmethod
    async def open(cls, folder: Path, options: Mapping[str, Any]) -> FakeEmbedder:
        return CrowdedEmbedder()


@asynccontextmanager
async def opened(home: Path, embedders: type[Embedders | CrowdedEmbedders] = Embedders) -> AsyncIterator[Gateway]:
    """The four default memories."""
    settings = load(home=home, embedder={"adapter": f"tests.gateway.test_consolidation:{embedders.__name__}"})
    async with Gateway.open(settings) as gateway:
        assert {"markdown", "cortex", "mem0", "triples"} <= gateway.guarded.keys()
        yield gateway


@pytest.fixture
async def gateway(home: Path) -> AsyncIterator[Gateway]:
    async with opened(home) as one:
        yield one


async def block(gateway: Gateway, asked: str) -> str:
    return (await gateway.fuse(asked, scope=NADIA)).block


async def states(gateway: Gateway, *refs: str) -> list[State]:
    return [(await gateway.journal.find(ref, NADIA)).state for ref in refs]


async def recalled_by_cortex(gateway: Gateway, asked: str) -> list[str]:
    return [hit.text for hit in (await gateway.search("cortex", asked, NADIA)).hits]


ASIDE = "Nadia prefers dark mode, and she does so in each and every single editor of hers"


@pytest.mark.feature("thresholds of cosines hold for every local model: its cosines are put on one scale")
@pytest.mark.parametrize("embedders", [Embedders, CrowdedEmbedders])
async def test_statements_merge_alike_by_models_of_another_scale(
    embedders: type[Embedders | CrowdedEmbedders], home: Path
) -> None:
    """A cosine of .95 that means .73 reinforces nothing; the rewording does, by both models."""
    async with opened(home, embedders) as gateway:
        first, aside, again = [(await facts(gateway, text))[0] for text in (DARK, ASIDE, AGAIN[0])]
        assert [one.merged_into is None for one in await states(gateway, first, aside, again)] == [True, True, False]


async def facts(gateway: Gateway, *texts: str, **fields: Any) -> list[str]:
    kept = await gateway.remember([NewMemory(text, NADIA, kind="fact", **fields) for text in texts])
    await gateway.settle()
    return [one.ref for one in kept]


@pytest.mark.feature("the job `consolidation` compares the statements of a home from before that was done")
async def test_job_compares_statements_of_an_earlier_home(home: Path) -> None:
    """The earlier of two stays. A dry run counts them, and a second run finds none."""
    async with opened(home) as gateway:
        refs = [(await facts(gateway, text))[0] for text in (DARK, "Omar walks to the harbour", "The stall is open")]
        await gateway.journal.write(_as_of_an_earlier_version)
        (again,) = await facts(gateway, AGAIN[0])
        await gateway.journal.write(_as_of_an_earlier_version)
        await gateway.journal.write(_unmerged, (await gateway.journal.find(again, NADIA)).event.event_id)
    async with opened(home) as gateway:
        dry = await gateway.jobs().run("consolidation", dry_run=True)
        assert dry.receipt["result"] == {"waiting": 4, "compared": 0}
        assert (await states(gateway, again))[0].merged_into is None
        run = await gateway.jobs().run("consolidation")
        assert (run.status, run.receipt["result"]) == ("done", {"waiting": 4, "compared": 4})
        kept = (await gateway.journal.find(refs[0], NADIA)).event.event_id
        assert [one.merged_into for one in await states(gateway, *refs, again)] == [None, None, None, kept]
        assert (await gateway.jobs().run("consolidation")).receipt["result"] == {"waiting": 0, "compared": 0}


def _as_of_an_earlier_version(db: Connection) -> None:
    """No statement was compared."""
    db.execute("update statement set compared = 0")


def _unmerged(db: Connection, event_id: str) -> None:
    """A memory as before it was merged, without an undo, after which it would never be merged again."""
    db.execute("update event set state = null, merged_into = null where event_id = ?", (event_id,))


async def test_job_fails_while_the_embedder_does(home: Path) -> None:
    backends = {"memory": {"adapter": "adapters.inmemory:InMemory"}}
    embedder = {"adapter": "tests.gateway.test_consolidation:FailingEmbedders"}
    async with Gateway.open(load(home=home, backends_only=True, embedder=embedder, backends=backends)) as gateway:
        await gateway.remember([NewMemory(DARK, NADIA, kind="fact")])
        run = await gateway.jobs().run("consolidation")
    assert run.status == "failed"
    assert "the model is away" in run.receipt["faults"]["default"]


@pytest.mark.row("A033", "A034", "a reworded statement is answered once by all memories, and raises the confidence")
async def test_reworded_statement_is_answered_once(gateway: Gateway) -> None:
    """Told one by one, or in one request; the block and the cortex's own answer agree."""
    (first,) = await facts(gateway, DARK)
    others = await facts(gateway, *AGAIN)
    shown = await block(gateway, "which mode does Nadia prefer?")
    assert DARK in shown
    assert not any(text in shown for text in AGAIN)
    assert await recalled_by_cortex(gateway, "Nadia dark mode") == [DARK]
    kept, *merged = await states(gateway, first, *others)
    assert (kept.confidence, kept.reinforced_count) == (0.75, 2)
    assert {one.merged_into for one in merged} == {(await gateway.journal.find(first, NADIA)).event.event_id}


@pytest.mark.row("A036", "A037", "both sides of a contradiction are answered by all memories, and name each other")
async def test_both_sides_of_a_contradiction_are_answered(gateway: Gateway) -> None:
    rome, oslo = await facts(gateway, "Nadia lives in Rome.", "Nadia lives in Oslo.")
    shown = await block(gateway, "where does Nadia live?")
    assert "Rome" in shown
    assert "Oslo" in shown
    old, new = await states(gateway, rome, oslo)
    assert old.conflict_group == new.conflict_group is not None
    assert (old.conflict_status, new.conflict_status) == ("active", "active")
    ids = [(await gateway.journal.find(ref, NADIA)).event.event_id for ref in (rome, oslo)]
    assert [new.contradicts, old.contradicts] == ids


@pytest.mark.row("A037", "a new version of one side of a conflict takes its place there")
async def test_new_version_takes_its_place_in_a_conflict(gateway: Gateway) -> None:
    rome, oslo = await facts(gateway, "Nadia lives in Rome.", "Nadia lives in Oslo.")
    (lucca,) = await facts(gateway, "Nadia lives in Lucca.", supersedes=rome)
    old, other, new = await states(gateway, rome, oslo, lucca)
    assert old.conflict_status == "resolved"
    assert (new.conflict_status, new.conflict_group) == ("active", other.conflict_group)
    assert other.contradicts == (await gateway.journal.find(lucca, NADIA)).event.event_id


@pytest.mark.feature("undo of a merge shows the hidden memory again in every answer, and it is not merged again")
async def test_undone_merge_is_shown_again_for_good(gateway: Gateway) -> None:
    (first,) = await facts(gateway, DARK)
    (second,) = await facts(gateway, AGAIN[0])
    (made,) = await gateway.journal.read(state.log, NADIA, 10, ref=second)
    assert (made.who, made.why) == ("consolidate", f"{second} says the same as {first} (cosine 1.00)")
    await gateway.journal.undo_decision(made.name, NADIA, "nadia")
    gateway.deliverer.wake()
    await gateway.settle()
    assert sorted(await recalled_by_cortex(gateway, "Nadia dark mode")) == sorted([DARK, AGAIN[0]])
    assert await states(gateway, first, second) == [State(), State()]
    (third,) = await facts(gateway, AGAIN[1])
    merged = [one.merged_into for one in await states(gateway, first, second, third)]
    assert merged[:2] == [None, None]
    assert merged[2] is not None


@pytest.mark.feature("a merged statement is found again when the other one is forgotten")
async def test_merged_statement_returns_when_the_other_is_forgotten(gateway: Gateway) -> None:
    (first,) = await facts(gateway, DARK)
    (second,) = await facts(gateway, AGAIN[0])
    looked = await gateway.forget_many(ForgetRequest(NADIA, refs=(first,), dry_run=True))
    both = await gateway.forget_many(ForgetRequest(NADIA, refs=(first, second), dry_run=True))
    assert (looked.released, both.released) == ((second,), ())
    assert (await gateway.forget(first, NADIA)).released == (second,)
    await gateway.settle()
    assert AGAIN[0] in await block(gateway, "which mode does Nadia prefer?")
    assert await recalled_by_cortex(gateway, "Nadia dark mode") == [AGAIN[0]]


async def test_quarantined_memory_is_not_reported_as_answered_again(gateway: Gateway) -> None:
    (first,) = await facts(gateway, DARK)
    (second,) = await facts(gateway, AGAIN[0])
    await gateway.set_state(StateRequest(second, NADIA, trust="quarantined"))
    done = await gateway.forget_many(ForgetRequest(NADIA, refs=(first,)))
    assert (len(done.receipts), done.released) == (1, ())


@pytest.mark.row("A034", "a turn that repeats what was said reinforces it, and stays in its conversation")
async def test_turn_that_repeats_reinforces(gateway: Gateway) -> None:
    texts = ("I live in a small flat in Rome.", "I live in a flat in Rome.")
    turns = [NewMemory(text, NADIA, kind="turn", speaker="Nadia", source=text[:12]) for text in texts]
    first, second = [(await gateway.remember([turn]))[0].ref for turn in turns]
    await gateway.settle()
    kept, again = await states(gateway, first, second)
    assert (kept.reinforced_count, kept.merged_into) == (1, None)
    assert kept.confidence in (0.7, 0.75), "by the cosine of the two"
    assert again == State()


async def test_statements_wait_for_an_embedder_that_fails(home: Path) -> None:
    """Nothing is merged meanwhile, and nothing is lost; when it works, what waited is compared."""
    Embedders.opened.clear()
    async with opened(home) as gateway:
        (embedder,) = Embedders.opened
        embedder.failing = True
        first, second = await facts(gateway, DARK, AGAIN[0])
        assert [one.merged_into for one in await states(gateway, first, second)] == [None, None]
        assert gateway.consolidator is not None
        assert gateway.consolidator.fault
        embedder.failing = False
        await gateway.settle()
        assert (await states(gateway, second))[0].merged_into is not None


@pytest.mark.feature("a statement whose comparison was interrupted is compared after the restart, once")
async def test_interrupted_comparison_is_made_after_the_restart(home: Path) -> None:
    """The queue is on the disk: the process ends between the reply and the decision, and after the decision."""
    async with opened(home) as gateway:
        (first,) = await facts(gateway, DARK)
        assert gateway.consolidator is not None
        await gateway.consolidator.close()
        kept = await gateway.remember([NewMemory(AGAIN[0], NADIA, kind="fact")])
        await gateway.deliverer.settle()
        assert len(await gateway.journal.read(statements.oldest, 9)) == 1
    for _ in range(2):
        async with opened(home) as gateway:
            await gateway.settle()
            assert await gateway.journal.read(statements.oldest, 9) == []
            old, new = await states(gateway, first, kept[0].ref)
            assert (old.reinforced_count, new.merged_into is not None) == (1, True)


async def test_statements_of_other_users_and_audiences_are_left_alone(gateway: Gateway) -> None:
    """Nadia's, Omar's, and her private ones: three memories."""
    scopes = (NADIA, replace(NADIA, user_id="omar"), replace(NADIA, audience="group"))
    refs = [(await remember(gateway, DARK, scope=scope))[0] for scope in scopes]
    assert len(set(refs)) == 3
    for ref, scope in zip(refs, scopes, strict=True):
        assert (await gateway.journal.find(ref, scope)).state == State()
