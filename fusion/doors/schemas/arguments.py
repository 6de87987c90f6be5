"""Reads the arguments of adapters' verbs and of query strings as models."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import MISSING, fields
from functools import cache
from typing import Any, TypeVar, get_type_hints

from pydantic import BaseModel, TypeAdapter, ValidationError, create_model

from fusion.doors.schemas.base import Asking, Scoped
from fusion.doors.validation import content_of, explain, refuse_duplicates
from fusion.errors import BadInput
from fusion.extension import Verb

B = TypeVar("B", bound=BaseModel)


def verb(kind: type[Verb], body: bytes) -> tuple[Verb, Scoped]:
    """A verb with its arguments, and its scope. Raises BadInput, which names each wrong argument."""
    given = content_of(body)
    for name, where in in_settings(kind).items():
        if isinstance(given, dict) and name in given:
            raise BadInput(f"{name}: a request does not say that; it is a setting: {where}")
    try:
        sent = _arguments_model(kind).validate_json(body)  # strict JSON mode accepts a list for a tuple
    except ValidationError as error:
        raise BadInput(explain(error)) from None
    own = {name: getattr(sent, name) for name in sent.model_fields_set - Asking.model_fields.keys()}
    return kind(**own), sent


def in_settings(kind: type[Verb]) -> Mapping[str, str]:
    """Former arguments of a verb that are settings now, each with the setting's name."""
    return getattr(kind, "in_settings", {})


@cache
def _arguments_model(kind: type[Verb]) -> TypeAdapter[Scoped]:
    """The model of a verb's body: its own arguments and a scope."""
    hints = get_type_hints(kind, include_extras=True)
    own: dict[str, Any] = {
        f.name: (hints[f.name], ... if f.default is MISSING and f.default_factory is MISSING else None)
        for f in fields(kind)  # type: ignore[arg-type]  # a Verb is a dataclass, which a protocol cannot declare
    }
    base = Asking if getattr(kind, "asks", False) else Scoped
    return TypeAdapter(create_model(kind.__name__, __base__=base, **own))


def in_query(model: type[B], parameters: Sequence[tuple[str, str]]) -> B:
    """A query string as ``model``. Raises BadInput for an unknown or duplicate parameter."""
    refuse_duplicates(parameters)
    try:
        return model.model_validate(dict(parameters))
    except ValidationError as error:
        raise BadInput(explain(error)) from None
