"""A problem as an objective: gradients by controls, parameters and initial states, several scenes,
residuals, constraints and failures."""

from dataclasses import replace
from functools import cache

import numpy as np
import pytest

import pliant as pl
from pliant.core import InputError
from pliant.learning import MLP, ClosedLoop, PartObserver
from pliant.optimisation.problem_objective import ProblemObjective
from pliant.problem import (
    Accumulated,
    Ball,
    Constraint,
    Effort,
    FieldSmoothness,
    FinalCost,
    Goal,
    Interval,
    Limit,
    Problem,
    RunningCost,
    Scene,
    StateConstraint,
    StateGoal,
    Variable,
    scenes_of,
)

DT, STEPS = 0.02, 6
DESIGN = ["body.E", "body.nu", "body.density"]
RULES = {
    "Quasistatic": lambda robot: pl.Quasistatic(robot, design=DESIGN),
    "ImplicitEuler": lambda robot: pl.ImplicitEuler(robot, dt=DT, design=DESIGN),
    "BDF2": lambda robot: pl.BDF2(robot, dt=DT, design=DESIGN),
    "SemiImplicit": lambda robot: pl.SemiImplicit(robot, dt=DT, design=DESIGN),
    "MaterialPoint": lambda robot: pl.MaterialPoint(robot, dt=0.005, cell=0.05, design=DESIGN),
}


def beam():
    return pl.Robot(
        shape=pl.geometry.Rectangle(size=(0.2, 0.1)),
        divisions=(2, 1),
        thickness=0.1,
        order=1,
        material=pl.Material(E=4e4, nu=0.35),
        supports=(pl.Support(region="x-"),),
        actuators={"hand": pl.actuators.Thrust(point=(0.2, 0.05))},
        effectors={"tip": pl.Effector(surface="x+")},
        gravity=(0.0, -9.81),
    )


def point_mass(dt=0.1):
    robot = pl.Robot(
        shape=pl.PointMass(points=[[0.0, 0.0]]),
        actuators={"jet": pl.actuators.Thrust(point=(0.0, 0.0))},
        effectors={"tip": pl.Effector(point=(0.0, 0.0))},
    )
    return pl.ImplicitEuler(robot, dt=dt)


@cache
def model_of(rule):
    if rule == "point mass":
        return point_mass()
    if rule == "ClosedLoop":
        inner = point_mass()
        observer = PartObserver(parts=("position", "velocity"))
        return ClosedLoop(
            inner, observer, MLP.for_model(inner, observer, hidden=(3,), scale=2.0, seed=1)
        )
    return RULES[rule](beam())


def terms_of(model, with_effort=True):
    """Return a goal, costs of the last state and of all states with the parameters and controls,
    and of rates of the controls."""
    dim, n = model.effector_rows("tip").shape[0], model.space.size
    rng = np.random.default_rng(3)
    a, b = rng.standard_normal(n), rng.standard_normal(n) * (np.arange(n) < model.space.n_dofs)
    scale = 1.0 / np.maximum(np.abs(model.params.flat), 1.0)

    def running(x, u, p):
        return 0.5 * (b @ x) ** 2 * (1.0 + (scale**2 * p) @ p) + u @ u

    def running_gradient(x, u, p):
        y, q = b @ x, 1.0 + (scale**2 * p) @ p
        return y * q * b, 2.0 * u, y**2 * scale**2 * p

    return [
        Goal(effector="tip", target=np.full(dim, 0.1)),
        *([Effort(weight=0.1, order=1)] if with_effort else []),
        FinalCost(
            function=lambda x, u, p: 1e-3 * (a @ x) ** 2,
            gradient=lambda x, u, p: (2e-3 * (a @ x) * a, None, None),
        ),
        RunningCost(function=running, gradient=running_gradient),
    ]


VARIABLES = {
    "ClosedLoop": ["controller", "initial.position", "initial.velocity"],
    "point mass": ["controls", "initial"],
    "Quasistatic": ["controls", *DESIGN],
    "BDF2": ["controls", *DESIGN, "initial"],
    "ImplicitEuler": ["controls", *DESIGN, "initial.velocity", "initial.position"],
    "SemiImplicit": ["controls", *DESIGN, "initial.velocity"],
    "MaterialPoint": ["controls", *DESIGN, "initial"],
}
CASES = [(rule, name) for rule, names in VARIABLES.items() for name in [*names, "all"]]


def problem_of(rule, variables, **parts):
    model = model_of(rule)
    terms = terms_of(model, with_effort="controls" in variables)
    return Problem(model=model, steps=STEPS, terms=terms, variables=variables, **parts)


def some_point(objective, size=0.05):
    """Return variables near the start, within the bounds."""
    rng = np.random.default_rng(0)
    z = objective.start + size * rng.standard_normal(len(objective.start))
    return np.clip(z, *objective.bounds)


