"""Rewrites the graph of a BERT so that ONNX Runtime computes each attention, and each GELU, as one operation.

Exporters write an attention as some thirty operations, each of which makes a tensor for the next one. ONNX Runtime has
`MultiHeadAttention` and `Gelu` for them, and joins few of the patterns by itself. They give the same vectors, but for
the last digits of a float.

A model is a message of protocol buffers (https://protobuf.dev/programming-guides/encoding). Of it the nodes are read
and written, and all else, the weights above all, is copied.
"""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Iterable, Iterator, Mapping, Sequence
from typing import NamedTuple

_MODEL_GRAPH, _MODEL_OPSET = 7, 8
_GRAPH_NODE, _GRAPH_OUTPUT = 1, 12
_NODE_INPUT, _NODE_OUTPUT, _NODE_OPERATION, _NODE_ATTRIBUTE, _NODE_DOMAIN = 1, 2, 4, 5, 7
_ATTRIBUTE_NAME, _ATTRIBUTE_INT, _ATTRIBUTE_TYPE = 1, 3, 20
_NAME, _VERSION = 1, 2
_INT, _INT32 = 2, 6
"""the type of an attribute, and of a tensor's elements"""
_CONTRIB = "com.microsoft"
"""the domain of ONNX Runtime's own operations"""
_MASK, _MASK_INT32 = "attention_mask", "attention_mask as int32"

_OF_HEADS = frozenset({"Reshape", "Transpose", "Mul", "Div"})
"""operations between a projection and the product of queries and keys"""


class _Field(NamedTuple):
    """A field of a message. ``value`` is a number or bytes; ``whole`` is the field as it is written."""

    number: int
    value: int | memoryview
    whole: memoryview


class _Node(NamedTuple):
    """An operation of a graph; ``whole`` is its field in the graph."""

    operation: str
    inputs: Sequence[str]
    outputs: Sequence[str]
    whole: memoryview | bytes


def fused(model: bytes, heads: int) -> bytes:
    """The model with its attentions, of ``heads`` heads each, and its GELUs as one operation each.

    ``model`` itself, if it has no attention of the known pattern, or if it is no model: ONNX Runtime says why.
    """
    try:
        return _fused(model, heads)
    except (IndexError, KeyError, TypeError, ValueError):
        return model


def _fused(model: bytes, heads: int) -> bytes:
    fields = [*_fields(memoryview(model))]
    graph = [part for field in fields if field.number == _MODEL_GRAPH for part in _fields(_bytes(field))]
    nodes = [_node(field) for field in graph if field.number == _GRAPH_NODE]
    attentions = _attentions(nodes, heads)
    if not attentions:
        return model
    instead = attentions | _gelus(nodes)
    mask = _operation("Cast", [_MASK], _MASK_INT32, {"to": _INT32})
    nodes = [mask, *(instead.get(node.outputs[0], node) for node in nodes)]
    needed = _needed(nodes, [_text(field, _NAME) for field in graph if field.number == _GRAPH_OUTPUT])
    rest = [field.whole for field in graph if field.number != _GRAPH_NODE]
    new = _message(_MODEL_GRAPH, b"".join([*(node.whole for node in needed), *rest]))
    kept = [field for field in fields if field.number != _MODEL_GRAPH]
    if not any(field.number == _MODEL_OPSET and _text(field, _NAME) == _CONTRIB for field in kept):
        new += _message(_MODEL_OPSET, _message(_NAME, _CONTRIB.encode()) + _number(_VERSION, 1))
    return b"".join([*(field.whole for field in kept), new])


def _attentions(nodes: Sequence[_Node], heads: int) -> dict[str, _Node]:
    """By the output that each replaces, an attention for every softmax with the operations of one around it."""
    made_by = {output: node for node in nodes for output in node.outputs}
    readers = _readers(nodes)
    found: dict[str, _Node] = {}
    for softmax in (node for node in nodes if node.operation == "Softmax"):
        masked = made_by.get(softmax.inputs[0])
        product = _source(masked.inputs[0], made_by, {"Div", "Mul"}) if masked and masked.operation == "Add" else None
        weighed = _next(_skip_where(softmax, readers), "MatMul", readers)
        joined = _next(_next(weighed, "Transpose", readers), "Reshape", readers)
        if product is None or product.operation != "MatMul" or weighed is None or joined is None:
            continue
        projections = [_source(name, made_by, _OF_HEADS) for name in (*product.inputs, weighed.inputs[1])]
        names = [node.outputs[0] for node in projections if node is not None]
        if len(names) == len(projections):
            output = joined.outputs[0]
            found[output] = _operation(
                "MultiHeadAttention", [*names, "", _MASK_INT32], output, {"num_heads": heads}, _CONTRIB
            )
    return found


