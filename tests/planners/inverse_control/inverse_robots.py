"""Small robots for the tests of inverse control."""

from dataclasses import replace

import numpy as np

import pliant as pl

CORNERS = {"a": (0.0, 0.0), "b": (0.04, 0.0), "c": (0.04, 0.04), "d": (0.0, 0.04)}


def arm(drive="tension", **parts):
    """Return a soft bar on the ground with a cable along each edge."""
    limits = (0.0, 6.0) if drive == "tension" else (0.7, 1.2)
    cables = {
        name: pl.Cable(points=[[x, y, z] for z in (0.0, 0.08, 0.16)], limits=limits, drive=drive)
        for name, (x, y) in CORNERS.items()
    }
    return pl.Robot(
        **{
            "shape": pl.Box(size=(0.04, 0.04, 0.16)),
            "divisions": (2, 2, 6),
            "order": 1,
            "material": pl.Material(E=1e5, nu=0.35),
            "supports": [pl.Support(region="z-")],
            "damping": pl.Damping(mass=4.0, stiffness=0.03),
            "actuators": cables,
            "effectors": {
                "tip": pl.Effector(point=(0.02, 0.02, 0.16)),
                "side": pl.Effector(point=(0.04, 0.02, 0.08)),
            },
            **parts,
        }
    )


def strip():
    """Return a plane strip with two cables."""
    cables = {
        name: pl.Cable(points=[[0.0, y], [0.1, y], [0.2, y]], limits=(0.0, 0.6))
        for name, y in (("low", 0.0), ("high", 0.02))
    }
    return pl.Robot(
        shape=pl.geometry.Rectangle(size=(0.2, 0.02)),
        divisions=(12, 2),
        order=1,
        thickness=0.02,
        actuators=cables,
        material=pl.Material(E=1e5, nu=0.3),
        supports=[pl.Support(region="x-")],
        damping=pl.Damping(mass=4.0, stiffness=0.03),
        effectors={"tip": pl.Effector(point=(0.2, 0.01))},
    )


def chambers(drive, limits):
    """Return the stiff-flop with another drive of its chambers."""
    robot = pl.robots.stiff_flop(divisions=(1, 2, 1), order=1)
    return replace(
        robot,
        actuators={
            name: replace(a, drive=drive, limits=limits)
            if isinstance(a, pl.actuators.Pressure)
            else a
            for name, a in robot.actuators.items()
        },
    )


def can(drive, limits):
    """Return a soft cylinder filled with water, held at its bottom, with a cable along its side."""
    side = pl.Cable(points=[(0.018, 0.0, z) for z in np.linspace(0.0, 0.06, 6)], limits=(0.0, 5.0))
    return pl.Robot(
        shape=pl.geometry.ClosedCylinder(radius=0.02, wall=0.004, length=0.06, cap=0.006),
        divisions=(8, 4, 1),
        order=1,
        material=pl.Material(E=1e5, nu=0.3),
        supports=(pl.Support(region="bottom"),),
        gravity=(0.0, 0.0, -9.81),
        damping=pl.Damping(stiffness=0.01),
        effectors={"top": pl.Effector(surface="top")},
        actuators={
            "water": pl.actuators.Hydraulic(cavity="cavity", drive=drive, limits=limits),
            "pull": side,
        },
    )


ROBOTS = {
    "arm": arm,
    "arm of lengths": lambda: arm("length"),
    "arm of second order": lambda: replace(arm(), divisions=(1, 1, 3), order=2),
    "strip": strip,
    "diamond": lambda: pl.robots.diamond(along=5),
    "stiff-flop": lambda: pl.robots.stiff_flop(divisions=(1, 2, 1), order=1),
    "volumes": lambda: chambers("volume", (1.0, 1.15)),
    "gas": lambda: chambers("gas", (1.0, 1.5)),
    "finger of water": lambda: pl.robots.hydraulic_finger(along=2, order=1),
    "liandford": lambda: replace(
        pl.robots.liandford(cells=4), effectors={"tip": pl.Effector(point=(0.0, 0.0, 0.0))}
    ),
}
SPANS = {
    "stiff-flop": 0.4,
    "volumes": 0.4,
    "gas": 0.4,
    "liandford": 0.25,
}  # fraction of the control range from which random controls are drawn


def reachable(name, robot, rng):
    """Return (controls, tip position (1, dim)) of an equilibrium under random controls."""
    model = pl.Quasistatic(robot)
    lower, upper = robot.control_limits()
    neutral = robot.neutral_controls()
    if name == "arm of lengths":
        lower = np.full(4, 0.9)
        upper = np.full(4, 1.0)
    u = neutral + SPANS.get(name, 1.0) * (rng.uniform(lower, upper) - neutral)
    x = pl.equilibrium(model, u).x
    return u, robot.effector_position("tip", model.space.position(x))[None]
