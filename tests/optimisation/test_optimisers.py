"""One contract for all optimisation methods."""

import json
from dataclasses import replace

import numpy as np
import pytest
from scipy.optimize import lsq_linear

from pliant.core import InputError
from pliant.optimisation import (
    CMAES,
    LBFGSB,
    SGD,
    Adam,
    CosineRate,
    FunctionObjective,
    GaussNewton,
    ObjectiveEvaluation,
    OptimisationResult,
    optimise,
)
from pliant.optimisation.driver import METHODS
from pliant.optimisation.evaluator import Evaluator
from pliant.optimisation.methods import Stopping
from pliant.optimisation.rejected_trials import RejectedTrial

ALL = sorted(METHODS)
A = np.array([[3.0, 1.0, 0.0], [1.0, 2.0, 0.5], [0.0, 0.5, 1.0]])
ROOT = np.linalg.cholesky(A).T  # A = ROOT^T ROOT
CENTRE = np.array([1.0, -2.0, 0.5])
ENOUGH = {"adam": 1500, "sgd": 1500, "cmaes": 400}  # iterations; the others need less than 100


class Residuals:
    """1/2 |r(z)|^2 for residuals with a Jacobian, which fails where `fails` says so."""

    n_samples = 1

    def __init__(self, r, J, start, lower=-np.inf, upper=np.inf, fails=lambda z: False, cost=2.0):
        self.r, self.J, self.fails, self.cost = r, J, fails, cost
        self.start = np.array(start, float)
        self.bounds = tuple(
            np.broadcast_to(np.array(b, float), self.start.shape) for b in (lower, upper)
        )
        self.calls = 0

    def residuals(self, z, samples=None):
        self.calls += 1
        if self.fails(z):
            return ObjectiveEvaluation(failed="the robot broke", simulations=1.0)
        r = self.r(z)
        return ObjectiveEvaluation(value=0.5 * r @ r, residuals=r, simulations=1.0)

    def jacobian(self, z, samples=None):
        found = self.residuals(z)
        if found.failed:
            return found
        J = self.J(z)
        return replace(found, jacobian=J, gradient=J.T @ found.residuals, simulations=self.cost)

    value, gradient = residuals, jacobian


def bowl(**options):
    """1/2 (z - CENTRE) A (z - CENTRE)."""
    options = {"start": np.zeros(3), **options}
    return Residuals(lambda z: ROOT @ (z - CENTRE), lambda z: ROOT, **options)


def rosenbrock(**options):
    return Residuals(
        lambda z: np.sqrt(2.0) * np.array([10.0 * (z[1] - z[0] ** 2), 1.0 - z[0]]),
        lambda z: np.sqrt(2.0) * np.array([[-20.0 * z[0], 10.0], [-1.0, 0.0]]),
        **{"start": [-1.2, 1.0], **options},
    )


def run(objective, method, **options):
    name = method if isinstance(method, str) else method.name
    options = {"iterations": ENOUGH.get(name, 200), "progress": False, **options}
    return optimise(objective, method, **options)


@pytest.mark.parametrize("method", ALL)
def test_quadratic_minimum_is_found(method):
    result = run(bowl(), method)
    assert result.status.ok, result.status.text
    np.testing.assert_allclose(result.z, CENTRE, atol=1e-3 if method == "sgd" else 1e-4)
    assert result.history[0].value == pytest.approx(0.5 * CENTRE @ A @ CENTRE)
    assert result.value == min(row.value for row in result.history)


DIFFERENCES = 10.0  # simulations of a Jacobian by differences


@pytest.mark.parametrize("make", [bowl, rosenbrock])
def test_secant_updates_save_most_jacobians(make):
    """The minimum is the same, and the gradient there is exact."""
    exact = run(make(cost=2.0), "gauss_newton", tolerance=1e-12)
    secants = run(make(cost=DIFFERENCES), "gauss_newton", tolerance=1e-12)
    assert secants.status.ok, secants.status.text
    np.testing.assert_allclose(secants.z, exact.z, atol=1e-6)
    assert secants.history[-1].gradient_norm < 1e-5
    jacobians = 1 + exact.status.iterations  # of the same method without secant updates
    assert secants.simulations < 0.7 * (DIFFERENCES + 1.0) * jacobians


