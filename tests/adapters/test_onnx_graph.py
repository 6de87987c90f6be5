"""The rewritten graph of a model: fewer operations, the same numbers."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import numpy as np
import pytest

from adapters.embedders.encoder import MINILM
from adapters.onnx_graph import fused
from adapters.onnx_session import open_session
from fusion.local_models.files import find
from tests.small_onnx import FLOAT, INPUTS, INT64, attribute, encoder_onnx, model_onnx, node, tensor, value

SIZE, HEADS = 8, 2
ATTENTION = b"MultiHeadAttention"
NUMBERS = {"one": 1.0, "half": 0.5, "root": 2**0.5, "lowest": -1e4}
HEAD_FIRST, KEYS = attribute("perm", [0, 2, 1, 3]), attribute("perm", [0, 2, 3, 1])


def small_bert(*, gelu_halved_last: bool = True) -> bytes:
    """One attention and one GELU, in the operations that exporters write."""
    draw = np.random.default_rng(7)
    split, joined = np.array([0, 0, HEADS, SIZE // HEADS], np.int64), np.array([0, 0, SIZE], np.int64)
    constants = [
        tensor("table", draw.standard_normal((97, SIZE)).astype(np.float32)),
        tensor("rows", np.array(97, np.int64)),
        tensor("split", split),
        tensor("joined", joined),
        tensor("scale", np.array(np.sqrt(SIZE / HEADS), np.float32)),
        *(tensor(name, np.array(number, np.float32)) for name, number in NUMBERS.items()),
        *(tensor(name, draw.standard_normal((SIZE, SIZE)).astype(np.float32)) for name in ("wq", "wk", "wv")),
        tensor("middle", np.array([1, 2], np.int64)),
    ]
    nodes = [
        node("Mod", ["input_ids", "rows"], "row"),
        node("Gather", ["table", "row"], "own"),
        node("Unsqueeze", ["attention_mask", "middle"], "mask4"),
        node("Cast", ["mask4"], "kept", attribute("to", FLOAT)),
        node("Sub", ["one", "kept"], "padding"),
        node("Mul", ["padding", "lowest"], "barred"),
    ]
    for name, order in (("q", HEAD_FIRST), ("k", KEYS), ("v", HEAD_FIRST)):
        nodes += [
            node("MatMul", ["own", f"w{name}"], name),
            node("Reshape", [name, "split"], f"{name}4"),
            node("Transpose", [f"{name}4"], f"{name}h", order),
        ]
    nodes += [
        node("MatMul", ["qh", "kh"], "product"),
        node("Div", ["product", "scale"], "scaled"),
        node("Add", ["scaled", "barred"], "masked"),
        node("Softmax", ["masked"], "share"),
        node("MatMul", ["share", "vh"], "weighed"),
        node("Transpose", ["weighed"], "weighed4", HEAD_FIRST),
        node("Reshape", ["weighed4", "joined"], "read"),
        node("Div", ["read", "root"], "divided"),
        node("Erf", ["divided"], "erf"),
        node("Add", ["erf", "one"], "sum"),
        node("Mul", ["read" if gelu_halved_last else "half", "sum"], "first"),
        node("Mul", ["first", "half"] if gelu_halved_last else ["read", "first"], "last_hidden_state"),
    ]
    ids = [value(name, INT64, ["batch", "tokens"]) for name in INPUTS]
    return model_onnx(nodes, constants, ids, [value("last_hidden_state", FLOAT, ["batch", "tokens", SIZE])])


def states(model: bytes, lengths: list[int]) -> np.ndarray[Any, Any]:
    """What the model says of the tokens of some rows that are no padding, one after the other."""
    draw = np.random.default_rng(3)
    mask = (np.arange(max(lengths)) < np.array(lengths)[:, None]).astype(np.int64)
    ids = draw.integers(1, 20_000, mask.shape) * mask
    session = open_session(Path("small.onnx"), model)
    named = zip(INPUTS, (ids, mask, np.zeros_like(ids)), strict=True)
    asked = {one.name for one in session.get_inputs()}
    return np.asarray(session.run(None, {name: array for name, array in named if name in asked})[0][mask == 1])


@pytest.mark.parametrize("gelu_halved_last", [True, False])
def test_attention_and_gelu_become_one_operation_each_with_the_same_numbers(gelu_halved_last: bool) -> None:
    """Also for rows with padding, and whichever product of a GELU the exporter takes first."""
    plain = small_bert(gelu_halved_last=gelu_halved_last)
    new = fused(plain, HEADS)
    assert [new.count(name) for name in (ATTENTION, b"Gelu", b"Softmax", b"Erf")] == [1, 1, 0, 0]
    assert states(new, [5, 2, 1]) == pytest.approx(states(plain, [5, 2, 1]), abs=1e-6)


@pytest.mark.model
def test_all_attentions_of_the_default_model_become_one_operation_each() -> None:
    """Six layers; the states of its tokens are the same to the fifth digit, those of a padded row too."""
    plain = find(MINILM).read_bytes()
    new = fused(plain, MINILM.heads)
    assert [new.count(name) for name in (ATTENTION, b"Gelu", b"Softmax", b"Erf")] == [6, 6, 0, 0]
    assert states(new, [40, 12]) == pytest.approx(states(plain, [40, 12]), abs=1e-4)


@pytest.mark.parametrize("model", [encoder_onnx(), b"", b"no model at all", small_bert()[:500]])
def test_a_graph_without_a_known_attention_stays_as_it_is(model: bytes) -> None:
    assert fused(model, HEADS) == model
