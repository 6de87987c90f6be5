"""Batches with a bounded count and size."""

from __future__ import annotations

from collections.abc import Iterator

from fusion.lib.batched import batched


def test_a_batch_is_bounded_by_count_and_by_size() -> None:
    """An item that is larger than a batch is alone in one."""
    items = ["a", "b", "c", "dddd", "e", "ffffffffff", "g"]
    assert list(batched(items, len, most=3, most_bytes=5)) == [["a", "b", "c"], ["dddd", "e"], ["ffffffffff"], ["g"]]
    assert list(batched([], len, most=3, most_bytes=5)) == []


def test_one_item_beyond_a_batch_is_read_before_it() -> None:
    """Bookmarks count what was read, so no more may be read."""
    read: list[int] = []

    def items() -> Iterator[int]:
        for number in range(6):
            read.append(number)
            yield number

    assert next(batched(items(), lambda _: 1, most=2, most_bytes=100)) == [0, 1]
    assert read == [0, 1, 2]
