"""Muscles and fluidic actuators: the stress of [Spielberg2021, eq. 15], closed-form equilibria, and
the region of action."""

import numpy as np
import pytest
from scipy.optimize import root

import pliant as pl
from pliant.actuators import Fluidic, Muscle
from pliant.core import InputError
from pliant.dynamics.equations import Equations
from pliant.geometry import Rectangle, Union
from pliant.materials import moduli

E, NU = 1e5, 0.3
ROLLERS = [pl.Support(region=f"{axis}-", axes=axis) for axis in "xyz"]
SIDES = {2: Rectangle(size=(0.2, 0.1)), 3: pl.Box(size=(0.2, 0.1, 0.1))}
every_order = pytest.mark.parametrize("order", [1, 2])
every_dim = pytest.mark.parametrize("dim", [2, 3])


def block(dim, order, actuators, law="neo-hookean", **parts):
    """Return a block on three rollers that is free to stretch along every axis."""
    return pl.Robot(
        shape=SIDES[dim],
        divisions=(2, 1, 1)[:dim],
        order=order,
        material=pl.Material(E=E, nu=NU, law=law),
        thickness=0.1,
        supports=ROLLERS[:dim],
        actuators=actuators,
        **parts,
    )


def stress(law, stretch):
    """Return the first Piola stress (3,) [Pa] of a stretch (3,) along the axes by its formula."""
    mu, lam, _ = moduli(np.array([E]), np.array([NU]), np.zeros(1, int))[0]
    J = np.prod(stretch)
    if law == "neo-hookean":
        return mu * (stretch - 1 / stretch) + lam * np.log(J) / stretch
    return 2 * mu * (stretch - 1) + lam * (J - 1) * J / stretch


def predicted(dim, law, S):
    """Return the stretches (dim,) at which P + F S = 0, in plane strain for dim = 2."""
    full = lambda s: np.append(s, np.ones(3 - dim))
    found = root(lambda s: stress(law, full(s))[:dim] + s * S, np.ones(dim), tol=1e-13)
    assert found.success
    return found.x


def measured(robot, u):
    """Return the stretches (dim,) of the block at equilibrium, and their deviation from uniform."""
    model = pl.Quasistatic(robot)
    q = model.space.position(pl.equilibrium(model, u).x).reshape(-1, robot.body().dim)
    rest = robot.body().rest.reshape(q.shape)
    s = np.ptp(q, axis=0) / np.ptp(rest, axis=0)
    np.testing.assert_allclose(q, rest * s, atol=1e-9)
    return s


@pytest.mark.parametrize("law", ["neo-hookean", "fixed-corotated"])
@every_order
@every_dim
def test_fluidic_expansion_of_free_block_matches_equation(dim, order, law):
    s = measured(block(dim, order, {"fluid": Fluidic(region="body")}, law), np.array([8e3]))
    np.testing.assert_allclose(s, predicted(dim, law, np.full(dim, -8e3)), rtol=1e-8)
    assert np.all(s > 1.02)


@pytest.mark.parametrize("law", ["neo-hookean", "fixed-corotated"])
@every_order
@every_dim
def test_muscle_contraction_of_free_block_matches_equation(dim, order, law):
    axis = np.eye(dim)[0]
    s = measured(
        block(dim, order, {"muscle": Muscle(region="body", axis=3.0 * axis)}, law), np.array([2e4])
    )
    np.testing.assert_allclose(s, predicted(dim, law, 2e4 * axis), rtol=1e-8)
    assert s[0] < 0.9
    assert np.all(s[1:] > 1.0)


def test_small_stresses_follow_hookes_law():
    """A uniaxial stress -u gives the strain -u / E, a pressure the strain p (1 - 2 nu) / E."""
    u = 1.0
    short = measured(block(3, 1, {"muscle": Muscle(region="body", axis=(0, 0, 1))}), np.array([u]))
    np.testing.assert_allclose(short - 1, u / E * np.array([NU, NU, -1]), rtol=1e-3, atol=1e-10)
    wide = measured(block(3, 1, {"fluid": Fluidic(region="body")}), np.array([u]))
    np.testing.assert_allclose(wide - 1, u * (1 - 2 * NU) / E, rtol=1e-3, atol=1e-10)


# The force


def moved(rng, dim, order, actuators):
    eq = Equations(robot=block(dim, order, actuators))
    return eq, eq.body.rest + 0.01 * rng.standard_normal(eq.n_dofs)


ACTUATORS = {
    2: {"pull": Muscle(region="body", axis=(1, 2)), "swell": Fluidic(region="body")},
    3: {"pull": Muscle(region="body", axis=(1, 2, -1)), "swell": Fluidic(region="body")},
}


