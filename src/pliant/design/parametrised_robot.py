"""Robots as functions of shape parameters, at a fixed topology of their mesh or particles."""

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, replace
from functools import cached_property
from typing import Any

import numpy as np

from pliant.actuators import Cable, Fluidic, Muscle
from pliant.actuators.muscle import select_cells
from pliant.bodies import COMPLEX_STEP, Solid
from pliant.core import (
    Array,
    InputError,
    MeshError,
    Param,
    Params,
    finite_array,
    nearest,
    quoted,
    require_kind,
    require_number,
)
from pliant.design.shape_maps import PREFIX, ShapeMap
from pliant.design.shape_model import ShapeModel
from pliant.geometry import Mesh
from pliant.robot import Effector, PointLoad, Robot

# largest over smallest stretch of a cell; beyond it forces are inaccurate, so mesh again
MAX_DISTORTION = 10.0
BISECTIONS = 30  # of a parameter's way to its limit: to 1e-9 of it
DEFAULT_FACTOR = 100.0  # a positive parameter without bounds is searched up to this factor
IDENTITY_TOLERANCE = 1e-9  # of the size; a map must keep the points at its start value
SAME_SHAPE_TOLERANCE = 1e-3  # of the size, between a mapped shape and a new one


@dataclass(frozen=True, kw_only=True, eq=False)
class ParametrisedRobot:
    """A robot whose shape depends on named parameters.

    The mesh, or the particles, of the shape at the start values are moved by the maps of the
    parameters, one after the other. So node positions are smooth functions of the parameters, with
    exact derivatives. Everything attached moves with the material: cables and their rest lengths,
    supports, regions, effectors and loads. Guides of cables, obstacles and the axes of muscles keep
    their place and direction in space.

    `make` is the robot at the start values, or a function of a dict of the values that returns it;
    `remeshed` needs the function. `model(ImplicitEuler, dt=0.01)` returns a model with the
    parameters "shape.NAME".

    Raises `InputError` if a map does not keep the points at its start value.

    >>> import pliant as pl
    >>> from pliant.design import ParametrisedRobot, Stretch
    >>> beam = pl.Robot(
    ...     shape=pl.Box(size=(0.1, 0.02, 0.02)),
    ...     divisions=(3, 1, 1),
    ...     material=pl.Material(E=1e5, nu=0.4, density=1000.0),
    ...     supports=[pl.Support(region="x-")],
    ...     effectors={"tip": pl.Effector(surface="x+")},
    ...     gravity=(0.0, 0.0, -9.81),
    ... )
    >>> length = Stretch(axis="x", value=0.1, lower=0.05, upper=0.2)
    >>> model = ParametrisedRobot(make=beam, parameters={"length": length}).model(pl.Quasistatic)
    >>> [block.name for block in model.params.blocks]
    ['shape.length']
    >>> model.effector("tip", model.initial_state(p=[0.15])).round(3)
    array([[0.15, 0.01, 0.01]])
    """

    make: Robot | Callable[[Mapping[str, float]], Robot]
    parameters: Mapping[str, ShapeMap]

    def __post_init__(self) -> None:
        require_kind(
            "The shape parameters", self.parameters, Mapping, "give a dict from name to each"
        )
        if not self.parameters:
            raise InputError("A parametrised robot needs at least one shape parameter.")
        if not callable(self.make):
            require_kind("The robot of a ParametrisedRobot", self.make, Robot, "give a Robot")
        for name, parameter in self.parameters.items():
            if not isinstance(name, str) or not name or "." in name:
                raise InputError(
                    f"A shape parameter is named {quoted(name)}; give a name without a dot."
                )
            require_kind(
                f"The shape parameter '{name}'",
                parameter,
                ShapeMap,
                "give a Stretch, RadialStretch, Rotation or ShapeParameter",
            )
        self._check_maps()

    # The shape at the start values

    @cached_property
    def reference(self) -> Robot:
        """The robot at the start values, with its mesh."""
        start = {name: parameter.value for name, parameter in self.parameters.items()}
        made = self.make if isinstance(self.make, Robot) else self.make(start)
        require_kind("The robot of a ParametrisedRobot", made, Robot, "return a Robot")
        fixed = replace(
            made, shape=made.mesh(), cell=None, divisions=None, surfaces={}, material=made.material
        )
        body = fixed.body()
        supports = [
            support
            if support.box is None
            else replace(support, box=None, nodes=support.nodes_of(body).tolist())
            for support in made.supports
        ]
        return _with_body(replace(fixed, supports=supports), body)

    @property
    def mesh(self) -> Mesh:
        """The mesh at the start values."""
        assert isinstance(self.reference.shape, Mesh)
        return self.reference.shape

    def _check_maps(self) -> None:
        mesh, x = self.mesh, np.array(self.mesh.points)
        for name, parameter in self.parameters.items():
            found = parameter.move(x, parameter.value, parameter.value)
            points = finite_array(f"The points that '{name}' returns", found, x.shape, "m")
            if np.abs(points - x).max() > IDENTITY_TOLERANCE * mesh.size:
                raise InputError(
                    f"The map of the shape parameter '{name}' moves points by up to "
                    f"{np.abs(points - x).max():.3g} m at its start value {parameter.value:g}; it "
                    "must keep them there."
                )

    # Parameters

    @cached_property
    def params(self) -> Params:
        """The parameters, "shape.NAME". A bound that was left out is where cells become too
        distorted."""
        return Params(blocks=tuple(self._param(name) for name in self.parameters))

    def _param(self, name: str) -> Param:
        parameter = self.parameters[name]
        lower, upper = parameter.lower, parameter.upper
        positive = lower == 0.0 and parameter.value > 0.0
        if not np.isfinite(lower) or positive:
            far = parameter.value / DEFAULT_FACTOR if positive else parameter.value - self.mesh.size
            lower = max(lower, self._limit(name, far))
        if not np.isfinite(upper):
            far = parameter.value + DEFAULT_FACTOR * max(abs(parameter.value), self.mesh.size)
            upper = self._limit(name, far)
        return Param(
            name=PREFIX + name,
            value=np.array([float(parameter.value)]),
            unit=parameter.unit,
            lower=lower,
            upper=upper,
        )

    def _limit(self, name: str, far: float) -> float:
        """Return how far a parameter may go from its start value towards `far`, the others
        fixed."""
        start = self.params_start
        goal = start.copy()
        goal[list(self.parameters).index(name)] = far
        share = self._admissible_share(goal, np.inf)
        return float(self.parameters[name].value + share * (far - self.parameters[name].value))

    @property
    def params_start(self) -> Array:
        """The start values (m,)."""
        return np.array([float(parameter.value) for parameter in self.parameters.values()])

    def values_array(self, values: Mapping[str, float] | Array) -> Array:
        """Return values (m,) in the order of the parameters, of a dict or an array, or the number
        of the only one. Names that a dict leaves out keep their start value."""
        if not isinstance(values, Mapping):
            alone = len(self.parameters) == 1 and np.ndim(values) == 0
            given = [values] if alone else values
            return finite_array("The array of shape parameters", given, (len(self.parameters),))
        out = self.params_start
        for name, value in values.items():
            if name not in self.parameters:
                raise InputError(
                    f"There is no shape parameter '{name}'; {nearest(name, self.parameters)}"
                )
            unit = self.parameters[name].unit
            out[list(self.parameters).index(name)] = require_number(
                f"The shape parameter '{name}'", value, unit
            )
        return out

    # Meshes of other values

    def points_at(self, values: Sequence[Any] | Array, points: Array) -> Array:
        """Return where material points (k, dim) [m] of the start shape are at values (m,). Complex
        values are allowed."""
        out = np.array(points)
        for parameter, value in zip(self.parameters.values(), values, strict=True):
            out = parameter.move(out, value, parameter.value)
        return out

    def point_changes(self, values: Array) -> list[Array]:
        """Return the derivative (n_nodes, dim) of the mesh's nodes by each parameter, exact by the
        complex step."""
        out = []
        for j in range(len(values)):
            at = values.astype(complex)
            at[j] += 1j * COMPLEX_STEP
            out.append(np.imag(self.points_at(at, self.mesh.points)) / COMPLEX_STEP)
        return out

    def mesh_at(self, values: Mapping[str, float] | Array, *, max_stretch: float = np.inf) -> Mesh:
        """Return the mesh at other values, with the cells of the start shape.

        Raises `InputError` if cells are inverted or too distorted, or stretched by more than
        `max_stretch`. The text says how far the parameters may go."""
        v = self.values_array(values)
        points = np.real(self.points_at(v, self.mesh.points))
        defect = self._defect(points, max_stretch)
        if not defect:
            try:
                return replace(self.mesh, points=points)
            except MeshError as error:
                defect = str(error)
        share = self._admissible_share(v, max_stretch)
        limits = self.params_start + share * (v - self.params_start)
        changed = [
            f"{PREFIX}{name} = {x:.6g} {parameter.unit} (limit {limit:.4g})"
            for (name, parameter), x, limit in zip(self.parameters.items(), v, limits, strict=True)
            if x != parameter.value
        ]
        raise InputError(
            f"The mesh of {self.reference.name} cannot follow {', '.join(changed)}: {defect} Stay "
            "within the limits, or mesh again with remeshed()."
        )

    def _stretches(self, points: Array) -> tuple[Array, Array]:
        """Return the determinant (n_cells,) and the smallest and largest stretch (n_cells, 2) of
        each cell's map."""
        corners = self.mesh.corners
        edges = np.swapaxes(points[corners[:, 1:]] - points[corners[:, :1]], 1, 2)
        J = edges @ self._inverse_edges
        sizes = np.linalg.svd(J, compute_uv=False)
        return np.linalg.det(J), sizes[:, [-1, 0]]

    @cached_property
    def _inverse_edges(self) -> Array:
        x, corners = self.mesh.points, self.mesh.corners
        return np.linalg.inv(np.swapaxes(x[corners[:, 1:]] - x[corners[:, :1]], 1, 2))

    def _defect(self, points: Array, max_stretch: float) -> str:
        """Return a sentence about the worst cell, empty if all cells are admissible."""
        if not np.all(np.isfinite(points)):
            return "its points are not finite."
        J, sizes = self._stretches(points)
        if J.min() <= 0.0:
            return f"cell {int(J.argmin())} is inverted."
        ratio = sizes[:, 1] / sizes[:, 0]
        if ratio.max() > MAX_DISTORTION:
            return (
                f"cell {int(ratio.argmax())} is stretched {ratio.max():.3g} times more along one "
                f"direction than along another (limit {MAX_DISTORTION:g})."
            )
        if sizes[:, 1].max() > max_stretch:
            return (
                f"cell {int(sizes[:, 1].argmax())} is stretched {sizes[:, 1].max():.3g} times, so "
                "that its particles are more than a grid cell apart."
            )
        return ""

    def _admissible_share(self, values: Array, max_stretch: float) -> float:
        """Return the part of the way from the start values to `values` without a defect."""
        start, low, high = self.params_start, 0.0, 1.0

        def good(share: float) -> bool:
            at = start + share * (values - start)
            return not self._defect(np.real(self.points_at(at, self.mesh.points)), max_stretch)

        if good(1.0):
            return 1.0
        for _ in range(BISECTIONS):
            middle = 0.5 * (low + high)
            low, high = (middle, high) if good(middle) else (low, middle)
        return low

    # Robots and models of other values

    def attached_robot_at(self, mesh: Mesh) -> Robot:
        """Return the robot on a mesh of other values, with attachments in coordinates of the start
        shape. Its body attaches them there."""
        made, body = replace(self.reference, shape=mesh), self.reference.body()
        assert isinstance(body, Solid)  # it has a mesh
        self._check_muscles(mesh)
        return _with_body(made, replace(body, mesh=mesh, reference=self.mesh))

    def _check_muscles(self, mesh: Mesh) -> None:
        """Raise `InputError` if the map rotates the axis of a muscle."""
        x, corners = mesh.points, mesh.corners
        J = np.swapaxes(x[corners[:, 1:]] - x[corners[:, :1]], 1, 2) @ self._inverse_edges
        for name, actuator in self.reference.actuators.items():
            if not isinstance(actuator, Muscle):
                continue
            a = np.asarray(actuator.axis, float) / np.linalg.norm(actuator.axis)
            moved = J @ a
            across = moved - (moved @ a)[:, None] * a
            if np.abs(across).max() > 1e-9 * np.abs(moved).max():
                raise InputError(
                    f"The shape parameters rotate the axis of the muscle '{name}', but muscles "
                    "keep their direction in space; use a Cable or a Fluidic actuator."
                )

    def robot_at(self, values: Mapping[str, float] | Array) -> Robot:
        """Return the robot at other values as a plain Robot, with its attachments moved. It can be
        saved, simulated and planned with."""
        v = self.values_array(values)
        mesh, body = self.mesh_at(v), self.reference.body()

        def moved(points: Any) -> Array:
            weights = body.locate(np.atleast_2d(np.asarray(points, float)))
            return weights @ mesh.points

        actuators: dict[str, Any] = dict(self.reference.actuators)
        for name, one in self.reference.actuators.items():
            if isinstance(one, Cable):
                actuators[name] = replace(one, points=moved(one.points))
            elif isinstance(one, Muscle | Fluidic) and not isinstance(one.region, str):
                cells = {f"cells of {name}": select_cells(body, one.region)}
                mesh = replace(mesh, regions={**mesh.regions, **cells})
                actuators[name] = replace(one, region=f"cells of {name}")
        changes: dict[str, Any] = {
            "actuators": actuators,
            "effectors": {
                name: one if one.point is None else Effector(point=moved(one.point)[0])
                for name, one in self.reference.effectors.items()
            },
            "loads": [
                replace(one, point=moved(one.point)[0]) if isinstance(one, PointLoad) else one
                for one in self.reference.loads
            ],
        }
        return replace(self.reference, shape=mesh, **changes)

    def remeshed(self, values: Mapping[str, float] | Array) -> "ParametrisedRobot":
        """Return the same parametrised robot, meshed again at other values, which become the start
        values. Use it between two optimisations.

        Raises `InputError` if `make` is no function, or makes another shape than the maps."""
        v = self.values_array(values)
        if isinstance(self.make, Robot):
            raise InputError(
                "A robot is meshed again by the function that makes it; give "
                "make=lambda values: Robot(...)."
            )
        parameters: Any = {
            name: replace(parameter, value=float(x))  # type: ignore[type-var]
            for (name, parameter), x in zip(self.parameters.items(), v, strict=True)
        }
        other = replace(self, parameters=parameters)
        mapped = np.real(self.points_at(v, self.mesh.points))
        corners = [(p.min(axis=0), p.max(axis=0)) for p in (mapped, other.mesh.points)]
        apart = np.abs(np.array(corners[0]) - np.array(corners[1])).max()
        if apart > SAME_SHAPE_TOLERANCE * other.mesh.size:
            raise InputError(
                f"The function `make` and the maps of the parameters disagree by {apart:.3g} m on "
                "the shape's bounds; correct one of them."
            )
        return other

    def model(self, kind: Any, **options: Any) -> ShapeModel:
        """Return a model whose parameters contain the shape. `kind` is ImplicitEuler, Quasistatic,
        BDF2, SemiImplicit or MaterialPoint; `options` are its arguments, such as dt=0.01."""
        return ShapeModel(shape=self, kind=kind, options=options)


def _with_body(robot: Robot, body: Any) -> Robot:
    """Return the robot with a given body."""
    vars(robot)["_body"] = body
    return robot
