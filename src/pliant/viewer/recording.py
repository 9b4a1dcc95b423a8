"""Recordings of a driven robot. They can be replayed, saved as plans, and exported as actuator
commands."""

import csv
from contextlib import suppress
from dataclasses import dataclass
from io import StringIO
from math import inf
from pathlib import Path
from typing import Any, Protocol

import numpy as np

from pliant.core import Array, Dynamics, InputError, PliantError, Status, finite_array
from pliant.planners import Iteration, Plan, evaluate
from pliant.planners.plan_files import FORMAT, plan_path
from pliant.planners.plan_result import plan_model_fields
from pliant.problem import Goal, Problem
from pliant.robot import Robot
from pliant.store import read_json, remove_files, write_atomic, write_json

METHOD = "drive"
CONTROL_RATE = 60.0  # [Hz] of control steps
CONTROL_STEPS_PER_PLAN_STEP = 6  # of a quasistatic plan, which has no time scale
ROWS = ("times", "controls", "targets", "positions")  # one entry for each control step
PLAN, COMMANDS = "plan.json", "commands.csv"
PART_NAME, PART_PATTERN = (
    "partial-{:06d}.json",
    "partial-*.json",
)  # of a recording that has not ended


class RobotDynamics(Dynamics, Protocol):
    """A model of a robot."""

    @property
    def robot(self) -> Robot: ...


@dataclass(frozen=True, kw_only=True, eq=False)
class Recording:
    """The controls, targets and positions of the active effectors at each control step."""

    robot: str
    names: tuple[str, ...]  # of the controls
    units: tuple[str, ...]
    effectors: tuple[str, ...]
    dt: float | None  # [s] control period of a dynamic model; None: quasistatic
    first_step: int  # time index of the first control step, for moving supports and loads
    start: Array  # (n_state,) before the first control step
    previous_control: Array  # (n_controls,) before the first control step
    times: Array  # (k,) [s] since the start of the recording
    controls: Array  # (k, n_controls)
    targets: Array  # (k, n_effectors, dim) [m]
    positions: Array  # (k, n_effectors, dim) [m]
    digest: str | None = None  # of the robot, if the recording was made from a plan

    @property
    def n_steps(self) -> int:
        return len(self.times)

    @property
    def seconds(self) -> float:
        return float(self.times[-1]) if self.n_steps else 0.0

    def row(self, k: int) -> tuple[Array, dict[str, Array]]:
        """Return the controls (n_controls,) and the targets effector -> (dim,) [m] of step k."""
        return self.controls[k], dict(zip(self.effectors, self.targets[k], strict=True))

    def commands(self) -> str:
        """Return the times and actuator commands as CSV."""
        out = StringIO()
        rows = csv.writer(out, lineterminator="\n")
        rows.writerow(
            [
                "time [s]",
                *(f"{name} [{unit}]" for name, unit in zip(self.names, self.units, strict=True)),
            ]
        )
        rows.writerows(
            [f"{t:.6f}", *map(repr, u)]
            for t, u in zip(self.times.tolist(), self.controls.tolist(), strict=True)
        )
        return out.getvalue()

    def content(self) -> dict[str, Any]:
        """Return the content of plan.json: a plan that `planners.load_controls` can read, and the
        data for a replay."""
        return {
            "method": METHOD,
            "cost": None,
            "status": f"driven for {self.seconds:.2f} s",
            "history": [],
            "robot": self.robot,
            "names": list(self.names),
            "units": list(self.units),
            "effectors": list(self.effectors),
            "dt": self.dt,
            "first_step": self.first_step,
            "start": self.start.tolist(),
            "previous_control": self.previous_control.tolist(),
            **self.rows(),
        }

    def rows(self) -> dict[str, Any]:
        """Return the entries of plan.json that grow with each control step."""
        return {
            "times": self.times.tolist(),
            "controls": self.controls.tolist(),
            "targets": self.targets.tolist(),
            "positions": self.positions.tolist(),
        }

    def save(self, folder: str | Path) -> None:
        """Write plan.json and commands.csv, and remove the parts written during the recording."""
        write_json(Path(folder) / PLAN, self.content())
        write_atomic(Path(folder) / COMMANDS, self.commands())
        with suppress(PliantError):  # remaining parts do no harm
            remove_files(folder, PART_PATTERN)

    def plan(self, model: RobotDynamics) -> Plan:
        """Simulate the controls from the initial state and return a plan. Its cost measures the
        tracking error. Raises `InputError` if the model does not fit the recording."""
        if self.dt is not None and model.dt != self.dt:
            raise InputError(
                f"The recording has a control period of {self.dt:g} s and the model a time step "
                f"of {model.dt:g} s; create the model with dt={self.dt!r}."
            )
        if self.first_step and model.robot.is_time_dependent:
            raise InputError(
                "The recording started while supports or loads were moving, but a plan starts at "
                "time zero. Record after a reset, or replay it with pliant drive --replay."
            )
        goals = [
            Goal(effector=name, target=self.targets[:, e]) for e, name in enumerate(self.effectors)
        ]
        problem = Problem(
            model=model,
            steps=self.n_steps,
            terms=goals,
            x0=self.start,
            previous_control=self.previous_control,
        )
        run = evaluate(problem, self.controls, keep=False)
        ok, text = not run.failed, run.failed or f"driven for {self.seconds:.2f} s"
        history = (Iteration(cost=run.cost, step=0.0, regulariser=0.0, seconds=self.seconds),)
        return Plan(
            method=METHOD,
            controls=run.controls,
            states=run.states,
            cost=run.cost,
            status=Status(ok=ok, text=text),
            history=history,
            goal_errors=tuple(problem.goal_errors(run.states, run.controls)) if ok else (),
            limit_violation=problem.limit_violation(run.controls),
            **plan_model_fields(problem, run.states),
        )


