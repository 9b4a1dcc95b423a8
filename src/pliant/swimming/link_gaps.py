"""The smallest gap between the links of a robot within its joint limits."""

from dataclasses import dataclass
from itertools import combinations, product

import numpy as np

from pliant.core import Array, InputError
from pliant.swimming.link_distance import link_distance
from pliant.swimming.linked_robot import STOP_MARGIN, LinkedRobot

# Joint angles are sampled at this many values per hinge; a gap varies by less than the square of
# half their spacing times the length of a link between them.
SAMPLES = 7
MAX_POSES = 2_000  # of a pair of links; pairs with many hinges between them are sampled at random


@dataclass(frozen=True, kw_only=True)
class Gap:
    """The smallest gap of two links, and where it is."""

    distance: float  # [m], 0 if the links overlap or touch
    links: tuple[str, str]
    angles: Array  # (n,) [rad]


def smallest_gap(robot: LinkedRobot, *, margin: float = STOP_MARGIN) -> Gap | None:
    """Return the smallest gap between links at sampled joint angles within the limits and a margin
    [rad] beyond them. None for a single link."""
    gaps = [_pair_gap(robot, i, k, margin) for i, k in combinations(range(len(robot.links)), 2)]
    return min(gaps, key=lambda gap: gap.distance, default=None)


def check_gaps(robot: LinkedRobot) -> None:
    """Raise InputError if two links touch within the joint limits and the margin of the stops."""
    gap = smallest_gap(robot)
    if gap is not None and gap.distance <= 0.0:
        place = ", ".join(f"{a:.2g}" for a in gap.angles)
        raise InputError(
            f"The links '{gap.links[0]}' and '{gap.links[1]}' of {robot.name} touch at the joint "
            f"angles ({place}) rad. Leave a larger gap at the hinges, or reduce their limits; the "
            f"stops need {STOP_MARGIN:g} rad beyond them."
        )


def _pair_gap(robot: LinkedRobot, i: int, k: int, margin: float) -> Gap:
    """Return the smallest gap of two links. It depends on the hinges between them alone."""
    between = np.flatnonzero(robot.moves[i] != robot.moves[k])
    names, shapes = list(robot.links), [link.shape for link in robot.links.values()]
    best = Gap(distance=np.inf, links=(names[i], names[k]), angles=np.zeros(robot.n_angles))
    for values in _sampled_angles(robot, between, margin):
        angles = np.zeros(robot.n_angles)
        angles[between] = values
        distance = link_distance(shapes, robot.placement(angles), i, k)
        if distance < best.distance:
            best = Gap(distance=distance, links=best.links, angles=angles)
    return best


def _sampled_angles(robot: LinkedRobot, hinges: Array, margin: float) -> Array:
    """Return joint angles (poses, hinges): all combinations, or random ones if they are too
    many."""
    lower, upper = (side[hinges] for side in robot.angle_limits)
    lower, upper = lower - margin, upper + margin
    if SAMPLES ** len(hinges) <= MAX_POSES:
        steps = [np.linspace(a, b, SAMPLES) for a, b in zip(lower, upper, strict=True)]
        return np.array(list(product(*steps)), float).reshape(-1, len(hinges))
    rng = np.random.default_rng(0)
    corners = rng.integers(0, 2, (MAX_POSES // 2, len(hinges)))
    inside = rng.uniform(0.0, 1.0, (MAX_POSES // 2, len(hinges)))
    return lower + np.vstack([corners, inside]) * (upper - lower)