def taylor_order(objective, z, seed=7, size=1e-3):
    """Return the order of the Taylor remainder of the value along a random direction."""
    d = np.random.default_rng(seed).standard_normal(len(z))
    d /= np.abs(d).max()
    now = objective.gradient(z)
    assert not now.failed
    slope = now.gradient @ d
    sizes = size * np.array([1.0, 0.5])
    errors = [abs(objective.value(z + e * d).value - now.value - e * slope) for e in sizes]
    if errors[0] < 1e-9 * abs(now.value) + 1e-13:  # linear in these variables, up to round-off
        return 2.0
    return np.log2(errors[0] / errors[1])


@pytest.mark.parametrize(("rule", "name"), CASES)
def test_gradient_passes_taylor_test(rule, name):
    objective = ProblemObjective(problem_of(rule, VARIABLES[rule] if name == "all" else [name]))
    near = 1e-3 if rule == "MaterialPoint" else 5e-2  # particles tear where neighbours separate
    z = some_point(objective, near)
    size = near * (1e-2 if "initial" in name or name == "all" else 2e-2)
    assert taylor_order(objective, z, size=size) == pytest.approx(2.0, abs=0.1)


# Scenes


def three_scenes(**parts):
    """Return a problem with a free, a driven and a weighted scene of another time step."""
    rng = np.random.default_rng(1)
    inner = model_of("ImplicitEuler")
    other = pl.ImplicitEuler(beam(), dt=0.5 * DT, design=DESIGN)
    tip = inner.effector_rows("tip") @ inner.space.position(inner.initial_state())
    moved = inner.initial_state() + 1e-3 * rng.standard_normal(inner.space.size)
    return Problem(
        model=inner,
        steps=4,
        terms=[Goal(effector="tip", target=tip + 0.01)],
        scenes=[
            Scene(name="free", terms=[Effort(weight=1e-2)]),
            Scene(5, controls=rng.standard_normal((5, 2)), x0=moved, name="driven"),
            Scene(model=other, weight=3.0),
        ],
        variables=["controls", "body.E", "initial.velocity"],
        **parts,
    )


def test_several_scenes_equal_the_sum_of_single_ones():
    problem = three_scenes()
    objective = ProblemObjective(problem)
    z = some_point(objective)
    value, gradient = 0.0, np.zeros(len(z))
    for k, (scene, weight) in enumerate(zip(scenes_of(problem), (1.0, 1.0, 3.0), strict=True)):
        blocks = problem.layout.of_scene(k)
        part = np.concatenate([np.arange(len(z))[block.at] for block in blocks])
        found = ProblemObjective(scene).gradient(z[part])
        value += weight * found.value
        gradient[part] += weight * found.gradient
    found = objective.gradient(z)
    assert found.value == value
    assert objective.value(z).value == value
    np.testing.assert_array_equal(found.gradient, gradient)


def test_samples_of_scenes_add_up_to_the_whole():
    objective = ProblemObjective(three_scenes())
    z = some_point(objective)
    parts = [objective.gradient(z, samples=[k]) for k in range(objective.n_samples)]
    whole = objective.gradient(z)
    assert sum(part.value for part in parts) == whole.value
    np.testing.assert_array_equal(sum(part.gradient for part in parts), whole.gradient)
    assert whole.simulations == 6
    assert parts[0].simulations == 2
    assert objective.gradient(z, samples=[0, 2]).value == parts[0].value + parts[2].value


def test_gradient_of_scenes_passes_taylor_test():
    objective = ProblemObjective(three_scenes())
    z = some_point(objective)
    assert taylor_order(objective, z) == pytest.approx(2.0, abs=0.05)


def test_values_have_names_and_units_of_the_scenes():
    problem = three_scenes()
    values = problem.layout.values(problem.layout.start)
    assert list(values) == [
        "controls[free]",
        "controls[3]",
        "body.E",
        "initial.velocity[free]",
        "initial.velocity[driven]",
        "initial.velocity[3]",
    ]
    assert values["controls[free]"].shape == (4, 2)
    np.testing.assert_allclose(values["body.E"], [4e4])
    np.testing.assert_allclose(
        values["initial.velocity[driven]"],
        problem.model.space.split(problem.scene_problems[1].initial_state).velocity,
    )


def test_shared_initial_state_moves_all_scenes():
    problem = three_scenes()
    scenes = [Scene(name="a"), Scene(name="b", controls=np.ones((4, 2)))]
    shared = Problem(
        model=problem.model,
        steps=4,
        terms=problem.terms,
        scenes=scenes,
        variables=[Variable("initial.velocity", scenes="shared")],
    )
    objective = ProblemObjective(shared)
    assert len(objective.start) == problem.model.space.n_dofs
    assert taylor_order(objective, some_point(objective)) == pytest.approx(2.0, abs=0.05)


# Knots of controls


