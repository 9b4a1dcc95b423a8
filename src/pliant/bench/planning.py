"""`pliant bench planning`: time per iteration of every planner over the horizon, for the rod and
the cloth of [Zimmermann2021, Fig. 3], and with a goal at every step also for the Diamond of
[Menager2024].

Each case runs in its own process, so that its peak memory can be measured. An iteration includes
the derivatives, the step and the trial rollouts. The objective is that of the paper: final targets
of the tip or the corners, and the acceleration (and rate) of the joints. With a goal at every step,
the tip or the corners follow a line to these targets, and the Diamond follows its path through two
goals.
"""

import json
import os
import resource
import subprocess
import sys
import time
from collections.abc import Sequence
from dataclasses import replace
from typing import Any

import numpy as np

from pliant.bench.report import ONE_THREAD, Report
from pliant.core import Array, MissingExtra
from pliant.dynamics import SemiImplicit
from pliant.planners import (
    Options,
    Plan,
    collocation,
    ddp,
    evaluate,
    gauss_newton,
    gradient,
    newton,
)
from pliant.problem import Goal, Problem, paths
from pliant.zoo.experiments import diamond_two_goals, lay_cloth, pendulum, whip
from pliant.zoo.gripper_tasks import problem_of
from pliant.zoo.registry import find

STEPS = (20, 40, 80, 160)
DT = 0.025  # [s]
TIME_LIMIT = 400  # [s] for one case; only collocation on large bodies takes longer
METHODS: dict[str, Any] = {
    "gauss_newton": gauss_newton,
    "batch Gauss-Newton": lambda problem, options: newton(
        problem, options=options, second_order=False
    ),
    "batch Newton": newton,
    "ddp (iLQR)": ddp,
    "collocation": collocation,
    "gradient": gradient,
}
# with a goal at every step: the chosen route, and the route with a Jacobian row for each residual
PATH_METHODS: dict[str, Any] = {
    "gauss_newton": gauss_newton,
    "gauss_newton, all rows": lambda problem, options: gauss_newton(
        problem, options=options, route="adjoint"
    ),
    "ddp (iLQR)": ddp,
}
PATH_STEPS = (20, 40, 80, 160, 320, 640)
# largest horizon of a method; the exact Hessian grows with the cube of the horizon
MAX_STEPS = {"batch Newton": 40, "gauss_newton, all rows": 160}
# number of timed iterations of a method; 3 by default
TIMED_ITERATIONS = {
    "ddp (iLQR)": 1,
    "batch Newton": 1,
    "collocation": 1,
    "batch Gauss-Newton": 2,
    "gauss_newton, all rows": 1,
}

BODIES = {"pendulum": "pendulum-1", "rod": "whip-1", "strip": "cloth-thin", "cloth": "cloth-toss"}
PATH_BODIES = ("rod path", "cloth path", "diamond path")  # with a goal at every step
TASK_FACTORIES = {
    **pendulum.TASK_FACTORIES,
    **whip.TASK_FACTORIES,
    **lay_cloth.TASK_FACTORIES,
}


def methods(body: str) -> dict[str, Any]:
    """Return the methods that are measured on a body."""
    return PATH_METHODS if body in PATH_BODIES else METHODS


def problem(body: str, steps: int) -> Problem:
    """Return the problem of an experiment with another number of steps, and targets 5 cm from the
    rest position. They are so close that every method accepts its first trial, and an iteration is
    the same work for all. The table has no friction, which has no second derivatives."""
    if body == "diamond path":
        task = diamond_two_goals.task({"along": 19, "dt": 0.01, "steps": steps})
        terms = tuple(task.terms())
        return Problem(model=SemiImplicit(task.robot, dt=task.dt), steps=steps, terms=terms)
    if body in PATH_BODIES:
        return _with_paths(problem(body.removesuffix(" path"), steps))
    return _with_final_targets(body, steps)


def _with_paths(original: Problem) -> Problem:
    """Return the problem in which effectors follow lines to their final targets."""
    duration = original.steps * original.model.dt
    terms = [
        replace(term, target=_line(term.target, duration), time=None, weight=term.weight / duration)
        if isinstance(term, Goal)
        else term
        for term in original.terms
    ]
    return replace(original, terms=terms)


def _line(target: Any, duration: float) -> paths.Path:
    end = np.asarray(target, float)
    start = end - np.array([0.05, 0.0, 0.0])
    return paths.minimum_jerk([0.0, duration], np.array([start, end]))


def _with_final_targets(body: str, steps: int) -> Problem:
    settings = {**find(BODIES[body]).settings, "friction": 0.0}
    original = TASK_FACTORIES[BODIES[body]](settings)
    robot, time = original.robot, DT * steps
    ends = [name for name in robot.effectors if not name.endswith("grip")]
    goals = [
        Goal(
            effector=name,
            target=robot.effector_position(name, robot.body().rest) + np.array([0.05, 0.0, 0.0]),
            time=time,
            weight=100.0,
        )
        for name in ends
    ]
    task = replace(original, steps=steps, time=time, targets=goals, terms=lay_cloth.EFFORT)
    return problem_of(task, task.model)


