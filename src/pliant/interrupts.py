"""Handling of Ctrl-C while modules are imported."""

import os
import signal
from collections.abc import Iterator
from contextlib import contextmanager
from typing import Any, NoReturn

INTERRUPTED_STATUS = 130  # exit status of a command ended by Ctrl-C, as shells report it


@contextmanager
def exit_on_interrupt() -> Iterator[None]:
    """End the process immediately, without a traceback, on Ctrl-C inside the block. An exception
    could be caught or printed by a module that is being imported."""
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
    os._exit(INTERRUPTED_STATUS)
