"""Run a model over time, and bring one to rest: the two verbs that turn a failed step into a
sentence."""

from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass, field, replace

import numpy as np

from pliant.core import (
    Array,
    Dynamics,
    InputError,
    Reversible,
    Status,
    Step,
    StepError,
    check_controls,
    finite_array,
    require_kind,
)
from pliant.dynamics.checks import BEFORE, check_model, check_state, check_steps
from pliant.dynamics.implicit import Implicit
from pliant.dynamics.overlaps import overlap_note, with_note
from pliant.progress import Progress, reporting

Policy = Callable[[int, Array], Array]  # (step index, state) -> control
UNSTABLE = (
    "converged to a balance that a small push would end; for the one that the robot would leave "
    "for, begin beside it (x0=...), or add a small load"
)


@dataclass(frozen=True, kw_only=True, eq=False)
class Rollout:
    """States and controls of a run; states[0] is the start."""

    states: Array  # (steps + 1, n_state)
    controls: Array  # (steps, n_controls)
    steps: Sequence[Step] = ()  # with tapes, where they were kept
    status: Status = field(
        default_factory=Status
    )  # its text says where bodies of the robot overlap


def march(
    model: Dynamics,
    controls: Array | Policy,
    n: int,
    x: Array,
    p: Array | None = None,
    first: int = 0,
) -> Iterator[tuple[Array, Step]]:
    """Step n times from x; yields (control, step) and raises the status of a step that failed."""
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
    """Run a model under controls (steps, n_controls), or under a policy for `steps` steps; `keep`
    holds on to every tape. Progress is shown after two seconds; `progress` False silences it, and a
    function progress(what, done, total) takes its place."""
    check_model(model)
    if not callable(controls):
        controls = finite_array("The array of controls", controls, (None, model.n_controls))
        steps = check_steps(len(controls) if steps is None else steps)
        if steps > len(controls):
            raise InputError(
                f"There are controls for {len(controls)} steps, but {steps} were asked for."
            )
    steps = check_steps(steps)
    x = model.initial_state() if x0 is None else check_state(x0, model.space.size)
    states, used, kept = [x], [], []
    with reporting(progress) as report:
        for u, step in march(model, controls, steps, x, p):
            states.append(step.x)
            used.append(u)
            kept += [step] if keep else []
            report("simulating", len(used), steps)
    path = np.array(states)
    return Rollout(
        states=path,
        controls=np.array(used).reshape(steps, model.n_controls),
        steps=tuple(kept),
        status=Status(text=with_note("converged", overlap_note(model, path)), iterations=steps),
    )


def pullback(model: Reversible, rollout: Rollout, x_bar: Array) -> tuple[Array, Array, Array]:
    """Return the gradient of a function of a rollout's states, by the first state (n_state,), by
    all controls (steps, n_controls) and by the parameters (n_params,).

    `x_bar` is the function's gradient by the last state (n_state,), or by every state (steps + 1,
    n_state) in the order of `rollout.states`: row 0 is that by the first state. The rollout is one
    of simulate(..., keep=True)."""
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
    """x_bar as one finite row for each state of a rollout, of `shape` (steps + 1, n_state)."""
    if np.ndim(x_bar) == 2:
        return finite_array("x_bar, a gradient by each state,", x_bar, shape)
    bars = np.zeros(shape)
    bars[-1] = finite_array("x_bar, the gradient by the last state,", x_bar, shape[1:])
    return bars


def equilibrium(
    model: Implicit,
    u: Array,
    *,
    x0: Array | None = None,
    p: Array | None = None,
    progress: Progress | bool | None = None,
) -> Step:
    """The equilibrium of a Quasistatic model under a control, or a sentence why there is none;
    supports and loads are those of time zero. Where it cannot be found at once, the controls are
    brought from those that do nothing to u in stages. The text of its status says where a small
    push would end it, and where bodies of the robot overlap. `progress` shows the stages, as in
    `simulate`."""
    if not isinstance(model, Implicit) or model.rule.acceleration[0] != 0.0:
        raise InputError(
            "An equilibrium needs a model without inertia; make one with Quasistatic(robot)."
        )
    x = model.initial_state() if x0 is None else check_state(x0, model.space.size)
    u = check_controls(u, model.n_controls)
    step, start = model.step(x, u, p, BEFORE), model.robot.neutral_controls()
    with reporting(progress) as report:
        for stages in (4, 16) if u.size else ():
            if step.status:
                break
            at = model.initial_state()
            for k in range(1, stages + 1):
                step = model.step(at, start + (k / stages) * (u - start), p, BEFORE)
                if not step.status:
                    break
                at = step.x
                report("equilibrium in stages", k, stages)
    if not step.status:
        raise StepError(f"No equilibrium was found: {step.status.text}")
    text = step.status.text if model.ends_in_minimum(step) else UNSTABLE
    text = with_note(text, overlap_note(model, step.x[None]))
    return replace(step, status=replace(step.status, text=text))
