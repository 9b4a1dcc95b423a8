"""Say where the bodies of a robot overlap: contact between bodies is not modelled."""

from collections.abc import Sequence

import numpy as np

from pliant.bodies import Solid
from pliant.core import Array, Dynamics

NOT_MODELLED = "contact between bodies is not modelled"
# States of a run that are examined, evenly in time and the last one: enough for every overlap that
# lasts longer than about 5 % of the run. The cost grows with their number.
EXAMINED_STATES = 20


def overlap_note(model: Dynamics, states: Array) -> str:
    """Return `overlap_text` of at most EXAMINED_STATES of the states (n, n_state) of a run."""
    body = getattr(getattr(model, "equations", None), "body", None)
    chosen = np.unique(np.linspace(0, len(states) - 1, EXAMINED_STATES).astype(int))
    return overlap_text(body, [model.space.position(states[k]) for k in chosen])


def with_note(text: str, note: str) -> str:
    """Return a status text with a note after it, if there is one."""
    return f"{text}; {note}" if note else text


def overlap_text(body: object, positions: Sequence[Array]) -> str:
    """Return "" or "bodies 'a' and 'b' overlap by 2 mm: contact between bodies is not modelled",
    for the deepest overlap at some positions (n_dofs,) of a body.

    It looks at solids of finite elements with several bodies (connected components of the mesh).
    Particles meet on their grid, and rods and point masses have no inside.
    """
    if not isinstance(body, Solid) or body.bodies.count == 1:
        return ""
    found = body.bodies.deepest(positions)
    return "" if found is None else f"{found.text}: {NOT_MODELLED}"
