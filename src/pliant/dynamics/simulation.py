"""Simulate a model over time, and find equilibria. Failed steps raise StepError."""

from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass, field, replace
from pathlib import Path
from time import perf_counter

import numpy as np

from pliant.argument_checks import INITIAL_STEP, check_model, check_state, check_steps
from pliant.core import (
    Array,
    Dynamics,
    EquilibriumModel,
    InputError,
    Reversible,
    Status,
    Step,
    StepError,
    check_controls,
    counted,
    finite_array,
    initial_state_at,
    require_kind,
)
from pliant.dynamics.overlaps import overlap_note, with_note
from pliant.progress import Progress, reporting
from pliant.result_reports import notebook_html, write_report

Policy = Callable[[int, Array], Array]  # (step index, state) -> control
UNSTABLE = (
    "converged to an unstable equilibrium; to find a stable one, start from a perturbed state "
    "(x0=...), or add a small load"
)


@dataclass(frozen=True, kw_only=True, eq=False)
class Rollout:
    """The states and controls of a simulation; states[0] is the initial state."""

    states: Array  # (steps + 1, n_state)
    controls: Array  # (steps, n_controls)
    steps: Sequence[Step] = ()  # with tapes; empty unless keep=True
    status: Status = field(default_factory=Status)  # its text names overlapping bodies
    model: Dynamics | None = None
    seconds: float = 0.0  # [s] computing time

    def __repr__(self) -> str:
        robot = getattr(getattr(self.model, "robot", None), "name", "")
        of = f" of {robot}" if robot else ""
        return f"<Rollout{of}: {counted(len(self.controls), 'step')}, {self.status.text}>"

    def _repr_html_(self) -> str:
        return notebook_html(self)

    def report(self, folder: str | Path, *, title: str | None = None, small: bool = False) -> Path:
        """Write report.html with plots and an animation, the trajectory and result.json into a
        folder. Return the path of the page. `small` draws a smaller and shorter animation."""
        return write_report(self, folder, title=title, small=small)


def iterate_steps(
    model: Dynamics,
    controls: Array | Policy,
    n: int,
    x: Array,
    p: Array | None = None,
    first: int = 0,
) -> Iterator[tuple[Array, Step]]:
    """Step n times from x and yield (control, step). Raises StepError if a step fails."""
    for k in range(first, first + n):
        u = check_controls(controls(k, x) if callable(controls) else controls[k], model.n_controls)
        step = model.step(x, u, p, k)
        if not step.status:
            raise StepError(f"Step {k} failed: {step.status.text}")
        x = step.x
        yield u, step


def simulate(
    model: Dynamics,
    controls: Array | Policy,
    *,
    steps: int | None = None,
    x0: Array | None = None,
    p: Array | None = None,
    keep: bool = False,
    progress: Progress | bool | None = None,
) -> Rollout:
    """Simulate a model under controls (steps, n_controls), or under a policy for `steps` steps.

    `x0` (n_state,) is the initial state, `p` (n_params,) the parameters. `keep` stores the tape of
    every step. Progress is shown after two seconds; `progress=False` turns it off, and a function
    progress(what, done, total) replaces it. Raises StepError if a step fails.

    >>> import numpy as np, pliant as pl
    >>> robot = pl.Robot(
    ...     shape=pl.PointMass(points=[[0.0, 0.0]]),
    ...     actuators={"jet": pl.actuators.Thrust(point=(0.0, 0.0))},
    ... )
    >>> run = pl.simulate(pl.ImplicitEuler(robot, dt=0.1), np.ones((5, 2)))
    >>> run.states.shape
    (6, 4)
    """
    check_model(model)
    if not callable(controls):
        controls = finite_array("The array of controls", controls, (None, model.n_controls))
        steps = check_steps(len(controls) if steps is None else steps)
        if steps > len(controls):
            raise InputError(
                f"There are controls for {counted(len(controls), 'step')}, but steps={steps}. Give "
                "more controls, or fewer steps."
            )
    steps = check_steps(steps)
    x = initial_state_at(model, p) if x0 is None else check_state(x0, model.space.size)
    states, applied, kept = [x], [], []
    start = perf_counter()
    with reporting(progress) as report:
        for u, step in iterate_steps(model, controls, steps, x, p):
            states.append(step.x)
            applied.append(u)
            kept += [step] if keep else []
            report("simulating", len(applied), steps)
    path = np.array(states)
    return Rollout(
        states=path,
        controls=np.array(applied).reshape(steps, model.n_controls),
        steps=tuple(kept),
        status=Status(text=with_note("converged", overlap_note(model, path)), iterations=steps),
        model=model,
        seconds=perf_counter() - start,
    )


