"""Wake-ups between the gateways of one PostgreSQL database: each notifies after a commit, and listens to the others.

They only save time. What they announce is read from the tables, which every gateway also looks at by itself, so a lost
notification delays and a made-up one costs one look. A payload has the schema and who sent it, and nothing of a memory.
"""

from __future__ import annotations

import asyncio
import logging
import secrets
import threading
from collections.abc import Callable, Mapping
from concurrent.futures import ThreadPoolExecutor
from contextlib import aclosing, suppress
from typing import Any, NoReturn

import psycopg

from fusion.errors import FusionError
from fusion.lib.backoff import backoff_s
from fusion.store.postgres_sql import SAFE_PATH

log = logging.getLogger(__name__)

CHANNEL = "fusion"
APART_S = 0.05
"""least seconds between two notifications of one gateway; what changes meanwhile shares the next one"""
CHECK_S = 15.0
"""seconds without a notification after which the connection is tried"""
PROBE_S = 5.0
"""seconds in which a notification of its own has to come back; a pooler that shares connections loses it"""
FIRST_RETRY_S, MAX_RETRY_S, RETRY_SPREAD = 0.2, 60.0, 0.2
"""seconds until it connects again, doubled up to a minute, ± 20 %"""
_KEEPALIVES: Mapping[str, Any] = {"keepalives_idle": 15, "keepalives_interval": 5, "keepalives_count": 3}
_NOTIFY = (
    # Only a notification is committed, so its commit need not wait for the disk.
    f"begin; set local {SAFE_PATH}; set local synchronous_commit to off; "
    "select pg_notify('{channel}', payload) "
    "from json_array_elements_text('{payloads}') payload; commit"
)


class Notifications:
    """Sends the notifications of one gateway, and wakes its subscribers on those of others.

    ``parameters`` are those of a connection; ``ask`` runs statements on another one; ``place`` is for messages.
    """

    def __init__(self, parameters: Mapping[str, Any], place: str, ask: Callable[[str], Any]) -> None:
        self._parameters, self._place, self._ask = {**_KEEPALIVES, **parameters}, place, ask
        self._name = secrets.token_hex(8)
        """by which it knows its own notifications"""
        self._wakes: dict[str, list[Callable[[], None]]] = {}
        self._changed: set[str] = set()
        self._lock = threading.Lock()
        self._sender = ThreadPoolExecutor(1, thread_name_prefix="notify")
        self._closed = threading.Event()
        self._failures = 0
        """tries to listen in a row that failed"""

    def subscribe(self, schema: str, wake: Callable[[], None]) -> None:
        """Call ``wake`` in the event loop when another gateway has changed this schema."""
        with self._lock:
            self._wakes[schema] = [*self._wakes.get(schema, ()), wake]

    def unsubscribe(self, schema: str, wake: Callable[[], None]) -> None:
        """Wake it no more; in any thread."""
        with self._lock:
            self._wakes[schema] = [one for one in self._wakes.get(schema, ()) if one != wake]
            if not self._wakes[schema]:
                del self._wakes[schema]

    def announce(self, schema: str) -> None:
        """Notify the other gateways that a schema has changed; returns at once, in any thread."""
        with self._lock:
            is_first = not self._changed
            self._changed.add(schema)
        if is_first:
            with suppress(RuntimeError):  # it is being closed
                self._sender.submit(self._send_changed)

    def close(self) -> None:
        """Send what waits, and no more."""
        self._closed.set()
        self._sender.shutdown(wait=True)

    def _send_changed(self) -> None:
        with self._lock:
            changed, self._changed = self._changed, set()
        try:
            self._send(*changed)
        except (FusionError, psycopg.Error) as error:
            log.debug("a change was not announced: %s", type(error).__name__)
        self._closed.wait(APART_S)

    def _send(self, *schemas: str) -> None:
        # A schema's name has letters, digits and "_" only, so it needs no quoting.
        payloads = ", ".join(f'"{schema} {self._name}"' for schema in schemas)
        self._ask(_NOTIFY.format(channel=CHANNEL, payloads=f"[{payloads}]"))

    # Listening

    async def listen(self) -> NoReturn:
        """Wake the subscribers on notifications of other gateways, until it is cancelled.

        A connection that breaks is made anew. All subscribers are woken then, since notifications may have been lost.
        """
        while True:
            try:
                await self._follow()
            except (psycopg.Error, FusionError, OSError) as error:  # a TimeoutError is an OSError
                self._failures += 1
                if self._failures == 1:
                    log.warning(
                        "PostgreSQL at %s sends no notifications now (%s): changes by other gateways are looked for "
                        "every few seconds. A pooler in between must keep a connection to its client",
                        self._place,
                        type(error).__name__,
                    )
            await asyncio.sleep(backoff_s(self._failures, FIRST_RETRY_S, MAX_RETRY_S, spread=RETRY_SPREAD))

    async def _follow(self) -> NoReturn:
        """Listen on one connection until it breaks. Raises the error of that, and TimeoutError as `_probe`."""
        async with await psycopg.AsyncConnection.connect(**self._parameters, autocommit=True) as db:
            await db.execute(f"listen {CHANNEL}")
            await self._probe(db)
            self._failures = 0
            self._wake_all()
            while True:
                async for one in db.notifies(timeout=CHECK_S):
                    self._received(one.payload)
                await db.execute("select 1")

    async def _probe(self, db: psycopg.AsyncConnection[Any]) -> None:
        """Raises TimeoutError if a notification does not arrive: the connection may be one that a pooler shares."""
        await asyncio.to_thread(self._send, "probe")
        async with aclosing(db.notifies(timeout=PROBE_S)) as received:
            async for one in received:
                if one.payload == f"probe {self._name}":
                    return
        raise TimeoutError

    def _received(self, payload: str) -> None:
        """Wake those of the schema that a payload names; anybody with a login may have made it up."""
        schema, _, sender = payload.partition(" ")
        if sender != self._name:
            for wake in self._wakes.get(schema, ()):
                wake()

    def _wake_all(self) -> None:
        for wakes in list(self._wakes.values()):
            for wake in wakes:
                wake()
