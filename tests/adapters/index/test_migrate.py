"""An index moves to another model: the old one answers until the new one can, and nothing is lost on the way."""

from __future__ import annotations

import asyncio
import os
import signal
import subprocess
import sys
from collections.abc import Callable, Sequence
from concurrent.futures import ThreadPoolExecutor, wait
from pathlib import Path
from threading import Event

import numpy as np
import pytest
from numpy.typing import NDArray

from adapters.index import Entry, Index
from adapters.index.matrix import Matrix
from adapters.index.migrate import Moving
from fusion.contract import Scope
from fusion.errors import InvalidAnswer, ModelMissing
from tests.fakes import FakeEmbedder

ANN = Scope(user_id="ann")
COUNT = 300
"""entries: two portions of 128 and one of 44"""
BODY = {f"k{n:03}": Entry(f"k{n:03}", ANN, f"word{n} memory") for n in range(COUNT)}


def pick(keys: Sequence[str]) -> list[Entry]:
    return [BODY[key] for key in keys if key in BODY]


def old() -> FakeEmbedder:
    return FakeEmbedder(identity="old@1", dimensions=32)


class Stepwise(FakeEmbedder):
    """The other model, of which ``portions`` are encoded before ``then`` happens."""

    def __init__(self, portions: int, then: Callable[[], None]) -> None:
        super().__init__(identity="new@2", dimensions=16)
        self.portions, self.then = portions, then

    async def embed(self, texts: Sequence[str], *, keep: bool = True) -> NDArray[np.float32]:
        if keep and not self.portions:
            self.then()
        self.portions -= keep
        return await super().embed(texts, keep=keep)


def new() -> Stepwise:
    return Stepwise(-1, lambda: None)


async def opened(folder: Path, embedder: FakeEmbedder | None) -> Index:
    index = await Index.open(folder, embedder, BODY.values(), pick=pick)
    await index.settle()
    return index


async def move(index: Index, embedder: FakeEmbedder) -> list[tuple[int, int | None]]:
    """The whole way; what was told of it."""
    told: list[tuple[int, int | None]] = []
    await index.build(embedder, lambda done, total: told.append((done, total)))
    await index.switch_to(embedder)
    return told


async def found(index: Index, n: int) -> tuple[str, float]:
    """The entry that is nearest to the n-th one's own words."""
    return (await index.similar(f"word{n} memory", ANN, 1))[0]


@pytest.mark.feature("the index: the old model answers until the new one can, then all switch in one step")
async def test_the_old_model_answers_until_the_new_one_can(tmp_path: Path) -> None:
    """In the middle of the move a search is the old model's, and finds; afterwards the new one's. One file is left."""
    index = await opened(tmp_path, before := old())
    held, gate = asyncio.Event(), asyncio.Event()
    after = Stepwise(2, held.set)

    async def embed(texts: Sequence[str], *, keep: bool = True) -> NDArray[np.float32]:
        vectors = await Stepwise.embed(after, texts, keep=keep)
        if held.is_set() and keep:
            await gate.wait()
        return vectors

    class Gated(Stepwise):
        async def embed(self, texts: Sequence[str], *, keep: bool = True) -> NDArray[np.float32]:
            return await embed(texts, keep=keep)

    moving = asyncio.create_task(move(index, Gated(0, held.set)))
    await held.wait()
    assert (await found(index, 7))[0] == "k007"
    assert (index.vectors, index.pending) == (COUNT, 0)
    assert "word7 memory" in before.encoded
    gate.set()
    assert await moving == [(128, 300), (256, 300), (300, 300)]
    asked = before.encoded["word8 memory"]
    assert await found(index, 8) == ("k008", pytest.approx(1, abs=0.02))
    assert before.encoded["word8 memory"] == asked
    assert (index.vectors, index.pending) == (COUNT, 0)
    assert len(list(tmp_path.glob("vectors*.i8"))) == 1
    await index.close()
    again = await Index.open(tmp_path, reopened := new(), BODY.values(), pick=pick)
    assert (again.vectors, again.pending) == (COUNT, 0)
    assert not reopened.encoded
    await again.close()


