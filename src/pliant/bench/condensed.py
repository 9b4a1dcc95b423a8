"""`pliant bench condensed`: times of planning with condensed derivatives [Menager2024] for the
Diamond.

It times a forward step, a backward pass, whole plans with three derivatives, and the control steps
of a controller that tracks a plan. The backward pass is compared with Crocoddyl's box-constrained
one on the same stages. The module runs in its own process, so that every library is limited to one
thread before its import.
"""

import json
import sys
from collections.abc import Callable
from time import perf_counter
from typing import Any

import numpy as np

from pliant.bench.peers.crocoddyl import crocoddyl_policy, crocoddyl_solver, shift_to_optimum
from pliant.bench.report import Report
from pliant.core import Array, MissingExtra
from pliant.dynamics import SemiImplicit, simulate
from pliant.planners import Options, evaluate, mpc
from pliant.planners.augmented_state import AugmentedState
from pliant.planners.linear_quadratic import LinearQuadraticModel, stack_stages
from pliant.planners.riccati import linearise_stages
from pliant.planners.riccati_kernels import backward_pass
from pliant.problem import Problem
from pliant.zoo.condensed_tasks import ReachTask, equilibrium_positions, plan_reach, problem_of
from pliant.zoo.experiments import diamond_mpc, diamond_two_goals
from pliant.zoo.robots import diamond

# along -> (nodes, ms) of SOFA's direct step on a Diamond, measured on another machine
SOFA = {19: (709, 7.4), 45: (1628, 20.0)}
TENSIONS = np.array([5.0, 2.5, 0.0, 0.0])  # [N] of the cables in the timed steps
WARM_UP = 5  # steps that are not timed
DEADLINE = 50.0  # [ms] for a control step


def measure(quick: bool) -> dict[str, Any]:
    goals = diamond_two_goals.EXPERIMENT.resolve_settings(quick=quick)
    task = diamond_two_goals.task(goals)
    q0 = equilibrium_positions(task.robot, task.initial_controls)
    x0 = SemiImplicit(task.robot, dt=task.dt).state(q0)
    return {
        "forward": [forward(along, 20 if quick else 200) for along in ((5,) if quick else SOFA)],
        "backward": backward(problem_of(task, "linear", x0), 20 if quick else 200),
        "plans": [
            whole_plan(task, derivative, x0, 4 if quick else 200)
            for derivative in ("linear", "nonlinear", *(() if quick else ("exact",)))
        ],
        "control steps": control_step_times(quick, 40 if quick else 300),
    }


def forward(along: int, steps: int) -> dict[str, Any]:
    """Return the times [ms] of single steps from rest under constant cable tensions."""
    robot = diamond(along=along)
    model = SemiImplicit(robot, dt=0.01)
    x, times = model.initial_state(), []
    for k in range(WARM_UP + steps):
        start = perf_counter()
        x = model.step(x, TENSIONS, None, k).x
        times.append(1e3 * (perf_counter() - start))
    nodes, sofa_time = SOFA.get(along, (None, None))
    return {
        "nodes": model.space.n_dofs // 3,
        "steps": steps,
        **_minimum_and_median(times[WARM_UP:]),
        "sofa nodes": nodes,
        "sofa": sofa_time,
    }


