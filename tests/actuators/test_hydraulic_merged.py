"""The merged constraint of pressure and weight [Rodriguez2017] compared with the exact response."""

import numpy as np
from liquid_bags import RHO, bag, measured, weight

import pliant as pl
from pliant.actuators import merged_constraint
from pliant.hydrostatics.weight_columns import column_weights
from pliant.papers.paper002 import solve_without_weight_derivative


def responses(model, u):
    """Return dq/dp of the free unknowns at an equilibrium, computed in five ways.

    These are differences, the exact tangent, the merged J_a of [Rodriguez2017] with the weights of
    walls and of columns, and the pressure alone."""
    eq, free = model.equations, model.equations.free
    step = pl.equilibrium(model, u)
    h = 1e-3 * u
    ahead, behind = (pl.equilibrium(model, u + side * h, x0=step.x).x for side in (1.0, -1.0))
    solve, q = solve_without_weight_derivative(model.equations, step.x, u), step.x
    J_p, g = -eq.control_jacobian(q, u)[free].T, np.array(model.robot.gravity)
    wall = eq.body.mesh.facets("cavity")[:, ::-1]  # out of the liquid
    columns = column_weights(q.reshape(-1, 3), wall, grid=200, density=RHO, gravity=g)
    loads = weight(eq, q), np.outer(columns.weights, g / np.linalg.norm(g))
    J_a = [
        merged_constraint(J_p, load.ravel()[free][None], measured(eq, q)[:1], solve)
        for load in loads
    ]
    return (
        (ahead - behind)[free] / (2.0 * h[0]),
        model.linearize(step).dense_controls()[free, 0],
        *(solve(J)[:, 0] for J in (*J_a, J_p.T)),
    )


def test_exact_response_matches_equilibrium_and_merged_constraint_is_close():
    """The merged constraint has an error of 3 to 4 %, the pressure alone of 26 %.

    The tangent with the derivative of the weight is exact."""
    model = pl.Quasistatic(
        bag(E=2e4, gravity=(0.0, 0.0, -9.81)), solver_options=pl.SolverOptions(tolerance=1e-13)
    )
    found, *guesses = responses(model, np.array([1500.0]))
    exact, walls, columns, plain = (
        np.linalg.norm(guess - found) / np.linalg.norm(found) for guess in guesses
    )
    assert exact < 1e-6
    assert walls < columns < 0.05
    assert plain > 0.2


def test_merged_constraint_covers_two_cavities():
    """J_w^T J_p K^-1 J_p^T couples the weight of each cavity to the pressure in the other."""
    rng = np.random.default_rng(1)
    A, J, w, v = (
        rng.standard_normal((6, 6)),
        rng.standard_normal((2, 6)),
        rng.standard_normal((2, 6)),
        np.array([2.0, 3.0]),
    )
    K = A @ A.T + np.eye(6)
    grown = J @ np.linalg.inv(K) @ J.T  # [cavity that grows, cavity under pressure]
    expected = [J[k] + sum(w[i] / v[i] * grown[i, k] for i in range(2)) for k in range(2)]
    np.testing.assert_allclose(
        merged_constraint(J, w, v, lambda b: np.linalg.solve(K, b)).T, expected, rtol=1e-12
    )
