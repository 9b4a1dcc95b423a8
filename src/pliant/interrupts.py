"""Ctrl-C while modules are loaded."""

import os
import signal
from collections.abc import Iterator
from contextlib import contextmanager
from typing import Any, NoReturn

STATUS = 130  # of a command that Ctrl-C has ended


@contextmanager
def exit_on_interrupt() -> Iterator[None]:
    """End the process at once, without a traceback, if Ctrl-C comes inside the block. An exception
    could be caught or printed by a module that is being loaded."""
    try:
        before = signal.signal(signal.SIGINT, _exit)
    except ValueError:  # only the main thread may handle signals
        yield
        return
    try:
        yield
    finally:
        signal.signal(signal.SIGINT, before)


def _exit(number: int, frame: Any) -> NoReturn:
    os._exit(STATUS)
