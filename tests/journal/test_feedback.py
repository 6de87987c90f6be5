"""Feedback: a vote copies its signals, replaces earlier votes, and is deleted with its memory."""

from __future__ import annotations

from datetime import UTC, datetime
from pathlib import Path
from typing import Any

import pytest

from fusion.contract import Event, Hit, Scope
from fusion.errors import BadInput
from fusion.journal import Journal, external_refs, feedback
from fusion.journal.external_refs import ExternalItem
from fusion.journal.feedback import labelled
from fusion.lib.ids import short_ref, uuid7
from fusion.store.rows import EVENT_NAMES, event_row
from fusion.store.sqlite import Database

ADA = Scope(user_id="ada")


async def kept(journal: Journal, text: str, **more: Any) -> str:
    event = Event(uuid7(), text, datetime.now(UTC), ADA, **more)
    (stored,) = await journal.append([event])
    assert not isinstance(stored, str)
    return stored.ref


def receipt(*refs: str) -> dict[str, Any]:
    """A receipt with these candidates, in this order."""
    rows = [
        {
            "ref": ref,
            "decision": "packed",
            "local": 0.5,
            "judge": None,
            "rrf": 0.03,
            "neighbour_of": None,
            "source_hits": [["mem0", ref, "native", 4, "first seen"], ["mem0", "x", "other", 9, "jaccard 0.9"]],
            "signals": {"maxsim": 0.7},
        }
        for ref in refs
    ]
    return {
        "receipt_id": "r1",
        "at": "2026-03-01T12:00:00+00:00",
        "recipe": {"name": "default", "hash": "abc"},
        "candidates": rows,
    }


async def labels(journal: Journal, tenant: str = "default") -> list[tuple[str, str, bool]]:
    page = await journal.read(feedback.page, tenant, 100)
    return [(one["receipt_id"], one["ref"], one["useful"]) for one in page.labels]


@pytest.mark.feature(
    "… feedback stores the signals and no text; the latest vote counts", of="feedback: votes on one's own"
)
async def test_a_vote_keeps_what_a_learner_needs_and_no_text(journal: Journal) -> None:
    """Position, decision, scores, signals and each backend's best rank; nothing native, nothing that was said."""
    ref, foreign = await kept(journal, "Berit likes clogs"), "xabcdefghij"
    await journal.write(feedback.put, ADA, "r1", labelled(receipt(foreign, ref), [ref], [foreign]), datetime.now(UTC))
    voted, other = (await journal.read(feedback.page, "default", 10)).labels
    assert {name: voted[name] for name in ("receipt_id", "ref", "useful", "scope", "position", "decision")} == {
        "receipt_id": "r1",
        "ref": ref,
        "useful": True,
        "scope": {"user_id": "ada"},
        "position": 2,
        "decision": "packed",
    }
    assert (voted["signals"], voted["found_by"], voted["recipe"]["hash"]) == ({"maxsim": 0.7}, {"mem0": 4}, "abc")
    assert (other["ref"], other["useful"]) == (foreign, False)
    row = str([tuple(row) for row in await journal.read(lambda db: db.execute("select * from label").fetchall())])
    assert "clogs" not in row
    assert "native" not in row


async def test_feedback_on_an_answer_replaces_earlier_votes(journal: Journal) -> None:
    """Feedback replaces what was said of that receipt, or takes it back; other receipts and tenants stay."""
    one, two = await kept(journal, "one"), await kept(journal, "two")
    for scope, name in ((ADA, "r1"), (ADA, "r2"), (Scope(tenant="acme"), "r1")):
        await journal.write(feedback.put, scope, name, labelled(receipt(one, two), [one], [two]), datetime.now(UTC))
    await journal.write(feedback.put, ADA, "r1", labelled(receipt(one, two), [two], []), datetime.now(UTC))
    assert await labels(journal) == [("r2", one, True), ("r2", two, False), ("r1", two, True)]
    await journal.write(feedback.put, ADA, "r1", (), datetime.now(UTC))
    assert await labels(journal) == [("r2", one, True), ("r2", two, False)]
    assert len(await labels(journal, "acme")) == 2


@pytest.mark.parametrize(
    ("useful", "useless", "says"),
    [
        (["m1", "m9"], [], "useful[1]: 'm9' is not in receipt r1"),
        ([], ["x" * 500], "useless[0]: 'xxx"),
        (["m1", "m2"], ["m2"], "m2 is in useful and in useless"),
    ],
)
def test_feedback_names_a_wrong_ref(useful: list[str], useless: list[str], says: str) -> None:
    """Which list, which place, which ref."""
    with pytest.raises(BadInput) as caught:
        labelled(receipt("m1", "m2"), useful, useless)
    assert says in str(caught.value)
    assert len(str(caught.value)) < 200


