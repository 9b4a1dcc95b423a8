"""The swimming robot of [Jia2019]: four ellipsoids that are connected by hinges."""

from collections.abc import Sequence

import numpy as np

from pliant.core import Array, InputError, finite_array, require_positive
from pliant.swimming import Ellipsoid, Hinge, Link, LinkedRobot, LinkPoint
from pliant.swimming.linked_robot import STOP_MARGIN

WATER = 1000.0  # [kg/m^3]
# [m] of the links from head to tail: a fish of 0.8 m with its gaps, taller than wide, so that a
# link moves more water sideways than along its length
LENGTHS = (0.21, 0.19, 0.17, 0.14)
WIDTHS = (0.09, 0.09, 0.07, 0.04)
HEIGHTS = (0.14, 0.15, 0.13, 0.16)
# [N m] of the motors: each accelerates its hinge by 12 to 15 rad/s^2, links and water together, so
# that a hinge swings between -0.5 and 0.5 rad and back in one second
TORQUES = (0.2, 0.3, 0.08)
# [rad/s] at which a motor has no torque left; it keeps hinges within their limits, since an ideal
# fluid takes no energy
TOP_SPEED = 10.0


def swimmer(
    *,
    lengths: Sequence[float] = LENGTHS,
    widths: Sequence[float] = WIDTHS,
    heights: Sequence[float] = HEIGHTS,
    gap: float = 0.03,
    max_angle: float = 1.0,
    max_torques: Sequence[float] = TORQUES,
) -> LinkedRobot:
    """Return a swimmer of ellipsoids in a chain, with a motor at each hinge.

    The head is the root and points along x; all hinges have vertical axes (z), so the robot moves
    in a horizontal plane. Its density is that of water. The effectors are "head" and "tail", the
    tips of the robot. The paper gives neither sizes, limits nor torques.

    Parameters
    ----------
    lengths, widths, heights : [m] of the links, from head to tail
    gap : [m] between two links at angle zero, with the hinge in its middle
    max_angle : [rad] of each hinge to both sides
    max_torques : [N m] of the motors, from head to tail

    A time step of 0.01 s resolves the stops of the hinges. Raises InputError for different numbers
    of sizes, and torques that are not one fewer.
    """
    sizes = _checked_sizes(lengths, widths, heights)
    require_positive("The gap of the swimmer", gap, "m")
    require_positive("The largest angle of the swimmer", max_angle, "rad")
    torques = finite_array(
        "The array of largest torques of the swimmer", max_torques, (len(sizes) - 1,), "N m"
    )
    for torque in torques:
        require_positive("A largest torque of the swimmer", torque, "N m")
    # the other motors throw a hinge against its stop too, so all stops absorb the strongest one
    stops = 3.0 * float(torques.max()) * (2.0 * max_angle + STOP_MARGIN) / STOP_MARGIN**3
    names = ["head", *(f"body-{k}" for k in range(1, len(sizes) - 1)), "tail"]
    ends = 0.5 * sizes[:, 0]
    return LinkedRobot(
        name="swimmer",
        links={
            name: Link(shape=Ellipsoid(semi_axes=0.5 * size), density=WATER)
            for name, size in zip(names, sizes, strict=True)
        },
        hinges={
            f"hinge-{k + 1}": Hinge(
                parent=names[k],
                child=names[k + 1],
                axis=(0.0, 0.0, 1.0),
                point=(-ends[k] - 0.5 * gap, 0.0, 0.0),
                child_point=(ends[k + 1] + 0.5 * gap, 0.0, 0.0),
                limits=(-max_angle, max_angle),
                torque=(-torques[k], torques[k]),
                damping=torques[k] / TOP_SPEED,
                stop_stiffness=stops,
            )
            for k in range(len(names) - 1)
        },
        effectors={
            "head": LinkPoint(link="head", point=(ends[0], 0.0, 0.0)),
            "tail": LinkPoint(link="tail", point=(-ends[-1], 0.0, 0.0)),
        },
        fluid_density=WATER,
    )


def _checked_sizes(
    lengths: Sequence[float], widths: Sequence[float], heights: Sequence[float]
) -> Array:
    """Return the sizes (n, 3) [m] of the links. Raises InputError unless there are two or more."""
    columns = [
        finite_array(f"The {name} of the swimmer", values, (None,), "m")
        for name, values in (("lengths", lengths), ("widths", widths), ("heights", heights))
    ]
    counts = [len(column) for column in columns]
    if len(set(counts)) > 1 or counts[0] < 2:
        raise InputError(
            f"The swimmer has {counts[0]} lengths, {counts[1]} widths and {counts[2]} heights; "
            "give one of each for two or more links."
        )
    return np.stack(columns, axis=1)
