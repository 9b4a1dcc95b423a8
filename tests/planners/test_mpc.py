"""A controller around a plan: it repeats the plan where nothing is new, and leaves no lasting error
under a force that it does not know."""

from dataclasses import replace

import numpy as np
import pytest

import pliant as pl
from pliant.core import InputError
from pliant.dynamics import Condensed, simulate
from pliant.planners import gauss_newton, mpc
from pliant.planners.mpc import responses
from pliant.problem import Effort, Goal, Limit, Problem
from pliant.robot import PointLoad

TIP, STEPS, DT, LONG = (0.0, 0.0, 0.2), 16, 0.02, 120
FORCE = (0.02, -0.03, 0.0)  # [N] that the model does not know


def stick(limit=1.0, layers=4):
    """A soft bar on the ground whose tip is pushed; it comes to rest within some tens of steps."""
    return pl.Robot(
        name="stick",
        shape=pl.Box(size=(0.04, 0.04, 0.2)).mesh(divisions=(1, 1, layers)),
        order=1,
        material=pl.Material(E=1e5, nu=0.3, density=1000.0, law="linear-corotated"),
        supports=[pl.Support(region="z-")],
        actuators={"push": pl.actuators.Thrust(point=TIP, limits=(-limit, limit))},
        effectors={"tip": pl.Effector(point=TIP), "foot": pl.Effector(point=(0.0, 0.0, 0.0))},
        damping=pl.Damping(mass=20.0, stiffness=0.02),
    )


def aim(robot):
    """1 cm aside within half the time, and held there."""
    way = lambda t: np.array([0.01 * min(2.0 * t / (STEPS * DT), 1.0), 0.0, 0.2])
    return Problem(
        model=pl.SemiImplicit(robot, dt=DT),
        steps=STEPS,
        terms=[Goal(effector="tip", target=way, weight=1e4), Effort(weight=1e-3)],
    )


@pytest.fixture(scope="module")
def problem():
    return aim(stick())


@pytest.fixture(scope="module")
def plan(problem):
    found = gauss_newton(problem)
    assert found.status, found.status.text
    return found


def tips(model, states):
    rows = model.effector_rows("tip")
    return np.array([rows @ model.space.position(x) for x in states])


def closed(controller, model, count, noise=0.0):
    """The run of a controller around a model, which reads the tip with noise [m]."""
    rows, random, memory = model.effector_rows("tip"), np.random.default_rng(3), controller.begin()

    def policy(k, x):
        nonlocal memory
        u, memory = controller.act(
            memory, rows @ model.space.position(x) + noise * random.standard_normal(3)
        )
        return u

    return simulate(model, policy, steps=count)


def pulled(robot, force=FORCE):
    return pl.SemiImplicit(replace(robot, loads=[PointLoad(point=TIP, force=force)]), dt=DT)


def held(plan, count):
    return np.concatenate(
        [plan.controls, np.tile(plan.controls[-1], (count - len(plan.controls), 1))]
    )


@pytest.mark.parametrize(("horizon", "memory"), [(1, 30), (10, 30), (5, 60)])
def test_without_surprise_the_plan_is_repeated(problem, plan, horizon, memory):
    on = tips(
        problem.model, simulate(problem.model, held(plan, STEPS + 60)).states
    )  # where the last control leads
    run = closed(
        mpc(problem, plan, effectors=("tip",), wanted=on, horizon=horizon, memory=memory),
        problem.model,
        STEPS,
    )
    np.testing.assert_allclose(run.controls, plan.controls, atol=1e-6 * np.abs(plan.controls).max())
    np.testing.assert_allclose(
        tips(problem.model, run.states), tips(problem.model, plan.states), atol=1e-8
    )


def test_without_readings_the_plan_is_repeated(problem, plan):
    run = tips(problem.model, simulate(problem.model, held(plan, STEPS + 60)).states)
    controller = mpc(problem, plan, effectors=("tip",), wanted=run)
    memory = controller.begin()
    for k in range(STEPS + 3):
        np.testing.assert_allclose(controller.expected(memory), run[k], atol=1e-7)
        u, memory = controller.act(memory, None)
        np.testing.assert_allclose(
            u, plan.controls[min(k, STEPS - 1)], atol=1e-6 * np.abs(plan.controls).max()
        )


def test_an_unknown_force_leaves_no_lasting_error(problem, plan):
    """A lasting move costs nothing, so that nothing is left of the error, whatever the effort."""
    true, goal = pulled(stick()), tips(problem.model, plan.states)[-1]
    lasting = np.linalg.norm(tips(true, simulate(true, held(plan, LONG)).states)[-1] - goal)
    known = np.linalg.norm(
        tips(problem.model, simulate(problem.model, held(plan, LONG)).states)[-1] - goal
    )
    assert lasting > 3.0 * known
    assert lasting > 1e-3
    left = {}
    for effort in (1e-3, 1e-4, 1e-7):
        controller = mpc(
            problem,
            plan,
            effectors=("tip",),
            wanted=tips(problem.model, plan.states),
            memory=40,
            horizon=12,
            effort=effort,
        )
        left[effort] = np.linalg.norm(tips(true, closed(controller, true, LONG).states)[-1] - goal)
    assert max(left.values()) < 1e-5 * lasting


