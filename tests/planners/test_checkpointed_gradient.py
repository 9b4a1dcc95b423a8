"""The adjoint gradient with checkpoints: bit-identical for every schedule, within the memory limit,
with the fewest repeated steps."""

import weakref
from dataclasses import dataclass, field
from functools import cache
from itertools import pairwise

import numpy as np
import pytest
from planner_models import Wrapped, jet

import pliant as pl
from pliant.actuators import Gripper, MovingFrame
from pliant.checkpointing import Schedule, best_schedule, binomial_split, recomputed_units
from pliant.core import InputError, Status, Step
from pliant.planners import evaluate
from pliant.planners.checkpoints import cost_gradient, retained_bytes, schedule_for
from pliant.planners.sensitivity import adjoint_jacobian, control_cost_gradient, loss_gradients
from pliant.problem import Effort, Goal, Observation, Problem, QuadraticLoss, Residual, Reward
from pliant.problem.problem import ObservationTerm

RULES = {
    "Quasistatic": lambda robot: pl.Quasistatic(robot),
    "ImplicitEuler": lambda robot: pl.ImplicitEuler(robot, dt=0.02),
    "BDF2": lambda robot: pl.BDF2(robot, dt=0.02),
    "SemiImplicit": lambda robot: pl.SemiImplicit(robot, dt=0.02),
}
SCHEDULES = [
    "all",
    "sqrt",
    Schedule(tapes=1),
    Schedule(tapes=1, slots=1),
    Schedule(tapes=1, slots=3),
    Schedule(tapes=2, slots=2),
    Schedule(tapes=5, slots=1),
    Schedule(tapes=3, slots=9),
]


@cache
def beam(rule):
    supports, actuators = (
        (pl.Support(region="x-"),),
        {"hand": pl.actuators.Thrust(point=(0.2, 0.05, 0.05))},
    )
    robot = pl.Robot(
        shape=pl.Box(size=(0.2, 0.1, 0.1)),
        divisions=(2, 1, 1),
        order=1,
        material=pl.Material(E=4e4, nu=0.35),
        supports=supports,
        actuators=actuators,
        effectors={"tip": pl.Effector(surface="x+")},
    )
    return RULES[rule](robot)


def problem_of(model, steps=11):
    """Return a problem with goals, a residual, an acceleration (if the model has velocities) and an
    observation of states and past controls."""
    n, m = model.space.size, model.n_controls
    rng = np.random.default_rng(5)
    rows = tuple(
        _sparse(rng.standard_normal((2, n)) * (rng.random((2, n)) < 0.3)) for _ in range(3)
    )
    direct = tuple(rng.standard_normal((2, m)) for _ in range(4))
    terms = [
        Effort(weight=0.1, order=2),
        Effort(weight=0.3),
        Goal(effector="tip", target=np.full(len(_place(model)), 0.1)),
        Residual(
            effector="tip",
            residual=lambda y: np.array([y[0] * y[1], np.sin(y[0])]),
            time=3 * model.dt,
        ),
        ObservationTerm(
            observations=tuple(
                Observation(
                    name="both",
                    step=k,
                    states=rows,
                    controls=direct,
                    loss=QuadraticLoss(target=np.ones(2), weight=1e-3),
                )
                for k in (1, 2, 7)
            )
        ),
    ]
    if any(model.space.rate):
        terms += [
            Goal(
                effector="tip",
                target=np.zeros(len(_place(model))),
                quantity="acceleration",
                time=(1 * model.dt, 5 * model.dt),
            ),
            Reward(effector="tip", direction=np.eye(len(_place(model)))[0], time=8 * model.dt),
        ]
    return Problem(model=model, steps=steps, terms=terms)


def _sparse(a):
    import scipy.sparse as sp

    return sp.csr_matrix(a)


def _place(model):
    return model.effector_rows("tip") @ model.space.position(model.initial_state())


def some_controls(problem):
    return 0.3 * np.random.default_rng(0).standard_normal((problem.steps, problem.model.n_controls))


# Gradients