@pytest.mark.feature("the index: changes during a move are in the new index")
async def test_what_changes_meanwhile_is_there_too(tmp_path: Path) -> None:
    """While the last portion is under way an early entry changes, one goes and one comes: all three are right after."""
    body = dict(BODY)
    index = await Index.open(
        tmp_path, old(), BODY.values(), pick=lambda keys: [body[key] for key in keys if key in body]
    )
    await index.settle()
    changed, added = Entry("k001", ANN, "zebra"), Entry("x", ANN, "giraffe")
    body |= {"k001": changed, "x": added}
    del body["k002"]
    todo = [True]

    class Meddled(Stepwise):
        async def embed(self, texts: Sequence[str], *, keep: bool = True) -> NDArray[np.float32]:
            if keep and "word299 memory" in texts and todo.pop():
                await index.put([changed, added])
                await index.drop(["k002"])
                todo.append(False)
            return await super().embed(texts, keep=keep)

    await move(index, Meddled(-1, lambda: None))
    await index.settle()
    assert (index.size, index.vectors, index.pending) == (COUNT, COUNT, 0)
    assert (await index.similar("zebra", ANN, 1))[0] == ("k001", pytest.approx(1, abs=0.02))
    assert (await index.similar("giraffe", ANN, 1))[0][0] == "x"
    assert "k002" not in [key for key, _ in await index.similar("word2 memory", ANN, COUNT)]
    await index.close()


async def test_a_model_that_fails_leaves_the_old_one_and_what_was_done(tmp_path: Path) -> None:
    """The caller gets its error; the old model keeps answering; the next try encodes only what is missing."""
    index = await opened(tmp_path, old())

    def fail() -> None:
        raise ModelMissing("out of quota")

    with pytest.raises(ModelMissing, match="quota"):
        await move(index, Stepwise(1, fail))
    assert (await found(index, 7))[0] == "k007"
    better = new()
    assert await index.count_missing(better) == (172, sum(len(BODY[f"k{n:03}"].text) for n in range(128, 300)))
    told = await move(index, better)
    assert better.encoded.total() == COUNT - 128
    assert told == [(256, 300), (300, 300)]
    assert (await found(index, 7))[0] == "k007"
    await index.close()


class Poisoned(FakeEmbedder):
    """The other model, which gives no numbers for texts that end in one of these."""

    def __init__(self, *poison: str) -> None:
        super().__init__(identity="new@2", dimensions=16)
        self.poison = poison

    async def embed(self, texts: Sequence[str], *, keep: bool = True) -> NDArray[np.float32]:
        vectors = (await super().embed(texts, keep=keep)).copy()
        vectors[[text.endswith(self.poison) for text in texts]] = np.nan
        return vectors


@pytest.mark.feature("`reindex`: a text without a vector is reported, found by its words and retried; the others move")
async def test_a_text_without_a_vector_holds_up_no_other(tmp_path: Path) -> None:
    """Of 300 two get none, the last of all among them: they are named, found by their words, and waited for."""
    index = await opened(tmp_path, old())
    after = Poisoned("word7 memory", "word299 memory")
    refused = await index.build(after, lambda done, total: None)
    assert refused.keys() == {"k007", "k299"}
    assert "NaN" in str(refused["k007"])
    await index.switch_to(after)
    await index.settle()
    assert (index.vectors, index.pending) == (COUNT - 2, 2)
    assert (await found(index, 8))[0] == "k008"
    assert (await index.lexical("word299", ANN, 1))[0][0] == "k299"
    after.poison = ()
    await index.settle()
    assert (index.vectors, index.pending, index.faults) == (COUNT, 0, ())
    await index.close()


async def test_a_model_that_makes_no_vector_at_all_is_not_moved_to(tmp_path: Path) -> None:
    """It is the model's fault, and no text's."""
    index = await opened(tmp_path, old())
    with pytest.raises(InvalidAnswer, match="NaN"):
        await move(index, Poisoned("memory"))
    assert (await found(index, 7))[0] == "k007"
    await index.close()