def pullback(model: Reversible, rollout: Rollout, x_bar: Array) -> tuple[Array, Array, Array]:
    """Return the gradient of a function of a rollout's states, by the first state (n_state,), by
    all controls (steps, n_controls) and by the parameters (n_params,).

    `x_bar` is the function's gradient by the last state (n_state,), or by every state (steps + 1,
    n_state) in the order of `rollout.states`. The gradient by the parameters is that at a fixed
    first state; add `model.initial_state_pullback` if the model has it. Raises InputError unless
    the rollout is a result of simulate(..., keep=True).

    >>> import numpy as np, pliant as pl
    >>> robot = pl.Robot(
    ...     shape=pl.PointMass(points=[[0.0, 0.0]]),
    ...     actuators={"jet": pl.actuators.Thrust(point=(0.0, 0.0))},
    ... )
    >>> model = pl.ImplicitEuler(robot, dt=0.1)
    >>> run = pl.simulate(model, np.ones((2, 2)), keep=True)
    >>> x_bar = np.array([1.0, 0.0, 0.0, 0.0])  # the gradient of the final x coordinate
    >>> _, u_bar, _ = pl.pullback(model, run, x_bar)
    >>> u_bar[:, 0].round(6)
    array([0.02, 0.01])
    """
    check_model(model)
    require_kind("The rollout", rollout, Rollout, "give what simulate(..., keep=True) returns")
    if len(rollout.steps) != len(rollout.controls):
        raise InputError("This rollout kept no tapes; run simulate(..., keep=True).")
    bars = _state_gradients(x_bar, rollout.states.shape)
    u_bars, p_bar = np.zeros_like(rollout.controls), np.zeros(model.params.size)
    back = bars[-1]
    for k in reversed(range(len(rollout.steps))):
        back, u_bars[k], p_share = model.pullback(rollout.steps[k], back)
        back = back + bars[k]
        p_bar += p_share
    return back, u_bars, p_bar


def _state_gradients(x_bar: Array, shape: tuple[int, int]) -> Array:
    """Return x_bar as an array of `shape` (steps + 1, n_state), one row per state of a rollout."""
    if np.ndim(x_bar) == 2:
        return finite_array("x_bar, a gradient by each state,", x_bar, shape)
    bars = np.zeros(shape)
    bars[-1] = finite_array("x_bar, the gradient by the last state,", x_bar, shape[1:])
    return bars


def equilibrium(
    model: EquilibriumModel,
    u: Array,
    *,
    x0: Array | None = None,
    p: Array | None = None,
    progress: Progress | bool | None = None,
) -> Step:
    """Return the equilibrium of a Quasistatic model under the control u.

    Supports and loads are those of time zero. If the solver fails at once, the controls are changed
    from neutral to u in stages. The status text says if the equilibrium is unstable and which
    bodies overlap. `progress` works as in `simulate`. Raises StepError if no equilibrium is found,
    and InputError for a model with inertia.

    >>> import pliant as pl
    >>> beam = pl.Robot(
    ...     shape=pl.Box(size=(0.1, 0.02, 0.02)),
    ...     divisions=(3, 1, 1),
    ...     order=1,
    ...     material=pl.Material(E=1e5, nu=0.4, density=1000.0),
    ...     supports=[pl.Support(region="x-")],
    ...     effectors={"tip": pl.Effector(surface="x+")},
    ...     gravity=(0.0, 0.0, -9.81),
    ... )
    >>> step = pl.equilibrium(pl.Quasistatic(beam), [])
    >>> step.status.ok
    True
    """
    if not isinstance(model, EquilibriumModel):
        raise InputError(
            "An equilibrium needs a model without inertia; make one with Quasistatic(robot)."
        )
    x = model.initial_state() if x0 is None else check_state(x0, model.space.size)
    u = check_controls(u, model.n_controls)
    step, start = model.step(x, u, p, INITIAL_STEP), model.robot.neutral_controls()
    with reporting(progress) as report:
        for stages in (4, 16) if u.size else ():
            if step.status:
                break
            at = model.initial_state()
            for k in range(1, stages + 1):
                step = model.step(at, start + (k / stages) * (u - start), p, INITIAL_STEP)
                if not step.status:
                    break
                at = step.x
                report("equilibrium in stages", k, stages)
    if not step.status:
        raise StepError(f"No equilibrium was found: {step.status.text}")
    text = step.status.text if model.is_strict_minimum(step) else UNSTABLE
    text = with_note(text, overlap_note(model, step.x[None]))
    return replace(step, status=replace(step.status, text=text))