@pytest.mark.parametrize("rule", list(RULES))
def test_all_schedules_give_the_same_bits(rule):
    problem = problem_of(beam(rule))
    controls = some_controls(problem)
    first, g = cost_gradient(problem, controls, "all")
    assert first.cost == evaluate(problem, controls).cost
    for schedule in SCHEDULES[1:]:
        sweep, other = cost_gradient(problem, controls, schedule)
        assert sweep.cost == first.cost
        np.testing.assert_array_equal(other, g)


@pytest.mark.parametrize("rule", list(RULES))
def test_gradient_matches_finite_differences_of_the_cost(rule, taylor):
    problem = problem_of(beam(rule), steps=8)
    controls = some_controls(problem)
    d = np.random.default_rng(1).standard_normal(controls.shape)
    _, g = cost_gradient(problem, controls)
    assert taylor(
        lambda e: evaluate(problem, controls + e * d).cost, np.sum(g * d)
    ) == pytest.approx(2.0, abs=0.15)


def test_gradient_agrees_with_the_jacobian():
    problem = problem_of(beam("BDF2"))
    now = evaluate(problem, some_controls(problem))
    rows = control_cost_gradient(problem, now.controls) + np.tensordot(
        loss_gradients(problem, now), adjoint_jacobian(problem, now), axes=1
    )
    _, g = cost_gradient(problem, now.controls, Schedule(tapes=2, slots=2))
    np.testing.assert_allclose(g, rows, rtol=1e-9, atol=1e-12 * np.abs(rows).max())


def test_gradient_of_a_moving_gripper_does_not_depend_on_checkpoints():
    hand = {"hand": Gripper(surface="x-", frame=MovingFrame(origin=(0.0, 0.05, 0.05)))}
    robot = pl.Robot(
        shape=pl.Box(size=(0.2, 0.1, 0.1)),
        divisions=(2, 1, 1),
        order=1,
        material=pl.Material(E=4e4, nu=0.35),
        actuators=hand,
        effectors={"tip": pl.Effector(surface="x+")},
    )
    problem = problem_of(pl.BDF2(robot, dt=0.02), steps=9)
    controls = 0.02 * some_controls(problem)
    reference = cost_gradient(problem, controls, "all")[1]
    np.testing.assert_array_equal(
        cost_gradient(problem, controls, Schedule(tapes=1, slots=2))[1], reference
    )


# Schedules


@cache
def fewest(units, slots):
    """Return the fewest units simulated without a tape, by trying every split.

    This is an independent check of Griewank's formula."""
    if units == 1:
        return 0
    if slots == 0:
        return units - 1 + fewest(units - 1, 0)
    return min(j + fewest(units - j, slots - 1) + fewest(j, slots) for j in range(1, units))


@pytest.mark.parametrize("slots", range(6))
def test_schedule_is_optimal(slots):
    @cache
    def taken(units, free):
        if units == 1:
            return 0
        j = binomial_split(units, free)
        return j + taken(j, free) if free == 0 else j + taken(units - j, free - 1) + taken(j, free)

    for units in range(1, 40):
        assert recomputed_units(units, slots) == fewest(units, slots)
        assert taken(units, slots) == fewest(units, slots)


@dataclass
class Counting(Wrapped):
    """A model that counts its steps and how many of them are alive."""

    count: int = 0
    most: int = 0
    alive: "weakref.WeakSet[Held]" = field(default_factory=weakref.WeakSet)

    def step(self, x, u, p=None, k=0):
        self.count += 1
        tape = Held(self.model.step(x, u, p, k))
        self.alive.add(tape)
        self.most = max(self.most, len(self.alive))
        return Step(tape.step.x, tape.step.status, tape)

    def pullback(self, step, x_bar):
        return self.model.pullback(step.tape.step, x_bar)


class Held:
    def __init__(self, step):
        self.step = step


@pytest.mark.parametrize("schedule", SCHEDULES, ids=str)
@pytest.mark.parametrize("steps", [1, 2, 7, 12])
def test_repeated_steps_are_counted_and_memory_is_bounded(schedule, steps):
    model = Counting(jet())
    problem = Problem(
        model=model,
        steps=steps,
        terms=[Goal(effector="tip", target=(1.0, 0.0), time=steps * 0.1), Effort()],
    )
    model.count = 0
    sweep, _ = cost_gradient(problem, some_controls(problem), schedule)
    plan = (
        schedule_for(problem, some_controls(problem), schedule)
        if isinstance(schedule, str)
        else schedule
    )
    assert model.count == steps + sweep.extra_steps
    assert model.most <= plan.tapes + 1
    if schedule == "all":
        assert sweep.extra_steps == 0
    if schedule == Schedule(tapes=1, slots=3):
        assert sweep.extra_steps == recomputed_units(steps, 3)


