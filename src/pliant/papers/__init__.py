"""Tables and figures of the papers beside results of Pliant, measured on this machine."""

from importlib import import_module
from pathlib import Path
from typing import Any

from pliant.core import InputError, nearest
from pliant.progress import Progress, reporting
from pliant.report.result_folder import checked_folder, lock_result_folder, replace_result

RESUMABLE = ("000", "004")


def papers() -> dict[str, str]:
    """Return the numbers of the papers that can be reproduced, with the reproduced parts."""
    return {
        "000": "Table I (costs of f, g and g~, evaluations and errors of the soft arm and of the "
        "planned and the trained swimmer), Fig. 3 (grids), Fig. 4 (frames of the motions) and "
        "Fig. 5 (evaluations over iterations)",
        "001": "Fig. 4 to 7 (Diamond, Stiff-Flop, Liandford), and a table of iterations, time, "
        "error and active bounds",
        "002": "Table I (volumes and times of columns and of the exact weight), Fig. 3 to 6 (heat "
        "maps, cylinder, finger, pendulum)",
        "003": "Table I with results, Fig. 3 (time per iteration), Fig. 5 (regulariser), Fig. 8 "
        "and 9 (convergence, feasibility)",
        "004": "Fig. 5 (identification), Fig. 6 to 9 (walkers), Fig. 10 (arm), Fig. 11 to 14 "
        "(co-design of walkers), at a stated reduced size",
    }


def reproduce(
    name: str,
    *,
    out: str | Path | None = None,
    quick: bool = False,
    resume: bool = False,
    progress: Progress | bool | None = None,
) -> dict[str, Any]:
    """Reproduce a paper, write a result folder and return the content of result.json.

    With `resume`, exact evaluations and trainings of an interrupted reproduction are used again;
    only papers 000 and 004 have some that take long. `progress` is as in `plan`. Raises
    `InputError` if the paper is unknown, or cannot be resumed.
    """
    if name not in papers():
        raise InputError(f"Pliant does not reproduce paper '{name}'; {nearest(name, papers())}")
    if resume and name not in RESUMABLE:
        raise InputError(
            f"Paper {name} keeps nothing that could be resumed. Run it without --resume."
        )
    module = import_module(f"pliant.papers.paper{name}")
    folder = checked_folder(out, f"paper-{name}")
    options = {"resume": True} if resume else {}
    with (
        lock_result_folder(folder),
        replace_result(folder, resume=resume) as work,
        reporting(progress) as report,
    ):
        return module.reproduce(work, quick=quick, progress=report, **options)
