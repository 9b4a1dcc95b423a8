"""The result of an identification, from the solution of its optimisation."""

from collections.abc import Sequence

from pliant.core import Array, InputError, StepError, counted
from pliant.design.estimates import Estimates, estimates
from pliant.design.fit import Fit, model_identity
from pliant.design.fit_objective import FitObjective
from pliant.design.measured_scene import MeasuredScene
from pliant.design.residuals import CORRELATED, Prediction
from pliant.dynamics import Rollout, simulate
from pliant.optimisation import ObjectiveEvaluation, OptimisationResult

WITHOUT_INTERVALS = "The fit was interrupted, so it has no intervals. Continue it with resume=True."
UNRELIABLE_NOISE = 1.5  # ratio of the residuals to the noise above which the model does not fit


def fit_of(
    objective: FitObjective,
    found: OptimisationResult,
    others: Sequence[MeasuredScene],
    *,
    intervals: bool,
) -> Fit:
    """Return the fit at the best variables of an optimisation. `others` are held out. There are no
    intervals after an interrupt, because they may take long."""
    z, problem = found.z, objective.problem
    predictions, motion = _predictions(objective, found)
    params = problem.layout.params(z[: objective.n_inner])
    held_out, failures = _held_out(others, params)
    wanted = intervals and not found.interrupted
    at_solution = objective.jacobian(z) if wanted else None
    known = all(one.known_noise for one in objective.measured)
    spread = estimates(objective, z, at_solution, known_noise=known, history=found.history)
    return Fit(
        method=found.method,
        settings=dict(found.identity["settings"]),
        estimates=spread,
        params=params,
        predictions=predictions,
        held_out=held_out,
        history=found.history,
        status=found.status,
        notes=(
            *((WITHOUT_INTERVALS,) if intervals and found.interrupted else ()),
            *_notes(spread, predictions, at_solution),
            *failures,
        ),
        identity=model_identity(problem.model),
        seed=int(found.identity["seed"]),
        interrupted=found.interrupted,
        model=problem.model,
        motion=motion,
    )


def _predictions(
    objective: FitObjective, found: OptimisationResult
) -> tuple[tuple[Prediction, ...], Rollout | None]:
    """Return the predictions of all measurements, and the simulation of the first one."""
    out, motion = [], None
    offsets = objective.offsets(found.z)
    for k, one in enumerate(objective.measured):
        states = objective.states(k, found.z)
        out.append(Prediction.of(one, states, float(offsets[k])))
        if k == 0:
            motion = Rollout(states=states, controls=one.controls, model=one.model)
    return tuple(out), motion


def _held_out(
    scenes: Sequence[MeasuredScene], params: Array
) -> tuple[tuple[Prediction, ...], list[str]]:
    """Return the predictions of measurements that were not fitted, and sentences about those that
    cannot be simulated."""
    out, failures = [], []
    for one in scenes:
        try:
            run = simulate(one.model, one.controls, x0=one.x0, p=params, progress=False)
        except (StepError, InputError) as error:
            failures.append(f"{one.name} was held out, but cannot be simulated: {error}")
            continue
        out.append(Prediction.of(one, run.states))
    return tuple(out), failures


def _notes(
    spread: Estimates,
    predictions: Sequence[Prediction],
    at_solution: ObjectiveEvaluation | None,
) -> tuple[str, ...]:
    """Return warnings about the fit."""
    notes = []
    if at_solution is not None and at_solution.failed:
        notes.append(f"There are no intervals, because a simulation failed: {at_solution.failed}.")
    for one in spread.items:
        if one.at_bound:
            notes.append(
                f"{one.name} is at its bound, so its interval is not valid. Widen the bounds, or "
                "check the model."
            )
    correlated = [
        f"'{marker.marker}' of {part.name}"
        for part in predictions
        for marker in part.statistics
        if marker.correlation > CORRELATED
    ]
    if correlated:
        notes.append(
            f"Neighbouring residuals of {counted(len(correlated), 'marker')} are correlated, such "
            f"as {correlated[0]}. The model or the noise is not as assumed, and the intervals are "
            "too narrow."
        )
    if spread.noise is not None and spread.noise > UNRELIABLE_NOISE:
        notes.append(
            f"The residuals are {spread.noise:.3g} times the given noise. The model does not "
            "explain the data, or the noise is larger; the intervals are too narrow."
        )
    return tuple(notes)
