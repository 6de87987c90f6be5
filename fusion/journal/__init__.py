"""The journal: the event log of a home, and what was delivered from it to which backend under which native id.

`journal.Journal` is the entry point. Its step of a `remember` (`fusion.ingest` lists them all) is `append`: one
transaction writes the event and a delivery per backend, and the caller is acknowledged when that is on the disk.
Every other module owns one table or one step:

- `append` stores an event once; it finds what the event repeats or supersedes, and refuses what was forgotten.
- `conversations` decides who may add turns to a conversation; an event from any other source becomes a claim.
- `same_words` finds memories of one owner in the same words.
- `rows` reads and writes the row of an event, and counts its terms.
- `outbox` has the deliveries, one per backend and event.
- `distil_queue` has the turns that the language model still has to read, and its extractions.
- `statements` has the statements that wait to be compared with earlier ones, and those that were.
- `idempotency` has the replies to requests that may be repeated.
- `listing` lists memories by page, criteria and document.
- `external_refs` has the items of backends that were shown under a ref.
- `feedback` has the votes on memories.
- `deletion` forgets events, and makes their deletion due in every backend.
- `tombstones` has the hashes of what was forgotten, and keeps it out.
- `audit` has the log of deletions.
- `retire` takes out memories that are no longer in their file.
- `proposals` has the memories that somebody asks to store, until a person or a policy decides on them.
- `batches` has the ingest runs, and undoes one.
- `jobs` has the jobs with their leases, and the log of their runs.
- `cache` keeps in memory what every question needs.
- `schema` has the tables and their migrations.
- `watermark` identifies a journal and its age; `store_watermarks` copies that next to each store, to detect a loss.
- `readonly` reads a damaged journal; `rebuild` makes a new one from what can be read.
- `split_tenants` moves a tenant out of a shared journal of an earlier version.
"""

from fusion.journal.journal import Journal

__all__ = ["Journal"]
