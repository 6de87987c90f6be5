"""Record ids: what a client prints and sends back names the same memory."""

from __future__ import annotations

import pytest
from hypothesis import given
from hypothesis import strategies as st

from fusion.doors.compat.openclaw_mem.ids import EXTERNAL, record_id, ref_of
from fusion.errors import BadInput
from fusion.lib.ids import external_ref, short_ref


@given(st.integers(0, EXTERNAL - 1))
def test_a_memory_is_named_by_its_ref_and_by_its_number(seq: int) -> None:
    ref = short_ref(seq)
    assert record_id(ref) == seq
    assert {ref_of(named) for named in (seq, str(seq), f"obs:{seq}", ref, f"obs:{ref}", f" {ref} ")} == {ref}


@given(st.text(), st.text())
def test_a_memory_of_an_external_system_has_a_number_that_is_exact_in_json(backend: str, native_id: str) -> None:
    ref = external_ref(backend, native_id)
    number = record_id(ref)
    assert number is not None
    assert EXTERNAL <= number < 2**53
    assert ref_of(number) == ref_of(f"obs:{number}") == ref


@pytest.mark.parametrize("named", ["", "  ", "obs:", "9" * 17, str(2 * EXTERNAL), "9" * 5000])
def test_what_names_no_record_is_refused(named: str) -> None:
    with pytest.raises(BadInput, match="recordRef"):
        ref_of(named)


@pytest.mark.parametrize("ref", ["tail:1", "ep:4", "fact:ab", "x", "xABCDEFGHIJ", "x!!!!!!!!!!", "xàààààààààà", "m"])
def test_a_ref_of_something_else_has_no_number(ref: str) -> None:
    assert record_id(ref) is None
