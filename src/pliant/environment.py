"""Check of environment variables that other libraries read at import. It runs when this module is
imported."""

import os
import sys
import warnings
from pathlib import Path
from typing import Any

THREADS_VARIABLE = "NUMBA_NUM_THREADS"
MAX_THREADS_PER_CORE = 64
"""Larger numbers are mistakes. If the threads cannot be started, OpenMP ends the process without
an error."""


def check_environment() -> None:
    """Warn about an invalid number of threads for Numba, and remove it from the environment. Call
    this before Numba is imported."""
    value = os.environ.get(THREADS_VARIABLE)
    most = MAX_THREADS_PER_CORE * (os.cpu_count() or 1)
    if value is None or (value.strip().isdecimal() and 1 <= int(value) <= most):
        return
    del os.environ[THREADS_VARIABLE]
    warnings.warn(
        f"{THREADS_VARIABLE} is '{value}' and is ignored; give a whole number from 1 to {most}.",
        stacklevel=2,
    )


def is_command_line() -> bool:
    """Return whether this process was started as `pliant` or `python -m pliant`."""
    called = sys.argv[0] if sys.argv else ""
    pairs = zip(sys.orig_argv, sys.orig_argv[1:], strict=False)
    return Path(called).stem == "pliant" or ("-m", "pliant") in pairs


def show_warning(message: Any, *_: Any, **__: Any) -> None:
    """Print a warning as one line, in place of `warnings.showwarning`."""
    print(f"warning: {message}", file=sys.stderr, flush=True)


if is_command_line():
    warnings.showwarning = show_warning  # here, because the import of the package may warn
check_environment()