def with_knots(rule, knots=3, **parts):
    terms = [*terms_of(model_of(rule))[:2]]
    variables = [Variable("controls", knots=knots), "initial.velocity"]
    return Problem(model=model_of(rule), steps=STEPS, terms=terms, variables=variables, **parts)


def test_controls_between_knots_are_interpolated_linearly():
    objective = ProblemObjective(with_knots("point mass", limits=[Limit(lower=-2.0, upper=2.0)]))
    z = some_point(objective, 0.5)
    rows = 2.0 * z[:6].reshape(3, 2)  # half the width of the limits
    at = np.linspace(0.0, 1.0, STEPS)
    expected = [np.interp(at, [0.0, 0.5, 1.0], row) for row in rows.T]
    controls = objective.named_values(z)["controls"]
    np.testing.assert_allclose(controls, np.transpose(expected), atol=1e-14)
    np.testing.assert_array_equal(controls[[0, -1]], rows[[0, -1]])


@pytest.mark.parametrize("rule", ["point mass", "MaterialPoint"])
def test_gradient_by_knots_passes_taylor_test(rule):
    objective = ProblemObjective(with_knots(rule))
    near = 1e-3 if rule == "MaterialPoint" else 5e-2
    z = some_point(objective, near)
    assert taylor_order(objective, z, size=1e-2 * near) == pytest.approx(2.0, abs=0.1)


def test_forward_sensitivities_by_knots_agree_with_the_adjoint():
    objective = ProblemObjective(
        replace(squares("ImplicitEuler", ["controls"]), variables=[Variable("controls", knots=2)])
    )
    z = some_point(objective)
    found, expected = objective.jacobian(z), objective.gradient(z).gradient
    np.testing.assert_allclose(found.jacobian.T @ found.residuals, expected, rtol=1e-9)


def test_start_at_knots_is_that_of_the_controls_there():
    table = np.arange(12.0).reshape(6, 2)
    problem = with_knots("point mass", scenes=[Scene(controls=None)])
    guess = replace(problem, variables=[Variable("controls", knots=3, start=table[[0, 2, 5]])])
    values = guess.layout.values(guess.layout.start)["controls"]
    np.testing.assert_array_equal(values[[0, 5]], table[[0, 5]])


@pytest.mark.parametrize("knots", [1, 7, 2.5])
def test_wrong_number_of_knots_is_an_error(knots):
    with pytest.raises(InputError, match="knots in 6 steps; give 2 or more"):
        _ = with_knots("point mass", knots).layout


def test_knots_of_a_parameter_are_an_error():
    with pytest.raises(InputError, match="only controls have them"):
        Variable("body.E", knots=3)


# Residuals and Jacobians


def squares(rule, variables, **parts):
    """Return a problem of sums of squares."""
    model = model_of(rule)
    dim = model.effector_rows("tip").shape[0]
    start = model.effector_rows("tip") @ model.space.position(model.initial_state())
    terms = [
        Goal(effector="tip", target=start + 0.05),
        Accumulated(Goal(effector="tip", target=np.zeros(dim), weight=0.1), by="sum", weight=2.0),
        *([Effort(weight=0.1, order=2)] if "controls" in variables else []),
    ]
    return Problem(model=model, steps=4, terms=terms, variables=variables, **parts)


@pytest.mark.parametrize("rule", list(VARIABLES))
def test_jacobian_of_residuals_agrees_with_the_adjoint_gradient(rule):
    names = [name for name in VARIABLES[rule] if rule != "MaterialPoint" or name != "initial"]
    objective = ProblemObjective(squares(rule, names))
    z = some_point(objective, 1e-2)
    found, expected = objective.jacobian(z), objective.gradient(z)
    assert found.value == pytest.approx(expected.value, rel=1e-12)
    np.testing.assert_array_equal(found.residuals, objective.residuals(z).residuals)
    exact = rule not in ("MaterialPoint",)
    size = np.abs(expected.gradient).max()
    np.testing.assert_allclose(
        found.jacobian.T @ found.residuals,
        expected.gradient,
        atol=(1e-9 if exact else 1e-5) * size,
    )


def test_jacobian_by_differences_agrees_with_forward_sensitivities():
    model = model_of("SemiImplicit")

    class OnlyReversible:
        """The model without `linearize`."""

        def __getattr__(self, name):
            if name == "linearize":
                raise AttributeError(name)
            return getattr(model, name)

    problem = squares("SemiImplicit", ["body.E", "body.nu", "initial.velocity"])
    objective = ProblemObjective(problem)
    other = ProblemObjective(
        Problem(
            model=OnlyReversible(),
            steps=problem.steps,
            terms=problem.terms,
            variables=problem.variables,
        )
    )
    z = some_point(objective, 1e-2)
    exact, found = objective.jacobian(z).jacobian, other.jacobian(z)
    np.testing.assert_allclose(found.jacobian, exact, atol=1e-6 * np.abs(exact).max())
    assert found.simulations == 1 + len(z)


