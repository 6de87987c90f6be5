"""External items that were shown are stored in the background."""

from __future__ import annotations

from collections.abc import Sequence

from fusion.contract import Hit, Scope
from fusion.errors import StoreFull
from fusion.journal.external_refs import ExternalItem, ExternalRefs

MINE, YOURS = Scope(user_id="ada"), Scope(user_id="berit")
ONE, TWO = "xaaaaaaaaaa", "xbbbbbbbbbb"


class Shelf:
    """Keeps what it is given, write by write; refuses while ``full``."""

    def __init__(self) -> None:
        self.writes: list[list[str]] = []
        self.full = False

    async def keep(self, items: Sequence[ExternalItem]) -> None:
        if self.full:
            raise StoreFull("no space")
        self.writes.append([item.ref for item in items])


def shown(ref: str, scope: Scope = MINE) -> ExternalItem:
    return ExternalItem(ref, "archive", Hit(ref, "the gate sticks"), scope)


async def test_external_refs_are_written_in_one_batch_and_each_once() -> None:
    """Two answers, one write; a ref of ours is none; another's question is noted for itself; forgetting begins anew."""
    shelf = Shelf()
    noting = ExternalRefs(shelf.keep)
    assert noting.unknown([ONE, TWO, "m1"], MINE) == {ONE, TWO}
    noting.note([shown(ONE)])
    noting.note([shown(TWO)])
    assert noting.unknown([ONE, TWO], MINE) == frozenset()
    assert noting.unknown([ONE], YOURS) == {ONE}
    await noting.flush()
    await noting.close()
    assert shelf.writes == [[ONE, TWO]]
    noting.forget()
    assert noting.unknown([ONE], MINE) == {ONE}


async def test_external_refs_that_failed_to_be_written_are_stored_again() -> None:
    """A full disk costs no answer anything: the ref is unknown again, and noted when it is cited again."""
    shelf = Shelf()
    shelf.full = True
    noting = ExternalRefs(shelf.keep)
    noting.note([shown(ONE)])
    await noting.flush()
    assert noting.unknown([ONE], MINE) == {ONE}
    shelf.full = False
    noting.note([shown(ONE)])
    await noting.close()
    assert shelf.writes == [[ONE]]
