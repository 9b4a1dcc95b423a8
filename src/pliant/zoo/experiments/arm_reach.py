"""arm-reach: four cables move a soft arm to a target by exact derivatives, then release it
[Jia2019]."""

from collections.abc import Mapping
from typing import Any

import numpy as np
from scipy.optimize import lsq_linear

from pliant.core import Array
from pliant.dynamics import ImplicitEuler, Quasistatic, equilibrium
from pliant.report import Plot
from pliant.report.robot_scene import robot_scene
from pliant.zoo.experiment import Experiment, ExperimentRun, Metric, Outcome, Setting
from pliant.zoo.robots import line_arm

FRAMES = 30  # of the animation while the tensions rise


def find_tensions(
    model: Any,
    effector: str,
    target: Array,
    *,
    limits: tuple[Array, Array],
    tolerance: float,
    progress: Any,
) -> tuple[Array, Array, list[float], int]:
    """Find tensions [N] that bring an effector to a target [m], within the limits.

    The method is Gauss-Newton on the equilibrium map [Jia2019, eq. 7]. Return the tensions, the
    equilibrium state, the distance [m] after each accepted step, and the number of equilibria.
    """
    tip = lambda x: model.robot.effector_position(effector, model.space.position(x))
    u = np.full(model.n_controls, 0.5)
    step = equilibrium(model, u)
    errors, damping, n_equilibria = [float(np.linalg.norm(tip(step.x) - target))], 1e-6, 1
    for k in range(40):
        progress("finding tensions", k, 40)
        if errors[-1] <= tolerance:
            break
        df = model.linearize(step).dense_controls()
        J = np.stack([tip(column) for column in df.T], axis=1)
        rows = np.vstack([J, damping * np.eye(u.size)])
        right = np.concatenate([target - tip(step.x), np.zeros(u.size)])
        du = lsq_linear(rows, right, (limits[0] - u - 1e-12, limits[1] - u + 1e-12)).x
        du *= min(1.0, 5.0 / max(np.abs(du).max(), 1e-12))  # [N] trust region
        trial = equilibrium(model, np.clip(u + du, *limits), x0=step.x)
        error, n_equilibria = float(np.linalg.norm(tip(trial.x) - target)), n_equilibria + 1
        if error < errors[-1]:
            u, step = np.clip(u + du, *limits), trial
            errors, damping = [*errors, error], max(damping / 10.0, 1e-6)
        elif np.abs(du).max() < 1e-6 or damping > 1.0:
            break
        else:
            damping = max(10.0 * damping, 1e-4)
    progress("finding tensions", 40, 40)
    return u, step.x, errors, n_equilibria


def loading_states(model: Any, u: Array, progress: Any) -> Array:
    """Return the equilibria (FRAMES, n_dofs) while the tensions rise smoothly to u."""
    states = [equilibrium(model, np.zeros_like(u)).x]
    for k in range(1, FRAMES):
        fraction = 0.5 - 0.5 * np.cos(np.pi * min(1.0, k / (0.8 * FRAMES)))
        states.append(equilibrium(model, fraction * u, x0=states[-1]).x)
        progress("loading", k + 1, FRAMES)
    return np.array(states)


def perform(run: ExperimentRun) -> Outcome:
    s = run.settings
    arm = line_arm(layers=int(s["layers"]), across=int(s["across"]))
    static_model = Quasistatic(arm)
    target = np.array([s["x"], s["y"], s["z"]], float)
    u, start, errors, n_equilibria = find_tensions(
        static_model,
        "laser",
        target,
        limits=arm.control_limits(),
        tolerance=float(s["tolerance"]),
        progress=run.progress,
    )

    model = ImplicitEuler(arm, dt=float(s["dt"]))
    path = run.simulate(
        model,
        np.zeros((int(s["steps"]), model.n_controls)),
        count=int(s["steps"]),
        dt=model.dt,
        x0=model.state(start),
    )
    tips = np.stack([arm.effector_position("laser", q) for q in path.path[:, : model.space.n_dofs]])
    rest = arm.effector_position("laser", equilibrium(static_model, np.zeros(4)).x)
    swing = np.linalg.norm(tips - rest, axis=1)

    times = model.dt * np.arange(len(tips))
    reached = errors[-1] <= float(s["tolerance"])
    return Outcome(
        metrics={
            "distance to the target": Metric(value=errors[-1], unit="m"),
            "equilibria solved": Metric(value=n_equilibria),
            "unknowns": Metric(value=model.space.n_dofs, paper=1575),
            "controls": Metric(value=model.n_controls, paper=4),
            **{
                f"tension {name}": Metric(value=float(t), unit="N")
                for name, t in zip(arm.actuators, u, strict=True)
            },
            "remaining oscillation amplitude": Metric(
                value=float(swing[-1] / swing[0]), unit="of the initial amplitude"
            ),
        },
        plots=[
            Plot(
                title="Convergence to the target",
                x="accepted step",
                y="distance [m]",
                log_y=True,
                kind="both",
                series={"laser to target": (np.arange(len(errors)), np.array(errors))},
            ),
            Plot(
                title="Motion after release",
                x="time [s]",
                y="position of the laser [m]",
                series={axis: (times, tips[:, k]) for k, axis in enumerate("xyz")},
            ),
        ],
        scene=robot_scene(
            arm,
            np.concatenate(
                [
                    loading_states(static_model, u, run.progress),
                    path.states[:, : model.space.n_dofs],
                ]
            ),
            dt=model.dt,
            title="arm-reach: four cables reach the target, then release",
            targets=target[None],
            ground=0.0,
        ),
        reached=reached,
        message="done"
        if reached
        else f"the laser stops {errors[-1]:.3g} m from the target ({target} m), which the four "
        f"cables cannot reach within {arm.control_limits()[1][0]:g} N. Move the target closer "
        "to the arm's arc.",
    )


def probe(settings: Mapping[str, Setting]) -> tuple:
    """Return the arm after a few steps under unequal tensions."""
    model = ImplicitEuler(
        line_arm(layers=int(settings["layers"]), across=int(settings["across"])),
        dt=float(settings["dt"]),
        design=("soft.E", "soft.nu", "soft.density", "stiff.E"),
    )
    x, u = model.initial_state(), np.array([3.0, 1.0, 0.5, 2.0])
    for k in range(3):
        x = model.step(x, u, None, k).x
    return model, x, u


EXPERIMENT = Experiment(
    name="arm-reach",
    paper="000",
    shows="four cables move a soft arm to a target by exact derivatives; then it is released",
    size="525 vertices, 4 cables",
    takes="40 s",
    perform=perform,
    probe=probe,
    settings={
        "x": 0.06,
        "y": 0.03,
        "z": 0.175,
        "tolerance": 1e-6,
        "dt": 0.01,
        "steps": 150,
        "layers": 20,
        "across": 4,
        "small_animation": False,
    },
    quick={"layers": 8, "across": 2, "steps": 20, "small_animation": True},
)
