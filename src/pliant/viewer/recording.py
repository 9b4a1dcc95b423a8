"""Recording: what was commanded while a robot was driven; it is saved as a plan, replayed, and
exported for the motors."""

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
from pliant.planners.plan import plan_model
from pliant.planners.plan_files import FORMAT, plan_path
from pliant.problem import Goal, Problem
from pliant.robot import Robot
from pliant.store import read_json, remove, write_atomic, write_json

METHOD = "drive"
FASTEST = 60.0  # [Hz]
STEP = 6  # ticks for each step of a quasistatic plan
ROWS = ("times", "controls", "targets", "places")  # what each tick adds
PLAN, COMMANDS = "plan.json", "commands.csv"
PART, PARTS = "partial-{:06d}.json", "partial-*.json"  # of a recording under way


class RobotModel(Dynamics, Protocol):
    """A model that was made of a robot."""

    @property
    def robot(self) -> Robot: ...


@dataclass(frozen=True, kw_only=True, eq=False)
class Recording:
    """Tick by tick: the controls that were set, where the followed effectors were to be, and where
    they came."""

    robot: str
    names: tuple[str, ...]  # of the controls
    units: tuple[str, ...]
    effectors: tuple[str, ...]
    dt: (
        float | None
    )  # [s] of a tick of a dynamic robot; None: each tick is a quasistatic step at whatever time
    tick: (
        int  # the index in time of the first tick, which moving supports and changing loads look at
    )
    start: Array  # (n_state,) before the first tick
    before: Array  # (n_controls,) the controls that stood then
    times: Array  # (k,) [s] since the recording began
    controls: Array  # (k, n_controls)
    targets: Array  # (k, n_effectors, dim) [m]
    places: Array  # (k, n_effectors, dim) [m]
    digest: str | None = None  # of the robot, where a plan was saved with it

    @property
    def ticks(self) -> int:
        return len(self.times)

    @property
    def seconds(self) -> float:
        return float(self.times[-1]) if self.ticks else 0.0

    def row(self, k: int) -> tuple[Array, dict[str, Array]]:
        """((n_controls,) the controls of a tick, effector -> (dim,) [m] its target)."""
        return self.controls[k], dict(zip(self.effectors, self.targets[k], strict=True))

    def commands(self) -> str:
        """The commands of the actuators with their times, as CSV."""
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
        """What plan.json holds: a plan, whose controls `planners.load_controls` reads too, and what
        a replay needs beside."""
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
            "tick": self.tick,
            "start": self.start.tolist(),
            "before": self.before.tolist(),
            **self.rows(),
        }

    def rows(self) -> dict[str, Any]:
        """What each tick adds to plan.json."""
        return {
            "times": self.times.tolist(),
            "controls": self.controls.tolist(),
            "targets": self.targets.tolist(),
            "places": self.places.tolist(),
        }

    def save(self, folder: str | Path) -> None:
        """Write plan.json and commands.csv, in place of what was written while it was recorded."""
        write_json(Path(folder) / PLAN, self.content())
        write_atomic(Path(folder) / COMMANDS, self.commands())
        with suppress(PliantError):  # parts that stay do no harm
            remove(folder, PARTS)

    def plan(self, model: RobotModel) -> Plan:
        """The controls simulated from where the recording began, as a plan whose cost is how well
        the effectors followed."""
        if self.dt is not None and model.dt != self.dt:
            raise InputError(
                f"The recording has ticks of {self.dt:g} s and the model steps of {model.dt:g} "
                f"s; make it with dt={self.dt!r}."
            )
        if self.tick and model.robot.changes_in_time:
            raise InputError(
                "The recording began while supports or loads were moving, and a plan begins at "
                "time zero; record from a reset on, or replay it with pliant drive --replay."
            )
        goals = [
            Goal(effector=name, target=self.targets[:, e]) for e, name in enumerate(self.effectors)
        ]
        problem = Problem(
            model=model, steps=self.ticks, terms=goals, x0=self.start, before=self.before
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
            misses=tuple(problem.misses(run.states, run.controls)) if ok else (),
            excess=problem.excess(run.controls),
            **plan_model(problem, run.states),
        )


