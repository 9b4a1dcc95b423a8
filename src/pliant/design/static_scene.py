"""Static tests on a quasistatic model: the measured displacement or volume of its equilibria."""

import re
from dataclasses import dataclass
from typing import Any, Protocol

import numpy as np
import scipy.sparse as sp

from pliant.core import Array, InputError, counted, finite_array, nearest
from pliant.design.shape_model import ShapeModel
from pliant.design.static_test import StaticTest
from pliant.dynamics import Quasistatic
from pliant.dynamics.implicit import WITHOUT_EFFECT
from pliant.problem import Observation, QuadraticLoss
from pliant.robot import Effector

REFERENCE = 1  # the step of the equilibrium without test load; row k of a test is step k + 2


class TestedQuantity(Protocol):
    """What a static test measures."""

    # states (n + 2, n_state) -> the changes (n, c) since the reference
    def values(self, states: Array) -> Array: ...
    # of measured values (n, c), in units of `unit`
    def observations(self, name: str, values: Array, unit: float) -> tuple[Observation, ...]: ...


def static_model(test: StaticTest, model: Any) -> Quasistatic:
    """Return the quasistatic model of a test, with its load. It has the parameters of the model
    that act on equilibria. Raises InputError for a model without a mesh."""
    if isinstance(model, ShapeModel):
        raise InputError(
            f"The static test {test.name} cannot be fitted with shape parameters. Fit them to "
            "recordings, or fit the test with a model without them."
        )
    if not hasattr(model, "equations"):
        raise InputError(
            f"The static test {test.name} needs equilibria, which {type(model).__name__} does not "
            "have. Fit it with model=pl.Quasistatic(robot, design=[...])."
        )
    load = test.scaled_load()
    robot = model.robot if load is None else model.robot.with_loads([load])
    used = [
        name
        for name in model.design
        if not any(re.fullmatch(pattern, name) for pattern in WITHOUT_EFFECT)
    ]
    return Quasistatic(robot, design=used)


def tested_quantity(test: StaticTest, model: Quasistatic) -> TestedQuantity:
    """Return what a test measures on its model. Raises InputError if the robot does not have it."""
    if test.cavity is not None:
        return _tested_volume(test, model)
    if test.effector is not None and test.effector not in model.robot.effectors:
        raise InputError(
            f"{test.name} measures the effector '{test.effector}', which the robot does not have; "
            f"{nearest(test.effector, model.robot.effectors)}"
        )
    place = (
        Effector(point=test.point)
        if test.effector is None
        else model.robot.effectors[test.effector]
    )
    dim = model.dim
    rows = sp.kron(place.attach(model.body), sp.identity(dim), format="csr")
    if test.direction is not None:
        along = finite_array(f"{test.name}: the direction", test.direction, (dim,))
        rows = sp.csr_matrix(along[None] @ rows)
    elif (found := np.shape(test.values)[1]) != dim:
        raise InputError(
            f"{test.name} has {counted(found, 'coordinate')} in each row, but the robot has {dim}. "
            "Give the displacement along each axis, or a direction."
        )
    return TestedDisplacement(rows=rows)


@dataclass(frozen=True, kw_only=True, eq=False)
class TestedDisplacement:
    """The displacement of a point [m] along some directions."""

    rows: sp.csr_matrix  # (c, n_dofs)

    def values(self, states: Array) -> Array:
        return (states[REFERENCE + 1 :] - states[REFERENCE]) @ self.rows.T

    def observations(self, name: str, values: Array, unit: float) -> tuple[Observation, ...]:
        rows = self.rows / unit
        return tuple(
            Observation(
                name=name,
                step=REFERENCE + 1 + k,
                states=_change(rows, -rows, k),
                loss=QuadraticLoss(target=value / unit, weight=1.0),
            )
            for k, value in enumerate(values)
        )


def _change(now: sp.csr_matrix, reference: sp.csr_matrix, k: int) -> tuple[sp.csr_matrix, ...]:
    """Return the matrices of the states from row k of a test back to the reference."""
    nothing = sp.csr_matrix(now.shape)
    return (now, *[nothing] * k, reference)


def _tested_volume(test: StaticTest, model: Quasistatic) -> "TestedVolume":
    fluids = [
        name for name, actuator in model.robot.actuators.items() if hasattr(actuator, "cavity")
    ]
    if test.cavity not in fluids:
        raise InputError(
            f"{test.name} measures the volume of '{test.cavity}', which is no actuator with a "
            f"cavity; {nearest(test.cavity, fluids)}"
        )
    term, rows = model.attached(test.cavity)
    if not hasattr(term, "volume_gradient"):
        raise InputError(
            f"The volume of '{test.cavity}' cannot be fitted, because its fluid has weight. Use a "
            "Pressure actuator."
        )
    return TestedVolume(fluid=term, rows=sp.csr_matrix(rows))


@dataclass(frozen=True, kw_only=True, eq=False)
class TestedVolume:
    """The change of the volume of a cavity [m^3]."""

    fluid: Any  # the attached pressure, with its volume
    rows: sp.csr_matrix  # (n_points dim, n_dofs)

    def values(self, states: Array) -> Array:
        volumes = [self.volume(self.rows @ x) for x in states[REFERENCE:]]
        return (np.array(volumes[1:]) - volumes[0])[:, None]

    def volume(self, y: Array) -> float:
        """Return the volume [m^3] for the points (n_points dim,) of the wall."""
        return float(self.fluid.volume(self._points(y)))

    def gradient(self, y: Array) -> Array:
        """Return the derivative (n_points dim,) [m^2] of the volume by the points."""
        return np.ravel(self.fluid.volume_gradient(self._points(y)))

    def _points(self, y: Array) -> Array:
        return y.reshape(self.fluid.offset.shape) + self.fluid.offset

    def observations(self, name: str, values: Array, unit: float) -> tuple[Observation, ...]:
        upper = sp.vstack([self.rows, sp.csr_matrix(self.rows.shape)]).tocsr()
        lower = sp.vstack([sp.csr_matrix(self.rows.shape), self.rows]).tocsr()
        return tuple(
            Observation(
                name=name,
                step=REFERENCE + 1 + k,
                states=_change(upper, lower, k),
                loss=VolumeLoss(measured=self, target=float(value[0]), unit=unit),
            )
            for k, value in enumerate(values)
        )


@dataclass(frozen=True, kw_only=True, eq=False)
class VolumeLoss:
    """The loss 1/2 r^2 of r = (V(now) - V(reference) - target) / unit; y holds the points of both
    walls."""

    measured: TestedVolume
    target: float  # [m^3]
    unit: float  # [m^3]
    weight: float = 1.0

    def residuals(self, y: Array) -> Array:
        now, reference = np.split(y, 2)
        change = self.measured.volume(now) - self.measured.volume(reference)
        return np.array([(change - self.target) / self.unit])

    def value(self, y: Array) -> float:
        return 0.5 * float(self.residuals(y)[0] ** 2)

    def gradient(self, y: Array) -> Array:
        return self.residuals(y)[0] * self.gauss_newton_factor(y)[0]

    def gauss_newton_factor(self, y: Array) -> Array:
        now, reference = np.split(y, 2)
        parts = [self.measured.gradient(now), -self.measured.gradient(reference)]
        return np.concatenate(parts)[None] / self.unit

    def hessian(self, y: Array) -> Array:
        """Return the Gauss-Newton part."""
        F = self.gauss_newton_factor(y)
        return F.T @ F
