"""A small arm, a server in a thread and a client of its socket, for the tests of the viewer."""

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
REACHABLE = np.array([0.012, 0.006, -0.002])  # [m] displacement of the arm's laser from rest


def small_arm(**more) -> Session:
    return make_session(line_arm(layers=8, across=2), **more)


@dataclass(kw_only=True)
class RunningServer:
    """A server that runs in a thread of the test process."""

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
        """Open the socket of a page. `take` replaces the page that is connected."""
        address = self.url.replace("http", "ws") + "socket" + ("?take" if take else "")
        return connect(address, origin=f"http://{self.host}", compression=None, max_size=None)


@contextmanager
def served(session: Session, **more) -> Iterator[RunningServer]:
    """Run a server of the session in a thread until the block ends."""
    server, ready, tasks = Server(loop=Loop(session=session), **more), Queue(), Queue()

    async def run() -> None:
        stop = asyncio.Event()
        events = asyncio.get_running_loop()
        report_tasks = lambda: tasks.put(len(asyncio.all_tasks()))
        count_tasks = lambda: events.call_soon_threadsafe(report_tasks)
        await server.run(
            lambda url: ready.put(
                (url, lambda: events.call_soon_threadsafe(stop.set), count_tasks)
            ),
            stop,
        )

    def work() -> None:
        try:
            asyncio.run(run())
        except Exception as error:  # raised again in the thread of the test
            ready.put(error)

    thread = threading.Thread(target=work)
    thread.start()
    started = ready.get(timeout=120)
    if isinstance(started, Exception):
        raise started
    url, stop, count_tasks = started
    running = RunningServer(url=url, server=server, tasks=tasks)
    running.count_tasks = count_tasks
    try:
        yield running
    finally:
        stop()
        thread.join(timeout=30)
        assert not thread.is_alive()


def unpacked(message: bytes) -> dict:
    """Decode a message to the page: its header, with a dictionary of its arrays."""
    size = int.from_bytes(message[:4], "little")
    header, offset = json.loads(message[4 : 4 + size]), 4 + size
    arrays = {}
    for name, kind, count in header["blocks"]:
        arrays[name] = np.frombuffer(message, dtype=f"<{kind}4", count=count, offset=offset)
        offset += 4 * count
    assert offset == len(message)
    return {**header, "arrays": arrays}


def send(page, kind: str, **fields) -> None:
    page.send(json.dumps({"type": kind, **fields}))


def receive_until(page, condition, *, acknowledge: bool = True, timeout: float = 60.0) -> dict:
    """Return the first message that satisfies `condition`. Acknowledge the frames before it."""
    end = time.monotonic() + timeout
    while True:
        message = unpacked(page.recv(timeout=max(end - time.monotonic(), 0.0)))
        if message["type"] == "frame" and acknowledge:
            send(page, "seen")
        if condition(message):
            return message


def is_frame(message: dict) -> bool:
    return message["type"] == "frame"


def is_error(message: dict) -> bool:
    return message["type"] == "error"


def move_target(session, displacement, steps=60):
    """Move the target by a displacement [m] and run control steps."""
    session.handle_message(
        {
            "type": "target",
            "effector": "laser",
            "at": (session.effector_positions["laser"] + displacement).tolist(),
        }
    )
    for _ in range(steps):
        session.step()


def make_recording(session, steps=25):
    """Record control steps with a moving target and return the recording."""
    session.handle_message({"type": "record", "on": True})
    move_target(session, np.array([0.01, -0.004, 0.0]), steps)
    session.handle_message({"type": "record", "on": False})
    return session.last_recording
