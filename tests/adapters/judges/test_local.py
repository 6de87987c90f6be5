"""A cross-encoder on this machine as the judge: its scores, its deadline, and every fault of its files."""

from __future__ import annotations

import asyncio
import math
import threading
from collections.abc import AsyncIterator, Callable, Mapping, Sequence
from dataclasses import dataclass, field
from pathlib import Path

import pytest

from adapters.judges.cross_encoder import MAX_CELLS, MAX_ROWS, CrossEncoder, batches
from adapters.judges.local import Chosen, LocalJudge, probability
from adapters.judges.pairs import Pair, read_tokenizer
from fusion.contract import Passage, Verdict
from fusion.errors import ModelMissing, SettingsError
from fusion.gateway.gateway import Gateway
from fusion.ingest.intake import NewMemory
from fusion.local_models.registry import PlattCurve
from fusion.settings import Settings
from tests.adapters.judges.onnx_file import cross_encoder, hash_of
from tests.adapters.judges.tokenizers_json import uncased
from tests.gateway.helpers import NADIA
from tests.patience import load
from tests.small_onnx import encoder_onnx, written

LONG_S = 600.0
"""a deadline that no test reaches"""
WORDS = "what white flowers does the florist sell ##s sells lilies roses tulips ?".split()
PASSAGES = [Passage(f"id{n}", f"Passage {n}") for n in range(10)]


class Clock:
    """A clock that stands still until it is moved."""

    now = 1000.0

    def __call__(self) -> float:
        return self.now


@dataclass
class Scores:
    """A scorer of fixed logits by passage. Each run takes ``run_s`` of the clock, and waits while ``held`` is clear."""

    logits_of: Callable[[str], float] = lambda text: 0.0
    clock: Clock = field(default_factory=Clock)
    run_s: float = 0.0
    held: threading.Event = field(default_factory=threading.Event)
    begun: threading.Event = field(default_factory=threading.Event)
    runs: list[int] = field(default_factory=list)

    def __post_init__(self) -> None:
        self.held.set()

    def pairs(self, query: str, passages: Sequence[str]) -> list[Pair]:
        self._texts = list(passages)
        return [Pair([n], [1]) for n, _ in enumerate(passages)]

    def logits(self, pairs: Sequence[Pair]) -> list[float]:
        self.begun.set()
        assert self.held.wait(60)
        self.runs.append(len(pairs))
        self.clock.now += self.run_s
        return [self.logits_of(self._texts[pair.ids[0]]) for pair in pairs]


@pytest.fixture
async def judging() -> AsyncIterator[Callable[..., LocalJudge]]:
    """Opens judges over a scorer, and closes them."""
    opened: list[LocalJudge] = []
    scorers: list[Scores] = []

    def one(scorer: Scores, calibration: PlattCurve | None = None) -> LocalJudge:
        opened.append(LocalJudge(Chosen("counting", calibration, lambda: scorer), scorer.clock))
        scorers.append(scorer)
        return opened[-1]

    yield one
    for scorer in scorers:
        scorer.held.set()
    for judge in opened:
        await judge.close()


async def ask_it(
    judge: LocalJudge, deadline_s: float = LONG_S, passages: Sequence[Passage] = PASSAGES, query: str = "Who?"
) -> Verdict:
    return await judge.judge(query, passages, deadline_s)


# Scores


@pytest.mark.parametrize(
    ("logit", "score"), [(0.0, 5.0), (math.log(3), 7.5), (-math.log(3), 2.5), (1000.0, 10.0), (-1000.0, 0.0)]
)
async def test_score_is_ten_times_the_logistic_of_the_logit(
    judging: Callable[..., LocalJudge], logit: float, score: float
) -> None:
    verdict = await ask_it(judging(Scores(lambda text: logit)))
    assert verdict.status == "ok"
    assert verdict.scores == {passage.id: pytest.approx(score) for passage in PASSAGES}
    assert (verdict.model, verdict.input_tokens, verdict.output_tokens) == ("counting", 0, 0)


