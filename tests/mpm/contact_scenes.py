"""Blocks of particles with all actuators that hit an obstacle, for Taylor tests of the adjoint."""

import numpy as np
from particle_scenes import box, stirred

import pliant as pl
from pliant.actuators import Fluidic, Muscle
from pliant.contact import terrain

ROUGH = np.array([0.0, 0.01, -0.01, 0.004, 0.0])
OBSTACLES = {
    "plane": {2: pl.plane((0.1, 1.0)), 3: pl.plane((0.1, 0.05, 1.0))},
    "sphere": {2: pl.sphere((0.05, -0.2), 0.2), 3: pl.sphere((0.05, 0.04, -0.2), 0.2)},
    "terrain": {
        2: terrain(ROUGH, 0.06, (-0.05, -0.01)),
        3: terrain(np.add.outer(ROUGH, ROUGH), 0.06, (-0.05, -0.05, -0.01)),
    },
}
VISCOUS = pl.Damping(mass=0.8, stiffness=0.003)
SCENES = {  # kind, friction, obstacle, law, power, damping
    "sticky plane": ("sticky", 0.0, "plane", "neo-hookean", 2, VISCOUS),
    "slip terrain": ("slip", 0.0, "terrain", "fixed-corotated", 0, pl.Damping()),
    "separate sphere": ("separate", 0.0, "sphere", "neo-hookean", 0, pl.Damping()),
    "friction plane": ("separate", 0.4, "plane", "linear-corotated", 0, pl.Damping()),
    "friction terrain": ("separate", 0.3, "terrain", "fixed-corotated", 4, VISCOUS),
}
SCALES = {
    "position": 1e-3,
    "velocity": 0.1,
    "affine": 1.0,
    "deformation": 0.01,
}  # [m, m/s, 1/s, -] sizes of small changes


def scene(dim, name, transfer="updated"):
    """Return (model, x, controls) of a block with a cable, a muscle, a fluidic actuator and a load.

    The block hits an obstacle near a side wall."""
    kind, friction, obstacle, law, power, damping = SCENES[name]
    size, low = (0.12, *(dim - 1) * [0.08]), (*(dim - 1) * [0.0], 0.02)
    route = np.array([[0.015, 0.04, 0.09], [0.06, 0.05, 0.08], [0.11, 0.03, 0.09]])[
        :, [0, 2] if dim == 2 else [0, 1, 2]
    ]
    robot = pl.Robot(
        shape=box(size, low),
        order=1,
        cell=0.04,
        material=pl.Material(E=1e4, nu=0.3, law=law, power=power),
        damping=damping,
        gravity=(*(dim - 1) * [0.3], -9.81),
        loads=[pl.PointLoad(point=route[1], force=0.02 * np.arange(1, dim + 1))],
        contacts=[
            pl.Contact(obstacle=OBSTACLES[obstacle][dim], kind=kind, friction=friction),
            pl.Contact(obstacle=pl.plane(-np.eye(dim)[0], height=-0.15), kind="slip"),
        ],
        actuators={
            "cable": pl.Cable(points=route, drive="length", stiffness=50.0),
            "swell": Fluidic(region="body"),
            "pull": Muscle(region=box((0.06, *size[1:]), low), axis=(1.0, 0.3, 0.2)[:dim]),
        },
    )
    design = [
        "body.E",
        "cells.nu",
        "body.density",
        "cells.volume",
        *(["contact0.friction"] if friction else []),
    ]
    model = pl.MaterialPoint(
        robot,
        dt=0.005 if dim == 2 else 0.01,
        cell=0.02 if dim == 2 else 0.04,
        substeps=25,
        design=design,
        transfer=transfer,
    )
    if transfer == "total":
        return model, thrown_nodes(model), np.tile([0.9, 300.0, 400.0], (8, 1))
    x = stirred(model, np.random.default_rng(1), velocity=0.1, affine=1.0, strain=0.02)
    model.space.split(x).velocity.reshape(-1, dim)[:] += [0.4, *(dim - 2) * [0.2], -0.6]
    return model, x, np.tile([0.9, 300.0, 400.0], (8, 1))


def thrown_nodes(model):
    """Return a state of nodes with random positions and velocities that moves to the obstacle."""
    rng, n, dim = np.random.default_rng(1), model.body.n_nodes, model.dim
    velocity = 0.1 * rng.standard_normal((n, dim)) + [0.4, *(dim - 2) * [0.2], -0.6]
    away = 0.02 * model.cell * rng.standard_normal(n * dim)
    return model.state(model.body.rest + away, velocity.ravel())


def directions(model, x, U, rng):
    """Return a dict name -> (dx, dU, dp), each with one input."""
    p, starts, out = model.params.flat, model.space.starts, {}
    for k, name in enumerate(model.space.parts):
        d = np.zeros_like(x)
        d[starts[k] : starts[k + 1]] = SCALES[name] * rng.standard_normal(starts[k + 1] - starts[k])
        out[name] = (d, 0.0 * U, 0.0 * p)
    for j, name in enumerate(model.robot.actuators):
        out[name] = (
            0.0 * x,
            0.3 * U * np.eye(U.shape[1])[j] * rng.standard_normal((len(U), 1)),
            0.0 * p,
        )
    start = 0
    for block in model.params.blocks:
        d = np.zeros_like(p)
        d[start : start + block.value.size] = (
            0.2 * np.abs(block.value) * rng.standard_normal(block.value.size)
        )
        start, out[block.name] = start + block.value.size, (0.0 * x, 0.0 * U, d)
    return out


def taylor(f, slope, rate):
    """Return the order of the Taylor remainder and the relative error of a central difference.

    The best of five step sizes counts. At a large step a grid node may change between sticking,
    sliding and separation, where the motion has a kink. At a small step round-off dominates. A
    wrong derivative fails at every step size."""
    at_rest, orders, errors = f(0.0), [], []
    for top in (1e-2, 1e-3, 1e-1, 1e-4, 1e-5):
        sizes = top * 0.5 ** np.arange(3)
        values = np.array([f(e) for e in sizes])
        orders.append(rate(sizes, np.abs(values - at_rest - sizes * slope) + 1e-300))
        errors.append(abs((values[-1] - f(-sizes[-1])) / (2.0 * sizes[-1]) / slope - 1.0))
        if abs(orders[-1] - 2.0) < 0.05 and errors[-1] < 1e-5:
            break
    return min(orders, key=lambda order: abs(order - 2.0)), min(errors)
