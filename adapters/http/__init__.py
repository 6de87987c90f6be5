"""Memory systems over HTTP: the exchange that all such adapters use, and an adapter that is only configuration."""

from adapters.http.exchange import REPLY_BYTES, Credential, Http, Request, checked, with_fix
from adapters.http.memory import HttpMemory
from adapters.http.options import HttpOptions, KeyedOptions

__all__ = [
    "REPLY_BYTES",
    "Credential",
    "Http",
    "HttpMemory",
    "HttpOptions",
    "KeyedOptions",
    "Request",
    "checked",
    "with_fix",
]
