"""What the tests of the page share: a small arm, a server in a thread, and the page's side of the
socket."""

import asyncio
import json
import threading
import time
from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import dataclass
from queue import Queue
from urllib.parse import urlsplit

import numpy as np
from websockets.sync.client import connect

from pliant.viewer import Session, make_session
from pliant.viewer.loop import Loop
from pliant.viewer.server import Server
from pliant.zoo.robots import line_arm

LENGTH = 0.2  # [m] of the arm
REACHABLE = np.array([0.012, 0.006, -0.002])  # [m] from where the arm's laser stands at rest


def small_arm(**more) -> Session:
    return make_session(line_arm(layers=8, across=2), **more)


@dataclass(kw_only=True)
class Stand:
    """A server under test."""

    url: str
    server: Server
    tasks: Queue

    @property
    def session(self) -> Session:
        return self.server.loop.session

    @property
    def host(self) -> str:
        return urlsplit(self.url).netloc

    def open(self, *, take: bool = False):
        """A page's socket."""
        address = self.url.replace("http", "ws") + "socket" + ("?take" if take else "")
        return connect(address, origin=f"http://{self.host}", compression=None, max_size=None)


@contextmanager
def served(session: Session, **more) -> Iterator[Stand]:
    server, told, tasks = Server(loop=Loop(session=session), **more), Queue(), Queue()

    async def run() -> None:
        stop = asyncio.Event()
        here = asyncio.get_running_loop()
        count = lambda: tasks.put(len(asyncio.all_tasks()))
        ask = lambda: here.call_soon_threadsafe(count)
        await server.run(
            lambda url: told.put((url, lambda: here.call_soon_threadsafe(stop.set), ask)), stop
        )

    def work() -> None:
        try:
            asyncio.run(run())
        except Exception as error:  # a test waits for it
            told.put(error)

    thread = threading.Thread(target=work)
    thread.start()
    found = told.get(timeout=120)
    if isinstance(found, Exception):
        raise found
    url, stop, ask = found
    stand = Stand(url=url, server=server, tasks=tasks)
    stand.count_tasks = ask
    try:
        yield stand
    finally:
        stop()
        thread.join(timeout=30)
        assert not thread.is_alive()


def unpacked(message: bytes) -> dict:
    """A message to the page: its head, with the arrays by name."""
    size = int.from_bytes(message[:4], "little")
    head, at = json.loads(message[4 : 4 + size]), 4 + size
    arrays = {}
    for name, kind, count in head["blocks"]:
        arrays[name] = np.frombuffer(message, dtype=f"<{kind}4", count=count, offset=at)
        at += 4 * count
    assert at == len(message)
    return {**head, "arrays": arrays}


def send(page, kind: str, **fields) -> None:
    page.send(json.dumps({"type": kind, **fields}))


def until(page, wanted, *, answer: bool = True, timeout: float = 60.0) -> dict:
    """The first message for which wanted(message) holds; frames are answered on the way."""
    end = time.monotonic() + timeout
    while True:
        message = unpacked(page.recv(timeout=max(end - time.monotonic(), 0.0)))
        if message["type"] == "frame" and answer:
            send(page, "seen")
        if wanted(message):
            return message


def a_frame(message: dict) -> bool:
    return message["type"] == "frame"


def an_error(message: dict) -> bool:
    return message["type"] == "error"


def led(session, by, steps=60):
    """Move the target by `by` [m] and run control steps."""
    session.handle_message(
        {
            "type": "target",
            "effector": "laser",
            "at": (session.effector_positions["laser"] + by).tolist(),
        }
    )
    for _ in range(steps):
        session.step()


def recorded(session, steps=25):
    session.handle_message({"type": "record", "on": True})
    led(session, np.array([0.01, -0.004, 0.0]), steps)
    session.handle_message({"type": "record", "on": False})
    return session.last_recording
