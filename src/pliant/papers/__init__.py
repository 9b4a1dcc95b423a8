"""The tables and figures of the papers, theirs beside ours, measured on this machine."""

from collections.abc import Callable
from pathlib import Path
from typing import Any

from pliant.core import InputError, nearest

Progress = Callable[[str, int, int], None]


def papers() -> dict[str, str]:
    """The papers that can be reproduced, with what is reproduced of each."""
    return {"003": "Table I with results, Fig. 3 (time an iteration), Fig. 5 (regulariser), Fig. 8 and 9 (convergence, feasibility)"}


def reproduce(name: str, *, out: str | Path | None = None, quick: bool = False,
              progress: Progress = lambda what, done, total: None) -> dict[str, Any]:  # fmt: skip
    """Measure what a paper reports and write a result folder; gives the content of result.json."""
    if name not in papers():
        raise InputError(f"There is nothing of paper '{name}' to reproduce yet; {nearest(name, papers())}")
    from pliant.papers import paper003

    folder = Path("results") / f"paper-{name}" if out is None else Path(out)
    return paper003.reproduce(folder, quick=quick, progress=progress)