async def test_calibration_of_a_model_makes_its_score_a_probability(judging: Callable[..., LocalJudge]) -> None:
    """Only then may a low score leave a memory out."""
    scorer = Scores(lambda text: 4.0)
    calibrated = await ask_it(judging(scorer, PlattCurve(0.5, -1.0, "a test's labels")))
    assert calibrated.scores["id0"] == pytest.approx(10 * probability(1.0))
    assert not calibrated.orders_only
    assert (await ask_it(judging(scorer))).orders_only


async def test_numbers_that_are_not_finite_are_no_scores(judging: Callable[..., LocalJudge]) -> None:
    some = await ask_it(judging(Scores(lambda text: math.nan if text.endswith("0") else 1.0)))
    assert (some.status, len(some.scores), some.ignored) == ("ok", 9, 1)
    none = await ask_it(judging(Scores(lambda text: math.inf)))
    assert (none.status, none.fault, none.ignored) == ("invalid", "the model gave no finite number", 10)


async def test_no_passages_run_no_model(judging: Callable[..., LocalJudge]) -> None:
    scorer = Scores()
    assert await ask_it(judging(scorer), passages=[]) == Verdict("ok", model="counting")
    assert scorer.runs == []


def test_batches_are_small_and_in_order() -> None:
    """So that a deadline is soon noticed, and the best candidates have their scores first."""
    lengths = [10, 10, 10, 10, 10, 300, 300, 512, 5]
    found = list(batches([Pair([0] * length, [0] * length) for length in lengths]))
    assert [list(one) for one in found] == [[0, 1, 2, 3], [4], [5], [6], [7], [8]]
    assert all(len(one) <= MAX_ROWS for one in found)
    assert all(len(one) == 1 or len(one) * max(lengths[i] for i in one) <= MAX_CELLS for one in found)
    assert list(batches([])) == []


# The deadline


@pytest.mark.row("A024", "a local judge that is cut keeps its scores, and the receipt says so", part="faults/judge")
async def test_judge_stops_before_a_batch_that_cannot_end_in_time(judging: Callable[..., LocalJudge]) -> None:
    """Each run takes 100 s of 250: two are made, and the third is not begun."""
    scorer = Scores(run_s=100.0)
    verdict = await ask_it(judging(scorer), 250.0)
    assert (verdict.status, verdict.fault) == ("timeout", "8 of 10 passages were scored within 250.00 s")
    assert list(verdict.scores) == [f"id{n}" for n in range(8)]
    assert scorer.runs == [4, 4]


async def test_slow_run_is_tried_again_for_the_next_question(judging: Callable[..., LocalJudge]) -> None:
    """What one question took decides for that question alone: a machine that was busy once is not judged by it."""
    scorer = Scores(run_s=300.0)
    judge = judging(scorer)
    assert len((await ask_it(judge, 400.0)).scores) == 4
    scorer.run_s = 0.0
    assert (await ask_it(judge, 400.0)).status == "ok"


async def test_hanging_run_is_not_waited_for(judging: Callable[..., LocalJudge]) -> None:
    """The answer has no more than its deadline, and the next question is judged as always."""
    scorer = Scores()
    judge = judging(scorer)
    scorer.held.clear()
    verdict = await ask_it(judge, 0.05)
    assert (verdict.status, verdict.fault) == ("timeout", "0 of 10 passages were scored within 0.05 s")
    scorer.held.set()
    assert (await ask_it(judge)).status == "ok"


async def test_cancelled_question_ends_at_once(judging: Callable[..., LocalJudge]) -> None:
    scorer = Scores()
    scorer.held.clear()
    task = asyncio.create_task(ask_it(judging(scorer)))
    await asyncio.to_thread(scorer.begun.wait, 60)
    task.cancel()
    with pytest.raises(asyncio.CancelledError):
        await task


async def test_without_time_nothing_runs(judging: Callable[..., LocalJudge]) -> None:
    scorer = Scores()
    assert (await ask_it(judging(scorer), 0.0)).status == "skipped_budget"
    assert scorer.runs == []


async def test_model_that_still_loads_is_waited_for_within_the_deadline() -> None:
    """A question right after the start is answered without the judge rather than late."""
    loaded = threading.Event()

    def load() -> Scores:
        assert loaded.wait(60)
        return Scores()

    judge = LocalJudge(Chosen("counting", None, load), Clock())
    assert (await ask_it(judge, 0.05)).status == "timeout"
    loaded.set()
    assert (await ask_it(judge)).status == "ok"
    await judge.close()


