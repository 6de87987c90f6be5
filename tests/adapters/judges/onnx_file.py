"""Small ONNX models for a judge: a cross-encoder that counts shared words, and one that is none."""

from __future__ import annotations

from hashlib import sha256
from pathlib import Path

import numpy as np

from tests.small_onnx import FLOAT, INPUTS, INT64, attribute, model_onnx, node, tensor, value, written


def cross_encoder(path: Path, *, columns: int = 1) -> Path:
    """Its logit is the number of equal tokens of the question and the passage, less 2.5.

    The two ``[SEP]`` count as one of them. It uses all three inputs; with more ``columns`` the number is repeated.
    """
    nodes = [
        node("Cast", ["attention_mask"], "mask", attribute("to", FLOAT)),
        node("Cast", ["token_type_ids"], "said", attribute("to", FLOAT)),
        node("Mul", ["said", "mask"], "of_passage"),
        node("Sub", ["mask", "of_passage"], "of_query"),
        node("Unsqueeze", ["input_ids", "last"], "down"),
        node("Unsqueeze", ["input_ids", "middle"], "across"),
        node("Equal", ["down", "across"], "same"),
        node("Cast", ["same"], "equal", attribute("to", FLOAT)),
        node("Unsqueeze", ["of_query", "last"], "query_down"),
        node("Unsqueeze", ["of_passage", "middle"], "passage_across"),
        node("Mul", ["equal", "query_down"], "asked"),
        node("Mul", ["asked", "passage_across"], "shared"),
        node("ReduceSum", ["shared", "both"], "sums", attribute("keepdims", 0)),
        node("Sub", ["sums", "bias"], "biased"),
        node("Unsqueeze", ["biased", "middle"], "column"),
        node("Concat", ["column"] * columns, "logits", attribute("axis", 1)),
    ]
    constants = [
        tensor("last", np.array([2], np.int64)),
        tensor("middle", np.array([1], np.int64)),
        tensor("both", np.array([1, 2], np.int64)),
        tensor("bias", np.array([2.5], np.float32)),
    ]
    inputs = [value(name, INT64, ["pairs", "tokens"]) for name in INPUTS]
    return written(path, model_onnx(nodes, constants, inputs, [value("logits", FLOAT, ["pairs", columns])]))


def hash_of(path: Path) -> str:
    return sha256(path.read_bytes()).hexdigest()