@every_order
@every_dim
def test_force_matches_stress(rng, dim, order):
    """dE = sum over quadrature points of weight P : dF with P = F S, without the potential."""
    eq, q = moved(rng, dim, order, ACTUATORS[dim])
    u, dq = np.array([2e3, 5e2]), rng.standard_normal(eq.n_dofs)
    cells = eq.body.cells
    F, dF = (
        np.einsum("cai,cgak->cgik", v.reshape(-1, dim)[cells.nodes], cells.grads) for v in (q, dq)
    )
    S = sum(
        ui * actuator.stress(eq.body)[1]
        for ui, actuator in zip(u, ACTUATORS[dim].values(), strict=True)
    )
    work = np.einsum("cg,cgik,cgik->", cells.weights, F @ S, dF)
    assert eq.external_energy_and_gradient(eq.coefficients(None), q, u)[1] @ dq == pytest.approx(
        work, rel=1e-10
    )


@every_dim
def test_gradient_hessian_and_control_gradient_are_derivatives(rng, taylor, dim):
    eq, q = moved(rng, dim, 2, ACTUATORS[dim])
    u, dq, du = np.array([2e3, 5e2]), 0.1 * rng.standard_normal(eq.n_dofs), np.array([3e2, -4e2])
    given = lambda e, part: eq.external_energy_and_gradient(eq.coefficients(None), q + e * dq, u)[
        part
    ]
    assert taylor(lambda e: given(e, 0), given(0.0, 1) @ dq) == pytest.approx(2.0, abs=0.05)
    # The force is linear in the positions and in the controls, so that differences are exact.
    np.testing.assert_allclose(
        given(1.0, 1) - given(0.0, 1), eq.potential_stiffness_times(q, u, dq), atol=1e-9
    )
    change = (
        eq.external_energy_and_gradient(eq.coefficients(None), q, u + du)[1]
        - eq.external_energy_and_gradient(eq.coefficients(None), q, u)[1]
    )
    np.testing.assert_allclose(change, eq.control_jacobian(q, u) @ du, atol=1e-9)


def test_active_stress_has_no_resultant_and_rotates_with_body(rng):
    eq, q = moved(rng, 3, 2, ACTUATORS[3])
    u, coefficients = np.array([2e3, 5e2]), eq.coefficients(None)
    energy, g = eq.external_energy_and_gradient(coefficients, q, u)
    np.testing.assert_allclose(g.reshape(-1, 3).sum(axis=0), 0.0, atol=1e-12 * np.abs(g).sum())
    np.testing.assert_allclose(
        np.cross(q.reshape(-1, 3), g.reshape(-1, 3)).sum(axis=0), 0.0, atol=1e-12 * np.abs(g).sum()
    )
    R = np.linalg.qr(rng.standard_normal((3, 3)))[0]
    rotated, h = eq.external_energy_and_gradient(
        coefficients, (q.reshape(-1, 3) @ R.T + 1.0).ravel(), u
    )
    assert rotated == pytest.approx(energy, rel=1e-9)
    np.testing.assert_allclose(
        h.reshape(-1, 3), g.reshape(-1, 3) @ R.T, atol=1e-9 * np.abs(g).max()
    )


def test_energy_is_zero_at_rest():
    eq = Equations(robot=block(3, 2, ACTUATORS[3]))
    assert eq.external_energy_and_gradient(
        eq.coefficients(None), eq.body.rest, np.array([2e3, 5e2])
    )[0] == pytest.approx(0.0, abs=1e-12)


# Where it acts

TWO = Union(
    parts={
        "hip": pl.Box(size=(0.1, 0.1, 0.1)),
        "leg": pl.Box(size=(0.1, 0.1, 0.1), origin=(0.1, 0.0, 0.0)),
    }
)


def limb(**parts):
    material = parts.pop("material", pl.Material(E=E, nu=NU))
    return pl.Robot(
        shape=TWO,
        divisions=(4, 2, 2),
        order=1,
        material=material,
        supports=[pl.Support(region="x-")],
        **parts,
    )


@pytest.mark.parametrize(
    "material",
    [pl.Material(E=E, nu=NU), {"hip": pl.Material(E=E, nu=NU), "leg": pl.Material(E=2 * E, nu=NU)}],
)
def test_region_is_independent_of_materials(material):
    body = limb(material=material).body()
    cells, S = Muscle(region="leg", axis=(0, 2, 0)).stress(body)
    np.testing.assert_array_equal(cells, body.mesh.regions["leg"])
    np.testing.assert_array_equal(S, np.diag([0.0, 1.0, 0.0]))
    np.testing.assert_array_equal(
        Fluidic(region="body").stress(limb().body())[0], np.arange(body.mesh.n_cells)
    )


def test_shape_selects_cells_by_centre():
    body = limb().body()
    shape = pl.Box(size=(0.05, 0.1, 0.1), origin=(0.1, 0.0, 0.0))
    cells, S = Fluidic(region=shape).stress(body)
    assert cells.size == body.mesh.n_cells // 4
    assert shape.contains(body.cell_centres()[cells]).all()
    np.testing.assert_array_equal(S, -np.eye(3))


