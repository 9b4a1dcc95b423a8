"""`pliant bench condensed`: what planning with condensed derivatives costs [Menager2024], part by
part, on the Diamond.

A forward step; a backward pass beside crocoddyl's control-limited one on the same stages; whole
plans by three derivatives; and the decisions of a controller around a plan. Run as a module in a
child process, so that every library is held to one thread before it is imported.
"""

import json
import sys
from collections.abc import Callable
from time import perf_counter
from typing import Any

import numpy as np

from pliant.bench.peers.crocoddyl import crocoddyl_policy, crocoddyl_solver, settled
from pliant.bench.report import Report
from pliant.core import Array, MissingExtra
from pliant.dynamics import SemiImplicit, simulate
from pliant.planners import Options, evaluate, mpc
from pliant.planners.augmented_state import AugmentedState
from pliant.planners.linear_quadratic import LinearQuadraticModel, stack_stages
from pliant.planners.riccati import linearise_stages
from pliant.planners.riccati_kernels import backward_pass
from pliant.problem import Problem
from pliant.zoo.condensed_tasks import ReachTask, problem_of, reach, rest
from pliant.zoo.experiments import diamond_mpc, diamond_two_goals
from pliant.zoo.robots import diamond

SOFA = {
    19: (709, 7.4),
    45: (1628, 20.0),
}  # along -> (nodes, ms) of SOFA's direct step on a Diamond, measured on another machine
HELD = np.array([5.0, 2.5, 0.0, 0.0])  # [N] the pull of the steps that are timed
FIRST = 5  # steps and decisions that only warm up
DEADLINE = 50.0  # [ms] for a decision


def measure(quick: bool) -> dict[str, Any]:
    goals = diamond_two_goals.EXPERIMENT.chosen(quick=quick)
    task = diamond_two_goals.task(goals)
    x0 = SemiImplicit(task.robot, dt=task.dt).state(rest(task.robot, task.first))
    return {
        "forward": [forward(along, 20 if quick else 200) for along in ((5,) if quick else SOFA)],
        "backward": backward(problem_of(task, "linear", x0), 20 if quick else 200),
        "plans": [
            whole_plan(task, way, x0, 4 if quick else 200)
            for way in ("linear", "nonlinear", *(() if quick else ("exact",)))
        ],
        "decisions": decisions(quick, 40 if quick else 300),
    }


def forward(along: int, steps: int) -> dict[str, Any]:
    """Milliseconds of single steps from rest, pulled by its cables."""
    robot = diamond(along=along)
    model = SemiImplicit(robot, dt=0.01)
    x, took = model.initial_state(), []
    for k in range(FIRST + steps):
        began = perf_counter()
        x = model.step(x, HELD, None, k).x
        took.append(1e3 * (perf_counter() - began))
    nodes, theirs = SOFA.get(along, (None, None))
    return {
        "nodes": model.space.n_dofs // 3,
        "steps": steps,
        **_spread(took[FIRST:]),
        "sofa nodes": nodes,
        "sofa": theirs,
    }


