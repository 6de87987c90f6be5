"""The ids of openclaw-mem's records. Its clients print an integer or ``obs:`` with it, and send back what they printed.

The integer of a memory is its sequence number in the journal. A memory that only an external system has gets one from
its ref, above all sequence numbers. Both are exact in JSON, and both lead back to the ref.
"""

from __future__ import annotations

from fusion.errors import BadInput
from fusion.lib.ids import parse_short_ref, short_ref
from fusion.lib.listing import RECORD

EXTERNAL = 1 << 50
"""least id of a memory of an external system, whose ref has ten digits of 5 bits"""
_DIGITS = "abcdefghijklmnopqrstuvwxyz234567"
_EXTERNAL_DIGITS = 10
_MAX_DECIMALS = 16


def record_id(ref: str) -> int | None:
    """The integer of a memory's ref; None for a ref of something else, such as a turn of a tail."""
    number = parse_short_ref(ref)
    if number is not None:
        return number
    digits = ref[1:]
    if ref[:1] != "x" or len(digits) != _EXTERNAL_DIGITS or not set(digits) <= set(_DIGITS):
        return None
    number = 0
    for digit in digits:
        number = number * len(_DIGITS) + _DIGITS.index(digit)
    return EXTERNAL + number


def ref_of(named: str | int) -> str:
    """The ref that a client names: as an integer, as a ref, and either after ``obs:``. Raises BadInput for no name."""
    text = str(named).strip().removeprefix(RECORD)
    if not text:
        raise BadInput("recordRef: give the id of a record, as search shows it: obs:m1z, m1z or 63")
    if not (text.isascii() and text.isdigit()):
        return text
    number = int(text) if len(text) <= _MAX_DECIMALS else 2 * EXTERNAL
    if number < EXTERNAL:
        return short_ref(number)
    if number >= 2 * EXTERNAL:
        raise BadInput("recordRef: there is no record with so large a number")
    number -= EXTERNAL
    digits = ""
    for _ in range(_EXTERNAL_DIGITS):
        number, digit = divmod(number, len(_DIGITS))
        digits = _DIGITS[digit] + digits
    return f"x{digits}"
