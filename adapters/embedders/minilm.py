"""The local embedder under the name that settings have for it: ``adapters.embedders.minilm:MiniLM``."""

from __future__ import annotations

from adapters.embedders.local import LocalEmbedder

MiniLM = LocalEmbedder