def backward(problem: Problem, repeats: int) -> dict[str, Any]:
    """Milliseconds of one iteration's parts but for the runs: W_ea of all steps, the costs and the
    room, and the backward pass beside crocoddyl's, about the best controls of the linear-quadratic
    model, many of which rest on a bound."""
    now = evaluate(problem, np.tile(HELD, (problem.steps, 1)))
    layout = AugmentedState(problem=problem)
    derive = lambda: linearise_stages(problem.model, layout, now)  # type: ignore[arg-type]
    made = derive()
    stages = settled(
        LinearQuadraticModel(problem=problem, layout=layout, now=now, stages=made).blocks
    )
    ours = (*stack_stages(stages), 0.0)
    _, gains, forward, *_ = backward_pass(*ours)
    out: dict[str, Any] = {
        "steps": problem.steps,
        "states": layout.size,
        "controls": problem.model.n_controls,
        "at a bound": _at_bound(stages, forward),
        "derivatives": _timed(derive, max(repeats // 20, 3)),
        "costs and room": _timed(
            lambda: (
                LinearQuadraticModel(
                    problem=problem, layout=layout, now=now, stages=made
                ).kernel_arguments
            ),
            max(repeats // 10, 3),
        ),
        "ours": _timed(lambda: backward_pass(*ours), repeats),
    }
    try:
        solver = crocoddyl_solver(stages)
    except MissingExtra as error:
        return {**out, "missing": str(error)}
    out["crocoddyl"] = _timed(solver.backwardPass, repeats)
    theirs, _ = crocoddyl_policy(solver)
    out["difference"] = float(np.abs(theirs - gains).max() / np.abs(gains).max())
    out["ratio"] = out["ours"]["median"] / out["crocoddyl"]["median"]
    return out


def _at_bound(stages: tuple[Array, ...], forward: Array) -> float:
    """The share of the controls that a policy leads to a bound."""
    low, high = stages[7:9]
    near = 1e-9 * (high - low)
    return float(np.mean((forward <= low + near) | (forward >= high - near)))


def whole_plan(task: ReachTask, way: str, x0: Array, iterations: int) -> dict[str, Any]:
    """Seconds and iterations of one way to plan, after an iteration to warm up."""
    reach(task, way, options=Options(iterations=1), x0=x0)
    found = reach(task, way, options=Options(iterations=iterations), x0=x0)
    return {
        "way": way,
        "seconds": found.seconds,
        "iterations": len(found.plan.history) - 1,
        "cost": found.plan.cost,
        "miss": found.worst,
        "status": found.plan.status.text,
    }


def decisions(quick: bool, count: int) -> dict[str, Any]:
    """Milliseconds of a controller's decisions around the plan of diamond-mpc, under its force;
    readings and steps are outside."""
    s = diamond_mpc.EXPERIMENT.chosen(quick=quick)
    target_task = diamond_mpc.task(s)
    x0 = SemiImplicit(target_task.robot, dt=target_task.dt).state(
        rest(target_task.robot, target_task.first)
    )
    found = reach(target_task, "linear", options=Options(iterations=10), x0=x0)
    controller = mpc(
        problem_of(target_task, "exact", x0),
        found.plan,
        effectors=("tip",),
        horizon=int(s["horizon"]),
        response_steps=int(s["memory"]),
        gain=float(s["gain"]),
        effort=float(s["effort"]),
    )
    real = SemiImplicit(diamond_mpc.true_robot(target_task.robot, s), dt=target_task.dt)
    loop = diamond_mpc.feedback_loop(real, controller, float(s["noise"]), seed=0)
    simulate(real, loop, steps=FIRST + count, x0=x0)
    took = 1e3 * np.array(loop.seconds[FIRST:])
    return {
        "decisions": count,
        "horizon": controller.horizon,
        "nodes": real.space.n_dofs // 3,
        "p50": float(np.percentile(took, 50)),
        "p99": float(np.percentile(took, 99)),
        "worst": float(took.max()),
    }


def _timed(work: Callable[[], Any], repeats: int) -> dict[str, float]:
    """Milliseconds, after one run to warm up."""
    work()
    took = []
    for _ in range(repeats):
        began = perf_counter()
        work()
        took.append(1e3 * (perf_counter() - began))
    return _spread(took)


def _spread(took: list[float]) -> dict[str, float]:
    return {"minimum": float(np.min(took)), "median": float(np.median(took))}


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
            n["way"],
            str(n["iterations"]),
            f"{n['seconds']:.2f}",
            f"{n['cost']:.4g}",
            f"{n['miss']:.2e}",
        ]
        for n in numbers["plans"]
    ]
    b, d = numbers["backward"], numbers["decisions"]
    parts = [
        [name, *(f"{b[key][what]:.3f}" for what in ("minimum", "median")), _ratio(b, key)]
        for key, name in PARTS.items()
        if key in b
    ]
    title = (
        f"A backward pass: {b['steps']} steps, {b['states']} states, {b['controls']} controls, "
        f"{b['at a bound']:.0%} at a bound"
    )
    tables = [
        (
            "A step of the Diamond, four cables",
            ["nodes", "steps", "minimum [ms]", "median [ms]", "SOFA elsewhere [ms]"],
            steps,
        ),
        (title, ["part", "minimum [ms]", "median [ms]", "ours / theirs"], parts),
        (
            "A whole plan of diamond-two-goals",
            ["derivative", "iterations", "seconds", "cost", "miss of the end"],
            plans,
        ),
        (
            f"A decision around a plan, {d['nodes']:,} nodes, horizon {d['horizon']}",
            ["decisions", "p50 [ms]", "p99 [ms]", "worst [ms]"],
            [[str(d["decisions"]), f"{d['p50']:.1f}", f"{d['p99']:.1f}", f"{d['worst']:.1f}"]],
        ),
    ]
    late = (
        ""
        if d["p99"] < DEADLINE
        else f" It is over the {DEADLINE:g} ms that a controller is given here."
    )
    notes = [
        b["missing"]
        if "missing" in b
        else f"The gains of both backward passes differ by {b['difference']:.1e} of the largest.",
        *(f"{n['way']}: {n['status']}" for n in numbers["plans"]),
        *NOTES[:-1],
        NOTES[-1] + late,
    ]
    return Report(tables=tables, notes=notes, numbers=numbers)


def _ratio(b: dict[str, Any], key: str) -> str:
    return f"{b['ratio']:.2f}x" if key == "ours" and "ratio" in b else ""


PARTS = {
    "derivatives": "W_ea of all steps, by solves",
    "costs and room": "costs and room of all steps",
    "ours": "backward pass",
    "crocoddyl": "crocoddyl's SolverBoxDDP.backwardPass",
}
NOTES = [
    "One thread, one run, after warm-up. SOFA's figures are for orientation alone: its direct "
    "step (corotational, sparse LDL, four cables, one thread) was measured on another machine "
    "and mesh, so that there is no ratio.",
    "Both backward passes take the same linear-quadratic stages and limits, found before the "
    "clock starts, without regularisation.",
    "Seconds of a plan hold runs and derivatives, not the robot's rest; exact is gauss_newton on "
    "the whole model.",
    "A decision is a reading taken in, the quadratic program of the horizon and the control; the "
    "robot's own step is outside.",
]


if __name__ == "__main__":
    print(json.dumps(measure("quick" in sys.argv)))
