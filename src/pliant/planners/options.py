"""Options of every planner, and the display of its progress while it runs."""

from collections.abc import Callable
from dataclasses import dataclass, replace
from functools import wraps
from pathlib import Path
from typing import Any, TypeVar, cast

from pliant.core import InputError, is_whole, quoted, require_kind, require_number
from pliant.progress import Progress, check_progress, reporting

Planner = TypeVar("Planner", bound=Callable[..., Any])


@dataclass(frozen=True, kw_only=True)
class Options:
    """How long to try, how exactly, what to report, and where to keep the best iterate."""

    iterations: int = 200
    tolerance: float = (
        1e-7  # stop when the model promises to lower the cost by less than this share of it
    )
    # None: shown once the work lasts longer than two seconds; False: silent; or a function (what,
    # done, total)
    progress: Progress | bool | None = None
    folder: str | Path | None = None  # the best iterate is kept here after every iteration
    resume: bool = False  # go on from what is in the folder

    def __post_init__(self) -> None:
        tolerance = require_number("A planner's tolerance", self.tolerance, "-")
        if not is_whole(self.iterations) or self.iterations < 1 or not 0.0 < tolerance < 1.0:
            raise InputError(
                "A planner needs 1 iteration or more and a tolerance between 0 and 1, not "
                f"{quoted(self.iterations)} and {self.tolerance}."
            )
        check_progress(self.progress)

    def report(self, what: str, done: int, total: int) -> None:
        """Pass a report on to `progress`, where that is a function."""
        if callable(self.progress):
            self.progress(what, done, total)


def checked_options(options: Options | None) -> Options:
    """Return the options of a planner, the default ones for None."""
    options = Options() if options is None else options
    require_kind(
        "The options of a planner",
        options,
        Options,
        "make them with pl.planners.Options(iterations=..., ...)",
    )
    return options


def reported(planner: Planner) -> Planner:
    """Decorate a planner: while it runs, its reports go where `options.progress` says."""

    @wraps(planner)
    def run(*args: Any, options: Options | None = None, **kwargs: Any) -> Any:
        chosen = checked_options(options)
        with reporting(chosen.progress) as report:
            return planner(*args, options=replace(chosen, progress=report), **kwargs)

    return cast(Planner, run)
