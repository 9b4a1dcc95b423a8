"""Supports, free rigid motions, parameters and loads, before any stepping rule."""

import numpy as np
import pytest

import pliant as pl
from pliant.core import InputError
from pliant.dynamics.equations import Equations
from pliant.geometry import add_surface

STEEL = pl.Material(E=1e5, nu=0.3, density=1000.0)


def box(*supports, **parts):
    mesh = pl.Box(size=(0.3, 0.1, 0.1)).mesh(divisions=(3, 1, 1))
    mesh = add_surface(
        mesh,
        "facet",
        np.arange(len(mesh.boundary()))
        == np.flatnonzero(mesh.points[mesh.boundary()].mean(axis=1)[:, 0] == 0)[0],
    )
    return pl.Robot(shape=mesh, order=1, material=STEEL, supports=supports, **parts)


def plate(*supports):
    return pl.Robot(
        shape=pl.geometry.Rectangle(size=(0.3, 0.1)),
        divisions=(3, 1),
        order=1,
        material=STEEL,
        supports=supports,
    )


SPACE = [
    "translation along x",
    "translation along y",
    "translation along z",
    "rotation about x",
    "rotation about y",
    "rotation about z",
]


@pytest.mark.parametrize(
    ("robot", "loose"),
    [
        (box(), SPACE),
        (box(pl.Support(region="x-")), []),
        (box(pl.Support(region="facet")), []),
        (
            box(pl.Support(region="x-", axes="x")),
            ["translation along y", "translation along z", "rotation about x"],
        ),
        (
            box(pl.Support(region="x-", axes="x"), pl.Support(region="y-", axes="y")),
            ["translation along z"],
        ),
        (box(*(pl.Support(region=f"{a}-", axes=a) for a in "xyz")), []),
        (
            box(pl.Support(region="x-", axes="yz")),
            ["translation along x", "rotation about y", "rotation about z"],
        ),
        (plate(), ["translation along x", "translation along y", "rotation in the plane"]),
        (plate(pl.Support(region="x-", axes="x")), ["translation along y"]),
        (plate(pl.Support(region="y-", axes="xy")), []),
    ],
    ids=[
        "nothing",
        "a face",
        "a facet",
        "a wall",
        "two walls",
        "three walls",
        "a sleeve",
        "plate",
        "plate at a wall",
        "plate on a side",
    ],
)
def test_free_rigid_motions_are_named(robot, loose):
    assert Equations(robot=robot).free_rigid_motions() == loose
    if loose:
        with pytest.raises(
            InputError, match="nothing stops its " + ", ".join(loose) + ". Add a Support"
        ):
            pl.Quasistatic(robot)
    else:
        pl.Quasistatic(robot)


def test_one_held_point_leaves_three_rotations():
    """No named region is a single node, so the test sets the mask. Translations are held for every
    centre of rotation."""
    eq = Equations(robot=box())
    eq.__dict__["held"] = np.arange(eq.n_dofs) < 3
    assert eq.free_rigid_motions() == SPACE[3:]


def test_held_and_free_unknowns_partition_the_body():
    eq = Equations(robot=box(pl.Support(region="x-", axes="xz"), pl.Support(region="x+")))
    held = eq.held.reshape(-1, 3)
    np.testing.assert_array_equal(held[eq.body.region("x-")], [[True, False, True]] * 4)
    np.testing.assert_array_equal(held[eq.body.region("x+")], True)
    assert held.sum() == 8 + 12
    np.testing.assert_array_equal(
        np.sort(np.concatenate([eq.free, np.flatnonzero(eq.held)])), np.arange(eq.n_dofs)
    )


def test_supports_follow_their_motion():
    eq = Equations(
        robot=box(pl.Support(region="x-", axes="xz", motion=lambda t: np.array([t, 5.0, -2 * t])))
    )
    q = eq.place_supports(eq.body.rest + 1.0, 0.5).reshape(-1, 3)
    nodes = eq.body.region("x-")
    rest = eq.body.rest.reshape(-1, 3)
    np.testing.assert_allclose(
        q[nodes] - rest[nodes], [[0.5, 1.0, -1.0]] * len(nodes)
    )  # y is not held
    others = np.setdiff1d(np.arange(len(rest)), nodes)
    np.testing.assert_array_equal(q[others], (rest + 1.0)[others])


