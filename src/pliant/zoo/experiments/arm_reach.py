"""arm-reach: the soft arm of paper 000 is brought to a target by its four lines, using df/du, then
let go."""

from collections.abc import Mapping

import numpy as np
from scipy.optimize import lsq_linear

from pliant.core import Array
from pliant.dynamics import ImplicitEuler, Quasistatic, equilibrium
from pliant.report import Plot
from pliant.zoo.experiment import Experiment, Metric, Outcome, Run, Setting
from pliant.zoo.pictures import scene
from pliant.zoo.robots import line_arm

FRAMES = 30  # of the picture while the lines are pulled


def reach(
    model, effector: str, target: Array, *, limits: tuple[Array, Array], tolerance: float, progress
) -> tuple[Array, Array, list[float], int]:
    """Tensions [N] that bring an effector to a target [m]: Gauss-Newton on f (paper 000 eq. 7)
    within the motors' limits.

    Gives the tensions, the state they hold, the distance [m] after each accepted step, and how many
    equilibria were solved.
    """
    tip = lambda x: model.robot.place(effector, model.space.position(x))
    u = np.full(model.n_controls, 0.5)
    step = equilibrium(model, u)
    errors, damping, solved = [float(np.linalg.norm(tip(step.x) - target))], 1e-6, 1
    for k in range(40):
        progress("reaching", k, 40)
        if errors[-1] <= tolerance:
            break
        df = model.linearize(step).dense_controls()
        J = np.stack([tip(column) for column in df.T], axis=1)
        rows = np.vstack([J, damping * np.eye(u.size)])
        right = np.concatenate([target - tip(step.x), np.zeros(u.size)])
        du = lsq_linear(rows, right, (limits[0] - u - 1e-12, limits[1] - u + 1e-12)).x
        du *= min(
            1.0, 5.0 / max(np.abs(du).max(), 1e-12)
        )  # [N] as far as the linear model is trusted
        trial = equilibrium(model, np.clip(u + du, *limits), x0=step.x)
        error, solved = float(np.linalg.norm(tip(trial.x) - target)), solved + 1
        if error < errors[-1]:
            u, step = np.clip(u + du, *limits), trial
            errors, damping = [*errors, error], max(damping / 10.0, 1e-6)
        elif np.abs(du).max() < 1e-6 or damping > 1.0:
            break
        else:
            damping = max(10.0 * damping, 1e-4)
    progress("reaching", 40, 40)
    return u, step.x, errors, solved


def pulled(model, u: Array, progress) -> Array:
    """(FRAMES, n_dofs) the equilibria while the tensions rise to u, slowly at both ends: how the
    robot gets there."""
    states = [equilibrium(model, np.zeros_like(u)).x]
    for k in range(1, FRAMES):
        share = 0.5 - 0.5 * np.cos(np.pi * min(1.0, k / (0.8 * FRAMES)))
        states.append(equilibrium(model, share * u, x0=states[-1]).x)
        progress("pulling", k + 1, FRAMES)
    return np.array(states)


def perform(run: Run) -> Outcome:
    s = run.settings
    arm = line_arm(layers=int(s["layers"]), across=int(s["across"]))
    still = Quasistatic(arm)
    target = np.array([s["x"], s["y"], s["z"]], float)
    u, held, errors, solved = reach(
        still,
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
        x0=model.state(held),
    )
    tips = np.stack([arm.place("laser", q) for q in path.path[:, : model.space.n_dofs]])
    rest = arm.place("laser", equilibrium(still, np.zeros(4)).x)
    swing = np.linalg.norm(tips - rest, axis=1)

    times = model.dt * np.arange(len(tips))
    reached = errors[-1] <= float(s["tolerance"])
    return Outcome(
        metrics={
            "distance to target": Metric(value=errors[-1], unit="m"),
            "equilibria solved to reach it": Metric(value=solved),
            "unknowns": Metric(value=model.space.n_dofs, paper=1575),
            "controls": Metric(value=model.n_controls, paper=4),
            **{
                f"tension {name}": Metric(value=float(t), unit="N")
                for name, t in zip(arm.actuators, u, strict=True)
            },
            "swing left after release": Metric(
                value=float(swing[-1] / swing[0]), unit="of the start"
            ),
        },
        plots=[
            Plot(
                title="Reaching the target with df/du",
                x="accepted step",
                y="distance [m]",
                log_y=True,
                kind="both",
                series={"laser to target": (np.arange(len(errors)), np.array(errors))},
            ),
            Plot(
                title="Released",
                x="time [s]",
                y="laser [m]",
                series={axis: (times, tips[:, k]) for k, axis in enumerate("xyz")},
            ),
        ],
        scene=scene(
            arm,
            np.concatenate([pulled(still, u, run.progress), path.states[:, : model.space.n_dofs]]),
            dt=model.dt,
            title="arm-reach: four lines pull to the target, then let go",
            targets=target[None],
            ground=0.0,
        ),
        reached=reached,
        sentence="done"
        if reached
        else f"the laser stops {errors[-1]:.3g} m from the target ({target} m), which the four "
        f"lines cannot reach within {arm.control_limits()[1][0]:g} N; move the target closer "
        "to the arm's arc.",
    )


def probe(settings: Mapping[str, Setting]) -> tuple:
    """The released arm after a few steps under uneven tensions."""
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
    shows="the soft arm is brought to a target by its four lines, using df/du, then released and "
    "simulated",
    size="525 vertices, 4 lines",
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
        "small_film": False,
    },
    quick={"layers": 8, "across": 2, "steps": 20, "small_film": True},
)
