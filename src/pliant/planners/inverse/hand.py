"""Controls given by hand: as far towards them as strokes allow."""

from collections.abc import Sequence

import numpy as np

from pliant.core import Array
from pliant.planners.inverse.program import program
from pliant.planners.inverse.rows import Rows

# of what was asked for, by which a row may be passed: far less than strokes are kept off their
# bounds
SPARE = 1e-6


def towards(
    du: Array, room: tuple[Array, Array], rows: Sequence[Rows], scale: Array, least: float
) -> Array:
    """(n,) the change of the controls nearest to du (n,) that keeps the rows, by the program of a
    tick; scale and least are its own.

    At first each control goes from none to all of what was asked of it. Where that keeps the rows
    no longer, as on a robot that swings on into a bound, those that were asked to move may go back,
    and where that is not enough all may move as far as their room.
    """
    found, (least_room, most_room) = du, room
    within = np.minimum(du, 0.0), np.maximum(du, 0.0)
    back = np.where(du > 0.0, least_room, within[0]), np.where(du < 0.0, most_room, within[1])
    for lower, upper in (within, back, room):
        best = program(np.diag(scale), scale * du, lower, upper, rows, scale, 0.0, least).best()
        if best is not None:
            found = np.where(
                np.isclose(best[0], scale * du, rtol=1e-9, atol=0.0), du, best[0] / scale
            )
            if all(_kept(part, found, du) for part in rows):
                break
    return found


def _kept(part: Rows, du: Array, asked: Array) -> bool:
    return bool(np.all(_left(part, du) >= -_spare(part, asked)))


def stops(rows: Sequence[Rows], du: Array, asked: Array) -> tuple[str, ...]:
    """The names of the rows that a change du (n,) goes up to, of what was asked for (n,)."""
    return tuple(part.name for part in rows if np.any(_left(part, du) <= _spare(part, asked)))


def _left(part: Rows, du: Array) -> Array:
    """(k,) how far each row is from its nearer bound."""
    way = part.slope @ du
    return np.minimum(part.high - way, way - part.low)


def _spare(part: Rows, asked: Array) -> Array:
    return SPARE * (np.abs(part.slope) @ np.abs(asked))