@pytest.fixture(scope="module", params=["MaterialPoint", "ImplicitEuler"])
def in_processes(request):
    """An objective with three scenes in two processes that start for any amount of work. The model
    has been used before, so it keeps what can be used again."""
    model = model_of(request.param)
    terms = squares(request.param, ["body.E"]).terms
    pl.simulate(model, np.zeros((1, model.n_controls)))
    scenes = [Scene(steps=3, x0=model.initial_state() * s, name=f"{s}") for s in (1.0, 1.01, 1.02)]
    problem = Problem(model=model, terms=terms, scenes=scenes, variables=["body.E", "body.nu"])
    objective = ProblemObjective(problem, workers=2)
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr("pliant.parallel.pool.MIN_WORK_PER_WORKER", 0.0)
        yield objective, ProblemObjective(problem)
    objective.close()


@pytest.mark.parametrize("kind", ["gradient", "value", "residuals", "jacobian"])
def test_scenes_in_processes_give_the_same_bits(in_processes, kind):
    objective, alone = in_processes
    z = objective.start + 1e-3
    objective.gradient(z)  # the first one tests in this process which terms depend on variables
    found, expected = getattr(objective, kind)(z), getattr(alone, kind)(z)
    assert objective._pool._processes
    for name in ("value", "gradient", "residuals", "jacobian", "simulations"):
        np.testing.assert_array_equal(getattr(found, name), getattr(expected, name), err_msg=name)


def test_residuals_of_some_scenes_are_rows_of_those_of_all(in_processes):
    _, objective = in_processes
    z = objective.start + 1e-3
    whole, last = objective.jacobian(z), objective.jacobian(z, [2])
    n = len(last.residuals)
    np.testing.assert_array_equal(last.residuals, whole.residuals[-n:])
    np.testing.assert_array_equal(last.jacobian, whole.jacobian[-n:])
    some = objective.residuals(z, [0, 2])
    np.testing.assert_array_equal(some.residuals[n:], last.residuals)
    assert some.value == pytest.approx(objective.value(z, [0, 2]).value, rel=1e-12)
    assert some.simulations == 2


@pytest.mark.parametrize("in_processes", ["MaterialPoint"], indirect=True)
def test_failing_scene_in_a_process_is_named_as_in_this_one(in_processes):
    objective, alone = in_processes
    objective.gradient(objective.start)
    z = objective.start + 100.0  # E is far beyond what the substeps can follow
    found, expected = objective.value(z), alone.value(z)
    assert found.failed
    assert (found.failed, found.simulations) == (expected.failed, expected.simulations)


def test_workers_of_an_objective_are_refused_in_optimise():
    objective = ProblemObjective(squares("MaterialPoint", ["body.E"]))
    with pytest.raises(InputError, match="Only a Problem takes workers"):
        pl.optimisation.optimise(objective, workers=2)


@pytest.mark.parametrize("inside_loop", [False, True])
def test_differences_in_single_precision_exceed_its_round_off(inside_loop):
    """Steps of single precision have relative errors of about 1e-6, so a step of 1e-6 would give a
    Jacobian without a correct digit."""
    jacobians = []
    for precision in ("float64", "float32"):
        model = replace(model_of("MaterialPoint"), precision=precision)
        if inside_loop:
            seen = PartObserver(parts=("position",))
            controller = MLP.for_model(model, seen, hidden=(3,), scale=2.0, seed=1)
            model = ClosedLoop(model, seen, controller)
        problem = squares("MaterialPoint", ["body.E", "body.nu"])
        made = Problem(model=model, steps=30, terms=problem.terms, variables=["body.E", "body.nu"])
        objective = ProblemObjective(made)
        jacobians.append(objective.jacobian(objective.start).jacobian)
    exact, found = jacobians
    np.testing.assert_allclose(found, exact, atol=1e-2 * np.abs(exact).max())


def test_differences_stay_within_bounds():
    problem = squares("MaterialPoint", ["body.nu"])
    bounded = Problem(
        model=problem.model,
        steps=2,
        terms=problem.terms[:1],
        variables=[Variable("body.nu", upper=0.35)],
    )
    at_bound = ProblemObjective(bounded)
    z = at_bound.start
    assert z[0] == at_bound.bounds[1][0]
    free = ProblemObjective(
        Problem(model=problem.model, steps=2, terms=problem.terms[:1], variables=["body.nu"])
    )
    found, expected = at_bound.jacobian(z).jacobian, free.jacobian(free.start).jacobian
    # both have the scale 0.35
    np.testing.assert_allclose(found, expected, atol=1e-4 * np.abs(expected).max())


def test_residuals_of_a_function_are_refused():
    objective = ProblemObjective(problem_of("point mass", ["controls"]))
    with pytest.raises(InputError, match=r"sums of squares.*lbfgsb"):
        objective.residuals(objective.start)


