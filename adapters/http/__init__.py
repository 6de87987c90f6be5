"""Memory systems behind HTTP: the exchange that every adapter over HTTP uses, and one that is all configuration."""

from adapters.http.exchange import CONNECT_S, REPLY_BYTES, Credential, Http, checked, fix_of
from adapters.http.memory import HttpMemory

__all__ = ["CONNECT_S", "REPLY_BYTES", "Credential", "Http", "HttpMemory", "checked", "fix_of"]
