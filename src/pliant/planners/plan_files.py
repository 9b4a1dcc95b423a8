"""Plan files: plan.json and the .npy files of the large arrays in the same folder."""

import csv
import hashlib
import os
import re
from collections.abc import Collection, Mapping, Sequence
from dataclasses import asdict
from io import StringIO
from pathlib import Path
from typing import TYPE_CHECKING, Any

import numpy as np

from pliant.core import (
    Array,
    Dynamics,
    InputError,
    Space,
    Status,
    counted,
    finite_array,
    is_integer,
    quoted,
    require_number,
    require_positive,
)
from pliant.dynamics.simulation import simulate
from pliant.planners.iteration import Iteration
from pliant.planners.model_summary import ModelSummary, check_same_model
from pliant.store import check_path, content_key, read_json, write_json
from pliant.store.file_list import keep_files
from pliant.store.files import atomic_file, translate_read_errors, translate_write_errors

if TYPE_CHECKING:
    from pliant.planners.plan_result import Plan

FILE = "plan.json"
# The keys of plan.json equal the field names of Plan and ModelSummary. Renaming one needs a new
# VERSION.
FORMAT, VERSION = "pliant plan", 2


def plan_path(path: str | Path) -> Path:
    """Return the path of plan.json, given that path or its folder."""
    path = check_path("The path of a plan", path, "give the folder that plan.save wrote")
    if os.path.exists(path) and not os.path.isdir(path) and path.suffix != ".json":
        raise InputError(f"{path} is not a saved plan. Give the folder that plan.save wrote.")
    return path if path.suffix == ".json" else path / FILE


def header(
    model: ModelSummary, initial_state: Array, previous_control: Array, params: Any
) -> dict[str, Any]:
    """Return the part of plan.json that describes the problem."""
    return {
        "format": FORMAT,
        "version": VERSION,
        "robot": model.robot,
        "digest": model.digest,
        "dt": model.dt,
        "quasistatic": model.quasistatic,
        "names": model.names,
        "units": model.units,
        "effectors": model.effectors,
        "space": asdict(model.space),
        "params": None if params is None else np.asarray(params, float),
        "previous_control": previous_control,
        "initial_state": initial_state,
    }


def progress_content(
    method: str, controls: Array, cost: float | None, history: Sequence[Iteration], text: str
) -> dict[str, Any]:
    """Return the part of plan.json that describes the search so far."""
    return {
        "method": method,
        "status": text,
        "steps": len(controls),
        "cost": cost if cost is not None and np.isfinite(cost) else None,
        "history": [asdict(row) for row in history],
        "controls": controls,
    }


def write_plan(plan: "Plan", folder: str | Path) -> None:
    """Write a plan into a folder.

    The arrays, whose file names contain their digests, are written before plan.json. An earlier
    plan in the folder is readable until plan.json is replaced. The files belong to the user: a
    report that is later written into the folder does not replace them.
    """
    home, model = check_path("The folder of the plan", folder), _summary(plan)
    arrays = {"states": plan.states} | ({} if plan.gains is None else {"gains": plan.gains})
    digests = {name: _write_array(home, name, array) for name, array in arrays.items()}
    previous_control = plan.controls[0] if plan.previous_control is None else plan.previous_control
    content = {
        **header(model, plan.states[0], previous_control, plan.params),
        **progress_content(plan.method, plan.controls, plan.cost, plan.history, plan.status.text),
        "ok": plan.status.ok,
        "iterations": plan.status.iterations,
        "interrupted": plan.interrupted,
        "limit_violation": plan.limit_violation,
        "constraint_violation": plan.constraint_violation,
        "goal_errors": [list(error) for error in plan.goal_errors],
        "positions": dict(plan.positions),
        "notes": {name: note for name, note in plan.notes.items() if _is_json(name, note)},
        "arrays": digests,
    }
    write_json(home / FILE, content)
    files = {_array_file(*item) for item in digests.items()}
    _remove_arrays(home, files)
    keep_files(home, {FILE, *files})


def _summary(plan: "Plan") -> ModelSummary:
    if plan.model is None:
        raise InputError(
            "This plan has no model, so its numbers have no names and units. Make it with "
            "model=pl.planners.summarise(model)."
        )
    return plan.model


def _is_json(name: Any, note: Any) -> bool:
    try:
        content_key({name: note})
    except InputError:
        return False
    return True


class _Hash:
    """A writable file object that computes the SHA-256 digest of its bytes."""

    def __init__(self) -> None:
        self.sha = hashlib.sha256()

    def write(self, data: bytes) -> int:
        self.sha.update(data)
        return len(data)


