"""Plots and scenes of a model's motion, from its states and controls."""

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, replace
from typing import Any

import numpy as np

from pliant.core import Array, Dynamics
from pliant.mpm.material_point import MaterialPoint
from pliant.planners.model_summary import ModelSummary, effector_positions, summarise
from pliant.report.control_plots import plots_by_unit
from pliant.report.figures import Plot
from pliant.report.link_scene import link_poses, link_scene
from pliant.report.outcome import Metric
from pliant.report.particle_scene import particle_scene
from pliant.report.robot_scene import robot_scene
from pliant.report.scene import DrawnScene, Line
from pliant.robot import Robot, RobotDescription
from pliant.robot.description import robot_of
from pliant.swimming import LinkedRobot


@dataclass(frozen=True, kw_only=True, eq=False)
class Motion:
    """States and controls of a run, and the model that made them."""

    summary: ModelSummary
    states: Array  # (steps + 1, n_state)
    controls: Array  # (steps, n_controls)
    positions: Mapping[str, Array]  # effector -> (steps + 1, dim) [m]
    model: Dynamics | None = None  # None: the plan was loaded without one
    previous_control: Array | None = None  # (n_controls,) before the first step

    @property
    def times(self) -> Array:
        """(steps + 1,) [s], or the step numbers of a quasistatic model."""
        step = 1.0 if self.summary.quasistatic else self.summary.dt
        return step * np.arange(len(self.states))

    @property
    def time_label(self) -> str:
        return "step" if self.summary.quasistatic else "time [s]"

    @property
    def robot(self) -> RobotDescription | None:
        return robot_of(self.model)


def model_motion(
    model: Dynamics, states: Array, controls: Array, previous_control: Array | None = None
) -> Motion:
    """Return the motion of a model through states (steps + 1, n_state)."""
    return Motion(
        summary=summarise(model),
        states=states,
        controls=controls,
        positions=effector_positions(model, states),
        model=model,
        previous_control=previous_control,
    )


def final_position_metrics(motion: Motion) -> dict[str, Metric]:
    """Return the final coordinates [m] of every effector."""
    return {
        f"final {name} {axis}": Metric(value=float(track[-1, k]), unit="m")
        for name, track in motion.positions.items()
        for k, axis in enumerate("xyz"[: track.shape[1]])
    }


def motion_plots(motion: Motion) -> list[Plot]:
    """Return plots of the controls, with names, units and limits, and of the effector positions."""
    names = list(zip(motion.summary.names, motion.summary.units, strict=True))
    limits = None if motion.robot is None else motion.robot.control_limits()
    times, label = motion.times, motion.time_label
    return [
        *plots_by_unit(names, times, motion.controls, x=label, limits=limits),
        *_joint_plots(motion),
        *(
            Plot(
                title=f"Position of {name}",
                x=label,
                y="position [m]",
                series={
                    axis: (times, track[:, k]) for k, axis in enumerate("xyz"[: track.shape[1]])
                },
            )
            for name, track in motion.positions.items()
        ),
    ]


def _joint_plots(motion: Motion) -> list[Plot]:
    robot = motion.robot
    if not isinstance(robot, LinkedRobot) or not robot.hinges:
        return []
    angles = link_poses(motion.summary.space, motion.states).angles
    return [joint_plot(robot, motion.times, angles, "Joint angles")]


def joint_plot(robot: LinkedRobot, times: Array, angles: Array, title: str) -> Plot:
    """Return a plot of the joint angles (frames, n_hinges) [rad] of a linked robot over times
    (frames,) [s]."""
    series = {name: (times, angle) for name, angle in zip(robot.hinges, angles.T, strict=True)}
    return Plot(title=title, x="time [s]", y="joint angle [rad]", series=series)


def motion_scene(
    motion: Motion,
    *,
    title: str,
    targets: Array | None = None,
    paths: Sequence[Array] = (),
) -> DrawnScene | None:
    """Return the scene of a motion, with targets (k, dim) [m] and target paths (k, dim) [m]. None
    if the model is unknown or was not made of a robot."""
    robot, model = motion.robot, motion.model
    options: dict[str, Any] = {"title": title, "targets": targets}
    if isinstance(model, MaterialPoint):
        scene = particle_scene(model, motion.states, controls=motion.controls, **options)
    elif isinstance(robot, LinkedRobot):
        poses = link_poses(motion.summary.space, motion.states)
        scene = link_scene(robot, poses, dt=motion.summary.dt, **options)
    elif model is None or not isinstance(robot, Robot):
        return None
    else:
        positions = _body_positions(model, robot, motion.states)
        if positions is None:
            return None
        dt = None if motion.summary.quasistatic else motion.summary.dt
        controls = _frame_controls(motion, robot)
        scene = robot_scene(robot, positions, dt=dt, controls=controls, **options)
    return _with_paths(scene, paths)


def _with_paths(scene: DrawnScene, paths: Sequence[Array]) -> DrawnScene:
    lines = tuple(Line(points=path, dashed=True) for path in paths)
    return replace(scene, lines=(*scene.lines, *lines)) if lines else scene


def _frame_controls(motion: Motion, robot: Robot) -> Array | None:
    """Return controls (frames, n_controls); those of frame 0 act before the first step."""
    if motion.controls.shape[1] != robot.n_controls:
        return None
    initial = motion.previous_control
    first = robot.neutral_controls() if initial is None else initial
    return np.concatenate([np.asarray(first, float)[None], motion.controls])


def _body_positions(model: Dynamics, robot: Robot, states: Array) -> Array | None:
    """Return node positions (frames, n_dofs) [m] of the robot's body. None if the states do not
    determine them."""
    size = robot.body().rest.size
    if model.space.n_dofs == size:
        return states[:, :size]
    full_model = getattr(model, "full_model", model)  # of a condensed one
    positions = getattr(full_model, "positions", None)  # a surrogate maps its state to the body
    return None if positions is None else np.stack([positions(x) for x in states])