# Constraints


def constrained(rule, variables, limits=()):
    model = model_of(rule)
    return Problem(
        model=model,
        steps=4,
        terms=[Goal(effector="tip", target=np.full(2, 0.1))],
        variables=variables,
        limits=limits,
        constraints=[
            Constraint(
                effector="tip", inside=Ball(centre=(0.3, 0.1), radius=0.05), time=3 * model.dt
            ),
            Constraint(
                effector="tip",
                function=lambda y: np.array([y[0] * y[1]]),
                inside=Interval(upper=0.0),
                time=2 * model.dt,
            ),
            StateConstraint(
                part="velocity",
                function=lambda v: np.array([v @ v / len(v)]),
                vjp=lambda v, c: 2.0 * c[0] / len(v) * v,
                inside=Interval(lower=0.0, upper=0.0),
                time=4 * model.dt,
            ),
        ],
    )


@pytest.mark.parametrize("rule", ["point mass", "ImplicitEuler", "MaterialPoint"])
@pytest.mark.parametrize("few", [True, False])
def test_constraint_jacobian_passes_taylor_test(rule, few):
    names = ["initial.velocity"] if few else ["controls", "initial.velocity"]
    limits = [] if few else [Limit(lower=-9.0, upper=7.0, order=1)]
    objective = ProblemObjective(constrained(rule, names, limits))
    z = some_point(objective, 1e-3)
    now = objective.constraint_jacobian(z)
    m = 3 if few else 3 + 4 * 2
    lower, upper = objective.constraint_bounds
    assert now.constraints.shape == lower.shape == upper.shape == (m,)
    np.testing.assert_array_equal(lower[:3], [-np.inf, -np.inf, 0.0])
    np.testing.assert_array_equal(upper[:3], [0.05**2, 0.0, 0.0])
    d = np.random.default_rng(5).standard_normal(len(z))
    errors = [
        np.abs(
            objective.constraints(z + e * d).constraints
            - now.constraints
            - e * now.constraint_jacobian @ d
        ).max()
        for e in (1e-4, 5e-5)
    ]
    assert np.log2(errors[0] / errors[1]) == pytest.approx(2.0, abs=0.1)
    np.testing.assert_array_equal(now.constraints, objective.gradient(z).constraints)


@pytest.mark.parametrize("rule", ["point mass", "MaterialPoint"])
def test_sweep_of_the_gradient_gives_the_jacobian_of_the_constraints(rule):
    """Models without forward sensitivities need one sweep for both, the others if it is cheaper."""
    limits = [Limit(lower=-9.0, upper=7.0, order=1)]
    objective = ProblemObjective(constrained(rule, ["controls"], limits))
    z = some_point(objective, 1e-3)
    both, alone = objective.gradient(z), objective.constraint_jacobian(z)
    np.testing.assert_allclose(both.constraint_jacobian, alone.constraint_jacobian, rtol=1e-12)
    assert both.simulations == 2
    assert objective.gradient(z, samples=[0]).constraint_jacobian is None


def test_mean_squared_velocity_of_the_last_state_is_a_constraint():
    objective = ProblemObjective(constrained("point mass", ["controls"]))
    z = objective.start + 1.0
    v = 4 * 0.1 * 1.0  # a unit force on 1 kg for 0.4 s, along both axes
    assert objective.constraints(z).constraints[2] == pytest.approx(v**2)


def test_wrong_vjp_of_a_constraint_is_an_error():
    wrong = StateConstraint(
        part="velocity",
        function=lambda v: np.array([v @ v]),
        vjp=lambda v, c: c[0] * v,
        inside=Interval(upper=0.0),
    )
    with pytest.raises(InputError, match=r"its vjp gives .* correct the vjp"):
        Problem(model=model_of("point mass"), steps=2, constraints=[wrong])


# Accumulators: a point mass thrown at 1 m/s is at 0.1 k after k steps


def flight(by, **options):
    """Return the objective of a mass that flies along x with its initial velocity as variable."""
    goal = Goal(effector="tip", target=(0.25, 0.0))
    return ProblemObjective(
        Problem(
            model=model_of("point mass"),
            steps=4,
            x0=[0.0, 0.0, 1.0, 0.0],
            terms=[Accumulated(goal, by=by, **options)],
            variables=["initial.velocity"],
        )
    )


COSTS = 0.5 * (0.1 * np.arange(1, 5) - 0.25) ** 2
SLOPES = (0.1 * np.arange(1, 5) - 0.25) * 0.1 * np.arange(1, 5)  # by the velocity