def _write_array(folder: Path, name: str, array: Array) -> str:
    numbers, content = np.ascontiguousarray(array, "<f8"), _Hash()
    np.save(content, numbers, allow_pickle=False)
    digest = content.sha.hexdigest()
    with atomic_file(folder / _array_file(name, digest), numbers.nbytes) as file:
        np.save(file, numbers, allow_pickle=False)
    return digest


def _array_file(name: str, digest: str) -> str:
    return f"{name}-{digest[:8]}.npy"


def _remove_arrays(folder: Path, kept: Collection[str]) -> None:
    """Remove the arrays of plans that plan.json has replaced."""
    with translate_write_errors(folder, 0):
        for name in ("states", "gains"):
            for path in folder.glob(f"{name}-{8 * '[0-9a-f]'}.npy"):
                if path.name not in kept:
                    path.unlink()


def read_plan(path: str | Path, model: Dynamics | None) -> dict[str, Any]:
    """Return the fields of a saved Plan.

    With a model, states that were not saved are simulated. Raises InputError if the file is
    missing or damaged, or if the plan belongs to another model.
    """
    file = plan_path(path)
    if not os.path.exists(file):
        raise InputError(f"{file} does not exist. Give the folder that plan.save wrote.")
    raw = read_json(file)
    check_format(raw, file)
    try:
        fields = _fields(raw, file)
    except InputError:
        raise
    except (KeyError, TypeError, ValueError, OverflowError, AttributeError) as error:
        raise InputError(
            f"{file} is damaged ({type(error).__name__}: {str(error)[:80]}). Restore it from a "
            "copy, or plan again."
        ) from None
    if model is not None:
        check_same_model(fields["model"], model, file)
    steps, n = fields["controls"].shape
    arrays = raw.get("arrays", {})
    states = _read_array(file, "states", arrays, (steps + 1, fields["model"].space.size))
    if states is None:
        states = _simulated(file, fields, model)
    gains = _read_array(file, "gains", arrays, (steps, n, None))
    return {**fields, "states": states, "gains": gains}


def check_format(raw: Mapping[str, Any], file: Path) -> None:
    """Raise InputError if this version of Pliant cannot read the file."""
    if raw.get("method") == "drive" and "times" in raw:
        raise InputError(
            f"{file} is a recording of pliant drive. Read it with viewer.load_recording(folder), "
            "and make a plan with its plan(model)."
        )
    if raw.get("format") != FORMAT:
        raise InputError(
            f"{file} was not written by plan.save: it has no format name. Read its controls with "
            "planners.load_controls."
        )
    version = raw.get("version")
    if not is_integer(version) or version < 1:
        raise InputError(f"{file} has the version {str(version)[:40]!r}. Restore it from a copy.")
    if version < VERSION:
        raise InputError(
            f"{file} has version {version}, but this Pliant reads version {VERSION}. Read its "
            "controls with planners.load_controls, or plan again."
        )
    if version > VERSION:
        raise InputError(
            f"{file} has version {str(version)[:40]}, but this Pliant reads version {VERSION}. "
            "Install a newer Pliant."
        )


def _fields(raw: Mapping[str, Any], file: Path) -> dict[str, Any]:
    model = _model(raw, file)
    n = len(model.names)

    def array(key: str, shape: tuple[int | None, ...]) -> Array:
        return finite_array(f"'{key}' in {file}", raw[key], shape)

    controls = array("controls", (None, n))
    if not len(controls) or raw["steps"] != len(controls):
        raise InputError(
            f"{file} has {counted(len(controls), 'row')} of controls for {str(raw['steps'])[:40]} "
            "steps. Restore it from a copy."
        )
    positions = {
        name: finite_array(
            f"'positions' of '{name}' in {file}", raw["positions"][name], (len(controls) + 1, None)
        )
        for name in (model.effectors if "positions" in raw else ())
    }
    if any(at.shape[1] not in (1, 2, 3) for at in positions.values()):
        raise ValueError("positions have 1 to 3 coordinates")
    cost = raw["cost"]
    return {
        "method": str(raw["method"]),
        "controls": controls,
        "cost": np.inf if cost is None else _number("cost", cost, file),
        "status": Status(
            ok=raw.get("ok") is True,
            text=str(raw["status"]),
            iterations=int(raw.get("iterations", 0)),
        ),
        "history": read_history(raw["history"]),
        "goal_errors": tuple(
            (str(name), _number("goal_errors", time, file), _number("goal_errors", error, file))
            for name, time, error in raw.get("goal_errors", ())
        ),
        **{
            key: _number(key, raw.get(key, 0.0), file)
            for key in ("limit_violation", "constraint_violation")
        },
        "interrupted": raw.get("interrupted") is True,
        "notes": dict(raw.get("notes", {})),
        "model": model,
        "previous_control": array("previous_control", (n,)),
        "params": None if raw["params"] is None else array("params", (None,)),
        "positions": positions,
        "states": array("initial_state", (model.space.size,))[None],
    }


