"""Problems of models, optimised by every method, against the planners and closed forms."""

import json

import numpy as np
import pytest

import pliant as pl
from pliant.optimisation import SQP, optimise
from pliant.optimisation.driver import METHODS

GOAL = pl.Goal(effector="tip", target=(0.05, 0.0))
EFFORT = pl.Effort(weight=1e-3)
STEPS = 8


def problem(*, terms=(GOAL, EFFORT), gravity=(0.0, 0.0), **options):
    """A mass of 1 kg that a jet moves by 5 cm; the cost is quadratic in the controls."""
    robot = pl.Robot(
        shape=pl.PointMass(points=[[0.0, 0.0]]),
        actuators={"jet": pl.actuators.Thrust(point=(0.0, 0.0), limits=(-1.0, 1.0))},
        effectors={"tip": pl.Effector(point=(0.0, 0.0))},
        gravity=gravity,
    )
    model = pl.ImplicitEuler(robot, dt=0.1)
    return pl.Problem(model=model, steps=STEPS, terms=terms, **options)


@pytest.fixture(scope="module")
def planned():
    return pl.planners.gauss_newton(problem())


@pytest.mark.parametrize("method", [*sorted(set(METHODS) - {"cmaes"}), SQP(hessian="gauss_newton")])
def test_optimised_controls_are_the_planned_ones(method, planned):
    result = optimise(problem(), method, iterations=300, progress=False)
    assert result.status.ok, result.status.text
    assert result.value == pytest.approx(planned.cost, rel=1e-4)
    np.testing.assert_allclose(result.values["controls"], planned.controls, atol=0.02)


@pytest.mark.parametrize("method", ["sqp", "interior_point"])
def test_limits_on_rates_hold(method):
    made = problem(limits=[pl.Limit(order=1, lower=-1.0, upper=1.0)])
    expected = pl.planners.gauss_newton(made)
    result = optimise(made, method, iterations=200, tolerance=1e-10, progress=False)
    assert result.status.ok, result.status.text
    assert result.value == pytest.approx(expected.cost, rel=1e-4)
    assert made.limit_violation(result.values["controls"]) < 1e-6


def test_optimised_problem_is_reported_and_resumed(tmp_path):
    made = problem()
    optimise(made, "lbfgsb", iterations=2, folder=tmp_path / "run", progress=False)
    result = optimise(
        made, "lbfgsb", iterations=30, folder=tmp_path / "run", resume=True, progress=False
    )
    whole = optimise(made, "lbfgsb", iterations=30, progress=False)
    np.testing.assert_array_equal(result.z, whole.z)
    page = result.report(tmp_path / "report").read_text()
    assert "Convergence" in page
    assert "converged in" in page


def test_optimisation_of_one_control_is_reported(tmp_path):
    beam = pl.Robot(
        shape=pl.geometry.Rectangle(size=(0.2, 0.04)),
        divisions=(2, 1),
        material=pl.Material(E=1e5, nu=0.3),
        supports=[pl.Support(region="x-")],
        actuators={"cable": pl.Cable(points=[(0.0, 0.03), (0.19, 0.03)], limits=(0.0, 1.0))},
        effectors={"tip": pl.Effector(surface="x+")},
    )
    goal = pl.Goal(effector="tip", target=(0.2, 0.03))
    made = pl.Problem(model=pl.Quasistatic(beam), steps=1, terms=[goal])
    result = optimise(made, "lbfgsb", iterations=1, progress=False)
    assert result.values["controls"].shape == (1, 1)
    result.report(tmp_path)
    content = json.loads((tmp_path / "result.json").read_text())
    assert content["metrics"]["controls"]["value"] == result.values["controls"][0, 0]


@pytest.mark.parametrize(
    ("changes", "what"),
    [
        ({"terms": (pl.Goal(effector="tip", target=(-0.05, 0.0)), EFFORT)}, "terms"),
        ({"terms": (GOAL, pl.Effort(weight=2e-3))}, "terms"),
        ({"gravity": (0.0, -1.0)}, "robots"),
        ({"x0": [0.0, 0.0, 0.1, 0.0]}, "initial states"),
        ({"limits": [pl.problem.Limit(lower=-2.0, upper=2.0)]}, "limits"),
    ],
)
def test_another_problem_is_not_resumed(changes, what, tmp_path, raises_clear_error):
    optimise(problem(), "lbfgsb", iterations=2, folder=tmp_path, progress=False)
    raises_clear_error(
        lambda: optimise(problem(**changes), "lbfgsb", folder=tmp_path, resume=True),
        f"differs in {what}",
    )


def test_functions_without_a_digest_do_not_prevent_resuming(tmp_path):
    def cost(x, u, p):
        return 0.5 * float(u @ u) if cost and model else 0.0  # its closure contains itself

    model = problem().model
    term = pl.problem.RunningCost(function=cost, gradient=lambda x, u, p: (None, u, None))
    for resume in (False, True):
        optimise(
            problem(terms=[GOAL, term]),
            "lbfgsb",
            iterations=2 + resume,
            folder=tmp_path,
            resume=resume,
            progress=False,
        )
