"""The registry of the contract tests: small robots that together cover every law, body, actuator,
load and contact.

To register a new class, add a line to ROBOTS (or a rule to RULES). The contract tests then run it
with every rule. The `test_registry_...` tests fail until it is registered.
"""

from collections.abc import Callable
from dataclasses import dataclass

import numpy as np

import pliant as pl
from pliant.actuators import (
    AddedElasticity,
    ExtrapolatedActuator,
    Fibres,
    Fluidic,
    Gripper,
    Hydraulic,
    MovingFrame,
    Muscle,
    Pressure,
    Servo,
    Tether,
)
from pliant.contact import terrain
from pliant.dynamics import Condensed

DT = 0.01  # [s]

# Every stepping rule, as robot, design -> model
RULES: dict[str, Callable] = {
    "Quasistatic": lambda robot, design: pl.Quasistatic(robot, design=design),
    "ImplicitEuler": lambda robot, design: pl.ImplicitEuler(robot, dt=DT, design=design),
    "BDF2": lambda robot, design: pl.BDF2(robot, dt=DT, design=design),
    "SemiImplicit": lambda robot, design: pl.SemiImplicit(robot, dt=DT, design=design),
    "MaterialPoint": lambda robot, design: pl.MaterialPoint(robot, dt=DT, cell=0.05, design=design),
    # with this cell no node starts to slip or to separate within the changes of a Taylor test
    "MaterialPoint total": lambda robot, design: pl.MaterialPoint(
        robot, dt=DT, cell=0.055, design=design, transfer="total"
    ),
    "Condensed": lambda robot, design: Condensed(
        model=pl.SemiImplicit(robot, dt=DT, design=design), derivative="exact"
    ),
    "Latent": lambda robot, design: pl.Latent(
        robot, dt=DT, cell=np.array([3.0, 2.0, 2.5][: robot.n_controls])
    ),
}
LINEAR = (
    "Quasistatic",
    "ImplicitEuler",
    "BDF2",
    "SemiImplicit",
)  # rules of a robot's equations, all of which can be linearised

SHAPES = {
    "box": ({"shape": pl.Box(size=(0.2, 0.1, 0.1)), "divisions": (2, 1, 1)}, (0.0, 0.0, -9.81)),
    "plane": (
        {"shape": pl.geometry.Rectangle(size=(0.2, 0.1)), "divisions": (2, 1), "thickness": 0.1},
        (0.0, -9.81),
    ),
}
ROUTE = {
    "box": [[0.02, 0.02, 0.08], [0.1, 0.05, 0.09], [0.19, 0.02, 0.08]],
    "plane": [[0.02, 0.08], [0.1, 0.09], [0.19, 0.08]],
}


@dataclass(frozen=True, kw_only=True, eq=False)
class Case:
    """A robot, the control to step it under and its design variables."""

    robot: pl.Robot
    control: tuple[float, ...] = ()
    design: tuple[str, ...] = ("body.E", "body.nu", "body.density")
    rules: tuple[str, ...] = LINEAR


def solid(shape, order, law, *, power=0, held="x-", **parts):
    body, gravity = SHAPES[shape]
    supports = (pl.Support(region=held),) if held else ()
    return pl.Robot(
        **body,
        order=order,
        material=pl.Material(E=4e4, nu=0.35, law=law, power=power),
        supports=supports,
        gravity=gravity,
        **parts,
    )


def cable(shape, **options):
    return {"line": pl.Cable(points=ROUTE[shape], **options)}


def ground(dim, **options):
    """Return a floor that the body already touches.

    The body is deep in the soft contact layer, so no finite difference leaves it."""
    normal = np.eye(dim)[-1]
    return (
        pl.Contact(obstacle=pl.plane(normal, height=0.004), stiffness=2e5, layer=0.02, **options),
    )


def pebble(**parts):
    return pl.Robot(
        shape=pl.PointMass(points=[[0.0, 0.0, 0.0], [0.1, 0.0, 0.02]], mass_each=0.2),
        gravity=(0.0, 0.0, -9.81),
        **parts,
    )


def hand(shape):
    """Return a gripper on the left end with a frame at its centre."""
    return {
        "hand": Gripper(
            surface="x-",
            frame=MovingFrame(origin={"box": (0.0, 0.05, 0.05), "plane": (0.0, 0.05)}[shape]),
        )
    }


