"""A cross-encoder on this machine as the judge: nothing leaves it, and no call costs anything.

The deadline is looked at between batches of a few pairs. A batch that cannot end in time is not begun, and one that has
begun is not waited for. What is scored by then counts, from the best candidate down.

The score is ten times the probability of a pair's logit: the logistic function of the logit, with the
model's calibration if it has one. Without one the score is no probability: such a judge puts in order, and leaves
nothing out.
"""

from __future__ import annotations

import asyncio
import logging
import os
import time
from collections.abc import Callable, Mapping, Sequence
from concurrent.futures import Future, ThreadPoolExecutor
from dataclasses import dataclass, field
from hashlib import file_digest
from math import isfinite
from pathlib import Path
from typing import Literal, Protocol, Self, TypeVar

from adapters.judges.pairs import Pair, PairTokenizer, WordPiecePairs, read_tokenizer
from adapters.options import build_known
from fusion.contract import Passage, Verdict
from fusion.errors import ModelMissing, SettingsError
from fusion.local_models.files import verify
from fusion.local_models.registry import PlattCurve, named

log = logging.getLogger(__name__)

DEFAULT_MODEL = "ms-marco-minilm-l-6-v2"
WINDOW = 509
"""tokens of a pair in a file of the user's, without the special ones: what BERT and its kin are trained on"""
TOKENIZER = "tokenizer.json"
LOGISTIC = PlattCurve(1.0, 0.0, "nothing")
_THREADS = min(2, os.cpu_count() or 1)
_HASH_CHARS = 64
Result = TypeVar("Result")


@dataclass(frozen=True, slots=True)
class Options:
    """The keys of ``[judge]`` that this judge uses: a model by its name, or a file of the user's with its hash."""

    model: str = ""
    file: str = ""
    sha256: str = ""
    tokenizer: str = ""

    def __post_init__(self) -> None:
        if self.file and self.model:
            raise SettingsError("model and file: name one of them")
        if not self.file and (self.sha256 or self.tokenizer):
            raise SettingsError("sha256 and tokenizer belong to file, which is empty; a model by its name needs none")
        if self.file and len(self.sha256) != _HASH_CHARS:
            raise SettingsError(f"sha256: write the {_HASH_CHARS} digits of `sha256sum {self.file}`")


class Scorer(Protocol):
    """Scores pairs: see `adapters.judges.cross_encoder`."""

    def pairs(self, query: str, passages: Sequence[str]) -> list[Pair]: ...

    def logits(self, pairs: Sequence[Pair]) -> list[float]: ...


@dataclass(frozen=True, slots=True)
class Chosen:
    """The model that the options name: its name, what turns its logits into probabilities, and how it is loaded."""

    name: str
    calibration: PlattCurve | None
    load: Callable[[], Scorer]


@dataclass(slots=True)
class _Progress:
    """What is scored of one question."""

    scores: dict[str, float] = field(default_factory=dict)
    ignored: int = 0


