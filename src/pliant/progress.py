"""Progress of long computations: a bar on a terminal, plain lines in a log, one line in a notebook.

Long computations have an argument `progress`. None shows progress after DELAY, False shows none,
True shows it from the first report, and a function progress(what, done, total) receives every
report instead.
"""

import sys
import threading
import time
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from contextvars import ContextVar
from dataclasses import dataclass
from functools import cached_property
from multiprocessing import parent_process
from shutil import get_terminal_size
from typing import Any, Protocol, TextIO

from pliant.core import InputError, quoted

Progress = Callable[[str, int, int], None]  # (description, units done, total units; 0: unknown)
DELAY = 2.0  # [s] of work before anything is shown, so that short calls stay silent
BAR_WIDTH = 24  # characters


def silent(what: str, done: int, total: int) -> None:
    """Show nothing."""


class Sink(Protocol):
    """Where lines of progress are shown."""

    @property
    def interval(self) -> float: ...  # [s] between two lines, at least
    def show(self, what: str, done: int, total: int, elapsed: float) -> None: ...
    def end(self) -> None: ...


@dataclass(kw_only=True)
class Terminal:
    """A bar on one line of a terminal, removed at the end."""

    stream: TextIO
    interval: float = 0.1
    width: int = 0  # of the line that is shown now

    def show(self, what: str, done: int, total: int, elapsed: float) -> None:
        full = min(max(done, 0) * BAR_WIDTH // total, BAR_WIDTH) if total > 0 else 0
        bar = f" [{'#' * full}{'.' * (BAR_WIDTH - full)}]" if total > 0 else ""
        self._write(f"{what}{bar}{_count(done, total)} {duration(elapsed)}")

    def _write(self, line: str) -> None:
        line = line[: get_terminal_size().columns - 1]
        self.stream.write(f"\r{line.ljust(self.width)}")
        self.stream.flush()
        self.width = len(line)

    def end(self) -> None:
        self._write("")
        self._write("")  # the first one wrote blanks: go back to the start of the line


@dataclass(kw_only=True)
class Log:
    """Plain lines, for a file, a pipe or a CI server."""

    stream: TextIO
    interval: float = 5.0

    def show(self, what: str, done: int, total: int, elapsed: float) -> None:
        self.stream.write(f"{plain_line(what, done, total, elapsed)}\n")
        self.stream.flush()

    def end(self) -> None:
        pass


@dataclass(kw_only=True)
class Notebook:
    """One output of a notebook cell that is updated in place."""

    display: Callable[..., Any]  # IPython.display.display
    interval: float = 0.5
    handle: Any = None

    def show(self, what: str, done: int, total: int, elapsed: float) -> None:
        content = {"text/plain": plain_line(what, done, total, elapsed)}
        if self.handle is None:
            self.handle = self.display(content, raw=True, display_id=True)
        else:
            self.handle.update(content, raw=True)

    def end(self) -> None:
        pass


def plain_line(what: str, done: int, total: int, elapsed: float) -> str:
    """Return a report as a line of text."""
    return f"{what}{_count(done, total)} after {duration(elapsed)}"


def _count(done: int, total: int) -> str:
    return f" {done}/{total}" if total > 0 else ""


def duration(seconds: float) -> str:
    """Return a time as text: seconds below two minutes, else h:mm:ss."""
    whole = int(seconds)
    if whole < 120:
        return f"{whole} s"
    return f"{whole // 3600}:{whole // 60 % 60:02d}:{whole % 60:02d}"


class Display:
    """A receiver of reports that shows them in a sink: none before `delay` [s], then at most one
    per interval of the sink, and the last one at the end."""

    def __init__(
        self,
        sink: Sink,
        *,
        delay: float = DELAY,
        clock: Callable[[], float] = time.monotonic,
    ) -> None:
        self._sink, self._clock = sink, clock
        self._start = clock()
        self._due = self._start + delay
        self._shown = False
        self._pending: tuple[str, int, int] | None = None

    def __call__(self, what: str, done: int, total: int) -> None:
        self._pending = (what, int(done), int(total))
        if self._clock() >= self._due:
            self._show()

    def _show(self) -> None:
        if self._pending is None:
            return
        now = self._clock()
        report, self._pending, self._shown = self._pending, None, True
        self._due = now + self._sink.interval
        self._try(lambda: self._sink.show(*report, now - self._start))

    def _try(self, action: Callable[[], None]) -> None:
        """Call a function and ignore errors of the stream, which must not end the computation."""
        try:
            action()
        except (OSError, ValueError):  # the stream is closed, or its reader has gone
            self._due = float("inf")

    def close(self) -> None:
        """Show the last report if others were shown, and end the output."""
        if self._shown and self._due < float("inf"):
            self._show()
            self._try(self._sink.end)


_active: ContextVar[Progress | None] = ContextVar("pliant_progress", default=None)


def check_progress(progress: Any) -> None:
    """Raise `InputError` unless `progress` is a function, a Boolean or None."""
    if progress is not None and not isinstance(progress, bool) and not callable(progress):
        raise InputError(
            f"progress is {quoted(progress)}; give a function (what, done, total), False for "
            "silence, or leave it out."
        )


@contextmanager
def reporting(progress: Progress | bool | None) -> Iterator[Progress]:
    """Yield the function that receives the reports of a computation.

    Nested computations report to the display of the outermost one. Worker processes and threads
    other than the main thread show nothing.
    """
    check_progress(progress)
    outer, display = _active.get(), None
    if callable(progress):
        report, active = progress, outer or silent
    elif progress is False:
        report = active = silent
    elif outer is not None:
        report = active = outer
    else:
        in_main = threading.current_thread() is threading.main_thread()
        if in_main and parent_process() is None:
            display = Display(Automatic(), delay=0.0 if progress else DELAY)
        report = active = display or silent
    token = _active.set(active)
    try:
        yield report
    finally:
        _active.reset(token)
        if display is not None:
            display.close()


class Automatic:
    """A sink that is chosen for this process when the first line is shown."""

    @cached_property
    def _sink(self) -> Sink | None:
        return _choose_sink()

    @property
    def interval(self) -> float:
        return float("inf") if self._sink is None else self._sink.interval

    def show(self, what: str, done: int, total: int, elapsed: float) -> None:
        if self._sink is not None:
            self._sink.show(what, done, total, elapsed)

    def end(self) -> None:
        if self._sink is not None:
            self._sink.end()


def _choose_sink() -> Sink | None:
    """Return a sink for a notebook, a terminal or a log; None if there is no open stream."""
    display = _notebook_display()
    if display is not None:
        return Notebook(display=display)
    stream = sys.stderr  # any object with `write` and `flush`
    if stream is None or getattr(stream, "closed", False):
        return None
    is_terminal = getattr(stream, "isatty", bool)()
    return Terminal(stream=stream) if is_terminal else Log(stream=stream)


def _notebook_display() -> Callable[..., Any] | None:
    """Return IPython's display function in the kernel of a notebook, else None. IPython is not
    imported unless it is loaded already."""
    ipython = sys.modules.get("IPython")
    find_shell = getattr(ipython, "get_ipython", None)
    if find_shell is None or not hasattr(find_shell(), "kernel"):
        return None
    from IPython.display import display  # type: ignore[import-not-found]

    return display
