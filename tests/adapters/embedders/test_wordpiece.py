"""The tokeniser against expectations from BERT's own documentation and from the reference tokeniser."""

from __future__ import annotations

import pytest
from hypothesis import given
from hypothesis import strategies as st

from adapters.embedders.encoder import VOCABULARY
from adapters.embedders.wordpiece import WordPiece

WORDPIECE = WordPiece(VOCABULARY.read_text("utf-8").splitlines())


def pieces(text: str) -> list[str]:
    return [piece.text for piece in WORDPIECE.pieces(text, 10_000)]


@pytest.mark.parametrize(
    ("text", "expected"),
    [
        ("unaffable", "una ##ffa ##ble"),
        ("embeddings", "em ##bed ##ding ##s"),
        ("Hello, World!", "hello , world !"),
        ("don't user_id 3.14 $5", "don ' t user _ id 3 . 14 $ 5"),
        ("naïve ÀÉÎ café", "naive ae ##i cafe"),
        ("cafe\u0301", "cafe"),
        ("İstanbul ΣΊΣΥΦΟΣ", "istanbul σ ##ι ##σ ##υ ##φ ##ο ##σ"),
        ("東京is美しい", "東 京 is 美 し ##い"),
        ("한국", "ᄒ ##ᅡ ##ᆫ ##ᄀ ##ᅮ ##ᆨ"),
        ("a≠b", "a = b"),
        ("zero\u200bwidth so\u00adft\x00\ufffd\ud800", "zero ##wi ##dt ##h soft"),
        ("tab\tline\nbreak\u3000wide", "tab line break wide"),
        ("🙂 hi", "[UNK] hi"),
        ("x" * 101 + " ok", "[UNK] ok"),
        ("", ""),
        (" \n\t ", ""),
    ],
)
def test_known_texts_are_cut_as_bert_cuts_them(text: str, expected: str) -> None:
    """Lower case, no accents, ideographs and punctuation alone, then the longest piece that the vocabulary has."""
    assert pieces(text) == expected.split()


def test_special_tokens_in_a_text_are_text() -> None:
    """A memory with the text "[SEP]" does not end its sentence."""
    assert pieces("[SEP] [CLS]") == ["[", "sep", "]", "[", "cl", "##s", "]"]


def test_each_piece_knows_the_word_it_is_part_of() -> None:
    """The words are in lower case with their accents, because document frequencies are kept by word."""
    found = WORDPIECE.pieces("Unaffable Café!", 10)
    assert [(p.text, p.word) for p in found] == [
        ("una", "unaffable"),
        ("##ffa", "unaffable"),
        ("##ble", "unaffable"),
        ("cafe", "café"),
        ("!", "!"),
    ]


def test_no_more_pieces_than_asked_for() -> None:
    """A limit in the middle of a word cuts there."""
    assert [p.text for p in WORDPIECE.pieces("unaffable unaffable", 4)] == ["una", "##ffa", "##ble", "una"]


@given(st.text(alphabet=st.characters(), max_size=200))
def test_any_text_is_cut_into_pieces_of_the_vocabulary(text: str) -> None:
    """Whatever the characters, ids are in range and cutting the same text again gives the same."""
    found = WORDPIECE.pieces(text, 10_000)
    assert all(0 <= piece.id < 30_522 for piece in found)
    assert found == WORDPIECE.pieces(text, 10_000)
