"""Scenes of robots from the states of a model."""

from typing import Any

import numpy as np

from pliant.bodies import AttachableBody, Beams, Solid
from pliant.contact import Obstacle
from pliant.core import Array
from pliant.report import palette
from pliant.report.scene import DrawnScene, Line
from pliant.robot import Robot
from pliant.robot.actuation import for_each_actuator

NO_CONTROLS = np.zeros(0)


def robot_scene(
    robot: Robot,
    positions: Array,
    *,
    dt: float | None,
    title: str,
    targets: Array | None = None,
    ground: float | None = None,
    controls: Array | None = None,
    marked: tuple[str, ...] | None = None,
) -> DrawnScene:
    """Return a scene of a robot coloured by strain, with its cables and effectors, at positions
    (frames, n_dofs) [m]. With controls (frames, n_controls), grippers are drawn too. `marked` names
    the effectors to draw; None: all."""
    body = robot.body()
    frames = np.asarray(positions).reshape(len(positions), -1, body.dim)
    at = lambda weights: np.stack([weights @ frame for frame in frames])
    obstacles = [
        contact.obstacle for contact in robot.contacts if isinstance(contact.obstacle, Obstacle)
    ]
    floor = next((obstacle.ground for obstacle in obstacles if obstacle.ground is not None), ground)
    lines = cable_lines(robot, body, frames)
    lines += [
        Line(points=curve, colour=palette.SECONDARY)
        for obstacle in obstacles
        for curve in obstacle.outline
    ]
    lines += [] if controls is None else frame_lines(robot, body, frames, controls)
    effectors = [
        at(effector.attach(body))
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
        strain = 100.0 * np.stack([body.strain(q) for q in positions])[:, body.is_position]
        common["frames"] = frames[:, body.is_position]
        return DrawnScene(
            **common,
            facets=np.array(body.rods.rods),
            values=strain,
            value_label=f"{body.strain_label} [%]",
            thickness=float(
                np.median([2.0 * min(section.extreme_fibres) for section in body.rods.sections])
            ),
        )
    if not isinstance(body, Solid):
        return DrawnScene(facets=np.arange(frames.shape[1])[:, None], **common)
    facets = body.mesh.boundary()[:, : body.dim] if body.dim == 3 else body.mesh.corners
    return DrawnScene(
        facets=facets,
        values=100.0 * np.stack([body.strain(q) for q in positions]),
        value_label=f"{body.strain_label} [%]",
        **common,
    )


def cable_lines(robot: Robot, body: AttachableBody, frames: Array) -> list[Line]:
    """Return the lines of actuators that depend on the node positions (frames, n_nodes, dim) [m]
    alone, such as cables."""
    made = for_each_actuator(robot, lambda actuator: actuator.polylines(body))
    return [
        Line(points=np.stack([line.points(nodes, NO_CONTROLS) for nodes in frames]))
        for lines, _ in made
        for line in lines
        if not line.depends_on_controls
    ]


def frame_lines(robot: Robot, body: AttachableBody, frames: Array, controls: Array) -> list[Line]:
    """Return the lines of actuators that depend on the controls (frames, n_controls): frames of
    grippers and tethers, and the tethers themselves."""
    made = for_each_actuator(robot, lambda actuator: actuator.polylines(body))
    return [
        Line(
            points=np.stack(
                [line.points(nodes, u[part]) for nodes, u in zip(frames, controls, strict=True)]
            ),
            colour=palette.SECONDARY if line.kind == "frame" else palette.CABLE,
        )
        for lines, part in made
        for line in lines
        if line.depends_on_controls
    ]
