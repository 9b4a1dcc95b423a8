"""Time per iteration of every planner against the horizon, on the rod and the cloth of
[Zimmermann2021, Fig. 3].

Each case runs in a process of its own, so that its peak memory is its own. An iteration is
everything between two accepted runs: derivatives, the step and the trial runs. The objective is the
paper's: targets of the tip or the corners at the end, and the acceleration (and rate) of the
joints.
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
PATIENCE = 200  # [s] for one case; only collocation on large bodies takes longer
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
LIMITS = {
    "batch Newton": 40
}  # longer horizons of the exact Hessian take many minutes and gigabytes, and only show the cube
COUNTED = {
    "ddp (iLQR)": 1,
    "batch Newton": 1,
    "collocation": 1,
    "batch Gauss-Newton": 2,
}  # iterations that are timed; 3 by default


BODIES = {"pendulum": "pendulum-1", "rod": "whip-1", "strip": "cloth-thin", "cloth": "cloth-toss"}
MAKERS = {**pendulum.MAKERS, **whip.MAKERS, **lay_cloth.MAKERS}


def problem(body: str, steps: int) -> Problem:
    """An experiment's body with another number of steps of the same length, and targets 5 cm ahead
    of where it hangs: near enough for every method's first trial to be accepted, so that an
    iteration is the same work for all."""
    made = MAKERS[BODIES[body]](find(BODIES[body]).settings)
    robot, time = made.robot, DT * steps
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
    task = replace(made, steps=steps, time=time, targets=goals, terms=lay_cloth.EFFORT)
    return problem_of(task, task.model)


def case(body: str, steps: int, method: str) -> dict[str, Any]:
    """One method on one problem: seconds an iteration (median) and the memory that planning added
    at its peak."""
    count = COUNTED.get(method, 3)
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
        if n <= LIMITS.get(method, n)
    ]


def measure(quick: bool, bodies: Sequence[str] = ("rod", "cloth")) -> list[dict[str, Any]]:
    """Every case in a process of its own, on one thread."""
    out = []
    for body, steps, method in cases(quick, bodies[:1] if quick else bodies):
        words = [sys.executable, "-m", "pliant.bench.planning", "case", body, str(steps), method]
        out.append({"body": body, "steps": steps, "method": method, **_child(words)})
    return out


def _child(words: list[str]) -> dict[str, Any]:
    """What a case printed, or why it did not."""
    try:
        child = subprocess.run(
            words,
            capture_output=True,
            text=True,
            env={**os.environ, **ONE_THREAD},
            timeout=PATIENCE,
        )
    except subprocess.TimeoutExpired:
        return {"error": f"it took over {PATIENCE} s"}
    said = child.stdout.strip().splitlines()
    return (
        json.loads(said[-1])
        if not child.returncode and said
        else {"error": (child.stderr.strip().splitlines() or ["stopped"])[-1]}
    )


def exponent(rows: list[dict[str, Any]], key: str) -> float:
    """The growth of a number with the horizon, as a power."""
    return float(
        np.polyfit(
            np.log([row["steps"] for row in rows]), np.log([max(row[key], 1e-9) for row in rows]), 1
        )[0]
    )


def report(numbers: list[dict[str, Any]]) -> Report:
    tables, notes = [], sorted({row["missing"] for row in numbers if "missing" in row})
    notes += [
        f"{row['method']} on the {row['body']} at {row['steps']} steps stopped: {row['error']}"
        for row in numbers
        if "error" in row
    ]
    steps = sorted({row["steps"] for row in numbers})
    for body in dict.fromkeys(row["body"] for row in numbers):
        rows = []
        for method in METHODS:
            mine = [
                row
                for row in numbers
                if row["body"] == body and row["method"] == method and "seconds" in row
            ]
            at = {row["steps"]: row for row in mine}
            if mine:
                grown = [
                    f"{exponent(mine, 'seconds'):.2f}" if len(mine) > 1 else "-",
                    " / ".join(f"{row['megabytes']:.0f}" for row in mine),
                ]
                rows.append(
                    [
                        method,
                        *(f"{at[n]['seconds']:.3f}" if n in at else "-" for n in steps),
                        *grown,
                        _ahead(numbers, body, method),
                    ]
                )
        columns = [
            "method",
            *(f"{n} steps [s]" for n in steps),
            "exponent",
            "memory [MB] at each",
            "gauss_newton ahead at 40",
        ]
        tables.append((f"Seconds an iteration, {body}", columns, rows))
    notes.append(
        "One thread each, one run, a process for each case. Memory: what planning added to the "
        "process at its peak."
    )
    return Report(tables=tables, notes=notes, numbers=numbers)


def _ahead(numbers: list[dict[str, Any]], body: str, method: str) -> str:
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