def backward(problem: Problem, repeats: int) -> dict[str, Any]:
    """Return the times [ms] of the parts of one iteration, without its rollouts: W_ea of all steps,
    costs and control limits, and the backward pass of Pliant and of Crocoddyl. The stages are those
    at the optimum of the linear-quadratic model, where many controls are at a bound."""
    now = evaluate(problem, np.tile(TENSIONS, (problem.steps, 1)))
    layout = AugmentedState(problem=problem)
    linearise = lambda: linearise_stages(problem.model, layout, now)  # type: ignore[arg-type]
    linear_stages = linearise()
    stages = shift_to_optimum(
        LinearQuadraticModel(problem=problem, layout=layout, now=now, stages=linear_stages).blocks
    )
    arguments = (*stack_stages(stages), 0.0)
    _, gains, forward, *_ = backward_pass(*arguments)
    out: dict[str, Any] = {
        "steps": problem.steps,
        "states": layout.size,
        "controls": problem.model.n_controls,
        "at a bound": _at_bound(stages, forward),
        "derivatives": _timed(linearise, max(repeats // 20, 3)),
        "costs and limits": _timed(
            lambda: (
                LinearQuadraticModel(
                    problem=problem, layout=layout, now=now, stages=linear_stages
                ).kernel_arguments
            ),
            max(repeats // 10, 3),
        ),
        "ours": _timed(lambda: backward_pass(*arguments), repeats),
    }
    try:
        solver = crocoddyl_solver(stages)
    except MissingExtra as error:
        return {**out, "missing": str(error)}
    out["crocoddyl"] = _timed(solver.backwardPass, repeats)
    crocoddyl_gains, _ = crocoddyl_policy(solver)
    out["difference"] = float(np.abs(crocoddyl_gains - gains).max() / np.abs(gains).max())
    out["ratio"] = out["ours"]["median"] / out["crocoddyl"]["median"]
    return out


def _at_bound(stages: tuple[Array, ...], forward: Array) -> float:
    """Return the fraction of controls that a policy moves to a bound."""
    low, high = stages[7:9]
    margin = 1e-9 * (high - low)
    return float(np.mean((forward <= low + margin) | (forward >= high - margin)))


def whole_plan(task: ReachTask, derivative: str, x0: Array, iterations: int) -> dict[str, Any]:
    """Return planning time and iterations with one derivative, after a warm-up iteration."""
    plan_reach(task, derivative, options=Options(iterations=1), x0=x0)
    found = plan_reach(task, derivative, options=Options(iterations=iterations), x0=x0)
    return {
        "derivative": derivative,
        "seconds": found.planning_time,
        "iterations": len(found.plan.history) - 1,
        "cost": found.plan.cost,
        "largest goal error": found.largest_goal_error,
        "status": found.plan.status.text,
    }


def control_step_times(quick: bool, count: int) -> dict[str, Any]:
    """Return the computing times [ms] of a controller that tracks the plan of diamond-mpc under its
    disturbance. They exclude the measurement and the simulated step."""
    s = diamond_mpc.EXPERIMENT.resolve_settings(quick=quick)
    task = diamond_mpc.task(s)
    x0 = SemiImplicit(task.robot, dt=task.dt).state(
        equilibrium_positions(task.robot, task.initial_controls)
    )
    result = plan_reach(task, "linear", options=Options(iterations=10), x0=x0)
    controller = mpc(
        problem_of(task, "exact", x0),
        result.plan,
        effectors=("tip",),
        horizon=int(s["horizon"]),
        response_steps=int(s["response_steps"]),
        gain=float(s["gain"]),
        effort=float(s["effort"]),
    )
    true_model = SemiImplicit(diamond_mpc.true_robot(task.robot, s), dt=task.dt)
    loop = diamond_mpc.feedback_loop(true_model, controller, float(s["noise"]), seed=0)
    simulate(true_model, loop, steps=WARM_UP + count, x0=x0)
    times = 1e3 * np.array(loop.seconds[WARM_UP:])
    return {
        "control steps": count,
        "horizon": controller.horizon,
        "nodes": true_model.space.n_dofs // 3,
        "p50": float(np.percentile(times, 50)),
        "p99": float(np.percentile(times, 99)),
        "largest": float(times.max()),
    }


def _timed(work: Callable[[], Any], repeats: int) -> dict[str, float]:
    """Return the times [ms] of a function, after one call to warm up."""
    work()
    times = []
    for _ in range(repeats):
        start = perf_counter()
        work()
        times.append(1e3 * (perf_counter() - start))
    return _minimum_and_median(times)


def _minimum_and_median(times: list[float]) -> dict[str, float]:
    return {"minimum": float(np.min(times)), "median": float(np.median(times))}


def report(numbers: dict[str, Any]) -> Report:
    steps = [
        [
            f"{n['nodes']:,}",
            str(n["steps"]),
            f"{n['minimum']:.2f}",
            f"{n['median']:.2f}",
            f"{n['sofa']:g} ({n['sofa nodes']:,} nodes)" if n["sofa"] else "-",
        ]
        for n in numbers["forward"]
    ]
    plans = [
        [
            n["derivative"],
            str(n["iterations"]),
            f"{n['seconds']:.2f}",
            f"{n['cost']:.4g}",
            f"{n['largest goal error']:.2e}",
        ]
        for n in numbers["plans"]
    ]
    b, d = numbers["backward"], numbers["control steps"]
    parts = [
        [name, *(f"{b[key][what]:.3f}" for what in ("minimum", "median")), _ratio(b, key)]
        for key, name in PARTS.items()
        if key in b
    ]
    title = (
        f"Backward pass: {b['steps']} steps, {b['states']} states, {b['controls']} controls, "
        f"{b['at a bound']:.0%} at a bound"
    )
    tables = [
        (
            "Forward step of the Diamond with four cables",
            ["nodes", "steps", "minimum [ms]", "median [ms]", "SOFA, other machine [ms]"],
            steps,
        ),
        (title, ["part", "minimum [ms]", "median [ms]", "Pliant / Crocoddyl"], parts),
        (
            "Whole plan of diamond-two-goals",
            ["derivative", "iterations", "seconds", "cost", "largest goal error [m]"],
            plans,
        ),
        (
            f"Control step of a tracking controller, {d['nodes']:,} nodes, horizon {d['horizon']}",
            ["control steps", "p50 [ms]", "p99 [ms]", "largest [ms]"],
            [
                [
                    str(d["control steps"]),
                    f"{d['p50']:.1f}",
                    f"{d['p99']:.1f}",
                    f"{d['largest']:.1f}",
                ]
            ],
        ),
    ]
    deadline_note = (
        ""
        if d["p99"] < DEADLINE
        else f" The 99th percentile exceeds the deadline of {DEADLINE:g} ms."
    )
    notes = [
        b["missing"]
        if "missing" in b
        else f"The gains of both passes differ by {b['difference']:.1e} of the largest gain.",
        *(f"{n['derivative']}: {n['status']}" for n in numbers["plans"]),
        *NOTES[:-1],
        NOTES[-1] + deadline_note,
    ]
    return Report(tables=tables, notes=notes, numbers=numbers)


def _ratio(b: dict[str, Any], key: str) -> str:
    return f"{b['ratio']:.2f}x" if key == "ours" and "ratio" in b else ""


PARTS = {
    "derivatives": "W_ea of all steps, by linear solves",
    "costs and limits": "costs and control limits of all steps",
    "ours": "backward pass",
    "crocoddyl": "Crocoddyl's SolverBoxDDP.backwardPass",
}
NOTES = [
    "One thread, one run, after warm-up. The times of SOFA are for orientation only: its direct "
    "step (corotational, sparse LDL, four cables, one thread) was measured on another machine "
    "and mesh. Therefore no ratio is given.",
    "Both backward passes use the same linear-quadratic stages and limits, which are computed "
    "before the measurement, without regularisation.",
    "The time of a plan includes rollouts and derivatives, but not the initial equilibrium. "
    "'exact' is gauss_newton on the whole model.",
    "A control step processes a measurement, solves the quadratic program of the horizon and "
    "returns the control. It excludes the simulated step.",
]


if __name__ == "__main__":
    print(json.dumps(measure("quick" in sys.argv)))
