"""Server: the page, its files and its socket, on one port. One page drives at a time."""

import asyncio
import json
import logging
import secrets
from collections.abc import Callable
from dataclasses import dataclass, field
from http import HTTPStatus
from typing import Any

from websockets.asyncio.server import ServerConnection, serve
from websockets.datastructures import Headers
from websockets.exceptions import ConnectionClosed
from websockets.http11 import Request, Response

from pliant.core import InputError
from pliant.viewer.connections import (
    ConnectionLimits,
    ExhaustionLog,
    lengthen_queue,
    limited_connection,
)
from pliant.viewer.door import SOCKET, Door, check_address, headers_of, page_files
from pliant.viewer.loop import Loop
from pliant.viewer.recording import COMMANDS, PLAN
from pliant.viewer.wire import MOST_BYTES

TAKEN, TAKEN_OVER = 4001, 4002  # why a socket closes, beside the reason in words
QUIET = logging.getLogger(
    "pliant.viewer"
)  # a stranger's broken request is no news for the terminal
QUIET.addHandler(logging.NullHandler())
QUIET.propagate = False


@dataclass(kw_only=True)
class Server:
    """Serves a loop to one page at a time."""

    loop: Loop
    address: str = "127.0.0.1"
    port: int = 0  # 0: any that is free
    allow_remote: bool = False
    token: str = field(default_factory=lambda: secrets.token_urlsafe(16))
    limits: ConnectionLimits = field(default_factory=ConnectionLimits)

    def __post_init__(self) -> None:
        check_address(self.address, self.allow_remote)
        self._files, self._page = page_files(), None  # type: dict[str, bytes], ServerConnection | None
        self._scene = self.loop.scene()

    async def run(self, started: Callable[[str], None], stop: asyncio.Event) -> None:
        """Serve until `stop` is set or the simulation fails; `started` learns the page's
        address."""
        here = asyncio.get_running_loop()
        here.set_exception_handler(ExhaustionLog())
        self.loop.send = lambda message: asyncio.run_coroutine_threadsafe(self._send(message), here)
        self.loop.ended = lambda: here.call_soon_threadsafe(stop.set)  # type: ignore[assignment]
        try:
            server = await serve(
                self._drive,
                self.address,
                self.port,
                process_request=self._answer,
                max_size=MOST_BYTES,
                compression=None,
                logger=QUIET,
                close_timeout=1.0,
                server_header="pliant",
                open_timeout=self.limits.request_time,
                create_connection=limited_connection(self.limits),
                backlog=1,
            )
            lengthen_queue(server, self.limits)
        except (OSError, OverflowError, UnicodeError) as error:
            raise InputError(
                f"The page cannot be served at {self.address}, port {self.port} ({error}); name "
                "an address of this machine, and another --port or 0 for any that is free."
            ) from None
        self.door = Door(
            token=self.token, address=self.address, port=server.sockets[0].getsockname()[1]
        )
        async with server:
            self.loop.start()
            try:
                started(self.door.url)
                await stop.wait()
            finally:
                await here.run_in_executor(None, self.loop.stop)
        if self.loop.failure is not None:
            raise self.loop.failure

    # Plain requests

    async def _answer(self, connection: ServerConnection, request: Request) -> Response | None:
        """None lets a socket through; everything else is answered here."""
        name = self.door.path(request.path, request.headers)
        if name is None:
            return _refusal(HTTPStatus.FORBIDDEN, "Open the address that pliant drive has printed.")
        if request.method != "GET":
            return _refusal(
                HTTPStatus.METHOD_NOT_ALLOWED, "Here is only something to get.", Allow="GET"
            )
        if name == SOCKET:
            return None
        body = self._files.get(name) or await asyncio.to_thread(
            self._recorded, name
        )  # a long recording would keep the page waiting
        if body is None:
            return _refusal(HTTPStatus.NOT_FOUND, "There is no such file.")
        return _response(HTTPStatus.OK, body, headers_of(name, request.headers["Host"]))

    def _recorded(self, name: str) -> bytes | None:
        """The last recording as a file."""
        recording = self.loop.session.replayed
        if recording is None or name not in (COMMANDS, PLAN):
            return None
        return (
            recording.commands()
            if name == COMMANDS
            else json.dumps(recording.content(), allow_nan=False)
        ).encode()

    # The socket

    async def _drive(self, page: ServerConnection) -> None:
        """A page has opened its socket."""
        old = self._page
        if old is not None and not (page.request and page.request.path.endswith("?take")):
            await page.close(TAKEN, "Another page drives this robot.")
            return
        self._page = page
        if old is not None:
            self.loop.watch(False)
            await old.close(TAKEN_OVER, "Another page has taken over.")
        try:
            await page.send(self._scene)
            self.loop.watch(True)
            async for text in page:
                if self._page is page:
                    self.loop.hear(text)
        except ConnectionClosed:
            pass
        finally:
            if self._page is page:
                self._page = None
                self.loop.watch(False)

    async def _send(self, message: bytes) -> None:
        page = self._page
        if page is not None:
            try:
                await page.send(message)
            except ConnectionClosed:
                return


def _refusal(status: HTTPStatus, sentence: str, **headers: str) -> Response:
    return _response(status, f"{sentence}\n".encode(), {"Content-Type": "text/plain", **headers})


def _response(status: HTTPStatus, body: bytes, headers: Any) -> Response:
    return Response(
        status.value,
        status.phrase,
        Headers({**headers, "Content-Length": str(len(body)), "Connection": "close"}),
        body,
    )
