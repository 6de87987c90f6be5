"""An existing knowledge graph in Neo4j or Memgraph, as a read-only backend.

    [backends.company]
    adapter = "adapters.neo4j:Neo4j"
    url = "bolt://127.0.0.1:7687"       # and user, password_env, database … as `adapters.bolt.options` has them
    dialect = "neo4j"                   # or "memgraph"

    entities = ["Person", "Project"]    # labels of what a question can name
    names = ["name"]                    # properties with its name, the first that is there
    aliases = ["aliases"]               # properties with its other names, a text or a list of texts
    passages = ["Chunk"]                # labels of texts
    texts = ["text", "description"]     # properties with the text of a passage, or about an entity
    relationships = ["CORRECTED_BY"]    # types that are followed; left out, every type
    facts = ["fact"]                    # properties of a relationship that say it in a sentence, where there are any

    name_index = "entity_names"         # full-text index of entities; without one, names are looked up as written
    text_index = "chunk_texts"          # full-text index of passages
    vector_index = "chunk_vectors"      # vector index of passages or entities, made by the model of [embedder]
    vector_property = "embedding"

    hops = 2                            # 1 or 2
    degree = 64                         # relationships of one node that are followed, at most
    limit = 50                          # hits at most
    id = "uuid"                         # property that names a node or relationship; else the database's own id
    at = "created_at"                   # properties with times: when it was said, and from when until when it holds
    valid_from = "valid_at"
    valid_to = "invalid_at"

    scope = { user_id = "owner" }       # properties with the owner of a node or relationship: tenant, user_id,
                                        # agent_id, run_id, session_id, audience
    bound = { user_id = "ada" }         # or the owner of all of it
    tenant = "default"
    audience = "group"                  # "private": shown where nobody else reads

Labels, types, properties and indexes have names of letters, digits and _; what a question says is only ever a value.
`options` reads that table, `cypher` has the queries, `traversal` the walk, `rows` reads the results.
"""

from adapters.neo4j.graph import Neo4j
from adapters.neo4j.options import Options

__all__ = ["Neo4j", "Options"]