@pytest.mark.parametrize(
    ("by", "options", "value", "weights"),
    [
        ("sum", {}, 0.1 * COSTS.sum(), np.full(4, 0.1)),
        ("max", {}, COSTS.max(), [0.0, 1.0, 0.0, 0.0]),
        ("min", {}, COSTS.min(), [0.0, 1.0, 0.0, 0.0]),
        ("product", {}, COSTS.prod(), COSTS.prod() / COSTS),
        (
            "smooth_max",
            {"smoothing": 0.01},
            0.01 * np.log(np.exp(COSTS / 0.01).sum()),
            np.exp(COSTS / 0.01) / np.exp(COSTS / 0.01).sum(),
        ),
    ],
)
def test_accumulator_agrees_with_closed_form(by, options, value, weights):
    objective = flight(by, **options)
    found = objective.gradient(objective.start)
    assert found.value == pytest.approx(value, rel=1e-9)
    if by in ("max", "min"):
        weights = np.eye(4)[int(np.argmax(COSTS) if by == "max" else np.argmin(COSTS))]
    assert found.gradient[0] == pytest.approx(np.dot(weights, SLOPES), rel=1e-6)


def test_product_with_zero_costs_has_the_right_gradient():
    from pliant.problem.accumulators import accumulator_slopes

    np.testing.assert_array_equal(
        accumulator_slopes("product", np.array([2.0, 0.0, 3.0]), None), [0.0, 6.0, 0.0]
    )


def test_accumulated_effort_is_the_largest_control():
    objective = ProblemObjective(
        Problem(
            model=model_of("point mass"), steps=3, terms=[Accumulated(Effort(weight=2.0), by="max")]
        )
    )
    z = np.array([1.0, 0.0, 3.0, 1.0, 0.5, 2.0])  # controls of 1 N scale
    found = objective.gradient(z)
    assert found.value == pytest.approx(10.0)
    np.testing.assert_allclose(found.gradient, [0.0, 0.0, 6.0, 2.0, 0.0, 0.0])


@pytest.mark.parametrize("by", ["sum", "max", "min", "product", "smooth_max"])
def test_accumulated_cost_of_one_step_is_that_cost(by):
    final = FinalCost(
        function=lambda x, u, p: 3.0 + x @ x, gradient=lambda x, u, p: (2.0 * x, None, None)
    )
    term = Accumulated(final, by=by, smoothing=0.1 if by == "smooth_max" else None)
    objective = ProblemObjective(Problem(model=model_of("point mass"), steps=3, terms=[term]))
    assert objective.value(objective.start).value == pytest.approx(3.0)


def test_accumulated_term_of_parameters_alone_is_an_error():
    with pytest.raises(InputError, match="FieldSmoothness has one cost, of the parameters"):
        Accumulated(FieldSmoothness(variable="cells.E"), by="max")


# Smooth fields


FIELDS = {
    "FEM": lambda: pl.ImplicitEuler(beam(), dt=DT, design=["cells.E", "cells.nu"]),
    "MPM": lambda: pl.MaterialPoint(beam(), dt=0.005, cell=0.05, design=["cells.E", "cells.nu"]),
}


def smooth(kind):
    model = FIELDS[kind]()
    start = model.effector_rows("tip") @ model.space.position(model.initial_state())
    return Problem(
        model=model,
        steps=2,
        terms=[
            Goal(effector="tip", target=start + 0.01),
            FieldSmoothness(variable="cells.E", weight=0.3),
            FieldSmoothness(variable="cells.nu", weight=2.0),
        ],
        scenes=[Scene(), Scene(1)],
        variables=["cells.E", "cells.nu"],
    )


@pytest.mark.parametrize("kind", list(FIELDS))
def test_smoothness_counts_log_ratios_of_neighbours_once(kind):
    problem = smooth(kind)
    objective = ProblemObjective(problem)
    rough = ProblemObjective(replace(problem, terms=problem.terms[:1]))
    z = some_point(objective, 0.02)
    values = objective.named_values(z)
    a, b = problem.model.body.rest_neighbours.T
    E, nu = np.log(values["cells.E"]), values["cells.nu"]
    expected = 0.15 * np.sum((E[a] - E[b]) ** 2) + np.sum((nu[a] - nu[b]) ** 2)
    assert objective.value(z).value - rough.value(z).value == pytest.approx(expected)
    assert taylor_order(objective, z) == pytest.approx(2.0, abs=0.05)
    halves = [objective.gradient(z, samples=[k]) for k in range(2)]
    assert sum(half.value for half in halves) == pytest.approx(objective.value(z).value)
    found = objective.jacobian(z)
    np.testing.assert_allclose(
        found.jacobian.T @ found.residuals, objective.gradient(z).gradient, rtol=1e-5, atol=1e-9
    )


def test_neighbours_of_triangles_share_an_edge():
    # 2 x 1 rectangles of 4 triangles each have 8 inner edges and a common one, in whichever way
    mesh = beam().mesh()
    pairs = FIELDS["FEM"]().body.rest_neighbours
    assert len(pairs) == (3 * len(mesh.cells) - len(mesh.boundary())) // 2
    assert all(len(set(mesh.cells[a]) & set(mesh.cells[b])) == 2 for a, b in pairs)