def test_one_variable_takes_one_simulation_in_an_iteration():
    """The secant method, until the Jacobian is evaluated once more at the end."""
    objective = Residuals(lambda z: np.exp(z) - 1.5, lambda z: np.diag(np.exp(z)), [0.0], cost=1.0)
    result = run(objective, "gauss_newton", tolerance=1e-12)
    assert result.z[0] == pytest.approx(np.log(1.5), abs=1e-9)
    counts = [row.simulations for row in result.history]
    assert counts[0] == 2.0
    assert np.diff(counts[:-1]).tolist() == [1.0] * (len(counts) - 2)


def parabola(z):
    return np.array([z[0] + 3.0 * z[0] ** 2 - 1.0, 0.1 * z[0] + 2.0 * z[0] ** 2])


def test_damping_after_a_rejected_trial_gives_the_lowest_value_of_quadratic_residuals():
    """With one variable the model is exact, so no damping has a lower value."""
    z, r, J = 0.05, parabola([0.05]), np.array([[1.3], [0.3]])

    def step(damping):
        return -(J.T @ r) / (float((J**2).sum()) * (1.0 + damping))

    def value(damping):
        return float(np.sum(parabola(z + step(damping)) ** 2))

    far = step(1e-6)
    assert value(1e-6) > r @ r
    trial = RejectedTrial(step=far, residuals=parabola(z + far))
    found = trial.next_damping(r, J, np.ones(1), 1e-6, step)
    assert value(found) < r @ r
    assert value(found) == min(value(1e-6 * 2.0**k) for k in range(60))


def test_a_rejected_trial_of_secant_updates_is_followed_by_a_shorter_one():
    """A step that is too long by a factor of a thousand is repeated once, not ten times."""
    tried = []

    def residuals(z):
        tried.append(float(z[0]))
        return np.array([z[0] + 500.0 * z[0] ** 2 - 1.0, 0.0])

    curve = Residuals(
        residuals, lambda z: np.array([[1.0 + 1000.0 * z[0]], [0.0]]), [0.0], cost=DIFFERENCES
    )
    result = run(curve, "gauss_newton", iterations=1, tolerance=1e-12)
    assert result.value < 0.5
    assert tried[2] == pytest.approx(1.0, rel=1e-2)
    assert len(tried) == 4  # the start, its Jacobian, and two trials


def test_secant_update_at_a_bound_does_not_end_the_optimisation():
    """The first step ends at the bound, where the residual has become smaller but rises again: the
    secant says that it still falls."""
    curve = Residuals(
        lambda z: 1.0 - z + 0.6 * z**8,
        lambda z: np.diag(-1.0 + 4.8 * z**7),
        [0.0],
        upper=0.9,
        cost=DIFFERENCES,
    )
    result = run(curve, "gauss_newton", tolerance=1e-12)
    assert result.z[0] == pytest.approx(4.8 ** (-1.0 / 7.0), abs=1e-5)


def test_secant_update_reproduces_the_change_of_the_residuals():
    """A linear function has one Jacobian: after steps along many directions Broyden's updates have
    found it, whatever they started from."""
    wrong = Residuals(lambda z: ROOT @ (z - CENTRE), lambda z: np.eye(3), np.zeros(3), cost=9.0)
    method = GaussNewton()
    run_ = method.optimiser(
        Evaluator(objective=wrong, start=wrong.start), Stopping(tolerance=1e-12), 0
    )
    run_.first()
    rng = np.random.default_rng(0)
    for _ in range(60):
        z = run_.z + rng.standard_normal(3)
        updated = run_._secant(z, wrong.residuals(z))
        step = z - run_.z
        np.testing.assert_allclose(updated.jacobian @ step, ROOT @ step, atol=1e-12)
        run_._accept(z, updated)
        run_._keep(updated)
    np.testing.assert_allclose(run_.jacobian, ROOT, atol=1e-6)


@pytest.mark.parametrize("make", [bowl, rosenbrock])
def test_resumed_secant_updates_equal_one_run_bit_for_bit(make, tmp_path):
    options = {"tolerance": 1e-12}
    whole = run(make(cost=DIFFERENCES), "gauss_newton", iterations=6, **options)
    assert whole.state.values["age"] > 0.0 or whole.last.finished
    run(make(cost=DIFFERENCES), "gauss_newton", iterations=3, folder=tmp_path, **options)
    resumed = run(
        make(cost=DIFFERENCES),
        "gauss_newton",
        iterations=6,
        folder=tmp_path,
        resume=True,
        **options,
    )
    same(whole, resumed)