def test_only_the_region_is_actuated():
    eq = Equations(robot=limb(actuators={"fluid": Fluidic(region="leg")}))
    pushed = eq.external_energy_and_gradient(eq.coefficients(None), eq.body.rest, np.array([1e3]))[
        1
    ].reshape(-1, 3)
    outside = np.setdiff1d(np.arange(len(pushed)), eq.body.region("leg"))
    np.testing.assert_array_equal(pushed[outside], 0.0)
    assert np.abs(pushed).max() > 0.0


def test_eccentric_muscle_bends_limb():
    """A muscle in the upper half of a bar lifts its end; one in the lower half lowers it
    equally."""
    tips = []
    for z in (0.05, 0.0):
        half = pl.Box(size=(0.2, 0.1, 0.05), origin=(0.0, 0.0, z))
        robot = limb(
            actuators={"pull": Muscle(region=half, axis=(1, 0, 0))},
            effectors={"tip": pl.Effector(surface="x+")},
        )
        model = pl.Quasistatic(robot)
        tips.append(
            robot.effector_position(
                "tip", model.space.position(pl.equilibrium(model, np.array([5e3])).x)
            )[2]
            - 0.05
        )
    assert tips[0] > 1e-3
    assert tips[1] == pytest.approx(-tips[0], rel=1e-6)


@pytest.mark.parametrize("rule", [pl.ImplicitEuler, pl.SemiImplicit])
def test_derivatives_of_robot_with_muscle_and_fluidic_pass_taylors_test(rule):
    robot = limb(
        actuators={"pull": Muscle(region="leg", axis=(1, 1, 0)), "swell": Fluidic(region="hip")},
        gravity=(0, 0, -9.81),
    )
    model = rule(robot, dt=0.01, design=["body.E"])
    x = model.step(model.initial_state(), np.array([4e3, 2e3])).x
    assert all(check.ok for check in pl.gradcheck(model, x, np.array([5e3, 3e3])))


# Bad input


@pytest.mark.parametrize(
    ("make", "says"),
    [
        (lambda: Muscle(region="leg", axis=(0, 0, 0)), "The axis of a muscle is zero"),
        (lambda: Muscle(region="leg", axis="x"), "The axis of a muscle is 'x'"),
        (
            lambda: Muscle(region="leg", axis=(1, np.nan, 0)),
            "The axis of a muscle is nan at entry 1",
        ),
        (lambda: Muscle(region=3, axis=(1, 0, 0)), "The region of a muscle is '3'"),
        (
            lambda: Muscle(region="leg", axis=(1, 0, 0), limits=(1.0, 0.0)),
            "lower limit 1 of a muscle is not below",
        ),
        (lambda: Fluidic(region=None), "The region of a fluidic actuator is 'None'"),
        (
            lambda: Fluidic(region="leg", limits=(0.0, -1.0)),
            "lower limit 0 of a fluidic actuator is not below",
        ),
        (
            lambda: Fluidic(region="lag").attach(limb().body()),
            "The body has no region 'lag'; did you mean 'leg'",
        ),
        (
            lambda: Muscle(region="leg", axis=(1, 0)).attach(limb().body()),
            r"The axis of a muscle has shape \(2,\)",
        ),
        (
            lambda: Fluidic(region=SIDES[2]).attach(limb().body()),
            "The region of an actuator is 2D, but the body is 3D",
        ),
        (
            lambda: Fluidic(region=pl.Box(size=(1e-3, 1e-3, 1e-3))).attach(limb().body()),
            "a Box, contains no cell or particle",
        ),
        (
            lambda: Fluidic(region="body").attach(pl.PointMass(points=[[0.0, 0.0]])),
            "A PointMass has no stress",
        ),
    ],
)
def test_bad_muscle_is_rejected(make, says):
    with pytest.raises(InputError, match=says) as caught:
        make()
    assert "\n" not in str(caught.value)


def test_empty_region_is_rejected():
    mesh = pl.Box(size=(0.2, 0.1, 0.1)).mesh(divisions=(2, 1, 1))
    mesh = pl.Mesh(
        points=mesh.points, cells=mesh.cells, regions={"none": [], "all": np.arange(mesh.n_cells)}
    )
    robot = pl.Robot(
        shape=mesh,
        order=1,
        material=pl.Material(E=E, nu=NU),
        actuators={"a": Fluidic(region="none")},
    )
    with pytest.raises(
        InputError, match=r"Actuator 'a': The region 'none' contains no cell or particle"
    ):
        Equations(robot=robot)


@every_dim
def test_fluidic_limit_without_an_equilibrium_is_refused(dim):
    """A free region reaches its equilibrium below the limit, and has none above."""
    largest = block(dim, 1, {}).material.largest_expansion_stress(dim)
    made = lambda share: block(
        dim, 1, {"fluid": Fluidic(region="body", limits=(0.0, share * largest))}
    )
    stretch = measured(made(0.9), np.array([0.9 * largest]))
    assert np.all((stretch > 1.2) & (stretch < 3.0))
    with pytest.raises(InputError, match="no equilibrium above"):
        pl.Quasistatic(made(1.01))