# Faults


async def test_failing_run_is_an_error_without_its_text(judging: Callable[..., LocalJudge]) -> None:
    def fail(text: str) -> float:
        raise RuntimeError("the secret")

    verdict = await ask_it(judging(Scores(fail)))
    assert (verdict.status, verdict.fault, dict(verdict.scores)) == ("error", "RuntimeError", {})


async def test_closed_judge_judges_nothing(judging: Callable[..., LocalJudge]) -> None:
    judge = judging(Scores())
    await judge.close()
    assert (await ask_it(judge)).status == "disabled"
    await judge.close()


def of_file(folder: Path, **changes: str) -> dict[str, str]:
    """Options for a small cross-encoder in this folder, with its tokenizer."""
    file = cross_encoder(folder / "small.onnx")
    uncased(folder / "tokenizer.json", WORDS)
    return {"file": str(file), "sha256": hash_of(file), **changes}


def test_verified_file_is_described(tmp_path: Path) -> None:
    assert LocalJudge.verify(of_file(tmp_path)) == "small, on this machine; it orders, and leaves nothing out"


def cut(folder: Path) -> None:
    file = folder / "small.onnx"
    file.write_bytes(file.read_bytes()[:-20])


def remove(folder: Path) -> None:
    (folder / "small.onnx").unlink()


def remove_tokenizer(folder: Path) -> None:
    (folder / "tokenizer.json").unlink()


@pytest.mark.parametrize(
    ("spoil", "words"),
    [
        (cut, ["is cut or another file: its sha256 is", "Get the file again"]),
        (remove, ["cannot be read (No such file or directory)", "or name its place in [judge] file"]),
        (remove_tokenizer, ["tokenizer.json cannot be read", "or name it in [judge] tokenizer"]),
    ],
)
@pytest.mark.feature(
    "a judge's model file that is cut, another one or gone: the error names the fix, and answers go on without it"
)
async def test_spoilt_file_disables_the_judge_and_names_the_fix(
    tmp_path: Path, spoil: Callable[[Path], None], words: Sequence[str], caplog: pytest.LogCaptureFixture
) -> None:
    """The doctor's check raises it; a server's judge is disabled, with one error in the log."""
    options = of_file(tmp_path)
    spoil(tmp_path)
    with pytest.raises(ModelMissing) as raised:
        LocalJudge.verify(options)
    judge = LocalJudge.open(options)
    verdict = await ask_it(judge)
    await judge.close()
    assert (verdict.status, verdict.fault) == ("disabled", str(raised.value))
    assert all(word in str(raised.value) for word in words)
    [logged] = [line for line in caplog.messages if "The judge small is disabled" in line]
    assert str(raised.value) in logged


@pytest.mark.parametrize(
    ("make", "words"),
    [
        (lambda path: written(path, encoder_onnx()), "gives numbers of shape (2, "),
        (lambda path: cross_encoder(path, columns=2), "gives numbers of shape (2, 2) for 2 pairs"),
    ],
)
@pytest.mark.feature("a model that is no cross-encoder is refused as a judge, with what it gives and the fix")
def test_other_models_are_no_judges(tmp_path: Path, make: Callable[[Path], Path], words: str) -> None:
    """A model for embeddings, or one of two classes: by the shape of what it gives for two pairs."""
    options = of_file(tmp_path)
    with pytest.raises(ModelMissing) as raised:
        LocalJudge.verify({**options, "sha256": hash_of(make(tmp_path / "small.onnx"))})
    assert words in str(raised.value)
    assert str(raised.value).endswith("name a cross-encoder in [judge] file")


def test_file_that_is_no_model_is_refused(tmp_path: Path) -> None:
    options = of_file(tmp_path)
    (tmp_path / "small.onnx").write_text("not a model")
    with pytest.raises(ModelMissing, match=r"cannot run .*small\.onnx"):
        LocalJudge.verify({**options, "sha256": hash_of(tmp_path / "small.onnx")})