def test_lbfgsb_takes_longer_steps_where_the_curvature_is_negative():
    """Down a hill to a bound: steps of 0.1, 0.2, 0.4, ... reach 100 in 10 steps."""
    hill = FunctionObjective(
        function=lambda z: -(z[0] ** 2),
        gradient_function=lambda z: -2.0 * z,
        start=[1.0],
        upper=100.0,
    )
    result = run(hill, "lbfgsb", iterations=15)
    assert result.status.ok
    assert result.z[0] == 100.0


@pytest.mark.parametrize("method", sorted(set(ALL) - {"sgd"}))  # it needs 1e5 iterations
def test_rosenbrock_minimum_is_found(method):
    result = run(rosenbrock(), method)
    np.testing.assert_allclose(result.z, 1.0, atol=2e-3)
    assert result.status.ok, result.status.text


@pytest.mark.parametrize("method", ALL)
def test_bounded_minimum_satisfies_the_optimality_conditions(method):
    """The gradient is zero for free variables, and points out of the box at active bounds."""
    objective = bowl(lower=[-np.inf, -1.0, -np.inf], upper=[0.6, np.inf, np.inf], start=[0, 0, 0.1])
    result = run(objective, method)
    free_value = CENTRE[2] - 0.5 * (-1.0 - CENTRE[1])  # row 2 of A (z - CENTRE) = 0
    np.testing.assert_allclose(result.z, [0.6, -1.0, free_value], atol=2e-3)
    assert np.all(result.z <= [0.6, np.inf, np.inf])
    assert np.all(result.z >= [-np.inf, -1.0, -np.inf])


@pytest.mark.parametrize("method", ALL)
def test_minimum_beside_a_failing_region_is_found(method):
    """Simulations fail for z[0] > 1.05; the minimum is at 1."""
    result = run(bowl(fails=lambda z: z[0] > 1.05), method)
    np.testing.assert_allclose(result.z, CENTRE, atol=1e-3 if method != "sgd" else 1e-2)


@pytest.mark.parametrize("method", ALL)
@pytest.mark.parametrize("bad", ["nan", "fails"])
def test_objective_that_fails_at_the_start_has_a_clear_status(method, bad):
    objective = (
        bowl(fails=lambda z: True)
        if bad == "fails"
        else Residuals(lambda z: np.full(3, np.nan), lambda z: ROOT, start=np.zeros(3))
    )
    result = run(objective, method)
    assert not result.status.ok
    assert "cannot be evaluated at the start" in result.status.text
    assert ("the robot broke" in result.status.text) == (bad == "fails")
    assert "nan" not in repr(result)


@pytest.mark.parametrize("method", ALL)
@pytest.mark.parametrize("make", [bowl, rosenbrock])
def test_resumed_optimisation_equals_one_run_bit_for_bit(method, make, tmp_path):
    options = {"seed": 3, "tolerance": 1e-12}
    whole = run(make(), method, iterations=6, **options)
    run(make(), method, iterations=3, folder=tmp_path, **options)
    resumed = run(make(), method, iterations=6, folder=tmp_path, resume=True, **options)
    same(whole, resumed)
    same(whole, OptimisationResult.load(tmp_path))


def same(a, b):
    np.testing.assert_array_equal(a.z, b.z)
    assert [row.value for row in a.history] == [row.value for row in b.history]
    np.testing.assert_array_equal(
        [(row.gradient_norm, row.step, row.simulations) for row in a.history],
        [(row.gradient_norm, row.step, row.simulations) for row in b.history],
    )
    assert a.state.values == b.state.values
    for name, array in a.state.arrays.items():
        np.testing.assert_array_equal(array, b.state.arrays[name], err_msg=name)
    assert a.status == b.status


@pytest.mark.parametrize("method", ALL)
def test_interrupt_returns_the_best_and_can_be_resumed(method, tmp_path):
    whole = run(rosenbrock(), method, iterations=5)

    def stop(what, done, total):
        if done == 3:
            raise KeyboardInterrupt

    result = optimise(rosenbrock(), method, iterations=5, progress=stop, folder=tmp_path)
    assert result.interrupted
    assert not result.status.ok
    assert "interrupted" in result.status.text
    assert result.value == min(row.value for row in result.history)
    assert len(result.history) == 4
    same(whole, run(rosenbrock(), method, iterations=5, folder=tmp_path, resume=True))


