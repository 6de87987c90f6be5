"""Mistral: https://docs.mistral.ai/api/#tag/embeddings."""

from adapters.embedders.provider_api import EmbedRequest, ProviderApi


def _body(request: EmbedRequest) -> dict[str, object]:
    body: dict[str, object] = {"model": request.model, "input": list(request.texts), "encoding_format": "float"}
    return body if request.dimensions is None else {**body, "output_dimension": request.dimensions}


MISTRAL = ProviderApi(
    name="mistral",
    url="https://api.mistral.ai/v1",
    key_env="MISTRAL_API_KEY",
    model="mistral-embed",
    dimensions={"mistral-embed": 1024, "codestral-embed": 1536},
    most_texts=512,
    most_tokens=14_000,  # of 16,384
    max_text_tokens=8000,
    body=_body,
)
