"""The vectors of memories in a graph database: computed in the background, and moved to another model without a gap.

Each model has its own property and index, so vectors of two models are never compared. The old vectors answer while the
new ones are built, and are removed after the switch.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Mapping, Sequence

from adapters.bolt.dialects import Schema, VectorIndex
from adapters.bolt.driver import Bolt
from adapters.cortex import cypher
from adapters.index import Backfill, Waiting, each_vector_of
from fusion.contract import Embedder
from fusion.errors import InvalidAnswer

BATCH_SIZE = 64
"""memories embedded at a time"""
PRIORITY_MAX = 25
"""maximum memories of a change that goes to the front of the queue"""
DELETE_BATCH = 1000
"""old vectors removed in one transaction"""

READ_S = 30.0
WRITE_S = 60.0
DEFINE_S = 600.0
"""time-outs in seconds; a query's deadline is shorter"""


class Vectors:
    """The vectors of one database; `adapters.reindex` moves them to another model.

    ``embedder`` makes them and ``of`` is their index; both are None if there are none. ``pending`` has the memories
    without a vector that this process knows of; ``fault`` says why they cannot be embedded, else it is None.
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

    # In the background

    async def queue_missing(self) -> None:
        """Queue every memory without a vector."""
        if self.of is not None:
            bare = f"MATCH (m:Memory) WHERE m.{self.of.property} IS NULL RETURN m.event_id AS id ORDER BY id"
            self.fill([row["id"] for row in await self._bolt.read(bare, {}, DEFINE_S)])

    def fill(self, ids: Iterable[str]) -> None:
        """Queue these memories and start the backfill."""
        if self.embedder is None:
            return
        new = dict.fromkeys(ids, True)
        # A few new memories do not wait for a folder of files.
        self.pending.add(new, fresh=len(new) <= PRIORITY_MAX)
        if self.pending:
            self._backfill.start()

    async def settle(self) -> None:
        """Wait until the queue is empty or the embedder has failed again."""
        if self.pending:
            await self._backfill.settle()

    async def _fill_some(self) -> bool:
        pending, embedder = self.pending, self.embedder
        some = pending.some(BATCH_SIZE)
        if embedder is None or not some:
            return False
        pending.done(some, await self._fill_batch(embedder, cypher.vectors_by(embedder), list(some)))
        return bool(pending)

    async def _fill_batch(
        self, embedder: Embedder, index: VectorIndex, ids: Sequence[str]
    ) -> Mapping[str, InvalidAnswer]:
        """Write the vectors of these memories. Returns the ids that the model refused, with the reason."""
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

    async def count_missing(self, embedder: Embedder) -> tuple[int, int]:
        """The number of texts, and of their characters, that a move to this model still has to embed."""
        new = cypher.vectors_by(embedder)
        statement = (
            f"MATCH (m:Memory) WHERE m.{new.property} IS NULL RETURN count(m) AS texts, sum(size(m.words)) AS chars"
        )
        (row,) = await self._bolt.read(statement, {}, DEFINE_S)
        return row["texts"], row["chars"] or 0

    async def build(
        self, embedder: Embedder, progress: Callable[[int, int | None], None]
    ) -> Mapping[str, InvalidAnswer]:
        """Build every memory's vector of another model, next to those in use; `switch_to` switches to them.

        Returns the ids that the model refused, with the reason. Raises the errors of ``embedder`` and the database, and
        InvalidAnswer if the model refuses all. After an error or a kill, the same call continues.
        """
        new = cypher.vectors_by(embedder)
        await self._bolt.define(Schema(vectors=[new]), DEFINE_S)
        total, _ = await self.count_missing(embedder)
        statement = (
            f"MATCH (m:Memory) WHERE m.event_id > $after AND m.{new.property} IS NULL "
            "RETURN m.event_id AS id ORDER BY id LIMIT $limit"
        )
        refused: dict[str, InvalidAnswer] = {}
        done, after = 0, ""
        while rows := await self._bolt.read(statement, {"after": after, "limit": BATCH_SIZE}, DEFINE_S):
            faults = await self._fill_batch(embedder, new, [row["id"] for row in rows])
            refused |= faults
            done, after = done + len(rows) - len(faults), rows[-1]["id"]
            if refused and not done:
                raise next(iter(refused.values()))
            progress(done, max(done, total))
        return refused

    async def switch_to(self, embedder: Embedder) -> None:
        """Switch to the vectors built for this model and remove those of the previous one.

        Memories added since are embedded in the background. If this is interrupted, old vectors remain, unused.
        """
        old = self.of
        await self.close()
        self.embedder, self.of = embedder, cypher.vectors_by(embedder)
        self.pending.clear()
        self._backfill = self._new_backfill()
        await self.queue_missing()
        if old is not None and old.name != self.of.name:
            await self._bolt.drop(old, DEFINE_S)
            statement = (
                f"MATCH (m:Memory) WHERE m.{old.property} IS NOT NULL WITH m LIMIT {DELETE_BATCH} "
                f"SET m.{old.property} = null RETURN count(m) AS n"
            )
            while (await self._bolt.write(statement, {}, WRITE_S))[0]["n"]:
                pass
