"""Memory systems over HTTP: the exchange that all such adapters use, and an adapter that is only configuration."""

from adapters.http.exchange import CONNECT_S, REPLY_BYTES, Credential, Http, checked, fix_of
from adapters.http.memory import HttpMemory

__all__ = ["CONNECT_S", "REPLY_BYTES", "Credential", "Http", "HttpMemory", "checked", "fix_of"]
