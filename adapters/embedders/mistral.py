"""Mistral: https://docs.mistral.ai/api/#tag/embeddings."""

from adapters.embedders.api import Api, Ask


def _body(ask: Ask) -> dict[str, object]:
    body: dict[str, object] = {"model": ask.model, "input": list(ask.texts), "encoding_format": "float"}
    return body if ask.dimensions is None else {**body, "output_dimension": ask.dimensions}


MISTRAL = Api(
    name="mistral",
    url="https://api.mistral.ai/v1",
    key_env="MISTRAL_API_KEY",
    model="mistral-embed",
    dimensions={"mistral-embed": 1024, "codestral-embed": 1536},
    most_texts=512,
    most_tokens=14_000,  # of 16,384
    longest=8000,
    body=_body,
)