async def killed(folder: Path) -> None:
    """A process that dies before it encodes the third portion."""
    index = await opened(folder, old())
    await move(index, Stepwise(2, lambda: os.kill(os.getpid(), signal.SIGKILL)))


@pytest.mark.feature("the index: a killed move to another model continues where it stopped")
async def test_a_move_that_was_killed_goes_on(tmp_path: Path) -> None:
    """SIGKILL in the middle: the old model's vectors are whole, and only what was not built yet is encoded again."""
    code = (
        "import asyncio, sys; from pathlib import Path; from tests.adapters.index.test_migrate import killed; "
        "asyncio.run(killed(Path(sys.argv[1])))"
    )
    root = Path(__file__).parents[2]
    done = await asyncio.to_thread(subprocess.run, [sys.executable, "-c", code, str(tmp_path)], cwd=root, timeout=60)
    assert done.returncode == -signal.SIGKILL
    index = await Index.open(tmp_path, still := old(), BODY.values(), pick=pick)
    assert (index.vectors, index.pending) == (COUNT, 0)
    assert not still.encoded
    await move(index, after := new())
    assert after.encoded.total() == COUNT - 256
    await index.close()


async def test_cut_off_before_the_last_step_it_opens_with_the_new_ones(tmp_path: Path) -> None:
    """All is built, and the process dies before the turn: opened under the new model, nothing is encoded again."""
    index = await opened(tmp_path, old())
    await index.close()
    moving, model = Moving(tmp_path / "vectors.sqlite", "new@2", 16), new()
    while some := moving.portion():
        vectors = await model.embed([BODY[row.key].text for row in some])
        moving.add(list(zip(some, vectors, strict=True)))
    assert moving.counts() == (COUNT, COUNT)
    moving.close()
    index = await Index.open(tmp_path, after := new(), BODY.values(), pick=pick)
    assert (index.vectors, index.pending) == (COUNT, 0)
    assert not after.encoded
    assert (await found(index, 7))[0] == "k007"
    await index.close()


class SlowMatrix(Matrix):
    """A file of vectors whose write waits for the test."""

    def __init__(self, path: Path, dimensions: int) -> None:
        super().__init__(path, dimensions, "new@2")
        self.writing, self.go_on = Event(), Event()

    def write(self, slots: Sequence[int], tags: Sequence[int], vectors: Sequence[NDArray[np.int8]]) -> list[int]:
        self.writing.set()
        assert self.go_on.wait(60)
        return super().write(slots, tags, vectors)


LONG = {f"k{n}": Entry(f"k{n}", ANN, f"long{n}", tuple(f"word{n} part{m}" for m in range(3))) for n in range(50)}


async def test_each_passage_moves_and_entries_are_counted(tmp_path: Path) -> None:
    """150 passages are two portions; the second begins within a text."""
    index = await Index.open(tmp_path, old(), LONG.values(), pick=lambda keys: [LONG[key] for key in keys])
    await index.settle()
    assert await index.count_missing(new()) == (
        150,
        sum(len(part) for entry in LONG.values() for part in entry.passages),
    )
    assert await move(index, new()) == [(42, 50), (50, 50)]
    assert (index.size, index.vectors, index.pending) == (50, 50, 0)
    assert (await index.similar("word7 part2", ANN, 1))[0] == ("k7", pytest.approx(1, abs=0.02))
    await index.close()


async def test_a_text_of_which_one_passage_moved_gets_all_its_vectors_again(tmp_path: Path) -> None:
    """The move was cut off within a text, and the model is switched all the same."""
    index = await Index.open(tmp_path, old(), LONG.values(), pick=lambda keys: [LONG[key] for key in keys])
    await index.settle()
    await index.close()
    moving, model = Moving(tmp_path / "vectors.sqlite", "new@2", 16), new()
    some = moving.portion()
    moving.add(list(zip(some, await model.embed([LONG[row.key].passages[row.part] for row in some]), strict=True)))
    moving.close()
    gate = asyncio.Event()
    after = FakeEmbedder(identity="new@2", dimensions=16, gate=gate)
    index = await Index.open(tmp_path, after, LONG.values(), pick=lambda keys: [LONG[key] for key in keys])
    assert (index.size, index.vectors, index.pending) == (50, 42, 8)
    gate.set()
    await index.settle()
    assert (index.vectors, index.pending) == (50, 0)
    assert after.encoded.total() == 24
    assert (await index.similar("word49 part2", ANN, 1))[0] == ("k49", pytest.approx(1, abs=0.02))
    await index.close()


