"""The differences between the providers' APIs. `http_embedder` has what they share.

Most use OpenAI's form, which is the default: ``POST /embeddings {model, input}`` answered by
``{data: [{index, embedding}]}``, with the key as a bearer token.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, field
from typing import Any


@dataclass(frozen=True, slots=True)
class EmbedRequest:
    """One request for the vectors of these texts. ``query``: they are queries, which some models embed differently.

    ``dimensions`` is the wanted length of a vector; ``None`` leaves it to the model.
    """

    model: str
    texts: Sequence[str]
    query: bool = False
    dimensions: int | None = None


def bearer(key: str) -> Mapping[str, str]:
    return {"Authorization": f"Bearer {key}"}


def embeddings(model: str) -> str:
    return "/embeddings"


def openai_body(request: EmbedRequest, dimensions: str = "dimensions", **more: object) -> dict[str, object]:
    """The body in OpenAI's form; ``dimensions`` is the provider's name for the length, ``more`` its other fields."""
    body = {"model": request.model, "input": list(request.texts), **(more or {"encoding_format": "float"})}
    return body if request.dimensions is None else {**body, dimensions: request.dimensions}


def listed(reply: Any) -> Sequence[Any]:
    """The vectors of ``{data: [{index, embedding}]}``, by index. Raises ValueError for invalid indices."""
    items = {item.get("index", n): item["embedding"] for n, item in enumerate(reply["data"])}
    if len(items) != len(reply["data"]) or set(items) != set(range(len(items))):
        raise ValueError("the indices are not those of the texts")
    return [items[n] for n in range(len(items))]


@dataclass(frozen=True, slots=True)
class ProviderSpec:
    """A provider. ``url`` is "" if only the user knows it, ``model`` likewise; ``key_env`` is "" if no key is needed.

    ``dimensions`` are those of known models; those of another are requested. A request has at most ``most_texts`` texts
    and about ``most_tokens`` tokens; of a text, ``max_text_tokens`` tokens are sent. ``media`` builds the body for one
    picture or recording (model, MIME type, bytes, wanted dimensions), for models whose name begins with one of
    ``media_models``. ``unreachable_hint`` is the fix for a server that does not answer, ``unknown_model_hint`` for a
    model that it does not have (``{model}`` is its name).
    """

    name: str
    url: str = ""
    key_env: str = ""
    model: str = ""
    dimensions: Mapping[str, int] = field(default_factory=dict)
    most_texts: int = 64
    most_tokens: int = 16_000
    max_text_tokens: int = 8_000
    path: Callable[[str], str] = embeddings
    headers: Callable[[str], Mapping[str, str]] = bearer
    body: Callable[[EmbedRequest], object] = openai_body
    vectors: Callable[[Any], Sequence[Any]] = listed
    media: Callable[[str, str, bytes, int | None], object] | None = None
    media_models: tuple[str, ...] = ()
    unreachable_hint: str = ""
    unknown_model_hint: str = "[embedder] model = {model!r} is not one of its models"


PROMPTS: Mapping[str, tuple[str, str]] = {
    "nomic-embed-text": ("search_query: ", "search_document: "),
    "gemini-embedding-2": ("task: search result | query: ", "title: none | text: "),
    "embeddinggemma": ("task: search result | query: ", "title: none | text: "),
    "multilingual-e5": ("query: ", "passage: "),
    "mxbai-embed-large": ("Represent this sentence for searching relevant passages: ", ""),
}
"""prefixes for a query and for a stored text that the model's makers require, by a part of its name; models whose API
has a field for this are not listed"""


def prompts(model: str) -> tuple[str, str]:
    return next((pair for name, pair in PROMPTS.items() if name in model.lower()), ("", ""))
