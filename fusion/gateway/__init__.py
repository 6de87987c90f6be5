"""The application: it opens a home, answers questions, and stores and deletes memories.

`bootstrap` opens a home from its settings: first `read_only` (a copy, if the home cannot be written to), then the
models (`open_models`, `embedders`, `llm_budget`), then for each tenant (`tenants`) the journal (`open_journal`) and the
backends (`open_backends`, `import_class`). The result is a `Gateway` (`gateway`, with the questions in `answering` and
the fields of `parts`), which the doors call; `in_tenant` passes a call on to its tenant. A question passes `admission`,
is answered by `fusion.recall`, and leaves a receipt; `views` shows memories and documents; `forget_by_query` selects
the memories that a query describes; `extensions` and `scoped` connect commands and routes that adapters add;
`memory_flush` decides when an agent should save memories, and `daily_log` appends them to a file. What a home does by
itself is in `background`: `health` and `losses` check the backends. `repair` rebuilds a lost journal.
"""
