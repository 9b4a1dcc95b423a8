"""Fit: the result of an identification, and its files."""

from collections.abc import Mapping
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any, Self

import numpy as np

from pliant.core import Array, Dynamics, InputError, Status, quoted
from pliant.design.estimates import Estimate, Estimates
from pliant.design.fit_files import FIT, fit_content, fit_fields
from pliant.design.fit_objective import OFFSET
from pliant.design.residuals import Prediction
from pliant.design.shape_model import ShapeModel
from pliant.dynamics import Rollout
from pliant.optimisation import OptimisationRow
from pliant.planners.model_summary import different_parts, summarise
from pliant.result_reports import notebook_html, write_report
from pliant.robot import Robot, robot_with
from pliant.store.array_checkpoints import read_checkpoint, write_checkpoint

Values = Mapping[str, float | Array]


@dataclass(frozen=True, kw_only=True, eq=False)
class Fit:
    """The result of `identify`: fitted values with their 95 % intervals, and predictions.

    Quantities by name are numbers, or arrays (n,) for fields with a value for each cell. `save` and
    `load` store the fit in a folder, `report` writes a page with tables and plots.
    """

    method: str
    settings: Mapping[str, Any]  # of the method, as JSON types
    estimates: Estimates
    params: Array  # (n_params,) of the model, with the fitted values
    predictions: tuple[Prediction, ...]  # of the measurements that were fitted
    held_out: tuple[Prediction, ...]  # of measurements that were not
    history: tuple[OptimisationRow, ...]  # row 0 is the start
    status: Status
    notes: tuple[str, ...]  # warnings about the fit
    identity: Mapping[str, Any]  # of the model, as JSON types
    seed: int = 0
    interrupted: bool = False
    model: Dynamics | None = None  # None: loaded without one
    motion: Rollout | None = field(default=None, repr=False)  # of the first measurement

    def __repr__(self) -> str:
        return f"<Fit of {self.identity['robot']}: {self.summary()}>"

    def _repr_html_(self) -> str:
        return notebook_html(self)

    # Values

    @property
    def variables(self) -> tuple[Estimate, ...]:
        """The fitted variables, without the time offsets."""
        return tuple(one for one in self.estimates.items if not _is_offset(one))

    @property
    def values(self) -> Values:
        """The fitted values by name, in the units of the parameters."""
        return {one.name: _plain(one.value) for one in self.variables}

    @property
    def start(self) -> Values:
        """The values before the fit."""
        return {one.name: _plain(one.start) for one in self.variables}

    @property
    def intervals(self) -> Mapping[str, Any]:
        """The 95 % intervals by name: (lower, upper), or an array (n, 2) for a field.

        The interval of a variable with a logarithmic scale is the exponential of that of its
        logarithm. It ends at the bounds of the variable."""
        return {one.name: _ends(one.interval) for one in self.estimates.items}

    @property
    def iterates(self) -> Mapping[str, Array]:
        """The values by name in each iteration, (k + 1, n) with the start in row 0; no rows for
        fits with more than 50 variables."""
        return {one.name: one.iterates for one in self.variables}

    @property
    def deviations(self) -> Values:
        """The standard deviations by name; infinite where the data say nothing."""
        return {one.name: _plain(one.deviation) for one in self.estimates.items}

    @property
    def units(self) -> Mapping[str, str]:
        return {one.name: one.unit for one in self.estimates.items}

    @property
    def offsets(self) -> Mapping[str, float]:
        """The fitted time offset [s] of each recording."""
        return {
            one.name.removeprefix(f"{OFFSET}[").removesuffix("]"): float(one.value[0])
            for one in self.estimates.items
            if _is_offset(one)
        }

    @property
    def names(self) -> tuple[str, ...]:
        """The names of the rows of `correlation`."""
        return self.estimates.names

    @property
    def correlation(self) -> Array | None:
        """The correlations (n, n) of the variables; None if intervals were not asked for."""
        return self.estimates.correlation

    @property
    def undetermined(self) -> tuple[str, ...]:
        """Sentences that name the parameters that the data cannot tell apart."""
        return self.estimates.undetermined

    @property
    def simulations(self) -> float:
        """Number of simulated trajectories; an adjoint counts as one more."""
        return self.history[-1].simulations

    @property
    def robot(self) -> Robot:
        """The robot with the fitted parameters, ready to simulate and to plan with.

        Raises InputError for values of single cells, and for a fit that was loaded without its
        model. Use pl.Problem(..., params=fit.params) with values of single cells."""
        model: Any = self.model
        if model is None:
            raise InputError(
                "This fit was loaded without its model, so it has no robot. Load it with "
                "Fit.load(folder, model)."
            )
        if isinstance(model, ShapeModel):
            n = model.params.size - len(model.shape.parameters)
            values = model.params.split(self.params)
            others = dict(list(values.items())[: len(values) - len(model.shape.parameters)])
            return robot_with(model.shape.robot_at(self.params[n:]), others)
        made: Robot = model.robot_with_params(self.params)
        return made

    # Text and pages

    def summary(self) -> str:
        """Return the method, the status and the values in one line."""
        shown = ", ".join(_text(one) for one in self.estimates.items if one.value.size == 1)
        return f"{self.method}: {self.status.text}{f' ({shown})' if shown else ''}"

    def show(self) -> None:
        """Print the values with their intervals, the residuals and the warnings."""
        print(f"{self.method}: {self.status.text}")
        for one in self.estimates.items:
            print(f"{_text(one)}, start {_range(one.start)}")
        for group, label in ((self.predictions, "fitted"), (self.held_out, "held out")):
            for part in group:
                print(f"{part.name} ({label}): rms error {part.rms:.3g} {part.unit}")
        for sentence in (*self.undetermined, *self.notes):
            print(sentence)

    def report(self, folder: str | Path, *, title: str | None = None, small: bool = False) -> Path:
        """Write report.html with tables and plots, the fit and result.json into a folder. Return
        the path of the page. `small` draws a smaller and shorter animation."""
        return write_report(self, folder, title=title, small=small)

    # Files

    def save(self, folder: str | Path) -> None:
        """Write fit.json and the arrays (safetensors) into a folder, for `load`."""
        write_checkpoint(FIT, folder, *fit_content(self))

    @classmethod
    def load(cls, folder: str | Path, model: Dynamics | None = None) -> Self:
        """Return the fit that `save` or `identify(..., folder=...)` wrote. With the model of the
        fit it has a robot.

        Raises InputError if a file is missing or damaged, or belongs to another model.
        """
        file, content, arrays = read_checkpoint(FIT, folder)
        try:
            fields = fit_fields(content, arrays, str(file))
        except InputError:
            raise
        except KeyError as error:
            raise FIT.damaged(file, f"it has no {quoted(error.args[0])}") from None
        except (TypeError, ValueError, OverflowError, AttributeError):
            raise FIT.damaged(file, "an entry has the wrong type or size") from None
        if model is not None:
            _check_model(fields["identity"], model, str(file))
        return cls(**fields, model=model)