@pytest.mark.parametrize(
    ("variable", "message"),
    [("cells.density", "did you mean|choose one"), ("body.E", "value for each cell")],
)
def test_smoothness_of_no_field_is_an_error(variable, message):
    model = pl.ImplicitEuler(beam(), dt=DT, design=["body.E", "body.nu"])
    with pytest.raises(InputError, match=message):
        Problem(
            model=model,
            steps=2,
            terms=[FieldSmoothness(variable=variable)],
            variables=["body.nu"],
        )


def test_smoothness_of_a_fixed_field_is_an_error():
    problem = smooth("FEM")
    with pytest.raises(
        InputError, match=r"term 2 \(FieldSmoothness of 'cells.E'\) does not depend"
    ):
        ProblemObjective(replace(problem, variables=["cells.nu"]))


# Scaling and bounds


def test_stiffness_has_a_logarithmic_scale():
    objective = ProblemObjective(squares("ImplicitEuler", ["body.E", "body.nu"]))
    assert objective.start[0] == 0.0
    z = objective.start + [np.log(2.0), 0.0]
    assert objective.named_values(z)["body.E"][0] == pytest.approx(8e4)
    lower, upper = objective.bounds
    assert lower[0] == -np.inf
    assert np.isfinite(upper[1])
    # the end of the range of nu is excluded, but the bound can be simulated
    at_end = np.where(np.isfinite(upper), upper, objective.start)
    assert objective.named_values(at_end)["body.nu"][0] < 0.5


def test_limits_of_actuators_bound_the_controls():
    robot = pl.Robot(
        shape=pl.PointMass(points=[[0.0, 0.0]]),
        actuators={"jet": pl.actuators.Thrust(point=(0.0, 0.0), limits=(-4.0, 2.0))},
    )
    problem = Problem(
        model=pl.ImplicitEuler(robot, dt=0.1),
        steps=2,
        terms=[Effort()],
        limits=[Limit(upper=1.0)],
        variables=[Variable("controls", lower=-3.0)],
    )
    lower, upper = problem.layout.bounds
    low, high = (problem.layout.values(z)["controls"] for z in (lower, upper))
    assert np.all(low == -3.0)
    assert np.all(high == 1.0)


# Failures and wrong input


def test_failed_simulation_is_a_value():
    problem = squares("MaterialPoint", ["initial.velocity"])
    objective = ProblemObjective(problem)
    z = objective.start + 1e9
    for found in (objective.value(z), objective.gradient(z), objective.jacobian(z)):
        assert found.value == np.inf
        assert found.failed


