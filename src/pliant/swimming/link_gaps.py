"""The smallest gap between the links of a robot within its joint limits."""

from collections.abc import Sequence
from dataclasses import dataclass
from functools import lru_cache
from heapq import heappop, heappush
from itertools import combinations, product

import numpy as np

from pliant.core import Array, InputError
from pliant.swimming.link_distances import link_distance
from pliant.swimming.link_shapes import LinkShape
from pliant.swimming.linked_robot import STOP_MARGIN, LinkedRobot

ACCURACY = 0.02  # of the smallest gap; a search to a tenth of it takes ten times as long
MAX_DISTANCES = 4000  # of one pair of links; a distance takes about 2 ms


@dataclass(frozen=True, kw_only=True, eq=False)
class Gap:
    """The smallest gap of two links, and where it is."""

    distance: float  # [m], 0 if the links overlap or touch
    links: tuple[str, str]
    angles: Array  # (n,) [rad]


@lru_cache(maxsize=8)  # a robot is checked when it is read and for each of its models
def smallest_gap(robot: LinkedRobot, *, margin: float = STOP_MARGIN) -> Gap | None:
    """Return the smallest gap between links at joint angles within the limits and a margin [rad]
    beyond them. None for a single link.

    The search bounds the distance in boxes of angles, so it misses no contact, and its result is at
    most 2 % above the smallest gap. It ends after 4,000 distances of one pair of links: with many
    hinges between them, the smallest gap may then be smaller than the result.
    """
    lower, upper = robot.angle_limits
    lower, upper = lower - margin, upper + margin
    names, best = list(robot.links), None
    between = lambda pair: int((robot.moves[pair[0]] != robot.moves[pair[1]]).sum())
    for i, k in sorted(combinations(range(len(names)), 2), key=between):
        bound = np.inf if best is None else best.distance
        found = _pair_gap(robot, (i, k), lower, upper, bound)
        if found is not None and found[0] == 0.0:
            return Gap(distance=0.0, links=(names[i], names[k]), angles=found[1])
        if found is not None:
            best = Gap(distance=found[0], links=(names[i], names[k]), angles=found[1])
    return best


def check_gaps(robot: LinkedRobot) -> None:
    """Raise InputError if two links touch within the joint limits and the margin of the stops."""
    gap = smallest_gap(robot)
    if gap is None or gap.distance > 0.0:
        return
    angles = zip(robot.hinges, gap.angles, strict=True)
    raise InputError(
        f"The links '{gap.links[0]}' and '{gap.links[1]}' of {robot.name} overlap or touch at "
        f"{', '.join(f'{name} = {angle:.3g}' for name, angle in angles)} rad. Leave a larger gap "
        f"at the hinges, or reduce their limits; the stops need {STOP_MARGIN:g} rad beyond them."
    )


def _pair_gap(
    robot: LinkedRobot, pair: tuple[int, int], lower: Array, upper: Array, bound: float
) -> tuple[float, Array] | None:
    """Return the smallest distance of two links in a box of joint angles, and its angles. None if
    it is not below `bound`.

    A box with the distance d in its middle has no distance below d - sum(reach * half width).
    """
    shapes = [link.shape for link in robot.links.values()]
    path, reach = _reaches(robot, shapes, pair)
    best: tuple[float, Array] | None = None
    middle, half = 0.5 * (lower + upper), 0.5 * (upper - lower)[path]
    for centre in _corners(middle, half, path):  # most robots touch at their limits first
        distance = link_distance(shapes, robot.placement(centre), *pair)
        if distance < bound:
            bound, best = distance, (distance, centre)
        if distance == 0.0:
            return best
    heap: list[tuple[float, int, Array, Array]] = [(-np.inf, 0, middle, half)]
    count = 0
    while heap and count < MAX_DISTANCES:
        least, _, angles, half = heappop(heap)
        if least >= (1.0 - ACCURACY) * bound:
            break
        for centre, size in _parts(angles, half, path, reach) if count else [(angles, half)]:
            count += 1
            distance = link_distance(shapes, robot.placement(centre), *pair)
            if distance < bound:
                bound, best = distance, (distance, centre)
            if distance == 0.0:
                return best
            heappush(heap, (distance - float(reach @ size), count, centre, size))
    return best


def _corners(middle: Array, half: Array, path: Array) -> list[Array]:
    """Return the corners of a box of angles, none for more than four hinges."""
    signs = [] if len(path) > 4 else list(product((-1.0, 1.0), repeat=len(path)))
    out = [middle.copy() for _ in signs]
    for angles, sign in zip(out, signs, strict=True):
        angles[path] += np.array(sign) * half
    return out


def _parts(angles: Array, half: Array, path: Array, reach: Array) -> list[tuple[Array, Array]]:
    """Return the middles and the half widths of three equal parts of a box of angles, split along
    the hinge that moves the links most. The middle part has the same centre."""
    if not len(path):
        return []
    k = int(np.argmax(reach * half))
    step, size = np.zeros(len(angles)), half.copy()
    size[k] /= 3.0
    step[path[k]] = 2.0 * size[k]
    return [(angles - step, size), (angles, size), (angles + step, size)]


def _reaches(
    robot: LinkedRobot, shapes: Sequence[LinkShape], pair: tuple[int, int]
) -> tuple[Array, Array]:
    """Return the hinges between two links, and the largest distance [m] of each from a point of one
    of the two links: the one that is nearer."""
    placed = robot.placement(np.zeros(robot.n_angles))
    order = [list(robot.hinges).index(name) for name in robot.order]
    up, down = (
        [h for h in order if robot.moves[i, h] and not robot.moves[k, h]]
        for i, k in (pair, pair[::-1])
    )
    path = np.array(up[::-1] + down, int)
    anchors = placed.anchors[path]
    steps = np.linalg.norm(np.diff(anchors, axis=0), axis=1)
    along = np.concatenate([[0.0], np.cumsum(steps)])[: len(path)]
    if not len(path):
        return path, np.zeros(0)
    radii = [
        np.linalg.norm(
            _surface(shapes[i], placed.rotations[i], placed.centres[i]) - a, axis=1
        ).max()
        for i, a in zip(pair, (anchors[0], anchors[-1]), strict=True)
    ]
    return path, np.minimum(along + radii[0], along[-1] - along + radii[1])


def _surface(shape: LinkShape, rotation: Array, centre: Array) -> Array:
    """Return points whose convex hull contains a link: the corners of the box around an ellipsoid,
    or the points of a surface."""
    if shape.semi_axes is None:
        points = shape.surface().points
    else:
        points = shape.semi_axes * (2.0 * np.indices((2, 2, 2)).reshape(3, -1).T - 1.0)
    return points @ rotation.T + centre
