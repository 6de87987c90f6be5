"""Small ``tokenizer.json`` files: BERT's uncased form, and one that only the package ``tokenizers`` reads."""

from __future__ import annotations

import json
from collections.abc import Iterable
from pathlib import Path
from typing import Any

SPECIAL = ("[PAD]", "[UNK]", "[CLS]", "[SEP]")


def uncased(path: Path, words: Iterable[str], **changes: Any) -> Path:
    """BERT's uncased tokenizer with these words; ``changes`` replace parts of the normalizer."""
    vocabulary = {word: number for number, word in enumerate((*SPECIAL, *words))}
    form = {
        "normalizer": {"type": "BertNormalizer", "lowercase": True, "strip_accents": None, **changes},
        "pre_tokenizer": {"type": "BertPreTokenizer"},
        "model": {"type": "WordPiece", "continuing_subword_prefix": "##", "unk_token": "[UNK]", "vocab": vocabulary},
    }
    path.write_text(json.dumps(form))
    return path


def word_level(path: Path, words: Iterable[str]) -> Path:
    """A tokenizer of whole words, with ``<s>`` and ``</s>`` around and between, as XLM-RoBERTa has them."""
    special = ("<s>", "<pad>", "</s>", "<unk>")
    vocabulary = {word: number for number, word in enumerate((*special, *words))}

    def piece(name: str, part: str = "SpecialToken", type_id: int = 0) -> dict[str, Any]:
        return {part: {"id": name, "type_id": type_id}}

    form = {
        "version": "1.0",
        "truncation": None,
        "padding": None,
        "added_tokens": [
            {
                "id": number,
                "content": name,
                "single_word": False,
                "lstrip": False,
                "rstrip": False,
                "normalized": False,
                "special": True,
            }
            for number, name in enumerate(special)
        ],
        "normalizer": None,
        "pre_tokenizer": {"type": "WhitespaceSplit"},
        "post_processor": {
            "type": "TemplateProcessing",
            "single": [piece("<s>"), piece("A", "Sequence"), piece("</s>")],
            "pair": [
                piece("<s>"),
                piece("A", "Sequence"),
                piece("</s>"),
                piece("</s>"),
                piece("B", "Sequence", 1),
                piece("</s>", type_id=1),
            ],
            "special_tokens": {
                name: {"id": name, "ids": [number], "tokens": [name]} for number, name in enumerate(special)
            },
        },
        "decoder": None,
        "model": {"type": "WordLevel", "vocab": vocabulary, "unk_token": "<unk>"},
    }
    path.write_text(json.dumps(form))
    return path