async def killed_while_filling(folder: Path) -> None:
    """A process that dies while it encodes the passages of the second of two texts."""
    index = await Index.open(folder, Stepwise(1, lambda: os.kill(os.getpid(), signal.SIGKILL)), [LONG["k1"]])
    await index.settle()
    await index.put([LONG["k2"]])
    await index.settle()


async def test_a_kill_leaves_a_long_text_all_vectors_or_none(tmp_path: Path) -> None:
    """SIGKILL while the second text is encoded: the first has its vectors, the second gets them at the next opening."""
    code = (
        "import asyncio, sys; from pathlib import Path; "
        "from tests.adapters.index.test_migrate import killed_while_filling; "
        "asyncio.run(killed_while_filling(Path(sys.argv[1])))"
    )
    root = Path(__file__).parents[2]
    done = await asyncio.to_thread(subprocess.run, [sys.executable, "-c", code, str(tmp_path)], cwd=root, timeout=60)
    assert done.returncode == -signal.SIGKILL
    index = await Index.open(tmp_path, again := new(), [LONG["k1"], LONG["k2"]])
    await index.settle()
    assert (index.size, index.vectors, index.pending) == (2, 2, 0)
    assert set(again.encoded) == set(LONG["k2"].passages)
    assert keys_of(await index.similar("word2 part1", ANN, 2)) == ["k2", "k1"]
    await index.close()


def keys_of(found: Sequence[tuple[str, float]]) -> list[str]:
    return [key for key, _ in found]


async def test_closing_a_move_waits_for_a_portion_that_a_thread_still_adds(tmp_path: Path) -> None:
    """A cancelled move closes its record while the thread of its last portion still writes: nothing is cut off."""
    index = await opened(tmp_path, old())
    await index.close()
    moving = Moving(tmp_path / "vectors.sqlite", "new@2", 16)
    moving._matrix.close()
    moving._matrix = slow = SlowMatrix(tmp_path / "slow.i8", 16)
    row, *_ = moving.portion()
    vector = (await new().embed(["word"]))[0]
    with ThreadPoolExecutor(2) as threads:
        adding = threads.submit(moving.add, [(row, vector)])
        assert await asyncio.to_thread(slow.writing.wait, 60)
        closing = threads.submit(moving.close)
        wait([closing], timeout=0.2)  # long enough for a close that does not wait; the result is the same either way
        slow.go_on.set()
        adding.result(60)
        closing.result(60)


async def test_an_index_of_words_gets_its_first_vectors(tmp_path: Path) -> None:
    """From no model to one: words answer meanwhile, both afterwards; what is put later has its vector too."""
    body = dict(BODY) | {"x": Entry("x", ANN, "giraffe")}
    index = await Index.open(tmp_path, None, BODY.values(), pick=lambda keys: [body[key] for key in keys])
    assert not await index.similar("word7 memory", ANN, 1)
    await move(index, new())
    assert (await found(index, 7))[0] == "k007"
    await index.put([body["x"]])
    await index.settle()
    assert (await index.similar("giraffe", ANN, 1))[0][0] == "x"
    await index.close()


async def test_a_move_elsewhere_begins_anew(tmp_path: Path) -> None:
    """Vectors that were built for one model are never another's; the file of the one that was given up goes."""
    index = await opened(tmp_path, old())

    def fail() -> None:
        raise ModelMissing("out of quota")

    with pytest.raises(ModelMissing):
        await move(index, Stepwise(2, fail))
    third = FakeEmbedder(identity="third@1", dimensions=16)
    await move(index, third)
    assert third.encoded.total() == COUNT
    assert len(list(tmp_path.glob("vectors*.i8"))) == 1
    await index.close()
