"""Picture: what the page draws of a robot, told once, and where all of it is, told with every
frame."""

from collections.abc import Callable
from dataclasses import dataclass
from functools import cached_property
from typing import Any

import numpy as np

from pliant.actuators import Cable, Driven, Pressure, Tether
from pliant.actuators.continued import uncontinued
from pliant.actuators.hydraulic import AttachedLiquid, Hydraulic, liquid_of
from pliant.bodies import Beams, Solid
from pliant.contact import Obstacle
from pliant.core import Array
from pliant.geometry.cells import quartered
from pliant.robot import Robot
from pliant.viewer.obstacles import obstacle_box, obstacle_curves, obstacle_surface

FLOOR = (
    0.03  # of the robot's size, how far the drawn ground lies below it where there is no real one
)


@dataclass(frozen=True, kw_only=True, eq=False)
class Line:
    """A polyline that moves with the robot: a cable, or the frame that holds it."""

    kind: str  # "cable" or "frame"
    name: str
    control: int  # the first control that drives it
    count: int  # points
    at: Callable[[Array, Array], Array]  # (nodes (n, dim), u) -> (count, dim) [m]


@dataclass(frozen=True, kw_only=True, eq=False)
class Picture:
    """What is drawn of a robot. Points of a plane robot lie at height zero of the third axis."""

    robot: Robot

    @cached_property
    def rest(self) -> Array:
        """(n_nodes, dim) [m]"""
        body = self.robot.body()
        return body.rest.reshape(-1, body.dim)

    @cached_property
    def bounds(self) -> tuple[Array, Array]:
        """((dim,), (dim,)) [m] of the robot at rest, what its cables run to included."""
        places = self.rest[self.robot.body().is_place]
        u = self.robot.neutral_controls()
        all_ = np.concatenate([places, *(line.at(self.rest, u) for line in self.lines)])
        return all_.min(axis=0), all_.max(axis=0)

    @property
    def size(self) -> float:
        """[m] the diagonal of the bounds."""
        return float(np.linalg.norm(np.subtract(*self.bounds))) or 1.0

    @property
    def colours(self) -> tuple[str, ...]:
        """What the body can be coloured by."""
        return ("strain", *(("weight",) if self._liquids else ()), "none")

    # Shapes, as rows of node numbers of the body

    @cached_property
    def _cavities(self) -> dict[str, Array]:
        """The walls of each cavity that an actuator fills."""
        body = self.robot.body()
        inner = {name: uncontinued(a) for name, a in self.robot.actuators.items()}
        fluids = {
            name: a.cavity for name, a in inner.items() if isinstance(a, Hydraulic | Pressure)
        }
        return (
            {name: body.mesh.facets(cavity) for name, cavity in fluids.items()}
            if isinstance(body, Solid) and body.dim == 3
            else {}
        )

    @cached_property
    def _shapes(self) -> dict[str, Array]:
        """skin (m, 3), rods (m, 2), dots (m, 1) and a cavity (m, 3) for each fluid."""
        body = self.robot.body()
        if isinstance(body, Beams):
            return {"rods": np.flatnonzero(body.is_place)[body.rods.rods]}
        if not isinstance(body, Solid):
            return {"dots": np.arange(len(self.rest))[:, None]}
        skin = body.mesh.boundary() if body.dim == 3 else body.mesh.cells
        walls = {
            tuple(sorted(facet[:3])) for wall in self._cavities.values() for facet in wall.tolist()
        }
        outer = np.array([tuple(sorted(facet[:3])) not in walls for facet in skin.tolist()])
        return {
            "skin": _flat(skin[outer]),
            **{f"cavity {name}": _flat(wall) for name, wall in self._cavities.items()},
        }

    @cached_property
    def nodes(self) -> Array:
        """(n,) the nodes of the body that are drawn."""
        return np.unique(np.concatenate([shape.ravel() for shape in self._shapes.values()]))

    @cached_property
    def lines(self) -> tuple[Line, ...]:
        """Cables, and the frames that hold the robot."""
        out, first = [], 0
        for name, actuator in self.robot.actuators.items():
            if isinstance(actuator, Cable):
                out.append(_cable(self.robot, name, actuator, first))
            if isinstance(actuator, Driven):
                out += _frame(self.robot, name, actuator, first)
            first += actuator.n_controls
        return tuple(out)

    # What is told

    def scene(self) -> tuple[dict[str, Any], dict[str, Array]]:
        """(what does not move, in words and numbers; the arrays it names)."""
        low, high = (_deep(part) for part in self.bounds)
        shapes = {name: np.searchsorted(self.nodes, shape) for name, shape in self._shapes.items()}
        arrays = {**shapes, "rest": _deep(self.rest[self.nodes])}
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
        """Where everything is for positions q (n_dofs,) [m] and controls u, and the values that
        colour it."""
        nodes = q.reshape(self.rest.shape)
        arrays = {"points": _deep(nodes[self.nodes])}
        if colour != "none":
            arrays["values"] = self.values(q, colour)[self.nodes]
        if self.lines:
            arrays["lines"] = _deep(np.concatenate([line.at(nodes, u) for line in self.lines]))
        return arrays

    def values(self, q: Array, colour: str) -> Array:
        """(n_nodes,) what a colour shows: the strain [-], or how hard the weight of liquids presses
        on each node [N]."""
        if colour == "strain":
            return self.robot.body().strain(q)  # type: ignore[attr-defined]
        return np.linalg.norm(self.pressed(q), axis=1)

    def pressed(self, q: Array) -> Array:
        """(n_nodes, dim) [N] what the weight of all liquids does to each node."""
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
        """[m] of each rod, or of a dot."""
        body = self.robot.body()
        if isinstance(body, Beams):
            return [min(section.reach) for section in body.rods.sections]
        return None if isinstance(body, Solid) else [0.04 * self.size]

    @property
    def _ground(self) -> dict[str, Any]:
        """The height of the ground, and whether it is one that the robot meets."""
        heights = [
            c.obstacle.ground
            for c in self.robot.contacts
            if isinstance(c.obstacle, Obstacle) and c.obstacle.ground is not None
        ]
        real = max(heights) if heights else None
        return {
            "height": float(self.bounds[0][-1]) - FLOOR * self.size if real is None else real,
            "real": real is not None,
        }

    @property
    def _room(self) -> tuple[Array, Array]:
        """Where obstacles without an outline are looked for."""
        return self.bounds[0] - 0.7 * self.size, self.bounds[1] + 0.7 * self.size

    def _standing(self) -> list[Any]:
        """The obstacles that are not level ground."""
        found = [contact.obstacle for contact in self.robot.contacts]
        return [o for o in found if not (isinstance(o, Obstacle) and o.ground is not None)]

    @property
    def _obstacles(self) -> list[tuple[Array, Array]]:
        flat = self.rest.shape[1] == 2
        return (
            []
            if flat
            else [obstacle_surface(o, *obstacle_box(o, *self._room)) for o in self._standing()]
        )

    @property
    def _curves(self) -> list[Array]:
        if self.rest.shape[1] == 3:
            return []
        return [
            _deep(curve)
            for o in self._standing()
            for curve in obstacle_curves(o, *obstacle_box(o, *self._room))
        ]