@pytest.mark.parametrize("method", ALL)
def test_interrupt_inside_a_simulation_returns_the_best(method):
    objective = rosenbrock()

    def fails(z):
        if objective.calls > 12:
            raise KeyboardInterrupt
        return False

    objective.fails = fails
    result = run(objective, method, iterations=50)
    assert result.interrupted
    assert result.value <= result.history[0].value


@pytest.mark.parametrize("method", ALL)
def test_error_of_the_user_function_is_raised(method):
    objective = rosenbrock()

    def fails(z):
        if objective.calls > 5:
            raise ZeroDivisionError("mine")
        return False

    objective.fails = fails
    with pytest.raises(ZeroDivisionError, match="mine"):
        run(objective, method, iterations=50)


def test_progress_shows_value_and_gradient():
    lines = []
    optimise(rosenbrock(), "lbfgsb", iterations=3, progress=lambda *line: lines.append(line))
    assert [line[1:] for line in lines] == [(0, 3), (1, 3), (2, 3)]
    assert "value 24.2" in lines[0][0]
    assert "gradient" in lines[0][0]


# Samples


def sampled(n=8, seed=5):
    """1/2 sum of (z - c_k)^2, whose minimum is the mean of c."""
    c = np.random.default_rng(seed).normal(size=(n, 2))
    return c, FunctionObjective(
        function=lambda z, k: 0.5 * float(np.sum((z - c[list(k)]) ** 2)),
        gradient_function=lambda z, k: np.sum(z - c[list(k)], axis=0),
        start=np.array([3.0, -3.0]),
        samples=n,
    )


@pytest.mark.parametrize("patience", [1, 2])
def test_adam_starts_again_from_the_best_after_its_patience(patience):
    seen = []

    class Valley(Residuals):
        def gradient(self, z, samples=None):
            seen.append(float(z[0]))
            return self.jacobian(z)

    valley = Valley(lambda z: z, lambda z: np.eye(1), start=[0.2])
    run(valley, Adam(rate=1.0, patience=patience), iterations=3)
    at = 1 + patience  # the first point after a new start, with half the rate
    assert seen[1] == pytest.approx(0.2 - 1.0)
    assert seen[at] == pytest.approx(0.2 - 0.5)
    assert all(abs(z) > 0.2 for z in seen[1:at])


@pytest.mark.parametrize("kind", [Adam, SGD])
def test_batches_converge_to_the_mean_and_use_every_sample_once(kind):
    c, objective = sampled()
    seen = []

    def gradient(z, samples):
        seen.extend(samples)
        return np.sum(z - c[list(samples)], axis=0)

    counted = replace(objective, gradient_function=gradient)
    method = kind(batch_size=3, schedule=CosineRate(iterations=150, last=1e-3))
    result = run(counted, method, iterations=150)
    np.testing.assert_allclose(result.z, c.mean(axis=0), atol=0.02)
    epochs = [sorted(seen[8 * k : 8 * k + 8]) for k in range(3)]
    assert epochs == 3 * [list(range(8))]
    assert seen[:8] != seen[8:16]


def test_seed_decides_the_order_of_samples():
    _, objective = sampled()
    first, again, other = (
        run(objective, Adam(batch_size=2), iterations=3, seed=seed).z for seed in (1, 1, 2)
    )
    np.testing.assert_array_equal(first, again)
    assert not np.array_equal(first, other)


@pytest.mark.parametrize("kind", [Adam, SGD])
def test_batches_resume_bit_for_bit(kind, tmp_path):
    _, objective = sampled()
    method = kind(batch_size=3)
    whole = run(objective, method, iterations=5)
    run(objective, method, iterations=2, folder=tmp_path)
    same(whole, run(objective, method, iterations=5, folder=tmp_path, resume=True))


@pytest.mark.parametrize("kind", [Adam, SGD])
def test_step_of_a_batch_into_failure_is_taken_back(kind):
    c, objective = sampled()

    def function(z, k):
        return np.nan if z[0] < c[:, 0].mean() - 0.2 else objective.function(z, k)

    method = kind(batch_size=2, schedule=CosineRate(iterations=100))
    result = run(replace(objective, function=function), method, iterations=100)
    np.testing.assert_allclose(result.z, c.mean(axis=0), atol=0.1)


