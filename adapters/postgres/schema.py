"""The tables: the memories, and for each embedding model a table of its vectors.

A migration is a list of statements; the table `version` has the number of those that were run. If the memories are gone
all the same, all are run again. They are run under a lock, so that gateways which start at once do not meet. A table of
vectors belongs to one model, because vectors of two models must never be compared: with another model there is a new
one, and the old one stays, as another gateway may be using it.
"""

from __future__ import annotations

from adapters.postgres.connections import Connection
from fusion.contract import Embedder
from fusion.errors import SettingsError, StoreDamaged
from fusion.lib.words import content_hash
from fusion.store.rows import EVENT_COLUMNS

MOST_DIMENSIONS = 4000
"""of pgvector's HNSW over `halfvec`"""
LEAST_PGVECTOR = (0, 8)
"""the first with iterative scans: before, a filter left out what the index had found, and nothing took its place"""

SMALL = 64 * 8192
"""bytes of memories, some five hundred, up to which any plan is a good one"""

_IN_OURS = "relnamespace = to_regnamespace(split_part(current_setting('search_path'), ',', 1))::oid"
_OURS = f"EXISTS (SELECT FROM pg_class WHERE relname = %s AND {_IN_OURS})"
"""whether a table or an index is in the tenant's own schema"""
_PGVECTOR = (
    "SELECT quote_ident(nspname::text), extversion, has_schema_privilege(n.oid, 'USAGE') "
    "FROM pg_extension JOIN pg_namespace n ON n.oid = extnamespace WHERE extname = 'vector'"
)
_HOME_OF_PGVECTOR = (
    "SELECT nspname FROM pg_namespace WHERE nspname IN ('public', 'extensions') ORDER BY nspname DESC LIMIT 1"
)
"""the schema in which it is made if it is missing; that of a tenant may be dropped"""

_COLUMNS = EVENT_COLUMNS.replace(" integer", " bigint").replace("event_id text", 'event_id text COLLATE "C"', 1)
_MODEL = (
    "CREATE TABLE IF NOT EXISTS model (vectors text PRIMARY KEY, identity text NOT NULL, dimensions integer NOT NULL)"
)
MIGRATIONS: tuple[tuple[str, ...], ...] = (
    (
        f"""CREATE TABLE memory (
            id bigint GENERATED ALWAYS AS IDENTITY PRIMARY KEY, {_COLUMNS},
            escaped boolean NOT NULL, terms tsvector NOT NULL, length integer NOT NULL,
            ended_at bigint, ended text, merged_into text
        )""",
        "CREATE INDEX memory_terms ON memory USING gin (terms) WITH (fastupdate = off)",
        "CREATE INDEX memory_user ON memory (user_id, session_id) INCLUDE (length)",
        "CREATE INDEX memory_agent ON memory (agent_id) WHERE agent_id IS NOT NULL",
        "CREATE INDEX memory_run ON memory (run_id) WHERE run_id IS NOT NULL",
        "CREATE INDEX memory_session ON memory (session_id) WHERE session_id IS NOT NULL",
        "CREATE INDEX memory_time ON memory (coalesce(at, recorded_at))",
        "CREATE INDEX memory_document ON memory (document, place_start) WHERE document IS NOT NULL",
        "CREATE INDEX memory_successor ON memory (supersedes) WHERE supersedes IS NOT NULL",
        _MODEL,
    ),
)
"""`escaped` says whether a text is (`adapters.postgres.values`); `terms` are those of `adapters.index.lexical`, and
`length` is their number with repeats; the last three columns of a memory are of its state"""


def vectors_of(embedder: Embedder) -> str:
    """The name of the table of a model's vectors."""
    return f"vectors_{content_hash(embedder.identity)[:16]}"


def _index_of(vectors: str) -> str:
    """The name of the index of a table of vectors."""
    return f"{vectors}_hnsw"


def locks(schema: str) -> tuple[int, int]:
    """The numbers of the advisory locks of a schema: of its definition, and of its contents."""
    digest = int(content_hash(f"memory-fusion {schema}")[:15], 16)
    return digest, digest + 1


async def prepare(connection: Connection, schema: str, embedder: Embedder | None) -> str:
    """Create what is missing, in one transaction; returns the schema of pgvector, as `pgvector` does.

    Raises SettingsError, which names what an administrator has to do.
    """
    definition, _ = locks(schema)
    async with connection.transaction():
        await connection.rows("SELECT pg_advisory_xact_lock(%s)", (definition,))
        vector_schema = await _require_pgvector(connection)
        [(there,)] = await connection.rows("SELECT to_regnamespace(%s) IS NOT NULL", (schema,))
        if not there:
            await connection.rows(f"CREATE SCHEMA {schema}")
        await _migrate(connection)
        if embedder is not None:
            await _create_vectors(connection, embedder, vector_schema)
    return vector_schema


async def pgvector(connection: Connection) -> str:
    """The schema that pgvector is in, as SQL names it; empty if it is in none.

    Its type and operators are named with it: others may create in that schema, so no statement looks into it.
    """
    found = await connection.rows(_PGVECTOR)
    return str(found[0][0]) if found else ""