def _deep(points: Array) -> Array:
    """(..., 3) points of the plane or of space."""
    return np.concatenate([points, np.zeros((*points.shape[:-1], 3 - points.shape[-1]))], axis=-1)


def _flat(facets: Array) -> Array:
    """(m, 3) triangles; one with middle nodes becomes four."""
    return facets if facets.shape[1] == 3 else quartered(facets)


def _cable(robot: Robot, name: str, cable: Cable, first: int) -> Line:
    weights = robot.body().locate(np.asarray(cable.points, float))
    guide = (
        np.zeros((0, robot.body().dim))
        if cable.guide is None
        else np.asarray(cable.guide, float)[None]
    )
    return Line(
        kind="cable",
        name=name,
        control=first,
        count=weights.shape[0] + len(guide),
        at=lambda nodes, u: np.concatenate([weights @ nodes, guide]),
    )


def _frame(robot: Robot, name: str, actuator: Driven, first: int) -> list[Line]:
    part, frame = slice(first, first + actuator.n_controls), actuator.frame
    count = len(frame.outline(frame.start))
    out = [
        Line(
            kind="frame",
            name=name,
            control=first,
            count=count,
            at=lambda nodes, u: frame.outline(u[part]),
        )
    ]
    if isinstance(actuator, Tether):
        row = robot.body().locate(np.asarray(actuator.point, float)[None])
        out.append(
            Line(
                kind="cable",
                name=name,
                control=first,
                count=2,
                at=lambda nodes, u: np.concatenate([frame.outline(u[part])[-1:], row @ nodes]),
            )
        )
    return out
