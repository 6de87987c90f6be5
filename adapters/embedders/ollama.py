"""Ollama on this machine or another: https://docs.ollama.com/api/embed."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

from adapters.embedders.api import Api, Ask


def _path(model: str) -> str:
    return "/api/embed"


def _body(ask: Ask) -> dict[str, object]:
    body: dict[str, object] = {"model": ask.model, "input": list(ask.texts), "truncate": True}
    return body if ask.dimensions is None else {**body, "dimensions": ask.dimensions}


def _vectors(reply: Any) -> Sequence[Any]:
    vectors: Sequence[Any] = reply["embeddings"]
    return vectors


OLLAMA = Api(
    name="ollama",
    url="http://127.0.0.1:11434",
    model="nomic-embed-text",
    dimensions={
        "nomic-embed-text": 768,
        "nomic-embed-text:latest": 768,
        "embeddinggemma": 768,
        "mxbai-embed-large": 1024,
        "all-minilm": 384,
        "bge-m3": 1024,
    },
    most_texts=64,
    longest=2048,
    path=_path,
    body=_body,
    vectors=_vectors,
    down="ollama serve",
    missing="ollama pull {model}",
)
