"""Storage on SQLite: one database file with one writer and several readers, and the columns of an event."""