def test_sqrt_schedule_simulates_no_step_more_than_twice():
    problem = Problem(
        model=jet(dt=0.01), steps=100, terms=[Goal(effector="tip", target=(1.0, 0.0), time=1.0)]
    )
    every, _ = cost_gradient(problem, some_controls(problem), "all")
    sweep, _ = cost_gradient(problem, some_controls(problem), "sqrt")
    assert sweep.extra_steps == 90
    assert sweep.peak_bytes < every.peak_bytes / 5


@pytest.mark.parametrize("rule", ["ImplicitEuler", "SemiImplicit"])
def test_memory_limit_is_respected_and_used(rule):
    problem = problem_of(beam(rule), steps=12)
    controls = some_controls(problem)
    with pytest.raises(
        InputError, match=r"one step of this model needs (\d+); give \1 or more"
    ) as error:
        cost_gradient(problem, controls, 10)
    least = int(str(error.value).split("give ")[1].split()[0])
    extras = []
    for budget in (least, 1.5 * least, 3 * least, 6 * least, 12 * least, 1e9):
        sweep, g = cost_gradient(problem, controls, budget)
        assert sweep.peak_bytes <= budget
        extras.append(sweep.extra_steps)
        np.testing.assert_array_equal(g, cost_gradient(problem, controls, "all")[1])
    assert extras == sorted(extras, reverse=True)
    assert extras[-1] == 1  # the step that was measured
    with pytest.raises(InputError, match=f"give {least}"):
        cost_gradient(problem, controls, least - 1)


def test_more_memory_never_needs_more_steps():
    costs = []
    for budget in range(300, 30_000, 300):
        plan = best_schedule(200, budget, 100, 300)
        assert plan.tapes * 300 + plan.slots * 100 <= max(budget, 200 * 300)
        costs.append(plan.tapes * recomputed_units(-(-200 // plan.tapes), plan.slots))
    assert costs[0] > 10 * costs[-1]
    assert all(
        b <= 1.1 * a for a, b in pairwise(costs)
    )  # units are integers, so only approximately


def test_tape_size_excludes_the_model():
    model = beam("SemiImplicit")
    step = model.step(model.initial_state(), model.neutral_controls())
    n = model.space.size
    alone = retained_bytes((step.x, step.tape), without=model)
    assert alone >= 8 * (2 * n + n // 2)  # x, x' and the new velocity at least
    solve = retained_bytes(step.tape.solve, without=model)
    assert 0 < solve < alone  # the factor counts
    x = np.zeros(10)
    assert retained_bytes((x, x[:3], [x[5:]])) == 80


def test_failed_simulation_does_not_raise():
    class Fails(Counting):
        def step(self, x, u, p=None, k=0):
            good = super().step(x, u, p, k)
            return Step(good.x, Status(ok=False, text="torn"), good.tape) if k == 3 else good

    problem = Problem(
        model=Fails(jet()), steps=6, terms=[Goal(effector="tip", target=(1.0, 0.0), time=0.6)]
    )
    sweep, g = cost_gradient(problem, some_controls(problem))
    assert sweep.cost == np.inf
    assert sweep.failed == "step 3: torn"
    assert not g.any()
    sweep, _ = cost_gradient(problem, np.full((6, 2), np.nan))
    assert "not finite" in sweep.failed


@pytest.mark.parametrize(
    ("schedule", "says"),
    [
        ("sqr", "did you mean 'sqrt'"),
        (None, "must be a number"),
        (-5, "give"),
        (True, "number"),
        (float("nan"), "give"),
    ],
)
def test_bad_schedule_is_rejected(schedule, says):
    problem = Problem(model=jet(), steps=6, terms=[Effort()])
    with pytest.raises(InputError, match=says):
        cost_gradient(problem, some_controls(problem), schedule)