def leash():
    """Return a tether that is taut from the start, far beyond its onset."""
    frame = MovingFrame(origin=(0.0, 0.0, 0.2))
    return {
        "leash": Tether(
            point=(0.0, 0.0, 0.0),
            frame=frame,
            anchor=(0.02, 0.01, 0.21),
            length=0.19,
            stiffness=50.0,
        )
    }


def flesh(shape):
    """Return a muscle along a slanted axis in the left half and a fluidic actuator in the body."""
    half = {"box": pl.Box(size=(0.1, 0.1, 0.1)), "plane": pl.geometry.Rectangle(size=(0.1, 0.1))}[
        shape
    ]
    return {
        "pull": Muscle(region=half, axis=(1.0, 0.3, 0.2)[: half.dim]),
        "swell": Fluidic(region="body"),
    }


@dataclass(frozen=True, kw_only=True)
class QuarticLaw:
    """W = c (F : F - dim)^2, the second term of Yeoh's law."""

    c: float  # [Pa]

    def _excess(self, F):
        return np.sum(F * F, axis=(1, 2)) - F.shape[1]

    def energy(self, F):
        return self.c * self._excess(F) ** 2

    def stress(self, F):
        return 4.0 * self.c * self._excess(F)[:, None, None] * F

    def tangent(self, F):
        unit = np.eye(F.shape[1])
        identity = np.einsum("ij,mk->imjk", unit, unit)
        outer = np.einsum("nim,njk->nimjk", F, F)
        return 4.0 * self.c * (np.multiply.outer(self._excess(F), identity) + 2.0 * outer)


def added_law(shape):
    """Return a cable and an elastic law that is added to the material."""
    return {**cable(shape), "law": AddedElasticity(law=QuarticLaw(c=5e3))}


def rods(*, held="start", more=(), **parts):
    """Return a bent arm of rectangular rods with a branch of circular rods."""
    section = {
        "arm": pl.geometry.RectangularSection(width=0.03, height=0.02),
        "branch": pl.geometry.CircularSection(radius=0.012, inner=0.004),
    }
    shape = pl.geometry.Rods(
        points=[[0.0, 0, 0], [0.1, 0, 0], [0.18, 0.02, 0.05], [0.12, 0.08, 0.03]],
        rods=[[0, 1], [1, 2], [1, 3]],
        section=section,
        parts={"arm": [0, 1], "branch": [2]},
        regions={"start": [0], "end": [2]},
    )
    supports = ((pl.Support(region=held),) if held else ()) + more
    return pl.Robot(
        shape=shape,
        material=pl.Material(E=2e5, nu=0.35),
        supports=supports,
        gravity=(0.0, 0.0, -9.81),
        **parts,
    )


def bag(dim, order, law, *, fibres=None, damping=None, fluid=Pressure, **pressure):
    """Return a box of 3 x 3 (x 3) cubes whose middle cube is a cavity with a fluid.

    `fibres` [Pa] surround the cavity. A liquid has weight."""
    shape = pl.geometry.Rectangle(size=(0.3, 0.2)) if dim == 2 else pl.Box(size=(0.3, 0.2, 0.2))
    mesh = shape.mesh(divisions=(3,) * dim)
    away = np.abs(mesh.points[mesh.cells].mean(axis=1) / mesh.points.max(axis=0) - 0.5).max(axis=1)
    points, cells = pl.geometry.remove_unused_points(mesh.points, mesh.cells[away > 1 / 6])
    mesh = pl.geometry.name_cavities(pl.geometry.Mesh(points=points, cells=cells))
    mesh = pl.geometry.add_surface(mesh, "x-", lambda centres: centres[:, 0] == 0.0)
    thread = {} if fibres is None else {"thread": Fibres(region="body", stiffness=fibres)}
    return pl.Robot(
        shape=mesh,
        order=order,
        material=pl.Material(E=4e4, nu=0.35, law=law),
        supports=(pl.Support(region="x-"),),
        actuators={"air": fluid(cavity="cavity-1", **pressure), **thread},
        damping=damping or pl.Damping(),
        gravity=(2.0, -3.0, -9.0)[-dim:] if fluid is Hydraulic else None,
    )


DAMPED = pl.Damping(mass=0.8, stiffness=0.02)
STRETCHY = {"drive": "length", "stiffness": 200.0}
MOVING = ("ImplicitEuler", "BDF2", "SemiImplicit")  # rules that need no support
TIP = {"box": (0.2, 0.05, 0.05), "plane": (0.2, 0.05)}
ENDS = {
    shape: {"tip": pl.Effector(point=tip), "middle": pl.Effector(region="body")}
    for shape, tip in TIP.items()
}

