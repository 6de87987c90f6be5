"""Any server with OpenAI's API: LM Studio, vLLM, llama.cpp's server, a proxy. No key unless one is configured."""

from adapters.embedders.api import Api

LM_STUDIO = Api(
    name="lmstudio",
    url="http://127.0.0.1:1234/v1",
    model="text-embedding-nomic-embed-text-v1.5",
    dimensions={"text-embedding-nomic-embed-text-v1.5": 768},
    longest=2048,
    down="start the server in LM Studio, on its Developer page",
    missing="lms get {model}",
)
COMPATIBLE = Api(name="compatible", down="start the server, or fix [embedder] url")
