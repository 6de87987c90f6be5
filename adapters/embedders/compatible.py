"""Any server with OpenAI's API: LM Studio, vLLM, llama.cpp's server, a proxy. No key unless one is configured."""

from adapters.embedders.provider_spec import ProviderSpec

LM_STUDIO = ProviderSpec(
    name="lmstudio",
    url="http://127.0.0.1:1234/v1",
    model="text-embedding-nomic-embed-text-v1.5",
    dimensions={"text-embedding-nomic-embed-text-v1.5": 768},
    max_text_tokens=2048,
    unreachable_hint="start the server in LM Studio, on its Developer page",
    unknown_model_hint="lms get {model}",
)
COMPATIBLE = ProviderSpec(
    name="compatible",
    dimensions={
        "nomic-embed-text": 768,  # Memory Cortex's (seed 002): its settings open a home also while its server is down
        "nomic-embed-text-v1.5": 768,
        **LM_STUDIO.dimensions,
    },
    unreachable_hint="start the server, or fix [embedder] url",
)