def _number(key: str, value: Any, file: Path) -> float:
    number = require_number(f"'{key}' in {file}", value, "")
    return float(finite_array(f"'{key}' in {file}", number, ()))


def read_history(rows: Any) -> tuple[Iteration, ...]:
    """Return the iterations of a saved plan."""
    made = [Iteration(**row) for row in rows]
    for row in made:
        finite_array("An iteration of a saved plan", list(asdict(row).values()), (6,))
    return tuple(made)


def _model(raw: Mapping[str, Any], file: Path) -> ModelSummary:
    names, units, effectors = (tuple(map(str, raw[key])) for key in ("names", "units", "effectors"))
    space = raw["space"]
    parts, sizes = tuple(map(str, space["parts"])), tuple(map(int, space["sizes"]))
    n_dofs, rate = int(space["n_dofs"]), tuple(map(float, space["rate"]))
    quaternions = tuple(map(str, space.get("quaternions", ())))  # none in older files
    if not names or len(units) != len(names) or min((*sizes, n_dofs)) < 0 or not parts:
        raise ValueError("names, units or space do not fit together")
    if any(dict(zip(parts, sizes, strict=True)).get(part) != 4 for part in quaternions):
        raise ValueError("a quaternion has 4 numbers")
    digest = raw["digest"]
    return ModelSummary(
        robot=str(raw["robot"]),
        digest=None if digest is None else str(digest),
        dt=require_positive(f"'dt' in {file}", raw["dt"], "s"),
        names=names,
        units=units,
        effectors=effectors,
        space=Space(parts=parts, n_dofs=n_dofs, rate=rate, sizes=sizes, quaternions=quaternions),
    )


def _simulated(file: Path, fields: Mapping[str, Any], model: Dynamics | None) -> Array:
    """Simulate the states of a plan that was saved before its search ended."""
    if model is None:
        raise InputError(
            f"{file} was written before the search ended, so it has no states. Give model=... to "
            "simulate them."
        )
    return simulate(model, fields["controls"], x0=fields["states"][0], p=fields["params"]).states


def _read_array(file: Path, name: str, digests: Any, shape: tuple[int | None, ...]) -> Array | None:
    """Return an array from its .npy file; None if plan.json does not list it.

    Raises InputError if the file is damaged or does not match its digest.
    """
    if not isinstance(digests, Mapping) or name not in digests:
        return None
    if not re.fullmatch("[0-9a-f]{64}", str(digests[name])):
        raise InputError(
            f"{file} is damaged: the digest of its {name} is {quoted(digests[name])}. Restore it "
            "from a copy, or plan again."
        )
    path = file.parent / _array_file(name, digests[name])
    with translate_read_errors(path), path.open("rb") as stream:
        found = hashlib.file_digest(stream, "sha256").hexdigest()
    if found != digests[name]:
        raise InputError(
            f"{path} does not belong to {file}: one of them is damaged or from another plan. "
            "Restore both from a copy, or plan again."
        )
    try:
        array = np.lib.format.open_memmap(path, mode="r")
        if array.dtype != np.dtype("<f8"):
            raise ValueError(f"its numbers are {array.dtype}")
    except Exception as error:  # damaged headers make NumPy raise almost anything
        raise InputError(
            f"{path} is not an array of numbers ({str(error)[:80]}). Restore it from a copy."
        ) from None
    return finite_array(f"The array in {path}", np.array(array), shape)


def plan_table(plan: "Plan") -> str:
    """Return a plan as CSV.

    Each row has the end time of a step, its controls and the effector positions at that time.
    """
    model, steps = _summary(plan), len(plan.controls)
    axes = [(name, k) for name, at in plan.positions.items() for k in range(at.shape[1])]
    out = StringIO()
    rows = csv.writer(out, lineterminator="\n")
    rows.writerow(
        [
            "step" if model.quasistatic else "time [s]",
            *model.columns,
            *(f"{name} {'xyz'[k]} [m]" for name, k in axes),
        ]
    )
    for i in range(steps):
        ends = i + 1 if model.quasistatic else model.dt * (i + 1)
        values = (float(plan.positions[name][i + 1, k]) for name, k in axes)
        rows.writerow([repr(x) for x in (ends, *plan.controls[i].tolist(), *values)])
    return out.getvalue()
