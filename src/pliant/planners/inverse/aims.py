"""What inverse control leads: some effectors, each along the directions that count, and how much
each counts."""

from collections.abc import Sequence
from dataclasses import dataclass
from functools import cached_property
from typing import Any

import numpy as np
import scipy.sparse as sp
from numpy.typing import ArrayLike

from pliant.core import FARTHEST, Array, InputError, finite_array, require_kind
from pliant.dynamics.stepping import Stepping

Ways = (
    Sequence[ArrayLike | str | None] | ArrayLike | str | None
)  # which directions count: of each effector, or of all


@dataclass(frozen=True, kw_only=True, eq=False)
class Aims:
    """Effectors on a model."""

    names: tuple[str, ...]
    rows: sp.csr_matrix  # (n_effectors dim, n_dofs) their places, one after the other
    wanted: tuple[Array, ...]  # of each (d, dim), orthonormal rows that span what counts
    weights: Array  # (n_effectors,) the largest 1

    @property
    def shape(self) -> tuple[int, int]:
        """(n_effectors, dim)"""
        return len(self.names), self.rows.shape[0] // len(self.names)

    @cached_property
    def along(self) -> Array:
        """(r, n_effectors dim) the directions that count, of all effectors."""
        return sp.block_diag(self.wanted).toarray()

    @cached_property
    def _owner(self) -> Array:
        """(r,) the effector of each direction."""
        return np.repeat(np.arange(len(self.wanted)), [len(D) for D in self.wanted])

    @cached_property
    def root(self) -> Array:
        """(r,) the root of each direction's weight."""
        return np.sqrt(self.weights)[self._owner]

    def places(self, q: Array) -> Array:
        """(n_effectors, dim) [m]"""
        return (self.rows @ q).reshape(self.shape)

    def goal(self, targets: ArrayLike) -> Array:
        """(n_effectors, dim) [m] targets, or a sentence."""
        goal = finite_array("The array of targets", targets, self.shape, "m")
        if np.abs(goal).max() > FARTHEST:
            raise InputError(
                f"A target is {np.abs(goal).max():.3g} m away, and no robot is larger than "
                f"{FARTHEST:g} m; give targets in metres."
            )
        return goal

    def missed(self, places: Array, goal: Array) -> tuple[Array, float]:
        """((r,) [m] what is missing along the directions that count, [m] the distance of the worst
        effector that has a weight)."""
        miss = self.along @ (goal - places).ravel()
        return miss, float(
            np.sqrt(
                np.bincount(self._owner, miss**2, minlength=len(self.wanted))[
                    self.weights > 0.0
                ].max()
            )
        )


def aims(
    model: Stepping, effectors: Sequence[str] | str, directions: Ways, weights: ArrayLike | None
) -> Aims:
    """The effectors of a model by their names, or a sentence."""
    require_kind(
        "The effectors to lead",
        effectors,
        (str, list, tuple),
        "name one or more of the robot, such as effectors=('tip',)",
    )
    names = (effectors,) if isinstance(effectors, str) else tuple(effectors)
    if not names:
        raise InputError(
            "Inverse control was given no effector to lead; name one or more of the robot, such "
            "as effectors=('tip',)."
        )
    if len(set(names)) < len(names):
        raise InputError(
            f"Inverse control was given an effector twice ({', '.join(names)}); name each once, "
            "and give weights=... to weigh it."
        )
    rows, each = [model.effector_rows(name) for name in names], _each(directions, len(names))
    if len(each) != len(names):
        raise InputError(
            f"There are directions for {len(each)} effectors, but {len(names)} are led; give one "
            "entry for each, or one word."
        )
    wanted = tuple(
        _span(name, way, row.shape[0]) for name, way, row in zip(names, each, rows, strict=True)
    )
    return Aims(
        names=names,
        rows=sp.vstack(rows, format="csr"),
        wanted=wanted,
        weights=_weights(names, weights),
    )


def _each(directions: Ways, n: int) -> list[Any]:
    """What counts of each effector; one word or matrix stands for all, or for the only one."""
    if directions is None or isinstance(directions, str):
        return n * [directions]
    require_kind(
        "The directions that count",
        directions,
        (list, tuple, np.ndarray),
        "give a word such as 'xz', a matrix, or a list of them",
    )
    each: list[Any] = list(directions)  # type: ignore[arg-type]
    rows = bool(each) and all(
        not isinstance(one, str) and one is not None and np.ndim(one) == 1 for one in each
    )
    return [each] if n == 1 and rows else each


def _weights(names: tuple[str, ...], weights: ArrayLike | None) -> Array:
    w = (
        np.ones(len(names))
        if weights is None
        else finite_array("The array of weights of the effectors", weights, (len(names),))
    )
    if not (np.all(w >= 0.0) and np.any(w > 0.0)):
        raise InputError(
            f"The weights of the effectors are {w.tolist()}; give none below zero, and at least "
            "one above."
        )
    return w / w.max()


def _span(name: str, way: ArrayLike | str | None, dim: int) -> Array:
    """(d, dim) orthonormal rows."""
    axes = "xyz"[:dim]
    if way is None:
        return np.eye(dim)
    if isinstance(way, str):
        if not way or set(way) - set(axes) or len(set(way)) < len(way):
            raise InputError(
                f"The directions of '{name}' are '{way}'; write some of {', '.join(axes)}, such "
                f"as '{axes[:2]}'."
            )
        return np.eye(dim)[[axes.index(axis) for axis in way]]
    rows = finite_array(f"The array of directions of '{name}'", way, (None, dim))
    _, s, Vt = np.linalg.svd(rows, full_matrices=False)
    if not len(s) or len(rows) > dim or s[-1] <= 1e-9 * s[0]:
        raise InputError(
            f"The directions of '{name}' depend on each other; give 1 to {dim} rows that do not."
        )
    return Vt
