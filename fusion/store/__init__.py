"""Storage: SQLite databases with one writer and several readers, the columns of an event, and private files."""
