"""Ollama on this machine or another: https://docs.ollama.com/api/embed."""

from __future__ import annotations

from collections.abc import Sequence
from functools import partial
from typing import Any

from adapters.embedders.provider_spec import ProviderSpec, openai_body


def _path(model: str) -> str:
    return "/api/embed"


def _vectors(reply: Any) -> Sequence[Any]:
    vectors: Sequence[Any] = reply["embeddings"]
    return vectors


OLLAMA = ProviderSpec(
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
    max_text_tokens=2048,
    path=_path,
    body=partial(openai_body, truncate=True),
    vectors=_vectors,
    unreachable_hint="ollama serve",
    unknown_model_hint="ollama pull {model}",
)
