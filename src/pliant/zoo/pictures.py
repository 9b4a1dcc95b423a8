"""Scenes of robots: from states of a model to what an animation shows."""

import numpy as np

from pliant.actuators import Cable
from pliant.bodies import Solid
from pliant.contact import Obstacle
from pliant.core import Array, InputError
from pliant.report import Line, Scene, palette
from pliant.robot import Robot


def scene(
    robot: Robot, positions: Array, *, dt: float | None, title: str, targets: Array | None = None, ground: float | None = None
) -> Scene:
    """The robot's skin coloured by strain, its cables and its effectors, at positions (frames, n_dofs) [m]."""
    body = robot.body()
    if not isinstance(body, Solid):
        raise InputError(f"{robot.name} has no skin to draw; only solids are drawn.")
    frames = np.asarray(positions).reshape(len(positions), -1, body.dim)
    at = lambda weights: np.stack([weights @ frame for frame in frames])  # noqa: E731
    obstacles = [contact.obstacle for contact in robot.contacts if isinstance(contact.obstacle, Obstacle)]
    floor = next((obstacle.ground for obstacle in obstacles if obstacle.ground is not None), ground)
    lines = [_cable(cable, body, at) for cable in robot.actuators.values() if isinstance(cable, Cable)]
    lines += [Line(points=curve, colour=palette.FAINT) for obstacle in obstacles for curve in obstacle.outline]
    effectors = [at(effector.on(body)) for effector in robot.effectors.values()]
    facets = body.mesh.boundary()[:, : body.dim] if body.dim == 3 else body.mesh.corners
    return Scene(frames=frames, facets=facets, dt=dt, title=title, lines=tuple(lines), ground=floor, targets=targets,
                 values=100.0 * np.stack([body.strain(q) for q in positions]), value_label="strain [%]",
                 markers=np.concatenate(effectors, axis=1) if effectors else None)  # fmt: skip


def _cable(cable: Cable, body: Solid, at) -> Line:
    points = at(body.locate(np.asarray(cable.points, float)))
    if cable.guide is None:
        return Line(points=points)
    guide = np.broadcast_to(np.asarray(cable.guide, float), (len(points), 1, body.dim))
    return Line(points=np.concatenate([points, guide], axis=1))
