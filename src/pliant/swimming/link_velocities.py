"""The velocities of the links of a robot for unit generalised velocities, and their derivatives.

The generalised velocities are (v, omega, joint rates), 6 + n numbers in the frame of the root. Each
of them moves a link as a screw: the velocity of the point x is V + W x x.
"""

import numpy as np

from pliant.core import Array
from pliant.swimming.placement import Placement


def link_velocities(placement: Placement) -> Array:
    """Return (b, 6, 6 + n): the velocity of the origin of each link's frame and its angular
    velocity, both in the frame of the link, for each unit generalised velocity."""
    return np.stack(
        [_in_link_frame(placement, i, _link_screws(placement, i)) for i in range(placement.n_links)]
    )


def link_velocity_derivatives(placement: Placement) -> Array:
    """Return (b, n, 6, 6 + n): the derivatives of `link_velocities` by the joint angles.

    A hinge that moves a link changes its velocity by minus the commutator of the two screws. If the
    hinge moves the axis of the screw as well, the velocity in the frame of the link is constant.
    """
    b, n = placement.n_links, placement.n_hinges
    hinges = _hinge_screws(placement)
    out = np.zeros((b, n, 6, 6 + n))
    for i in range(b):
        screws = _link_screws(placement, i)
        for g in np.flatnonzero(placement.moves[i]).tolist():
            change = -_commutators(hinges[:, g], screws)
            change[:, 6:][:, ~_precedes(placement, g)] = 0.0
            out[i, g] = _in_link_frame(placement, i, change)
    return out


def _precedes(placement: Placement, g: int) -> Array:
    """Return bool (n,): which hinges are closer to the root than hinge g, on its chain. They move
    all links that hinge g moves, and more."""
    moves = placement.moves
    covers = (moves | ~moves[:, g : g + 1]).all(axis=0)
    return covers & (moves.sum(axis=0) > moves[:, g].sum())


def _hinge_screws(placement: Placement) -> Array:
    """Return (6, n): a rotation about each axis."""
    axes = placement.axes
    return np.concatenate([np.cross(placement.anchors, axes), axes], axis=1).T


def _link_screws(placement: Placement, i: int) -> Array:
    """Return (6, 6 + n): the screw of link i for each unit generalised velocity."""
    return np.hstack([np.eye(6), _hinge_screws(placement) * placement.moves[i]])


def _in_link_frame(placement: Placement, i: int, screws: Array) -> Array:
    V, W = screws[:3], screws[3:]
    R, c = placement.rotations[i], placement.centres[i]
    at_centre = V + np.cross(W, c, axisa=0).T
    return np.vstack([R.T @ at_centre, R.T @ W])


def _commutators(screw: Array, screws: Array) -> Array:
    """Return the commutators (6, k) of one screw (6,) with screws (6, k)."""
    V, W = screws[:3].T, screws[3:].T
    return np.hstack([np.cross(screw[3:], V) + np.cross(screw[:3], W), np.cross(screw[3:], W)]).T
