"""Scenes of robots: from states of a model to what an animation shows."""

from typing import Any

import numpy as np

from pliant.actuators import Cable, Driven, Tether
from pliant.bodies import Beams, Matter, Solid
from pliant.contact import Obstacle
from pliant.core import Array
from pliant.report import Line, Scene, palette
from pliant.robot import Robot


def scene(
    robot: Robot,
    positions: Array,
    *,
    dt: float | None,
    title: str,
    targets: Array | None = None,
    ground: float | None = None,
    controls: Array | None = None,
    marked: tuple[str, ...] | None = None,
) -> Scene:
    """The robot's skin or rods coloured by strain, its cables and its effectors, at positions
    (frames, n_dofs) [m]; with controls (frames, n_controls) also the arms that hold it. `marked`
    names the effectors to draw, None: all."""
    body = robot.body()
    frames = np.asarray(positions).reshape(len(positions), -1, body.dim)
    at = lambda weights: np.stack([weights @ frame for frame in frames])
    obstacles = [
        contact.obstacle for contact in robot.contacts if isinstance(contact.obstacle, Obstacle)
    ]
    floor = next((obstacle.ground for obstacle in obstacles if obstacle.ground is not None), ground)
    lines = [
        Line(points=cable_points(cable, body, at))
        for cable in robot.actuators.values()
        if isinstance(cable, Cable)
    ]
    lines += [
        Line(points=curve, colour=palette.FAINT)
        for obstacle in obstacles
        for curve in obstacle.outline
    ]
    lines += [] if controls is None else arm_lines(robot, body, at, controls)
    effectors = [
        at(effector.on(body))
        for name, effector in robot.effectors.items()
        if marked is None or name in marked
    ]
    common: dict[str, Any] = {
        "frames": frames,
        "dt": dt,
        "title": title,
        "lines": tuple(lines),
        "ground": floor,
        "targets": targets,
        "markers": np.concatenate(effectors, axis=1) if effectors else None,
    }
    if isinstance(body, Beams):
        strain = 100.0 * np.stack([body.strain(q) for q in positions])[:, body.is_place]
        common["frames"] = frames[:, body.is_place]
        return Scene(
            **common,
            facets=np.array(body.rods.rods),
            values=strain,
            value_label=f"{body.strain_label} [%]",
            thickness=float(
                np.median([2.0 * min(section.reach) for section in body.rods.sections])
            ),
        )
    if not isinstance(body, Solid):
        return Scene(facets=np.arange(frames.shape[1])[:, None], **common)
    facets = body.mesh.boundary()[:, : body.dim] if body.dim == 3 else body.mesh.corners
    return Scene(
        facets=facets,
        values=100.0 * np.stack([body.strain(q) for q in positions]),
        value_label=f"{body.strain_label} [%]",
        **common,
    )


def cable_points(cable: Cable, body: Matter, at) -> Array:
    """(frames, k, dim) [m] where a cable runs; `at` brings the nodes of each frame to the rows of a
    matrix of weights."""
    points = at(body.locate(np.asarray(cable.points, float)))
    if cable.guide is None:
        return points
    guide = np.broadcast_to(np.asarray(cable.guide, float), (len(points), 1, body.dim))
    return np.concatenate([points, guide], axis=1)


def arm_lines(robot: Robot, body: Matter, at, controls: Array) -> list[Line]:
    """The frames that grippers and tethers hang on, and the tethers themselves."""
    out, first = [], 0
    for actuator in robot.actuators.values():
        mine = controls[:, first : first + actuator.n_controls]
        first += actuator.n_controls
        if isinstance(actuator, Driven):
            outline = np.stack([actuator.frame.outline(u) for u in mine])
            out.append(Line(points=outline, colour=palette.FAINT))
            if isinstance(actuator, Tether):
                out.append(
                    Line(
                        points=np.concatenate(
                            [outline[:, -1:], at(body.locate(np.asarray(actuator.point, float)))],
                            axis=1,
                        )
                    )
                )
    return out
