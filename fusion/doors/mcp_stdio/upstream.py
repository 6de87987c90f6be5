"""Passes calls of tools on to `/mcp` of the home's server, which is found or started in the background."""

from __future__ import annotations

import json
import secrets
from collections.abc import Callable, Mapping
from contextlib import closing, suppress
from pathlib import Path
from threading import Event, Lock, Thread
from typing import Any
from urllib.parse import urlencode

from fusion import local_server
from fusion.doors.mcp import ToolSet
from fusion.doors.mcp_stdio.protocol import HANDSHAKES, INTERNAL_ERROR, RpcError, ToolCall
from fusion.errors import FusionError, ServerUnreachable
from fusion.home import Located, missing_home, owner
from fusion.local_server import Proven
from fusion.trust import require

START_S = 20.0
"""seconds that a call waits for the home's server before it reports that the server is still starting"""
STARTING_S = 30.0
"""seconds for the first start, of which the calls wait for `START_S`"""
ANSWER_S = 30.0
"""seconds to wait for the result of a tool"""
PATHS: Mapping[ToolSet, str] = {
    "fusion": "/mcp",
    "cortex": "/mcp/cortex",
    "openclaw-mem": "/mcp/openclaw-mem",
    "qmd": "/mcp/qmd",
}


class HomeServer:
    """The home's server as the one who carries calls out. ``fixed`` is the part of the scope that no call may leave."""

    def __init__(
        self, home: Located, config: Path | None, tools: ToolSet, fixed: Mapping[str, str], *, create: bool
    ) -> None:
        self._home = home
        self._config = config
        self._create = create
        self._path = f"{PATHS[tools]}?{urlencode(fixed)}" if fixed else PATHS[tools]
        self._session = f"mcp-{secrets.token_hex(8)}"
        self._tried = Event()
        self._trying = Lock()

    def start(self) -> None:
        """Find or start the server in a thread; whether that fails, each call finds out for itself."""

        def find() -> None:
            with suppress(FusionError, OSError):
                self._connect(STARTING_S).close()
            self._trying.release()
            self._tried.set()

        if self._trying.acquire(blocking=False):
            Thread(target=find, daemon=True).start()

    def call(self, call: ToolCall) -> dict[str, Any]:
        """The result of a tool. Raises RpcError where the server refuses the message, and FusionErrors."""
        if not self._tried.wait(START_S):
            raise ServerUnreachable(f"The server of {self._home.path} is still starting; try again in a moment.")
        self._do_not_wait_for_another_failure()
        body = {"name": call.name, "arguments": call.arguments}
        content = json.dumps({"jsonrpc": "2.0", "id": 1, "method": "tools/call", "params": body}).encode()
        headers = {
            "accept": "application/json, text/event-stream",
            "mcp-protocol-version": call.version if call.version in HANDSHAKES else HANDSHAKES[-1],
            "mcp-session-id": self._session,
        }
        return self._parsed(*self._sent(lambda server: server.send(self._path, content, ANSWER_S, headers)))

    def _do_not_wait_for_another_failure(self) -> None:
        """Raise ServerUnreachable where the last server did not start; another is started for a later call."""
        folder = self._folder()
        if owner(folder) is None and (why := local_server.failed_start(folder)):
            self.start()
            raise ServerUnreachable(f"The server of {folder} did not start: {why}")

    def _sent(self, send: Callable[[Proven], tuple[int, bytes]]) -> tuple[int, bytes]:
        with closing(self._connect(START_S)) as server:
            try:
                return send(server)
            except TimeoutError:
                what = "did not answer in time"
            except (OSError, ValueError) as error:
                what = f"does not answer ({str(error) or type(error).__name__})"
        raise ServerUnreachable(f"The server of {self._home.path} {what}. See {self._home.path / 'server.log'}")

    def _connect(self, start_s: float) -> Proven:
        """A connection to the server, which is started if none runs: it has ``start_s`` for that.

        Raises FusionErrors; HomeNotAllowed comes before anything in a home is opened. A server that hangs is dead, and
        not waited for.
        """
        folder = self._folder()
        hello_s = local_server.hello_s(folder)
        if (running := local_server.greet(folder, hello_s)) is not None:
            return running
        from fusion.client import ensure_connection  # slow to import, and only needed where a server has to start

        return ensure_connection(folder, self._config, timeout_s=start_s, hello_s=hello_s)

    def _folder(self) -> Path:
        """The folder of the home. Raises SettingsError if it is not there, and HomeNotAllowed."""
        if not self._create and not self._home.path.is_dir():
            raise missing_home(self._home.path)
        return require(self._home.path, named=self._home.named, config=self._config)

    def _parsed(self, status: int, content: bytes) -> dict[str, Any]:
        try:
            reply = json.loads(content)
        except ValueError:
            reply = None
        if isinstance(reply, dict) and isinstance(result := reply.get("result"), dict):
            return result
        if isinstance(reply, dict) and isinstance(error := reply.get("error"), dict):
            raise RpcError(error.get("code", INTERNAL_ERROR), str(error.get("message")), error.get("data"))
        from fusion.problem import error_of

        raise error_of(reply if isinstance(reply, dict) else {}, status)
