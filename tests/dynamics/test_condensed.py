"""Condensed dynamics compared with the full model: eq. 11 is its step, and the derivatives match
their definitions."""

import numpy as np
import pytest

import pliant as pl
from pliant.core import InputError
from pliant.dynamics import Condensed

DT = 0.01


def arm(**parts):
    """Return a damped slab with two cables, an effector at a node and one averaged over a face."""
    rows = {"left": 0.02, "right": 0.08}
    return pl.Robot(
        **{
            "shape": pl.Box(size=(0.2, 0.1, 0.1)),
            "divisions": (4, 2, 2),
            "order": 1,
            "material": pl.Material(E=4e4, nu=0.35),
            "supports": [pl.Support(region="x-")],
            "gravity": (0.0, 0.0, -9.81),
            "damping": pl.Damping(mass=0.8, stiffness=0.02),
            "actuators": {
                name: pl.Cable(points=[[0.0, y, 0.09], [0.1, y, 0.1], [0.2, y, 0.09]])
                for name, y in rows.items()
            },
            "effectors": {
                "tip": pl.Effector(point=(0.2, 0.05, 0.05)),
                "face": pl.Effector(surface="x+"),
            },
            **parts,
        }
    )


def moving(model, steps=5):
    x = model.initial_state()
    for k in range(steps):
        x = model.step(x, np.array([1.0 + 0.2 * k, 0.3]), None, k).x
    return x


@pytest.fixture(scope="module")
def model():
    return pl.SemiImplicit(arm(), dt=DT)


def test_predicted_step_equals_the_full_step_for_every_control(model):
    seen, x = Condensed(model=model), moving(model)
    step = model.step(x, np.array([0.4, 2.0]))
    for u in ([0.0, 0.0], [3.0, 1.0], [5.0, 5.0]):
        whole = seen.reduction @ model.step(x, np.array(u)).x
        np.testing.assert_allclose(seen.predict(step, np.array(u)), whole, rtol=0.0, atol=1e-12)


def test_coupling_equals_h_a_inverse_h(model):
    """W_ij = H_i A^-1 H_j^T with A assembled column by column."""
    seen, x = Condensed(model=model), moving(model)
    step = model.step(x, np.array([0.4, 2.0]))
    eq, h = model.equations, DT
    q = x[: eq.n_dofs]
    inverse = np.zeros((eq.n_dofs, eq.n_dofs))
    inverse[np.ix_(eq.free, eq.free)] = step.tape.solve(np.eye(len(eq.free)))
    toward = -eq.control_jacobian(q, step.tape.u)
    found = seen.coupling(step)
    np.testing.assert_allclose(
        found.ea, seen.observed_rows @ inverse @ toward, rtol=1e-9, atol=1e-12
    )
    np.testing.assert_allclose(found.aa, toward.T @ inverse @ toward, rtol=1e-9, atol=1e-12)
    np.testing.assert_allclose(found.aa, found.aa.T, rtol=1e-9)
    A, B = seen.reduced_jacobians(step)
    np.testing.assert_allclose(B, np.concatenate([h * h * found.ea, h * found.ea]), rtol=1e-12)
    n = seen.observed_rows.shape[0]
    np.testing.assert_array_equal(
        A, np.block([[np.eye(n), h * np.eye(n)], [np.zeros((n, n)), np.eye(n)]])
    )


