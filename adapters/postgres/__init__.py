"""PostgreSQL with pgvector as a backend: the gateway's own memories, for any number of gateways.

    [backends.postgres]
    adapter = "adapters.postgres:Postgres"
    url = "postgresql://fusion@db.example:5432/memories?sslmode=verify-full"
    password_env = "POSTGRES_PASSWORD"

It needs the extra `postgres`, PostgreSQL 13 or newer, and pgvector 0.8 or newer: an administrator of the database runs
`CREATE EXTENSION vector` once. `adapters.postgres.options` has all options.
"""

from adapters.postgres.backend import Postgres

__all__ = ["Postgres"]
