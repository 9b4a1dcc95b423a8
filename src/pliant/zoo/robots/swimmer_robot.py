"""The swimming robot of [Jia2019]: four ellipsoids that are connected by hinges."""

from collections.abc import Sequence

import numpy as np

from pliant.core import Array, InputError, finite_array, require_positive
from pliant.swimming import EllipsoidShape, Hinge, Link, LinkedRobot, LinkPoint

WATER = 1000.0  # [kg/m^3]
# [m] of the links from head to tail: a fish of 0.8 m with its gaps, taller than wide, so that a
# link moves more water sideways than along its length
LENGTHS = (0.21, 0.19, 0.17, 0.14)
WIDTHS = (0.09, 0.09, 0.07, 0.04)
HEIGHTS = (0.14, 0.15, 0.13, 0.16)
TORQUES = (1.5, 2.5, 0.6)  # [N m] of the motors
# The spine is elastic, as in a fish. The slowest swing of the robot in the water has about 1.3 Hz
# and decays within a few periods.
SPRING_ANGLE = 0.6  # [rad] at which a spring holds its motor
DAMPING_TIME = 0.03  # [s] damping over stiffness


def swimmer(
    *,
    lengths: Sequence[float] = LENGTHS,
    widths: Sequence[float] = WIDTHS,
    heights: Sequence[float] = HEIGHTS,
    gap: float = 0.03,
    max_angle: float = 1.0,
    max_torques: Sequence[float] = TORQUES,
    spring_angle: float = SPRING_ANGLE,
    damping_time: float = DAMPING_TIME,
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
    spring_angle : [rad] at which the spring of a hinge holds its motor
    damping_time : [s] damping of a hinge over its stiffness

    Raises InputError for different numbers of sizes, and torques that are not one fewer.
    """
    sizes = _checked_sizes(lengths, widths, heights)
    require_positive("The gap of the swimmer", gap, "m")
    require_positive("The largest angle of the swimmer", max_angle, "rad")
    require_positive("The spring angle of the swimmer", spring_angle, "rad")
    require_positive("The damping time of the swimmer", damping_time, "s")
    torques = finite_array(
        "The array of largest torques of the swimmer", max_torques, (len(sizes) - 1,), "N m"
    )
    for torque in torques:
        require_positive("A largest torque of the swimmer", torque, "N m")
    names = ["head", *(f"body-{k}" for k in range(1, len(sizes) - 1)), "tail"]
    ends = 0.5 * sizes[:, 0]
    return LinkedRobot(
        name="swimmer",
        links={
            name: Link(shape=EllipsoidShape(semi_axes=0.5 * size), density=WATER)
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
                stiffness=torques[k] / spring_angle,
                damping=damping_time * torques[k] / spring_angle,
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
