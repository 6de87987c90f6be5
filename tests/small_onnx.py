"""Makes small ONNX models, in the form of those that the registry names: ids of tokens in, a state of each token out.

The models are written as the bytes of their protobuf messages (onnx.proto3), for which no package is needed.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import replace
from hashlib import sha256
from pathlib import Path

import numpy as np

from fusion.local_models.registry import DEFAULT, MODELS, LocalModel, Sources

INT64, FLOAT = 7, 1
INPUTS = ("input_ids", "attention_mask", "token_type_ids")
_ROWS = 97
"""different vectors of tokens: a token's is that of its id modulo this prime"""


def encoder_onnx(dimensions: int = 384, seed: int = 1, *, crowded: bool = False) -> bytes:
    """A model whose state of a token is its own random vector plus half of the mean vector of the text.

    So every state, the first one's too, knows the text, and padding changes nothing. ``crowded``: the mean is that of
    all texts of a run, so that they change each other's vectors.
    """
    table = np.random.default_rng(seed).standard_normal((_ROWS, dimensions)).astype(np.float32)
    nodes = [
        node("Mod", ["input_ids", "rows"], "row"),
        node("Gather", ["table", "row"], "own"),
        node("Cast", ["attention_mask"], "mask", attribute("to", FLOAT)),
        node("Unsqueeze", ["mask", "last"], "mask3"),
        node("Mul", ["own", "mask3"], "kept"),
        node("ReduceSum", ["kept", "middle"], "sum", attribute("keepdims", 1)),
        node("ReduceSum", ["mask3", "middle"], "count", attribute("keepdims", 1)),
        node("Div", ["sum", "count"], "mean"),
        node("Mul", ["mean", "half"], "context"),
        node("Add", ["own", "context"], "last_hidden_state"),
    ]
    constants = [
        tensor("table", table),
        tensor("rows", np.array(_ROWS, np.int64)),
        tensor("last", np.array([2], np.int64)),
        tensor("middle", np.array([0, 1] if crowded else [1], np.int64)),
        tensor("half", np.array(0.5, np.float32)),
    ]
    ids = [value(name, INT64, ["batch", "tokens"]) for name in INPUTS]
    return model_onnx(nodes, constants, ids, [value("last_hidden_state", FLOAT, ["batch", "tokens", dimensions])])


def small_model(content: bytes, name: str = "small", **changes: object) -> LocalModel:
    """An entry of the registry for a model's bytes, which the hub or Maven could have."""
    jar, hub = f"org.example:{name}:1", f"example/{name}"
    sources = Sources(jar=jar, jar_file=f"{name}.onnx", hub=hub, hub_file="model.onnx")
    about = {"name": name, "title": name, "sources": sources, "sha256": sha256(content).hexdigest()}
    return replace(MODELS[DEFAULT], **{**about, "bytes": len(content), **changes})  # type: ignore[arg-type]


def written(path: Path, content: bytes) -> Path:
    path.parent.mkdir(parents=True, exist_ok=True)
    path.write_bytes(content)
    return path


# Messages of onnx.proto3; the numbers are those of their fields ------------------------------------------------------


def model_onnx(
    nodes: Sequence[bytes], constants: Sequence[bytes], inputs: Sequence[bytes], outputs: Sequence[bytes]
) -> bytes:
    """A ModelProto of IR version 8, with operators of version 17."""
    graph = b"".join(_field(1, node) for node in nodes) + _field(2, b"graph")
    graph += b"".join(_field(5, one) for one in constants)
    graph += b"".join(_field(11, one) for one in inputs) + b"".join(_field(12, one) for one in outputs)
    operators = _field(1, b"") + _number(2, 17)
    return _number(1, 8) + _field(7, graph) + _field(8, operators)


def node(kind: str, inputs: Sequence[str], output: str, *attributes: bytes) -> bytes:
    named = b"".join(_field(1, name.encode()) for name in inputs) + _field(2, output.encode())
    return named + _field(4, kind.encode()) + b"".join(_field(5, one) for one in attributes)


def attribute(name: str, value: int | Sequence[int]) -> bytes:
    """A number or a list of numbers."""
    if isinstance(value, int):
        return _field(1, name.encode()) + _number(3, value) + _number(20, 2)
    return _field(1, name.encode()) + b"".join(_number(8, one) for one in value) + _number(20, 7)


def tensor(name: str, values: np.ndarray) -> bytes:
    sizes = b"".join(_number(1, size) for size in values.shape)
    kind = INT64 if values.dtype == np.int64 else FLOAT
    return sizes + _number(2, kind) + _field(8, name.encode()) + _field(9, values.tobytes())


def value(name: str, kind: int, shape: Sequence[str | int]) -> bytes:
    sizes = [_field(2, one.encode()) if isinstance(one, str) else _number(1, one) for one in shape]
    dimensions = b"".join(_field(1, size) for size in sizes)
    return _field(1, name.encode()) + _field(2, _field(1, _number(1, kind) + _field(2, dimensions)))


def _number(field: int, value: int) -> bytes:
    return _varint(field << 3) + _varint(value)


def _field(field: int, content: bytes) -> bytes:
    return _varint(field << 3 | 2) + _varint(len(content)) + content


def _varint(value: int) -> bytes:
    found = bytearray()
    while value > 0x7F:
        found.append(value & 0x7F | 0x80)
        value >>= 7
    return bytes([*found, value])