def test_steps_of_sgd_stay_in_proportion_to_the_gradient_after_a_failure():
    """Close to the minimum beside a failing region, one step fails; the next one is half of it."""
    valley = FunctionObjective(
        function=lambda z: np.nan if z[0] > 0.9 else 0.5 * (z[0] - 1.0) ** 2,
        gradient_function=lambda z: z - 1.0,
        start=[0.0],
    )
    result = run(valley, SGD(rate=0.3, momentum=0.0), iterations=30)
    rows = result.history
    failed = next(k for k, row in enumerate(rows) if row.failed)
    left = 1.0 - (1.0 - 0.3) ** (failed - 1)  # where the steps in proportion have led
    assert not rows[failed + 1].failed
    assert rows[failed + 1].step == pytest.approx(0.5 * 0.3 * (1.0 - left))


# Least squares


def test_gauss_newton_solves_linear_least_squares_at_once():
    rng = np.random.default_rng(0)
    J, b = rng.normal(size=(20, 4)), rng.normal(size=20)
    objective = Residuals(lambda z: J @ z - b, lambda z: J, start=np.zeros(4))
    result = run(objective, GaussNewton(damping=1e-12))
    np.testing.assert_allclose(result.z, np.linalg.lstsq(J, b, rcond=None)[0], rtol=1e-9)
    assert result.history[1].value == pytest.approx(result.value, rel=1e-9)
    assert result.notes["rank"] == 4


def test_gauss_newton_finds_the_minimum_at_bounds_of_correlated_variables():
    """The unbounded step leaves the bounds of all variables, and two of them must come back."""
    R = np.array([[307.0, -334.0, 42.0], [0.0, 245.0, 1.2], [0.0, 0.0, 5.4]])
    right = np.array([-55.4, 24.8, 40.9])
    lower, upper = np.array([-0.92, -0.92, -1.25]), np.array([0.92, 0.92, 0.75])
    objective = Residuals(
        lambda z: R @ z + right, lambda z: R, start=np.zeros(3), lower=lower, upper=upper
    )
    result = run(objective, "gauss_newton")
    exact = lsq_linear(R, -right, (lower, upper), method="bvls", tol=1e-14)
    assert result.status.ok
    assert result.value == pytest.approx(exact.cost, rel=1e-9)
    np.testing.assert_allclose(result.z, exact.x, atol=1e-6)


def test_gauss_newton_names_directions_that_the_residuals_do_not_determine():
    J = np.array([[1.0, 1.0, 0.0], [2.0, 2.0, 0.0]])
    objective = Residuals(lambda z: J @ z - 1.0, lambda z: J, start=np.zeros(3))
    result = run(objective, "gauss_newton")
    assert result.notes["rank"] == 1
    assert "do not determine 2 directions" in result.status.text
    assert result.z[2] == 0.0


def test_gauss_newton_needs_residuals(raises_clear_error):
    objective = FunctionObjective(function=lambda z: z @ z, start=[1.0])
    raises_clear_error(lambda: run(objective, "gauss_newton"), "residuals and jacobian")


# Files and input


def test_result_is_saved_and_reported(tmp_path):
    result = run(rosenbrock(), "lbfgsb")
    page = result.report(tmp_path / "report")
    assert "Convergence" in page.read_text()
    content = json.loads((tmp_path / "report" / "result.json").read_text())
    assert content["status"] == "done"
    assert content["metrics"]["value"]["value"] == result.value
    same(result, OptimisationResult.load(tmp_path / "report"))
    assert "<table" in result._repr_html_()
    failed = run(bowl(fails=lambda z: True), "lbfgsb")
    failed.report(tmp_path / "failed")


def test_folder_of_another_optimisation_is_refused(tmp_path, raises_clear_error):
    run(bowl(), "lbfgsb", iterations=2, folder=tmp_path)
    resume = {"folder": tmp_path, "resume": True}
    raises_clear_error(lambda: run(bowl(), "lbfgsb", folder=tmp_path), "would be overwritten")
    raises_clear_error(lambda: run(bowl(), "adam", **resume), "differs in method")
    raises_clear_error(
        lambda: run(bowl(), LBFGSB(first_step=1.0), **resume), "differs in first_step"
    )
    raises_clear_error(lambda: run(bowl(), seed=1, method="lbfgsb", **resume), "differs in seed")
    raises_clear_error(lambda: run(bowl(lower=-9.0), "lbfgsb", **resume), "differs in bounds")
    raises_clear_error(lambda: run(bowl(), "lbfgsb", resume=True), "resumed from a folder")
    raises_clear_error(
        lambda: run(bowl(), "lbfgsb", folder=tmp_path / "none", resume=True), "to resume"
    )


