"""Databases that speak Bolt, Memgraph and Neo4j, for every backend whose graph is in one.

    bolt = Bolt(Server.of(options, "backends.cortex"), NEO4J)
    await bolt.define(SCHEMA, deadline_s=30)
    rows = await bolt.read("MATCH (m:Memory {id: $id}) RETURN m.text AS text", {"id": id}, deadline_s=1)

`driver` has the connection pool with its retries and errors, `dialects` the differences between the databases,
`options` the settings of every such backend. Nothing here depends on the stored data.
"""
