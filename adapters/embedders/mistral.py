"""Mistral: https://docs.mistral.ai/api/#tag/embeddings."""

from functools import partial

from adapters.embedders.provider_spec import ProviderSpec, openai_body

MISTRAL = ProviderSpec(
    name="mistral",
    url="https://api.mistral.ai/v1",
    key_env="MISTRAL_API_KEY",
    model="mistral-embed",
    dimensions={"mistral-embed": 1024, "codestral-embed": 1536},
    most_texts=512,
    most_tokens=14_000,  # of 16,384
    max_text_tokens=8000,
    body=partial(openai_body, dimensions="output_dimension"),
)