@pytest.mark.parametrize(
    ("change", "text"),
    [
        (lambda content: content.pop("history"), "it has no 'history'"),
        (lambda content: content.update(history=[]), "its history is empty"),
        (lambda content: content.update(history=[3]), "wrong type"),
        (lambda content: content.update(identity=[]), "identity"),
        (lambda content: content["best"].pop("value"), "it has no 'value'"),
        (lambda content: content["state"].update(value="text"), "'value'"),
        (lambda content: content.update(format="other"), "is no optimisation"),
    ],
)
def test_damaged_files_are_refused(change, text, tmp_path, raises_clear_error):
    run(rosenbrock(), "lbfgsb", iterations=2, folder=tmp_path)
    file = tmp_path / "optimisation.json"
    content = json.loads(file.read_text())
    change(content)
    file.write_text(json.dumps(content))
    raises_clear_error(
        lambda: run(rosenbrock(), "lbfgsb", folder=tmp_path, resume=True, iterations=5), text
    )


@pytest.mark.parametrize(
    ("make", "text"),
    [
        (lambda: optimise(3), "The objective is '3'"),
        (lambda: optimise(bowl(), "adma"), "did you mean 'adam'"),
        (lambda: optimise(bowl(), 3), "The method of optimisation"),
        (lambda: optimise(bowl(), iterations=0), "number of iterations"),
        (lambda: optimise(bowl(), tolerance=0.0), "tolerance"),
        (lambda: optimise(bowl(), seed=-1), "seed"),
        (lambda: optimise(bowl(), start=[1.0]), "The start has shape"),
        (lambda: optimise(bowl(), start=[np.nan, 0.0, 0.0]), "must be finite"),
        (lambda: optimise(bowl(upper=1.0), start=[2.0, 0.0, 0.0]), "outside its bounds"),
        (lambda: optimise(bowl(), folder=3), "The folder"),
        (lambda: optimise(bowl(), progress="yes"), "progress"),
        (lambda: Adam(rate=0.0), "The rate of Adam"),
        (lambda: Adam(batch_size=0), "batch size"),
        (lambda: run(bowl(), SGD(batch_size=2)), "batch size is 2.* has 1 sample; give a smaller"),
        (lambda: run(bowl(), Adam(batch_size=9)), "batch size is 9"),
        (lambda: Adam(schedule=3), "schedule"),
        (lambda: Adam(patience=0), "The patience of Adam is '0'"),
        (lambda: SGD(patience=1.5), "The patience of SGD is '1.5'"),
        (lambda: SGD(momentum=1.0), "momentum"),
        (lambda: SGD(clip=-1.0), "clip"),
        (lambda: LBFGSB(first_step=np.inf), "first step"),
        (lambda: GaussNewton(damping=-1.0), "damping"),
        (
            lambda: FunctionObjective(function=len, start=[]) and optimise(bowl(start=[])),
            "no variables",
        ),
        (lambda: FunctionObjective(function=len, start=[1.0], lower=2.0), "outside its bounds"),
        (lambda: FunctionObjective(function=len, start=[1.0], lower=2, upper=1), "swap"),
        (lambda: FunctionObjective(function=len, start=[1.0], lower=[1, 2]), "lower bound"),
        (lambda: FunctionObjective(function=len, start=[1.0], upper=np.nan), "NaN"),
        (lambda: optimise(FunctionObjective(function=sum, start=[1.0])), "has no gradient"),
    ],
)
def test_wrong_input_is_a_clear_error(make, text, raises_clear_error):
    raises_clear_error(make, text)


def test_gradient_of_wrong_shape_is_a_clear_error(raises_clear_error):
    objective = FunctionObjective(
        function=lambda z: float(z @ z), gradient_function=lambda z: z[:1], start=[1.0, 2.0]
    )
    raises_clear_error(lambda: run(objective, "lbfgsb"), "the gradient of shape .1,.")


def test_input_error_is_a_pliant_error():
    with pytest.raises(InputError):
        optimise(None)


# CMA-ES


