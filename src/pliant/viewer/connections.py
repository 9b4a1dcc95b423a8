"""Limits of the drive server's connections: how many, and how long each may take to send a request.

If the process runs out of file descriptors, the server says so once and accepts connections again
as soon as descriptors are free.
"""

import asyncio
import errno
import logging
from contextlib import suppress
from dataclasses import dataclass, field
from typing import Any

from websockets.asyncio.server import Server, ServerConnection

LOG = logging.getLogger("pliant.drive")


@dataclass(frozen=True, kw_only=True)
class ConnectionLimits:
    """A browser opens up to six connections to load a page and keeps one."""

    count: int = 64  # ten browsers that load at once; 1/16 of the usual 1024 file descriptors
    request_time: float = 5.0  # [s] until the request of a new connection must have arrived
    queue: int = 100  # connections that the system holds until they are accepted


def limited_connection(limits: ConnectionLimits) -> type[ServerConnection]:
    """Return a connection class of which `limits.count` may be open; further ones are aborted."""
    opened: set[ServerConnection] = set()

    class LimitedConnection(ServerConnection):
        def connection_made(self, transport: Any) -> None:
            if len(opened) >= limits.count:
                transport.abort()
                return
            opened.add(self)
            super().connection_made(transport)

        def connection_lost(self, exc: Exception | None) -> None:
            if self in opened:
                opened.remove(self)
                super().connection_lost(exc)

    return LimitedConnection


def lengthen_queue(server: Server, limits: ConnectionLimits) -> None:
    """Let the system hold more connections than the event loop accepts at once.

    Create the server with `backlog=1`: asyncio uses this number for both, and if no descriptor is
    free it makes as many attempts, logs each, and schedules as many further ones.
    """
    for sock in server.sockets:
        with suppress(OSError), sock.dup() as twin:
            twin.listen(limits.queue)


@dataclass
class ExhaustionLog:
    """An exception handler of an event loop that reports missing descriptors once."""

    reported: bool = field(default=False, init=False)

    def __call__(self, loop: asyncio.AbstractEventLoop, context: dict[str, Any]) -> None:
        error = context.get("exception")
        if "socket" not in context or getattr(error, "errno", None) not in (
            errno.EMFILE,
            errno.ENFILE,
            errno.ENOBUFS,
            errno.ENOMEM,
        ):
            loop.default_exception_handler(context)
        elif not self.reported:
            self.reported = True
            LOG.warning(
                "The drive server cannot accept connections (%s). It tries again every second; "
                "close other programs that are connected to it.",
                getattr(error, "strerror", error),
            )
