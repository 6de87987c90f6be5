"""What one provider's API says differently from the next; all else is `hosted.py`'s.

Most speak OpenAI's form, so that is the default here: ``POST /embeddings {model, input}`` answered by
``{data: [{index, embedding}]}``, with the key as a bearer token.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, field
from typing import Any


@dataclass(frozen=True, slots=True)
class Ask:
    """One request: vectors for these texts. ``query``: they are questions, which some models embed otherwise.

    ``dimensions`` is how many numbers a vector is wanted to have; ``None`` leaves it to the model.
    """

    model: str
    texts: Sequence[str]
    query: bool = False
    dimensions: int | None = None


def bearer(key: str) -> Mapping[str, str]:
    return {"Authorization": f"Bearer {key}"}


def embeddings(model: str) -> str:
    return "/embeddings"


def openai_body(ask: Ask) -> dict[str, object]:
    body: dict[str, object] = {"model": ask.model, "input": list(ask.texts), "encoding_format": "float"}
    return body if ask.dimensions is None else {**body, "dimensions": ask.dimensions}


def listed(reply: Any) -> Sequence[Any]:
    """The vectors of ``{data: [{index, embedding}]}``, by index. Raises ValueError for indices that make no sense."""
    items = {item.get("index", n): item["embedding"] for n, item in enumerate(reply["data"])}
    if len(items) != len(reply["data"]) or set(items) != set(range(len(items))):
        raise ValueError("the indices are not those of the texts")
    return [items[n] for n in range(len(items))]


@dataclass(frozen=True, slots=True)
class Api:
    """A provider. ``url`` is "" where only the user knows it, ``key_env`` where no key is needed, ``model`` likewise.

    ``dimensions`` are those of the models that are known; another's are asked for. A request carries at most
    ``most_texts`` texts and about ``most_tokens`` tokens; of a text, ``longest`` tokens are sent. ``media`` is
    the body for one picture or recording (model, MIME type, bytes, wanted dimensions), for models whose name begins as
    one of ``seeing``. ``down`` says how to fix a server that does not answer, ``missing`` a model that it does not have
    (``{model}`` stands for it).
    """

    name: str
    url: str = ""
    key_env: str = ""
    model: str = ""
    dimensions: Mapping[str, int] = field(default_factory=dict)
    most_texts: int = 64
    most_tokens: int = 16_000
    longest: int = 8_000
    path: Callable[[str], str] = embeddings
    headers: Callable[[str], Mapping[str, str]] = bearer
    body: Callable[[Ask], object] = openai_body
    vectors: Callable[[Any], Sequence[Any]] = listed
    media: Callable[[str, str, bytes, int | None], object] | None = None
    seeing: tuple[str, ...] = ()
    down: str = ""
    missing: str = "[embedder] model = {model!r} is not one of its models"


PROMPTS: Mapping[str, tuple[str, str]] = {
    "nomic-embed-text": ("search_query: ", "search_document: "),
    "gemini-embedding-2": ("task: search result | query: ", "title: none | text: "),
    "embeddinggemma": ("task: search result | query: ", "title: none | text: "),
    "multilingual-e5": ("query: ", "passage: "),
    "mxbai-embed-large": ("Represent this sentence for searching relevant passages: ", ""),
}
"""what a model's makers want written before a question, and before a text that is to be found, by a part of its name;
where an API has a field for that instead, the model is not here"""


def prompts(model: str) -> tuple[str, str]:
    return next((pair for name, pair in PROMPTS.items() if name in model.lower()), ("", ""))