ROBOTS: dict[str, Case] = {
    # Every law, each on another element, with another attachment
    "neo-hookean box-1 tension": Case(
        robot=solid("box", 1, "neo-hookean", actuators=cable("box")), control=(0.8,)
    ),
    "neo-hookean box-2 length": Case(
        robot=solid("box", 2, "neo-hookean", actuators=cable("box", **STRETCHY)), control=(0.9,)
    ),
    "neo-hookean plane-1 thrust": Case(
        robot=solid(
            "plane", 1, "neo-hookean", actuators={"hand": pl.actuators.Thrust(point=TIP["plane"])}
        ),
        control=(0.6, -0.4),
    ),
    "neo-hookean plane-2 damped": Case(
        robot=solid("plane", 2, "neo-hookean", power=2, damping=DAMPED, actuators=cable("plane")),
        control=(0.8,),
    ),
    "fixed-corotated box-1 thrust": Case(
        robot=solid(
            "box",
            1,
            "fixed-corotated",
            damping=DAMPED,
            actuators={"hand": pl.actuators.Thrust(point=TIP["box"])},
        ),
        control=(0.3, 0.6, -0.4),
    ),
    "fixed-corotated box-2 tension": Case(
        robot=solid("box", 2, "fixed-corotated", power=2, actuators=cable("box")), control=(0.8,)
    ),
    "fixed-corotated plane-1 length": Case(
        robot=solid("plane", 1, "fixed-corotated", actuators=cable("plane", **STRETCHY)),
        control=(0.9,),
    ),
    "fixed-corotated plane-2 guide": Case(
        robot=solid("plane", 2, "fixed-corotated", actuators=cable("plane", guide=(0.3, 0.3))),
        control=(0.8,),
    ),
    "linear-corotated box-1 length": Case(
        robot=solid(
            "box",
            1,
            "linear-corotated",
            power=4,
            damping=DAMPED,
            actuators=cable("box", **STRETCHY),
        ),
        control=(0.9,),
    ),
    "linear-corotated box-2 guide": Case(
        robot=solid(
            "box", 2, "linear-corotated", actuators=cable("box", guide=(0.3, 0.1, 0.3), **STRETCHY)
        ),
        control=(0.7,),
    ),
    "linear-corotated plane-2 thrust": Case(
        robot=solid(
            "plane",
            2,
            "linear-corotated",
            actuators={"hand": pl.actuators.Thrust(point=TIP["plane"])},
        ),
        control=(0.6, -0.4),
    ),
    # Condensed to its effectors
    "condensed": Case(
        robot=solid(
            "box", 1, "neo-hookean", actuators=cable("box"), effectors=ENDS["box"], damping=DAMPED
        ),
        control=(0.8,),
        rules=("SemiImplicit", "Condensed"),
    ),
    # Loads
    "surface load": Case(
        robot=solid(
            "box",
            2,
            "neo-hookean",
            loads=(pl.SurfaceLoad(surface="x+", traction=(10.0, 20.0, -30.0)),),
        )
    ),
    "point load": Case(
        robot=solid(
            "plane",
            1,
            "fixed-corotated",
            loads=(pl.PointLoad(point=TIP["plane"], force=(0.2, 0.3)),),
        )
    ),
    # Contacts, with and without friction, on a held body and on a free one
    "contact held": Case(
        robot=solid(
            "box",
            2,
            "neo-hookean",
            contacts=ground(3, friction=0.5, slip_speed=0.1),
            damping=DAMPED,
        )
    ),
    "contact plane": Case(
        robot=solid(
            "plane",
            1,
            "linear-corotated",
            contacts=ground(2, surface="y-", friction=0.3, slip_speed=0.1),
        )
    ),
    "contact free": Case(
        robot=solid(
            "box", 1, "fixed-corotated", held=None, contacts=ground(3, friction=0.5, slip_speed=0.1)
        ),
        rules=MOVING,
    ),
    "contact sphere": Case(
        robot=solid(
            "box",
            1,
            "neo-hookean",
            contacts=(
                pl.Contact(
                    obstacle=pl.sphere((0.15, 0.05, -0.09), 0.1),
                    surface="z-",
                    stiffness=2e5,
                    layer=0.02,
                    friction=0.4,
                    slip_speed=0.1,
                ),
            ),
        )
    ),
    "contact capsule": Case(
        robot=solid(
            "box",
            2,
            "fixed-corotated",
            contacts=(
                pl.Contact(
                    obstacle=pl.capsule((0.15, -0.1, -0.09), (0.15, 0.2, -0.09), 0.1),
                    surface="z-",
                    stiffness=2e5,
                    layer=0.02,
                ),
            ),
        )
    ),
    "contact terrain": Case(
        robot=solid(
            "plane",
            1,
            "neo-hookean",
            damping=DAMPED,
            contacts=(
                pl.Contact(
                    obstacle=terrain([0.0, 0.01, -0.01, 0.005, 0.0], 0.06, (0.0, 0.004)),
                    surface="y-",
                    stiffness=2e5,
                    layer=0.05,
                ),
            ),
        )
    ),
    # Bodies without stiffness, and design variables of single cells
    "pebbles": Case(
        robot=pebble(
            actuators={
                "jet": pl.actuators.Thrust(point=(0.0, 0.0, 0.0)),
                "line": pl.Cable(points=[[0.0, 0, 0], [0.1, 0, 0.02]], **STRETCHY),
            },
            contacts=(
                pl.Contact(
                    obstacle=pl.plane((0, 0, 1), height=0.05),
                    stiffness=300.0,
                    layer=0.3,
                    friction=0.3,
                    slip_speed=0.1,
                ),
            ),
            damping=pl.Damping(mass=0.5),
        ),
        control=(0.1, 0.2, 0.3, 0.9),
        design=("body.density",),
        rules=MOVING,
    ),
    # Bodies that are held only by a gripper or tether
    "gripper box-1": Case(
        robot=solid("box", 1, "neo-hookean", held=None, actuators=hand("box")),
        control=(0.01, 0.005, -0.01, 0.1, 0.2, -0.1),
    ),
    "gripper plane-2": Case(
        robot=solid(
            "plane", 2, "fixed-corotated", held=None, damping=DAMPED, actuators=hand("plane")
        ),
        control=(0.01, -0.005, 0.2),
    ),
    "tethered pebble": Case(
        robot=pebble(actuators=leash()),
        control=(0.01, 0.02, 0.03, 0.2, 0.1, 0.3),
        design=("body.density",),
        rules=MOVING,
    ),
    "cells": Case(
        robot=solid("box", 1, "neo-hookean", damping=DAMPED, actuators=cable("box")),
        control=(0.8,),
        design=("cells.E", "cells.nu", "cells.density"),
    ),
    # Active stress in the material
    "flesh box-1": Case(
        robot=solid("box", 1, "neo-hookean", actuators=flesh("box")), control=(6e3, 3e3)
    ),
    "flesh box-2": Case(
        robot=solid("box", 2, "fixed-corotated", damping=DAMPED, actuators=flesh("box")),
        control=(6e3, 3e3),
    ),
    "flesh plane-2": Case(
        robot=solid("plane", 2, "neo-hookean", actuators=flesh("plane")), control=(6e3, 3e3)
    ),
    # An elastic law of the user
    "added law box-2": Case(
        robot=solid("box", 2, "neo-hookean", actuators=added_law("box")), control=(0.8,)
    ),
    "added law plane-1": Case(
        robot=solid("plane", 1, "fixed-corotated", damping=DAMPED, actuators=added_law("plane")),
        control=(0.8,),
    ),
    # A fluid in a cavity
    "pressure box-1": Case(robot=bag(3, 1, "neo-hookean", damping=DAMPED), control=(4e3,)),
    "pressure box-2": Case(
        robot=bag(3, 2, "fixed-corotated"),
        control=(4e3,),
        design=("body.E",),
        rules=("Quasistatic", "SemiImplicit"),
    ),
    "pressure plane-2": Case(robot=bag(2, 2, "neo-hookean", fibres=8e4), control=(4e3,)),
    "volume box-1": Case(
        robot=bag(3, 1, "neo-hookean", fibres=8e4, drive="volume", bulk=2e5), control=(1.2,)
    ),
    "volume plane-1": Case(
        robot=bag(2, 1, "linear-corotated", damping=DAMPED, drive="volume", bulk=2e5),
        control=(1.2,),
    ),
    "gas box-1": Case(
        robot=bag(3, 1, "fixed-corotated", damping=DAMPED, drive="gas"), control=(1.3,)
    ),
    "gas plane-2": Case(
        robot=bag(2, 2, "neo-hookean", drive="gas"),
        control=(1.3,),
        rules=("Quasistatic", "SemiImplicit"),
    ),
    # A liquid in a cavity
    "liquid box-1": Case(
        robot=bag(3, 1, "neo-hookean", damping=DAMPED, fluid=Hydraulic, drive="volume", bulk=2e5),
        control=(1.1,),
    ),
    "liquid box-2": Case(
        robot=bag(3, 2, "neo-hookean", fluid=Hydraulic),
        control=(2e3,),
        rules=("Quasistatic", "SemiImplicit"),
    ),
    "liquid plane-1": Case(
        robot=bag(
            2, 1, "fixed-corotated", fluid=Hydraulic, drive="volume", bulk=2e5, density=700.0
        ),
        control=(1.1,),
    ),
    "liquid plane-2": Case(
        robot=bag(2, 2, "neo-hookean", fibres=8e4, fluid=Hydraulic),
        control=(2e3,),
        rules=("ImplicitEuler", "BDF2"),
    ),
    # Beams
    "beams thrust": Case(
        robot=rods(actuators={"hand": pl.actuators.Thrust(point=(0.18, 0.02, 0.05))}),
        control=(0.1, 0.2, -0.1),
    ),
    "beams damped": Case(
        robot=rods(
            damping=DAMPED, actuators={"hand": pl.actuators.Thrust(point=(0.11, 0.04, 0.015))}
        ),
        control=(0.1, -0.2, 0.3),
        design=("body.E", "body.nu", "cells.density"),
    ),
    "beams cable": Case(
        robot=rods(
            damping=pl.Damping(mass=0.5),
            actuators={
                "line": pl.Cable(points=[[0.05, 0, 0], [0.18, 0.02, 0.05], [0.12, 0.08, 0.03]])
            },
        ),
        control=(0.8,),
    ),
    "beams servo": Case(
        robot=rods(
            held=None,
            damping=DAMPED,
            actuators={
                "motor": Servo(region="start", axis=(0.2, 0.3, 1.0), origin=(0.0, 0.01, 0.0))
            },
        ),
        control=(0.4,),
    ),
    "beams torque": Case(
        robot=rods(
            held="end positions",
            damping=DAMPED,
            actuators={
                "motor": Servo(
                    region="start", axis=(0.2, 0.3, 1.0), drive="torque", limits=(-0.1, 0.1)
                )
            },
        ),
        control=(0.002,),
    ),
    "torque plane-2": Case(
        robot=solid(
            "plane",
            2,
            "fixed-corotated",
            held="x+",
            damping=DAMPED,
            actuators={"motor": Servo(region="x-", drive="torque", limits=(-10.0, 10.0))},
        ),
        control=(0.5,),
    ),
    "beams moved": Case(
        robot=rods(
            held=None,
            actuators={"slide": Servo(region="start", axis=(0.0, 1.0, 0.2), drive="translation")},
        ),
        control=(0.02,),
    ),
    "beams on joints": Case(
        robot=rods(
            held="end positions",
            loads=(pl.PointLoad(point=(0.05, 0.0, 0.0), force=(0.1, 0.0, 0.2)),),
            damping=DAMPED,
            more=(
                pl.Support(
                    region="start", axes="xz", motion=lambda t: np.array([0.1 * t, 0.0, 0.2 * t])
                ),
            ),
        ),
        rules=MOVING,
    ),
    "servo box-1": Case(
        robot=solid(
            "box",
            1,
            "neo-hookean",
            held=None,
            actuators={"motor": Servo(region="x-", axis=(1.0, 0.0, 0.5))},
        ),
        control=(0.3,),
    ),
    "servo plane-2": Case(
        robot=solid(
            "plane",
            2,
            "fixed-corotated",
            held=None,
            damping=DAMPED,
            actuators={"motor": Servo(region="x-")},
        ),
        control=(0.3,),
    ),
    # A support that moves
    "moving support": Case(
        robot=pl.Robot(
            **SHAPES["box"][0],
            order=1,
            material=pl.Material(E=4e4, nu=0.35),
            gravity=(0, 0, -9.81),
            damping=DAMPED,
            supports=(
                pl.Support(region="x-", motion=lambda t: np.array([0.05 * t, 0.0, 0.2 * t])),
            ),
        )
    ),
    # Particles
    "particles plane": Case(
        robot=solid(
            "plane",
            1,
            "neo-hookean",
            held=None,
            damping=pl.Damping(mass=0.8, stiffness=0.002),
            actuators=cable("plane", **STRETCHY),
            contacts=(pl.Contact(obstacle=pl.plane((0.1, 1.0), height=0.004), friction=0.4),),
        ),
        control=(0.9,),
        design=("body.E", "cells.nu", "body.density", "cells.volume", "contact0.friction"),
        rules=("MaterialPoint", "MaterialPoint total"),
    ),
    "particles box": Case(
        robot=solid("box", 1, "fixed-corotated", power=2, actuators=flesh("box")),
        control=(6e3, 3e3),
        rules=("MaterialPoint", "MaterialPoint total"),
    ),
    "particles thrust": Case(
        robot=solid(
            "plane",
            1,
            "linear-corotated",
            held=None,
            actuators={
                "hand": pl.actuators.Thrust(point=TIP["plane"]),
                **cable("plane", guide=(0.3, 0.3)),
            },
        ),
        control=(0.6, -0.4, 0.8),
        rules=("MaterialPoint", "MaterialPoint total"),
    ),
    "particles hand": Case(
        robot=solid("plane", 1, "fixed-corotated", held=None, actuators=hand("plane")),
        control=(0.01, -0.005, 0.2),
        rules=("MaterialPoint", "MaterialPoint total"),
    ),
    "particles pressure plane": Case(
        robot=bag(2, 1, "neo-hookean", damping=pl.Damping(mass=0.8, stiffness=0.002)),
        control=(4e3,),
        design=("body.E", "cells.nu", "actuators.air.strength", "damping.stiffness"),
        rules=("MaterialPoint", "MaterialPoint total"),
    ),
    "particles volume box": Case(
        robot=bag(3, 1, "fixed-corotated", drive="volume", bulk=2e5),
        control=(1.2,),
        design=("body.E", "body.density", "actuators.air.bulk"),
        rules=("MaterialPoint", "MaterialPoint total"),
    ),
    "particles gas plane": Case(
        robot=bag(2, 1, "linear-corotated", drive="gas"),
        control=(1.1,),
        rules=("MaterialPoint", "MaterialPoint total"),
    ),
    "particles liquid plane": Case(
        robot=bag(2, 1, "neo-hookean", fluid=Hydraulic, drive="volume", bulk=2e5),
        control=(1.1,),
        design=("body.E", "body.density", "gravity.x", "gravity.y", "actuators.air.bulk"),
        rules=("MaterialPoint", "MaterialPoint total"),
    ),
    # A cable that pushes
    "continued plane-1": Case(
        robot=solid(
            "plane",
            1,
            "neo-hookean",
            actuators={"rod": ExtrapolatedActuator(actuator=pl.Cable(points=ROUTE["plane"]))},
        ),
        control=(-0.5,),
    ),
    # Latent models
    "latent box-1": Case(
        robot=solid(
            "box", 1, "neo-hookean", damping=DAMPED, actuators=cable("box"), effectors=ENDS["box"]
        ),
        control=(0.8,),
        design=(),
        rules=("Latent",),
    ),
    "latent plane-2": Case(
        robot=solid(
            "plane",
            2,
            "fixed-corotated",
            damping=pl.Damping(mass=0.5),
            effectors=ENDS["plane"],
            actuators={
                **cable("plane"),
                "hand": pl.actuators.Thrust(point=TIP["plane"], limits=(-5.0, 5.0)),
            },
        ),
        control=(0.8, 0.2, -0.3),
        design=(),
        rules=("Latent",),
    ),
}

PAIRS = [(name, rule) for name, case in ROBOTS.items() for rule in case.rules]
LINEAR_PAIRS = [(name, rule) for name, rule in PAIRS if rule in (*LINEAR, "Latent", "Condensed")]


def start(name, rule):
    """Return (model, x, u) after a few steps of a motion, so that nothing is at rest or
    straight."""
    case = ROBOTS[name]
    model = RULES[rule](case.robot, case.design)
    x, u = model.initial_state(), np.array(case.control)
    for k in range(3):
        step = model.step(x, (0.7 + 0.1 * k) * u, None, k)
        assert step.status, step.status.text
        x = step.x
    return model, x, u
