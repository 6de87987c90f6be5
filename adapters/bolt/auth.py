"""Logs on with the current credentials; imported only with the driver."""

from __future__ import annotations

from neo4j import Auth, basic_auth
from neo4j.auth_management import AsyncAuthManager
from neo4j.exceptions import Neo4jError

from adapters.bolt.options import Server


class LogOn(AsyncAuthManager):
    """Asked for each connection that is taken from the pool: a renewed password is used without a restart."""

    def __init__(self, server: Server) -> None:
        self._server = server

    async def get_auth(self) -> Auth:
        return basic_auth(*self._server.credentials())

    async def handle_security_exception(self, auth: object, error: Neo4jError) -> bool:
        """Nothing to renew: the next connection reads the password again."""
        return False
