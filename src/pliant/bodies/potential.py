"""Protocols of attachments: potentials and dissipations that depend on a few material points."""

from collections.abc import Callable, Collection, Mapping
from typing import Any, Protocol, Self, runtime_checkable

import numpy as np
import scipy.sparse as sp

from pliant.bodies.assembly import COMPLEX_STEP
from pliant.core import Array, Param


def complex_step_jacobian(f: Callable[[Array], Array], y: Array) -> Array:
    """Return the derivative (n, m, dim) of a function f that maps points (n, dim) to (n, m).

    f must act on each point separately. The result is exact to round-off.
    """
    return np.stack(
        [f(y + 1j * COMPLEX_STEP * unit).imag / COMPLEX_STEP for unit in np.eye(y.shape[1])],
        axis=-1,
    )


def one_sided_spring(depth: Array, layer: float) -> tuple[Array, Array, Array]:
    """Return value [m^2], first [m] and second derivative [-] of a spring that only pushes.

    The value is zero for a negative depth (n,) [m], cubic over a `layer` [m], then quadratic. The
    second derivative is continuous. Complex depths are allowed.
    """
    inside, deep = depth.real > 0.0, depth.real > layer
    g = np.where(inside, depth, 0.0)
    return (
        np.where(deep, 0.5 * g * g - 0.5 * layer * g + layer**2 / 6.0, g**3 / (6.0 * layer)),
        np.where(deep, g - 0.5 * layer, g * g / (2.0 * layer)),
        np.where(deep, 1.0, g / layer),
    )


class Potential(Protocol):
    """A potential energy of the points y = weights x + offset that depends on controls.

    Every method accepts complex y. The Hessian has a dense block for each `points_per_block`
    consecutive points plus a few rank-one terms, so a long cable or a cavity does not fill the
    sparse matrix.
    """

    @property
    def n_controls(self) -> int: ...
    @property
    def weights(self) -> sp.csr_matrix: ...  # (n_points, n_nodes)
    @property
    def offset(self) -> Array: ...  # (n_points, dim) [m]
    @property
    def points_per_block(self) -> int: ...
    @property
    def stiff(self) -> bool:
        """Whether the forces need implicit treatment, even in rules with explicit controls."""
        ...

    def energy(self, y: Array, u: Array) -> float: ...  # [J]
    def gradient(self, y: Array, u: Array) -> Array: ...  # (n_points, dim) [N]
    def hessian(self, y: Array, u: Array) -> Array:
        """Return dense blocks (n_points / b, b dim, b dim) [N/m], where b = points_per_block."""
        ...

    def rank_one_terms(self, y: Array, u: Array) -> tuple[Array, Array]:
        """Return vectors h (r, n_points, dim) and weights (r,) of the terms weight h h^T."""
        ...

    def control_gradient(self, y: Array, u: Array) -> Array:
        """Return d gradient / du, (n_controls, n_points, dim)."""
        ...

    def control_hessian_vector(self, y: Array, u: Array, bar: Array, du: Array) -> Array:
        """Return the derivative (n_controls,) of sum(bar * control_gradient(y, u), axis=(1, 2))
        along du.

        `bar` has shape (n_points, dim).
        """
        ...


class Dissipation(Protocol):
    """A dissipation potential of one step from old to new point positions y.

    Its force is minus the gradient by y.
    """

    @property
    def weights(self) -> sp.csr_matrix: ...  # (n_points, n_nodes)
    def energy(self, y: Array, old: Array, dt: float) -> float: ...  # [J]
    def gradient(self, y: Array, old: Array, dt: float) -> Array: ...  # (n_points, dim) [N]
    def hessian(self, y: Array, old: Array, dt: float) -> Array: ...  # (n_points, dim, dim) [N/m]
    def mixed_hessian(self, y: Array, old: Array, dt: float) -> Array:
        """Return d gradient / d old, (n_points, dim, dim) [N/m]."""
        ...

    def viscosity(self, old: Array, velocity: Array) -> Array:
        """Return the damping blocks (n_points, dim, dim) [N s/m] of the new velocity."""
        ...


@runtime_checkable
class Parametrised(Protocol):
    """A potential with parameters that can be design variables, such as the stiffness of a cable.

    A dissipation with parameters has the same members. Its `parameter_gradient` is a function of
    (name, y, old, dt), and it also has `parameter_viscosity(name, old, velocity)`.
    """

    @property
    def parameters(self) -> tuple[Param, ...]:
        """Each with its current value, (1,)."""
        ...

    def with_parameters(self, values: Mapping[str, float]) -> Self:
        """Return the same part with other values of some parameters."""
        ...

    def parameter_gradient(self, name: str, y: Array, u: Array) -> Array:
        """Return the derivative (n_points, dim) of the gradient by a parameter. It accepts complex
        y."""
        ...


@runtime_checkable
class ParametrisedWeights(Parametrised, Protocol):
    """A potential whose points depend on parameters as well, such as a cable through points of the
    body that can move. Its `parameter_gradient` is at fixed points y."""

    def weight_change(self, name: str) -> tuple[sp.csr_matrix, Array] | None:
        """Return the derivatives of the weights (n_points, n_nodes) and of the offset (n_points,
        dim) by a parameter; None if they do not depend on it."""
        ...


def parameters_of(part: Any) -> tuple[Param, ...]:
    """Return the parameters of a potential or dissipation; none if it is not `Parametrised`."""
    return part.parameters if isinstance(part, Parametrised) else ()


def with_own_values(part: Any, group: str, active: Collection[str]) -> Any:
    """Return a part whose `active` parameters, with names such as "actuators.line.rest_length" in
    the group "actuators.line", no longer follow from other ones."""
    values = {
        param.name: float(param.value[0])
        for param in parameters_of(part)
        if f"{group}.{param.name}" in active
    }
    return part.with_parameters(values) if values else part


def weight_change(part: Any, name: str) -> tuple[sp.csr_matrix, Array] | None:
    """Return the derivatives of a potential's weights and offset by a parameter; None if they do
    not depend on it."""
    return part.weight_change(name) if isinstance(part, ParametrisedWeights) else None


def hessian_times(potential: Potential, y: Array, u: Array, dy: Array) -> Array:
    """Return the Hessian of a potential at y times dy (n_points, dim). Both may be complex."""
    H = potential.hessian(y, u)
    out = np.matmul(H, dy.reshape(*H.shape[:2], 1)).reshape(dy.shape)
    for column, weight in zip(*potential.rank_one_terms(y, u), strict=True):
        out = out + weight * np.sum(column * dy) * column
    return out


def positive_parameter(name: str, value: float, unit: str) -> Param:
    """Return a parameter of one positive value."""
    return Param(name=name, value=np.array([value], float), unit=unit, lower=0.0, upper=np.inf)


def unit_gradient(part: Any, name: str, *at: Any) -> Array:
    """Return the gradient at `at` of a part whose parameter has the value one. It is the derivative
    of the gradient by a parameter that is a factor of it."""
    return part.with_parameters({name: 1.0}).gradient(*at)