def _joined(parts: list[dict[str, Any]]) -> dict[str, Any]:
    """What plan.json would hold if the recording had ended with its last part."""
    return {**parts[0], **{key: [row for part in parts for row in part[key]] for key in ROWS}}


def load_recording(folder: str | Path) -> Recording:
    """Return a saved recording, the parts of one whose program was killed, or the motion of a saved
    plan. Raises InputError where the folder has none of them."""
    path = plan_path(folder)
    parts = [
        read_json(part)
        for part in ([path] if path.exists() else sorted(path.parent.glob(PARTS)) or [path])
    ]
    if parts[0].get("format") == FORMAT:
        return planned_recording(Plan.load(path))
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
            "places": (k, e, None),
            "start": (None,),
            "before": (n,),
        }
        arrays: dict[str, Any] = {
            key: finite_array(f"'{key}' in {path}", raw[key], shape)
            for key, shape in shapes.items()
        }
        units, dt, tick = (
            tuple(map(str, raw["units"])),
            None if raw["dt"] is None else float(raw["dt"]),
            int(raw["tick"]),
        )
        sound = (
            len(units) == n
            and e
            and k
            and tick >= 0
            and (dt is None or 0.0 < dt < inf)
            and arrays["targets"].shape[2] in (2, 3)
        )
        if (
            not sound
            or arrays["places"].shape != arrays["targets"].shape
            or (np.diff(arrays["times"], prepend=0.0) < 0.0).any()
        ):
            raise ValueError
        return Recording(
            robot=str(raw["robot"]),
            names=names,
            units=units,
            effectors=effectors,
            dt=dt,
            tick=tick,
            **arrays,
        )
    except (KeyError, TypeError, ValueError, OverflowError):
        raise InputError(
            f"{path} is not a recording of pliant drive or a saved plan. Record one with --record "
            "FOLDER, or save a plan with plan.save(FOLDER)."
        ) from None


def planned_recording(plan: Plan) -> Recording:
    """Return a plan as a recording, in ticks of 1/60 s: its controls, with the planned positions of
    the effectors as targets. A step of a quasistatic plan takes STEP ticks, on which the controls
    change linearly; the controls of a dynamic plan are held for its own time step."""
    model = plan.model
    if model is None or not plan.positions:
        raise InputError(
            "This plan has no effector that a replay could show. Plan for a robot with effectors."
        )
    steps, tick = len(plan.controls), 1.0 / FASTEST
    before = plan.controls[0] if plan.before is None else plan.before
    seconds = steps * (STEP * tick if model.quasistatic else model.dt)
    times = tick * np.arange(1, max(1, round(seconds * FASTEST)) + 1)
    at = times * steps / seconds  # the end of each tick, in steps
    start = plan.states[0]
    if model.quasistatic:
        controls = _interpolated(at, np.vstack([before, plan.controls]))
    else:
        controls = plan.controls[np.clip((at - 0.5 * at[0]).astype(int), 0, steps - 1)]
        start = np.concatenate([model.space.position(start), model.space.velocity(start)])
    places = np.stack([_interpolated(at, plan.positions[name]) for name in model.effectors], axis=1)
    return Recording(
        robot=model.robot,
        names=model.names,
        units=model.units,
        effectors=model.effectors,
        dt=None if model.quasistatic else tick,
        tick=0,
        start=start,
        before=before,
        times=times,
        controls=controls,
        targets=places,
        places=places,
        digest=model.digest,
    )


def _interpolated(at: Array, rows: Array) -> Array:
    """Return (len(at), n) rows (k, n) between their indices, linearly."""
    return np.stack([np.interp(at, np.arange(len(rows)), row) for row in rows.T], axis=1)
