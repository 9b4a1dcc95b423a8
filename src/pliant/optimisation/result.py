"""OptimisationResult: the best variables, the history and the files of an optimisation."""

from collections.abc import Mapping
from dataclasses import asdict, dataclass, field, replace
from pathlib import Path
from typing import Any, Self

import numpy as np

from pliant.core import Array, InputError, Status, finite_array, quoted
from pliant.optimisation.methods import Iterate
from pliant.optimisation.objective import Objective
from pliant.optimisation.states import OptimiserState
from pliant.result_reports import notebook_html, write_report
from pliant.store.array_checkpoints import CheckpointKind, read_checkpoint, write_checkpoint

OPTIMISATION = CheckpointKind(noun="optimisation", writer="optimise(...)", again="optimise again")
INTERRUPTED = "interrupted; these are the best variables so far, continue with resume"
VALUES, STATE = "values.", "state."  # prefixes of array names
MAX_KEPT = 50  # variables that the history keeps for each iteration; it is written as text


@dataclass(frozen=True, kw_only=True)
class OptimisationRow:
    """One iteration of an optimisation."""

    value: float  # infinite if the simulation failed
    gradient_norm: float  # largest entry of the projected gradient; NaN: unknown
    step: float  # largest change of a variable
    constraint_violation: float
    simulations: float  # so far; an adjoint counts as one more
    seconds: float  # since the start
    failed: str = ""  # why the simulation failed
    z: tuple[float, ...] = ()  # the scaled variables; empty if they are more than MAX_KEPT


@dataclass(frozen=True, kw_only=True, eq=False)
class OptimisationResult:
    """The result of `optimise`: the best variables and the history.

    `save` and `load` store it in a folder, `report` writes a page with plots of the convergence.
    """

    method: str
    values: Mapping[str, Array]  # name -> array, in physical units for a Problem
    z: Array  # (n,) the best scaled variables
    history: tuple[OptimisationRow, ...]  # row 0 is the start
    status: Status
    best: Iterate
    last: Iterate  # of the last iteration
    identity: Mapping[str, Any]  # method, settings, start and objective, as JSON types
    state: OptimiserState  # of the last iteration, to continue
    interrupted: bool = False
    notes: Mapping[str, Any] = field(default_factory=dict)  # further results of the method
    objective: Objective | None = None  # None: loaded

    def __repr__(self) -> str:
        return f"<OptimisationResult {self.summary()}>"

    def _repr_html_(self) -> str:
        return notebook_html(self)

    @property
    def value(self) -> float:
        """The value of the best variables."""
        return self.best.value

    @property
    def simulations(self) -> float:
        """Number of simulated trajectories; an adjoint counts as one more."""
        return self.history[-1].simulations

    def summary(self) -> str:
        """Return the method, status and value in one line."""
        violation = f", violation {self.best.violation:.2g}" if self.best.violation else ""
        return f"{self.method}: {self.status.text} (value {self.best.value:.6g}{violation})"

    def show(self) -> None:
        """Print the summary and the history."""
        print(self.summary())
        for k, row in enumerate(self.history):
            print(
                f"iteration {k}: value {row.value:.6g}, gradient {row.gradient_norm:.3g}, "
                f"step {row.step:.3g}, {row.simulations:g} simulations, {row.seconds:.1f} s"
            )

    def report(self, folder: str | Path, *, title: str | None = None, small: bool = False) -> Path:
        """Write report.html with plots of the convergence, the optimisation and result.json into a
        folder. Return the path of the page."""
        return write_report(self, folder, title=title, small=small)

    # Files

    def save(self, folder: str | Path) -> None:
        """Write optimisation.json and the arrays (safetensors) into a folder, for `load` and for
        `optimise(..., resume=True)`."""
        content = {
            "identity": dict(self.identity),
            "ok": self.status.ok,
            "status": self.status.text,
            "interrupted": self.interrupted,
            "notes": dict(self.notes),
            "history": [plain_row(row) for row in self.history],
            "best": _plain_iterate(self.best),
            "last": _plain_iterate(self.last),
            "state": {name: _number(value) for name, value in self.state.values.items()},
        }
        arrays = {"best": self.z, "last": self.last.z}
        arrays |= {f"{VALUES}{name}": np.asarray(part) for name, part in self.values.items()}
        arrays |= {f"{STATE}{name}": part for name, part in self.state.arrays.items()}
        write_checkpoint(OPTIMISATION, folder, content, arrays)

    @classmethod
    def load(cls, folder: str | Path) -> Self:
        """Return the optimisation that `save` or `optimise(..., folder=...)` wrote.

        Raises InputError if a file is missing or damaged.
        """
        file, content, arrays = read_checkpoint(OPTIMISATION, folder)
        try:
            return cls(**_fields(content, arrays, str(file)))
        except InputError:
            raise
        except KeyError as error:
            raise OPTIMISATION.damaged(file, f"it has no {quoted(error.args[0])}") from None
        except (TypeError, ValueError, OverflowError, AttributeError):
            raise OPTIMISATION.damaged(file, "an entry has the wrong type or size") from None


