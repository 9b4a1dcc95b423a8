"""Server of the page, its files and its WebSocket on one port. One page drives at a time."""

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
from pliant.viewer.access import SOCKET_PATH, Access, check_address, page_files, response_headers
from pliant.viewer.connections import (
    ConnectionLimits,
    ExhaustionLog,
    lengthen_queue,
    limited_connection,
)
from pliant.viewer.loop import Loop
from pliant.viewer.messages import MAX_MESSAGE_BYTES
from pliant.viewer.recording import COMMANDS, PLAN

CLOSE_OCCUPIED, CLOSE_TAKEN_OVER = 4001, 4002  # WebSocket close codes
LOG = logging.getLogger("pliant.viewer")  # silent: invalid requests are not the user's concern
LOG.addHandler(logging.NullHandler())
LOG.propagate = False


@dataclass(kw_only=True)
class Server:
    """A server that connects a control loop to one page at a time."""

    loop: Loop
    address: str = "127.0.0.1"
    port: int = 0  # 0: any free port
    allow_remote: bool = False
    token: str = field(default_factory=lambda: secrets.token_urlsafe(16))
    limits: ConnectionLimits = field(default_factory=ConnectionLimits)

    def __post_init__(self) -> None:
        check_address(self.address, self.allow_remote)
        self._files, self._page = page_files(), None  # type: dict[str, bytes], ServerConnection | None
        self._scene = self.loop.scene()

    async def run(self, on_ready: Callable[[str], None], stop: asyncio.Event) -> None:
        """Serve until `stop` is set or the simulation fails. Call `on_ready` with the URL of the
        page as soon as it is available."""
        here = asyncio.get_running_loop()
        here.set_exception_handler(ExhaustionLog())
        self.loop.send = lambda message: asyncio.run_coroutine_threadsafe(self._send(message), here)
        self.loop.on_end = lambda: here.call_soon_threadsafe(stop.set)  # type: ignore[assignment]
        try:
            server = await serve(
                self._drive,
                self.address,
                self.port,
                process_request=self._answer,
                max_size=MAX_MESSAGE_BYTES,
                compression=None,
                logger=LOG,
                close_timeout=1.0,
                server_header="pliant",
                open_timeout=self.limits.request_time,
                create_connection=limited_connection(self.limits),
                backlog=1,
            )
            lengthen_queue(server, self.limits)
        except (OSError, OverflowError, UnicodeError) as error:
            raise InputError(
                f"The page cannot be served at {self.address}, port {self.port} ({error}). "
                "Use an address of this machine and another --port, or 0 for any free port."
            ) from None
        self.access = Access(
            token=self.token, address=self.address, port=server.sockets[0].getsockname()[1]
        )
        async with server:
            self.loop.start()
            try:
                on_ready(self.access.url)
                await stop.wait()
            finally:
                await here.run_in_executor(None, self.loop.stop)
        if self.loop.failure is not None:
            raise self.loop.failure

    # Plain requests

    async def _answer(self, connection: ServerConnection, request: Request) -> Response | None:
        """Answer a plain HTTP request. Return None for a WebSocket request."""
        name = self.access.authorized_path(request.path, request.headers)
        if name is None:
            return _refusal(HTTPStatus.FORBIDDEN, "Open the URL that pliant drive has printed.")
        if request.method != "GET":
            return _refusal(HTTPStatus.METHOD_NOT_ALLOWED, "Only GET is allowed.", Allow="GET")
        if name == SOCKET_PATH:
            return None
        # in a thread: encoding a long recording would delay the frames
        body = self._files.get(name) or await asyncio.to_thread(self._recording_file, name)
        if body is None:
            return _refusal(HTTPStatus.NOT_FOUND, "This file does not exist.")
        return _response(HTTPStatus.OK, body, response_headers(name, request.headers["Host"]))

    def _recording_file(self, name: str) -> bytes | None:
        """Return the last recording as the content of a file. None if there is none."""
        recording = self.loop.session.last_recording
        if recording is None or name not in (COMMANDS, PLAN):
            return None
        return (
            recording.commands()
            if name == COMMANDS
            else json.dumps(recording.content(), allow_nan=False)
        ).encode()

    # The WebSocket

    async def _drive(self, page: ServerConnection) -> None:
        """Serve a page until it disconnects or another page takes over."""
        old = self._page
        if old is not None and not (page.request and page.request.path.endswith("?take")):
            await page.close(CLOSE_OCCUPIED, "Another page drives this robot.")
            return
        self._page = page
        if old is not None:
            self.loop.set_watched(False)
            await old.close(CLOSE_TAKEN_OVER, "Another page has taken over.")
        try:
            await page.send(self._scene)
            self.loop.set_watched(True)
            async for text in page:
                if self._page is page:
                    self.loop.receive(text)
        except ConnectionClosed:
            pass
        finally:
            if self._page is page:
                self._page = None
                self.loop.set_watched(False)

    async def _send(self, message: bytes) -> None:
        page = self._page
        if page is not None:
            try:
                await page.send(message)
            except ConnectionClosed:
                return


def _refusal(status: HTTPStatus, message: str, **headers: str) -> Response:
    return _response(status, f"{message}\n".encode(), {"Content-Type": "text/plain", **headers})


def _response(status: HTTPStatus, body: bytes, headers: Any) -> Response:
    return Response(
        status.value,
        status.phrase,
        Headers({**headers, "Content-Length": str(len(body)), "Connection": "close"}),
        body,
    )