def _joined(parts: list[dict[str, Any]]) -> dict[str, Any]:
    """Return the content of plan.json from the parts of a recording that did not end."""
    return {**parts[0], **{key: [row for part in parts for row in part[key]] for key in ROWS}}


def load_recording(folder: str | Path) -> Recording:
    """Return a saved recording, the saved parts of an interrupted one, or the motion of a saved
    plan. Raises `InputError` if the folder has none of them."""
    path = plan_path(folder)
    parts = [
        read_json(part)
        for part in ([path] if path.exists() else sorted(path.parent.glob(PART_PATTERN)) or [path])
    ]
    if parts[0].get("format") == FORMAT:
        return recording_from_plan(Plan.load(path))
    try:
        raw = _joined(parts)
        names, effectors, k = (
            tuple(map(str, raw["names"])),
            tuple(map(str, raw["effectors"])),
            len(raw["times"]),
        )
        n, e = len(names), len(effectors)
        shapes: dict[str, tuple[int | None, ...]] = {
            "times": (k,),
            "controls": (k, n),
            "targets": (k, e, None),
            "positions": (k, e, None),
            "start": (None,),
            "previous_control": (n,),
        }
        arrays: dict[str, Any] = {
            key: finite_array(f"'{key}' in {path}", raw[key], shape)
            for key, shape in shapes.items()
        }
        units, dt, first_step = (
            tuple(map(str, raw["units"])),
            None if raw["dt"] is None else float(raw["dt"]),
            int(raw["first_step"]),
        )
        valid = (
            len(units) == n
            and e
            and k
            and first_step >= 0
            and (dt is None or 0.0 < dt < inf)
            and arrays["targets"].shape[2] in (2, 3)
        )
        if (
            not valid
            or arrays["positions"].shape != arrays["targets"].shape
            or (np.diff(arrays["times"], prepend=0.0) < 0.0).any()
        ):
            raise ValueError
        return Recording(
            robot=str(raw["robot"]),
            names=names,
            units=units,
            effectors=effectors,
            dt=dt,
            first_step=first_step,
            **arrays,
        )
    except (KeyError, TypeError, ValueError, OverflowError):
        raise InputError(
            f"{path} is not a recording of pliant drive or a saved plan. Record one with --record "
            "FOLDER, or save a plan with plan.save(FOLDER)."
        ) from None


def recording_from_plan(plan: Plan) -> Recording:
    """Return a plan as a recording with the planned effector positions as targets.

    Each step of a quasistatic plan takes CONTROL_STEPS_PER_PLAN_STEP control steps with linearly
    interpolated controls. The controls of a dynamic plan are constant during its time step.
    """
    model = plan.model
    if model is None or not plan.positions:
        raise InputError(
            "This plan has no effector to show in a replay. Plan for a robot with effectors."
        )
    steps, period = len(plan.controls), 1.0 / CONTROL_RATE
    previous = plan.controls[0] if plan.previous_control is None else plan.previous_control
    seconds = steps * (CONTROL_STEPS_PER_PLAN_STEP * period if model.quasistatic else model.dt)
    times = period * np.arange(1, max(1, round(seconds * CONTROL_RATE)) + 1)
    at = times * steps / seconds  # end of each control step, in plan steps
    start = plan.states[0]
    if model.quasistatic:
        controls = _interpolated(at, np.vstack([previous, plan.controls]))
    else:
        controls = plan.controls[np.clip((at - 0.5 * at[0]).astype(int), 0, steps - 1)]
        start = np.concatenate([model.space.position(start), model.space.velocity(start)])
    positions = np.stack(
        [_interpolated(at, plan.positions[name]) for name in model.effectors], axis=1
    )
    return Recording(
        robot=model.robot,
        names=model.names,
        units=model.units,
        effectors=model.effectors,
        dt=None if model.quasistatic else period,
        first_step=0,
        start=start,
        previous_control=previous,
        times=times,
        controls=controls,
        targets=positions,
        positions=positions,
        digest=model.digest,
    )


def _interpolated(at: Array, rows: Array) -> Array:
    """Interpolate rows (k, n) linearly at fractional indices `at`; return (len(at), n)."""
    return np.stack([np.interp(at, np.arange(len(rows)), row) for row in rows.T], axis=1)
