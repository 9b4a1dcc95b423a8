"""The simulation of controls and the cost of the motion."""

from dataclasses import dataclass

import numpy as np

from pliant.core import Array, Step
from pliant.problem import Problem

NOT_FINITE = "the objective of the run is not a finite number"


@dataclass(frozen=True, kw_only=True, eq=False)
class Evaluation:
    """Controls, the simulated states and the cost.

    If a step failed, the cost is infinite and `failed` gives the reason.
    """

    controls: Array  # (steps, n_controls)
    states: Array  # (steps + 1, n_state)
    steps: tuple[Step, ...]
    cost: float
    failed: str = ""


def evaluate(problem: Problem, controls: Array, *, keep: bool = True) -> Evaluation:
    """Simulate the controls and compute the cost. A failed step does not raise.

    `keep` stores each Step, which derivatives need.
    """
    x, steps, states = problem.initial_state, [], [problem.initial_state]
    p = None if problem.params is None else np.asarray(problem.params, float)
    if not np.all(np.isfinite(controls)):
        return Evaluation(
            controls=controls,
            states=x[None],
            steps=(),
            cost=np.inf,
            failed="the controls are not finite",
        )
    for k, u in enumerate(controls):
        step = problem.model.step(x, u, p, k)
        if not step.status or not np.all(np.isfinite(step.x)):
            why = step.status.text if not step.status else "the state is not finite"
            return Evaluation(
                controls=controls, states=x[None], steps=(), cost=np.inf, failed=f"step {k}: {why}"
            )
        steps += [step] if keep else []
        x = step.x
        states.append(x)
    run = np.array(states)
    cost = problem.value(run, controls)
    return Evaluation(
        controls=controls,
        states=run,
        steps=tuple(steps),
        cost=cost if np.isfinite(cost) else np.inf,
        failed="" if np.isfinite(cost) else NOT_FINITE,
    )
