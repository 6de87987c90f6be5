"""The write path: from a memory that a caller sends to every backend that keeps it, and back out again.

How `remember` goes end to end:

0. `claims` marks a source that the caller may not name (HTTP routes, adapters' verbs, `sources.readers`);
   `journal.conversations` does the same for turns.
1. `intake.Intake.remember` checks each memory, removes recalled blocks and secrets, and makes an `Event` of it.
2. `Journal.append` stores the events with one delivery per backend in one transaction. Duplicates, superseded events
   and forgotten ones are found there. The caller is acknowledged now; all that follows runs in the background.
3. `deliver.Deliverer` has one task per backend. It reads due deliveries, adds the rules' extraction of each event
   (`extract`: kind, entities, facts, times), calls the backend, and marks what it acknowledged. The rest is retried.
4. `distil.Distiller`, if a language model is configured, turns exchanges of a conversation into memories
   (`distil_prompt`), which are events of their own and go through the same journal to the same backends.

`forget` goes the same way: the journal first, then every backend, and `verify` asks each again whether it is gone.
"""
