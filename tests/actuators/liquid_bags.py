"""Hollow cubes filled with liquid or air, and the forces on their walls by quadrature."""

from itertools import combinations

import numpy as np
import pytest

import pliant as pl
from pliant.actuators import AttachedLiquid, Hydraulic
from pliant.dynamics.equations import Equations
from pliant.geometry import (
    Box,
    Mesh,
    Rectangle,
    add_surface,
    find_cavities,
    name_cavities,
    remove_unused_points,
)
from pliant.geometry.boundary import facet_shape

RHO, WIDE = 1234.0, 0.05  # [kg/m^3], [m]
every = pytest.mark.parametrize(("dim", "order"), [(2, 1), (2, 2), (3, 1), (3, 2)])
HELD = (pl.Support(region="x-"),)
TILTED = {2: (3.0, -9.0), 3: (3.0, -2.0, -9.0)}


def hollow(dim, order=1, crooked=0.0, rooms=1):
    """Return a mesh of 3 x 3 (x 3) cubes of 0.1 m without the middle one.

    `crooked` distorts the corners of the cavity. `rooms` places several cavities in a row. The
    surfaces are "x-", "top" and "cavity", or "cavity-1" and so on from the left."""
    size = (0.1 * (2 * rooms + 1), *((dim - 1) * (0.3,)))
    mesh = (Rectangle if dim == 2 else Box)(size=size).mesh(
        divisions=(2 * rooms + 1, *((dim - 1) * (3,)))
    )
    cube = np.floor(mesh.points[mesh.cells].mean(axis=1) / 0.1)
    points, cells = remove_unused_points(mesh.points, mesh.cells[~(cube % 2 == 1).all(axis=1)])
    inside = ((points > 0.05) & (points < np.array(size) - 0.05)).all(axis=1)
    points[inside] += crooked * np.random.default_rng(3).uniform(-1.0, 1.0, (inside.sum(), dim))
    mesh = Mesh(points=points, cells=cells)
    order_of = (
        np.argsort([points[wall][..., 0].mean() for wall in find_cavities(mesh)]).argsort() + 1
    )
    mesh = name_cavities(mesh, ["cavity"] if rooms == 1 else [f"cavity-{k}" for k in order_of])
    mesh = add_surface(mesh, "x-", lambda centres: centres[:, 0] == 0.0)
    mesh = add_surface(mesh, "top", lambda centres: centres[:, -1] > 0.2999)
    return mesh.quadratic() if order == 2 else mesh


def bag(
    dim=3, order=1, gravity=None, crooked=0.02, supports=HELD, E=1e5, fluid=None, rooms=1, **parts
):
    fluid = Hydraulic(cavity="cavity", density=RHO) if fluid is None else fluid
    return pl.Robot(
        shape=hollow(dim, order, crooked, rooms),
        order=order,
        material=pl.Material(E=E, nu=0.3),
        supports=supports,
        thickness=WIDE,
        gravity=TILTED[dim] if gravity is None else gravity,
        actuators={"pump": fluid, **parts.pop("actuators", {})},
        **parts,
    )


def shaken(rng, **options):
    eq = Equations(robot=bag(**options))
    return eq, eq.body.rest + 0.01 * rng.standard_normal(eq.n_dofs)


def liquid(eq):
    return next(term for term, _ in eq.potentials if isinstance(term, AttachedLiquid))


def weight(eq, q):
    """Return the nodal forces (n_nodes, dim) [N] of the liquid's weight."""
    term = liquid(eq)
    return -(term.weights.T @ term.gradient(eq.points(term, q), np.zeros(0)))


def on_wall(eq, q, cavity="cavity"):
    """Yield for each point of a fine quadrature rule: shape functions (a,), positions (k, dim), and
    outward normals of the liquid times area and weight (k, dim)."""
    nodes, dim = q.reshape(-1, eq.dim)[eq.body.mesh.facets(cavity)], eq.dim
    at, w = np.polynomial.legendre.leggauss(6)
    line = [(0.5 + 0.5 * a, 0.5 * u) for a, u in zip(at, w, strict=True)]
    rule = [(np.array([a, 1 - a]), u * WIDE) for a, u in line]
    if dim == 3:
        rule = [
            (np.array([a, (1 - a) * b, (1 - a) * (1 - b)]), u * v * (1 - a))
            for a, u in line
            for b, v in line
        ]
    for bary, weight in rule:
        value, slope = facet_shape(bary, eq.body.mesh.order)
        t = np.einsum("kai,as->kis", nodes, slope)
        n = (
            np.cross(t[:, :, 0], t[:, :, 1])
            if dim == 3
            else np.stack([t[:, 1, 0], -t[:, 0, 0]], axis=1)
        )
        yield (
            value,
            np.einsum("kai,a->ki", nodes, value),
            -weight * n,
        )  # the facets point into the cavity


def measured(eq, q, cavity="cavity"):
    """Return volume [m^3] and centroid (dim,) [m] of the cavity by the divergence theorem."""
    volume = sum(float(np.sum(x * n)) / eq.dim for _, x, n in on_wall(eq, q, cavity))
    return volume, sum(
        0.5 * np.sum(x**2 * n, axis=0) for _, x, n in on_wall(eq, q, cavity)
    ) / volume


def wall_forces(eq, q, pressure, cavity="cavity"):
    """Return the nodal forces (n_nodes, dim) [N] of a pressure (k, dim) -> (k,) [Pa] on the walls.

    They are the integral of N p n and use no potential."""
    out = np.zeros((eq.n_dofs // eq.dim, eq.dim))
    for value, x, n in on_wall(eq, q, cavity):
        np.add.at(
            out,
            eq.body.mesh.facets(cavity),
            np.einsum("a,ki->kai", value, pressure(x)[:, None] * n),
        )
    return out


def moments(x, f):
    return np.array(
        [
            np.sum(x[:, i] * f[:, j] - x[:, j] * f[:, i])
            for i, j in combinations(range(x.shape[1]), 2)
        ]
    )
