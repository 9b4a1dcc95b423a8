"""Loop: the simulation in a thread of its own. It ticks while a page watches, and makes a frame
whenever the page asks for one."""

import threading
import time
from collections import deque
from collections.abc import Callable
from concurrent.futures import Future
from contextlib import suppress
from dataclasses import asdict, dataclass, field
from queue import Empty, Full, Queue
from typing import Any

import numpy as np

from pliant.core import PliantError
from pliant.viewer.recording import FASTEST
from pliant.viewer.session import Session
from pliant.viewer.wire import packed, understood

PERIOD = 1.0 / FASTEST  # [s]
LATE = 4  # ticks that are caught up with
MOST_WAITING = 1000  # messages from the page that wait for the next tick
WAIT = 0.1  # [s] how long the thread sleeps at a time while nobody watches


@dataclass(kw_only=True)
class Loop:
    """Ticks a session at up to 60 Hz. `send` brings a message to the page; the page answers each
    frame, so that only one is under way."""

    session: Session
    send: Callable[[bytes], Future | None] = lambda message: None  # done when the message has left
    ended: Callable[[], None] = lambda: None  # called when the thread ends by itself
    failure: Exception | None = None  # why it did
    took: deque[float] = field(
        default_factory=lambda: deque(maxlen=2000)
    )  # [s] of the last ticks, the making of frames included
    gaps: deque[float] = field(
        default_factory=lambda: deque(maxlen=2000)
    )  # [s] between the starts of the last ticks
    frames: int = 0  # that were sent
    steer: Callable[[Session], None] = lambda session: None  # called before every tick

    def __post_init__(self) -> None:
        self._texts: Queue[str | bytes] = Queue(MOST_WAITING)
        self._watched, self._stopped = threading.Event(), threading.Event()
        self._wanted = False  # does the page wait for a frame?
        self._complaint = ""  # what was wrong with the page's last message
        self._under_way: Future | None = None  # the last message to the page
        self._thread: threading.Thread | None = None
        self._due = time.perf_counter()  # when the next tick begins

    # Called by the server

    def start(self) -> None:
        self._thread = threading.Thread(target=self._run, name="pliant-drive", daemon=True)
        self._thread.start()

    def stop(self) -> None:
        self._stopped.set()
        self._watched.set()
        if self._thread is not None:
            self._thread.join()
        self.session.close()

    def watch(self, on: bool) -> None:
        """A page has come, and waits for its first frame, or has gone; without one the simulation
        waits, and nothing of the last page is left for the next."""
        if on:
            self._wanted, self._complaint = True, ""
            self._watched.set()
        else:
            self._watched.clear()
            with suppress(Empty):
                while True:
                    self._texts.get_nowait()

    def hear(self, text: str | bytes) -> None:
        """Take a message from the page; of a flood what is too much is lost."""
        with suppress(Full):
            self._texts.put_nowait(text)

    def scene(self) -> bytes:
        """The first message to a page: what it draws."""
        head, arrays = self.session.picture.scene()
        controls = [asdict(control) for control in self.session.controls]
        return packed(
            {
                "type": "scene",
                **head,
                "controls": controls,
                "effectors": list(self.session.robot.effectors),
                "dt": self.session.dt,
            },
            arrays,
        )

    # The thread

    def _run(self) -> None:
        try:
            while not self._stopped.is_set():
                if self._watched.wait(WAIT) and not self._stopped.is_set():
                    self.turn()
                else:
                    self.session.rest()
        except Exception as error:
            self.failure = error
            self.ended()

    def turn(self) -> None:
        """One tick, what was said before it and the frame after it, and a rest until the next is
        due."""
        began = time.perf_counter()
        self._listen()
        self.steer(self.session)
        self.session.tick()
        self._answer()
        ended = time.perf_counter()
        self.took.append(ended - began)
        self._due = max(self._due + PERIOD, ended - LATE * PERIOD)
        self._stopped.wait(max(0.0, self._due - ended))
        self.gaps.append(time.perf_counter() - began)

    def _answer(self) -> None:
        """One message at a time, so that a page which asks and does not read fills nothing."""
        if self._under_way is not None and not self._under_way.done():
            return
        if self._complaint:
            self._under_way = self.send(packed({"type": "error", "text": self._complaint}, {}))
            self._complaint = ""
        elif self._wanted:
            self._wanted, self.frames = False, self.frames + 1
            self._under_way = self.send(self.frame())

    def _listen(self) -> None:
        while True:
            try:
                message = understood(self._texts.get_nowait())
                if message["say"] == "seen":
                    self._wanted = True
                else:
                    self.session.hear(message)
            except Empty:
                return
            except PliantError as error:
                self._complaint = str(error)

    @property
    def rate(self) -> float:
        """[Hz] of the last second or so."""
        last = list(self.gaps)[-60:]
        return len(last) / sum(last) if last else 0.0

    def frame(self) -> bytes:
        """Where everything is now."""
        s = self.session
        pose, wish = s.pose, s.wish
        under_way = None if s.recorder is None else len(s.recorder.rows)
        recorded = (
            None
            if s.replayed is None
            else {"ticks": s.replayed.ticks, "seconds": s.replayed.seconds, "number": s.recordings}
        )
        head: dict[str, Any] = {
            "type": "frame",
            "k": int(pose.k),
            "time": s.time,
            "rate": self.rate,
            "tick": 1e3 * (self.took[-1] if self.took else 0.0),
            "solve": 1e3 * float(pose.solve_seconds),
            "error": _number(s.error),
            "ok": pose.ok,
            "state": pose.state,
            "text": s.text,
            "said": s.trouble,
            "mode": wish.mode,
            "paused": wish.paused,
            "recording": under_way,
            "recorded": recorded,
            "colour": wish.colour,
            "active": list(s.active),
            "u": pose.u.tolist(),
            "wanted": wish.controls.tolist(),
            "targets": {name: at.tolist() for name, at in wish.targets.items()},
            "places": {name: at.tolist() for name, at in s.places.items()},
        }
        return packed(head, s.picture.frame(s.position, pose.u, wish.colour))


def _number(value: float) -> float | None:
    return float(value) if np.isfinite(value) else None
