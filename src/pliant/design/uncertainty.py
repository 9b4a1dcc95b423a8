"""Uncertainty of fitted parameters, from the Jacobian of the residuals at the solution.

The parameters theta are relative: the logarithm of a positive parameter, or another one over its
scale. With residuals r in units of the noise, the covariance is s^2 (J^T J)^-1; s^2 is 1 for a
known noise and else |r|^2 / (m - n), the usual estimate of linear regression.
"""

from collections.abc import Sequence
from dataclasses import dataclass

import numpy as np
from scipy.special import ndtri, stdtrit

from pliant.core import Array, InputError, counted

LEVEL = 0.95  # of the intervals
# Directions whose effect is below this fraction of the largest one are lost in the errors of
# derivatives, which are 1e-7 to 1e-8 for equations that are solved to 1e-8.
RELATIVE_EFFECT = 1e-6
# Markers that move by less than this fraction of their coordinates, for a change of theta by 1,
# move by rounding only.
ROUNDING_EFFECT = 1e-9
# A standard deviation of theta above 1 is a factor of 2.7 or the whole scale of the parameter: the
# data say nothing about it.
UNKNOWN_DEVIATION = 1.0
INVOLVED = 0.1  # of the largest entry: parameters that a direction names in any case


@dataclass(frozen=True, kw_only=True, eq=False)
class Uncertainty:
    """The spread of parameters theta (n,) around their fit."""

    deviations: Array  # (n,) standard deviations of theta; inf where the data say nothing
    correlation: Array  # (n, n); 0 with parameters that are not determined
    # (k, n) directions of theta that the data do not determine; 0 for determined parameters
    undetermined: Array
    noise: float  # residual standard deviation, in units of the noise that was assumed
    freedom: float  # degrees of freedom of `noise`
    quantile: float  # half width of the 95 % interval, in standard deviations


def uncertainty(
    jacobian: Array,
    residuals: Array,
    *,
    size: float,
    known_noise: bool,
    prior: Array | None = None,
) -> Uncertainty:
    """Return the uncertainty of theta.

    `jacobian` (m, n) and `residuals` (m,) are those of the data, in units of the noise. `size` is
    the norm of the measured coordinates in the same units. `prior` (n, n) is the Hessian of terms
    that are no data, such as smoothness. Raises InputError for fewer data than parameters.
    """
    m, n = jacobian.shape
    extra = np.zeros((n, n)) if prior is None else prior
    hessian = jacobian.T @ jacobian + extra
    used = n if prior is None else float(np.trace(np.linalg.pinv(hessian) @ jacobian.T @ jacobian))
    freedom = m - used
    if freedom < 1.0:
        raise InputError(
            f"There are {counted(m, 'measured coordinate')} for {counted(n, 'parameter')}. Give "
            "more recordings or markers, or fit fewer parameters."
        )
    noise = float(np.sqrt(residuals @ residuals / freedom))
    spread = 1.0 if known_noise else noise
    values, vectors = np.linalg.eigh(hessian)
    effects = np.sqrt(np.maximum(values, 0.0))
    # a smaller effect is rounding
    least = max(RELATIVE_EFFECT * effects.max(initial=0.0), ROUNDING_EFFECT * size, 1e-300)
    seen = np.maximum(effects, least)
    lost = (effects <= least) | (spread / seen > UNKNOWN_DEVIATION)
    covariance = (vectors * (spread / seen) ** 2) @ vectors.T
    undetermined = _involved(reduced_rows(vectors[:, lost].T), vectors * seen, spread)
    touched = undetermined.any(axis=0)
    deviations = np.sqrt(np.diag(covariance))
    scale = np.where(touched | (deviations == 0.0), 1.0, deviations)
    correlation = np.where(np.outer(~touched, ~touched), covariance / np.outer(scale, scale), 0.0)
    np.fill_diagonal(correlation, 1.0)
    tail = 0.5 + 0.5 * LEVEL
    return Uncertainty(
        deviations=np.where(touched, np.inf, deviations),
        correlation=np.clip(correlation, -1.0, 1.0),
        undetermined=undetermined,
        noise=noise,
        freedom=freedom,
        quantile=float(ndtri(tail) if known_noise else stdtrit(freedom, tail)),
    )


def reduced_rows(rows: Array) -> Array:
    """Return the reduced row echelon form of independent rows (k, n), with the largest pivots, so
    that each row names as few parameters as possible."""
    rows = np.array(rows)
    free = np.ones(rows.shape[1], bool)
    for k in range(len(rows)):
        at = np.unravel_index(np.argmax(np.abs(rows[k:]) * free), rows[k:].shape)
        row, column = k + int(at[0]), int(at[1])
        rows[[k, row]] = rows[[row, k]]
        rows[k] /= rows[k, column]
        free[column] = False
        others = np.arange(len(rows)) != k
        rows[others] -= np.outer(rows[others, column], rows[k])
    return rows


def _involved(directions: Array, root: Array, spread: float) -> Array:
    """Return directions (k, n) with zeros for the parameters that they leave determined: those that
    change little along a direction, until its effect is that of the noise. `root` (n, n) has the
    effects of changes of theta: their norm is |change @ root|."""
    size, largest = np.abs(directions), np.abs(directions).max(axis=1, initial=0.0, keepdims=True)
    deviations = spread / np.linalg.norm(directions @ root, axis=1, keepdims=True)
    named = (size > INVOLVED * largest) | (size * deviations > UNKNOWN_DEVIATION)
    return np.where(named, directions, 0.0)


def describe_undetermined(
    directions: Array, names: Sequence[str], is_log: Array
) -> tuple[str, ...]:
    """Return a sentence for each direction of theta that the data do not determine."""
    sentences = []
    for direction in directions:
        which = np.flatnonzero(direction).tolist()
        sentences.append(_sentence(direction[which], [names[k] for k in which], is_log[which]))
    return tuple(sentences)


def _sentence(direction: Array, names: Sequence[str], is_log: Array) -> str:
    if len(names) == 1:
        return (
            f"The data do not determine {names[0]}: its effect on the measurements is below noise "
            "and rounding."
        )
    together = f"{', '.join(names[:-1])} and {names[-1]}"
    if len(names) == 2 and is_log.all():
        power = -direction[0] / direction[1]
        return (
            f"The data do not determine {together} separately, only "
            f"{names[0]} {_power(names[1], power)}."
        )
    shares = ", ".join(f"{share:.2g}" for share in direction / np.abs(direction).max())
    return (
        f"The data do not determine {together} separately: changes in the proportions {shares} "
        "(relative to their scales) cancel."
    )


def _power(name: str, power: float) -> str:
    """Return the text of a factor name^power after a first factor."""
    sign, exponent = ("/" if power < 0.0 else "*"), abs(power)
    near = round(exponent) if abs(exponent - round(exponent)) < 0.05 else exponent
    return f"{sign} {name}" if near == 1 else f"{sign} {name}^{near:.2g}"
