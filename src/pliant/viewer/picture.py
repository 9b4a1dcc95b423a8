"""Picture: the shapes of a robot for the page, sent once, and their positions, sent with every
frame."""

from collections.abc import Callable
from dataclasses import dataclass
from functools import cached_property
from typing import Any

import numpy as np

from pliant.actuators import AttachedLiquid, Polyline, cavity_of, liquid_of
from pliant.bodies import Beams, Solid
from pliant.contact import Obstacle
from pliant.core import Array
from pliant.geometry.cells import split_quadratic_triangles
from pliant.robot import Robot
from pliant.robot.actuation import for_each_actuator
from pliant.viewer.obstacles import obstacle_box, obstacle_curves, obstacle_surface

GROUND_GAP = 0.03  # robot sizes between the robot and the drawn ground, if it has no real ground


@dataclass(frozen=True, kw_only=True, eq=False)
class PageLine:
    """A polyline that moves with the robot: a cable, or the frame of a gripper."""

    kind: str  # "cable" or "frame"
    name: str
    control: int  # the first control that drives it
    count: int  # points
    at: Callable[[Array, Array], Array]  # (nodes (n, dim), u) -> (count, dim) [m]


@dataclass(frozen=True, kw_only=True, eq=False)
class Picture:
    """The drawn shapes of a robot. Points of a plane robot get a third coordinate of zero."""

    robot: Robot

    @cached_property
    def rest(self) -> Array:
        """Return the node positions (n_nodes, dim) [m] at rest."""
        body = self.robot.body()
        return body.rest.reshape(-1, body.dim)

    @cached_property
    def bounds(self) -> tuple[Array, Array]:
        """Return the bounding box ((dim,), (dim,)) [m] of the robot at rest, cables included."""
        nodes = self.rest[self.robot.body().is_position]
        u = self.robot.neutral_controls()
        all_ = np.concatenate([nodes, *(line.at(self.rest, u) for line in self.lines)])
        return all_.min(axis=0), all_.max(axis=0)

    @property
    def size(self) -> float:
        """Return the diagonal [m] of the bounding box."""
        return float(np.linalg.norm(np.subtract(*self.bounds))) or 1.0

    @property
    def colours(self) -> tuple[str, ...]:
        """Return the quantities that can colour the body."""
        return ("strain", *(("weight",) if self._liquids else ()), "none")

    # Shapes, as rows of node indices

    @cached_property
    def _cavities(self) -> dict[str, Array]:
        """Return the wall facets of each cavity that an actuator fills."""
        body = self.robot.body()
        if not isinstance(body, Solid) or body.dim != 3:
            return {}
        cavities = {name: cavity_of(a) for name, a in self.robot.actuators.items()}
        return {
            name: body.mesh.facets(cavity)
            for name, cavity in cavities.items()
            if cavity is not None
        }

    @cached_property
    def _shapes(self) -> dict[str, Array]:
        """Return skin (m, 3), rods (m, 2), dots (m, 1) and the cavity (m, 3) of each fluid."""
        body = self.robot.body()
        if isinstance(body, Beams):
            return {"rods": np.flatnonzero(body.is_position)[body.rods.rods]}
        if not isinstance(body, Solid):
            return {"dots": np.arange(len(self.rest))[:, None]}
        skin = body.mesh.boundary() if body.dim == 3 else body.mesh.cells
        walls = {
            tuple(sorted(facet[:3])) for wall in self._cavities.values() for facet in wall.tolist()
        }
        outer = np.array([tuple(sorted(facet[:3])) not in walls for facet in skin.tolist()])
        return {
            "skin": _linear_triangles(skin[outer]),
            **{f"cavity {name}": _linear_triangles(wall) for name, wall in self._cavities.items()},
        }

    @cached_property
    def nodes(self) -> Array:
        """Return the indices (n,) of the drawn nodes."""
        return np.unique(np.concatenate([shape.ravel() for shape in self._shapes.values()]))

    @cached_property
    def lines(self) -> tuple[PageLine, ...]:
        """Return the cables and the frames of grippers."""
        body = self.robot.body()
        made = for_each_actuator(self.robot, lambda actuator: actuator.polylines(body))
        return tuple(
            _page_line(name, line, part)
            for name, (lines, part) in zip(self.robot.actuators, made, strict=True)
            for line in lines
        )

    # Messages

    def scene(self) -> tuple[dict[str, Any], dict[str, Array]]:
        """Return the constant data of the scene: a JSON head and arrays by name."""
        low, high = (_as_3d(part) for part in self.bounds)
        shapes = {name: np.searchsorted(self.nodes, shape) for name, shape in self._shapes.items()}
        arrays = {**shapes, "rest": _as_3d(self.rest[self.nodes])}
        head = {
            "name": self.robot.name,
            "dim": self.rest.shape[1],
            "low": low.tolist(),
            "high": high.tolist(),
            "size": self.size,
            "radius": self._radius,
            "colours": self.colours,
            "strain": self.robot.body().strain_label,  # type: ignore[attr-defined]
            "ground": self._ground,
            "lines": [
                {"kind": l.kind, "name": l.name, "control": l.control, "count": l.count}
                for l in self.lines
            ],
        }
        for k, (points, triangles) in enumerate(self._obstacles):
            arrays |= {f"obstacle {k} points": points, f"obstacle {k} triangles": triangles}
        for k, curve in enumerate(self._curves):
            arrays[f"curve {k}"] = curve
        return head, arrays

    def frame(self, q: Array, u: Array, colour: str) -> dict[str, Array]:
        """Return points, colour values and lines for positions q (n_dofs,) [m] and controls u."""
        nodes = q.reshape(self.rest.shape)
        arrays = {"points": _as_3d(nodes[self.nodes])}
        if colour != "none":
            arrays["values"] = self.values(q, colour)[self.nodes]
        if self.lines:
            arrays["lines"] = _as_3d(np.concatenate([line.at(nodes, u) for line in self.lines]))
        return arrays

    def values(self, q: Array, colour: str) -> Array:
        """Return the nodal values (n_nodes,) of a colour: the strain [-] or the magnitude of the
        liquid forces [N]."""
        if colour == "strain":
            return self.robot.body().strain(q)  # type: ignore[attr-defined]
        return np.linalg.norm(self.liquid_forces(q), axis=1)

    def liquid_forces(self, q: Array) -> Array:
        """Return the nodal forces (n_nodes, dim) [N] by the weight of all liquids."""
        nodes, force = q.reshape(self.rest.shape), np.zeros(self.rest.shape)
        for liquid in self._liquids:
            force -= liquid.weights.T @ liquid.gradient(
                liquid.weights @ nodes + liquid.offset, np.zeros(0)
            )
        return force

    @cached_property
    def _liquids(self) -> tuple[AttachedLiquid, ...]:
        body, gravity = self.robot.body(), self.robot.gravity
        found = (liquid_of(actuator, body, gravity) for actuator in self.robot.actuators.values())
        return tuple(liquid for liquid in found if liquid is not None)

    @property
    def _radius(self) -> list[float] | None:
        """Return the radius [m] of each rod, or of all dots."""
        body = self.robot.body()
        if isinstance(body, Beams):
            return [min(section.extreme_fibres) for section in body.rods.sections]
        return None if isinstance(body, Solid) else [0.04 * self.size]

    @property
    def _ground(self) -> dict[str, Any]:
        """Return the height of the ground, and whether the robot has contact with it."""
        heights = [
            c.obstacle.ground
            for c in self.robot.contacts
            if isinstance(c.obstacle, Obstacle) and c.obstacle.ground is not None
        ]
        real = max(heights) if heights else None
        return {
            "height": float(self.bounds[0][-1]) - GROUND_GAP * self.size if real is None else real,
            "real": real is not None,
        }

    @property
    def _obstacle_region(self) -> tuple[Array, Array]:
        """Return the box in which obstacles without an outline are drawn."""
        return self.bounds[0] - 0.7 * self.size, self.bounds[1] + 0.7 * self.size

    def _non_ground_obstacles(self) -> list[Any]:
        """Return the obstacles other than level ground."""
        found = [contact.obstacle for contact in self.robot.contacts]
        return [o for o in found if not (isinstance(o, Obstacle) and o.ground is not None)]

    @property
    def _obstacles(self) -> list[tuple[Array, Array]]:
        flat = self.rest.shape[1] == 2
        return (
            []
            if flat
            else [
                obstacle_surface(o, *obstacle_box(o, *self._obstacle_region))
                for o in self._non_ground_obstacles()
            ]
        )

    @property
    def _curves(self) -> list[Array]:
        if self.rest.shape[1] == 3:
            return []
        return [
            _as_3d(curve)
            for o in self._non_ground_obstacles()
            for curve in obstacle_curves(o, *obstacle_box(o, *self._obstacle_region))
        ]


def _as_3d(points: Array) -> Array:
    """Return points (..., dim) as (..., 3), padded with zeros."""
    return np.concatenate([points, np.zeros((*points.shape[:-1], 3 - points.shape[-1]))], axis=-1)


def _linear_triangles(facets: Array) -> Array:
    """Return linear triangles (m, 3). A quadratic triangle gives four."""
    return facets if facets.shape[1] == 3 else split_quadratic_triangles(facets)


def _page_line(name: str, line: Polyline, part: slice) -> PageLine:
    return PageLine(
        kind=line.kind,
        name=name,
        control=part.start,
        count=line.n_points,
        at=lambda nodes, u: line.points(nodes, u[part]),
    )
