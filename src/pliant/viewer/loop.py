"""Control loop: advances a session in its own thread while a page is connected, and sends a frame
when the page requests one."""

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
from pliant.viewer.messages import decode_message, encode_message
from pliant.viewer.recording import CONTROL_RATE
from pliant.viewer.session import Session

CONTROL_PERIOD = 1.0 / CONTROL_RATE  # [s]
MAX_DELAYED_STEPS = 4  # control steps that the loop catches up after a delay
MAX_QUEUED_MESSAGES = 1000  # messages from the page that wait for the next control step
IDLE_PERIOD = 0.1  # [s] between two checks for a page while none is connected


@dataclass(kw_only=True)
class Loop:
    """A control loop of up to 60 Hz. `send` sends a message to the page. The page answers each
    frame, so that only one is in transit."""

    session: Session
    send: Callable[[bytes], Future | None] = lambda message: None  # done when the message is sent
    on_end: Callable[[], None] = lambda: None  # called if the thread fails
    failure: Exception | None = None  # why it failed
    # [s] computing time of the last control steps, including frames
    step_times: deque[float] = field(default_factory=lambda: deque(maxlen=2000))
    # [s] between the starts of the last control steps
    step_intervals: deque[float] = field(default_factory=lambda: deque(maxlen=2000))
    frames: int = 0  # number of frames sent
    before_step: Callable[[Session], None] = lambda session: None  # called before each control step

    def __post_init__(self) -> None:
        self._texts: Queue[str | bytes] = Queue(MAX_QUEUED_MESSAGES)
        self._watched, self._stopped = threading.Event(), threading.Event()
        self._frame_requested = False
        self._message_error = ""  # what was wrong with the last message from the page
        self._in_transit: Future | None = None  # the last message to the page
        self._thread: threading.Thread | None = None
        self._due = time.perf_counter()  # start of the next control step

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

    def set_watched(self, on: bool) -> None:
        """Start the simulation when a page connects; pause it and drop queued messages when the
        page disconnects."""
        if on:
            self._frame_requested, self._message_error = True, ""
            self._watched.set()
        else:
            self._watched.clear()
            with suppress(Empty):
                while True:
                    self._texts.get_nowait()

    def receive(self, text: str | bytes) -> None:
        """Queue a message from the page. Drop it if the queue is full."""
        with suppress(Full):
            self._texts.put_nowait(text)

    def scene(self) -> bytes:
        """Return the first message to a page: everything that does not change."""
        head, arrays = self.session.picture.scene()
        controls = [asdict(control) for control in self.session.controls]
        return encode_message(
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
                if self._watched.wait(IDLE_PERIOD) and not self._stopped.is_set():
                    self.step()
                else:
                    self.session.restart_clock()
        except Exception as error:
            self.failure = error
            self.on_end()

    def step(self) -> None:
        """Handle queued messages, run a control step, answer the page and sleep until the next
        step is due."""
        start = time.perf_counter()
        self._handle_messages()
        self.before_step(self.session)
        self.session.step()
        self._answer()
        end = time.perf_counter()
        self.step_times.append(end - start)
        self._due = max(self._due + CONTROL_PERIOD, end - MAX_DELAYED_STEPS * CONTROL_PERIOD)
        self._stopped.wait(max(0.0, self._due - end))
        self.step_intervals.append(time.perf_counter() - start)

    def _answer(self) -> None:
        """Send at most one message at a time, so that a page which does not read fills no
        buffer."""
        if self._in_transit is not None and not self._in_transit.done():
            return
        if self._message_error:
            error = {"type": "error", "text": self._message_error}
            self._in_transit = self.send(encode_message(error, {}))
            self._message_error = ""
        elif self._frame_requested:
            self._frame_requested, self.frames = False, self.frames + 1
            self._in_transit = self.send(self.frame())

    def _handle_messages(self) -> None:
        while True:
            try:
                message = decode_message(self._texts.get_nowait())
                if message["type"] == "seen":
                    self._frame_requested = True
                else:
                    self.session.handle_message(message)
            except Empty:
                return
            except PliantError as error:
                self._message_error = str(error)

    @property
    def rate(self) -> float:
        """Return the mean rate [Hz] of the last 60 control steps."""
        last = list(self.step_intervals)[-60:]
        return len(last) / sum(last) if last else 0.0

    def frame(self) -> bytes:
        """Return the current state as a message."""
        s = self.session
        state, command, last = s.state, s.command, s.last_recording
        head: dict[str, Any] = {
            "type": "frame",
            "k": int(state.k),
            "time": s.time,
            "rate": self.rate,
            "step_time": 1e3 * (self.step_times[-1] if self.step_times else 0.0),
            "solve": 1e3 * float(state.solve_seconds),
            "error": _finite_or_none(s.error),
            "ok": state.ok,
            "state": state.outcome,
            "text": s.text,
            "warning": s.current_warning,
            "mode": command.mode,
            "paused": command.paused,
            "recording": None if s.recorder is None else len(s.recorder.rows),
            "recorded": None
            if last is None
            else {"steps": last.n_steps, "seconds": last.seconds, "number": s.recordings},
            "colour": command.colour,
            "active": list(s.active),
            "u": state.u.tolist(),
            "commanded": command.controls.tolist(),
            "targets": {name: at.tolist() for name, at in command.targets.items()},
            "positions": {name: at.tolist() for name, at in s.effector_positions.items()},
        }
        return encode_message(head, s.picture.frame(s.position, state.u, command.colour))


def _finite_or_none(value: float) -> float | None:
    return float(value) if np.isfinite(value) else None
