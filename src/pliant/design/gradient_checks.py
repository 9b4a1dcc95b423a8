"""Checks of a gradient during an optimisation: whether it predicts what a step changes."""

from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any

import numpy as np

from pliant.contact import Contact
from pliant.core import Array
from pliant.design.design_body import body_model
from pliant.dynamics import Rollout, simulate
from pliant.mpm import MaterialPoint
from pliant.mpm.reference_grid import ReferenceGrid
from pliant.optimisation import OptimisationResult, ProblemObjective
from pliant.optimisation.scene_run import FAILURES

SMALLEST_STEP = 1e-4  # of scaled variables; smaller differences may be rounding
LARGEST_STEP = 0.02  # of scaled variables; over larger ones a smooth objective is curved
USEFUL = 0.5  # agreement below which a gradient misses half of the change
NEGLIGIBLE = 1e-8  # of the objective at the start; smaller changes are rounding errors
ARRIVED = 1e-3  # [cells] from an obstacle at which a node of a reference grid touches it
MUCH_LARGER = 100.0  # than the first gradient: backpropagation through contact diverges


@dataclass(frozen=True, kw_only=True)
class GradientCheck:
    """The gradient of an iteration beside a difference quotient along the search direction."""

    iteration: int
    norm: float  # largest entry of the gradient by the scaled variables that are not at a bound
    step: float  # largest change of a scaled variable in the quotient
    predicted: float  # change of the value, from the gradient
    measured: float  # by simulation; NaN: it failed
    contact_share: float  # of the time steps with a contact; NaN: the robot has none
    scale: float = 0.0  # size of the objective at the start

    @property
    def agreement(self) -> float:
        """1 if the gradient predicts the change exactly, 0 or less if it says nothing."""
        largest = max(abs(self.predicted), abs(self.measured))
        if not np.isfinite(self.measured):
            return 0.0
        return 1.0 - abs(self.predicted - self.measured) / largest if largest > 0.0 else 1.0

    @property
    def is_negligible(self) -> bool:
        """Whether both changes are rounding errors beside the objective at the start, as those of
        an objective that has come down to zero."""
        return max(abs(self.predicted), abs(self.measured)) < NEGLIGIBLE * self.scale


def check_gradient(
    objective: ProblemObjective, z: Array, *, iteration: int, step: float, scale: float = 0.0
) -> GradientCheck:
    """Compare the gradient at z (n,) with a central difference along it, over a length of `step`,
    but at least SMALLEST_STEP and at most LARGEST_STEP. Variables at a bound are kept. It takes a
    gradient and three simulations."""
    found = objective.gradient(z)
    g = np.full(len(z), np.nan) if found.gradient is None else found.gradient
    h = float(np.clip(step, SMALLEST_STEP, LARGEST_STEP))
    lower, upper = objective.bounds
    g = np.where((z - h >= lower) & (z + h <= upper), g, 0.0)
    norm = float(np.abs(g).max())
    predicted = measured = np.nan if found.failed else 0.0
    if norm > 0.0:
        change = h * g / norm
        ends = [objective.value(z + sign * change) for sign in (-1.0, 1.0)]
        predicted = -2.0 * float(g @ change)
        failed = any(end.failed for end in ends)
        measured = np.nan if failed else float(ends[0].value - ends[1].value)
    return GradientCheck(
        iteration=iteration,
        norm=norm,
        step=h,
        predicted=predicted,
        measured=measured,
        contact_share=contact_share(objective, z),
        scale=scale,
    )


def check_result(objective: ProblemObjective, result: OptimisationResult) -> GradientCheck:
    """Compare the gradient of the last iterate with a difference over the length of its step."""
    return check_gradient(
        objective,
        result.last.z,
        iteration=result.status.iterations,
        step=result.history[-1].step,
        scale=abs(result.history[0].value),
    )


def gradient_warnings(checks: Sequence[GradientCheck]) -> tuple[str, ...]:
    """Return sentences about gradients that have become useless, with remedies."""
    found = []
    bad = [one for one in checks if one.agreement < USEFUL and not one.is_negligible]
    if bad:
        found.append(
            f"The gradient of iteration {bad[-1].iteration} does not predict the change of the "
            f"objective over a step of {bad[-1].step:.2g} (predicted {bad[-1].predicted:.3g}, "
            f"simulated {_simulated(bad[-1].measured)}; the body is in contact in "
            f"{_percent(bad[-1].contact_share)} of the time steps). "
            "Optimise fewer time steps first and continue from the result, give a gait a "
            "gradient_window, take a smaller rate, more damping or less friction, or smooth the "
            "contacts of finite elements by a larger layer and slip_speed."
        )
    if len(checks) > 1 and checks[-1].norm > MUCH_LARGER * checks[0].norm > 0.0:
        found.append(
            f"The gradient has grown from {checks[0].norm:.2g} to {checks[-1].norm:.2g}. Clip it, "
            "or optimise fewer time steps first."
        )
    return tuple(found)


def _simulated(change: float) -> str:
    return f"{change:.3g}" if np.isfinite(change) else "none, because a simulation failed"


def _percent(share: float) -> str:
    return "no" if not share > 0.0 else f"{100.0 * share:.0f} %"


def contact_share(objective: ProblemObjective, z: Array) -> float:
    """Return the share of the time steps of all scenes in which the body touches an obstacle; NaN
    if the robot has no contacts, or if it cannot be simulated."""
    touching = [value for k in range(objective.n_samples) for value in _touching(objective, k, z)]
    return float(np.mean(touching)) if touching else np.nan


def _touching(objective: ProblemObjective, k: int, z: Array) -> list[bool]:
    """Return for each time step of a scene whether the body touches an obstacle."""
    model = body_model(objective.problem.scene_problems[k].model)
    contacts = getattr(getattr(model, "robot", None), "contacts", ())
    if not contacts:
        return []
    try:
        run = simulated_scene(objective, k, z)
    except FAILURES:
        return []
    size = model.space.n_dofs
    return [_touches(model, contacts, x[:size].reshape(-1, model.dim)) for x in run.states[1:]]


def _touches(model: Any, contacts: Sequence[Contact], points: Array) -> bool:
    """Return whether a point (n, dim) [m] of the body is at an obstacle. Particles touch an
    obstacle from one grid cell away, nodes of a grid of the rest shape when its surface does."""
    for contact in contacts:
        exposed, reach = points, 0.0
        if isinstance(getattr(model, "body", None), ReferenceGrid):
            reach = ARRIVED * model.cell - model.body.heights
        elif isinstance(model, MaterialPoint):
            reach = model.cell
        else:
            exposed = points[model.body.node_areas(contact.surface, lumped=True) > 0.0]
        if np.any(contact.evaluate(exposed)[0] <= reach):
            return True
    return False


def simulated_scene(objective: ProblemObjective, k: int, z: Array) -> Rollout:
    """Return the motion of scene k for variables z (n,). Raises one of FAILURES."""
    run = objective.scene(k, z)
    inputs = run.inputs()
    return simulate(
        run.problem.model,
        inputs.controls,
        x0=objective.layout.initial_state(k, inputs),
        p=inputs.params,
        progress=False,
    )