@pytest.mark.parametrize(
    ("options", "words"),
    [
        ({"file": "/a.onnx"}, r"sha256: write the 64 digits of `sha256sum /a\.onnx`"),
        ({"file": "a.onnx", "sha256": "0" * 64}, "must be an absolute path"),
        ({"file": "/a.onnx", "model": "ms-marco-minilm-l-6-v2"}, "model and file: name one of them"),
        ({"sha256": "0" * 64}, "sha256 and tokenizer belong to file"),
        ({"model": "ms-marco-minilm-l-7-v2"}, r"\[judge\] no local judge is called .*ms-marco-minilm-l-6-v2"),
        ({"model": "minilm"}, r"\[judge\] no local judge is called 'minilm'"),
    ],
)
def test_wrong_options_name_what_is_right(options: Mapping[str, str], words: str) -> None:
    with pytest.raises(SettingsError, match=words):
        LocalJudge.open(options)


def test_model_by_its_name_that_is_not_installed_names_the_command(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("XDG_DATA_HOME", str(tmp_path))
    with pytest.raises(ModelMissing, match=r"fusion models add ms-marco-minilm-l-6-v2$"):
        LocalJudge.verify({})


# A whole model


def test_cross_encoder_gives_the_numbers_of_its_model(tmp_path: Path) -> None:
    """The small model counts equal tokens, with one for the end; padding a shorter pair changes nothing."""
    model = CrossEncoder(
        cross_encoder(tmp_path / "small.onnx"), read_tokenizer(uncased(tmp_path / "tokenizer.json", WORDS), 509)
    )
    pairs = model.pairs("white lilies", ["The florist sells white lilies", "roses", "white white roses ?"])
    assert model.logits(pairs) == [0.5, -1.5, 0.5]
    assert [model.logits([pair])[0] for pair in pairs] == [0.5, -1.5, 0.5]


FLOWERS = ("The florist sells white lilies", "The florist sells white roses", "The florist sells white tulips")
QUESTION = "Does the florist sell white roses?"


def home_with(home: Path, judge: Mapping[str, object]) -> Settings:
    return load(
        home=home,
        backends_only=True,
        embedder={"adapter": ""},
        judge={"provider": "local", "timeout_ms": 60_000, **judge},
        backends={"one": {"adapter": "adapters.inmemory:InMemory"}},
    )


async def asked(gateway: Gateway) -> tuple[Mapping[str, object], list[float | None], int]:
    """What became of the judge, the judge's scores in the receipt's order, and how many memories are shown."""
    fused = await gateway.fuse(QUESTION, scope=NADIA, recipe="deep", timeout_ms=60_000, explain=True)
    assert fused.explain is not None
    scores = [row["judge"] for row in fused.explain["candidates"]]
    return fused.rerank, scores, len(fused.memories)


@pytest.mark.feature('`[judge] provider = "local"`: a cross-encoder in ONNX scores the candidates on this machine')
async def test_local_judge_ranks_an_answer_and_outlives_its_file(tmp_path: Path) -> None:
    """The scores are the model's, the receipt says that they order only, and a file that goes while serving is not
    missed before the next start."""
    home = tmp_path / "home"
    options = of_file(tmp_path)
    async with Gateway.open(home_with(home, options)) as gateway:
        await gateway.remember([NewMemory(text, scope=NADIA) for text in FLOWERS])
        await gateway.settle()
        rerank, scores, shown = await asked(gateway)
        assert (rerank["status"], rerank["model"], rerank["orders_only"]) == ("ok", "small", True)
        # white, florist, the and the end are equal, and in one case roses.
        expected = [10 * probability(logit) for logit in (2.5, 1.5, 1.5)]
        assert scores == [pytest.approx(one) for one in expected]
        status = await gateway.status()
        assert (status["judge"], [note for note in status["notes"] if "judge" in note]) == ("small", [])
        remove(tmp_path)
        assert (await asked(gateway))[1] == scores
    async with Gateway.open(home_with(home, options)) as gateway:
        await gateway.remember([NewMemory(text, scope=NADIA) for text in FLOWERS])
        await gateway.settle()
        rerank, scores, without = await asked(gateway)
        assert (rerank["status"], scores, without) == ("disabled", [None] * 3, shown)
        assert "or name its place in [judge] file" in str(rerank["fault"])
        [note] = [note for note in (await gateway.status())["notes"] if "judge" in note]
        assert note == f"the judge small is disabled, and the local order is used: {rerank['fault']}"
