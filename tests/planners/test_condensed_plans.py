"""Plans with a condensed backward pass reach goals, satisfy limits and constraints, and agree with
the exact model."""

import itertools
from dataclasses import replace

import numpy as np
import pytest

import pliant as pl
from pliant.core import InputError
from pliant.dynamics import Condensed
from pliant.planners import Options, ddp, gauss_newton
from pliant.planners.choose import best_method
from pliant.problem import Effort, Goal, Problem, StrokeLimit, keep_out, paths

DT, STEPS = 0.01, 24
START = np.array([0.02, 0.02, 0.16])  # [m] the tip at rest
GOAL = START + (0.012, 0.006, -0.002)
CLOSE = 0.01 * float(np.linalg.norm(GOAL - START))


def arm(**parts):
    corners = {"a": (0.0, 0.0), "b": (0.04, 0.0), "c": (0.04, 0.04), "d": (0.0, 0.04)}
    return pl.Robot(
        **{
            "shape": pl.Box(size=(0.04, 0.04, 0.16)),
            "divisions": (2, 2, 6),
            "order": 1,
            "material": pl.Material(E=1e5, nu=0.35),
            "supports": [pl.Support(region="z-")],
            "damping": pl.Damping(mass=4.0, stiffness=0.03),
            "actuators": {
                name: pl.Cable(points=[[x, y, z] for z in (0.0, 0.08, 0.16)], limits=(0.0, 6.0))
                for name, (x, y) in corners.items()
            },
            "effectors": {"tip": pl.Effector(point=(0.02, 0.02, 0.16))},
            **parts,
        }
    )


def task(model, way=None, **parts):
    way = paths.minimum_jerk([0.0, STEPS * DT], [START, GOAL], pause=0.08) if way is None else way
    end = STEPS * DT
    terms = [
        Goal(effector="tip", target=way, weight=2e4),
        Goal(effector="tip", target=way(end), time=end, weight=2e5),
        Goal(effector="tip", target=(0.0, 0.0, 0.0), quantity="velocity", weight=0.1),
        Effort(weight=1e-6),
    ]
    return Problem(model=model, steps=STEPS, terms=terms, **parts)


@pytest.fixture(scope="module")
def model():
    return pl.SemiImplicit(arm(), dt=DT)


@pytest.fixture(scope="module")
def exact(model):
    return gauss_newton(task(model))


@pytest.mark.parametrize(
    ("derivative", "search", "iterations", "end"),
    [
        ("linear", "line", 60, "not converged in 60"),  # it continues with decreasing steps
        ("nonlinear", "line", 120, "stopped improving"),
        ("nonlinear", "trust", 120, "stopped improving"),
    ],
)
def test_condensed_plan_reaches_its_goal(model, exact, derivative, search, iterations, end):
    plan = ddp(
        task(Condensed(model=model, derivative=derivative)),
        search=search,
        options=Options(iterations=iterations),
    )
    assert plan.status.text.startswith(end)
    assert plan.status.ok == (end == "stopped improving")
    assert (
        np.linalg.norm(model.effector_rows("tip") @ plan.states[-1][: model.space.n_dofs] - GOAL)
        <= CLOSE
    )
    assert plan.limit_violation == 0.0
    assert exact.cost <= plan.cost * (
        1.0 + 1e-6
    )  # the exact model finds the optimum, which is a lower bound


def test_exact_derivative_of_condensed_model_gives_the_same_plan(model, exact):
    plan = gauss_newton(task(Condensed(model=model, derivative="exact")))
    np.testing.assert_allclose(plan.controls, exact.controls, atol=1e-8)
    assert plan.status.iterations <= 25


def test_condensed_model_defaults_to_ddp(model):
    assert best_method(Condensed(model=model)) == "ddp"
    assert best_method(Condensed(model=model, derivative="exact")) == "gauss_newton"


def test_too_small_fixed_regulariser_fails(model):
    plan = ddp(task(Condensed(model=model)), regulariser=0.0, options=Options(iterations=60))
    assert not plan.status
    assert "settled" not in plan.status.text


def test_cost_never_increases(model):
    costs = [
        row.cost
        for row in ddp(task(Condensed(model=model)), options=Options(iterations=40)).history
    ]
    assert all(later <= earlier for earlier, later in itertools.pairwise(costs))


def test_condensed_plan_avoids_forbidden_zone(model, exact):
    """A ball is on the straight path to the goal."""
    middle = 0.5 * (START + GOAL)
    zone = keep_out("tip", pl.sphere(middle, 0.002))
    held = gauss_newton(task(model, constraints=[zone]))
    rows = model.effector_rows("tip")
    near = [
        min(np.linalg.norm(rows @ x[: model.space.n_dofs] - middle) for x in plan.states)
        for plan in (exact, held)
    ]
    assert near[0] < 0.0015
    assert near[1] > 0.002 * (1.0 - 1e-3)
    assert held.status, held.status.text
    seen = ddp(task(Condensed(model=model), constraints=[zone]), options=Options(iterations=60))
    assert min(
        np.linalg.norm(rows @ x[: model.space.n_dofs] - middle) for x in seen.states
    ) > 0.002 * (1.0 - 1e-3)
    assert seen.status, seen.status.text


