"""The tokens of a question and a passage together, as a cross-encoder reads them.

``[CLS] question [SEP] passage [SEP]`` (R. Nogueira, K. Cho, "Passage Re-ranking with BERT", 2019). BERT's uncased
tokenizer is ours; any other needs the package ``tokenizers``. The name of a special token in a text is never that
token: a memory must not be able to end its passage.
"""

from __future__ import annotations

import json
from collections.abc import Mapping, Sequence
from importlib import import_module
from importlib.util import find_spec
from pathlib import Path
from typing import Any, NamedTuple, Protocol

from adapters.embedders.wordpiece import FIRST, LAST, UNKNOWN, WordPiece
from fusion.errors import ModelMissing

QUERY_TOKENS = 128
"""tokens of a question that are read; the rest of the window is the passage's"""
_CHARACTERS_A_TOKEN = 16
"""characters that are split for each token of the window; ordinary text has 4 to 5"""


class Pair(NamedTuple):
    """The tokens of a question and a passage; ``types`` is 0 for the question's and 1 for the passage's."""

    ids: list[int]
    types: list[int]


class PairTokenizer(Protocol):
    """Splits pairs into tokens. ``padding`` is the id of the token that fills shorter rows of a batch."""

    padding: int

    def pairs(self, query: str, passages: Sequence[str]) -> list[Pair]: ...


class WordPiecePairs:
    """BERT's uncased tokenizer. ``window`` is the most tokens of a pair, without the three special ones."""

    def __init__(self, vocabulary: Sequence[str], window: int) -> None:
        self._wordpiece = WordPiece(vocabulary)
        self._window = window
        self.padding = self._wordpiece.padding

    def pairs(self, query: str, passages: Sequence[str]) -> list[Pair]:
        asked = [self._wordpiece.first, *self._ids(query, QUERY_TOKENS), self._wordpiece.last]
        found = []
        for passage in passages:
            said = [*self._ids(passage, self._window + 2 - len(asked)), self._wordpiece.last]
            found.append(Pair(asked + said, [0] * len(asked) + [1] * len(said)))
        return found

    def _ids(self, text: str, most: int) -> list[int]:
        return [piece.id for piece in self._wordpiece.pieces(text[: most * _CHARACTERS_A_TOKEN], most)]


class LibraryPairs:
    """Any tokenizer that the package ``tokenizers`` can read. Raises what that package raises."""

    def __init__(self, file: Path, window: int) -> None:
        # Not a dependency of ours: it is used where somebody installed it.
        self._tokenizer = import_module("tokenizers").Tokenizer.from_file(str(file))
        self._tokenizer.no_padding()
        longest = window + self._tokenizer.num_special_tokens_to_add(True)
        self._tokenizer.enable_truncation(longest, strategy="only_second")
        self._special = [one.content for one in self._tokenizer.get_added_tokens_decoder().values() if one.special]
        self._characters = window * _CHARACTERS_A_TOKEN
        ids = (self._tokenizer.token_to_id(name) for name in ("[PAD]", "<pad>"))
        self.padding = next((one for one in ids if one is not None), 0)

    def pairs(self, query: str, passages: Sequence[str]) -> list[Pair]:
        query = self._first_tokens(self._plain(query[: QUERY_TOKENS * _CHARACTERS_A_TOKEN]))
        texts = [(query, self._plain(passage[: self._characters])) for passage in passages]
        return [Pair(one.ids, one.type_ids) for one in self._tokenizer.encode_batch(texts)]

    def _plain(self, text: str) -> str:
        """The text without the names of special tokens, which many tokenizers take for the tokens."""
        for name in self._special:
            text = text.replace(name, " ")
        return text

    def _first_tokens(self, query: str) -> str:
        offsets = self._tokenizer.encode(query, add_special_tokens=False).offsets
        return query if len(offsets) <= QUERY_TOKENS else query[: offsets[QUERY_TOKENS - 1][1]]


def read_tokenizer(file: Path, window: int) -> PairTokenizer:
    """The tokenizer of a ``tokenizer.json``. Raises ModelMissing, which says how to fix it."""
    try:
        form = json.loads(file.read_bytes())
    except OSError as error:
        raise ModelMissing(
            f"{file} cannot be read ({error.strerror}): put the model's tokenizer.json there, or name it in "
            "[judge] tokenizer"
        ) from error
    except ValueError:
        form = None
    if not isinstance(form, dict) or not isinstance(form.get("model"), dict):
        raise ModelMissing(f"{file} is no tokenizer: name the model's tokenizer.json in [judge] tokenizer")
    if (vocabulary := _uncased_vocabulary(form)) is not None:
        return WordPiecePairs(vocabulary, window)
    if find_spec("tokenizers") is None:
        raise ModelMissing(f"{file} is not BERT's uncased tokenizer and needs a package: pip install tokenizers")
    try:
        return LibraryPairs(file, window)
    except Exception as error:
        raise ModelMissing(
            f"the package tokenizers cannot use {file} ({error}): name the model's tokenizer.json in [judge] tokenizer"
        ) from error


def _uncased_vocabulary(form: Mapping[str, Any]) -> list[str] | None:
    """The vocabulary in the order of its ids, if this is BERT's uncased tokenizer; else None."""
    model, cleaning = form["model"], form.get("normalizer") or {}
    splitting, vocabulary = form.get("pre_tokenizer") or {}, model.get("vocab")
    uncased = (
        (model.get("type"), model.get("continuing_subword_prefix", "##")) == ("WordPiece", "##")
        and (cleaning.get("type"), splitting.get("type")) == ("BertNormalizer", "BertPreTokenizer")
        and cleaning.get("lowercase") is True
        and cleaning.get("strip_accents") is not False
    )
    if not uncased or not isinstance(vocabulary, dict) or not {UNKNOWN, FIRST, LAST, "[PAD]"} <= set(vocabulary):
        return None
    pieces = sorted(vocabulary, key=vocabulary.__getitem__)
    return pieces if [vocabulary[piece] for piece in pieces] == list(range(len(pieces))) else None
