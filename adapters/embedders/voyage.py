"""Voyage AI: https://docs.voyageai.com/reference/embeddings-api. It embeds questions and texts differently."""

from adapters.embedders.provider_spec import EmbedRequest, ProviderSpec, openai_body


def _body(request: EmbedRequest) -> dict[str, object]:
    return openai_body(request, "output_dimension", input_type="query" if request.query else "document")


VOYAGE = ProviderSpec(
    name="voyage",
    url="https://api.voyageai.com/v1",
    key_env="VOYAGE_API_KEY",
    model="voyage-4-large",
    dimensions={
        "voyage-4-large": 1024,
        "voyage-4": 1024,
        "voyage-4-lite": 1024,
        "voyage-3-large": 1024,
        "voyage-3.5": 1024,
        "voyage-3.5-lite": 1024,
        "voyage-code-3": 1024,
    },
    most_texts=1000,
    most_tokens=100_000,  # of 120,000 for the largest models
    max_text_tokens=32_000,
    body=_body,
)
