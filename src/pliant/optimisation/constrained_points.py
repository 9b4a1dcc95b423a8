"""Values, constraints and their derivatives at one point, with as few simulations as possible."""

from dataclasses import dataclass

import numpy as np

from pliant.core import Array
from pliant.optimisation.evaluator import Evaluator


@dataclass(frozen=True, kw_only=True, eq=False)
class ConstrainedPoint:
    """Variables with the value and the constraints there."""

    z: Array  # (n,)
    value: float = np.inf
    constraints: Array  # (m,)
    gradient: Array  # (n,)
    jacobian: Array  # (m, n) of the constraints
    residual_factor: Array  # (n, n) R with R^T R = J^T J of the residuals, zero if not asked for
    failed: str = ""


def empty_point(evaluator: Evaluator, z: Array, failed: str = "") -> ConstrainedPoint:
    """Return a point without values."""
    n, m = evaluator.n, evaluator.m
    return ConstrainedPoint(
        z=z,
        constraints=np.zeros(m),
        gradient=np.zeros(n),
        jacobian=np.zeros((m, n)),
        residual_factor=np.zeros((n, n)),
        failed=failed,
    )


def values_at(evaluator: Evaluator, z: Array) -> ConstrainedPoint:
    """Return the value and the constraints at z, without derivatives."""
    found = evaluator.value(z)
    constraints = found.constraints
    if not found.failed and evaluator.m and constraints is None:
        more = evaluator.constraints(z)
        found, constraints = (more, None) if more.failed else (found, more.constraints)
    empty = empty_point(evaluator, z, found.failed)
    if found.failed:
        return empty
    seen = empty.constraints if constraints is None else np.array(constraints, float)
    if not np.all(np.isfinite(seen)):
        return empty_point(evaluator, z, "a constraint is not finite")
    return ConstrainedPoint(
        z=z,
        value=found.value,
        constraints=seen,
        gradient=empty.gradient,
        jacobian=empty.jacobian,
        residual_factor=empty.residual_factor,
    )


def derivatives_at(
    evaluator: Evaluator, z: Array, *, least_squares: bool = False
) -> ConstrainedPoint:
    """Return the value, the constraints and their derivatives at z."""
    found = evaluator.jacobian(z) if least_squares else evaluator.gradient(z)
    empty = empty_point(evaluator, z, found.failed)
    if found.failed:
        return empty
    constraints, jacobian = empty.constraints, empty.jacobian
    if evaluator.m:
        more = found if found.constraint_jacobian is not None else evaluator.constraint_jacobian(z)
        if more.failed:
            return empty_point(evaluator, z, more.failed)
        constraints = np.array(more.constraints, float)
        jacobian = np.array(more.constraint_jacobian, float, order="C")
    factor, gradient = empty.residual_factor, found.gradient
    if least_squares:
        rows = np.array(found.jacobian, float, order="C")
        gradient = rows.T @ np.asarray(found.residuals)
        R = np.linalg.qr(rows, mode="r")
        factor[: len(R)] = R
    return ConstrainedPoint(
        z=z,
        value=found.value,
        constraints=constraints,
        gradient=np.array(gradient, float),
        jacobian=jacobian,
        residual_factor=factor,
    )
