"""Run a model over time, and bring one to rest: the two verbs that turn a failed step into a sentence."""

from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass

import numpy as np

from pliant.core import Array, Dynamics, InputError, Step, StepError, check_controls, finite_array

Policy = Callable[[int, Array], Array]  # (step index, state) -> control


@dataclass(frozen=True, kw_only=True, eq=False)
class Rollout:
    """States and controls of a run; states[0] is the start."""

    states: Array  # (steps + 1, n_state)
    controls: Array  # (steps, n_controls)
    steps: Sequence[Step] = ()  # with tapes, where they were kept


def steps(
    model: Dynamics, controls: Array | Policy, n: int, x: Array, p: Array | None = None, first: int = 0
) -> Iterator[tuple[Array, Step]]:
    """Step n times from x; yields (control, step) and raises the status of a step that failed."""
    for k in range(first, first + n):
        u = check_controls(controls(k, x) if callable(controls) else controls[k], model.n_controls)
        step = model.step(x, u, p, k)
        if not step.status:
            raise StepError(f"Step {k} failed: {step.status.text}")
        x = step.x
        yield u, step


def simulate(model: Dynamics, controls: Array | Policy, *, steps_count: int | None = None, x0: Array | None = None,
             p: Array | None = None, keep: bool = False) -> Rollout:  # fmt: skip
    """Run a model under controls (steps, n_controls), or under a policy for `steps_count` steps; `keep` holds on to every tape."""
    if not callable(controls):
        controls = finite_array("The array of controls", controls, (None, model.n_controls))
        steps_count = len(controls) if steps_count is None else steps_count
        if steps_count > len(controls):
            raise InputError(f"There are controls for {len(controls)} steps, but {steps_count} were asked for.")
    if not isinstance(steps_count, int) or steps_count < 1:
        raise InputError(f"The number of steps is {steps_count}; say how many with steps_count=..., 1 or more.")
    x = model.initial_state() if x0 is None else np.asarray(x0, float)
    states, used, kept = [x], [], []
    for u, step in steps(model, controls, steps_count, x, p):
        states.append(step.x)
        used.append(u)
        kept += [step] if keep else []
    return Rollout(states=np.array(states), controls=np.array(used).reshape(steps_count, model.n_controls), steps=tuple(kept))


def equilibrium(model: Dynamics, u: Array, *, x0: Array | None = None, p: Array | None = None) -> Step:
    """The equilibrium of a Quasistatic model under a control, or a sentence why there is none; follows the load in stages if it must."""
    x = model.initial_state() if x0 is None else np.asarray(x0, float)
    step = model.step(x, u, p)
    if step.status:
        return step
    for stages in (4, 16):
        at = x
        for share in np.arange(1, stages + 1) / stages:
            step = model.step(at, share * np.asarray(u, float), p)
            if not step.status:
                break
            at = step.x
        if step.status:
            return step
    raise StepError(f"No equilibrium was found: {step.status.text}")