async def _require_pgvector(connection: Connection) -> str:
    found = await connection.rows(_PGVECTOR)
    if not found:
        try:
            async with connection.transaction():
                where = "".join(f" SCHEMA {name}" for (name,) in await connection.rows(_HOME_OF_PGVECTOR))
                await connection.rows(f"CREATE EXTENSION vector{where}")
        except Exception as error:
            if getattr(error, "sqlstate", None) is None:
                raise
            raise SettingsError(
                "the database has no pgvector. Fix: let an administrator of it run CREATE EXTENSION vector; where that "
                "fails, install pgvector 0.8 or newer on the server first"
            ) from None
        found = await connection.rows(_PGVECTOR)
    vector_schema, version, usable = found[0]
    if not usable:
        raise SettingsError(
            f"the user may not use pgvector, which is in the schema {vector_schema}. Fix: let the owner of that run "
            f"GRANT USAGE ON SCHEMA {vector_schema} TO the user"
        )
    if tuple(int(part) for part in version.split(".")[:2] if part.isdecimal()) < LEAST_PGVECTOR:
        raise SettingsError(
            f"the database has pgvector {version}, and 0.8 is needed. Fix: install a newer one, then ALTER EXTENSION "
            "vector UPDATE"
        )
    return str(vector_schema)


async def _migrate(connection: Connection) -> None:
    await connection.rows("CREATE TABLE IF NOT EXISTS version (number integer NOT NULL)")
    found = await connection.rows("SELECT number FROM version")
    number = found[0][0] if found else 0
    if number > len(MIGRATIONS):
        raise StoreDamaged(
            f"its tables were written by a newer version of memory-fusion (schema {number}, ours is {len(MIGRATIONS)})"
            ". Fix: install that version, or a newer one"
        )
    if number and not (await tables(connection, None))[0]:
        number = 0
        await _drop_vectors(connection)
    for migration in MIGRATIONS[number:]:
        for statement in migration:
            await connection.rows(statement)
    await connection.rows(_MODEL)  # it may be missing alone
    if not found:
        await connection.rows("INSERT INTO version VALUES (%s)", (len(MIGRATIONS),))
    elif number < len(MIGRATIONS):
        await connection.rows("UPDATE version SET number = %s", (len(MIGRATIONS),))


async def _drop_vectors(connection: Connection) -> None:
    """Drop the vectors of all models: `DROP TABLE memory CASCADE` leaves them, and the numbers of memories start anew,
    so they would be taken for those of other memories."""
    for (name,) in await connection.rows(
        "SELECT relname FROM pg_class WHERE relkind = 'r' AND relname ~ '^vectors_[0-9a-f]{16}$' AND " + _IN_OURS
    ):
        await connection.rows(f"DROP TABLE {name}")


async def _create_vectors(connection: Connection, embedder: Embedder, vector_schema: str) -> None:
    if embedder.dimensions > MOST_DIMENSIONS:
        raise SettingsError(
            f"the vectors of {embedder.identity} have {embedder.dimensions} numbers, and pgvector indexes up to "
            f"{MOST_DIMENSIONS}. Fix: set dimensions in [embedder]"
        )
    name = vectors_of(embedder)
    if (await tables(connection, embedder))[1]:
        return
    await connection.rows(f"DROP TABLE IF EXISTS {name}")  # what a dropped pgvector has left of it
    await connection.rows(
        f"CREATE TABLE {name} (memory bigint PRIMARY KEY REFERENCES memory ON DELETE CASCADE, "
        f"embedding {vector_schema}.halfvec({embedder.dimensions}) NOT NULL)"
    )
    await connection.rows(f"ALTER TABLE {name} ALTER embedding SET STORAGE PLAIN")  # next to its row, not apart
    await connection.rows(
        f"CREATE INDEX {_index_of(name)} ON {name} USING hnsw (embedding {vector_schema}.halfvec_ip_ops)"
    )
    await connection.rows(
        "INSERT INTO model VALUES (%s, %s, %s) ON CONFLICT DO NOTHING", (name, embedder.identity, embedder.dimensions)
    )


async def sizes(connection: Connection) -> tuple[int, int]:
    """The bytes of the memories: now, and when PostgreSQL last counted what it plans with."""
    [(now, counted)] = await connection.rows(
        "SELECT pg_relation_size(oid::regclass), relpages * current_setting('block_size')::bigint FROM pg_class "
        "WHERE oid = 'memory'::regclass::oid"
    )
    return now, counted


async def analyse(connection: Connection, vectors: str) -> None:
    """Let PostgreSQL count what it plans with, unless another gateway does. ``vectors`` is a table, or empty.

    Its autovacuum does that within a minute, or never where it is off. Until then a question takes four times the CPU.
    """
    await connection.rows(f"ANALYZE (SKIP_LOCKED) memory{', ' * bool(vectors)}{vectors}")


async def was_made(connection: Connection) -> bool:
    """Whether the tables were made once, also if that of the memories is gone."""
    [(made,)] = await connection.rows(f"SELECT {_OURS}", ("version",))
    return bool(made)


async def tables(connection: Connection, embedder: Embedder | None) -> tuple[bool, bool]:
    """Whether the table of memories is there, and that of this model's vectors, whole.

    Who drops pgvector drops the column of the vectors with their index, and leaves the table. So the index is looked
    for: it is there only if the rest is.
    """
    name = "" if embedder is None else _index_of(vectors_of(embedder))
    [(memories, vectors)] = await connection.rows(f"SELECT {_OURS}, {_OURS}", ("memory", name))
    return memories, vectors
