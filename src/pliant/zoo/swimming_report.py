"""Plots and scenes of the swimming robot."""

from collections.abc import Sequence
from dataclasses import replace

import numpy as np

from pliant.core import Array
from pliant.report import DrawnScene, Plot
from pliant.report.link_scene import link_poses, link_scene
from pliant.report.model_plots import joint_plot
from pliant.swimming import SwimmerModel

POTENTIAL_FRAMES = 60  # frames whose potential is solved; the others are left out of the animation


def angle_plot(model: SwimmerModel, states: Array, title: str) -> Plot:
    """Return a plot of the joint angles over time."""
    times = model.dt * np.arange(len(states))
    return joint_plot(model.robot, times, link_poses(model.space, states).angles, title)


def torque_plot(model: SwimmerModel, torques: Array, title: str) -> Plot:
    """Return a plot of torques (steps, n) over time."""
    times = model.dt * np.arange(1, len(torques) + 1)
    names = [control.name for control in model.robot.controls]
    return Plot(
        title=title,
        x="time [s]",
        y="torque [N m]",
        kind="steps",
        series={name: (times, u) for name, u in zip(names, torques.T, strict=True)},
    )


def locus_plot(model: SwimmerModel, paths: dict[str, Array], title: str) -> Plot:
    """Return a plot of the centre of mass from above; `paths` names arrays of states."""
    series = {}
    for name, states in paths.items():
        centres = np.array([model.effector("centre of mass", x)[0] for x in states])
        series[name] = (centres[:, 0] - centres[0, 0], centres[:, 1] - centres[0, 1])
    return Plot(
        title=title, x="distance along x [m]", y="distance along y [m]", equal=True, series=series
    )


def potential_scene(
    model: SwimmerModel, states: Array, title: str, targets: Array | None = None
) -> DrawnScene:
    """Return the scene of a motion with the potential of the fluid as colour [Jia2019, Fig. 2, 4]
    and the locus of the centre of mass."""
    shown = np.linspace(0, len(states) - 1, min(POTENTIAL_FRAMES, len(states))).astype(int)
    exact = model.exact()
    potential = np.array([_potential(exact, x) for x in states[shown]])
    points = exact.added_mass.exact_map.points  # type: ignore[union-attr]
    dt = model.dt * (shown[-1] - shown[0]) / max(1, len(shown) - 1)
    scene = link_scene(
        model.robot,
        link_poses(model.space, states[shown]),
        dt=dt,
        title=title,
        targets=targets,
        potential=potential,
        points=points,
    )
    return replace(scene, trail=True)


def _potential(exact: SwimmerModel, x: Array) -> Array:
    """Return the potential (P,) [m^2/s] on the surface in a state."""
    flow = exact.added_mass.exact_map.flow  # type: ignore[union-attr]
    solution = flow.solve(exact.robot.placement(exact.query_point(x)))
    return solution.potential @ exact.velocities(x)


def hinge_labels(model: SwimmerModel) -> Sequence[str]:
    """Return the names of the inputs of the exact map, for plots."""
    return [f"angle of {name} [rad]" for name in model.robot.hinges]