@pytest.mark.parametrize("motion", [lambda t: np.zeros(2), lambda t: np.array([np.nan, 0, 0])])
def test_bad_support_motion_error_reports_the_time(motion):
    model = pl.ImplicitEuler(box(pl.Support(region="x-", motion=motion)), dt=0.1)
    with pytest.raises(InputError, match=r"motion of a support.*t = 0.1 s"):
        model.step(model.initial_state(), np.zeros(0))


def test_weight_and_loads_sum_to_external_force():
    robot = box(
        gravity=(1.0, 2.0, -9.81), loads=(pl.PointLoad(point=(0.3, 0.05, 0.05), force=(1.0, 0, 0)),)
    )
    eq = Equations(robot=robot)
    weight = 1000.0 * 0.3 * 0.1 * 0.1 * np.array([1.0, 2.0, -9.81])
    np.testing.assert_allclose(
        eq.coefficients(None).external_force.reshape(-1, 3).sum(axis=0),
        weight + [1.0, 0, 0],
        rtol=1e-12,
    )


def test_parameters_have_names_bounds_and_fields():
    eq = Equations(robot=box(), design=("body.E", "cells.density"))
    n = len(eq.body.fields.E)
    np.testing.assert_array_equal(eq.params.flat, [1e5] + [1000.0] * n)
    p = eq.params.flat
    p[0], p[3] = 2e5, 700.0
    fields = eq.coefficients(p).fields
    np.testing.assert_array_equal(fields.E, np.full(n, 2e5))
    assert fields.density[2] == 700.0
    assert eq.body.fields.density[2] == 1000.0  # as described
    with pytest.raises(InputError, match=r"cells.density\[2\] = -700"):
        eq.coefficients(np.where(p == 700.0, -700.0, p))
    with pytest.raises(InputError, match=r"shape \(2,\)"):
        eq.coefficients(p[:2])


def test_fields_vjp_is_transpose_of_jvp(rng):
    eq = Equations(robot=box(), design=("body.nu", "cells.E"))
    change = rng.standard_normal(eq.params.size)
    E, nu, density = rng.standard_normal((3, len(eq.body.fields.E)))
    fields = eq.variables.fields_jvp(change)
    forward = fields.E @ E + fields.nu @ nu + fields.density @ density
    assert eq.variables.fields_vjp(E, nu, density) @ change == pytest.approx(forward, rel=1e-13)


@pytest.mark.parametrize("name", ["body.mass", "arm.E", "E"])
def test_unknown_parameter_error_lists_the_known_ones(name):
    with pytest.raises(InputError, match=f"no parameter '{name}'. This robot has body.E, body.nu"):
        _ = Equations(robot=box(), design=(name,)).params


def test_duplicate_parameter_names_are_rejected():
    robot = pl.Robot(
        shape=pl.Box(size=(0.2, 0.1, 0.1)), divisions=(2, 1, 1), material=pl.Material(E=1e5, nu=0.3)
    )
    with pytest.raises(InputError, match=r"cells\.E and body\.E"):
        pl.ImplicitEuler(robot, dt=0.01, design=["body.E", "cells.E"])
    with pytest.raises(InputError, match="different names"):
        pl.ImplicitEuler(robot, dt=0.01, design=["body.E", "body.E"])


def test_point_mass_has_mass_as_only_parameter():
    robot = pl.Robot(shape=pl.PointMass(points=[[0.0, 0.0]], mass_each=2.0))
    assert pl.ImplicitEuler(robot, dt=0.01, design=["body.density"]).params.blocks[0].unit == "kg"
    with pytest.raises(InputError, match=r"no parameter 'body\.E'"):
        pl.ImplicitEuler(robot, dt=0.01, design=["body.E"])
