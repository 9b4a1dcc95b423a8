"""Markers as material points: their positions between the steps of a simulation."""

from dataclasses import dataclass
from functools import cached_property
from typing import Any

import numpy as np
import scipy.sparse as sp

from pliant.core import Array, Dynamics, InputError, nearest
from pliant.design.recording import MarkerRecording
from pliant.problem import Observation, QuadraticLoss

SAME_TIME = 1e-6  # [steps] within which a sample is at a step: rounding of times in text files


@dataclass(frozen=True, kw_only=True, eq=False)
class MarkerSampling:
    """The linear map from states to the positions of material points at any time.

    Between two steps it is the cubic Hermite interpolation of positions and velocities, for a
    model without velocities the linear one. Before time zero the points are where they start.
    """

    position: sp.csr_matrix  # (m dim, n_state)
    velocity: sp.csr_matrix | None  # (m dim, n_state)
    dt: float  # [s]

    @cached_property
    def _none(self) -> sp.csr_matrix:
        return sp.csr_matrix(self.position.shape)

    def at(self, time: float) -> tuple[int, tuple[sp.csr_matrix, ...]]:
        """Return a step k, from 1, and matrices of the states x_k, x_{k-1}: the positions (m dim,)
        at a time [s] are their sum."""
        exact = max(time, 0.0) / self.dt
        k = int(np.floor(exact + SAME_TIME))
        share = exact - k
        if share <= SAME_TIME:
            return (k, (self.position,)) if k else (1, (self._none, self.position))
        return k + 1, self._between(share)

    def _between(self, s: float) -> tuple[sp.csr_matrix, sp.csr_matrix]:
        """Return the matrices of the states at the end and the start of a step."""
        if self.velocity is None:
            return s * self.position, (1.0 - s) * self.position
        end = s * s * (3.0 - 2.0 * s)
        return (
            end * self.position + (s**3 - s**2) * self.dt * self.velocity,
            (1.0 - end) * self.position + s * (1.0 - s) ** 2 * self.dt * self.velocity,
        )

    def rate_at(self, time: float) -> tuple[int, tuple[sp.csr_matrix, ...]]:
        """Return a step k, from 1, and matrices of the states x_k, x_{k-1}: the derivative (m dim,)
        of the positions by the time [s] is their sum."""
        if time < 0.0:
            return 1, (self._none,)
        k, matrices = self.at(time)
        if self.velocity is None:
            slope = self.position / self.dt
            return k, (slope, -slope)
        if matrices[-1] is self.position:  # at a step
            return k, (*matrices[:-1], self.velocity)
        s = time / self.dt - (k - 1)
        rise = 6.0 * s * (1.0 - s) / self.dt * self.position
        return k, (
            rise + (3.0 * s - 2.0) * s * self.velocity,
            (1.0 - s) * (1.0 - 3.0 * s) * self.velocity - rise,
        )

    def positions(self, states: Array, times: Array) -> Array:
        """Return the positions (n, m dim) [m] at times (n,) for states (steps + 1, n_state)."""
        rows = []
        for time in times:
            k, matrices = self.at(time)
            rows.append(sum(matrix @ states[k - j] for j, matrix in enumerate(matrices)))
        return np.array(rows)


def marker_points(recording: MarkerRecording, model: Dynamics) -> sp.csr_matrix:
    """Return the weights (m, n_nodes) of the nodes in the positions of the markers.

    Raises InputError for a model without a body, a recording of another dimension, and markers
    that are outside the body, or are no effectors where there are no rest points."""
    body: Any = getattr(model, "body", None)
    if body is None or not hasattr(body, "locate"):
        inside = getattr(model, "model", None)
        remedy = (
            f"Pass its model, the {type(inside).__name__} inside, and the controls in the recording"
            if hasattr(inside, "body")
            else "Use ImplicitEuler, MaterialPoint or another rule of a soft robot"
        )
        raise InputError(
            f"The markers of {recording.name} are points of a soft body, which "
            f"{type(model).__name__} does not have. {remedy}."
        )
    if recording.dim != body.dim:
        raise InputError(
            f"{recording.name} has {recording.dim} coordinates for each marker, but the robot has "
            f"{body.dim}. Give the same number."
        )
    if recording.points is None:
        return sp.vstack([_effector(recording, model, name) for name in _names(recording)]).tocsr()
    try:
        return sp.csr_matrix(body.locate(np.asarray(recording.points)))
    except InputError as error:
        raise InputError(f"The rest points of {recording.name}: {error}") from None


def _names(recording: MarkerRecording) -> tuple[str, ...]:
    return tuple(recording.markers or ())


def _effector(recording: MarkerRecording, model: Any, name: str) -> sp.csr_matrix:
    effectors = model.robot.effectors
    if name not in effectors:
        raise InputError(
            f"The marker '{name}' of {recording.name} has no rest point, and the robot has no "
            f"effector of that name; {nearest(name, effectors)} Or add a row 'rest' to the file, "
            "or give points=."
        )
    return effectors[name].attach(model.body)


def marker_sampling(weights: sp.csr_matrix, model: Dynamics, dim: int) -> MarkerSampling:
    """Return the sampling of points with given weights (m, n_nodes) of the nodes."""
    space = model.space
    rows = sp.kron(weights, sp.identity(dim), format="csr")

    def part(k: int) -> sp.csr_matrix:
        """Return the matrix (m dim, n_state) of the points of part k of the state."""
        return rows @ sp.eye(space.n_dofs, space.size, k=space.starts[k], format="csr")

    rates = [rate * part(k) for k, rate in enumerate(space.rate) if rate != 0.0]
    return MarkerSampling(
        position=part(0), velocity=sum(rates[1:], rates[0]) if rates else None, dt=model.dt
    )


def marker_observations(
    recording: MarkerRecording,
    sampling: MarkerSampling,
    scale: Array,
    offset: float = 0.0,
    *,
    rates: bool = False,
) -> tuple[Observation, ...]:
    """Return an observation for each time with a sample: positions over `scale` (m,) [m], with
    unit weight, so that its loss is half the sum of squares. With `rates` they observe the
    derivatives of these positions by the offset [s]."""
    sizes = np.repeat(scale, recording.dim)
    measured = np.reshape(recording.positions, (len(recording.clock()), -1))
    shared: dict[tuple[int, bytes], tuple[sp.csr_matrix, ...]] = {}  # of times at steps
    last = sampling.velocity if rates else sampling.position
    made = []
    for time, row in zip(recording.clock(offset), measured, strict=True):
        seen = np.flatnonzero(~np.isnan(row))
        if not seen.size:
            continue
        step, matrices = sampling.rate_at(time) if rates else sampling.at(time)
        key = (len(matrices), seen.tobytes())
        rows = shared.get(key) if matrices[-1] is last else None
        if rows is None:
            scaling = sp.diags(1.0 / sizes[seen], format="csr")
            rows = tuple(scaling @ matrix[seen] for matrix in matrices)
            if matrices[-1] is last:
                shared[key] = rows
        loss = QuadraticLoss(target=row[seen] / sizes[seen], weight=1.0)
        made.append(Observation(name=recording.name, step=step, states=rows, loss=loss))
    return tuple(made)