def test_it_holds_the_plans_last_place_where_the_last_control_would_not(problem, plan):
    goal = tips(problem.model, plan.states)[-1]
    left = tips(problem.model, simulate(problem.model, held(plan, LONG)).states)[-1]
    run = closed(mpc(problem, plan, effectors="tip", memory=40, horizon=12), problem.model, LONG)
    assert np.linalg.norm(tips(problem.model, run.states)[-1] - goal) < 1e-3 * np.linalg.norm(
        left - goal
    )


def test_the_drift_is_what_the_force_does(problem, plan):
    """With a gain of one the drift after a reading is all of the surprise; without a move it is the
    force's own deflection."""
    true = pulled(stick())
    controller = mpc(problem, plan, effectors=("tip",), gain=1.0)
    memory, run = controller.begin(), simulate(true, plan.controls)
    for k in range(STEPS):
        memory = controller.read(replace(memory, k=k), tips(true, run.states)[k])
    np.testing.assert_allclose(
        memory.drift,
        (tips(true, run.states) - tips(problem.model, plan.states))[STEPS - 1],
        atol=1e-12,
    )


@pytest.mark.parametrize("noise", [0.0, 2e-3])
def test_limits_are_never_exceeded(noise):
    limit = 0.5
    tight = aim(stick(limit))
    plan = gauss_newton(tight)
    controller = mpc(tight, plan, effectors=("tip",), gain=1.0, effort=1e-6)
    run = closed(controller, pulled(stick(limit), force=(-0.3, 0.2, 0.0)), 40, noise)
    assert np.abs(run.controls).max() <= limit + 1e-9
    assert np.mean(np.abs(run.controls) > limit - 1e-6) > 0.1


def test_the_limits_of_the_problem_are_kept_too(problem):
    """Tighter ones than the motors', and on rates."""
    tight = replace(
        problem, limits=[Limit(lower=-0.2, upper=0.2), Limit(lower=-8.0, upper=8.0, order=1)]
    )
    plan = gauss_newton(tight)
    run = closed(
        mpc(tight, plan, effectors=("tip",), gain=1.0, effort=1e-6),
        pulled(stick(), force=(-0.3, 0.2, 0.0)),
        40,
    )
    assert np.abs(run.controls).max() <= 0.2 + 1e-9
    assert np.abs(np.diff(run.controls, axis=0)).max() <= 8.0 * problem.model.dt * (1.0 + 1e-6)


def test_a_condensed_model_of_approximations_is_refused(problem, plan):
    with pytest.raises(InputError, match="approximations"):
        mpc(replace(problem, model=Condensed(model=problem.model)), plan, effectors=("tip",))


def test_the_response_is_that_of_the_run(problem, plan):
    """G[k, j] = dp_{k+1+j}/du_k by central differences of whole runs, past the plan's end too."""
    count, eps = 6, 1e-4
    rows = problem.model.effector_rows("tip")
    _, G = responses(problem, plan.controls, rows, count)
    assert G.shape == (STEPS, count, 3, 3)
    for k in (0, 5, STEPS - 3, STEPS - 1):
        for i in range(3):
            moved = []
            for side in (eps, -eps):
                controls = held(plan, STEPS + count)
                controls[k, i] += side
                moved.append(
                    tips(problem.model, simulate(problem.model, controls, x0=problem.start).states)[
                        k + 1 : k + 1 + count
                    ]
                )
            np.testing.assert_allclose(
                G[k, :, :, i], (moved[0] - moved[1]) / (2.0 * eps), atol=1e-6 * np.abs(G).max()
            )


@pytest.mark.parametrize(
    ("options", "words"),
    [
        ({"horizon": 0}, "horizon"),
        ({"horizon": 2.0}, "horizon"),
        ({"memory": 0}, "memory"),
        ({"gain": 0.0}, "gain"),
        ({"gain": 2.0}, "gain"),
        ({"gain": np.nan}, "gain"),
        ({"effort": 0.0}, "effort"),
        ({"effectors": ("foot",)}, "W_ea = 0"),
        ({"effectors": ("tap",)}, "tap"),
        ({"effectors": ()}, "effector"),
        ({"wanted": np.zeros((3, 2))}, "wanted"),
        ({"wanted": np.full((STEPS + 1, 3), np.nan)}, "wanted"),
    ],
)
def test_a_wrong_option_is_a_sentence(problem, plan, options, words):
    with pytest.raises(InputError, match=words) as said:
        mpc(problem, plan, **{"effectors": ("tip",), **options})
    assert "\n" not in str(said.value)


def test_a_plan_of_another_problem_is_a_sentence(problem, plan):
    with pytest.raises(InputError, match="that was planned"):
        mpc(replace(problem, steps=STEPS - 1), plan, effectors=("tip",))
    with pytest.raises(InputError, match="that was planned"):
        mpc(aim(stick(layers=3)), plan, effectors=("tip",))


@pytest.mark.parametrize(
    "reading", [[0.0, np.nan, 0.2], [np.inf, 0.0, 0.2], [0.0, 0.2], np.zeros((2, 3)), "here"]
)
def test_a_wrong_reading_is_a_sentence(problem, plan, reading):
    controller = mpc(problem, plan, effectors=("tip",))
    with pytest.raises(InputError, match="reading"):
        controller.act(controller.begin(), reading)
