"""The read path: from a question to one block and a receipt. `engine.fuse` runs the steps in this order.

1. `gather` searches all backends at once (`io` supplies every input, live or from a recording); `sanitise` cleans hits.
2. `filter` drops hits that the caller may not see.
3. `dedup` merges hits into candidates (`near_duplicates`, `candidate_pairs`, `paraphrase`, `word_forms`, `synonyms`:
   the embedding model compares doubtful pairs, through `io.reworded`).
4. `rrf` fuses the backends' ranks; `expand` adds neighbours. The result is the pool, in which `long_memories` replaces
   long texts by their best passages.
5. `signals` scores the pool once per sub-question (`split_query`, `maxsim`, `query_dates`, `standing`,
   `rank_features`), with the rarity of its words from `io.frequencies`.
   Where the recipe has a gate, `wants_memory` decides before and after the search whether the prompt wants memory.
6. `rerank` orders the pool and asks the judge about close calls; `dispute` puts rivals next to each other.
7. `pack` fills the block (`reading_order`, `mask`, `fence`); `decision` and `receipt` record the reasons, which
   `receipt_store` keeps.

Before: a door calls `gateway.Gateway.fuse`, which finds the tenant, waits for a slot (`admission`) and makes `io.Live`.
After: the gateway stores the receipt and the cited external items, and reports use to the backends.

`document` serves pages of a cited document. `document_place` answers where a hit is in its document.
"""