class Batch:
    """A bowl that is evaluated by populations."""

    start, n_samples = np.array([2.0, 2.0]), 1
    bounds = (np.full(2, -5.0), np.full(2, 5.0))

    def __init__(self):
        self.populations = []

    def value(self, z, samples=None):
        return ObjectiveEvaluation(value=float(z @ z), simulations=1.0)

    gradient = value

    def values(self, z):
        self.populations.append(len(z))
        return [self.value(row) for row in z]


def test_population_is_evaluated_together():
    objective = Batch()
    result = run(objective, CMAES(population=9), iterations=4)
    assert objective.populations == [9, 9, 9, 9]
    assert result.simulations == 1 + 4 * 9


def test_wrong_number_of_values_is_a_clear_error(raises_clear_error):
    objective = Batch()
    objective.values = lambda z: [objective.value(z[0])]
    raises_clear_error(lambda: run(objective, "cmaes"), "1 values for 6 variables")


def test_seed_decides_the_population():
    first, again, other = (run(rosenbrock(), "cmaes", iterations=3, seed=k).z for k in (1, 1, 2))
    np.testing.assert_array_equal(first, again)
    assert not np.array_equal(first, other)


def test_cmaes_learns_the_covariance_of_an_ill_conditioned_bowl():
    """The covariance becomes proportional to the inverse of the Hessian [Hansen 2016]."""
    H = np.diag([1.0, 1e4])
    objective = FunctionObjective(function=lambda z: 0.5 * z @ H @ z, start=[1.0, 1.0])
    result = run(objective, "cmaes", iterations=300)
    assert result.value < 1e-9
    ratio = result.state.arrays["covariance"][0, 0] / result.state.arrays["covariance"][1, 1]
    assert 1e3 < ratio < 1e5


def test_population_that_fails_as_a_whole_shrinks():
    objective = bowl(fails=lambda z: np.abs(z).max() > 1e-2)
    result = run(objective, CMAES(deviation=1e3), iterations=60)
    assert result.value < result.history[0].value
    assert result.history[1].failed == "the robot broke"


# Counts of simulations


@pytest.mark.parametrize("method", ALL)
def test_simulations_are_those_that_the_objective_reports(method):
    objective = bowl()
    spent = []

    def fails(z):
        spent.append(1)
        return False

    objective.fails = fails
    result = run(objective, method, iterations=3)
    assert len(spent) <= result.simulations <= 2 * len(spent)
    assert np.all(np.diff([row.simulations for row in result.history]) >= 0.0)


def test_resumed_interior_point_simulates_nothing_twice(tmp_path):
    whole = run(rosenbrock(), "interior_point", iterations=8)
    run(rosenbrock(), "interior_point", iterations=5, folder=tmp_path)
    objective = rosenbrock()
    resumed = run(objective, "interior_point", iterations=8, folder=tmp_path, resume=True)
    assert resumed.simulations == whole.simulations
    saved = [row.simulations for row in whole.history]
    assert objective.calls <= saved[8] - saved[5]


def test_damaged_evaluations_of_interior_point_are_refused(tmp_path, raises_clear_error):
    run(rosenbrock(), "interior_point", iterations=2, folder=tmp_path)
    result = OptimisationResult.load(tmp_path)
    arrays = dict(result.state.arrays)
    arrays["gradient"] = arrays["gradient"][:1]
    replace(result, state=replace(result.state, arrays=arrays)).save(tmp_path)
    raises_clear_error(
        lambda: run(rosenbrock(), "interior_point", folder=tmp_path, resume=True), "has shape"
    )


# Damping and noise


@pytest.mark.parametrize("method", ["gauss_newton", "lbfgsb", "sqp"])
def test_start_enclosed_by_failures_is_not_called_converged(method):
    result = run(rosenbrock(fails=lambda z: np.any(z != [-1.2, 1.0])), method)
    assert not result.status.ok
    assert "step" in result.status.text


@pytest.mark.parametrize("method", ["gauss_newton", "lbfgsb", "sqp"])
def test_value_with_noise_of_the_simulation_converges(method):
    """Values rounded to 1e-7, as those of an iterative solver."""
    exact = bowl()
    noisy = Residuals(
        lambda z: np.append(exact.r(z).round(7), 1.0),
        lambda z: np.vstack([ROOT, np.zeros(3)]),
        start=np.zeros(3),
    )
    result = run(noisy, method, tolerance=1e-12)
    np.testing.assert_allclose(result.z, CENTRE, atol=1e-5)
    assert result.status.ok, result.status.text
