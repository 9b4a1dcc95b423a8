"""The Liandford of paper 001: a soft parallel robot, six legs of beams between motors on a ring and
a bar in its middle."""

import numpy as np

from pliant.actuators import Servo
from pliant.core import Array, InputError, is_whole, quoted
from pliant.geometry import Rods, Round
from pliant.materials import Material
from pliant.robot import Damping, Effector, Robot

LEGS = 6
RING, ARCH, WIDTH, HUB = (
    0.1,
    0.035,
    0.012,
    0.012,
)  # [m] radius of the ring of motors, height of a leg's arch, its width, radius at the bar
HALF = 0.03  # [m] half the length of the bar
TURN = 1.2  # [rad] what a motor can turn either way


def liandford(*, cells: int = 8, E: float = 3e7, radius: float = 0.002) -> Robot:
    """Six legs, each a ladder of two rails with `cells` rungs, arched up to the top or down to the
    bottom of the bar in turn.

    A motor turns the foot of each leg about the ring's tangent. E is Young's modulus [Pa] of the
    legs and `radius` [m] that of their rods; the bar is a hundred times as stiff. The effectors
    "top" and "bottom" are the ends of the bar and "centre" is its middle. The paper gives neither
    sizes nor materials.
    """
    if not is_whole(cells) or cells < 2:
        raise InputError(
            f"A leg of the liandford has {quoted(cells)} cells; give a whole number, 2 or more."
        )
    points, rods, regions = (
        [np.array([[0.0, 0.0, z] for z in (-HALF, 0.0, HALF)])],
        [np.array([[0, 1], [1, 2]])],
        {},
    )
    count = 3
    for leg in range(LEGS):
        end = 2 if leg % 2 == 0 else 0  # of the bar
        places, ties = _leg(leg, cells, points[0][end, 2])
        spokes = np.array([[count + 2 * cells, end], [count + 2 * cells + 1, end]])
        regions[f"motor-{leg + 1}"] = np.array([count, count + 1])
        points.append(places)
        rods += [count + ties, spokes]
        count += len(places)
    bars = {"bar": np.arange(2)}
    soft = Material(E=E, nu=0.4, density=1200.0)
    return Robot(
        name="liandford",
        shape=Rods(
            points=np.concatenate(points),
            rods=np.concatenate(rods),
            regions=regions,
            parts=bars,
            section={"body": Round(radius=radius), "bar": Round(radius=2.0 * radius)},
        ),
        material={"body": soft, "bar": Material(E=100.0 * E, nu=0.4, density=1200.0)},
        actuators={
            name: Servo(region=name, axis=_tangent(leg), limits=(-TURN, TURN))
            for leg, name in enumerate(regions)
        },
        effectors={
            "top": Effector(point=(0.0, 0.0, HALF)),
            "centre": Effector(point=(0.0, 0.0, 0.0)),
            "bottom": Effector(point=(0.0, 0.0, -HALF)),
        },
        gravity=(0.0, 0.0, -9.81),
        damping=Damping(mass=5.0, stiffness=0.02),
    )


def _tangent(leg: int) -> Array:
    angle = 2.0 * np.pi * leg / LEGS
    return np.array([-np.sin(angle), np.cos(angle), 0.0])


def _leg(leg: int, cells: int, height: float) -> tuple[Array, Array]:
    """((2 cells + 2, 3) [m] points, from the foot inwards, left and right in turn; rails and
    rungs)."""
    s = np.linspace(0.0, 1.0, cells + 1)
    out, up = RING + s * (HUB - RING), s * height + np.sign(height) * ARCH * np.sin(np.pi * s)
    angle = 2.0 * np.pi * leg / LEGS
    middle = np.stack([out * np.cos(angle), out * np.sin(angle), up], axis=1)
    side = 0.5 * WIDTH * _tangent(leg)
    places = np.stack([middle + side, middle - side], axis=1).reshape(-1, 3)
    row = 2 * np.arange(cells + 1)
    rails = [np.stack([row[:-1] + k, row[1:] + k], axis=1) for k in (0, 1)]
    return places, np.concatenate([*rails, np.stack([row, row + 1], axis=1)])