def _gelus(nodes: Sequence[_Node]) -> dict[str, _Node]:
    """By the output that each replaces, a GELU: x · (1 + erf(x / √2)) / 2, whichever product is taken first."""
    made_by = {output: node for node in nodes for output in node.outputs}
    readers = _readers(nodes)
    found: dict[str, _Node] = {}
    for erf in (node for node in nodes if node.operation == "Erf"):
        divided = made_by.get(erf.inputs[0])
        first = _next(_next(erf, "Add", readers), "Mul", readers)
        last = _next(first, "Mul", readers)
        if divided is None or divided.operation != "Div" or first is None or last is None:
            continue
        if divided.inputs[0] in (*first.inputs, *last.inputs):
            output = last.outputs[0]
            found[output] = _operation("Gelu", [divided.inputs[0]], output, {}, _CONTRIB)
    return found


def _readers(nodes: Sequence[_Node]) -> Mapping[str, Sequence[_Node]]:
    """The nodes that read each tensor."""
    found: dict[str, list[_Node]] = defaultdict(list)
    for node in nodes:
        for name in node.inputs:
            found[name].append(node)
    return found


def _source(name: str, made_by: Mapping[str, _Node], through: Iterable[str]) -> _Node | None:
    """The node that makes a tensor, before the operations of ``through``; None if it is no node's output."""
    node = made_by.get(name)
    while node is not None and node.operation in through:
        node = made_by.get(node.inputs[0])
    return node


def _next(node: _Node | None, operation: str, readers: Mapping[str, Sequence[_Node]]) -> _Node | None:
    """The node of this operation that reads what ``node`` makes."""
    if node is None:
        return None
    return next((one for one in readers.get(node.outputs[0], ()) if one.operation == operation), None)


def _skip_where(softmax: _Node, readers: Mapping[str, Sequence[_Node]]) -> _Node:
    """The softmax, or what replaces its NaNs: rows of padding alone, which nobody reads."""
    return _next(softmax, "Where", readers) or softmax


def _needed(nodes: Sequence[_Node], outputs: Iterable[str]) -> list[_Node]:
    """The nodes that lead to these outputs, in their order."""
    read = set(outputs)
    found = []
    for node in reversed(nodes):
        if not read.isdisjoint(node.outputs):
            found.append(node)
            read.update(node.inputs)
    return found[::-1]


def _node(field: _Field) -> _Node:
    parts = [*_fields(_bytes(field))]
    names = {
        kind: [str(_bytes(part), "utf-8") for part in parts if part.number == kind]
        for kind in (_NODE_INPUT, _NODE_OUTPUT, _NODE_OPERATION)
    }
    return _Node(names[_NODE_OPERATION][0], names[_NODE_INPUT], names[_NODE_OUTPUT], field.whole)


def _operation(
    operation: str, inputs: Sequence[str], output: str, numbers: Mapping[str, int], domain: str = ""
) -> _Node:
    """A new node with one output and these attributes."""
    body = b"".join(_message(_NODE_INPUT, name.encode()) for name in inputs)
    body += _message(_NODE_OUTPUT, output.encode()) + _message(_NODE_OPERATION, operation.encode())
    for name, number in numbers.items():
        attribute = _message(_ATTRIBUTE_NAME, name.encode()) + _number(_ATTRIBUTE_INT, number)
        body += _message(_NODE_ATTRIBUTE, attribute + _number(_ATTRIBUTE_TYPE, _INT))
    if domain:
        body += _message(_NODE_DOMAIN, domain.encode())
    return _Node(operation, inputs, [output], _message(_GRAPH_NODE, body))


def _text(field: _Field, number: int) -> str:
    """A text in the message of a field; empty without one."""
    parts = _fields(_bytes(field))
    return next((str(_bytes(part), "utf-8") for part in parts if part.number == number), "")


def _bytes(field: _Field) -> memoryview:
    if isinstance(field.value, int):
        raise TypeError(f"field {field.number} is a number, where a message has bytes")
    return field.value


_FIXED = {1: 8, 5: 4}
"""bytes of a value by the type that is written with its field"""


def _fields(message: memoryview) -> Iterator[_Field]:
    """The fields of a message, in their order."""
    at = 0
    while at < len(message):
        begin = at
        key, at = _varint(message, at)
        kind = key & 7
        if kind == 0:
            value, at = _varint(message, at)
            yield _Field(key >> 3, value, message[begin:at])
            continue
        size, at = (_FIXED[kind], at) if kind in _FIXED else _varint(message, at)
        yield _Field(key >> 3, message[at : at + size], message[begin : at + size])
        at += size


def _varint(message: memoryview, at: int) -> tuple[int, int]:
    """A number of seven bits a byte, the lowest first, and where it ends."""
    number = shift = 0
    while True:
        byte = message[at]
        at += 1
        number |= (byte & 127) << shift
        if byte < 128:
            return number, at
        shift += 7


def _written(number: int) -> bytes:
    out = bytearray()
    while number > 127:
        out.append(number & 127 | 128)
        number >>= 7
    return bytes([*out, number])


def _number(field: int, number: int) -> bytes:
    return _written(field << 3) + _written(number)


def _message(field: int, body: bytes) -> bytes:
    return _written(field << 3 | 2) + _written(len(body)) + body
