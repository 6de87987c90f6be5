"""The vectors of memories in a graph database: filled in behind, and moved to another model without a gap.

Each model has a property and an index of its own, so the vectors of two never meet: the old ones answer while the new
ones are built beside them, and are taken away once these have taken over.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Mapping, Sequence

from adapters.bolt import Bolt, Schema, VectorIndex
from adapters.cortex import cypher
from adapters.index import Backfill, Waiting, each_vector_of
from fusion.contract import Embedder
from fusion.errors import InvalidAnswer

FILLED = 64
"""memories that get their vectors at once"""
FRESH = 25
"""memories of one change: so few go before those that wait already"""
EMPTIED = 1000
"""memories of which old vectors are taken away in one transaction"""

READ_S = 30.0
WRITE_S = 60.0
DEFINE_S = 600.0
"""seconds at most; a question has its own deadline, which cuts it off earlier"""


class Vectors:
    """Those of one database. ``embedder`` makes them, ``of`` is where they are; both None: there are none.

    ``pending`` are the memories that wait for theirs, as far as this process knows; ``fault`` says why, where they do
    so in vain. It is what `adapters.reindex` moves.
    """

    moves = True

    def __init__(self, bolt: Bolt, embedder: Embedder | None) -> None:
        self._bolt = bolt
        self.embedder = embedder
        self.of: VectorIndex | None = cypher.vectors_by(embedder) if embedder else None
        self.pending: Waiting[bool] = Waiting()
        self._backfill = self._new_backfill()

    def _new_backfill(self) -> Backfill:
        return Backfill(self._bolt.shown, self._fill_some, self.pending.try_refused)

    @property
    def fault(self) -> str | None:
        fault = self._backfill.error or self.pending.why
        return f"vectors are not filled in: {fault}" if fault else None

    async def close(self) -> None:
        await self._backfill.close()

    # Behind

    async def find_bare(self) -> None:
        """Has every memory that has no vector get one."""
        if self.of is not None:
            bare = f"MATCH (m:Memory) WHERE m.{self.of.property} IS NULL RETURN m.event_id AS id ORDER BY id"
            self.fill([row["id"] for row in await self._bolt.read(bare, {}, DEFINE_S)])

    def fill(self, ids: Iterable[str]) -> None:
        """Has these memories get their vectors, and what waits already."""
        if self.embedder is None:
            return
        new = dict.fromkeys(ids, True)
        # A few were said just now, and do not wait behind a folder of files that was read in.
        self.pending.add(new, fresh=len(new) <= FRESH)
        if self.pending:
            self._backfill.start()

    async def settle(self) -> None:
        """Returns when nothing waits, or it has failed once more."""
        if self.pending:
            await self._backfill.settle()

    async def _fill_some(self) -> bool:
        pending, embedder = self.pending, self.embedder
        some = pending.some(FILLED)
        if embedder is None or not some:
            return False
        pending.done(some, await self._fill_batch(embedder, cypher.vectors_by(embedder), list(some)))
        return bool(pending)

    async def _fill_batch(
        self, embedder: Embedder, index: VectorIndex, ids: Sequence[str]
    ) -> Mapping[str, InvalidAnswer]:
        """Writes the vectors of these memories. Returns which of them get none, and why."""
        texts = "MATCH (m:Memory) WHERE m.event_id IN $ids RETURN m.event_id AS id, m.words AS words"
        rows = await self._bolt.read(texts, {"ids": ids}, READ_S)
        if not rows:
            return {}
        vectors = await each_vector_of(embedder, [row["words"] for row in rows])
        made = {row["id"]: vector for row, vector in zip(rows, vectors, strict=True)}
        filled = [{"id": i, "vector": v.tolist()} for i, v in made.items() if not isinstance(v, InvalidAnswer)]
        statement = f"UNWIND $rows AS row MATCH (m:Memory {{event_id: row.id}}) SET m.{index.property} = row.vector"
        if filled:
            await self._bolt.write(statement, {"rows": filled}, WRITE_S)
        return {id_: fault for id_, fault in made.items() if isinstance(fault, InvalidAnswer)}

    # To another model

    async def to_build(self, embedder: Embedder) -> tuple[int, int]:
        """How many texts, and how many characters of them, a move to this model still has to encode."""
        new = cypher.vectors_by(embedder)
        statement = (
            f"MATCH (m:Memory) WHERE m.{new.property} IS NULL RETURN count(m) AS texts, sum(size(m.words)) AS chars"
        )
        (row,) = await self._bolt.read(statement, {}, DEFINE_S)
        return row["texts"], row["chars"] or 0

    async def build(
        self, embedder: Embedder, progress: Callable[[int, int | None], None]
    ) -> Mapping[str, InvalidAnswer]:
        """Builds every memory's vector of another model beside those that answer; `turn` lets these answer then.

        Returns, by id, which of them the model makes no vector of, and why. Raises what ``embedder`` and the database
        raise, and InvalidAnswer where the model makes none at all. Then, and after a kill, the same call goes on where
        this one stopped.
        """
        new = cypher.vectors_by(embedder)
        await self._bolt.define(Schema(vectors=[new]), DEFINE_S)
        total, _ = await self.to_build(embedder)
        statement = (
            f"MATCH (m:Memory) WHERE m.event_id > $after AND m.{new.property} IS NULL "
            "RETURN m.event_id AS id ORDER BY id LIMIT $limit"
        )
        refused: dict[str, InvalidAnswer] = {}
        done, after = 0, ""
        while rows := await self._bolt.read(statement, {"after": after, "limit": FILLED}, DEFINE_S):
            faults = await self._fill_batch(embedder, new, [row["id"] for row in rows])
            refused |= faults
            done, after = done + len(rows) - len(faults), rows[-1]["id"]
            if refused and not done:
                raise next(iter(refused.values()))
            progress(done, max(done, total))
        return refused

    async def turn(self, embedder: Embedder) -> None:
        """Lets the vectors that were built for this model answer from now on, and takes those of the one before away.

        What came in since they were built gets its vector behind. Where this is cut off, old vectors stay where nobody
        looks.
        """
        old = self.of
        await self.close()
        self.embedder, self.of = embedder, cypher.vectors_by(embedder)
        self.pending.clear()
        self._backfill = self._new_backfill()
        await self.find_bare()
        if old is not None and old.name != self.of.name:
            await self._bolt.drop(old, DEFINE_S)
            statement = (
                f"MATCH (m:Memory) WHERE m.{old.property} IS NOT NULL WITH m LIMIT {EMPTIED} "
                f"SET m.{old.property} = null RETURN count(m) AS n"
            )
            while (await self._bolt.write(statement, {}, WRITE_S))[0]["n"]:
                pass
