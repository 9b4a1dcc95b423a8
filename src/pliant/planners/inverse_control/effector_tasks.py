"""The tasks of inverse control: effectors, the directions to control, and their weights."""

from collections.abc import Sequence
from dataclasses import dataclass
from functools import cached_property
from typing import Any

import numpy as np
import scipy.sparse as sp
from numpy.typing import ArrayLike

from pliant.core import (
    MAX_COORDINATE,
    Array,
    Effectors,
    InputError,
    counted,
    finite_array,
    require_kind,
)

# The directions to control: of each effector, or of all of them
Directions = Sequence[ArrayLike | str | None] | ArrayLike | str | None


@dataclass(frozen=True, kw_only=True, eq=False)
class EffectorTasks:
    """The effectors to control on a model."""

    names: tuple[str, ...]
    rows: sp.csr_matrix  # (n_effectors dim, n_dofs) maps q to the positions of the effectors
    directions: tuple[Array, ...]  # of each effector (d, dim), orthonormal rows
    weights: Array  # (n_effectors,) the largest is 1

    @property
    def shape(self) -> tuple[int, int]:
        """(n_effectors, dim)"""
        return len(self.names), self.rows.shape[0] // len(self.names)

    @cached_property
    def _direction_matrix(self) -> Array:
        """(r, n_effectors dim)"""
        return sp.block_diag(self.directions).toarray()

    @cached_property
    def _owner(self) -> Array:
        """(r,) the effector of each direction."""
        return np.repeat(np.arange(len(self.directions)), [len(D) for D in self.directions])

    @cached_property
    def sqrt_weights(self) -> Array:
        """(r,) of each direction."""
        return np.sqrt(self.weights)[self._owner]

    def positions(self, q: Array) -> Array:
        """(n_effectors, dim) [m]"""
        return (self.rows @ q).reshape(self.shape)

    def jacobian(self, motions: Array) -> Array:
        """(r, n) the weighted task motion of motions (n_dofs, n) of the body."""
        return self.sqrt_weights[:, None] * (self._direction_matrix @ (self.rows @ motions))

    def check_targets(self, targets: ArrayLike) -> Array:
        """(n_effectors, dim) [m] the targets. Raises InputError if they are not finite or far."""
        checked = finite_array("The array of targets", targets, self.shape, "m")
        if np.abs(checked).max() > MAX_COORDINATE:
            raise InputError(
                f"A target is {np.abs(checked).max():.3g} m away, and no robot is larger than "
                f"{MAX_COORDINATE:g} m; give targets in metres."
            )
        return checked

    def error(self, positions: Array, targets: Array) -> tuple[Array, float]:
        """Return (the error (r,) [m] along the directions, the distance [m] of the worst effector
        with a weight)."""
        error = self._direction_matrix @ (targets - positions).ravel()
        squares = np.bincount(self._owner, error**2, minlength=len(self.directions))
        return error, float(np.sqrt(squares[self.weights > 0.0].max()))


def effector_tasks(
    model: Effectors,
    effectors: Sequence[str] | str,
    directions: Directions,
    weights: ArrayLike | None,
) -> EffectorTasks:
    """Return the tasks of effectors by name. Raises InputError if an argument does not fit."""
    require_kind(
        "The argument effectors",
        effectors,
        (str, list, tuple),
        "name one or more of the robot, such as effectors=('tip',)",
    )
    names = (effectors,) if isinstance(effectors, str) else tuple(effectors)
    if not names:
        raise InputError(
            "Inverse control was given no effector; name one or more of the robot, such as "
            "effectors=('tip',)."
        )
    if len(set(names)) < len(names):
        raise InputError(
            f"Inverse control was given an effector twice ({', '.join(names)}); name each once, "
            "and use weights=... ."
        )
    rows, each = [model.effector_rows(name) for name in names], _each(directions, len(names))
    if len(each) != len(names):
        raise InputError(
            f"There are directions for {counted(len(each), 'effector')}, but "
            f"{counted(len(names), 'effector')} to control; give one entry for each, or one word "
            "for all."
        )
    return EffectorTasks(
        names=names,
        rows=sp.vstack(rows, format="csr"),
        directions=tuple(
            _orthonormal(name, one, row.shape[0])
            for name, one, row in zip(names, each, rows, strict=True)
        ),
        weights=_weights(names, weights),
    )


def _each(directions: Directions, n: int) -> list[Any]:
    """The directions of each effector; one word applies to all, one matrix to the only one."""
    if directions is None or isinstance(directions, str):
        return n * [directions]
    require_kind(
        "The argument directions",
        directions,
        (list, tuple, np.ndarray),
        "give a word such as 'xz', a matrix, or a list of them",
    )
    each: list[Any] = list(directions)  # type: ignore[arg-type]
    is_matrix = bool(each) and all(
        not isinstance(one, str) and one is not None and np.ndim(one) == 1 for one in each
    )
    return [each] if n == 1 and is_matrix else each


def _weights(names: tuple[str, ...], weights: ArrayLike | None) -> Array:
    if weights is None:
        return np.ones(len(names))
    w = finite_array("The array of weights of the effectors", weights, (len(names),))
    if not (np.all(w >= 0.0) and np.any(w > 0.0)):
        raise InputError(
            f"The weights of the effectors are {w.tolist()}; give none below zero, and at least "
            "one above."
        )
    return w / w.max()


def _orthonormal(name: str, directions: ArrayLike | str | None, dim: int) -> Array:
    """(d, dim) orthonormal rows."""
    axes = "xyz"[:dim]
    if directions is None:
        return np.eye(dim)
    if isinstance(directions, str):
        if not directions or set(directions) - set(axes) or len(set(directions)) < len(directions):
            raise InputError(
                f"The directions of '{name}' are '{directions}'; write some of {', '.join(axes)}, "
                f"such as '{axes[:2]}'."
            )
        return np.eye(dim)[[axes.index(axis) for axis in directions]]
    rows = finite_array(f"The array of directions of '{name}'", directions, (None, dim))
    _, s, Vt = np.linalg.svd(rows, full_matrices=False)
    if not len(s) or len(rows) > dim or s[-1] <= 1e-9 * s[0]:
        raise InputError(
            f"The directions of '{name}' depend on each other; give 1 to {dim} independent rows."
        )
    return Vt