def test_failed_scene_is_named():
    problem = squares("ImplicitEuler", ["initial.position"])
    many = Problem(
        model=problem.model,
        steps=2,
        terms=problem.terms,
        scenes=[Scene(name="calm"), Scene(name="torn")],
        variables=["initial.position"],
    )
    z = many.layout.start.copy()
    z[len(z) // 2 :] += 1e6 * np.random.default_rng(0).standard_normal(len(z) // 2)
    assert ProblemObjective(many).value(z).failed.startswith("scene torn: ")


def test_term_without_variable_is_an_error():
    model = model_of("point mass")
    goal = StateGoal(part="position", target=(0.1, 0.0))
    with pytest.raises(InputError, match=r"term 2 \(Effort\) does not depend on any variable"):
        ProblemObjective(
            Problem(model=model, steps=2, terms=[goal, Effort()], variables=["initial.velocity"])
        )
    fixed = FinalCost(
        function=lambda x, u, p: float(u @ u + 1.0),
        gradient=lambda x, u, p: (None, 2.0 * u, None),
        name="power",
    )
    objective = ProblemObjective(
        Problem(
            model=model,
            steps=2,
            terms=[goal, fixed],
            controls=np.ones((2, 2)),
            variables=["initial.velocity"],
        )
    )
    with pytest.raises(InputError, match=r"term 2 \(FinalCost of 'power'\) does not depend"):
        objective.gradient(objective.start)


def test_goal_that_is_reached_depends_on_the_variables():
    goal = StateGoal(part="position", target=(0.0, 0.0))
    problem = Problem(
        model=model_of("point mass"), steps=2, terms=[goal], variables=["initial.velocity"]
    )
    objective = ProblemObjective(problem)
    assert not objective.gradient(objective.start).gradient.any()


BAD = {
    "unknown": ({"variables": ["body.F"]}, "no variable 'body.F'"),
    "none": ({"variables": []}, "no variables"),
    "twice": ({"variables": ["initial", "initial.velocity"]}, "given twice"),
    "part": ({"variables": ["initial.speed"]}, "the state has the parts"),
    "kind": ({"variables": [3]}, "variables"),
    "fixed and free": ({"controls": np.zeros((2, 2))}, "fixed and a variable"),
    "shape": (
        {"controls": np.zeros((3, 2)), "variables": ["initial"]},
        r"shape \(3, 2\).*\(2, 2\)",
    ),
    "empty bounds": (
        {"variables": [Variable("initial.velocity", lower=1.0, upper=-1.0)]},
        "leaves no value",
    ),
    "start": (
        {"variables": [Variable("initial.velocity", lower=1.0, start=0.0)]},
        "starts at 0, outside",
    ),
    "scale": ({"variables": [Variable("initial.velocity", scale=0.0)]}, "positive"),
    "scale name": ({"variables": [Variable("initial.velocity", scale="big")]}, "'big'"),
    "nan": ({"variables": [Variable("initial.velocity", lower=np.nan)]}, "finite"),
    "many": ({"variables": [Variable("controls", start=np.ones(3))]}, r"shape \(2, 2\)"),
    "same name": ({"scenes": [Scene(name="a"), Scene(name="a")]}, "same name"),
    "scene kind": ({"scenes": [3]}, "scenes"),
    "scene controls": (
        {"scenes": [Scene(name="a", controls=[[1.0]])], "variables": ["initial"]},
        "In scene a: The fixed controls",
    ),
    "all fixed": ({"scenes": [Scene(controls=np.zeros((2, 2)))]}, "scene 1"),
}


@pytest.mark.parametrize("case", list(BAD))
def test_wrong_problem_is_an_error(case):
    parts, message = BAD[case]
    goal = StateGoal(part="position", target=(0.1, 0.0))
    with pytest.raises(InputError, match=message):
        Problem(model=model_of("point mass"), steps=2, terms=[goal], **parts)


@pytest.mark.parametrize(
    ("name", "bound", "message"),
    [
        ("body.nu", {"upper": 0.6}, "upper bound .* is 0.6, but the model allows -1 to 0.5"),
        ("body.E", {"lower": -1.0}, "lower bound .* is -1, but the model allows 0 to "),
        ("controls", {"lower": -3.0}, "lower bound .* is -3, but the model allows -2 to 2"),
    ],
)
def test_bound_outside_the_range_of_the_model_is_an_error(name, bound, message):
    limited = {"hand": pl.actuators.Thrust(point=(0.2, 0.05), limits=(-2.0, 2.0))}
    model = pl.Quasistatic(replace(beam(), actuators=limited), design=["body.E", "body.nu"])
    goal = Goal(effector="tip", target=(0.2, 0.0))
    with pytest.raises(InputError, match=message):
        Problem(model=model, steps=1, terms=[goal], variables=[Variable(name, **bound)])


def test_bounds_at_the_ends_of_the_range_are_accepted():
    model = pl.Quasistatic(beam(), design=["body.nu"])
    whole = Variable("body.nu", lower=-1.0, upper=0.5)
    goal = Goal(effector="tip", target=(0.2, 0.0))
    found = Problem(model=model, steps=1, terms=[goal], variables=[whole]).layout.blocks[0]
    assert -1.0 < found.lower < -0.999
    assert 0.499 < found.upper < 0.5


def test_scene_with_other_parameters_is_an_error():
    other = pl.ImplicitEuler(beam(), dt=DT, design=["body.E"])
    with pytest.raises(InputError, match=r"scene 1 has the parameters body\.E"):
        Problem(
            model=model_of("ImplicitEuler"),
            steps=2,
            terms=[Goal(effector="tip", target=(0.0, 0.0))],
            scenes=[Scene(model=other)],
        )


def test_wrong_gradient_of_a_function_is_an_error():
    wrong = FinalCost(
        function=lambda x, u, p: x @ x + x[0], gradient=lambda x, u, p: (x, None, None)
    )
    with pytest.raises(InputError, match=r"gradient by x gives .* correct the gradient"):
        Problem(model=model_of("point mass"), steps=2, terms=[wrong])


@pytest.mark.parametrize(
    ("options", "message"),
    [
        ({"by": "mean"}, "no accumulator 'mean'"),
        ({"by": "smooth_max"}, "smoothing"),
        ({"by": "max", "smoothing": 1.0}, "smoothing"),
    ],
)
def test_wrong_accumulator_is_an_error(options, message):
    with pytest.raises(InputError, match=message):
        Accumulated(Effort(), **options)


@pytest.mark.parametrize("method", ["gauss_newton", "newton", "ddp", "collocation", "gradient"])
def test_planners_name_optimise_for_other_problems(method):
    with pytest.raises(InputError, match="optimise"):
        pl.plan(squares("ImplicitEuler", ["controls", "body.E"]), method=method)
    planner = getattr(pl.planners, method)
    with pytest.raises(InputError, match="optimise"):
        planner(three_scenes())
