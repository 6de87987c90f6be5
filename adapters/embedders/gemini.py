"""Google's Gemini API: https://ai.google.dev/api/embeddings. A request is a list of requests, one a text.

``gemini-embedding-001`` gets the purpose of a text in ``taskType``, ``gemini-embedding-2`` in a prompt before it. The
latter also takes pictures and recordings, in the body of the request, at most 20 MB.
"""

from __future__ import annotations

from base64 import b64encode
from collections.abc import Mapping, Sequence
from typing import Any

from adapters.embedders.provider_spec import EmbedRequest, ProviderSpec


def _path(model: str) -> str:
    return f"/models/{model}:batchEmbedContents"


def _headers(key: str) -> Mapping[str, str]:
    return {"x-goog-api-key": key}


def _body(request: EmbedRequest) -> dict[str, object]:
    common: dict[str, object] = {"model": f"models/{request.model}"}
    if request.model.startswith("gemini-embedding-001"):
        common["taskType"] = "RETRIEVAL_QUERY" if request.query else "RETRIEVAL_DOCUMENT"
    if request.dimensions is not None:
        common["outputDimensionality"] = request.dimensions
    return {"requests": [{**common, "content": {"parts": [{"text": text}]}} for text in request.texts]}


def _media(model: str, mime: str, data: bytes, dimensions: int | None) -> dict[str, object]:
    part = {"inlineData": {"mimeType": mime, "data": b64encode(data).decode()}}
    request: dict[str, object] = {"model": f"models/{model}", "content": {"parts": [part]}}
    if dimensions is not None:
        request["outputDimensionality"] = dimensions
    return {"requests": [request]}


def _vectors(reply: Any) -> Sequence[Any]:
    return [one["values"] for one in reply["embeddings"]]


GEMINI = ProviderSpec(
    name="gemini",
    url="https://generativelanguage.googleapis.com/v1beta",
    key_env="GEMINI_API_KEY",
    model="gemini-embedding-001",
    dimensions={"gemini-embedding-001": 3072, "gemini-embedding-2": 3072, "gemini-embedding-2-preview": 3072},
    most_texts=100,
    most_tokens=100_000,
    max_text_tokens=2048,
    path=_path,
    headers=_headers,
    body=_body,
    vectors=_vectors,
    media=_media,
    media_models=("gemini-embedding-2",),
)
