"""OpenAI: https://platform.openai.com/docs/api-reference/embeddings."""

from adapters.embedders.provider_spec import ProviderSpec

OPENAI = ProviderSpec(
    name="openai",
    url="https://api.openai.com/v1",
    key_env="OPENAI_API_KEY",
    model="text-embedding-3-small",
    dimensions={"text-embedding-3-small": 1536, "text-embedding-3-large": 3072, "text-embedding-ada-002": 1536},
    most_texts=2048,
    most_tokens=250_000,  # 300,000 are allowed, and ours are estimated
    max_text_tokens=8191,
)
