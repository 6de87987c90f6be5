"""The figures of importance labels beside a guess."""

from __future__ import annotations

from benchmarks.pack import Data
from benchmarks.pack_importance import measure


def test_labels_are_measured_beside_a_guess() -> None:
    found = measure(Data())
    assert found["lines"] == 200
    assert found["accuracy_guessing_ignore"] == 0.4
    assert 0 < found["must_remember_given"] < 200
    assert 0 <= found["accuracy"] <= 1