def model_identity(model: Dynamics) -> dict[str, Any]:
    """Return what a fit belongs to, as JSON types."""
    made = summarise(model)
    blocks = [[block.name, int(block.value.size)] for block in model.params.blocks]
    return {"robot": made.robot, "digest": made.digest, "dt": made.dt, "params": blocks}


def _check_model(saved: Mapping[str, Any], model: Dynamics, where: str) -> None:
    """Raise InputError unless a fit belongs to a model."""
    here = model_identity(model)
    parts = different_parts(saved["digest"], here["digest"])
    if parts or saved["params"] != here["params"]:
        raise InputError(
            f"{where} is the fit of another model: it differs in {parts or 'its parameters'}. "
            "Give the model of the fit."
        )


def _is_offset(one: Estimate) -> bool:
    return one.name.startswith(f"{OFFSET}[")


def _plain(values: Array) -> float | Array:
    return float(values[0]) if values.size == 1 else np.array(values)


def _ends(interval: Array) -> Any:
    return (float(interval[0, 0]), float(interval[0, 1])) if len(interval) == 1 else interval


def _text(one: Estimate) -> str:
    unit = f" {one.unit}" if one.unit not in ("", "-") else ""
    value = f"{one.name} = {_range(one.value)}{unit}"
    if one.value.size > 1 or not np.isfinite(one.interval).all():
        return value
    return f"{value} [{one.interval[0, 0]:.4g}, {one.interval[0, 1]:.4g}]"


def _range(values: Array) -> str:
    low, high = float(values.min()), float(values.max())
    return f"{low:.4g}" if values.size == 1 else f"{low:.4g} to {high:.4g}"
