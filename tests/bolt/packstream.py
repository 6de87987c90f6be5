"""PackStream, the encoding of Bolt, as far as a test's server needs it: values, and structures as (tag, *fields)."""

from __future__ import annotations

import struct
from dataclasses import dataclass
from typing import Any


@dataclass(frozen=True, slots=True)
class Structure:
    tag: int
    fields: tuple[Any, ...]


def pack(value: Any) -> bytes:  # one line a type
    match value:
        case None:
            return b"\xc0"
        case bool():
            return b"\xc3" if value else b"\xc2"
        case int():
            return b"\xcb" + struct.pack(">q", value)
        case float():
            return b"\xc1" + struct.pack(">d", value)
        case str():
            data = value.encode()
            return _head(0x80, 0xD2, len(data)) + data
        case list() | tuple():
            return _head(0x90, 0xD6, len(value)) + b"".join(map(pack, value))
        case dict():
            return _head(0xA0, 0xDA, len(value)) + b"".join(pack(key) + pack(item) for key, item in value.items())
        case Structure():
            return bytes([0xB0 | len(value.fields), value.tag]) + b"".join(map(pack, value.fields))
    raise TypeError(f"{type(value).__name__} cannot be packed")


def _head(tiny: int, long: int, size: int) -> bytes:
    return bytes([tiny | size]) if size < 16 else bytes([long]) + struct.pack(">I", size)


def unpack(data: bytes) -> Any:
    return _Reader(data).value()


class _Reader:
    def __init__(self, data: bytes) -> None:
        self._data, self._at = data, 0

    def value(self) -> Any:
        marker = self._take(1)[0]
        if marker < 0x80 or marker >= 0xF0:
            return marker if marker < 0x80 else marker - 0x100
        if marker in _PLAIN:
            return _PLAIN[marker]
        if marker in _NUMBERS:
            layout = _NUMBERS[marker]
            return struct.unpack(layout, self._take(struct.calcsize(layout)))[0]
        if marker in _SIZES:
            kind, layout = _SIZES[marker]
            size = struct.unpack(layout, self._take(struct.calcsize(layout)))[0]
        else:
            kind, size = marker & 0xF0, marker & 0x0F
        match kind:
            case 0x80:
                return self._take(size).decode()
            case 0x90:
                return [self.value() for _ in range(size)]
            case 0xA0:
                return {self.value(): self.value() for _ in range(size)}
            case 0xB0:
                tag = self._take(1)[0]
                return Structure(tag, tuple(self.value() for _ in range(size)))
            case _:
                return self._take(size)

    def _take(self, size: int) -> bytes:
        self._at += size
        return self._data[self._at - size : self._at]


_PLAIN = {0xC0: None, 0xC2: False, 0xC3: True}
_NUMBERS = {0xC1: ">d", 0xC8: ">b", 0xC9: ">h", 0xCA: ">i", 0xCB: ">q"}
_SIZES = {
    0xCC: (0, ">B"), 0xCD: (0, ">H"), 0xCE: (0, ">I"),
    0xD0: (0x80, ">B"), 0xD1: (0x80, ">H"), 0xD2: (0x80, ">I"),
    0xD4: (0x90, ">B"), 0xD5: (0x90, ">H"), 0xD6: (0x90, ">I"),
    0xD8: (0xA0, ">B"), 0xD9: (0xA0, ">H"), 0xDA: (0xA0, ">I"),
}  # fmt: skip
