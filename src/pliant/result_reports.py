"""Reports of results, for packages below `pliant.report`.

A result such as `Plan` offers `report(folder)` and a notebook picture, but its package is below
`pliant.report` and must not import it. This module loads the report package when it is first used
(docs/decisions/0016).
"""

from importlib import import_module
from pathlib import Path
from typing import Any

import numpy as np
from numpy.typing import NDArray

_MODULE = "pliant.report.result_report"


def write_report(result: Any, folder: str | Path, *, title: str | None, small: bool) -> Path:
    """Write the report of a result into a folder and return the path of its page."""
    path: Path = import_module(_MODULE).write_result_report(
        result, folder, title=title, small=small
    )
    return path


def notebook_html(result: Any) -> str:
    """Return a picture and the metrics of a result, or a robot, as HTML for a notebook."""
    html: str = import_module(_MODULE).notebook_html(result)
    return html


def draw_states(model: Any, states: NDArray[Any], controls: NDArray[Any]) -> NDArray[np.uint8]:
    """Return a picture (height, width, 3) of the last of some states (frames, n_state) of a model
    under controls (frames - 1, n_controls). Raises `InputError` if it has no picture."""
    picture: NDArray[np.uint8] = import_module(_MODULE).draw_states(model, states, controls)
    return picture