@pytest.mark.feature("… feedback is forgotten with its memory", of="feedback: votes on one's own")
async def test_labels_are_forgotten_with_their_memory(journal: Journal) -> None:
    """The deletion removes them, and those of earlier versions; a later vote is refused."""
    old, other = await kept(journal, "Berit likes clogs"), await kept(journal, "We moved to Postgres")
    new = await kept(journal, "Berit likes boots", supersedes=old)
    votes = labelled(receipt(old, other, new), [old, other], [new])
    await journal.write(feedback.put, ADA, "r1", votes, datetime.now(UTC))
    await journal.forget([new], ADA)
    assert await labels(journal) == [("r1", other, True)]
    with pytest.raises(BadInput, match=f"{old} was forgotten since"):
        await journal.write(feedback.put, ADA, "r1", votes, datetime.now(UTC))
    assert await labels(journal) == [("r1", other, True)]  # and nothing was half written


async def test_merged_feedback_keeps_the_votes_on_other_memories(journal: Journal) -> None:
    """A vote on a memory replaces the earlier one on it; the whole is returned."""
    one, two = await kept(journal, "Berit likes clogs"), await kept(journal, "We moved to Postgres")
    now = datetime.now(UTC)
    await journal.write(feedback.put, ADA, "r1", labelled(receipt(one, two), [one], []), now)
    await journal.write(feedback.put, ADA, "r1", labelled(receipt(one, two), [two], []), now, merge=True)
    votes = await journal.write(feedback.put, ADA, "r1", labelled(receipt(one, two), [], [one]), now, merge=True)
    assert votes == {one: False, two: True}
    assert sorted(await labels(journal)) == sorted([("r1", one, False), ("r1", two, True)])


async def test_feedback_pages_are_oldest_first_and_complete(journal: Journal) -> None:
    """Five labels by two: three pages, each label once, nothing of another tenant."""
    refs = [await kept(journal, f"memory {n}") for n in range(5)]
    await journal.write(feedback.put, ADA, "r1", labelled(receipt(*refs), refs, []), datetime.now(UTC))
    await journal.write(feedback.put, Scope(tenant="acme"), "r2", labelled(receipt(*refs), refs, []), datetime.now(UTC))
    seen, after = [], 0
    while True:
        page = await journal.read(feedback.page, "default", 2, after=after)
        seen.append([one["ref"] for one in page.labels])
        if page.next is None:
            break
        after = page.next
    assert seen == [refs[:2], refs[2:4], refs[4:]]


async def test_a_journal_of_an_earlier_version_takes_feedback(tmp_path: Path) -> None:
    """The table is added to a journal that had none; its memories stay."""
    database = await Database.open(tmp_path / "journal.sqlite", Journal.schema[:3], fix="")
    row = event_row(Event("e1", "We moved to Postgres", datetime.now(UTC), ADA))
    insert = f"insert into event({', '.join(EVENT_NAMES)}) values({', '.join('?' * len(EVENT_NAMES))})"
    await database.write(lambda db: db.execute(insert, row))
    await database.close()
    ref = short_ref(1)
    opened = await Journal.open(tmp_path / "journal.sqlite")
    await opened.write(feedback.put, ADA, "r1", labelled(receipt(ref), [ref], []), datetime.now(UTC))
    assert await labels(opened) == [("r1", ref, True)]
    await opened.close()


async def test_labels_of_external_items_are_forgotten_with_them(journal: Journal) -> None:
    """A ref that cites no event of ours loses its label in the same transaction, too."""
    foreign = "xabcdefghij"
    await journal.write(
        external_refs.store_items,
        [ExternalItem(foreign, "mem0", Hit("native", "Berit likes clogs", ADA), ADA)],
        datetime.now(UTC),
    )
    votes = labelled(receipt(foreign), [foreign], [])
    await journal.write(feedback.put, ADA, "r1", votes, datetime.now(UTC))
    await journal.forget([foreign], ADA)
    assert await labels(journal) == []
    with pytest.raises(BadInput, match=f"{foreign} was forgotten since"):
        await journal.write(feedback.put, ADA, "r1", votes, datetime.now(UTC))