def case(body: str, steps: int, method: str) -> dict[str, Any]:
    """Return the median CPU time [s] of an iteration of one method on one problem, that of a
    simulation, and the peak memory [MB] that planning added."""
    count, run = TIMED_ITERATIONS.get(method, 3), methods(body)[method]
    try:
        run(problem(body, 2), options=Options(iterations=1))  # compiles and warms up
        before = resource.getrusage(resource.RUSAGE_SELF).ru_maxrss
        measured, ends = problem(body, steps), []
        plan: Plan = run(
            measured,
            options=Options(
                iterations=count,
                tolerance=1e-14,
                progress=lambda *_: ends.append(time.process_time()),
            ),
        )
    except MissingExtra as error:
        return {"missing": str(error)}
    seconds = np.diff(ends)
    peak = resource.getrusage(resource.RUSAGE_SELF).ru_maxrss
    return {
        "seconds": float(np.median(seconds)),
        "simulation": simulation_seconds(measured, plan.controls),
        "iterations": len(seconds),
        "megabytes": (peak - before) / 1024.0,
        "cost": plan.cost,
    }


def simulation_seconds(problem: Problem, controls: Array) -> float:
    """Return the median CPU time [s] of three simulations."""
    times = []
    for _ in range(3):
        start = time.process_time()
        evaluate(problem, controls)
        times.append(time.process_time() - start)
    return float(np.median(times))


def cases(quick: bool, bodies: Sequence[str]) -> list[tuple[str, int, str]]:
    return [
        (body, n, method)
        for body in bodies
        for n in (PATH_STEPS if body in PATH_BODIES else STEPS)[: 2 if quick else None]
        for method in methods(body)
        if n <= MAX_STEPS.get(method, n)
    ]


def measure(
    quick: bool, bodies: Sequence[str] = ("rod", "cloth", *PATH_BODIES)
) -> list[dict[str, Any]]:
    """Measure every case in its own process, on one thread."""
    out = []
    bodies = [body for body in bodies if body in ("rod", "rod path")] if quick else bodies
    for body, steps, method in cases(quick, bodies):
        command = [sys.executable, "-m", "pliant.bench.planning", "case", body, str(steps), method]
        out.append({"body": body, "steps": steps, "method": method, **_run_in_process(command)})
    return out


def _run_in_process(command: list[str]) -> dict[str, Any]:
    """Return the numbers that a case printed, or its error."""
    try:
        child = subprocess.run(
            command,
            capture_output=True,
            text=True,
            env={**os.environ, **ONE_THREAD},
            timeout=TIME_LIMIT,
        )
    except subprocess.TimeoutExpired:
        return {"error": f"it exceeded the time limit of {TIME_LIMIT} s"}
    lines = child.stdout.strip().splitlines()
    return (
        json.loads(lines[-1])
        if not child.returncode and lines
        else {"error": (child.stderr.strip().splitlines() or ["no error message"])[-1]}
    )


def exponent(rows: list[dict[str, Any]], key: str) -> float:
    """Return the exponent with which a number grows with the horizon."""
    return float(
        np.polyfit(
            np.log([row["steps"] for row in rows]), np.log([max(row[key], 1e-9) for row in rows]), 1
        )[0]
    )


def report(numbers: list[dict[str, Any]]) -> Report:
    tables, notes = [], sorted({row["missing"] for row in numbers if "missing" in row})
    notes += [
        f"{row['method']} on the {row['body']} at {row['steps']} steps failed: {row['error']}"
        for row in numbers
        if "error" in row
    ]
    for body in dict.fromkeys(row["body"] for row in numbers):
        steps = sorted({row["steps"] for row in numbers if row["body"] == body})
        rows = []
        for method in methods(body):
            method_rows = [
                row
                for row in numbers
                if row["body"] == body and row["method"] == method and "seconds" in row
            ]
            at = {row["steps"]: row for row in method_rows}
            if method_rows:
                growth = [
                    f"{exponent(method_rows, 'seconds'):.2f}" if len(method_rows) > 1 else "-",
                    " / ".join(f"{row['megabytes']:.0f}" for row in method_rows),
                    " / ".join(f"{row['seconds'] / row['simulation']:.1f}" for row in method_rows),
                ]
                rows.append(
                    [
                        method,
                        *(f"{at[n]['seconds']:.3f}" if n in at else "-" for n in steps),
                        *growth,
                        _speedup(numbers, body, method),
                    ]
                )
        columns = [
            "method",
            *(f"{n} steps [s]" for n in steps),
            "exponent",
            "memory [MB] for each",
            "simulations per iteration",
            "speed-up of gauss_newton at 40 steps",
        ]
        name = body.replace(" path", ", a goal at every step")
        tables.append((f"Seconds per iteration, {name}", columns, rows))
    notes.append(
        "One thread and one process per case, one run. Times are CPU times of the process. Memory: "
        "the increase of the peak memory of the process by planning."
    )
    return Report(tables=tables, notes=notes, numbers=numbers)


def _speedup(numbers: list[dict[str, Any]], body: str, method: str) -> str:
    found = {
        row["method"]: row
        for row in numbers
        if row["body"] == body and row["steps"] == 40 and "seconds" in row
    }
    if method not in found or "gauss_newton" not in found:
        return "-"
    return f"{found[method]['seconds'] / found['gauss_newton']['seconds']:.1f}x"


if __name__ == "__main__":
    if sys.argv[1:2] == ["case"]:
        print(json.dumps(case(sys.argv[2], int(sys.argv[3]), sys.argv[4])))
    else:
        print(json.dumps(measure("quick" in sys.argv)))
