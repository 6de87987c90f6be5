"""Starts a real Cognee that reaches nothing but loopback: run by its own environment's Python, not by ours.

    python start.py FOLDER [GRAPH]      # ends with its standard input

Its embedder counts words and its model reads arrows, both in this process, so that nothing needs a key or a download.
It listens on a port that the system chose, and says so in one line of JSON. With GRAPH, triplets as JSON, it first
builds a graph through ``add_data_points``, as a program that uses Cognee as a library does. Everything it writes is
below FOLDER.
"""

import asyncio
import hashlib
import importlib
import json
import math
import os
import re
import socket
import sys
import threading
from pathlib import Path

# Cognee prints as it starts; that is for the log.
OUTPUT = os.dup(1)
os.dup2(2, 1)

FOLDER = Path(sys.argv[1])
DIMENSIONS = 512
ARROW = re.compile(r"^\s*(.+?) -> (.+?) -> (.+?)\s*$", re.MULTILINE)
GRAPH = json.loads(sys.argv[2]) if len(sys.argv) > 2 else []

# Cognee reads its settings while it is imported.
os.environ |= {
    # Offline: no telemetry, no price list from the network, no first call to a model to see whether it is there.
    "TELEMETRY_DISABLED": "1",
    "LITELLM_LOCAL_MODEL_COST_MAP": "True",
    "COGNEE_SKIP_CONNECTION_TEST": "true",
    "CACHING": "false",
    "LLM_API_KEY": "unused",
    # …and nothing beside its folder.
    "DATA_ROOT_DIRECTORY": str(FOLDER / "data"),
    "SYSTEM_ROOT_DIRECTORY": str(FOLDER / "system"),
    "CACHE_ROOT_DIRECTORY": str(FOLDER / "cache"),
    "COGNEE_LOGS_DIR": str(FOLDER / "logs"),
    "COGNEE_REPOS_DIR": str(FOLDER / "repositories"),
    "HOME": str(FOLDER / "home"),
}
(FOLDER / "home").mkdir(parents=True, exist_ok=True)


class Words:
    """A tokenizer for which every word is a token."""

    def extract_tokens(self, text):
        return text.split()

    def count_tokens(self, text):
        return len(text.split())

    def decode_single_token(self, token):
        return token

    def trim_text_to_max_tokens(self, text, most):
        return " ".join(text.split()[:most])


class Embedder:
    """A bag of words, hashed into a vector of unit length."""

    model = "words"
    dimensions = DIMENSIONS
    max_completion_tokens = 8000
    tokenizer = Words()

    def get_vector_size(self):
        return DIMENSIONS

    def get_batch_size(self):
        return 64

    async def input_limit(self):
        return None

    async def embed_text(self, text):
        from cognee.infrastructure.databases.vector.embeddings.EmbeddingEngine import EmbeddingResult

        return EmbeddingResult([self.vector(one) for one in text], tokens=0)

    @staticmethod
    def vector(text):
        counts = [0.0] * DIMENSIONS
        for word in re.findall(r"\w+", text.lower().replace("_", " ")):
            counts[int(hashlib.sha256(word.encode()).hexdigest(), 16) % DIMENSIONS] += 1
        length = math.sqrt(sum(count * count for count in counts)) or 1.0
        return [count / length for count in counts]


async def read(text_input, system_prompt, response_model, **_):
    """What the model answers: the arrows of a text as a graph, its beginning as a summary, otherwise nothing."""
    if response_model is str:
        return ""
    found = {}
    if "nodes" in response_model.model_fields:
        arrows = ARROW.findall(text_input)
        names = dict.fromkeys(name for subject, _, object_ in arrows for name in (subject, object_))
        found["nodes"] = [{"id": name, "name": name, "type": "concept", "description": name} for name in names]
        found["edges"] = [
            {"source_node_id": subject, "target_node_id": object_, "relationship_name": relation}
            for subject, relation, object_ in arrows
        ]
    if "summary" in response_model.model_fields:
        found["summary"] = text_input[:80]
    return response_model(**found)


async def build():
    """The graph of GRAPH, as a user's own program would build it."""
    from cognee.infrastructure.engine.models.Edge import Edge
    from cognee.modules.engine.models import Entity, EntityType
    from cognee.modules.engine.operations.setup import setup
    from cognee.modules.users.methods import get_default_user
    from cognee.tasks.storage import add_data_points

    await setup()
    await get_default_user()  # made by whoever comes first; two who come at once to a new server fail at it
    kind = EntityType(name="concept", description="whatever has a name")
    entities = {}
    for name in dict.fromkeys(name for subject, _, object_ in GRAPH for name in (subject, object_)):
        entities[name] = Entity(name=name, description=name, is_a=kind)
    for subject, relation, object_ in GRAPH:
        entities[subject].relations.append((Edge(relationship_type=relation), entities[object_]))
    await add_data_points(list(entities.values()))


def say(port):
    """Where it is, on the real standard output: nothing else is written there."""
    os.write(OUTPUT, json.dumps({"url": f"http://127.0.0.1:{port}"}).encode() + b"\n")


def end(server):
    """Whoever started it is gone, or wants it to go."""
    sys.stdin.read()
    server.should_exit = True


def main():
    embedding = importlib.import_module("cognee.infrastructure.databases.vector.embeddings.get_embedding_engine")
    embedder = Embedder()
    embedding.create_embedding_engine = lambda *_, **__: embedder
    from cognee.infrastructure.llm.LLMGateway import LLMGateway

    LLMGateway.acreate_structured_output = staticmethod(read)
    import uvicorn
    from cognee.api.client import app

    class Server(uvicorn.Server):
        async def startup(self, sockets=None):
            await super().startup(sockets)  # which migrates its database, and only then listens
            say(sockets[0].getsockname()[1])

    async def serve():
        if GRAPH:
            await build()
        with socket.socket() as listening:
            listening.bind(("127.0.0.1", 0))
            server = Server(uvicorn.Config(app, log_level="warning"))
            threading.Thread(target=end, args=(server,), daemon=True).start()
            await server.serve(sockets=[listening])

    asyncio.run(serve())


if __name__ == "__main__":
    main()