@pytest.mark.parametrize(("increment", "derivative"), [(False, "linear"), (True, "nonlinear")])
def test_condensed_plan_respects_stroke_limit(model, exact, increment, derivative):
    """Check the largest cable stroke in total and in one step."""
    term = model.equations.potentials[2][0]

    def strokes(plan):
        taken = np.array(
            [
                float(term.displacement(model.equations.points(term, x[: model.space.n_dofs])))
                for x in plan.states
            ]
        )
        return np.diff(taken) if increment else taken

    bound = 0.8 * strokes(exact).max()
    options = Options(iterations=60, tolerance=1e-5)
    constraints = [StrokeLimit(actuator="c", upper=bound, increment=increment)]
    rough = Condensed(model=model, actuators=("c",), derivative=derivative)
    plan = ddp(
        task(rough, constraints=constraints), options=options
    )  # its last rounds use gauss_newton
    assert bound * 0.99 <= strokes(plan).max() <= bound * (1.0 + 1e-4)


def test_known_disturbance_is_compensated(exact):
    """A force starts at half of the time. Only the plan that includes it ends at the goal."""
    push = pl.PointLoad(
        point=(0.02, 0.02, 0.16), force=lambda t: np.array([0.0, -0.3, 0.0]) * (t > 0.12)
    )
    pushed = pl.SemiImplicit(arm(loads=[push]), dt=DT)
    plan, blind = ddp(task(Condensed(model=pushed))), pl.simulate(pushed, exact.controls)
    rows = pushed.effector_rows("tip")
    assert np.linalg.norm(rows @ plan.states[-1][: pushed.space.n_dofs] - GOAL) <= CLOSE
    assert np.linalg.norm(rows @ blind.states[-1][: pushed.space.n_dofs] - GOAL) > 5.0 * CLOSE


def test_term_outside_the_reduced_state_is_rejected(model):
    problem = task(Condensed(model=model), constraints=[StrokeLimit(actuator="a", upper=0.01)])
    with pytest.raises(InputError, match=r"Condensed\(effectors=..., actuators=...\)"):
        ddp(problem)


def test_unactuated_effector_is_rejected(model):
    robot = arm(effectors={"tip": pl.Effector(point=(0.02, 0.02, 0.0))})  # at the support
    held = pl.SemiImplicit(robot, dt=DT)
    way = paths.minimum_jerk([0.0, STEPS * DT], [(0.02, 0.02, 0.0), (0.03, 0.02, 0.0)])
    for planner, seen in ((ddp, Condensed(model=held)), (gauss_newton, held)):
        with pytest.raises(InputError, match="W_ea = 0"):
            planner(task(seen, way))


def test_unreachable_goal_is_reported(model):
    way = paths.minimum_jerk([0.0, STEPS * DT], [START, START + (0.2, 0.0, 0.0)])
    plan = ddp(task(Condensed(model=model), way), options=Options(iterations=40))
    assert np.all(np.isfinite(plan.controls))
    assert plan.limit_violation == 0.0
    assert max(miss for _, _, miss in plan.goal_errors) > 0.1  # the summary reports it
    assert "largest goal error" in plan.summary()


@pytest.mark.parametrize(
    ("make", "words"),
    [
        (
            lambda m: StrokeLimit(actuator="a", lower=1.0, upper=0.0).attach(m, STEPS),
            "lower must not exceed",
        ),
        (lambda m: StrokeLimit(actuator="aa", upper=1.0).attach(m, STEPS), "no actuator 'aa'"),
        (lambda m: keep_out("tip", (0.0, 0.0, 0.0)), "sphere"),
        (
            lambda m: Problem(model=m, steps=3, terms=[StrokeLimit(actuator="a", upper=1.0)]),
            "constraints=",
        ),
        (
            lambda m: Problem(model=m, steps=3, terms=[Effort()], limits=[pl.problem.Limit()]),
            "no bound",
        ),
        (lambda m: ddp(task(m), search="golden"), "line, trust"),
        (lambda m: gauss_newton(task(Condensed(model=m))), "plan with ddp"),
        (
            lambda m: Problem(
                model=m, steps=3, terms=[Effort()], limits=[pl.problem.Limit(lower=2.0, upper=1.0)]
            ),
            "must not exceed",
        ),
    ],
)
def test_bad_input_raises_one_line(model, make, words):
    with pytest.raises(InputError, match=words) as caught:
        make(model)
    assert "\n" not in str(caught.value)


def test_too_large_dense_stages_are_rejected():
    robot = replace(arm(), divisions=(6, 6, 24))
    big = Condensed(model=pl.SemiImplicit(robot, dt=DT), derivative="exact")
    with pytest.raises(InputError, match="gauss_newton"):
        ddp(replace(task(big), steps=STEPS))
