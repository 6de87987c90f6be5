"""The journal: the event log of a home, and what was delivered from it to which backend under which native id.

`journal.Journal` is the entry point; every other module owns one table or one step. How a `remember` goes end to end:

1. `fusion.ingest.intake` checks and redacts each memory and makes an `Event` of it.
2. `append` writes the event's row, its term counts (`rows`) and a delivery per backend (`outbox`), all in one
   transaction. Before that it looks for duplicates (`same_words`, natural keys), for tombstones that block the event
   (`tombstones`), and for the event that it supersedes. Turns are queued for the language model (`distil_queue`).
3. The caller gets its acknowledgement: the memory is on the disk.
4. `fusion.ingest.deliver` reads the outbox, one task per backend, and marks what each backend acknowledged.

`deletion`, `batches` (undo) and `retire` take events out again and turn their deliveries into deletions.
"""

from fusion.journal.journal import Journal

__all__ = ["Journal"]
