"""A graph of memories, entities and relations in SQLite: the common part of `cortex` and `triples`."""