def _fields(content: Mapping[str, Any], arrays: Mapping[str, Array], where: str) -> dict[str, Any]:
    """Return the fields of a saved optimisation."""
    z = finite_array(f"'best' in {where}", arrays["best"], (None,))
    last = finite_array(f"'last' in {where}", arrays["last"], z.shape)
    history = tuple(read_row(row) for row in content["history"])
    if not history:
        raise OPTIMISATION.damaged(where, "its history is empty")
    identity, notes = content["identity"], content["notes"]
    if not isinstance(identity, dict) or not isinstance(notes, dict):
        raise OPTIMISATION.damaged(where, "its identity or notes are no objects")
    return {
        "method": str(identity["method"]),
        "values": _with_prefix(arrays, VALUES),
        "z": z,
        "history": history,
        "status": Status(
            ok=content["ok"] is True, text=str(content["status"]), iterations=len(history) - 1
        ),
        "best": _iterate(content["best"], z),
        "last": replace(_iterate(content["last"], last), notes=notes),
        "identity": identity,
        "state": OptimiserState(
            arrays=_with_prefix(arrays, STATE),
            values={name: _read_number(value) for name, value in content["state"].items()},
        ),
        "interrupted": content["interrupted"] is True,
        "notes": notes,
    }


def _with_prefix(arrays: Mapping[str, Array], prefix: str) -> dict[str, Array]:
    return {
        name.removeprefix(prefix): array
        for name, array in arrays.items()
        if name.startswith(prefix)
    }


def _number(value: float) -> Any:
    """Return a number as JSON, which has no infinite numbers and no NaN."""
    return value if np.isfinite(value) else str(value)


def _read_number(value: Any) -> Any:
    return float(value) if value in ("inf", "-inf", "nan") else value


def plain_row(row: OptimisationRow) -> dict[str, Any]:
    """Return a row of the history as JSON types."""
    return {
        name: value if isinstance(value, str | tuple) else _number(value)
        for name, value in asdict(row).items()
    }


def read_row(row: Mapping[str, Any]) -> OptimisationRow:
    """Return what `plain_row` wrote."""
    numbers = {name: float(value) for name, value in row.items() if name not in ("failed", "z")}
    z = tuple(float(value) for value in row.get("z", ()))
    return OptimisationRow(**numbers, failed=str(row["failed"]), z=z)


def _plain_iterate(iterate: Iterate) -> dict[str, Any]:
    return {
        "value": _number(iterate.value),
        "gradient_norm": _number(iterate.gradient_norm),
        "step": iterate.step,
        "violation": _number(iterate.violation),
        "failed": iterate.failed,
        "finished": iterate.finished,
        "converged": iterate.converged,
    }


def _iterate(saved: Mapping[str, Any], z: Array) -> Iterate:
    return Iterate(
        z=z,
        value=float(saved["value"]),
        gradient_norm=float(saved["gradient_norm"]),
        step=float(saved["step"]),
        violation=float(saved["violation"]),
        failed=str(saved["failed"]),
        finished=str(saved["finished"]),
        converged=saved["converged"] is True,
    )
