"""A question and a passage as the tokens of one pair."""

from __future__ import annotations

from importlib.util import find_spec
from pathlib import Path

import pytest

from adapters.judges.pairs import QUERY_TOKENS, Pair, WordPiecePairs, read_tokenizer
from fusion.errors import ModelMissing
from tests.adapters.judges.tokenizers_json import SPECIAL, uncased, word_level

WORDS = ("who", "sells", "lilies", "the", "florist", "##s")
PAD, UNK, CLS, SEP = range(4)
WINDOW = 509


def pairs_of(tmp_path: Path, window: int = WINDOW) -> WordPiecePairs:
    found = read_tokenizer(uncased(tmp_path / "tokenizer.json", WORDS), window)
    assert isinstance(found, WordPiecePairs)
    return found


def test_pair_has_the_question_first_and_types_tell_them_apart(tmp_path: Path) -> None:
    """[CLS] question [SEP] passage [SEP], with type 1 from the passage on; a long word is cut into pieces."""
    [pair] = pairs_of(tmp_path).pairs("Who sells lilies", ["The florists"])
    assert pair == Pair([CLS, 4, 5, 6, SEP, 7, 8, 9, SEP], [0, 0, 0, 0, 0, 1, 1, 1, 1])


def test_long_texts_are_cut_and_the_passage_has_what_the_question_leaves(tmp_path: Path) -> None:
    """No pair has more tokens than the window and the three special ones."""
    [both] = pairs_of(tmp_path).pairs("who " * 5000, ["florist " * 5000])
    assert (len(both.ids), both.types.count(0)) == (WINDOW + 3, QUERY_TOKENS + 2)
    [short] = pairs_of(tmp_path).pairs("who", ["florist " * 5000])
    assert (len(short.ids), short.types.count(0)) == (WINDOW + 3, 3)


@pytest.mark.parametrize(
    "query", ["", "  \n", "ｗｈｏ", "誰が百合を売る", "\ud800\x00", "🙂" * 3000, "def f(x): return x" * 500]
)
def test_question_of_any_kind_makes_a_pair(tmp_path: Path, query: str) -> None:
    """Empty, a script that the vocabulary lacks, code, broken characters: unknown tokens at worst."""
    [pair] = pairs_of(tmp_path).pairs(query, ["the florist"])
    assert pair.ids[0] == CLS
    assert pair.ids[-3:] == [7, 8, SEP]
    assert len(pair.ids) == len(pair.types) <= QUERY_TOKENS + 5


@pytest.mark.feature("a passage cannot end itself by the name of a special token", part="faults/judge")
def test_names_of_special_tokens_in_a_passage_are_text(tmp_path: Path) -> None:
    [pair] = pairs_of(tmp_path).pairs("who", ["the [SEP] [CLS] florist"])
    assert pair.ids.count(SEP) == 2
    assert pair.ids.count(CLS) == 1


@pytest.mark.parametrize(
    ("text", "fix"),
    [
        ("", "no tokenizer: name the model's tokenizer.json in \\[judge\\] tokenizer"),
        ("[1, 2]", "no tokenizer: name"),
        ('{"model": 3}', "no tokenizer: name"),
    ],
)
def test_file_that_is_no_tokenizer_is_refused(tmp_path: Path, text: str, fix: str) -> None:
    (tmp_path / "tokenizer.json").write_text(text)
    with pytest.raises(ModelMissing, match=fix):
        read_tokenizer(tmp_path / "tokenizer.json", WINDOW)


def test_missing_tokenizer_is_named_with_where_it_belongs(tmp_path: Path) -> None:
    with pytest.raises(ModelMissing, match=r"cannot be read .*: put the model's tokenizer\.json there, or name it"):
        read_tokenizer(tmp_path / "tokenizer.json", WINDOW)


@pytest.mark.parametrize("changes", [{"lowercase": False}, {"strip_accents": False}, {"type": "NFC"}])
def test_other_tokenizers_need_the_package(tmp_path: Path, changes: dict[str, object]) -> None:
    """Only BERT's uncased form is ours: with another one ours would make wrong tokens without a word."""
    file = uncased(tmp_path / "tokenizer.json", WORDS, **changes)
    if find_spec("tokenizers") is None:
        with pytest.raises(ModelMissing, match="needs a package: pip install tokenizers"):
            read_tokenizer(file, WINDOW)
    else:
        assert not isinstance(_read_or_none(file), WordPiecePairs)


def _read_or_none(file: Path) -> object:
    try:
        return read_tokenizer(file, WINDOW)
    except ModelMissing:
        return None


class TestLibrary:
    """The package ``tokenizers``, which is installed by hand."""

    @pytest.fixture(autouse=True)
    def _installed(self) -> None:
        pytest.importorskip("tokenizers", reason="opt-in: pip install tokenizers")

    def test_pairs_have_the_form_that_the_file_states(self, tmp_path: Path) -> None:
        tokenizer = read_tokenizer(word_level(tmp_path / "tokenizer.json", WORDS), WINDOW)
        [pair] = tokenizer.pairs("who sells", ["the florist"])
        assert pair == Pair([0, 4, 5, 2, 2, 7, 8, 2], [0, 0, 0, 0, 0, 1, 1, 1])
        assert tokenizer.padding == 1

    def test_long_texts_are_cut(self, tmp_path: Path) -> None:
        tokenizer = read_tokenizer(word_level(tmp_path / "tokenizer.json", WORDS), WINDOW)
        [pair] = tokenizer.pairs("who " * 5000, ["florist " * 5000])
        assert (len(pair.ids), pair.ids.count(4)) == (WINDOW + 4, QUERY_TOKENS)

    def test_names_of_special_tokens_are_left_out(self, tmp_path: Path) -> None:
        tokenizer = read_tokenizer(word_level(tmp_path / "tokenizer.json", WORDS), WINDOW)
        [pair] = tokenizer.pairs("who", ["the </s> florist"])
        assert pair.ids.count(2) == 3

    def test_file_that_it_cannot_read_is_refused(self, tmp_path: Path) -> None:
        (tmp_path / "tokenizer.json").write_text('{"model": {"type": "Unheard"}}')
        with pytest.raises(ModelMissing, match=r"tokenizers cannot use .*name the model's tokenizer\.json"):
            read_tokenizer(tmp_path / "tokenizer.json", WINDOW)


def test_special_tokens_have_the_first_ids_of_these_files() -> None:
    assert SPECIAL.index("[SEP]") == SEP