class LocalJudge:
    """A `fusion.contract.Judge`. A model that cannot be loaded disables it, and one error in the log says why."""

    def __init__(self, chosen: Chosen, clock: Callable[[], float]) -> None:
        self.name = chosen.name
        self.disabled: str | None = None
        self._calibration, self._clock = chosen.calibration, clock
        self._threads = ThreadPoolExecutor(_THREADS, "judge")
        self._model: Future[Scorer] = self._threads.submit(chosen.load)
        self._model.add_done_callback(self._report)

    @classmethod
    def verify(cls, options: Mapping[str, object]) -> str:
        """Loads the model and scores two pairs. Raises SettingsError and ModelMissing."""
        chosen = choose(options)
        chosen.load()
        return f"{chosen.name}, on this machine{'' if chosen.calibration else '; it orders, and leaves nothing out'}"

    @classmethod
    def open(cls, options: Mapping[str, object], clock: Callable[[], float] = time.monotonic) -> Self:
        """Loads the model in the background. ``clock`` is in seconds. Raises SettingsError."""
        return cls(choose(options), clock)

    async def judge(self, query: str, passages: Sequence[Passage], deadline_s: float) -> Verdict:
        if self.disabled:
            return Verdict("disabled", fault=self.disabled)
        if not passages:
            return Verdict("ok", model=self.name)
        if deadline_s <= 0:
            return Verdict("skipped_budget", fault="no time is left", model=self.name)
        done = _Progress()
        until = self._clock() + deadline_s
        try:
            model = await self._by(until, asyncio.shield(asyncio.wrap_future(self._model)))
            await self._score(model, query, passages, until, done)
        except TimeoutError:
            fault = f"{len(done.scores)} of {len(passages)} passages were scored within {deadline_s:.2f} s"
            return self._verdict("timeout", done, fault)
        except Exception as error:  # noqa: BLE001  on any failure the local order stays
            if isinstance(error, ModelMissing):
                return Verdict("disabled", fault=str(error))
            log.warning("The judge %s failed: %s", self.name, error)
            return self._verdict("error", done, type(error).__name__)
        if not done.scores:
            return self._verdict("invalid", done, "the model gave no finite number")
        return self._verdict("ok", done)

    async def close(self) -> None:
        self.disabled = self.disabled or "closed"
        await asyncio.to_thread(self._threads.shutdown)

    async def _score(
        self, model: Scorer, query: str, passages: Sequence[Passage], until: float, done: _Progress
    ) -> None:
        """Score the passages in order. Raises TimeoutError before a batch that cannot end by ``until``."""
        from adapters.judges.cross_encoder import batches

        def timed(pairs: Sequence[Pair]) -> tuple[list[float], float]:
            began = self._clock()
            return model.logits(pairs), (self._clock() - began) / cells(pairs)

        pairs = await self._in_thread(until, model.pairs, query, [passage.text for passage in passages])
        s_per_cell = 0.0
        for batch in batches(pairs):
            portion = [pairs[i] for i in batch]
            if self._clock() + s_per_cell * cells(portion) >= until:
                raise TimeoutError
            logits, s_per_cell = await self._in_thread(until, timed, portion)
            for i, logit in zip(batch, logits, strict=True):
                if isfinite(logit):
                    done.scores[passages[i].id] = 10 * probability(logit, self._calibration)
                else:
                    done.ignored += 1

    async def _in_thread(self, until: float, work: Callable[..., Result], *arguments: object) -> Result:
        return await self._by(until, asyncio.wrap_future(self._threads.submit(work, *arguments)))

    async def _by(self, until: float, result: asyncio.Future[Result]) -> Result:
        """The result, or TimeoutError: work that has begun then goes on, and what it gives is dropped."""
        async with asyncio.timeout(until - self._clock()):
            return await result

    def _verdict(
        self, status: Literal["ok", "timeout", "invalid", "error"], done: _Progress, fault: str | None = None
    ) -> Verdict:
        return Verdict(
            status, done.scores, fault, self.name, ignored=done.ignored, orders_only=self._calibration is None
        )

    def _report(self, model: Future[Scorer]) -> None:
        """Note why the model could not be loaded; called on its thread."""
        error = None if model.cancelled() else model.exception()
        if error is not None:
            self.disabled = self.disabled or str(error) or type(error).__name__
            log.error("The judge %s is disabled, the local order is used: %s", self.name, self.disabled)


def choose(options: Mapping[str, object]) -> Chosen:
    """The model that ``[judge]`` names; no file is read. Raises SettingsError."""
    chosen = build_known(Options, options, "[judge]")
    if chosen.file:
        return _of_file(chosen)
    try:
        model = named(chosen.model or DEFAULT_MODEL, "judge")
    except SettingsError as error:
        raise SettingsError(f"[judge] {error}") from None

    def load() -> Scorer:
        from adapters.embedders.encoder import VOCABULARY

        tokenizer = WordPiecePairs(VOCABULARY.read_text("utf-8").splitlines(), model.window)
        return _loaded(verify(model), tokenizer)

    return Chosen(model.name, model.calibration, load)


def _of_file(chosen: Options) -> Chosen:
    try:
        file = Path(chosen.file).expanduser()
        tokenizer = Path(chosen.tokenizer).expanduser() if chosen.tokenizer else file.with_name(TOKENIZER)
    except RuntimeError as error:
        raise SettingsError(f"[judge] file: {error}") from None
    for name, path in (("file", file), ("tokenizer", tokenizer)):
        if not path.is_absolute():
            raise SettingsError(f"[judge] {name} = {str(path)!r} must be an absolute path")

    def load() -> Scorer:
        _check_hash(file, chosen.sha256.lower())
        return _loaded(file, read_tokenizer(tokenizer, WINDOW))

    return Chosen(file.stem, None, load)


def _loaded(file: Path, tokenizer: PairTokenizer) -> Scorer:
    from adapters.judges.cross_encoder import CrossEncoder

    return CrossEncoder(file, tokenizer)


def _check_hash(file: Path, sha256: str) -> None:
    try:
        with file.open("rb") as opened:
            found = file_digest(opened, "sha256").hexdigest()
    except OSError as error:
        raise ModelMissing(
            f"{file} cannot be read ({error.strerror}): put the model there, or name its place in [judge] file"
        ) from error
    if found != sha256:
        raise ModelMissing(
            f"{file} is cut or another file: its sha256 is {found}, and [judge] sha256 is {sha256}. "
            "Get the file again, or write its hash there if you trust it"
        )


def cells(pairs: Sequence[Pair]) -> int:
    """Tokens of a run, with its padding: what its time depends on."""
    return len(pairs) * max(len(pair.ids) for pair in pairs)


def probability(logit: float, calibration: PlattCurve | None = None) -> float:
    """The probability of a logit; without a calibration the logistic function of the logit itself."""
    return (calibration or LOGISTIC).probability(logit)