def test_nonlinear_derivative_moves_effector_nodes_with_constant_matrix(model):
    """eq. 13: the change of A^-1 b under a displacement of the effector's node with constant A, by
    differences of forces."""
    seen, x = Condensed(model=model, effectors=("tip",), derivative="nonlinear"), moving(model)
    step = model.step(x, np.array([0.4, 2.0]))
    eq, h, eps = model.equations, DT, 1e-6
    lift = seen.reduction.T.toarray()  # the tip is a node, so H_e^T is the pseudo-inverse

    def impulse(state):
        """Return b(q, v) from the functions of the full model, with K and D of the step."""
        q, v = np.split(state, 2)
        forces = eq.body.gradient(q, step.tape.coefficients.fields)
        drag = model.linear_part(step.tape, *np.split(x, 2), v) - eq.mass_times(
            step.tape.coefficients, v
        )
        return -h * forces - drag

    columns = np.stack(
        [(impulse(x + eps * e) - impulse(x - eps * e)) / (2.0 * eps) for e in lift.T], axis=1
    )
    dw = np.zeros_like(columns)
    dw[eq.free] = step.tape.solve(columns[eq.free])
    n = seen.observed_rows.shape[0]
    linear = np.block([[np.eye(n), h * np.eye(n)], [np.zeros((n, n)), np.eye(n)]])
    wanted = linear + np.vstack([h * (seen.observed_rows @ dw), seen.observed_rows @ dw])
    np.testing.assert_allclose(seen.reduced_jacobians(step)[0], wanted, rtol=1e-6, atol=1e-7)


@pytest.mark.parametrize("derivative", ["linear", "nonlinear"])
def test_linearization_matches_the_reduced_jacobians(model, derivative):
    seen, x = Condensed(model=model, derivative=derivative), moving(model)
    step, random = model.step(x, np.array([0.4, 2.0])), np.random.default_rng(0)
    A, B = seen.reduced_jacobians(step)
    lin = seen.linearize(step)
    dx, du, bar = (
        random.standard_normal((model.space.size, 3)),
        random.standard_normal((2, 3)),
        random.standard_normal((model.space.size, 3)),
    )
    out = lin.jvp(dx, du)
    np.testing.assert_allclose(
        seen.reduction @ out, A @ (seen.reduction @ dx) + B @ du, rtol=1e-9, atol=1e-9
    )
    x_bar, u_bar, _ = lin.vjp(bar)
    assert np.sum(bar * out) == pytest.approx(np.sum(x_bar * dx) + np.sum(u_bar * du), rel=1e-10)


def test_implicit_model_can_be_condensed():
    model = pl.ImplicitEuler(arm(), dt=DT)
    x = moving(model)
    step = model.step(x, np.array([0.4, 2.0]))
    for derivative in ("linear", "nonlinear"):
        seen = Condensed(model=model, derivative=derivative)
        B = seen.reduced_jacobians(step)[1]
        eps = 1e-4
        slopes = [
            (model.step(x, step.tape.u + eps * e).x - model.step(x, step.tape.u - eps * e).x)
            / (2.0 * eps)
            for e in np.eye(2)
        ]
        np.testing.assert_allclose(
            B, seen.reduction @ np.array(slopes).T, rtol=1e-3, atol=1e-3 * np.abs(B).max()
        )
        np.testing.assert_allclose(
            seen.predict(step, step.tape.u), seen.reduction @ step.x, atol=1e-12
        )


@pytest.mark.parametrize(
    ("make", "words"),
    [
        (
            lambda m: Condensed(model=m, derivative="quadratic"),
            "choose one of linear, nonlinear, exact",
        ),
        (lambda m: Condensed(model=m, effectors=("tipp",)), "did you mean 'tip'"),
        (lambda m: Condensed(model=m, actuators=("lefd",)), "did you mean 'left'"),
        (lambda m: Condensed(model=m, effectors=()), "no effector"),
        (lambda m: Condensed(model=m.robot), "SemiImplicit"),
        (lambda m: Condensed(model=pl.Quasistatic(m.robot)), "velocities"),
        (
            lambda m: Condensed(model=pl.SemiImplicit(m.robot, dt=DT, design=("body.E",))),
            "design variables",
        ),
    ],
)
def test_bad_input_raises_one_clear_error(model, make, words):
    with pytest.raises(InputError, match=words) as caught:
        make(model)
    assert "\n" not in str(caught.value)
