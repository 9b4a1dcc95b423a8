"""Options of the planners, and the progress report of a running planner."""

from collections.abc import Callable
from dataclasses import dataclass, replace
from functools import wraps
from pathlib import Path
from typing import Any, TypeVar, cast

from pliant.core import InputError, is_integer, quoted, require_kind, require_number
from pliant.progress import Progress, check_progress, reporting
from pliant.store import check_path

Planner = TypeVar("Planner", bound=Callable[..., Any])


@dataclass(frozen=True, kw_only=True)
class Options:
    """The stopping criteria of a planner, its progress report and its checkpoints.

    Parameters
    ----------
    iterations : largest number of iterations
    tolerance : stop when the predicted relative decrease of the cost is smaller; between 0 and 1
    progress : None shows progress after two seconds, False is silent; or a function
        progress(what, done, total)
    folder : folder for the best iterate, written after every iteration
    resume : continue from the iterate in `folder`

    Raises InputError for values outside these ranges.

    >>> import pliant as pl
    >>> pl.Options(iterations=50, tolerance=1e-5).iterations
    50
    """

    iterations: int = 200
    tolerance: float = 1e-7
    progress: Progress | bool | None = None
    folder: str | Path | None = None
    resume: bool = False

    def __post_init__(self) -> None:
        tolerance = require_number("A planner's tolerance", self.tolerance, "-")
        if not is_integer(self.iterations) or self.iterations < 1 or not 0.0 < tolerance < 1.0:
            raise InputError(
                "A planner needs at least 1 iteration and a tolerance between 0 and 1, not "
                f"{quoted(self.iterations)} and {self.tolerance}."
            )
        check_progress(self.progress)
        if self.folder is not None:
            check_path("The folder of a planner", self.folder)

    def report(self, what: str, done: int, total: int) -> None:
        """Call `progress` if it is a function."""
        if callable(self.progress):
            self.progress(what, done, total)


def checked_options(options: Options | None) -> Options:
    """Return the options, or the defaults for None. Raises InputError for another type."""
    options = Options() if options is None else options
    require_kind(
        "The options of a planner",
        options,
        Options,
        "make them with pl.Options(iterations=..., ...)",
    )
    return options


def with_progress(planner: Planner) -> Planner:
    """Decorate a planner so that it reports its progress as `options.progress` says."""

    @wraps(planner)
    def run(*args: Any, options: Options | None = None, **kwargs: Any) -> Any:
        chosen = checked_options(options)
        with reporting(chosen.progress) as report:
            return planner(*args, options=replace(chosen, progress=report), **kwargs)

    return cast(Planner, run)
