"""`pliant bench planning`: time per iteration of every planner over the horizon, for the rod and
the cloth of [Zimmermann2021, Fig. 3].

Each case runs in its own process, so that its peak memory can be measured. An iteration includes
the derivatives, the step and the trial rollouts. The objective is that of the paper: final targets
of the tip or the corners, and the acceleration (and rate) of the joints.
"""

import json
import os
import resource
import subprocess
import sys
from collections.abc import Sequence
from dataclasses import replace
from typing import Any

import numpy as np

from pliant.bench.report import ONE_THREAD, Report
from pliant.core import MissingExtra
from pliant.planners import Options, Plan, collocation, ddp, gauss_newton, gradient, newton
from pliant.problem import Goal, Problem
from pliant.zoo.experiments import lay_cloth, pendulum, whip
from pliant.zoo.gripper_tasks import problem_of
from pliant.zoo.registry import find

STEPS = (20, 40, 80, 160)
DT = 0.025  # [s]
TIME_LIMIT = 200  # [s] for one case; only collocation on large bodies takes longer
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
# largest horizon of a method; the exact Hessian grows with the cube of the horizon
MAX_STEPS = {"batch Newton": 40}
# number of timed iterations of a method; 3 by default
TIMED_ITERATIONS = {
    "ddp (iLQR)": 1,
    "batch Newton": 1,
    "collocation": 1,
    "batch Gauss-Newton": 2,
}

BODIES = {"pendulum": "pendulum-1", "rod": "whip-1", "strip": "cloth-thin", "cloth": "cloth-toss"}
TASK_FACTORIES = {
    **pendulum.TASK_FACTORIES,
    **whip.TASK_FACTORIES,
    **lay_cloth.TASK_FACTORIES,
}


def problem(body: str, steps: int) -> Problem:
    """Return the problem of an experiment with another number of steps, and targets 5 cm from the
    rest position. They are so close that every method accepts its first trial, and an iteration is
    the same work for all. The table has no friction, which has no second derivatives."""
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
    """Return the median time [s] of an iteration of one method on one problem, and the peak memory
    [MB] that planning added."""
    count = TIMED_ITERATIONS.get(method, 3)
    try:
        METHODS[method](problem(body, 2), options=Options(iterations=1))  # compiles and warms up
        before = resource.getrusage(resource.RUSAGE_SELF).ru_maxrss
        plan: Plan = METHODS[method](
            problem(body, steps), options=Options(iterations=count, tolerance=1e-14)
        )
    except MissingExtra as error:
        return {"missing": str(error)}
    seconds = np.diff([row.seconds for row in plan.history])
    peak = resource.getrusage(resource.RUSAGE_SELF).ru_maxrss
    return {
        "seconds": float(np.median(seconds)),
        "iterations": len(seconds),
        "megabytes": (peak - before) / 1024.0,
        "cost": plan.cost,
    }


def cases(quick: bool, bodies: Sequence[str]) -> list[tuple[str, int, str]]:
    steps = STEPS[:2] if quick else STEPS
    return [
        (body, n, method)
        for body in bodies
        for n in steps
        for method in METHODS
        if n <= MAX_STEPS.get(method, n)
    ]


def measure(quick: bool, bodies: Sequence[str] = ("rod", "cloth")) -> list[dict[str, Any]]:
    """Measure every case in its own process, on one thread."""
    out = []
    for body, steps, method in cases(quick, bodies[:1] if quick else bodies):
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
    steps = sorted({row["steps"] for row in numbers})
    for body in dict.fromkeys(row["body"] for row in numbers):
        rows = []
        for method in METHODS:
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
            "speed-up of gauss_newton at 40 steps",
        ]
        tables.append((f"Seconds per iteration, {body}", columns, rows))
    notes.append(
        "One thread and one process per case, one run. Memory: the increase of the peak memory of "
        "the process by planning."
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
